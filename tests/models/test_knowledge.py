"""One model for all relations: sums, heads, what is left out of a step, ranks, files, commands."""

from __future__ import annotations

import itertools
import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest
import torch
from support.knowledge import write_graph
from support.shell import shell
from torch_geometric.data import HeteroData
from torch_geometric.nn import MessagePassing

from pagelink.errors import CheckpointError, GraphError, LinkError, ModelError
from pagelink.explain.explainer import PaGELink
from pagelink.graph.typed_graph import TypedGraph
from pagelink.layers.whole import Pass, replace_forward, whole_layers
from pagelink.models.commands import recommend
from pagelink.models.knowledge.checkpoint import open_predictor
from pagelink.models.knowledge.commands import make_knowledge_model, recommend_many
from pagelink.models.knowledge.edges import RelationalEdges
from pagelink.models.knowledge.facts import (
    KnownFacts,
    edges_of_triples,
    flat_triples,
    relations_to_predict,
    split_relations,
)
from pagelink.models.knowledge.heads import HEADS, make_relation_head
from pagelink.models.knowledge.model import KnowledgeModel, sorted_edges
from pagelink.models.knowledge.ranking import filtered_ranks
from pagelink.models.knowledge.training import KnowledgeSettings, train_knowledge
from pagelink.models.link_model import node_inputs
from pagelink.runtime.undo import Undo
from pagelink.tables.load import load_graph
from pagelink.tables.words import Words

KINDS = ("rgcn", "compgcn", "nbf")


def of_types() -> HeteroData:
    """Two node types, one with features, and a relation each way."""
    data = HeteroData()
    data["user"].num_nodes = 4
    data["item"].x = torch.randn(5, 3, generator=torch.Generator().manual_seed(0))
    data["user", "buys", "item"].edge_index = torch.tensor([[0, 1, 2, 3, 0], [0, 1, 2, 3, 4]])
    data["item", "like", "item"].edge_index = torch.tensor([[0, 1], [1, 4]])
    data["item", "rev_buys", "user"].edge_index = data["user", "buys", "item"].edge_index.flip(0)
    return data


@pytest.mark.parametrize("name", KINDS)
def test_compiled_sums_are_those_of_message_passing(name: str) -> None:
    data = of_types()
    types = relations_to_predict(data)
    assert types == [("user", "buys", "item"), ("item", "like", "item")]
    model: Any = make_knowledge_model(name, data, types, hidden=8, num_layers=2, seed=3).eval()
    x_dict, edges = node_inputs(data), dict(data.edge_index_dict)
    whole = model.edges(x_dict, edges)
    fast = sorted_edges(model, whole)
    known, relation = torch.tensor([0, 1, 5]), torch.tensor([0, 0, 1])
    logits, grads = [], []
    for given in (whole, fast):
        model.zero_grad()
        out = model.against(model.encode(x_dict, given), known, relation, False)
        out.square().sum().backward()
        logits.append(out.detach())
        grads.append([p.grad for p in model.parameters() if p.grad is not None])
    assert torch.allclose(*logits, atol=1e-5)
    assert len(grads[0]) > 3
    for one, other in zip(*grads, strict=True):
        assert torch.allclose(one, other, rtol=1e-3, atol=1e-5)
    # Leaving edges out is as if they were not there.
    fast.leave_out(np.array([1, 6]))
    fewer = {t: e[:, [i for i in range(e.shape[1]) if (t[1], i) not in (("buys", 1), ("like", 1))]]
             for t, e in edges.items()}  # fmt: skip
    with torch.no_grad():
        left = model.against(model.encode(x_dict, fast), known, relation, False)
        there = model.against(
            model.encode(x_dict, model.edges(x_dict, fewer)), known, relation, False
        )
    assert torch.allclose(left, there, atol=1e-5)
    assert not torch.allclose(left, logits[0], atol=1e-5)


