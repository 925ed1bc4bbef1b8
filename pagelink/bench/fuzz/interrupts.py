"""Ctrl-C at random moments of all calls that run the user's model.

After each interruption the model, the data and the global state must be what they were before, bit
for bit. A moment is a time, by a real signal; or one of the events of the interpreter at which it
looks for signals (a Python function starts, a C function has returned), so that short moments such
as leaving a context are met as often as long ones. Every fourth interruption is followed by another
one at once, as by a user who presses twice.
"""

from __future__ import annotations

import random
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch_geometric.data import HeteroData
from torch_geometric.explain import ExplainerConfig, ModelConfig

from pagelink.bench.fuzz.faults import Fault
from pagelink.explain.explainer import PaGELink
from pagelink.explain.pyg import PaGELinkExplainer
from pagelink.models.architectures import make_model
from pagelink.models.link_model import LinkModel
from pagelink.rivals.registry import make_rival
from pagelink.settings import Settings

LINK_TYPE = ("user", "likes", "item")
SIZES = {"user": 9, "item": 8, "tag": 5}
DIM = 4
LINKS = [(6, 7), (1, 2), (4, 4)]
QUICK = Settings(epochs=3, num_paths=2)
MODELS = ("rgcn", "sage", "hgt")
RIVALS: dict[str, dict[str, Any]] = {
    "gradient": {},
    "pgexp": {"epochs": 1, "hidden": 4, "num_links": 8},
    "pgexp-released": {"epochs": 1, "hidden": 4, "num_links": 8},
    "subgraphx": {"rollouts": 2, "samples": 2},
    "graphmask": {"epochs": 1, "hidden": 4, "num_links": 8},
    "power-link": {"epochs": 2, "hidden": 4},
}
COUNTED, TWICE, CHECKED_AGAIN = 0.5, 0.25, 0.05
"""Shares of the cases."""
EVENTS = ("call", "c_return")
"""The events of a profile function where the interpreter looks for signals."""


class WithFeatures(nn.Module):
    """A model on node features, with normalisation, dropout and a hook of the user's own."""

    def __init__(self, inner: LinkModel) -> None:
        super().__init__()
        self.inner = inner
        self.norm, self.dropout = nn.BatchNorm1d(DIM), nn.Dropout(0.5)
        self.inner.register_forward_hook(_no_change)

    def forward(self, x_dict: Any, edge_index_dict: Any, edge_label_index: Tensor) -> Tensor:
        """Return one logit per link."""
        x_dict = {kind: self.dropout(self.norm(x)) for kind, x in x_dict.items()}
        logits: Tensor = self.inner(x_dict, edge_index_dict, edge_label_index)
        return logits


def _no_change(module: nn.Module, args: Any, output: Any) -> None:
    pass


@dataclass(frozen=True)
class Subject:
    """A model on a graph, and explainers of it."""

    model: nn.Module
    data: HeteroData
    explainer: PaGELink
    rivals: Mapping[str, PaGELink]
    expected: tuple[Any, ...]
    """The paths of the first link."""


Call = Callable[[Subject, int], None]
"""Work on a subject; the number is a seed."""


def _graph() -> HeteroData:
    generator = torch.Generator().manual_seed(0)
    data = HeteroData()
    for node_type, size in SIZES.items():
        data[node_type].x = torch.randn(size, DIM, generator=generator)
    data["user"].x.requires_grad_()
    for src, name, dst, count in (
        ("user", "buys", "item", 16), ("item", "has", "tag", 12),
    ):  # fmt: skip
        ends = (torch.randint(SIZES[kind], (count,), generator=generator) for kind in (src, dst))
        edges = torch.stack(list(ends))
        data[src, name, dst].edge_index = edges
        data[dst, f"rev_{name}", src].edge_index = edges.flip(0)
    return data


