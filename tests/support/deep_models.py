"""Models whose depth has to be found although the trail of their data is easy to lose.

Each case says how far its model sees and in which mode it has to run.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn
from torch_geometric.data import HeteroData
from torch_geometric.nn import (
    GATConv,
    GCNConv,
    GraphNorm,
    HeteroConv,
    HGTConv,
    JumpingKnowledge,
    MessagePassing,
    SAGEConv,
    to_hetero,
)

from support.chain_models import CHAIN_MODELS
from support.zoo import (
    DIM,
    Case,
    Homogeneous,
    Stack,
    WithHead,
    dot,
    make_graph,
    make_homogeneous,
)

BUYS = ("user", "buys", "item")
Edges = Any
Vectors = dict[str, Tensor]


# Three layers, with something in between at which a trail may be lost.


class Three(nn.Module):
    """Three HeteroConv layers; subclasses change what is between them, and what is read out."""

    def __init__(self, data: HeteroData, make: Callable[[], nn.Module] | None = None) -> None:
        super().__init__()
        make = make or (lambda: SAGEConv((DIM, DIM), DIM))
        self.layers = nn.ModuleList(
            [HeteroConv({t: make() for t in data.edge_types}) for _ in range(3)]
        )

    def forward(self, x_dict: Vectors, edge_index_dict: Edges, links: Tensor) -> Tensor:
        kept = []
        for layer in self.layers:
            new = layer(x_dict, edge_index_dict)
            x_dict = {kind: self.between(kind, x) for kind, x in new.items()}
            kept.append(x_dict)
        return dot(self.read(kept), links)

    def between(self, kind: str, x: Tensor) -> Tensor:
        return torch.tanh(x)

    def read(self, kept: list[Vectors]) -> Vectors:
        return kept[-1]


class Jumping(Three):
    def __init__(self, data: HeteroData, mode: str) -> None:
        super().__init__(data)
        self.jump = JumpingKnowledge(mode, DIM, num_layers=2)

    def read(self, kept: list[Vectors]) -> Vectors:
        return {kind: self.jump([each[kind] for each in kept]) for kind in ("user", "item")}


class Detached(Three):
    """Only the last layer has a gradient."""

    def between(self, kind: str, x: Tensor) -> Tensor:
        return torch.tanh(x).detach()

    def forward(self, x_dict: Vectors, edge_index_dict: Edges, links: Tensor) -> Tensor:
        for layer in self.layers[:2]:
            new = layer(x_dict, edge_index_dict)
            x_dict = {kind: self.between(kind, x) for kind, x in new.items()}
        return dot(self.layers[2](x_dict, edge_index_dict), links)


class WithoutGradient(Detached):
    def between(self, kind: str, x: Tensor) -> Tensor:
        return torch.tanh(x)

    def forward(self, x_dict: Vectors, edge_index_dict: Edges, links: Tensor) -> Tensor:
        with torch.no_grad():
            for layer in self.layers[:2]:
                new = layer(x_dict, edge_index_dict)
                x_dict = {kind: self.between(kind, x) for kind, x in new.items()}
        return dot(self.layers[2](x_dict, edge_index_dict), links)


class ByNumPy(Detached):
    """What leaves torch cannot be followed."""

    def between(self, kind: str, x: Tensor) -> Tensor:
        return torch.from_numpy(x.detach().numpy() * 1.0)


class HardChoice(Three):
    """Of a vector only the place of its largest entry is handed on, after the first two layers."""

    def forward(self, x_dict: Vectors, edge_index_dict: Edges, links: Tensor) -> Tensor:
        for layer in self.layers[:2]:
            new = layer(x_dict, edge_index_dict)
            x_dict = {kind: F.one_hot(x.argmax(-1), DIM).float() for kind, x in new.items()}
        return dot(self.layers[2](x_dict, edge_index_dict), links)


class InPlace(Three):
    """Vectors are written into slices of a tensor made before."""

    def between(self, kind: str, x: Tensor) -> Tensor:
        out = torch.zeros(len(x), 2 * DIM)
        out[:, DIM:] = x
        return out[:, DIM:].tanh_()


class Sign(torch.autograd.Function):
    """The sign, with the gradient of the identity."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.sign()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return grad


class Signs(Three):
    def between(self, kind: str, x: Tensor) -> Tensor:
        return Sign.apply(x)


