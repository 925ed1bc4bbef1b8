"""All rivals on the paper's released data and weights, scored by its labels as PaGELink is."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from pagelink.baselines.pgexp import PGExpLink
from pagelink.baselines.registry import RIVALS, make_rival
from pagelink.datasets.reference import ReferenceData
from pagelink.evaluation.reference_bench import FIRST, Progress, Row, Scorer
from pagelink.explainer import PaGELink
from pagelink.settings import Settings

VISIBLE = "visible edges alone"
"""Edges that can move the score have mask 1, the others 0. A mask predictor that is hardly trained
comes close to this row, so that a mask ROC-AUC below it says nothing for an explainer."""


def run_rivals(
    reference: ReferenceData,
    names: Sequence[str] = tuple(RIVALS),
    seeds: Sequence[int] = (0,),
    progress: Progress = lambda name: None,
    links: int | None = None,
    options: Mapping[str, Mapping[str, Any]] | None = None,
) -> list[Row]:
    """Explain the predicted test links with every rival and seed; return the rows of the table.

    Nothing is measured on the model beyond what a rival does by itself. PGExp-Link is trained on
    the released training links; `training` has its CPU seconds, `cpu` those of a link.

    Args:
        reference: the released data.
        names: of rivals.
        seeds: explainer seeds.
        progress: called with the name of each rival and seed when it is done.
        links: only the first so many links. None: all.
        options: by rival, what is its own.
    """
    pairs = reference.test_links[:links]
    settings = Settings(num_paths=max(FIRST), measure=False)
    given = reference.model, reference.data, reference.link_type, settings
    scorer = Scorer(PaGELink(*given), reference, pairs)
    rows = []
    for name in names:
        figures = []
        for seed in seeds:
            more: dict[str, Any] = {"options": (options or {}).get(name)}
            if name == PGExpLink.name:
                more["train_links"] = [(int(s), int(t)) for s, t in reference.split.train.T]
            explainer = make_rival(name, *given, seed, **more)
            started = time.process_time()
            trained = {}
            if isinstance(explainer, PGExpLink):
                explainer.fit()
                trained = {"training": time.process_time() - started}
                started = time.process_time()
            explanations = list(explainer.explain_many(pairs))
            seconds = (time.process_time() - started) / len(pairs)
            figures.append({**scorer.score(explanations), "cpu": seconds, **trained})
            progress(f"{name}, seed {seed}")
        rows.append(Row(name, tuple(figures)))
    return [*rows, Row(VISIBLE, (scorer.score_visible(),))]
