"""The file of a study: what comes next, what is saved, what is refused."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import textwrap
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from support.studies import NAMES, make_questions, make_study

from pagelink.errors import StudyError
from pagelink.study.database import Study
from pagelink.study.questions import Page, StudyAbout
from pagelink.study.storage import LOOKED_AT_FOR, write_study


def answer_all(study: Study, key: str, choice: int = 0) -> list[Page]:
    pages = []
    while (page := study.next_page(key)) is not None:
        pages.append(page)
        assert study.answer(key, page.question, page.choices[choice][0])
    return pages


def test_a_person_goes_from_the_first_question_to_the_last(tmp_path: Path) -> None:
    study = make_study(tmp_path / "s.db")
    key = study.join()
    assert study.progress(key) == (0, 7)
    pages = answer_all(study, key)
    assert sorted(page.question for page in pages) == list(range(1, 8))
    assert [page.number for page in pages] == list(range(1, 8))
    assert {page.total for page in pages} == {7}
    assert study.progress(key) == (7, 7)
    for page in pages:
        if page.kind == "best":
            assert len(page.shown) == 3
            assert [value for value, _ in page.choices] == ["1", "2", "3", "none"]
            assert page.fact is None
        else:
            assert len(page.shown) <= 1
            assert [value for value, _ in page.choices] == ["rise", "fall", "stay"]
            assert page.fact


def test_the_same_page_comes_until_it_is_answered(tmp_path: Path) -> None:
    study = make_study(tmp_path / "s.db")
    key = study.join()
    first = study.next_page(key)
    assert first is not None
    assert study.next_page(key) == first
    with Study.open(tmp_path / "s.db") as other:
        assert other.next_page(key) == first
    assert study.answer(key, first.question, first.choices[0][0])
    assert study.next_page(key) != first


def test_the_first_answer_stays(tmp_path: Path) -> None:
    study = make_study(tmp_path / "s.db")
    key = study.join()
    page = study.next_page(key)
    assert page is not None
    assert study.answer(key, page.question, page.choices[0][0]) is True
    assert study.answer(key, page.question, page.choices[1][0]) is False
    with study.transaction() as now:
        assert now.execute("SELECT choice FROM answer").fetchall() == [(page.choices[0][0],)]


def test_what_was_not_shown_cannot_be_answered(tmp_path: Path) -> None:
    study = make_study(tmp_path / "s.db")
    key, other = study.join(), study.join()
    page = study.next_page(key)
    assert page is not None
    with pytest.raises(StudyError, match="was not shown"):
        study.answer(other, page.question, page.choices[0][0])
    with pytest.raises(StudyError, match=r"is one of .* got 'x'"):
        study.answer(key, page.question, "x")
    with pytest.raises(StudyError, match="Nobody"):
        study.answer("guessed", page.question, "none")
    with pytest.raises(StudyError, match="Nobody"):
        study.next_page("guessed")
    assert not study.is_participant("guessed")
    assert study.is_participant(key)
    assert study.progress(key) == (0, 7)


def test_background(tmp_path: Path) -> None:
    study = make_study(tmp_path / "s.db")
    key = study.join()
    assert study.background(key) == (None, None)
    study.set_background(key, "some", "  a <b>chemist</b>\n")
    assert study.background(key) == ("some", "a <b>chemist</b>")
    with pytest.raises(StudyError, match="none, some, expert"):
        study.set_background(key, "much", None)
    with pytest.raises(StudyError, match="at most 200"):
        study.set_background(key, None, "x" * 201)
    assert study.background(key) == ("some", "a <b>chemist</b>")
    study.set_background(key, None, "")
    assert study.background(key) == (None, None)


def test_nobody_is_asked_more_than_the_setting(tmp_path: Path) -> None:
    study = make_study(tmp_path / "s.db", best=6, forecasts=6, per_person=5)
    key = study.join()
    assert len(answer_all(study, key)) == 5
    assert study.progress(key) == (5, 5)


def test_nobody_is_asked_about_a_link_twice(tmp_path: Path) -> None:
    # A best and a forecast question of the same link: its explanations would spoil the forecast.
    both = [*make_questions(3, 0), *make_questions(0, 3)]
    about = StudyAbout("t", "l", 6, NAMES, 0)
    with Study.open(write_study(tmp_path / "s.db", about, both)) as study:
        for _ in range(6):
            pages = answer_all(study, study.join())
            assert len({page.link for page in pages}) == len(pages) == 3
        with study.transaction() as now:
            counts = now.execute("SELECT COUNT(*) FROM answer GROUP BY question").fetchall()
        assert counts == [(3,)] * 6


def test_the_order_shown_differs_between_people_and_is_recorded(tmp_path: Path) -> None:
    study = make_study(tmp_path / "s.db", best=1, forecasts=0)
    orders = Counter()
    for _ in range(30):
        key = study.join()
        page = study.next_page(key)
        assert page is not None
        orders[tuple(shown.sentences[0].split()[1] for shown in page.shown)] += 1
        with study.transaction() as now:
            (row,) = now.execute(
                "SELECT shown FROM assignment ORDER BY participant DESC"
            ).fetchone()
        assert [NAMES[number] for number in json.loads(row)] == [
            shown.sentences[0].split()[1] for shown in page.shown
        ]
    assert len(orders) == 6


def test_people_who_come_at_once_are_asked_different_questions(tmp_path: Path) -> None:
    study = make_study(tmp_path / "s.db", best=5, forecasts=0)
    pages = [study.next_page(study.join()) for _ in range(5)]
    assert len({page.question for page in pages if page is not None}) == 5
    with study.transaction() as now:  # an hour later nobody looks at them any more
        now.execute("UPDATE assignment SET last_seen = last_seen - ?", (2 * LOOKED_AT_FOR,))
    key = study.join()
    page = study.next_page(key)
    assert page is not None
    study.answer(key, page.question, "none")
    late = [study.next_page(study.join()) for _ in range(4)]
    assert page.question not in {each.question for each in late if each is not None}


def test_variants_of_a_forecast_are_answered_alike(tmp_path: Path) -> None:
    study = make_study(tmp_path / "s.db", best=0, forecasts=6)
    for _ in range(8):
        answer_all(study, study.join())
    with study.transaction() as now:
        counts = now.execute("SELECT COUNT(*) FROM assignment GROUP BY question, shown").fetchall()
    assert counts == [(2,)] * 24
    for _ in range(2):  # not a whole round: still even over the study
        answer_all(study, study.join())
    with study.transaction() as now:
        counts = now.execute("SELECT COUNT(*) FROM assignment GROUP BY shown").fetchall()
    spread = [count for (count,) in counts]
    assert sum(spread) == 60
    assert max(spread) - min(spread) <= 2


def test_many_people_at_once(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    make_study(path, best=12, forecasts=8, per_person=5).close()

    def take_part(_: int) -> int:
        with Study.open(path) as mine:
            return len(answer_all(mine, mine.join()))

    with ThreadPoolExecutor(6) as pool:
        assert list(pool.map(take_part, range(12))) == [5] * 12
    with Study.open(path) as study, study.transaction() as now:
        counts = [count for (count,) in now.execute(
            "SELECT COUNT(*) FROM answer GROUP BY question"
        )]  # fmt: skip
        (pairs,) = now.execute(
            "SELECT COUNT(*) FROM (SELECT DISTINCT participant, question FROM answer)"
        ).fetchone()
    # 60 answers, three for each; two people may be at the same question at the same time.
    assert sum(counts) == 60
    assert set(counts) <= {2, 3, 4}
    assert pairs == 60


def test_one_object_serves_many_threads(tmp_path: Path) -> None:
    study = make_study(tmp_path / "s.db", best=10, forecasts=0)
    keys = [study.join() for _ in range(6)]
    with ThreadPoolExecutor(6) as pool:
        assert [len(pages) for pages in pool.map(lambda k: answer_all(study, k), keys)] == [10] * 6


def test_a_double_submit_is_saved_once(tmp_path: Path) -> None:
    study = make_study(tmp_path / "s.db")
    key = study.join()
    page = study.next_page(key)
    assert page is not None
    question = page.question
    with ThreadPoolExecutor(8) as pool:
        saved = list(pool.map(lambda _: study.answer(key, question, page.choices[0][0]), range(8)))
    assert sorted(saved) == [False] * 7 + [True]


ANSWERING = """
import sys
from pathlib import Path
from pagelink.study.database import Study
study = Study.open(Path(sys.argv[1]))
while True:
    key = study.join()
    while (page := study.next_page(key)) is not None:
        study.answer(key, page.question, page.choices[0][0])
        print(key, page.question, flush=True)
