"""What a study found: figures with intervals, and in words what they do not carry."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from pagelink.study.database import Study, read_records
from pagelink.study.questions import BACKGROUNDS, NONE, TRUTHS, WITHOUT, Answer, Records
from pagelink.study.statistics import (
    Agreement,
    Disagreed,
    Figure,
    Positions,
    agreement,
    credit,
    difference_figure,
    expected,
    mean_figure,
    most_disagreed,
    positions,
)

PAPER_SHARE, PAPER_ANSWERS = 0.7879, 340
FEW_ANSWERS, FEW_PEOPLE, FEW_QUESTIONS = 30, 5, 5
"""With fewer, no figure is to be relied on."""
NOT_SAID = "not said"
SHOWN, SHOWN_FORECASTS = 10, 5


@dataclass(frozen=True)
class Share:
    """How often an explainer, or "none of these", was chosen."""

    name: str
    share: Figure
    chance: float | None
    """Its share if all chose at random."""


@dataclass(frozen=True)
class Forecast:
    """How often people were right with the explanation of an explainer, or without any."""

    variant: str
    accuracy: Figure
    gain: Figure | None
    """Minus the accuracy without."""
    confusion: dict[str, dict[str, int]]
    """By true answer, how often each answer was given."""


@dataclass(frozen=True)
class Background:
    """The figures of people of one background."""

    level: str
    people: int
    shares: list[Share]
    forecasts: Figure
    """Accuracy in all variants that show an explanation."""
    forecasts_without: Figure


@dataclass(frozen=True)
class Report:
    """All figures of a study."""

    title: str
    link_type: str
    simulated: dict[str, Any] | None
    people: int
    """Who answered at least one question."""
    joined: int
    answers: int
    questions: int
    complete: int
    """Questions that have the wanted number of answers."""
    wanted: int
    cautions: list[str]
    """Why figures are not to be relied on, in words; empty: there are answers enough."""
    shares: list[Share]
    paper: str
    agreement: Agreement
    forecast_agreement: Agreement
    forecasts: list[Forecast]
    always_the_same: float | None
    """Accuracy of who always gives the commonest right answer."""
    backgrounds: list[Background]
    positions: Positions
    disagreed: list[Disagreed]
    seconds: dict[str, float]
    """The median of seconds for an answer, by kind."""
    seed: int
    versions: dict[str, str]

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values, for JSON."""
        return asdict(self)


def make_report(study: Study, seed: int = 0) -> Report:
    """Compute the report of a study, empty or not.

    Args:
        study: the study.
        seed: of the draws for intervals.

    Raises:
        StudyError: nltk is not there.
    """
    about, records = study.about, read_records(study)
    best = [answer for answer in records.answers if answer.kind == "best"]
    forecasts = [answer for answer in records.answers if answer.kind == "forecast"]
    shares = shares_of(best, about.explainers, seed)
    counts = Counter(answer.question for answer in records.answers)
    total = sum(records.truths.values())
    return Report(
        title=about.title,
        link_type=about.link_type,
        simulated=(about.settings or {}).get("simulated"),
        people=records.num_people,
        joined=records.joined,
        answers=len(records.answers),
        questions=about.num_questions,
        complete=sum(count >= about.wanted for count in counts.values()),
        wanted=about.wanted,
        cautions=_cautions(records),
        shares=shares,
        paper=_beside_the_paper(shares, about.explainers),
        agreement=agreement(best, seed),
        forecast_agreement=agreement(forecasts, seed),
        forecasts=forecasts_of(forecasts, about.explainers, seed),
        always_the_same=max(records.truths.values()) / total if total else None,
        backgrounds=_backgrounds(best, forecasts, about.explainers, seed),
        positions=positions(best),
        disagreed=[*most_disagreed(best, SHOWN), *most_disagreed(forecasts, SHOWN_FORECASTS)],
        seconds={
            kind: round(median(answer.seconds for answer in given), 1)
            for kind, given in (("best", best), ("forecast", forecasts))
            if given
        },
        seed=seed,
        versions=dict(about.versions or {}),
    )


def shares_of(best: Sequence[Answer], explainers: Sequence[str], seed: int) -> list[Share]:
    """Return the share of choices of each explainer, in their order, then of "none of these"."""
    found = []
    for name in (*explainers, NONE):
        share = mean_figure(best, [credit(answer, name) for answer in best], seed)
        chance = sum(expected(answer, name) for answer in best) / len(best) if best else None
        found.append(Share(name, share, chance))
    return found


