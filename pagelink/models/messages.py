"""The graph that messages pass on: which links of the predicted relation a model may see.

By default the training links pass messages, both ways, so that a model can learn "because you liked
X"; validation and test links never do. A link that a training step predicts is taken out of the
messages of that step, or the model would only learn to look it up. With `paper_split` the predicted
relation and its reverse pass no messages at all, as in the paper.

An `Adjacency` is a relation sorted both ways, for means over in-neighbours at full speed: training
needs no edge masks, so no message has to be written down, which is many times as fast as gathering
messages and scattering them.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional
from torch_geometric.data import HeteroData

from pagelink.errors import GraphError
from pagelink.graph.reverse_relations import reverse_name
from pagelink.graph.schema import EdgeType
from pagelink.graph.typed_graph import TypedGraph
from pagelink.runtime.arrays import Longs
from pagelink.runtime.csr import Csr


def reverse_of(data: HeteroData, link_type: EdgeType) -> EdgeType:
    """Return the reverse of the predicted relation; `rev_<relation>` where the graph has none."""
    named = reverse_name(link_type)
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
        # Codes in order, and their columns: the links of a step are found by bisection.
        self._codes: dict[EdgeType, tuple[Longs, Longs]] = {}
        for edge_type in dict.fromkeys((link_type, reverse)):
            if edge_type in self.edges:
                edge_index = self.edges[edge_type]
                pairs = edge_index if edge_type == link_type else edge_index.flip(0)
                codes = fact_codes(pairs, link_type, self._num_dst)
                order = np.argsort(codes, kind="stable")
                self._codes[edge_type] = codes[order], order

    def columns_of(self, pairs: Tensor) -> dict[EdgeType, Longs]:
        """Return where these links are stated: columns of the predicted relation and its reverse.

        All copies are among them, and within one node type also the links as seen from their
        targets: (u, v) and (v, u) are one fact.
        """
        wanted = np.unique(fact_codes(pairs, self.link_type, self._num_dst))
        found = {}
        for edge_type, (codes, columns) in self._codes.items():
            first, last = (np.searchsorted(codes, wanted, side=side) for side in ("left", "right"))
            ptr = np.concatenate([[0], np.cumsum(last - first)])
            place = np.arange(ptr[-1]) + np.repeat(first - ptr[:-1], last - first)
            found[edge_type] = np.sort(columns[place])
        return found

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
        elif isinstance(value, list) and len(value) == count and key != "phrases":
            store[key] = [value[i] for i in kept]


class Adjacency:
    """The edges of one relation; stands in for `edge_index` where a layer takes means only.

    Args:
        src: sources of the edges, in the order of their targets.
        in_ptr: where the edges of each target begin, and the end, [num_dst + 1].
        num_src: number of source nodes.

    Example:
        >>> edges = torch.tensor([[0, 1, 1], [0, 0, 2]])
        >>> adjacency = Adjacency.of_edges(edges, num_src=2, num_dst=3)
        >>> adjacency.mean(torch.tensor([[1.0], [3.0]])).tolist()
        [[2.0], [0.0], [3.0]]
    """

    def __init__(self, src: Tensor, in_ptr: Tensor, num_src: int) -> None:
        self.src, self.in_ptr, self.num_src = src, in_ptr, num_src
        self.in_degree = in_ptr.diff()

    @classmethod
    def of_edges(cls, edge_index: Tensor, num_src: int, num_dst: int) -> Adjacency:
        """Sort the edges of a relation, [2, num_edges]."""
        src, dst = edge_index.cpu()
        return cls(*_sorted_by(dst, src, num_dst), num_src)

    @cached_property
    def outgoing(self) -> tuple[Tensor, Tensor]:
        """The same by source: targets, and where those of each source begin. For gradients."""
        dst = torch.repeat_interleave(self.in_degree.cpu())
        dst, out_ptr = _sorted_by(self.src.cpu(), dst, self.num_src)
        return dst.to(self.src.device), out_ptr.to(self.src.device)

    def to(self, device: torch.device) -> Adjacency:
        """Return the same on a device."""
        return Adjacency(self.src.to(device), self.in_ptr.to(device), self.num_src)

    def mean_mapped(self, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        """Return the mean of `weight @ x_u + bias` over the in-neighbours u of every target.

        The linear map is applied on the side that has fewer nodes; the result is the same.
        """
        if self.num_src < len(self.in_ptr):
            return self.mean(functional.linear(x, weight, bias))
        out = functional.linear(self.mean(x), weight)
        if bias is None:
            return out
        return torch.addmm(out, (self.in_degree > 0)[:, None].to(out.dtype), bias[None])

    def mean(self, x: Tensor) -> Tensor:
        """Return the mean of x over the in-neighbours of every target, 0 where there are none."""
        out: Tensor = _Mean.apply(x, self)  # type: ignore[no-untyped-call]
        return out


@dataclass(frozen=True)
class Block:
    """What one layer computes of a sampled graph: the vectors of the nodes that come first."""

    relations: Mapping[EdgeType, Adjacency]
    """Those with edges, from all rows that the layer is given to those that it computes."""
    rows: Mapping[str, int]
    """Number of nodes of each type whose vectors are computed."""

    def to(self, device: torch.device) -> Block:
        """Return the same on a device."""
        return Block({t: each.to(device) for t, each in self.relations.items()}, self.rows)


def adjacencies(
    x_dict: Mapping[str, Tensor], edge_index_dict: Mapping[EdgeType, Tensor]
) -> dict[EdgeType, Adjacency]:
    """Return all relations of a graph as adjacencies, where its nodes are."""
    return dict(OneByOne(x_dict, edge_index_dict))


class OneByOne(Mapping[EdgeType, Adjacency]):
    """The relations of a graph as adjacencies, each made whenever it is looked up.

    A pass without gradients then needs memory for one relation at a time.
    """

    def __init__(
        self, x_dict: Mapping[str, Tensor], edge_index_dict: Mapping[EdgeType, Tensor]
    ) -> None:
        self._x_dict, self._edges = x_dict, edge_index_dict

    def __getitem__(self, edge_type: EdgeType) -> Adjacency:
        src, dst = (self._x_dict[end] for end in edge_type[::2])
        made = Adjacency.of_edges(self._edges[edge_type], len(src), len(dst))
        return made.to(src.device)

    def __iter__(self) -> Iterator[EdgeType]:
        return iter(self._edges)

    def __len__(self) -> int:
        return len(self._edges)


def _sorted_by(key: Tensor, other: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """Return values in the order of their keys, and where those of each key begin."""
    groups = Csr.grouped(key.numpy(), size)
    return other[torch.from_numpy(groups.values)], torch.from_numpy(groups.ptr)


class _Mean(torch.autograd.Function):
    """Sums rows by PyTorch's `embedding_bag`, forwards by target and backwards by source."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, adjacency: Adjacency) -> Tensor:
        ctx.adjacency = adjacency
        return functional.embedding_bag(  # detached: it then keeps nothing for a gradient
            adjacency.src, x.detach(), adjacency.in_ptr, mode="mean", include_last_offset=True
        )

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[Tensor, None]:
        adjacency: Adjacency = ctx.adjacency
        shared = gradients[0] / adjacency.in_degree.clamp(min=1)[:, None]
        dst, out_ptr = adjacency.outgoing
        out = functional.embedding_bag(dst, shared, out_ptr, mode="sum", include_last_offset=True)
        return out, None
