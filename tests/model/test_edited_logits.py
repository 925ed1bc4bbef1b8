"""Edited copies give what the model says of the edited full graph, one link at a time."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
from support.zoo import USERS, ZOO, Case, make_case, shared_case
from torch_geometric.data import HeteroData

from pagelink import PaGELink, Settings
from pagelink.graph.computation_graph import ComputationGraphs
from pagelink.graph.edited_graphs import Edits, GraphEditor
from pagelink.graph.lookup import slots_of_same_facts
from pagelink.graph.typed_graph import TypedGraph
from pagelink.measure.trials import ReferenceGraphs
from pagelink.model import edited_logits
from pagelink.model.edited_logits import EditedLogits, edge_gradient
from pagelink.model.predictor import LinkPredictor
from pagelink.models import make_model
from pagelink.runtime.csr import Csr
from pagelink.search.paths import best_paths, build_path_graphs

pytestmark = pytest.mark.filterwarnings("ignore:The type '")
LINKS = 5


def make(case: Case, **settings: Any) -> PaGELink:
    options = {"threshold": None} | case.options
    return PaGELink(case.model, case.data, case.link_type, Settings(**settings), **options)


def batch_of(explainer: PaGELink) -> tuple[ComputationGraphs, np.ndarray]:
    first = USERS if len(explainer.graph.node_types) == 1 else 0
    links = [explainer.reader.read((user, first + user % 9)) for user in range(LINKS)]
    batch = ComputationGraphs.joined(explainer.setup.batches.extract(links))
    relation = explainer.graph.edge_types.index(explainer.link_types[0])
    return batch, np.full(LINKS, relation)


def random_edits(batch: ComputationGraphs, among: np.ndarray, count: int, seed: int) -> Edits:
    rng = np.random.default_rng(seed)
    link, slots = [], []
    for _ in range(count):
        i = int(rng.integers(batch.num_links))
        here = np.flatnonzero(among[batch.edge_ptr[i] : batch.edge_ptr[i + 1]]) + batch.edge_ptr[i]
        slots.append(rng.choice(here, min(len(here), int(rng.integers(1, 7))), replace=False))
        link.append(i)
    return Edits(np.array(link), Csr.of(slots))


def edited(data: Any, explainer: PaGELink, edges: np.ndarray) -> Any:
    """The user's data without some edges of the flat graph, and without all facts they state."""
    graph = explainer.graph
    result = copy.copy(data)
    if not isinstance(data, HeteroData):
        keep = torch.ones(data.num_edges, dtype=torch.bool)
        keep[graph.column[edges]] = False
        result.edge_index = data.edge_index[:, keep]
        if "edge_type" in data:
            result.edge_type = data.edge_type[keep]
        return result
    for position, edge_type in enumerate(graph.edge_types[: graph.num_relations]):
        mine = edges[graph.relation[edges] == position]
        keep = torch.ones(data[edge_type].edge_index.shape[1], dtype=torch.bool)
        keep[graph.column[mine]] = False
        for key, value in data[edge_type].items():
            if key == "edge_index":
                result[edge_type][key] = value[:, keep]
            elif torch.is_tensor(value) and len(value) == len(keep):
                result[edge_type][key] = value[keep]
    return result


@pytest.mark.parametrize("name", ZOO)
def test_equal_to_the_edited_full_graph(name: str) -> None:
    case, explainer = shared_case(name)
    batch, relation = batch_of(explainer)
    whole = explainer.predictor.needed(batch)
    edits = random_edits(batch, whole, 12, 1)
    found = EditedLogits(explainer.predictor, batch, relation).logits(whole, edits)
    for i in range(edits.num_graphs):
        link = edits.link[i]
        gone = batch.edges[edits.slots.values[edits.slots.ptr[i] : edits.slots.ptr[i + 1]]]
        own = np.flatnonzero(explainer.graph.fact == batch.link_fact[link])
        data = edited(case.data, explainer, np.concatenate([gone, own]))
        ends = np.array([batch.link_src[link]]), np.array([batch.link_dst[link]])
        again = LinkPredictor(
            case.model, data, TypedGraph.from_data(data, explainer.link_types),
            case.options.get("forward"), case.options.get("output", "logit"),
        )  # fmt: skip
        expected = again.logits(again.full_graph(*ends, relation[:1]))
        assert found[i] == pytest.approx(float(expected), abs=2e-4)