"""


def test_a_killed_process_loses_no_answer(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    make_study(path, best=20, forecasts=10).close()
    for _ in range(3):
        command = [sys.executable, "-c", textwrap.dedent(ANSWERING), str(path)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            told = [process.stdout.readline() for _ in range(40)]
            os.kill(process.pid, signal.SIGKILL)
            told += process.stdout.readlines()
        with Study.open(path) as study:
            with study.transaction() as now:
                saved = set(now.execute(
                    "SELECT key, question FROM answer JOIN participant ON id = participant"
                ))  # fmt: skip
            for line in told:
                if line.endswith("\n"):
                    key, question = line.split()
                    assert (key, int(question)) in saved
            last = told[-1].split()[0]
            while (page := study.next_page(last)) is not None:  # and it goes on
                assert study.answer(last, page.question, page.choices[0][0])


def test_a_full_disk_is_said_and_nothing_is_half_saved(tmp_path: Path) -> None:
    study = make_study(tmp_path / "s.db")
    with study.transaction() as now:
        (pages,) = now.execute("PRAGMA page_count").fetchone()
    # SQLite fails the same way when it may not grow the file.
    study._connection.execute(f"PRAGMA max_page_count = {pages}")

    def fill() -> None:
        for _ in range(10_000):
            study.join()

    with pytest.raises(StudyError, match="disk full"):
        fill()
    study._connection.execute("PRAGMA max_page_count = 100000")
    assert study.next_page(study.join()) is not None


def test_wrong_files(tmp_path: Path) -> None:
    with pytest.raises(StudyError, match="There is no study"):
        Study.open(tmp_path / "none.db")
    with pytest.raises(StudyError, match="There is no study"):
        Study.open(tmp_path)
    text = tmp_path / "text.db"
    text.write_text("not a database, but long enough to be one")
    with pytest.raises(StudyError, match="is not a study"):
        Study.open(text)
    (tmp_path / "empty.db").touch()
    with pytest.raises(StudyError, match="is not a study"):
        Study.open(tmp_path / "empty.db")
    other = sqlite3.connect(tmp_path / "other.db")
    other.execute("CREATE TABLE a (b)")
    other.close()
    with pytest.raises(StudyError, match="not a study of pagelink"):
        Study.open(tmp_path / "other.db")
    make_study(tmp_path / "s.db").close()
    whole = (tmp_path / "s.db").read_bytes()
    (tmp_path / "half.db").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(StudyError, match="damaged"):
        Study.open(tmp_path / "half.db")
    new = sqlite3.connect(tmp_path / "s.db")
    new.execute("PRAGMA user_version = 99")
    new.close()
    with pytest.raises(StudyError, match="version 99"):
        Study.open(tmp_path / "s.db")


def test_answers_are_never_overwritten(tmp_path: Path) -> None:
    make_study(tmp_path / "s.db").close()
    with pytest.raises(StudyError, match="may hold answers"):
        make_study(tmp_path / "s.db")
