"""A deadline holds whatever is being done, and an explanation that was cut says so.

Deadlines are counted in CPU time here, so that a busy machine changes nothing, on complete graphs
and with a model that takes its time: what has to be cut is the same everywhere.
"""

from __future__ import annotations

import dataclasses
import itertools
import re
import time
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch_geometric.data import HeteroData
from torch_geometric.nn import HeteroConv, SAGEConv

from pagelink import PaGELink, Settings
from pagelink.explain.result import Explanation
from pagelink.rivals.registry import make_rival
from pagelink.runtime import timer

LINK_TYPE = ("user", "likes", "item")
PASS = 0.03
"""CPU seconds of a pass of the slow model."""
SLACK = 0.05
"""CPU seconds for naming paths and the like."""


@pytest.fixture(autouse=True)
def _cpu_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "perf_counter", time.process_time)


class Slow(nn.Module):
    """Two layers of SAGE that take `seconds` of CPU time in each pass.

    They are centred over the graph, so that each edited graph has a pass of its own.
    """

    def __init__(self, data: HeteroData, layers: int = 2) -> None:
        super().__init__()
        width = data["user"].x.shape[1]
        with torch.random.fork_rng():
            torch.manual_seed(0)
            self.layers = nn.ModuleList(
                HeteroConv({t: SAGEConv(width, width) for t in data.edge_types})
                for _ in range(layers)
            )
        self.seconds = 0.0
        self.passes = 0

    def forward(self, x: Any, edges: Any, links: Tensor) -> Tensor:
        started = time.process_time()
        for layer in self.layers:
            new = layer(x, edges)
            x = {kind: torch.tanh(values - values.mean(0)) for kind, values in new.items()}
        while time.process_time() - started < self.seconds:
            pass
        self.passes += 1
        return (x["user"][links[0]] * x[links_to(x)][links[1]]).sum(-1)


def links_to(x: Any) -> str:
    return "item" if "item" in x else "user"


def complete(size: int) -> HeteroData:
    """Every user buys every item."""
    data = HeteroData()
    generator = torch.Generator().manual_seed(0)
    for kind in ("user", "item"):
        data[kind].x = torch.randn(size, 4, generator=generator)
    ends = torch.cartesian_prod(torch.arange(size), torch.arange(size)).T.contiguous()
    data["user", "buys", "item"].edge_index = ends
    data["item", "rev_buys", "user"].edge_index = ends.flip(0).contiguous()
    return data


@pytest.fixture(scope="module")
def explainer() -> PaGELink:
    data = complete(150)
    made = PaGELink(Slow(data), data, LINK_TYPE, threshold=None)
    warm = Settings(epochs=1, candidates=1, num_paths=1)
    made.replace(warm).explain(0, 0, rank=True)  # kernels are compiled
    return made


def timed(work: Any) -> tuple[Any, float]:
    started = time.process_time()
    return work(), time.process_time() - started


def hurried(explainer: PaGELink, deadline: float, **settings: Any) -> PaGELink:
    other = explainer.replace(Settings(deadline=deadline, **settings))
    other.predictor.model.seconds = PASS
    other.predictor.model.passes = 0
    return other


@pytest.fixture(autouse=True)
def _quick_again(explainer: PaGELink) -> Any:
    yield
    explainer.predictor.model.seconds = 0.0


def check_cut(answer: Explanation, deadline: float, doing: str) -> None:
    assert answer.reason == "out_of_time"
    # Each step of learning searches paths, so that the time may be over there.
    either = f"({doing}|paths were searched)" if doing == "the mask was learned" else doing
    assert re.search(
        f"The deadline of {deadline:g} seconds was over while {either}", answer.message
    )
    # On a busy machine the time may be over before the first path was found; that is said, too.
    none = not answer.paths and "no path was found by then" in answer.message
    assert none or "This explanation is not complete." in str(answer)
    if doing != "an end of the link was ranked":  # then what is measured was measured before
        assert answer.evidence is None
        assert "does not rely on paths" not in str(answer)


