"""The user's model and tensors come back as they were, whatever happens in between."""

from __future__ import annotations

import copy
import sys
import threading
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
from support.zoo import DIM, LINK_TYPE, Hetero, dot, make_graph, make_homogeneous
from torch import Tensor, nn
from torch_geometric.data import Data, HeteroData
from torch_geometric.nn import RGCNConv, SAGEConv

from pagelink import PaGELink
from pagelink.bench.fuzz.oracles.untouched import same, snapshot
from pagelink.errors import ModelError

LEAVING = {"__exit__", "__enter__", "remove", "close", "_exit_wrapper", "set_grad_enabled"}
PAIR, OTHER = (3, 26), (7, 29)


def subject() -> tuple[nn.Module, HeteroData, PaGELink]:
    data = make_graph()
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = Hetero(data, lambda: SAGEConv((DIM, DIM), DIM)).train()
    return model, data, PaGELink(model, data, LINK_TYPE, threshold=None)


def interrupted(work: Callable[[], Any], number: int) -> int:
    """Do some work, with Ctrl-C as the n-th function that leaves a context starts.

    Returns:
        The number of such functions that started.
    """
    started = 0

    def look(frame: Any, event: str, argument: Any) -> None:
        nonlocal started
        code = frame.f_code
        # What is raised while an object is deleted is lost.
        deleting = code.co_filename == weakref.__file__
        if event == "call" and code.co_name in LEAVING and not deleting:
            started += 1
            if started == number:
                raise KeyboardInterrupt

    sys.setprofile(look)
    try:
        work()
    except KeyboardInterrupt:
        pass
    finally:
        sys.setprofile(None)
    return started


