"""SAGE: a GraphSAGE convolution per relation, as a PyG module."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torch import Tensor, nn
from torch_geometric.nn import SAGEConv

from pagelink.graph import EdgeType
from pagelink.models.adjacency import Adjacency
from pagelink.models.link_model import LinkModel, Relations


class MeanConv(SAGEConv):
    """PyG's SAGEConv; it takes an `Adjacency` too."""

    def forward(self, x: tuple[Tensor, Tensor], edge_index: Tensor | Adjacency) -> Tensor:
        """Return one vector per target node."""
        if isinstance(edge_index, Adjacency):
            return edge_index.mean_mapped(x[0], self.lin_l.weight)
        out: Tensor = super().forward(x, edge_index)
        return out


class SAGELayer(nn.Module):
    """h_v becomes U h_v + b plus the mean of W_r m_r(v) over the relations r into v's type.

    m_r(v) is the mean of the in-neighbours by r, 0 where there are none. U and b are v's type's.
    """

    def __init__(self, node_types: Sequence[str], edge_types: Sequence[EdgeType], dim: int) -> None:
        super().__init__()
        self.node_types = tuple(node_types)
        self.edge_types = tuple(edge_types)
        self.own = nn.ModuleList(nn.Linear(dim, dim) for _ in self.node_types)
        self.relations = nn.ModuleList(
            MeanConv((dim, dim), dim, root_weight=False, bias=False) for _ in self.edge_types
        )
        entered = [edge_type[2] for edge_type in self.edge_types]
        self.num_relations = {node_type: entered.count(node_type) for node_type in node_types}

    def forward(
        self, h_dict: Mapping[str, Tensor], edge_index_dict: Relations
    ) -> dict[str, Tensor]:
        """Return the new vectors of all nodes."""
        out: dict[str, Tensor] = {
            node_type: own(h_dict[node_type])
            for node_type, own in zip(self.node_types, self.own, strict=True)
            if node_type in h_dict
        }
        for edge_type, relation in zip(self.edge_types, self.relations, strict=True):
            if edge_type not in edge_index_dict:
                continue
            src_type, _, dst_type = edge_type
            incoming = relation((h_dict[src_type], h_dict[dst_type]), edge_index_dict[edge_type])
            # Divided by a number of the schema, not of the sub-graph: a node's vector must not
            # depend on which relations other nodes have.
            out[dst_type] = out[dst_type] + incoming / self.num_relations[dst_type]
        return out


class SAGE(LinkModel):
    """GraphSAGE encoder with a head on top; see `LinkModel` for the arguments.

    Example:
        >>> import torch
        >>> buys = ("user", "buys", "item")
        >>> model = SAGE({"user": 3, "item": 2}, [buys], ("user", "likes", "item"), hidden=8)
        >>> nodes = {"user": torch.arange(3), "item": torch.arange(2)}
        >>> edges = {buys: torch.tensor([[0, 1], [1, 0]])}
        >>> model(nodes, edges, torch.tensor([[0, 2], [0, 1]])).shape
        torch.Size([2])
    """

    takes_adjacency = True

    def make_layer(self, dim: int) -> SAGELayer:
        """Return a layer with a linear map of its own per relation and per node type."""
        node_types = [*self.config["num_nodes"], *self.config["num_features"]]
        return SAGELayer(node_types, self.config["edge_types"], dim)
