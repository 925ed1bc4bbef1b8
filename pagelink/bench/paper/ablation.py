"""Parts `ablation` and `reference`: what each piece of the method is for, by labels and by effect.

Masks are scored against the labels (ROC-AUC, hit rates), and so are the first paths. In the
ablation, beside these stands what the first three paths are worth to the model: how far its logit
falls without them. The reference is the same by labels alone, on the paper's released data and
weights, with the row that never looks at the model; `pagelink bench useritemattr-reference` runs
it by itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from pagelink.bench.answers import DEFAULT, Answer, ask
from pagelink.bench.measures import (
    BUDGETS,
    PerLink,
    labelled,
    mask_scores,
    masks_against_labels,
)
from pagelink.bench.paper.plan import (
    LONG_TITLES,
    PER_LINK,
    TINY,
    TITLES,
    Dataset,
    Part,
    Plan,
    Session,
    by_dataset,
    by_label,
    told,
)
from pagelink.bench.paper.report import Table
from pagelink.bench.paper.tables import PUBLISHED
from pagelink.bench.runs import (
    Figures,
    Run,
    RunStore,
    cell,
    layout,
    mean_cell,
    say,
    shown_progress,
    timed,
)
from pagelink.bench.subjects import RELEASED, released_subject
from pagelink.metrics.labels import degree_only_mask
from pagelink.rivals.ground import Ranked, facts_of, paths_by_degree
from pagelink.runtime.arrays import Doubles
from pagelink.runtime.files import temporary_folder
from pagelink.settings import Settings

SHOWN = 3
MEASURED, FREE = "PaGELink, measured (default)", "no model, degree only"
HITS = {f"hit@{budget}": f"hit rate@{budget}" for budget in BUDGETS}
COLUMNS = ("auc", *HITS, "labelled in 3", "effect")


def scored(
    dataset: Dataset, masks: Sequence[Doubles], paths: Ranked, first: Sequence[int]
) -> PerLink:
    """Per link: ROC-AUC and hit rates of the mask, and a labelled path among the first n.

    Args:
        dataset: the links and their labels.
        masks: per link, one score per edge of its computation graph.
        paths: per link, the paths that are returned.
        first: the numbers n of paths.
    """
    assert dataset.labels is not None  # all data sets of the paper have labels
    rows = masks_against_labels(masks, dataset.label_positions)
    return {
        "auc": rows["auc"],
        **{name: rows[figure] for name, figure in HITS.items()},
        **{
            f"first {n}": labelled([of_link[:n] for of_link in paths], dataset.labels)
            for n in first
        },
        "answered": np.array([float(bool(of_link)) for of_link in paths]),
    }


def masks_of(dataset: Dataset, answer: Answer) -> list[Doubles]:
    """The masks of all explanations, as scores of edges."""
    parts = [mask_scores(ground, answer.explanations[here]) for ground, here in dataset.cut()]
    return [mask for part in parts for mask in part]


# Ablation.


def variants(paper: Settings) -> dict[str, tuple[str, Settings]]:
    """The rows: the explainer and its settings, by name.

    All but the default show the paths of the highest Score, so that a piece shows its own worth.
    """
    ours = Settings(num_paths=SHOWN, measure=False)
    rows = {MEASURED: (DEFAULT, Settings(num_paths=SHOWN))}
    for name, whole in (("PaGELink, by its mask", ours), ("paper's settings", paper)):
        pieces: dict[str, dict[str, Any]] = {
            "": {},
            ", without k-core pruning": {"core": 0},
            ", without L_pred": {"pred_weight": 0.0},
            # Without L_path no path is searched while learning: nothing says when it is enough.
            ", without L_path": {"alpha": 0.0, "beta": 0.0, "patience": None},
            ", mask before learning": {"epochs": 0},
        }
        if whole.path_loss == "released":
            pieces[", L_path as printed"] = {"path_loss": "sum"}
        if whole.hub_degree is not None:
            pieces[", without pruning of cores and hubs"] = {"core": 0, "hub_degree": None}
        for words, change in pieces.items():
            rows[name + words] = (DEFAULT, whole.replace(num_paths=SHOWN, **change))
    rows[FREE] = ("degree", ours)
    return rows


def _each(session: Session, dataset: Dataset) -> None:
    """Explain the links of a data set with each piece left out."""
    session.do_variants(dataset, variants(dataset.paper_settings), _figures)


def _figures(dataset: Dataset, rival: str, settings: Settings, seed: int) -> Figures:
    answer = ask(dataset.subject, rival, settings, seed, counts=(SHOWN,))
    paths = answer.paths[SHOWN]
    rows = scored(dataset, masks_of(dataset, answer), paths, (SHOWN,))
    rows["labelled in 3"] = rows.pop(f"first {SHOWN}")
    rows["effect"] = np.concatenate(
        [
            ground.effects(range(ground.num_links), [facts_of(each) for each in paths[here]])
            for ground, here in dataset.cut()
        ]
    )
    rows["epochs"] = np.array([float(each.epochs) for each in answer.explanations])
    return {
        "links": len(paths),
        **{name: float(values.mean()) for name, values in rows.items()},
        PER_LINK: {name: rows[name].round(6).tolist() for name in COLUMNS},
    }


def _tables(runs: Sequence[Run]) -> Iterator[Table]:
    """A table for each data set."""
    for data, mine in by_dataset(runs).items():
        labels = by_label(mine, variants(Settings.paper("useritemattr")))
        rows = [
            (label, *(mean_cell([run.figures[name] for run in seeds]) for name in COLUMNS))
            for label, seeds in labels.items()
        ]
        yield Table(
            f"What each piece is for, {TITLES[data]}",
            ("row", "mask AUC", *COLUMNS[1:-1], "effect of 3 paths"), rows,
            f"{mine[0].figures['links']} links, none left out; mean and spread over "
            "explainer seeds where the mask starts from noise, elsewhere the seed changes "
            "nothing. The effect is the fall of the logit when the facts of the first "
            "three paths are really removed.",
        )  # fmt: skip


PART = Part("ablation", "Ablation", _tables, _each)


# Reference.


FIRST = (1, 3, 5, 10)
MODEL_FREE_PATHS = 10_000
"""More than any pair of the data has."""
FIGURES = ("auc", *HITS, *(f"first {n}" for n in FIRST), "coverage", "cpu")
LEGEND = """\
Means over the explainer seeds. auc: ROC-AUC of the mask over the unpruned computation graph.
hit@B: all edges of a labelled path are among the top B edges by mask. first n: a labelled path is
among the first n output paths. coverage: share of links with paths. cpu: CPU ms per link.
The row that never looks at the model wins: these figures say how concise explanations are, not
whether they are true of the model."""


def reference_variants() -> dict[str, Settings]:
    """The settings that are compared; the first is the paper's, the second ours."""
    released = Settings.paper("useritemattr")
    ours = Settings(num_paths=max(FIRST), measure=False)
    return {
        "released settings": released,
        "ours": ours,
        "released settings, L_path as printed": released.replace(path_loss="sum"),
        "released settings, L_path with means": released.replace(path_loss="mean"),
        "released settings, before learning": released.replace(epochs=0),
        "released settings, without L_path": released.replace(alpha=0.0, beta=0.0),
        "released settings, without L_pred": released.replace(pred_weight=0.0),
        "ours, before learning": ours.replace(epochs=0),
        "ours, without L_path": ours.replace(alpha=0.0, beta=0.0, patience=None),
        "ours, without L_pred": ours.replace(pred_weight=0.0),
    }


