"""What the graph adds to models for all relations: with it, without it, and on a random one.

Trainings of one model, alike but for the edges that messages pass along: those of the graph; none,
so that only embeddings are left; and those of the graph with the targets of each relation shuffled,
which keeps all degrees. The same links, sizes and CPU time, of which each of the same three step
sizes has a third; the best on the validation links is the one that is tested.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from torch_geometric.data import HeteroData

from pagelink.bench.paper.plan import PER_LINK
from pagelink.bench.paper.report import Table, say_tables
from pagelink.bench.runs import (
    Figures,
    Run,
    RunStore,
    cell,
    check_names,
    interval_cell,
    measured,
    say,
)
from pagelink.datasets.folders import find_data
from pagelink.errors import ModelError
from pagelink.metrics.averages import bootstrap_interval
from pagelink.models.knowledge.commands import DEFAULT_MODEL, OF_WALKS, WALKS, make_knowledge_model
from pagelink.models.knowledge.facts import relations_to_predict, split_relations, training_graph
from pagelink.models.knowledge.training import (
    KnowledgeReport,
    KnowledgeSettings,
    train_knowledge,
)
from pagelink.tables.load import load_graph

NAME = "knowledge"
DATA = "fb15k-237"
GRAPH, NONE, RANDOM = MESSAGES = ("graph", "none", "random")
STEP_SIZES = (1 / 3, 1.0, 3.0)
"""Tried for a third of the time each, as multiples of the default of the model. Shorter trials
choose large steps, which are ahead at first and behind later."""
TITLE = "Filtered MRR, with the graph and without it"
NOTE = (
    "Filtered ranks of tails and heads of the test links, with 95 % intervals over links; the "
    "difference from the row of the graph is paired, link by link. One training per row: what "
    "another seed would change is not in the intervals. Step sizes were chosen on validation links."
)


def rewired(data: HeteroData, seed: int) -> HeteroData:
    """Return a graph with the targets of every relation shuffled, and its reverse likewise.

    Every node keeps its number of edges of every relation, each way.
    """
    random = torch.Generator().manual_seed(seed)
    graph = data.clone("edge_index")
    done: set[Any] = set()
    for edge_type in data.edge_types:
        if edge_type in done:
            continue
        src, dst = data[edge_type].edge_index
        dst = dst[torch.randperm(len(dst), generator=random)]
        graph[edge_type].edge_index = torch.stack([src, dst])
        back = (edge_type[2], f"rev_{edge_type[1]}", edge_type[0])
        if back in data.edge_types:
            graph[back].edge_index = torch.stack([dst, src])
            done.add(back)
    return graph


def run_and_print(
    out: Path,
    console: Console,
    *,
    graph: Path | None = None,
    model: str = DEFAULT_MODEL,
    minutes: float = 60.0,
    only: Sequence[str] = (),
    seed: int = 0,
    options: dict[str, Any] | None = None,
) -> None:
    """Train what was not trained before, and print the table of all that was.

    Raises:
        ModelError: `nbf` without messages, which has nothing else to go by.
    """
    if model == WALKS and NONE in only:
        raise ModelError(f"{WALKS} has no embeddings: without messages there is nothing to train.")
    possible = [each for each in MESSAGES if model != WALKS or each != NONE]
    store, path = RunStore(out / "runs"), str(graph or find_data(DATA))
    for messages in check_names("kind of messages", only, possible):
        key = {"graph": DATA if graph is None else graph.name, "model": model, "minutes": minutes,
               "seed": seed, "messages": messages, "options": options or {}}  # fmt: skip
        say(console, f"{model}, messages along: {messages}")
        # In a process of its own, so that its memory is its own.
        store.do(
            NAME, f"{model}-{messages}-{seed}", key,
            lambda key=key: measured(trained, path, key),  # type: ignore[misc]
        )  # fmt: skip
    say_tables([table(store)], out, NAME, console, quick=False)


def trained(graph: str, key: dict[str, Any]) -> Figures:
    """Choose the step size and train, with the messages that the key says."""
    whole = load_graph(graph)
    link_types = relations_to_predict(whole)
    splits = split_relations(Path(graph), whole, link_types, key["seed"])
    data = training_graph(whole, splits)
    options = dict(key["options"])
    if key["messages"] == NONE:
        options["num_layers"] = 0
    seen = rewired(data, key["seed"]) if key["messages"] == RANDOM else data
    given: dict[str, Any] = dict(OF_WALKS) if key["model"] == WALKS else {}
    default = KnowledgeSettings(**given).lr

    def train(lr: float) -> KnowledgeReport:
        # The time is the only limit: an epoch without messages takes a fraction of one with them.
        minutes = key["minutes"] / len(STEP_SIZES)
        limits = {"minutes": minutes, "epochs": 10**6, "patience": 10**6}
        settings = KnowledgeSettings(**{**given, **limits, "lr": lr})
        model = make_knowledge_model(key["model"], data, link_types, seed=key["seed"], **options)
        return train_knowledge(model, seen, splits, settings, seed=key["seed"], facts=data)

    reports = {lr: train(lr) for lr in (default * factor for factor in STEP_SIZES)}
    best = max(reports, key=lambda lr: reports[lr].valid_mrr)
    report = reports[best]
    test = report.test
    return {
        "mrr": test.both.mrr, "hits": list(test.both.hits), "tails": test.tails.mrr,
        "heads": test.heads.mrr, "epochs": len(report.history), "best_epoch": report.best_epoch,
        "valid_mrr": report.valid_mrr, "lr": best,
        "trials": [[lr, each.valid_mrr] for lr, each in reports.items()],
        "cpu_seconds": sum(each.seconds for each in reports.values()),
        "megabytes": max(each.megabytes for each in reports.values()),
        PER_LINK: (1 / np.array(report.ranks)).mean(axis=0).round(6).tolist(),
    }  # fmt: skip


def table(store: RunStore) -> Table:
    """Return the table of all runs."""
    columns = (
        "model", "messages along", "MRR", "less than along the graph", "of tails", "of heads",
        "Hits@1", "Hits@3", "Hits@10", "test links", "step size", "epochs", "CPU minutes", "GB",
    )  # fmt: skip
    runs = list(store.all(NAME))
    return Table(TITLE, columns, [_row(run, _along_graph(run, runs)) for run in runs], NOTE)


def _along_graph(run: Run, runs: Sequence[Run]) -> Run | None:
    """The run that is as this one, but for messages along the graph; None: it was not done."""
    key = {**run.key, "messages": GRAPH}
    return next((each for each in runs if each.key == key), None)


def _row(run: Run, graph: Run | None) -> tuple[str, ...]:
    found, mine = run.figures, np.array(run.figures[PER_LINK])
    less = "-"
    if graph is not None and graph is not run:
        gap = np.array(graph.figures[PER_LINK]) - mine
        less = interval_cell(float(gap.mean()), *bootstrap_interval(gap, run.key["seed"]))
    return (
        run.key["model"], run.key["messages"],
        interval_cell(found["mrr"], *bootstrap_interval(mine, run.key["seed"])), less,
        cell(found["tails"]), cell(found["heads"]), *map(cell, found["hits"]), f"{len(mine):,}",
        f"{found['lr']:.2g}", str(found["epochs"]), cell(found["cpu_seconds"] / 60, 1),
        cell(found["megabytes"] / 1000, 2),
    )  # fmt: skip