STAGES = [
    # What is being done when the time is over, the deadline, settings, what is requested.
    ("the mask was learned", 0.01, {}, {}),
    ("the mask was learned", 0.4, {}, {}),
    ("paths were searched", 0.5, {"max_length": 6, "num_paths": 40, "paths_per_epoch": 10**6}, {}),
    ("it was measured what paths are worth", 0.5, {"epochs": 1}, {}),  # each candidate
    ("it was measured what paths are worth", 0.7, {"epochs": 0, "candidates": 2}, {}),  # sets
    ("it was measured what paths are worth", 0.3,
     {"epochs": 0, "candidates": 1, "num_paths": 1}, {}),  # what the chosen set is worth
    ("it was explained with further seeds", 0.5, {"measure": False, "epochs": 6}, {"runs": 3}),
]  # fmt: skip


@pytest.mark.parametrize(("doing", "deadline", "settings", "asked"), STAGES)
def test_the_deadline_holds_in_every_stage(
    explainer: PaGELink, doing: str, deadline: float, settings: Any, asked: Any
) -> None:
    late = hurried(explainer, deadline, **settings)
    (answer,), took = timed(lambda: list(late.explain_many([(3, 5)], **asked)))
    assert took <= 1.5 * deadline + PASS + SLACK
    check_cut(answer, deadline, doing)
    assert answer.logit is not None
    assert answer.paths or doing == "paths were searched"
    assert answer.rank is None


def test_the_deadline_holds_while_an_end_is_ranked(explainer: PaGELink) -> None:
    settings = {"measure": False, "epochs": 6}
    free = hurried(explainer, 60.0, **settings)
    _, unranked = timed(lambda: list(free.explain_many([(3, 5)])))
    _, ranked = timed(lambda: list(free.explain_many([(3, 5)], rank=True)))
    deadline = (unranked + ranked) / 2
    late = hurried(explainer, deadline, **settings)
    (answer,), took = timed(lambda: list(late.explain_many([(3, 5)], rank=True)))
    assert took <= 1.5 * deadline + PASS + SLACK
    check_cut(answer, deadline, "an end of the link was ranked")
    assert answer.paths
    assert answer.rank is None


def test_what_was_measured_by_then_is_there(explainer: PaGELink) -> None:
    late = hurried(explainer, 0.6, epochs=0)
    answer = late.explain(3, 5)
    check_cut(answer, 0.6, "it was measured what paths are worth")
    known = [path.influence for path in answer.paths if path.influence is not None]
    assert known == sorted(known, reverse=True)
    assert known
    assert all(path.marginal is path.is_evidence is None for path in answer.paths)
    assert "what they are worth together was not measured" in str(answer)
    late.predictor.model.seconds = 0.0
    whole = explainer.replace(Settings(epochs=0)).explain(3, 5)
    assert whole.evidence is not None
    same = {path: path.influence for path in whole.paths}
    shared = [(path.influence, same[path]) for path in answer.paths if path in same]
    assert all(mine == pytest.approx(theirs, abs=1e-5) for mine, theirs in shared)


def test_predicted_negatives(explainer: PaGELink) -> None:
    data = complete(150)
    strict = PaGELink(Slow(data), data, LINK_TYPE, threshold=1e6)
    late = hurried(strict, 0.6)
    (answer,), took = timed(lambda: list(late.explain_many([(3, 5)], negatives=True)))
    assert took <= 1.5 * 0.6 + PASS + SLACK
    assert answer.reason == "out_of_time"
    assert "does not predict this link" in answer.message
    assert "which paths speak for the link" in answer.message
    assert answer.is_negative
    assert "that rank best" not in str(answer)
    (negative,) = hurried(strict, 60.0).explain_many([(3, 5)])
    assert negative.reason == "predicted_negative"


@pytest.mark.parametrize(("deadline", "at"), [(0.0, "source"), (0.3, "source"), (0.6, "paths")])
def test_a_counterfactual(explainer: PaGELink, deadline: float, at: Any) -> None:
    late = hurried(explainer, deadline)
    found, took = timed(lambda: late.counterfactual(3, 5, top_k=149, at=at, budget=3))
    assert took <= 1.5 * deadline + 2 * PASS + SLACK
    assert found.out_of_time
    assert found.reason == "out_of_time"
    assert not found.smallest
    assert str(found).startswith(
        "The deadline passed before facts were found whose removal moves it out"
    )
    assert found.to_dict()["probability"] is not None


