"""`pagelink bench faithfulness`: are explanations true of the model? One subject at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from pagelink.bench.answers import (
    COUNTS,
    DEFAULT,
    GREEDY,
    MAIN,
    Answer,
    ask,
    make_explainer,
    plain_answers,
)
from pagelink.bench.faithfulness.judges import foretelling, replaced_effects
from pagelink.bench.measures import (
    EFFECT,
    PerLink,
    joined,
    label_facts,
    labelled,
    measure,
    supportable,
)
from pagelink.bench.subjects import Subject
from pagelink.measure.verdict import VERDICTS
from pagelink.rivals.greedy import MOST_PATHS
from pagelink.rivals.ground import Ground, Ranked, facts_of
from pagelink.runtime.arrays import Bools, Doubles
from pagelink.settings import Settings

SETTINGS = {
    "default": Settings(),
    # The paper's ranking is that of rho = 0. It measures nothing, so it is run without measuring:
    # its paths are the same, and its time is its own.
    "paper": Settings(rho=0.0, measure=False),
    "influence": Settings(rho=1.0),
}
"""Rankings of the explainer itself, by its settings."""
RANKINGS = (*SETTINGS, "degree only", "gradient", "random paths", GREEDY)
MEASURING = ("default", "influence", GREEDY)
"""Rankings that measure effects; the others only say which paths."""
CURVE = tuple(round(0.1 * step, 1) for step in range(11))
JUDGED = ("replaced", "foretold", "foretold by effects")


@dataclass
class Result:
    """All that was measured of a subject, link by link, in the order of its pairs."""

    subject: Subject
    links: PerLink
    """Of the links themselves. By the greedy search: `greedy@n`, the effect of up to n paths;
    `greedy of all`, of exactly three, be it less than that of fewer; `greedy or none`, of up to
    three where the search may return none; `exhaustive`, whether it tried all paths of the link;
    `num_paths`, the number that it tried. With labels `supportable`."""
    rankings: dict[str, PerLink]
    """By ranking, its figures; of each verdict, 1 where the link has it."""
    curve: dict[float, PerLink]
    """By rho, effect and labelled paths at three paths."""
    shown: dict[str, Ranked]
    """By ranking, its three paths of each link."""
    cpu: dict[str, float]
    """CPU seconds per link, at three paths."""
    first_half: Bools
    retrained: dict[str, Doubles] = field(default_factory=dict)
    """Judge (c): by ranking, how far the logit of the first links falls by training anew."""


def run_subject(
    subject: Subject,
    seed: int,
    *,
    most_paths: int = MOST_PATHS,
    judge_links: int = 200,
    rhos: Sequence[float] = (),
    progress: Callable[[str], None] = lambda what: None,
) -> Result:
    """Measure all rankings on one subject.

    Args:
        subject: the model and its links.
        seed: of the explainer and of all random choices.
        most_paths: paths of a link that the greedy search tries at most.
        judge_links: links that the two judges look at, at most.
        rhos: also measure the default under these values of rho.
        progress: called with what comes next.
    """
    answers: dict[str, Answer] = {}
    for ranking, settings in SETTINGS.items():
        progress(f"{subject.name}: {ranking}")
        answers[ranking] = ask(subject, DEFAULT, settings, seed)
    curve: dict[float, Ranked] = {}
    for rho in rhos:
        progress(f"{subject.name}: rho = {rho:g}")
        curve[rho] = ask(subject, DEFAULT, Settings(rho=rho), seed, counts=(MAIN,)).paths[MAIN]

    shown: dict[str, Ranked] = {name: [] for name in RANKINGS}
    cpu = {name: answers[name].cpu if name in answers else 0.0 for name in RANKINGS}
    parts: list[dict[str | float, PerLink]] = []
    first = 0
    for ground in Ground.cut(make_explainer(subject, DEFAULT, Settings(), seed), subject.pairs):
        here = slice(first, first + ground.num_links)
        progress(f"{subject.name}: links {first + 1} to {here.stop}")
        found = {
            name: {count: answer.paths[count][here] for count in COUNTS}
            for name, answer in answers.items()
        }
        plain, search = plain_answers(ground, found["default"], most_paths, seed)
        for name, answer in plain.items():
            found[name] = answer.paths
            cpu[name] += answer.cpu
        labels = None
        if subject.labels is not None:
            labels = label_facts(ground.explainer.graph, subject.labels, ground.pairs())
        links: PerLink = {
            **{f"greedy@{count}": search.effects(count) for count in COUNTS},
            "greedy of all": search.effects_of_all(MAIN),
            "greedy or none": search.effects_or_none(MAIN),
            "exhaustive": search.exhaustive.astype(np.float64),
            "num_paths": search.num_paths.astype(np.float64),
        }
        if labels is not None:
            links["supportable"] = supportable(ground, labels).astype(np.float64)
        tables: dict[str | float, PerLink] = {"links": links}
        for name in RANKINGS:
            rows, verdicts = measure(ground, found[name], search.effects(MAIN), labels, seed)
            rows |= {word: np.array([float(v == word) for v in verdicts]) for word in VERDICTS}
            tables[name] = rows
            shown[name] += found[name][MAIN]
        for rho, ranked in curve.items():
            tables[rho] = _on_curve(ground, ranked[here], labels)
        mine = {name: found[name][MAIN] for name in RANKINGS}
        for name, rows in _judged(subject, ground, mine, judge_links - first, seed).items():
            tables[name] |= rows
        parts.append(tables)
        first = here.stop
    whole = {name: joined([part[name] for part in parts]) for name in parts[0]}
    order = np.random.default_rng((seed, 1)).permutation(first)
    return Result(
        subject,
        whole["links"],
        {name: whole[name] for name in RANKINGS},
        {rho: whole[rho] for rho in curve},
        shown,
        {name: seconds / max(1, first) for name, seconds in cpu.items()},
        np.argsort(order) < first // 2,
    )


def _on_curve(
    ground: Ground, ranked: Ranked, labels: Sequence[Sequence[tuple[int, ...]]] | None
) -> PerLink:
    """Effect, labelled paths and number of paths of one answer."""
    rows = {
        EFFECT: ground.effects(range(ground.num_links), [facts_of(paths) for paths in ranked]),
        "paths": np.array([float(len(paths)) for paths in ranked]),
    }
    return rows if labels is None else {**rows, f"hit@{MAIN}": labelled(ranked, labels)}


def _judged(
    subject: Subject, ground: Ground, shown: dict[str, Ranked], most: int, seed: int
) -> dict[str, PerLink]:
    """What the judges (a) and (b) say of the first links of a ground; NaN of the others."""
    links = list(range(max(0, min(ground.num_links, most))))
    replaced = replaced_effects(ground, subject.model, subject.data, shown, links, seed)
    told = [foretelling(ground, shown, MEASURING, link, seed) for link in links]
    found: dict[str, PerLink] = {}
    for name in RANKINGS:
        both = np.array([each[name] for each in told]).reshape(-1, 2)
        values = np.full((len(JUDGED), ground.num_links), np.nan)
        values[:, : len(links)] = [replaced[name], both[:, 0], both[:, 1]]
        found[name] = dict(zip(JUDGED, values, strict=True))
    return found