class Collected(torch.autograd.Function):
    """A sum at nodes that brings its own gradient."""

    @staticmethod
    def forward(ctx: Any, messages: Tensor, index: Tensor, size: int) -> Tensor:
        ctx.save_for_backward(index)
        return messages.new_zeros(size, messages.shape[1]).index_add_(0, index, messages)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        (index,) = ctx.saved_tensors
        return grad[index], None, None


class OwnAggregation(MessagePassing):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(DIM, DIM)

    def forward(self, x: Tensor | tuple[Tensor, Tensor], edge_index: Tensor) -> Tensor:
        x = (x, x) if isinstance(x, Tensor) else x
        return x[1] + self.propagate(edge_index, x=(self.linear(x[0]), x[1]))

    def message(self, x_j: Tensor) -> Tensor:
        return x_j

    def aggregate(self, inputs: Tensor, index: Tensor, dim_size: int | None = None) -> Tensor:
        assert dim_size is not None
        return Collected.apply(inputs, index, dim_size)


class Looped(Three):
    """One layer, called three times."""

    def __init__(self, data: HeteroData) -> None:
        super().__init__(data)
        self.layers = nn.ModuleList([self.layers[0]])

    def forward(self, x_dict: Vectors, edge_index_dict: Edges, links: Tensor) -> Tensor:
        for _ in range(3):
            new = self.layers[0](x_dict, edge_index_dict)
            x_dict = {kind: torch.tanh(x) for kind, x in new.items()}
        return dot(x_dict, links)


class Normed(Three):
    """PyG's GraphNorm between layers: nothing is local."""

    def __init__(self, data: HeteroData) -> None:
        super().__init__(data)
        self.norm = GraphNorm(DIM)

    def between(self, kind: str, x: Tensor) -> Tensor:
        return torch.tanh(self.norm(x))


