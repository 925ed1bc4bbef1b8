from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch_geometric.data import HeteroData

from pagelink.bench.paper import pruning as paper_pruning
from pagelink.bench.paper.plan import Plan
from pagelink.bench.paper.pruning import lost, pruned
from pagelink.bench.runs import Run, RunStore
from pagelink.graph.computation_graph import Extractor
from pagelink.graph.typed_graph import TypedGraph


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Run]:
    folder: Path = tmp_path_factory.mktemp("pruning")
    store = RunStore(folder / "runs")
    plan = Plan(folder / "models", seeds=2, links=6, quick=True)
    paper_pruning.PART.run(store, plan)
    return list(store.all("pruning"))


def test_what_is_left_by_hand() -> None:
    """Users 0, 1, 2 and items 0, 1, 2: a square between source and target, and a tail."""
    data = HeteroData()
    data["user"].num_nodes, data["item"].num_nodes = 3, 3
    pairs = torch.tensor([[0, 1, 1, 2], [0, 0, 1, 1]])
    data["user", "buys", "item"].edge_index = pairs
    data["item", "rev_buys", "user"].edge_index = pairs.flip(0)
    graph = TypedGraph.from_data(data)
    ends = np.array([graph.flat_index("user", 0)]), np.array([graph.flat_index("item", 1)])
    batch = Extractor(graph, 2).extract(*ends, np.array([-1]))
    fact = {
        (int(s), int(t)): int(f) for s, t, f in zip(graph.src, graph.dst, graph.fact, strict=True)
    }
    user, item = (lambda i: graph.flat_index("user", i)), (lambda i: graph.flat_index("item", i))
    path = [fact[user(0), item(0)], fact[user(1), item(0)], fact[user(1), item(1)]]
    whole = pruned(graph, batch, [path], 0)
    assert (whole["nodes"], whole["edges"]) == (5, 8)
    second = pruned(graph, batch, [path], 2)  # user 2 has one fact and goes
    assert (second["nodes"], second["edges"], second["path of 3"]) == (4, 6, 1)
    assert second["labelled"] == 1
    third = pruned(graph, batch, [path], 3)  # only the protected ends stay
    assert (third["nodes"], third["edges"]) == (2, 0)
    assert (third["path of 3"], third["labelled"]) == (0, 0)


def test_links_without_a_path_before_are_not_lost() -> None:
    assert lost([1, 0, 1, 1], [1, 0, 0, 1]) == pytest.approx(1 / 3)
    assert lost([0, 0], [0, 0]) is None


def test_quick_run(runs: list[Run]) -> None:
    by_name = {run.name: run.figures for run in runs}
    by_core = by_name["tiny-rgcn k-cores"]["by_core"]
    edges = [by_core[core]["edges"] for core in ("0", "2", "3", "4", "5", "6")]
    assert edges == sorted(edges, reverse=True)
    assert edges[-1] < edges[0]
    assert (by_core["0"]["path of 3"], by_core["0"]["labelled"]) == (0, 0)  # nothing is lost
    assert by_core["6"]["labelled"] > 0
    paper = next(r for r in by_name["theorem"]["rows"] if (r["degree"], r["core"]) == (7.0, 5))
    assert paper["predicted"] == pytest.approx([0.69, 0.69], abs=0.005)
    assert np.mean(paper["counted"], axis=0) == pytest.approx([0.69, 0.69], abs=0.05)
    for row in by_name["proposition"]["rows"]:
        assert row["short"] <= row["paths"] < row["subgraphs"]


def test_tables_come_from_the_runs(runs: list[Run]) -> None:
    left, theorem, proposition = paper_pruning.tables(runs)
    for table in (left, theorem, proposition):
        assert all(len(row) == len(table.columns) for row in table.rows)
    assert left.rows[0][2].endswith("(100%)")
    (plot,) = paper_pruning.plots(runs)
    assert plot.series[0].x == (2, 3, 4, 5, 6)
