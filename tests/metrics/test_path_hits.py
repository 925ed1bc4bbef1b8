from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pagelink.errors import GraphError, SettingsError
from pagelink.metrics import path_hit

# Few different values, so that most examples have ties.
few_scores = st.sampled_from([-math.inf, 0.0, 0.25, 0.5, 1.0])


def path_hit_by_enumeration(scores: list[float], paths: list[list[int]], budget: int) -> float:
    """Share of all orders of the edges, sorted by score and ties in any way, that are hits."""
    hits = total = 0
    for order in itertools.permutations(range(len(scores))):
        in_order = [scores[edge] for edge in order]
        if in_order != sorted(scores, reverse=True):
            continue
        top = set(order[:budget])
        hits += any(set(path) <= top for path in paths)
        total += 1
    return hits / total


class TestPathHit:
    def test_by_hand_one_path(self) -> None:
        # Edge 0 is in. Two of the four edges 1..4 are taken: both 1 and 2 in 1 of 6 cases.
        scores = [0.9, 0.5, 0.5, 0.5, 0.5, 0.1]
        assert path_hit(scores, [[0, 1, 2]], budget=3) == pytest.approx(1 / 6)

    def test_by_hand_two_paths_that_share_a_tied_edge(self) -> None:
        # The pairs {1, 2} and {2, 3} out of the 6 pairs of edges 1..4.
        scores = [0.9, 0.5, 0.5, 0.5, 0.5, 0.1]
        assert path_hit(scores, [[0, 1, 2], [2, 3]], budget=3) == pytest.approx(2 / 6)

    def test_by_hand_unions_overlap(self) -> None:
        # Three of four are taken, so one is left out: {0, 1} or {1, 2} is in unless that is
        # edge 1 (neither). Adding 1/2 and 1/2 without taking away 1/4 would give 1.
        assert path_hit([0.5] * 4, [[0, 1], [1, 2]], budget=3) == pytest.approx(3 / 4)

    def test_an_edge_below_the_cut_is_a_miss(self) -> None:
        assert path_hit([0.9, 0.8, 0.1], [[0, 2]], budget=2) == 0.0

    def test_a_longer_way_round_adds_nothing(self) -> None:
        scores = [0.5] * 6
        alone = path_hit(scores, [[0, 1]], budget=3)
        assert path_hit(scores, [[0, 1], [0, 1, 2]], budget=3) == alone == pytest.approx(1 / 5)

    def test_all_edges_are_in_if_there_are_fewer_than_the_budget(self) -> None:
        assert path_hit([0.1, 0.2, 0.3], [[0, 2]], budget=10) == 1.0

    def test_no_ground_truth_is_no_hit(self) -> None:
        assert path_hit([0.1, 0.2, 0.3], [], budget=2) == 0.0
        assert path_hit([0.1, 0.2, 0.3], [], budget=3) == 0.0

    @settings(deadline=None)
    @given(st.data())
    def test_agrees_with_all_orders(self, data: st.DataObject) -> None:
        scores = data.draw(st.lists(few_scores, min_size=1, max_size=6))
        path = st.lists(st.integers(0, len(scores) - 1), min_size=1, max_size=3, unique=True)
        paths = data.draw(st.lists(path, max_size=5))
        budget = data.draw(st.integers(1, len(scores) + 1))
        expected = path_hit_by_enumeration(scores, paths, budget)
        assert path_hit(scores, paths, budget) == pytest.approx(expected, abs=1e-12)

    @pytest.mark.parametrize("taken", [5, 6])
    def test_many_paths(self, taken: int) -> None:
        # Twenty one-edge paths among 200 tied edges: exact for 5 taken (21,700 unions), estimated
        # for 6 (60,460 unions).
        expected = 1 - math.comb(180, taken) / math.comb(200, taken)
        hit = path_hit(np.zeros(200), [[edge] for edge in range(20)], budget=taken)
        assert hit == pytest.approx(expected, abs=1e-12 if taken == 5 else 0.005)
        assert (hit == pytest.approx(expected, abs=1e-12)) == (taken == 5)

    def test_many_paths_with_few_unions_are_exact(self) -> None:
        # All 45 pairs of ten edges: a hit is to take at least two of the ten.
        pairs = list(itertools.combinations(range(10), 2))
        missed = math.comb(90, 20) + 10 * math.comb(90, 19)
        expected = 1 - missed / math.comb(100, 20)
        assert path_hit(np.zeros(100), pairs, budget=20) == pytest.approx(expected, abs=1e-12)

    def test_estimate_of_paths_of_two_edges(self) -> None:
        # 25 disjoint pairs: a miss takes at most one edge of each.
        pairs = [[2 * i, 2 * i + 1] for i in range(25)]
        missed = sum(math.comb(25, k) * 2**k * math.comb(50, 20 - k) for k in range(21))
        expected = 1 - missed / math.comb(100, 20)
        hit = path_hit(np.zeros(100), pairs, budget=20)
        assert hit == pytest.approx(expected, abs=0.005)
        assert hit == path_hit(np.zeros(100), pairs, budget=20)

    def test_refuses_what_cannot_be(self) -> None:
        with pytest.raises(GraphError, match=r"positions from 0 to 1, got \[0, 2\]"):
            path_hit([0.1, 0.2], [[0, 2]], budget=1)
        with pytest.raises(GraphError, match="must have edges"):
            path_hit([0.1, 0.2], [[]], budget=1)
        with pytest.raises(SettingsError, match="budget must be at least 1"):
            path_hit([0.1, 0.2], [[0]], budget=0)
        with pytest.raises(GraphError, match="1 NaN"):
            path_hit([0.1, math.nan], [[0]], budget=1)
