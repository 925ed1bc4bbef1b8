from __future__ import annotations

import math

import pytest

from pagelink.errors import GraphError
from pagelink.explain.result import REASONS
from pagelink.measure.verdict import VERDICTS
from pagelink.metrics import coverage_of

NUM_PATHS = [3, 1, 2, 0, 0, 2, 0, 0]
GIVEN = [
    "supported", "structure_against", "supported", None, None, "structure_not_used", None, None,
]  # fmt: skip
WHY = [None, None, None, "not_connected", "not_connected", "out_of_time", "pruned_away", None]


def test_by_hand() -> None:
    found = coverage_of(NUM_PATHS, GIVEN, WHY)
    assert found.num_links == 8
    assert found.with_paths == 4 / 8
    assert found.verdicts == {
        "supported": 2 / 8,
        "structure_not_used": 1 / 8,
        "structure_against": 1 / 8,
        "not_by_these": 0.0,
        "degree_only": 0.0,
    }
    assert found.without_verdict == 4 / 8
    assert found.reasons["not_connected"] == 2 / 8
    assert found.reasons["out_of_time"] == found.reasons["pruned_away"] == 1 / 8
    assert found.without_reason == 4 / 8
    assert found.unexplained == 1 / 8


def test_every_word_is_there_and_all_links_are_counted() -> None:
    found = coverage_of(NUM_PATHS, GIVEN, WHY)
    assert tuple(found.verdicts) == VERDICTS
    assert tuple(found.reasons) == REASONS
    assert sum(found.verdicts.values()) + found.without_verdict == 1
    assert sum(found.reasons.values()) + found.without_reason == 1


def test_no_links() -> None:
    found = coverage_of([], [], [])
    assert found.num_links == 0
    assert math.isnan(found.with_paths)
    assert all(map(math.isnan, found.verdicts.values()))


def test_refuses_other_words_and_lengths() -> None:
    with pytest.raises(GraphError, match=r"verdict must be one of .* got \['maybe'\]"):
        coverage_of([1], ["maybe"], [None])
    with pytest.raises(GraphError, match=r"reason must be one of .* got \['why'\]"):
        coverage_of([0], [None], ["why"])
    with pytest.raises(GraphError, match="got 1 numbers of paths, 2 verdicts and 1 reasons"):
        coverage_of([1], [None, None], [None])
