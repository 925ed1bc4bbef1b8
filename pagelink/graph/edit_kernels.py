"""Kernels that edit the graphs of a batch.

A kernel gets the edits as flat arrays: the link of each edited graph, the edges that are other in
it and where they begin, and the same of the edges that are led elsewhere.
"""

from __future__ import annotations

import numpy as np

from pagelink.runtime.kernels import inlined, inner, kernel
from pagelink.runtime.rooms import first_place, grown

NEW, PLUS, MINUS = 0, 1, -1
"""What an edge is to the sum that it changes."""
LOOKED_UP = 16
"""What is different among this many times more edges is looked up, not seen by going through."""


@kernel
def most_edges(  # type: ignore[no-untyped-def]
    link_of, change_ptr, changes, moved_ptr, moved, batch, in_ptr, ends
):
    """The number of edges of each edited graph at most."""
    counts = np.zeros(len(link_of), dtype=np.int64)
    seen = np.full(batch.node_ptr[-1], -1, dtype=np.int64)  # the last graph that counted a node
    for g in range(len(link_of)):
        # The in-edges of s and t (numbers -2 and -1), and of the targets of the changed edges.
        num_changed = change_ptr[g + 1] - change_ptr[g]
        counts[g] += moved_ptr[g + 1] - moved_ptr[g]
        for i in range(-2, num_changed + moved_ptr[g + 1] - moved_ptr[g]):
            if i < 0:
                v = ends[i + 2, link_of[g]]
            elif i < num_changed:
                v = batch.node_ptr[link_of[g]] + batch.dst[changes[change_ptr[g] + i]]
            else:
                v = moved[2, moved_ptr[g] + i - num_changed]
            if seen[v] != g:
                seen[v] = g
                counts[g] += in_ptr[v + 1] - in_ptr[v]
    return counts


@kernel
def edited_graphs(  # type: ignore[no-untyped-def]
    link_of, change_ptr, changes, moved_ptr, moved, graph, batch, in_ptr, ends, near_ptr, near,
    num_hops,
):  # fmt: skip
    """The fields of `EditedGraphs`."""
    src, total_nodes = batch.src, batch.node_ptr[-1]
    mine = np.full(total_nodes, -1, dtype=np.int64)  # the new node of each node, in this graph
    changed = np.zeros(len(graph), dtype=np.bool_)
    node_of = np.empty(1024, dtype=np.int32)
    out_slots = np.empty(4096, dtype=np.int64)
    out_src = np.empty(4096, dtype=np.int64)
    out_dst = np.empty(4096, dtype=np.int64)
    out_ends = np.empty((2, len(link_of)), dtype=np.int64)
    num_nodes = np.int64(0)
    num_edges = np.int64(0)
    for g in range(len(link_of)):
        shift = batch.node_ptr[link_of[g]]
        first = num_nodes
        # 1. The nodes that an edit makes anew.
        node_of, num_nodes = _new_nodes(
            g, link_of, change_ptr, changes, moved_ptr, moved, graph, batch, in_ptr, ends, near_ptr,
            near, num_hops, mine, changed, node_of, num_nodes,
        )  # fmt: skip
        for side in range(2):
            out_ends[side, g] = total_nodes + mine[ends[side, link_of[g]]]
        # 2. The in-edges that new nodes have after the edit, from new nodes where there are such.
        for i in range(first, num_nodes):
            v = node_of[i]
            needed = num_edges + in_ptr[v + 1] - in_ptr[v] + moved_ptr[g + 1] - moved_ptr[g]
            if needed > len(out_slots):
                out_slots = grown(out_slots, num_edges, 2 * needed)
                out_src = grown(out_src, num_edges, 2 * needed)
                out_dst = grown(out_dst, num_edges, 2 * needed)
            for e in range(in_ptr[v], in_ptr[v + 1]):
                if graph[e] != changed[e]:
                    u = shift + src[e]
                    out_slots[num_edges] = e
                    out_src[num_edges] = u if mine[u] < 0 else total_nodes + mine[u]
                    out_dst[num_edges] = total_nodes + i
                    num_edges += 1
            for j in range(moved_ptr[g], moved_ptr[g + 1]):
                if moved[2, j] == v:
                    u = moved[1, j]
                    out_slots[num_edges] = moved[0, j]
                    out_src[num_edges] = u if mine[u] < 0 else total_nodes + mine[u]
                    out_dst[num_edges] = total_nodes + i
                    num_edges += 1
        # 3. Clean the scratch for the next graph.
        for i in range(first, num_nodes):
            mine[node_of[i]] = -1
        for i in range(change_ptr[g], change_ptr[g + 1]):
            changed[changes[i]] = False
    return (
        node_of[:num_nodes], out_slots[:num_edges], out_src[:num_edges], out_dst[:num_edges],
        out_ends,
    )  # fmt: skip


