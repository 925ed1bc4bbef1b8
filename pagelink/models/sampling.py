"""Sampled neighbourhoods: what a model is called with in mini-batch training.

One neighbourhood is drawn for all links of a batch, from a graph in memory or on disk. Only what is
sampled is read of a graph on disk.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import HeteroData

from pagelink.errors import SettingsError
from pagelink.graph.lookup import edges_by_column
from pagelink.graph.schema import EdgeType
from pagelink.graph.typed_graph import TypedGraph
from pagelink.models.feeds import Inputs
from pagelink.models.link_model import node_inputs
from pagelink.models.messages import Adjacency, Block, Messages
from pagelink.runtime.arrays import Longs
from pagelink.runtime.csr import Csr
from pagelink.runtime.kernels import inlined, kernel
from pagelink.store.graph_store import GraphStore


class NeighbourSampler:
    """Feeds sampled neighbourhoods of links, drawn hop by hop along in-edges.

    Every node that is reached within `len(fanout) - 1` hops gets its in-edges once: of each
    relation all, or a random choice of as many as the fanout of its hop says. A model with that
    many layers gives its full-graph logits if the fanouts are large enough to take all.

    The choices of a batch are made by one random order of all nodes: of the in-edges of a node
    those are taken whose sources come first in it. Each is as likely as any other, but nodes choose
    the same sources where they can, so that the sample is smaller (after Balin and Catalyurek,
    "Layer-Neighbor Sampling", NeurIPS 2023).

    Args:
        graph: the message-passing graph, or one with further edges.
        x_dict: the inputs of its nodes.
        messages: the edges of the graph, knows which of them state a link.
        fanout: in-edges per node and relation, hop by hop.
        fast: the model takes a `Block` per layer, and computes only what the next layer needs.
        hidden: which edges of the graph pass no messages.

    Raises:
        SettingsError: the fanout is empty or not positive.
    """

    def __init__(
        self,
        graph: TypedGraph,
        x_dict: dict[str, Tensor],
        messages: Messages,
        fanout: Sequence[int],
        fast: bool = False,
        hidden: Longs | slice = slice(0),
    ) -> None:
        if not fanout or min(fanout) < 1:
            raise SettingsError(f"fanout must be numbers from 1 up, one per layer, got {fanout}.")
        self.fanout = tuple(fanout)
        self.fast = fast
        self._messages = messages
        self._graph = graph
        self._inputs = x_dict
        self._number = np.full(self._graph.num_nodes, -1, dtype=np.int64)
        self._drawn: Longs | slice = slice(0)
        """Nodes that have a number: those of the last sample, or any if it was broken off."""
        self._held = np.zeros(self._graph.num_edges, dtype=np.bool_)
        self._held[hidden] = True
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
            `x_dict` of the sample; its edges, of each layer where the model takes that; and the
            links in its numbers. Nodes are unique, and those fewer hops away come first.
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
            nodes, rows, edges = self._grow(np.unique(np.concatenate(ends)), seed)
        finally:
            for edges_held in held:
                self._held[edges_held] = False
        label_index = torch.from_numpy(np.stack([self._number[end] for end in ends]))
        x_dict = {}
        of_type = Csr.grouped(graph.node_type_of[nodes], len(graph.node_types))
        for k, node_type in enumerate(graph.node_types):
            index = nodes[of_type.values[of_type.ptr[k] : of_type.ptr[k + 1]]]
            here = torch.from_numpy(index - graph.node_offset[k])
            x_dict[node_type] = self._inputs[node_type][here]
        of_relation = Csr.grouped(edges[2], len(graph.edge_types))
        both = edges[:2, of_relation.values]
        edge_index_dict = {
            edge_type: both[:, of_relation.ptr[k] : of_relation.ptr[k + 1]]
            for k, edge_type in enumerate(graph.edge_types)
        }
        if self.fast:
            return x_dict, self._blocks(edge_index_dict, rows), label_index
        plain = {t: torch.from_numpy(ends) for t, ends in edge_index_dict.items()}
        return x_dict, plain, label_index

    def _grow(self, seeds: Longs, seed: int) -> tuple[Longs, list[dict[str, int]], Longs]:
        """Draw a sample.

        Returns:
            The flat nodes, in the order in which they are reached. The number of nodes of each type
            within each number of hops. The edges, in the order of their targets: sources and
            targets by their place among the nodes of their type, and relations.
        """
        graph, number = self._graph, self._number
        key = np.random.SeedSequence(seed).generate_state(1, np.uint64)[0]
        number[self._drawn] = -1
        self._drawn = slice(None)
        nodes, edges, rows = [], [], [np.zeros(len(graph.node_types), dtype=np.int64)]
        for fanout in (*self.fanout, 0):
            # Rows of tables that are read in the order of the tables are read many times faster.
            new = np.sort(seeds)
            kind = graph.node_type_of[new]
            bound = np.searchsorted(kind, np.arange(len(graph.node_types) + 1))
            number[new] = np.arange(len(new)) + (rows[-1] - bound[:-1])[kind]
            rows.append(rows[-1] + np.diff(bound))
            nodes.append(new)
            if fanout:
                drawn, seeds = _sample_hop(
                    graph.in_ptr, graph.src, graph.relation, self._held, new, fanout, key, number
                )
                edges.append(drawn)
        src, dst, relation = np.concatenate(edges, axis=1)
        self._drawn = np.concatenate(nodes)
        return (
            self._drawn,
            [dict(zip(graph.node_types, each.tolist(), strict=True)) for each in rows[1:]],
            np.stack([number[src], number[dst], relation]),
        )

    def _blocks(
        self, edge_index_dict: Mapping[EdgeType, Longs], rows: Sequence[Mapping[str, int]]
    ) -> list[Block]:
        """Return the edges of each layer: the last one computes the ends of the links only."""
        most = rows[-2]
        pointers = {
            t: torch.from_numpy(np.bincount(dst + 1, minlength=most[t[2]] + 1).cumsum())
            for t, (_, dst) in edge_index_dict.items()
        }
        blocks = []
        for given, computed in zip(rows[:0:-1], rows[-2::-1], strict=True):
            relations = {}
            for edge_type, (src, _) in edge_index_dict.items():
                # Edges are in the order of their targets, and targets in that of their hops.
                in_ptr = pointers[edge_type][: computed[edge_type[2]] + 1]
                if in_ptr[-1]:
                    src_here = torch.from_numpy(src[: in_ptr[-1]])
                    relations[edge_type] = Adjacency(src_here, in_ptr, given[edge_type[0]])
            blocks.append(Block(relations, computed))
        return blocks


def make_sampler(
    source: HeteroData | GraphStore,
    graph: HeteroData,
    messages: Messages,
    reverse: EdgeType,
    train: Tensor,
    fanout: Sequence[int],
    fast: bool,
) -> NeighbourSampler:
    """Return a sampler of a message-passing graph.

    Args:
        source: the whole graph. A store is read where it is, unless messages pass along edges that
            it does not have.
        graph: what `message_graph` made of it.
        messages: the edges of this one.
        reverse: the reverse of the predicted relation.
        train: the training links; no other links pass messages.
        fanout: as of `NeighbourSampler`.
        fast: the same.
    """
    x_dict = node_inputs(graph)
    if not isinstance(source, GraphStore) or not {*graph.edge_types} <= {*source.edge_types}:
        return NeighbourSampler(TypedGraph.from_data(graph), x_dict, messages, fanout, fast)
    link_type = messages.link_type
    flat = source.whole_graph([link_type])
    whole = Messages(source.data, link_type, reverse)
    hidden = [np.empty(0, dtype=np.int64)]
    for edge_type, seen in whole.columns_of(train).items():
        edges = edges_by_column(flat, edge_type)
        hidden.append(np.delete(edges, seen) if edge_type in graph.edge_types else edges)
    if link_type in graph.edge_types:
        messages = whole
    return NeighbourSampler(flat, x_dict, messages, fanout, fast, np.concatenate(hidden))


@kernel
def _sample_hop(in_ptr, src, relation, held, targets, fanout, key, number):  # type: ignore[no-untyped-def]
    """Draw in-edges of some nodes, up to `fanout` per node and relation, none that is held out.

    `number` is -1 for nodes that are not in the sample; those that are new get -2.

    Returns:
        Sources, targets and relations of the edges, in the order of the targets, [3, num_edges];
        and the nodes that are new.
    """
    most = 0
    for i in range(len(targets)):
        most += in_ptr[targets[i] + 1] - in_ptr[targets[i]]
    edges = np.empty((3, most), dtype=np.int64)
    new = np.empty(most, dtype=np.int64)
    num_edges = 0
    num_new = 0
    best = np.empty(fanout, dtype=np.uint64)
    chosen = np.empty(fanout, dtype=np.int64)
    for i in range(len(targets)):
        e, last = in_ptr[targets[i]], in_ptr[targets[i] + 1]
        while e < last:
            # In-edges of a node are ordered by relation.
            kind = relation[e]
            size = 0
            worst = 0
            while e < last and relation[e] == kind:
                if not held[e]:
                    rank = _mixed(key ^ np.uint64(src[e]))
                    if size < fanout:
                        best[size] = rank
                        chosen[size] = src[e]
                        if rank > best[worst]:
                            worst = size
                        size += 1
                    elif rank < best[worst]:
                        best[worst] = rank
                        chosen[worst] = src[e]
                        for j in range(fanout):
                            if best[j] > best[worst]:
                                worst = j
                e += 1
            for j in range(size):
                u = chosen[j]
                if number[u] == -1:
                    number[u] = -2
                    new[num_new] = u
                    num_new += 1
                edges[0, num_edges] = u
                edges[1, num_edges] = targets[i]
                edges[2, num_edges] = kind
                num_edges += 1
    return edges[:, :num_edges], new[:num_new]


@inlined
def _mixed(value):  # type: ignore[no-untyped-def]
    """Return a number that looks random, by SplitMix64: numba's own generator is global."""
    z = value * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))
