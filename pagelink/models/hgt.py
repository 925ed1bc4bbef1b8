"""HGT: the heterogeneous graph transformer, by PyG's own convolution."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn
from torch_geometric.nn import HGTConv

from pagelink.errors import ModelError
from pagelink.graph import EdgeType
from pagelink.models.link_model import LinkModel

ATTENTION_HEADS = 4


class HGTLayer(nn.Module):
    """Attention over all in-neighbours of a node, whatever the relation.

    Nodes of a type that no relation enters stay as they are.
    """

    def __init__(self, node_types: Sequence[str], edge_types: Sequence[EdgeType], dim: int) -> None:
        super().__init__()
        self.node_types = tuple(node_types)
        self.edge_types = tuple(edge_types)
        # The convolution makes names of parameters out of the types, and fails on dots in them.
        self.plain = {node_type: f"n{i}" for i, node_type in enumerate(node_types)}
        plain_relations = [
            (self.plain[src], f"r{i}", self.plain[dst])
            for i, (src, _, dst) in enumerate(edge_types)
        ]
        self.plain_relations = tuple(plain_relations)
        self.conv = HGTConv(dim, dim, (list(self.plain.values()), plain_relations), ATTENTION_HEADS)

    def forward(
        self, h_dict: Mapping[str, Tensor], edge_index_dict: Mapping[EdgeType, Tensor]
    ) -> dict[str, Tensor]:
        """Return the new vectors of all nodes."""
        some = next(iter(h_dict.values()))
        # The convolution wants every relation it was made for, in that very order.
        vectors = {
            plain: h_dict.get(node_type, some[:0]) for node_type, plain in self.plain.items()
        }
        no_edges = torch.empty(2, 0, dtype=torch.long, device=some.device)
        edges = {
            plain: edge_index_dict.get(edge_type, no_edges)
            for edge_type, plain in zip(self.edge_types, self.plain_relations, strict=True)
        }
        new = self.conv(vectors, edges)
        return {t: new.get(self.plain[t], h) for t, h in h_dict.items()}


class HGT(LinkModel):
    """HGT encoder with a head on top; see `LinkModel` for the arguments.

    Example:
        >>> buys = ("user", "buys", "item")
        >>> model = HGT({"user": 3, "item": 2}, [buys], ("user", "likes", "item"), hidden=8)
        >>> nodes = {"user": torch.arange(3), "item": torch.arange(2)}
        >>> edges = {buys: torch.tensor([[0, 1], [1, 0]])}
        >>> model(nodes, edges, torch.tensor([[0, 2], [0, 1]])).shape
        torch.Size([2])
    """

    def make_layer(self, dim: int) -> HGTLayer:
        """Return a layer with four attention heads."""
        if dim % ATTENTION_HEADS:
            raise ModelError(f"HGT needs a hidden size divisible by {ATTENTION_HEADS}, got {dim}.")
        node_types = [*self.config["num_nodes"], *self.config["num_features"]]
        return HGTLayer(node_types, self.config["edge_types"], dim)
