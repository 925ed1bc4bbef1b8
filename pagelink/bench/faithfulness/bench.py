"""`pagelink bench faithfulness`: are explanations true of the model? One subject at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from pagelink.bench.faithfulness.judges import foretelling, replaced_effects
from pagelink.bench.faithfulness.measures import PerLink, label_facts, measure, supportable
from pagelink.bench.faithfulness.rankings import (
    COUNTS,
    DEFAULT,
    INFLUENCE,
    MAIN,
    MEASURING,
    PAPER,
    RANKINGS,
    Answers,
    explained,
    explainer_answers,
    make_explainer,
    plain_answers,
)
from pagelink.bench.subjects import Subject
from pagelink.measure.verdict import Verdict
from pagelink.rivals.greedy import MOST_PATHS
from pagelink.rivals.ground import Ground, Ranked
from pagelink.runtime.arrays import Bools, Doubles
from pagelink.settings import Settings

Progress = Callable[[str], None]
CURVE = tuple(round(0.1 * step, 1) for step in range(11))


@dataclass
class Result:
    """All that was measured of a subject, link by link, in the order of its pairs."""

    subject: Subject
    greedy: dict[int, Doubles] = field(default_factory=dict)
    """By number of paths, the effect of the greedy search."""
    greedy_of_all: Doubles = field(default_factory=lambda: np.empty(0))
    """The same for exactly three paths, be it less than that of fewer."""
    greedy_or_none: Doubles = field(default_factory=lambda: np.empty(0))
    """The same for up to three paths where the search may return none."""
    exhaustive: Bools = field(default_factory=lambda: np.empty(0, dtype=np.bool_))
    """The greedy search tried all paths of the link."""
    num_paths: Doubles = field(default_factory=lambda: np.empty(0))
    """Paths that it tried."""
    supportable: Bools | None = None
    rankings: dict[str, PerLink] = field(default_factory=dict)
    verdicts: dict[str, list[Verdict]] = field(default_factory=dict)
    shown: dict[str, Ranked] = field(default_factory=dict)
    """By ranking, its three paths of each link."""
    cpu: dict[str, float] = field(default_factory=dict)
    """CPU seconds a link, at three paths."""
    curve: dict[float, PerLink] = field(default_factory=dict)
    """By rho, effect and labelled paths at three paths."""
    first_half: Bools = field(default_factory=lambda: np.empty(0, dtype=np.bool_))
    retrained: dict[str, Doubles] = field(default_factory=dict)
    """Judge (c): by ranking, how far the logit of the first links falls by training anew."""


def run_subject(
    subject: Subject,
    seed: int,
    *,
    most_paths: int = MOST_PATHS,
    judge_links: int = 200,
    rhos: Sequence[float] = (),
    progress: Progress = lambda what: None,
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
    pairs = subject.pairs
    answers: dict[str, Answers] = {}
    for ranking in (DEFAULT, PAPER, INFLUENCE):
        progress(f"{subject.name}: {ranking}")
        answers[ranking] = explainer_answers(subject, ranking, pairs, seed)
    curve: dict[float, Ranked] = {}
    for rho in rhos:
        progress(f"{subject.name}: rho = {rho:g}")
        curve[rho] = explained(subject, Settings(rho=rho, num_paths=MAIN), pairs, seed)[0]

    result = Result(subject)
    parts: list[_Part] = []
    first = 0
    for ground in Ground.cut(make_explainer(subject, Settings(), seed), pairs):
        progress(f"{subject.name}: links {first + 1} to {first + ground.num_links}")
        here = slice(first, first + ground.num_links)
        judged = max(0, min(ground.num_links, judge_links - first))
        parts.append(_measure_part(subject, ground, here, answers, curve, most_paths, judged, seed))
        first += ground.num_links
    _join(result, parts, answers)
    order = np.random.default_rng((seed, 1)).permutation(len(pairs))
    result.first_half = np.zeros(len(pairs), dtype=np.bool_)
    result.first_half[order[: len(pairs) // 2]] = True
    return result


@dataclass
class _Part:
    """What was measured of the links of one ground."""

    greedy: dict[int, Doubles]
    greedy_of_all: Doubles
    greedy_or_none: Doubles
    exhaustive: Bools
    num_paths: Doubles
    supportable: Bools | None
    rankings: dict[str, PerLink]
    verdicts: dict[str, list[Verdict]]
    shown: dict[str, Ranked]
    cpu: dict[str, float]
    curve: dict[float, PerLink]


def _measure_part(
    subject: Subject,
    ground: Ground,
    here: slice,
    answers: dict[str, Answers],
    curve: dict[float, Ranked],
    most_paths: int,
    judged: int,
    seed: int,
) -> _Part:
    found = {
        name: {count: answer.paths[count][here] for count in COUNTS}
        for name, answer in answers.items()
    }
    plain, search = plain_answers(ground, found[DEFAULT], most_paths, seed)
    found |= {name: answer.paths for name, answer in plain.items()}
    labels = None
    if subject.labels is not None:
        labels = label_facts(ground.explainer.graph, subject.labels, ground.pairs())
    rows, verdicts = {}, {}
    for name in RANKINGS:
        rows[name], verdicts[name] = measure(
            ground, found[name], search.effects(MAIN), labels, seed
        )
    shown = {name: found[name][MAIN] for name in RANKINGS}
    links = list(range(judged))
    replaced = replaced_effects(ground, subject.model, subject.data, shown, links, seed)
    told = [foretelling(ground, shown, MEASURING, link, seed) for link in links]
    for name in RANKINGS:
        for figure, values in (
            ("replaced", replaced[name]),
            ("foretold", np.array([each[name][0] for each in told])),
            ("foretold by effects", np.array([each[name][1] for each in told])),
        ):
            rows[name][figure] = np.full(ground.num_links, np.nan)
            rows[name][figure][:judged] = values
    every = list(range(ground.num_links))
    curve_rows = {
        rho: measure_curve(ground, ranked[here], every, labels) for rho, ranked in curve.items()
    }
    return _Part(
        {count: search.effects(count) for count in COUNTS},
        search.effects_of_all(MAIN), search.effects_or_none(MAIN), search.exhaustive,
        search.num_paths.astype(np.float64),
        None if labels is None else supportable(ground, labels), rows, verdicts,
        shown,
        {name: answer.cpu for name, answer in plain.items()}, curve_rows,
    )  # fmt: skip


def measure_curve(
    ground: Ground,
    ranked: Ranked,
    links: list[int],
    labels: list[list[tuple[int, ...]]] | None,
) -> PerLink:
    """Effect, labelled paths and number of paths of one answer."""
    facts = [sorted({fact for path in paths for fact in path}) for paths in ranked]
    rows = {
        "effect": ground.effects(links, facts),
        "paths": np.array([float(len(paths)) for paths in ranked]),
    }
    if labels is not None:
        hits = [bool(set(p) & set(of)) for p, of in zip(ranked, labels, strict=True)]
        rows["hit"] = np.array(hits, dtype=np.float64)
    return rows


def _join(result: Result, parts: list[_Part], answers: dict[str, Answers]) -> None:
    """Put the links of all parts one after the other."""
    size = max(1, sum(len(part.exhaustive) for part in parts))
    result.greedy = {
        count: np.concatenate([part.greedy[count] for part in parts]) for count in COUNTS
    }
    result.greedy_of_all = np.concatenate([part.greedy_of_all for part in parts])
    result.greedy_or_none = np.concatenate([part.greedy_or_none for part in parts])
    result.exhaustive = np.concatenate([part.exhaustive for part in parts])
    result.num_paths = np.concatenate([part.num_paths for part in parts])
    if parts[0].supportable is not None:
        result.supportable = np.concatenate(
            [p.supportable for p in parts if p.supportable is not None]
        )
    for name in RANKINGS:
        result.rankings[name] = _together([part.rankings[name] for part in parts])
        result.verdicts[name] = [v for part in parts for v in part.verdicts[name]]
        result.shown[name] = [paths for part in parts for paths in part.shown[name]]
        own = answers[name].cpu if name in answers else sum(part.cpu[name] for part in parts)
        result.cpu[name] = own / size
    for rho in parts[0].curve:
        result.curve[rho] = _together([part.curve[rho] for part in parts])


def _together(parts: list[PerLink]) -> PerLink:
    return {figure: np.concatenate([part[figure] for part in parts]) for figure in parts[0]}
