"""Rows of numbers that go through disk: appended, put into buckets, read back in pieces."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from pagelink.kernels import kernel
from pagelink.ragged import Ragged

Ints = npt.NDArray[np.int32]
Longs = npt.NDArray[np.int64]

TOP_BIT = np.uint32(1 << 31)


class Spool:
    """A file of rows of 32-bit numbers."""

    def __init__(self, path: Path, width: int) -> None:
        self.path = path
        self.width = width
        self.count = 0
        path.write_bytes(b"")

    def append(self, rows: Ints) -> None:
        """Write rows of shape [n, width] behind the others."""
        # Opened anew each time: there may be more buckets than a process may have open files.
        with self.path.open("ab") as file:
            file.write(np.ascontiguousarray(rows, dtype=np.int32).reshape(-1).view(np.uint8).data)
        self.count += len(rows)

    def read(self, first: int = 0, last: int | None = None) -> Ints:
        """Return rows as an array of shape [n, width]."""
        last = self.count if last is None else min(last, self.count)
        size = 4 * self.width
        rows = np.fromfile(
            self.path, dtype=np.int32, count=(last - first) * self.width, offset=first * size
        )
        return rows.reshape(-1, self.width)

    def pieces(self, rows: int) -> Iterator[Ints]:
        """Yield all rows, so many at a time."""
        for first in range(0, self.count, rows):
            yield self.read(first, first + rows)

    def remove(self) -> None:
        """Delete the file."""
        self.path.unlink(missing_ok=True)


class Buckets:
    """Rows sorted by which of several ranges their key is in; order within a range is kept."""

    def __init__(self, folder: Path, name: str, starts: Longs, width: int) -> None:
        self.starts = starts
        self.spools = [Spool(folder / f"{name}-{i}", width) for i in range(len(starts))]

    def add(self, keys: npt.NDArray[np.signedinteger], rows: Ints) -> None:
        """Write each row to the bucket of its key."""
        bucket = np.searchsorted(self.starts, keys, side="right") - 1
        places = Ragged.grouped(bucket, len(self.spools))
        ordered = rows[places.values]
        for number in np.flatnonzero(np.diff(places.ptr)).tolist():
            self.spools[number].append(ordered[places.ptr[number] : places.ptr[number + 1]])

    def drain(self) -> Iterator[Ints]:
        """Yield the rows of each bucket, in order, and delete it."""
        for spool in self.spools:
            rows = spool.read()
            spool.remove()
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
        start[:] = 0
        for i in range(len(keys)):
            start[((keys[i] >> shift) & 2047) + 1] += 1
        for digit in range(2048):
            start[digit + 1] += start[digit]
        for i in range(len(keys)):
            digit = (keys[i] >> shift) & 2047
            place = start[digit]
            start[digit] += 1
            other_keys[place], other_order[place] = keys[i], order[i]
        keys, other_keys, order, other_order = other_keys, keys, other_order, order
    return order
