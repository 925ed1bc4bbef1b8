"""Models that look for a chain of facts from source to target: hand-set ones and NBFNets.

Pairs without a chain have (nearly) all the same score, which says nothing of how far a model sees.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import cache
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn
from torch_geometric.data import Data, HeteroData
from torch_geometric.nn import GraphConv, MessagePassing

from support.zoo import DIM, Case, by_data

CHAINS = 60
CHAIN_TYPES = {3: ("user", "tag", "shop", "item"), 4: ("user", "tag", "shop", "town", "item")}
Edges = Any
Vectors = dict[str, Tensor]


def chain_graph(length: int, reverse: bool = True) -> HeteroData:
    """User i and item i are joined by a chain of `length` facts step1, step2, ...

    Each step has a parallel relation, other1, other2, ..., that is worth nothing. Without reverse
    relations messages come from as far as the chain is long.
    """
    generator = torch.Generator().manual_seed(length)
    kinds, data = CHAIN_TYPES[length], HeteroData()
    for kind in kinds:
        data[kind].x = torch.zeros(CHAINS, CHAINS)
    data["user"].x = torch.eye(CHAINS)
    nodes = [torch.randperm(CHAINS, generator=generator) for _ in kinds]
    nodes[0] = nodes[-1] = torch.arange(CHAINS)
    for step in range(length):
        src, dst = kinds[step], kinds[step + 1]
        chance = torch.randint(0, CHAINS, (2, CHAINS), generator=generator)
        for name, edges in (("step", torch.stack([nodes[step], nodes[step + 1]])),
                            ("other", chance)):  # fmt: skip
            data[src, f"{name}{step + 1}", dst].edge_index = edges
            if reverse:
                data[dst, f"rev_{name}{step + 1}", src].edge_index = edges.flip(0)
    return data


CHAIN_LINKS = [(i, i) for i in range(8)] + [(i, i + 1) for i in range(3)]
"""Planted ones, and some that are not."""


class HandSet(nn.Module):
    """A user's mark is handed on along the chain: 3 where it arrives at the item, else -2.

    Args:
        data: the graph.
        length: of the chain; there are as many layers.
        only_steps: each layer runs on the relation of its step alone; else on all, most at weight
            0.
    """

    def __init__(self, data: HeteroData, length: int, only_steps: bool) -> None:
        super().__init__()
        self.used, self.convs = list[tuple[int, Any]](), nn.ModuleList()
        for number, edge_type in itertools.product(range(1, length + 1), data.edge_types):
            counts = edge_type[1] == f"step{number}"
            if counts or not only_steps:
                conv = GraphConv(CHAINS, CHAINS, bias=False)
                nn.init.zeros_(conv.lin_root.weight)
                with torch.no_grad():
                    conv.lin_rel.weight.copy_(torch.eye(CHAINS) * float(counts))
                self.used.append((number, edge_type))
                self.convs.append(conv)

    def forward(self, x_dict: Vectors, edge_index_dict: Edges, links: Tensor) -> Tensor:
        h = x_dict
        for number in range(1, self.used[-1][0] + 1):
            new = {kind: torch.zeros_like(x) for kind, x in h.items()}
            for (layer, edge_type), conv in zip(self.used, self.convs, strict=True):
                src, _, dst = edge_type
                if layer == number:
                    new[dst] = new[dst] + conv((h[src], h[dst]), edge_index_dict[edge_type])
            h = new
        arrived = (x_dict["user"][links[0]] * h["item"][links[1]]).sum(-1)
        return 5 * arrived.clamp(max=1) - 2


def hand_set(length: int, reverse: bool = True, only_steps: bool = False) -> Case:
    data = chain_graph(length, reverse)
    steps = {f"step{number}" for number in range(1, length + 1)}
    unseen = {t[1] for t in data.edge_types} - steps if only_steps else set()
    return Case(
        HandSet(data, length, only_steps), data, num_hops=length, links=CHAIN_LINKS,
        unseen=frozenset(unseen),
    )  # fmt: skip


class BellmanFord(MessagePassing):
    """A layer of NBFNet: messages times a relation vector that depends on the question."""

    def __init__(self, num_relations: int, bias: bool) -> None:
        super().__init__(aggr="sum", node_dim=0)
        self.relation = nn.Linear(DIM, num_relations * DIM)
        self.linear = nn.Linear(2 * DIM, DIM, bias=bias)

    def forward(
        self, h: Tensor, start: Tensor, edge_index: Tensor, edge_type: Tensor, asked: Tensor
    ) -> Tensor:
        relation = self.relation(asked).view(-1, DIM)[edge_type]
        if h.dim() == 3:
            relation = relation.unsqueeze(1)
        collected = self.propagate(edge_index, h=h, relation=relation)
        return torch.relu(self.linear(torch.cat([collected, start], -1)))

    def message(self, h_j: Tensor, relation: Tensor) -> Tensor:
        return h_j * relation


class NBFNet(nn.Module):
    """Marks the source of each asked pair, passes messages, reads out at its target.

    Args:
        num_relations: of the graph.
        bias: whether layers have one; without, what the mark does not reach stays 0.
        batched: all pairs have a dimension of their own; else there is a loop over them.
        num_layers: how far a mark is passed on.
    """

    def __init__(
        self, num_relations: int, bias: bool, batched: bool = True, num_layers: int = 3
    ) -> None:
        super().__init__()
        self.batched = batched
        self.asked = nn.Parameter(torch.randn(DIM))
        self.layers = nn.ModuleList([BellmanFord(num_relations, bias) for _ in range(num_layers)])
        self.head = nn.Linear(DIM, 1)

    def forward(self, x: Tensor, edge_index: Tensor, edge_type: Tensor, links: Tensor) -> Tensor:
        pairs = [links] if self.batched else links.split(1, dim=1)
        return torch.cat([self._score(len(x), edge_index, edge_type, pair) for pair in pairs])

    def _score(self, num_nodes: int, edge_index: Edges, edge_type: Tensor, pair: Tensor) -> Tensor:
        count = pair.shape[1]
        start = self.asked.new_zeros(num_nodes, count, DIM)
        start[pair[0], torch.arange(count)] = self.asked
        if not self.batched:
            start = start.squeeze(1)
        h = start
        for layer in self.layers:
            h = layer(h, start, edge_index, edge_type, self.asked)
        read = h[pair[1], torch.arange(count)] if self.batched else h[pair[1]]
        return self.head(read).squeeze(-1)


class InHetero(nn.Module):
    """A net for one kind of nodes and edges on a heterogeneous graph, made into one inside."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, data: HeteroData, links: Tensor) -> Tensor:
        whole = data.to_homogeneous()
        first = [
            int((whole.node_type < data.node_types.index(kind)).sum()) for kind in ("user", "item")
        ]
        shifted = links + torch.tensor(first).view(2, 1)
        return self.net(whole.x, whole.edge_index, whole.edge_type, shifted)


