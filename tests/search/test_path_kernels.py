"""The path search at hubs, against a plain search, and under a deadline."""

from __future__ import annotations

import heapq
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.threads import num_threads

from pagelink.search.constraints import ANYTHING, Automaton
from pagelink.search.paths import PathGraphs, cheapest_paths

many_graphs = settings(deadline=None, derandomize=True, max_examples=100)


def path_graphs(
    links: list[tuple[int, np.ndarray]],
    max_length: int,
    symbols: list[np.ndarray] | None = None,
    automaton: Automaton = ANYTHING,
) -> PathGraphs:
    """Path graphs of links given by number of nodes and arcs (tail, head), node 0 to node 1."""
    node_ptr, arc_ptr, heads, order = [0], [np.zeros(0, dtype=np.int64)], [], []
    total = 0
    for num_nodes, arcs in links:
        rank = np.lexsort((arcs[:, 1], arcs[:, 0]))
        counts = np.bincount(arcs[:, 0], minlength=num_nodes)[:num_nodes]
        node_ptr.append(node_ptr[-1] + num_nodes)
        arc_ptr.append(total + np.concatenate([[0], np.cumsum(counts)]))
        heads.append(arcs[rank, 1])
        order.append(rank)
        total += len(arcs)
    arc_dst = np.concatenate(heads).astype(np.int32)
    symbol = np.zeros(total, dtype=np.int32)
    if symbols is not None:
        symbol = np.concatenate([s[r] for s, r in zip(symbols, order, strict=True)])
    return PathGraphs(
        max_length=max_length,
        node_ptr=np.array(node_ptr),
        nodes=np.arange(node_ptr[-1], dtype=np.int32),
        arc_ptr=np.concatenate(arc_ptr).astype(np.int64),
        arc_dst=arc_dst,
        arc_slot=np.arange(total),
        arc_reversed=np.zeros(total, dtype=np.bool_),
        arc_log_degree=np.zeros(total),
        arc_symbol=symbol.astype(np.int32),
        automaton=automaton,
    )


def plain_search(paths: PathGraphs, cost: np.ndarray, num_paths: int, link: int) -> list[list[int]]:
    """Open every way on from the cheapest partial path, with nothing known of the target."""
    first = paths.node_ptr[link] + link
    there = paths.node_ptr[link] < paths.node_ptr[link + 1]
    heap: list[tuple[int, list[int], int, int]] = [(0, [], 0, 0)] if there else []
    found: list[list[int]] = []
    while heap and len(found) < num_paths:
        spent, arcs, u, state = heapq.heappop(heap)
        if u == 1:
            if paths.automaton.accepting[state]:
                found.append(arcs)
            continue
        if len(arcs) == paths.max_length:
            continue
        for a in range(paths.arc_ptr[first + u], paths.arc_ptr[first + u + 1]):
            v, after = int(paths.arc_dst[a]), state
            if paths.automaton is not ANYTHING:
                after = int(paths.automaton.next_state[state, paths.arc_symbol[a]])
            if after >= 0 and v != 0 and v not in [int(paths.arc_dst[b]) for b in arcs]:
                heapq.heappush(heap, (spent + int(cost[a]), [*arcs, a], v, after))
    return found


def random_links(rng: np.random.Generator, count: int) -> list[tuple[int, np.ndarray]]:
    """Multigraphs with parallel arcs and dead ends; some without anything."""
    links = []
    for _ in range(count):
        num_nodes = int(rng.integers(2, 8))
        arcs = rng.integers(0, num_nodes, (int(rng.integers(0, 5 * num_nodes)), 2))
        loops = (arcs[:, 0] == arcs[:, 1]) | (arcs[:, 0] == 1) | (arcs[:, 1] == 0)
        links.append((num_nodes, arcs[~loops]) if rng.random() < 0.9 else (0, arcs[:0]))
    return links


