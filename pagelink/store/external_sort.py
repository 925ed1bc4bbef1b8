"""Sorting of edges that do not fit into memory: rows go through disk, bucket by bucket.

Rows of numbers are appended to a file (`Spool`) or put into buckets by ranges of a key
(`Buckets`); each bucket fits into memory, is sorted there, and is appended to the result. On the
way it is found out what the manifest says of a relation: its fingerprint and its set of pairs.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from pagelink.graph.reverse_relations import PairSet, PairSum, distinct
from pagelink.graph.schema import EdgeType, Fingerprint
from pagelink.runtime.arrays import Ints, Longs
from pagelink.runtime.csr import Csr
from pagelink.runtime.kernels import kernel
from pagelink.store.manifest import ArrayWriter, StoreFiles

TOP_BIT = np.uint32(1 << 31)


@dataclass
class Rows:
    """Rows of 32-bit numbers in a file."""

    path: Path
    width: int
    count: int = 0
    first: int = 0
    """The row of the file at which they begin."""
    header: int = 0
    """Bytes before the first row of the file."""

    def read(self, first: int = 0, last: int | None = None) -> Ints:
        """Return rows as an array of shape [n, width]."""
        last = self.count if last is None else min(last, self.count)
        offset = self.header + 4 * self.width * (self.first + first)
        rows = np.fromfile(
            self.path, dtype=np.int32, count=(last - first) * self.width, offset=offset
        )
        return rows.reshape(-1, self.width)

    def pieces(self, rows: int) -> Iterator[Ints]:
        """Yield all rows, at most `rows` at a time."""
        for first in range(0, self.count, rows):
            yield self.read(first, first + rows)


class Spool(Rows):
    """A file of rows of 32-bit numbers that are written one after the other."""

    def __init__(self, path: Path, width: int) -> None:
        super().__init__(path, width)
        path.write_bytes(b"")

    def append(self, rows: Ints) -> None:
        """Write rows of shape [n, width] behind the others."""
        # Opened anew each time: there may be more buckets than a process may have open files.
        with self.path.open("ab") as file:
            file.write(np.ascontiguousarray(rows, dtype=np.int32).reshape(-1).view(np.uint8).data)
        self.count += len(rows)


class Buckets:
    """Rows sorted by which of several ranges their key is in; order within a range is kept."""

    def __init__(self, folder: Path, name: str, starts: Longs, width: int) -> None:
        self.starts = starts
        self.spools = [Spool(folder / f"{name}-{i}", width) for i in range(len(starts))]

    def add(self, keys: npt.NDArray[np.signedinteger], rows: Ints) -> None:
        """Write each row to the bucket of its key."""
        bucket = np.searchsorted(self.starts, keys, side="right") - 1
        places = Csr.grouped(bucket, len(self.spools))
        ordered = rows[places.values]
        for number in np.flatnonzero(np.diff(places.ptr)).tolist():
            self.spools[number].append(ordered[places.ptr[number] : places.ptr[number + 1]])

    def drain(self) -> Iterator[Ints]:
        """Yield the rows of each bucket, in order, and delete it."""
        for spool in self.spools:
            rows = spool.read()
            spool.path.unlink()
            yield rows


def cut_ranges(counts: Longs, most: int) -> Longs:
    """Cut 0..len(counts) into ranges that count `most` at most, or are of one; return their starts.

    Example:
        >>> cut_ranges(np.array([2, 2, 1, 9, 1]), 4).tolist()
        [0, 2, 3, 4]
    """
    total = np.concatenate([[0], np.cumsum(counts)])
    starts = [0]
    while True:
        last = int(np.searchsorted(total, total[starts[-1]] + most, side="right")) - 1
        last = max(last, starts[-1] + 1)
        if last >= len(counts):
            return np.array(starts, dtype=np.int64)
        starts.append(last)


def order_by(*columns: npt.NDArray[np.signedinteger]) -> Longs:
    """Return the order by columns, the first one first; equal rows stay in order.

    Example:
        >>> order_by(np.array([1, 0, 0]), np.array([0, 5, 2])).tolist()
        [2, 1, 0]
    """
    if not len(columns[0]):
        return np.empty(0, dtype=np.int64)
    key = np.zeros(len(columns[0]), dtype=np.int64)
    reach = 1
    for column in columns:
        low = int(column.min())
        span = int(column.max()) - low + 1
        reach *= span
        if reach >= 2**63:
            return np.lexsort(columns[::-1])
        key *= span
        key += column
        key -= low
    order: Longs = _radix_order(key, (reach - 1).bit_length())
    return order


@kernel
def _radix_order(keys, num_bits):  # type: ignore[no-untyped-def]
    """Stable order of keys from 0 up; np.argsort(kind="stable") takes twice as long."""
    order = np.arange(len(keys))
    keys, other_keys, other_order = keys.copy(), np.empty_like(keys), np.empty_like(order)
    start = np.empty(2049, dtype=np.int64)
    for shift in range(0, num_bits, 11):
        # 1. Count the keys by the digit of 11 bits at this place.
        start[:] = 0
        for i in range(len(keys)):
            start[((keys[i] >> shift) & 2047) + 1] += 1
        # 2. Where the keys of each digit begin.
        for digit in range(2048):
            start[digit + 1] += start[digit]
        # 3. Put each key there, in the order they came: what smaller digits said is kept.
        for i in range(len(keys)):
            digit = (keys[i] >> shift) & 2047
            place = start[digit]
            start[digit] += 1
            other_keys[place], other_order[place] = keys[i], order[i]
        keys, other_keys, order, other_order = other_keys, keys, other_order, order
    return order


@dataclass(frozen=True)
class Edges:
    """The edges of a relation in the order they came; those of a reverse are read turned."""

    rows: Rows
    """Source and target, positions within their node types."""
    num_src: int
    num_dst: int
    is_turned: bool = False

    @property
    def count(self) -> int:
        """Number of edges."""
        return self.rows.count

    @property
    def turned(self) -> Edges:
        """The same edges with source and target exchanged."""
        return Edges(self.rows, self.num_dst, self.num_src, not self.is_turned)

    def pieces(self, rows: int) -> Iterator[Ints]:
        """Yield sources and targets, of shape [n, 2]."""
        for piece in self.rows.pieces(rows):
            yield piece[:, ::-1] if self.is_turned else piece


@dataclass(frozen=True)
class SortedEdges:
    """The edges of a relation by (target, source, column), in a file."""

    spool: Spool
    """Rows of source, target and column."""
    num_dst: int
    pairs: PairSet
    fingerprint: str
    """As `graph_schema` says it."""

    def first_into(self, node: int) -> int:
        """Return the first row whose target is this node or a later one."""
        if not self.spool.count:
            return 0
        rows = np.memmap(self.spool.path, dtype=np.int32, mode="r").reshape(-1, 3)
        return bisect_left(range(self.spool.count), node, key=lambda row: int(rows[row, 1]))


def write_once(
    files: StoreFiles, given: Mapping[EdgeType, Edges], limit: int
) -> dict[EdgeType, Edges]:
    """Write the edges of all relations, as they came, into one file of a store.

    A relation that is another one turned, edge by edge, is not written again. Returns the edges as
    they are in that file; those that were given are gone.
    """
    written: dict[EdgeType, Edges] = {}
    found: dict[EdgeType, Edges] = {}
    first = 0
    with ArrayWriter(files, "edge_index", np.int32, (-1, 2)) as writer:
        for edge_type, each in given.items():
            mirrored = (t for t in written if t[::2] == edge_type[::-2])
            twin = next((t for t in mirrored if _same(given[t].turned, each, limit)), None)
            if twin is not None:
                found[edge_type] = written[twin].turned
                continue
            rows = Rows(files.folder / writer.file, 2, each.count, first, writer.start)
            found[edge_type] = written[edge_type] = replace(each, rows=rows, is_turned=False)
            for piece in each.pieces(limit):
                writer.write(piece)
            first += each.count
    for path in {each.rows.path for each in given.values()}:
        path.unlink()
    return found


def _same(one: Edges, other: Edges, limit: int) -> bool:
    if one == other or one.count != other.count:
        return one == other
    return all(map(np.array_equal, one.pieces(limit), other.pieces(limit)))


def count_ends(edges: Edges, end: int, limit: int) -> Longs:
    """Return how many edges leave (end 0) or enter (end 1) each node."""
    size = (edges.num_src, edges.num_dst)[end]
    counts = np.zeros(size, dtype=np.int64)
    for piece in edges.pieces(limit):
        counts += np.bincount(piece[:, end], minlength=size)
    return counts


def sort_edges(edges: Edges, folder: Path, name: str, limit: int) -> SortedEdges:
    """Sort the edges of a relation, at most about `limit` of them in memory at a time."""
    # 1. Cut the targets into ranges of which each fits into memory.
    in_counts = count_ends(edges, 1, limit)
    starts = cut_ranges(in_counts, limit)
    # 2. Put each edge, with its column, into the bucket of its target.
    buckets = Buckets(folder, f"{name}-by-target", starts, 3)
    column = 0
    for piece in edges.pieces(limit):
        columns = np.arange(column, column + len(piece), dtype=np.int32)
        buckets.add(piece[:, 1], np.column_stack([piece, columns]))
        column += len(piece)
    # 3. Sort bucket after bucket; equal edges stay in the order of their columns.
    spool = Spool(folder / f"{name}-sorted", 3)
    digest, pairs = Fingerprint(), PairSum()
    for rows in buckets.drain():
        rows = rows[order_by(rows[:, 1], rows[:, 0])]
        spool.append(rows)
        digest.add(rows[:, 0].astype("<i8"))
        pairs.add(rows[:, 0], rows[:, 1])
    # 4. The fingerprint has all sources, then all targets; these are known from their counts.
    for first, last in zip(starts, [*starts[1:], len(in_counts)], strict=True):
        digest.add(np.repeat(np.arange(first, last, dtype="<i8"), in_counts[first:last]))
    return SortedEdges(spool, edges.num_dst, pairs.found, digest.text)


def num_mirrored(first: Edges, second: Edges, limit: int) -> int:
    """Return how many distinct pairs of one relation are, turned, pairs of another."""
    parts = -(-(first.count + second.count) // limit)
    shared = 0
    for part in range(parts):
        mine = _pairs(first, part, parts, limit)
        theirs = _pairs(second.turned, part, parts, limit)
        shared += len(np.intersect1d(mine, theirs, assume_unique=True))
    return shared


def _pairs(edges: Edges, part: int, parts: int, limit: int) -> Longs:
    """Return the distinct pairs of one part of all; pairs fall to parts by their remainder."""
    found = [np.empty(0, dtype=np.int64)]
    for piece in edges.pieces(limit):
        keys = piece[:, 0].astype(np.int64) * edges.num_dst + piece[:, 1]
        found.append(keys[keys % parts == part])
    return distinct(np.concatenate(found))
