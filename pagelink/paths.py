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
from numba import njit

from pagelink.computation_graph import ComputationGraphs
from pagelink.constraints import ANYTHING, Automaton, Constraints
from pagelink.graph import Bools, Ints, Longs, TypedGraph

FIXED_POINT = 2.0**32
"""Cost units per nat: resolution 2e-10, far below the precision of a mask."""
MAX_COST = 1e6
"""Costs are cut here (exp(-1e6) is zero anyway), so that sums stay within 64 bits."""
UNREACHABLE = np.int64(2**62)
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
        position, backwards = _arcs_on_walks(
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
    arcs, lengths = _cheapest_paths(
        paths.node_ptr, paths.arc_ptr, paths.arc_dst, arc_cost, paths.arc_symbol, next_state,
        automaton.accepting, paths.max_length, num_paths, chosen,
    )  # fmt: skip
    return FoundPaths(arcs, lengths)


@njit(cache=True, nogil=True)
def _arcs_on_walks(src, dst, facts, inner, s, t, max_length):  # type: ignore[no-untyped-def]
    """Arcs u -> v with hops(s, u) + 1 + hops(v, t) <= max_length, through allowed inner nodes."""
    n = len(inner)
    ptr = np.zeros(n + 2, dtype=np.int64)
    for i in facts:
        ptr[src[i] + 2] += 1
        ptr[dst[i] + 2] += 1
    for v in range(n):
        ptr[v + 2] += ptr[v + 1]
    neighbour = np.empty(ptr[n + 1], dtype=np.int32)
    for i in facts:
        neighbour[ptr[src[i] + 1]] = dst[i]
        ptr[src[i] + 1] += 1
        neighbour[ptr[dst[i] + 1]] = src[i]
        ptr[dst[i] + 1] += 1

    far = max_length + 1
    hops = np.full((2, n), far, dtype=np.int64)
    queue = np.empty(n, dtype=np.int64)
    for way in range(2):
        start, end = (s, t) if way == 0 else (t, s)
        hops[way, start] = 0
        queue[0] = start
        count, i = 1, 0
        while i < count:
            u = queue[i]
            i += 1
            if hops[way, u] >= max_length or u == end:
                continue
            for j in range(ptr[u], ptr[u + 1]):
                v = neighbour[j]
                if hops[way, v] == far and (v == end or inner[v]):
                    hops[way, v] = hops[way, u] + 1
                    queue[count] = v
                    count += 1

    position = np.empty(2 * len(facts), dtype=np.int64)
    backwards = np.empty(2 * len(facts), dtype=np.bool_)
    count = 0
    for i in facts:
        for turn in range(2):
            u, v = (src[i], dst[i]) if turn == 0 else (dst[i], src[i])
            if u != t and v != s and hops[0, u] + 1 + hops[1, v] <= max_length:
                position[count] = i
                backwards[count] = turn == 1
                count += 1
    return position[:count], backwards[:count]


@njit(cache=True, nogil=True)
def _before(a, b, cost, sequence):  # type: ignore[no-untyped-def]
    """Whether partial path a is opened before b: cheaper, or equal and first in arc order."""
    if cost[a] != cost[b]:
        return cost[a] < cost[b]
    for i in range(sequence.shape[1]):
        if sequence[a, i] != sequence[b, i]:
            return sequence[a, i] < sequence[b, i]
    return False


@njit(cache=True, nogil=True)
def _cheapest_paths(  # type: ignore[no-untyped-def]
    node_ptr, arc_ptr, arc_dst, arc_cost, arc_symbol, next_state, accepting, max_length, num_paths,
    links,
):  # fmt: skip
    num_states = len(accepting)
    out_arcs = np.full((len(links), num_paths, max_length), -1, dtype=np.int64)
    out_length = np.zeros((len(links), num_paths), dtype=np.int64)
    for row in range(len(links)):
        link = links[row]
        n = node_ptr[link + 1] - node_ptr[link]
        if n == 0:
            continue
        first = node_ptr[link] + link
        ptr = arc_ptr[first : first + n + 1]

        # to_target[h, v, q]: cost of the cheapest walk of at most h hops from v to the target, node
        # 1, that the automaton reads from state q to an accepting one.
        to_target = np.full((max_length + 1, n, num_states), UNREACHABLE, dtype=np.int64)
        for q in range(num_states):
            if accepting[q]:
                to_target[:, 1, q] = 0
        for h in range(1, max_length + 1):
            for u in range(n):
                for q in range(num_states):
                    best = to_target[h - 1, u, q]
                    for a in range(ptr[u], ptr[u + 1]):
                        after = next_state[q, arc_symbol[a]]
                        if after >= 0:
                            rest = to_target[h - 1, arc_dst[a], after]
                            if rest != UNREACHABLE and arc_cost[a] + rest < best:
                                best = arc_cost[a] + rest
                    to_target[h, u, q] = best
        if to_target[max_length, 0, 0] == UNREACHABLE:
            continue

        size = 256
        sequence = np.full((size, max_length), -1, dtype=np.int64)
        spent = np.zeros(size, dtype=np.int64)
        total = np.zeros(size, dtype=np.int64)
        depth = np.zeros(size, dtype=np.int64)
        heap = np.zeros(size, dtype=np.int64)
        state = np.zeros(size, dtype=np.int64)
        total[0] = to_target[max_length, 0, 0]
        labels, height, found = 1, 1, 0
        while height > 0 and found < num_paths:
            label = heap[0]
            height -= 1
            heap[0] = heap[height]
            i = 0
            while True:
                child = 2 * i + 1
                if child >= height:
                    break
                if child + 1 < height and _before(heap[child + 1], heap[child], total, sequence):
                    child += 1
                if not _before(heap[child], heap[i], total, sequence):
                    break
                heap[i], heap[child] = heap[child], heap[i]
                i = child

            d = depth[label]
            u = 0 if d == 0 else arc_dst[sequence[label, d - 1]]
            if u == 1:
                out_arcs[row, found] = sequence[label]
                out_length[row, found] = d
                found += 1
                continue
            for a in range(ptr[u], ptr[u + 1]):
                v = arc_dst[a]
                after = next_state[state[label], arc_symbol[a]]
                if after < 0:
                    continue
                rest = to_target[max_length - d - 1, v, after]
                if rest == UNREACHABLE:
                    continue
                visited = v == 0
                for i in range(d):
                    if arc_dst[sequence[label, i]] == v:
                        visited = True
                if visited:
                    continue
                if labels == size:
                    size *= 2
                    sequence = _grown_rows(sequence, size)
                    spent = _grown(spent, size)
                    total = _grown(total, size)
                    depth = _grown(depth, size)
                    state = _grown(state, size)
                    heap = _grown(heap, size)
                sequence[labels] = sequence[label]
                sequence[labels, d] = a
                depth[labels] = d + 1
                state[labels] = after
                spent[labels] = spent[label] + arc_cost[a]
                total[labels] = spent[labels] + rest
                i = height
                heap[i] = labels
                height += 1
                labels += 1
                while i > 0 and _before(heap[i], heap[(i - 1) // 2], total, sequence):
                    heap[i], heap[(i - 1) // 2] = heap[(i - 1) // 2], heap[i]
                    i = (i - 1) // 2
    return out_arcs, out_length


@njit(cache=True, nogil=True)
def _grown(values, size):  # type: ignore[no-untyped-def]
    grown = np.zeros(size, dtype=values.dtype)
    grown[: len(values)] = values
    return grown


@njit(cache=True, nogil=True)
def _grown_rows(values, size):  # type: ignore[no-untyped-def]
    grown = np.full((size, values.shape[1]), -1, dtype=values.dtype)
    grown[: len(values)] = values
    return grown
