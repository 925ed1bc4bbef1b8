"""NBF: a link predictor that looks at the pair, and knows nodes only by their type and degree.

The source of a link is marked; the mark is passed on along relations for a few layers, and the
logit is read at the target from what arrives there. On its way it goes through a gate at every
node, which depends on the number of edges into the node. So the logit is about walks from source to
target: along which relations they go, and past nodes of which degrees. Two towers that are compared
at the end cannot say that of inner nodes.

The idea is that of Neural Bellman-Ford Networks (Zhu, Zhang, Xhonneux, Tang, NeurIPS 2021); gates
by degree are ours. Layers have no bias, so that what no mark reaches stays 0, and only pairs of a
source and a node that it reaches are computed: links of the same source share its marks, and
sources side by side cost by their neighbourhoods, not by the graph.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch_geometric.nn import MessagePassing

from pagelink.errors import ModelError
from pagelink.graph.schema import EdgeType
from pagelink.models.link_model import LinkModel, Relations
from pagelink.runtime.undo import Undo

KINKS = 16
"""Of the function of log degrees that a gate has, per node type."""
HIGHEST_KINK = 7.0
"""Where they are at first, from 0 up: a degree of about a thousand."""
SOURCES_AT_ONCE = 128
"""Sources whose marks are in memory at the same time, unless a gradient needs them."""


class OrderedEdges(NamedTuple):
    """Some edges, ordered by one of their ends."""

    edge_index: Tensor
    """[2, num_edges]"""
    relation: Tensor
    """The position of each edge's relation among those of the model."""
    ptr: Tensor
    """The edges of node v are ptr[v] to ptr[v + 1] - 1."""

    def at(self, nodes: Tensor) -> tuple[Tensor, Tensor]:
        """Return the edges of all the nodes, and for each the position of its node in `nodes`."""
        first = self.ptr[nodes]
        count = self.ptr[nodes + 1] - first
        rows = torch.repeat_interleave(torch.arange(len(nodes), device=nodes.device), count)
        before = count.cumsum(0) - count
        return first[rows] + torch.arange(len(rows), device=nodes.device) - before[rows], rows


class _Nodes(NamedTuple):
    """What a gate knows of nodes."""

    type: Tensor
    log_degree: Tensor


class FlatGraph:
    """A graph as the layers read it: nodes of all types in one row, their degrees, the edges."""

    def __init__(
        self,
        x_dict: Mapping[str, Tensor],
        edge_index_dict: Mapping[EdgeType, Tensor],
        node_types: Sequence[str],
        edge_types: Sequence[EdgeType],
    ) -> None:
        sizes = [len(x_dict[t]) if t in x_dict else 0 for t in node_types]
        device = next(iter(x_dict.values())).device
        self.first = dict(zip(node_types, [sum(sizes[:i]) for i in range(len(sizes))], strict=True))
        self.num_nodes = sum(sizes)
        self.node_type = torch.repeat_interleave(
            torch.arange(len(sizes), device=device), torch.tensor(sizes, device=device)
        )
        edges = [torch.empty(2, 0, dtype=torch.long, device=device)]
        relation = [edges[0][0]]
        for position, edge_type in enumerate(edge_types):
            if edge_type in edge_index_dict:
                edge_index = edge_index_dict[edge_type]
                shift = torch.tensor([[self.first[t]] for t in edge_type[::2]], device=device)
                edges.append(edge_index + shift)
                relation.append(torch.full_like(edge_index[0], position))
        self.edge_index, self.relation = torch.cat(edges, dim=1), torch.cat(relation)
        degree = torch.bincount(self.edge_index[1], minlength=self.num_nodes)
        self.log_degree = degree.float().log1p()

    def nodes(self, which: Tensor) -> _Nodes:
        """What gates know of some nodes."""
        return _Nodes(self.node_type[which], self.log_degree[which])

    def within(self, nodes: Tensor, num_hops: int) -> Tensor:
        """Return which nodes are reached from some within a number of edges, [num_nodes]."""
        reached = torch.zeros(self.num_nodes, dtype=torch.bool, device=nodes.device)
        reached[nodes] = True
        for _ in range(num_hops):
            tails, heads = self.edge_index
            reached[heads[torch.nonzero(reached[tails]).view(-1)]] = True
        return reached

    def edges_of(self, nodes: Tensor, end: int) -> OrderedEdges:
        """Return the edges whose tails (end 0) or heads (1) are among the nodes, ordered by them.

        Args:
            nodes: which nodes, [num_nodes].
            end: 0 or 1.
        """
        (chosen,) = torch.nonzero(nodes[self.edge_index[end]], as_tuple=True)
        chosen = chosen[torch.argsort(self.edge_index[end, chosen], stable=True)]
        edge_index = self.edge_index[:, chosen]
        every = torch.arange(self.num_nodes + 1, device=chosen.device)
        ptr = torch.searchsorted(edge_index[end].contiguous(), every)
        return OrderedEdges(edge_index, self.relation[chosen], ptr)


