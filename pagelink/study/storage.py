"""The file of a study: made once from its questions, opened with care; and who gets what next."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import random
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from pagelink.errors import StudyError
from pagelink.runtime.files import complete_file
from pagelink.study.integrity import FAILURES, check, check_log, damaged, is_damage, schema, seal
from pagelink.study.questions import Kind, Shown, StudyAbout, StudyQuestion

APPLICATION = 0x50674C6B
"""SQLite's `application_id` of a study: "PgLk"."""
VERSION = 2
WAIT = 30.0
"""Seconds to wait for others who write."""
_MAGIC = b"SQLite format 3\0"
_SYNCHRONOUS = "PRAGMA synchronous = FULL"  # an answer that was taken outlives a power cut


def write_study(path: Path, about: StudyAbout, questions: Sequence[StudyQuestion]) -> Path:
    """Write the file of a new study.

    Raises:
        StudyError: there is such a file; answers are never overwritten.
    """
    with _new_file(path) as connection:
        connection.execute(f"PRAGMA application_id = {APPLICATION}")
        connection.execute(f"PRAGMA user_version = {VERSION}")
        connection.executescript(schema())
        drawings: dict[Shown, int] = {}
        with connection:
            connection.execute("BEGIN")
            connection.execute("INSERT INTO about VALUES (?)", (_as_json(about),))
            for number, question in enumerate(questions, start=1):
                _write(connection, number, question, drawings)
            seal(connection)
    return path


def copy_without_answers(path: Path, out: Path, simulated: Mapping[str, Any]) -> None:
    """Write the questions of a study to a new file, for people who are not real.

    Args:
        path: the study; it is only read.
        out: the new file.
        simulated: how they behave; the copy says so of itself.

    Raises:
        StudyError: the file cannot be read, or `out` exists.
    """
    refuse_existing(out)
    with closing(connect(path)) as connection, _new_file(out) as copy:
        about = read_about(connection, path)
        connection.backup(copy)
        copy.execute("PRAGMA journal_mode = DELETE")  # one file, complete in itself
        copy.executescript("DELETE FROM answer; DELETE FROM assignment; DELETE FROM participant;")
        told = {**(about.settings or {}), "simulated": dict(simulated)}
        changed = _as_json(dataclasses.replace(about, settings=told))
        copy.execute("UPDATE about SET value = ?", (changed,))
        seal(copy)


@contextmanager
def _new_file(path: Path) -> Iterator[sqlite3.Connection]:
    """Open a file that is there, whole, when it is closed, and never takes the place of another."""
    refuse_existing(path)
    with complete_file(path) as temporary:
        with closing(sqlite3.connect(temporary, isolation_level=None)) as connection:
            yield connection
        # Making a study takes a while; whoever made one of this name meanwhile keeps it.
        refuse_existing(path)


def _as_json(about: StudyAbout) -> str:
    return json.dumps(dataclasses.asdict(about))


def refuse_existing(path: Path) -> None:
    """Refuse, before any work, to write over a file.

    Raises:
        StudyError: there is a file of this name.
    """
    if path.exists():
        raise StudyError(
            f"{path} exists, and may hold answers. Choose another name for the new study, or move "
            "the file away."
        )


def _write(
    connection: sqlite3.Connection, number: int, question: StudyQuestion, drawings: dict[Shown, int]
) -> None:
    connection.execute(
        "INSERT INTO question VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (number, question.kind, question.subject, question.asked, question.link, question.score,
         question.fact, question.truth, question.change),
    )  # fmt: skip
    for place, option in enumerate(question.options):
        drawing = None
        if option.shown is not None:
            if option.shown not in drawings:
                drawings[option.shown] = len(drawings) + 1
                connection.execute(
                    "INSERT INTO drawing VALUES (?, ?, ?, ?)",
                    (
                        drawings[option.shown],
                        option.shown.svg,
                        json.dumps(option.shown.sentences),
                        option.shown.narrow,
                    ),
                )
            drawing = drawings[option.shown]
        connection.execute(
            "INSERT INTO option VALUES (?, ?, ?, ?)",
            (number, place, json.dumps(option.explainers), drawing),
        )


def connect(path: Path, wait: float = WAIT) -> sqlite3.Connection:
    """Open the file of a study for threads that take turns.

    Raises:
        StudyError: it is missing, not a study, of another version, or damaged.
    """
    if not path.is_file():
        raise StudyError(f"There is no study {path}. Make one by `pagelink study create`.")
    with path.open("rb") as file:
        if file.read(len(_MAGIC)) != _MAGIC:
            raise StudyError(f"{path} is not a study. Make one by `pagelink study create`.")
    check_log(path)
    # The address of a file, as mode=rw does not make a new one if it goes away just now.
    connection = sqlite3.connect(
        f"{path.resolve().as_uri()}?mode=rw", uri=True, timeout=wait, isolation_level=None,
        check_same_thread=False,
    )  # fmt: skip
    try:
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        if application != APPLICATION:
            raise StudyError(f"{path} is a database, but not a study of pagelink.")
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if version != VERSION:
            raise StudyError(
                f"{path} is a study of version {version}, this pagelink reads {VERSION}. Use the "
                "pagelink that made it."
            )
        check(connection, path)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute(_SYNCHRONOUS)
        connection.execute("PRAGMA foreign_keys = ON")
    except BaseException as error:
        connection.close()
        if isinstance(error, FAILURES):
            if is_damage(error):
                raise damaged(path, error) from error
            raise StudyError(f"{path} cannot be read or written: {error}.") from error
        raise
    return connection


def read_about(connection: sqlite3.Connection, path: Path) -> StudyAbout:
    """Return what a study is about.

    Raises:
        StudyError: the file does not say it.
    """
    try:
        (value,) = connection.execute("SELECT value FROM about").fetchone()
        told = json.loads(value)
        return StudyAbout(**{**told, "explainers": tuple(told["explainers"])})
    except (*FAILURES, TypeError, ValueError, LookupError) as error:
        raise damaged(path, "it does not say what it is about") from error


# Who is asked what next: the question with fewest answers, in an order of the person's own.


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


def choose(
    connection: sqlite3.Connection, person: int, key: str, seed: int, now: float
) -> tuple[int, list[int]] | None:
    """Return the next question of a person and the options shown, in order; None: nothing is left.

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
        return question, [_variant(connection, question, key, seed, given)]
    options = "SELECT number FROM option WHERE question = ? ORDER BY number"
    numbers = [number for (number,) in connection.execute(options, (question,))]
    random.Random(_drawn(seed, key, question, "order")).shuffle(numbers)
    return question, numbers


def _variant(
    connection: sqlite3.Connection, question: int, key: str, seed: int, given: dict[str, float]
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