class DeepSage(nn.Module):
    """For to_hetero."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2, self.conv3 = (SAGEConv((DIM, DIM), DIM) for _ in range(3))

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        x = self.conv1(x, edge_index).tanh()
        return self.conv3(self.conv2(x, edge_index).tanh(), edge_index)


class DeepGCN(Homogeneous):
    def __init__(self) -> None:
        super().__init__(lambda: GCNConv(DIM, DIM))
        self.conv3 = GCNConv(DIM, DIM)

    def forward(self, x: Tensor, edge_index: Tensor, edge_type: Tensor, links: Tensor) -> Tensor:
        for conv in (self.conv1, self.conv2):
            x = torch.tanh(conv(x, edge_index))
        x = self.conv3(x, edge_index)
        return (x[links[0]] * x[links[1]]).sum(-1)


class JoinedEdges(nn.Module):
    """One layer along edges that it joins out of two: from an item by a user to another item."""

    def __init__(self, data: HeteroData) -> None:
        super().__init__()
        self.conv = SAGEConv((DIM, DIM), DIM)

    def forward(self, x_dict: Vectors, edge_index_dict: Edges, links: Tensor) -> Tensor:
        users, items = edge_index_dict[BUYS]
        first, second = (users[:, None] == users[None]).nonzero().t()
        both = torch.stack([items[first], items[second]])
        return dot({**x_dict, "item": self.conv(x_dict["item"], both)}, links)


def _on_shop(make: Callable[[HeteroData], nn.Module], **expected: Any) -> Callable[[], Case]:
    """A model of a relation of the graph itself, so that links have to be taken out of it."""

    def build() -> Case:
        data = make_graph()
        return Case(make(data), data, BUYS, **({"num_hops": 3} | expected))

    return build


def _deep_gcn() -> Case:
    return Case(DeepGCN(), make_homogeneous(), ("node", "0", "node"), num_hops=4)


DEEP: dict[str, Callable[[], Case]] = {
    **CHAIN_MODELS,
    "GAT": _on_shop(
        lambda data: Three(data, lambda: GATConv((DIM, DIM), DIM, add_self_loops=False))
    ),
    "GCN": _deep_gcn,
    "jumping max": _on_shop(lambda data: Jumping(data, "max")),
    "jumping cat": _on_shop(lambda data: Jumping(data, "cat")),
    "jumping lstm": _on_shop(lambda data: Jumping(data, "lstm")),
    "to_hetero, 3 layers": _on_shop(lambda data: WithHead(to_hetero(DeepSage(), data.metadata()))),
    "HGT, 3 layers": _on_shop(
        lambda data: WithHead(
            Stack([HGTConv(DIM, DIM, data.metadata(), heads=2) for _ in range(3)])
        )
    ),
    "graph norm": _on_shop(Normed, mode="full", num_hops=None),
    "one layer in a loop": _on_shop(Looped),
    "detach": _on_shop(Detached),
    "no_grad": _on_shop(WithoutGradient),
    "argmax": _on_shop(HardChoice),
    "NumPy": _on_shop(ByNumPy, mode="full", num_hops=None),
    "in place": _on_shop(InPlace),
    "own autograd function": _on_shop(Signs),
    "joined edges": _on_shop(JoinedEdges),
    "own aggregation": _on_shop(lambda data: Three(data, OwnAggregation)),
}


# Models that may be refused, if that is said clearly.


class TwoHopEdges(nn.Module):
    """One layer along edges that it makes itself: from items by users to items."""

    def __init__(self, data: HeteroData) -> None:
        super().__init__()
        self.conv = SAGEConv((DIM, DIM), DIM)

    def forward(self, x_dict: Vectors, edge_index_dict: Edges, links: Tensor) -> Tensor:
        users, items = edge_index_dict[BUYS]
        bought = x_dict["user"].new_zeros(len(x_dict["user"]), len(x_dict["item"]))
        bought = bought.index_put((users, items), torch.ones(()))
        both = (bought.t() @ bought).nonzero().t()
        return dot({**x_dict, "item": self.conv(x_dict["item"], both)}, links)


class NeedsTags(Three):
    """Fails where there is no tag."""

    def forward(self, x_dict: Vectors, edge_index_dict: Edges, links: Tensor) -> Tensor:
        tags = x_dict["tag"]
        x_dict = {**x_dict, "tag": tags.view(len(tags), -1)}
        return super().forward(x_dict, edge_index_dict, links)


def _needs_tags() -> Case:
    """Only one item has a tag: the neighbourhoods of most links have none."""
    data = make_graph()
    has = data["item", "has", "tag"].edge_index[:, :1]
    data["item", "has", "tag"].edge_index = has
    data["tag", "rev_has", "item"].edge_index = has.flip(0)
    return Case(NeedsTags(data), data, BUYS, mode="all_nodes", num_hops=3)


MAY_BE_REFUSED: dict[str, Callable[[], Case]] = {
    "two-hop edges": _on_shop(TwoHopEdges),
    "needs tags": _needs_tags,
}


# Models that do not use the graph.


class FeaturesOnly(nn.Module):
    """Calls no layer."""

    def __init__(self, data: HeteroData) -> None:
        super().__init__()
        self.linear = nn.Linear(DIM, DIM)

    def forward(self, x_dict: Vectors, edge_index_dict: Edges, links: Tensor) -> Tensor:
        return dot({kind: self.linear(x) for kind, x in x_dict.items()}, links)


class Ignored(Three):
    """Calls its layers, and forgets what they say."""

    def forward(self, x_dict: Vectors, edge_index_dict: Edges, links: Tensor) -> Tensor:
        super().forward(x_dict, edge_index_dict, links)
        return dot(x_dict, links)


class TimesZero(Three):
    """Listens to its layers, at a weight of 0."""

    def forward(self, x_dict: Vectors, edge_index_dict: Edges, links: Tensor) -> Tensor:
        return dot(x_dict, links) + 0 * super().forward(x_dict, edge_index_dict, links)


FEATURES_ONLY: dict[str, Callable[[], Case]] = {
    "no layer": _on_shop(FeaturesOnly),
    "layers that are ignored": _on_shop(Ignored),
    "layers at weight 0": _on_shop(TimesZero),
}


class Rescaled(nn.Module):
    """Another model's score times a factor, plus an offset."""

    def __init__(self, inner: nn.Module, factor: float, offset: float) -> None:
        super().__init__()
        self.inner, self.factor, self.offset = inner, factor, offset

    def forward(self, *given: Any) -> Tensor:
        return self.factor * self.inner(*given) + self.offset


def rescaled(case: Case, factor: float = 1.0, offset: float = 0.0) -> Case:
    """The same case with all scores times a factor, plus an offset."""
    inner, options = case.options.get("forward"), dict(case.options)
    if inner is not None:
        options["forward"] = lambda model, data, links: (
            model.factor * inner(model.inner, data, links) + model.offset
        )
    return dataclasses.replace(case, model=Rescaled(case.model, factor, offset), options=options)
