"""Random nets that mark the source of each asked pair and read out at its target, as NBFNet does.

What they compute depends on the pair, and pairs that no mark joins have (nearly) all one score.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch_geometric.data import HeteroData
from torch_geometric.nn import MessagePassing

from pagelink.bench.fuzz.draws.data import RandomData, edge_types_of
from pagelink.bench.fuzz.draws.layers import DIM
from pagelink.graph.schema import EdgeType

STEPS, PAIRS = 40, 16
"""Of training: its steps, and the pairs of each."""


class MarkLayer(MessagePassing):
    """Messages times a vector of their relation, which depends on the asked one."""

    def __init__(self, num_relations: int, bias: bool) -> None:
        super().__init__(aggr="sum", node_dim=0)
        self.relation = nn.Linear(DIM, num_relations * DIM)
        self.linear = nn.Linear(2 * DIM, DIM, bias=bias)

    def forward(
        self, h: Tensor, start: Tensor, edge_index: Tensor, kinds: Tensor, asked: Tensor
    ) -> Tensor:
        """One layer on vectors [num_nodes, num_pairs, DIM]."""
        relation = self.relation(asked).view(len(asked), -1, DIM)[:, kinds].transpose(0, 1)
        out: Tensor = self.propagate(edge_index, h=h, relation=relation)
        return torch.relu(self.linear(torch.cat([out, start], -1)))

    def message(self, h_j: Tensor, relation: Tensor) -> Tensor:
        """What a neighbour sends."""
        return h_j * relation


class Labelled(nn.Module):
    """Scores pairs by how the mark of the source arrives at the target.

    Args:
        given: the graph.
        link_types: the predicted relations by their position among the data's edge types.
        num_layers: how far a mark is passed on.
        bias: whether layers have one; without, what no mark reaches stays 0.
        looped: one pair after the other, instead of all at once.
    """

    def __init__(
        self,
        given: RandomData,
        link_types: dict[int, EdgeType],
        num_layers: int,
        bias: bool,
        looped: bool,
    ) -> None:
        super().__init__()
        self.types, self.link_types, self.looped = edge_types_of(given), link_types, looped
        self.asked = nn.Embedding(max(link_types) + 1, DIM)
        self.layers = nn.ModuleList(
            [MarkLayer(max(len(self.types), 1), bias) for _ in range(num_layers)]
        )
        self.head = nn.Linear(DIM, 1)

    def forward(self, data: Any, links: Tensor) -> Tensor:
        """Score links: `(data, links)`."""
        first, num_nodes, edge_index, kinds = self.stacked(data)
        ends = links.clone()
        for position, (src, _, dst) in self.link_types.items():
            mine = data.edge_label_type == position
            ends[:, mine] += torch.tensor([[first[src]], [first[dst]]])
        size = 1 if self.looped else max(links.shape[1], 1)
        asked = self.asked(data.edge_label_type)
        scores = [
            self._score(num_nodes, edge_index, kinds, pairs, question)
            for pairs, question in zip(ends.split(size, 1), asked.split(size), strict=True)
        ]
        return torch.cat(scores)

    def stacked(self, data: Any) -> tuple[dict[str, int], int, Tensor, Tensor]:
        """All node types as one: where each begins, the number of nodes, edges, their relations."""
        if not isinstance(data, HeteroData):
            kinds = data.get("edge_type")
            kinds = torch.zeros(data.edge_index.shape[1]).long() if kinds is None else kinds
            return {"node": 0}, len(data.n_id), data.edge_index, kinds
        first, total = dict[str, int](), 0
        for kind in data.node_types:
            first[kind] = total
            total += len(data[kind].n_id)
        edges, numbers = [], []
        for number, (src, name, dst) in enumerate(self.types):
            each = data[src, name, dst].edge_index
            edges.append(torch.stack([each[0] + first[src], each[1] + first[dst]]))
            numbers.append(torch.full((each.shape[1],), number))
        return first, total, torch.cat(edges, 1), torch.cat(numbers)

    def _score(
        self, num_nodes: int, edge_index: Tensor, kinds: Tensor, pairs: Tensor, asked: Tensor
    ) -> Tensor:
        places = torch.arange(pairs.shape[1])
        start = asked.new_zeros(num_nodes, pairs.shape[1], DIM)
        start = h = start.index_put((pairs[0], places), asked)
        for layer in self.layers:
            h = layer(h, start, edge_index, kinds, asked)
        score: Tensor = self.head(h[pairs[1], places])
        return score.squeeze(-1)


def train_on_walks(model: Labelled, given: RandomData, rng: np.random.Generator) -> None:
    """Teach a net which pairs are joined by a walk of as many edges as it has layers."""
    data = given.data.clone()
    for store in data.node_stores:
        store.n_id = torch.arange(store.num_nodes)
    first, num_nodes, edge_index, _ = model.stacked(data)
    joined = torch.zeros(num_nodes, num_nodes)
    joined[edge_index[0], edge_index[1]] = 1.0
    walks = torch.linalg.matrix_power(joined, len(model.layers)) > 0
    position, (src, _, dst) = next(iter(model.link_types.items()))
    sizes = [sum(s.num_nodes for s in data.node_stores if kind in (s._key, "node"))
             for kind in (src, dst)]  # fmt: skip
    looped, model.looped = model.looped, False  # which is faster, and the same
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    for _ in range(STEPS):
        links = torch.from_numpy(np.stack([rng.integers(0, size, PAIRS) for size in sizes]))
        data.edge_label_type = torch.full((PAIRS,), position)
        truth = walks[links[0] + first[src], links[1] + first[dst]].float()
        optimizer.zero_grad()
        loss = nn.functional.binary_cross_entropy_with_logits(model(data, links), truth)
        loss.backward()
        optimizer.step()
    optimizer.zero_grad()
    model.looped = looped
