"""The kernels of the path search, compiled by numba, on plain arrays; see `paths`."""

from __future__ import annotations

import numpy as np
from numba import njit

UNREACHABLE = np.int64(2**62)


@njit(cache=True, nogil=True)
def arcs_on_walks(src, dst, facts, inner, s, t, max_length):  # type: ignore[no-untyped-def]
    """Arcs u -> v with hops(s, u) + 1 + hops(v, t) <= max_length, through allowed inner nodes."""
    n = len(inner)
    ptr = np.zeros(n + 2, dtype=np.int64)
    for i in facts:
        ptr[src[i] + 2] += 1
        ptr[dst[i] + 2] += 1
    for v in range(n):
        ptr[v + 2] += ptr[v + 1]
    neighbour = np.empty(ptr[n + 1], dtype=np.int32)
    for i in facts:
        neighbour[ptr[src[i] + 1]] = dst[i]
        ptr[src[i] + 1] += 1
        neighbour[ptr[dst[i] + 1]] = src[i]
        ptr[dst[i] + 1] += 1

    far = max_length + 1
    hops = np.full((2, n), far, dtype=np.int64)
    queue = np.empty(n, dtype=np.int64)
    for way in range(2):
        start, end = (s, t) if way == 0 else (t, s)
        hops[way, start] = 0
        queue[0] = start
        count, i = 1, 0
        while i < count:
            u = queue[i]
            i += 1
            if hops[way, u] >= max_length or u == end:
                continue
            for j in range(ptr[u], ptr[u + 1]):
                v = neighbour[j]
                if hops[way, v] == far and (v == end or inner[v]):
                    hops[way, v] = hops[way, u] + 1
                    queue[count] = v
                    count += 1

    position = np.empty(2 * len(facts), dtype=np.int64)
    backwards = np.empty(2 * len(facts), dtype=np.bool_)
    count = 0
    for i in facts:
        for turn in range(2):
            u, v = (src[i], dst[i]) if turn == 0 else (dst[i], src[i])
            if u != t and v != s and hops[0, u] + 1 + hops[1, v] <= max_length:
                position[count] = i
                backwards[count] = turn == 1
                count += 1
    return position[:count], backwards[:count]


@njit(cache=True, nogil=True)
def _before(a, b, cost, sequence):  # type: ignore[no-untyped-def]
    """Whether partial path a is opened before b: cheaper, or equal and first in arc order."""
    if cost[a] != cost[b]:
        return cost[a] < cost[b]
    for i in range(sequence.shape[1]):
        if sequence[a, i] != sequence[b, i]:
            return sequence[a, i] < sequence[b, i]
    return False


@njit(cache=True, nogil=True)
def cheapest_paths_kernel(  # type: ignore[no-untyped-def]
    node_ptr, arc_ptr, arc_dst, arc_cost, arc_symbol, next_state, accepting, max_length, num_paths,
    links,
):  # fmt: skip
    """The cheapest simple paths of some links, each a row of arcs; -1 behind a path's end."""
    num_states = len(accepting)
    out_arcs = np.full((len(links), num_paths, max_length), -1, dtype=np.int64)
    out_length = np.zeros((len(links), num_paths), dtype=np.int64)
    for row in range(len(links)):
        link = links[row]
        n = node_ptr[link + 1] - node_ptr[link]
        if n == 0:
            continue
        first = node_ptr[link] + link
        ptr = arc_ptr[first : first + n + 1]

        # to_target[h, v, q]: cost of the cheapest walk of at most h hops from v to the target, node
        # 1, that the automaton reads from state q to an accepting one.
        to_target = np.full((max_length + 1, n, num_states), UNREACHABLE, dtype=np.int64)
        for q in range(num_states):
            if accepting[q]:
                to_target[:, 1, q] = 0
        for h in range(1, max_length + 1):
            for u in range(n):
                for q in range(num_states):
                    best = to_target[h - 1, u, q]
                    for a in range(ptr[u], ptr[u + 1]):
                        after = next_state[q, arc_symbol[a]]
                        if after >= 0:
                            rest = to_target[h - 1, arc_dst[a], after]
                            if rest != UNREACHABLE and arc_cost[a] + rest < best:
                                best = arc_cost[a] + rest
                    to_target[h, u, q] = best
        if to_target[max_length, 0, 0] == UNREACHABLE:
            continue

        size = 256
        sequence = np.full((size, max_length), -1, dtype=np.int64)
        spent = np.zeros(size, dtype=np.int64)
        total = np.zeros(size, dtype=np.int64)
        depth = np.zeros(size, dtype=np.int64)
        heap = np.zeros(size, dtype=np.int64)
        state = np.zeros(size, dtype=np.int64)
        total[0] = to_target[max_length, 0, 0]
        labels, height, found = 1, 1, 0
        while height > 0 and found < num_paths:
            label = heap[0]
            height -= 1
            heap[0] = heap[height]
            i = 0
            while True:
                child = 2 * i + 1
                if child >= height:
                    break
                if child + 1 < height and _before(heap[child + 1], heap[child], total, sequence):
                    child += 1
                if not _before(heap[child], heap[i], total, sequence):
                    break
                heap[i], heap[child] = heap[child], heap[i]
                i = child

            d = depth[label]
            u = 0 if d == 0 else arc_dst[sequence[label, d - 1]]
            if u == 1:
                out_arcs[row, found] = sequence[label]
                out_length[row, found] = d
                found += 1
                continue
            for a in range(ptr[u], ptr[u + 1]):
                v = arc_dst[a]
                after = next_state[state[label], arc_symbol[a]]
                if after < 0:
                    continue
                rest = to_target[max_length - d - 1, v, after]
                if rest == UNREACHABLE:
                    continue
                visited = v == 0
                for i in range(d):
                    if arc_dst[sequence[label, i]] == v:
                        visited = True
                if visited:
                    continue
                if labels == size:
                    size *= 2
                    sequence = _grown_rows(sequence, size)
                    spent = _grown(spent, size)
                    total = _grown(total, size)
                    depth = _grown(depth, size)
                    state = _grown(state, size)
                    heap = _grown(heap, size)
                sequence[labels] = sequence[label]
                sequence[labels, d] = a
                depth[labels] = d + 1
                state[labels] = after
                spent[labels] = spent[label] + arc_cost[a]
                total[labels] = spent[labels] + rest
                i = height
                heap[i] = labels
                height += 1
                labels += 1
                while i > 0 and _before(heap[i], heap[(i - 1) // 2], total, sequence):
                    heap[i], heap[(i - 1) // 2] = heap[(i - 1) // 2], heap[i]
                    i = (i - 1) // 2
    return out_arcs, out_length


@njit(cache=True, nogil=True)
def _grown(values, size):  # type: ignore[no-untyped-def]
    grown = np.zeros(size, dtype=values.dtype)
    grown[: len(values)] = values
    return grown


@njit(cache=True, nogil=True)
def _grown_rows(values, size):  # type: ignore[no-untyped-def]
    grown = np.full((size, values.shape[1]), -1, dtype=values.dtype)
    grown[: len(values)] = values
    return grown
