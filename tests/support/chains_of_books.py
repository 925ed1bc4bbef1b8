"""Readers and books in scenes of one drawing, with a model that counts walks along relations."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn
from torch_geometric.data import HeteroData
from torch_geometric.nn import SimpleConv

LINK = ("reader", "will_like", "book")
TYPES = {"owns": ("reader", "owns", "book"), "by": ("book", "by", "author"),
         "cites": ("book", "cites", "book")}  # fmt: skip


def scenes(facts: Iterable[tuple[int, str, int]], count: int = 8, spare: int = 3) -> HeteroData:
    """Return `count` copies of a drawing, each with its own reader, books and authors.

    Args:
        facts: source, relation and target, numbered from 0 within a scene.
        count: the number of copies.
        spare: readers, books and authors of each scene that have none of the facts.
    """
    drawn = list(facts)
    size = 1 + max(max(source, target) for source, _, target in drawn) + spare
    data = HeteroData()
    for kind in ("reader", "book", "author"):
        data[kind].x = torch.eye(size * count)
    for name, (source, _, target) in TYPES.items():
        ends = [
            (a + size * i, b + size * i) for i in range(count) for a, r, b in drawn if r == name
        ]
        edge_index = torch.tensor(ends, dtype=torch.long).reshape(-1, 2).T
        data[source, name, target].edge_index = edge_index
        data[target, f"rev_{name}", source].edge_index = edge_index.flip(0)
    return data


class WalkModel(nn.Module):
    """Scores a link by the number of walks along each of some sequences of relations."""

    def __init__(self, *walks: str, slope: float = 2.0, saturates: bool = False) -> None:
        super().__init__()
        self.walks = [walk.split() for walk in walks]
        self.slope, self.saturates = slope, saturates
        self.conv = SimpleConv(aggr="sum")

    def forward(
        self, x: dict[str, Tensor], edges: dict[tuple[str, str, str], Tensor], pair: Tensor
    ) -> Tensor:
        total = torch.zeros(pair.shape[1])
        for walk in self.walks:
            h = x["reader"]
            for name in walk:
                source, _, target = TYPES[name.removeprefix("rev_")]
                if name.startswith("rev_"):
                    source, target = target, source
                h = self.conv((h, x[target]), edges[source, name, target])
            total = total + (h[pair[1]] * x["reader"][pair[0]]).sum(-1)
        return self.slope * (total.clamp(max=1) if self.saturates else total) - 1
