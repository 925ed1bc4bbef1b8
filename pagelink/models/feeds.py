"""Feeds: what a model is called with for some links, in training and in tests.

The whole message-passing graph, or a small graph sampled around a batch of links, for graphs too
large for full steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Protocol

import numpy as np
import numpy.typing as npt
import torch
from numba import njit
from torch import Tensor, nn
from torch_geometric.data import HeteroData

from pagelink.errors import SettingsError
from pagelink.graph.lookup import edges_by_column
from pagelink.graph.schema import EdgeType
from pagelink.graph.typed_graph import TypedGraph
from pagelink.models.figures import Score
from pagelink.models.link_model import LinkModel, Relations, node_inputs
from pagelink.models.messages import Messages, adjacencies
from pagelink.runtime.arrays import Bools, Ints, Longs

Inputs = tuple[dict[str, Tensor], Relations, Tensor]
"""What a model is called with: x_dict, edge_index_dict, edge_label_index."""


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
        changed = {t: index for t, index in edges.items() if index is not self.messages.edges[t]}
        return self.x_dict, {**self.whole, **adjacencies(self.x_dict, changed)}, pairs


class NeighbourSampler:
    """Feeds sampled neighbourhoods of links, drawn hop by hop along in-edges.

    Every node that is reached within `len(fanout) - 1` hops gets its in-edges once: of each
    relation all, or a random choice of as many as the fanout of its hop says. A model with that
    many layers gives its full-graph logits if the fanouts are large enough to take all.

    Args:
        graph: the message-passing graph.
        messages: the same, knows which edges state a link.
        fanout: in-edges per node and relation, hop by hop.
        fast: the model takes an `Adjacency` for an `edge_index`.

    Raises:
        SettingsError: the fanout is empty or not positive.
    """

    def __init__(
        self, graph: HeteroData, messages: Messages, fanout: Sequence[int], fast: bool = False
    ) -> None:
        if not fanout or min(fanout) < 1:
            raise SettingsError(f"fanout must be numbers from 1 up, one per layer, got {fanout}.")
        self.fanout = tuple(fanout)
        self.fast = fast
        self._messages = messages
        self._graph = TypedGraph.from_data(graph)
        self._inputs = node_inputs(graph)
        self._seen = np.zeros(self._graph.num_nodes, dtype=np.bool_)
        self._number = np.zeros(self._graph.num_nodes, dtype=np.int64)
        self._held = np.zeros(self._graph.num_edges, dtype=np.bool_)
        self._edges_of = {
            edge_type: edges_by_column(self._graph, edge_type)
            for edge_type in messages.columns_of(torch.empty(2, 0, dtype=torch.long))
        }

    def inputs(self, pairs: Tensor, held_out: Tensor, seed: int) -> Inputs:
        """Return a model's inputs for some links.

        Args:
            pairs: the links to score, [2, num_links].
            held_out: links that must not be among the edges, either way, [2, num_held].
            seed: the same seed gives the same sample.

        Returns:
            `x_dict` and `edge_index_dict` of the sample, all types and relations in it, and the
            links in its numbers. Nodes are unique and in the order of the graph.
        """
        graph = self._graph
        held = [
            self._edges_of[edge_type][columns]
            for edge_type, columns in self._messages.columns_of(held_out).items()
        ]
        ends = [
            index.cpu().numpy() + graph.flat_index(kind, 0)
            for index, kind in zip(pairs, self._messages.link_type[::2], strict=True)
        ]
        try:
            for edges in held:
                self._held[edges] = True
            nodes, edges = self._grow(np.unique(np.concatenate(ends)), seed)
        finally:
            for edges_held in held:
                self._held[edges_held] = False

        kind = graph.node_type_of[nodes]
        start = np.searchsorted(kind, np.arange(len(graph.node_types) + 1))
        self._number[nodes] = np.arange(len(nodes)) - start[kind]
        x_dict = {}
        for k, node_type in enumerate(graph.node_types):
            index = nodes[start[k] : start[k + 1]] - graph.node_offset[k]
            x_dict[node_type] = self._inputs[node_type][torch.from_numpy(index)]
        order = np.argsort(graph.relation[edges], kind="stable")
        edges = edges[order]
        both = np.stack([self._number[graph.src[edges]], self._number[graph.dst[edges]]])
        bound = np.searchsorted(graph.relation[edges], np.arange(len(graph.edge_types) + 1))
        edge_index_dict = {
            edge_type: torch.from_numpy(both[:, bound[k] : bound[k + 1]])
            for k, edge_type in enumerate(graph.edge_types)
        }
        label_index = torch.from_numpy(np.stack([self._number[end] for end in ends]))
        edges_given = adjacencies(x_dict, edge_index_dict) if self.fast else edge_index_dict
        return x_dict, edges_given, label_index

    def _grow(self, seeds: Longs, seed: int) -> tuple[Longs, Longs]:
        """Return the flat nodes and edges of a sample, sorted."""
        graph, seen = self._graph, self._seen
        nodes, edges = [seeds], []
        frontier = seeds
        state = np.random.SeedSequence(seed).generate_state(1, np.uint64).astype(np.uint64)
        try:
            seen[seeds] = True
            for fanout in self.fanout:
                chosen = _sample_in_edges(
                    graph.in_ptr, graph.relation, self._held, frontier, fanout, state
                )
                edges.append(chosen)
                reached = np.unique(graph.src[chosen]).astype(np.int64)
                frontier = reached[~seen[reached]]
                seen[frontier] = True
                nodes.append(frontier)
        finally:
            seen[np.concatenate(nodes)] = False
        return np.sort(np.concatenate(nodes)), np.sort(np.concatenate(edges))


@njit(cache=True, nogil=True)
def _sample_in_edges(
    in_ptr: Longs,
    relation: Ints,
    held: Bools,
    nodes: Longs,
    fanout: int,
    state: npt.NDArray[np.uint64],
) -> Longs:
    """Return in-edges of the nodes, up to `fanout` per node and relation, none that is held out."""
    total = 0
    longest = 0
    for v in nodes:
        total += in_ptr[v + 1] - in_ptr[v]
        longest = max(longest, in_ptr[v + 1] - in_ptr[v])
    chosen = np.empty(total, dtype=np.int64)
    group = np.empty(longest, dtype=np.int64)
    count = 0
    for v in nodes:
        first, last = in_ptr[v], in_ptr[v + 1]
        while first < last:
            # In-edges of a node are ordered by relation.
            kind = relation[first]
            size = 0
            while first < last and relation[first] == kind:
                if not held[first]:
                    group[size] = first
                    size += 1
                first += 1
            for i in range(min(fanout, size)):
                if size > fanout:
                    j = i + _random_below(state, size - i)
                    group[i], group[j] = group[j], group[i]
                chosen[count] = group[i]
                count += 1
    return chosen[:count]


@njit(cache=True, nogil=True)
def _random_below(state: npt.NDArray[np.uint64], bound: int) -> int:
    """Draw 0..bound-1 by SplitMix64: numba's own generator is global, and this one is not."""
    state[0] += np.uint64(0x9E3779B97F4A7C15)
    z = state[0]
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z = z ^ (z >> np.uint64(31))
    return int(z % np.uint64(bound))


def scorer(
    model: nn.Module, x_dict: dict[str, Tensor], edge_index_dict: dict[EdgeType, Tensor]
) -> Score:
    """Return a function from pairs to the model's logits on one graph, without gradients.

    What all pairs have in common, a `LinkModel` computes once, however often the function is
    called.
    """
    model.eval()
    run: Score = partial(model, x_dict, edge_index_dict)
    if isinstance(model, LinkModel):
        fast = model.takes_adjacency
        relations = adjacencies(x_dict, edge_index_dict) if fast else edge_index_dict
        with torch.no_grad():
            run = model.on_graph(x_dict, relations)
    return torch.no_grad()(run)
