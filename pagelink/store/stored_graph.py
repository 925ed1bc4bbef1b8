"""StoredGraph: a `TypedGraph` over the files of a store, of which nothing is believed unchecked.

A store is verified when it comes to a machine; a byte that goes bad later must still lead to no
crash and no endless loop. What is read of the graph is therefore checked where it is read: its
range, and that arrays which say the same in two ways agree. This looks at nothing but the nodes and
edges in use.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NoReturn, Protocol

import numpy as np
import pyarrow as pa

from pagelink.errors import PageLinkError, StoreError
from pagelink.graph.ego_kernels import BatchArrays
from pagelink.graph.schema import EdgeType
from pagelink.graph.typed_graph import TypedGraph, spaced
from pagelink.runtime.arrays import Ints, Longs
from pagelink.runtime.csr import Csr
from pagelink.runtime.kernels import kernel, over_ranges
from pagelink.store.manifest import Array

CHECKED = (
    "node_type", "degree", "src", "dst", "relation", "column", "fact", "opposite", "representative",
)  # fmt: skip
"""Files of which `_first_damage` says the number."""


class Files(Protocol):
    """What a `GraphStore` is to its graph."""

    folder: Path
    manifest: dict[str, Any]

    @property
    def edge_types(self) -> tuple[EdgeType, ...]:
        """The relations, in order."""

    @property
    def damage(self) -> StoreError | None:
        """What is wrong with the files, found by reading all of them."""

    def array(self, name: str) -> Array:
        """Return one of the arrays of the flat graph."""

    def ends(self, edge_type: EdgeType) -> Ints:
        """Return sources and targets of a relation by column, [num_edges, 2]."""


@dataclass(frozen=True)
class StoredGraph(TypedGraph):
    """A `TypedGraph` over the files of a store, which also has what others work out."""

    store: Files = field(kw_only=True, repr=False)

    @cached_property
    def num_facts(self) -> int:
        """Number of facts: an edge, its copies and its reverse are one."""
        return len(self.edges_of_facts.ptr) - 1

    @cached_property
    def edges_of_facts(self) -> Csr:
        """All edges of each fact: every copy and both directions, in order."""
        return Csr(self.store.array("fact_ptr"), self.store.array("fact_edges"))

    @cached_property
    def node_type_of(self) -> Any:
        """Position of the node type of every flat node."""
        return self.store.array("node_type")

    @property
    def targets(self) -> Ints:
        """Targets of the edges, that kernels check `in_ptr` against."""
        return self.dst

    def near_reverses(self, link_types: Sequence[EdgeType]) -> dict[EdgeType, list[EdgeType]]:
        """Relations that mirror a link type so nearly that they may be its reverse, but are not."""
        known = dict(zip(self.store.edge_types, self.store.manifest["relations"], strict=True))
        return {
            t: [(src_type, relation, dst_type) for src_type, relation, dst_type in near]
            for t in link_types
            if t in known and t not in self.reverse and (near := known[t]["near_reverses"])
        }

    def some_links(self, edge_type: EdgeType, count: int) -> tuple[Longs, Longs]:
        """Return sources and targets of stored edges of a relation, at most `count` of them."""
        position = self.edge_types.index(edge_type)
        columns = spaced(self.edge_counts[position], count)
        ends = self.store.ends(edge_type)[columns].T.astype(np.int64)
        sizes = np.diff(self.node_offset)[self._type_of_ends[position]]
        for row in (0, 1):
            self._check_numbers("edge_index", ends[row], int(sizes[row]))
        src, dst = ends + self.node_offset[self._type_of_ends[position]][:, None]
        return src, dst

    # What is checked where it is read.

    def in_edges(self, node: int) -> slice:
        """Return which edges enter a flat node."""
        edges = super().in_edges(node)
        self._check_range("in_ptr", edges, self.num_edges)
        self._check_numbers("src", self.src[edges], self.num_nodes)
        self._check_numbers("relation", self.relation[edges], self.num_relations)
        return edges

    def arcs_of(self, node: int) -> slice:
        """Return which arcs leave a flat node."""
        arcs = super().arcs_of(node)
        self._check_range("arc_ptr", arcs, len(self.arc_dst))
        self._check_numbers("arc_dst", self.arc_dst[arcs], self.num_nodes)
        self._check_numbers("arc_edge", self.arc_edge[arcs], self.num_edges)
        return arcs

    def check_extracted(self, batch: BatchArrays) -> None:
        """Refuse computation graphs with nodes or edges of which a file says what cannot be."""
        # A flag is a byte of 0 or 1; kernels and NumPy do not take other ones for the same.
        flags = self.representative.view(np.uint8)

        def first_damage(first: int, last: int) -> int:
            found: int = _first_damage(
                first, last, batch, self.arrays, self.column, flags, self.node_type_of,
                self.num_facts, self.node_offset, self._type_of_ends, self._num_columns,
            )  # fmt: skip
            return found

        for damage in over_ranges(first_damage, 1 + np.diff(batch.edge_ptr)):
            if damage >= 0:
                self._refuse(CHECKED[damage])

    def check_facts(self, facts: Ints | Longs) -> None:
        """Refuse facts whose lists of edges cannot be."""
        lists = self.edges_of_facts
        self._check_numbers("fact", facts, self.num_facts)
        start, end = lists.ptr[facts], lists.ptr[np.asarray(facts, dtype=np.int64) + 1]
        if (start < 0).any() or (end <= start).any() or (end > self.num_edges).any():
            self._refuse("fact_ptr")
        # Lists lie in the order of the facts: what begins and ends with a fact is its list.
        for place in (start, end - 1):
            self._check_numbers("fact_edges", lists.values[place], self.num_edges)
            if (self.fact[lists.values[place]] != facts).any():
                self._refuse("fact_edges")
        edges = lists.take(np.asarray(facts, dtype=np.int64)).values
        self._check_numbers("fact_edges", edges, self.num_edges)

    def check_cells(self, cells: Any) -> Any:
        """Return cells of a table, if they can be read."""
        try:
            cells.validate(full=True)
        except pa.ArrowException as error:
            raise StoreError(
                f"{self.store.folder}: a table of attributes is damaged: {error}. {ADVICE}"
            ) from error
        return cells

    @contextmanager
    def naming_damage(self) -> Iterator[None]:
        """Say of what fails on a damaged graph which of its files is damaged."""
        try:
            yield
        except PageLinkError:
            raise
        except Exception as error:
            if self.store.damage is not None:
                raise StoreError(str(self.store.damage)) from error
            raise

    @cached_property
    def _type_of_ends(self) -> Longs:
        """[num_relations, 2]: the positions of the node types of source and target."""
        ends = [[self.node_types.index(t) for t in each[::2]] for each in self.edge_types]
        return np.array(ends, dtype=np.int64).reshape(-1, 2)

    @cached_property
    def _num_columns(self) -> Longs:
        return np.array(self.edge_counts, dtype=np.int64)

    def _check_range(self, file: str, found: slice, size: int) -> None:
        if not 0 <= found.start <= found.stop <= size:
            self._refuse(file)

    def _check_numbers(self, file: str, found: Array, size: int) -> None:
        if len(found) and (found.min() < 0 or found.max() >= size):
            self._refuse(file)

    def _refuse(self, file: str) -> NoReturn:
        raise StoreError(
            f"{self.store.folder / file}.npy: damaged, a number in it does not fit the rest of the "
            f"graph. {ADVICE}"
        )


ADVICE = "Copy the store anew, or build it again."


@kernel
def _first_damage(  # type: ignore[no-untyped-def]
    first, last, batch, graph, column, flags, node_type, num_facts, node_offset, type_of_ends,
    num_columns,
):  # fmt: skip
    """Which of the CHECKED files says what cannot be of some links' graphs, or -1."""
    num_types, num_edges = len(node_offset) - 1, len(graph.src)
    for link in range(first, last):
        base = batch.node_ptr[link]
        # 1. Of each node its type and its degree.
        for i in range(base, batch.node_ptr[link + 1]):
            v = batch.nodes[i]
            kind = node_type[v]
            if kind < 0 or kind >= num_types:
                return 0
            if v < node_offset[kind] or v >= node_offset[kind + 1]:
                return 0
            if graph.degree[v] < 0 or graph.degree[v] > num_edges:
                return 1
        for k in range(batch.edge_ptr[link], batch.edge_ptr[link + 1]):
            e = batch.edges[k]
            u, v = batch.nodes[base + batch.src[k]], batch.nodes[base + batch.dst[k]]
            # 2. Of each edge its ends, which have the types of its relation, and its column.
            if graph.targets[e] != v:
                return 3
            relation = graph.relation[e]
            if relation < 0 or relation >= len(type_of_ends):
                return 4
            if type_of_ends[relation, 1] != node_type[v]:
                return 4
            if type_of_ends[relation, 0] != node_type[u]:
                return 2
            if column[e] < 0 or column[e] >= num_columns[relation]:
                return 5
            # 3. Its fact, which the edge the other way has, too.
            if graph.fact[e] < 0 or graph.fact[e] >= num_facts:
                return 6
            other = graph.opposite[e]
            if other < -1 or other >= num_edges:
                return 7
            if other >= 0 and (graph.src[other] != v or graph.targets[other] != u):
                return 7
            if other >= 0 and graph.fact[other] != graph.fact[e]:
                return 6
            # 4. One edge stands for its fact; a fact between two nodes counts in their degrees.
            if flags[e] > 1 or (flags[e] == 1 and u == v):
                return 8
            if flags[e] == 1 and (graph.degree[u] < 1 or graph.degree[v] < 1):
                return 1
    return -1
