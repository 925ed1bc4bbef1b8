from __future__ import annotations

import math
from itertools import combinations

import networkx as nx
import pytest

from pagelink.errors import SettingsError
from pagelink.metrics.theory import (
    count_connected_subgraphs,
    count_paths,
    log_expected_paths,
    log_paths_in_the_limit,
    log_subgraphs,
    random_graph,
)


class TestExpectedPaths:
    @pytest.mark.parametrize(("num_nodes", "num_edges"), [(4, 3), (5, 4), (5, 7)])
    def test_is_the_mean_over_all_graphs(self, num_nodes: int, num_edges: int) -> None:
        pairs = combinations(range(num_nodes), 2)
        counts = [
            count_paths([a for a, _ in edges], [b for _, b in edges], 0, num_nodes - 1)
            for edges in combinations(pairs, num_edges)
        ]
        expected = sum(counts) / len(counts)
        assert math.exp(log_expected_paths(num_nodes, num_edges)) == pytest.approx(expected)

    def test_by_hand(self) -> None:
        # Four nodes, two of six edges: the direct edge in 1/3 of the graphs, and two ways by one
        # node in between, each in 1 of 15; nothing longer.
        assert math.exp(log_expected_paths(4, 2)) == pytest.approx(1 / 3 + 2 / 15)
        assert math.exp(log_expected_paths(4, 2, max_length=1)) == pytest.approx(1 / 3)

    def test_is_near_the_mean_of_random_graphs(self) -> None:
        # Paths of at most three edges, so that counting is quick and the spread small.
        counts = []
        for seed in range(60):
            src, dst = (ends.tolist() for ends in random_graph(40, 200, seed))
            graph = nx.Graph(zip(src, dst, strict=True))
            graph.add_nodes_from((0, 39))
            counts.append(sum(1 for _ in nx.all_simple_paths(graph, 0, 39, cutoff=3)))
        mean = sum(counts) / len(counts)
        assert math.exp(log_expected_paths(40, 200, max_length=3)) == pytest.approx(mean, rel=0.15)

    @pytest.mark.parametrize("density", [0.3, 0.5, 0.9])
    def test_tends_to_the_estimate_of_the_paper(self, density: float) -> None:
        def off(num_nodes: int) -> float:
            num_edges = round(density * math.comb(num_nodes, 2))
            exact = log_expected_paths(num_nodes, num_edges)
            return abs(math.expm1(exact - log_paths_in_the_limit(num_nodes, density)))

        assert off(2001) < 0.01
        assert off(2001) < off(101) < off(21)

    def test_no_edges_no_paths(self) -> None:
        assert log_expected_paths(5, 0) == -math.inf

    def test_refuses_what_cannot_be(self) -> None:
        with pytest.raises(SettingsError, match="1 nodes and 0 edges"):
            log_expected_paths(1, 0)
        with pytest.raises(SettingsError, match="10 pairs, got 5 nodes and 11 edges"):
            log_expected_paths(5, 11)
        with pytest.raises(SettingsError, match="max_length must be at least 1"):
            log_expected_paths(5, 7, max_length=0)


class TestPathsAgainstSubgraphs:
    def test_the_proposition(self) -> None:
        # log(Z / S) falls without bound. Not from the first node on: the proposition is a limit.
        gaps = []
        for num_nodes in (10, 20, 40, 80, 160):
            num_edges = math.comb(num_nodes, 2) // 2
            gaps.append(log_expected_paths(num_nodes, num_edges) - log_subgraphs(num_edges))
        assert gaps == sorted(gaps, reverse=True)
        assert gaps[0] < 0
        assert gaps[-1] < -3000

    def test_counted_on_small_random_graphs(self) -> None:
        for seed in range(5):
            src, dst = (ends.tolist() for ends in random_graph(8, 12, seed))
            paths, connected = count_paths(src, dst, 0, 7), count_connected_subgraphs(src, dst)
            assert paths < connected < round(math.exp(log_subgraphs(12))) == 4096

    def test_paths_agree_with_networkx(self) -> None:
        found = []
        for seed in range(20):
            src, dst = (ends.tolist() for ends in random_graph(7, 10, seed))
            graph = nx.Graph(zip(src, dst, strict=True))
            graph.add_nodes_from(range(7))
            expected = sum(1 for _ in nx.all_simple_paths(graph, 0, 6))
            assert count_paths(src, dst, 0, 6) == expected
            found.append(expected)
        assert len(set(found)) > 3

    def test_connected_subgraphs_agree_with_networkx(self) -> None:
        src, dst = (ends.tolist() for ends in random_graph(6, 8, seed=3))
        edges = list(zip(src, dst, strict=True))
        expected = sum(
            nx.is_connected(nx.Graph(chosen))
            for size in range(1, 9)
            for chosen in combinations(edges, size)
        )
        assert count_connected_subgraphs(src, dst) == expected < 255

    def test_refuses_to_try_too_many_sets(self) -> None:
        with pytest.raises(SettingsError, match="At most 20 edges"):
            count_connected_subgraphs([0] * 21, list(range(1, 22)))