@many_graphs
@given(
    st.integers(0, 2**32 - 1), st.integers(1, 5), st.sampled_from([1, 2, 7, 100]),
    st.sampled_from([0, 1, 4, 1000]), st.booleans(),
)  # fmt: skip
def test_the_order_is_that_of_a_plain_search(
    seed: int, max_length: int, num_paths: int, highest: int, reads: bool
) -> None:
    rng = np.random.default_rng(seed)
    links = random_links(rng, 6)
    automaton, symbols = ANYTHING, None
    if reads:
        table = rng.integers(-1, 3, (3, 2)).astype(np.int32)
        automaton = Automaton(table, rng.random(3) < 0.6)
        symbols = [rng.integers(0, 2, len(arcs)) for _, arcs in links]
    paths = path_graphs(links, max_length, symbols, automaton)
    cost = rng.integers(0, highest + 1, len(paths.arc_dst))
    expected = [plain_search(paths, cost, num_paths, i) for i in range(len(links))]
    for threads in (1, 3):
        order = rng.permutation(len(links))
        with num_threads(threads):
            found = cheapest_paths(paths, cost, num_paths, order)
            any_path = paths.has_path() if reads else None
        assert found.complete.all()
        for row, link in enumerate(order):
            walked = zip(found.arcs[row], found.lengths[row], strict=True)
            assert [arcs[:n].tolist() for arcs, n in walked if n] == expected[link]
            if any_path is not None:
                assert any_path[link] == bool(expected[link])


def hub_link(degree: int, length: int, all_meet: bool) -> tuple[int, np.ndarray]:
    """From s to a hub, then from each neighbour of the hub a way to t, with so many arcs in all.

    The ways go through nodes of their own, or (`all_meet`) through one more hub.
    """
    first = np.arange(degree) + 4
    arcs = [[[0, 2], [2, 1]], np.stack([np.full(degree, 2), first], axis=1)]
    here, num_nodes = first, 4 + degree
    for _ in range(length - 3):
        there = np.full(degree, 3) if all_meet else np.arange(degree) + num_nodes
        arcs.append(np.stack([here, there], axis=1))
        here, num_nodes = there, num_nodes + (0 if all_meet else degree)
        if all_meet:
            here = np.array([3])
            break
    arcs.append(np.stack([here, np.ones_like(here)], axis=1))
    return num_nodes, np.concatenate(arcs)


@pytest.mark.parametrize("length", [3, 4, 5])
@pytest.mark.parametrize("all_meet", [False, True])
@pytest.mark.parametrize("highest", [0, 1000])
def test_a_hub_costs_no_more_than_its_best_ways_on(
    length: int, all_meet: bool, highest: int
) -> None:
    num_paths = 10
    opened = {}
    for degree in (1_000, 100_000):
        paths = path_graphs([hub_link(degree, length, all_meet)], length)
        cost = np.random.default_rng(0).integers(0, highest + 1, len(paths.arc_dst))
        found = cheapest_paths(paths, cost, num_paths)
        (opened[degree],) = found.opened
        assert (found.lengths[0] > 0).all()
        totals = [cost[a[:n]].sum() for a, n in zip(found.arcs[0], found.lengths[0], strict=True)]
        assert totals == sorted(totals)
    # Each path that is taken off puts on one more for each of its arcs, whatever the degree.
    assert max(opened.values()) <= 2 * num_paths * (length + 1)


