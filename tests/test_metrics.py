from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from pagelink.errors import GraphError, SettingsError
from pagelink.evaluation import (
    bootstrap_interval,
    degree_only_mask,
    labelled_in_first,
    mask_auc,
    mean_and_spread,
    path_hit,
    share_of_greedy,
)
from pagelink.evaluation.metrics import Step

# Few different values, so that most examples have ties.
few_scores = st.sampled_from([-math.inf, 0.0, 0.25, 0.5, 1.0])


class TestMaskAuc:
    def test_by_hand(self) -> None:
        # Positives 0.8 and 0.3; negatives 0.5, 0.3, 0.1.
        # 0.8 wins 3 of 3; 0.3 loses to 0.5, ties with 0.3, wins over 0.1: 1.5 of 3.
        scores = [0.8, 0.5, 0.3, 0.3, 0.1]
        assert mask_auc(scores, [True, False, True, False, False]) == pytest.approx(4.5 / 6)

    def test_all_tied_is_a_half(self) -> None:
        assert mask_auc([0.2] * 5, [1, 0, 0, 1, 0]) == 0.5

    @pytest.mark.parametrize("label", [True, False])
    def test_one_class_only_is_nan(self, label: bool) -> None:
        assert math.isnan(mask_auc([0.1, 0.2], [label, label]))

    @given(st.lists(st.tuples(few_scores, st.booleans()), min_size=2, max_size=40))
    def test_agrees_with_sklearn(self, edges: list[tuple[float, bool]]) -> None:
        scores, positive = zip(*edges, strict=True)
        if len(set(positive)) < 2:
            return
        # sklearn refuses infinite scores; only their order counts.
        finite = np.maximum(scores, -9.0)
        assert mask_auc(scores, positive) == pytest.approx(roc_auc_score(positive, finite))

    def test_refuses_nan_and_other_lengths(self) -> None:
        with pytest.raises(GraphError, match="1 NaN"):
            mask_auc([0.1, math.nan], [True, False])
        with pytest.raises(GraphError, match="one label per edge"):
            mask_auc([0.1, 0.2], [True])


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


class TestLabelledInFirst:
    buys: Step = ("user", "buys", "item", 0, 1)
    back: Step = ("item", "rev_buys", "user", 1, 2)
    likes: Step = ("user", "likes", "item", 2, 3)

    def test_counts_only_the_first_n(self) -> None:
        paths = [[self.likes], [self.buys], [self.buys, self.back, self.likes]]
        labelled = [(self.buys, self.back, self.likes)]
        assert [labelled_in_first(paths, labelled, n) for n in (1, 2, 3, 9)] == [
            False,
            False,
            True,
            True,
        ]

    def test_needs_all_steps_in_order(self) -> None:
        labelled = [(self.buys, self.back, self.likes)]
        assert not labelled_in_first([[self.buys, self.back]], labelled, 1)
        assert not labelled_in_first([[self.likes, self.back, self.buys]], labelled, 1)

    def test_the_relation_counts(self) -> None:
        viewed: Step = ("user", "views", "item", 0, 1)
        assert labelled_in_first([[self.buys]], [[self.buys]], 1)
        assert not labelled_in_first([[viewed]], [[self.buys]], 1)

    def test_nothing_is_in_nothing(self) -> None:
        assert not labelled_in_first([], [[self.buys]], 1)
        assert not labelled_in_first([[self.buys]], [], 1)

    def test_refuses_n_of_zero(self) -> None:
        with pytest.raises(SettingsError, match="n must be at least 1"):
            labelled_in_first([], [], 0)


class TestDegreeOnlyMask:
    def test_by_hand(self) -> None:
        mask = degree_only_mask([[1, 3], [3, 4], [0, 1]], num_edges=6)
        assert mask.tolist() == [-3, -1, -4, -1, -2, -4]

    def test_no_paths_is_one_value(self) -> None:
        assert degree_only_mask([], num_edges=3).tolist() == [-1, -1, -1]

    def test_feeds_the_other_metrics(self) -> None:
        # Two paths of two edges, the second one labelled: two negatives before the positives and
        # two behind them, and the cut at 3 edges takes one of the two tied ones, never both.
        mask = degree_only_mask([[0, 1], [2, 3]], num_edges=6)
        assert mask_auc(mask, [0, 0, 1, 1, 0, 0]) == 0.5
        assert path_hit(mask, [[2, 3]], budget=3) == 0.0
        assert path_hit(mask, [[0, 2]], budget=3) == 0.5

    @pytest.mark.parametrize("edge", [-1, 6])
    def test_refuses_other_edges(self, edge: int) -> None:
        with pytest.raises(GraphError, match="positions from 0 to 5"):
            degree_only_mask([[0, edge]], num_edges=6)


