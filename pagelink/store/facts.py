"""The flat graph of a store made on disk: edges by target, facts, arcs.

The arrays are those of `TypedGraph`, in the same order; see `graph/typed_graph.py` for what they
mean. They are made in four steps, of which each reads what the one before left in buckets, and
holds one bucket at a time:

1. The edges of all relations, merged by target; each goes into a bucket by its fact.
2. The facts, numbered; their edges go into buckets by edge. A fact whose edges all run one way has
   an arc that no edge into its tail tells of: it goes into a bucket by tail.
3. What each edge knows of its fact.
4. The arcs, by tail and head: from the edges into their tails, and from the buckets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from pathlib import Path

import numpy as np

from pagelink.graph.schema import EdgeType
from pagelink.runtime.arrays import Bools, Ints, Longs
from pagelink.runtime.kernels import kernel
from pagelink.store.external_sort import (
    TOP_BIT,
    Buckets,
    Edges,
    Rows,
    SortedEdges,
    count_ends,
    cut_ranges,
    order_by,
)
from pagelink.store.manifest import ArrayWriter, StoreFiles, npy_header

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
    for (_, _, dst_type), edges in build.edges.items():
        found, first = count_ends(edges, 1, build.limit), build.node_offset[dst_type]
        in_counts[first : first + len(found)] += found
    in_ptr = _pointers(in_counts)
    starts = cut_ranges(in_counts, build.limit)
    del in_counts
    build.files.array("in_ptr", in_ptr)
    # 1. Edges.
    facts = Buckets(build.folder, "facts", _fact_ranges(build), 4)
    _write_edges(build, sorted_edges, starts, facts)
    # 2. Facts.
    ranges = np.arange(0, max(build.num_edges, 1), build.limit)
    by_edge = Buckets(build.folder, "facts-of-edges", ranges, 3)
    by_tail = Buckets(build.folder, "arcs", starts, 4)
    degree = _write_facts(build, facts, by_edge, by_tail)
    # 3. What edges know of their facts.
    _write_edge_facts(build, by_edge)
    # 4. Arcs.
    build.files.array("degree", degree.astype(np.int32))
    build.files.array("arc_ptr", _pointers(degree))
    _write_arcs(build, in_ptr[[*starts, -1]], by_tail, int(degree.sum()))


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
    build: FlatBuild, sorted_edges: Sequence[SortedEdges], starts: Longs, facts: Buckets
) -> None:
    """Merge the relations into one list by (target, relation, source, column)."""
    total = build.num_edges
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
            for (_, _, dst_type), each in zip(build.edges, sorted_edges, strict=True):
                if first <= build.node_offset[dst_type] + each.num_dst - 1 < last:
                    each.spool.path.unlink()  # no later node has edges of this relation


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
        ArrayWriter(build.files, "fact_edges", np.int32, (build.num_edges,)) as edges_file,
    ):
        for rows, done in build.drain(facts, "finding facts", build.num_edges):
            rows = rows[order_by(rows[:, 0], rows[:, 1], rows[:, 2])]
            edge, turned = _unflagged(rows[:, 3])
            ptr, opposite, stands = _facts(rows, edge, turned)
            ptr_file.write(ptr[:-1] + done)
            edges_file.write(edge)
            fact = np.repeat(np.arange(len(ptr) - 1, dtype=np.int32), np.diff(ptr)) + num_facts
            by_edge.add(edge, np.column_stack([_flagged(edge, stands), fact, opposite]))
            for ends in rows[stands > 0, 1:3].T:
                degree += np.bincount(ends, minlength=build.num_nodes)
            alone = (stands > 0) & (opposite < 0)
            low, high = rows[alone, 1:3].T
            tail, head = np.where(turned[alone], [high, low], [low, high])
            by_tail.add(tail, np.column_stack([tail, head, rows[alone, 0], edge[alone]]))
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


def _write_arcs(build: FlatBuild, first: Longs, by_tail: Buckets, total: int) -> None:
    """Write the arcs; the edges from first[i] to first[i + 1] enter the tails of bucket i."""
    kinds = {"arc_dst": np.int32, "arc_edge": np.int32, "arc_reversed": np.bool_}
    header = len(npy_header("<i4", (build.num_edges,)))
    columns = [
        Rows(build.files.folder / f"{name}.npy", 1, build.num_edges, header=header)
        for name in ("dst", "src", "relation", "opposite")
    ]
    done = 0
    with build.files.columns(total, **kinds) as write:
        for place, others in enumerate(by_tail.drain()):
            last = first[place + 1]
            # 1. Against each edge into a tail runs an arc: along its opposite, or backwards.
            read = (each.read(int(first[place]), int(last))[:, 0] for each in columns)
            tail, head, relation, opposite = read
            edge = np.arange(first[place], last, dtype=np.int32)
            flagged = np.where(opposite < 0, _flagged(edge, opposite < 0), opposite)
            rows = np.column_stack([tail, head, build.relation_class[relation], flagged])
            rows = np.concatenate([rows[tail != head], others], dtype=np.int32)
            # 2. Of copies of an edge, which follow each other in order, the first one counts.
            rows = rows[order_by(rows[:, 0], rows[:, 1], rows[:, 2])]
            is_first = np.ones(len(rows), dtype=np.bool_)
            is_first[1:] = (rows[1:, :3] != rows[:-1, :3]).any(1)
            rows = rows[is_first]
            write(rows[:, 1], *_unflagged(rows[:, 3]))
            done += len(rows)
            build.step("writing arcs", done, total)


def _flagged(numbers: Ints, flags: Ints | Bools) -> Ints:
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

    Returns where each fact begins; per edge its opposite and whether it stands for its fact.
    """
    count = len(rows)
    ptr = np.zeros(count + 1, dtype=np.int64)
    opposite = np.empty(count, dtype=np.int32)
    stands = np.zeros(count, dtype=np.int32)
    num_facts = 0
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
        # 3. The next fact.
        num_facts += 1
        ptr[num_facts] = j
        i = j
    return ptr[: num_facts + 1], opposite, stands
