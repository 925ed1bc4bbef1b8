"""The kernel of the path search, on plain arrays; see `paths`.

A best-first search over partial paths. One is opened when it is the cheapest by what it has cost
and what the rest costs at least; equal ones by the order of their arcs. Of the ways on from a node,
which are many at a hub, only the best is put on the heap, and the next best when that one is taken
off: a way on is never better than those before it, so the order of the paths stays the same.
"""

from __future__ import annotations

import numpy as np

from pagelink.graph.ego_kernels import grown, grown_rows
from pagelink.runtime.kernels import kernel

UNREACHABLE = np.int64(2**62)
TOTAL, SPENT, DEPTH, CHOICE, RANK = range(5)
"""Columns of a partial path: the least it can cost in all, what it has cost, its number of arcs,
which choice its last arc comes from, and how many of that were better."""
START, SIZE, LEFT, KEY = range(4)
"""Columns of a choice, the ways on from a node: where they are, how many, how many of them are not
yet in order, and what the choice is found by: (arcs left, node, state of the automaton)."""


@kernel
def cheapest_paths_kernel(  # type: ignore[no-untyped-def]
    first, last, links, node_ptr, arc_ptr, arc_dst, arc_cost, arc_symbol, next_state, accepting,
    max_length, passed, out_arcs, out_length, out_complete, out_opened,
):  # fmt: skip
    """Find the cheapest simple paths of links[first:last]; stop when `passed` is set.

    Writes to the rows of the links: arcs of each path, -1 behind a path's end; its length; whether
    the search came to its end; and how many partial paths were put on the heap.
    """
    num_states = len(accepting)
    most_nodes = 0
    for row in range(first, last):
        most_nodes = max(most_nodes, node_ptr[links[row] + 1] - node_ptr[links[row]])
    to_target = np.empty(max_length * most_nodes * num_states, dtype=np.int64)
    choice_of = np.full((max_length + 1) * most_nodes * num_states, -1, dtype=np.int64)
    choices = np.empty((16, 4), dtype=np.int64)
    way_arc = np.empty(64, dtype=np.int64)
    way_cost = np.empty(64, dtype=np.int64)
    partial = np.empty((64, 5), dtype=np.int64)
    sequence = np.empty((64, max_length), dtype=np.int64)
    heap = np.empty(64, dtype=np.int64)

    for row in range(first, last):
        link = links[row]
        n = node_ptr[link + 1] - node_ptr[link]
        if n == 0:
            continue
        ptr = arc_ptr[node_ptr[link] + link : node_ptr[link + 1] + link + 1]
        done = _costs_to_target(
            ptr, arc_dst, arc_cost, arc_symbol, next_state, accepting, max_length, passed, to_target
        )
        if not done:
            out_complete[row] = False
            continue

        partial[0] = 0
        partial[0, CHOICE] = -1
        sequence[0] = -1
        heap[0] = 0
        count, height, found, num_choices, num_ways = 1, 1, 0, 0, 0
        while height > 0 and found < out_arcs.shape[1]:
            if passed[0]:
                out_complete[row] = False
                break
            label = heap[0]
            height = _pop(heap, height, partial, sequence)
            if count + 2 > len(partial):
                partial = grown_rows(partial, 2 * len(partial))
                sequence = grown_rows(sequence, 2 * len(sequence))
                heap = grown(heap, height, 2 * len(heap))
            depth = partial[label, DEPTH]
            if partial[label, CHOICE] >= 0:
                # The next best instead of the last arc.
                spent = partial[label, SPENT] - arc_cost[sequence[label, depth - 1]]
                rank = partial[label, RANK] + 1
                count, height = _put_next(
                    label, depth - 1, spent, partial[label, CHOICE], rank, choices, way_arc,
                    way_cost, arc_dst, arc_cost, partial, sequence, heap, count, height,
                )  # fmt: skip
            u = 0 if depth == 0 else arc_dst[sequence[label, depth - 1]]
            if u == 1:
                for i in range(depth):
                    out_arcs[row, found, i] = sequence[label, i]
                out_length[row, found] = depth
                found += 1
                continue
            state = 0
            if depth > 0:
                before = choices[partial[label, CHOICE], KEY] % num_states
                state = next_state[before, arc_symbol[sequence[label, depth - 1]]]
            rest = max_length - depth
            key = (rest * n + u) * num_states + state
            if choice_of[key] < 0:
                if num_choices == len(choices):
                    choices = grown_rows(choices, 2 * num_choices)
                room = num_ways + ptr[u + 1] - ptr[u]
                if room > len(way_arc):
                    way_arc = grown(way_arc, num_ways, 2 * room)
                    way_cost = grown(way_cost, num_ways, 2 * room)
                size = _ways_on(
                    ptr[u], ptr[u + 1], rest - 1, n, state, arc_dst, arc_cost, arc_symbol,
                    next_state, to_target, way_arc[num_ways:], way_cost[num_ways:],
                )  # fmt: skip
                choices[num_choices, START] = num_ways
                choices[num_choices, SIZE] = size
                choices[num_choices, LEFT] = size
                choices[num_choices, KEY] = key
                choice_of[key] = num_choices
                num_choices += 1
                num_ways += size
            count, height = _put_next(
                label, depth, partial[label, SPENT], choice_of[key], 0, choices, way_arc, way_cost,
                arc_dst, arc_cost, partial, sequence, heap, count, height,
            )  # fmt: skip
        out_opened[row] = count
        for i in range(num_choices):
            choice_of[choices[i, KEY]] = -1


