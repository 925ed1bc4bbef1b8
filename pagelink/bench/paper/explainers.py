"""Part `explainers`: every explainer of the registry on the paper's data sets, by all figures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pagelink.bench.answers import (
    COUNTS,
    DEFAULT,
    MAIN,
    MOST,
    Answer,
    ask,
    described,
    links_of,
    options_of,
    seeds_of,
    settings_of,
)
from pagelink.bench.measures import (
    EFFECT,
    PerLink,
    against_labels,
    joined,
    mask_scores,
    masks_against_labels,
    measure,
    shapes,
    summed_up,
    supportable,
    with_interval,
)
from pagelink.bench.paper.plan import PER_LINK, Dataset, Session
from pagelink.bench.power_link import RANKED_LINKS, rank_falls, soft_masks
from pagelink.bench.runs import Figures, Run, plain, plain_list, timed
from pagelink.metrics.averages import filled
from pagelink.rivals.greedy import greedy_search
from pagelink.rivals.ground import Ranked
from pagelink.rivals.registry import RIVALS
from pagelink.runtime.arrays import Doubles

NAME = "explainers"
BOUND, INTERVALS = "greedy search", "against the default"
VISIBLE = "visible edges alone"
"""Edges that can move the score have mask 1, the others 0. A mask predictor that is hardly trained
comes close to this row, so that a mask ROC-AUC below it says nothing for an explainer."""


def each(session: Session, dataset: Dataset) -> None:
    """Do the runs of one data set with all explainers."""
    compare(session, dataset, session.plan.chosen(RIVALS), session.plan.seed_list)


def compare(session: Session, dataset: Dataset, names: Sequence[str], seeds: Sequence[int]) -> None:
    """Do the runs of one data set: the bound, every explainer and seed, and their intervals."""
    quick = session.plan.quick

    def do(row: str, key: Figures, work: Callable[..., Figures], *given: Any) -> Run:
        return session.do(
            f"{dataset.name}, {row}", {**dataset.key, "row": row, **key}, work, *given
        )

    bound = do(BOUND, {"settings": described(DEFAULT)["settings"]}, _bound, dataset)
    if bound.figures["labelled"]:
        do(VISIBLE, {}, _visible, dataset)
    runs: dict[str, list[Run]] = {name: [] for name in names}
    for name in names:
        own = {
            "explainer": name, **described(name, quick, dataset.name),
            "links of it": links_of(name, quick),
        }  # fmt: skip
        for seed in seeds_of(name, seeds):
            key = {**own, "seed": seed}
            done = do(f"{name}, seed {seed}", key, explained, dataset, name, seed, bound.figures)
            runs[name].append(done)
    if DEFAULT in runs:
        rows = {name: [one.date for one in found] for name, found in runs.items()}
        do(INTERVALS, {"runs": rows}, intervals, runs, bound.figures)


def link_figures(
    dataset: Dataset, answer: Answer, greedy: Doubles, seed: int, links: int | None = None
) -> tuple[PerLink, list[str]]:
    """Measure one explainer on every link.

    Args:
        dataset: the model and its links.
        answer: what the explainer returned.
        greedy: [num_links], the effect of the greedy search at `MAIN` paths.
        seed: of the control pairs.
        links: only this number of links. None: all.

    Returns:
        By figure, one number per link; and the verdicts.
    """
    parts: list[PerLink] = []
    verdicts: list[str] = []
    for ground, here in dataset.cut(links):
        paths = {count: answer.paths[count][here] for count in COUNTS}
        labels = None if dataset.labels is None else dataset.labels[here]
        rows, said = measure(ground, paths, greedy[here], labels, seed)
        scores = mask_scores(ground, answer.explanations[here])
        rows |= shapes(ground, paths[MAIN], rows, scores)
        rows |= rank_falls(ground, paths[MOST], RANKED_LINKS - here.start)
        if scores:
            rows |= soft_masks(ground, scores)
        if labels is not None:
            rows |= against_labels(paths[MOST], labels)
            if scores:
                rows |= masks_against_labels(scores, dataset.label_positions[here])
        parts.append(rows)
        verdicts += said
    return joined(parts), verdicts


def _bound(dataset: Dataset) -> Figures:
    """The greedy search over all paths: the measure of the others, and a row of its own."""
    paths: dict[int, Ranked] = {count: [] for count in COUNTS}
    parts: list[PerLink] = []

    def search() -> None:
        for ground, here in dataset.cut():
            found = greedy_search(ground, MOST, dataset.greedy_paths)
            best = {count: found.best(count) for count in COUNTS}
            for count in COUNTS:
                paths[count] += best[count]
            rows = {f"effect@{count}": found.effects(count) for count in COUNTS}
            rows["added"] = measure(ground, best, rows[EFFECT], None, 0)[0]["added"]
            rows["tried"] = found.num_paths.astype(np.float64)
            rows["exhaustive"] = found.exhaustive.astype(np.float64)
            if dataset.labels is not None:
                rows["supportable"] = supportable(ground, dataset.labels[here]).astype(np.float64)
            parts.append(rows)

    _, seconds = timed(search)
    known = joined(parts)
    tried, exhaustive = known.pop("tried"), known.pop("exhaustive")
    per_link, verdicts = link_figures(dataset, Answer(paths, seconds), known[EFFECT], 0)
    separations = dataset.subject.separations
    return {
        "row": BOUND,
        "labelled": dataset.labels is not None,
        **summed_up(per_link, verdicts, [None] * len(verdicts), known),
        "cpu": plain(seconds / len(verdicts)),
        "paths a link": plain(float(tried.mean())),
        "links exhaustive": int(exhaustive.sum()),
        "links not positive": int((known[EFFECT] <= 0).sum()),
        "model auc": plain(separations.auc),
        "model auc without edges": plain(separations.edgeless_auc),
        PER_LINK: {name: plain_list(values) for name, values in known.items()},
    }


def _visible(dataset: Dataset) -> Figures:
    """A mask that only knows which edges can move the score at all."""
    masks = [
        mask
        for ground in dataset.grounds
        for mask in np.split(ground.batch.visible.astype(np.float64), ground.batch.edge_ptr[1:-1])
    ]
    found = masks_against_labels(masks, dataset.label_positions)
    means = {name: plain(float(values.mean())) for name, values in found.items()}
    return {"row": VISIBLE, "links": len(masks), **means}


def explained(dataset: Dataset, name: str, seed: int, bound: Figures) -> Figures:
    """Explain all links with one explainer and seed, and measure the answers."""
    quick = dataset.plan.quick
    answer = ask(dataset.subject, name, settings_of(name), seed, quick=quick)
    known = bound[PER_LINK]
    rows, verdicts = link_figures(
        dataset, answer, np.array(known[EFFECT]), seed, links_of(name, quick)
    )
    reasons = [explanation.reason for explanation in answer.explanations]
    return {
        "row": name,
        "options": options_of(name, quick, dataset.name),
        **summed_up(rows, verdicts, reasons, known),
        "cpu": plain(answer.cpu / len(reasons)),
        "training": None if answer.training is None else plain(answer.training),
        "peak MB": None if answer.peak_mb is None else round(answer.peak_mb),
        PER_LINK: {figure: plain_list(values) for figure, values in rows.items()},
    }


def intervals(runs: dict[str, list[Run]], bound: Figures) -> Figures:
    """The share of greedy at `MAIN` paths, and its difference to the default, over links.

    An explainer's effect on a link is the mean over its seeds. The bootstrap is paired: links are
    drawn, and both explainers are looked at on the same ones.
    """
    effects: dict[str, Doubles] = {
        name: np.mean(
            [filled(one.figures[PER_LINK][EFFECT], unanswered=0.0) for one in found], axis=0
        )
        for name, found in runs.items()
    }
    default, rows = effects[DEFAULT], {}
    for name, own in effects.items():
        over = np.array(bound[PER_LINK][EFFECT])[: len(own)]
        rows[name] = {
            "links": len(own),
            "share": plain_list(with_interval(own, over)),
            "minus default": plain_list(with_interval(own - default[: len(own)], over)),
        }
    return {"row": INTERVALS, "rows": rows}
