"""The kernels that cut computation graphs out of the flat graph; see `computation_graph`.

G_c of a link (s, t) is the paper's L-hop ego graph: (1) a breadth-first search along in-edges from
both ends finds its nodes, (2) their in-edges that stay inside are counted, and, when the room is
made, (3) nodes and edges are written to their places, with what the model can see of them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pagelink.runtime.arrays import Bools, Ints, Longs
from pagelink.runtime.kernels import inlined, inner, kernel
from pagelink.runtime.rooms import grown

FAR = np.int32(2**31 - 1)
DENSE = 16
"""Above one node in this number, going through all nodes in order is cheaper than sorting some."""


class GraphArrays(NamedTuple):
    """What kernels read of a `TypedGraph`."""

    in_ptr: Longs
    src: Ints
    targets: Ints
    """Of all edges, where `in_ptr` is checked against them: in files. Empty in memory."""
    fact: Ints
    relation: Ints
    opposite: Ints
    representative: Bools
    degree: Ints
    relation_class: Ints


class BatchArrays(NamedTuple):
    """What kernels read of, or write to, the `ComputationGraphs` of a batch."""

    link_src: Longs
    link_dst: Longs
    link_fact: Longs
    node_ptr: Longs
    nodes: Ints
    hops: Ints
    edge_ptr: Longs
    edges: Ints
    src: Ints
    dst: Ints
    visible: Bools
    fact_visible: Bools


# What kernels read of the graph may lie in a file that was damaged after it was verified. They use
# no index out of it before it is known to be in range; `naming_damage` says which file it was.


@inlined
def _in_edges(v, graph):  # type: ignore[no-untyped-def]
    """Where the edges into v begin and end: all of them, as edges are ordered by target."""
    first, last, dst = graph.in_ptr[v], graph.in_ptr[v + 1], graph.targets
    if first < 0 or last < first or last > len(graph.src):
        raise IndexError("in_ptr is out of range")
    if len(dst) > 0:
        if first < last and (dst[first] != v or dst[last - 1] != v):
            raise IndexError("in_ptr points to edges of another node")
        if (first > 0 and dst[first - 1] == v) or (last < len(dst) and dst[last] == v):
            raise IndexError("in_ptr leaves out edges of the node")
    return first, last


@inlined
def _source(e, graph, num_nodes):  # type: ignore[no-untyped-def]
    u = graph.src[e]
    if u < 0 or u >= num_nodes:
        raise IndexError("src is out of range")
    return u


@inlined
def _relation(e, graph, num_relations):  # type: ignore[no-untyped-def]
    kind = graph.relation[e]
    if kind < 0 or kind >= num_relations:
        raise IndexError("relation is out of range")
    return kind


@kernel
def find_egos(  # type: ignore[no-untyped-def]
    first, last, links, num_hops, whole, graph, everything, along, along_all, hops, passed
):
    """Nodes and distances of the graphs of some links; the number of nodes and edges of each.

    Args:
        first: the first of the links.
        last: the one behind the last of them.
        links: [3, num_links]: source, target, and the fact that states the link itself, or -1.
        num_hops: L.
        whole: every graph is the whole graph; only distances are found.
        graph: the `GraphArrays`.
        everything: per relation, True.
        along: per relation, whether messages may come from the source of its edges.
        along_all: whether that is so for all relations.
        hops: as long as the graph, all FAR, and left so, unless it was stopped.
        passed: a flag, set when the time is over; what is returned is then of no use.
    """
    fact = graph.fact
    node_count = np.zeros(last - first, dtype=np.int64)
    edge_count = np.zeros(last - first, dtype=np.int64)
    nodes = np.empty(64, dtype=np.int32)
    distance = np.empty(64, dtype=np.int32)
    found = np.empty(64, dtype=np.int32)
    num_nodes = np.int64(0)  # a literal would have `grown` compiled for it once more
    for row in range(last - first):
        s, t, out = links[0, first + row], links[1, first + row], links[2, first + row]
        # 1. The nodes within L in-edge hops of s or t, along edges of any relation.
        found, count = _search(s, t, out, num_hops, graph, everything, hops, found, passed)
        if passed[0]:
            break
        n = len(hops) if whole else count
        if num_nodes + n > len(nodes):
            nodes = grown(nodes, num_nodes, 2 * (num_nodes + n))
            distance = grown(distance, num_nodes, 2 * (num_nodes + n))
        # 2. In ascending order: by going through all nodes if they are many, else by sorting.
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
        # 3. Count the edges between them, the link itself left out.
        num_edges = 0
        for i in range(n):
            v = mine[i]
            start, stop = _in_edges(v, graph)
            distance[num_nodes + i] = hops[v]
            if v == s or v == t:  # noqa: SIM109 (slower in a kernel)
                # Only an edge between s and t can state the link.
                for e in range(start, stop):
                    u = _source(e, graph, len(hops))
                    num_edges += (whole or hops[u] != FAR) and (out < 0 or fact[e] != out)
            elif whole or hops[v] < num_hops:
                num_edges += stop - start
            else:
                for e in range(start, stop):
                    num_edges += hops[_source(e, graph, len(hops))] != FAR
        for i in range(count):
            hops[found[i]] = FAR
        # 4. Where messages do not come along every relation, distances are by those they come by.
        if not along_all:
            found, count = _search(s, t, out, num_hops, graph, along, hops, found, passed)
            for i in range(n):
                distance[num_nodes + i] = hops[mine[i]]
            for i in range(count):
                hops[found[i]] = FAR
        node_count[row] = n
        edge_count[row] = num_edges
        num_nodes += n
    return node_count, edge_count, nodes, distance


@inner
def _search(s, t, out, num_hops, graph, along, hops, found, passed):  # type: ignore[no-untyped-def]
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
        # The nodes of the last hop are found[start:stop]; those of this one are put behind them.
        stop = count
        for i in range(start, stop):
            v = found[i]
            if passed[0]:
                return found, count
            first, last = _in_edges(v, graph)
            for e in range(first, last):
                u = _source(e, graph, len(hops))
                if hops[u] != FAR or (out >= 0 and graph.fact[e] == out):
                    continue
                if not along[_relation(e, graph, len(along))]:
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
    first, last, found_nodes, found_hops, graph, seen, twin, limit, position, batch, passed
):
    """Write what was found for some links to its place, with the edges and what is visible.

    Args:
        first: the first of the links.
        last: the one behind the last of them.
        found_nodes: the nodes of these links.
        found_hops: their distances.
        graph: the `GraphArrays`.
        seen: per relation, whether the model passes messages along it.
        twin: per relation, the other one that may hold either direction of its facts, or -1.
        limit: edges into nodes nearer than this can move the score.
        position: as long as the graph, all -1, and left so, unless it was stopped.
        batch: the `BatchArrays` to write to.
        passed: a flag, set when the time is over; what is written is then of no use.
    """
    nodes, hops = batch.nodes, batch.hops
    every_seen = seen.all()
    for link in range(first, last):
        s, t, out = batch.link_src[link], batch.link_dst[link], batch.link_fact[link]
        base, n = batch.node_ptr[link], batch.node_ptr[link + 1] - batch.node_ptr[link]
        # 1. The nodes, and where each of them is among those of the link.
        shift = base - batch.node_ptr[first]
        for i in range(n):
            nodes[base + i] = found_nodes[shift + i]
            hops[base + i] = found_hops[shift + i]
            position[nodes[base + i]] = i
        # 2. Their in-edges that come from inside, the link itself left out.
        k = batch.edge_ptr[link]
        for i in range(n):
            if passed[0]:
                return
            v = nodes[base + i]
            into = hops[base + i] < limit
            own = out if v == s or v == t else -1  # noqa: SIM109 (slower in a kernel)
            for e in range(graph.in_ptr[v], graph.in_ptr[v + 1]):
                j = position[_source(e, graph, len(position))]
                if j < 0 or (own >= 0 and graph.fact[e] == own):
                    continue
                if k == batch.edge_ptr[link + 1]:
                    raise IndexError("there are more edges than were counted")
                batch.edges[k] = e
                batch.src[k] = j
                batch.dst[k] = i
                # 3. An edge moves the score if it enters a near node by a relation that the model
                # uses; its fact does if an edge of it does, along or against this one.
                out_of = hops[base + j] < limit
                if every_seen:
                    batch.visible[k] = into
                    batch.fact_visible[k] = into or (out_of and graph.opposite[e] >= 0)
                else:
                    batch.visible[k] = into and seen[_relation(e, graph, len(seen))]
                    batch.fact_visible[k] = (into and _is_seen_along(e, v, graph, seen, twin)) or (
                        out_of and _is_seen_against(e, v, graph, seen, twin)
                    )
                k += 1
        if k < batch.edge_ptr[link + 1]:
            raise IndexError("there are fewer edges than were counted")
        for i in range(n):
            position[nodes[base + i]] = -1


@inner
def _is_seen_along(e, v, graph, seen, twin):  # type: ignore[no-untyped-def]
    """Whether the model uses some copy of the fact of an edge into v that runs the same way."""
    kind = _relation(e, graph, len(seen))
    other = twin[kind]
    return seen[kind] or (other >= 0 and seen[other] and _is_stored(graph.src[e], other, v, graph))


@inner
def _is_seen_against(e, v, graph, seen, twin):  # type: ignore[no-untyped-def]
    """Whether the model uses some copy of the fact of an edge into v that runs the other way."""
    if graph.opposite[e] < 0:
        return False
    if graph.opposite[e] >= len(graph.relation):
        raise IndexError("opposite is out of range")
    known = _relation(graph.opposite[e], graph, len(seen))
    if seen[known] or twin[known] < 0:
        return seen[known]
    other = twin[known]
    return seen[other] and _is_stored(v, other, graph.src[e], graph)


@inner
def _is_stored(u, kind, v, graph):  # type: ignore[no-untyped-def]
    """Whether there is an edge of a relation from u to v, by bisection of the edges into v."""
    src, relation = graph.src, graph.relation
    low, high = graph.in_ptr[v], graph.in_ptr[v + 1]
    while low < high:
        middle = (low + high) // 2
        if relation[middle] < kind or (relation[middle] == kind and src[middle] < u):
            low = middle + 1
        else:
            high = middle
    return low < graph.in_ptr[v + 1] and relation[low] == kind and src[low] == u


@kernel
def mark_path_facts(  # type: ignore[no-untyped-def]
    first, last, batch, fact, arcs, max_length, from_src, from_dst, passed, marked
):
    """Mark the edges of some links whose fact lies on a walk of at most `max_length` facts.

    Walks are those of the whole graph, and meet either end once.

    Args:
        first: the first of the links.
        last: the one behind the last of them.
        batch: the `BatchArrays`.
        fact: per flat edge.
        arcs: arc_ptr, arc_dst and arc_edge of the graph.
        max_length: l_max.
        from_src: distances of all nodes, all FAR, which is how they are left.
        from_dst: the same again.
        passed: a flag, set when the time is over; nothing that is left is of use then.
        marked: per edge of the batch, where to write.
    """
    arc_ptr, arc_dst, arc_edge = arcs
    found = np.empty((2, 64), dtype=np.int64)
    for link in range(first, last):
        ends = batch.link_src[link], batch.link_dst[link]
        size = np.zeros(2, dtype=np.int64)
        for side in range(2):
            away = from_src if side == 0 else from_dst
            away[ends[side]] = 0
            found[side, 0] = ends[side]
            size[side] = 1
            done = 0
            while done < size[side]:
                u = found[side, done]
                done += 1
                if passed[0]:
                    return
                if away[u] == max_length - 1 or u == ends[1 - side]:
                    continue
                for a in range(arc_ptr[u], arc_ptr[u + 1]):
                    v = arc_dst[a]
                    if away[v] == FAR and fact[arc_edge[a]] != batch.link_fact[link]:
                        away[v] = away[u] + 1
                        if size[side] == found.shape[1]:
                            more = np.empty((2, 2 * size[side]), dtype=np.int64)
                            for i in range(2):
                                for j in range(found.shape[1]):
                                    more[i, j] = found[i, j]
                            found = more
                        found[side, size[side]] = v
                        size[side] += 1
        shift = batch.node_ptr[link]
        for e in range(batch.edge_ptr[link], batch.edge_ptr[link + 1]):
            u, v = batch.nodes[shift + batch.src[e]], batch.nodes[shift + batch.dst[e]]
            if u != v:
                # No walk leaves the target, and none comes back to the source.
                there = np.int64(from_src[u]) + 1 + from_dst[v]
                back = np.int64(from_src[v]) + 1 + from_dst[u]
                marked[e] = (there <= max_length and u != ends[1] and v != ends[0]) or (
                    back <= max_length and v != ends[1] and u != ends[0]
                )
        for i in range(size[0]):
            from_src[found[0, i]] = FAR
        for i in range(size[1]):
            from_dst[found[1, i]] = FAR