@cache
def _subject(name: str) -> Subject:
    data = _graph()
    inner = make_model(name, data, LINK_TYPE, hidden=DIM, seed=0)
    model = WithFeatures(inner.eval())  # a mixture of modes, as of a model that is fine-tuned
    next(inner.parameters()).requires_grad_(False)
    given = (model, data, LINK_TYPE, QUICK)
    explainer = PaGELink(*given, threshold=None)
    rivals = {
        name: make_rival(name, *given, options=options, threshold=None)
        for name, options in RIVALS.items()
    }
    return Subject(model, data, explainer, rivals, explainer.explain(*LINKS[0]).paths)


def _make(subject: Subject, seed: int) -> None:
    PaGELink(subject.model, subject.data, LINK_TYPE, seed=seed)


def _explain(subject: Subject, seed: int) -> None:
    subject.explainer.explain(*LINKS[0], rank=True, rank_sample=5)


def _explain_many(subject: Subject, seed: int) -> None:
    for _ in subject.explainer.explain_many(LINKS, batch_size=2, negatives=True):
        pass


def _counterfactual(subject: Subject, seed: int) -> None:
    subject.explainer.counterfactual(*LINKS[1], top_k=6, verified=20)


def _scores(subject: Subject, seed: int) -> None:
    explainer = subject.explainer
    items = np.arange(SIZES["item"]) + explainer.graph.flat_index("item", 0)
    explainer.target_scores(explainer.link(*LINKS[2])).logits(items, [()])


def _rival(name: str) -> Call:
    def explain(subject: Subject, seed: int) -> None:
        subject.rivals[name].replace(seed=seed).explain(*LINKS[0])

    return explain


def _drop_in(subject: Subject, seed: int) -> None:
    algorithm = PaGELinkExplainer(LINK_TYPE, QUICK)
    model_config = ModelConfig("regression", "edge", return_type="raw")
    algorithm.connect(ExplainerConfig("model", edge_mask_type="object"), model_config)
    links = torch.tensor(LINKS[:1]).t()
    # By itself: `torch_geometric.explain.Explainer` puts all modules into the mode of the first.
    algorithm(
        subject.model, subject.data.x_dict, subject.data.edge_index_dict,
        target=torch.zeros(1), edge_label_index=links,
    )  # fmt: skip


CALLS: dict[str, Call] = {
    "PaGELink": _make,
    "explain": _explain,
    "explain_many": _explain_many,
    "counterfactual": _counterfactual,
    "target_scores": _scores,
    "PaGELinkExplainer": _drop_in,
    **{name: _rival(name) for name in RIVALS},
}


def random_interrupts(seed: int, cases: range) -> Iterator[Fault]:
    """Interrupt calls at random moments; to be run by the main thread.

    Args:
        seed: with the number of a case it gives the case; a moment given by time varies.
        cases: the numbers of the cases.
    """
    for case in cases:
        draw = random.Random(f"{seed} {case}")
        model, call = draw.choice(MODELS), draw.choice(list(CALLS))
        mode = draw.choice([torch.enable_grad, torch.no_grad, torch.inference_mode])
        subject = _subject(model)
        work = partial(CALLS[call], subject, case)
        moment = _moment(model, call, draw)
        with mode():
            before = _state(subject)
            wrong = _interrupted(work, moment)
            after = _state(subject)
            if draw.random() < CHECKED_AGAIN and before == after:
                paths = subject.explainer.explain(*LINKS[0]).paths
                wrong += [] if paths == subject.expected else ["other paths afterwards"]
        names = sorted(before.keys() | after.keys())
        wrong += [f"{name} changed" for name in names if before.get(name) != after.get(name)]
        if wrong:
            where = f"{call} of {model} in {mode.__name__}, {moment}"
            yield Fault("interrupts", case, f"{where}: {', '.join(wrong[:5])}")
            _subject.cache_clear()


@dataclass(frozen=True)
class Moment:
    """When to interrupt a call."""

    event: int | None
    """The number of the event of the interpreter; None: at a time."""
    seconds: float
    """The time, from the start of the call on."""
    again: float | None
    """Seconds after the first interruption; None: there is one only."""


