"""Pruning of computation graphs: the k-core with s and t protected, and removal of hubs."""

from __future__ import annotations

import numpy as np

from pagelink.graph.computation_graph import ComputationGraphs
from pagelink.graph.typed_graph import TypedGraph
from pagelink.runtime.arrays import Bools, Ints, Longs
from pagelink.runtime.kernels import Deadline, kernel, over_ranges
from pagelink.runtime.timer import OutOfTimeError


def prune(
    graph: TypedGraph,
    batch: ComputationGraphs,
    core: int,
    hub_degree: int | None = None,
    until: float | None = None,
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
        until: when to stop at the latest, by `time.perf_counter`. None: never.

    Returns:
        One bool per edge of the batch, in its order.

    Raises:
        OutOfTimeError: it was not done by then.
    """
    deadline = Deadline(until)
    if deadline.passed[0]:
        raise OutOfTimeError
    hub = np.iinfo(np.int64).max if hub_degree is None else hub_degree
    kept = np.empty(len(batch.edges), dtype=np.bool_)
    over_ranges(
        lambda first, last: _prune_links(
            first, last, batch.arrays, graph.arrays, core, hub, kept, deadline.passed
        ),
        1 + np.diff(batch.edge_ptr),
        deadline,
    )
    if deadline.passed[0]:
        raise OutOfTimeError
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
    alive = ~removed
    safe = np.zeros(num_nodes, dtype=np.bool_)
    alive[protected] = safe[protected] = True
    first, second = (np.ascontiguousarray(ends, dtype=np.int32) for ends in (src, dst))
    ptr, degree, stack = (np.empty(num_nodes + 2, dtype=np.int64) for _ in range(3))
    neighbour = np.empty(2 * len(first), dtype=np.int32)
    never = np.zeros(1, dtype=np.int64)
    _peel(first, second, safe, core, alive, ptr, degree, stack, neighbour, never)
    return alive


@kernel
def _prune_links(first, last, batch, graph, core, hub_degree, kept, passed):  # type: ignore[no-untyped-def]
    """Prune some links, one after the other in the same scratch; stop when `passed` is set."""
    node_ptr, edge_ptr, src, dst = batch.node_ptr, batch.edge_ptr, batch.src, batch.dst
    most_nodes, most_edges = 0, 0
    for link in range(first, last):
        most_nodes = max(most_nodes, node_ptr[link + 1] - node_ptr[link])
        most_edges = max(most_edges, edge_ptr[link + 1] - edge_ptr[link])
    alive = np.empty(most_nodes, dtype=np.bool_)
    safe = np.empty(most_nodes, dtype=np.bool_)
    ptr = np.empty(most_nodes + 2, dtype=np.int64)
    inside = np.empty(most_nodes, dtype=np.int64)
    stack = np.empty(most_nodes, dtype=np.int64)
    fact_src = np.empty(most_edges, dtype=np.int32)
    fact_dst = np.empty(most_edges, dtype=np.int32)
    neighbour = np.empty(2 * most_edges, dtype=np.int32)
    for link in range(first, last):
        # 1. Hubs go; s and t stay, whatever their degree.
        base = node_ptr[link]
        n = node_ptr[link + 1] - base
        for i in range(n):
            v = batch.nodes[base + i]
            safe[i] = v == batch.link_src[link] or v == batch.link_dst[link]
            alive[i] = safe[i] or graph.degree[v] <= hub_degree
        # 2. Each fact is one undirected edge, however often it is stored.
        count = 0
        for k in range(edge_ptr[link], edge_ptr[link + 1]):
            fact_src[count] = src[k]
            fact_dst[count] = dst[k]
            count += graph.representative[batch.edges[k]]
        # 3. The k-core of what is left.
        _peel(
            fact_src[:count], fact_dst[:count], safe[:n], core, alive[:n], ptr, inside, stack,
            neighbour, passed,
        )  # fmt: skip
        if passed[0]:
            return
        # 4. An edge is kept if both of its ends are.
        for k in range(edge_ptr[link], edge_ptr[link + 1]):
            kept[k] = alive[src[k]] and alive[dst[k]]


@kernel
def _peel(src, dst, safe, core, alive, ptr, degree, stack, neighbour, passed):  # type: ignore[no-untyped-def]
    """Take weak nodes out of the living ones; stop when `passed` is set.

    The four before that are scratch, in any state.
    """
    # 1. Facts of each living node to living nodes; those with fewer than `core` wait on a stack.
    num_nodes = len(alive)
    degree[:num_nodes] = 0
    for i in range(len(src)):
        both = alive[src[i]] and alive[dst[i]]
        degree[src[i]] += both
        degree[dst[i]] += both
    height = 0
    ptr[:2] = 0
    for v in range(num_nodes):
        ptr[v + 2] = ptr[v + 1] + (degree[v] if alive[v] else 0)
        if alive[v] and not safe[v] and degree[v] < core:
            stack[height] = v
            height += 1
    if height == 0 or passed[0]:
        return
    # 2. The living neighbours of node v: neighbour[ptr[v]:ptr[v + 1]].
    for i in range(len(src)):
        u, v = src[i], dst[i]
        if alive[u] and alive[v]:
            neighbour[ptr[u + 1]] = v
            ptr[u + 1] += 1
            neighbour[ptr[v + 1]] = u
            ptr[v + 1] += 1
    # 3. A node that goes takes one fact from each neighbour, which may then have to go as well.
    for i in range(height):
        alive[stack[i]] = False
    while height and not passed[0]:
        height -= 1
        v = stack[height]
        for i in range(ptr[v], ptr[v + 1]):
            u = neighbour[i]
            degree[u] -= 1
            if alive[u] and not safe[u] and degree[u] < core:
                alive[u] = False
                stack[height] = u
                height += 1
