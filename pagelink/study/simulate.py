"""People of known behaviour, to plan a study and to see what its report would say."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from pagelink.errors import SettingsError, did_you_mean
from pagelink.study.database import Study
from pagelink.study.questions import BACKGROUNDS, NONE, TRUTHS, WITHOUT, Page
from pagelink.study.storage import copy_without_answers

WITH = "with"
"""All explainers that are not named."""
CHANCE = 1 / 3


@dataclass(frozen=True)
class Behaviour:
    """What people do.

    Example:
        >>> Behaviour({"pagelink": 0.75, "none": 0.25}, {"without": 0.4, "with": 0.6}).agree
        0.0
    """

    like: Mapping[str, float]
    """How likely each explainer, or `none`, is chosen as the best; they add up to 1."""
    understanding: Mapping[str, float] = field(default_factory=dict)
    """How likely a forecast is right: `without` an explanation, with that of an explainer, or
    `with` any other. What is not given is chance, 1/3."""
    agree: float = 0.0
    """How likely somebody does what all who agree do on this question, rather than choose alone.
    Krippendorff's alpha is about its square."""

    def check(self, explainers: Sequence[str]) -> None:
        """Refuse what does not fit a study.

        Raises:
            SettingsError: an unknown name, a probability out of its range, or a sum that is not 1.
        """
        known = {
            "like": (*explainers, NONE),
            "understanding": (WITHOUT, WITH, *explainers),
        }
        for what, names in known.items():
            for name, value in getattr(self, what).items():
                if name not in names:
                    raise SettingsError(
                        f"{what} is about {', '.join(names)}, got {name!r}."
                        f"{did_you_mean(name, names)}"
                    )
                _check_probability(f"{what} of {name}", value)
        _check_probability("agree", self.agree)
        if abs(sum(self.like.values()) - 1) > 1e-6:
            raise SettingsError(f"like adds up to 1, got {sum(self.like.values()):g}.")


def parse_probabilities(given: str, what: str) -> dict[str, float]:
    """Read `name=0.6,other=0.4`.

    Raises:
        SettingsError: it is not of this form.

    Example:
        >>> parse_probabilities("pagelink=0.6, none=0.4", "--like")
        {'pagelink': 0.6, 'none': 0.4}
    """
    found = {}
    for part in filter(None, (part.strip() for part in given.split(","))):
        name, equals, value = (each.strip() for each in part.partition("="))
        try:
            found[name] = float(value)
        except ValueError:
            equals = ""
        if not equals or not name:
            raise SettingsError(f"{what} has the form name=0.6,other=0.4, got {part!r}.")
    return found


def simulate_copy(path: Path, out: Path, people: int, behaviour: Behaviour, seed: int) -> None:
    """Write a copy of a study without its answers, and let people of known behaviour fill it in.

    Raises:
        SettingsError: the behaviour does not fit the study.
        StudyError: the study cannot be read, or `out` exists.
    """
    with Study.open(path) as study:
        behaviour.check(study.about.explainers)
    told: dict[str, Any] = {"people": people, "seed": seed, **asdict(behaviour)}
    copy_without_answers(path, out, told)
    with Study.open(out) as study:
        simulate(study, people, behaviour, seed)


def simulate(study: Study, people: int, behaviour: Behaviour, seed: int) -> None:
    """Let people of known behaviour take part, one after the other, as everybody does.

    Raises:
        SettingsError: the behaviour does not fit the study.
    """
    behaviour.check(study.about.explainers)
    for person in range(people):
        rng = np.random.default_rng((seed, person))
        key = study.join(f"simulated {seed} {person}")
        study.set_background(key, list(BACKGROUNDS)[person % len(BACKGROUNDS)], None)
        while (page := study.next_page(key)) is not None:
            agreed = rng.random() < behaviour.agree
            source = np.random.default_rng((seed, 2**32, page.question)) if agreed else rng
            study.answer(key, page.question, _choice(study, key, page, behaviour, source))


def _choice(
    study: Study, key: str, page: Page, behaviour: Behaviour, rng: np.random.Generator
) -> str:
    explainers, truth = _secrets(study, key, page.question)
    if page.kind == "best":
        liked = str(rng.choice(list(behaviour.like), p=list(behaviour.like.values())))
        place = next((at for at, names in enumerate(explainers, 1) if liked in names), None)
        return NONE if place is None else str(place)
    right = behaviour.understanding.get(WITH, CHANCE)
    named = [behaviour.understanding[n] for n in explainers[0] if n in behaviour.understanding]
    if not explainers[0]:
        right = behaviour.understanding.get(WITHOUT, CHANCE)
    elif named:
        right = max(named)  # who is shown the facts of two understands as the better one makes
    wrong = [move for move in TRUTHS if move != truth]
    return truth if rng.random() < right else str(rng.choice(wrong))


def _secrets(study: Study, key: str, question: int) -> tuple[list[list[str]], str]:
    """What people do not know: whose explanations they see, and the right answer."""
    with study.transaction() as now:
        shown, truth = now.execute(
            "SELECT shown, truth FROM assignment JOIN question ON question.id = question "
            "JOIN participant ON participant.id = participant WHERE key = ? AND question = ?",
            (key, question),
        ).fetchone()
        names = dict(
            now.execute("SELECT number, explainers FROM option WHERE question = ?", (question,))
        )
    return [json.loads(names[number]) for number in json.loads(shown)], truth


def _check_probability(what: str, value: float) -> None:
    if not 0 <= value <= 1:
        raise SettingsError(f"{what} is between 0 and 1, got {value:g}.")
