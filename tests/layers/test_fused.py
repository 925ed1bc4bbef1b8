"""Weighted sums without messages equal the layers of PyG with their messages written out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from support.zoo import USERS, ZOO, make_case
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.nn import (
    GATConv,
    GCNConv,
    GINConv,
    GraphConv,
    HGTConv,
    LGConv,
    MessagePassing,
    RGCNConv,
    SAGEConv,
)

from pagelink import PaGELink
from pagelink.layers.fused import (
    EDGES_FOR_THREADS,
    Neighbours,
    PlainCall,
    is_plain_layer,
    sum_without_messages,
    weighted_sum,
)
from pagelink.model.masking import Tracer, Weighting
from pagelink.runtime.undo import Undo

NODES, DIM = 30, 5


class Copy(MessagePassing):
    """Sums vectors of another name, against the direction of the edges."""

    def __init__(self) -> None:
        super().__init__(aggr="add", flow="target_to_source")

    def forward(self, h: Tensor, edge_index: Tensor) -> Tensor:
        out: Tensor = self.propagate(edge_index, h=h)
        return out

    def message(self, h_j: Tensor) -> Tensor:
        return h_j


class Doubled(Copy):
    def message(self, h_j: Tensor) -> Tensor:
        return 2 * h_j


class Updated(Copy):
    def update(self, inputs: Tensor) -> Tensor:
        return inputs + 1


class InPlace(Copy):
    def message(self, h_j: Tensor) -> Tensor:
        h_j[::3] = 0
        return h_j


class Thirds(SAGEConv):
    def propagate(self, edge_index: Tensor, **arguments: Any) -> Tensor:
        out: Tensor = super().propagate(edge_index, **arguments)
        return out / 3


class Watched(SAGEConv):
    """Its aggregation has a hook of the user's."""

    def __init__(self) -> None:
        super().__init__(DIM, DIM)
        self.aggr_module.register_forward_hook(lambda module, inputs, out: 2 * out)


