"""Figures of a study: with intervals, how far people agree, and how many answers are needed.

Answers to one question are alike, and so are answers of one person; so intervals come two ways,
over questions and over people: whole questions, or whole people, are drawn, never single answers.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from pagelink.errors import need
from pagelink.metrics.averages import bootstrap_interval
from pagelink.runtime.arrays import Doubles
from pagelink.study.questions import NONE, Answer

Interval = tuple[float, float]
LEVEL = 0.95
DRAWS = 4000
FEWEST = 2
"""Questions, or people, below which there is no interval."""
FEWEST_EXPECTED = 5.0
"""Choices expected at a place below which the test says nothing."""
POWER = 0.8
ALIKE = 0.05
"""How alike answers of one person are taken to be: the correlation within a person."""


@dataclass(frozen=True)
class Figure:
    """A figure with its intervals."""

    value: float | None = None
    """None: nobody answered."""
    answers: int = 0
    by_question: Interval | None = None
    by_participant: Interval | None = None

    @property
    def intervals(self) -> tuple[Interval | None, Interval | None]:
        """Over questions, over people."""
        return self.by_question, self.by_participant

    @property
    def known(self) -> list[Interval]:
        """The intervals that there are."""
        return [each for each in self.intervals if each is not None]


def mean_figure(answers: Sequence[Answer], values: Sequence[float], seed: int) -> Figure:
    """Return the mean of one value per answer."""
    if not answers:
        return Figure()
    of = np.asarray(values, dtype=np.float64)
    intervals = []
    for groups in groups_of(answers):
        sums, counts = np.bincount(groups, of), np.bincount(groups).astype(np.float64)
        known = len(sums) >= FEWEST
        intervals.append(
            bootstrap_interval(sums, seed, LEVEL, DRAWS, over=counts) if known else None
        )
    return Figure(float(of.mean()), len(answers), *intervals)


def difference_figure(
    answers: Sequence[Answer], values: Sequence[float], first: Sequence[bool],
    second: Sequence[bool], seed: int,
) -> Figure:  # fmt: skip
    """Return the mean over some answers minus that over others, drawn together."""
    of = np.asarray(values, dtype=np.float64)
    sides = [np.asarray(side, dtype=np.float64) for side in (first, second)]
    if not all(side.any() for side in sides):
        return Figure()
    one, other = (float(of @ side / side.sum()) for side in sides)
    intervals = []
    for groups in groups_of(answers):
        drawn = _draws(int(groups.max()) + 1, seed)
        with np.errstate(invalid="ignore", divide="ignore"):
            means = [
                (drawn @ np.bincount(groups, of * side)) / (drawn @ np.bincount(groups, side))
                for side in sides
            ]
        found = means[0] - means[1]
        found = found[np.isfinite(found)]  # a draw without one of the sides says nothing
        # Of one question, or one person, nothing is known of how others differ.
        fewest = min(len(np.unique(groups[side > 0])) for side in sides)
        intervals.append(_bounds(found) if fewest >= FEWEST and len(found) else None)
    return Figure(one - other, int(sides[0].sum() + sides[1].sum()), *intervals)


def _draws(size: int, seed: int) -> npt.NDArray[np.int64]:
    """How often each of some questions, or people, is drawn: one row per draw."""
    return np.random.default_rng(seed).multinomial(size, np.full(size, 1 / size), DRAWS)


def _bounds(drawn: Doubles) -> Interval:
    """The interval that holds the figures of most draws."""
    low, high = np.quantile(drawn, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)


def groups_of(answers: Sequence[Answer]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the number of the question of each answer, and of the person, counted through."""
    return _numbered([a.question for a in answers]), _numbered([a.participant for a in answers])


def _numbered(values: Sequence[int] | Sequence[str]) -> npt.NDArray[np.int64]:
    """The number of each value among the different ones, counted through."""
    return np.unique(values, return_inverse=True)[1].astype(np.int64)


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


# How far people agree: Krippendorff's alpha, and the questions on which they do not.


@dataclass(frozen=True)
class Agreement:
    """Krippendorff's alpha for names: 1 if all agree, 0 if no more than by chance."""

    alpha: float | None
    """None: no question has two answers."""
    interval: Interval | None
    """Over questions."""
    questions: int
    """Those with two or more answers."""
    answers: int


@dataclass(frozen=True)
class Disagreed:
    """A question, and how it was answered."""

    question: int
    kind: str
    link: str
    fact: str | None
    answers: dict[str, int]
    """How often each answer was given, the commonest first."""
    disagreement: float
    """The share of pairs of people who answered differently."""


def label_of(answer: Answer) -> str:
    """What an answer says, whatever its place on the page."""
    return "+".join(answer.chosen) if answer.kind == "best" else answer.choice


