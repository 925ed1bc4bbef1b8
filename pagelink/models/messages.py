"""The graph that messages pass on: which links of the predicted relation a model may see.

By default the training links pass messages, both ways, so that a model can learn "because you liked
X"; validation and test links never do. A link that a training step asks for is taken out of the
messages of that step, or the model would only learn to look it up. With `paper_split` the predicted
relation and its reverse pass no messages at all, as in the paper.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import HeteroData

from pagelink.errors import GraphError
from pagelink.graph import REVERSE_PREFIX, EdgeType, Longs, TypedGraph


def reverse_of(data: HeteroData, link_type: EdgeType) -> EdgeType:
    """Return the reverse of the predicted relation; `rev_<relation>` where the graph has none."""
    src_type, relation, dst_type = link_type
    named = (dst_type, REVERSE_PREFIX + relation, src_type)
    if named in data.edge_types or link_type not in data.edge_types:
        return named  # without edges there is nothing else to know a reverse by
    found = TypedGraph.from_data(data, link_types=[link_type]).reverse.get(link_type)
    return found or named


def message_relations(
    data: HeteroData, link_type: EdgeType, *, paper_split: bool = False
) -> list[EdgeType]:
    """Return the relations that messages pass along.

    Example:
        >>> data = HeteroData()
        >>> data["user"].num_nodes = data["item"].num_nodes = 2
        >>> data["user", "buys", "item"].edge_index = torch.tensor([[0], [1]])
        >>> message_relations(data, ("user", "likes", "item"))
        [('user', 'buys', 'item'), ('user', 'likes', 'item'), ('item', 'rev_likes', 'user')]
    """
    both = (link_type, reverse_of(data, link_type))
    if paper_split:
        return [edge_type for edge_type in data.edge_types if edge_type not in both]
    return [*data.edge_types, *(t for t in dict.fromkeys(both) if t not in data.edge_types)]


def message_graph(
    data: HeteroData, link_type: EdgeType, train: Tensor, *, paper_split: bool = False
) -> HeteroData:
    """Return the graph as the model sees it at validation and test, and when it is deployed.

    Args:
        data: the whole graph. The predicted relation may be missing; its reverse is added as
            `rev_<relation>` where it is. The given graph is not changed.
        link_type: the predicted relation.
        train: the training links, [2, num_links].
        paper_split: leave the predicted relation and its reverse out.

    Returns:
        A graph that shares all tensors with `data` but those of the two relations. These hold the
        training links only, in the order of `data`, with their edge attributes.

    Raises:
        GraphError: the graph has the predicted relation, but not all of the training links.
    """
    reverse = reverse_of(data, link_type)
    graph = copy.copy(data)
    num_dst = int(data[link_type[2]].num_nodes)
    wanted = pair_codes(train, num_dst)
    for edge_type in dict.fromkeys((link_type, reverse)):
        if paper_split:
            if edge_type in graph.edge_types:
                del graph[edge_type]
            continue
        turned = edge_type != link_type
        if edge_type not in data.edge_types:
            graph[edge_type].edge_index = train.flip(0) if turned else train.clone()
            continue
        edge_index = data[edge_type].edge_index
        codes = pair_codes(edge_index.flip(0) if turned else edge_index, num_dst)
        missing = int((~np.isin(wanted, codes)).sum())
        if missing:
            raise GraphError(
                f"{missing} of {train.shape[1]} training links are not edges of {edge_type} in the "
                "graph. Split the links of this graph, or remove the relation from it: it is then "
                "filled with the training links."
            )
        _keep_edges(graph[edge_type], np.flatnonzero(np.isin(codes, wanted)))
    return graph


def pair_codes(pairs: Tensor, num_dst: int) -> Longs:
    """Return one number per pair; equal pairs, and only these, have equal numbers."""
    codes: Longs = (pairs[0] * num_dst + pairs[1]).cpu().numpy()
    return codes


def fact_codes(pairs: Tensor, link_type: EdgeType, num_dst: int) -> Longs:
    """Return one number per fact: within one node type (u, v) and (v, u) are the same."""
    if link_type[0] == link_type[2]:
        pairs = torch.stack([pairs.amin(dim=0), pairs.amax(dim=0)])
    return pair_codes(pairs, num_dst)


class Messages:
    """The message-passing edges of a training, from which the links of a step can be held out.

    Args:
        graph: what `message_graph` returned.
        link_type: the predicted relation; if it is not in the graph, there is nothing to hold out.
        reverse: its reverse.
    """

    def __init__(self, graph: HeteroData, link_type: EdgeType, reverse: EdgeType) -> None:
        self.link_type = link_type
        self.edges: dict[EdgeType, Tensor] = dict(graph.edge_index_dict)
        self._num_dst = int(graph[link_type[2]].num_nodes)
        self._codes: dict[EdgeType, Longs] = {}
        for edge_type in dict.fromkeys((link_type, reverse)):
            if edge_type in self.edges:
                edge_index = self.edges[edge_type]
                pairs = edge_index if edge_type == link_type else edge_index.flip(0)
                self._codes[edge_type] = fact_codes(pairs, link_type, self._num_dst)

    def columns_of(self, pairs: Tensor) -> dict[EdgeType, Longs]:
        """Return where these links are stated: columns of the predicted relation and its reverse.

        All copies are among them, and within one node type also the links as seen from their
        targets: (u, v) and (v, u) are one fact.
        """
        wanted = fact_codes(pairs, self.link_type, self._num_dst)
        return {t: np.flatnonzero(np.isin(codes, wanted)) for t, codes in self._codes.items()}

    def without(self, pairs: Tensor) -> dict[EdgeType, Tensor]:
        """Return the edges with all copies and reverses of these links taken out.

        A relation that loses nothing is the very tensor of `edges`.
        """
        edges = dict(self.edges)
        for edge_type, columns in self.columns_of(pairs).items():
            if not len(columns):
                continue
            kept = torch.ones(edges[edge_type].shape[1], dtype=torch.bool)
            kept[torch.from_numpy(columns)] = False
            edges[edge_type] = edges[edge_type][:, kept]
        return edges


def _keep_edges(store: Any, kept: Longs) -> None:
    """Cut every per-edge value of a store down to some edges: tensors, lists and tables."""
    count = store["edge_index"].shape[1]
    index = torch.from_numpy(kept)
    for key, value in list(store.items()):
        if key == "edge_index":
            store[key] = value[:, index]
        elif isinstance(value, Tensor):
            if value.dim() and value.shape[0] == count:
                store[key] = value[index]
        elif hasattr(value, "take") and len(value) == count:  # arrays and Arrow tables
            store[key] = value.take(kept)
        elif isinstance(value, list) and len(value) == count:
            store[key] = [value[i] for i in kept]
