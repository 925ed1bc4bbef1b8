from __future__ import annotations

import math
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pagelink.errors import GraphError, SettingsError
from pagelink.metrics import diversity, jaccard, mean_length, mean_log_degree, sparsity, stability


class TestSparsity:
    def test_by_hand(self) -> None:
        # Five different facts of eight; fact 2 lies on both paths.
        assert sparsity([(1, 2, 3), (4, 2, 5)], range(8)) == pytest.approx(3 / 8)

    def test_no_paths_are_not_sparse(self) -> None:
        assert math.isnan(sparsity([], range(8)))

    def test_refuses_pruned_facts(self) -> None:
        with pytest.raises(GraphError, match="1 of 2 are not"):
            sparsity([(1, 9)], range(8))


class TestShape:
    def test_length_by_hand(self) -> None:
        assert mean_length([(1, 2, 3), (4,)]) == 2
        assert mean_length([(1, 2, 3), (4,), (5,)]) == pytest.approx(5 / 3)
        assert math.isnan(mean_length([]))

    def test_log_degree_by_hand(self) -> None:
        # Over nodes, not over the means of paths.
        assert mean_log_degree([(2, 8), (4,)]) == pytest.approx(2 * math.log(2))
        assert mean_log_degree([(2, 2), (16,)]) == pytest.approx(2 * math.log(2))
        assert math.isnan(mean_log_degree([(), ()]))

    def test_refuses_a_degree_of_zero(self) -> None:
        with pytest.raises(GraphError, match="at least 1, got 0"):
            mean_log_degree([(2, 0)])


class TestDiversity:
    def test_by_hand(self) -> None:
        # Pairs: 1 of 5 facts shared, 2 of 4, none: (4/5 + 1/2 + 1) / 3.
        paths = [(1, 2, 3), (3, 4, 5), (1, 2, 6)]
        assert diversity(paths) == pytest.approx((4 / 5 + 1 / 2 + 1) / 3)

    def test_extremes(self) -> None:
        assert diversity([(1, 2), (2, 1)]) == 0
        assert diversity([(1, 2), (3,)]) == 1

    def test_one_path_has_none(self) -> None:
        assert math.isnan(diversity([(1, 2)]))

    def test_refuses_an_empty_path(self) -> None:
        with pytest.raises(GraphError, match="empty"):
            diversity([(1,), ()])


class TestStability:
    def test_by_hand(self) -> None:
        # Of the pairs, 2 of 4 paths are shared, 1 of 4, 1 of 3.
        runs = [{"a", "b", "c"}, {"b", "c", "d"}, {"a", "d"}]
        assert jaccard(runs[0], runs[2]) == pytest.approx(1 / 4)
        assert stability(runs) == pytest.approx((1 / 2 + 1 / 4 + 1 / 4) / 3)

    def test_runs_without_an_answer_are_counted(self) -> None:
        # Six pairs: one shares half of its paths, five share nothing, two empty runs neither.
        assert stability([{"a"}, {"a", "b"}, None, []]) == pytest.approx((1 / 2) / 6)

    def test_no_answer_in_any_run(self) -> None:
        assert math.isnan(stability([None, set()]))
        assert math.isnan(jaccard([], []))

    def test_refuses_one_run(self) -> None:
        with pytest.raises(SettingsError, match="two runs or more, got 1"):
            stability([{"a"}])

    @given(st.lists(st.sets(st.integers(0, 5), min_size=1), min_size=2, max_size=5))
    def test_the_order_of_runs_does_not_matter(self, runs: list[set[int]]) -> None:
        found = stability(runs)
        assert found == pytest.approx(stability(runs[::-1]))
        assert (found == 1) == all(one == other for one, other in combinations(runs, 2))
