"""Makes a study: predicted links, explained by all explainers, frozen as questions in a file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from pagelink.errors import SettingsError
from pagelink.explain.building import versions
from pagelink.models.checkpoint import Checkpoint
from pagelink.rivals.ground import Ground
from pagelink.study.explaining import (
    BUDGET,
    Explainers,
    Pair,
    Progress,
    Removal,
    Words,
    balanced,
    measure,
    settings_of,
)
from pagelink.study.questions import PER_PERSON, TRUTHS, WANTED, Option, StudyAbout, StudyQuestion
from pagelink.study.statistics import ALIKE, answers_for_accuracy, answers_for_shares, design_effect
from pagelink.study.storage import refuse_existing, write_study
from pagelink.views.text import words

Bar = Callable[[str], AbstractContextManager[Progress]]
"""Makes a progress bar with a word."""


@dataclass(frozen=True)
class Plan:
    """What a study is to be."""

    explainers: tuple[str, ...]
    links: int = 100
    forecasts: int | None = None
    """Forecast questions; None: one for each link."""
    budget: int = BUDGET
    per_person: int = PER_PERSON
    wanted: int = WANTED
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("links", "per_person", "wanted"):
            if getattr(self, name) < 1:
                raise SettingsError(f"{name} is at least 1, got {getattr(self, name)}.")
        if self.forecasts is not None and not 0 <= self.forecasts <= self.links:
            raise SettingsError(
                f"There is at most one forecast for each of the {self.links} links, got "
                f"{self.forecasts}."
            )
        for name in self.explainers:
            settings_of(name, self.budget)


@dataclass(frozen=True)
class Made:
    """What became of a plan."""

    path: Path
    num_links: int
    num_forecasts: int
    truths: Mapping[str, int]
    """How often each answer is the right one."""
    merged: int
    """Options that stand for several explainers, as they show the same facts."""
    empty: Mapping[str, int]
    """Links for which an explainer has nothing to show, of those who have some."""


def create(checkpoint: Checkpoint, path: Path, plan: Plan, bar: Bar) -> Made:
    """Make a study of a trained model's test links.

    Raises:
        StudyError: the file exists, or the model predicts no test link that has a path.
    """
    refuse_existing(path)
    explainers = Explainers(checkpoint, plan.budget, plan.seed)
    quick = explainers.make("degree")
    pairs = explainers.choose_links(quick, plan.links)
    with bar("explaining") as step:
        facts = explainers.explain_all(plan.explainers, pairs, step)
    shown = [{fact for each in of_link.values() for fact in each} for of_link in facts]
    with bar("asking the model") as step:
        removals, logits = measure(Ground.cut(quick, pairs), shown, plan.seed, step)
    count = len(pairs) if plan.forecasts is None else min(plan.forecasts, len(pairs))
    taken = balanced(removals, count, plan.seed)
    said = Words(quick.graph, checkpoint.link_type)
    questions = _questions(said, pairs, facts, logits, taken)
    src, relation, dst = map(words, checkpoint.link_type)
    about = StudyAbout(
        title=f"Why does the model predict “{src} {relation} {dst}”?",
        link_type=f"{src} {relation} {dst}",
        num_questions=len(questions),
        explainers=plan.explainers,
        seed=plan.seed,
        wanted=plan.wanted,
        per_person=plan.per_person,
        settings={
            "budget": plan.budget,
            "links": len(pairs),
            "forecasts": len(taken),
            "explainers": {
                name: settings_of(name, plan.budget).to_dict() for name in plan.explainers
            },
        },
        versions=versions(),
    )
    write_study(path, about, questions)
    truths = [removal.truth for removal in taken.values()]
    return Made(
        path, len(pairs), len(taken),
        {truth: truths.count(truth) for truth in TRUTHS},
        sum(len(o.explainers) > 1 for q in questions if q.kind == "best" for o in q.options),
        {
            name: empty for name in plan.explainers
            if (empty := sum(not of_link[name] for of_link in facts))
        },
    )  # fmt: skip


def options_of(said: Words, pair: Pair, facts: Mapping[str, tuple[int, ...]]) -> tuple[Option, ...]:
    """One option for each set of facts; explainers that show the same facts share one."""
    sets: dict[tuple[int, ...], list[str]] = {}
    for name, each in facts.items():
        sets.setdefault(each, []).append(name)
    return tuple(Option(tuple(names), said.shown(pair, each)) for each, names in sets.items())


def _questions(
    said: Words,
    pairs: Sequence[Pair],
    facts: Sequence[Mapping[str, tuple[int, ...]]],
    logits: Sequence[float],
    taken: Mapping[int, Removal],
) -> list[StudyQuestion]:
    best, forecasts = [], []
    for number, pair in enumerate(pairs):
        options = options_of(said, pair, facts[number])
        link, score = said.link(pair), said.score(logits[number])
        best.append(StudyQuestion("best", number, link, score, options))
        if number in taken:
            removal = taken[number]
            forecasts.append(
                StudyQuestion(
                    "forecast", number, link, score, (Option((), None), *options),
                    said.fact(removal.fact), removal.truth, removal.change,
                )
            )  # fmt: skip
    return [*best, *forecasts]


def lines_about(made: Made, plan: Plan, difference: float) -> list[str]:
    """Say what was made, and how many answers are needed to tell a difference."""
    lines = [
        f"Wrote {made.path}: {made.num_links} links, each explained by {len(plan.explainers)} "
        f"explainers with at most {plan.budget} facts, and {made.num_forecasts} forecasts "
        f"({', '.join(f'{count} {truth}' for truth, count in made.truths.items())})."
    ]
    if made.num_links < plan.links:
        lines.append(
            f"{plan.links} links were requested: the model predicts no more test links that have "
            "a path."
        )
    if made.merged:
        places = "place" if made.merged == 1 else "places"
        lines.append(
            f"In {made.merged} {places} explainers show the same facts: there they are one option, "
            "and share its choice in equal parts."
        )
    lines += [
        f"{name} has nothing to show for {count} links: its explanation is empty there."
        for name, count in made.empty.items()
    ]
    each = min(plan.per_person, made.num_links)  # nobody is asked about one link twice
    best, forecast = answers_for_shares(difference), answers_for_accuracy(difference)
    lines += [
        f"To detect a difference of {100 * difference:g} points (two-sided at 5 %, found in four "
        "of five studies):",
        f"- between the shares of two explainers, {best:,} answers are enough; "
        f"{plan.wanted} per question make {plan.wanted * made.num_links:,};",
        "- between right forecasts with one explainer's explanation and without, "
        f"{(len(plan.explainers) + 1) * forecast:,} answers over all variants; {plan.wanted} per "
        f"question make {plan.wanted * made.num_forecasts:,}.",
        f"Answers of one person are alike: with {each} each, alike by {ALIKE:g}, "
        f"{design_effect(each):.1f} times as many are needed.",
    ]
    return lines
