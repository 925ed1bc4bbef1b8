"""How nodes at one end of a link score, and rank, on the graph with facts really removed.

These are the targets of its source, or the sources of its target ("? treats psoriasis"): one end is
ranked and the other stays. Ranked are the open ends: all nodes of the type but those that the other
end is known to be linked to. A rank needs the scores of the other nodes, too, on the same edited
graph. Few are scored on their computation graphs, many of them on the whole graph at once,
whichever is less.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from pagelink.errors import GraphError, LinkError
from pagelink.graph.computation_graph import ComputationGraphs
from pagelink.graph.edited_graphs import Edits
from pagelink.graph.links import End, Link
from pagelink.graph.lookup import states_facts
from pagelink.graph.schema import EdgeType
from pagelink.graph.typed_graph import TypedGraph
from pagelink.model.borrowing import in_normal_mode
from pagelink.model.edited_logits import EditedLogits
from pagelink.model.noise import EPSILONS
from pagelink.runtime.arrays import Doubles, Longs
from pagelink.runtime.csr import Csr
from pagelink.runtime.timer import UNLIMITED, OutOfTimeError, Timer
from pagelink.search.work import Setup

Facts = Sequence[int] | Longs
"""A set of facts, by number."""

RANKING = "an end of the link was ranked"
MOST_RANKED = 100_000
"""Nodes that are ranked at most; of more, this number at random."""
NODES_AT_ONCE = 64
EDGES_AT_ONCE = 4_000_000
"""Edges of the computation graphs that are in memory at once, about."""


def open_ends(
    graph: TypedGraph, link: Link, known: Sequence[int] | Longs = (), end: End = "dst"
) -> Longs:
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


def sample_ends(
    graph: TypedGraph,
    link: Link,
    count: int,
    seed: int,
    end: End = "dst",
    known: Sequence[int] | Longs = (),
) -> tuple[Longs, bool]:
    """Return `count` open ends at random, ascending, the link's own among them.

    The sample depends on the seed, the link and `known` alone, which is as in `open_ends`. All are
    returned if there are no more.

    Returns:
        The ends, and whether they are a sample.
    """
    nodes, own = open_ends(graph, link, known, end), link.at(end)
    if len(nodes) <= count:
        return nodes, False
    rng = np.random.default_rng((seed, link.src, link.dst))
    others = rng.choice(nodes[nodes != own], count - 1, replace=False)
    return np.sort(np.append(others, own)), True


Known = Tensor | Mapping[EdgeType, Tensor]
"""Known links as explainers take them: of the first link type, or by type."""


@dataclass(frozen=True)
class KnownLinks:
    """Links that are true although the graph may not have them: their ends are not open."""

    link_type: EdgeType
    src: Longs
    """Flat nodes."""
    dst: Longs
    others: Mapping[EdgeType, KnownLinks] = field(default_factory=dict)
    """Those of further link types."""

    @classmethod
    def of(cls, graph: TypedGraph, link_type: EdgeType, pairs: Any = None) -> KnownLinks:
        """Take pairs of indices within the types of the two ends, [2, num_links]; None: no pairs.

        Of several link types they are given by type.

        Raises:
            GraphError: they are no such pairs.
        """
        if isinstance(pairs, Mapping):
            others = {t: cls.of(graph, t, each) for t, each in pairs.items() if t != link_type}
            return replace(cls.of(graph, link_type, pairs.get(link_type)), others=others)
        given = np.empty((2, 0), dtype=np.int64) if pairs is None else np.asarray(pairs)
        if given.ndim != 2 or len(given) != 2 or given.dtype.kind not in "iu":
            raise GraphError(
                "known must be pairs of indices, whole numbers of shape [2, num_links], got "
                f"{given.dtype} of shape {list(given.shape)}."
            )
        ends = []
        for node_type, row in zip(link_type[::2], given.astype(np.int64), strict=True):
            size = int(np.diff(graph.node_offset)[graph.node_types.index(node_type)])
            if len(row) and not 0 <= row.min() <= row.max() < size:
                raise GraphError(
                    f"known must have {node_type} indices in 0..{size - 1}, got {row.min()}.."
                    f"{row.max()}."
                )
            ends.append(row + graph.flat_index(node_type, 0))
        return cls(link_type, *ends)

    def pairs(self, graph: TypedGraph) -> Tensor:
        """Return the links as pairs of indices within the types of the two ends, [2, num_links]."""
        first = [graph.flat_index(node_type, 0) for node_type in self.link_type[::2]]
        return torch.from_numpy(np.stack([self.src - first[0], self.dst - first[1]]))

    def ends(self, link: Link, end: End = "dst") -> Longs:
        """Return the nodes that the other end of a link is known to be linked to."""
        if link.type != self.link_type:
            other = self.others.get(link.type)
            return np.empty(0, dtype=np.int64) if other is None else other.ends(link, end)
        stays = link.at("src" if end == "dst" else "dst")
        directions = ["src", "dst"] if link.type[0] == link.type[2] else [end]
        # Between nodes of one type (u, v) and (v, u) are one fact.
        return np.concatenate([self._linked(stays, sought) for sought in directions])

    def _linked(self, stays: int, sought: str) -> Longs:
        """The sources or targets of the links from or to a node: a look-up, not a scan of all."""
        near, far = self._sorted[sought]
        found: Longs = far[slice(*np.searchsorted(near, [stays, stays + 1]))]
        return found

    @cached_property
    def _sorted(self) -> dict[str, tuple[Longs, Longs]]:
        """By the end that is sought: the other ends, ascending, and these."""
        by_src, by_dst = (np.argsort(end, kind="stable") for end in (self.src, self.dst))
        return {
            "dst": (self.src[by_src], self.dst[by_src]),
            "src": (self.dst[by_dst], self.src[by_dst]),
        }


def places_of(logits: npt.ArrayLike) -> tuple[Longs, Longs]:
    """Return the rank of each of some scores, and with how many others it is tied.

    The rank is the mean of the best and the worst place that those of the same score could have,
    rounded down. Scores are the same if they differ by less than the arithmetic of the model may
    change. No number is the lowest score.

    Example:
        >>> ranks, ties = places_of([0.5, 2.0, 1.0, 1.0, 1.0])
        >>> ranks.tolist(), ties.tolist()
        ([5, 1, 3, 3, 3], [0, 0, 2, 2, 2])
    """
    values = np.array(logits, dtype=np.float64)
    values[np.isnan(values)] = -np.inf
    largest = np.abs(values[np.isfinite(values)]).max(initial=0.0)
    width = EPSILONS * float(np.finfo(np.float32).eps) * largest
    ordered = np.sort(values)
    higher = len(values) - np.searchsorted(ordered, values + width, side="right")
    as_high = len(values) - np.searchsorted(ordered, values - width, side="left")
    return (1 + higher + as_high) // 2, as_high - higher - 1


def place_among(logits: Doubles, own: int) -> tuple[int, int]:
    """Return the rank of one of some scores, and with how many others it is tied.

    Example:
        >>> place_among(np.array([0.5, 2.0, 1.0, 1.0]), 3)
        (2, 1)
    """
    ranks, ties = places_of(logits)
    return int(ranks[own]), int(ties[own])


def rank_among(logits: Doubles, own: int) -> int:
    """Return the rank of one of some scores; see `places_of`."""
    return place_among(logits, own)[0]


@dataclass(frozen=True)
class Standing:
    """Score and rank of an end of a link, on the graph as it is and on an edited one."""

    logit_before: float
    logit: float
    rank_before: int
    rank: int
    ties: int
    """Others of the same score on the edited graph."""
    of: int
    """How many nodes are ranked."""
    logits: Doubles = field(repr=False, compare=False)
    """Of all of them, on the edited graph."""

    @classmethod
    def among(cls, rows: Doubles, own: int) -> Standing:
        """Return how a node stands.

        Args:
            rows: the logits of all nodes, before and after, [2, num_nodes].
            own: the place of the node among them.
        """
        before, after = rows
        ranks = rank_among(before, own), *place_among(after, own)
        return cls(float(before[own]), float(after[own]), *ranks, len(after), after)


@in_normal_mode
def standing_without(
    setup: Setup, link: Link, nodes: Longs, facts: Sequence[int], end: End = "dst"
) -> Standing:
    """Return how a link stands with and without some facts, which are really removed.

    Args:
        setup: the model, and what makes computation graphs.
        link: the link in question.
        nodes: flat nodes that its end is ranked among, ascending, its own among them.
        facts: by number, as `checked_facts` gives them.
        end: the end that is ranked.
    """
    rows = EndScores(setup, link, end=end).logits(nodes, [(), facts])
    return Standing.among(rows, int(np.searchsorted(nodes, link.at(end))))


def checked_facts(graph: TypedGraph, facts: Sequence[int]) -> list[int]:
    """Return the numbers of facts, ascending, each once.

    Raises:
        LinkError: the graph has no such fact.
    """
    for fact in facts:
        if not 0 <= fact < graph.num_facts:
            raise LinkError(
                f"There is no fact {fact}; facts are numbered from 0 to {graph.num_facts - 1}."
            )
    return sorted(set(facts))


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