@inner
def _new_nodes(  # type: ignore[no-untyped-def]
    g, link_of, change_ptr, changes, moved_ptr, moved, graph, batch, in_ptr, ends, near_ptr, near,
    num_hops, mine, changed, node_of, num_nodes,
):  # fmt: skip
    """The nodes that edit g makes anew, behind those that there are; marks them and its edges."""
    link, hops = link_of[g], batch.hops
    shift = batch.node_ptr[link]
    most = num_nodes + 2 + change_ptr[g + 1] - change_ptr[g] + moved_ptr[g + 1] - moved_ptr[g]
    most += near_ptr[link + 1] - near_ptr[link]
    if most > len(node_of):
        node_of = grown(node_of, num_nodes, 2 * most)
    # 1. s and t are new nodes of every edited graph: the score is read off them.
    for side in range(2):
        v = ends[side, link]
        if mine[v] < 0:
            mine[v] = num_nodes
            node_of[num_nodes] = v
            num_nodes += 1
    # 2. So are the targets of the changed edges, where they are near enough to count.
    for i in range(change_ptr[g], change_ptr[g + 1]):
        e = changes[i]
        changed[e] = True
        v = shift + batch.dst[e]
        if hops[v] < num_hops and mine[v] < 0:
            mine[v] = num_nodes
            node_of[num_nodes] = v
            num_nodes += 1
    for i in range(moved_ptr[g], moved_ptr[g + 1]):
        v = moved[2, i]
        if hops[v] < num_hops and mine[v] < 0:
            mine[v] = num_nodes
            node_of[num_nodes] = v
            num_nodes += 1
    # 3. And the nodes downstream of these. A change that is `step` hops behind reaches nodes that
    # are near enough to count.
    for step in range(1, num_hops):
        for i in range(near_ptr[link], near_ptr[link + 1]):
            v = near[i]
            if hops[v] > num_hops - 1 - step:
                break
            if mine[v] >= 0:
                continue
            for e in range(in_ptr[v], in_ptr[v + 1]):
                if graph[e] != changed[e] and mine[shift + batch.src[e]] >= 0:
                    mine[v] = num_nodes
                    node_of[num_nodes] = v
                    num_nodes += 1
                    break
    return node_of, num_nodes