def _each_reference(session: Session, dataset: Dataset) -> None:
    """Explain the released links with every variant and seed, and without the model."""
    if dataset.name not in (RELEASED, TINY):
        return
    for label, settings in reference_variants().items():
        for seed in session.plan.seed_list:
            key = dataset.key_of(label=label, seed=seed, settings=told(settings))
            session.do(f"{label}, seed {seed}", key, _by_settings, dataset, settings, seed)
    session.do(FREE, dataset.key_of(label=FREE, seed=0), _without_model, dataset)


def _by_settings(dataset: Dataset, settings: Settings, seed: int) -> Figures:
    answer = ask(dataset.subject, DEFAULT, settings, seed, counts=(settings.num_paths,))
    paths = answer.paths[settings.num_paths]
    return _means(scored(dataset, masks_of(dataset, answer), paths, FIRST), answer.cpu)


def _without_model(dataset: Dataset) -> Figures:
    """The row that never looks at a model: cheapest paths by degree alone."""

    def rank() -> tuple[list[Doubles], Ranked]:
        masks, ranked = [], []
        for ground in dataset.grounds:
            paths, starts = ground.paths, ground.batch.edge_ptr
            found = paths_by_degree(paths, MODEL_FREE_PATHS)
            for link, of_link in enumerate(found.arcs):
                arcs = [walked[walked >= 0] for walked in of_link if walked[0] >= 0]
                positions = [(paths.arc_slot[walked] - starts[link]).tolist() for walked in arcs]
                masks.append(degree_only_mask(positions, len(ground.edges(link))))
                ranked.append([ground.as_facts(walked) for walked in arcs[: max(FIRST)]])
        return masks, ranked

    found, cpu = timed(rank)
    return _means(scored(dataset, *found, FIRST), cpu)


