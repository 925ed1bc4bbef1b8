"""The computation graphs of a batch of links, and which of their edges the model can see.

G_c is induced by all nodes within L in-edge hops of s or t (the paper's L-hop ego graph), without
the explained link itself. It is found from the CSR arrays in time proportional to the edges at its
nodes; arrays as long as the graph are made once for each thread and reused.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from pagelink.graph.ego_kernels import (
    FAR,
    BatchArrays,
    fill_egos,
    find_egos,
    mark_path_facts,
)
from pagelink.graph.typed_graph import TypedGraph
from pagelink.runtime.arrays import Bools, Ints, Longs
from pagelink.runtime.kernels import Deadline, over_ranges
from pagelink.runtime.timer import OutOfTimeError

__all__ = ["FAR", "NO_FACT", "ComputationGraphs", "Extractor", "Found", "num_edges"]

NO_FACT = -1
MOST_CHECKED = 50_000_000
"""Edges of a graph at most for which each is looked at."""
CROWD = 20_000
"""A link's graph in which the model collects at one node along more edges is crowded."""


@dataclass(frozen=True)
class ComputationGraphs:
    """G_c of each link of a batch, one after the other.

    `nodes[node_ptr[i]:node_ptr[i + 1]]` are the flat nodes of link i in ascending order, `hops`
    their distance from s or t along the edges that messages come by.
    `edges[edge_ptr[i]:edge_ptr[i + 1]]` are its flat edges in ascending order; `src` and `dst` are
    positions within the link's own nodes.
    """

    link_src: Longs
    link_dst: Longs
    link_fact: Longs
    """The fact that states the link itself (taken out of G_c), or -1."""
    num_hops: int | None
    node_ptr: Longs
    nodes: Ints
    hops: Ints
    edge_ptr: Longs
    edges: Ints
    src: Ints
    dst: Ints
    visible: Bools
    """The edge itself can move the score: it enters a node within L - 1 hops."""
    fact_visible: Bools
    """One of the two directions of the edge's fact can move the score."""

    @property
    def num_links(self) -> int:
        """Number of links."""
        return len(self.link_src)

    @cached_property
    def arrays(self) -> BatchArrays:
        """What kernels read of the batch."""
        arrays = BatchArrays(*(getattr(self, name) for name in BatchArrays._fields))
        src, dst, fact = _whole_numbers(self.link_src, self.link_dst, self.link_fact)
        return arrays._replace(link_src=src, link_dst=dst, link_fact=fact)

    @cached_property
    def link_of_nodes(self) -> Longs:
        """Per node of the batch, the link whose graph it is in."""
        return np.repeat(np.arange(self.num_links), np.diff(self.node_ptr))

    @cached_property
    def ends(self) -> Longs:
        """[2, num_links]: where s and t of each link are among the nodes of the batch."""
        # The nodes of a link are in ascending order, so that these keys are, too.
        base = int(self.nodes.max(initial=0)) + 1
        keys = self.link_of_nodes * base + self.nodes
        wanted = np.arange(self.num_links) * base + np.stack([self.link_src, self.link_dst])
        return np.searchsorted(keys, wanted)

    @cached_property
    def crowded(self) -> Bools:
        """Per link, whether more than `CROWD` visible edges enter one node of its graph."""
        found = np.diff(self.edge_ptr) > CROWD
        for link in np.flatnonzero(found).tolist():
            here = slice(*self.edge_ptr[link : link + 2])
            found[link] = np.bincount(self.dst[here][self.visible[here]]).max(initial=0) > CROWD
        return found

    @classmethod
    def joined(cls, parts: Sequence[ComputationGraphs]) -> ComputationGraphs:
        """Put batches one after the other."""
        if len(parts) == 1:
            return parts[0]
        arrays: dict[str, Any] = {}
        for name in BatchArrays._fields:
            of_parts = [getattr(part, name) for part in parts]
            if name.endswith("_ptr"):
                arrays[name] = np.cumsum(
                    np.concatenate([[0], *map(np.diff, of_parts)]), dtype=np.int64
                )
            else:
                arrays[name] = np.concatenate(of_parts)
        return cls(num_hops=parts[0].num_hops, **arrays)

    def edges_of(self, links: Longs, wanted: Bools) -> Longs:
        """[3, num_edges]: the wanted edges of some links, by slot, with their sources and targets.

        Ends are counted through the nodes of the batch.
        """
        chosen = np.zeros(self.num_links, dtype=np.bool_)
        chosen[links] = True
        slots = np.flatnonzero(wanted & np.repeat(chosen, np.diff(self.edge_ptr)))
        count = np.diff(np.searchsorted(slots, self.edge_ptr))
        shift = np.repeat(self.node_ptr[:-1], count)
        return np.stack([slots, shift + self.src[slots], shift + self.dst[slots]])

    def in_sight(self, wanted: Bools) -> tuple[Bools, Bools]:
        """Of one link: the wanted edges from which something reaches the score, and the nodes."""
        seen = np.zeros(len(self.nodes), dtype=np.bool_)
        if self.num_hops is None:  # the model is not local: whatever is there may count
            seen[:] = True
            return wanted, seen
        seen[self.ends[:, 0]] = True
        reached = np.zeros_like(wanted)
        for _ in range(self.num_hops):
            reached = wanted & seen[self.dst]
            seen[self.src[reached]] = True
        return reached, seen

    def only(self, link: int) -> ComputationGraphs:
        """The computation graph of one link."""
        link_of = slice(link, link + 1)
        nodes = slice(self.node_ptr[link], self.node_ptr[link + 1])
        edges = slice(self.edge_ptr[link], self.edge_ptr[link + 1])
        part = dict.fromkeys(("link_src", "link_dst", "link_fact"), link_of)
        part |= {"nodes": nodes, "hops": nodes}
        cut = {name: getattr(self, name)[part.get(name, edges)] for name in BatchArrays._fields}
        cut["node_ptr"] = self.node_ptr[link : link + 2] - self.node_ptr[link]
        cut["edge_ptr"] = self.edge_ptr[link : link + 2] - self.edge_ptr[link]
        return ComputationGraphs(num_hops=self.num_hops, **cut)