def forecasts_of(answers: Sequence[Answer], explainers: Sequence[str], seed: int) -> list[Forecast]:
    """Return the accuracy without an explanation, with any, and with that of each explainer.

    Where explainers show the same facts, an answer counts for each of them: they were all shown.
    """
    without = [answer.variants == (WITHOUT,) for answer in answers]
    sides = {WITHOUT: without, "with any": [not each for each in without]}
    sides |= {name: [name in answer.variants for answer in answers] for name in explainers}
    right = [float(answer.correct) for answer in answers]
    found = []
    for variant, side in sides.items():
        mine = [answer for answer, is_mine in zip(answers, side, strict=True) if is_mine]
        gain = None
        if variant != WITHOUT:
            gain = difference_figure(answers, right, side, without, seed)
        counts = Counter((answer.truth, answer.choice) for answer in mine)
        confusion: dict[str, dict[str, int]] = {
            truth: {choice: counts[truth, choice] for choice in TRUTHS} for truth in TRUTHS
        }
        found.append(Forecast(variant, _accuracy(mine, seed), gain, confusion))
    return found


def _backgrounds(
    best: list[Answer], forecasts: list[Answer], explainers: Sequence[str], seed: int
) -> list[Background]:
    found = []
    for level in (*BACKGROUNDS, NOT_SAID):
        own = [a for a in best if (a.level or NOT_SAID) == level]
        told = [a for a in forecasts if (a.level or NOT_SAID) == level]
        people = {answer.participant for answer in (*own, *told)}
        if not people:
            continue
        shown = _accuracy([a for a in told if a.variants != (WITHOUT,)], seed)
        bare = _accuracy([a for a in told if a.variants == (WITHOUT,)], seed)
        shares = shares_of(own, explainers, seed)
        found.append(Background(level, len(people), shares, shown, bare))
    return found


def _accuracy(forecasts: Sequence[Answer], seed: int) -> Figure:
    return mean_figure(forecasts, [float(answer.correct) for answer in forecasts], seed)


def _cautions(records: Records) -> list[str]:
    if not records.answers:
        return ["Nobody has answered yet: there is nothing to report."]
    people, found = records.num_people, []
    for kind, words in (("best", "Which explains best"), ("forecast", "Forecasts")):
        given = [answer for answer in records.answers if answer.kind == kind]
        if kind in records.questions and len(given) < FEW_ANSWERS:
            found.append(
                f"{words}: {len(given)} answers are too few to say anything; at least "
                f"{FEW_ANSWERS} are needed, and more to tell explainers apart."
            )
    if people < FEW_PEOPLE:
        found.append(
            f"{people} people are too few: intervals over people need at least {FEW_PEOPLE}."
        )
    questions = len({answer.question for answer in records.answers})
    if questions < FEW_QUESTIONS:
        found.append(
            f"{questions} questions are too few: intervals over questions need at least "
            f"{FEW_QUESTIONS}."
        )
    return found


def _beside_the_paper(shares: Sequence[Share], explainers: Sequence[str]) -> str:
    """Say whether the share of pagelink is that of the paper."""
    ours = next((share for share in shares if share.name == "pagelink"), None)
    if ours is None:
        return "The figure of the paper is of PaGE-Link, which is not in this study."
    said = (
        f"In the paper PaGE-Link was chosen in {100 * PAPER_SHARE:.2f} % of {PAPER_ANSWERS} "
        "answers, among three explainers and without “none of these”"
    )
    options = f"here it is one of {len(explainers)}, and “none of these” can be chosen"
    figure = ours.share
    if figure.value is None or len(figure.known) < 2 or figure.answers < FEW_ANSWERS:
        return f"{said}; {options}. There are too few answers to compare."
    here = f"its share here, {100 * figure.value:.1f} %"
    if all(low > PAPER_SHARE for low, _ in figure.known):
        compared = f"I{here[1:]}, is above that by both intervals."
    elif all(high < PAPER_SHARE for _, high in figure.known):
        compared = f"I{here[1:]}, is below that by both intervals."
    elif all(low <= PAPER_SHARE <= high for low, high in figure.known):
        compared = f"Both intervals of {here}, hold that figure."
    else:
        compared = f"One interval of {here}, holds that figure, the other does not."
    return f"{said}; {options}. {compared}"
