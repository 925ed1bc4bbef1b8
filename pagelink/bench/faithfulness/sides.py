"""The part `sides`: what paths do when they are removed, and when they are all that is there.

On the released weights, for every rho: the effect of removing the returned paths from G as a share
of that of the greedy removal, what they add to G0 as a share of that of the greedy gain, and how
often a labelled path is among them. Few paths are best at both, so this is a frontier. Two further
rows know the labels: of all sets that are worth enough they take one with a labelled path, if there
is one. No choice among these sets can have more labelled paths.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from pagelink.bench.answers import DEFAULT, MAIN, ask, make_explainer
from pagelink.bench.measures import label_facts, labelled, supportable, with_interval
from pagelink.bench.paper.report import Table, say_tables
from pagelink.bench.runs import (
    Figures,
    Run,
    RunStore,
    cell,
    interval_cell,
    plain,
    plain_list,
    shown_progress,
)
from pagelink.bench.subjects import RELEASED, Subject, load_subject
from pagelink.measure.path_sets import PathSets
from pagelink.measure.verdict import VERDICTS
from pagelink.measure.worth import counts, shares, worths
from pagelink.rivals.greedy import MOST_PATHS, all_paths, greedy_search
from pagelink.rivals.ground import FactPath, Ground, Ranked, facts_of
from pagelink.runtime.arrays import Bools, Doubles, Longs
from pagelink.settings import Settings

NAME = "sides"
QUICK_SUBJECT, QUICK_LINKS, QUICK_PATHS = "tiny-rgcn", 4, 200
RHOS = tuple(sorted({*(round(0.1 * step, 1) for step in range(11)), Settings().rho}))
QUICK_RHOS = (0.0, 0.7, 1.0)
REMOVAL, GAIN = "greedy removal", "greedy gain"
RIVALS = {"degree": "degree", "gradient": "gradient", "random": "random-paths", "paper": "paper"}
"""The rows beside the default and the greedy searches, and what the registry calls them. All are
measured, so that all have a verdict."""
KNOWING, POOL = (0.7, Settings().rho), 12
"""The values of rho of the rows that know the labels. Of a link with more than twice `POOL` paths,
only the labelled ones and the `POOL` best ones by removal and by gain are combined."""
SHARES = ("removal", "gain", "label", "label supportable")
NONE = "none"


def run_and_print(
    out: Path, console: Console, *, links: int | None = None, seed: int = 0, quick: bool = False
) -> list[Run]:
    """Run all rows, or what is left of them; print the frontier and write it.

    Args:
        out: folder for results.
        console: where to print.
        links: number of links at most. None: all.
        seed: of the explainers and the intervals.
        quick: a tiny graph, few values of rho.

    Raises:
        DataNotFoundError: the released data are not there.
    """
    most = 10**6 if links is None else links
    name, most = (QUICK_SUBJECT, min(most, QUICK_LINKS)) if quick else (RELEASED, most)
    subject = load_subject(name, most, seed, out / "subjects")
    with shown_progress(console) as step:
        sides = Sides(subject, seed, QUICK_PATHS if quick else MOST_PATHS)
        runs = sides.runs(RunStore(out / "runs"), QUICK_RHOS if quick else RHOS, step)
    rows = {
        run.key["row"]: {key: value for key, value in run.figures.items() if key != "per link"}
        for run in runs
    }
    say_tables([table(runs)], out, NAME, console, subject=name, quick=quick, seed=seed, rows=rows)
    return runs


class Sides:
    """Measures rows of paths on the links of a subject, on both sides.

    Args:
        subject: the model and its links, which have labels.
        seed: of the explainers and the intervals.
        most_paths: paths of a link that the greedy searches try at most.
    """

    def __init__(self, subject: Subject, seed: int, most_paths: int) -> None:
        self._subject, self._seed, self._most_paths = subject, seed, most_paths

    def runs(
        self, store: RunStore, rhos: Sequence[float], step: Callable[[str], None]
    ) -> list[Run]:
        """Do all rows, the greedy searches first; those that are stored are not done again."""
        subject, seed = self._subject, self._seed
        shared: Figures = {
            "subject": subject.name, "pairs": subject.pairs, "seed": seed, "paths": MAIN,
        }  # fmt: skip
        bounds: dict[str, Run] = {}
        for row in (REMOVAL, GAIN):
            step(f"{NAME}: {row}")
            work = partial(self._greedy, inserted=row == GAIN)
            key = {**shared, "row": row, "most": self._most_paths}
            bounds[row] = store.do(NAME, row, key | {"max_length": Settings().max_length}, work)
        over = self._over(bounds)
        asked = {f"rho = {rho:g}": (DEFAULT, Settings(rho=rho)) for rho in rhos}
        asked |= {row: (explainer, Settings()) for row, explainer in RIVALS.items()}
        found = []
        for row, (explainer, settings) in asked.items():
            step(f"{NAME}: {row}")
            work = partial(self._explained, explainer, settings)
            key = {**shared, "row": row, "settings": settings.to_dict()}
            found.append(store.do(NAME, row, key, work))
        for rho in KNOWING:
            row = f"knows the labels, rho = {rho:g}"
            step(f"{NAME}: {row}")
            key = {**shared, "row": row, "rho": rho, "pool": POOL}
            found.append(store.do(NAME, row, key, partial(self._knowing, rho)))
        return [self._with_shares(run, over) for run in (*found, *bounds.values())]

    @cached_property
    def _grounds(self) -> list[Ground]:
        explainer = make_explainer(self._subject, DEFAULT, Settings(), self._seed)
        return list(Ground.cut(explainer, self._subject.pairs))

    def _labels(self, ground: Ground) -> list[list[FactPath]]:
        labels = self._subject.labels or {}
        return label_facts(ground.explainer.graph, labels, ground.pairs())

    def _greedy(self, *, inserted: bool) -> Figures:
        ranked: Ranked = []
        more: dict[str, list[Any]] = {"exhaustive": [], "supportable": []}
        for ground in self._grounds:
            search = greedy_search(ground, MAIN, self._most_paths, inserted=inserted)
            ranked += search.best(MAIN)
            more["exhaustive"] += search.exhaustive.tolist()
            more["supportable"] += supportable(ground, self._labels(ground)).tolist()
        figures = self._measured(ranked)
        return {"per link": {**figures, **more}}

    def _knowing(self, rho: float) -> Figures:
        ranked: Ranked = []
        for ground in self._grounds:
            ranked += knowing(ground, self._labels(ground), rho, self._most_paths)
        return {"per link": self._measured(ranked)}

    def _explained(self, explainer: str, settings: Settings) -> Figures:
        answer = ask(self._subject, explainer, settings, self._seed, counts=(MAIN,))
        verdicts = [NONE if e.evidence is None else e.evidence.verdict for e in answer.explanations]
        size = len(verdicts)
        shares = {verdict: count / size for verdict, count in Counter(verdicts).items()}
        return {"per link": self._measured(answer.paths[MAIN]), "verdicts": shares}

    def _measured(self, ranked: Ranked) -> dict[str, list[Any]]:
        """Of each link, what its paths do on either side, and whether a labelled one is there."""
        found: dict[str, list[Any]] = {key: [] for key in ("removal", "gain", "label", "paths")}
        first = 0
        for ground in self._grounds:
            here, every = ranked[first : first + ground.num_links], range(ground.num_links)
            facts = [facts_of(paths) for paths in here]
            found["removal"] += plain_list(ground.effects(every, facts))
            found["gain"] += plain_list(ground.gains(every, facts))
            found["label"] += labelled(here, self._labels(ground)).tolist()
            found["paths"] += [len(paths) for paths in here]
            first += ground.num_links
        return found

    @staticmethod
    def _over(bounds: dict[str, Run]) -> dict[str, Doubles]:
        """What each figure is a share of, link by link."""
        of = {row: run.figures["per link"] for row, run in bounds.items()}
        marks = np.array(of[REMOVAL]["supportable"], dtype=np.float64)
        return {
            "removal": np.array(of[REMOVAL]["removal"]), "gain": np.array(of[GAIN]["gain"]),
            "label": np.ones(len(marks)), "label supportable": marks,
        }  # fmt: skip

    def _with_shares(self, run: Run, over: dict[str, Doubles]) -> Run:
        """The same run with its shares of the greedy searches, with intervals over links."""
        links = run.figures["per link"]
        own = {key: np.array(links[key], dtype=np.float64) for key in ("removal", "gain", "label")}
        own["label supportable"] = own["label"] * over["label supportable"]
        shares = {}
        for key in SHARES:
            found = map(plain, with_interval(own[key], over[key], self._seed))
            shares[key] = dict(zip(("value", "low", "high"), found, strict=True))
        run.figures.update(
            shares,
            paths=float(np.mean(links["paths"])),
            links=len(links["paths"]),
            supportable=int(over["label supportable"].sum()),
            not_positive={side: int((over[side] <= 0).sum()) for side in ("removal", "gain")},
        )
        return run


def knowing(
    ground: Ground, labels: Sequence[Sequence[FactPath]], rho: float, most_paths: int
) -> Ranked:
    """Per link, the set of the highest worth of those with a labelled path, if one reaches rho.

    All sets of up to three paths are measured. As in the explainer, every path has to add to the
    others, and a set has to reach rho of the best worth; where none of these has a labelled path,
    it is the best one of all.

    Args:
        ground: the links.
        labels: their labelled paths.
        rho: share of the best worth.
        most_paths: paths of a link that are looked at, at most.
    """
    # 1. Measure all sets of a pool per link, on both sides.
    tried = ground.candidates(all_paths(ground, most_paths)[0])
    every = np.arange(len(tried.lengths))
    paths = [ground.as_facts(tried.arcs[one]) for one in every]
    known = [{*of_link} for of_link in labels]
    is_label = np.array([p in known[i] for p, i in zip(paths, tried.link, strict=True)], dtype=bool)
    edits = tried.removal(tried.link, every[:, None])
    alone = ground.effects_of(edits), ground.gains_of(edits)
    pools = [
        _pool(every[first:last], is_label, alone)
        for first, last in zip(tried.ptr[:-1], tried.ptr[1:], strict=True)
    ]
    padded = np.full((len(pools), max(1, *map(len, pools))), -1)
    for link, pool in enumerate(pools):
        padded[link, : len(pool)] = pool
    sets = PathSets(tried, padded, MAIN)
    edits = sets.edits(sets.valid)
    effect, gain = np.full((2, *sets.valid.shape), -np.inf)
    effect[sets.valid], gain[sets.valid] = ground.effects_of(edits), ground.gains_of(edits)

    # 2. Of those that are worth enough take one with a labelled path.
    noise = ground.explainer.setup.noise
    share = shares(effect, gain, sets.without_each(effect), sets.without_each(gain), noise)
    worth = worths(effect, gain, effect.max(1), gain.max(1), noise)
    worth = np.where(sets.valid & counts(share).all(2), worth, -1.0)
    enough = worth >= rho * worth.max(1, keepdims=True)
    has_label = np.append(is_label, False)[sets.members].any(2)
    chosen = np.argmax(np.where(enough & has_label, 2.0, 0.0) + worth, axis=1)
    return [
        [paths[one] for one in sets.members[link, place] if one >= 0]
        for link, place in enumerate(chosen)
    ]


def _pool(candidates: Longs, is_label: Bools, alone: tuple[Doubles, Doubles]) -> Longs:
    """The candidates of a link that are combined."""
    if len(candidates) <= 2 * POOL:
        return candidates
    best = [candidates[np.argsort(-values[candidates])[:POOL]] for values in alone]
    return np.unique(np.concatenate([candidates[is_label[candidates]], *best]))


def table(runs: Sequence[Run]) -> Table:
    """The frontier over rho, with the other rows below it."""
    given = {verdict for run in runs for verdict in run.figures.get("verdicts", {})}
    verdicts = [verdict for verdict in (*VERDICTS, NONE) if verdict in given]
    rows = []
    for run in runs:
        shares = [interval_cell(**run.figures[key]) for key in SHARES]
        of_run = run.figures.get("verdicts")
        said = [cell(of_run.get(verdict, 0.0) if of_run else math.nan, 2) for verdict in verdicts]
        rows.append((run.key["row"], *shares, cell(run.figures["paths"], 2), *said))
    some = runs[0].figures
    not_exhaustive = [
        sum(not tried for tried in run.figures["per link"].get("exhaustive", [])) for run in runs
    ]
    return Table(
        f"Removal and gain: {runs[0].key['subject']}",
        ("", "removal", "gain", "label in 3", "supportable", "paths", *verdicts),
        rows,
        f"{some['links']} links, {some['supportable']} of them supportable, seed "
        f"{runs[0].key['seed']}. removal: effect of removing the paths as a share of that of the "
        "greedy removal; gain: what they add to G0 as a share of that of the greedy gain; both as "
        "ratios of sums with 95 % intervals over links. Greedy removal is not positive for "
        f"{some['not_positive']['removal']} links, greedy gain for "
        f"{some['not_positive']['gain']}; of {max(not_exhaustive)} links not all paths were tried. "
        "label in 3: a labelled path is among the paths, over all and over supportable links.",
    )