@pytest.mark.parametrize("name", HEADS)
def test_a_head_scores_a_link_the_same_from_both_ends(name: str) -> None:
    torch.manual_seed(0)
    head = make_relation_head(name, 3, 8)
    src, dst, relation = torch.randn(5, 8), torch.randn(5, 8), torch.tensor([0, 1, 2, 0, 1])
    logits = head(src, relation, dst)
    forth = head.against_all(head.query(src, relation), dst).diagonal()
    back = head.against_all(head.query(dst, relation, inverse=True), src).diagonal()
    assert torch.allclose(logits, forth, atol=1e-4)
    assert torch.allclose(logits, back, atol=1e-4)
    if name != "distmult":
        assert not torch.allclose(head(dst, relation, src), logits, atol=1e-3)


@pytest.mark.parametrize("name", KINDS)
def test_layers_of_an_explainer_are_those_of_message_passing(name: str) -> None:
    data = of_types()
    types = relations_to_predict(data)
    model: Any = make_knowledge_model(name, data, types, hidden=8, num_layers=2, seed=3).eval()
    links, relation = torch.tensor([[0, 1], [3, 4]]), torch.tensor([0, 0])
    given = node_inputs(data), dict(data.edge_index_dict), links, relation
    layers = whole_layers(model)
    convs = [each for each in model.modules() if isinstance(each, MessagePassing)]
    assert len(convs) == 2
    assert set(convs) <= set(layers)
    with torch.no_grad():
        plain = model(*given)
        with Undo() as undo:
            replace_forward(layers, Pass(), undo)
            for conv in convs:
                undo.later(vars(conv).pop, "propagate", None)
                vars(conv)["propagate"] = None  # is not called
            assert torch.allclose(model(*given), plain, atol=1e-5)
    convs[0].register_message_forward_hook(lambda *values: None)
    assert convs[0] not in whole_layers(model)


def test_complex_and_rotate_by_hand() -> None:
    one, i = torch.tensor([[1.0, 0.0]]), torch.tensor([[0.0, 1.0]])
    zero = torch.tensor([0])
    complex_head = make_relation_head("complex", 1, 2)
    complex_head.relation.weight.data = torch.tensor([[0.0, 2.0]])
    assert complex_head(one, zero, i).tolist() == [2.0]  # 1 * 2i * conj(i)
    rotate = make_relation_head("rotate", 1, 2)
    rotate.relation.weight.data = torch.tensor([[np.pi / 2]])
    assert rotate(one, zero, i).item() == pytest.approx(6.0, abs=1e-5)  # the margin alone


def test_all_edges_of_a_fact_are_left_out() -> None:
    data = of_types()
    data["item", "like", "item"].edge_index = torch.tensor([[0, 1, 1], [1, 0, 4]])
    splits = split_relations(None, data, relations_to_predict(data))
    ptr, edges = edges_of_triples(TypedGraph.from_data(data), splits)
    whole = RelationalEdges(
        node_inputs(data), dict(data.edge_index_dict), data.node_types, data.edge_types
    )
    triples = flat_triples(splits, "train", whole.first)
    assert len(ptr) == triples.shape[1] + 1
    stated = [set(edges[a:b].tolist()) for a, b in itertools.pairwise(ptr)]
    for (head, relation, tail), mine in zip(triples.T.tolist(), stated, strict=True):
        names = {data.edge_types[whole.relation[e]][1].removeprefix("rev_") for e in mine}
        assert names == {[*splits][relation][1]}
        ends = {frozenset(whole.edge_index[:, e].tolist()) for e in mine}
        assert ends == {frozenset((head, tail))}
        assert len(mine) == (1 if (head, tail) == (5, 8) else 2)  # an edge and its reverse


class Fixed(KnowledgeModel):
    """Logits are the numbers of the nodes."""

    def encode(self, x_dict: Any, edges: Any) -> int:
        return int(edges.num_nodes)

    def against(self, vectors: Any, known: Any, relation: Any, inverse: bool, nodes: Any = None):  # type: ignore[no-untyped-def]
        return torch.arange(float(vectors)).expand(len(known), -1).clone()

    def score(self, vectors: Any, src: Any, relation: Any, dst: Any) -> Any:
        return dst.float()


