"""The search for counterfactuals: the fewest facts without which a prediction turns.

`smallest_removal` searches for the smallest set of things whose joint removal brings a figure below
0. Effects are not additive, so sets are measured as wholes: all sets of a size while they are few
enough, else those that extend the best smaller ones (a beam). A set that was found by extension is
stripped of the members it does not need.

`find_counterfactual` applies it to a link. The things are the facts at its source, or those on its
paths; the figure is how far its score is above the threshold, or, with `top_k`, above that of the
target that is to push it out of the first `top_k`. The set that was found is then checked on all
targets, and put into words.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import comb

import numpy as np

from pagelink.errors import ModelError, SettingsError
from pagelink.explain.building import shown_edge
from pagelink.explain.counterfactual import PLACES, At, Counterfactual, RemovedFact, WhyNone
from pagelink.explain.options import check_whole_number
from pagelink.explain.ranking import TargetScores, open_targets, rank_among
from pagelink.graph.computation_graph import ComputationGraphs
from pagelink.graph.links import Link
from pagelink.graph.lookup import edges_of_facts
from pagelink.graph.typed_graph import TypedGraph
from pagelink.model.edited_logits import edge_gradient
from pagelink.runtime.arrays import Bools, Doubles, Longs
from pagelink.search.work import Setup

Set = tuple[int, ...]
Measure = Callable[[Sequence[Set]], Doubles]
"""From sets of things, by position, to the figure without them."""

BEAM = 8
"""Sets of a size that are extended."""


@dataclass(frozen=True)
class FoundRemoval:
    """The result of a search."""

    members: Set
    """The set that was found; if there is none, the one that came nearest."""
    value: float
    """The figure without it."""
    reached: bool
    """Whether the figure is below 0."""
    exhaustive: bool
    """All smaller sets were measured (all sets up to the budget, if none was found)."""
    num_sets: int
    """Sets measured."""


def smallest_removal(measure: Measure, size: int, budget: int, most_sets: int) -> FoundRemoval:
    """Search for the smallest set, at most `budget` large, whose removal makes the figure negative.

    Of sets of the same size the one with the lowest figure is taken.

    Args:
        measure: measures sets; nan counts as not below 0.
        size: number of things, 1 or more.
        budget: members of a set at most.
        most_sets: sets to measure, about; every single thing is measured in any case.

    Example:
        >>> weights = [3.0, 2.0, 1.0]
        >>> found = smallest_removal(
        ...     lambda sets: np.array([4.5 - sum(weights[i] for i in s) for s in sets]), 3, 3, 100)
        >>> found.members, found.value, found.exhaustive
        ((0, 1), -0.5, True)
    """
    known: dict[Set, float] = {}

    def measured(sets: list[Set]) -> list[Set]:
        """Measure sets that are new, and return all in the order of their figures."""
        new = [s for s in dict.fromkeys(sets) if s not in known]
        values = measure(new) if new else np.empty(0)
        known.update(zip(new, np.where(np.isnan(values), np.inf, values).tolist(), strict=True))
        return sorted(dict.fromkeys(sets), key=lambda s: (known[s], s))

    def result(members: Set, exhaustive: bool) -> FoundRemoval:
        value = known[members]
        return FoundRemoval(members, value, value < 0, exhaustive, len(known))

    ranked = measured([(i,) for i in range(size)])
    strongest = [s[0] for s in ranked]
    best, complete = ranked[0], True
    largest = min(budget, size)
    for count in range(1, largest + 1):
        smaller_are_complete = complete
        if count > 1:
            left = most_sets - len(known)
            if comb(size, count) <= left // 2:
                ranked = measured(list(combinations(range(size), count)))
            else:
                complete = False
                share = max(1, left // (largest - count + 1))  # the larger sets want theirs, too
                ranked = measured(_extended(ranked[:BEAM], strongest, share))
            best = min(best, ranked[0], key=lambda s: known[s])
        if known[ranked[0]] < 0:
            return result(_stripped(ranked[0], known, measured), smaller_are_complete)
    return result(best, complete)


def _extended(beam: list[Set], strongest: list[int], most: int) -> list[Set]:
    """Sets of one more member: of each in turn by the strongest, at most `most` of them."""
    found: dict[Set, None] = {}
    for new in strongest:
        for one in beam:
            if new not in one:
                found[tuple(sorted((*one, new)))] = None
                if len(found) == most:
                    return list(found)
    return list(found)


def _stripped(
    found: Set, known: dict[Set, float], measured: Callable[[list[Set]], list[Set]]
) -> Set:
    """Leave members out while the figure stays below 0."""
    while len(found) > 1:
        ranked = measured([found[:i] + found[i + 1 :] for i in range(len(found))])
        if known[ranked[0]] >= 0:
            return found
        found = ranked[0]
    return found


RIVALS = 20
"""Targets behind the first `top_k` that the search looks at; the result is checked on all."""


@dataclass(frozen=True)
class RemovalGoal:
    """What a counterfactual is to reach, and by what means.

    Raises:
        SettingsError: a value is out of its range.
    """

    top_k: int | None
    """The target is to drop out of the first `top_k`; None: below the threshold."""
    at: At
    """Where facts may be removed."""
    budget: int
    """Facts to remove at most."""
    verified: int
    """Sets of facts to measure, about."""
    threshold: float | None
    """The logit below which a link is not predicted."""

    def __post_init__(self) -> None:
        if self.at not in PLACES:
            raise SettingsError(f"at must be one of {PLACES}, got {self.at!r}.")
        given = {"budget": self.budget, "verified": self.verified}
        given |= {} if self.top_k is None else {"top_k": self.top_k}
        for name, value in given.items():
            check_whole_number(name, value, 1)
        if self.top_k is None and self.threshold is None:
            raise SettingsError(
                "This explainer has no threshold (the model only ranks), so that no prediction can "
                "turn. Give top_k: the target is then to drop out of the first top_k."
            )

    @property
    def bar(self) -> float:
        """The threshold, 0 where there is none."""
        return self.threshold or 0.0


def facts_at_source(
    graph: TypedGraph, link: Link, batch: ComputationGraphs | None, seen_relations: Bools
) -> Longs:
    """Return the facts at the source that the model sees, without the link itself.

    Args:
        graph: the flat graph.
        link: the link.
        batch: its computation graph: only facts that can move its score. None: also those that can
            only move the scores of other targets.
        seen_relations: per relation, whether the model passes messages along it.
    """
    edges: Longs = (
        np.flatnonzero(seen_relations[graph.relation])
        if batch is None
        else batch.edges[batch.fact_visible].astype(np.int64)
    )
    touching = (graph.src[edges] == link.src) | (graph.dst[edges] == link.src)
    facts: Longs = np.unique(graph.fact[edges[touching]]).astype(np.int64)
    others: Longs = facts[facts != link.fact]
    return others


def find_counterfactual(
    setup: Setup, link: Link, goal: RemovalGoal, known: Sequence[int]
) -> Counterfactual:
    """Search among sets of facts, measure, and put the result into words.

    Args:
        setup: the model, and where paths may be.
        link: the link.
        goal: what is to be reached.
        known: targets that the source is known to be linked to, as flat nodes: they are not ranked
            and take nothing's place, as no one would recommend them.
    """
    graph, top_k = setup.graph, goal.top_k
    (batch,) = setup.batches.extract([link])
    if goal.at == "source":
        wanted = batch if top_k is None else None
        facts = facts_at_source(graph, link, wanted, setup.receptive_field.seen_relations)
    else:
        on_paths = batch.edges[setup.path_graphs(batch).arc_slot]
        facts = np.unique(graph.fact[on_paths]).astype(np.int64)
    scores = TargetScores(setup, link)
    targets = open_targets(graph, link, known)
    if top_k is not None and top_k >= len(targets):
        raise SettingsError(
            f"top_k is {top_k}, but {graph.node_name(link.src)} has only {len(targets)} targets to "
            "rank: none of them can drop out."
        )
    own = int(np.searchsorted(targets, link.dst))
    (before,) = scores.logits(targets, [()])
    if not np.isfinite(before[own]):
        raise ModelError(f"The model returns {before[own]} for this link, not a number.")
    rank = rank_among(before, own)
    reason: WhyNone | None = None
    if top_k is None and before[own] < goal.bar:
        reason = "already_negative"
    elif top_k is not None and rank > top_k:
        reason = "not_in_top_k"
    elif not len(facts):
        reason = "no_facts"
    removed: Longs = np.empty(0, dtype=np.int64)
    after, all_gone, complete, num_sets = before, None, False, 0
    if reason is None:
        chosen = _most_promising(setup, link, batch, facts, max(goal.verified // 2, 1))
        asked = [link.dst]
        if top_k is not None:
            order = np.argsort(-before, kind="stable")
            asked += targets[order[order != own][: top_k + RIVALS]].tolist()
        margin = _margin(scores, np.array(asked), chosen, goal)
        found = smallest_removal(margin, len(chosen), goal.budget, goal.verified)
        num_sets = found.num_sets
        complete = found.exhaustive and len(chosen) == len(facts)
        removed = chosen[list(found.members)]
        after, without = scores.logits(targets, [removed, facts])
        all_gone = float(without[own])
        if not _has_turned(found, after, own, goal):
            reason = "none_found"
    instead = None if reason else _newcomer(before, after, own, rank, goal)
    place = None if instead is None else int(targets[instead])
    return Counterfactual(
        link_type=link.type, src=graph.node(link.src), dst=graph.node(link.dst),
        src_name=graph.node_name(link.src), dst_name=graph.node_name(link.dst), at=goal.at,
        top_k=top_k, threshold=goal.threshold, budget=goal.budget,
        facts=named_facts(graph, removed.tolist()),
        reason=reason, logit=float(before[own]), logit_without=float(after[own]),
        logit_without_all=all_gone, rank=rank, rank_without=rank_among(after, own),
        rank_of=len(targets), instead=None if place is None else graph.node_name(place),
        instead_node=None if place is None else graph.node(place),
        smallest=complete or (reason is None and len(removed) == 1), num_facts=len(facts),
        num_sets=num_sets,
    )  # fmt: skip


def _most_promising(
    setup: Setup, link: Link, batch: ComputationGraphs, facts: Longs, most: int
) -> Longs:
    """All facts if they are at most `most`, else those of the highest gradient."""
    if len(facts) <= most:
        return facts
    graph = setup.graph
    recorded = setup.logits(batch, setup.relations([link]))[1]
    gradient = edge_gradient(setup.predictor, recorded, len(batch.edges))
    gain = np.bincount(graph.fact[batch.edges], gradient, minlength=graph.num_facts)
    return np.sort(facts[np.argsort(-gain[facts], kind="stable")[:most]])


def _margin(scores: TargetScores, targets: Longs, facts: Longs, goal: RemovalGoal) -> Measure:
    """How far the first target is above the threshold, or above the k-th best of the others."""

    def measure(sets: Sequence[Set]) -> Doubles:
        logits = scores.logits(targets, [facts[list(members)] for members in sets])
        if goal.top_k is None:
            return logits[:, 0] - goal.bar
        others = np.sort(logits[:, 1:], axis=1)[:, ::-1]
        return logits[:, 0] - others[:, goal.top_k - 1]

    return measure


def _has_turned(found: FoundRemoval, after: Doubles, own: int, goal: RemovalGoal) -> bool:
    if goal.top_k is None:
        return found.reached and bool(after[own] < goal.bar)
    return rank_among(after, own) > goal.top_k


def _newcomer(
    before: Doubles, after: Doubles, own: int, rank: int, goal: RemovalGoal
) -> int | None:
    """The best of those that are among the first now, and were not before."""
    first, threshold = goal.top_k or rank, goal.threshold
    old = np.argsort(-before, kind="stable")[:first]
    new = np.argsort(-after, kind="stable")
    for place in new[new != own][:first].tolist():
        predicted = goal.top_k is not None or threshold is None or after[place] >= threshold
        if place not in old and predicted:
            return int(place)
    return None


def named_facts(graph: TypedGraph, facts: Sequence[int]) -> tuple[RemovedFact, ...]:
    """Return facts in words, each by a stored edge, one that reads forwards if there is one."""
    result = []
    for fact in facts:
        every = [(edge, shown_edge(graph, edge)) for edge in edges_of_facts(graph, [fact]).tolist()]
        edge, shown = min(every, key=lambda each: each[1]["label_backwards"])
        src, dst = int(graph.src[edge]), int(graph.dst[edge])
        result.append(
            RemovedFact(
                src=graph.node(src), src_name=graph.node_name(src),
                dst=graph.node(dst), dst_name=graph.node_name(dst), **shown,
            )
        )  # fmt: skip
    return tuple(result)
