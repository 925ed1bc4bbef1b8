"""The answers of a study as plain rows, and as CSV."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import dataclass

from pagelink.study.database import Study
from pagelink.study.questions import NONE, Kind, Truth

WITHOUT = "without"
"""The variant of a forecast that shows no explanation."""
COLUMNS = (
    "participant", "question", "kind", "link", "fact", "variant", "order_shown", "choice",
    "explainer", "true_answer", "correct", "seconds", "background", "background_line",
)  # fmt: skip
_FORMULA = ("=", "+", "-", "@", "\t", "\r")

_ANSWERS = """
SELECT answer.participant, question.id, kind, link, fact, truth, shown, choice, given - first_seen,
    level, line
FROM answer
JOIN assignment USING (participant, question)
JOIN question ON question.id = answer.question
JOIN participant ON participant.id = answer.participant
ORDER BY answer.participant, assignment.number
"""


@dataclass(frozen=True)
class Answer:
    """One answer of one person."""

    participant: int
    """Their number; the key is told nowhere."""
    question: int
    kind: Kind
    link: str
    fact: str | None
    truth: Truth | None
    order: tuple[tuple[str, ...], ...]
    """The explainers of what was shown, in the order shown; without an explanation, `((),)`."""
    choice: str
    seconds: float
    level: str | None
    line: str | None

    @property
    def position(self) -> int | None:
        """Best: the place that was chosen, from 0; None for none of these."""
        return None if self.kind != "best" or self.choice == NONE else int(self.choice) - 1

    @property
    def chosen(self) -> tuple[str, ...]:
        """Best: whose explanation was chosen; `("none",)` for none of these."""
        return (NONE,) if self.position is None else self.order[self.position]

    @property
    def variants(self) -> tuple[str, ...]:
        """Forecast: whose explanation was shown beside it, `("without",)` for nobody's."""
        return self.order[0] or (WITHOUT,)

    @property
    def correct(self) -> bool:
        """Forecast: the model does what was said."""
        return self.choice == self.truth


@dataclass(frozen=True)
class Records:
    """All that people did."""

    answers: list[Answer]
    joined: int
    """People who have a key."""
    questions: dict[Kind, int]
    """How many there are of each kind."""
    truths: dict[str, int]
    """How often each answer to a forecast is right, over the questions."""


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
    answers = [
        Answer(
            person, question, kind, link, fact, truth,
            tuple(explainers[question, number] for number in json.loads(shown)), choice, seconds,
            level, line,
        )
        for person, question, kind, link, fact, truth, shown, choice, seconds, level, line in rows
    ]  # fmt: skip
    return Records(answers, joined, kinds, truths)


def to_csv(answers: Sequence[Answer]) -> str:
    """Return the raw data, one row an answer."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for each in answers:
        best = each.kind == "best"
        writer.writerow(
            map(
                _safe,
                (
                    each.participant, each.question, each.kind, each.link, each.fact,
                    "" if best else "+".join(each.variants),
                    "|".join("+".join(names) or WITHOUT for names in each.order), each.choice,
                    "+".join(each.chosen) if best else "", each.truth,
                    "" if best else int(each.correct), f"{each.seconds:.1f}", each.level, each.line,
                ),
            )
        )  # fmt: skip
    return text.getvalue()


def _safe(cell: object) -> object:
    """A text that a spreadsheet would take for a formula is marked as text."""
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(_FORMULA) else cell
