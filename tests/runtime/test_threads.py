from __future__ import annotations

import subprocess
import sys
import threading
import time
from dataclasses import fields
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.multigraphs import seeds, sizes
from support.threads import num_threads

from pagelink.bench.fuzz.oracles.brute_force import draw_links, extract
from pagelink.bench.fuzz.oracles.multigraphs import random_multigraph
from pagelink.graph import computation_graph
from pagelink.graph.computation_graph import Extractor
from pagelink.graph.ego_kernels import FAR
from pagelink.graph.typed_graph import TypedGraph
from pagelink.runtime.kernels import Deadline, balanced, over_ranges
from pagelink.search.paths import allowed_facts, build_path_graphs, cheapest_paths
from pagelink.search.pruning import prune

some_graphs = settings(deadline=None, derandomize=True, max_examples=60)


@given(st.lists(st.integers(1, 50), max_size=40), st.integers(1, 12))
def test_ranges_are_all_items_once_in_order(weights: list[int], count: int) -> None:
    ranges = balanced(np.array(weights, dtype=np.int64), count)
    assert [i for first, last in ranges for i in range(first, last)] == list(range(len(weights)))
    assert len(ranges) <= count
    assert all(first < last for first, last in ranges) or not weights
    # No range is more than an even share and the two items that it was rounded by.
    heaviest = max((sum(weights[first:last]) for first, last in ranges), default=0)
    assert heaviest <= sum(weights) / count + max(weights, default=0)


def test_one_thread_or_one_item_needs_no_pool() -> None:
    def work(first: int, last: int) -> tuple[int, int, int]:
        return first, last, threading.get_ident()

    here = threading.get_ident()
    many = np.ones(100, dtype=np.int64)
    with num_threads(1):
        assert over_ranges(work, many) == [(0, 100, here)]
    with num_threads(3):
        assert over_ranges(work, many[:1]) == [(0, 1, here)]
        assert over_ranges(work, many[:0]) == [(0, 0, here)]
        found = over_ranges(work, many)
        assert here not in {ident for *_, ident in found}
        assert [i for first, last, _ in found for i in range(first, last)] == list(range(100))


def test_an_error_in_a_range_comes_through() -> None:
    def work(first: int, last: int) -> None:
        if first <= 60 < last:
            raise MemoryError("no room")

    for count in (1, 3):
        with num_threads(count), pytest.raises(MemoryError, match="no room"):
            over_ranges(work, np.ones(100, dtype=np.int64))


@pytest.mark.parametrize("count", [1, 3])
def test_the_flag_is_set_while_the_work_goes_on(count: int) -> None:
    def work(first: int, last: int) -> int:
        while not deadline.passed[0] and time.perf_counter() < started + 30:
            time.sleep(0.001)
        return last - first

    with num_threads(count):
        started = time.perf_counter()
        deadline = Deadline(started + 0.05)
        assert sum(over_ranges(work, np.ones(9, dtype=np.int64), deadline)) == 9
    assert 0.05 <= time.perf_counter() - started < 10


def test_a_deadline_in_the_past_is_known_at_once() -> None:
    assert Deadline(time.perf_counter() - 1).passed[0]
    assert not Deadline(time.perf_counter() + 60).passed[0]
    assert not Deadline(None).passed[0]


def every_array(*results: Any) -> list[Any]:
    return [
        getattr(each, f.name) for each in results for f in fields(each) if f.name != "automaton"
    ]


def all_steps(graph: TypedGraph, extractor: Extractor, links: list[Any], seed: int) -> list[Any]:
    """The results of extracting, pruning, building path graphs and searching."""
    batch = extract(graph, extractor, links)
    kept = prune(graph, batch, 2)
    paths = build_path_graphs(graph, batch, allowed_facts(graph, batch, kept), 4, 6)
    # The cost is of the walked edge, so that it does not depend on where the link is in the batch.
    cost = np.random.default_rng(seed).integers(0, 3, graph.num_edges)
    found = cheapest_paths(paths, cost[batch.edges[paths.arc_slot]], 6)
    return [batch, kept, paths, found]


