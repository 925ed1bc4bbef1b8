"""How far people agree: Krippendorff's alpha, and the questions on which they do not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pagelink.errors import StudyError
from pagelink.study.records import Answer
from pagelink.study.shares import DRAWS, FEWEST, LEVEL, Doubles, Interval


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
        StudyError: nltk is not there.
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
        StudyError: nltk is not there.

    Example:
        >>> alpha([("a", "1", "x"), ("b", "1", "x"), ("a", "2", "x"), ("b", "2", "y")])
        0.0
    """
    try:
        from nltk.metrics.agreement import AnnotationTask
    except ImportError as error:
        raise StudyError(
            "Krippendorff's alpha needs nltk: install it by `pip install 'pagelink[study]'`."
        ) from error
    return float(AnnotationTask(data=list(triples)).alpha())


def _interval(answers: Sequence[Answer], seed: int) -> Interval | None:
    """Draw questions, and compute alpha of each draw from their tables of labels."""
    table = _table(answers)
    if len(table) < FEWEST:
        return None
    drawn = np.random.default_rng(seed).multinomial(
        len(table), np.full(len(table), 1 / len(table)), DRAWS
    )
    sizes = table.sum(axis=1)
    observed = (sizes**2 - (table**2).sum(axis=1)) / (sizes - 1)
    totals, number = drawn @ table, drawn @ sizes
    expected = (number**2 - (totals**2).sum(axis=1)) / (number - 1)
    # All labels of a draw are one: alpha is 1, as nltk has it.
    ratio = np.divide(drawn @ observed, expected, out=np.zeros(DRAWS), where=expected > 0)
    low, high = np.quantile(1 - ratio, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)


def _table(answers: Sequence[Answer]) -> Doubles:
    """How often each question got each label."""
    question = np.unique([a.question for a in answers], return_inverse=True)[1]
    label = np.unique([label_of(a) for a in answers], return_inverse=True)[1]
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