@pytest.mark.parametrize("name", ZOO)
def test_shared_copies_equal_graphs_edited_by_themselves(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    explainer = make(make_case(name))
    batch, relation = batch_of(explainer)
    whole = explainer.predictor.needed(batch)
    for graph in (whole, whole & (np.random.default_rng(0).random(len(whole)) < 0.5)):
        edits = random_edits(batch, whole, 25, 2)
        explainer.predictor.shares_unedited = False
        alone = EditedLogits(explainer.predictor, batch, relation).logits(graph, edits)
        explainer.predictor.shares_unedited = name != "LightGCN"
        for edges_per_pass in (1, 300, 10**9):
            monkeypatch.setattr(edited_logits, "EDGES_PER_PASS", edges_per_pass)
            influence = EditedLogits(explainer.predictor, batch, relation)
            assert influence.logits(graph, edits) == pytest.approx(alone, abs=1e-4)


def _hub_batch(size: int) -> tuple[ComputationGraphs, PaGELink]:
    """The graph of a link to an item that everybody buys."""
    data = HeteroData()
    torch.manual_seed(0)
    data["user"].x, data["item"].x = torch.randn(size, 4), torch.randn(3, 4)
    everybody = torch.stack([torch.arange(size), torch.zeros(size, dtype=torch.long)])
    edges = torch.cat([everybody, torch.tensor([[0, 1], [1, 1]])], dim=1)
    data["user", "buys", "item"].edge_index = edges
    data["item", "rev_buys", "user"].edge_index = edges.flip(0)
    model = make_model("sage", data, ("user", "likes", "item"), hidden=8)
    explainer = PaGELink(model, data, ("user", "likes", "item"), threshold=None)
    links = [explainer.reader.read((0, 0))]
    return ComputationGraphs.joined(explainer.setup.batches.extract(links)), explainer


SUMMED = {
    "HeteroConv SAGE", "HeteroConv GraphConv", "one conv for all relations", "to_hetero",
    "to_hetero odd names", "embedding by n_id", "cosine head", "MLP head", "probability",
}  # fmt: skip
"""Models that do nothing with edges but to sum over neighbours."""


def with_moved(batch: ComputationGraphs, edits: Edits, seed: int) -> Edits:
    """The same edits, and in each an edge that is led to other nodes of the same types."""
    rng = np.random.default_rng(seed)
    table = []
    for link in edits.link:
        first, last = batch.edge_ptr[link : link + 2]
        one, other = rng.integers(first, last, 2)
        shift = batch.node_ptr[link]
        table.append((one, shift + batch.src[one], shift + batch.dst[other]))
    moved = Csr(np.arange(len(table) + 1), np.arange(len(table)))
    return Edits(edits.link, edits.slots, moved, np.array(table).T.copy())


@pytest.mark.parametrize("name", ZOO)
def test_sums_that_change_give_the_scores_of_graphs_edited_by_themselves(name: str) -> None:
    explainer = make(make_case(name))
    predictor = explainer.predictor
    assert predictor.keeps_sums == (name in SUMMED)
    batch, relation = batch_of(explainer)
    whole = predictor.needed(batch)
    rng = np.random.default_rng(0)
    edits = Edits.joined([
        random_edits(batch, whole, 25, 2), Edits.towards(batch, whole, np.arange(LINKS))
    ])  # fmt: skip
    graphs = [
        whole,
        whole & (rng.random(len(whole)) < 0.5),
        whole & (rng.random(len(whole)) < 0.97),
    ]
    for by_rows in {predictor.by_rows, False}:
        predictor.by_rows, predictor.least_spared = by_rows, 1
        predictor.least_kept = 0
        summed = EditedLogits(predictor, batch, relation)
        found = [summed.logits(graph, edits) for graph in graphs]
        assert predictor.keeps_sums == (name in SUMMED)
        predictor.least_kept = 10**9
        for graph, logits in zip(graphs, found, strict=True):
            usual = EditedLogits(predictor, batch, relation).logits(graph, edits)
            assert logits == pytest.approx(usual, abs=1e-5)


def test_sums_of_edges_that_are_led_elsewhere() -> None:
    explainer = make(make_case("HeteroConv SAGE"))
    predictor = explainer.predictor
    batch, relation = batch_of(explainer)
    same_types = [
        link for link in range(LINKS)
        if batch.edge_ptr[link + 1] - batch.edge_ptr[link] > 1
    ]  # fmt: skip
    edits = Edits.towards(batch, np.zeros_like(batch.visible), np.repeat(same_types, 6))
    edits = with_moved(batch, edits, 3)
    kinds = explainer.graph.relation[batch.edges]
    ends = explainer.graph.node_type_of[batch.nodes]
    type_of = [explainer.graph.node_types.index(t[2]) for t in explainer.graph.edge_types]
    fits = np.array(type_of)[kinds[edits.table[0]]] == ends[edits.table[2]]
    edits = edits.chosen(np.flatnonzero(fits))
    assert edits.num_graphs > 4
    answers = []
    for least in (0, 10**9):
        predictor.least_kept = least
        answers.append(EditedLogits(predictor, batch, relation).logits(batch.visible, edits))
    assert answers[0] == pytest.approx(answers[1], abs=1e-5)
    assert predictor.keeps_sums


def test_a_hub_is_summed_once() -> None:
    """An edited copy of a node has those of its edges that are different, however many it has."""
    batch, explainer = _hub_batch(2_000)
    editor = GraphEditor(batch, 2)
    slots = np.flatnonzero(batch.visible)[:3]
    edits = Edits(np.zeros(3, dtype=np.int64), Csr(np.arange(4), slots))
    relation = explainer.graph.relation[batch.edges]
    found = editor.changed_sums(edits, batch.visible, relation)
    assert len(editor.edit(edits, batch.visible).slots) > 3 * 2_000
    assert 0 < found.edges.shape[1] <= 30


def test_what_is_different_at_a_hub_is_looked_up() -> None:
    """Edges that come, go and are named twice; from new nodes, and from others."""
    batch, explainer = _hub_batch(2_000)
    rng, predictor = np.random.default_rng(0), explainer.predictor
    graph = batch.visible & (rng.random(len(batch.visible)) < 0.9)
    seen = np.flatnonzero(batch.visible)
    some = [rng.choice(seen, count) for count in (1, 2, 5, 20, 60, 200)]
    slots = Csr.of([np.concatenate([each, each[:1]]) for each in some])
    answers = []
    for least in (0, 10**9):
        predictor.least_kept = least
        model = EditedLogits(predictor, batch, explainer.setup.relations([explainer.link(0, 0)]))
        answers.append(model.logits(graph, Edits(np.zeros(len(some), dtype=np.int64), slots)))
    assert predictor.keeps_sums
    assert answers[0] == pytest.approx(answers[1], abs=1e-6)
    assert len(np.unique(answers[0].round(6))) == len(some)


def test_unchanged_copies_have_the_models_score() -> None:
    explainer = make(make_case("HeteroConv GAT"))
    batch, relation = batch_of(explainer)
    logits, _ = explainer.setup.logits(batch, relation)
    links = np.array([3, 0, 3])
    found = EditedLogits(explainer.predictor, batch, relation).logits(
        batch.visible, Edits.towards(batch, np.zeros_like(batch.visible), links)
    )
    assert found == pytest.approx(logits[links], abs=1e-5)
    nothing = Edits.towards(batch, np.zeros_like(batch.visible), np.empty(0, dtype=np.int64))
    assert (
        len(EditedLogits(explainer.predictor, batch, relation).logits(batch.visible, nothing)) == 0
    )


def test_gradient_is_that_of_the_weights() -> None:
    explainer = make(make_case("HeteroConv SAGE"))
    batch, relation = batch_of(explainer)
    inputs = explainer.predictor.inputs(batch, batch.visible, np.arange(LINKS), relation)
    _, recorded, _ = explainer.predictor.record(inputs)
    gradient = edge_gradient(explainer.predictor, recorded, len(batch.edges))
    assert (gradient[~batch.visible] == 0).all()
    with explainer.predictor.weighted(recorded) as run, torch.no_grad():
        for slot in np.flatnonzero(gradient)[:5]:
            up, down = torch.ones(2, len(batch.edges))
            up[slot], down[slot] = 1.05, 0.95
            slope = float((run(up) - run(down)).sum()) / 0.1
            assert gradient[slot] == pytest.approx(slope, abs=2e-2, rel=5e-2)


def test_facts_have_all_their_edges() -> None:
    explainer = make(make_case("HeteroConv SAGE"))
    batch, _ = batch_of(explainer)
    graph = explainer.graph
    slots = np.arange(len(batch.edges))
    found = slots_of_same_facts(graph, batch, slots)
    link = np.repeat(np.arange(LINKS), np.diff(batch.edge_ptr))
    facts = graph.fact[batch.edges]
    for slot in slots:
        expected = np.flatnonzero((facts == facts[slot]) & (link == link[slot]))
        assert sorted(found.values[found.ptr[slot] : found.ptr[slot + 1]]) == expected.tolist()


def test_without_paths_no_path_is_left_and_nothing_else_is_gone() -> None:
    explainer = make(make_case("HeteroConv SAGE"), core=0)
    batch, _ = batch_of(explainer)
    graph = explainer.graph
    bare = ReferenceGraphs.of(explainer.setup, batch).bare
    anything = graph.representative[batch.edges]
    paths = build_path_graphs(graph, batch, anything, 3)
    found = best_paths(paths, np.zeros(len(paths.arc_slot), dtype=np.float32), 10_000)
    on_path = slots_of_same_facts(graph, batch, paths.arc_slot[found.arcs[found.arcs >= 0]]).values
    expected = batch.visible.copy()
    expected[on_path] = False
    assert np.array_equal(bare, expected)
    left = anything & np.isin(np.arange(len(anything)), slots_of_same_facts(
        graph, batch, np.flatnonzero(bare | (anything & ~batch.visible))).values)  # fmt: skip
    assert not build_path_graphs(graph, batch, left & ~np.isin(
        np.arange(len(anything)), on_path), 3).has_path().any()  # fmt: skip


def test_ragged() -> None:
    lists = Csr(np.array([0, 2, 2, 5]), np.array([7, 8, 1, 2, 3]))
    taken = lists.take(np.array([2, 0, 1, 0]))
    assert taken.ptr.tolist() == [0, 3, 5, 5, 7]
    assert taken.values.tolist() == [1, 2, 3, 7, 8, 7, 8]
    assert taken.joined(np.array([0, 2, 4])).ptr.tolist() == [0, 5, 7]
