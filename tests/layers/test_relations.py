"""Layers with a map per relation, done for all relations at once, equal their own code."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch_geometric.data import Data, HeteroData
from torch_geometric.nn import FastRGCNConv, RGCNConv

from pagelink import PaGELink
from pagelink.layers import relations
from pagelink.layers.node_rows import NodeRows
from pagelink.layers.relations import RelationEdges, relation_sum
from pagelink.layers.whole import NotWholeError, Pass, stand_in, whole_layers
from pagelink.model.edited_logits import edge_gradient
from pagelink.models.architectures import WORTH_IT, make_model
from pagelink.rivals.edge_vectors import propagations

NODES, DIM, OUT, RELATIONS, EDGES = 12, 6, 4, 9, 60
OPTIONS: dict[str, dict[str, Any]] = {
    "mean": {},
    "sum": {"aggr": "add"},
    "bases": {"num_bases": 3},
    "blocks": {"num_blocks": 2},
    "bare": {"root_weight": False, "bias": False},
    "turned": {"flow": "target_to_source"},
}


def seeded(make: Any) -> Any:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return make()


def graph() -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(NODES, DIM, generator=generator)
    edge_index = torch.randint(0, NODES, (2, EDGES), generator=generator)
    # Some relations have no edge, and some node has none of any.
    edge_index[edge_index == 3] = 4
    return x, edge_index, torch.randint(1, RELATIONS - 2, (EDGES,), generator=generator)


@pytest.mark.parametrize("conv", [RGCNConv, FastRGCNConv])
@pytest.mark.parametrize("name", OPTIONS)
def test_all_relations_at_once_equal_the_loop(conv: Any, name: str) -> None:
    layer = seeded(lambda: conv(DIM, OUT, RELATIONS, **OPTIONS[name]))
    x, edge_index, kinds = graph()
    forward = stand_in(layer, Pass())
    assert forward is not None
    assert whole_layers(layer) == [layer]
    with torch.no_grad():
        assert torch.allclose(forward(x, edge_index, kinds), layer(x, edge_index, kinds), atol=1e-5)
        other = x[:, [1, 0, *range(2, DIM)]]
        pair = forward((x, other), edge_index, kinds), layer((x, other), edge_index, kinds)
        assert torch.allclose(*pair, atol=1e-5)
        none = edge_index[:, :0], kinds[:0]
        assert torch.allclose(forward(x, *none), layer(x, *none), atol=1e-6)


@pytest.mark.parametrize("limit", [0, relations.FOR_TORCH])
@pytest.mark.parametrize("mean", [True, False])
def test_gradients_equal_those_of_torch(
    mean: bool, limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By NumPy and by torch, with a vector that each relation adds."""
    monkeypatch.setattr(relations, "FOR_TORCH", limit)
    x, edge_index, kinds = graph()
    src, dst = edge_index
    maps = seeded(lambda: torch.randn(RELATIONS, DIM + 1, OUT))
    edges = RelationEdges.of(src.numpy(), dst.numpy(), kinds.numpy(), NODES, NODES, RELATIONS)
    weights = torch.linspace(0.1, 2, EDGES)

    def plain(x: Tensor, weights: Tensor) -> Tensor:
        sent = torch.einsum("ed,edo->eo", torch.cat([x, torch.ones(NODES, 1)], 1)[src], maps[kinds])
        pair = kinds * NODES + dst
        count = torch.bincount(pair, minlength=RELATIONS * NODES)[pair] if mean else torch.ones(1)
        return torch.zeros(NODES, OUT).index_add(0, dst, sent * (weights / count)[:, None])

    found = []
    for way in (plain, lambda x, w: relation_sum(x, w, edges, maps, mean)):
        given = x.clone().requires_grad_(), weights.clone().requires_grad_()
        out = way(*given)
        found.append((out.detach(), *torch.autograd.grad((out * out).sum(), given)))
    for ours, its in zip(*found, strict=True):
        assert torch.allclose(ours, its, rtol=1e-4, atol=1e-4)
    whole = relation_sum(x, None, edges, maps, mean)
    rows = relation_sum(NodeRows.given(x, ()), None, edges, maps, mean)
    assert isinstance(rows, NodeRows)
    for count in (1, 5, NODES):
        assert torch.allclose(rows.rows(count), whole[:count], atol=1e-6)


def test_vectors_of_relations_and_the_mean_of_all_edges() -> None:
    x, edge_index, kinds = graph()
    src, dst = edge_index
    maps = seeded(lambda: torch.randn(RELATIONS, DIM))
    edges = RelationEdges.of(src.numpy(), dst.numpy(), kinds.numpy(), NODES, NODES, RELATIONS)
    weights = torch.linspace(0.1, 2, EDGES)

    def plain(x: Tensor, weights: Tensor) -> Tensor:
        sent = x[src] * maps[kinds] * (weights / torch.bincount(dst)[dst])[:, None]
        return torch.zeros(NODES, DIM).index_add(0, dst, sent)

    def ours(x: Tensor, weights: Tensor | None) -> Tensor:
        return relation_sum(x, weights, edges, maps, mean=False, mean_of_all=True)

    found = []
    for way in (plain, ours):
        given = x.clone().requires_grad_(), weights.clone().requires_grad_()
        out = way(*given)
        found.append((out.detach(), *torch.autograd.grad((out * out).sum(), given)))
    for one, other in zip(*found, strict=True):
        assert torch.allclose(one, other, rtol=1e-4, atol=1e-4)
    rows: Any = ours(NodeRows.given(x, ()), weights)
    for count in (1, 5, NODES):
        assert torch.allclose(rows.rows(count), found[0][0][:count], atol=1e-5)


