"""Whether the place on the page decided: a check that people were blind to the explainers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pagelink.study.records import Answer

FEWEST_EXPECTED = 5.0
"""Choices expected at a place below which the test says nothing."""


@dataclass(frozen=True)
class Position:
    """A place on the page."""

    place: int
    chosen: int
    expected: float
    """How often it would be chosen if places did not matter."""


@dataclass(frozen=True)
class Positions:
    """All places, and whether they differ by more than chance."""

    places: list[Position]
    p_value: float | None
    """Of a chi-squared test; None: too few choices."""


def positions(best: Sequence[Answer]) -> Positions:
    """Count choices by place; answers of "none of these" have none."""
    chosen = [(answer.position, len(answer.order)) for answer in best]
    most = max((shown for _, shown in chosen), default=0)
    places = [
        Position(
            place + 1,
            sum(position == place for position, _ in chosen),
            sum(1 / shown for position, shown in chosen if position is not None and place < shown),
        )
        for place in range(most)
    ]
    if most < 2 or min(each.expected for each in places) < FEWEST_EXPECTED:
        return Positions(places, None)
    from scipy.stats import chisquare

    tested = chisquare([each.chosen for each in places], [each.expected for each in places])
    return Positions(places, float(tested.pvalue))