def agreement(answers: Sequence[Answer], seed: int) -> Agreement:
    """Return alpha over the questions that two or more people answered.

    Raises:
        MissingExtraError: nltk is not there.
    """
    counts = Counter(answer.question for answer in answers)
    shared = [answer for answer in answers if counts[answer.question] > 1]
    if not shared:
        return Agreement(None, None, 0, 0)
    triples = [(str(a.participant), str(a.question), label_of(a)) for a in shared]
    questions = len({answer.question for answer in shared})
    return Agreement(alpha(triples), _interval(shared, seed), questions, len(shared))


def alpha(triples: Sequence[tuple[str, str, str]]) -> float:
    """Return Krippendorff's alpha of (person, question, label); answers may be missing.

    Raises:
        MissingExtraError: nltk is not there.

    Example:
        >>> alpha([("a", "1", "x"), ("b", "1", "x"), ("a", "2", "x"), ("b", "2", "y")])
        0.0
    """
    need("Krippendorff's alpha", "study", "nltk")
    from nltk.metrics.agreement import AnnotationTask

    return float(AnnotationTask(data=list(triples)).alpha())


def _interval(answers: Sequence[Answer], seed: int) -> Interval | None:
    """Draw questions, and compute alpha of each draw from their tables of labels."""
    table = _table(answers)
    if len(table) < FEWEST:
        return None
    drawn, sizes = _draws(len(table), seed), table.sum(axis=1)
    observed = (sizes**2 - (table**2).sum(axis=1)) / (sizes - 1)
    totals, number = drawn @ table, drawn @ sizes
    expected = (number**2 - (totals**2).sum(axis=1)) / (number - 1)
    # All labels of a draw are one: alpha is 1, as nltk has it.
    ratio = np.divide(drawn @ observed, expected, out=np.zeros(DRAWS), where=expected > 0)
    return _bounds(1 - ratio)


def _table(answers: Sequence[Answer]) -> Doubles:
    """How often each question got each label."""
    question = _numbered([a.question for a in answers])
    label = _numbered([label_of(a) for a in answers])
    table = np.zeros((question.max() + 1, label.max() + 1))
    np.add.at(table, (question, label), 1)
    return table


def most_disagreed(answers: Sequence[Answer], count: int) -> list[Disagreed]:
    """Return the questions on which people disagreed most, the most answered first among equals."""
    by_question: dict[int, list[Answer]] = {}
    for answer in answers:
        by_question.setdefault(answer.question, []).append(answer)
    found = []
    for question, given in by_question.items():
        size = len(given)
        labels = Counter(map(label_of, given))
        pairs = size * (size - 1)
        if pairs == 0 or len(labels) == 1:
            continue
        alike = sum(each * (each - 1) for each in labels.values())
        ordered = dict(sorted(labels.items(), key=lambda item: (-item[1], item[0])))
        first = given[0]
        found.append(
            Disagreed(question, first.kind, first.link, first.fact, ordered, 1 - alike / pairs)
        )
    found.sort(key=lambda each: (-each.disagreement, -sum(each.answers.values()), each.question))
    return found[:count]


# Whether the place on the page decided: a check that people were blind to the explainers.


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


# How many answers tell a given difference, by a normal approximation.


def answers_for_shares(difference: float, together: float = 1.0) -> int:
    """Return the answers that tell the first explainer's share of choices from the next one's.

    With shares p and q of one choice among several, the difference of the observed shares has the
    variance (p + q - (p - q)^2) / n. A two-sided test at 5 % finds it in four of five studies.

    Args:
        difference: p - q, between 0 and 1.
        together: p + q; 1 is the most that can be needed.

    Example:
        >>> answers_for_shares(0.1), answers_for_shares(0.1, together=0.6)
        (778, 464)
    """
    return math.ceil(_quantiles() * (together - difference**2) / difference**2)


def answers_for_accuracy(difference: float) -> int:
    """Return the answers of each variant that tell the accuracy with from that without.

    For two proportions p and q of independent answers; most are needed around one half.

    Example:
        >>> answers_for_accuracy(0.1)
        389
    """
    p, q = 0.5 + difference / 2, 0.5 - difference / 2
    return math.ceil(_quantiles() * (p * (1 - p) + q * (1 - q)) / difference**2)


def design_effect(per_person: int) -> float:
    """Return by what factor clustered answers are worth less: 1 + (m - 1) times `ALIKE`.

    Example:
        >>> round(design_effect(20), 2)
        1.95
    """
    return 1 + (per_person - 1) * ALIKE


def _quantiles() -> float:
    """Return (z_{1 - level / 2} + z_{power})^2."""
    normal = NormalDist()
    return (normal.inv_cdf((1 + LEVEL) / 2) + normal.inv_cdf(POWER)) ** 2
