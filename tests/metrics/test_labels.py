from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from pagelink.errors import GraphError
from pagelink.metrics import degree_only_mask, mask_auc, mask_auc_unpruned, path_hit

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


class TestMaskAucUnpruned:
    scores = (0.8, 0.5, 0.3, 0.3, 0.1, 0.1, 0.1)
    positive = (True, False, True, False, False, False, True)
    unpruned = (True, True, True, True, False, False, False)

    def test_by_hand(self) -> None:
        # Left: positives 0.8 and 0.3, negatives 0.5 and 0.3. 0.8 wins both; 0.3 loses one and ties
        # with one: 2.5 of 4. One positive was pruned.
        auc, lost = mask_auc_unpruned(self.scores, self.positive, self.unpruned)
        assert auc == pytest.approx(2.5 / 4)
        assert lost == 1
        # All edges: 0.8 wins 4; 0.3 wins 2, ties 1; 0.1 ties 2: 7.5 of 12.
        assert mask_auc(self.scores, self.positive) == pytest.approx(7.5 / 12)

    def test_nothing_pruned_is_the_auc_over_all_edges(self) -> None:
        expected = mask_auc(self.scores, self.positive)
        assert mask_auc_unpruned(self.scores, self.positive, [True] * 7) == (expected, 0)

    def test_all_positives_pruned_is_nan_and_says_how_many(self) -> None:
        auc, lost = mask_auc_unpruned([0.3, 0.2, 0.1], [0, 1, 1], [1, 0, 0])
        assert math.isnan(auc)
        assert lost == 2

    def test_refuses_other_lengths(self) -> None:
        with pytest.raises(GraphError, match=r"one flag per edge: got 2 scores.* shape \(1,\)"):
            mask_auc_unpruned([0.1, 0.2], [True, False], [True])
        with pytest.raises(GraphError, match="1 NaN"):
            mask_auc_unpruned([0.1, math.nan], [True, False], [True, False])
