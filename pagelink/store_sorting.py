"""Edges of a relation sorted on disk by target and source, and what is learnt on the way."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pagelink.graph_schema import Fingerprint
from pagelink.pair_sets import PairSet, PairSum
from pagelink.reverse_relations import distinct
from pagelink.store_spool import Buckets, Ints, Longs, Spool, cut_ranges, order_by


@dataclass(frozen=True)
class Edges:
    """The edges of a relation in the order they came; those of a reverse are read turned."""

    spool: Spool
    """Rows of source and target, positions within their node types."""
    num_src: int
    num_dst: int
    is_turned: bool = False

    @property
    def count(self) -> int:
        """Number of edges."""
        return self.spool.count

    @property
    def turned(self) -> Edges:
        """The same edges with source and target exchanged."""
        return Edges(self.spool, self.num_dst, self.num_src, not self.is_turned)

    def pieces(self, rows: int) -> Iterator[Ints]:
        """Yield sources and targets, of shape [n, 2]."""
        for piece in self.spool.pieces(rows):
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


def count_ends(edges: Edges, end: int, limit: int) -> Longs:
    """Return how many edges leave (end 0) or enter (end 1) each node."""
    size = (edges.num_src, edges.num_dst)[end]
    counts = np.zeros(size, dtype=np.int64)
    for piece in edges.pieces(limit):
        counts += np.bincount(piece[:, end], minlength=size)
    return counts


def sort_edges(edges: Edges, folder: Path, name: str, limit: int) -> SortedEdges:
    """Sort the edges of a relation, at most about `limit` of them in memory at a time."""
    in_counts = count_ends(edges, 1, limit)
    starts = cut_ranges(in_counts, limit)
    buckets = Buckets(folder, f"{name}-by-target", starts, 3)
    column = 0
    for piece in edges.pieces(limit):
        columns = np.arange(column, column + len(piece), dtype=np.int32)
        buckets.add(piece[:, 1], np.column_stack([piece, columns]))
        column += len(piece)
    spool = Spool(folder / f"{name}-sorted", 3)
    digest, pairs = Fingerprint(), PairSum()
    for rows in buckets.drain():
        rows = rows[order_by(rows[:, 1], rows[:, 0])]
        spool.append(rows)
        digest.add(rows[:, 0].astype("<i8"))
        pairs.add(rows[:, 0], rows[:, 1])
    # The targets come after all sources; in order they are known from their counts.
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
