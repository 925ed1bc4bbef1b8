"""Reverse relations: which there are, which are lacking, and the adding of them.

Two relations are each other's reverse by their names, or because the edges of one mirror those of
the other. Edge sets are compared by fingerprints, so that a store need not hold the edges.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from torch_geometric.data import HeteroData

from pagelink.errors import GraphError, did_you_mean
from pagelink.graph.labels import REVERSE_PREFIX as REVERSE_PREFIX
from pagelink.graph.schema import EdgeType
from pagelink.runtime.arrays import Ints, Longs
from pagelink.runtime.csr import Csr
from pagelink.runtime.kernels import kernel

SetOf = Callable[[EdgeType], "PairSet"]
"""From a relation to the pairs that its edges join."""


def reverse_name(edge_type: EdgeType) -> EdgeType:
    """Return what the reverse of a relation is called by default.

    Example:
        >>> reverse_name(("user", "buys", "item"))
        ('item', 'rev_buys', 'user')
    """
    src, relation, dst = edge_type
    return dst, REVERSE_PREFIX + relation, src


def given_reverse(
    reverse: Mapping[EdgeType, EdgeType], edge_types: Sequence[EdgeType]
) -> dict[EdgeType, EdgeType]:
    """Check pairs of reverses that a user gives, and return them both ways.

    Raises:
        GraphError: a relation is not there, or two of them cannot be each other's reverse.
    """
    pairs: dict[EdgeType, EdgeType] = {}
    for first, second in reverse.items():
        for edge_type in (first, second):
            if edge_type not in edge_types:
                raise GraphError(
                    f"reverse names {edge_type}, which is not a relation of the graph."
                    + did_you_mean(str(edge_type), map(str, edge_types))
                )
        if (first[0], first[2]) != (second[2], second[0]):
            raise GraphError(f"{second} cannot be the reverse of {first}: node types do not fit.")
        if pairs.get(first, second) != second or pairs.get(second, first) != first:
            raise GraphError(f"reverse gives two reverses to {first} or {second}.")
        pairs[first], pairs[second] = second, first
    return pairs


def find_reverse(
    edges: Mapping[EdgeType, Longs], edge_types: Sequence[EdgeType]
) -> dict[EdgeType, EdgeType]:
    """Pair relations by `rev_` names, then by edge sets that mirror each other exactly.

    Args:
        edges: edge lists of shape [2, num_edges] of the relations that are in the graph.
        edge_types: these, and link types that are not.

    Returns:
        The pairs, both ways.
    """
    return _pair_relations(list(edges), edge_types, _sets_of(edges))


def reverse_of_sets(
    sets: Mapping[EdgeType, PairSet], edge_types: Sequence[EdgeType]
) -> dict[EdgeType, EdgeType]:
    """Find reverses as `find_reverse` does, by fingerprints."""
    return _pair_relations(list(sets), edge_types, sets.__getitem__)


def _pair_relations(
    stored: Sequence[EdgeType], edge_types: Sequence[EdgeType], set_of: SetOf
) -> dict[EdgeType, EdgeType]:
    pairs = _reverse_by_name(edge_types)
    # Edge sets have to be compared only where there is no reverse by name, and another relation
    # runs between the same types. A relation that is its own mirror is symmetric; its twin would
    # be parallel, not a reverse.
    of_ends = Counter((t[0], t[2]) for t in stored)
    waiting: dict[tuple[str, str, int, str], deque[EdgeType]] = {}
    for edge_type in stored:
        src_type, _, dst_type = edge_type
        is_alone = of_ends[dst_type, src_type] == (src_type == dst_type)
        if edge_type in pairs or is_alone or not (mine := set_of(edge_type)).num_pairs:
            continue
        if _is_symmetric(edge_type, set_of):
            continue
        fitting = waiting.get((dst_type, src_type, mine.num_pairs, mine.back))
        if fitting:
            other = fitting.popleft()
            pairs[other], pairs[edge_type] = edge_type, other
        else:
            own = src_type, dst_type, mine.num_pairs, mine.forth
            waiting.setdefault(own, deque()).append(edge_type)
    return pairs


def _sets_of(edges: Mapping[EdgeType, Longs]) -> SetOf:
    """The pairs of each relation, made only if they are looked at: that sorts its edges."""
    return cache(lambda edge_type: PairSet.of(edges[edge_type]))


def _is_symmetric(edge_type: EdgeType, set_of: SetOf) -> bool:
    return edge_type[0] == edge_type[2] and set_of(edge_type).is_symmetric


def _reverse_by_name(edge_types: Sequence[EdgeType]) -> dict[EdgeType, EdgeType]:
    """Pair each relation with the one of its name and `rev_`, if neither has a reverse yet.

    The shortest names come first, so that of `r`, `rev_r` and `rev_rev_r` the first two are a pair
    whatever their order.
    """
    pairs: dict[EdgeType, EdgeType] = {}
    known = set(edge_types)
    for first in sorted(known, key=lambda t: len(t[1])):
        second = reverse_name(first)
        if second in known and first not in pairs:
            pairs[first], pairs[second] = second, first
    return {t: pairs[t] for t in edge_types if t in pairs}


def relation_classes(edge_types: Sequence[EdgeType], pairs: Mapping[EdgeType, EdgeType]) -> Ints:
    """Return, per relation, the position of the one that stands for it and its reverse."""
    position = {t: i for i, t in enumerate(edge_types)}
    return np.array(
        [min(i, position.get(pairs.get(t, t), i)) for i, t in enumerate(edge_types)], dtype=np.int32
    )


def relations_without_reverse(edges: Mapping[EdgeType, Longs]) -> list[EdgeType]:
    """Return the relations whose edges can be walked one way only.

    The others have a reverse among the relations (see `TypedGraph.from_data`), or are symmetric:
    within one node type, they store both directions of every edge.

    Args:
        edges: edge lists of shape [2, num_edges].

    Example:
        >>> cites = np.array([[0, 1], [1, 2]])
        >>> likes = np.array([[0, 1], [1, 0]])
        >>> relations_without_reverse({("p", "cites", "p"): cites, ("u", "likes", "u"): likes})
        [('p', 'cites', 'p')]
    """
    return _unpaired(list(edges), _sets_of(edges))


def without_reverse(sets: Mapping[EdgeType, PairSet]) -> list[EdgeType]:
    """Return what `relations_without_reverse` does, by fingerprints."""
    return _unpaired(list(sets), sets.__getitem__)


def _unpaired(stored: Sequence[EdgeType], set_of: SetOf) -> list[EdgeType]:
    paired = _pair_relations(stored, stored, set_of)
    return [t for t in stored if t not in paired and not _is_symmetric(t, set_of)]


def add_reverse_relations(data: HeteroData) -> None:
    """Add the reverse of every relation that lacks one, in place.

    Its edges are flipped and in the same order; its `attributes` are the same table, because it
    states the same facts.
    """
    edges = {t: data[t].edge_index.numpy() for t in data.edge_types}
    for edge_type in relations_without_reverse(edges):
        forward, backward = data[edge_type], data[reverse_name(edge_type)]
        backward.edge_index = forward.edge_index.flip(0)
        if "attributes" in forward:
            backward.attributes = forward.attributes


NEAR = 0.9
"""Relations that hold this share of each other's pairs, turned, nearly mirror each other."""


