"""Finds counterfactuals: the fewest facts without which a prediction turns, or a rank is lost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from pagelink.asked_links import Link
from pagelink.computation_graph import ComputationGraphs
from pagelink.counterfactual import PLACES, At, Counterfactual, RemovedFact, WhyNone
from pagelink.errors import ModelError, SettingsError
from pagelink.graph import Bools, Longs, TypedGraph
from pagelink.influence import edge_gradient
from pagelink.other_targets import TargetScores, open_targets, rank_among
from pagelink.paths import PathGraphs
from pagelink.predictor import LinkPredictor
from pagelink.removal_search import FoundRemoval, Set, smallest_removal

Doubles = npt.NDArray[np.float64]

RIVALS = 20
"""Targets behind the first `top_k` that the search looks at; the result is checked on all."""


def check_question(
    top_k: object, at: object, budget: object, verified: object, threshold: float | None
) -> None:
    """Refuse what cannot be asked.

    Raises:
        SettingsError: an argument is out of its range.
    """
    if at not in PLACES:
        raise SettingsError(f"at must be one of {PLACES}, got {at!r}.")
    given = {"budget": budget, "verified": verified}
    given |= {} if top_k is None else {"top_k": top_k}
    for name, value in given.items():
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise SettingsError(f"{name} must be a whole number from 1 up, got {value!r}.")
    if top_k is None and threshold is None:
        raise SettingsError(
            "This explainer has no threshold (the model only ranks), so that no prediction can "
            "turn. Give top_k: the target is then to drop out of the first so many."
        )


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


def facts_on_paths(graph: TypedGraph, batch: ComputationGraphs, paths: PathGraphs) -> Longs:
    """Return the facts on which a path from source to target may run."""
    facts: Longs = np.unique(graph.fact[batch.edges[paths.arc_slot]]).astype(np.int64)
    return facts


def find_counterfactual(
    predictor: LinkPredictor,
    scores: TargetScores,
    link: Link,
    batch: ComputationGraphs,
    facts: Longs,
    *,
    threshold: float | None,
    top_k: int | None,
    at: At,
    budget: int,
    verified: int,
    known: Sequence[int] = (),
) -> Counterfactual:
    """Search among sets of facts, measure, and put the result into words.

    Args:
        predictor: the model.
        scores: the model's scores on edited graphs.
        link: the link.
        batch: its computation graph.
        facts: the facts that may be removed.
        threshold: the logit below which a link is not predicted.
        top_k: the target is to drop out of the first so many; None: below the threshold.
        at: where the facts are.
        budget: facts to remove at most.
        verified: sets to measure, about.
        known: targets that the source is known to be linked to, as flat nodes: they are not ranked
            and take nothing's place, as no one would recommend them.
    """
    graph = predictor.graph
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
    found: FoundRemoval | None = None
    reason: WhyNone | None = None
    if top_k is None and before[own] < (threshold or 0.0):
        reason = "already_negative"
    elif top_k is not None and rank > top_k:
        reason = "not_in_top_k"
    elif not len(facts):
        reason = "no_facts"
    removed: Longs = np.empty(0, dtype=np.int64)
    after, all_gone, complete = before, None, False
    if reason is None:
        chosen = _most_promising(predictor, link, batch, facts, max(verified // 2, 1))
        asked = [link.dst]
        if top_k is not None:
            order = np.argsort(-before, kind="stable")
            asked += targets[order[order != own][: top_k + RIVALS]].tolist()
        margin = _margin(scores, np.array(asked), chosen, threshold or 0.0, top_k)
        found = smallest_removal(margin, len(chosen), budget, verified)
        complete = found.exhaustive and len(chosen) == len(facts)
        removed = chosen[list(found.members)]
        after, without = scores.logits(targets, [removed, facts])
        all_gone = float(without[own])
        if not _has_turned(found, after, own, threshold or 0.0, top_k):
            reason = "none_found"
    instead = None if reason else _newcomer(before, after, own, top_k or rank, top_k, threshold)
    place = None if instead is None else int(targets[instead])
    return Counterfactual(
        link_type=link.type, src=graph.node(link.src), dst=graph.node(link.dst),
        src_name=graph.node_name(link.src), dst_name=graph.node_name(link.dst), at=at, top_k=top_k,
        threshold=threshold, budget=budget, facts=named_facts(graph, removed.tolist()),
        reason=reason, logit=float(before[own]), logit_without=float(after[own]),
        logit_without_all=all_gone, rank=rank, rank_without=rank_among(after, own),
        rank_of=len(targets), instead=None if place is None else graph.node_name(place),
        instead_node=None if place is None else graph.node(place),
        smallest=complete or (reason is None and len(removed) == 1), num_facts=len(facts),
        num_sets=0 if found is None else found.num_sets,
    )  # fmt: skip


def _most_promising(
    predictor: LinkPredictor, link: Link, batch: ComputationGraphs, facts: Longs, most: int
) -> Longs:
    """All facts if they are no more than so many, else those of the highest gradient."""
    if len(facts) <= most:
        return facts
    graph = predictor.graph
    relation = np.array([graph.edge_types.index(link.type)])
    inputs = predictor.inputs(batch, predictor.needed(batch), np.arange(1), relation)
    gradient = edge_gradient(predictor, predictor.record(inputs)[1], len(batch.edges))
    gain = np.zeros(int(graph.fact.max(initial=-1)) + 1)
    np.add.at(gain, graph.fact[batch.edges], gradient)
    return np.sort(facts[np.argsort(-gain[facts], kind="stable")[:most]])


def _margin(
    scores: TargetScores, targets: Longs, facts: Longs, threshold: float, top_k: int | None
) -> Callable[[Sequence[Set]], Doubles]:
    """How far the first target is above the threshold, or above the k-th best of the others."""

    def measure(sets: Sequence[Set]) -> Doubles:
        logits = scores.logits(targets, [facts[list(members)] for members in sets])
        if top_k is None:
            return logits[:, 0] - threshold
        others = np.sort(logits[:, 1:], axis=1)[:, ::-1]
        return logits[:, 0] - others[:, top_k - 1]

    return measure


def _has_turned(
    found: FoundRemoval, after: Doubles, own: int, threshold: float, top_k: int | None
) -> bool:
    if top_k is None:
        return found.reached and bool(after[own] < threshold)
    return rank_among(after, own) > top_k


def _newcomer(
    before: Doubles, after: Doubles, own: int, first: int, top_k: int | None, threshold: Any
) -> int | None:
    """The best of those that are among the first now, and were not before."""
    old = np.argsort(-before, kind="stable")[:first]
    new = np.argsort(-after, kind="stable")
    for place in new[new != own][:first].tolist():
        predicted = top_k is not None or threshold is None or after[place] >= threshold
        if place not in old and predicted:
            return int(place)
    return None


def named_facts(graph: TypedGraph, facts: Sequence[int]) -> tuple[RemovedFact, ...]:
    """Return facts in words, each by a stored edge, one that reads forwards if there is one."""
    result = []
    for fact in facts:
        edges = np.flatnonzero(graph.fact == fact).tolist()
        edge = min(
            edges,
            key=lambda e: (graph.relation_words(graph.edge_types[graph.relation[e]])[1], e),
        )
        edge_type = graph.edge_types[graph.relation[edge]]
        src, dst = int(graph.src[edge]), int(graph.dst[edge])
        label, backwards = graph.relation_words(edge_type)
        result.append(
            RemovedFact(
                edge_type, int(graph.column[edge]), graph.node(src), graph.node(dst),
                graph.node_name(src), graph.node_name(dst), label, backwards,
                graph.edge_attributes(edge),
            )
        )  # fmt: skip
    return tuple(result)
