from __future__ import annotations

import math

import networkx as nx
import numpy as np
import pytest
from scipy.stats import poisson

from pagelink.errors import SettingsError
from pagelink.metrics.theory import (
    core_shares,
    core_threshold,
    counted_core_shares,
    poisson_tail,
    random_graph,
)


@pytest.mark.parametrize(("mean", "least"), [(0.0, 0), (0.0, 1), (0.5, 2), (5.83, 4), (30.0, 20)])
def test_poisson_tail_agrees_with_scipy(mean: float, least: int) -> None:
    assert poisson_tail(mean, least) == pytest.approx(poisson.sf(least - 1, mean), abs=1e-12)


class TestCoreThreshold:
    def test_known_constants(self) -> None:
        # To two digits in Pittel, Spencer and Wormald, where the core of k = 3 starts at 3.35.
        found = [core_threshold(k) for k in (1, 2, 3, 4, 5)]
        assert found == pytest.approx([0, 1, 3.35, 5.15, 6.80], abs=0.005)

    @pytest.mark.parametrize("core", [3, 5, 9])
    def test_is_the_least_value_on_a_grid(self, core: int) -> None:
        grid = np.linspace(0.01, 40, 100_000)
        assert core_threshold(core) == pytest.approx(
            (grid / poisson.sf(core - 2, grid)).min(), abs=1e-6
        )

    def test_refuses_no_core(self) -> None:
        with pytest.raises(SettingsError, match="core must be at least 1"):
            core_threshold(0)


class TestCoreShares:
    def test_figure_of_the_paper(self) -> None:
        nodes, edges = core_shares(7.0, core=5)
        assert nodes == pytest.approx(0.69, abs=0.005)
        assert edges == pytest.approx(0.69, abs=0.005)

    def test_by_hand(self) -> None:
        # 1-core: mu = c, all but the isolated nodes and all edges. 2-core: mu = c (1 - e^-mu), and
        # at mu = log 2 that is c = 2 log 2; nodes 1 - 1/2 - log(2) / 2.
        assert core_shares(math.log(4), core=1) == pytest.approx((0.75, 1.0))
        nodes, edges = core_shares(2 * math.log(2), core=2)
        assert nodes == pytest.approx((1 - math.log(2)) / 2)
        assert edges == pytest.approx(0.25)

    @pytest.mark.parametrize(("mean_degree", "core"), [(7.0, 5), (3.4, 3), (1.2, 2), (20.0, 8)])
    def test_is_the_largest_root(self, mean_degree: float, core: int) -> None:
        # From above, mu -> c * psi(mu) falls to the largest root and stops there.
        mean = mean_degree
        for _ in range(2_000):
            mean = mean_degree * float(poisson.sf(core - 2, mean))
        expected = float(poisson.sf(core - 1, mean)), (mean / mean_degree) ** 2
        assert core_shares(mean_degree, core) == pytest.approx(expected, abs=1e-9)

    def test_nothing_below_the_threshold_and_a_jump_there(self) -> None:
        at = core_threshold(3)
        assert core_shares(at - 1e-6, core=3) == (0, 0)
        # The core of k = 3 is born with about 27 % of the nodes.
        assert core_shares(at + 1e-6, core=3)[0] == pytest.approx(0.27, abs=0.005)
        assert core_shares(0.0, core=1) == (0, 0)

    def test_refuses_a_negative_degree(self) -> None:
        with pytest.raises(SettingsError, match="not be negative"):
            core_shares(-1.0, core=2)

    @pytest.mark.parametrize(("mean_degree", "core"), [(7.0, 5), (4.0, 3), (3.0, 2), (1.5, 1)])
    def test_predicts_a_large_random_graph(self, mean_degree: float, core: int) -> None:
        num_nodes = 200_000
        ends = random_graph(num_nodes, round(mean_degree * num_nodes / 2), seed=core)
        counted = counted_core_shares(*ends, num_nodes=num_nodes, core=core)
        assert counted == pytest.approx(core_shares(mean_degree, core), abs=0.01)

    def test_predicts_that_there_is_no_core(self) -> None:
        ends = random_graph(100_000, 330_000, seed=0)
        assert counted_core_shares(*ends, num_nodes=100_000, core=5) == (0, 0)
        assert core_shares(6.6, core=5) == (0, 0)


class TestCounted:
    @pytest.mark.parametrize("core", [1, 2, 3, 4])
    def test_agrees_with_networkx(self, core: int) -> None:
        src, dst = random_graph(200, 380, seed=1)
        graph = nx.Graph(zip(src.tolist(), dst.tolist(), strict=True))
        expected = nx.k_core(graph, core)
        counted = counted_core_shares(src, dst, num_nodes=200, core=core)
        assert counted == (len(expected) / 200, expected.number_of_edges() / 380)
        assert core == 4 or 0 < counted[0] < 1

    def test_no_edges(self) -> None:
        none = np.zeros(0, dtype=np.int64)
        nodes, edges = counted_core_shares(none, none, num_nodes=3, core=1)
        assert nodes == 0
        assert math.isnan(edges)


class TestRandomGraph:
    def test_every_pair_is_drawn_once(self) -> None:
        src, dst = random_graph(300, math.comb(300, 2), seed=0)
        assert (src < dst).all()
        assert len(set(zip(src.tolist(), dst.tolist(), strict=True))) == math.comb(300, 2)
        assert (src.min(), dst.max()) == (0, 299)

    def test_pairs_are_equally_likely(self) -> None:
        # 3 of 10 pairs, 4,000 times: 1,200 each, standard deviation 29.
        count = np.zeros((5, 5))
        for seed in range(4000):
            count[random_graph(5, 3, seed)] += 1
        drawn = count[np.triu_indices(5, 1)]
        assert drawn.sum() == 12_000
        assert drawn == pytest.approx(1200, abs=130)

    def test_refuses_too_many_edges(self) -> None:
        with pytest.raises(SettingsError, match="5 nodes have 10 pairs, got 11 edges"):
            random_graph(5, 11, seed=0)
