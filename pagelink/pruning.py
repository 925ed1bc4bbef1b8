"""Pruning of computation graphs: the k-core with s and t protected, and removal of hubs."""

from __future__ import annotations

import numpy as np
from numba import njit

from pagelink.computation_graph import ComputationGraphs
from pagelink.graph import Bools, Ints, Longs, TypedGraph


def prune(
    graph: TypedGraph, batch: ComputationGraphs, core: int, hub_degree: int | None = None
) -> Bools:
    """Return which edges of each computation graph are kept.

    Hubs (nodes whose degree in the whole graph is above `hub_degree`) go first; then nodes with
    fewer than `core` facts inside what is left go, again and again, until none is left to go. s and
    t are never pruned. A kept edge has both of its ends kept.

    Args:
        graph: the flat graph.
        batch: the computation graphs.
        core: k of the k-core.
        hub_degree: D above which a node is a hub. None: no node is.

    Returns:
        One bool per edge of the batch, in its order.
    """
    facts = graph.representative[batch.edges]
    kept = np.empty(len(batch.edges), dtype=np.bool_)
    for i in range(batch.num_links):
        nodes = batch.nodes[batch.node_ptr[i] : batch.node_ptr[i + 1]]
        edges = slice(batch.edge_ptr[i], batch.edge_ptr[i + 1])
        protected = np.searchsorted(nodes, [batch.link_src[i], batch.link_dst[i]])
        removed = np.zeros(len(nodes), dtype=np.bool_)
        if hub_degree is not None:
            removed |= graph.degree[nodes] > hub_degree
        src, dst, is_fact = batch.src[edges], batch.dst[edges], facts[edges]
        alive = protected_core(src[is_fact], dst[is_fact], len(nodes), protected, core, removed)
        kept[edges] = alive[src] & alive[dst]
    return kept


def protected_core(
    src: Ints | Longs,
    dst: Ints | Longs,
    num_nodes: int,
    protected: Longs,
    core: int,
    removed: Bools,
) -> Bools:
    """Return which nodes of an undirected multigraph are in its k-core.

    The largest set of nodes, without the `removed` ones and with all `protected` ones, in which
    every node that is not protected has at least `core` edges to the set. Parallel edges count.

    Args:
        src: first ends of the undirected edges, no self-loops among them.
        dst: second ends.
        num_nodes: number of nodes.
        protected: nodes that are never taken out.
        core: k.
        removed: nodes that are out from the start, unless protected.

    Example:
        >>> import numpy as np
        >>> a, b = np.array([0, 1, 2, 2]), np.array([1, 2, 0, 3])
        >>> out = np.zeros(4, dtype=bool)
        >>> protected_core(a, b, 4, np.array([0]), 2, out).tolist()
        [True, True, True, False]
    """
    return _protected_core(src, dst, num_nodes, protected, core, removed)  # type: ignore[no-any-return]


@njit(cache=True, nogil=True)
def _protected_core(src, dst, num_nodes, protected, core, removed):  # type: ignore[no-untyped-def]
    safe = np.zeros(num_nodes, dtype=np.bool_)
    for v in protected:
        safe[v] = True
    alive = np.ones(num_nodes, dtype=np.bool_)
    for v in range(num_nodes):
        alive[v] = safe[v] or not removed[v]

    ptr = np.zeros(num_nodes + 2, dtype=np.int64)
    for i in range(len(src)):
        if alive[src[i]] and alive[dst[i]]:
            ptr[src[i] + 2] += 1
            ptr[dst[i] + 2] += 1
    for v in range(num_nodes):
        ptr[v + 2] += ptr[v + 1]
    neighbour = np.empty(ptr[num_nodes + 1], dtype=np.int64)
    for i in range(len(src)):
        if alive[src[i]] and alive[dst[i]]:
            neighbour[ptr[src[i] + 1]] = dst[i]
            ptr[src[i] + 1] += 1
            neighbour[ptr[dst[i] + 1]] = src[i]
            ptr[dst[i] + 1] += 1

    degree = np.empty(num_nodes, dtype=np.int64)
    stack = np.empty(num_nodes, dtype=np.int64)
    height = 0
    for v in range(num_nodes):
        degree[v] = ptr[v + 1] - ptr[v]
        if alive[v] and not safe[v] and degree[v] < core:
            alive[v] = False
            stack[height] = v
            height += 1
    while height:
        height -= 1
        v = stack[height]
        for i in range(ptr[v], ptr[v + 1]):
            u = neighbour[i]
            degree[u] -= 1
            if alive[u] and not safe[u] and degree[u] < core:
                alive[u] = False
                stack[height] = u
                height += 1
    return alive