def test_ctrl_c_while_a_context_is_left_changes_nothing() -> None:
    model, data, explainer = subject()
    before = snapshot(model, data)
    expected = explainer.explain(*PAIR)
    assert expected.paths
    total = interrupted(lambda: explainer.explain(*PAIR), -1)
    assert total > 30
    for number in range(1, total, max(total // 15, 1)):
        interrupted(lambda: explainer.explain(*PAIR), number)
        assert torch.is_grad_enabled()
        assert same(before, snapshot(model, data))
    assert explainer.explain(*PAIR).paths == expected.paths


def trained(model: nn.Module, data: HeteroData) -> list[Tensor]:
    """Take a step of training; return the parameters."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    optimizer.zero_grad()
    model(data.x_dict, data.edge_index_dict, torch.tensor([[0, 1, 2], [3, 4, 5]])).sum().backward()
    optimizer.step()
    return [parameter.detach().clone() for parameter in model.parameters()]


def test_training_goes_on_after_ctrl_c() -> None:
    model, data, explainer = subject()
    twin = copy.deepcopy(model)  # is never explained
    weights: list[Tensor] = []
    for number in range(8, 16):
        interrupted(lambda: explainer.explain(*PAIR), number)
        before, weights = weights, trained(model, data)
        assert same(weights, trained(twin, data))
        assert not same(before, weights)


def opened(explainer: PaGELink) -> Any:
    """A context that runs the model, opened; its `__exit__` is never called."""
    batch = explainer.extractor.extract(*(torch.tensor([i]).numpy() for i in (3, 80 + 26, -1)))
    relation = torch.tensor([0]).numpy()
    inputs = explainer.predictor.inputs(batch, batch.visible, [0], relation)
    context = explainer.predictor.weighted(explainer.predictor.record(inputs)[1])
    context.__enter__()
    return context


def test_what_was_left_behind_is_put_right_by_the_next_explainer() -> None:
    model, data, explainer = subject()
    before = snapshot(model, data)
    left = opened(explainer)
    assert not same(before, snapshot(model, data))
    assert PaGELink(model, data, LINK_TYPE, threshold=None).explain(*PAIR).paths
    assert same(before, snapshot(model, data))
    left.close()
    assert same(before, snapshot(model, data))


def test_what_a_thread_left_behind_is_put_right() -> None:
    model, data, explainer = subject()
    before = snapshot(model, data)
    left: list[Any] = []
    thread = threading.Thread(target=lambda: left.append(opened(explainer)))
    thread.start()
    thread.join()
    assert not same(before, snapshot(model, data))
    assert explainer.explain(*PAIR).paths
    assert same(before, snapshot(model, data))


def test_another_thread_waits_until_the_model_is_back() -> None:
    model, data, explainer = subject()
    before = snapshot(model, data)
    found: list[Any] = []
    context = opened(explainer)
    thread = threading.Thread(target=lambda: found.append(explainer.explain(*PAIR)))
    thread.start()
    thread.join(0.2)
    assert not found
    context.close()
    thread.join()
    assert found[0].paths
    assert same(before, snapshot(model, data))


class Editing(Hetero):
    """Changes something in place before it does its work."""

    def __init__(self, data: HeteroData, edit: Callable[..., Any]) -> None:
        super().__init__(data, lambda: SAGEConv((DIM, DIM), DIM))
        self.edit = edit

    def run(self, data: Any, links: Tensor) -> Tensor:
        self.edit(data, links)
        return super().forward(data.x_dict, data.edge_index_dict, links)


BUYS = ("user", "buys", "item")
EDITS: dict[str, tuple[Callable[..., Any], str]] = {
    "features": (lambda data, links: data["user"].x.mul_(0.5), "x of user"),
    "a view of features": (lambda data, links: data["tag"].x[0].zero_(), "x of tag"),
    "edges": (lambda data, links: data[BUYS].edge_index.clamp_(max=50), "edge_index"),
    "edge attributes": (lambda data, links: data[BUYS].edge_attr.add_(1), "edge_attr"),
    "links": (lambda data, links: links.clamp_(max=40), "edge_label_index"),
    "labels": (lambda data, links: data[BUYS].edge_label.zero_(), "edge_label"),
    "a value of the graph": (lambda data, links: data.scale.mul_(2), "scale"),
}


def by_run(model: nn.Module, data: Any, links: Tensor) -> Tensor:
    score: Tensor = model.run(data, links)  # type: ignore[operator]
    return score


@pytest.mark.parametrize("name", EDITS)
def test_a_model_that_edits_its_input_in_place_is_refused(name: str) -> None:
    edit, words = EDITS[name]
    data = make_graph()
    data[BUYS].edge_attr = torch.rand(data[BUYS].num_edges, 2)
    data[BUYS].edge_label = torch.ones(7)
    data.scale = torch.ones(3)
    model = Editing(data, edit)
    before = snapshot(model, data)
    with pytest.raises(ModelError, match=f"changes its input in place: {words}"):
        PaGELink(model, data, LINK_TYPE, threshold=None, forward=by_run)
    assert same(before, snapshot(model, data))


def test_a_homogeneous_model_that_edits_its_features_is_refused() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = RGCNConv(DIM, DIM, 7)

        def forward(self, x: Tensor, edge_index: Any, edge_type: Tensor, links: Tensor) -> Tensor:
            z = self.conv(x.relu_(), edge_index, edge_type)
            return (z[links[0]] * z[links[1]]).sum(-1)

    data: Data = make_homogeneous()
    features = data.x.clone()
    with pytest.raises(ModelError, match=r"changes its input in place: x\."):
        PaGELink(Model(), data, "0", threshold=None)
    assert torch.equal(data.x, features)


def test_a_model_that_edits_its_input_for_some_links_fails_on_these() -> None:
    data = make_graph()

    def edit(data: Any, links: Tensor) -> None:
        ends = [data[t].n_id[end] for t, end in zip(("user", "item"), links, strict=True)]
        if list(PAIR) in torch.stack(ends, 1).tolist():
            data["user"].x.mul_(0.5)

    model = Editing(data, edit)
    before = snapshot(model, data)
    explainer = PaGELink(model, data, LINK_TYPE, threshold=None, forward=by_run)
    bad, good = explainer.explain_many([PAIR, OTHER])
    assert (bad.reason, good.reason) == ("invalid", None)
    assert "changes its input in place: x of user" in str(bad.message)
    assert same(before, snapshot(model, data))


class Buffered(nn.Module):
    """Its features are a buffer and a table of its own, which `edit` may change."""

    def __init__(self, data: HeteroData, edit: Callable[[Any], Any], **table: Any) -> None:
        super().__init__()
        self.register_buffer("scale", torch.full((2, DIM), torch.nan))
        self.tables = nn.ModuleDict({
            t: nn.Embedding(data[t].num_nodes, DIM, **table) for t in data.node_types
        })  # fmt: skip
        self.inner = Hetero(data, lambda: SAGEConv((DIM, DIM), DIM))
        self.edit = edit

    def forward(self, x_dict: Any, edge_index_dict: Any, links: Tensor) -> Tensor:
        self.edit(self)
        x_dict = {t: self.tables[t](ids) for t, ids in x_dict.items()}
        score: Tensor = self.inner(x_dict, edge_index_dict, links)
        return score


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (lambda model: model.scale[0].zero_(), "scale"),
        (lambda model: model.tables["user"].weight.data.mul_(0.9), "tables.user.weight"),
    ],
)
def test_a_model_that_edits_its_own_tensors_is_refused(edit: Any, words: str) -> None:
    data = make_graph(features=False)
    model = Buffered(data, edit)
    before = [tensor.clone() for tensor in model.state_dict().values()]
    with pytest.raises(ModelError, match=f"changes its own {words} in place"):
        PaGELink(model, data, LINK_TYPE, threshold=None)
    for old, new in zip(before, model.state_dict().values(), strict=True):
        assert torch.equal(old.nan_to_num(7), new.nan_to_num(7))


def test_tables_with_a_largest_norm_are_refused_only_if_rows_are_beyond_it() -> None:
    data = make_graph(features=False)
    model = Buffered(data, lambda model: None, max_norm=1.0)
    table = model.tables["user"].weight
    before = table.detach().clone()
    with pytest.raises(ModelError, match="max_norm=None"):
        PaGELink(model, data, LINK_TYPE, threshold=None)
    assert torch.equal(before, table)
    with torch.no_grad():
        for weights in model.tables.parameters():
            weights.mul_(0.9 / weights.norm(dim=1, keepdim=True))
    assert PaGELink(model, data, LINK_TYPE, threshold=None).receptive_field.num_hops == 2


def test_features_that_are_learned_get_no_gradient() -> None:
    model, data, _ = subject()
    data["user"].x.requires_grad_()
    explanation = PaGELink(model, data, LINK_TYPE, threshold=None).explain(*PAIR)
    assert explanation.paths
    assert data["user"].x.requires_grad
    assert data["user"].x.grad is None
    assert dot({"user": data["user"].x, "item": data["item"].x}, torch.zeros(2, 1).long()).grad_fn