def test_filtered_ranks_by_hand() -> None:
    buys = ("user", "buys", "item")
    model = Fixed({"user": 2, "item": 4}, [buys], [buys], {})
    triples = torch.tensor([[0, 0], [0, 0], [2, 5]])
    every = torch.cat([triples, torch.tensor([[0], [0], [4]])], dim=1)
    given = model, 6, triples, KnownFacts(every, 6), {"user": 0, "item": 2}, 6
    # Of the items 2 to 5, the item 4 is known and left out, and so is each for the other.
    assert filtered_ranks(*given, inverse=False).tolist() == [2.0, 1.0]
    # Of the users 0 and 1, 1 has the higher number.
    assert filtered_ranks(*given, inverse=True).tolist() == [2.0, 2.0]


@pytest.mark.parametrize("name", KINDS)
def test_training_is_deterministic_and_learns(tmp_path: Path, name: str) -> None:
    graph = write_graph(tmp_path)
    data = load_graph(graph)
    types = relations_to_predict(data)
    splits = split_relations(graph, data, types)
    assert sum(s.test.shape[1] for s in splits.values()) == 5
    settings = KnowledgeSettings(epochs=4, batch_size=32, lr=0.02, patience=9)
    weights = []
    state = torch.get_rng_state()
    for _ in range(2):
        model = make_knowledge_model(name, data, types, hidden=16)
        report = train_knowledge(model, data, splits, settings)
        weights.append(model.state_dict())
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(weights[0][key], weights[1][key]) for key in weights[0])
    assert report.history[-1].loss < report.history[0].loss
    assert report.test.both.num_queries == 10
    assert sum(figures.num_queries for _, figures in report.test.relations) == 10
    again = type(report).from_dict(json.loads(json.dumps(report.to_dict())))
    assert str(again) == str(report)


def test_what_cannot_be_made() -> None:
    data = of_types()
    for name, options, wanted in (
        ("gat", {}, "one of rgcn, compgcn, nbf"),
        ("nbf", {"head": "complex"}, "does not take all of"),
        ("rgcn", {"hidden": 5}, "even number"),
        ("rgcn", {"head": "transe"}, "distmult, complex, rotate"),
    ):
        with pytest.raises(ModelError, match=wanted):
            make_knowledge_model(name, data, relations_to_predict(data), **options)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("knowledge")
    write_graph(folder)
    said = shell(
        "train", "train.txt", "--link", "all", "--out", "model.pt", "--epochs", "30", "--hidden",
        "16", "--batch-size", "32", "--figures", "figures.csv", cwd=folder,
    )  # fmt: skip
    assert said.returncode == 0, said.stderr
    assert "4 relations; 90 links to train on, 5 to validate, 5 to test." in said.stdout
    assert "Hits@10" in said.stdout
    return folder


def test_figures_of_each_relation_are_written(trained: Path) -> None:
    rows = pa.csv.read_csv(trained / "figures.csv").to_pylist()
    held_out = Counter(
        line.split("\t")[1] for line in (trained / "test.txt").read_text().splitlines()
    )
    assert {row["relation"]: row["links"] for row in rows} == held_out
    view = open_predictor(trained / "model.pt", trained, link="knows")
    report: Any = view.report
    whole = sum(row["mrr"] * row["links"] for row in rows) / sum(held_out.values())
    assert whole == pytest.approx(report.test.both.mrr)
    assert all(row["hits_at_1"] <= row["hits_at_3"] <= row["hits_at_10"] for row in rows)


