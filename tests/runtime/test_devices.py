"""Model and data on another device than the CPU.

Where there is no CUDA device, one is pretended: storages are marked as being on it, `device` says
so, `to` and factory functions with a `device` mark what they make, and an operation on marked and
unmarked tensors fails as it does on CUDA. All arithmetic takes place on the CPU.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from rich.console import Console
from support.comparing import equal
from support.zoo import Case, links_of, make_case
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from pagelink import Explanation, GraphStore, PaGELink, Settings
from pagelink.datasets.demo import make_demo
from pagelink.engine import FromFiles
from pagelink.errors import SettingsError
from pagelink.model.edited_logits import EditedLogits
from pagelink.model.predictor import LinkPredictor
from pagelink.models.feeds import placed
from pagelink.runtime.devices import to_device
from pagelink.store.writer import save_store

THERE = torch.device("meta")
"""What the pretended device is called: a device that every build of torch knows."""
_DEVICE = Tensor.device.__get__  # type: ignore[attr-defined]
# As on CUDA, a tensor may be indexed by one on the CPU.
_INDEXING = {"__getitem__", "__setitem__", "index_put", "index_put_"}
_SETTING = (Tensor.grad.__set__, Tensor.data.__set__)  # type: ignore[attr-defined]
_ASKING = {"_has_compatible_shallow_copy_type"}
_READING = {"item", "tolist", "__bool__", "__float__", "__int__", "equal", "nonzero"}


def is_there(tensor: Tensor) -> bool:
    return getattr(tensor.untyped_storage(), "is_there", False)


def put_there(tensor: Tensor) -> Tensor:
    tensor.untyped_storage().is_there = True  # type: ignore[attr-defined]
    return tensor


def tensors_in(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, dict):
        yield from tensors_in(list(value.values()))
    elif isinstance(value, list | tuple):
        for item in value:
            yield from tensors_in(item)


class PretendedDevice(TorchFunctionMode):
    """Makes believe that marked tensors are on a device of their own."""

    def __init__(self) -> None:
        super().__init__()
        self.copies: Counter[str] = Counter()
        """Copies to the device ("in") and from it ("out"); reading a number is one, too."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Iterable[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = dict(kwargs or {})
        name = getattr(func, "__name__", "")
        given = list(tensors_in([args, kwargs]))
        there = [is_there(tensor) for tensor in given]
        if func == _DEVICE:
            return THERE if there[0] else func(*args)
        if name in ("numpy", "__array__") and any(there):
            raise TypeError("can't convert a tensor on the device to numpy. Use Tensor.cpu().")
        if name in ("to", "cpu"):
            return self._move(func, name, args, kwargs, there[0])
        if kwargs.get("device") is not None:
            target = torch.device(kwargs["device"]) == THERE
            made = func(*args, **{**kwargs, "device": "cpu"})
            self.copies["in"] += target and name in ("tensor", "as_tensor")
            return put_there(made.clone()) if target else made
        if name in _READING and there[0]:
            self.copies["out"] += 1
        vectors = {is_there(t) for t in given if t.dim() > 0}
        by_index = name in _INDEXING and there[0]
        if len(vectors) == 2 and not by_index and name not in _ASKING and func not in _SETTING:
            raise RuntimeError(
                f"Expected all tensors to be on the same device, but {name} got some on the CPU: "
                f"{[(is_there(t), list(t.shape)) for t in given]}"
            )
        made = func(*args, **kwargs)
        if any(there):
            for tensor in tensors_in(made):
                put_there(tensor)
        return made

    def _move(
        self, func: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], there: bool
    ) -> Tensor:
        devices = [value for value in [*args[1:], *kwargs.values()] if isinstance(value, str)]
        devices += [v for v in [*args[1:], *kwargs.values()] if isinstance(v, torch.device)]
        target = there
        if name == "cpu":
            target = False
        elif devices:
            target = torch.device(devices[0]) == THERE
        elif len(args) > 1 and isinstance(args[1], Tensor):
            target = is_there(args[1])
        plain = [a for a in args if not isinstance(a, str | torch.device | bool | None)]
        plain_kwargs = {k: v for k, v in kwargs.items() if k not in ("device", "non_blocking")}
        moved: Tensor = func(*plain, **plain_kwargs) if len(plain) > 1 or plain_kwargs else args[0]
        if target == is_there(moved):
            return moved
        if target != there:  # another type is made where the tensor is
            self.copies["in" if target else "out"] += 1
        moved = moved.clone()
        return put_there(moved) if target else moved


def move_case(case: Case) -> None:
    """Mark all tensors of the model and the data."""
    for tensor in [*case.model.parameters(), *case.model.buffers()]:
        put_there(tensor)
    for store in case.data.stores:
        for tensor in tensors_in(dict(store.items())):
            put_there(tensor)


