from __future__ import annotations

import math

import pytest

from pagelink.errors import GraphError
from pagelink.evaluation import share_of_greedy


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
