"""The nodes of several computation graphs, edited ones among them, as the nodes of one graph."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np

from pagelink.graph.computation_graph import ComputationGraphs
from pagelink.graph.ego_kernels import FAR
from pagelink.graph.typed_graph import TypedGraph
from pagelink.layers.node_rows import Rings
from pagelink.runtime.arrays import Bools, Ints, Longs
from pagelink.runtime.csr import Csr

SPARSE = 8
"""With this many times more nodes in the graph than are looked for, they are sorted, not marked."""


@dataclass(frozen=True)
class PlacedNodes:
    """Which nodes a graph has, in which order: by type, then by distance from s and t."""

    nodes: Longs
    """Flat nodes."""
    start: Longs
    """Where the nodes of each type begin, and the end."""
    number: Longs
    """Per node of the batch, then per new one, its number within its type; 0 where it is not."""
    rings: tuple[Rings, ...]
    """Per type, the numbers of its nodes within 0, 1, ... hops of s and t."""
    num_outermost: int
    """Nodes that are as far away as the model sees."""


def place_nodes(
    graph: TypedGraph,
    batch: ComputationGraphs,
    edges: Longs,
    ends: Longs,
    new: Ints | None,
    looks: Longs | None,
    shares_rim: bool,
    every: Bools | None = None,
) -> PlacedNodes:
    """Place the nodes that edges and links have.

    Args:
        graph: the whole graph, flat.
        batch: the computation graphs.
        edges: [3, num_edges]: slot, source and target; nodes are counted through, first those of
            the batch, then the new ones.
        ends: [2, num_links]: the links, counted in the same way.
        new: per new node, which node of the batch it is a copy of.
        looks: per node of the batch, the flat node whose features it has. None: its own.
        shares_rim: one node may stand for all copies of it at the rim of the receptive field.
        every: per node of the batch, whether it is placed without edges, too. None: none is.
    """
    _, src, dst = edges
    own = batch.nodes if looks is None else looks
    flat = own if new is None else np.concatenate([own, own[new]])
    hops = batch.hops if new is None else np.concatenate([batch.hops, batch.hops[new]])
    # 1. At the rim of the receptive field nothing counts but a node's own features, which are the
    #    same for every link: one node stands for all its copies.
    used = np.zeros(len(flat), dtype=np.bool_)
    used[src] = used[dst] = used[ends] = True
    if every is not None:
        used[: len(every)] |= every
    rim = np.zeros(len(flat), dtype=np.bool_)
    if shares_rim:
        rim[: len(batch.hops)] = batch.hops >= (batch.num_hops or FAR)
    own_at, shared_at = np.flatnonzero(used & ~rim), np.flatnonzero(used & rim)
    shared_flat, stands_for = _distinct(flat[shared_at], graph.num_nodes)
    nodes = np.concatenate([flat[own_at], shared_flat]).astype(np.int64)
    # 2. Type by type, and in each the nodes that are nearest to s and t first.
    outermost = batch.num_hops or 0
    ring = np.full(len(nodes), outermost, dtype=np.int64)
    ring[: len(own_at)] = np.minimum(hops[own_at], outermost)
    placed = _in_order(graph, nodes, ring, outermost)
    # 3. Where each of them is now.
    number = np.zeros(len(flat), dtype=np.int64)
    number[own_at] = placed.number[: len(own_at)]
    number[shared_at] = placed.number[len(own_at) :][stands_for]
    return dataclasses.replace(placed, number=number)


def place_new_nodes(graph: TypedGraph, batch: ComputationGraphs, new: Ints) -> PlacedNodes:
    """Place new nodes, and no others; `new` says which node of the batch each is a copy of."""
    outermost = batch.num_hops or 0
    ring = np.minimum(batch.hops[new], outermost).astype(np.int64)
    return _in_order(graph, batch.nodes[new].astype(np.int64), ring, outermost)


def _in_order(graph: TypedGraph, nodes: Longs, ring: Longs, outermost: int) -> PlacedNodes:
    """Place nodes by type and distance; their numbers are in the order in which they are given."""
    num_rings, num_types = outermost + 1, len(graph.node_types)
    kind = graph.node_type_of[nodes]
    grouped = Csr.grouped(kind * num_rings + ring, num_types * num_rings)
    start = grouped.ptr[::num_rings]
    within = grouped.ptr[1:].reshape(num_types, num_rings) - start[:-1, None]
    place = np.empty(len(nodes), dtype=np.int64)
    place[grouped.values] = np.arange(len(nodes))
    return PlacedNodes(
        nodes[grouped.values], start, place - start[kind], tuple(map(tuple, within.tolist())),
        int(np.sum(ring == outermost)) if outermost else 0,
    )  # fmt: skip


def ids_by_type(graph: TypedGraph, nodes: Longs, start: Longs) -> list[Longs]:
    """Per node type, the indices of flat nodes within it; `start` is the range of each."""
    shifted = nodes - np.repeat(graph.node_offset[:-1], np.diff(start))
    return np.split(shifted, start[1:-1])


def _distinct(values: Ints | Longs, size: int) -> tuple[Longs, Longs]:
    """The distinct values below a size in ascending order, and where each value is among them."""
    if size > SPARSE * len(values):
        found, place = np.unique(values.astype(np.int64), return_inverse=True)
        return found, place.astype(np.int64)
    is_there = np.zeros(size, dtype=np.bool_)
    is_there[values] = True
    number = np.cumsum(is_there) - 1
    return np.flatnonzero(is_there), number[values]
