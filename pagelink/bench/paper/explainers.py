"""Part `explainers`: every explainer of the registry on the paper's data sets, by all figures."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from pagelink.bench.faithfulness.measures import measure, supportable
from pagelink.bench.faithfulness.rankings import COUNTS, MAIN
from pagelink.bench.paper.answers import DEFAULT, ask, described, links_of, options_of, seeds_of
from pagelink.bench.paper.measures import link_figures, mask_figures, plain, plain_list, summed_up
from pagelink.bench.paper.plan import PER_LINK, Plan, Progress
from pagelink.bench.paper.stage import Stage, stages
from pagelink.bench.runs import Figures, Run, RunStore
from pagelink.datasets.folders import DataNotFoundError
from pagelink.metrics.averages import bootstrap_interval, filled
from pagelink.rivals.greedy import MOST_PATHS, greedy_search
from pagelink.rivals.ground import Ranked
from pagelink.rivals.registry import RIVALS

PART = "explainers"
GREEDY, INTERVALS = "greedy search", "against the default"
VISIBLE = "visible edges alone"
"""Edges that can move the score have mask 1, the others 0. A mask predictor that is hardly trained
comes close to this row, so that a mask ROC-AUC below it says nothing for an explainer."""
EFFECT = f"effect@{MAIN}"


def run(store: RunStore, plan: Plan, progress: Progress) -> None:
    """Do all runs of the part."""
    for stage in stages(plan):
        try:
            run_stage(store, stage, tuple(RIVALS), plan.seed_list, progress, PART)
        except DataNotFoundError as error:
            plan.say(f"{stage.dataset.title} is left out: {error}")


def run_stage(
    store: RunStore,
    stage: Stage,
    names: Sequence[str],
    seeds: Sequence[int],
    progress: Progress,
    part: str,
) -> None:
    """Do the runs of one data set: the bound, every explainer and seed, and their intervals."""
    quick, subject = stage.plan.quick, stage.dataset.name

    def do(what: str, key: Figures, work: Any) -> Run:
        progress(f"{stage.dataset.title}: {what}")
        return store.do(part, f"{subject}, {what}", {**stage.key, "row": what, **key}, work)

    bound = do(GREEDY, {"settings": described(DEFAULT)["settings"]}, lambda: _bound(stage))
    if bound.figures["labelled"]:
        do(VISIBLE, {}, lambda: _visible(stage))
    runs: dict[str, list[Run]] = {}
    for name in names:
        for seed in seeds_of(name, seeds):
            key = {
                "explainer": name, "seed": seed, **described(name, quick),
                "links of it": links_of(name, quick),
            }  # fmt: skip
            done = do(
                f"{name}, seed {seed}", key,
                lambda name=name, seed=seed: explained(stage, name, seed, bound.figures),
            )  # fmt: skip
            runs.setdefault(name, []).append(done)
    if DEFAULT in runs:
        rows = {name: [one.date for one in found] for name, found in runs.items()}
        do(INTERVALS, {"runs": rows}, lambda: intervals(runs, bound.figures))


def _bound(stage: Stage) -> Figures:
    """The greedy search over all paths: the measure of the others, and a row of its own."""
    started = time.process_time()
    paths: dict[int, Ranked] = {count: [] for count in COUNTS}
    rows: dict[str, list[float]] = {f"effect@{count}": [] for count in COUNTS}
    rows["added"] = []
    flags: list[bool] = []
    tried, exhaustive = 0, 0
    for number, ground in enumerate(stage.grounds):
        most = 200 if stage.plan.quick else MOST_PATHS
        search = greedy_search(ground, max(COUNTS), most)
        best = {count: search.best(count) for count in COUNTS}
        for count in COUNTS:
            paths[count] += best[count]
            rows[f"effect@{count}"] += search.effects(count).tolist()
        measured, _ = measure(ground, best, search.effects(MAIN), None, 0)
        rows["added"] += measured["added"].tolist()
        tried += int(search.num_paths.sum())
        exhaustive += int(search.exhaustive.sum())
        if stage.labels is not None:
            flags += supportable(ground, stage.labels[number]).tolist()
    seconds = time.process_time() - started
    per_link, verdicts = link_figures(stage, paths, None, np.array(rows[EFFECT]), 0)
    size = len(stage.subject.pairs)
    known: dict[str, Any] = {**rows, **({"supportable": flags} if flags else {})}
    separations = stage.subject.separations
    return {
        "row": GREEDY,
        "labelled": stage.labels is not None,
        **summed_up(per_link, verdicts, [None] * size, known),
        "cpu": plain(seconds / size),
        "paths a link": plain(tried / size),
        "links exhaustive": exhaustive,
        "links not positive": int((np.array(rows[EFFECT]) <= 0).sum()),
        "model auc": plain(separations.auc),
        "model auc without edges": plain(separations.edgeless_auc),
        PER_LINK: {name: plain_list(values) for name, values in known.items()},
    }


def _visible(stage: Stage) -> Figures:
    """A mask that only knows which edges can move the score at all."""
    found = []
    for number, ground in enumerate(stage.grounds):
        masks = np.split(ground.batch.visible.astype(np.float64), ground.batch.edge_ptr[1:-1])
        for mask, labelled in zip(masks, stage.label_positions[number], strict=True):
            found.append(mask_figures(mask, labelled))
    means = {name: plain(float(np.mean([one[name] for one in found]))) for name in found[0]}
    return {"row": VISIBLE, "links": len(found), **means}


def explained(stage: Stage, name: str, seed: int, bound: Figures) -> Figures:
    """Explain all links with one explainer and seed, and measure the answers."""
    quick = stage.plan.quick
    answer = ask(stage.subject, name, seed, quick)
    known = bound[PER_LINK]
    rows, verdicts = link_figures(
        stage, answer.paths, answer.explanations, np.array(known[EFFECT]), seed,
        links_of(name, quick),
    )  # fmt: skip
    reasons = [explanation.reason for explanation in answer.explanations]
    return {
        "row": name,
        "options": options_of(name, quick),
        **summed_up(rows, verdicts, reasons, known),
        "cpu": plain(answer.cpu),
        "training": None if answer.training is None else plain(answer.training),
        "peak MB": None if answer.peak_mb is None else round(answer.peak_mb),
        PER_LINK: {figure: plain_list(values) for figure, values in rows.items()},
    }


def intervals(runs: dict[str, list[Run]], bound: Figures) -> Figures:
    """The share of greedy at `MAIN` paths, and its difference to the default, over links.

    An explainer's effect on a link is the mean over its seeds. The bootstrap is paired: links are
    drawn, and both explainers are looked at on the same ones.
    """

    def effects(name: str) -> np.ndarray[Any, np.dtype[np.float64]]:
        found = [filled(one.figures[PER_LINK][EFFECT], unanswered=0.0) for one in runs[name]]
        means: np.ndarray[Any, np.dtype[np.float64]] = np.mean(found, axis=0)
        return means

    greedy_effects, default = np.array(bound[PER_LINK][EFFECT]), effects(DEFAULT)
    rows: Figures = {}
    for name in runs:
        own = effects(name)
        size = len(own)
        over = greedy_effects[:size]
        difference = own - default[:size]
        total = float(over.sum())
        rows[name] = {
            "links": size,
            "share": _with_interval(own, over, total),
            "minus default": _with_interval(difference, over, total),
        }
    return {"row": INTERVALS, "rows": rows}


def _with_interval(
    values: np.ndarray[Any, np.dtype[np.float64]],
    over: np.ndarray[Any, np.dtype[np.float64]],
    total: float,
) -> list[float | None]:
    if total <= 0:
        return [None, None, None]
    low, high = bootstrap_interval(values, seed=0, over=over)
    return [plain(float(values.sum()) / total), plain(low), plain(high)]
