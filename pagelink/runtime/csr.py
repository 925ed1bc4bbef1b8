"""Compressed rows: lists of different lengths in two arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pagelink.runtime.arrays import Longs
from pagelink.runtime.kernels import kernel


@dataclass(frozen=True)
class Csr:
    """Lists of numbers, one after the other: list i is `values[ptr[i]:ptr[i + 1]]`.

    Example:
        >>> lists = Csr(np.array([0, 2, 3]), np.array([7, 8, 9]))
        >>> lists.take(np.array([1, 0])).values.tolist()
        [9, 7, 8]
    """

    ptr: Longs
    values: Longs

    @classmethod
    def of(cls, lists: list[Longs]) -> Csr:
        """Put arrays one after the other."""
        ptr = np.concatenate([[0], np.cumsum([len(each) for each in lists], dtype=np.int64)])
        return cls(ptr, np.concatenate([*lists, np.empty(0, dtype=np.int64)]))

    @classmethod
    def grouped(cls, keys: npt.NDArray[np.integer[Any]], num_groups: int) -> Csr:
        """Per key from 0 up, where it is, in order.

        Example:
            >>> Csr.grouped(np.array([1, 0, 1]), 2).values.tolist()
            [1, 0, 2]
        """
        return cls(*_grouped(np.ascontiguousarray(keys), num_groups))

    def take(self, order: Longs) -> Csr:
        """The lists of these positions, in this order."""
        start, length = self.ptr[order], self.ptr[order + 1] - self.ptr[order]
        ptr = np.concatenate([[0], np.cumsum(length)])
        place = np.arange(ptr[-1]) + np.repeat(start - ptr[:-1], length)
        return Csr(ptr, self.values[place].astype(np.int64, copy=False))

    def followed_by(self, other: Csr) -> Csr:
        """These lists and then those."""
        return Csr(
            np.concatenate([self.ptr, self.ptr[-1] + other.ptr[1:]]),
            np.concatenate([self.values, other.values]),
        )

    def beside(self, other: Csr) -> Csr:
        """List by list, these numbers and then those.

        Example:
            >>> one = Csr(np.array([0, 1, 1]), np.array([7]))
            >>> two = Csr(np.array([0, 1, 2]), np.array([8, 9]))
            >>> one.beside(two).values.tolist()
            [7, 8, 9]
        """
        order = np.arange(2 * (len(self.ptr) - 1)).reshape(2, -1).T.reshape(-1)
        both = self.followed_by(other).take(order)
        return both.joined(np.arange(0, len(order) + 1, 2))

    def joined(self, ptr: Longs) -> Csr:
        """Put lists together: ptr[i]:ptr[i + 1] become one."""
        return Csr(self.ptr[ptr], self.values)


def segment_sums(values: npt.NDArray[Any], ptr: Longs) -> npt.NDArray[Any]:
    """Return the sums of values[ptr[i]:ptr[i + 1]].

    Example:
        >>> segment_sums(np.array([True, False, True]), np.array([0, 2, 2, 3])).tolist()
        [1, 0, 1]
    """
    if values.dtype == np.bool_:  # without eight bytes for each of them
        counts: npt.NDArray[Any] = _segment_counts(values, ptr)
        return counts
    # Each segment by itself: a sum must not depend on what stands before it.
    sums = np.zeros(len(ptr) - 1, dtype=np.result_type(values, np.int64))
    full = np.flatnonzero(np.diff(ptr))
    if len(full):
        sums[full] = np.add.reduceat(values[: ptr[-1]], ptr[full], dtype=sums.dtype)
    return sums


@kernel
def _segment_counts(values, ptr):  # type: ignore[no-untyped-def]
    counts = np.zeros(len(ptr) - 1, dtype=np.int64)
    for i in range(len(counts)):
        for j in range(ptr[i], ptr[i + 1]):
            counts[i] += values[j]
    return counts


@kernel
def _grouped(keys, num_groups):  # type: ignore[no-untyped-def]
    """Count, then place: in time of the number of keys, and equal ones stay in order."""
    ptr = np.zeros(num_groups + 1, dtype=np.int64)
    for i in range(len(keys)):
        ptr[keys[i] + 1] += 1
    for k in range(num_groups):
        ptr[k + 1] += ptr[k]
    place = ptr[:-1].copy()
    positions = np.empty(len(keys), dtype=np.int64)
    for i in range(len(keys)):
        positions[place[keys[i]]] = i
        place[keys[i]] += 1
    return ptr, positions
