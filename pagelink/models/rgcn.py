"""RGCN: the relational graph convolution of the paper, as a PyG module."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torch import Tensor, nn
from torch_geometric.nn import MessagePassing

from pagelink.graph import EdgeType
from pagelink.models.adjacency import Adjacency
from pagelink.models.link_model import LinkModel, Relations


class RelationConv(MessagePassing):
    """Mean over the in-neighbours u by one relation of W_r h_u + b_r; 0 where there are none."""

    def __init__(self, dim: int) -> None:
        super().__init__(aggr="mean")
        self.linear = nn.Linear(dim, dim)

    def forward(self, src: Tensor, edge_index: Tensor | Adjacency, num_dst: int) -> Tensor:
        """Return one vector per target node."""
        if isinstance(edge_index, Adjacency):
            return edge_index.mean_mapped(src, self.linear.weight, self.linear.bias)
        # The linear map comes before the messages are gathered: there are fewer nodes than edges.
        out: Tensor = self.propagate(
            edge_index, x=(self.linear(src), None), size=(src.shape[0], num_dst)
        )
        return out


class RGCNLayer(nn.Module):
    """h_v becomes W_0 h_v + b_0 plus what comes in by each relation; W_0 is one for all types."""

    def __init__(self, edge_types: Sequence[EdgeType], dim: int) -> None:
        super().__init__()
        self.edge_types = tuple(edge_types)
        self.own = nn.Linear(dim, dim)
        self.relations = nn.ModuleList(RelationConv(dim) for _ in self.edge_types)

    def forward(
        self, h_dict: Mapping[str, Tensor], edge_index_dict: Relations
    ) -> dict[str, Tensor]:
        """Return the new vectors of all nodes."""
        out: dict[str, Tensor] = {node_type: self.own(h) for node_type, h in h_dict.items()}
        for edge_type, relation in zip(self.edge_types, self.relations, strict=True):
            if edge_type not in edge_index_dict:
                continue
            src_type, _, dst_type = edge_type
            num_dst = h_dict[dst_type].shape[0]
            incoming = relation(h_dict[src_type], edge_index_dict[edge_type], num_dst)
            out[dst_type] = out[dst_type] + incoming
        return out


class RGCN(LinkModel):
    """RGCN encoder with a head on top; see `LinkModel` for the arguments.

    Example:
        >>> import torch
        >>> buys = ("user", "buys", "item")
        >>> model = RGCN({"user": 3, "item": 2}, [buys], ("user", "likes", "item"), hidden=8)
        >>> nodes = {"user": torch.arange(3), "item": torch.arange(2)}
        >>> edges = {buys: torch.tensor([[0, 1], [1, 0]])}
        >>> model(nodes, edges, torch.tensor([[0, 2], [0, 1]])).shape
        torch.Size([2])
    """

    takes_adjacency = True

    def make_layer(self, dim: int) -> RGCNLayer:
        """Return a layer with a linear map of its own per relation."""
        return RGCNLayer(self.config["edge_types"], dim)
