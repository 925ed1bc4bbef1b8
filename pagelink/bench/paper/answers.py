"""What an explainer of the registry answers for the links of a stage, and what that costs."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pagelink.bench.faithfulness.rankings import COUNTS, MAIN
from pagelink.bench.subjects import Subject
from pagelink.explain.explainer import PaGELink
from pagelink.explain.result import Explanation
from pagelink.rivals.ground import Ranked, fact_paths
from pagelink.rivals.pgexp import PGExpLink
from pagelink.rivals.registry import RIVALS, make_rival
from pagelink.rivals.rival import Rival
from pagelink.settings import Settings

DEFAULT = "pagelink"
SUBGRAPHX_LINKS, SUBGRAPHX_SEEDS = 20, 2
"""On the released data a link of it takes a hundred times as long as one of GNNExp-Link."""
WITHOUT_CHANCE = ("degree", "gradient", "integrated-gradient")
"""Explainers that draw no random number: one seed says it all."""
QUICK_OPTIONS: dict[str, dict[str, Any]] = {
    "pgexp": {"epochs": 2, "num_links": 16},
    "gnnexp": {"epochs": 3},
    "subgraphx": {"rollouts": 1, "expand": 2, "depth": 3, "samples": 2},
}


@dataclass(frozen=True)
class Answer:
    """The answers of one explainer and seed."""

    explanations: list[Explanation]
    """Of each link, with `MAIN` paths at most or, for a rival, with the most of `COUNTS`."""
    paths: dict[int, Ranked]
    """By number of paths, one list per link."""
    cpu: float
    """CPU seconds a link, at `MAIN` paths; what is made once is not in it."""
    training: float | None
    """CPU seconds to train the explainer, if it is trained."""
    peak_mb: float | None
    """Highest memory of the process meanwhile, model and libraries included; None: not known."""


def asked_settings(name: str, count: int) -> Settings:
    """What an explainer is asked for: so many paths, and nothing measured but by our own method."""
    return Settings(num_paths=count, measure=name == DEFAULT)


def described(name: str, quick: bool = False) -> dict[str, Any]:
    """The settings an explainer works under and its own options, ready for JSON."""
    settings, kind = asked_settings(name, MAIN), RIVALS[name]
    if not issubclass(kind, Rival):
        return {"settings": settings.to_dict(), "options": {}}
    options = kind.options_type(**options_of(name, quick))
    return {
        "settings": kind.own_settings(settings, options).to_dict(), "options": asdict(options),
    }  # fmt: skip


def options_of(name: str, quick: bool) -> dict[str, Any]:
    """Options other than the explainer's own defaults: in a quick run it does less."""
    return QUICK_OPTIONS.get(name, {}) if quick else {}


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


def ask(subject: Subject, name: str, seed: int, quick: bool = False) -> Answer:
    """Explain the links of a subject.

    The paths of a rival are in a fixed order, so its first one is its answer for one path. Ours
    chooses them as a set, and is asked anew for each number.
    """
    pairs = subject.pairs[: links_of(name, quick)]
    if name == DEFAULT:
        found = {count: _explain(subject, name, seed, count, pairs, quick) for count in COUNTS}
        paths = {count: found[count].paths[count] for count in COUNTS}
        main = found[MAIN]
        return Answer(main.explanations, paths, main.cpu, None, main.peak_mb)
    return _explain(subject, name, seed, max(COUNTS), pairs, quick)


def _explain(
    subject: Subject,
    name: str,
    seed: int,
    count: int,
    pairs: Sequence[tuple[int, int]],
    quick: bool,
) -> Answer:
    more: dict[str, Any] = {}
    if RIVALS[name] is PGExpLink and subject.train_links is not None:
        more["train_links"] = subject.train_links
    explainer: PaGELink = make_rival(
        name, subject.model, subject.data, subject.link_type, asked_settings(name, count), seed,
        threshold=None, options=options_of(name, quick), **more,
    )  # fmt: skip
    _forget_peak()
    training = None
    if isinstance(explainer, PGExpLink):
        started = time.process_time()
        explainer.fit()
        training = time.process_time() - started
    if name != "subgraphx":  # compiled and found out once, not for every link; a link of it is dear
        list(explainer.explain_many(pairs[:1]))
    started = time.process_time()
    explanations = list(explainer.explain_many(pairs))
    cpu = (time.process_time() - started) / len(pairs)
    ranked = fact_paths(explainer, explanations)
    paths = {n: [of_link[:n] for of_link in ranked] for n in COUNTS if n <= count}
    return Answer(explanations, paths, cpu, training, _peak_mb())


def _forget_peak() -> None:
    """Let the kernel count the peak anew; elsewhere than on Linux there is no such file."""
    file = Path("/proc/self/clear_refs")
    if file.exists():
        try:
            file.write_text("5")
        except OSError:  # not allowed in this place: the peak is that of the whole process then
            return


def _peak_mb() -> float | None:
    file = Path("/proc/self/status")
    if not file.exists():
        return None
    for line in file.read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    return None