def test_what_is_not_known_is_left_to_the_layer() -> None:
    x, edge_index, kinds = graph()
    layer = seeded(lambda: RGCNConv(NODES, OUT, RELATIONS))
    forward = stand_in(layer, Pass())
    assert forward is not None
    with pytest.raises(NotWholeError):
        forward(None, edge_index, kinds)  # ids of nodes
    with pytest.raises(NotWholeError):
        stand_in(RGCNConv(DIM, OUT, RELATIONS), Pass())(x.double(), edge_index, kinds)  # type: ignore[misc]
    with pytest.raises(NotWholeError):
        stand_in(RGCNConv(DIM, OUT, RELATIONS), Pass())(x, edge_index + NODES, kinds)  # type: ignore[misc]
    assert whole_layers(seeded(lambda: RGCNConv(DIM, OUT, RELATIONS, aggr="max"))) == []
    assert whole_layers(Louder(DIM, OUT, RELATIONS)) == []
    watched = RGCNConv(DIM, OUT, RELATIONS)
    watched.register_message_forward_hook(lambda module, inputs, out: 2 * out)
    assert whole_layers(watched) == []


class Louder(RGCNConv):
    def message(self, x_j: Tensor, edge_type_ptr: Any) -> Tensor:
        return 2 * x_j


class ByIds(nn.Module):
    """The relational layer has vectors of its own for all nodes."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = RGCNConv(NODES, DIM, RELATIONS), RGCNConv(DIM, OUT, RELATIONS)

    def forward(self, data: Data, links: Tensor) -> Tensor:
        x = self.first(data.n_id, data.edge_index, data.edge_type).tanh()
        x = self.second(x, data.edge_index, data.edge_type)
        return (x[links[0]] * x[links[1]]).sum(-1)


def test_a_model_of_ids_is_explained_by_its_own_code() -> None:
    _, edge_index, kinds = graph()
    data = Data(edge_index=edge_index, edge_type=kinds, num_nodes=NODES)
    explainer = PaGELink(
        seeded(ByIds), data, ("node", "1", "node"), threshold=None,
        forward=lambda model, data, links: model(data, links),
    )  # fmt: skip
    src, dst = edge_index[:, 0].tolist()
    explanation = explainer.explain(src, dst if dst != src else (src + 1) % NODES, rank=False)
    assert np.isfinite(explanation.logit)


class OneTable(nn.Module):
    """Vectors of all nodes in one table, whatever part of the graph it is given."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.randn(NODES, DIM))
        self.conv = RGCNConv(DIM, DIM, RELATIONS)

    def forward(self, data: Data, links: Tensor) -> Tensor:
        x = self.conv(self.table, data.edge_index, data.edge_type)
        return (x[links[0]] * x[links[1]]).sum(-1)


def test_a_way_to_run_that_fails_does_not_cost_the_quick_one() -> None:
    """On neighbourhoods side by side there are more nodes than the table has rows."""
    _, edge_index, kinds = graph()
    explainer = PaGELink(
        seeded(OneTable), Data(edge_index=edge_index, edge_type=kinds, num_nodes=NODES), 1,
        threshold=None, forward=lambda model, data, links: model(data, links),
    )  # fmt: skip
    assert explainer.receptive_field.mode == "all_nodes"
    predictor = explainer.predictor
    batch = explainer.extractor.extract(np.array([0]), np.array([1]), np.array([-1]))
    inputs = predictor.inputs(batch, batch.visible, np.arange(1), np.array([0]))
    assert predictor.record(inputs)[1].whole == (explainer.predictor.model.conv,)


def many(num_relations: int) -> HeteroData:
    generator = torch.Generator().manual_seed(2)
    data = HeteroData()
    data["a"].x = torch.randn(NODES, DIM, generator=generator)
    data["b"].num_nodes = 5
    for number in range(num_relations):
        ends = torch.randint(0, NODES, (2, number % 4), generator=generator)
        data["a", f"r{number}", "a"].edge_index = ends
        data["a", f"to{number}", "b"].edge_index = torch.stack([ends[0], ends[1] % 5])
        data["b", f"rev_to{number}", "a"].edge_index = torch.stack([ends[1] % 5, ends[0]])
    return data


@pytest.mark.parametrize("kind", ["rgcn", "sage"])
def test_our_models_have_the_scores_and_gradients_of_their_loop(kind: str) -> None:
    link_type = ("a", "r3", "a")
    data = many(WORTH_IT + 3)
    model = make_model(kind, data, link_type, hidden=8).eval()
    assert whole_layers(model) == list(model.layers)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    explainer = PaGELink(model, data, link_type, threshold=None)
    predictor = explainer.predictor
    src, dst = np.array([0, 2, 5]), np.array([1, 7, 4])
    batch = explainer.extractor.extract(src, dst, np.full(3, -1))
    relation = np.full(3, predictor.graph.edge_types.index(link_type))
    inputs = predictor.inputs(batch, batch.visible, np.arange(3), relation)
    found = []
    for by_message in (False, True):
        logits, recorded, _ = predictor.record(inputs, by_message=by_message)
        assert bool(recorded.whole) != by_message
        predictor.fuses = not by_message
        found.append(
            (predictor.logits(inputs), logits, edge_gradient(predictor, recorded, len(batch.edges)))
        )
        sent = propagations(predictor, recorded)  # of each relation, whatever was recorded
        assert len(sent) == 2 * len(data.edge_types)
    assert not np.all(found[0][2] == 0)
    for ours, its in zip(*found, strict=True):
        assert np.allclose(ours, its, rtol=1e-4, atol=1e-5)
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    assert all(parameter.requires_grad for parameter in model.parameters())


def test_few_relations_are_left_as_they_are() -> None:
    model = make_model("rgcn", many(WORTH_IT - 1), ("a", "r3", "a"), hidden=8)
    assert whole_layers(model) == []
