from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
import torch
from torch_geometric.data import HeteroData

from pagelink.bench.paper import cases as paper_cases
from pagelink.bench.paper.cases import FIRST, SECOND, Panel, draw_panels, fact_words, joins
from pagelink.bench.paper.plan import Plan
from pagelink.bench.runs import Run, RunStore
from pagelink.graph.typed_graph import TypedGraph
from pagelink.rivals.registry import BY_PATH, RIVALS
from pagelink.views.layers import NamedFact


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Run]:
    folder: Path = tmp_path_factory.mktemp("cases")
    store = RunStore(folder / "runs")
    plan = Plan(folder / "models", seeds=1, quick=True)
    paper_cases.PART.run(store, plan)
    return list(store.all("cases"))


@pytest.fixture(scope="module")
def graph() -> TypedGraph:
    """Author 0 wrote paper 0, which cites paper 1; author 1 wrote paper 1."""
    data = HeteroData()
    data["author"].num_nodes, data["paper"].num_nodes = 2, 2
    data["author"].name, data["paper"].name = ["Ada", "Bob"], ["first", "second"]
    writes = torch.tensor([[0, 1], [0, 1]])
    data["author", "writes", "paper"].edge_index = writes
    data["paper", "rev_writes", "author"].edge_index = writes.flip(0)
    data["paper", "cites", "paper"].edge_index = torch.tensor([[0], [1]])
    return TypedGraph.from_data(data)


def fact_between(graph: TypedGraph, one: int, other: int) -> int:
    ends = {one, other}
    pairs = zip(graph.src.tolist(), graph.dst.tolist(), graph.fact.tolist(), strict=True)
    return next(fact for src, dst, fact in pairs if {src, dst} == ends)


def test_facts_are_read_in_their_own_direction(graph: TypedGraph) -> None:
    ada, first = graph.flat_index("author", 0), graph.flat_index("paper", 0)
    said = fact_words(graph, fact_between(graph, first, ada))
    assert said == NamedFact(("author", "Ada"), "writes", ("paper", "first"))


def test_loose_facts_do_not_join(graph: TypedGraph) -> None:
    ada, bob = graph.flat_index("author", 0), graph.flat_index("author", 1)
    first, second = graph.flat_index("paper", 0), graph.flat_index("paper", 1)
    own, cited = fact_between(graph, ada, first), fact_between(graph, first, second)
    bobs = fact_between(graph, bob, second)
    assert joins(graph, [bobs, own, cited], ada, bob) == (True, True)
    assert joins(graph, [own, bobs], ada, bob) == (False, True)
    assert joins(graph, [own, cited], ada, bob) == (False, False)
    assert joins(graph, [], ada, bob) == (False, False)


def test_names_in_the_drawing_are_escaped() -> None:
    src, dst = ("author", "A<b>"), ("paper", "t & u")
    drawn = draw_panels("x", src, dst, [Panel("one", (NamedFact(src, "writes", dst),))])
    texts = [each.text for each in ET.fromstring(drawn).iter() if each.text]
    assert "A<b>" in texts
    assert "t & u" in texts


def test_quick_run(runs: list[Run]) -> None:
    by_name = {run.name: run.figures for run in runs}
    by_explainer = {name: by_name[f"{FIRST}, {name}"] for name in RIVALS}
    assert all(1 <= len(row["facts"]) <= 3 for row in by_explainer.values())
    assert all(by_explainer[name]["joined"] for name in BY_PATH)
    generic = by_name[SECOND]["generic"]
    assert len(generic) == by_name["choice"]["generic"] > 0
    assert all(row["degree"] > 6 for row in generic)
    assert all(0 < row["paths"] <= by_name[SECOND]["num_paths"] for row in generic)


def test_tables_and_drawings_come_from_the_runs(runs: list[Run]) -> None:
    facts, paths, generic = paper_cases.tables(runs)
    for table in (facts, paths, generic):
        assert all(len(row) == len(table.columns) for row in table.rows)
    drawn = paper_cases.drawings(runs)
    assert len(drawn) == 2
    for svg in drawn.values():
        assert ET.fromstring(svg).tag.endswith("svg")
