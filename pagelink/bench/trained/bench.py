"""`pagelink bench trained`: explanations of models without messages, against training again.

Three questions. *Agreement*: of single links, does the mimics' effect of a set of facts agree with
what the score really loses when a model is trained without it? Beside it the ceiling: how well the
losses by two halves of the training seeds agree with each other. *Deletion*, the protocol of Kelpie
(Rossi et al., SIGMOD 2022): of correct predictions, the facts of all explanations are deleted at
once, the model is trained again, and MRR and Hits@1 of these predictions fall. *Cost*: the CPU time
that a link takes, by model.
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
    plain_list,
    shown_progress,
)
from pagelink.bench.trained import cost
from pagelink.bench.trained.rows import OURS, ROWS, LinkSets
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
from pagelink.trained.explainer import DEFAULT, TrainedExplainer

NAME = "trained"
DELETION, AGREEMENT, COST = PARTS = ("deletion", "agreement", "cost")
SETS, RANKS, LINKS, MODEL = "trained-sets", "trained-ranks", "trained-links", "trained-cost"
"""Parts of the run store: explanations, trainings for the deletion, links for the agreement, and
models for the cost."""
COST_LINKS = 5
"""Links of a model whose time is measured."""
CHOOSING = DEFAULT.replace(swaps=0, what_else=False)
"""What has no part in the choice of paths and facts is not measured."""
FIRST_SEED = 1000
"""Seed of the model that is explained; the trainings again have 0, 1, ..."""

MIMICS, ENDS_ONLY, CEILING = "mimics", "ends only", "ceiling"
AGREEING = (MIMICS, ENDS_ONLY, CEILING)
SINGLE = 3
"""Single facts of our paths, and as many of those most alike to the link, that are deleted to
compare effects, at most."""
CORRELATIONS = {"rank": "rank correlation", "linear": "correlation"}


def run_and_print(
    out: Path,
    console: Console,
    *,
    data: Sequence[str] = (UMLS,),
    models: Sequence[str] = (),
    only: Sequence[str] = (),
    predictions: int = 100,
    links: int = 10,
    seeds: int = 5,
    quick: bool = False,
) -> list[Run]:
    """Do what was not done before, print the tables of all that was and write them.

    Args:
        out: folder for results.
        console: where to print.
        data: the graphs, `UMLS` or `FB15k-237`.
        models: `ComplEx`, `TransE`; none: both.
        only: `deletion`, `agreement`, `cost`; none: all of them.
        predictions: whose explanations are deleted, at most.
        links: the last of these predictions, of which single sets are deleted; not on FB15k-237.
        seeds: trainings of everything that is trained again. 2 or more for the agreement.
        quick: a tiny graph.
    """
    graphs = [TINY] if quick else check_names("graph", data, (UMLS, FREEBASE))
    parts = check_names("part", only, PARTS)
    subjects = [
        (graph, model) for graph in graphs for model in check_names("model", models, MODELS)
    ]
    store = RunStore(out / "runs")
    with shown_progress(console) as step:
        for graph, model in subjects if {DELETION, AGREEMENT} & {*parts} else []:
            subject = _Subject(graph, model, seeds, store, step)
            if DELETION in parts:
                subject.deletion(predictions)
            if AGREEMENT in parts and graph != FREEBASE:
                subject.agreement(predictions, links)
        if COST in parts:
            _cost(store, step, quick=quick)
    runs = sorted(store.all(NAME), key=lambda run: PARTS.index(run.key["part"]))
    say_tables(tables(runs), out, NAME, console, quick=quick)
    return runs


def _cost(store: RunStore, step: Callable[[str], None], *, quick: bool) -> None:
    """Measure the CPU time of links, a run per model, and store what the table is made of."""
    figures: Figures = {}
    for name in [cost.FACTORS, "ComplEx of PyG"] if quick else cost.SUBJECTS:
        step(f"{COST}: {name}")
        work = partial(cost.measure, name, COST_LINKS, quick=quick)
        figures[name] = store.do(MODEL, name, {"quick": quick}, work).figures
    store.do(NAME, COST, {"part": COST, "models": [*figures]}, lambda: figures)


class _Subject:
    """A model on a graph, its explanations, and trainings of it.

    Every explanation and every training is a run of its own, so that little is lost when the
    benchmark is interrupted.
    """

    def __init__(
        self, graph: str, model: str, seeds: int, store: RunStore, step: Callable[[str], None]
    ) -> None:
        self._graph, self._kind, self._seeds = graph, MODELS[model], seeds
        self._key: Figures = {"data": graph, "model": model}
        self._name, self._store, self._step = f"{graph} {model}", store, step
        self._made: tuple[Facts, EmbeddingModel, TrainedExplainer, Longs] | None = None
        self._trained: dict[int, EmbeddingModel] = {}

    def _do(self, part: str, name: str, key: Figures, work: Callable[[], Figures]) -> Figures:
        self._step(f"{self._name}: {name}")
        return self._store.do(part, f"{self._name} {name}", {**self._key, **key}, work).figures

    def _ready(self) -> tuple[Facts, EmbeddingModel, TrainedExplainer, Longs]:
        """The facts, the model, its explainer, and its correct predictions in random order."""
        if self._made is None:
            facts = load_facts(self._graph)
            model = fit(self._kind, facts, PLANS[self._graph], FIRST_SEED)
            explainer = TrainedExplainer(
                model, facts.train, settings=CHOOSING, entity_names=facts.entities,
                relation_names=facts.relations,
            )  # fmt: skip
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

    def _links(self, count: int) -> list[tuple[int, Longs, dict[str, frozenset[int]]]]:
        """The first correct predictions that have paths: number, link, facts of every row."""
        found: list[tuple[int, Longs, dict[str, frozenset[int]]]] = []
        right = self._ready()[3]
        for number, link in enumerate(right):
            if len(found) == count:
                break
            key = {"link": link.tolist()}
            rows = self._do(SETS, f"sets {number}", key, partial(self._rows, link))["rows"]
            if rows:
                found.append((number, link, {row: frozenset(rows[row]) for row in ROWS}))
        return found

    def _rows(self, link: Longs) -> Figures:
        """The facts of every row, of a link; none if no path joins its ends."""
        explainer = self._ready()[2]
        offered = LinkSets.of(explainer, link, 0)
        if offered is None:
            return {"rows": {}}
        head, relation, tail = link.tolist()
        answer = explainer.explain(head, tail, explainer.link_types[relation][1])
        rows = offered.all_rows(answer, 0)
        return {"rows": {row: sorted(map(int, facts)) for row, facts in rows.items()}}

    def deletion(self, count: int) -> None:
        """MRR and Hits@1 of predictions, with all facts and without the explanations of a row."""
        chosen = self._links(count)
        links = np.array([link for _, link, _ in chosen])
        gone = {"none": frozenset[int]()}
        gone |= {row: frozenset().union(*(rows[row] for *_, rows in chosen)) for row in ROWS}
        figures: Figures = {"predictions": len(links)}
        for row, out in gone.items():
            ranks = [
                self._do(
                    RANKS, f"ranks {row} {seed}",
                    {"links": links.tolist(), "seed": seed, "gone": sorted(out)},
                    partial(self._ranked, links, seed, out),
                )["ranks"]
                for seed in range(self._seeds)
            ]  # fmt: skip
            every = np.array(ranks)
            figures[row] = {
                "mrr": plain_list((1 / every).mean(1)),
                "hits": plain_list((every <= 1).mean(1)),
                "facts": len(out),
            }
        self._finish(DELETION, count, figures)

    def _ranked(self, links: Longs, seed: int, gone: frozenset[int]) -> Figures:
        return {"ranks": tail_ranks(self._again(seed, gone), self._ready()[0], links).tolist()}

    def agreement(self, predictions: int, count: int) -> None:
        """Per link, how the effects of its rows by mimics and by training agree.

        The links are the last ones: settings of mimics were tried on some of the first.
        """
        found = [
            self._do(
                LINKS, f"effects {number}", {"link": link.tolist(), "seeds": self._seeds},
                partial(self._effects, link, rows),
            )
            for number, link, rows in self._links(predictions)[-count:]
        ]  # fmt: skip
        half = self._seeds // 2
        figures: Figures = {"links": len(found)}
        for kind in CORRELATIONS:
            mine: dict[str, list[float | None]] = {row: [] for row in AGREEING}
            for each in found:
                lost = np.array(each["lost"])
                pairs = {row: (np.array(each[row]), lost.mean(1)) for row in AGREEING[:2]}
                pairs[CEILING] = lost[:, :half].mean(1), lost[:, half:].mean(1)
                for row, pair in pairs.items():
                    mine[row].append(plain(_correlation(*pair, by_rank=kind == "rank")))
            figures[kind] = mine
        self._finish(AGREEMENT, count, figures)

    def _effects(self, link: Longs, rows: dict[str, frozenset[int]]) -> Figures:
        """The effects of sets of facts of a link: by mimics, and by training, per seed."""
        offered = LinkSets.of(self._ready()[2], link, 0)
        assert offered is not None
        # Single facts, too: of one size, sets hardly differ.
        single = [*sorted(rows[OURS])[:SINGLE], *offered.similar(SINGLE)]
        sets = [each for each in rows.values() if each] + [frozenset([fact]) for fact in single]
        sets = list(dict.fromkeys(sets))
        lost = [
            [self._whole(seed, link) - _score(self._again(seed, each), link)
             for seed in range(self._seeds)]
            for each in sets
        ]  # fmt: skip
        return {
            MIMICS: plain_list(offered.effects(sets)),
            ENDS_ONLY: plain_list(offered.effects(sets, ends_only=True)),
            "lost": lost,
        }

    def _whole(self, seed: int, link: Longs) -> float:
        """The score of a link after training on all facts."""
        if seed not in self._trained:
            self._trained[seed] = self._again(seed)
        return _score(self._trained[seed], link)

    def _finish(self, part: str, count: int, figures: Figures) -> None:
        """Store what a table is made of."""
        key = {"seeds": self._seeds, "links": count, "part": part}
        self._do(NAME, part, key, lambda: figures)


def _score(model: EmbeddingModel, link: Longs) -> float:
    """The score of a link, less the mean over all tails: a constant in all scores says nothing."""
    head, relation, tail = torch.from_numpy(link)
    count = len(model.nodes)
    every = model.scores(head.expand(count), relation.expand(count), torch.arange(count))
    return float(every[int(tail)] - every.mean())


def _correlation(one: Doubles, other: Doubles, *, by_rank: bool) -> float:
    """The correlation of two lists, or of their ranks; NaN if one of them is constant."""
    if len(one) < 3 or np.ptp(one) == 0 or np.ptp(other) == 0:
        return float("nan")
    if by_rank:
        one, other = (np.argsort(np.argsort(each)).astype(np.float64) for each in (one, other))
    return float(np.corrcoef(one, other)[0, 1])


def tables(runs: Sequence[Run]) -> list[Table]:
    """Return the tables of runs."""
    found = []
    for run in runs:
        figures = run.figures
        if run.key["part"] == COST:
            found.append(_cost_table(figures))
            continue
        title = f"{run.key['data']}, {run.key['model']}: {run.key['part']}"
        if run.key["part"] == DELETION:
            found.append(Table(title, _COLUMNS, _deletion_rows(figures), _deletion_note(run)))
        else:
            rows = [
                (words, *(_mean_and_error(figures[kind][name]) for kind in CORRELATIONS))
                for name, words in (
                    (MIMICS, "mimics of all nodes on the paths"),
                    (ENDS_ONLY, "mimics of source and target (Kelpie)"),
                    (CEILING, "one half of the trainings (ceiling)"),
                )
            ]
            note = (
                "Per link, the correlation of the effects of its sets of facts with those of "
                f"training again without them, {run.key['seeds']} seeds; the mean over "
                f"{figures['links']} links, with its standard error."
            )
            found.append(Table(title, ("effects by", *CORRELATIONS.values()), rows, note))
    return found


def _cost_table(figures: Figures) -> Table:
    rows = [
        (name, str(mine["size"]), cell(mine["facts per node"], 0),
         cell(float(np.mean(mine["links"])), 1), cell(max(mine["links"]), 1),
         cell(mine["making"], 1))
        for name, mine in figures.items()
    ]  # fmt: skip
    columns = ("model", "numbers per node", "facts per node", "mean", "slowest", "once per model")
    note = (
        f"CPU seconds per link on a random graph, over {COST_LINKS} links explained one by one, "
        f"with untrained models of {cost.SIZE} dimensions; of ComplEx and RotatE these are "
        "complex, two numbers each. A matrix factorisation has biases beside them."
    )
    return Table("CPU seconds per link", columns, rows, note)


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


def _mean_and_error(values: Sequence[float | None]) -> str:
    known = np.array([value for value in values if value is not None])
    if not len(known):
        return "-"
    if len(known) == 1:
        return cell(float(known[0]))
    error = known.std(ddof=1) / np.sqrt(len(known))
    return f"{cell(float(known.mean()))} ± {cell(float(error))}"