def test_commands_of_a_model_for_all_relations(trained: Path) -> None:
    (trained / "names.tsv").write_text("p0\tAda\nc0\tRome\n")
    (trained / "relations.tsv").write_text("lives in\tis at home in\tis the home of\n")
    words = ("--names", "names.tsv", "--relations", "relations.tsv")
    opened = ("train.txt", "--model", "model.pt")
    told = shell("describe", "train.txt", *words, cwd=trained).stdout.splitlines()
    assert told[5].split() == ["relation", "edges", "reads"]
    (row,) = (line for line in told if line.startswith("lives in"))
    assert row.endswith("is at home in / is the home of")
    assert "1 of 4 relations have phrases; the others read by name." in told
    said = shell("recommend", *opened, "--link", "lives in", "--src", "Ada", "-k", "3", *words,
                 cwd=trained)  # fmt: skip
    assert said.returncode == 0, said.stderr
    assert said.stdout.count("\n") == 5
    assert said.stdout.startswith("Best new targets of 'Ada' (is at home in entity):")
    said = shell("recommend", *opened, "--link", "is from", "--dst", "l0", "-k", "2", cwd=trained)
    assert said.returncode == 0, said.stderr
    (trained / "nodes.csv").write_text("src\np0\nnobody\n")
    said = shell("recommend", *opened, "--link", "knows", "--links", "nodes.csv", "--out",
                 "rows.csv", "-k", "2", cwd=trained)  # fmt: skip
    assert "2 nodes, 3 rows, 1 of an error: rows.csv" in said.stdout, said.stderr
    assert "nobody" in (trained / "rows.csv").read_text()
    said = shell("explain", *opened, "--link", "lives in", "--src", "Ada", "--dst", "Rome", *words,
                 cwd=trained)  # fmt: skip
    assert said.returncode == 0, said.stderr
    assert "is at home in Rome" in said.stdout
    assert re.search(r"Rome ranks \d+\w\w of \d+ entities for Ada", said.stdout)
    for link, wanted in ((None, "say which one by --link"), ("likes", "none of the 4 relations")):
        given = [] if link is None else ["--link", link]
        said = shell("explain", *opened, "--src", "p0", "--dst", "c0", *given, cwd=trained)
        assert said.returncode == 1
        assert wanted in said.stderr
    said = shell("explain", *opened, "--link", "knows", "--links", "x.csv", "--out", "valid.csv",
                 cwd=trained)  # fmt: skip
    assert said.returncode == 2
    assert "would be read as a part of the graph" in said.stderr
    # Of the folder, too, and with results beside the files of the graph.
    (trained / "links.csv").write_text("src,dst\np0,l0\n")
    said = shell("explain", ".", "--model", "model.pt", "--link", "is from", "--links",
                 "links.csv", "--out", "few.csv", cwd=trained)  # fmt: skip
    assert said.returncode == 0, said.stderr
    assert "1 link" in said.stdout


def test_a_view_has_the_scores_of_the_whole_and_is_explained_truly(trained: Path) -> None:
    view = open_predictor(trained / "model.pt", trained, link="is from")
    model: Any = view.model
    links = torch.tensor([[0, 3], [1, 7]])
    relation = torch.full((2,), model.relation)
    with torch.no_grad():
        whole = model.whole(
            node_inputs(view.data), dict(view.data.edge_index_dict), links, relation
        )
        alone = view.score(links)
    assert torch.allclose(whole, alone, atol=1e-5)
    src, dst = view.split.train[:, 0].tolist()
    explainer = PaGELink(model, view.data, view.link_type, threshold=None)
    explanation = explainer.explain(src, dst)
    assert explanation.paths
    # What removing the first path does, by really removing its facts.
    edges = {t: torch.ones(view.data[t].num_edges, dtype=torch.bool) for t in view.data.edge_types}
    back = {t: explainer.graph.reverse.get(t) for t in edges}

    def drop(edge_type: Any, index: int) -> None:
        pair = view.data[edge_type].edge_index[:, index]
        edges[edge_type] &= (view.data[edge_type].edge_index != pair[:, None]).any(0)
        if back[edge_type]:
            other = view.data[back[edge_type]].edge_index
            edges[back[edge_type]] &= (other != pair.flip(0)[:, None]).any(0)

    column = (view.data[view.link_type].edge_index == torch.tensor([[src], [dst]])).all(0)
    drop(view.link_type, int(column.nonzero()[0]))
    kept = {t: view.data[t].edge_index[:, mask] for t, mask in edges.items()}
    for edge in explanation.paths[0].edges:
        drop(edge.type, edge.index)
    fewer = {t: view.data[t].edge_index[:, mask] for t, mask in edges.items()}
    pair = torch.tensor([[src], [dst]])
    with torch.no_grad():
        before, after = (float(model(node_inputs(view.data), e, pair)) for e in (kept, fewer))
    assert explanation.logit == pytest.approx(before, abs=1e-4)
    assert explanation.paths[0].influence == pytest.approx(before - after, abs=1e-4)


