"""Edited copies of computation graphs, as small as they can be.

A copy is a graph of the batch with a few edges taken out or put in. Only what such an edge can
change on its way to s or t is copied: the nodes downstream of it, with their in-edges. All other
nodes are those of the graph that is edited, which is there once for all copies of a link.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np

from pagelink.graph.computation_graph import ComputationGraphs
from pagelink.runtime.arrays import Bools, Csr, Ints, Longs
from pagelink.runtime.kernels import kernel


@dataclass(frozen=True)
class Edits:
    """What to edit: graph g is that of link `link[g]`, other in `slots[ptr[g]:ptr[g + 1]]`.

    An edge (a position in the edges of the batch) that the graph has is taken out, one that it does
    not have is put in.
    """

    link: Longs
    ptr: Longs
    slots: Longs

    @classmethod
    def none(cls, links: Longs) -> Edits:
        """A copy of each of some links, unchanged."""
        return cls(links, np.zeros(len(links) + 1, dtype=np.int64), np.empty(0, dtype=np.int64))

    @property
    def num_graphs(self) -> int:
        """Number of copies."""
        return len(self.link)

    @classmethod
    def joined(cls, parts: Sequence[Edits]) -> Edits:
        """The copies of several, one after the other."""
        slots = reduce(Csr.followed_by, (Csr(part.ptr, part.slots) for part in parts))
        return cls(np.concatenate([part.link for part in parts]), slots.ptr, slots.values)

    @classmethod
    def towards(cls, batch: ComputationGraphs, other: Bools, links: Longs) -> Edits:
        """A copy of each of some links that differs in the edges that are marked."""
        slots = np.flatnonzero(other)
        of_links = Csr(np.searchsorted(slots, batch.edge_ptr), slots).take(links)
        return cls(links, of_links.ptr, of_links.values)

    def chosen(self, order: Longs) -> Edits:
        """The copies of these positions, in this order."""
        slots = Csr(self.ptr, self.slots).take(order)
        return Edits(self.link[order], slots.ptr, slots.values)

    def part(self, first: int, last: int) -> Edits:
        """Some of the copies."""
        start, stop = self.ptr[first], self.ptr[last]
        return Edits(self.link[first:last], self.ptr[first : last + 1] - start,
                     self.slots[start:stop])  # fmt: skip


@dataclass(frozen=True)
class EditedGraphs:
    """The nodes and edges of edited copies.

    Ends are counted through: first the nodes of the batch, then the copied ones.
    """

    node_of: Ints
    """Per copied node, its position among the nodes of the batch."""
    slots: Longs
    """Per edge of the copies, its position among the edges of the batch."""
    src: Longs
    dst: Longs
    ends: Longs
    """[2, num_graphs]: source and target of the link, in each copy."""


class GraphEditor:
    """Makes edited copies of the graphs of a batch.

    Args:
        batch: the computation graphs.
        num_hops: how far the model sees; what is farther from s and t cannot move the score.
    """

    def __init__(self, batch: ComputationGraphs, num_hops: int) -> None:
        self._batch = batch
        self._num_hops = num_hops
        self._in_ptr = _in_ranges(batch.node_ptr, batch.edge_ptr, batch.dst)
        self._ends = _places_of_ends(
            batch.node_ptr, batch.nodes, np.ascontiguousarray(batch.link_src, dtype=np.int64),
            np.ascontiguousarray(batch.link_dst, dtype=np.int64),
        )  # fmt: skip
        self._near = _near_nodes(batch.node_ptr, batch.hops, num_hops)

    def most_edges(self, edits: Edits) -> Longs:
        """How many edges each copy has at most, where the model sees no more than two hops."""
        batch = self._batch
        counts: Longs = _most_edges(
            edits.link, edits.ptr, edits.slots, batch.node_ptr, batch.dst, self._in_ptr, self._ends
        )
        return counts

    def copy(self, edits: Edits, graph: Bools) -> EditedGraphs:
        """Make copies of a graph, given as which edges of the batch it has."""
        batch = self._batch
        return EditedGraphs(
            *_copy(
                edits.link, edits.ptr, edits.slots, graph, batch.node_ptr, batch.hops, batch.src,
                batch.dst, self._in_ptr, self._ends, *self._near, self._num_hops,
            )
        )  # fmt: skip


@kernel
def _in_ranges(node_ptr, edge_ptr, dst):  # type: ignore[no-untyped-def]
    """Per node of the batch, where its in-edges begin; the edges of a link are in order of dst."""
    in_ptr = np.zeros(node_ptr[-1] + 1, dtype=np.int64)
    for link in range(len(node_ptr) - 1):
        for e in range(edge_ptr[link], edge_ptr[link + 1]):
            in_ptr[node_ptr[link] + dst[e] + 1] += 1
    for v in range(node_ptr[-1]):
        in_ptr[v + 1] += in_ptr[v]
    return in_ptr


@kernel
def _most_edges(link_of, change_ptr, changes, node_ptr, dst, in_ptr, ends):  # type: ignore[no-untyped-def]
    counts = np.zeros(len(link_of), dtype=np.int64)
    seen = np.full(node_ptr[-1], -1, dtype=np.int64)  # the last copy that counted a node
    for c in range(len(link_of)):
        for side in range(2):
            v = ends[side, link_of[c]]
            if seen[v] != c:
                seen[v] = c
                counts[c] += in_ptr[v + 1] - in_ptr[v]
        for i in range(change_ptr[c], change_ptr[c + 1]):
            v = node_ptr[link_of[c]] + dst[changes[i]]
            if seen[v] != c:
                seen[v] = c
                counts[c] += in_ptr[v + 1] - in_ptr[v]
    return counts


@kernel
def _places_of_ends(node_ptr, nodes, link_src, link_dst):  # type: ignore[no-untyped-def]
    ends = np.empty((2, len(link_src)), dtype=np.int64)
    for link in range(len(link_src)):
        here = nodes[node_ptr[link] : node_ptr[link + 1]]
        ends[0, link] = node_ptr[link] + np.searchsorted(here, link_src[link])
        ends[1, link] = node_ptr[link] + np.searchsorted(here, link_dst[link])
    return ends


@kernel
def _near_nodes(node_ptr, hops, num_hops):  # type: ignore[no-untyped-def]
    """Per link, the nodes within num_hops - 2 hops, the nearest first, and their ranges."""
    num_links = len(node_ptr) - 1
    ptr = np.zeros(num_links + 1, dtype=np.int64)
    for link in range(num_links):
        for v in range(node_ptr[link], node_ptr[link + 1]):
            if hops[v] <= num_hops - 2:
                ptr[link + 1] += 1
    for link in range(num_links):
        ptr[link + 1] += ptr[link]
    near = np.empty(ptr[-1], dtype=np.int64)
    for link in range(num_links):
        i = ptr[link]
        for hop in range(num_hops - 1):
            for v in range(node_ptr[link], node_ptr[link + 1]):
                if hops[v] == hop:
                    near[i] = v
                    i += 1
    return ptr, near


@kernel
def _grown(values, size):  # type: ignore[no-untyped-def]
    grown = np.empty(size, dtype=values.dtype)
    for i in range(len(values)):
        grown[i] = values[i]
    return grown


@kernel
def _copy(  # type: ignore[no-untyped-def]
    link_of, change_ptr, changes, graph, node_ptr, hops, src, dst, in_ptr, ends, near_ptr, near,
    num_hops,
):  # fmt: skip
    total_nodes = node_ptr[-1]
    mine = np.full(total_nodes, -1, dtype=np.int64)  # the copied node of each node, in this copy
    changed = np.zeros(len(graph), dtype=np.bool_)
    node_of = np.empty(1024, dtype=np.int32)
    out_slots = np.empty(4096, dtype=np.int64)
    out_src = np.empty(4096, dtype=np.int64)
    out_dst = np.empty(4096, dtype=np.int64)
    out_ends = np.empty((2, len(link_of)), dtype=np.int64)
    num_nodes = 0
    num_edges = 0
    for c in range(len(link_of)):
        link = link_of[c]
        shift = node_ptr[link]
        first = num_nodes
        most = num_nodes + 2 + change_ptr[c + 1] - change_ptr[c]
        most += near_ptr[link + 1] - near_ptr[link]
        if most > len(node_of):
            node_of = _grown(node_of, 2 * most)
        for side in range(2):
            v = ends[side, link]
            if mine[v] < 0:
                mine[v] = num_nodes
                node_of[num_nodes] = v
                num_nodes += 1
            out_ends[side, c] = total_nodes + mine[v]
        for i in range(change_ptr[c], change_ptr[c + 1]):
            e = changes[i]
            changed[e] = True
            v = shift + dst[e]
            if hops[v] < num_hops and mine[v] < 0:
                mine[v] = num_nodes
                node_of[num_nodes] = v
                num_nodes += 1
        # A change that is `step` hops behind reaches nodes that are near enough to count.
        for step in range(1, num_hops):
            for i in range(near_ptr[link], near_ptr[link + 1]):
                v = near[i]
                if hops[v] > num_hops - 1 - step:
                    break
                if mine[v] >= 0:
                    continue
                for e in range(in_ptr[v], in_ptr[v + 1]):
                    if graph[e] != changed[e] and mine[shift + src[e]] >= 0:
                        mine[v] = num_nodes
                        node_of[num_nodes] = v
                        num_nodes += 1
                        break
        for i in range(first, num_nodes):
            v = node_of[i]
            needed = num_edges + in_ptr[v + 1] - in_ptr[v]
            if needed > len(out_slots):
                out_slots = _grown(out_slots, 2 * needed)
                out_src = _grown(out_src, 2 * needed)
                out_dst = _grown(out_dst, 2 * needed)
            for e in range(in_ptr[v], in_ptr[v + 1]):
                if graph[e] != changed[e]:
                    u = shift + src[e]
                    out_slots[num_edges] = e
                    out_src[num_edges] = u if mine[u] < 0 else total_nodes + mine[u]
                    out_dst[num_edges] = total_nodes + i
                    num_edges += 1
        for i in range(first, num_nodes):
            mine[node_of[i]] = -1
        for i in range(change_ptr[c], change_ptr[c + 1]):
            changed[changes[i]] = False
    return (
        node_of[:num_nodes], out_slots[:num_edges], out_src[:num_edges], out_dst[:num_edges],
        out_ends,
    )  # fmt: skip
