"""The part `planted`: explainers on models of hand-set weights, of which it is known what they use.

One run per mechanism and explainer, kept as a file: what was done is not done again.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from pagelink.bench.measures import with_interval
from pagelink.bench.paper.report import Table, say_tables
from pagelink.bench.runs import (
    Figures,
    Run,
    RunStore,
    cell,
    check_names,
    interval_cell,
    plain,
    shown_progress,
)
from pagelink.datasets.mechanisms import HELD_OUT, MECHANISMS, PLANS, Mechanism, make_mechanism
from pagelink.explain.result import Explanation
from pagelink.rivals.registry import make_rival
from pagelink.settings import Settings

NAME = "planted"
LINKS, QUICK_LINKS = 300, 6
QUICK_MECHANISMS = ("metapath", "popularity")
DEFAULT = "default"
EXPLAINERS = {
    DEFAULT: "pagelink", "paper": "paper", "gnnexp": "gnnexp", "gradient": "gradient",
    "degree": "degree", "random": "random-paths",
}  # fmt: skip
"""The rows, and what the registry calls them. All are measured, so that all have a verdict."""
SETTINGS = Settings(strongest=False, what_else=False)
"""Of all rows and mechanisms, but for `max_length` where a plan has one: where it has none, also if
the used path has more facts."""
FIRST, EVIDENCE, VERDICT = "right first path", "no unused path as evidence", "right verdict"
FIGURES = (FIRST, EVIDENCE, VERDICT)


def run_and_print(
    out: Path,
    console: Console,
    *,
    links: int = LINKS,
    seed: int = 0,
    quick: bool = False,
    explainers: Sequence[str] = (),
) -> list[Run]:
    """Run explainers on all mechanisms, or what is left of it, print and write the tables.

    Args:
        out: folder for the runs and the tables.
        console: where to print.
        links: number of links per mechanism.
        seed: of the graphs, the explainers and the intervals.
        quick: few links, few mechanisms.
        explainers: the rows to run; all if empty.

    Raises:
        SettingsError: there is no such row.
    """
    rows = check_names("explainer", explainers, EXPLAINERS)
    links = min(links, QUICK_LINKS) if quick else links
    mechanisms = QUICK_MECHANISMS if quick else MECHANISMS
    store, runs = RunStore(out / "runs"), []
    with shown_progress(console) as step:
        for number, name in enumerate(mechanisms, start=1):
            step(f"{NAME}: {name} ({number} of {len(mechanisms)})")
            runs += run_mechanism(store, name, links, seed, rows)
    say_tables(tables(runs), out, NAME, console, quick=quick, seed=seed)
    return runs


def run_mechanism(
    store: RunStore, name: str, links: int, seed: int, explainers: Sequence[str]
) -> list[Run]:
    """The runs of explainers on one mechanism; those that are stored are not done again.

    Args:
        store: where runs are kept.
        name: the mechanism.
        links: number of links.
        seed: of the graph, the explainers and the intervals.
        explainers: which of `EXPLAINERS`.
    """
    most = PLANS[name].max_length
    settings = SETTINGS if most is None else SETTINGS.replace(max_length=most, longer=False)

    def explained(explainer: str) -> Figures:
        mechanism = make_mechanism(name, links, seed)
        rival = make_rival(
            EXPLAINERS[explainer], mechanism.model, mechanism.data, mechanism.schema.link_type,
            settings, seed, threshold=None,
        )  # fmt: skip
        return judged(mechanism, list(rival.explain_many(mechanism.pairs)), seed)

    runs = []
    for explainer in explainers:
        key = {
            "mechanism": name, "explainer": explainer, "links": links, "seed": seed,
            "settings": settings.to_dict(),
        }  # fmt: skip
        runs.append(store.do(NAME, f"{name} {explainer}", key, partial(explained, explainer)))
    return runs


def judged(mechanism: Mechanism, explanations: Sequence[Explanation], seed: int) -> Figures:
    """The figures of an explainer on the links of a mechanism, with intervals.

    Args:
        mechanism: what is right.
        explanations: one per link.
        seed: of the intervals.

    Returns:
        Of each figure `value`, `low` and `high` (95 % bootstrap over links), None where it has no
        meaning; the verdicts, by how many links have them; tau; and how often which path is first.
    """
    both = list(zip(mechanism.links, explanations, strict=True))
    given = Counter("none" if e.evidence is None else e.evidence.verdict for _, e in both)
    first = Counter(
        " ".join(edge.type[1] for edge in e.paths[0].edges) if e.paths else "none" for _, e in both
    )
    return {
        FIRST: _share([link.first_is_right(answer) for link, answer in both], seed),
        EVIDENCE: _share([link.evidence_is_right(answer) for link, answer in both], seed),
        VERDICT: _share([link.verdict_is_right(answer) for link, answer in both], seed),
        "verdicts": dict(given.most_common()),
        "first paths": dict(first.most_common()),
        "noise": plain(max((e.noise for e in explanations), default=math.nan)),
    }


def _share(right: Sequence[bool | None], seed: int) -> dict[str, float] | None:
    if None in right:
        return None
    values = np.array(right, dtype=np.float64)
    found = with_interval(values, np.ones(len(values)), seed)
    return dict(zip(("value", "low", "high"), found, strict=True))


def tables(runs: Iterable[Run]) -> list[Table]:
    """The tables of some runs: the default with intervals, and each figure for all explainers."""
    found = {(run.key["mechanism"], run.key["explainer"]): run for run in runs}
    names = [name for name in MECHANISMS if any(name == of for of, _ in found)]
    if not names:
        return []
    some = next(iter(found.values()))
    apart = [f"{PLANS[name].max_length} in {name}" for name in names if PLANS[name].max_length]
    note = (
        f"{some.key['links']} links per mechanism, seed {some.key['seed']}, paths of at most "
        f"{SETTINGS.max_length} facts for all{''.join(f', {each}' for each in apart)}. "
    )

    def figure(name: str, explainer: str, key: str) -> dict[str, Any]:
        run = found.get((name, explainer))
        return (run.figures[key] if run else None) or dict.fromkeys(("value", "low", "high"))

    def row(name: str) -> tuple[str, ...]:
        run = found.get((name, DEFAULT))
        wrong = [] if run is None else [
            f"{verdict} {count}" for verdict, count in run.figures["verdicts"].items()
            if verdict != PLANS[name].verdict
        ]  # fmt: skip
        cells = [interval_cell(**figure(name, DEFAULT, key)) for key in FIGURES]
        return (name, *cells, PLANS[name].verdict, ", ".join(wrong) or "-")

    columns = ("", *FIGURES, "the right one", "others given")
    known = [name for name in names if name not in HELD_OUT]
    held_out = [name for name in names if name in HELD_OUT]
    shown = [
        Table(
            f"{title}, the default", columns, [row(name) for name in of],
            note + "Shares of links with 95 % intervals; a dash where no path is right as a path.",
        )
        for title, of in (("Planted mechanisms", known), ("Held-out mechanisms", held_out)) if of
    ]  # fmt: skip
    for key in FIGURES:
        of_key = [
            (name, *(cell(figure(name, explainer, key)["value"]) for explainer in EXPLAINERS))
            for name in names
        ]
        shown.append(Table(f"All explainers: {key}", ("", *EXPLAINERS), of_key, note.strip()))
    return shown
