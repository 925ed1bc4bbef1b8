"""Figures of a study with intervals two ways: over questions, and over people.

Answers to one question are alike, and so are answers of one person; so whole questions, or whole
people, are drawn, never single answers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pagelink.evaluation.averages import bootstrap_interval
from pagelink.study.questions import NONE
from pagelink.study.records import Answer

Doubles = npt.NDArray[np.float64]
Interval = tuple[float, float]
LEVEL = 0.95
DRAWS = 4000
FEWEST = 2
"""Questions, or people, below which there is no interval."""


@dataclass(frozen=True)
class Figure:
    """A figure with its intervals."""

    value: float | None
    """None: nobody answered."""
    answers: int
    by_question: Interval | None
    by_participant: Interval | None

    @property
    def known(self) -> list[Interval]:
        """The intervals that there are."""
        return [each for each in (self.by_question, self.by_participant) if each is not None]


def mean_figure(answers: Sequence[Answer], values: Sequence[float], seed: int) -> Figure:
    """Return the mean of one value an answer."""
    if not answers:
        return Figure(None, 0, None, None)
    of = np.asarray(values, dtype=np.float64)
    intervals = []
    for groups in groups_of(answers):
        sums, counts = np.bincount(groups, of), np.bincount(groups).astype(np.float64)
        interval = None
        if len(sums) >= FEWEST:
            interval = bootstrap_interval(sums, seed, LEVEL, DRAWS, over=counts)
        intervals.append(interval)
    return Figure(float(of.mean()), len(answers), *intervals)


def difference_figure(
    answers: Sequence[Answer], values: Sequence[float], first: Sequence[bool],
    second: Sequence[bool], seed: int,
) -> Figure:  # fmt: skip
    """Return the mean over some answers minus that over others, drawn together."""
    of = np.asarray(values, dtype=np.float64)
    sides = [np.asarray(side, dtype=np.float64) for side in (first, second)]
    if not all(side.any() for side in sides):
        return Figure(None, 0, None, None)
    one, other = (float(of @ side / side.sum()) for side in sides)
    intervals = []
    for groups in groups_of(answers):
        size = int(groups.max()) + 1
        drawn = np.random.default_rng(seed).multinomial(size, np.full(size, 1 / size), DRAWS)
        with np.errstate(invalid="ignore", divide="ignore"):
            means = [
                (drawn @ np.bincount(groups, of * side)) / (drawn @ np.bincount(groups, side))
                for side in sides
            ]
        found = means[0] - means[1]
        found = found[np.isfinite(found)]  # a draw without one of the sides says nothing
        interval = None
        # Of one question, or one person, nothing is known of how others differ.
        fewest = min(len(np.unique(groups[side > 0])) for side in sides)
        if fewest >= FEWEST and len(found):
            low, high = np.quantile(found, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
            interval = float(low), float(high)
        intervals.append(interval)
    return Figure(one - other, int(sides[0].sum() + sides[1].sum()), *intervals)


def groups_of(answers: Sequence[Answer]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the number of the question of each answer, and of the person, counted through."""
    found = []
    for name in ("question", "participant"):
        ids = [getattr(answer, name) for answer in answers]
        found.append(np.unique(ids, return_inverse=True)[1].astype(np.int64))
    return found[0], found[1]


def credit(answer: Answer, name: str) -> float:
    """Return what an answer counts for an explainer, or for "none of these".

    Explainers that show the same facts are one option, and who chooses it chooses none of them over
    the other: each gets an equal part, so that all parts of an answer add up to 1.
    """
    return 1 / len(answer.chosen) if name in answer.chosen else 0.0


def expected(answer: Answer, name: str) -> float:
    """Return what an explainer would get of an answer by chance, "none of these" included."""
    places = len(answer.order) + 1
    if name == NONE:
        return 1 / places
    return next(1 / len(names) for names in answer.order if name in names) / places
