"""`pagelink bench faithfulness --only experts`: plain swaps, figures by hand, and a quick run."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch_geometric.data import HeteroData
from typer.testing import CliRunner

from pagelink import PaGELink
from pagelink.bench.faithfulness import experts
from pagelink.bench.faithfulness.experts import ASSOCIATES, BINDS, TREATS, Model
from pagelink.bench.faithfulness.judges import EditedGraph, RewiredModel
from pagelink.bench.faithfulness.swaps import (
    FactSwaps,
    SwapEffect,
    placebo_facts,
    shuffled_links,
    swap_effect,
)
from pagelink.bench.runs import Run
from pagelink.cli.main import app
from pagelink.graph.links import Link
from pagelink.graph.typed_graph import TypedGraph
from pagelink.models.architectures import make_model
from pagelink.models.link_model import node_inputs
from pagelink.models.links import split_graph

LIKE: tuple[str, str, str] = ("gene", "like", "gene")
SRC, DST = 0, 0


@pytest.fixture(scope="module")
def data() -> HeteroData:
    """Compound 0 and disease 0 share gene 0, and gene 1 is like gene 2; a relation within a type.

    `binds` has an edge twice, and `like` is stored one way only.
    """
    data = HeteroData()
    data["compound"].num_nodes, data["gene"].num_nodes, data["disease"].num_nodes = 12, 24, 12
    rng = np.random.default_rng(0)
    binds = {(0, 0), (0, 1), (0, 3)} | {(int(c), int(g)) for c, g in zip(
        rng.integers(1, 12, 30), rng.integers(4, 24, 30), strict=True)}  # fmt: skip
    associates = {(0, 0), (0, 2), (0, 4)} | {(int(d), int(g)) for d, g in zip(
        rng.integers(1, 12, 30), rng.integers(5, 24, 30), strict=True)}  # fmt: skip
    like = {(1, 2)} | {(int(a), int(b)) for a, b in rng.integers(5, 24, (12, 2)) if a != b}
    for edge_type, pairs in ((BINDS, binds), (ASSOCIATES, associates), (LIKE, like)):
        edges = torch.tensor(sorted(pairs)).T
        source, name, target = edge_type
        if name == "binds":
            edges = torch.cat([edges, edges[:, -1:]], dim=1)
        data[edge_type].edge_index = edges
        if name != "like":
            data[target, f"rev_{name}", source].edge_index = edges.flip(0)
    return data


@pytest.fixture(scope="module")
def graph(data: HeteroData) -> TypedGraph:
    return TypedGraph.from_data(data, [TREATS])


@pytest.fixture(scope="module")
def swaps(graph: TypedGraph) -> FactSwaps:
    return FactSwaps(graph)


def ends(graph: TypedGraph) -> tuple[int, int]:
    return graph.flat_index("compound", SRC), graph.flat_index("disease", DST)


def fact(graph: TypedGraph, edge_type: tuple[str, str, str], src: int, dst: int) -> int:
    position = graph.edge_types.index(edge_type)
    of_type = graph.relation == position
    found = of_type & (graph.src == graph.flat_index(edge_type[0], src))
    found &= graph.dst == graph.flat_index(edge_type[2], dst)
    return int(graph.fact[found][0])


Edges = Counter[tuple[int, int, int]]


def edited_edges(graph: TypedGraph, edited: EditedGraph) -> Edges:
    """All edges of the edited graph, by relation, source and target."""
    kept = ~np.isin(graph.fact, list(edited.removed))
    own = zip(
        graph.relation[kept].tolist(), graph.src[kept].tolist(), graph.dst[kept].tolist(),
        strict=True,
    )  # fmt: skip
    return Counter([*own, *edited.added])


def simple_paths(edges: Edges, src: int, dst: int, most: int) -> set[tuple[Any, ...]]:
    """By brute force: all paths, as the nodes and the relations along them."""
    steps: dict[int, set[tuple[int, int]]] = {}
    for relation, tail, head in edges:
        steps.setdefault(tail, set()).add((relation, head))
        steps.setdefault(head, set()).add((~relation, tail))
    found, open_ends = set(), [((src,), (src,))]
    for _ in range(most):
        longer = []
        for nodes, path in open_ends:
            for relation, node in steps.get(nodes[-1], ()):
                if node not in nodes:
                    longer.append(((*nodes, node), (*path, relation, node)))
        found |= {path for nodes, path in longer if nodes[-1] == dst}
        open_ends = [(nodes, path) for nodes, path in longer if nodes[-1] != dst]
    return found


def test_what_is_on_a_path(graph: TypedGraph, swaps: FactSwaps) -> None:
    src, dst = ends(graph)
    assert set(np.flatnonzero(swaps.on_path(src, dst, -1)).tolist()) == {
        fact(graph, BINDS, 0, 0), fact(graph, BINDS, 0, 1), fact(graph, LIKE, 1, 2),
        fact(graph, ASSOCIATES, 0, 0), fact(graph, ASSOCIATES, 0, 2),
    }  # fmt: skip


def test_swaps_keep_degrees_and_make_no_path(graph: TypedGraph, swaps: FactSwaps) -> None:
    src, dst = ends(graph)
    whole = edited_edges(graph, EditedGraph(src, dst, frozenset()))
    before = simple_paths(whole, src, dst, 3)
    sets = (
        [fact(graph, BINDS, 0, 0), fact(graph, ASSOCIATES, 0, 0)],
        [fact(graph, BINDS, 0, 1), fact(graph, LIKE, 1, 2), fact(graph, ASSOCIATES, 0, 2)],
        [fact(graph, BINDS, 0, 3)],
    )
    drawn = Counter[frozenset[int]]()
    for seed in range(60):
        for facts in sets:
            edited = swaps.draw(src, dst, -1, facts, np.random.default_rng(seed))
            assert edited is not None
            assert set(facts) < edited.removed
            assert len(edited.removed) == 2 * len(facts)  # a partner for each of them
            after = edited_edges(graph, edited)
            for column in (1, 2):  # out-degree and in-degree of each node, relation by relation
                assert Counter((edge[0], edge[column]) for edge in after.elements()) == Counter(
                    (edge[0], edge[column]) for edge in whole.elements()
                )
            # No edge comes to be there twice, nor joins a node with itself.
            assert sorted(after.values()) == sorted(whole.values())
            assert all(tail != head for _, tail, head in after)
            forward = {(relation, tail, head) for relation, tail, head in after}
            like = graph.edge_types.index(LIKE)
            assert not any((like, b, a) in forward for kind, a, b in forward if kind == like)
            assert not simple_paths(after, src, dst, 3) - before
            drawn[edited.removed] += 1
    assert len(drawn) > 60  # partners are drawn, not always the same


def test_both_directions_move_along(graph: TypedGraph, swaps: FactSwaps) -> None:
    src, dst = ends(graph)
    bound = fact(graph, BINDS, 0, 0)
    edited = swaps.draw(src, dst, -1, [bound], np.random.default_rng(0))
    assert edited is not None
    binds, back = (
        graph.edge_types.index(BINDS),
        graph.edge_types.index(("gene", "rev_binds", "compound")),
    )
    there = Counter((tail, head) for relation, tail, head in edited.added if relation == binds)
    again = Counter((head, tail) for relation, tail, head in edited.added if relation == back)
    assert there == again
    assert len(there) == 2


TO = ("a", "to", "b")
ALSO = ("a", "also", "b")


def drawn_heads(
    pairs: list[tuple[int, int]],
    link: tuple[int, int],
    *,
    also: list[tuple[int, int]] | None = None,
) -> set[int]:
    """Where the first of some facts leads to, in many swaps of it."""
    data = HeteroData()
    data["a"].num_nodes = data["b"].num_nodes = 4
    data[TO].edge_index = torch.tensor(pairs).T
    if also:
        data[ALSO].edge_index = torch.tensor(also).T
    graph = TypedGraph.from_data(data, [TO])
    swaps, (tail, head) = FactSwaps(graph), pairs[0]
    src, dst = graph.flat_index("a", link[0]), graph.flat_index("b", link[1])
    heads = set()
    for seed in range(20):
        rng = np.random.default_rng(seed)
        edited = swaps.draw(src, dst, -1, [fact(graph, TO, tail, head)], rng)
        assert edited is not None
        kept = graph.flat_index("a", tail)
        heads |= {graph.node(end)[1] for _, start, end in edited.added if start == kept}
    return heads


def test_the_link_itself_does_not_arise() -> None:
    # (0, 1) may become (0, 2) or (0, 3), but not the pair (0, 0) that is asked about.
    assert drawn_heads([(0, 1), (1, 0), (2, 2), (3, 3)], (0, 0)) == {2, 3}


def test_no_fact_becomes_one_that_is_there() -> None:
    assert drawn_heads([(0, 1), (0, 2), (3, 2), (2, 3)], (1, 0)) == {3}
    assert drawn_heads([(0, 1), (3, 2), (2, 3), (3, 1)], (1, 0)) == {3}


def test_two_new_facts_make_no_path_together() -> None:
    # (0, 0) and (1, 1) would become (0, 1) and (1, 0), and 1 and 1 are joined by another relation.
    assert drawn_heads([(0, 0), (1, 1), (2, 2)], (0, 0)) == {1, 2}
    assert drawn_heads([(0, 0), (1, 1), (2, 2)], (0, 0), also=[(1, 1)]) == {2}


def test_no_partner_no_swap() -> None:
    data = HeteroData()
    data["a"].num_nodes = data["b"].num_nodes = 2
    data["a", "to", "b"].edge_index = torch.tensor([[0, 0, 1], [0, 1, 1]])
    graph = TypedGraph.from_data(data, [("a", "likes", "b")])
    first = fact(graph, ("a", "to", "b"), 0, 0)
    src, dst = graph.flat_index("a", 0), graph.flat_index("b", 1)
    assert FactSwaps(graph).draw(src, dst, -1, [first], np.random.default_rng(0)) is None


def test_placebo_facts(graph: TypedGraph, swaps: FactSwaps) -> None:
    src, dst = ends(graph)
    facts = [fact(graph, BINDS, 0, 0), fact(graph, ASSOCIATES, 0, 0)]
    on_path = swaps.on_path(src, dst, -1)
    rng = np.random.default_rng(0)
    # One fact at either end is on no path.
    assert placebo_facts(swaps, (src, dst), -1, facts, on_path, rng) == [
        fact(graph, BINDS, 0, 3), fact(graph, ASSOCIATES, 0, 4),
    ]  # fmt: skip
    assert placebo_facts(swaps, (src, dst), -1, [*facts, facts[0]], on_path, rng) is None


def test_swap_effect_is_beyond_the_placebo(
    graph: TypedGraph, swaps: FactSwaps, data: HeteroData
) -> None:
    model = make_model("sage", data, TREATS, paper_split=True, hidden=8, seed=1).eval()
    ask = RewiredModel(model, node_inputs(data), graph, 2)
    link = Link(TREATS, *ends(graph), -1)
    facts = [fact(graph, BINDS, 0, 0), fact(graph, ASSOCIATES, 0, 0)]
    found = swap_effect(swaps, ask, link, facts, seed=0, draws=8)
    assert found.draws == 8
    assert found.swapped is not None
    assert found.placebo is not None
    assert found.value == pytest.approx(found.swapped - found.placebo)
    assert found.low is not None
    assert found.high is not None
    assert found.low < found.value < found.high
    assert abs(found.swapped) > 1e-3
    assert swap_effect(swaps, ask, link, facts, seed=0, draws=8) == found
    few = swap_effect(swaps, ask, link, facts, seed=0, draws=3)
    assert few.value is None
    assert experts.counts(few, 0.0) is None


def test_a_path_counts_beyond_noise_and_chance() -> None:
    assert experts.counts(SwapEffect(0.5, 0.1, 0.9, 0.6, 0.1, 20), 0.4)
    assert experts.counts(SwapEffect(0.5, 0.1, 0.9, 0.6, 0.1, 20), 0.6) is False
    assert experts.counts(SwapEffect(0.5, -0.1, 1.1, 0.6, 0.1, 20), 0.4) is False


def test_paths_by_gene(data: HeteroData, graph: TypedGraph, swaps: FactSwaps) -> None:
    model = make_model("sage", data, TREATS, paper_split=True, hidden=8).eval()
    explainer = PaGELink(model, data, TREATS)
    path = (fact(graph, BINDS, 0, 0), fact(graph, ASSOCIATES, 0, 0))
    assert experts.gene_paths(swaps, explainer, (0, 0)) == [path]


def test_shuffled_links_keep_degrees() -> None:
    data = experts.tiny_graph(3)
    split = split_graph(data, TREATS, 3)
    changed, made = shuffled_links(data, TREATS, 3)
    real = {tuple(pair) for pair in split.all.T.tolist()}
    for own, other in ((split.train, made.train), (split.valid, made.valid)):
        for row in (0, 1):
            assert sorted(own[row].tolist()) == sorted(other[row].tolist())
    assert torch.equal(made.test, split.test)
    fresh = {tuple(pair) for pair in made.train.T.tolist()}
    assert len(fresh) == made.train.shape[1]
    assert len(fresh & real) < 0.1 * len(fresh)
    assert torch.unique(made.all, dim=1).shape == made.all.shape
    back = ("disease", "rev_treats", "compound")
    assert torch.equal(changed[TREATS].edge_index.flip(0), changed[back].edge_index)
    assert torch.equal(data[TREATS].edge_index, experts.tiny_graph(3)[TREATS].edge_index)


def row(src: int, counts: bool | None, default: int, degree: int, gradient: int) -> dict[str, Any]:
    """Each explainer has the path at some place, from 1 up; 0: nowhere."""
    places = {"default": default, "degree": degree, "gradient": gradient}
    return {
        "src": src, "dst": 0, "counts": counts, "placebo": 0.1, "logit": 2.0,
        "logit of the explainer": 2.0 if src != 4 else 2.5,
        "first": {name: place == 1 for name, place in places.items()},
        "three": {name: 1 <= place <= 3 for name, place in places.items()},
        # Where another path is first it counts 0.5, but for pair (2, 0) more than the path itself.
        "value": 1.0,
        "first by swaps": {
            name: 1.0 if place == 1 else (1.5 if src == 2 else 0.5)
            for name, place in places.items()
        },
    }  # fmt: skip


def run(name: str, shuffled: bool, *rows: dict[str, Any]) -> Run:
    auc = dict.fromkeys(
        ("auc", "matched_auc", "edgeless_auc", "edgeless_matched_auc", "twin_auc"), 0.75
    )
    figures = {"auc": {**auc, "twin_matched_auc": None}, "predicted": 9, "pairs": list(rows)}
    key = {"model": {"seed": 0, "shuffled": shuffled}}
    return Run("experts", name, key, figures, 1, 1, {}, "", "2026-01-01")


def test_tables_by_hand() -> None:
    runs = [
        run("model 0", False, row(1, True, 1, 2, 0), row(2, True, 3, 1, 1), row(3, False, 1, 1, 1)),
        run("model 1", False, row(1, True, 1, 0, 1), row(4, None, 0, 0, 0)),
        run("shuffled 0", True, row(1, False, 1, 1, 1)),
    ]
    models, first, three, by_swaps = experts.tables(runs, seed=0)
    assert models.rows[1] == (
        "model 1", "0.750", "0.750", "0.750", "0.750", "0.750", "-", "9", "2", "1", "1", "0",
    )  # fmt: skip
    assert models.note.endswith("differ by at most 0.5, at six digits.")
    assert [cells[:2] for cells in first.rows] == [
        ("model 0", "2"), ("model 1", "1"), ("all models", "3"),
        ("all models, none counts more", "2"), ("shuffled 0", "0"),
    ]  # fmt: skip
    assert [cell.split(" ")[0] for cell in first.rows[3][2:]] == [
        "1.000", "0.000", "0.500", "1.000", "0.500",
    ]  # fmt: skip
    assert [cell.split(" ")[0] for cell in by_swaps.rows[2][2:]] == [
        "1.167", "0.667", "0.833", "0.500", "0.333",
    ]  # fmt: skip
    assert [cell.split(" ")[0] for cell in first.rows[2][2:]] == [
        "0.667", "0.333", "0.667", "0.333", "0.000",
    ]  # fmt: skip
    assert [cell.split(" ")[0] for cell in three.rows[2][2:]] == [
        "1.000", "0.667", "0.667", "0.333", "0.333",
    ]  # fmt: skip
    assert first.rows[4][2] == "-"
    assert "shuffled" not in experts.tables(runs[:2], seed=0)[1].note
    assert "Trained on shuffled links, no pair has a path that counts." in first.note
    # Both rows of pair (1, 0) are drawn together: with the same pair in two models there are only
    # two things to draw from.
    shares = experts.shares([row(1, True, 1, 0, 0), row(1, True, 1, 0, 0)], "first", "default",
                            "degree", 0)  # fmt: skip
    assert shares == {"value": 1, "low": 1, "high": 1}


def test_quick_run_goes_on_where_it_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ["bench", "faithfulness", "--only", "experts", "--quick", "--out", str(tmp_path)]
    first = CliRunner().invoke(app, command)
    assert first.exit_code == 0, first.output
    files = sorted((tmp_path / "runs" / "experts").glob("*.json"))
    assert [file.stem for file in files] == ["model-0", "shuffled-0"]
    for file in files:
        stored = json.loads(file.read_text())
        pairs = stored["figures"]["pairs"]
        assert 0 < len(pairs) <= experts.QUICK_LINKS
        for pair in pairs:
            # The plain way and the explainer agree on the score.
            assert pair["logit"] == pytest.approx(pair["logit of the explainer"], abs=1e-4)
            assert set(pair["first"]) == set(experts.EXPLAINERS)
            assert all(pair["three"][name] for name, hit in pair["first"].items() if hit)
    table = (tmp_path / "experts.md").read_text()
    assert table in first.output
    files[0].unlink()
    loaded: list[Model] = []

    def counted(model: Model, *given: Any) -> Any:
        loaded.append(model)
        return load(model, *given)

    load = experts.load_model
    monkeypatch.setattr(experts, "load_model", counted)
    again = CliRunner().invoke(app, command)
    assert again.exit_code == 0, again.output
    assert loaded == [Model(0, False)]
    assert (tmp_path / "experts.md").read_text() == table
