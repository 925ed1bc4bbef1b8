"""How nodes at one end of a link score, and rank, on the graph with facts really removed.

These are the targets of its source, or the sources of its target ("? treats psoriasis"): one end is
ranked and the other stays. A rank needs the scores of the other nodes, too, on the same edited
graph. Few are scored on their computation graphs, many of them on the whole graph at once,
whichever is less.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from pagelink.graph.computation_graph import ComputationGraphs
from pagelink.graph.edited_graphs import Edits
from pagelink.graph.links import End, Link
from pagelink.graph.lookup import states_facts
from pagelink.graph.typed_graph import TypedGraph
from pagelink.model.edited_logits import EditedLogits
from pagelink.runtime.arrays import Doubles, Longs
from pagelink.runtime.csr import Csr
from pagelink.runtime.timer import UNLIMITED, OutOfTimeError, Timer
from pagelink.search.work import Setup

Facts = Sequence[int] | Longs
"""A set of facts, by number."""

RANKING = "an end of the link was ranked"
NODES_AT_ONCE = 64
EDGES_AT_ONCE = 4_000_000
"""Edges of the computation graphs that are in memory at once, about."""


def open_ends(graph: TypedGraph, link: Link, known: Sequence[int] = (), end: End = "dst") -> Longs:
    """Return the targets that the source of a link may be linked to, as flat nodes, ascending.

    Those that it is linked to already are left out, and so is the source itself; the target of the
    link is among them. With `end="src"`, the sources that its target may be linked to.

    Args:
        graph: the flat graph.
        link: the link.
        known: further nodes to leave out, as flat nodes: links that are true but held out.
        end: which end of the link is sought.
    """
    node_type = link.type[0 if end == "src" else 2]
    stays = link.at("dst" if end == "src" else "src")
    first = graph.flat_index(node_type, 0)
    last = int(graph.node_offset[graph.node_types.index(node_type) + 1])
    is_open = np.ones(graph.num_nodes, dtype=np.bool_)
    arcs = graph.arcs_of(stays)
    kind = graph.relation_class[graph.relation[graph.arc_edge[arcs]]]
    same = kind == graph.relation_class[graph.edge_types.index(link.type)]
    is_open[graph.arc_dst[arcs][same]] = False
    is_open[np.asarray(known, dtype=np.int64)] = False
    is_open[stays] = False
    is_open[link.at(end)] = True
    return first + np.flatnonzero(is_open[first:last])


def sample_ends(graph: TypedGraph, link: Link, count: int, seed: int, end: End = "dst") -> Longs:
    """Return `count` open ends at random, ascending, the link's own among them.

    The sample depends on the seed and the link alone. All are returned if there are no more.
    """
    nodes, own = open_ends(graph, link, end=end), link.at(end)
    if len(nodes) <= count:
        return nodes
    rng = np.random.default_rng((seed, link.src, link.dst))
    others = rng.choice(nodes[nodes != own], count - 1, replace=False)
    return np.sort(np.append(others, own))


def rank_among(logits: Doubles, own: int) -> int:
    """Return the rank of a node: one more than there are others with a higher logit.

    Example:
        >>> rank_among(np.array([0.5, 2.0, 1.0, 1.0]), 2)
        2
    """
    return 1 + int((logits > logits[own]).sum())


class EndScores:
    """Scores targets of one source, or sources of one target, on graphs without some facts.

    The link in question is taken out of the graph in any case, for all of them.

    Args:
        setup: the model, and what makes computation graphs.
        link: the link in question.
        timer: when to stop.
        doing: what it is for, as the timer notes it.
        end: the end that is scored; the other one stays.
    """

    def __init__(
        self,
        setup: Setup,
        link: Link,
        timer: Timer = UNLIMITED,
        doing: str = RANKING,
        end: End = "dst",
    ) -> None:
        self._predictor, self._graph = setup.predictor, setup.graph
        self._timer, self._doing = timer, doing
        self._batches = setup.batches
        self._link, self._end = link, end
        self._relation = self._graph.edge_types.index(link.type)
        self._known: dict[tuple[int, ...], list[ComputationGraphs]] = {}

    def logits(self, nodes: Longs, removed: Sequence[Facts]) -> Doubles:
        """Return the logits of nodes, one row per set of facts that is removed from the graph.

        Args:
            nodes: flat nodes of the type of the scored end.
            removed: sets of facts.

        Raises:
            OutOfTimeError: the time was over before all of it was scored.
        """
        if not len(nodes) or not len(removed):
            return np.empty((len(removed), len(nodes)))
        own = np.array([] if self._link.fact < 0 else [self._link.fact], dtype=np.int64)
        sets = [np.unique(np.append(np.asarray(facts, np.int64), own)) for facts in removed]
        if self._whole_graph_is_less(len(nodes), len(sets)):
            return self._on_whole_graph(nodes, sets)
        (one,) = self._extract((self._link.at(self._end),))
        at_once = max(min(NODES_AT_ONCE, EDGES_AT_ONCE // max(len(one.edges), 1)), 1)
        parts = [
            self._on_computation_graphs(nodes[i : i + at_once], sets)
            for i in range(0, len(nodes), at_once)
        ]
        return np.concatenate(parts, axis=1)

    def _whole_graph_is_less(self, num_nodes: int, num_sets: int) -> bool:
        if num_nodes == 1:
            return False
        predictor = self._predictor
        if predictor.mode != "subgraphs":
            return True
        (one,) = self._extract((self._link.at(self._end),))
        passes = 1 if predictor.shares_unedited else num_sets  # copies are small beside their graph
        edges = int(predictor.needed(one).sum())
        return num_nodes * passes * edges > num_sets * self._graph.num_edges

    def _extract(self, nodes: tuple[int, ...]) -> list[ComputationGraphs]:
        if nodes not in self._known:
            links = [self._link.moved(self._end, node) for node in nodes]
            if len(self._known) > 2:
                self._known.clear()
            self._known[nodes] = self._batches.extract(links, None, self._timer.until)
        return self._known[nodes]

    def _on_whole_graph(self, nodes: Longs, sets: list[Longs]) -> Doubles:
        answers = np.empty((len(sets), len(nodes)))
        src, dst, relation = (
            np.full(len(nodes), v) for v in (self._link.src, self._link.dst, self._relation)
        )
        (src if self._end == "src" else dst)[:] = nodes
        size = self._graph.num_edges
        for i, facts in enumerate(sets):
            if not self._timer.allows(size, self._doing):
                raise OutOfTimeError
            with self._timer.step(size):
                answers[i] = self._one_pass(src, dst, relation, facts)
        return answers

    def _one_pass(self, src: Longs, dst: Longs, relation: Longs, facts: Longs) -> Doubles:
        gone = states_facts(self._graph, facts)
        inputs = self._predictor.full_graph(src, dst, relation, without=gone)
        return self._predictor.logits(inputs).cpu().double().numpy()

    def _on_computation_graphs(self, nodes: Longs, sets: list[Longs]) -> Doubles:
        batch = ComputationGraphs.joined(self._extract(tuple(nodes.tolist())))
        graph = self._predictor.needed(batch)
        relation = np.full(len(nodes), self._relation)
        edits = removal_from_each(self._graph, batch, graph, sets)
        model = EditedLogits(self._predictor, batch, relation, self._timer, self._doing)
        answers = model.logits(graph, edits)
        if not model.complete:
            raise OutOfTimeError
        return answers.reshape(len(nodes), len(sets)).T


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
