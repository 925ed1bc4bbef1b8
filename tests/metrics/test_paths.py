from __future__ import annotations

import math

import pytest

from pagelink.errors import GraphError, SettingsError
from pagelink.metrics import labelled_in_first, labelled_rates, path_precision, path_recall
from pagelink.metrics.paths import Step


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


class TestLabelledRates:
    def test_by_hand(self) -> None:
        # Found on 2 of 5 links; on 1 of the 3 supportable ones, one of which has no answer.
        found = [True, False, None, True, False]
        rates = labelled_rates(found, [True, True, True, False, False])
        assert rates.every.value == pytest.approx(2 / 5)
        assert (rates.every.num_links, rates.every.num_unanswered) == (5, 1)
        assert rates.supportable.value == pytest.approx(1 / 3)
        assert (rates.supportable.num_links, rates.supportable.num_unanswered) == (3, 1)

    def test_no_supportable_link(self) -> None:
        rates = labelled_rates([True, False], [False, False])
        assert rates.every.value == 0.5
        assert math.isnan(rates.supportable.value)

    def test_refuses_other_lengths(self) -> None:
        with pytest.raises(GraphError, match="one figure and one flag per link"):
            labelled_rates([True], [True, False])


class TestPrecisionAndRecall:
    def test_by_hand(self) -> None:
        # (1, 2) and (5,) are labelled, (2, 1) is another path; five labelled paths in all.
        returned = [(1, 2), (2, 1), (5,)]
        labelled = [(1, 2), (5,), (6, 7), (8,), (9,)]
        assert path_precision(returned, labelled) == pytest.approx(2 / 3)
        assert path_recall(returned, labelled) == pytest.approx(2 / 5)

    def test_a_path_returned_twice_counts_once(self) -> None:
        assert path_precision([(1,), (1,), (2,)], [(1,)]) == 0.5
        assert path_recall([(1,), (1,)], [[1], [2], [3], [2]]) == pytest.approx(1 / 3)

    def test_without_paths(self) -> None:
        assert math.isnan(path_precision([], [(1,)]))
        assert path_recall([], [(1,)]) == 0
        assert path_precision([(1,)], []) == 0
        assert math.isnan(path_recall([(1,)], []))
