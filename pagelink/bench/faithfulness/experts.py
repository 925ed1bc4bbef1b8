"""The part `experts`: drug, bound protein, disease: is the path that counts the one that is shown?

On hetionet-core models learn which compound treats which disease. Where a compound binds a gene
that is associated with the disease, experts look for the mechanism there. Of these paths of a pair
the one whose removal lowers the score most is taken; whether it counts is decided by swaps of its
two facts (see `swaps`), not by the explainer. Then: how often is it first, or among the first
three? Another path may count more, so the first path of each explainer is judged by the same swaps.
A model that was trained on shuffled links is the check: what it knows is degrees.

One run per model, kept as a file: what was done is not done again.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from torch_geometric.data import HeteroData

from pagelink.bench.answers import MAIN
from pagelink.bench.faithfulness.judges import EditedGraph, RewiredModel
from pagelink.bench.faithfulness.swaps import FactSwaps, SwapEffect, shuffled_links, swap_effect
from pagelink.bench.measures import with_interval
from pagelink.bench.paper.report import Table, say_tables, write_tables
from pagelink.bench.runs import (
    Figures,
    Run,
    RunStore,
    cell,
    interval_cell,
    plain,
    shown_progress,
)
from pagelink.bench.subjects import Subject, checkpoint_subject, trained
from pagelink.datasets.folders import find_data
from pagelink.explain.explainer import PaGELink
from pagelink.graph.schema import EdgeType
from pagelink.models.link_model import node_inputs
from pagelink.models.training import TrainSettings
from pagelink.rivals.ground import FactPath, fact_paths
from pagelink.rivals.registry import make_rival
from pagelink.settings import Settings
from pagelink.tables.load import load_graph

NAME = "experts"
LINKS, QUICK_LINKS = 200, 4
SEEDS, SHUFFLED_SEEDS = (0, 1, 2, 3, 4), (0,)
TREATS: EdgeType = ("compound", "treats", "disease")
BINDS: EdgeType = ("compound", "binds", "gene")
ASSOCIATES: EdgeType = ("disease", "associates", "gene")
SETTINGS = Settings(exclude_relations=("treats", "palliates"))
DEFAULT = "default"
EXPLAINERS = {DEFAULT: "pagelink", "degree": "degree", "gradient": "gradient"}
OTHERS = tuple(name for name in EXPLAINERS if name != DEFAULT)
# With uniform negatives alone a model of this graph learns degrees, and hardly beats its twin
# without edges where these are matched.
TRAINING = TrainSettings(
    epochs=100, patience=15, lr=0.003, matched_negatives=0.5, retrain_edgeless=True
)
DROPOUT = 0.3
QUICK_TRAINING = dataclasses.replace(TRAINING, epochs=15, lr=0.03, retrain_edgeless=False)
PLACES = {"first": 1, "three": MAIN}
"""Which of the returned paths are looked at."""
BY_SWAPS = "first by swaps"
Row = dict[str, Any]
"""What was found of one pair."""


@dataclass(frozen=True)
class Model:
    """One of the models."""

    seed: int
    shuffled: bool

    @property
    def name(self) -> str:
        """How it is called."""
        return f"{'shuffled' if self.shuffled else 'model'} {self.seed}"


def run_and_print(
    out: Path, console: Console, *, links: int = LINKS, seed: int = 0, quick: bool = False
) -> list[Run]:
    """Run all models, or what is left of them, print and write the tables.

    The tables are written after each model, so that a run that is stopped has those of its models.

    Raises:
        DataNotFoundError: hetionet-core is not there.
    """
    links = min(links, QUICK_LINKS) if quick else links
    first, *others = (Model(each, False) for each in (SEEDS[:1] if quick else SEEDS))
    models = [first, *(Model(each, True) for each in SHUFFLED_SEEDS), *others]
    store, runs = RunStore(out / "runs"), list[Run]()
    with shown_progress(console) as step:
        for model in models:
            runs.append(run_model(store, model, out / "subjects", links, seed, quick, step))
            write_tables(tables(runs, seed), out, NAME, quick=quick, seed=seed)
    say_tables(tables(runs, seed), out, NAME, console, quick=quick, seed=seed)
    return runs


def run_model(
    store: RunStore,
    model: Model,
    folder: Path,
    links: int,
    seed: int,
    quick: bool,
    step: Callable[[str], None],
) -> Run:
    """The run of one model; one that is stored is not done again.

    Args:
        store: where runs are kept.
        model: which one.
        folder: where checkpoints are.
        links: pairs at most.
        seed: of the explainers and the swaps.
        quick: a tiny graph, hardly trained.
        step: called with what comes next.
    """
    training = QUICK_TRAINING if quick else TRAINING
    key = {
        "model": dataclasses.asdict(model), "links": links, "seed": seed, "quick": quick,
        "settings": SETTINGS.to_dict(), "training": dataclasses.asdict(training),
        "dropout": DROPOUT,
    }  # fmt: skip

    def work() -> Figures:
        step(f"{NAME}: {model.name}, training")
        subject = load_model(model, folder, links, quick)
        return {
            "auc": dataclasses.asdict(subject.separations),
            "predicted": len(subject.pairs),
            "pairs": judged(subject, seed, lambda what: step(f"{NAME}: {model.name}, {what}")),
        }

    return store.do(NAME, model.name, key, work)


def load_model(model: Model, folder: Path, links: int, quick: bool = False) -> Subject:
    """Return a model with test pairs that it predicts; it is trained if there is no checkpoint."""
    data = tiny_graph(model.seed) if quick else load_graph(find_data("hetionet-core"))
    split = None
    if model.shuffled:
        data, split = shuffled_links(data, TREATS, model.seed)
    name = f"{NAME}-{'tiny' if quick else 'sage'}{'-shuffled' if model.shuffled else ''}"
    stored = trained(
        folder / f"{name}-seed{model.seed}.pt", "sage", data, TREATS,
        QUICK_TRAINING if quick else TRAINING, model.seed, model.seed, split, DROPOUT,
    )  # fmt: skip
    return checkpoint_subject(name, stored, links, model.seed)


def judged(subject: Subject, seed: int, step: Callable[[str], None]) -> list[Row]:
    """What was found of each pair with a path from compound by gene to disease.

    Args:
        subject: the model and the pairs that it predicts.
        seed: of the explainers and the swaps.
        step: called with what comes next.
    """
    explainer = _explainer(subject, DEFAULT, seed)
    graph, num_hops = explainer.graph, explainer.receptive_field.num_hops
    assert num_hops is not None, "the models of this benchmark are local"
    swaps = FactSwaps(graph, SETTINGS.max_length)
    ask = RewiredModel(subject.model, node_inputs(subject.data), graph, num_hops)
    by_gene = {pair: gene_paths(swaps, explainer, pair) for pair in subject.pairs}
    pairs = [pair for pair, paths in by_gene.items() if paths]
    step("default")
    explained = list(explainer.explain_many(pairs))
    shown = {DEFAULT: fact_paths(explainer, explained)}
    for name in OTHERS:
        step(name)
        rival = _explainer(subject, name, seed)
        shown[name] = fact_paths(rival, rival.explain_many(pairs))
    rows = []
    for number, (pair, answer) in enumerate(zip(pairs, explained, strict=True)):
        step(f"swaps of pair {number + 1} of {len(pairs)}")
        paths = by_gene[pair]
        link = explainer.reader.read(pair)
        logits = ask.logits([
            EditedGraph(link.src, link.dst, frozenset({link.fact, *path} - {-1}))
            for path in ((), *paths)
        ])  # fmt: skip
        best = paths[int(np.argmin(logits[1:]))]
        found = swap_effect(swaps, ask, link, best, seed)
        count = counts(found, answer.noise)
        values = {best: found.value or 0.0}
        if count:
            firsts = {ranked[number][0] for ranked in shown.values() if ranked[number]}
            for path in sorted(firsts - {best}):
                values[path] = swap_effect(swaps, ask, link, path, seed).value or 0.0
        rows.append({
            "src": pair[0], "dst": pair[1], "paths": len(paths), "logit": plain(logits[0]),
            "logit of the explainer": None if answer.logit is None else plain(answer.logit),
            "effect": plain(logits[0] - logits[1:].min()), "noise": plain(answer.noise),
            "verdict": None if answer.evidence is None else answer.evidence.verdict,
            **{key: None if value is None else plain(value)
               for key, value in dataclasses.asdict(found).items()},
            "counts": count,
            BY_SWAPS: {
                name: plain(values.get(ranked[number][0], 0.0)) if ranked[number] else 0.0
                for name, ranked in shown.items()
            },
            **{place: {name: best in ranked[number][:most] for name, ranked in shown.items()}
               for place, most in PLACES.items()},
        })  # fmt: skip
    return rows


def counts(found: SwapEffect, noise: float) -> bool | None:
    """Whether what the facts lead to counts, beyond the noise; None: there are too few swaps."""
    if found.value is None or found.low is None:
        return None
    return found.value > noise and found.low > 0


def _explainer(subject: Subject, name: str, seed: int) -> PaGELink:
    settings = SETTINGS if name == DEFAULT else SETTINGS.replace(measure=False)
    return make_rival(
        EXPLAINERS[name], subject.model, subject.data, TREATS, settings, seed, threshold=None
    )


def gene_paths(swaps: FactSwaps, explainer: PaGELink, pair: tuple[int, int]) -> list[FactPath]:
    """The paths compound binds gene, gene associated with disease, as facts, by gene."""
    graph = explainer.graph
    link = explainer.reader.read(pair)
    genes = []
    for end, edge_type in ((link.src, BINDS), (link.dst, ASSOCIATES)):
        relation = graph.relation_class[graph.edge_types.index(edge_type)]
        facts = np.unique(graph.fact[graph.arc_edge[graph.arcs_of(end)]])
        facts = facts[(swaps.relation[facts] == relation) & (swaps.tail[facts] == end)]
        genes.append({int(swaps.head[fact]): int(fact) for fact in facts})
    bound, associated = genes
    return [(bound[gene], associated[gene]) for gene in sorted(bound.keys() & associated.keys())]


# Figures and tables.


def shares(rows: Sequence[Row], place: str, name: str, less: str | None, seed: int) -> Figures:
    """The mean of a figure, such as how often the path is there, with a 95 % interval.

    A pair that several models predict is drawn with all of its rows at once.

    Args:
        rows: pairs whose best path counts.
        place: the figure: one of `PLACES`, or `BY_SWAPS`.
        name: the explainer.
        less: one whose figure is subtracted.
        seed: of the interval.

    Returns:
        `value`, `low` and `high`, None where there are no rows.
    """
    pairs = sorted({(row["src"], row["dst"]) for row in rows})
    hits, number = np.zeros((2, len(pairs)))
    for row in rows:
        at = pairs.index((row["src"], row["dst"]))
        hits[at] += row[place][name] - (row[place][less] if less else 0)
        number[at] += 1
    found = with_interval(hits, number, seed)
    return dict(zip(("value", "low", "high"), map(plain, found), strict=True))


def tables(runs: Sequence[Run], seed: int) -> list[Table]:
    """The models; how often the path that counts is shown; and the same in words."""
    real = [run for run in runs if not run.key["model"]["shuffled"]]
    other = [run for run in runs if run.key["model"]["shuffled"]]
    groups = [(run.name, list(_counting([run]))) for run in real]
    groups.append(("all models", list(_counting(real))))
    groups.append((
        "all models, none counts more",
        [row for row in _counting(real) if row["value"] >= max(row[BY_SWAPS].values())],
    ))  # fmt: skip
    groups += [(run.name, list(_counting([run]))) for run in other]
    if len(other) > 1:
        groups.append(("all shuffled", list(_counting(other))))
    result = [Table(
        "Models of compound treats disease",
        ("", "AUC", "matched", "without edges", "matched", "twin", "matched", "predicted",
         "with a path by a gene", "of these it counts", "not decided", "without placebo"),
        [_model_row(run) for run in runs],
        "ROC-AUC on the test pairs, against uniform and against degree-matched negatives; without "
        "edges: the same model run so; twin: one trained so. It counts: swapping the two facts of "
        "the best path lowers the score more than swapping as many facts on no path. Scores by the "
        "plain way and by the explainer differ by at most "
        f"{_largest_difference(runs):.1g}, at six digits.",
    )]  # fmt: skip
    columns = ("", "pairs", *EXPLAINERS, *(f"{DEFAULT} - {each}" for each in OTHERS))
    for place, most in PLACES.items():
        where = "first" if most == 1 else f"among the first {most}"
        result.append(Table(
            f"The path by a gene is {where}", columns,
            [_compared_row(*group, place, seed) for group in groups],
            "None counts more: only the pairs for which, by swaps, no explainer's first path "
            "counts more than the path by a gene. " + in_words(real, other, place, where, seed),
        ))  # fmt: skip
    result.append(Table(
        "What the first path counts, by swaps", columns,
        [_compared_row(*group, BY_SWAPS, seed) for group in groups],
        "Of the same pairs: mean fall of the score by swapping the facts of the explainer's first "
        "path, less that by swapping as many facts on no path; 0 where there is no path or there "
        "are too few swaps.",
    ))  # fmt: skip
    return result


def _compared_row(name: str, rows: Sequence[Row], key: str, seed: int) -> tuple[str, ...]:
    """The figures of all explainers on some pairs, and how far the default is above the others."""
    figures = [shares(rows, key, each, None, seed) for each in EXPLAINERS]
    figures += [shares(rows, key, DEFAULT, each, seed) for each in OTHERS]
    return (name, str(len(rows)), *(interval_cell(**each) for each in figures))


def _model_row(run: Run) -> tuple[str, ...]:
    auc, rows = run.figures["auc"], run.figures["pairs"]
    names = ("auc", "matched_auc", "edgeless_auc", "edgeless_matched_auc", "twin_auc",
             "twin_matched_auc")  # fmt: skip
    decided = [row["counts"] for row in rows]
    numbers = (
        run.figures["predicted"], len(rows), decided.count(True), decided.count(None),
        sum(row["placebo"] is None for row in rows),
    )  # fmt: skip
    return (run.name, *(cell(auc[name]) for name in names), *map(str, numbers))


def _largest_difference(runs: Iterable[Run]) -> float:
    rows = [row for run in runs for row in run.figures["pairs"]]
    both = [(row["logit"], row["logit of the explainer"]) for row in rows]
    return max((abs(one - other) for one, other in both if other is not None), default=0.0)


def _counting(runs: Iterable[Run]) -> Iterator[Row]:
    return (row for run in runs for row in run.figures["pairs"] if row["counts"])


def in_words(
    real: Sequence[Run], shuffled: Sequence[Run], place: str, where: str, seed: int
) -> str:
    """What the intervals of the differences say, in sentences."""
    said = []
    for name, runs in (("on the links", real), ("on shuffled links", shuffled)):
        if not runs:
            continue
        rows = list(_counting(runs))
        found = {other: _more_often(shares(rows, place, DEFAULT, other, seed)) for other in OTHERS}
        said.append(
            f"Trained {name}, the default has it {where} "
            + " and ".join(f"{words} {other}" for other, words in found.items()) + "."
            if rows else f"Trained {name}, no pair has a path that counts."
        )  # fmt: skip
    return " ".join(said)


def _more_often(found: Figures) -> str:
    if found["low"] is not None and found["low"] > 0:
        return "more often than"
    if found["high"] is not None and found["high"] < 0:
        return "less often than"
    return "as often, within the interval, as"


def tiny_graph(seed: int) -> HeteroData:
    """A graph of the same relations, small enough for a test."""
    rng, data = np.random.default_rng(seed), HeteroData()
    sizes = {"compound": 30, "gene": 40, "disease": 15}
    for node_type, size in sizes.items():
        data[node_type].num_nodes = size
    binds, associates = rng.random((30, 40)) < 0.08, rng.random((15, 40)) < 0.12
    shared = binds.astype(int) @ associates.T.astype(int)
    treats = (shared > 0) & (rng.random(shared.shape) < 0.6)
    palliates = (shared > 0) & ~treats & (rng.random(shared.shape) < 0.2)
    for edge_type, matrix in (
        (BINDS, binds), (ASSOCIATES, associates), (TREATS, treats),
        (("compound", "palliates", "disease"), palliates),
    ):  # fmt: skip
        edges = torch.from_numpy(np.stack(np.nonzero(matrix)))
        source, name, target = edge_type
        data[edge_type].edge_index = edges
        data[target, f"rev_{name}", source].edge_index = edges.flip(0)
    return data
