"""What explainers and plain rankings answer for the links of a subject, and what that costs.

One way for all benchmarks: an explainer of the registry is made for a subject and explains its
links, and what it returns is kept as paths of facts, by number of paths.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from pagelink.bench.runs import timed
from pagelink.bench.subjects import Subject, is_citation
from pagelink.explain.explainer import PaGELink
from pagelink.explain.result import Explanation
from pagelink.rivals.gradients import rank_by_gradient
from pagelink.rivals.greedy import GreedySearch, greedy_search
from pagelink.rivals.ground import Ground, Ranked, fact_paths
from pagelink.rivals.pgexp import PGExpLink
from pagelink.rivals.plain import rank_at_random, rank_by_degree
from pagelink.rivals.registry import RIVALS, make_rival
from pagelink.rivals.rival import Rival
from pagelink.settings import Settings

COUNTS = (1, 3, 5)
"""Numbers of paths."""
MAIN, MOST = 3, max(COUNTS)
"""The number of paths of the figures that are given for one number only; and the largest."""
DEFAULT, DIVERSE = "pagelink", "pagelink-diverse"
GREEDY = "greedy"
SUBGRAPHX_LINKS, SUBGRAPHX_SEEDS = 20, 2
"""On the released data a link of it takes a hundred times as long as one of GNNExp-Link."""
WITHOUT_CHANCE = ("degree", "gradient", "integrated-gradient", "jrecs")
"""Explainers that draw no random number: one seed says it all."""
QUICK_OPTIONS: dict[str, dict[str, Any]] = {
    "pgexp": {"epochs": 2, "num_links": 16},
    "pgexp-released": {"epochs": 2, "num_links": 16},
    "gnnexp": {"epochs": 3},
    "gnnexp-released": {"epochs": 3},
    "subgraphx": {"rollouts": 1, "expand": 2, "depth": 3, "samples": 2},
    "power-link": {"epochs": 2, "hidden": 8},
    "graphmask": {"epochs": 1, "num_links": 8, "hidden": 4},
}


CITATION_OPTIONS: dict[str, dict[str, Any]] = {
    "paper": {"data_set": "augcitation"},
    "gnnexp-released": {"size": 1e-4, "entropy": 2.0},
    "pgexp-released": {"entropy": 1e-3, "links_per_epoch": 512},
}
"""What the released code does otherwise on AugCitation."""


@dataclass(frozen=True)
class Answer:
    """The answers of one explainer and seed for some links."""

    paths: dict[int, Ranked]
    """By number of paths, one list of paths per link."""
    cpu: float
    """CPU seconds for all links, at `MAIN` paths; what is made once is not in it."""
    explanations: list[Explanation] = field(default_factory=list)
    """Of each link, with `MAIN` paths at most or, for a rival, with the most of `COUNTS`; none for
    a plain ranking."""
    training: float | None = None
    """CPU seconds to train the explainer, if it is trained."""
    peak_mb: float | None = None
    """Highest memory of the process meanwhile, model and libraries included; None: not known."""


def settings_of(name: str) -> Settings:
    """The settings an explainer is compared under: nothing is measured but by our own method."""
    return Settings(num_paths=MAIN, measure=name in (DEFAULT, DIVERSE), diverse=name == DIVERSE)


def described(name: str, quick: bool = False, subject: str = "") -> dict[str, Any]:
    """The settings an explainer works under on a subject and its own options, ready for JSON."""
    settings, kind = settings_of(name), RIVALS[name]
    if not issubclass(kind, Rival):
        return {"settings": settings.to_dict(), "options": {}}
    options = kind.options_type(**options_of(name, quick, subject))
    own = kind.own_settings(settings, options)
    return {"settings": own.to_dict(), "options": asdict(options)}


def options_of(name: str, quick: bool, subject: str = "") -> dict[str, Any]:
    """Options other than the explainer's own defaults: in a quick run it does less.

    What stands for the released code has its settings for the data set of the subject.
    """
    if quick:
        return QUICK_OPTIONS.get(name, {})
    return CITATION_OPTIONS.get(name, {}) if is_citation(subject) else {}


def seeds_of(name: str, seeds: Sequence[int]) -> list[int]:
    """The seeds an explainer is run with."""
    if name == "subgraphx":
        return list(seeds[:SUBGRAPHX_SEEDS])
    return list(seeds[:1] if name in WITHOUT_CHANCE else seeds)


def links_of(name: str, quick: bool) -> int | None:
    """The number of links an explainer is run on; None: all."""
    if name != "subgraphx":
        return None
    return 2 if quick else SUBGRAPHX_LINKS


def make_explainer(
    subject: Subject, name: str, settings: Settings, seed: int, quick: bool = False
) -> PaGELink:
    """An explainer that explains every link of a subject, whatever the model says of it."""
    more: dict[str, Any] = {"threshold": None, "options": options_of(name, quick, subject.name)}
    if issubclass(RIVALS[name], PGExpLink) and subject.train_links is not None:
        more["train_links"] = subject.train_links
    return make_rival(name, subject.model, subject.data, subject.link_type, settings, seed, **more)


def ask(
    subject: Subject,
    name: str,
    settings: Settings,
    seed: int,
    *,
    counts: Sequence[int] = COUNTS,
    quick: bool = False,
) -> Answer:
    """Explain the links of a subject.

    The paths of a rival, and ours if nothing is measured, are in a fixed order, so that the first
    one is the answer for one path. Measured paths are chosen as a set, anew for each number.

    Args:
        subject: the model and its links.
        name: the explainer.
        settings: of the explainer; their number of paths is of no account.
        seed: of the explainer.
        counts: the numbers of paths that are wanted.
        quick: the explainer does less than it would.
    """

    def explain(most: int) -> Answer:
        pairs = subject.pairs[: links_of(name, quick)]
        explainer = make_explainer(subject, name, settings.replace(num_paths=most), seed, quick)
        _forget_peak()
        training = timed(explainer.fit)[1] if isinstance(explainer, PGExpLink) else None
        if name != "subgraphx":  # what is made once is not counted; a link of this one is dear
            list(explainer.explain_many(pairs[:1]))
        explanations, cpu = timed(lambda: list(explainer.explain_many(pairs)))
        ranked = fact_paths(explainer, explanations)
        return Answer(_prefixes(ranked, counts), cpu, explanations, training, _peak_mb())

    if name not in (DEFAULT, DIVERSE) or not settings.measure:
        return explain(max(counts))
    found = {count: explain(count) for count in counts}
    return replace(
        found[MAIN] if MAIN in found else found[max(counts)],
        paths={count: answer.paths[count] for count, answer in found.items()},
    )


def plain_answers(
    ground: Ground, default: dict[int, Ranked], most: int, seed: int
) -> tuple[dict[str, Answer], GreedySearch]:
    """The answers of the plain rankings for the links of a ground.

    Args:
        ground: the links.
        default: what the default returns for them, by number of paths.
        most: paths of a link that the greedy search tries at most.
        seed: of the random paths.
    """
    lengths = {n: [[len(path) for path in of_link] for of_link in default[n]] for n in COUNTS}

    def draw(count: int) -> Ranked:
        return rank_at_random(ground, count, lengths=lengths[count], seed=seed)

    def ranked(rank: Callable[[Ground, int], Ranked]) -> Answer:
        found, seconds = timed(lambda: rank(ground, MOST))
        return Answer(_prefixes(found, COUNTS), seconds)

    search, seconds = timed(lambda: greedy_search(ground, MOST, most))
    return {
        "degree only": ranked(rank_by_degree),
        "gradient": ranked(rank_by_gradient),
        "random paths": Answer({n: draw(n) for n in COUNTS}, timed(lambda: draw(MAIN))[1]),
        GREEDY: Answer({n: search.best(n) for n in COUNTS}, seconds * MAIN / MOST),
    }, search


def _prefixes(ranked: Ranked, counts: Sequence[int]) -> dict[int, Ranked]:
    return {count: [paths[:count] for paths in ranked] for count in counts}


def _forget_peak() -> None:
    """Let the kernel count the peak anew; elsewhere than on Linux there is no such file."""
    with suppress(OSError):  # not allowed in this place: the peak is that of the whole process then
        Path("/proc/self/clear_refs").write_text("5")


def _peak_mb() -> float | None:
    file = Path("/proc/self/status")
    found = re.search(r"^VmHWM:\s*(\d+)", file.read_text(), re.M) if file.exists() else None
    return int(found[1]) / 1024 if found else None
