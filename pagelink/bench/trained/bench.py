"""`pagelink bench trained`: explanations of models without messages, against training again.

Two questions. *Agreement*: of single links, does the mimics' effect of a set of facts agree with
what the score really loses when a model is trained without it? Beside it the ceiling: how well the
losses by two halves of the training seeds agree with each other. *Deletion*, the protocol of Kelpie
(Rossi et al., SIGMOD 2022): of correct predictions, the facts of all explanations are deleted at
once, the model is trained again, and MRR and Hits@1 of these predictions fall.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console

from pagelink.bench.paper.report import Table, say_tables
from pagelink.bench.runs import (
    Figures,
    Run,
    RunStore,
    cell,
    check_names,
    mean_cell,
    plain,
    shown_progress,
)
from pagelink.bench.trained.rows import ROWS, LinkSets
from pagelink.bench.trained.subjects import (
    FREEBASE,
    MODELS,
    PLANS,
    TINY,
    UMLS,
    Facts,
    fit,
    load_facts,
    tail_ranks,
)
from pagelink.runtime.arrays import Bools, Doubles, Longs
from pagelink.trained.embeddings import EmbeddingModel
from pagelink.trained.explainer import TrainedExplainer

NAME = "trained"
AGREEMENT, DELETION = "agreement", "deletion"
FIRST_SEED = 1000
"""Seed of the model that is explained; the trainings again have 0, 1, ..."""

SINGLE = 5
"""Single facts of our paths that are deleted to compare effects, at most."""


def run_and_print(
    out: Path,
    console: Console,
    *,
    data: Sequence[str] = (UMLS,),
    models: Sequence[str] = (),
    predictions: int = 100,
    links: int = 20,
    seeds: int = 5,
    quick: bool = False,
) -> list[Run]:
    """Do what was not done before, print the tables of all that was and write them.

    Args:
        out: folder for results.
        console: where to print.
        data: the graphs, `UMLS` or `FB15k-237`.
        models: `ComplEx`, `TransE`; none: both.
        predictions: whose explanations are deleted, at most.
        links: of which single sets are deleted, at most; only on UMLS. 0: none.
        seeds: trainings of everything that is trained again. 2 or more for the agreement.
        quick: a tiny graph.
    """
    wanted = [TINY] if quick else check_names("graph", data, (UMLS, FREEBASE))
    store = RunStore(out / "runs")
    with shown_progress(console) as step:
        for graph in wanted:
            for model in check_names("model", models, MODELS):
                subject = _Subject(graph, model, seeds)
                key = {"data": graph, "model": model, "seeds": seeds}
                todo: dict[str, tuple[int, Callable[[int], Figures]]] = {
                    DELETION: (predictions, subject.deletion)
                }
                if links and graph != FREEBASE:
                    todo[AGREEMENT] = (links, subject.agreement)
                for part, (count, work) in todo.items():
                    step(f"{graph}, {model}: {part}")
                    full = {**key, "links": count, "part": part}
                    name = f"{part} {graph} {model}"
                    store.do(NAME, name, full, partial(work, count))
    runs = sorted(store.all(NAME), key=lambda run: run.key["part"], reverse=True)
    say_tables(tables(runs), out, NAME, console, quick=quick)
    return runs


class _Subject:
    """A model on a graph, its explanations, and trainings of it."""

    def __init__(self, graph: str, model: str, seeds: int) -> None:
        self._graph, self._kind, self._seeds = graph, MODELS[model], seeds
        self._made: tuple[Facts, EmbeddingModel, TrainedExplainer, Longs] | None = None

    def _ready(self) -> tuple[Facts, EmbeddingModel, TrainedExplainer, Longs]:
        """The facts, the model, its explainer, and its correct predictions in random order."""
        if self._made is None:
            facts = load_facts(self._graph)
            model = fit(self._kind, facts, PLANS[self._graph], FIRST_SEED)
            explainer = TrainedExplainer(
                model, facts.train, entity_names=facts.entities, relation_names=facts.relations
            )
            test = facts.test[facts.test[:, 0] != facts.test[:, 2]]
            right = test[tail_ranks(model, facts, test) == 1]
            order = np.random.default_rng(0).permutation(len(right))
            self._made = facts, model, explainer, right[order]
        return self._made

    def _again(self, seed: int, gone: frozenset[int] = frozenset()) -> EmbeddingModel:
        """Train without some facts of the graph."""
        facts = self._ready()[0]
        kept = self._kept(gone)
        return fit(self._kind, facts, PLANS[self._graph], seed, kept)

    def _kept(self, gone: frozenset[int]) -> Bools:
        """The facts for training that are none of some facts of the graph."""
        facts, _, explainer, _ = self._ready()
        graph = explainer.graph
        forward = explainer.facts.is_forward[graph.relation]
        edges = np.flatnonzero(np.isin(graph.fact, list(gone)) & forward)
        number = explainer.facts.model_relation[graph.relation[edges]]
        rows = np.stack([graph.src[edges], number, graph.dst[edges]], axis=1).astype(np.int64)
        found: Bools = ~np.isin(facts.codes(facts.train), facts.codes(rows))
        return found

    def _sets(self, count: int) -> list[tuple[Longs, LinkSets, dict[str, frozenset[int]]]]:
        """The first predictions that have paths, with the facts of every row."""
        _, _, explainer, right = self._ready()
        found: list[tuple[Longs, LinkSets, dict[str, frozenset[int]]]] = []
        for link in right:
            if len(found) == count:
                break
            offered = LinkSets.of(explainer, link, 0)
            if offered is None:
                continue
            head, relation, tail = link.tolist()
            rows = offered.all_rows(
                explainer.explain(head, tail, explainer.link_types[relation][1]), 0
            )
            if rows:
                found.append((link, offered, rows))
        return found

    def deletion(self, count: int) -> Figures:
        """MRR and Hits@1 of predictions, with all facts and without the explanations of a row."""
        facts = self._ready()[0]
        sets = self._sets(count)
        links = np.array([link for link, _, _ in sets])
        gone = {"none": frozenset[int]()}
        gone |= {row: frozenset().union(*(rows[row] for _, _, rows in sets)) for row in ROWS}
        figures: Figures = {"predictions": len(links)}
        for row, out in gone.items():
            ranks = [
                tail_ranks(self._again(seed, out), facts, links) for seed in range(self._seeds)
            ]
            figures[row] = {
                "mrr": [plain(float((1 / each).mean())) for each in ranks],
                "hits": [plain(float((each <= 1).mean())) for each in ranks],
                "facts": len(out),
            }
        return figures

    def agreement(self, count: int) -> Figures:
        """Per link, how the effects of its rows by mimics and by training agree."""
        sets = self._sets(count)
        ends = np.array([link for link, _, _ in sets])

        def scores(seed: int, gone: frozenset[int], link: Longs) -> float:
            model = self._again(seed, gone)
            return _score(model, link)

        whole = [self._again(seed) for seed in range(self._seeds)]
        correlations, ceilings, by_ends = [], [], []
        for link, offered, rows in sets:
            different = list(dict.fromkeys(rows.values()))
            # Parts of the sets, too: of one size, sets hardly differ.
            different += [frozenset([fact]) for fact in sorted(different[0])][:SINGLE]
            different = list(dict.fromkeys(different))
            before = np.array([_score(model, link) for model in whole])
            lost = np.array(
                [[before[seed] - scores(seed, each, link) for seed in range(self._seeds)]
                 for each in different]
            )  # fmt: skip
            mimics = [offered.effect(each) for each in different]
            only = [offered.effect(each, ends_only=True) for each in different]
            correlations.append(_correlation(np.array(mimics), lost.mean(1)))
            by_ends.append(_correlation(np.array(only), lost.mean(1)))
            half = self._seeds // 2
            ceilings.append(_correlation(lost[:, :half].mean(1), lost[:, half:].mean(1)))
        return {
            "links": len(ends),
            "mimics": [plain(value) for value in correlations],
            "ends only": [plain(value) for value in by_ends],
            "ceiling": [plain(value) for value in ceilings],
        }


def _score(model: EmbeddingModel, link: Longs) -> float:
    """The score of a link, less the mean over all tails: a constant in all scores says nothing."""
    head, relation, tail = torch.from_numpy(link)
    count = len(model.nodes)
    every = model.scores(head.expand(count), relation.expand(count), torch.arange(count))
    return float(every[int(tail)] - every.mean())


def _correlation(one: Doubles, other: Doubles) -> float:
    """The rank correlation of two lists; NaN if one of them is constant."""
    if len(one) < 3 or np.ptp(one) == 0 or np.ptp(other) == 0:
        return float("nan")
    first, second = (np.argsort(np.argsort(each)).astype(np.float64) for each in (one, other))
    return float(np.corrcoef(first, second)[0, 1])


def tables(runs: Sequence[Run]) -> list[Table]:
    """Return the tables of runs."""
    found = []
    for run in runs:
        title = f"{run.key['data']}, {run.key['model']}: {run.key['part']}"
        figures = run.figures
        if run.key["part"] == DELETION:
            found.append(Table(title, _COLUMNS, _deletion_rows(figures), _deletion_note(run)))
        else:
            rows = [
                (words, *_mean_and_error(figures[name]))
                for name, words in (
                    ("mimics", "mimics of all nodes on the paths"),
                    ("ends only", "mimics of source and target (Kelpie)"),
                    ("ceiling", "one half of the trainings (ceiling)"),
                )
            ]
            note = (
                "Rank correlation, per link, of the effects of its sets of facts with those of "
                f"training again without them, {run.key['seeds']} seeds; the mean over "
                f"{figures['links']} links, with its standard error."
            )
            found.append(Table(title, ("effects by", "correlation", "standard error"), rows, note))
    return found


_COLUMNS = ("deleted", "facts", "MRR", "fall of MRR", "Hits@1", "fall of Hits@1")


def _deletion_rows(figures: Figures) -> list[tuple[str, ...]]:
    whole: dict[str, Any] = figures["none"]
    rows = []
    for row in ("none", *ROWS):
        mine = figures[row]
        cells = []
        for name in ("mrr", "hits"):
            fall = [a - b for a, b in zip(whole[name], mine[name], strict=True)]
            cells += [mean_cell(mine[name]), "" if row == "none" else mean_cell(fall)]
        rows.append((row, str(mine["facts"]), *cells))
    return rows


def _deletion_note(run: Run) -> str:
    return (
        f"{run.figures['predictions']} correct predictions; the facts of all their explanations "
        f"are deleted at once, and the model is trained again with {run.key['seeds']} seeds: mean "
        "and spread over these."
    )


def _mean_and_error(values: Sequence[float | None]) -> tuple[str, str]:
    known = np.array([value for value in values if value is not None])
    if not len(known):
        return "-", "-"
    error = known.std(ddof=1) / np.sqrt(len(known)) if len(known) > 1 else None
    return cell(float(known.mean())), cell(None if error is None else float(error))