@pytest.mark.parametrize("length", [2, 3, 4, 5])
def test_between_the_neighbours_of_one_hub(length: int) -> None:
    # s - hub - t, and s - v - hub - w - t, where all v and w are neighbours of the hub both ways.
    degree = 100_000
    leaves = np.arange(degree) + 3
    hub, s, t = np.full(degree, 2), np.zeros(degree, dtype=int), np.ones(degree, dtype=int)
    ends = [(hub, leaves), (leaves, hub), (s, leaves), (leaves, t)]
    arcs = np.concatenate([[[0, 2], [2, 1]], *(np.stack(pair, axis=1) for pair in ends)])
    paths = path_graphs([(degree + 3, arcs)], length)
    cost = np.ones(len(paths.arc_dst), dtype=np.int64)
    cost[paths.arc_dst == 2] = 5  # into the hub
    found = cheapest_paths(paths, cost, 20)
    assert found.lengths[0].tolist() == [2] * 20
    assert found.opened[0] <= 20 * 4
    # Where the leaves are dear, the ways through the hub are all that is left.
    cost[np.isin(paths.arc_dst, leaves)] = 50
    found = cheapest_paths(paths, cost, 20)
    assert paths.arc_dst[found.arcs[0, 0, 0]] == 2
    assert found.opened[0] <= 20 * 6


def trap(size: int) -> tuple[int, np.ndarray]:
    """Two simple paths through node 2, and more walks that come back to it than can be counted."""
    inner = np.arange(size) + 3
    tail, head = (grid.ravel() for grid in np.meshgrid(inner, inner, indexing="ij"))
    two = np.full(size, 2)
    among = np.stack([tail[tail != head], head[tail != head]], axis=1)
    door = [np.stack(pair, axis=1) for pair in ((two, inner), (inner, two))]
    return 3 + size, np.concatenate([[[0, 2], [2, 1], [2, 1]], *door, among])


@pytest.mark.parametrize("threads", [1, 2])
def test_a_deadline_holds_inside_the_search(threads: int) -> None:
    easy = hub_link(3, 3, False)
    paths = path_graphs([easy, trap(60), easy], 8)
    cost = np.random.default_rng(0).integers(0, 100, len(paths.arc_dst))
    best = cheapest_paths(paths, cost, 2)
    assert best.complete.all()
    with num_threads(threads):
        started = time.perf_counter()
        found = cheapest_paths(paths, cost, 5, None, started + 0.3)
        assert 0.3 <= time.perf_counter() - started < 5
    assert found.complete[:2].tolist() == [True, False]
    assert (found.lengths[0] > 0).sum() == 4
    # What was found so far are the best ones, in order.
    assert (found.lengths[1] > 0).tolist() == [True, True, False, False, False]
    assert np.array_equal(found.arcs[1, :2], best.arcs[1])


def test_a_deadline_that_is_far_or_past() -> None:
    paths = path_graphs([hub_link(3, 3, False), (0, np.empty((0, 2), dtype=np.int64))], 3)
    cost = np.ones(len(paths.arc_dst), dtype=np.int64)
    whole = cheapest_paths(paths, cost, 5)
    late = cheapest_paths(paths, cost, 5, until=time.perf_counter() - 1)
    assert late.complete.tolist() == [False, True]  # there is nothing to search for the second
    assert not late.lengths.any()
    timely = cheapest_paths(paths, cost, 5, until=time.perf_counter() + 600)
    assert timely.complete.all()
    assert np.array_equal(timely.arcs, whole.arcs)


def test_costs_to_the_target_are_under_the_deadline_too() -> None:
    # A thousand states of the automaton on a million arcs: seconds before the first path.
    degree = 200_000
    states = 1000
    table = np.tile(np.arange(states, dtype=np.int32)[:, None], (1, 1))
    accepting = np.zeros(states, dtype=np.bool_)
    accepting[0] = True
    link = hub_link(1000, 5, False)
    arcs = np.repeat(link[1], degree // len(link[1]), axis=0)
    paths = path_graphs([(link[0], arcs)], 5, [np.zeros(len(arcs))], Automaton(table, accepting))
    cost = np.ones(len(arcs), dtype=np.int64)
    cheapest_paths(path_graphs([hub_link(3, 3, False)], 3), cost[:8], 1)  # compiled beforehand
    started = time.perf_counter()
    found = cheapest_paths(paths, cost, 1, until=started + 0.1)
    assert time.perf_counter() - started < 2
    assert not found.complete.any()
