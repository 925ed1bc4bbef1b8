"""Which set of paths is chosen, by effects that are made up, and the evidence on real models."""

from __future__ import annotations

import warnings
from itertools import combinations
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from support.zoo import make_case

from pagelink import PaGELink, Settings
from pagelink.graph.edited_graphs import Edits
from pagelink.measure.candidates import Candidates, Trials
from pagelink.measure.greedy_set import GreedySet, pool_size
from pagelink.measure.selection import select
from pagelink.measure.verdict import verdict_of
from pagelink.runtime.csr import Csr

Effect = dict[tuple[int, ...], float]


class MadeUp:
    """Answers by a table of what removing (or adding) sets of candidates does to one link."""

    complete = True

    def __init__(self, removal: Effect, insertion: Effect | None = None) -> None:
        self.removal, self.insertion = removal, insertion or {}
        self.asked: list[tuple[int, ...]] = []

    def logits(self, graph: np.ndarray, edits: Edits) -> np.ndarray:
        answers = []
        for i in range(edits.num_graphs):
            key = tuple(
                sorted(
                    set(edits.slots.values[edits.slots.ptr[i] : edits.slots.ptr[i + 1]].tolist())
                )
            )
            self.asked.append(key)
            table, base, sign = (self.removal, 5.0, -1) if graph.all() else (self.insertion, 0.0, 1)
            answers.append(base + sign * table[key])
        return np.array(answers, dtype=np.float64)


def candidates(concise: list[float], known: list[int] | None = None) -> Candidates:
    """Candidates of one link; the facts of candidate i are the one edge i."""
    known = list(range(len(concise))) if known is None else known
    count = len(known)
    worth = np.array(concise)[known]
    return Candidates(
        ptr=np.array([0, count]), arcs=np.array(known, dtype=int)[:, None],
        lengths=np.ones(count, int), scores=worth, concise=worth,
        slots=Csr(np.arange(count + 1), np.array(known, dtype=int)),
    )  # fmt: skip


def chosen(
    table: Effect,
    concise: list[float],
    rho: float,
    bare: float = 0.0,
    hidden: dict[tuple[int, ...], list[int]] | None = None,
    **more: Any,
) -> tuple[list[int], Any]:
    """Select; `hidden` candidates are found only once others are left out."""
    asked = MadeUp(table, more.pop("insertion", None))
    settings = Settings(rho=rho, num_paths=more.pop("num_paths", 2), **more)
    shown = {each for found in (hidden or {}).values() for each in found}
    at_first = candidates(concise, [i for i in range(len(concise)) if i not in shown])

    def steepest(without: np.ndarray, count: int) -> Candidates:
        found = range(len(concise)) if hidden is None else hidden.get(tuple(sorted(without)), [])
        return candidates(concise, list(found)[:count])

    alone = np.array([table[i,] for i in at_first.arcs[:, 0].tolist()])
    greedy = GreedySet(trials(asked, at_first, alone, bare, settings))
    for _ in range(settings.paths_within_budget - 1):
        greedy.add_best(steepest(greedy.slots, 6))
    found = select(greedy)
    arcs = greedy.trials.candidates.arcs
    return [int(arcs[m, 0]) for m in found.members[0] if m >= 0], found


def trials(
    asked: MadeUp, made: Candidates, alone: np.ndarray, bare: float, settings: Settings
) -> Trials:
    """Trials of one link with f(G) = 5 on made-up answers."""
    work = SimpleNamespace(setup=SimpleNamespace(settings=settings), logits=np.array([5.0]))
    graphs = SimpleNamespace(whole=np.ones(1, dtype=bool), bare=np.zeros(1, dtype=bool))
    answers = (np.array([bare]), np.array([np.nan]))
    return Trials(work, asked, graphs, made, alone, *answers)  # type: ignore[arg-type]


# Three paths: 0 is the most concise, 2 the most influential; 1 and 2 stand for the same.
TABLE: Effect = {(0,): 0.5, (1,): 2.0, (2,): 2.2, (0, 1): 2.6, (0, 2): 2.5, (1, 2): 2.2}
CONCISE = [-1.0, -2.0, -3.0]