SETTINGS = {
    "default": Settings(epochs=6),
    "removed": Settings(epochs=4, remove_pruned=True, entropy=0.1, size=0.01),
    "noise": Settings(epochs=3, start="noise", path_schedule="all", num_hops=None),
    "start": Settings(epochs=0),
}
RUNS = [
    ("HeteroConv SAGE", "default"),
    ("HeteroConv GAT", "removed"),
    ("HGT", "noise"),
    ("RGCN", "default"),
    ("GCN with self-loops", "removed"),
    ("embedding by n_id", "default"),
    ("whole embedding table", "start"),
    ("edge_attr and edge_weight", "default"),
    ("DistMult per link", "default"),
    ("probability", "noise"),
    ("graph-wide norm", "start"),
]


def explain(case: Case, settings: Settings, link_type: Any = None) -> list[Explanation]:
    options = {"threshold": None} | case.options
    explainer = PaGELink(case.model, case.data, link_type or case.link_type, settings, **options)
    return list(explainer.explain_many(links_of(case)[1:5]))


def test_the_pretended_device_is_strict() -> None:
    a, b = put_there(torch.ones(3)), torch.ones(3)
    with PretendedDevice():
        assert a.device == THERE
        assert b.device == torch.device("cpu")
        assert (a + 1).device == a[1:].device == a.to(torch.float64).device == THERE
        assert torch.zeros(2, device=THERE).device == torch.zeros_like(a).device == THERE
        assert b.to(THERE).device == b.to(a).device == THERE
        assert a.cpu().device == a.to("cpu").device == b.device
        assert (a * torch.tensor(2.0)).device == THERE
        assert a[torch.tensor([0, 1])].device == THERE
        assert a.tolist() == [1, 1, 1]
        leaf = a.clone().requires_grad_()
        (gradient,) = torch.autograd.grad((leaf * 2).sum(), leaf)
        assert gradient.device == THERE
        for mixed in (lambda: a + b, lambda: torch.cat([a, b]), lambda: b[a.long()]):
            with pytest.raises(RuntimeError, match="same device"):
                mixed()
        with pytest.raises(TypeError, match="numpy"):
            a.numpy()
        with pytest.raises(TypeError, match="numpy"):
            np.asarray(a)


@pytest.mark.parametrize(("name", "variant"), RUNS)
def test_same_result_on_another_device(name: str, variant: str) -> None:
    expected = explain(make_case(name), SETTINGS[variant])
    assert any(answer.paths for answer in expected)
    case = make_case(name)
    move_case(case)
    with PretendedDevice():
        found = explain(case, SETTINGS[variant])
    for mine, other in zip(found, expected, strict=True):
        equal(mine, other)


@pytest.mark.parametrize("name", ["HeteroConv SAGE", "HGT", "edge_attr and edge_weight"])
@pytest.mark.parametrize("loss", ["mean", "released", "power"])
def test_one_copy_each_way_per_epoch(name: str, loss: Any) -> None:
    found = []
    for epochs in (4, 9):
        case = make_case(name)
        move_case(case)
        settings = Settings(
            epochs=epochs, path_loss=loss, patience=None, measure=False, entropy=0.1, num_paths=3
        )
        with PretendedDevice() as device:
            made = PaGELink(
                case.model, case.data, case.link_type, settings, threshold=None, **case.options
            )
            before = Counter(device.copies)
            answers = list(made.explain_many(links_of(case)[1:5]))
            assert {answer.epochs for answer in answers if answer.paths} == {epochs}
            found.append(device.copies - before)
    fewer, more = found
    assert {way: more[way] - fewer[way] for way in ("in", "out")} == {"in": 5, "out": 5}