def _means(rows: PerLink, cpu: float) -> Figures:
    """Means over the links; a link without paths counts as a miss."""
    rows["coverage"] = rows.pop("answered")
    means = {name: float(values.mean()) for name, values in rows.items()}
    return {"links": len(rows["auc"]), **means, "cpu": cpu / len(rows["auc"])}


def _reference_tables(runs: Sequence[Run]) -> list[Table]:
    """One table: the means of the rows over seeds, and the spread of the first two."""
    labels = by_label(runs, (*reference_variants(), FREE))
    lines = [(label, *_cells(of_it, np.mean)) for label, of_it in labels.items()]
    published = PUBLISHED["UserItemAttr"]["PaGE-Link"]
    paper = [cell(published.get(HITS.get(name, name))) for name in FIGURES]
    lines.append(("paper, PaGE-Link", *paper))
    for label in list(reference_variants())[:2]:
        for words, end in (("lowest seed", np.min), ("highest seed", np.max)):
            lines.append((f"{label}, {words}", *_cells(labels[label], end)))
    title = f"{LONG_TITLES[runs[0].key['data']]}: {runs[0].figures['links']} links"
    return [Table(title, ("", *FIGURES), lines, LEGEND)]


def _cells(of_seeds: Sequence[Run], summed: Any) -> list[str]:
    """One cell per figure, over the seeds; seconds in milliseconds."""
    values = {name: summed([run.figures[name] for run in of_seeds]) for name in FIGURES}
    return [cell(1000 * v, 1) if name == "cpu" else cell(v) for name, v in values.items()]


REFERENCE = Part(
    "reference", "Reference: the released data by their labels", _reference_tables, _each_reference
)


def reference_and_print(
    path: Path | None, seeds: int, links: int | None, console: Console
) -> Table:
    """Run the reference by itself, and print its table.

    Args:
        path: the released data; None: they are looked for.
        seeds: number of explainer seeds.
        links: only this number of links. None: all.
        console: where to print.
    """
    subject = released_subject(links, path)
    with temporary_folder() as folder, shown_progress(console) as step:
        store, plan = RunStore(folder), Plan(folder, seeds)
        session = Session(store, REFERENCE.name, plan, step)
        REFERENCE.each(session, Dataset(RELEASED, plan, subject))
        (table,) = REFERENCE.tables(list(store.all(REFERENCE.name)))
    say(console, f"{table.title}, {seeds} seeds\n")
    say(console, layout([table.columns, *table.rows]))
    say(console, f"\n{table.note}")
    return table