@pytest.mark.parametrize(
    ("rho", "expected"),
    [
        (0.05, {0, 1}),  # both of the most concise
        (0.97, {0, 1}),  # 2.6 is the best
        (1.0, {0, 1}),
    ],
)
def test_the_most_concise_of_those_that_reach_rho(rho: float, expected: set[int]) -> None:
    members, found = chosen(TABLE, CONCISE, rho)
    assert set(members) == expected
    assert found.influence[0] == pytest.approx(2.6)
    assert found.best[0] == pytest.approx(2.6)


def test_rho_between() -> None:
    table = TABLE | {(0, 1): 1.9}  # now 0 and 1 get in each other's way
    members, found = chosen(table, CONCISE, 0.7)  # 2.5 is the best, the bar is at 1.75
    assert set(members) == {0, 2}  # {0, 1} reaches it, but 0 adds nothing to 1
    assert found.influence[0] == pytest.approx(2.5)
    members, _ = chosen(table, CONCISE, 1.0)
    assert set(members) == {0, 2}


def test_the_most_influential_path_comes_first() -> None:
    assert chosen(TABLE, CONCISE, 1.0)[0] == [1, 0]


def test_filler_is_left_out() -> None:
    table = {(0,): 3.0, (1,): 0.0, (2,): -1.0, (0, 1): 3.0, (0, 2): 2.0, (1, 2): -1.0}
    assert chosen(table, CONCISE, 0.7)[0] == [0]


def test_a_path_that_counts_only_without_the_others_is_found() -> None:
    table = TABLE | {(3,): -0.1, (0, 3): 0.4, (1, 3): 2.0, (2, 3): 9.0}
    members, found = chosen(table, [*CONCISE, -4.0], 0.7, hidden={(2,): [3]})
    assert members == [2, 3]
    assert found.influence[0] == pytest.approx(9.0)
    assert found.marginal[0] == pytest.approx([9.1, 6.8])


def test_marginals_belong_to_their_paths() -> None:
    members, found = chosen(TABLE, CONCISE, 1.0)
    alone = {0: 0.5, 1: 2.0}
    assert members == [1, 0]
    assert found.marginal[0] == pytest.approx([2.6 - alone[0], 2.6 - alone[1]])


def test_marginals_of_the_papers_ranking() -> None:
    members, found = chosen(TABLE | {(0, 1): 1.0}, CONCISE, 0.0)
    assert members == [1, 0]
    assert found.marginal[0] == pytest.approx([0.5, -1.0])


def test_large_sets_that_cannot_be_chosen_are_not_measured() -> None:
    # Nothing comes of three paths but the sum; only those within reach of the bar are asked for.
    value = [8.0, 4.0, 2.0, 0.1, 0.05]
    table = {
        key: sum(value[i] for i in key)
        for size in (1, 2, 3)
        for key in combinations(range(5), size)
    }
    asked = MadeUp(table)
    concise = [-1.0, -1.1, -1.2, -5.0, -6.0]
    every = candidates(concise)
    settings = Settings(num_paths=3, rho=1.0)
    greedy = GreedySet(trials(asked, every, np.array(value), 0.0, settings))
    for _ in range(2):
        greedy.add_best(candidates(concise, [0, 1, 2]))
    found = select(greedy)
    assert found.influence[0] == pytest.approx(14.0)
    triples = {key for key in asked.asked if len(key) == 3}
    assert (0, 1, 2) in triples
    assert (2, 3, 4) not in triples


def test_rho_0_is_the_papers_ranking() -> None:
    members, found = chosen(TABLE, CONCISE, 0.0)
    assert set(members) == {0, 1}
    assert found.influence[0] == pytest.approx(2.6)


def test_where_nothing_speaks_for_the_link_the_least_harmful_set_is_named() -> None:
    table = {(0,): -3.0, (1,): -1.0, (2,): -2.0, (0, 1): -4.0, (0, 2): -5.0, (1, 2): -2.5}
    members, found = chosen(table, CONCISE, 0.7, bare=9.0)
    assert members == [1]
    assert found.influence[0] == pytest.approx(-1.0)
    assert not found.inserted[0]


