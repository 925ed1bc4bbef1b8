"""The search for counterfactuals: the fewest facts without which a prediction turns.

`find_counterfactual` searches for the smallest set of facts at the source of a link, or on its
paths, whose joint removal turns the prediction (`removal_search`). The figure to bring below 0 is
how far its score is above the threshold, or, with `top_k`, above that of the target that is to push
it out of the first `top_k`. The set that was found is then checked on all targets, and put into
words.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from pagelink.errors import ModelError, SettingsError
from pagelink.explain.building import shown_edge
from pagelink.explain.counterfactual import PLACES, At, Counterfactual, RemovedFact, WhyNone
from pagelink.explain.options import check_whole_number
from pagelink.explain.ranking import EndScores, open_ends, rank_among
from pagelink.explain.removal_search import FoundRemoval, Measure, Set, smallest_removal
from pagelink.graph.computation_graph import ComputationGraphs
from pagelink.graph.links import Link
from pagelink.graph.lookup import edges_of_facts
from pagelink.graph.typed_graph import TypedGraph
from pagelink.model.edited_logits import edge_gradient
from pagelink.runtime.arrays import Bools, Doubles, Longs
from pagelink.runtime.timer import OutOfTimeError, Timer
from pagelink.search.work import SEARCHING, Setup

SETS_AT_ONCE = 16
"""Sets that are measured between two looks at the clock, where there is a deadline."""
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
    timer = Timer(setup.settings.deadline)
    targets = open_ends(graph, link, known)
    if top_k is not None and top_k >= len(targets):
        raise SettingsError(
            f"top_k is {top_k}, but {graph.node_name(link.src)} has only {len(targets)} targets to "
            "rank: none of them can drop out."
        )
    own = int(np.searchsorted(targets, link.dst))
    seen = _Seen()
    try:
        _search(setup, link, goal, targets, timer, seen)
    except OutOfTimeError:
        timer.stop(SEARCHING)
    before, after = seen.before, seen.after
    reason: WhyNone | None = seen.reason
    if timer.cut and reason is None and not seen.has_turned:
        reason = "out_of_time"
    rank = None if before is None else rank_among(before, own)
    instead = None
    if reason is None and before is not None and after is not None and rank is not None:
        instead = _newcomer(before, after, own, rank, goal)
    place = None if instead is None else int(targets[instead])
    return Counterfactual(
        link_type=link.type, src=graph.node(link.src), dst=graph.node(link.dst),
        src_name=graph.node_name(link.src), dst_name=graph.node_name(link.dst), at=goal.at,
        top_k=top_k, threshold=goal.threshold, budget=goal.budget,
        facts=named_facts(graph, seen.removed.tolist(), link.src),
        reason=reason, logit=seen.logit, logit_without=seen.logit_without,
        logit_without_all=seen.logit_without_all, rank=rank,
        rank_without=None if after is None else rank_among(after, own),
        rank_of=len(targets), instead=None if place is None else graph.node_name(place),
        instead_node=None if place is None else graph.node(place),
        smallest=seen.complete or (reason is None and len(seen.removed) == 1),
        num_facts=seen.num_facts, num_sets=seen.num_sets, out_of_time=bool(timer.cut),
    )  # fmt: skip


@dataclass
class _Seen:
    """What a search for a counterfactual has found out so far."""

    num_facts: int = 0
    before: Doubles | None = None
    """The logits of all targets."""
    logit: float | None = None
    removed: Longs = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    """The facts that turn the prediction, or come nearest to that."""
    after: Doubles | None = None
    """The logits of all targets without them."""
    logit_without: float | None = None
    logit_without_all: float | None = None
    has_turned: bool = False
    reason: WhyNone | None = None
    complete: bool = False
    num_sets: int = 0


def _search(
    setup: Setup, link: Link, goal: RemovalGoal, targets: Longs, timer: Timer, seen: _Seen
) -> None:
    """Find facts to remove, and note what was found out, step by step.

    Raises:
        OutOfTimeError: the time was over on the way.
    """
    graph, top_k = setup.graph, goal.top_k
    # 1. The facts that could be removed.
    (batch,) = setup.batches.extract([link], None, timer.last)
    if goal.at == "source":
        wanted = batch if top_k is None else None
        facts = facts_at_source(graph, link, wanted, setup.receptive_field.seen_relations)
    else:
        on_paths = batch.edges[setup.path_graphs(batch, None, timer.last).arc_slot]
        facts = np.unique(graph.fact[on_paths]).astype(np.int64)
    seen.num_facts = len(facts)
    # 2. Where the target stands.
    scores = EndScores(setup, link, timer)
    own = int(np.searchsorted(targets, link.dst))
    try:
        (before,) = scores.logits(targets, [()])
    except OutOfTimeError:  # its own score is one pass
        seen.logit = float(setup.logits(batch, setup.relations([link]))[0][0])
        raise
    if not np.isfinite(before[own]):
        raise ModelError(f"The model returns {before[own]} for this link, not a number.")
    seen.before = seen.after = before
    seen.logit = seen.logit_without = float(before[own])
    if top_k is None and before[own] < goal.bar:
        seen.reason = "already_negative"
    elif top_k is not None and rank_among(before, own) > top_k:
        seen.reason = "not_in_top_k"
    elif not len(facts):
        seen.reason = "no_facts"
    if seen.reason is not None:
        return
    # 3. Search among sets of the most promising ones.
    chosen = _most_promising(setup, link, batch, facts, max(goal.verified // 2, 1), timer)
    asked = [link.dst]
    if top_k is not None:
        order = np.argsort(-before, kind="stable")
        asked += targets[order[order != own][: top_k + RIVALS]].tolist()
    margin = _margin(scores, np.array(asked), chosen, goal)
    at_once = None if timer.until is None else SETS_AT_ONCE
    found = smallest_removal(margin, len(chosen), goal.budget, goal.verified, at_once)
    seen.num_sets = found.num_sets
    seen.complete = found.exhaustive and len(chosen) == len(facts)
    seen.removed, seen.after = chosen[list(found.members)], None
    seen.logit_without = None
    if top_k is None and found.members:
        seen.logit_without, seen.has_turned = found.value + goal.bar, found.reached
    if found.out_of_time:
        raise OutOfTimeError
    # 4. Check what was found on all targets.
    seen.after, without = scores.logits(targets, [seen.removed, facts])
    seen.logit_without, seen.logit_without_all = float(seen.after[own]), float(without[own])
    seen.has_turned = _has_turned(found, seen.after, own, goal)
    seen.reason = None if seen.has_turned else "none_found"


def _most_promising(
    setup: Setup, link: Link, batch: ComputationGraphs, facts: Longs, most: int, timer: Timer
) -> Longs:
    """All facts if they are at most `most`, else those of the highest gradient."""
    if len(facts) <= most:
        return facts
    graph = setup.graph
    size = setup.size(batch)
    if not timer.allows(2 * size, SEARCHING):
        raise OutOfTimeError
    recorded = setup.logits(batch, setup.relations([link]), timer)[1]
    with timer.step(size):
        gradient = edge_gradient(setup.predictor, recorded, len(batch.edges))
    gain = np.bincount(graph.fact[batch.edges], gradient, minlength=graph.num_facts)
    return np.sort(facts[np.argsort(-gain[facts], kind="stable")[:most]])


def _margin(scores: EndScores, targets: Longs, facts: Longs, goal: RemovalGoal) -> Measure:
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


def named_facts(graph: TypedGraph, facts: Sequence[int], source: int) -> tuple[RemovedFact, ...]:
    """Return facts in words, each by a stored edge, one that reads forwards if there is one.

    Where both directions have words of their own, a fact of the source begins with the source, and
    any other one as the graph states it.
    """
    result = []
    for fact in facts:
        every = [(edge, shown_edge(graph, edge)) for edge in edges_of_facts(graph, [fact]).tolist()]
        edge, shown = min(
            every,
            key=lambda each: (
                each[1]["label_backwards"],
                graph.src[each[0]] != source,
                not graph.representative[each[0]],
            ),
        )
        src, dst = int(graph.src[edge]), int(graph.dst[edge])
        result.append(
            RemovedFact(
                src=graph.node(src), src_name=graph.node_name(src),
                dst=graph.node(dst), dst_name=graph.node_name(dst), **shown,
            )
        )  # fmt: skip
    return tuple(result)
