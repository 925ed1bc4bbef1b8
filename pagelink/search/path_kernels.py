"""The kernel of the path search, on plain arrays; see `paths`.

Exactly the k cheapest simple paths of at most l_max arcs are found, in order:

1. What the rest of a path costs at least: for each node and number of arcs left, the cost of the
   cheapest walk to the target (Bellman-Ford, by number of arcs).
2. A best-first search over partial paths. One is opened when it is the cheapest by what it has cost
   and what the rest costs at least; equal ones by the order of their arcs.
3. Of the ways on from a node, which are many at a hub, only the best is put on the heap, and the
   next best when that one is taken off: a way on is never better than those before it, so the order
   of the paths stays the same.
4. A partial path that arrives at the target is the next best path.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pagelink.runtime.arrays import Bools, Ints, Longs
from pagelink.runtime.kernels import inner, kernel
from pagelink.runtime.rooms import grown, grown_rows

UNREACHABLE = np.int64(2**62)
BEST = np.int64(0)
"""The rank of the best way on, and the place of the best entry of a heap."""
TOTAL, SPENT, DEPTH, CHOICE, RANK = range(5)
"""Columns of a partial path: the least it can cost in all, what it has cost, its number of arcs,
which choice its last arc comes from, and how many of that were better."""
START, SIZE, LEFT, KEY = range(4)
"""Columns of a choice, the ways on from a node: where they are, how many, how many of them are not
yet in order, and what the choice is found by: (arcs left, node, state of the automaton)."""


class SearchArrays(NamedTuple):
    """Where paths are searched: the arrays of `PathGraphs`, costs of arcs, and the automaton."""

    node_ptr: Longs
    arc_ptr: Longs
    arc_dst: Ints
    arc_cost: Longs
    arc_symbol: Ints
    next_state: Ints
    accepting: Bools


class FoundArrays(NamedTuple):
    """What is found, a row per link: see `FoundPaths`."""

    arcs: Longs
    lengths: Longs
    complete: Bools
    opened: Longs
    """Number of partial paths that were put on the heap."""


@kernel
def cheapest_paths_kernel(first, last, links, graph, passed, out):  # type: ignore[no-untyped-def]
    """Find the cheapest simple paths of links[first:last]; stop when `passed` is set.

    Args:
        first: the first row.
        last: the one behind the last.
        links: per row, the link to search.
        graph: the `SearchArrays`.
        passed: a flag, set when the time is over.
        out: the `FoundArrays` to write to.
    """
    node_ptr, arc_dst, arc_cost = graph.node_ptr, graph.arc_dst, graph.arc_cost
    num_paths, max_length = out.arcs.shape[1:]
    num_states = len(graph.accepting)
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
        # 1. Costs to the target.
        ptr = graph.arc_ptr[node_ptr[link] + link : node_ptr[link + 1] + link + 1]
        if not _costs_to_target(ptr, graph, max_length, passed, to_target):
            out.complete[row] = False
            continue
        # 2. Take the most promising partial path off the heap; the first is the source alone.
        partial[0] = 0
        partial[0, CHOICE] = -1
        sequence[0] = -1
        heap[0] = 0
        # Numbers of a type: what is called with a literal is compiled once more for it.
        count = height = np.int64(1)
        found = num_choices = num_ways = np.int64(0)
        while height > 0 and found < num_paths:
            if passed[0]:
                out.complete[row] = False
                break
            label = heap[0]
            height = _pop(heap, height, partial, sequence)
            if count + 2 > len(partial):
                partial = grown_rows(partial, 2 * len(partial))
                sequence = grown_rows(sequence, 2 * len(sequence))
                heap = grown(heap, height, 2 * len(heap))
            depth = partial[label, DEPTH]
            if partial[label, CHOICE] >= 0:
                # 3. In its place, the path with the next best way on instead of its last arc.
                spent = partial[label, SPENT] - arc_cost[sequence[label, depth - 1]]
                rank = partial[label, RANK] + 1
                count, height = _put_next(
                    label, depth - 1, spent, partial[label, CHOICE], rank, choices, way_arc,
                    way_cost, arc_dst, arc_cost, partial, sequence, heap, count, height,
                )  # fmt: skip
            u = 0 if depth == 0 else arc_dst[sequence[label, depth - 1]]
            if u == 1:  # 4. It is at the target.
                for i in range(depth):
                    out.arcs[row, found, i] = sequence[label, i]
                out.lengths[row, found] = depth
                found += 1
                continue
            # 5. The ways on from where it is, collected when the first path comes by.
            state = 0
            if depth > 0:
                before = choices[partial[label, CHOICE], KEY] % num_states
                state = graph.next_state[before, graph.arc_symbol[sequence[label, depth - 1]]]
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
                    ptr[u], ptr[u + 1], rest - 1, n, state, graph, to_target, way_arc[num_ways:],
                    way_cost[num_ways:],
                )  # fmt: skip
                choices[num_choices, START] = num_ways
                choices[num_choices, SIZE] = size
                choices[num_choices, LEFT] = size
                choices[num_choices, KEY] = key
                choice_of[key] = num_choices
                num_choices += 1
                num_ways += size
            # 6. The path with the best of them is put on the heap.
            count, height = _put_next(
                label, depth, partial[label, SPENT], choice_of[key], BEST, choices, way_arc,
                way_cost, arc_dst, arc_cost, partial, sequence, heap, count, height,
            )  # fmt: skip
        out.opened[row] = count
        for i in range(num_choices):
            choice_of[choices[i, KEY]] = -1


@inner
def _costs_to_target(ptr, graph, max_length, passed, to_target):  # type: ignore[no-untyped-def]
    """Cost of the cheapest walk of at most h arcs, for h below max_length, to the target, node 1.

    At (h * nodes + v) * states + q: from node v, where the automaton reads the walk from state q to
    an accepting one. Returns False if it was stopped.
    """
    n, num_states = len(ptr) - 1, len(graph.accepting)
    level = n * num_states
    to_target[:level] = UNREACHABLE
    for q in range(num_states):
        if graph.accepting[q]:
            to_target[num_states + q] = 0
    for h in range(1, max_length):
        below, here = (h - 1) * level, h * level
        for u in range(n):
            if passed[0]:
                return False
            for q in range(num_states):
                best = to_target[below + u * num_states + q]
                for a in range(ptr[u], ptr[u + 1]):
                    after = graph.next_state[q, graph.arc_symbol[a]]
                    if after >= 0:
                        rest = to_target[below + graph.arc_dst[a] * num_states + after]
                        best = min(best, graph.arc_cost[a] + rest)
                to_target[here + u * num_states + q] = best
    return passed[0] == 0


@inner
def _ways_on(begin, end, rest, n, state, graph, to_target, arcs, costs):  # type: ignore[no-untyped-def]
    """Collect the arcs of a node from which the target can be reached in time, as a heap."""
    num_states = len(graph.next_state)
    size = np.int64(0)
    for a in range(begin, end):
        after = graph.next_state[state, graph.arc_symbol[a]]
        if after >= 0:
            beyond = to_target[(rest * n + graph.arc_dst[a]) * num_states + after]
            if beyond != UNREACHABLE:
                arcs[size] = a
                costs[size] = graph.arc_cost[a] + beyond
                size += 1
    for i in range(size // 2 - 1, -1, -1):
        _sink(i, size, arcs, costs)
    return size


@inner
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


@inner
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
            _sink(BEST, left, arcs, costs)
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


@inner
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


@inner
def _is_before(a, b, partial, sequence):  # type: ignore[no-untyped-def]
    """Whether partial path a is opened before b: cheaper, or equal and first in arc order."""
    if partial[a, TOTAL] != partial[b, TOTAL]:
        return partial[a, TOTAL] < partial[b, TOTAL]
    for i in range(sequence.shape[1]):
        if sequence[a, i] != sequence[b, i]:
            return sequence[a, i] < sequence[b, i]
    return False
