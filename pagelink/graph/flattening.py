"""The flat arrays of a graph in memory, made of the edge lists of its relations.

See `typed_graph` for what they mean; `store/facts.py` makes the same arrays on disk.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypedDict

import numpy as np

from pagelink.errors import GraphError
from pagelink.graph.reading import RawGraph, label_values
from pagelink.graph.reverse_relations import relation_classes
from pagelink.graph.schema import EdgeType
from pagelink.runtime.arrays import Bools, Ints, Longs
from pagelink.runtime.csr import Csr


class FlatGraph(TypedDict):
    """The fields of a `TypedGraph` that are worked out."""

    node_offset: Longs
    edge_counts: tuple[int, ...]
    relation_class: Ints
    label_value: Longs
    in_ptr: Longs
    src: Ints
    dst: Ints
    relation: Ints
    column: Ints
    fact: Ints
    opposite: Ints
    representative: Bools
    arc_ptr: Longs
    arc_dst: Ints
    arc_edge: Ints
    arc_reversed: Bools
    degree: Ints


def flatten(
    raw: RawGraph, edge_types: Sequence[EdgeType], pairs: Mapping[EdgeType, EdgeType]
) -> FlatGraph:
    """Put the edges of all relations in the order of the flat graph, and find facts and arcs.

    Args:
        raw: the graph.
        edge_types: its relations, and link types that are not in it.
        pairs: which of them are each other's reverse.

    Raises:
        GraphError: there are too many edges.
    """
    sizes, edges, columns = raw.sizes, raw.edges, raw.columns
    node_offset = np.cumsum([0, *sizes.values()], dtype=np.int64)
    num_nodes = int(node_offset[-1])
    offset = dict(zip(sizes, node_offset.tolist(), strict=False))
    counts = tuple(edges[t].shape[1] if t in edges else 0 for t in edge_types)
    if max(num_nodes, 2 * sum(counts)) >= 2**31:
        raise GraphError("Graphs of 2^30 edges or more do not fit the 32-bit indices used here.")

    none = np.empty((2, 0), dtype=np.int64)
    shift = {t: np.array([[offset[t[0]]], [offset[t[2]]]]) for t in edge_types}
    stacked = [edges.get(t, none) + shift[t] for t in edge_types]
    src, dst = np.concatenate([none, *stacked], axis=1)
    relation = np.repeat(np.arange(len(edge_types)), counts)
    column = np.concatenate([none[0], *(columns.get(t, none[0]) for t in edge_types)])
    order = np.argsort((dst * len(edge_types) + relation) * num_nodes + src, kind="stable")
    src, dst, kind, column = (a[order].astype(np.int32) for a in (src, dst, relation, column))
    del stacked, relation, order

    relation_class = relation_classes(edge_types, pairs)
    # Of a relation and its reverse, one direction is the canonical one; within one node type the
    # ends are put in order, since (u, r, v) and (v, r, u) are one fact there.
    same_type = np.array([t[0] == t[2] for t in edge_types])[kind]
    turned = np.where(same_type, src > dst, relation_class[kind] != kind)
    low = np.where(turned, dst, src).astype(np.int64)
    high = np.where(turned, src, dst)
    keys = (relation_class[kind].astype(np.int64) * num_nodes + low) * num_nodes + high
    order = np.argsort(keys, kind="stable")
    fact = np.empty(len(keys), dtype=np.int32)
    fact[order] = np.cumsum(np.diff(keys[order], prepend=-1) != 0) - 1
    num_facts = int(fact.max(initial=-1)) + 1
    del same_type, low, high, keys, order

    first = np.full((2, num_facts), -1, dtype=np.int32)
    edge_ids = np.arange(len(src), dtype=np.int32)
    for way in (0, 1):
        ids = edge_ids[turned == bool(way)][::-1]  # backwards: the lowest id is written last
        first[way, fact[ids]] = ids
    opposite = np.where(turned, first[0, fact], first[1, fact]).astype(np.int32)
    loop = src == dst
    stands = np.where(first[0] >= 0, first[0], first[1])
    representative = (stands[fact] == edge_ids) & ~loop

    walked = stands[~loop[stands]]
    forth = np.stack([src[walked], dst[walked], walked, np.zeros_like(walked)])
    back_edge = np.where(opposite[walked] >= 0, opposite[walked], walked)
    back = np.stack([dst[walked], src[walked], back_edge, opposite[walked] < 0])
    arcs = np.concatenate([forth, back], axis=1, dtype=np.int32)
    del forth, back
    arc_class = relation_class[kind[arcs[2]]]
    arcs = arcs[:, np.lexsort((arc_class, arcs[1], arcs[0]))]
    arc_ptr = Csr.grouped(arcs[0], num_nodes).ptr
    return FlatGraph(
        node_offset=node_offset,
        edge_counts=counts,
        relation_class=relation_class,
        label_value=label_values(raw, edge_types),
        in_ptr=Csr.grouped(dst, num_nodes).ptr,
        src=src,
        dst=dst,
        relation=kind,
        column=column,
        fact=fact,
        opposite=opposite,
        representative=representative,
        arc_ptr=arc_ptr,
        arc_dst=arcs[1].astype(np.int32),
        arc_edge=arcs[2].astype(np.int32),
        arc_reversed=arcs[3].astype(bool),
        degree=np.diff(arc_ptr).astype(np.int32),
    )