@kernel
def changed_sums(  # type: ignore[no-untyped-def]
    link_of, change_ptr, changes, moved_ptr, moved, graph, relation, batch, in_ptr, ends, near_ptr,
    near, num_hops,
):  # fmt: skip
    """The fields of `ChangedSums`."""
    src, total_nodes = batch.src, batch.node_ptr[-1]
    mine = np.full(total_nodes, -1, dtype=np.int64)  # the new node of each node, in this graph
    changed = np.zeros(len(graph), dtype=np.bool_)
    node_of = np.empty(1024, dtype=np.int32)
    out = np.empty((4, 4096), dtype=np.int64)
    afresh = np.empty((2, 64), dtype=np.int64)
    other = np.empty(64, dtype=np.int64)
    out_ends = np.empty((2, len(link_of)), dtype=np.int64)
    num_nodes = np.int64(0)
    num_edges = np.int64(0)
    num_afresh = np.int64(0)
    # How many edges before each one the graphs have.
    before = np.zeros(len(graph) + 1, dtype=np.int32)
    for e in range(len(graph)):
        before[e + 1] = before[e] + graph[e]
    for g in range(len(link_of)):
        shift = batch.node_ptr[link_of[g]]
        first = num_nodes
        node_of, num_nodes = _new_nodes(
            g, link_of, change_ptr, changes, moved_ptr, moved, graph, batch, in_ptr, ends, near_ptr,
            near, num_hops, mine, changed, node_of, num_nodes,
        )  # fmt: skip
        for side in range(2):
            out_ends[side, g] = mine[ends[side, link_of[g]]]
        few = LOOKED_UP * (num_nodes - first + change_ptr[g + 1] - change_ptr[g])
        for i in range(first, num_nodes):
            v = node_of[i]
            start = in_ptr[v]
            while start < in_ptr[v + 1]:
                # 1. The edges of one relation into the node, and which of them are different. Of
                # very many they are looked up: edges are in order of relation, then source.
                stop, count = first_place(relation, start, in_ptr[v + 1], relation[start] + 1), 0
                had = before[stop] - before[start]
                if stop - start > few:
                    if len(other) < 2 * (stop - start):
                        other = grown(other, 0, 2 * (stop - start))
                    count = _looked_up(
                        start, stop, changes[change_ptr[g] : change_ptr[g + 1]],
                        node_of[first:num_nodes], shift, src, graph, changed, other,
                    )  # fmt: skip
                else:
                    for e in range(start, stop):
                        if changed[e] or (graph[e] and mine[shift + src[e]] >= 0):
                            if count == len(other):
                                other = grown(other, count, 2 * count)
                            other[count] = e
                            count += 1
                # A difference of large sums would be of few digits: then the rest is summed anew.
                anew = 2 * count > had
                if anew and had:
                    if num_afresh == afresh.shape[1]:
                        afresh = _wider(afresh, num_afresh, 2 * num_afresh)
                    afresh[0, num_afresh] = i
                    afresh[1, num_afresh] = relation[start]
                    num_afresh += 1
                needed = num_edges + (stop - start if anew else 2 * count)
                if needed > out.shape[1]:
                    out = _wider(out, num_edges, 2 * needed)
                # 2. What comes, what goes, and what comes from another node than it did.
                for k in range(stop - start if anew else count):
                    e = start + k if anew else other[k]
                    u = shift + src[e]
                    now = graph[e] != changed[e]
                    if now and mine[u] >= 0:
                        num_edges = _put(out, num_edges, e, mine[u], i, NEW)
                    elif now and (anew or not graph[e]):
                        num_edges = _put(out, num_edges, e, u, i, PLUS)
                    if not anew and graph[e] and (not now or mine[u] >= 0):
                        num_edges = _put(out, num_edges, e, u, i, MINUS)
                start = stop
            most = num_edges + moved_ptr[g + 1] - moved_ptr[g]
            if most > out.shape[1]:
                out = _wider(out, num_edges, 2 * most)
            for j in range(moved_ptr[g], moved_ptr[g + 1]):
                if moved[2, j] == v:
                    u = moved[1, j]
                    if mine[u] >= 0:
                        num_edges = _put(out, num_edges, moved[0, j], mine[u], i, NEW)
                    else:
                        num_edges = _put(out, num_edges, moved[0, j], u, i, PLUS)
        for i in range(first, num_nodes):
            mine[node_of[i]] = -1
        for i in range(change_ptr[g], change_ptr[g + 1]):
            changed[changes[i]] = False
    return node_of[:num_nodes], out_ends, out[:, :num_edges], afresh[:, :num_afresh]


@inner
def _looked_up(start, stop, changes, new, shift, src, graph, changed, other):  # type: ignore[no-untyped-def]
    """Put the edges from start to stop that change or come from a new node into `other`, in order.

    Each once, however often it is among the changes. Returns their number.
    """
    count = 0
    for e in changes:
        if start <= e < stop:
            other[count] = e
            count += 1
    for u in new:
        e = first_place(src, start, stop, u - shift)
        while e < stop and src[e] == u - shift:
            if graph[e] and not changed[e]:
                other[count] = e
                count += 1
            e += 1
    for i in range(1, count):  # few, and mostly in order
        e, j = other[i], i
        while j > 0 and other[j - 1] > e:
            other[j] = other[j - 1]
            j -= 1
        other[j] = e
    kept = 0
    for i in range(count):
        if kept == 0 or other[kept - 1] != other[i]:
            other[kept] = other[i]
            kept += 1
    return kept


@inlined
def _put(out, place, slot, src, dst, kind):  # type: ignore[no-untyped-def]
    out[0, place] = slot
    out[1, place] = src
    out[2, place] = dst
    out[3, place] = kind
    return place + 1


@inner
def _wider(table, count, size):  # type: ignore[no-untyped-def]
    """The same table with room for more columns."""
    new = np.empty((len(table), size), dtype=table.dtype)
    for i in range(len(table)):
        for j in range(count):
            new[i, j] = table[i, j]
    return new
