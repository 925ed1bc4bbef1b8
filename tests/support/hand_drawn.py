"""Hand-drawn graphs, and a model on them that can be computed by hand."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.data import HeteroData
from torch_geometric.nn import SimpleConv

from pagelink import Explanation, Path
from pagelink.graph.schema import EdgeType

Pairs = list[tuple[int, int]]
BUYS: EdgeType = ("user", "buys", "item")
VIEWS: EdgeType = ("user", "views", "item")
KNOWS: EdgeType = ("user", "knows", "user")
LIKES: EdgeType = ("user", "likes", "item")


def draw(
    sizes: Mapping[str, int], edges: Mapping[EdgeType, Pairs], *, reverse: bool = True
) -> HeteroData:
    """A hand-drawn graph with one feature of 1, and with reverses unless told otherwise."""
    data = HeteroData()
    for node_type, size in sizes.items():
        data[node_type].x = torch.ones(size, 1)
    for (src, name, dst), pairs in edges.items():
        edge_index = torch.tensor(pairs, dtype=torch.long).view(-1, 2).t().contiguous()
        data[src, name, dst].edge_index = edge_index
        if reverse:
            data[dst, f"rev_{name}", src].edge_index = edge_index.flip(0)
    return data


class Walks(nn.Module):
    """A model that can be computed by hand.

    A node's value is the number of walks into it of at most `layers` edges, each edge counted by
    the weight of its relation; the score of a link is the product of its ends, times a scale, plus
    a bias. Relations of weight 0 are not used at all.
    """

    def __init__(
        self,
        weights: Mapping[str, float] | None = None,
        *,
        layers: int = 2,
        scale: float = 1.0,
        bias: float = 0.0,
        ends: tuple[str, str] = ("user", "item"),
    ) -> None:
        super().__init__()
        self.conv = SimpleConv(aggr="sum")
        self.weights = dict(weights or {})
        self.layers, self.scale, self.bias, self.ends = layers, scale, bias, ends

    def forward(self, x_dict: Any, edge_index_dict: Any, links: Tensor) -> Tensor:
        for _ in range(self.layers):
            out = dict(x_dict)
            for (src, name, dst), edge_index in edge_index_dict.items():
                weight = self.weights.get(name.removeprefix("rev_"), 1.0)
                if weight:
                    out[dst] = out[dst] + weight * self.conv((x_dict[src], x_dict[dst]), edge_index)
            x_dict = out
        first, second = (x_dict[kind][end] for kind, end in zip(self.ends, links, strict=True))
        scores: Tensor = self.scale * (first * second).sum(-1) + self.bias
        return scores


def relations(path: Path) -> list[str]:
    return [edge.type[1] for edge in path.edges]


def inner(path: Path) -> list[tuple[str, int]]:
    return list(path.nodes[1:-1])


def assert_is_path(path: Path, explanation: Explanation, data: HeteroData) -> None:
    """A simple path from source to target whose every edge is stored where it says."""
    assert path.nodes[0] == explanation.src
    assert path.nodes[-1] == explanation.dst
    assert len(set(path.nodes)) == len(path.nodes) == len(path.edges) + 1
    for edge, ends in zip(path.edges, itertools.pairwise(path.nodes), strict=True):
        src, _, dst = edge.type
        u, v = data[edge.type].edge_index[:, edge.index].tolist()
        stored = ((src, u), (dst, v))
        assert ends == (stored[::-1] if edge.reversed else stored)
