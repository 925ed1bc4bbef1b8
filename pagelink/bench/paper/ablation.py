"""Part `ablation`: what each piece of the method is for, with the row that needs none of them.

Masks are scored against the labels (ROC-AUC, hit rates), and so are the first three paths; beside
these stands what the same three paths are worth to the model: how far its logit falls without them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from pagelink.bench.paper.ground import (
    TITLES,
    Effects,
    key_of,
    labels_of,
    paper_settings,
    subjects,
    told,
)
from pagelink.bench.paper.plan import PER_LINK, Part, Plan, Progress, Table, mean_cell
from pagelink.bench.paper.reference import BUDGETS
from pagelink.bench.runs import Run, RunStore
from pagelink.bench.speed.bare import extract
from pagelink.bench.subjects import Subject
from pagelink.explain.result import Explanation
from pagelink.graph.computation_graph import ComputationGraphs
from pagelink.graph.lookup import edges_of_triples
from pagelink.graph.typed_graph import TypedGraph
from pagelink.metrics.labels import mask_auc, path_hit
from pagelink.rivals.ground import fact_paths, facts_of
from pagelink.rivals.registry import make_rival
from pagelink.runtime.arrays import Doubles
from pagelink.settings import Settings

NAME = "ablation"
SHOWN = 3
DEFAULT, FREE = "PaGELink, measured (default)", "no model, degree only"
PRUNED = -1.0
"""Below any mask: edges that were pruned share the lowest score."""
COLUMNS = ("auc", *(f"hit@{budget}" for budget in BUDGETS), "labelled in 3", "effect")


def variants(paper: Settings) -> dict[str, tuple[str, Settings]]:
    """The rows: the explainer and its settings, by name.

    All but the default show the paths of the highest Score, so that a piece shows its own worth.
    """
    ours = Settings(num_paths=SHOWN, measure=False)
    rows = {DEFAULT: ("pagelink", Settings(num_paths=SHOWN))}
    for name, whole in (("PaGELink, by its mask", ours), ("paper's settings", paper)):
        pieces: dict[str, dict[str, Any]] = {
            "": {},
            ", without k-core pruning": {"core": 0},
            ", without L_pred": {"pred_weight": 0.0},
            # Without L_path no path is searched while learning: nothing says when it is enough.
            ", without L_path": {"alpha": 0.0, "beta": 0.0, "patience": None},
            ", mask before learning": {"epochs": 0},
        }
        if whole.hub_degree is not None:
            pieces[", without pruning of cores and hubs"] = {"core": 0, "hub_degree": None}
        for words, change in pieces.items():
            rows[name + words] = ("pagelink", whole.replace(num_paths=SHOWN, **change))
    rows[FREE] = ("degree", ours)
    return rows


def edge_scores(graph: TypedGraph, batch: ComputationGraphs, explanation: Explanation) -> Doubles:
    """The mask over the unpruned computation graph of one link."""
    scores = np.full(len(batch.edges), PRUNED)
    for position, edge_type in enumerate(graph.edge_types[: graph.num_relations]):
        columns, values = explanation.edge_mask.stored(edge_type)
        dense = np.full(graph.mask_sizes[position], PRUNED)
        dense[columns] = values
        mine = graph.relation[batch.edges] == position
        scores[mine] = dense[graph.column[batch.edges[mine]]]
    return scores


def walked_edges(subject: Subject, graph: TypedGraph) -> Iterator[list[list[int]]]:
    """Per link, the edges of its labelled paths as walked, as flat edges."""
    assert subject.labels is not None
    for pair in subject.pairs:
        yield [edges_of_triples(graph, path).tolist() for path in subject.labels[pair]]


def mask_figures(
    scores: Doubles, edges: npt.NDArray[Any], labelled: Sequence[Sequence[int]]
) -> dict[str, float]:
    """ROC-AUC and hit rates of the mask of one link; `edges` are in ascending order."""
    places = [np.searchsorted(edges, path).tolist() for path in labelled]
    positive = np.zeros(len(scores), dtype=np.bool_)
    positive[np.concatenate(places)] = True
    hits = {f"hit@{budget}": path_hit(scores, places, budget) for budget in BUDGETS}
    return {"auc": mask_auc(scores, positive), **hits}


def run(store: RunStore, plan: Plan, progress: Progress) -> None:
    """Explain the links of each data set with each piece left out."""
    for subject in subjects(plan):
        for label, (rival, settings) in variants(paper_settings(subject)).items():
            # With the even start nothing that is scored here depends on the seed.
            for seed in plan.seed_list if settings.start == "noise" else plan.seed_list[:1]:
                progress(f"{TITLES[subject.name]}: {label}, seed {seed}")
                store.do(
                    NAME, f"{subject.name} {label} seed {seed}",
                    key_of(subject, label=label, seed=seed, settings=told(settings)),
                    partial(_figures, subject, rival, settings, seed),
                )  # fmt: skip


def _figures(subject: Subject, rival: str, settings: Settings, seed: int) -> dict[str, Any]:
    explainer = make_rival(
        rival, subject.model, subject.data, subject.link_type, settings, seed, threshold=None
    )
    graph, effects = explainer.graph, Effects(explainer)
    rows: list[dict[str, float]] = []
    answers = zip(
        subject.pairs, explainer.explain_many(subject.pairs), walked_edges(subject, graph),
        labels_of(subject, graph), strict=True,
    )  # fmt: skip
    for pair, explanation, walked, labelled in answers:
        batch = extract(explainer, pair)
        scores = edge_scores(graph, batch, explanation)
        (paths,) = fact_paths(explainer, [explanation])
        (effect,) = effects.of(pair, [facts_of(paths[:SHOWN])])
        rows.append(
            {
                **mask_figures(scores, batch.edges, walked),
                "labelled in 3": float(bool(set(paths[:SHOWN]) & set(labelled))),
                "effect": effect,
                "answered": float(bool(paths)),
                "epochs": float(explanation.epochs),
            }
        )
    means = {name: float(np.mean([row[name] for row in rows])) for name in rows[0]}
    single = {name: [round(row[name], 6) for row in rows] for name in COLUMNS}
    return {"links": len(rows), **means, PER_LINK: single}


def tables(runs: Sequence[Run]) -> list[Table]:
    """A table for each data set."""
    found = []
    for data, title in TITLES.items():
        mine = [run for run in runs if run.key["data"] == data]
        rows = []
        for label in variants(Settings.paper("useritemattr")):
            seeds = [run.figures for run in mine if run.key["label"] == label]
            if seeds:
                cells = (mean_cell([figures[name] for figures in seeds]) for name in COLUMNS)
                rows.append((label, *cells))
        if rows:
            found.append(
                Table(
                    f"What each piece is for, {title}",
                    ("row", "mask AUC", *COLUMNS[1:-1], "effect of 3 paths"), tuple(rows),
                    f"{mine[0].figures['links']} links, none left out; mean and spread over "
                    "explainer seeds where the mask starts from noise, elsewhere the seed changes "
                    "nothing. The effect is the fall of the logit when the facts of the first "
                    "three paths are really removed.",
                )
            )  # fmt: skip
    return found


PART = Part(NAME, "Ablation", run, tables)