@kernel
def _costs_to_target(  # type: ignore[no-untyped-def]
    ptr, arc_dst, arc_cost, arc_symbol, next_state, accepting, max_length, passed, to_target
):
    """Cost of the cheapest walk of at most h arcs, for h below max_length, to the target, node 1.

    At (h * nodes + v) * states + q: from node v, where the automaton reads the walk from state q to
    an accepting one. Returns False if it was stopped.
    """
    n, num_states = len(ptr) - 1, len(accepting)
    level = n * num_states
    to_target[:level] = UNREACHABLE
    for q in range(num_states):
        if accepting[q]:
            to_target[num_states + q] = 0
    for h in range(1, max_length):
        below, here = (h - 1) * level, h * level
        for u in range(n):
            if passed[0]:
                return False
            for q in range(num_states):
                best = to_target[below + u * num_states + q]
                for a in range(ptr[u], ptr[u + 1]):
                    after = next_state[q, arc_symbol[a]]
                    if after >= 0:
                        rest = to_target[below + arc_dst[a] * num_states + after]
                        best = min(best, arc_cost[a] + rest)
                to_target[here + u * num_states + q] = best
    return passed[0] == 0


@kernel
def _ways_on(  # type: ignore[no-untyped-def]
    begin, end, rest, n, state, arc_dst, arc_cost, arc_symbol, next_state, to_target, arcs, costs
):
    """Collect the arcs of a node from which the target can be reached in time, as a heap."""
    num_states = len(next_state)
    size = 0
    for a in range(begin, end):
        after = next_state[state, arc_symbol[a]]
        if after >= 0:
            beyond = to_target[(rest * n + arc_dst[a]) * num_states + after]
            if beyond != UNREACHABLE:
                arcs[size] = a
                costs[size] = arc_cost[a] + beyond
                size += 1
    for i in range(size // 2 - 1, -1, -1):
        _sink(i, size, arcs, costs)
    return size


@kernel
def _sink(i, size, arcs, costs):  # type: ignore[no-untyped-def]
    """Restore the order of a heap by (cost, arc) below an entry."""
    while True:
        child = 2 * i + 1
        if child >= size:
            return
        other = child + 1
        if other < size and (
            costs[other] < costs[child]
            or (costs[other] == costs[child] and arcs[other] < arcs[child])
        ):
            child = other
        if costs[i] < costs[child] or (costs[i] == costs[child] and arcs[i] < arcs[child]):
            return
        arcs[i], arcs[child] = arcs[child], arcs[i]
        costs[i], costs[child] = costs[child], costs[i]
        i = child


@kernel
def _put_next(  # type: ignore[no-untyped-def]
    label, depth, spent, choice, rank, choices, way_arc, way_cost, arc_dst, arc_cost, partial,
    sequence, heap, count, height,
):  # fmt: skip
    """Put the first `depth` arcs of a partial path with the best way on from a rank on the heap.

    Ways to nodes that the path has been to are passed over.
    """
    start, size = choices[choice, START], choices[choice, SIZE]
    while rank < size:
        # Heapsort, as far as needed: the best ones are at the end, the heap is before them.
        if size - rank <= choices[choice, LEFT]:
            left = choices[choice, LEFT] - 1
            arcs, costs = way_arc[start : start + size], way_cost[start : start + size]
            arcs[0], arcs[left] = arcs[left], arcs[0]
            costs[0], costs[left] = costs[left], costs[0]
            _sink(0, left, arcs, costs)
            choices[choice, LEFT] = left
        arc = way_arc[start + size - 1 - rank]
        v = arc_dst[arc]
        visited = v == 0
        for i in range(depth):
            visited = visited or arc_dst[sequence[label, i]] == v
        if not visited:
            for i in range(sequence.shape[1]):
                sequence[count, i] = sequence[label, i] if i < depth else -1
            sequence[count, depth] = arc
            partial[count, TOTAL] = spent + way_cost[start + size - 1 - rank]
            partial[count, SPENT] = spent + arc_cost[arc]
            partial[count, DEPTH] = depth + 1
            partial[count, CHOICE] = choice
            partial[count, RANK] = rank
            i = height
            heap[i] = count
            while i > 0 and _is_before(heap[i], heap[(i - 1) // 2], partial, sequence):
                heap[i], heap[(i - 1) // 2] = heap[(i - 1) // 2], heap[i]
                i = (i - 1) // 2
            return count + 1, height + 1
        rank += 1
    return count, height


@kernel
def _pop(heap, height, partial, sequence):  # type: ignore[no-untyped-def]
    """Take the first partial path off the heap."""
    height -= 1
    heap[0] = heap[height]
    i = 0
    while True:
        child = 2 * i + 1
        if child >= height:
            return height
        if child + 1 < height and _is_before(heap[child + 1], heap[child], partial, sequence):
            child += 1
        if not _is_before(heap[child], heap[i], partial, sequence):
            return height
        heap[i], heap[child] = heap[child], heap[i]
        i = child


@kernel
def _is_before(a, b, partial, sequence):  # type: ignore[no-untyped-def]
    """Whether partial path a is opened before b: cheaper, or equal and first in arc order."""
    if partial[a, TOTAL] != partial[b, TOTAL]:
        return partial[a, TOTAL] < partial[b, TOTAL]
    for i in range(sequence.shape[1]):
        if sequence[a, i] != sequence[b, i]:
            return sequence[a, i] < sequence[b, i]
    return False
