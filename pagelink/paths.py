"""The k best simple paths under a hop bound and a degree bound, on true multigraphs.

First, per link, the few arcs that can lie on a path of at most l_max facts are cut out (two
breadth-first searches): the `PathGraphs`. They depend on the graph only. Then, for any edge mask,
the cheapest paths are found in them exactly: costs to the target by number of remaining hops are
computed and steer a best-first search. Costs are whole numbers (fixed point), so sums do not depend
on the order of adding, and ties are real ties; they are broken by the order of (node, relation).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pagelink.computation_graph import ComputationGraphs
from pagelink.constraints import ANYTHING, Automaton, Constraints
from pagelink.graph import Bools, Ints, Longs, TypedGraph
from pagelink.path_kernels import arcs_on_walks, cheapest_paths_kernel

FIXED_POINT = 2.0**32
"""Cost units per nat: resolution 2e-10, far below the precision of a mask."""
MAX_COST = 1e6
"""Costs are cut here (exp(-1e6) is zero anyway), so that sums stay within 64 bits."""
NO_CONSTRAINTS = Constraints()


@dataclass(frozen=True)
class PathGraphs:
    """Per link, the arcs that lie on an s-t walk of at most l_max allowed facts.

    `arc_ptr[node_ptr[i]:]` are the arc ranges of the nodes of link i, source first, target second.
    """

    max_length: int
    node_ptr: Longs
    nodes: Ints
    """Flat nodes."""
    arc_ptr: Longs
    """One more than nodes per link: range of arcs of each node."""
    arc_dst: Ints
    """Position of the head within the link's nodes."""
    arc_slot: Longs
    """Position of the walked edge within the edges of the batch."""
    arc_reversed: Bools
    arc_log_degree: npt.NDArray[np.float64]
    """log D_v of the head v; 0 where the head is the target."""
    arc_symbol: Ints
    """What the automaton reads; all 0 where it reads nothing."""
    automaton: Automaton

    @property
    def num_links(self) -> int:
        """Number of links."""
        return len(self.node_ptr) - 1

    def has_path(self) -> Bools:
        """Whether each link has any path."""
        if self.automaton is ANYTHING:  # then a shortest walk is a simple path
            return np.diff(self.node_ptr) > 0
        free = np.zeros(len(self.arc_slot), dtype=np.int64)
        return cheapest_paths(self, free, 1).lengths[:, 0] > 0

    def arcs_of(self, link: int) -> slice:
        """The arcs of a link."""
        first = self.node_ptr[link] + link
        return slice(self.arc_ptr[first], self.arc_ptr[self.node_ptr[link + 1] + link])


@dataclass(frozen=True)
class FoundPaths:
    """The best paths of each link, best first: arcs of `PathGraphs`, -1 behind a path's end."""

    arcs: Longs
    """[num_links, num_paths, max_length]"""
    lengths: Longs
    """[num_links, num_paths], 0 where there are no more paths."""


def allowed_facts(
    graph: TypedGraph,
    batch: ComputationGraphs,
    kept: Bools | None = None,
    constraints: Constraints = NO_CONSTRAINTS,
) -> Bools:
    """Return the edges of the batch that stand for a fact that may lie on a path.

    A fact may if the model can see it, pruning kept it, and no constraint leaves it out.
    """
    allowed = graph.representative[batch.edges] & batch.fact_visible
    if constraints.edges is not None:
        allowed &= constraints.edges[batch.edges]
    return allowed if kept is None else allowed & kept


def build_path_graphs(
    graph: TypedGraph,
    batch: ComputationGraphs,
    allowed: Bools,
    max_length: int,
    max_degree: int | None = None,
    constraints: Constraints = NO_CONSTRAINTS,
) -> PathGraphs:
    """Cut out of each computation graph what can lie on a path of at most `max_length` facts.

    Args:
        graph: the flat graph.
        batch: the computation graphs.
        allowed: the representative edges of the facts that may lie on a path.
        max_length: l_max.
        max_degree: D_max, for inner nodes. None: no bound.
        constraints: what else must hold of a path.
    """
    parts: list[Any] = []
    for i in range(batch.num_links):
        nodes = batch.nodes[batch.node_ptr[i] : batch.node_ptr[i + 1]]
        edges = slice(batch.edge_ptr[i], batch.edge_ptr[i + 1])
        s, t = np.searchsorted(nodes, [batch.link_src[i], batch.link_dst[i]])
        inner = np.ones(len(nodes), dtype=np.bool_)
        if max_degree is not None:
            inner = graph.degree[nodes] <= max_degree
        if constraints.nodes is not None:
            inner &= constraints.nodes[nodes]
        position, backwards = arcs_on_walks(
            batch.src[edges], batch.dst[edges], np.flatnonzero(allowed[edges]), inner,
            s, t, max_length,
        )  # fmt: skip
        parts.append(_pack(graph, batch, i, position, backwards, int(s), int(t)))
    columns = [np.concatenate([part[c] for part in parts]) for c in range(7)]
    nodes, counts, arc_dst, slot, is_reversed, log_degree, head = columns
    return PathGraphs(
        max_length=max_length,
        node_ptr=np.cumsum([0] + [len(part[0]) for part in parts], dtype=np.int64),
        nodes=nodes,
        arc_ptr=np.cumsum(counts, dtype=np.int64),
        arc_dst=arc_dst,
        arc_slot=slot,
        arc_reversed=is_reversed,
        arc_log_degree=log_degree,
        arc_symbol=_symbols(graph, batch, constraints, slot, is_reversed, head),
        automaton=constraints.automaton,
    )


