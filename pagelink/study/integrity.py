"""Whether the file of a study is as it was written: tables, questions, answers, and its log.

What is asked never changes: its sha256 is in the file. What people say comes row by row, and is in
its row twice. SQLite itself checks how the pages hang together, but not what is on them.
"""

from __future__ import annotations

import hashlib
import itertools
import sqlite3
import struct
import time
from collections.abc import Iterator
from contextlib import closing
from functools import cache
from importlib.resources import files
from pathlib import Path

from pagelink.errors import StudyDamagedError

ASKED = ("about", "drawing", "question", "option")
SAID = ("participant", "assignment", "answer")
FAILURES = (sqlite3.Error, UnicodeDecodeError)
"""What is raised if a file cannot be read; by Python, where even SQLite's message is no text."""
_DAMAGE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def schema() -> str:
    """Return the statements that make the tables of a study."""
    return files("pagelink.study").joinpath("schema.sql").read_text()


def damaged(path: Path, what: object) -> StudyDamagedError:
    """Return the error that says what is damaged in a file."""
    return StudyDamagedError(
        f"{path} is damaged: {str(what).rstrip('.')}. Take a copy of it that is whole."
    )


def is_damage(error: Exception) -> bool:
    """Return whether a failure is of a damaged file, not of one that cannot be used just now."""
    # What has no code of SQLite comes from Python: a text that is none.
    return getattr(error, "sqlite_errorcode", _DAMAGE[0]) & 0xFF in _DAMAGE


def seal(connection: sqlite3.Connection) -> None:
    """Write down the digest of what is asked, after a change of it."""
    connection.execute("DELETE FROM seal")
    connection.execute("INSERT INTO seal VALUES (?)", (_digest(connection),))


def check(connection: sqlite3.Connection, path: Path) -> None:
    """Check a whole study, as of one moment.

    Raises:
        StudyDamagedError: something is not as it was written.
        sqlite3.Error, UnicodeDecodeError: the file cannot be read.
    """
    connection.execute("BEGIN")
    # 1. The tables are ours: from here on, SQLite evaluates no expression of somebody else's.
    if _statements(connection) != _expected():
        raise damaged(path, "its tables are not those of a study")
    # 2. Pages, indices and references fit together.
    (said,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
    if said != "ok":
        raise damaged(path, said)
    for table, *_ in connection.execute("PRAGMA foreign_key_check"):
        raise damaged(path, f"its table {table} has a row that refers to nothing")
    # 3. What is asked is what was asked, and what people said is what they said.
    if connection.execute("SELECT digest FROM seal").fetchall() != [(_digest(connection),)]:
        raise damaged(path, "its questions are not those that it was made with")
    for table in SAID:
        columns = [name for _, name, *_ in connection.execute(f"PRAGMA table_info({table})")]
        differ = " OR ".join(f"{name} IS NOT {name}_copy" for name in columns)
        if connection.execute(f"SELECT 1 FROM {table} WHERE {differ}").fetchone():
            raise damaged(path, f"its table {table} has a row that was changed")
    connection.execute("COMMIT")


def _digest(connection: sqlite3.Connection) -> str:
    """The sha256 of all that is asked."""
    digest = hashlib.sha256()
    for table in ASKED:
        for row in connection.execute(f"SELECT * FROM {table} ORDER BY rowid"):
            digest.update(repr((table, row)).encode())
    return digest.hexdigest()


def _statements(connection: sqlite3.Connection) -> set[tuple[str, ...]]:
    return set(connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_schema"))


@cache
def _expected() -> set[tuple[str, ...]]:
    with closing(sqlite3.connect(":memory:")) as empty:
        empty.executescript(schema())
        return _statements(empty)


# The log: what was saved last is beside the file, in frames with checksums, until it is closed. Of
# a log SQLite takes the frames up to the first that does not fit: behind it may be what a crash cut
# off while it was saved. But a crash leaves no end of a transaction there; where there is one, the
# log was changed, and answers would be lost.


_LOG_HEADER, _FRAME_HEADER = 32, 24
_LOG_MAGIC = {0x377F0682: "<", 0x377F0683: ">"}
"""Of a log, the order of the bytes that its checksums are made by."""
Sums = tuple[int, int]


def check_log(path: Path) -> None:
    """Check the log beside a study, before SQLite reads it.

    Raises:
        StudyDamagedError: a part of the log that is not its end was changed.
    """
    log = path.with_name(f"{path.name}-wal")
    if not log.is_file():
        return
    content = log.read_bytes()
    if _is_whole(content):
        return
    time.sleep(_MOMENT)
    if log.is_file() and log.read_bytes() == content:  # else somebody writes to it
        raise damaged(
            log, f"it has the last answers of {path.name}, and they cannot be read from it"
        )


_MOMENT = 0.1
"""Seconds in which somebody who writes to a log has changed it."""


def _is_whole(log: bytes) -> bool:
    """Whether a log has no end of a transaction behind a frame that does not fit."""
    if len(log) <= _LOG_HEADER:
        return True
    magic, _, page_size, _, *salts, first, second = struct.unpack(">8I", log[:_LOG_HEADER])
    order = _LOG_MAGIC.get(magic)
    if order is None or _sums(order, (0, 0), log[:24]) != (first, second):
        return False
    frames = [*_frames(log, order, page_size, salts, (first, second))]
    fitting = [*itertools.takewhile(lambda frame: frame[0], frames)]
    return (True, True) not in frames[len(fitting) :]


def _frames(
    log: bytes, order: str, page_size: int, salts: list[int], sums: Sums
) -> Iterator[tuple[bool, bool]]:
    """Of each frame, whether its checksum follows from the one before, and if it ends something."""
    length = _FRAME_HEADER + page_size
    for start in range(_LOG_HEADER, len(log) - length + 1, length):
        frame = log[start : start + length]
        _, pages, *salted, first, second = struct.unpack(">6I", frame[:_FRAME_HEADER])
        # A frame of other salts is one of an earlier log, in whose place this one is written.
        fits = salted == salts and (
            _sums(order, sums, frame[:8] + frame[_FRAME_HEADER:]) == (first, second)
        )
        yield fits, pages > 0
        sums = first, second


def _sums(order: str, sums: Sums, content: bytes) -> Sums:
    """SQLite's checksum of a log, continued."""
    first, second = sums
    for one, other in struct.iter_unpack(f"{order}II", content):
        first = (first + one + second) & 0xFFFFFFFF
        second = (second + other + first) & 0xFFFFFFFF
    return first, second
