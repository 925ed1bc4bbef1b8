"""The flat graph of a store made on disk: edges by target, facts, arcs.

The arrays are those of `TypedGraph`, in the same order; see `graph/typed_graph.py` for what they
mean. They are made in four steps, of which each reads what the one before left in buckets, and
holds one bucket at a time:

1. The edges of all relations, merged by target; each goes into a bucket by its fact.
2. The facts, numbered; their edges go into buckets by edge, their arcs into buckets by tail.
3. What each edge knows of its fact.
4. The arcs, by tail and head.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from pathlib import Path

import numpy as np

from pagelink.graph.schema import EdgeType
from pagelink.runtime.arrays import Ints, Longs
from pagelink.runtime.kernels import kernel
from pagelink.store.external_sort import (
    TOP_BIT,
    Buckets,
    Edges,
    SortedEdges,
    count_ends,
    cut_ranges,
    order_by,
)
from pagelink.store.manifest import ArrayWriter, StoreFiles

Step = Callable[[str, int, int], None]
"""Called for each step: its name, and how much of how much is done."""


@dataclass(frozen=True)
class FlatBuild:
    """What all steps know of the graph."""

    files: StoreFiles
    folder: Path
    """For temporary files."""
    sizes: Mapping[str, int]
    """The node types in order, with their numbers of nodes."""
    edges: Mapping[EdgeType, Edges]
    relation_class: Ints
    limit: int
    """Edges held in memory at a time."""
    step: Step

    @cached_property
    def node_offset(self) -> dict[str, int]:
        """The first flat node of each type."""
        return dict(zip(self.sizes, accumulate(self.sizes.values(), initial=0), strict=False))

    @property
    def num_nodes(self) -> int:
        """Number of nodes of all types."""
        return sum(self.sizes.values())

    @property
    def num_edges(self) -> int:
        """Number of edges of all relations."""
        return sum(each.count for each in self.edges.values())

    def drain(self, buckets: Buckets, word: str, total: int) -> Iterator[tuple[Ints, int]]:
        """Yield the rows of each bucket and how many came before; say how far the step is."""
        done = 0
        for rows in buckets.drain():
            yield rows, done
            done += len(rows)
            self.step(word, done, total)

    def is_turned(self, position: int, edge_type: EdgeType, src: Ints, dst: Ints) -> Ints:
        """Return which edges run against the direction that stands for their fact."""
        if edge_type[0] == edge_type[2]:
            return (src > dst).astype(np.int32)
        return np.full(len(src), self.relation_class[position] != position, dtype=np.int32)


def write_flat_graph(build: FlatBuild, sorted_edges: Sequence[SortedEdges]) -> None:
    """Write all arrays of the flat graph."""
    in_counts = np.zeros(build.num_nodes, dtype=np.int64)
    most_arcs = np.zeros(build.num_nodes, dtype=np.int64)
    for (src_type, _, dst_type), edges in build.edges.items():
        for end, first, counts in (
            (0, build.node_offset[src_type], most_arcs),
            (1, build.node_offset[dst_type], in_counts),
        ):
            found = count_ends(edges, end, build.limit)
            counts[first : first + len(found)] += found
    most_arcs += in_counts
    # 1. Edges.
    facts = Buckets(build.folder, "facts", _fact_ranges(build), 4)
    _write_edges(build, sorted_edges, in_counts, facts)
    del in_counts
    # 2. Facts.
    ranges = np.arange(0, max(build.num_edges, 1), build.limit)
    by_edge = Buckets(build.folder, "facts-of-edges", ranges, 3)
    by_tail = Buckets(build.folder, "arcs", cut_ranges(most_arcs, build.limit), 4)
    del most_arcs
    degree = _write_facts(build, facts, by_edge, by_tail)
    # 3. What edges know of their facts.
    _write_edge_facts(build, by_edge)
    # 4. Arcs.
    build.files.array("degree", degree.astype(np.int32))
    build.files.array("arc_ptr", _pointers(degree))
    _write_arcs(build, by_tail, int(degree.sum()))


def _fact_ranges(build: FlatBuild) -> Longs:
    """Cut the facts, by class and lower end, into ranges of which each fits into memory."""
    starts: list[int] = [0]
    held = 0
    edge_types = list(build.edges)
    positions = {t: i for i, t in enumerate(edge_types)}
    for relation_class in np.unique(build.relation_class).tolist():
        members = [t for t, i in positions.items() if build.relation_class[i] == relation_class]
        canonical = edge_types[relation_class]
        counts = np.zeros(build.edges[canonical].num_src, dtype=np.int64)
        for edge_type in members:
            for piece in build.edges[edge_type].pieces(build.limit):
                src, dst = piece.T
                turned = build.is_turned(positions[edge_type], edge_type, src, dst)
                counts += np.bincount(np.where(turned, dst, src), minlength=len(counts))
        if held + counts.sum() <= build.limit:  # small relations share a bucket
            held += int(counts.sum())
            continue
        first = relation_class * build.num_nodes + build.node_offset[canonical[0]]
        cuts = cut_ranges(counts, build.limit)
        starts += (first + cuts).tolist()
        held = int(counts[cuts[-1] :].sum())
    return np.array(starts, dtype=np.int64)


def _write_edges(
    build: FlatBuild, sorted_edges: Sequence[SortedEdges], in_counts: Longs, facts: Buckets
) -> None:
    """Merge the relations into one list by (target, relation, source, column)."""
    total = build.num_edges
    build.files.array("in_ptr", _pointers(in_counts))
    starts = cut_ranges(in_counts, build.limit)
    kinds = dict.fromkeys(("src", "dst", "relation", "column"), np.int32)
    done = 0
    with build.files.columns(total, **kinds) as write:
        for first, last in zip(starts, [*starts[1:], build.num_nodes], strict=True):
            rows = _edges_into(build, sorted_edges, int(first), int(last))
            rows = rows[order_by(rows[:, 1])]
            write(*rows.T[:4])
            low, high = np.where(rows[:, 4:] > 0, rows[:, [1, 0]], rows[:, [0, 1]]).T
            classes = build.relation_class[rows[:, 2]]
            edge = np.arange(done, done + len(rows), dtype=np.int32)
            facts.add(
                classes.astype(np.int64) * build.num_nodes + low,
                np.column_stack([classes, low, high, _flagged(edge, rows[:, 4])]),
            )
            done += len(rows)
            build.step("sorting edges", done, total)
    for each in sorted_edges:
        each.spool.path.unlink()


def _edges_into(
    build: FlatBuild, sorted_edges: Sequence[SortedEdges], first: int, last: int
) -> Ints:
    """Return the edges into a range of flat nodes: source, target, relation, column, turned."""
    found = [np.empty((0, 5), dtype=np.int32)]
    for position, (edge_type, each) in enumerate(zip(build.edges, sorted_edges, strict=True)):
        src_offset, dst_offset = build.node_offset[edge_type[0]], build.node_offset[edge_type[2]]
        start, stop = max(first - dst_offset, 0), min(last - dst_offset, each.num_dst)
        if start >= stop:
            continue
        src, dst, column = each.spool.read(each.first_into(start), each.first_into(stop)).T
        turned = build.is_turned(position, edge_type, src, dst)
        relation = np.full(len(src), position, dtype=np.int32)
        found.append(
            np.column_stack([src + src_offset, dst + dst_offset, relation, column, turned])
        )
    return np.concatenate(found, dtype=np.int32, casting="same_kind")


def _write_facts(build: FlatBuild, facts: Buckets, by_edge: Buckets, by_tail: Buckets) -> Longs:
    """Number the facts, list their edges, and pass on what edges and arcs need; return degrees."""
    degree = np.zeros(build.num_nodes, dtype=np.int64)
    num_facts = 0
    with (
        ArrayWriter(build.files, "fact_ptr", np.int64, (-1,)) as ptr_file,
        ArrayWriter(build.files, "fact_edges", np.int64, (build.num_edges,)) as edges_file,
    ):
        for rows, done in build.drain(facts, "finding facts", build.num_edges):
            rows = rows[order_by(rows[:, 0], rows[:, 1], rows[:, 2])]
            edge, turned = _unflagged(rows[:, 3])
            ptr, opposite, stands, arcs = _facts(rows, edge, turned)
            ptr_file.write(ptr[:-1] + done)
            edges_file.write(edge)
            fact = np.repeat(np.arange(len(ptr) - 1, dtype=np.int32), np.diff(ptr)) + num_facts
            by_edge.add(edge, np.column_stack([_flagged(edge, stands), fact, opposite]))
            by_tail.add(arcs[:, 0], arcs)
            degree += np.bincount(arcs[:, 0], minlength=build.num_nodes)
            num_facts += len(ptr) - 1
        ptr_file.write(np.array([build.num_edges], dtype=np.int64))
    return degree


def _write_edge_facts(build: FlatBuild, by_edge: Buckets) -> None:
    kinds = {"fact": np.int32, "opposite": np.int32, "representative": np.bool_}
    with build.files.columns(build.num_edges, **kinds) as write:
        for rows, done in build.drain(by_edge, "writing facts", build.num_edges):
            edge, stands = _unflagged(rows[:, 0])
            order = np.empty(len(rows), dtype=np.int64)
            order[edge - done] = np.arange(len(rows))
            write(rows[order, 1], rows[order, 2], stands[order])


def _write_arcs(build: FlatBuild, by_tail: Buckets, total: int) -> None:
    kinds = {"arc_dst": np.int32, "arc_edge": np.int32, "arc_reversed": np.bool_}
    with build.files.columns(total, **kinds) as write:
        for rows, _ in build.drain(by_tail, "writing arcs", total):
            rows = rows[order_by(rows[:, 0], rows[:, 1], rows[:, 2])]
            write(rows[:, 1], *_unflagged(rows[:, 3]))


def _flagged(numbers: Ints, flags: Ints) -> Ints:
    """Put a flag into the sign bit of numbers from 0 up."""
    top = np.where(flags > 0, TOP_BIT, np.uint32(0))
    return (numbers.astype(np.uint32) | top).view(np.int32)


def _unflagged(rows: Ints) -> tuple[Ints, Ints]:
    flagged = np.ascontiguousarray(rows).view(np.uint32)
    return (flagged & ~TOP_BIT).view(np.int32), (flagged >= TOP_BIT).astype(np.int32)


def _pointers(counts: Longs) -> Longs:
    return np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])


@kernel
def _facts(rows, edge, turned):  # type: ignore[no-untyped-def]
    """Facts of edges ordered by (class, low, high, edge).

    Returns where each fact begins; per edge its opposite and whether it stands for its fact; and
    the arcs: tail, head, class, edge with a flag in its sign bit if it is walked backwards.
    """
    count = len(rows)
    ptr = np.zeros(count + 1, dtype=np.int64)
    opposite = np.empty(count, dtype=np.int32)
    stands = np.zeros(count, dtype=np.int32)
    arcs = np.empty((2 * count, 4), dtype=np.int32)
    num_facts = num_arcs = 0
    i = 0
    while i < count:
        # 1. The rows i..j-1 are the edges of one fact; of each direction, the first one counts.
        kind, low, high = rows[i, 0], rows[i, 1], rows[i, 2]
        forth = back = -1
        j = i
        while j < count and rows[j, 0] == kind and rows[j, 1] == low and rows[j, 2] == high:
            if turned[j] and back < 0:
                back = edge[j]
            elif not turned[j] and forth < 0:
                forth = edge[j]
            j += 1
        # 2. Each edge gets the first one of the other direction; a loop stands for nothing.
        first = forth if forth >= 0 else back
        for k in range(i, j):
            opposite[k] = forth if turned[k] else back
            stands[k] = low != high and edge[k] == first
        # 3. Two arcs, there and back: along an edge of its own, or the only one backwards.
        if low != high:
            src, dst = (low, high) if forth >= 0 else (high, low)
            both = forth >= 0 and back >= 0
            arcs[num_arcs, 0], arcs[num_arcs, 1] = src, dst
            arcs[num_arcs + 1, 0], arcs[num_arcs + 1, 1] = dst, src
            arcs[num_arcs, 2] = arcs[num_arcs + 1, 2] = kind
            arcs[num_arcs, 3] = first
            arcs[num_arcs + 1, 3] = back if both else first - 2**31
            num_arcs += 2
        # 4. The next fact.
        num_facts += 1
        ptr[num_facts] = j
        i = j
    return ptr[: num_facts + 1], opposite, stands, arcs[:num_arcs]
