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
from pagelink.graph.edit_kernels import changed_sums, edited_graphs, most_edges
from pagelink.runtime.arrays import Bools, Ints, Longs
from pagelink.runtime.csr import Csr


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


@dataclass(frozen=True)
class ChangedSums:
    """Edited graphs by what is different in what their new nodes collect.

    A new node collects, by each relation, what the node that it is a copy of collects in the graph
    that is edited, plus and minus what the edges here bring. So a node with very many in-edges has
    no more edges here than those that are different.
    """

    node_of: Ints
    """Per new node, its position among the nodes of the batch."""
    ends: Longs
    """[2, num_graphs]: source and target of the link, as numbers of new nodes."""
    edges: Longs
    """[4, num_edges]: the position among the edges of the batch, the source, the target (a new
    node), and what it is: NEW (the source is a new node, too), PLUS or MINUS (it is a node of the
    batch, and comes or goes)."""
    afresh: Longs
    """[2, num_afresh]: new nodes, and relations by which they collect nothing but these edges."""


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
        counts: Longs = most_edges(
            edits.link, edits.slots.ptr, edits.slots.values, *self._moved(edits), self._batch,
            self._in_ptr, self._ends,
        )  # fmt: skip
        return counts

    def edit(self, edits: Edits, graph: Bools) -> EditedGraphs:
        """Edit a graph, given as which edges of the batch it has."""
        return EditedGraphs(
            *edited_graphs(
                edits.link, edits.slots.ptr, edits.slots.values, *self._moved(edits), graph,
                self._batch, self._in_ptr, self._ends, *self._near, self._num_hops,
            )
        )  # fmt: skip

    def changed_sums(self, edits: Edits, graph: Bools, relation: Ints) -> ChangedSums:
        """Edit a graph, given as which edges of the batch it has; `relation` is that of each."""
        return ChangedSums(
            *changed_sums(
                edits.link, edits.slots.ptr, edits.slots.values, *self._moved(edits), graph,
                relation, self._batch, self._in_ptr, self._ends, *self._near, self._num_hops,
            )
        )  # fmt: skip

    @staticmethod
    def _moved(edits: Edits) -> tuple[Longs, Longs]:
        """Where the moved edges of each graph begin, and the edges themselves, graph by graph."""
        moved = edits.moved_edges
        # In one order: NumPy would give either, and kernels are compiled for each.
        return moved.ptr, np.ascontiguousarray(edits.table[:, moved.values])
