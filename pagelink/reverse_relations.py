"""Which relations lack a reverse, and the adding of it."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from torch_geometric.data import HeteroData

from pagelink.graph import REVERSE_PREFIX, EdgeType, Longs, _find_reverse


def reverse_name(edge_type: EdgeType) -> EdgeType:
    """Return what the reverse of a relation is called by default.

    Example:
        >>> reverse_name(("user", "buys", "item"))
        ('item', 'rev_buys', 'user')
    """
    src, relation, dst = edge_type
    return dst, REVERSE_PREFIX + relation, src


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
    # A reverse runs between the same node types the other way. Relations without any such other
    # relation are not compared edge by edge, which takes sorting them.
    compared = {
        t: e for t, e in edges.items()
        if any(other != t and (other[2], other[0]) == (t[0], t[2]) for other in edges)
    }  # fmt: skip
    paired = _find_reverse(compared, list(compared))
    return [t for t, e in edges.items() if t not in paired and not _is_symmetric(t, e)]


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


def _is_symmetric(edge_type: EdgeType, edge_index: Longs) -> bool:
    # Of a relation without edges nothing is known.
    if edge_type[0] != edge_type[2] or edge_index.shape[1] == 0:
        return False
    src, dst = edge_index
    base = int(edge_index.max()) + 1
    return np.array_equal(_distinct(src * base + dst), _distinct(dst * base + src))


def _distinct(keys: Longs) -> Longs:
    # numpy's own unique() hashes integers before it sorts them: 30 times slower on 10 million.
    keys = np.sort(keys)
    kept: Longs = keys[np.diff(keys, prepend=keys[0] - 1) != 0]
    return kept