class TestShareOfGreedy:
    def test_by_hand(self) -> None:
        # (1.5 - 0.5 + 0) / (2 + 0 - 0.4), not the mean of the ratios.
        share, not_positive = share_of_greedy([1.5, -0.5, 0.0], [2.0, 0.0, -0.4])
        assert share == pytest.approx(1 / 1.6)
        assert not_positive == 2

    @pytest.mark.parametrize("greedy", [[], [0.0], [-1.0]])
    def test_nothing_to_share_is_nan(self, greedy: list[float]) -> None:
        share, not_positive = share_of_greedy([1.0] * len(greedy), greedy)
        assert math.isnan(share)
        assert not_positive == len(greedy)

    def test_refuses_other_lengths(self) -> None:
        with pytest.raises(GraphError, match="one number per link"):
            share_of_greedy([1.0], [1.0, 2.0])


class TestBootstrapInterval:
    def test_by_hand(self) -> None:
        # Two links, 0 and 1: the mean is 0, 1/2, 1 with probability 1/4, 1/2, 1/4. The middle half
        # is just 1/2 (quantiles at 0.3 and 0.7), the middle 80 % is everything.
        assert bootstrap_interval([0.0, 1.0], seed=0, level=0.4) == (0.5, 0.5)
        assert bootstrap_interval([0.0, 1.0], seed=0, level=0.8) == (0.0, 1.0)

    def test_agrees_with_the_normal_approximation(self) -> None:
        values = np.random.default_rng(1).normal(2.0, 3.0, size=1000)
        half = 1.959964 * values.std() / math.sqrt(len(values))
        low, high = bootstrap_interval(values, seed=0)
        assert low == pytest.approx(values.mean() - half, abs=0.02)
        assert high == pytest.approx(values.mean() + half, abs=0.02)

    def test_is_settled_by_the_seed(self) -> None:
        values = np.arange(20.0) ** 2
        assert bootstrap_interval(values, seed=3) == bootstrap_interval(values, seed=3)
        assert bootstrap_interval(values, seed=3) != bootstrap_interval(values, seed=4)

    def test_pairs_the_links(self) -> None:
        # One explainer is always 0.1 better, on links that differ a lot: paired, there is no doubt.
        first = np.linspace(0, 1, 50)
        low, high = bootstrap_interval(first + 0.1 - first, seed=0)
        assert low == pytest.approx(0.1)
        assert high == pytest.approx(0.1)

    def test_ratio_of_sums(self) -> None:
        # Numerator and denominator come from the same draw: 0.4 in every draw.
        over = np.linspace(1, 9, 30)
        low, high = bootstrap_interval(0.4 * over, seed=0, over=over)
        assert low == pytest.approx(0.4)
        assert high == pytest.approx(0.4)
        # Two links, 0/1 and 2/3: the ratio is 0, 1/2, 2/3 with probability 1/4, 1/2, 1/4.
        assert bootstrap_interval([0.0, 2.0], seed=0, level=0.4, over=[1.0, 3.0]) == (0.5, 0.5)

    def test_blocks_of_draws_make_no_difference(self, monkeypatch: pytest.MonkeyPatch) -> None:
        values = np.arange(17.0)
        at_once = bootstrap_interval(values, seed=0, draws=501)
        monkeypatch.setattr("pagelink.evaluation.metrics._CELLS_AT_ONCE", 100)
        assert bootstrap_interval(values, seed=0, draws=501) == at_once

    def test_without_an_answer(self) -> None:
        assert all(map(math.isnan, bootstrap_interval([], seed=0)))
        assert all(map(math.isnan, bootstrap_interval([0.5, math.nan], seed=0)))
        assert all(map(math.isnan, bootstrap_interval([1.0, 1.0], seed=0, over=[1.0, -1.0])))

    def test_refuses_what_cannot_be(self) -> None:
        with pytest.raises(SettingsError, match="level"):
            bootstrap_interval([0.5], seed=0, level=1.0)
        with pytest.raises(SettingsError, match="draws"):
            bootstrap_interval([0.5], seed=0, draws=0)
        with pytest.raises(GraphError, match="one number per link"):
            bootstrap_interval([0.5], seed=0, over=[0.5, 0.5])


class TestMeanAndSpread:
    def test_by_hand(self) -> None:
        # Deviations -2, 0, 2 from 4: variance 8 / 2.
        assert mean_and_spread([2.0, 4.0, 6.0]) == (4.0, 2.0)

    def test_too_few(self) -> None:
        mean, spread = mean_and_spread([0.25])
        assert mean == 0.25
        assert math.isnan(spread)
        assert all(map(math.isnan, mean_and_spread([])))

    def test_nan_is_not_left_out(self) -> None:
        assert all(map(math.isnan, mean_and_spread([0.5, math.nan, 0.7])))