def test_redundant_paths_are_judged_by_what_they_add() -> None:
    nothing = dict.fromkeys(TABLE, 0.01)
    added = {(0,): 3.0, (1,): 3.1, (2,): 0.2, (0, 1): 4.0, (0, 2): 3.1, (1, 2): 3.2}
    members, found = chosen(nothing, CONCISE, 0.9, insertion=added)
    assert found.inserted[0]
    # Very many paths that add a little each do not stand in for each other.
    small = {key: 0.01 * len(key) for key in TABLE}
    _, additive = chosen(small, CONCISE, 0.9, insertion=small)
    assert not additive.inserted[0]
    assert set(members) == {0, 1}
    assert found.influence[0] == pytest.approx(4.0)


def test_no_more_sets_are_measured_than_allowed() -> None:
    assert [pool_size(3, n) for n in (1, 7, 14, 25, 100)] == [1, 3, 4, 5, 8]
    assert pool_size(1, 12) == 12


@pytest.mark.parametrize(
    ("f", "bare", "influence", "largest", "verdict"),
    [
        (5.0, 1.0, 2.0, 2.0, "supported"),
        (5.0, 5.5, 2.0, 2.0, "structure_against"),
        (5.0, 5.0, 2.0, 2.0, "structure_against"),
        (5.0, 4.96, 0.04, 0.04, "structure_not_used"),
        (5.0, 4.9, 0.06, 0.06, "supported"),
        (5.0, 4.9, 0.04, 0.04, "not_by_these"),
        (5.0, 1.0, -0.5, 1.0, "not_by_these"),
    ],
)
def test_verdict(f: float, bare: float, influence: float, largest: float, verdict: str) -> None:
    assert verdict_of(f, bare, influence, largest, noise=0.05) == verdict


@pytest.mark.parametrize("name", ["HeteroConv SAGE", "HGT", "RGCN", "LightGCN", "HAN"])
def test_evidence_does_not_depend_on_the_batch(name: str) -> None:
    case = make_case(name)
    options = {"threshold": None} | case.options
    explainer = PaGELink(case.model, case.data, case.link_type, Settings(epochs=3), **options)
    first = 80 if len(explainer.graph.node_types) == 1 else 0
    links = [(user, first + user % 7) for user in range(8)]
    for link, answer in zip(links, explainer.explain_many(links), strict=True):
        alone = explainer.explain(*link)
        assert alone.paths == answer.paths
        if not answer.paths:
            continue
        assert answer.evidence is not None
        assert alone.evidence is not None
        assert alone.evidence.verdict == answer.evidence.verdict
        assert alone.evidence.influence == pytest.approx(answer.evidence.influence, abs=1e-4)
        for mine, theirs in zip(answer.paths, alone.paths, strict=True):
            assert mine.influence == pytest.approx(theirs.influence, abs=1e-4)
            assert mine.marginal == pytest.approx(theirs.marginal, abs=1e-4)
            assert (mine.connection is None) == (theirs.connection is None)
            assert mine.connection == pytest.approx(theirs.connection, abs=1e-4)
            assert [e.influence for e in mine.edges] == pytest.approx(
                [e.influence for e in theirs.edges], abs=1e-4
            )
            used = answer.evidence.verdict not in ("structure_not_used", "not_by_these")
            assert mine.is_evidence == (used and mine.marginal > answer.noise)
        one = len(answer.paths) == 1 and not answer.evidence.inserted
        if one:
            assert answer.paths[0].marginal == pytest.approx(answer.evidence.influence, abs=1e-4)


def test_rho_0_beside_a_link_without_paths() -> None:
    case = make_case("HeteroConv SAGE")
    explainer = PaGELink(
        case.model, case.data, case.link_type, Settings(rho=0, epochs=1), threshold=None
    )
    user, item = case.data["user", "buys", "item"].edge_index[:, 0].tolist()
    far = (case.data["user"].num_nodes - 1, item)  # a user without any edge
    # Not as errors: after one the links of a batch are explained one by one.
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        answers = list(explainer.explain_many([(user, item), far]))
    assert [answer.reason for answer in answers] == [None, "not_connected"]
    assert [str(each.message) for each in seen] == []
