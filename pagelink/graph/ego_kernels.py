"""The kernels that cut computation graphs out of the flat graph; see `computation_graph`."""

from __future__ import annotations

import numpy as np

from pagelink.runtime.kernels import kernel

FAR = np.int32(2**31 - 1)
DENSE = 16
"""Above one node in so many, going through all nodes in order is cheaper than sorting some."""


@kernel
def grown(values, used, size):  # type: ignore[no-untyped-def]
    """A longer array that starts with the used part of this one."""
    longer = np.empty(size, dtype=values.dtype)
    for i in range(used):  # not by slices: the checks of their sizes take seconds to compile
        longer[i] = values[i]
    return longer


@kernel
def grown_rows(values, size):  # type: ignore[no-untyped-def]
    """A table with more rows that starts with those of this one."""
    longer = np.empty((size, values.shape[1]), dtype=values.dtype)
    for i in range(values.shape[0]):
        for j in range(values.shape[1]):
            longer[i, j] = values[i, j]
    return longer


@kernel
def find_egos(  # type: ignore[no-untyped-def]
    first, last, link_src, link_dst, link_fact, num_hops, in_ptr, src, fact, relation, everything,
    along, along_all, whole, hops,
):  # fmt: skip
    """Nodes and distances of the graphs of some links; how many nodes and edges each link has.

    `hops` is as long as the graph, all FAR, and is left so.
    """
    node_count = np.zeros(last - first, dtype=np.int64)
    edge_count = np.zeros(last - first, dtype=np.int64)
    nodes = np.empty(64, dtype=np.int32)
    distance = np.empty(64, dtype=np.int32)
    found = np.empty(64, dtype=np.int32)
    num_nodes = 0
    for row in range(last - first):
        s, t, out = link_src[first + row], link_dst[first + row], link_fact[first + row]
        found, count = _search(
            s, t, out, num_hops, in_ptr, src, fact, relation, everything, hops, found
        )
        n = len(hops) if whole else count
        if num_nodes + n > len(nodes):
            nodes = grown(nodes, num_nodes, 2 * (num_nodes + n))
            distance = grown(distance, num_nodes, 2 * (num_nodes + n))
        mine = nodes[num_nodes : num_nodes + n]
        if whole or n * DENSE > len(hops):
            i = 0
            for v in range(len(hops)):
                if whole or hops[v] != FAR:
                    mine[i] = v
                    i += 1
        else:
            for i in range(n):
                mine[i] = found[i]
            mine.sort()

        num_edges = 0
        for i in range(n):
            v = mine[i]
            distance[num_nodes + i] = hops[v]
            if v == s or v == t:  # noqa: SIM109 (slower in a kernel)
                # Only an edge between s and t can state the link.
                for e in range(in_ptr[v], in_ptr[v + 1]):
                    num_edges += (whole or hops[src[e]] != FAR) and fact[e] != out
            elif whole or hops[v] < num_hops:
                num_edges += in_ptr[v + 1] - in_ptr[v]
            else:
                for e in range(in_ptr[v], in_ptr[v + 1]):
                    num_edges += hops[src[e]] != FAR
        for i in range(count):
            hops[found[i]] = FAR

        if not along_all:
            found, count = _search(
                s, t, out, num_hops, in_ptr, src, fact, relation, along, hops, found
            )
            for i in range(n):
                distance[num_nodes + i] = hops[mine[i]]
            for i in range(count):
                hops[found[i]] = FAR
        node_count[row] = n
        edge_count[row] = num_edges
        num_nodes += n
    return node_count, edge_count, nodes, distance


@kernel
def _search(s, t, out, num_hops, in_ptr, src, fact, relation, along, hops, found):  # type: ignore[no-untyped-def]
    """Breadth-first search along in-edges from s and t. Leaves the distances in `hops`."""
    found[0] = s
    hops[s] = 0
    count = 1
    if t != s:
        found[1] = t
        hops[t] = 0
        count = 2
    start = 0
    for hop in range(1, num_hops + 1):
        stop = count
        for i in range(start, stop):
            v = found[i]
            for e in range(in_ptr[v], in_ptr[v + 1]):
                u = src[e]
                if hops[u] != FAR or not along[relation[e]] or fact[e] == out:
                    continue
                hops[u] = hop
                if count == len(found):
                    found = grown(found, count, 2 * count)
                found[count] = u
                count += 1
        if count == stop:
            break
        start = stop
    return found, count


@kernel
def fill_egos(  # type: ignore[no-untyped-def]
    first, last, link_src, link_dst, link_fact, node_ptr, edge_ptr, found_nodes, found_hops, in_ptr,
    src, fact, relation, opposite, seen, twin, limit, position, nodes, hops, edges, local_src,
    local_dst, visible, fact_visible,
):  # fmt: skip
    """Write what was found for some links to its place, with the edges and what is visible.

    `position` is as long as the graph, all -1, and is left so.
    """
    every_seen = seen.all()
    for link in range(first, last):
        s, t, out = link_src[link], link_dst[link], link_fact[link]
        base, n = node_ptr[link], node_ptr[link + 1] - node_ptr[link]
        shift = base - node_ptr[first]
        for i in range(n):
            nodes[base + i] = found_nodes[shift + i]
            hops[base + i] = found_hops[shift + i]
            position[nodes[base + i]] = i
        k = edge_ptr[link]
        for i in range(n):
            v = nodes[base + i]
            into = hops[base + i] < limit
            own = out if v == s or v == t else -1  # noqa: SIM109 (slower in a kernel)
            for e in range(in_ptr[v], in_ptr[v + 1]):
                u = src[e]
                j = position[u]
                if j < 0 or (own >= 0 and fact[e] == own):
                    continue
                edges[k] = e
                local_src[k] = j
                local_dst[k] = i
                out_of = hops[base + j] < limit
                if every_seen:
                    visible[k] = into
                    fact_visible[k] = into or (out_of and opposite[e] >= 0)
                else:
                    visible[k] = into and seen[relation[e]]
                    fact_visible[k] = (
                        into and _is_seen_along(e, u, v, in_ptr, src, relation, seen, twin)
                    ) or (
                        out_of
                        and _is_seen_against(e, u, v, in_ptr, src, relation, opposite, seen, twin)
                    )
                k += 1
        for i in range(n):
            position[nodes[base + i]] = -1


@kernel
def _is_seen_along(e, u, v, in_ptr, src, relation, seen, twin):  # type: ignore[no-untyped-def]
    """Whether the model uses some copy of the edge's fact that runs the same way."""
    other = twin[relation[e]]
    return seen[relation[e]] or (
        other >= 0 and seen[other] and _is_stored(u, other, v, in_ptr, src, relation)
    )


@kernel
def _is_seen_against(e, u, v, in_ptr, src, relation, opposite, seen, twin):  # type: ignore[no-untyped-def]
    """Whether the model uses some copy of the edge's fact that runs the other way."""
    if opposite[e] < 0:
        return False
    known = relation[opposite[e]]
    if seen[known] or twin[known] < 0:
        return seen[known]
    other = twin[known]
    return seen[other] and _is_stored(v, other, u, in_ptr, src, relation)


@kernel
def _is_stored(u, kind, v, in_ptr, src, relation):  # type: ignore[no-untyped-def]
    """Whether there is an edge of a relation from u to v, by bisection of the edges into v."""
    low, high = in_ptr[v], in_ptr[v + 1]
    while low < high:
        middle = (low + high) // 2
        if relation[middle] < kind or (relation[middle] == kind and src[middle] < u):
            low = middle + 1
        else:
            high = middle
    return low < in_ptr[v + 1] and relation[low] == kind and src[low] == u