class Relational(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = RGCNConv(DIM, DIM, 3)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        kind = torch.arange(edge_index.shape[1]) % 3
        out: Tensor = self.conv(x, edge_index, kind)
        return out


class Heterogeneous(nn.Module):
    """Two node types, which have the same edges both ways."""

    def __init__(self, conv: type[HGTConv] = HGTConv) -> None:
        super().__init__()
        kinds = [("a", "to", "b"), ("b", "back", "a"), ("a", "on", "a")]
        self.conv = conv(DIM, 6, (["a", "b"], kinds), heads=3)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        edges = {
            ("a", "to", "b"): edge_index[:, ::2],
            ("b", "back", "a"): edge_index[:, ::3],
            ("a", "on", "a"): edge_index,
        }
        out = self.conv({"a": x, "b": x.flip(0)}, edges)
        return torch.cat([out["a"], out["b"]], dim=1)


class Louder(HGTConv):
    def message(self, k_j: Tensor, q_i: Tensor, v_j: Tensor, edge_attr: Tensor) -> Tensor:
        share = torch.sigmoid((q_i * k_j).sum(-1) * edge_attr)
        return (v_j * share[..., None]).flatten(1)


LAYERS: dict[str, tuple[Callable[[], nn.Module], bool]] = {
    "SAGE": (lambda: SAGEConv(DIM, DIM), True),
    "SAGE sum": (lambda: SAGEConv(DIM, DIM, aggr="sum"), True),
    "SAGE max": (lambda: SAGEConv(DIM, DIM, aggr="max"), False),
    "GCN": (lambda: GCNConv(DIM, DIM), True),
    "GraphConv": (lambda: GraphConv(DIM, DIM), True),
    "LightGCN": (LGConv, True),
    "GIN": (lambda: GINConv(nn.Linear(DIM, DIM)), True),
    "RGCN": (Relational, True),
    "GAT": (lambda: GATConv(DIM, DIM), False),
    "HGT": (Heterogeneous, True),
    "louder HGT": (lambda: Heterogeneous(Louder), False),
    "copy": (Copy, True),
    "doubled": (Doubled, False),
    "updated": (Updated, False),
    "in place": (InPlace, False),
    "own propagate": (lambda: Thirds(DIM, DIM), False),
    "watched aggregation": (Watched, False),
}


def graph(seed: int = 0, edges: int = 120) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(NODES, DIM, generator=generator)
    edge_index = torch.randint(0, NODES - 2, (2, edges), generator=generator)
    return x, edge_index, torch.rand(edges, generator=generator)


def record(model: nn.Module, x: Tensor, edge_index: Tensor) -> Tracer:
    tracer = Tracer()
    with torch.no_grad(), Undo() as undo:
        tracer.listen(model, undo)
        model(x, tracer.trace([edge_index])[0])
    return tracer


@pytest.mark.parametrize("name", LAYERS)
def test_equals_the_messages_written_out(name: str) -> None:
    make, plain = LAYERS[name]
    with torch.random.fork_rng():
        torch.manual_seed(1)
        model = make()
    x, edge_index, weights = graph()
    tracer = record(model, x, edge_index)
    assert all((call is not None) == plain for call in tracer.plain)
    results = []
    for ways in (tracer.plain, []):
        features, values = x.clone().requires_grad_(), weights.clone().requires_grad_()
        weighting = Weighting(tracer.calls, ways)
        with Undo() as undo:
            weighting.attach(model, undo)
            for _ in range(2):  # the second pass uses what the first one prepared
                weighting.set(values)
                out = model(features, edge_index)
                weighting.finish()
        gradients = torch.autograd.grad((out * out).sum(), [features, values])
        results.append((out.detach(), *gradients))
    for fused, written_out in zip(*results, strict=True):
        assert torch.allclose(fused, written_out, rtol=1e-5, atol=1e-5)
    assert not any("propagate" in vars(module) for module in model.modules())


def test_a_layer_with_hooks_of_the_users_keeps_its_messages() -> None:
    layer = SAGEConv(DIM, DIM)
    assert is_plain_layer(layer)
    handle = layer.register_message_forward_hook(lambda module, inputs, out: 3 * out)
    assert not is_plain_layer(layer)
    x, edge_index, weights = graph()
    tracer = record(layer, x, edge_index)
    weighting = Weighting(tracer.calls, tracer.plain)
    with Undo() as undo:
        weighting.attach(layer, undo)
        weighting.set(torch.ones(len(weights)))
        assert torch.allclose(layer(x, edge_index), layer_without_weights(layer, x, edge_index))
    handle.remove()


def layer_without_weights(layer: SAGEConv, x: Tensor, edge_index: Tensor) -> Tensor:
    sources, targets = edge_index
    total = torch.zeros_like(x).index_add(0, targets, 3 * x[sources])
    count = torch.bincount(targets, minlength=NODES).clamp(min=1).view(-1, 1)
    out: Tensor = layer.lin_l(total / count) + layer.lin_r(x)
    return out


def test_other_number_types_have_their_messages_written_out() -> None:
    layer = SAGEConv(DIM, DIM).double()
    x, edge_index, weights = graph()
    tracer = record(layer, x.double(), edge_index)
    weighting = Weighting(tracer.calls, tracer.plain)
    with Undo() as undo:
        weighting.attach(layer, undo)
        weighting.set(weights.double())
        assert layer(x.double(), edge_index).dtype == torch.float64


def test_weights_of_another_number_type_have_their_messages_written_out() -> None:
    layer = LGConv(normalize=False)
    x, edge_index, weights = graph()
    scale = weights.double()
    tracer = Tracer()
    with torch.no_grad(), Undo() as undo:
        tracer.listen(layer, undo)
        layer(x, tracer.trace([edge_index])[0], scale)
    weighting = Weighting(tracer.calls, tracer.plain)
    with Undo() as undo:
        weighting.attach(layer, undo)
        weighting.set(torch.ones(len(weights)))
        assert torch.allclose(layer(x, edge_index, scale), layer_of(x, edge_index, scale))


def layer_of(x: Tensor, edge_index: Tensor, scale: Tensor) -> Tensor:
    messages = x[edge_index[0]] * scale[:, None]
    return torch.zeros_like(messages[:1]).expand(NODES, -1).index_add(0, edge_index[1], messages)


class TurnedOnTheWay(nn.Module):
    """Two layers on one tensor of edges, which is changed in place between them."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([SAGEConv(DIM, DIM), SAGEConv(DIM, DIM)])

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        edges = edge_index.clone()
        hidden = self.layers[0](x, edges)
        edges.copy_(edge_index.flip(0))
        out: Tensor = self.layers[1](hidden, edges)
        return out


@pytest.mark.parametrize("inference", [False, True])
def test_edges_that_a_model_changes_on_the_way_are_put_in_order_anew(inference: bool) -> None:
    with torch.random.fork_rng():
        torch.manual_seed(1)
        model = TurnedOnTheWay()
    x, edge_index, _ = graph()
    layers = {layer: PlainCall("x", False, True, NODES) for layer in model.layers}
    with torch.inference_mode(inference), torch.no_grad():
        expected = model(x, edge_index)
        with Undo() as undo:
            sum_without_messages(layers, undo)
            found = model(x, edge_index)
    assert torch.allclose(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("src", "dst"), [(3, 0), (0, 4), (-1, 0), (0, -1)])
def test_a_node_that_is_not_there_is_an_error(src: int, dst: int) -> None:
    with pytest.raises(IndexError, match="a node that is not there"):
        Neighbours.between(np.array([0, src]), np.array([0, dst]), 3, 4)


@pytest.mark.parametrize("threads", [1, 3])
def test_against_dense_matrices(threads: int) -> None:
    count = EDGES_FOR_THREADS + 1
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(40, 7, generator=generator, requires_grad=True)
    weights = torch.rand(count, generator=generator, requires_grad=True)
    src = torch.randint(0, 40, (count,), generator=generator)
    dst = torch.randint(0, 50, (count,), generator=generator)
    adjacency = torch.zeros(50, 40).index_put((dst, src), weights, accumulate=True)
    edges = Neighbours.between(src.numpy(), dst.numpy(), 40, 51)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        out = weighted_sum(x, weights, edges, False)
        gradients = torch.autograd.grad(out.square().sum() / count, [x, weights])
    finally:
        torch.set_num_threads(before)
    expected = adjacency @ x
    wanted = torch.autograd.grad(expected.square().sum() / count, [x, weights])
    assert torch.allclose(out[:50], expected, rtol=1e-4, atol=1e-4)
    assert out[50].tolist() == [0.0] * 7
    for mine, theirs in zip(gradients, wanted, strict=True):
        assert torch.allclose(mine, theirs, rtol=1e-4, atol=1e-4)


@pytest.mark.filterwarnings("ignore:The type '")
@pytest.mark.parametrize("name", ZOO)
def test_explanations_are_the_same_without_it(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    case = make_case(name)
    first = USERS if isinstance(case.data, Data) else 0
    links = [(user, first + user % 7) for user in range(6)]

    def masks() -> list[np.ndarray]:
        options = {"threshold": None} | case.options
        explainer = PaGELink(case.model, case.data, case.link_type, **options)
        return [
            np.concatenate([found.edge_mask[t] for t in found.edge_mask])
            for found in explainer.explain_many(links)
        ]

    fused = masks()
    monkeypatch.setattr("pagelink.model.masking.is_plain_layer", lambda module: False)
    for mine, theirs in zip(fused, masks(), strict=True):
        assert mine == pytest.approx(theirs, abs=1e-5)
