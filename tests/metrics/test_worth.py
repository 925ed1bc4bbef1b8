from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch_geometric.explain.metric import characterization_score

from pagelink.errors import GraphError, SettingsError
from pagelink.metrics import (
    average,
    characterisation,
    connection,
    effect,
    pooled_sufficiency,
    probability_fidelity,
    share_of_greedy,
    sufficiency,
)

probabilities = st.floats(0.01, 0.99)


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

    def test_a_link_without_an_answer_counts_as_no_effect(self) -> None:
        # Left out, the share would be 1.5 / 2.
        assert share_of_greedy([1.5, None, math.nan], [2.0, 1.0, 3.0]) == (0.25, 0)

    def test_of_sufficiency(self) -> None:
        # What is added to G0, (0.5 + 1) over (1 + 1 - 0.5).
        bare = np.array([1.0, 0.0, 2.0])
        own = effect([1.5, 1.0, 2.0], bare)
        greedy = effect([2.0, 1.0, 1.5], bare)
        assert share_of_greedy(own, greedy) == (1.0, 1)
        assert share_of_greedy(own[:1], greedy[:1]) == (0.5, 0)


class TestEffectAndSufficiency:
    def test_effect_by_hand(self) -> None:
        assert effect([2.0, 1.0], [1.25, 1.5]).tolist() == [0.75, -0.5]

    def test_sufficiency_by_hand(self) -> None:
        # (2 - 1) / (5 - 1), (0.5 - 1) / (3 - 1); then denominators of 0 and below.
        found = sufficiency([5.0, 3.0, 1.0, 0.0], [1.0] * 4, [2.0, 0.5, 2.0, 2.0])
        assert found[:2].tolist() == [0.25, -0.25]
        assert np.isnan(found[2:]).all()
        assert average(found, unanswered=None).num_unanswered == 2

    def test_pooled_by_hand(self) -> None:
        # (1 - 0.5 + 0) / (4 + 2 + 4): no answer brings nothing back, two links are undefined.
        share, undefined = pooled_sufficiency(
            [5.0, 3.0, 5.0, 1.0, 0.0], [1.0] * 5, [2.0, 0.5, math.nan, 2.0, 2.0]
        )
        assert share == pytest.approx(0.05)
        assert undefined == 2

    def test_pooled_over_nothing_is_nan(self) -> None:
        share, undefined = pooled_sufficiency([0.0], [1.0], [2.0])
        assert math.isnan(share)
        assert undefined == 1

    def test_refuses_other_lengths(self) -> None:
        with pytest.raises(GraphError, match="one number per link"):
            effect([1.0, 2.0], [1.0])
        with pytest.raises(GraphError, match="one number per link"):
            sufficiency([1.0, 2.0], [1.0, 2.0], [1.0])


class TestConnection:
    def test_by_hand(self) -> None:
        # Of an effect of 4, 1 is lost by swapping inner facts; 3 of 2; -0.5 of 2.
        assert connection([4.0, 2.0, 2.0], [1.0, 3.0, -0.5]).tolist() == [0.25, 1.5, -0.25]

    def test_there_is_none_of_a_path_without_a_positive_effect(self) -> None:
        assert np.isnan(connection([0.0, -1.0], [0.5, 0.5])).all()


class TestCharacterisation:
    def test_by_hand(self) -> None:
        # p = 0.8, 0.5 without the paths, 0.6 with them alone: the harmonic mean of 0.3 and 0.8,
        # 2 * 0.24 / 1.1; with weights 1 and 3, 4 / (1 / 0.3 + 3 / 0.8) = 4 * 0.24 / 1.7.
        plus, minus = probability_fidelity([math.log(4)], [0.0], [math.log(1.5)])
        assert plus == pytest.approx([0.3])
        assert minus == pytest.approx([0.2])
        assert characterisation(plus, minus) == pytest.approx([0.48 / 1.1])
        assert characterisation(plus, minus, 1, 3) == pytest.approx([0.96 / 1.7])

    @given(probabilities, probabilities, st.floats(0.1, 0.9))
    def test_agrees_with_pyg(self, plus: float, minus: float, weight: float) -> None:
        expected = characterization_score(
            torch.tensor([plus], dtype=torch.float64),
            torch.tensor([minus], dtype=torch.float64),
            weight,
            1 - weight,
        )
        found = characterisation([plus], [minus], weight, 1 - weight)
        assert found == pytest.approx(expected.numpy())

    @given(st.lists(st.floats(-50, 50), min_size=3, max_size=3))
    def test_is_at_most_one_and_undefined_only_for_a_negative_necessity(
        self, logits: list[float]
    ) -> None:
        plus, minus = probability_fidelity(*([f] for f in logits))
        score = characterisation(plus, minus)[0]
        assert math.isnan(score) == (plus[0] < 0)
        assert not score > 1 + 1e-12

    def test_limits(self) -> None:
        assert characterisation([0.0, 0.5, 0.0], [0.3, 1.0, 1.0]).tolist() == [0, 0, 0]

    def test_large_logits_do_not_overflow(self) -> None:
        plus, minus = probability_fidelity([0.0], [-1e4], [1e4])
        assert plus.tolist() == [0.5]
        assert minus.tolist() == [-0.5]

    @pytest.mark.parametrize("weights", [(0, 1), (1, -1), (math.nan, 1)])
    def test_refuses_weights(self, weights: tuple[float, float]) -> None:
        with pytest.raises(SettingsError, match="above 0"):
            characterisation([0.5], [0.5], *weights)
