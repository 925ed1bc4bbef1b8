"""The file of a study with changed bytes: it is refused, or what it says is the same."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from support.studies import make_study

from pagelink.errors import StudyDamagedError, StudyError
from pagelink.study.database import Study, read_records
from pagelink.study.storage import copy_without_answers


@pytest.fixture
def answered(tmp_path: Path) -> Path:
    """A study in which three people answered, and one has begun."""
    path = tmp_path / "s.db"
    with make_study(path) as study:
        for number in range(4):
            key = study.join(f"person-{number}")
            study.set_background(key, "some", f"line {number}")
            while (page := study.next_page(key)) is not None and number < 3:
                study.answer(key, page.question, page.choices[number][0])
    return path


DAMAGING = """
import random, sys
from pathlib import Path
from pagelink.errors import StudyDamagedError, StudyError
from pagelink.study.database import Study, read_records

path = Path(sys.argv[1])
whole = path.read_bytes()

def content():
    for beside in ("-wal", "-shm"):
        Path(f"{path}{beside}").unlink(missing_ok=True)
    with Study.open(path) as study:
        keys = [f"person-{number}" for number in range(4)]
        people = [(study.background(key), study.progress(key)) for key in keys]
        return study.about, read_records(study), people, study.next_page(keys[3])

right, rng, refused = content(), random.Random(0), 0
size = len(whole)
for case in range(300):
    damaged = bytearray(whole)
    if case % 15 == 0:
        del damaged[rng.randrange(size):]
    elif case % 15 == 1:  # a page in the place of another
        a, b = (4096 * rng.randrange(size // 4096) for _ in range(2))
        damaged[a:a + 4096] = whole[b:b + 4096]
    else:  # most of a page is free: where something is, is hit more often
        places = [at for at in rng.sample(range(size), 8) if whole[at]] or [rng.randrange(size)]
        for at in places[:rng.choice([1, 1, 3])]:
            damaged[at] = rng.randrange(256)
    path.write_bytes(damaged)
    try:
        assert content() == right, case
    except StudyError as error:
        assert str(path) in str(error), case
        refused += 1
print(refused)
"""


def test_no_changed_byte_is_served(answered: Path) -> None:
    command = [sys.executable, "-c", DAMAGING, str(answered)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 200


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"<text>0 pagelink</text>", b"<text>0 pagelunk</text>"),
        (b"user 5 buys item 1", b"user 6 buys item 1"),
        (b"line 2", b"line 3"),
        (b"A study", b"A stody"),
        (b"choice TEXT NOT NULL", b"choice INT  NOT NULL"),
    ],
)
def test_what_was_asked_and_answered_is_checked(answered: Path, old: bytes, new: bytes) -> None:
    content = answered.read_bytes()
    assert old in content
    answered.write_bytes(content.replace(old, new, 1))
    with pytest.raises(StudyDamagedError, match=r"s\.db is damaged.* copy of it that is whole"):
        Study.open(answered)


def test_questions_that_another_program_changed_are_not_asked(answered: Path) -> None:
    with closing(sqlite3.connect(answered)) as connection, connection:
        connection.execute("UPDATE question SET truth = 'stay' WHERE truth = 'fall'")
    with pytest.raises(StudyDamagedError, match="its questions are not those"):
        Study.open(answered)


def test_a_view_in_place_of_a_table_is_not_run(answered: Path) -> None:
    with closing(sqlite3.connect(answered)) as connection:
        connection.executescript(
            "DROP TABLE about; CREATE VIEW about AS WITH RECURSIVE endless(value) AS "
            "(SELECT 1 UNION ALL SELECT value + 1 FROM endless) SELECT MAX(value) FROM endless;"
        )
    with pytest.raises(StudyDamagedError, match="its tables are not those of a study"):
        Study.open(answered)


def test_a_copy_without_answers_is_whole(answered: Path, tmp_path: Path) -> None:
    copy_without_answers(answered, tmp_path / "copy.db", {"people": 1})
    with Study.open(tmp_path / "copy.db") as study:
        assert read_records(study).answers == []


def test_damage_of_an_open_study_is_no_busy_study(answered: Path) -> None:
    with Study.open(answered) as study:
        study._connection.execute("PRAGMA cache_size = 0")
        content = bytearray(answered.read_bytes())
        content[4096:] = bytes(len(content) - 4096)
        answered.write_bytes(content)
        with pytest.raises(StudyDamagedError):
            study.next_page("person-3")


def copy_with_log(path: Path, copied: Path) -> Path:
    for end in ("", "-wal"):
        shutil.copy(f"{path}{end}", f"{copied}{end}")
    return copied


@pytest.fixture
def crashed(answered: Path, tmp_path: Path) -> Path:
    """A study whose last answers are still in the log beside it, as after a crash."""
    with Study.open(answered) as study:
        for number in range(10):
            study.join(f"late-{number}")
        return copy_with_log(answered, tmp_path / "crashed.db")


def test_a_damaged_log_is_not_left_out(crashed: Path) -> None:
    log = Path(f"{crashed}-wal")
    whole = log.read_bytes()
    for at in (5, 30, 40, 60, 5000, 20_000):
        damaged = bytearray(whole)
        damaged[at] ^= 1
        log.write_bytes(damaged)
        with pytest.raises(StudyError, match=r"crashed\.db-wal is damaged"):
            Study.open(crashed)
        assert log.read_bytes() == damaged
    log.write_bytes(whole)
    with Study.open(crashed) as study:
        assert all(study.is_participant(f"late-{number}") for number in range(10))


def test_a_log_that_was_cut_by_a_crash_is_taken(crashed: Path) -> None:
    log = Path(f"{crashed}-wal")
    log.write_bytes(log.read_bytes()[:-100])  # what was being written was not yet saved
    with Study.open(crashed) as study:
        assert study.is_participant("late-8")


def test_what_a_crash_left_behind_newer_answers_is_no_damage(crashed: Path, tmp_path: Path) -> None:
    # Killed while it saved much at once: all of that is in the log, but for its last page.
    killed = copy_with_log(crashed, tmp_path / "killed.db")
    with Study.open(killed) as study:
        with study.transaction() as now:
            many = [(f"lost-{number}", 0.0) for number in range(300)]
            now.executemany("INSERT INTO participant (key, joined) VALUES (?, ?)", many)
        lost = Path(f"{killed}-wal").read_bytes()[: -4096 - 24]
    # Then one more is saved, in its place.
    with Study.open(crashed) as study:
        study.join("newer")
        copied = copy_with_log(crashed, tmp_path / "copied.db")
    log = Path(f"{copied}-wal")
    newer = log.read_bytes()
    assert len(newer) < len(lost) - 4 * (4096 + 24)
    log.write_bytes(newer + lost[len(newer) :])
    with Study.open(copied) as study:
        assert study.is_participant("newer")
        assert not study.is_participant("lost-0")
