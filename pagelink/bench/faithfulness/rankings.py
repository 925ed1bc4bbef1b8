"""The rankings that the faithfulness benchmark compares, each as the paths it returns."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from pagelink.bench.subjects import Subject
from pagelink.explain.explainer import PaGELink
from pagelink.rivals.gradients import rank_by_gradient
from pagelink.rivals.greedy import GreedySearch, greedy_search
from pagelink.rivals.ground import Ground, Ranked, fact_paths
from pagelink.rivals.plain import rank_at_random, rank_by_degree
from pagelink.settings import Settings

COUNTS = (1, 3, 5)
"""Numbers of paths."""
MAIN = 3
"""The number of paths of the figures that are given for one number only."""
DEFAULT, PAPER, INFLUENCE = "default", "paper", "influence"
GREEDY = "greedy"
RANKINGS = (DEFAULT, PAPER, INFLUENCE, "degree only", "gradient", "random paths", GREEDY)
MEASURING = (DEFAULT, INFLUENCE, GREEDY)
"""Rankings that measure effects; the others only say which paths."""

Pairs = Sequence[tuple[int, int]]


@dataclass
class Answers:
    """What one ranking returns for some links."""

    paths: dict[int, Ranked] = field(default_factory=dict)
    """By number of paths, one list of paths per link."""
    cpu: float = 0.0
    """CPU seconds for all links, at `MAIN` paths."""


def settings_of(ranking: str) -> Settings:
    """The settings of a ranking of the explainer itself.

    The paper's ranking is that of rho = 0. It measures nothing, so it is run without measuring:
    its paths are the same, and its time is its own.
    """
    if ranking == PAPER:
        return Settings(rho=0.0, measure=False)
    return Settings(rho=1.0) if ranking == INFLUENCE else Settings()


def make_explainer(subject: Subject, settings: Settings, seed: int) -> PaGELink:
    """An explainer that explains every link, whatever the model says of it."""
    return PaGELink(
        subject.model, subject.data, subject.link_type, settings, seed, threshold=None
    )  # fmt: skip


def explained(
    subject: Subject, settings: Settings, pairs: Pairs, seed: int
) -> tuple[Ranked, float]:
    """The paths that the explainer returns, and its CPU seconds."""
    explainer = make_explainer(subject, settings, seed)
    list(explainer.explain_many(pairs[:1]))  # what is made once is not counted
    started = time.process_time()
    found = fact_paths(explainer, explainer.explain_many(pairs))
    return found, time.process_time() - started


def explainer_answers(subject: Subject, ranking: str, pairs: Pairs, seed: int) -> Answers:
    """The answers of the explainer under the settings of a ranking."""
    settings, answers = settings_of(ranking), Answers()
    if ranking == PAPER:  # the first of five are the first of one
        found, answers.cpu = explained(
            subject, settings.replace(num_paths=max(COUNTS)), pairs, seed
        )
        answers.paths = {count: [paths[:count] for paths in found] for count in COUNTS}
        return answers
    for count in COUNTS:
        found, seconds = explained(subject, settings.replace(num_paths=count), pairs, seed)
        answers.paths[count] = found
        if count == MAIN:
            answers.cpu = seconds
    return answers


def plain_answers(
    ground: Ground, default: dict[int, Ranked], most: int, seed: int
) -> tuple[dict[str, Answers], GreedySearch]:
    """The answers of the plain rankings for the links of a ground.

    Args:
        ground: the links.
        default: what the default returns for them, by number of paths.
        most: paths of a link that the greedy search tries at most.
        seed: of the random paths.
    """
    lengths = {n: [[len(path) for path in of_link] for of_link in default[n]] for n in COUNTS}
    longest = max(COUNTS)

    def draw(count: int) -> Ranked:
        return rank_at_random(ground, count, lengths=lengths[count], seed=seed)

    answers = {
        "degree only": _prefixes(lambda: rank_by_degree(ground, longest)),
        "gradient": _prefixes(lambda: rank_by_gradient(ground, longest)),
        "random paths": Answers({count: draw(count) for count in COUNTS}),
    }
    started = time.process_time()
    draw(MAIN)
    answers["random paths"].cpu = time.process_time() - started
    started = time.process_time()
    search = greedy_search(ground, longest, most)
    answers[GREEDY] = Answers(
        {count: search.best(count) for count in COUNTS},
        (time.process_time() - started) * MAIN / longest,
    )
    return answers, search


def _prefixes(rank: Callable[[], Ranked]) -> Answers:
    started = time.process_time()
    found = rank()
    seconds = time.process_time() - started
    return Answers({count: [paths[:count] for paths in found] for count in COUNTS}, seconds)