def test_nothing_is_known_of_a_link_that_is_not_even_extracted(
    explainer: PaGELink, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timer, "LAST_SECONDS", -1.0)  # the end is over before anything begins
    late = hurried(explainer, 0.0)
    links = [(3, 5), (0, 999), (4, 5)]
    for batch_size in (1, 3):
        answers = list(late.explain_many(links, batch_size=batch_size))
        assert [answer.reason for answer in answers] == ["out_of_time", "invalid", "out_of_time"]
        assert answers[0].logit is None
        assert "while the computation graph was extracted" in str(answers[0])
    assert late.explain(3, 5).reason == "out_of_time"
    found = late.counterfactual(3, 5, top_k=1)
    assert (found.reason, found.logit, found.rank) == ("out_of_time", None, None)
    assert str(found)
    assert late.predictor.model.passes == 0
    # What was given up leaves nothing behind.
    monkeypatch.undo()
    assert explainer.replace(Settings(epochs=1, measure=False)).explain(3, 5).reason is None


@pytest.mark.parametrize("name", ["gradient", "integrated-gradient", "subgraphx", "paper"])
def test_rivals_keep_it_too(name: str) -> None:
    data = complete(40)
    model = Slow(data)
    rival = make_rival(name, model, data, LINK_TYPE, Settings(deadline=0.3), 0, threshold=None)
    model.seconds = PASS
    for pause, links in ((PASS, [(3, 5)]), (PASS, [(3, 5), (4, 6)])):
        model.seconds = pause
        answers, took = timed(lambda links=links: list(rival.explain_many(links)))
        assert took <= len(links) * (1.5 * 0.3 + PASS + SLACK)
        assert {answer.reason for answer in answers} == {"out_of_time"}
        assert all(answer.paths for answer in answers)


def trap() -> HeteroData:
    """A clique behind a door on the only short way, where a search for long paths gets lost.

    Users 0 and 1 are joined by user 2, the door, alone. Users 50 and up are a ring of their own.
    """
    clique, ring = range(2, 32), range(50, 62)
    pairs = [(0, 2), (2, 1), *itertools.combinations(clique, 2)]
    pairs += [(i, 50 + (i - 49) % 12) for i in ring]
    ends = torch.tensor(pairs).T
    data = HeteroData()
    data["user"].x = torch.randn(62, 4, generator=torch.Generator().manual_seed(0))
    data["user", "knows", "user"].edge_index = torch.cat([ends, ends.flip(0)], 1)
    return data


def test_a_hard_link_costs_its_neighbours_nothing() -> None:
    data = trap()
    settings = Settings(max_length=8, num_paths=5, epochs=4, num_hops=4)
    kind = ("user", "likes", "user")
    free = PaGELink(Slow(data, layers=3), data, kind, settings, threshold=None)
    easy = [(50 + i, 50 + (i + 2) % 12) for i in range(8)]
    free.explain(*easy[0])  # kernels are compiled
    timings = {link: timed(lambda link=link: free.explain(*link)) for link in easy}
    alone = {link: answer for link, (answer, _) in timings.items()}
    # Ample for each of the easy links, and never enough for all long paths of the clique.
    deadline = 2 + 5 * max(took for _, took in timings.values())
    late = free.replace(settings.replace(deadline=deadline))
    links = [*easy[:4], (0, 1), *easy[4:]]
    answers, took = timed(lambda: list(late.explain_many(links)))
    assert took <= 1.5 * deadline * len(links)
    for link, answer in zip(links, answers, strict=True):
        if link == (0, 1):
            assert answer.reason == "out_of_time"
            assert answer.paths[0].nodes == (("user", 0), ("user", 2), ("user", 1))
            continue
        assert answer.reason == alone[link].reason
        assert answer.paths == alone[link].paths
        assert answer.logit == alone[link].logit
        assert answer.evidence == alone[link].evidence


def test_a_deadline_that_cuts_nothing_changes_nothing(explainer: PaGELink) -> None:
    data = complete(12)
    free = PaGELink(Slow(data), data, LINK_TYPE, threshold=None)
    enough = free.replace(Settings(deadline=60.0))
    links = [(0, 5), (1, 7), (2, 2)]
    asked = {"rank": True, "runs": 2}
    for mine, theirs in zip(
        enough.explain_many(links, **asked), free.explain_many(links, **asked), strict=True
    ):
        assert mine.reason is None
        assert all(np.array_equal(mine.edge_mask[t], theirs.edge_mask[t]) for t in data.edge_types)
        same = dataclasses.replace(mine, settings=theirs.settings)
        assert same == theirs
    mine, theirs = (each.counterfactual(1, 5, top_k=11, budget=2) for each in (enough, free))
    assert mine == theirs
