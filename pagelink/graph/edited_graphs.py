"""Edited computation graphs, as small as they can be.

An edited graph is a graph of the batch with a few edges taken out, put in, or led elsewhere. Only
what such an edge can change on its way to s or t is made anew: the nodes downstream of it, with
their in-edges. All other nodes are those of the graph that is edited, which is there once for all
edited graphs of a link.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import reduce

import numpy as np

from pagelink.graph.computation_graph import ComputationGraphs
from pagelink.runtime.arrays import Bools, Ints, Longs
from pagelink.runtime.csr import Csr
from pagelink.runtime.kernels import kernel
from pagelink.runtime.rooms import grown


@dataclass(frozen=True)
class Edits:
    """What to edit: graph g is that of link `link[g]`, changed in the edges of list g of `slots`.

    An edge (a position in the edges of the batch) that the graph has is taken out, one that it does
    not have is put in.
    """

    link: Longs
    slots: Csr
    moved: Csr | None = None
    """Per graph, columns of `table`: edges that are put in elsewhere; None: there are none."""
    table: Longs = field(default_factory=lambda: np.empty((3, 0), dtype=np.int64))
    """[3, num_moved]: the edge whose relation and attributes it has, and its source and target, as
    positions in the nodes of the batch."""

    @property
    def num_graphs(self) -> int:
        """Number of edited graphs."""
        return len(self.link)

    @property
    def moved_edges(self) -> Csr:
        """Per graph, columns of `table`."""
        if self.moved is not None:
            return self.moved
        return Csr(np.zeros(self.num_graphs + 1, dtype=np.int64), np.empty(0, dtype=np.int64))

    @classmethod
    def joined(cls, parts: Sequence[Edits]) -> Edits:
        """The edited graphs of several, one after the other."""
        slots = reduce(Csr.followed_by, (part.slots for part in parts))
        link = np.concatenate([part.link for part in parts])
        if all(part.moved is None for part in parts):
            return cls(link, slots)
        before = np.cumsum([0, *(part.table.shape[1] for part in parts)])
        moved = [
            Csr(part.moved_edges.ptr, part.moved_edges.values + first)
            for part, first in zip(parts, before, strict=False)
        ]
        table = np.concatenate([part.table for part in parts], axis=1)
        return cls(link, slots, reduce(Csr.followed_by, moved), table)

    @classmethod
    def towards(cls, batch: ComputationGraphs, other: Bools, links: Longs) -> Edits:
        """The graphs of some links, each other in the edges that are marked."""
        slots = np.flatnonzero(other)
        return cls(links, Csr(np.searchsorted(slots, batch.edge_ptr), slots).take(links))

    def chosen(self, order: Longs) -> Edits:
        """The edited graphs of these positions, in this order."""
        moved = None if self.moved is None else self.moved.take(order)
        return Edits(self.link[order], self.slots.take(order), moved, self.table)

    def part(self, first: int, last: int) -> Edits:
        """The edited graphs from `first` to before `last`."""
        return self.chosen(np.arange(first, last))


@dataclass(frozen=True)
class EditedGraphs:
    """The nodes and edges of edited graphs that are not those of the graphs they are made from.

    Ends are counted through: first the nodes of the batch, then the new ones.
    """

    node_of: Ints
    """Per new node, its position among the nodes of the batch."""
    slots: Longs
    """Per edge into a new node, its position among the edges of the batch."""
    src: Longs
    dst: Longs
    ends: Longs
    """[2, num_graphs]: source and target of the link, in each edited graph."""


class GraphEditor:
    """Edits the graphs of a batch.

    Args:
        batch: the computation graphs.
        num_hops: how far the model sees; what is farther from s and t cannot move the score.
    """

    def __init__(self, batch: ComputationGraphs, num_hops: int) -> None:
        self._batch = batch.arrays
        self._num_hops = num_hops
        link = np.repeat(np.arange(batch.num_links), np.diff(batch.edge_ptr))
        # Per node of the batch, where its in-edges begin: the edges of a link are in order of dst.
        self._in_ptr = Csr.grouped(batch.node_ptr[link] + batch.dst, len(batch.nodes)).ptr
        self._ends = batch.ends
        # Per link, the nodes within num_hops - 2 hops, the nearest first, and their ranges.
        near = np.flatnonzero(batch.hops <= num_hops - 2)
        near = near[np.lexsort((batch.hops[near], batch.link_of_nodes[near]))]
        ptr = np.searchsorted(batch.link_of_nodes[near], np.arange(batch.num_links + 1))
        self._near = ptr, near

    def most_edges(self, edits: Edits) -> Longs:
        """Number of edges of each edited graph at most, where the model sees at most two hops."""
        counts: Longs = _most_edges(
            edits.link, edits.slots.ptr, edits.slots.values, *self._moved(edits), self._batch,
            self._in_ptr, self._ends,
        )  # fmt: skip
        return counts

    def edit(self, edits: Edits, graph: Bools) -> EditedGraphs:
        """Edit a graph, given as which edges of the batch it has."""
        return EditedGraphs(
            *_edit(
                edits.link, edits.slots.ptr, edits.slots.values, *self._moved(edits), graph,
                self._batch, self._in_ptr, self._ends, *self._near, self._num_hops,
            )
        )  # fmt: skip

    @staticmethod
    def _moved(edits: Edits) -> tuple[Longs, Longs]:
        """Where the moved edges of each graph begin, and the edges themselves, graph by graph."""
        moved = edits.moved_edges
        # In one order: NumPy would give either, and kernels are compiled for each.
        return moved.ptr, np.ascontiguousarray(edits.table[:, moved.values])


@kernel
def _most_edges(  # type: ignore[no-untyped-def]
    link_of, change_ptr, changes, moved_ptr, moved, batch, in_ptr, ends
):
    counts = np.zeros(len(link_of), dtype=np.int64)
    seen = np.full(batch.node_ptr[-1], -1, dtype=np.int64)  # the last graph that counted a node
    for g in range(len(link_of)):
        # The in-edges of s and t (numbers -2 and -1), and of the targets of the changed edges.
        num_changed = change_ptr[g + 1] - change_ptr[g]
        counts[g] += moved_ptr[g + 1] - moved_ptr[g]
        for i in range(-2, num_changed + moved_ptr[g + 1] - moved_ptr[g]):
            if i < 0:
                v = ends[i + 2, link_of[g]]
            elif i < num_changed:
                v = batch.node_ptr[link_of[g]] + batch.dst[changes[change_ptr[g] + i]]
            else:
                v = moved[2, moved_ptr[g] + i - num_changed]
            if seen[v] != g:
                seen[v] = g
                counts[g] += in_ptr[v + 1] - in_ptr[v]
    return counts


@kernel
def _edit(  # type: ignore[no-untyped-def]
    link_of, change_ptr, changes, moved_ptr, moved, graph, batch, in_ptr, ends, near_ptr, near,
    num_hops,
):  # fmt: skip
    node_ptr, hops, src = batch.node_ptr, batch.hops, batch.src
    total_nodes = node_ptr[-1]
    mine = np.full(total_nodes, -1, dtype=np.int64)  # the new node of each node, in this graph
    changed = np.zeros(len(graph), dtype=np.bool_)
    node_of = np.empty(1024, dtype=np.int32)
    out_slots = np.empty(4096, dtype=np.int64)
    out_src = np.empty(4096, dtype=np.int64)
    out_dst = np.empty(4096, dtype=np.int64)
    out_ends = np.empty((2, len(link_of)), dtype=np.int64)
    num_nodes = np.int64(0)
    num_edges = np.int64(0)
    for g in range(len(link_of)):
        link = link_of[g]
        shift = node_ptr[link]
        first = num_nodes
        most = num_nodes + 2 + change_ptr[g + 1] - change_ptr[g] + moved_ptr[g + 1] - moved_ptr[g]
        most += near_ptr[link + 1] - near_ptr[link]
        if most > len(node_of):
            node_of = grown(node_of, num_nodes, 2 * most)
        # 1. s and t are new nodes of every edited graph: the score is read off them.
        for side in range(2):
            v = ends[side, link]
            if mine[v] < 0:
                mine[v] = num_nodes
                node_of[num_nodes] = v
                num_nodes += 1
            out_ends[side, g] = total_nodes + mine[v]
        # 2. So are the targets of the changed edges, where they are near enough to count.
        for i in range(change_ptr[g], change_ptr[g + 1]):
            e = changes[i]
            changed[e] = True
            v = shift + batch.dst[e]
            if hops[v] < num_hops and mine[v] < 0:
                mine[v] = num_nodes
                node_of[num_nodes] = v
                num_nodes += 1
        for i in range(moved_ptr[g], moved_ptr[g + 1]):
            v = moved[2, i]
            if hops[v] < num_hops and mine[v] < 0:
                mine[v] = num_nodes
                node_of[num_nodes] = v
                num_nodes += 1
        # 3. And the nodes downstream of these. A change that is `step` hops behind reaches nodes
        # that are near enough to count.
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
        # 4. The in-edges that new nodes have after the edit, from new nodes where there are such.
        for i in range(first, num_nodes):
            v = node_of[i]
            needed = num_edges + in_ptr[v + 1] - in_ptr[v] + moved_ptr[g + 1] - moved_ptr[g]
            if needed > len(out_slots):
                out_slots = grown(out_slots, num_edges, 2 * needed)
                out_src = grown(out_src, num_edges, 2 * needed)
                out_dst = grown(out_dst, num_edges, 2 * needed)
            for e in range(in_ptr[v], in_ptr[v + 1]):
                if graph[e] != changed[e]:
                    u = shift + src[e]
                    out_slots[num_edges] = e
                    out_src[num_edges] = u if mine[u] < 0 else total_nodes + mine[u]
                    out_dst[num_edges] = total_nodes + i
                    num_edges += 1
            for j in range(moved_ptr[g], moved_ptr[g + 1]):
                if moved[2, j] == v:
                    u = moved[1, j]
                    out_slots[num_edges] = moved[0, j]
                    out_src[num_edges] = u if mine[u] < 0 else total_nodes + mine[u]
                    out_dst[num_edges] = total_nodes + i
                    num_edges += 1
        # 5. Clean the scratch for the next graph.
        for i in range(first, num_nodes):
            mine[node_of[i]] = -1
        for i in range(change_ptr[g], change_ptr[g + 1]):
            changed[changes[i]] = False
    return (
        node_of[:num_nodes], out_slots[:num_edges], out_src[:num_edges], out_dst[:num_edges],
        out_ends,
    )  # fmt: skip
