"""Feeds: what a model is called with for some links, in training and in tests."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor, nn
from torch_geometric.data import HeteroData

from pagelink.graph import EdgeType
from pagelink.models.adjacency import Adjacency, adjacencies
from pagelink.models.figures import Score
from pagelink.models.link_model import LinkModel, Relations, node_inputs
from pagelink.models.messages import Messages
from pagelink.models.sampling import NeighbourSampler

Inputs = tuple[dict[str, Tensor], Relations, Tensor]
"""x_dict, edge_index_dict, edge_label_index."""


class Feed(Protocol):
    """Gives a model its inputs for some links."""

    def inputs(self, pairs: Tensor, held_out: Tensor, seed: int) -> Inputs:
        """Return the inputs for pairs, with no link that is held out among the edges."""


class FullGraph:
    """Feeds the whole message-passing graph.

    Args:
        graph: the graph.
        messages: its edges.
        fast: the model takes an `Adjacency` for an `edge_index`.
    """

    def __init__(self, graph: HeteroData, messages: Messages, fast: bool) -> None:
        self.x_dict = node_inputs(graph)
        self.messages = messages
        # Most relations are the same in every step: they are sorted once.
        self.whole = adjacencies(self.x_dict, messages.edges) if fast else None

    def inputs(self, pairs: Tensor, held_out: Tensor, seed: int) -> Inputs:
        """Return the whole graph without the links held out."""
        edges = self.messages.without(held_out)
        if self.whole is None:
            return self.x_dict, edges, pairs
        fast = {
            edge_type: self.whole[edge_type]
            if edge_index is self.messages.edges[edge_type]
            else Adjacency(edge_index, *(len(self.x_dict[end]) for end in edge_type[::2]))
            for edge_type, edge_index in edges.items()
        }
        return self.x_dict, fast, pairs


class Sampled:
    """Feeds sampled neighbourhoods.

    Args:
        sampler: draws them.
        fast: the model takes an `Adjacency` for an `edge_index`.
    """

    def __init__(self, sampler: NeighbourSampler, fast: bool) -> None:
        self.sampler = sampler
        self.fast = fast

    def inputs(self, pairs: Tensor, held_out: Tensor, seed: int) -> Inputs:
        """Return a sample of the graph around the pairs."""
        x_dict, edges, label_index = self.sampler.inputs(pairs, held_out, seed)
        return x_dict, adjacencies(x_dict, edges) if self.fast else edges, label_index


class Edgeless:
    """Feeds the nodes alone, every relation being there and empty.

    Args:
        x_dict: the nodes.
        no_edges: the empty relations.
        fast: the model takes an `Adjacency` for an `edge_index`.
    """

    def __init__(
        self, x_dict: dict[str, Tensor], no_edges: dict[EdgeType, Tensor], fast: bool
    ) -> None:
        self.x_dict = x_dict
        self.edges: Relations = adjacencies(x_dict, no_edges) if fast else no_edges

    def inputs(self, pairs: Tensor, held_out: Tensor, seed: int) -> Inputs:
        """Return all nodes and no edge."""
        return self.x_dict, self.edges, pairs


def scorer(
    model: nn.Module, x_dict: dict[str, Tensor], edge_index_dict: dict[EdgeType, Tensor]
) -> Score:
    """Return a function from pairs to the model's logits on one graph, without gradients.

    A `LinkModel` embeds the nodes once, however often the function is called.
    """
    model.eval()
    if not isinstance(model, LinkModel):

        @torch.no_grad()
        def run(pairs: Tensor) -> Tensor:
            logits: Tensor = model(x_dict, edge_index_dict, pairs)
            return logits

        return run

    with torch.no_grad():
        fast = model.takes_adjacency
        h_dict = model.encode(
            x_dict, adjacencies(x_dict, edge_index_dict) if fast else edge_index_dict
        )

    @torch.no_grad()
    def score(pairs: Tensor) -> Tensor:
        return model.score(h_dict, pairs)

    return score
