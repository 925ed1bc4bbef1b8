from __future__ import annotations

import math

import numpy as np
import pytest

from pagelink.errors import GraphError, SettingsError
from pagelink.metrics import Average, average, bootstrap_interval, filled, mean_and_spread


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
        monkeypatch.setattr("pagelink.metrics.averages._CELLS_AT_ONCE", 100)
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


class TestAverage:
    values = (0.25, None, 1.0, math.nan, 0.5)

    def test_by_hand(self) -> None:
        # 1.75 of five links; the two without an answer count 0 each, or 0.5 each, or not at all.
        assert average(self.values, unanswered=0.0) == Average(pytest.approx(0.35), 5, 2)
        assert average(self.values, unanswered=0.5) == Average(pytest.approx(0.55), 5, 2)
        assert average(self.values, unanswered=None) == Average(pytest.approx(1.75 / 3), 5, 2)

    def test_only_links_without_an_answer(self) -> None:
        assert average([None, None], unanswered=0.25) == Average(0.25, 2, 2)
        rest = average([None, None], unanswered=None)
        assert math.isnan(rest.value)
        assert (rest.num_links, rest.num_unanswered) == (2, 2)

    def test_no_links(self) -> None:
        assert math.isnan(average([], unanswered=0.0).value)

    def test_a_number_that_is_not_finite_is_an_answer(self) -> None:
        assert average([math.inf, 1.0], unanswered=0.0) == Average(math.inf, 2, 0)

    def test_lies_in_the_interval_of_what_is_filled(self) -> None:
        values = [*self.values] * 20
        low, high = bootstrap_interval(filled(values, 0.5), seed=0)
        assert low < average(values, unanswered=0.5).value < high
        assert not low < average(values, unanswered=0.0).value < high

    def test_refuses_a_table(self) -> None:
        with pytest.raises(GraphError, match=r"one number per link, got shape \(1, 2\)"):
            average([[0.5, 0.5]], unanswered=0.0)
