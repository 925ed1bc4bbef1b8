"""Who is asked what next: the question with fewest answers, in an order of the person's own."""

from __future__ import annotations

import hashlib
import json
import random
import sqlite3
from dataclasses import dataclass

from pagelink.study.questions import Kind

LOOKED_AT_FOR = 30 * 60.0
"""Seconds for which a question that somebody looks at counts as half answered."""
_PROMISE = 0.5

_QUESTIONS = """
SELECT question.id, question.kind,
    (SELECT COUNT(*) FROM answer WHERE answer.question = question.id)
    + :promise * (
        SELECT COUNT(*) FROM assignment AS open
        WHERE open.question = question.id AND open.participant != :person
        AND open.last_seen > :since AND NOT EXISTS (
            SELECT 1 FROM answer
            WHERE answer.question = open.question AND answer.participant = open.participant
        )
    ) AS load
FROM question
WHERE question.subject NOT IN (
    SELECT asked.subject FROM assignment JOIN question AS asked ON asked.id = assignment.question
    WHERE assignment.participant = :person
)
"""
# A forecast shows at most one option; it is the one and only entry of its assignment.
_VARIANTS = """
SELECT option.number, option.explainers,
    SUM(answer.question IS NOT NULL)
    + :promise * SUM(
        assignment.question IS NOT NULL AND answer.question IS NULL
        AND assignment.last_seen > :since
    ) AS load
FROM option
JOIN question ON question.id = option.question AND question.kind = 'forecast'
LEFT JOIN assignment ON assignment.question = option.question
    AND assignment.shown = json_array(option.number)
LEFT JOIN answer ON answer.question = assignment.question
    AND answer.participant = assignment.participant
WHERE :question IS NULL OR option.question = :question
GROUP BY option.question, option.number
"""


@dataclass(frozen=True)
class Chosen:
    """A question for a person, with the options shown, in order."""

    question: int
    options: tuple[int, ...]


def choose(
    connection: sqlite3.Connection, person: int, key: str, seed: int, now: float
) -> Chosen | None:
    """Return the next question of a person; None if nothing is left.

    A question that others look at counts as half an answer for half an hour, so that people who
    come at once are not all asked the same. Links that the person was asked about are left out:
    having seen a link's explanations spoils a forecast without one.
    """
    given = {"person": person, "since": now - LOOKED_AT_FOR, "promise": _PROMISE}
    rows: list[tuple[int, Kind, float]] = connection.execute(_QUESTIONS, given).fetchall()
    if not rows:
        return None
    question, kind, _ = min(rows, key=lambda row: (row[2], _drawn(seed, key, row[0])))
    if kind == "forecast":
        return Chosen(question, (_variant(connection, question, key, seed, given),))
    numbers = [
        number
        for (number,) in connection.execute(
            "SELECT number FROM option WHERE question = ? ORDER BY number", (question,)
        )
    ]
    random.Random(_drawn(seed, key, question, "order")).shuffle(numbers)
    return Chosen(question, tuple(numbers))


def _variant(
    connection: sqlite3.Connection,
    question: int,
    key: str,
    seed: int,
    given: dict[str, float],
) -> int:
    """The least answered variant of a question; of equal ones, the least answered in the study."""
    here = connection.execute(_VARIANTS, {**given, "question": question}).fetchall()
    everywhere: dict[str, float] = {}
    for _, explainers, load in connection.execute(_VARIANTS, {**given, "question": None}):
        for name in _names(explainers):
            everywhere[name] = everywhere.get(name, 0.0) + load

    def order(row: tuple[int, str, float]) -> tuple[float, float, str]:
        number, explainers, load = row
        shown = min(everywhere[name] for name in _names(explainers))
        return load, shown, _drawn(seed, key, question, number)

    best: tuple[int, str, float] = min(here, key=order)
    return best[0]


def _names(explainers: str) -> list[str]:
    return json.loads(explainers) or [""]


def _drawn(*parts: object) -> str:
    """A random text that depends on the parts alone."""
    return hashlib.sha256("\0".join(map(str, parts)).encode()).hexdigest()