def _symbols(
    graph: TypedGraph,
    batch: ComputationGraphs,
    constraints: Constraints,
    slot: Longs,
    is_reversed: Bools,
    head: Ints,
) -> Ints:
    if constraints.automaton is ANYTHING:
        return np.zeros(len(slot), dtype=np.int32)
    required = np.zeros(len(slot), dtype=np.bool_)
    if constraints.required is not None:
        required = constraints.required[head]
    return Automaton.symbols(graph.relation[batch.edges[slot]], is_reversed, required)


def _pack(
    graph: TypedGraph,
    batch: ComputationGraphs,
    link: int,
    position: Longs,
    backwards: Bools,
    s: int,
    t: int,
) -> tuple[Any, ...]:
    """Number the nodes of a link's arcs (s, t, then the others), and order its arcs."""
    first = batch.edge_ptr[link]
    src, dst = batch.src[first + position], batch.dst[first + position]
    edge = batch.edges[first + position]
    tail, head = np.where(backwards, dst, src), np.where(backwards, src, dst)
    opposite = graph.opposite[edge]
    is_reversed = backwards & (opposite < 0)
    walked = np.where(backwards & ~is_reversed, opposite, edge)
    slot = first + np.searchsorted(batch.edges[first : batch.edge_ptr[link + 1]], walked)

    order = np.lexsort((graph.relation_class[graph.relation[edge]], head, tail))
    tail, head, slot, is_reversed = (a[order] for a in (tail, head, slot, is_reversed))
    inner = np.setdiff1d(np.concatenate([tail, head]), [s, t])
    local = np.concatenate([[s, t], inner]) if len(tail) else np.empty(0, dtype=np.int64)
    number = np.full(batch.node_ptr[link + 1] - batch.node_ptr[link], -1, dtype=np.int32)
    number[local] = np.arange(len(local))
    by_tail = np.argsort(number[tail], kind="stable")
    tail, head, slot, is_reversed = (a[by_tail] for a in (tail, head, slot, is_reversed))
    nodes = batch.nodes[batch.node_ptr[link] + local]
    flat_head = batch.nodes[batch.node_ptr[link] + head]
    log_degree = np.log(np.where(head == t, 1, graph.degree[flat_head]))
    counts = np.concatenate([[0], np.bincount(number[tail], minlength=len(local))])
    return nodes, counts, number[head], slot, is_reversed, log_degree, flat_head


def best_paths(
    paths: PathGraphs,
    arc_logits: npt.NDArray[np.float32],
    num_paths: int,
    links: Longs | None = None,
) -> FoundPaths:
    """Find the `num_paths` paths of highest Score(p) = sum of log sigmoid(M_e) - log D_v per link.

    Args:
        paths: where to search.
        arc_logits: M of the walked edge of every arc. `inf` leaves the mask out of the score.
        num_paths: k.
        links: which links to search, in this order. None: all of them.
    """
    cost = np.logaddexp(0, -arc_logits.astype(np.float64)) + paths.arc_log_degree
    whole = np.rint(np.minimum(cost, MAX_COST) * FIXED_POINT).astype(np.int64)
    return cheapest_paths(paths, whole, num_paths, links)


def cheapest_paths(
    paths: PathGraphs, arc_cost: Longs, num_paths: int, links: Longs | None = None
) -> FoundPaths:
    """Find the `num_paths` cheapest simple paths per link for whole, non-negative arc costs."""
    chosen = np.arange(paths.num_links) if links is None else links
    automaton = paths.automaton
    next_state = automaton.next_state
    if automaton is ANYTHING:
        next_state = np.zeros((1, 1), dtype=np.int32)
    arcs, lengths = cheapest_paths_kernel(
        paths.node_ptr, paths.arc_ptr, paths.arc_dst, arc_cost, paths.arc_symbol, next_state,
        automaton.accepting, paths.max_length, num_paths, chosen,
    )  # fmt: skip
    return FoundPaths(arcs, lengths)