def nearly_mirrored(
    src: Ints,
    dst: Ints,
    relation: Ints,
    edge_types: Sequence[EdgeType],
    asked: Sequence[EdgeType],
) -> dict[EdgeType, list[EdgeType]]:
    """Return, of some relations, others that nearly mirror them; those without any are left out.

    Each pair of nodes is looked at once for all of them: this costs about a sort of the edges.

    Args:
        src: flat sources of the edges.
        dst: their targets.
        relation: their relations, as positions in `edge_types`.
        edge_types: the stored relations.
        asked: some of them.

    Example:
        >>> there, back = ("u", "buys", "i"), ("i", "sold_to", "u")
        >>> src, dst = np.array([0, 1, 8, 9]), np.array([8, 9, 0, 1])
        >>> nearly_mirrored(src, dst, np.array([0, 0, 1, 1]), [there, back], [there])
        {('u', 'buys', 'i'): [('i', 'sold_to', 'u')]}
    """
    requested, ends = set(asked), {(t[0], t[2]) for t in asked}
    wanted = {*asked, *(t for t in edge_types if (t[2], t[0]) in ends)}
    if len(wanted) < 2:
        return {}
    # 1. The distinct pairs of all relations that take part.
    edges = np.flatnonzero(np.array([t in wanted for t in edge_types])[relation])
    u, v, kind = (each[edges].astype(np.int64) for each in (src, dst, relation))
    order = np.lexsort((kind, v, u))
    u, v, kind = u[order], v[order], kind[order]
    first = np.ones(len(kind), dtype=np.bool_)
    first[1:] = (np.diff(u) != 0) | (np.diff(v) != 0) | (np.diff(kind) != 0)
    u, v, kind = u[first], v[first], kind[first]
    counts = np.bincount(kind, minlength=len(edge_types))
    # 2. Each pair that some relations state, beside each relation that states it turned.
    base = int(max(u.max(initial=0), v.max(initial=0))) + 1
    pair, turned = u * base + v, v * base + u
    is_new = np.diff(pair, prepend=-1) != 0
    pairs, row = pair[is_new], np.cumsum(is_new) - 1
    place = np.minimum(np.searchsorted(pairs, turned), max(len(pairs) - 1, 0))
    there = pairs[place] == turned
    stated = Csr.grouped(row.astype(np.int32), len(pairs)).take(place[there])
    one, other = kind[stated.values], np.repeat(kind[there], np.diff(stated.ptr))
    # 3. The relations that share most of their pairs in this way.
    keys, shared = np.unique(one * len(edge_types) + other, return_counts=True)
    one, other = np.divmod(keys, len(edge_types))
    is_near = shared >= NEAR * np.maximum(counts[one], counts[other])
    near = zip(one[is_near].tolist(), other[is_near].tolist(), strict=True)
    found: dict[EdgeType, list[EdgeType]] = {}
    for i, j in near:
        if i != j and edge_types[i] in requested:
            found.setdefault(edge_types[i], []).append(edge_types[j])
    return found


def distinct(keys: Longs) -> Longs:
    """Return the distinct numbers in ascending order."""
    # numpy's own unique() hashes integers before it sorts them: 30 times slower on 10 million.
    keys = np.sort(keys)
    kept: Longs = keys[np.concatenate([np.ones(1, dtype=bool), np.diff(keys) != 0])[: len(keys)]]
    return kept


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
        base = int(edge_index.max(initial=0)) + 1
        pairs = distinct(edge_index[1] * base + edge_index[0])
        return PairSum().add(pairs % base, pairs // base).found

    def mirrors(self, other: PairSet) -> bool:
        """Whether the pairs of the other are these, turned."""
        return (self.num_pairs, self.forth) == (other.num_pairs, other.back)

    @property
    def is_symmetric(self) -> bool:
        """Whether there are pairs, and each of them both ways."""
        return self.num_pairs > 0 and self.mirrors(self)


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