@pytest.mark.parametrize("name", ["HeteroConv SAGE", "HGT", "edge_attr and edge_weight"])
def test_one_copy_each_way_per_batch_of_measurements(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    case, seen = make_case(name), []
    whole, one = EditedLogits.logits, EditedLogits._logits
    passes = Counter[str]()

    def one_pass(self: EditedLogits, *given: Any) -> Tensor:
        passes["all"] += 1
        return one(self, *given)

    def measured(self: EditedLogits, *given: Any) -> Any:
        count, before = passes["all"], Counter(device.copies)
        answers = whole(self, *given)
        seen.append((passes["all"] - count, device.copies - before))
        return answers

    move_case(case)
    with PretendedDevice() as device:
        made = PaGELink(
            case.model, case.data, case.link_type, Settings(epochs=2), threshold=None,
            **case.options,
        )  # fmt: skip
        # From here on: what is measured to make the explainer also tries ways that fail.
        monkeypatch.setattr(EditedLogits, "_logits", one_pass)
        monkeypatch.setattr(EditedLogits, "logits", measured)
        list(made.explain_many(links_of(case)[1:5]))
    assert sum(count for count, _ in seen) > 10
    assert all(copies["in"] <= count >= copies["out"] for count, copies in seen)


def test_packed_arrays_keep_type_and_shape() -> None:
    given = [
        np.arange(3, dtype=np.int32),
        np.array([[1.5, -2.5], [0.0, 7.0]], dtype=np.float32),
        np.empty((2, 0), dtype=np.int64),
        np.arange(10, dtype=np.int64)[::2],
        np.array([True, False, True]),
    ]
    with PretendedDevice() as device:
        found = to_device(given, THERE)
        assert device.copies == {"in": 1}
        assert all(each.device == THERE for each in found)
    for mine, array in zip(found, given, strict=True):
        expected = torch.from_numpy(array.copy())
        assert (mine.dtype, mine.shape) == (expected.dtype, expected.shape)
        assert torch.equal(mine, expected)


def test_a_checkpoint_is_explained_on_a_device(tmp_path: Path) -> None:
    checkpoint = make_demo(0, Console(quiet=True))
    opening = FromFiles(tmp_path, tmp_path, Settings(epochs=3), threshold=None)
    links = checkpoint.split.test.T[:3].tolist()
    expected = list(opening.of(checkpoint).explain_many(links))
    there = FromFiles(tmp_path, tmp_path, Settings(epochs=3), threshold=None, device=str(THERE))
    with PretendedDevice() as device:
        explainer = there.of(checkpoint)
        found = list(explainer.explain_many(links))
        assert device.copies["out"] > 3
        assert {edges.device for edges in checkpoint.data.edge_index_dict.values()} == {
            torch.device("cpu")
        }
    assert any(answer.paths for answer in expected)
    for mine, other in zip(found, expected, strict=True):
        equal(mine, other)


def test_devices_that_are_refused(tmp_path: Path) -> None:
    case = make_case("HeteroConv SAGE")
    with pytest.raises(SettingsError, match="one that torch can use here"):
        placed(case.model, case.data, "nowhere")
    store = save_store(case.data, tmp_path / "store")
    assert placed(case.model, store, "cpu") == (case.model, store)
    with PretendedDevice(), pytest.raises(SettingsError, match="A store is read on the CPU"):
        placed(case.model, GraphStore.open(tmp_path / "store"), str(THERE))


class Spy(nn.Module):
    """Notes where the tensors are that a model is called with."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner
        self.handed: dict[str, set[bool]] = {}

    def look(self, data: Any, edge_label_index: Tensor) -> None:
        tensors = {"edge_label_index": edge_label_index, **data.to_dict()}
        for name, tensor in _named(tensors):
            self.handed.setdefault(name, set()).add(is_there(tensor))


def _named(values: dict[Any, Any]) -> Iterator[tuple[str, Tensor]]:
    for key, value in values.items():
        if isinstance(value, dict):
            yield from _named(value)
        elif isinstance(value, Tensor):
            yield str(key), value


@pytest.mark.parametrize("name", ["edge_attr and edge_weight", "whole embedding table", "RGCN"])
def test_all_that_the_model_is_handed_is_on_its_device(name: str) -> None:
    case = make_case(name)
    if name == "edge_attr and edge_weight":
        case.data.time = torch.ones(3)
    move_case(case)
    spy = Spy(case.model)

    def forward(model: Any, data: Any, edge_label_index: Tensor) -> Tensor:
        spy.look(data, edge_label_index)
        if name == "RGCN":
            return model(data.x, data.edge_index, data.edge_type, edge_label_index)
        if name == "whole embedding table":
            ids = {t: data[t].n_id for t in data.node_types}
            return model(ids, data.edge_index_dict, edge_label_index)
        return model(data, edge_label_index)

    case.options = {"forward": forward}
    with PretendedDevice():
        assert any(answer.paths for answer in explain(case, Settings(epochs=2)))
    expected = {"edge_label_index", "edge_label_type", "edge_index", "n_id"}
    assert expected <= spy.handed.keys()
    assert {name: where for name, where in spy.handed.items() if where != {True}} == {}


def test_a_tensor_left_behind_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the move to the device of the data, the run under the pretended device fails."""
    here = property(lambda self: torch.device("cpu"), lambda self, value: None)
    monkeypatch.setattr(LinkPredictor, "device", here, raising=False)
    case = make_case("HeteroConv SAGE")
    move_case(case)
    with PretendedDevice(), pytest.raises(Exception, match="same device"):
        explain(case, Settings(epochs=2))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")
@pytest.mark.parametrize("name", ["HeteroConv SAGE", "RGCN"])
def test_same_result_on_cuda(name: str) -> None:
    settings = Settings(epochs=5, num_paths=5)
    here, there = make_case(name), make_case(name)
    there.model, there.data = there.model.cuda(), there.data.cuda()
    expected, found = explain(here, settings), explain(there, settings)
    assert any(answer.paths for answer in expected)
    for mine, other in zip(found, expected, strict=True):
        assert (mine.src, mine.dst, mine.reason) == (other.src, other.dst, other.reason)
        assert mine.logit == pytest.approx(other.logit, abs=1e-4)
        for edge_type in other.edge_mask:
            assert mine.edge_mask[edge_type] == pytest.approx(other.edge_mask[edge_type], abs=1e-4)
        scores = [path.score for path in other.paths]
        assert [path.score for path in mine.paths] == pytest.approx(scores, abs=1e-4)