@cache
def _length(model: str, call: str) -> tuple[int, float]:
    """Events and seconds of a whole call."""
    subject, events = _subject(model), 0

    def count(frame: Any, event: str, argument: Any) -> None:
        nonlocal events
        events += event in EVENTS

    sys.setprofile(count)
    CALLS[call](subject, 1 << 30)  # a seed that no case has
    sys.setprofile(None)
    started = time.perf_counter()
    CALLS[call](subject, (1 << 30) + 1)
    seconds = time.perf_counter() - started
    return events, seconds


def _moment(model: str, call: str, draw: random.Random) -> Moment:
    events, seconds = _length(model, call)
    event = draw.randint(1, events) if draw.random() < COUNTED else None
    again = draw.uniform(1e-6, 1e-3) if draw.random() < TWICE else None
    return Moment(event, draw.uniform(1e-6, seconds), again)


def _interrupted(work: Callable[[], None], moment: Moment) -> list[str]:
    """Do some work and interrupt it; say what it raised other than the interruption."""
    working, again = True, moment.again

    def interrupt(*signal_and_frame: Any) -> None:
        nonlocal again
        if working:
            seconds, again = again, None  # before the signal can come, even here
            signal.setitimer(signal.ITIMER_REAL, seconds or 0)
            raise KeyboardInterrupt

    events = 0

    def look(frame: Any, event: str, argument: Any) -> None:
        nonlocal events
        if event in EVENTS:
            events += 1
            if events == moment.event:
                interrupt()

    raised = []
    previous = signal.signal(signal.SIGALRM, interrupt)
    # An interruption of a destructor goes to this hook. It must be one that cannot be interrupted.
    reported: list[Any] = []
    hook, sys.unraisablehook = sys.unraisablehook, reported.append
    try:
        try:
            if moment.event is None:
                signal.setitimer(signal.ITIMER_REAL, moment.seconds)
            else:
                sys.setprofile(look)
            work()
        finally:
            working = False  # nothing can come between: no function is called for that
    except KeyboardInterrupt:
        pass
    except SystemError as error:  # what numba makes of an interruption by a profile function
        raised += [] if "with an exception set" in str(error) else [repr(error)]
    except Exception as error:
        raised.append(repr(error))
    sys.setprofile(None)
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, previous)
    sys.unraisablehook = hook
    raised += [repr(each.exc_value) for each in reported if each.exc_type is not KeyboardInterrupt]
    return raised


def _state(subject: Subject) -> dict[str, Any]:
    """Everything that must be as before: of the model, of the data, and of the process."""
    state: dict[str, Any] = {
        "the grad mode": torch.is_grad_enabled(),
        "the inference mode": torch.is_inference_mode_enabled(),
        "the number of threads": torch.get_num_threads(),
        "the default dtype": torch.get_default_dtype(),
        "autocast": torch.is_autocast_enabled("cpu"),
        "hooks on saved tensors": torch._C._autograd._top_saved_tensors_default_hooks(True),
        "torch's random state": torch.get_rng_state().numpy().tobytes(),
        "NumPy's random state": np.random.get_state()[1].tobytes(),  # type: ignore[index]
        "Python's random state": random.getstate(),
        "the handler of SIGINT": signal.getsignal(signal.SIGINT),
    }
    for name, module in subject.model.named_modules():
        for key, value in vars(module).items():
            content = {k: id(v) for k, v in value.items()} if isinstance(value, dict) else id(value)
            state[f"{name}.{key}"] = value if isinstance(value, bool) else content
        state[f"the attributes of {name}"] = sorted(vars(module))
    tensors = [*subject.model.named_parameters(), *subject.model.named_buffers()]
    for store in subject.data.stores:
        tensors += [(f"{store._key} {key}", value) for key, value in store.items()]
    for name, tensor in tensors:
        kept = id(tensor), tensor.requires_grad, tensor.is_leaf and tensor.grad is None
        state[name] = *kept, tensor.detach().numpy().tobytes()
    return state
