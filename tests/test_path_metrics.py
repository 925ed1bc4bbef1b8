from __future__ import annotations

import pytest

from pagelink.errors import SettingsError
from pagelink.evaluation import labelled_in_first
from pagelink.evaluation.path_metrics import Step


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