Found = list[tuple[int, int, Any]]
"""Ranges of links, with the nodes of their graphs and the numbers of their edges."""


def num_edges(found: Found) -> Longs:
    """Return the number of edges of the computation graph of each link, before it is made."""
    return np.concatenate([part[1] for *_, part in found])


class Extractor:
    """Extracts computation graphs; holds the arrays that are as long as the graph has nodes.

    It is cheap to make: what depends on relations is looked up by relation.

    Args:
        graph: the flat graph.
        num_hops: L. None: G_c is the whole graph, and visible is what messages can come from.
        seen_relations: per relation, whether the model ever passes messages along it. Edges of
            other relations are part of G_c but not visible. None: all are.
        along_relations: per relation, whether messages may come from the source of its edges. None:
            those that the model passes messages along.
        all_visible: the model is not local: every edge that it passes messages along is visible.
    """

    def __init__(
        self,
        graph: TypedGraph,
        num_hops: int | None,
        seen_relations: Bools | None = None,
        *,
        along_relations: Bools | None = None,
        all_visible: bool = False,
    ) -> None:
        self.graph = graph
        self.num_nodes = graph.num_nodes
        self.num_hops = num_hops
        everything = np.ones(len(graph.edge_types), dtype=np.bool_)
        self._everything = everything
        # A relation without edges may count as seen: where all are, less has to be looked up.
        absent = np.array(graph.edge_counts) == 0
        self._seen = everything if seen_relations is None else seen_relations | absent
        self._along = self._seen if along_relations is None else along_relations | absent
        self._along_all = bool(self._along.all())
        self._twin = _twins(graph)
        # Nodes that messages cannot come from are FAR, which is below the limit only if there is
        # no limit at all.
        self._limit = int(FAR) if num_hops is None else num_hops
        if all_visible:
            self._limit = int(FAR) + 1
        self._free: list[tuple[Ints, Ints]] = []
        self._nearer: dict[int, Extractor] = {}

    def within(self, num_hops: int) -> Extractor:
        """The same for fewer hops; the long arrays are shared."""
        if num_hops not in self._nearer:
            nearer = copy.copy(self)
            nearer.num_hops = nearer._limit = num_hops
            self._nearer[num_hops] = nearer
        return self._nearer[num_hops]

    def reaches(self, max_length: int) -> bool:
        """Whether each graph has all walks of this number of facts from source to target.

        It has, if messages come along every fact either way, and far enough.
        """
        if self.num_hops is None:
            return True
        return self._along_all and max_length <= 2 * self.num_hops and self._both_ways

    @cached_property
    def _both_ways(self) -> bool:
        """Whether every edge is stored the other way, too; of very large graphs that is not asked.

        A relation that is declared as the reverse of another one need not have all of its facts.
        """
        graph = self.graph
        if graph.num_edges > MOST_CHECKED:
            return False
        return bool(((graph.opposite >= 0) | (graph.src == graph.dst)).all())

    def path_facts(
        self, batch: ComputationGraphs, max_length: int, until: float | None = None
    ) -> Bools:
        """Return, per edge of a batch, whether its fact lies on a short walk of the whole graph.

        Raises:
            OutOfTimeError: that was not found by `until`, a time of `time.perf_counter`.
        """
        deadline, graph = Deadline(until), self.graph
        marked = np.zeros(len(batch.edges), dtype=np.bool_)

        def mark(first: int, last: int) -> None:
            with self._scratch() as (one, _), self._scratch() as (other, _):
                mark_path_facts(
                    first, last, batch.arrays, graph.fact,
                    (graph.arc_ptr, graph.arc_dst, graph.arc_edge), max_length, one, other,
                    deadline.passed, marked,
                )  # fmt: skip
                _check(deadline)

        with graph.naming_damage():
            over_ranges(mark, 1 + np.diff(batch.edge_ptr), deadline)
        return marked

    @contextmanager
    def _scratch(self) -> Iterator[tuple[Ints, Ints]]:
        """Distances of all nodes, all FAR, and positions, all -1, for one thread at a time."""
        try:
            arrays = self._free.pop()
        except IndexError:
            size = self.graph.num_nodes
            arrays = np.full(size, FAR, dtype=np.int32), np.full(size, -1, dtype=np.int32)
        yield arrays
        self._free.append(arrays)  # not after an error: then they may not be clean

    def find(
        self, link_src: Longs, link_dst: Longs, link_fact: Longs, *, until: float | None = None
    ) -> Found:
        """Find the nodes of the links' graphs, and count their edges, by ranges of links.

        Raises:
            OutOfTimeError: they were not found by `until`, a time of `time.perf_counter`.
        """
        deadline = Deadline(until)
        graph, links = self.graph, np.stack(_whole_numbers(link_src, link_dst, link_fact))
        whole = self.num_hops is None
        limit = graph.num_nodes if self.num_hops is None else self.num_hops

        def find(first: int, last: int) -> tuple[int, int, Any]:
            with self._scratch() as (hops, _):
                found = find_egos(
                    first, last, links, limit, whole, graph.arrays, self._everything, self._along,
                    self._along_all, hops, deadline.passed,
                )  # fmt: skip
                _check(deadline)
                return first, last, found

        with graph.naming_damage():
            in_degree = graph.in_ptr[links[:2] + 1] - graph.in_ptr[links[:2]]
            return over_ranges(find, 1 + in_degree.sum(axis=0), deadline)

    def extract(
        self,
        link_src: Longs,
        link_dst: Longs,
        link_fact: Longs,
        *,
        found: Found | None = None,
        until: float | None = None,
    ) -> ComputationGraphs:
        """Return the computation graphs of the links (s, t), given as flat nodes.

        Args:
            link_src: the sources.
            link_dst: the targets.
            link_fact: the facts that state the links themselves, or -1.
            found: what `find` returned for the same links, if it was called before.
            until: when to stop at the latest, by `time.perf_counter`. None: never.

        Raises:
            OutOfTimeError: they were not extracted by then.
        """
        ends = _whole_numbers(link_src, link_dst, link_fact)
        if found is None:
            found = self.find(*ends, until=until)
        deadline = Deadline(until)
        node_ptr, edge_ptr = (
            np.cumsum(np.concatenate([[0], *(part[i] for *_, part in found)]), dtype=np.int64)
            for i in (0, 1)
        )
        nodes, hops = np.empty((2, node_ptr[-1]), dtype=np.int32)
        edges, src, dst = np.empty((3, edge_ptr[-1]), dtype=np.int32)
        visible, fact_visible = np.empty((2, edge_ptr[-1]), dtype=np.bool_)
        batch = BatchArrays(
            ends[0], ends[1], ends[2], node_ptr, nodes, hops, edge_ptr, edges, src, dst, visible,
            fact_visible,
        )  # fmt: skip

        def fill(start: int, stop: int) -> None:
            for first, last, part in found[start:stop]:
                with self._scratch() as (_, position):
                    fill_egos(
                        first, last, *part[2:], self.graph.arrays, self._seen, self._twin,
                        self._limit, position, batch, deadline.passed,
                    )  # fmt: skip
                    _check(deadline)

        with self.graph.naming_damage():
            over_ranges(fill, np.array([1 + int(part[1].sum()) for *_, part in found]), deadline)
        self.graph.check_extracted(batch)
        return ComputationGraphs(num_hops=self.num_hops, **batch._asdict())


def _check(deadline: Deadline) -> None:
    """Give up what was stopped; the scratch that it used is not clean."""
    if deadline.passed[0]:
        raise OutOfTimeError


def _whole_numbers(*arrays: Longs) -> list[Longs]:
    return [np.ascontiguousarray(array, dtype=np.int64) for array in arrays]


def _twins(graph: TypedGraph) -> Ints:
    """Per relation within one node type, the other relation that states the same facts, or -1.

    Either of the two may then hold either direction of a fact; between two node types each
    direction has its own relation.
    """
    twins = np.full(len(graph.edge_types), -1, dtype=np.int32)
    position_of = {edge_type: position for position, edge_type in enumerate(graph.edge_types)}
    for position, edge_type in enumerate(graph.edge_types):
        other = graph.reverse.get(edge_type, edge_type)
        if other != edge_type and edge_type[0] == edge_type[2]:
            twins[position] = position_of[other]
    return twins
