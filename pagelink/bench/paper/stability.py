"""Part `stability`: do the same paths come back with another seed, and with a model trained anew?

Explainer seeds say how much of an explanation is chance; retrained models how much of it belongs to
one model. A ranking that never looks at the model is perfectly stable, so its row stands beside the
others, and so does what removing the paths does to the rank of the target.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pagelink.bench.answers import make_explainer, options_of, settings_of
from pagelink.bench.paper.plan import (
    DATA_SEED,
    PER_LINK,
    TITLES,
    Dataset,
    Part,
    Session,
    by_dataset,
)
from pagelink.bench.paper.report import Table
from pagelink.bench.runs import Figures, Run, cell
from pagelink.bench.subjects import RELEASED, Subject, trained
from pagelink.explain.explainer import PaGELink
from pagelink.explain.ranking import open_ends, rank_among
from pagelink.graph.links import Link
from pagelink.metrics.averages import average
from pagelink.metrics.paths import stability
from pagelink.metrics.worth import rank_drop, reciprocal_rank_drop
from pagelink.models.link_model import LinkModel
from pagelink.rivals.ground import FactPath, fact_paths, facts_of
from pagelink.rivals.registry import RIVALS
from pagelink.runtime.arrays import Longs

NAME = "stability"
REMOVED = (1, 3)
MODELS = (0, 1, 2)
"""Seeds of the weights and of the training; data, split and links are the same for all."""
LINKS, SLOW_LINKS, QUICK_LINKS = 50, 10, 3
SLOW = ("subgraphx", "pgexp", "pgexp-released")
"""Left out but on UserItemAttr: a search or a training on larger graphs takes most of an hour."""
RANKED = 100
"""Targets that a target is ranked among."""


def retrained(subject: Subject, seed: int, folder: Path) -> LinkModel:
    """Return the subject's kind of model, trained with another seed on the same links."""
    if seed == DATA_SEED:
        return subject.model
    whole, settings = subject.whole, subject.settings
    assert whole is not None
    assert settings is not None  # subjects without these are not retrained
    file, kind = folder / f"{subject.name}-model{seed}.pt", subject.name.split("-", 1)[1]
    settings = dataclasses.replace(settings, retrain_edgeless=False)
    return trained(file, kind, whole, subject.link_type, settings, seed, DATA_SEED).model


def filtered_targets(explainer: PaGELink, link: Link, known: Iterable[int], seed: int) -> Longs:
    """Return a seeded sample of targets, the link's own among them, other true ones left out.

    Args:
        explainer: of the graph.
        link: the link.
        known: targets of all true links of the source, by index.
        seed: of the sample.
    """
    graph = explainer.graph
    true = [graph.flat_index(link.type[2], index) for index in known]
    targets = open_ends(graph, link, true)
    others = targets[targets != link.dst]
    pair = graph.node(link.src)[1], graph.node(link.dst)[1]
    rng = np.random.default_rng((seed, *pair))
    drawn = rng.choice(others, min(RANKED - 1, len(others)), replace=False)
    return np.sort(np.append(drawn, link.dst)).astype(np.int64)


def each(session: Session, dataset: Dataset) -> None:
    """Explain the same links with several seeds and several models."""
    if dataset.name == RELEASED:  # its model cannot be trained anew
        return
    plan, subject = session.plan, dataset.subject
    wanted = [(DATA_SEED, seed) for seed in range(max(plan.seeds, 2))]  # one says nothing here
    wanted += [(model, 0) for model in MODELS if model != DATA_SEED]
    done: dict[str, list[Run]] = {}
    for model_seed, seed in wanted:
        model = retrained(subject, model_seed, plan.models)
        for name in RIVALS:
            if name in SLOW and not subject.name.startswith(("useritemattr", "tiny")):
                continue
            count = QUICK_LINKS if plan.quick else SLOW_LINKS if name == "subgraphx" else LINKS
            mine = dataclasses.replace(subject, model=model, pairs=subject.pairs[:count])
            key = dataset.key_of(
                count, label=name, model=model_seed, seed=seed,
                options=options_of(name, plan.quick, dataset.name),
            )  # fmt: skip
            run_name = f"{subject.name} {name} model {model_seed} seed {seed}"
            given = mine, name, seed, plan.quick, (model_seed, seed) == (0, 0)
            done.setdefault(name, []).append(session.do(run_name, key, _figures, *given))
    for name, runs in done.items():
        key = {"data": subject.name, "label": name, "of": [one.date for one in runs]}
        session.do(f"{subject.name} {name} summary", key, summary, runs)