def test_many_nodes_and_other_graphs(trained: Path, tmp_path: Path) -> None:
    view = open_predictor(trained / "model.pt", trained, link="knows")
    (_, _, answers), (_, _, error) = recommend_many(view, ["p0", "nobody"], 2)
    assert isinstance(answers, list)
    assert len(answers) == 2
    assert isinstance(error, LinkError)
    other = write_graph(tmp_path, 33)
    with pytest.raises(CheckpointError, match="not the one"):
        open_predictor(trained / "model.pt", other, link="knows")


def test_a_store_gives_the_answers_of_its_tables(trained: Path, tmp_path: Path) -> None:
    # One file, whose links are split at random and cut from the graph.
    alone = tmp_path / "triples.tsv"
    alone.write_text((trained / "train.txt").read_text())
    said = shell("train", "triples.tsv", "--link", "all", "--out", "split.pt", "--epochs", "2",
                 "--hidden", "8", cwd=tmp_path)  # fmt: skip
    assert said.returncode == 0, said.stderr
    cases = (
        (trained / "train.txt", trained / "model.pt", True),
        (alone, tmp_path / "split.pt", False),
    )
    for number, (graph, model, on_disk) in enumerate(cases):
        folder = tmp_path / f"store{number}"
        said = shell("store", str(graph), "--out", folder.name, cwd=tmp_path)
        assert said.returncode == 0, said.stderr
        tables, store = (open_predictor(model, each, link="is from") for each in (graph, folder))
        assert (store.store is not None) == on_disk
        pair = tables.split.train[:, 0].tolist()
        assert recommend(store, pair[0], 3) == recommend(tables, pair[0], 3)
        one, other = (
            PaGELink(each.model, each.source, each.link_type, threshold=None).explain(*pair)
            for each in (tables, store)
        )
        assert one.paths
        assert [path.nodes for path in one.paths] == [path.nodes for path in other.paths]
        assert one.logit == pytest.approx(other.logit, abs=1e-6)
    said = shell("store", "triples.tsv", "--model", "split.pt", "--out", "of", cwd=tmp_path)
    assert said.returncode == 1
    assert "One store of its graph serves all of them" in said.stderr
    with pytest.raises(GraphError, match="names and phrases that it was made with"):
        open_predictor(model, folder, Words(relations=graph), "is from")


def test_walks_of_many_queries_are_those_of_each(monkeypatch: pytest.MonkeyPatch) -> None:
    data = of_types()
    types = relations_to_predict(data)
    model = make_knowledge_model("nbf", data, types, hidden=8, seed=1)
    edges = model.edges(node_inputs(data), dict(data.edge_index_dict))
    known, relation = torch.tensor([0, 1, 2, 3, 0]), torch.tensor([0, 0, 0, 0, 0])
    vectors = model.encode(node_inputs(data), edges)
    together = model.against(vectors, known, relation, False)
    monkeypatch.setattr("pagelink.models.knowledge.walks.QUERIES_AT_ONCE", 1)
    alone = model.against(vectors, known, relation, False)
    assert together.shape == (5, 9)
    assert torch.allclose(together, alone, atol=1e-6)
    assert torch.allclose(together[0], together[4], atol=1e-6)
    assert not torch.allclose(together[0], together[1])