@some_graphs
@given(seeds, sizes, st.integers(1, 3))
def test_results_do_not_depend_on_threads_or_order(seed: int, size: int, num_hops: int) -> None:
    rng = np.random.default_rng(seed)
    drawn = random_multigraph(rng, size)
    links = draw_links(rng, drawn, 20)
    if not links:
        return
    graph = TypedGraph.from_data(drawn.data(), reverse=drawn.reverse)
    used = rng.random(len(graph.edge_types)) < 0.7
    extractor = Extractor(graph, num_hops, used)
    with num_threads(1):
        alone = [all_steps(graph, Extractor(graph, num_hops, used), [x], seed) for x in links]
    for count in (1, 3):
        for order in (np.arange(len(links)), rng.permutation(len(links))):
            with num_threads(count):
                batch, kept, paths, found = all_steps(
                    graph, extractor, [links[i] for i in order], seed
                )
            for row, i in enumerate(order):
                one, one_kept, one_paths, one_found = alone[i]
                mine = batch.only(row)
                for a, b in zip(every_array(mine), every_array(one), strict=True):
                    assert np.array_equal(a, b)
                edges = slice(batch.edge_ptr[row], batch.edge_ptr[row + 1])
                assert np.array_equal(kept[edges], one_kept)
                arcs = paths.arcs_of(row)
                assert np.array_equal(paths.arc_slot[arcs] - edges.start, one_paths.arc_slot)
                for name in ("arc_dst", "arc_reversed", "arc_log_degree", "arc_symbol"):
                    assert np.array_equal(getattr(paths, name)[arcs], getattr(one_paths, name))
                nodes = slice(paths.node_ptr[row], paths.node_ptr[row + 1])
                assert np.array_equal(paths.nodes[nodes], one_paths.nodes)
                ptr = paths.arc_ptr[nodes.start + row : nodes.stop + row + 1]
                assert np.array_equal(ptr - arcs.start, one_paths.arc_ptr)
                assert np.array_equal(found.lengths[row], one_found.lengths[0])
                number = np.where(found.arcs[row] < 0, -1, found.arcs[row] - arcs.start)
                assert np.array_equal(number, one_found.arcs[0])
                assert found.complete[row]


def test_every_thread_has_its_own_scratch_and_no_more() -> None:
    rng = np.random.default_rng(0)
    drawn = random_multigraph(rng, 6)
    links = draw_links(rng, drawn, 50)
    graph = TypedGraph.from_data(drawn.data(), reverse=drawn.reverse)
    extractor = Extractor(graph, 2)
    assert not extractor._free
    with num_threads(3):
        for _ in range(10):
            extract(graph, extractor, links)
    assert 1 <= len(extractor._free) <= 3


@pytest.mark.parametrize("name", ["find_egos", "fill_egos"])
@pytest.mark.parametrize("count", [1, 3])
def test_scratch_is_clean_after_an_error(
    name: str, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(1)
    drawn = random_multigraph(rng, 6)
    links = draw_links(rng, drawn, 30)
    graph = TypedGraph.from_data(drawn.data(), reverse=drawn.reverse)
    extractor = Extractor(graph, 2)
    expected = extract(graph, extractor, links)
    real = getattr(computation_graph, name)

    def broken(*args: Any) -> None:
        arrays = [a for a in args if isinstance(a, np.ndarray) and len(a) == graph.num_nodes]
        for scratch in [a for a in arrays if any(a is b for pair in held for b in pair)]:
            scratch[:] = 7
        raise MemoryError

    with num_threads(count):
        held = list(extractor._free)
        monkeypatch.setattr(computation_graph, name, broken)
        with pytest.raises(MemoryError):
            extract(graph, extractor, links)
        monkeypatch.setattr(computation_graph, name, real)
        again = extract(graph, extractor, links)
    for a, b in zip(every_array(expected), every_array(again), strict=True):
        assert np.array_equal(a, b)
    assert all((hops == FAR).all() for hops, _ in extractor._free)


def test_a_forked_process_makes_its_own_pool() -> None:
    code = (
        "import os, torch, numpy as np\n"
        "from pagelink.runtime.kernels import over_ranges\n"
        "torch.set_num_threads(2)\n"
        "work = lambda first, last: last - first\n"
        "ones = np.ones(50, dtype=np.int64)\n"
        "assert sum(over_ranges(work, ones)) == 50\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    os._exit(0 if sum(over_ranges(work, ones)) == 50 else 1)\n"
        "assert os.waitpid(child, 0)[1] == 0\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