def _figures(subject: Subject, name: str, seed: int, quick: bool, ranked: bool) -> Figures:
    explainer = make_explainer(subject, name, settings_of(name), seed, quick)
    paths = fact_paths(explainer, explainer.explain_many(subject.pairs))
    single: dict[str, Any] = {"paths": paths}
    if ranked:
        single |= _ranks(subject, explainer, paths)
    return {"links": len(paths), PER_LINK: single}


def _ranks(
    subject: Subject, explainer: PaGELink, paths: Sequence[Sequence[FactPath]]
) -> dict[str, Any]:
    """Ranks of the target before, and without the first m paths; None without any path."""
    assert subject.whole is not None
    true: dict[int, list[int]] = {}
    for src, dst in subject.whole[subject.link_type].edge_index.T.tolist():
        true.setdefault(src, []).append(dst)
    before: list[int] = []
    after: dict[str, list[int | None]] = {str(m): [] for m in REMOVED}
    for pair, found in zip(subject.pairs, paths, strict=True):
        link = explainer.reader.read(pair)
        targets = filtered_targets(explainer, link, true.get(pair[0], []), DATA_SEED)
        own = int(np.searchsorted(targets, link.dst))
        sets: list[Sequence[int]] = [(), *(facts_of(found[:m]) for m in REMOVED)]
        scores = explainer.target_scores(link)
        ranks = [rank_among(row, own) for row in scores.logits(targets, sets)]
        before.append(ranks[0])
        for m, rank in zip(REMOVED, ranks[1:], strict=True):
            after[str(m)].append(rank if found else None)
    return {"rank": before, "rank_without": after}


def mean_stability(runs: Sequence[Run]) -> float | None:
    """Mean over the links of the mean pairwise Jaccard of the paths of several runs."""
    if len(runs) < 2:
        return None
    per_link = zip(*(run.figures[PER_LINK]["paths"] for run in runs), strict=True)
    values = [
        stability([{tuple(path) for path in paths} for paths in of_link]) for of_link in per_link
    ]
    return average(values, unanswered=0.0).value


def summary(runs: Sequence[Run]) -> Figures:
    """The figures of one explainer over its runs; the first of them has the ranks."""
    single = runs[0].figures[PER_LINK]
    before, after = single["rank"], single["rank_without"]
    seeds = [run for run in runs if run.key["model"] == DATA_SEED]
    models = [run for run in runs if run.key["seed"] == 0]
    drops = {
        f"{words} without {m}": average(drop(before, after[str(m)]), unanswered=0.0).value
        for m in REMOVED
        for words, drop in (("rank", rank_drop), ("1/rank", reciprocal_rank_drop))
    }
    return {
        "links": len(before), "num_seeds": len(seeds), "rank": float(np.mean(before)),
        "over seeds": mean_stability(seeds), "over models": mean_stability(models), **drops,
    }  # fmt: skip


def tables(runs: Sequence[Run]) -> Iterator[Table]:
    """A table for each data set."""
    for data, of_data in by_dataset(runs).items():
        mine = {run.key["label"]: run.figures for run in of_data if "over seeds" in run.figures}
        drops = [f"{words} without {m}" for m in REMOVED for words in ("rank", "1/rank")]
        columns = ("over seeds", "over models", "rank", *drops)
        rows = [
            (name, str(mine[name]["links"]), *(cell(mine[name][column]) for column in columns))
            for name in RIVALS
            if name in mine
        ]
        if rows:
            seeds = max(figures["num_seeds"] for figures in mine.values())
            yield Table(
                f"Stability of three paths, {TITLES[data]}", ("explainer", "links", *columns),
                rows,
                f"Mean pairwise Jaccard of the returned paths over {seeds} explainer seeds, "
                f"and over {len(MODELS)} models trained with other seeds on the same links. "
                f"Mean rank of the target among {RANKED}, true links left out, and how far "
                "rank and reciprocal rank fall without the facts of the first m paths.",
            )  # fmt: skip


PART = Part(NAME, "Stability over seeds and models, and ranks", tables, each)
