"""Users who rated films, models of their taste, and the same graph with facts taken out."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch_geometric.data import HeteroData
from torch_geometric.nn import HeteroConv, SAGEConv, SimpleConv

from pagelink import PaGELink

LIKES = ("user", "likes", "item")
RATED = ("user", "rated", "item")


class Taste(nn.Module):
    """A user is the sum (or the maximum) of what was rated; the score is the product with an item.

    score(u, i) = sum over rated j of x_j * x_i, plus the bias.
    """

    def __init__(self, aggr: str = "sum", bias: float = 0.0) -> None:
        super().__init__()
        self.conv, self.bias = SimpleConv(aggr=aggr), bias

    def forward(self, x_dict: Any, edge_index_dict: Any, links: Tensor) -> Tensor:
        ends = (x_dict["item"], x_dict["user"])
        user = self.conv(ends, edge_index_dict["item", "rev_rated", "user"])
        return (user[links[0]] * x_dict["item"][links[1]]).sum(-1) + self.bias


def shop(rated: list[tuple[int, int]], items: list[list[float]], users: int = 2) -> HeteroData:
    data = HeteroData()
    data["user"].x = torch.zeros(users, len(items[0]))
    data["item"].x = torch.tensor(items)
    data["user"].name = ["Ann", "Ben", "Cem"][:users]
    data["item"].name = [f"Film {chr(65 + i)}" for i in range(len(items))]
    edge_index = torch.tensor(rated).t().contiguous()
    data[RATED].edge_index = edge_index
    data["item", "rev_rated", "user"].edge_index = edge_index.flip(0)
    return data


# Tastes are two numbers: A and B are of one kind, C of the other; D and E are open.
FILMS = [[1.0, 0.0], [0.5, 0.0], [0.0, 1.2], [1.0, 0.0], [0.0, 1.0]]
SEEN = [(0, 0), (0, 1), (0, 2), (1, 1), (1, 4)]


class Two(nn.Module):
    def __init__(self, data: HeteroData) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            HeteroConv({t: SAGEConv((4, 4), 4) for t in data.edge_types}, aggr="sum")
            for _ in range(2)
        )

    def forward(self, x_dict: Any, edge_index_dict: Any, links: Tensor) -> Tensor:
        for layer in self.layers:
            x_dict = {t: torch.tanh(x) for t, x in layer(x_dict, edge_index_dict).items()}
        return 4 * (x_dict["user"][links[0]] * x_dict["item"][links[1]]).sum(-1)


def random_case(seed: int) -> tuple[HeteroData, Two]:
    generator = torch.Generator().manual_seed(seed)
    data = HeteroData()
    data["user"].x = torch.randn(6, 4, generator=generator)
    data["item"].x = torch.randn(9, 4, generator=generator)
    for name, count in (("rated", 20), ("viewed", 6)):
        edges = torch.stack([torch.randint(0, n, (count,), generator=generator) for n in (6, 9)])
        data["user", name, "item"].edge_index = edges
        data["item", f"rev_{name}", "user"].edge_index = edges.flip(0)
    torch.manual_seed(seed)
    return data, Two(data)


def without(explainer: PaGELink, data: Any, facts: np.ndarray) -> Any:
    """The user's data with every edge of the facts taken out, by hand."""
    graph = explainer.graph
    edited = copy.copy(data)
    gone = np.isin(graph.fact, facts)
    stores = data.edge_types if isinstance(data, HeteroData) else [None]
    for edge_type in stores:
        store = edited if edge_type is None else edited[edge_type]
        keep = torch.ones(store.edge_index.shape[1], dtype=torch.bool)
        mine = gone
        if edge_type is not None:
            mine = gone & (graph.relation == graph.edge_types.index(edge_type))
        keep[torch.from_numpy(graph.column[mine]).long()] = False
        store.edge_index = store.edge_index[:, keep]
        if edge_type is None:
            store.edge_type = store.edge_type[keep]
    return edited
