"""WalkModel: no embeddings of nodes; the mark of a query goes along the relations of the graph.

The known end of a query (u, r, ?) is marked by a vector of r; marks are passed on along all
relations for some layers, and the logit is read at every other node from what arrives there. So it
is about walks between the pair, along which relations they go, and works for nodes never seen.
After Neural Bellman-Ford Networks (Zhu, Zhang, Xhonneux, Tang, NeurIPS 2021), with products as
messages, sums as aggregation and vectors of relations that do not depend on the query.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from pagelink.errors import ModelError
from pagelink.graph.schema import EdgeType
from pagelink.models.knowledge.encoders import Edges, ScaledSum
from pagelink.models.knowledge.model import KnowledgeModel
from pagelink.runtime.undo import Undo

QUERIES_AT_ONCE = 8
"""Queries whose marks are passed on together."""


class _Graph(NamedTuple):
    edges: Edges
    like: Tensor
    """A tensor of the graph, for its device and kind."""


class WalkModel(KnowledgeModel):
    """Marks the known end, passes marks on for some layers, reads logits at the other nodes.

    Node features and ids are not read. See `KnowledgeModel` for the first arguments.

    Args:
        hidden: length of a mark.
        num_layers: the number of edges of the longest walk that counts.
        seed: seed of the parameters.

    Example:
        >>> knows = ("user", "knows", "user")
        >>> model = WalkModel({"user": 3}, [knows], [knows], hidden=8)
        >>> edges = {knows: torch.tensor([[0, 1], [1, 2]])}
        >>> links = torch.tensor([[0, 2], [2, 0]])
        >>> model.of_relation(knows)({"user": torch.arange(3)}, edges, links).shape
        torch.Size([2])
    """

    scores_all = True

    def __init__(
        self,
        num_nodes: Mapping[str, int],
        edge_types: Sequence[EdgeType],
        link_types: Sequence[EdgeType],
        *,
        num_features: Mapping[str, int] | None = None,
        hidden: int = 32,
        num_layers: int = 3,
        seed: int = 0,
    ) -> None:
        super().__init__(
            num_nodes, edge_types, link_types, num_features, hidden=hidden,
            num_layers=num_layers, seed=seed,
        )  # fmt: skip
        if num_layers < 1:
            raise ModelError(f"Walks need at least one layer, got {num_layers}.")
        count = max(1, len(self.edge_types))
        with Undo() as undo:
            undo.later(torch.default_generator.set_state, torch.get_rng_state())
            torch.manual_seed(seed)
            # One vector per relation and direction of the query.
            self.marks = nn.Embedding(2 * len(self.link_types), hidden)
            self.weights = nn.ParameterList(
                [nn.Parameter(1 + torch.randn(count, hidden) / 4) for _ in range(num_layers)]
            )
            self.linear = nn.ModuleList(nn.Linear(2 * hidden, hidden) for _ in range(num_layers))
            self.norm = nn.ModuleList(nn.LayerNorm(hidden) for _ in range(num_layers))
            self.head = nn.Sequential(
                nn.Linear(2 * hidden, 2 * hidden), nn.ReLU(), nn.Linear(2 * hidden, 1)
            )
        self.layers = nn.ModuleList(ScaledSum(self.by_relation) for _ in range(num_layers))

    def encode(self, x_dict: Mapping[str, Tensor], edges: Edges) -> _Graph:
        """Return the graph: what is computed depends on the query."""
        return _Graph(edges, next(iter(x_dict.values())))

    def _arrived(self, graph: _Graph, known: Tensor, marks: Tensor) -> Tensor:
        """Return the logits of all nodes for some queries, [num_queries, num_nodes].

        Marks of all queries stand side by side in one row per node, so that the edges are read
        once for all of them.
        """
        edges, count = graph.edges, len(known)
        place = (known, torch.arange(count, device=known.device))
        start = marks.new_zeros(edges.num_nodes, *marks.shape).index_put(place, marks)
        h = start
        for conv, weight, linear, norm in zip(
            self.layers, self.weights, self.linear, self.norm, strict=True
        ):
            arrived = conv(h.flatten(1), edges, weight.repeat(1, count)).view_as(start)
            new = torch.relu(norm(linear(torch.cat([arrived + start, h], dim=-1))))
            h = h + new
        logits: Tensor = self.head(torch.cat([h, marks.expand_as(h)], dim=-1)).squeeze(-1)
        return logits.T

    def against(
        self,
        vectors: _Graph,
        known: Tensor,
        relation: Tensor,
        inverse: bool,
        nodes: Tensor | None = None,
    ) -> Tensor:
        """Return the logits of queries with many nodes."""
        marks = self.marks(2 * relation + int(inverse))
        parts = zip(known.split(QUERIES_AT_ONCE), marks.split(QUERIES_AT_ONCE), strict=True)
        every = torch.cat([self._arrived(vectors, *part) for part in parts])
        return every if nodes is None else every[:, nodes]

    def score(self, vectors: _Graph, src: Tensor, relation: Tensor, dst: Tensor) -> Tensor:
        """Return the logits of links, [num_links]; those of one source share its marks."""
        queries, of_link = torch.unique(torch.stack([src, relation]), dim=1, return_inverse=True)
        every = self.against(vectors, queries[0], queries[1], False)
        return every[of_link, dst]
