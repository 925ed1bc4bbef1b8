"""Study: the file that holds the questions, and takes the answers."""

from __future__ import annotations

import contextlib
import json
import secrets
import sqlite3
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from pagelink.errors import StudyBusyError, StudyError
from pagelink.study.integrity import FAILURES, damaged, is_damage
from pagelink.study.questions import (
    BACKGROUNDS,
    LONGEST_LINE,
    Answer,
    Page,
    Records,
    Shown,
    StudyAbout,
    choices_of,
)
from pagelink.study.storage import WAIT, choose, connect, read_about

_KEY_BYTES = 16
_ANSWERS = """
SELECT answer.participant, question.id, kind, link, fact, truth, shown, choice, given - first_seen,
    level, line
FROM answer
JOIN assignment USING (participant, question)
JOIN question ON question.id = answer.question
JOIN participant ON participant.id = answer.participant
ORDER BY answer.participant, assignment.number
"""


class Study(contextlib.AbstractContextManager["Study"]):
    """A study in its file: who takes part, what each is asked next, and what they answer.

    Every method is its own short transaction. One object may be used by several threads, one file
    by several processes.
    """

    def __init__(
        self, path: Path, connection: sqlite3.Connection, about: StudyAbout, wait: float = WAIT
    ) -> None:
        self.path = path
        self.about = about
        self._connection = connection
        self._wait = wait
        self._lock = threading.Lock()
        with self.transaction() as now:
            (links,) = now.execute("SELECT COUNT(DISTINCT subject) FROM question").fetchone()
        self.total = min(about.per_person, links)

    @classmethod
    def open(cls, path: Path, wait: float = WAIT) -> Study:
        """Open the file of a study.

        Args:
            path: the file.
            wait: seconds to wait for others who write.

        Raises:
            StudyError: it is missing, not a study, of another version, or damaged.
        """
        connection = connect(path, wait)
        try:
            return cls(path, connection, read_about(connection, path), wait)
        except BaseException:
            connection.close()
            raise

    def close(self) -> None:
        """Let go of the file."""
        with self._lock:
            self._connection.close()

    def __exit__(self, *raised: object) -> None:
        self.close()

    @contextlib.contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Do all of a block, or nothing of it; nobody else writes meanwhile.

        Raises:
            StudyBusyError: the file cannot be read or written just now.
            StudyDamagedError: it was changed since it was opened.
        """
        # Bounded, so that people do not queue behind each other's waiting for the file.
        if not self._lock.acquire(timeout=self._wait):
            raise StudyBusyError(
                f"{self.path} is held by others, and nothing was saved. Try again."
            )
        try:
            with self._connection:  # commits, or rolls back what raises
                self._connection.execute("BEGIN IMMEDIATE")
                yield self._connection
        except FAILURES as error:
            if is_damage(error):
                raise damaged(self.path, error) from error
            raise StudyBusyError(
                f"{self.path} cannot be read or written ({error}), and nothing was saved. Is "
                "the disk full, the file read-only, or held by another program?"
            ) from error
        finally:
            self._lock.release()

    def join(self, key: str | None = None) -> str:
        """Take somebody in, and return the key that is theirs alone.

        Args:
            key: for people who are not real, so that the same seed gives the same study; None: a
                random one that nobody guesses.
        """
        key = secrets.token_urlsafe(_KEY_BYTES) if key is None else key
        with self.transaction() as now:
            now.execute("INSERT INTO participant (key, joined) VALUES (?, ?)", (key, time.time()))
        return key

    def is_participant(self, key: str) -> bool:
        """Return whether somebody has this key."""
        with self.transaction() as now:
            return _find(now, key) is not None

    def set_background(self, key: str, level: str | None, line: str | None) -> None:
        """Keep what somebody says of themselves; None: nothing.

        Raises:
            StudyError: nobody has this key, the level is none of `BACKGROUNDS`, or the line is too
                long.
        """
        line = None if line is None else " ".join(line.split()) or None
        if level is not None and level not in BACKGROUNDS:
            raise StudyError(f"A background is one of {', '.join(BACKGROUNDS)}, got {level!r}.")
        if line is not None and len(line) > LONGEST_LINE:
            raise StudyError(
                f"The line has at most {LONGEST_LINE} characters, got {len(line)}. Shorten it."
            )
        with self.transaction() as now:
            person = _person(now, key)
            now.execute(
                "UPDATE participant SET level = ?, line = ? WHERE id = ?", (level, line, person)
            )

    def background(self, key: str) -> tuple[str | None, str | None]:
        """Return what somebody said of themselves: level and line."""
        with self.transaction() as now:
            level, line = now.execute(
                "SELECT level, line FROM participant WHERE id = ?", (_person(now, key),)
            ).fetchone()
        return level, line

    def next_page(self, key: str) -> Page | None:
        """Return what somebody is asked next; None: nothing is left.

        Until it is answered, the same page comes again.

        Raises:
            StudyError: nobody has this key.
        """
        moment = time.time()
        with self.transaction() as now:
            person = _person(now, key)
            # The question that somebody was shown and has not answered.
            (question,) = now.execute(
                "UPDATE assignment SET last_seen = ? WHERE participant = ? AND question NOT IN "
                "(SELECT question FROM answer WHERE participant = ?) RETURNING question",
                (moment, person, person),
            ).fetchone() or (None,)
            if question is None:
                (asked,) = now.execute(
                    "SELECT COUNT(*) FROM assignment WHERE participant = ?", (person,)
                ).fetchone()
                if asked >= self.total:
                    return None
                chosen = choose(now, person, key, self.about.seed, moment)
                if chosen is None:
                    return None
                question, options = chosen
                now.execute(
                    "INSERT INTO assignment VALUES (?, ?, ?, ?, ?, ?)",
                    (person, question, asked + 1, json.dumps(options, separators=(",", ":")),
                     moment, moment),
                )  # fmt: skip
            return self._page(now, person, question)

    def answer(self, key: str, question: int, choice: str) -> bool:
        """Save an answer at once.

        Returns:
            Whether it was saved; False if there was an answer before, which stays.

        Raises:
            StudyError: nobody has this key, or the person was not shown this question or choice.
        """
        with self.transaction() as now:
            person = _person(now, key)
            row = now.execute(
                "SELECT kind, json_array_length(shown) FROM assignment "
                "JOIN question ON question.id = assignment.question "
                "WHERE participant = ? AND question = ?",
                (person, question),
            ).fetchone()
            if row is None:
                raise StudyError(
                    f"Question {question} was not shown to this person. Load the page again."
                )
            known = [value for value, _ in choices_of(*row)]
            if choice not in known:
                raise StudyError(
                    f"An answer to question {question} is one of {', '.join(known)}, got "
                    f"{choice!r}."
                )
            saved = now.execute(
                "INSERT INTO answer VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING",
                (person, question, choice, time.time()),
            )
            return saved.rowcount == 1

    def progress(self, key: str) -> tuple[int, int]:
        """Return how many questions somebody has answered, and of how many."""
        with self.transaction() as now:
            (answered,) = now.execute(
                "SELECT COUNT(*) FROM answer WHERE participant = ?", (_person(now, key),)
            ).fetchone()
        return answered, self.total

    def _page(self, now: sqlite3.Connection, person: int, question: int) -> Page:
        kind, asked, link, score, fact, number, options = now.execute(
            "SELECT kind, asked, link, score, fact, number, shown FROM question "
            "JOIN assignment ON assignment.question = question.id "
            "WHERE participant = ? AND question.id = ?",
            (person, question),
        ).fetchone()
        drawn = now.execute(
            "SELECT svg, sentences, narrow FROM json_each(?) AS place "
            "JOIN option ON option.question = ? AND option.number = place.value "
            "JOIN drawing ON drawing.id = option.drawing ORDER BY place.key",
            (options, question),
        )
        shown = [Shown(svg, tuple(json.loads(said)), narrow) for svg, said, narrow in drawn]
        return Page(
            question, kind, asked, link, score, fact, tuple(shown), choices_of(kind, len(shown)),
            number, self.total,
        )  # fmt: skip


def read_records(study: Study) -> Records:
    """Read all answers at one moment."""
    with study.transaction() as now:
        explainers = {
            (question, number): tuple(json.loads(names))
            for question, number, names in now.execute(
                "SELECT question, number, explainers FROM option"
            )
        }
        rows = now.execute(_ANSWERS).fetchall()
        (joined,) = now.execute("SELECT COUNT(*) FROM participant").fetchone()
        kinds = dict(now.execute("SELECT kind, COUNT(*) FROM question GROUP BY kind"))
        truths = dict(
            now.execute(
                "SELECT truth, COUNT(*) FROM question WHERE truth IS NOT NULL GROUP BY truth"
            )
        )
    # The columns are the fields of an answer, but for `shown`, which has the numbers of options.
    answers = []
    for row in rows:
        shown = tuple(explainers[row[1], at] for at in json.loads(row[6]))
        answers.append(Answer(*[*row[:6], shown, *row[7:]]))
    return Records(answers, joined, kinds, truths)


def _find(now: sqlite3.Connection, key: str) -> int | None:
    """The number of whoever has a key."""
    row = now.execute("SELECT id FROM participant WHERE key = ?", (key,)).fetchone()
    return None if row is None else int(row[0])


def _person(now: sqlite3.Connection, key: str) -> int:
    person = _find(now, key)
    if person is None:
        raise StudyError(
            "Nobody of this study has this key. Use the personal link as it was sent, or ask for "
            "a new one."
        )
    return person
