"""How a source's targets score, and rank, on the graph with facts really removed.

A rank needs the scores of the other targets, too, on the same edited graph. Few targets are scored
on their computation graphs, many of them on the whole graph at once, whichever is less.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from pagelink.graph.computation_graph import ComputationGraphs
from pagelink.graph.edited_graphs import Edits
from pagelink.graph.links import Link
from pagelink.graph.lookup import states_facts
from pagelink.graph.typed_graph import TypedGraph
from pagelink.model.edited_logits import EditedLogits
from pagelink.runtime.arrays import Doubles, Longs
from pagelink.runtime.csr import Csr
from pagelink.runtime.timer import UNLIMITED, OutOfTimeError, Timer
from pagelink.search.work import Setup

Facts = Sequence[int] | Longs
"""A set of facts, by number."""

RANKING = "the target was ranked"
TARGETS_AT_ONCE = 64
EDGES_AT_ONCE = 4_000_000
"""Edges of the computation graphs that are in memory at once, about."""


def open_targets(graph: TypedGraph, link: Link, known: Sequence[int] = ()) -> Longs:
    """Return the targets that the source of a link may be linked to, as flat nodes, ascending.

    Those that it is linked to already are left out, and so is the source itself; the target of the
    link is among them.

    Args:
        graph: the flat graph.
        link: the link.
        known: further targets to leave out, as flat nodes: links that are true but held out.
    """
    first = graph.flat_index(link.type[2], 0)
    last = int(graph.node_offset[graph.node_types.index(link.type[2]) + 1])
    is_open = np.ones(graph.num_nodes, dtype=np.bool_)
    arcs = graph.arcs_of(link.src)
    kind = graph.relation_class[graph.relation[graph.arc_edge[arcs]]]
    same = kind == graph.relation_class[graph.edge_types.index(link.type)]
    is_open[graph.arc_dst[arcs][same]] = False
    is_open[np.asarray(known, dtype=np.int64)] = False
    is_open[link.src] = False
    is_open[link.dst] = True
    return first + np.flatnonzero(is_open[first:last])


def sample_targets(graph: TypedGraph, link: Link, count: int, seed: int) -> Longs:
    """Return `count` open targets at random, ascending, the link's own among them.

    The sample depends on the seed and the link alone. All are returned if there are no more.
    """
    targets = open_targets(graph, link)
    if len(targets) <= count:
        return targets
    rng = np.random.default_rng((seed, link.src, link.dst))
    others = rng.choice(targets[targets != link.dst], count - 1, replace=False)
    return np.sort(np.append(others, link.dst))


def rank_among(logits: Doubles, own: int) -> int:
    """Return the rank of a target: one more than there are others with a higher logit.

    Example:
        >>> rank_among(np.array([0.5, 2.0, 1.0, 1.0]), 2)
        2
    """
    return 1 + int((logits > logits[own]).sum())


class TargetScores:
    """Scores targets of one source on graphs without some facts.

    The link in question is taken out of the graph in any case, for all targets.

    Args:
        setup: the model, and what makes computation graphs.
        link: the link in question.
        timer: when to stop.
        doing: what it is for, as the timer notes it.
    """

    def __init__(
        self, setup: Setup, link: Link, timer: Timer = UNLIMITED, doing: str = RANKING
    ) -> None:
        self._predictor, self._graph = setup.predictor, setup.graph
        self._timer, self._doing = timer, doing
        self._batches = setup.batches
        self._link = link
        self._relation = self._graph.edge_types.index(link.type)
        self._known: dict[tuple[int, ...], list[ComputationGraphs]] = {}

    def logits(self, targets: Longs, removed: Sequence[Facts]) -> Doubles:
        """Return the logits of targets, one row per set of facts that is removed from the graph.

        Args:
            targets: flat nodes of the target's type.
            removed: sets of facts.

        Raises:
            OutOfTimeError: the time was over before all of it was scored.
        """
        if not len(targets) or not len(removed):
            return np.empty((len(removed), len(targets)))
        own = np.array([] if self._link.fact < 0 else [self._link.fact], dtype=np.int64)
        sets = [np.unique(np.append(np.asarray(facts, np.int64), own)) for facts in removed]
        if self._whole_graph_is_less(len(targets), len(sets)):
            return self._on_whole_graph(targets, sets)
        (one,) = self._extract((self._link.dst,))
        at_once = max(min(TARGETS_AT_ONCE, EDGES_AT_ONCE // max(len(one.edges), 1)), 1)
        parts = [
            self._on_computation_graphs(targets[i : i + at_once], sets)
            for i in range(0, len(targets), at_once)
        ]
        return np.concatenate(parts, axis=1)

    def _whole_graph_is_less(self, num_targets: int, num_sets: int) -> bool:
        if num_targets == 1:
            return False
        predictor = self._predictor
        if predictor.mode != "subgraphs":
            return True
        (one,) = self._extract((self._link.dst,))
        passes = 1 if predictor.shares_unedited else num_sets  # copies are small beside their graph
        edges = int(predictor.needed(one).sum())
        return num_targets * passes * edges > num_sets * self._graph.num_edges

    def _extract(self, targets: tuple[int, ...]) -> list[ComputationGraphs]:
        if targets not in self._known:
            links = [dataclasses.replace(self._link, dst=dst, fact=-1) for dst in targets]
            if len(self._known) > 2:
                self._known.clear()
            self._known[targets] = self._batches.extract(links, None, self._timer.until)
        return self._known[targets]

    def _on_whole_graph(self, targets: Longs, sets: list[Longs]) -> Doubles:
        answers = np.empty((len(sets), len(targets)))
        src, relation = (np.full(len(targets), v) for v in (self._link.src, self._relation))
        size = self._graph.num_edges
        for i, facts in enumerate(sets):
            if not self._timer.allows(size, self._doing):
                raise OutOfTimeError
            with self._timer.step(size):
                answers[i] = self._one_pass(src, targets, relation, facts)
        return answers

    def _one_pass(self, src: Longs, targets: Longs, relation: Longs, facts: Longs) -> Doubles:
        gone = states_facts(self._graph, facts)
        inputs = self._predictor.full_graph(src, targets, relation, without=gone)
        return self._predictor.logits(inputs).cpu().double().numpy()

    def _on_computation_graphs(self, targets: Longs, sets: list[Longs]) -> Doubles:
        batch = ComputationGraphs.joined(self._extract(tuple(targets.tolist())))
        graph = self._predictor.needed(batch)
        relation = np.full(len(targets), self._relation)
        edits = removal_from_each(self._graph, batch, graph, sets)
        model = EditedLogits(self._predictor, batch, relation, self._timer, self._doing)
        answers = model.logits(graph, edits)
        if not model.complete:
            raise OutOfTimeError
        return answers.reshape(len(targets), len(sets)).T


def removal_from_each(
    graph: TypedGraph, batch: ComputationGraphs, edges: npt.NDArray[np.bool_], sets: list[Longs]
) -> Edits:
    """Edits that remove each of some sets of facts from each graph of a batch, graph by graph.

    Args:
        graph: the flat graph.
        batch: the computation graphs.
        edges: the edges of the batch that the edited graphs have; the others are not touched.
        sets: facts by number.
    """
    every = np.unique(np.concatenate(sets)) if sets else np.empty(0, dtype=np.int64)
    fact = graph.fact[batch.edges].astype(np.int64)
    slots = np.flatnonzero(edges & np.isin(fact, every))
    link = np.searchsorted(batch.edge_ptr, slots, side="right") - 1
    key = link * len(every) + np.searchsorted(every, fact[slots])
    places = Csr.grouped(key, batch.num_links * len(every))
    by_fact = Csr(places.ptr, slots[places.values])
    sizes = [len(facts) for facts in sets]
    members = np.searchsorted(every, np.concatenate(sets)) if sets else every
    wanted = (np.arange(batch.num_links)[:, None] * len(every) + members[None]).ravel()
    ptr = np.concatenate([[0], np.cumsum(np.tile(sizes, batch.num_links))]).astype(np.int64)
    link = np.repeat(np.arange(batch.num_links), len(sets))
    return Edits(link, by_fact.take(wanted).joined(ptr))
