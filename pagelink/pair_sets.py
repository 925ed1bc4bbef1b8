"""Fingerprints of edge sets, by which reverses are found without holding the edges."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pagelink.graph_data import EdgeType, Longs
from pagelink.kernels import kernel
from pagelink.reverse_relations import pair_relations

Ints = npt.NDArray[np.int32]


@dataclass(frozen=True)
class PairSet:
    """The distinct (source, target) pairs of a relation, as a fingerprint of 128 bits each way.

    Equal sets have equal fingerprints, whatever their order and copies; different sets have
    different ones, but for a chance of 2^-128.

    Example:
        >>> there = PairSet.of(np.array([[0, 1, 0], [2, 2, 2]]))
        >>> back = PairSet.of(np.array([[2, 2], [0, 1]]))
        >>> there.num_pairs, there.mirrors(back), there.mirrors(there)
        (2, True, False)
    """

    num_pairs: int
    forth: str
    back: str

    @classmethod
    def of(cls, edge_index: Longs) -> PairSet:
        """Take the pairs of an edge list of shape [2, num_edges]."""
        src, dst = edge_index[:, np.lexsort(edge_index)]
        return PairSum().add(src, dst).found

    def mirrors(self, other: PairSet) -> bool:
        """Whether the pairs of the other are these, turned."""
        return (self.num_pairs, self.forth) == (other.num_pairs, other.back)

    @property
    def turned(self) -> PairSet:
        """The same pairs, with source and target exchanged."""
        return PairSet(self.num_pairs, self.back, self.forth)


class PairSum:
    """Takes pairs that come in pieces, ordered by (target, source)."""

    def __init__(self) -> None:
        self._sums = np.zeros(5, dtype=np.uint64)
        self._last = np.full(2, -1, dtype=np.int64)

    def add(self, src: Longs | Ints, dst: Longs | Ints) -> PairSum:
        """Take the next pairs."""
        _add_pairs(src.astype(np.int64), dst.astype(np.int64), self._sums, self._last)
        return self

    @property
    def found(self) -> PairSet:
        """The fingerprint of all pairs so far."""
        count, *sums = self._sums.tolist()
        return PairSet(count, f"{sums[0]:016x}{sums[1]:016x}", f"{sums[2]:016x}{sums[3]:016x}")


def reverse_of_sets(
    sets: Mapping[EdgeType, PairSet], edge_types: Sequence[EdgeType]
) -> dict[EdgeType, EdgeType]:
    """Find reverses as `find_reverse` does, by fingerprints."""
    return pair_relations(
        {t: pairs.num_pairs for t, pairs in sets.items()},
        edge_types,
        lambda first, second: sets[first].mirrors(sets[second]),
    )


def without_reverse(sets: Mapping[EdgeType, PairSet]) -> list[EdgeType]:
    """Return the relations whose edges can be walked one way only; see reverse_relations."""
    paired = reverse_of_sets(sets, list(sets))

    def is_symmetric(edge_type: EdgeType) -> bool:
        pairs = sets[edge_type]
        return edge_type[0] == edge_type[2] and pairs.num_pairs > 0 and pairs.mirrors(pairs)

    return [t for t in sets if t not in paired and not is_symmetric(t)]


@kernel
def _mixed(h):  # type: ignore[no-untyped-def]
    h ^= h >> np.uint64(30)
    h *= np.uint64(0xBF58476D1CE4E5B9)
    h ^= h >> np.uint64(27)
    h *= np.uint64(0x94D049BB133111EB)
    return h ^ (h >> np.uint64(31))


@kernel
def _add_pairs(src, dst, sums, last):  # type: ignore[no-untyped-def]
    for i in range(len(src)):
        s, d = src[i], dst[i]
        if s == last[0] and d == last[1]:
            continue
        last[0], last[1] = s, d
        sums[0] += np.uint64(1)
        for way in range(2):
            a, b = (np.uint64(s), np.uint64(d)) if way == 0 else (np.uint64(d), np.uint64(s))
            for half in range(2):
                salt = np.uint64(0x9E3779B97F4A7C15) * np.uint64(half + 1)
                sums[1 + 2 * way + half] += _mixed(_mixed(a + salt) ^ (b + np.uint64(1)))
