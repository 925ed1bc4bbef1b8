"""A study for tests of its pages, with names that would do harm if they were not kept text."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from pagelink.study.questions import Option, Shown, StudyAbout, StudyQuestion
from pagelink.study.storage import write_study

SCRIPT = "<script>window.hurt = 1</script>"
IMAGE = '<img src="x" onerror="window.hurt = 2">'
TITLE = f"Why? {SCRIPT}"
_ESCAPED = SCRIPT.replace("<", "&lt;")


def drawing(text: str) -> str:
    """A drawing that tries to run a script, as ours never do."""
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" width="640" height="200" viewBox="0 0 640 200">'
        '<script>window.hurt = 3; parent.hurt = 3</script><rect width="640" height="200" rx="18" '
        f'fill="#fdfdfe" stroke="#dfe5ec"/><text x="24" y="60">{text} {_ESCAPED}</text></svg>'
    )


def _shown(text: str, place: int) -> Shown:
    return Shown(drawing(text), (f"{IMAGE} buys {place}", SCRIPT), drawing(text))


def write(path: Path, best: int = 3, forecasts: int = 2) -> Path:
    """Write a study whose questions are about a link each."""
    names = ("pagelink", "gnnexp", "degree")
    questions = []
    for number in range(best + forecasts):
        options = tuple(
            Option((name,), _shown(f"{number}.{place}", place)) for place, name in enumerate(names)
        )
        link, score = f"{IMAGE} likes {SCRIPT} {number}", "The model gives it 90 %."
        if number < best:
            questions.append(StudyQuestion("best", number, link, score, options))
        else:
            questions.append(
                StudyQuestion(
                    "forecast", number, link, score, (Option((), None), *options),
                    f"{SCRIPT} buys item {number}", "fall", -0.5,
                )
            )  # fmt: skip
    about = StudyAbout(TITLE, f"user likes {IMAGE}", len(questions), names, 0)
    return write_study(path, about, questions)


def answers(path: Path) -> list[tuple[str, int, str]]:
    """Return key, question and choice of every answer in the file."""
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(
            "SELECT key, question, choice FROM answer JOIN participant ON id = participant "
            "ORDER BY given"
        ).fetchall()