class MarkLayer(MessagePassing):
    """Passes marks on: v gets the sum of w_r * h_u over the edges into it, mapped and gated."""

    def __init__(self, num_types: int, num_relations: int, dim: int) -> None:
        super().__init__(aggr="sum")
        self.relations = nn.ParameterList(
            [nn.Parameter(1 + torch.randn(dim) / 4) for _ in range(num_relations)]
        )
        self.linear = nn.Linear(dim, dim, bias=False)
        slope = 3 * torch.randn(num_types, KINKS).sign()
        self.slope = nn.Parameter(slope)
        self.offset = nn.Parameter(-slope * torch.rand(num_types, KINKS) * HIGHEST_KINK)
        self.gate = nn.Linear(KINKS, dim)

    def forward(
        self, marks: Tensor, edge_index: Tensor, relation: Tensor, start: Tensor, node: _Nodes
    ) -> Tensor:
        """Return the new marks.

        Args:
            marks: [num_pairs, dim].
            edge_index: from pairs to new pairs, [2, num_messages].
            relation: of each message.
            start: what is there already of the new pairs, [num_new, dim].
            node: the nodes of the new pairs.
        """
        weights = torch.stack([*self.relations]) if len(self.relations) else marks[:0]
        arrived = self.propagate(
            edge_index, marks=(marks, start), weight=weights[relation],
            size=(len(marks), len(start)),
        )  # fmt: skip
        # The logarithm keeps thousands of walks past a hub from drowning the others.
        new = torch.relu(self.linear(arrived + start)).log1p()
        degree = node.log_degree.to(new.dtype)[:, None]
        kinks = torch.relu(self.slope[node.type] * degree + self.offset[node.type])
        return new * torch.sigmoid(self.gate(kinks))

    def message(self, marks_j: Tensor, weight: Tensor) -> Tensor:
        """What a neighbour sends."""
        return marks_j * weight