@cache
def _trained(bias: bool) -> dict[str, Tensor]:
    """The weights of an NBFNet that tells users and items with a chain from others."""
    data = chain_graph(3).to_homogeneous()
    net = NBFNet(12, bias)
    optimizer = torch.optim.Adam(net.parameters(), lr=0.005)
    half = 24
    truth = torch.cat([torch.ones(half), torch.zeros(half)])
    for _ in range(200):
        users = torch.randperm(CHAINS)[:half]
        items = (users + torch.randint(1, CHAINS, (half,))) % CHAINS
        links = torch.stack([users.repeat(2), torch.cat([users, items]) + 3 * CHAINS])
        optimizer.zero_grad()
        logits = net(data.x, data.edge_index, data.edge_type, links)
        F.binary_cross_entropy_with_logits(logits, truth).backward()
        optimizer.step()
    return net.state_dict()


def nbf_net(bias: bool, batched: bool, flat: bool = False) -> Case:
    net, data = NBFNet(12, bias, batched), chain_graph(3)
    net.load_state_dict(_trained(bias))
    if not flat:
        return Case(
            InHetero(net), data, options={"forward": by_data}, num_hops=3, links=CHAIN_LINKS
        )
    whole = data.to_homogeneous()
    alone = Data(edge_index=whole.edge_index, edge_type=whole.edge_type, num_nodes=4 * CHAINS)
    links = [(user, item + 3 * CHAINS) for user, item in CHAIN_LINKS]
    return Case(net, alone, ("node", "likes", "node"), num_hops=3, links=links)


CHAIN_MODELS: dict[str, Callable[[], Case]] = {
    "hand-set, 3 layers": lambda: hand_set(3),
    "hand-set, 4 layers": lambda: hand_set(4),
    "hand-set, no reverses": lambda: hand_set(3, reverse=False),
    "hand-set, 4 layers, no reverses": lambda: hand_set(4, reverse=False),
    "hand-set, only its relations": lambda: hand_set(3, only_steps=True),
    "NBFNet, bias, batched": lambda: nbf_net(bias=True, batched=True),
    "NBFNet, bias, looped": lambda: nbf_net(bias=True, batched=False),
    "NBFNet, no bias, batched": lambda: nbf_net(bias=False, batched=True),
    "NBFNet, no bias, looped": lambda: nbf_net(bias=False, batched=False),
    "NBFNet, homogeneous": lambda: nbf_net(bias=False, batched=True, flat=True),
}
