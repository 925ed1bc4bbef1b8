"""The kernels that cut the arcs of short s-t walks out of computation graphs; see `paths`."""

from __future__ import annotations

import numpy as np

from pagelink.runtime.kernels import inner, kernel
from pagelink.runtime.rooms import first_place, grown


@kernel
def cut_out_walks(  # type: ignore[no-untyped-def]
    first, last, batch, graph, allowed, node_allowed, max_degree, max_length, passed
):
    """The arcs u -> v of some links with hops(s, u) + 1 + hops(v, t) <= max_length.

    Args:
        first: the first of the links.
        last: the one behind the last of them.
        batch: the `BatchArrays`.
        graph: the `GraphArrays`.
        allowed: per edge of the batch, whether it stands for a fact that may lie on a path.
        node_allowed: per node of the graph, whether it may lie inside a path. Empty: all may.
        max_degree: D_max of inner nodes.
        max_length: l_max.
        passed: a flag, set when the time is over; what is returned is then of no use.

    Returns:
        Per link the number of its nodes; per node, s and t first and the others in order,
        which it is and how many arcs leave it; per arc, by tail, head and relation: number of the
        head among the link's nodes, flat head, walked edge of the batch, whether it is reversed.
    """
    node_ptr, nodes, edge_ptr, edges = batch.node_ptr, batch.nodes, batch.edge_ptr, batch.edges
    src, dst, relation_class = batch.src, batch.dst, graph.relation_class
    most_nodes, most_facts = 0, 0
    for link in range(first, last):
        most_nodes = max(most_nodes, node_ptr[link + 1] - node_ptr[link])
        count = 0
        for k in range(edge_ptr[link], edge_ptr[link + 1]):
            count += allowed[k]
        most_facts = max(most_facts, count)
    facts = np.empty(most_facts, dtype=np.int64)
    ptr = np.empty(most_nodes + 2, dtype=np.int64)
    neighbour = np.empty(2 * most_facts, dtype=np.int32)
    from_s = np.empty(most_nodes, dtype=np.int64)
    to_t = np.empty(most_nodes, dtype=np.int64)
    queue = np.empty(most_nodes, dtype=np.int64)
    inner = np.empty(most_nodes, dtype=np.bool_)
    number = np.empty(most_nodes, dtype=np.int32)
    bucket = np.empty(max(most_nodes, len(relation_class)) + 2, dtype=np.int64)

    node_count = np.zeros(last - first, dtype=np.int64)
    out_node = np.empty(64, dtype=np.int32)
    out_degree = np.empty(64, dtype=np.int64)
    out_dst = np.empty(64, dtype=np.int32)
    out_head = np.empty(64, dtype=np.int32)
    out_slot = np.empty(64, dtype=np.int64)
    out_reversed = np.empty(64, dtype=np.bool_)
    kind = np.empty(64, dtype=np.int32)
    heads = np.empty(64, dtype=np.int32)
    tails = np.empty(64, dtype=np.int32)
    walked = np.empty(64, dtype=np.int64)  # twice the edge of the batch, and whether it is turned
    order = np.empty(64, dtype=np.int32)
    other_order = np.empty(64, dtype=np.int32)
    # Numbers of a type: what is called with a literal is compiled once more for it.
    num_nodes = num_arcs = np.int64(0)
    for link in range(first, last):
        # 1. Where s and t are, which nodes may lie inside a path, and the facts that may be on one.
        base, begin, end = node_ptr[link], edge_ptr[link], edge_ptr[link + 1]
        n = node_ptr[link + 1] - base
        s = t = np.int64(0)
        for i in range(n):
            v = nodes[base + i]
            if v == batch.link_src[link]:
                s = np.int64(i)
            if v == batch.link_dst[link]:
                t = np.int64(i)
            inner[i] = graph.degree[v] <= max_degree and (len(node_allowed) == 0 or node_allowed[v])
        count = 0
        for k in range(begin, end):
            if allowed[k]:
                facts[count] = k
                count += 1
        mine = facts[:count]
        # 2. Distances from s, and to t, through nodes that may lie inside.
        _neighbours(src, dst, mine, n, ptr, neighbour)
        _hops(s, t, inner, max_length, ptr, neighbour, queue, from_s[:n])
        _hops(t, s, inner, max_length, ptr, neighbour, queue, to_t[:n])
        if passed[0]:
            break
        # 3. Each fact is an arc both ways; those on a walk that is short enough are taken. They are
        # counted first: there can be millions.
        count = 0
        for k in mine:
            u, v = src[k], dst[k]
            count += u != t and v != s and from_s[u] + 1 + to_t[v] <= max_length
            count += v != t and u != s and from_s[v] + 1 + to_t[u] <= max_length
        if count > len(kind):
            kind = np.empty(count, dtype=np.int32)
            heads = np.empty(count, dtype=np.int32)
            tails = np.empty(count, dtype=np.int32)
            walked = np.empty(count, dtype=np.int64)
            order = np.empty(count, dtype=np.int32)
            other_order = np.empty(count, dtype=np.int32)
        count = 0
        number[:n] = -1
        for k in mine:
            for turn in range(2):
                u, v = (src[k], dst[k]) if turn == 0 else (dst[k], src[k])
                if u != t and v != s and from_s[u] + 1 + to_t[v] <= max_length:
                    kind[count] = relation_class[graph.relation[edges[k]]]
                    heads[count] = v
                    tails[count] = u
                    walked[count] = 2 * k + turn
                    number[u] = number[v] = 0
                    count += 1
        if passed[0]:
            break
        if count == 0:
            continue
        # 4. Number the nodes of these arcs: s, t, and the others in ascending order.
        if num_nodes + n > len(out_node):
            out_node = grown(out_node, num_nodes, 2 * (num_nodes + n))
            out_degree = grown(out_degree, num_nodes, 2 * (num_nodes + n))
        out_node[num_nodes] = nodes[base + s]
        out_node[num_nodes + 1] = nodes[base + t]
        number[s], number[t] = 0, 1
        m = np.int64(2)
        for i in range(n):
            if number[i] >= 0 and i != s and i != t:
                number[i] = m
                out_node[num_nodes + m] = nodes[base + i]
                m += 1
        out_degree[num_nodes : num_nodes + m] = 0
        # 5. Sort the arcs by relation, by head, and by tail, each time keeping the order before.
        for i in range(count):
            order[i] = i
        _sort(kind[:count], order, other_order, len(relation_class), bucket)
        _sort(heads[:count], other_order, order, n, bucket)
        for i in range(count):
            tails[i] = number[tails[i]]
        _sort(tails[:count], order, other_order, m, bucket)
        if passed[0]:
            break
        # 6. Write them out. A fact walked against its edge is walked along the edge that is stored
        # the other way, if there is one.
        if num_arcs + count > len(out_dst):
            size = 2 * num_arcs + count
            out_dst = grown(out_dst, num_arcs, size)
            out_head = grown(out_head, num_arcs, size)
            out_slot = grown(out_slot, num_arcs, size)
            out_reversed = grown(out_reversed, num_arcs, size)
        for i in range(count):
            arc = other_order[i]
            k, backwards = walked[arc] // 2, walked[arc] % 2 == 1
            out_degree[num_nodes + tails[arc]] += 1
            out_dst[num_arcs] = number[heads[arc]]
            out_head[num_arcs] = nodes[base + heads[arc]]
            other = graph.opposite[edges[k]]
            turned = backwards and other >= 0
            out_slot[num_arcs] = first_place(edges, begin, end, other) if turned else k
            out_reversed[num_arcs] = backwards and not turned
            num_arcs += 1
        node_count[link - first] = m
        num_nodes += m
    return (
        node_count, out_node[:num_nodes], out_degree[:num_nodes], out_dst[:num_arcs],
        out_head[:num_arcs], out_slot[:num_arcs], out_reversed[:num_arcs],
    )  # fmt: skip


