"""A model of hand-set weights that counts walks in the graphs of a schema."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn
from torch_geometric.nn import MessagePassing

from pagelink.datasets.plans import Head, Walk
from pagelink.datasets.scenes import CODE, IN_SCENE, NUM_CLASSES, OWN, SCENE, VALUE, Schema
from pagelink.graph.schema import EdgeType


class _Pass(MessagePassing):
    """Hands on the sum or the largest of the neighbours, each column times a weight."""

    weight: Tensor

    def __init__(self, weight: Tensor, aggr: str) -> None:
        super().__init__(aggr=aggr)
        self.register_buffer("weight", weight)

    def forward(self, x: Tensor, edge_index: Tensor, num_targets: int) -> Tensor:
        collected: Tensor = self.propagate(edge_index, x=x, size=(x.shape[0], num_targets))
        return collected

    def message(self, x_j: Tensor) -> Tensor:
        return x_j * self.weight


class CountingModel(nn.Module):
    """Adds up a link's own features and what the head makes of the counts of its walks.

    Each walk has as many columns as there are codes. The code of a source is one-hot, so that what
    arrives at a target in the column of a source is the number of walks from that one; and the
    other way round for a walk from the target. All other relations have weight 0.

    Args:
        schema: of the graphs.
        walks: what is counted.
        head: what the counts are worth.
    """

    def __init__(self, schema: Schema, walks: Sequence[Walk], head: Head) -> None:
        super().__init__()
        self.walks, self.head = tuple(walks), head
        self.source, _, self.target = schema.link_type
        self.steps = schema.steps
        self.num_layers = max(2, *(len(walk.steps) for walk in self.walks))
        self.layers = nn.ModuleList()
        for number in range(self.num_layers):
            layer = nn.ModuleDict()
            for step in self.steps:
                here = [self._step(walk, number) == step for walk in self.walks]
                largest = [
                    walk.best and taken and number == self.num_layers - 1
                    for walk, taken in zip(self.walks, here, strict=True)
                ]
                weight = torch.tensor(here).float().repeat_interleave(SCENE)
                layer[step] = _Pass(weight, "max" if any(largest) else "sum")
            self.layers.append(layer)

    def _late(self, walk: Walk) -> int:
        """The layers before a walk starts: a shorter one starts later, so that all end together."""
        return self.num_layers - len(walk.steps)

    def _step(self, walk: Walk, number: int) -> str | None:
        place = number - self._late(walk)
        return walk.steps[place] if place >= 0 else None

    def forward(
        self,
        x_dict: Mapping[str, Tensor],
        edge_index_dict: Mapping[EdgeType, Tensor],
        edge_label_index: Tensor,
    ) -> Tensor:
        """Return the logits of the links."""
        h = self._start(x_dict, 0)
        for number, layer in enumerate(self.layers, start=1):
            arrived = self._start(x_dict, number)
            for step, (src, _, dst) in self.steps.items():
                edge_index = edge_index_dict[self.steps[step]]
                message = layer[step](h[src], edge_index, x_dict[dst].shape[0])  # type: ignore[index]
                arrived[dst] = arrived[dst] + message
            h = self._weighted(arrived, x_dict, number)
        src, dst = edge_label_index
        own = {self.source: x_dict[self.source][src], self.target: x_dict[self.target][dst]}
        ends = {self.source: h[self.source][src], self.target: h[self.target][dst]}
        same = (own[self.source][:, IN_SCENE] == own[self.target][:, IN_SCENE]).float()
        counts = []
        for place, walk in enumerate(self.walks):
            columns = slice(place * SCENE, (place + 1) * SCENE)
            start, end = self.steps[walk.steps[0]][0], self.steps[walk.steps[-1]][2]
            found = ends[end][:, columns]
            if walk.brings == "class":
                counts.append(found[:, :NUM_CLASSES])
            elif len(walk.steps) == 1:
                counts.append(found[:, 0])
            else:
                counts.append(same * (found * own[start][:, CODE : CODE + SCENE]).sum(-1))
        return own[self.source][:, OWN] + own[self.target][:, OWN] + self.head(counts)

    def _start(self, x_dict: Mapping[str, Tensor], number: int) -> dict[str, Tensor]:
        """What walks that start after this number of layers start with: codes, or content."""
        found = {}
        for kind, x in x_dict.items():
            parts = []
            for walk in self.walks:
                here = self.steps[walk.steps[0]][0] == kind and number == self._late(walk)
                parts.append(_brought(walk, x) * float(here))
            found[kind] = torch.cat(parts, dim=1)
        return found

    def _weighted(
        self, arrived: dict[str, Tensor], x_dict: Mapping[str, Tensor], number: int
    ) -> dict[str, Tensor]:
        """What nodes hand on after this number of layers: values count at the first inner node."""
        if not any(walk.weighted and number == self._late(walk) + 1 for walk in self.walks):
            return arrived
        found = {}
        for kind, h in arrived.items():
            factors = []
            for walk in self.walks:
                inner = walk.weighted and number == self._late(walk) + 1
                here = inner and self.steps[walk.steps[0]][2] == kind
                value = x_dict[kind][:, VALUE : VALUE + 1]
                factors.append((value if here else torch.ones_like(value)).expand(-1, SCENE))
            found[kind] = h * torch.cat(factors, dim=1)
        return found


def _brought(walk: Walk, x: Tensor) -> Tensor:
    """What a walk brings from where it starts, in as many columns as there are codes."""
    if walk.brings == "value":
        return x[:, VALUE : VALUE + 1].expand(-1, SCENE)
    if walk.brings == "class":
        classes = x[:, VALUE + 1 :]
        return torch.nn.functional.pad(classes, (0, SCENE - classes.shape[1]))
    if len(walk.steps) == 1:
        return torch.ones_like(x[:, CODE : CODE + SCENE])
    return x[:, CODE : CODE + SCENE]