class NBF(LinkModel):
    """Marks the source, passes marks on for some layers, reads the logit at the target.

    Node features and ids are not read. See `TowerModel` for the other arguments.

    Args:
        hidden: length of a mark.
        num_layers: the number of edges of the longest walk that counts.

    Example:
        >>> buys, sold = ("user", "buys", "item"), ("item", "bought_by", "user")
        >>> model = NBF({"user": 2, "item": 2}, [buys, sold], ("user", "likes", "item"), hidden=8)
        >>> nodes = {"user": torch.arange(2), "item": torch.arange(2)}
        >>> edges = {buys: torch.tensor([[0, 1, 1], [0, 0, 1]])}
        >>> edges[sold] = edges[buys].flip(0)
        >>> model(nodes, edges, torch.tensor([[0, 1], [1, 1]])).shape
        torch.Size([2])
    """

    samples_neighbours = False  # a sample has other degrees than the graph

    def __init__(
        self,
        num_nodes: Mapping[str, int],
        edge_types: Sequence[EdgeType],
        link_type: EdgeType,
        *,
        num_features: Mapping[str, int] | None = None,
        hidden: int = 32,
        num_layers: int = 3,
        seed: int = 0,
    ) -> None:
        super().__init__(
            num_nodes, edge_types, link_type, num_features, hidden=hidden, num_layers=num_layers,
            seed=seed,
        )  # fmt: skip
        if num_layers < 1:
            raise ModelError(f"NBF needs at least one layer, got {num_layers}.")
        self.node_types = (*num_nodes, *(num_features or {}))
        with Undo() as undo:
            undo.later(torch.default_generator.set_state, torch.get_rng_state())
            torch.manual_seed(seed)
            self.mark = nn.Parameter(1 + torch.randn(hidden) / 4)
            self.layers = nn.ModuleList(
                [
                    MarkLayer(len(self.node_types), len(self.edge_types), hidden)
                    for _ in range(num_layers)
                ]
            )
            self.head = nn.Sequential(nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, 1))

    def on_graph(
        self, x_dict: Mapping[str, Tensor], edge_index_dict: Relations
    ) -> Callable[[Tensor], Tensor]:
        """Flatten the graph, and return the function that passes marks along its edges."""
        edges: Any = edge_index_dict  # no Adjacency: the model does not take it
        graph = FlatGraph(x_dict, edges, self.node_types, self.edge_types)
        return partial(self._logits, graph)

    def _logits(self, graph: FlatGraph, edge_label_index: Tensor) -> Tensor:
        """Return the logits of links; those of one source share its marks."""
        first_src, first_dst = (graph.first[end] for end in self.link_type[::2])
        src, dst = edge_label_index[0] + first_src, edge_label_index[1] + first_dst
        sources, slot = torch.unique(src, return_inverse=True)
        # A source and a target are one number, so that links of a part of the sources are together.
        asked, of_link = torch.unique(slot * graph.num_nodes + dst, return_inverse=True)
        parts = sources.split(SOURCES_AT_ONCE)
        bounds = torch.arange(len(parts) + 1, device=src.device) * SOURCES_AT_ONCE
        cuts = torch.searchsorted(asked, bounds * graph.num_nodes)
        numbers = torch.arange(len(asked), device=src.device)
        logits = []
        for number, part in enumerate(parts):
            here = (numbers >= cuts[number]) & (numbers < cuts[number + 1])
            of_part = asked[here] - number * SOURCES_AT_ONCE * graph.num_nodes
            marks = self._arrived(graph, part, of_part)
            logits.append(self.head(marks).squeeze(-1))
        return torch.cat(logits)[of_link]

    def _arrived(self, graph: FlatGraph, sources: Tensor, asked: Tensor) -> Tensor:
        """Return the marks that arrive at targets, [num_asked, hidden].

        Args:
            graph: the graph.
            sources: distinct nodes.
            asked: pairs of a source and a node: position of the source * number of nodes + node, in
                rising order.
        """
        size, dim = graph.num_nodes, len(self.mark)
        begin = torch.arange(len(sources), device=sources.device) * size + sources
        first = self.mark.expand(len(sources), -1)
        pairs, marks = begin, first
        # 1. All layers but the last pass marks on to all neighbours.
        out = graph.edges_of(graph.within(sources, len(self.layers) - 2), 0)
        for layer in self.layers[:-1]:
            edges, rows = out.at(pairs % size)
            chosen = out.edge_index[:, edges]
            heads = (pairs - pairs % size)[rows] + chosen[1]
            pairs, places = torch.unique(torch.cat([heads, begin]), return_inverse=True)
            to, again = places[: len(rows)], places[len(rows) :]
            # The source has its first mark in every layer, so that shorter walks count, too.
            start = marks.new_zeros(len(pairs), dim).index_add(0, again, first)
            index = moved(chosen, torch.stack([rows, to]))
            marks = layer(marks, index, out.relation[edges], start, graph.nodes(pairs % size))
        # 2. Of the last one only what arrives at targets counts: their edges into marked nodes.
        into = graph.edges_of(graph.within(asked % size, 0), 1)
        edges, rows = into.at(asked % size)
        tails = (asked - asked % size)[rows] + into.edge_index[0, edges]
        places = torch.searchsorted(pairs, tails).clamp(max=len(pairs) - 1)
        (marked,) = torch.nonzero(pairs[places] == tails, as_tuple=True)
        edges = edges[marked]
        index = moved(into.edge_index[:, edges], torch.stack([places[marked], rows[marked]]))
        start = marks.new_zeros(len(asked), dim)
        arrived: Tensor = self.layers[-1](
            marks, index, into.relation[edges], start, graph.nodes(asked % size)
        )
        return arrived


def moved(edge_index: Tensor, places: Tensor) -> Tensor:
    """Return the same edges between other places.

    They are made of `edge_index`, so that whoever follows the edges through the model (to weight
    them, say) still knows which they are.
    """
    return edge_index * 0 + places
