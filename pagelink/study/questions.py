"""What a study asks, and what people answer.

Questions as they are frozen, as one person sees them, and the answers as plain rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

Kind = Literal["best", "forecast"]
"""Which explanation is best; or what the model does without a fact."""
Truth = Literal["rise", "fall", "stay"]
TRUTHS: tuple[Truth, ...] = get_args(Truth)
NONE = "none"
"""The choice of no explanation at all."""
WITHOUT = "without"
"""The variant of a forecast that shows no explanation."""
WANTED = 3
"""Answers that every question is to have."""
PER_PERSON = 20
"""Questions that one person is asked at most."""

BEST = "Which of these explains best why the model predicts this?"
FORECAST = "What will the score of the model do if this one fact is taken away?"
MOVES: tuple[tuple[Truth, str], ...] = (
    ("rise", "It rises"),
    ("fall", "It falls"),
    ("stay", "It stays as it is, or hardly moves"),
)
NONE_LABEL = "None of these"

BACKGROUNDS: dict[str, str] = {
    "none": "I do not know graph neural networks",
    "some": "I have heard of or used graph neural networks",
    "expert": "I work with graph neural networks",
}
LONGEST_LINE = 200


@dataclass(frozen=True)
class Shown:
    """One explanation as it is shown: no method name, nothing that gives it away."""

    svg: str
    """A standalone drawing."""
    sentences: tuple[str, ...]
    """The same facts in words, for screen readers."""
    narrow: str
    """The drawing for narrow windows."""


@dataclass(frozen=True)
class Option:
    """One explanation of a question: to be chosen, or to be shown beside it."""

    explainers: tuple[str, ...]
    """Whose it is: several, if they show the same facts; none, if nothing is shown."""
    shown: Shown | None


@dataclass(frozen=True)
class StudyQuestion:
    """One question as it is frozen, for all people."""

    kind: Kind
    subject: int
    """Number of the predicted link. Nobody is asked about one link twice."""
    link: str
    score: str
    options: tuple[Option, ...]
    fact: str | None = None
    truth: Truth | None = None
    change: float | None = None
    """How the logit changes without the fact, measured on the model."""

    @property
    def asked(self) -> str:
        """The sentence asked."""
        return BEST if self.kind == "best" else FORECAST


@dataclass(frozen=True)
class Page:
    """One question as one person sees it."""

    question: int
    kind: Kind
    asked: str
    """The sentence asked."""
    link: str
    """The predicted link in words."""
    score: str
    """What the model says of it, in words."""
    fact: str | None
    """Forecast: the fact taken away, in words."""
    shown: tuple[Shown, ...]
    """Best: the explanations in this person's order; forecast: none or one."""
    choices: tuple[tuple[str, str], ...]
    """Value and label of each possible answer."""
    number: int
    """It is this person's n-th."""
    total: int
    """The number of questions for this person."""


@dataclass(frozen=True)
class StudyAbout:
    """What a study is about, and how it was made."""

    title: str
    link_type: str
    """The predicted relation in words."""
    num_questions: int
    explainers: tuple[str, ...]
    seed: int
    wanted: int = WANTED
    per_person: int = PER_PERSON
    settings: Mapping[str, Any] | None = None
    """How the explanations were made."""
    versions: Mapping[str, str] | None = None


def choices_of(kind: Kind, num_shown: int) -> tuple[tuple[str, str], ...]:
    """Return what can be answered, as value and label.

    Example:
        >>> choices_of("best", 2)
        (('1', 'Explanation 1'), ('2', 'Explanation 2'), ('none', 'None of these'))
        >>> [value for value, _ in choices_of("forecast", 1)]
        ['rise', 'fall', 'stay']
    """
    if kind == "forecast":
        return MOVES
    numbered = tuple((str(n), f"Explanation {n}") for n in range(1, num_shown + 1))
    return (*numbered, (NONE, NONE_LABEL))


@dataclass(frozen=True)
class Answer:
    """One answer of one person."""

    participant: int
    """Their number; the key is shown nowhere."""
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

    @property
    def num_people(self) -> int:
        """People who answered at least one question."""
        return len({answer.participant for answer in self.answers})
