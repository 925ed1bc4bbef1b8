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
from pagelink.graph.edited_graphs import Edits
from pagelink.graph.lookup import slots_of_same_facts
from pagelink.graph.typed_graph import TypedGraph
from pagelink.measure.trials import ReferenceGraphs
from pagelink.model import edited_logits
from pagelink.model.edited_logits import EditedLogits, edge_gradient
from pagelink.model.predictor import LinkPredictor
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
