"""Studies for tests, made by hand: no model, no graph."""

from __future__ import annotations

from pathlib import Path

from pagelink.study.database import Study
from pagelink.study.questions import Option, Shown, StudyAbout, StudyQuestion, Truth
from pagelink.study.storage import write_study

NAMES = ("pagelink", "gnnexp", "degree")
TRUTHS: tuple[Truth, ...] = ("rise", "fall", "stay")


def shown(text: str) -> Shown:
    svg = f'<svg xmlns="http://www.w3.org/2000/svg"><text>{text}</text></svg>'
    return Shown(svg, (text,), svg)


def make_questions(
    best: int, forecasts: int, names: tuple[str, ...] = NAMES
) -> list[StudyQuestion]:
    """`best` questions of the first kind, then forecasts, each about a link of its own."""
    found = []
    for number in range(best + forecasts):
        options = tuple(Option((name,), shown(f"{number} {name}")) for name in names)
        link, score = f"user {number} likes item {number}", "The model gives it 90 %."
        if number < best:
            found.append(StudyQuestion("best", number, link, score, options))
        else:
            truth = TRUTHS[number % 3]
            change = {"rise": 0.5, "fall": -0.5, "stay": 0.0}[truth]
            found.append(
                StudyQuestion(
                    "forecast", number, link, score, (Option((), None), *options),
                    f"user {number} buys item 1", truth, change,
                )
            )  # fmt: skip
    return found


def make_study(
    path: Path, best: int = 4, forecasts: int = 3, per_person: int = 20, seed: int = 0,
    names: tuple[str, ...] = NAMES,
) -> Study:  # fmt: skip
    """Write a study and open it."""
    questions = make_questions(best, forecasts, names)
    about = StudyAbout(
        "A study", "user likes item", len(questions), names, seed, per_person=per_person,
        settings={}, versions={},
    )  # fmt: skip
    return Study.open(write_study(path, about, questions))