@inner
def _neighbours(src, dst, facts, n, ptr, neighbour):  # type: ignore[no-untyped-def]
    """Write the neighbours of node v to neighbour[ptr[v]:ptr[v + 1]]."""
    ptr[: n + 2] = 0
    for k in facts:
        ptr[src[k] + 2] += 1
        ptr[dst[k] + 2] += 1
    for v in range(n):
        ptr[v + 2] += ptr[v + 1]
    for k in facts:
        neighbour[ptr[src[k] + 1]] = dst[k]
        ptr[src[k] + 1] += 1
        neighbour[ptr[dst[k] + 1]] = src[k]
        ptr[dst[k] + 1] += 1


@inner
def _hops(start, end, inner, max_length, ptr, neighbour, queue, hops):  # type: ignore[no-untyped-def]
    """Distances from the start through inner nodes; max_length stands for that and all above."""
    hops[:] = max_length
    hops[start] = 0
    queue[0] = start
    count, i = 1, 0
    while i < count:
        u = queue[i]
        i += 1
        # No arc can leave a node at max_length - 1 that would leave room for another.
        if hops[u] >= max_length - 1 or u == end:
            continue
        for j in range(ptr[u], ptr[u + 1]):
            v = neighbour[j]
            if hops[v] == max_length and (v == end or inner[v]):
                hops[v] = hops[u] + 1
                queue[count] = v
                count += 1


@inner
def _sort(keys, order, result, num_keys, bucket):  # type: ignore[no-untyped-def]
    """Counting sort: put positions in the order of their keys, equal ones as they came."""
    bucket[: num_keys + 1] = 0
    for i in range(len(keys)):
        bucket[keys[i] + 1] += 1
    for key in range(num_keys):
        bucket[key + 1] += bucket[key]
    for i in range(len(keys)):
        key = keys[order[i]]
        result[bucket[key]] = order[i]
        bucket[key] += 1
