"""What the graph adds to models for all relations: with it, without it, and on a random one.

Three trainings of one model, alike but for the edges that messages pass along: those of the graph;
none, so that only embeddings are left; and those of the graph with the targets of each relation
shuffled, which keeps all degrees. The same links, budget, step size and sizes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from torch_geometric.data import HeteroData

from pagelink.bench.runs import Figures, RunStore, cell, check_names, interval_cell, layout, say
from pagelink.datasets.folders import find_data
from pagelink.models.knowledge.commands import DEFAULT_MODEL, OF_WALKS, WALKS, make_knowledge_model
from pagelink.models.knowledge.facts import relations_to_predict, split_relations, training_graph
from pagelink.models.knowledge.training import KnowledgeSettings, train_knowledge
from pagelink.tables.load import load_graph

PART = "knowledge"
DATA = "fb15k-237"
MESSAGES = ("graph", "none", "random")


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
    """Train what was not trained before, and print the table of all that was."""
    wanted = check_names("kind of messages", only, MESSAGES)
    store = RunStore(out)
    for messages in wanted:
        key = {"graph": str(graph or DATA), "model": model, "minutes": minutes, "seed": seed,
               "messages": messages, "options": options or {}}  # fmt: skip
        name = f"{model}-{messages}-{seed}"
        say(console, f"{model}, messages along: {messages}")
        store.do(PART, name, key, lambda key=key: _trained(graph, key))  # type: ignore[misc]
    say(console, table(store))


def _trained(graph: Path | None, key: dict[str, Any]) -> Figures:
    path = graph or find_data(DATA)
    whole = load_graph(path)
    link_types = relations_to_predict(whole)
    splits = split_relations(path, whole, link_types, key["seed"])
    data = training_graph(whole, splits)
    options = dict(key["options"])
    if key["messages"] == "none":
        options["num_layers"] = 0
    predictor = make_knowledge_model(key["model"], data, link_types, seed=key["seed"], **options)
    seen = rewired(data, key["seed"]) if key["messages"] == "random" else data
    of_kind = OF_WALKS if key["model"] == WALKS else {}
    settings = KnowledgeSettings(**{**of_kind, "minutes": key["minutes"], "epochs": 1000})
    report = train_knowledge(predictor, seen, splits, settings, seed=key["seed"], facts=data)
    test = report.test
    return {
        "mrr": test.both.mrr, "spread": test.both.spread, "hits": list(test.both.hits),
        "tails": test.tails.mrr, "heads": test.heads.mrr, "queries": test.both.num_queries,
        "epochs": len(report.history), "valid_mrr": report.valid_mrr,
        "cpu_seconds": report.seconds, "megabytes": report.megabytes,
    }  # fmt: skip


def table(store: RunStore) -> str:
    """Return the table of all runs, as Markdown."""
    rows = [["model", "messages along", "CPU minutes", "epochs", "MRR", "of tails", "of heads",
             "Hits@1", "Hits@3", "Hits@10", "GB"]]  # fmt: skip
    for run in store.all(PART):
        found, mrr = run.figures, run.figures["mrr"]
        spread = found["spread"] if found["spread"] is not None else math.nan
        rows.append([
            run.key["model"], run.key["messages"], cell(found["cpu_seconds"] / 60, 1),
            str(found["epochs"]), interval_cell(mrr, mrr - spread, mrr + spread),
            cell(found["tails"]), cell(found["heads"]), *map(cell, found["hits"]),
            cell(found["megabytes"] / 1000, 2),
        ])  # fmt: skip
    return layout(rows, left=(0, 1))
