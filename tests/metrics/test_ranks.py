from __future__ import annotations

import numpy as np
import pytest

from pagelink.errors import GraphError
from pagelink.metrics import Average, average, falls_out, rank_drop, reciprocal_rank_drop

BEFORE = [1, 2, 10, 4]
AFTER = [4, 1, 50, None]


def test_rank_drop_by_hand() -> None:
    assert rank_drop(BEFORE, AFTER)[:3].tolist() == [3, -1, 40]
    # 42 places over four links, one of which had no paths to remove.
    assert average(rank_drop(BEFORE, AFTER), unanswered=0.0) == Average(10.5, 4, 1)


def test_reciprocal_rank_drop_by_hand() -> None:
    found = reciprocal_rank_drop(BEFORE, AFTER)
    assert found[:3] == pytest.approx([0.75, -0.5, 0.08])
    assert np.isnan(found[3])


def test_falls_out_by_hand() -> None:
    # Of the first three only the first link was in and is out; the third was never in.
    found = falls_out(BEFORE, AFTER, first=3)
    assert found[:3].tolist() == [1, 0, 0]
    assert np.isnan(found[3])
    assert falls_out(BEFORE, AFTER, first=4)[:3].tolist() == [0, 0, 0]
    assert falls_out(BEFORE, AFTER, first=10)[:3].tolist() == [0, 0, 1]


def test_refuses_what_is_no_rank() -> None:
    with pytest.raises(GraphError, match="count from 1, got 0"):
        rank_drop([1, 0], [2, None])
    with pytest.raises(GraphError, match="one number per link"):
        rank_drop([1], [2, 3])
