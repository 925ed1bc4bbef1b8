"""What all link predictors share: their inputs, the loop over the layers, and the head.

A predictor is called as `model(x_dict, edge_index_dict, edge_label_index)` and gives one logit per
column of `edge_label_index`. It works on any sub-graph: node types and relations may be empty.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch_geometric.data import HeteroData

from pagelink.errors import ModelError
from pagelink.graph import EdgeType, TypedGraph
from pagelink.models.heads import make_head


def node_inputs(data: HeteroData) -> dict[str, Tensor]:
    """Return `x_dict`: the features of a node type, or the ids of its nodes where it has none.

    Example:
        >>> data = HeteroData()
        >>> data["user"].num_nodes = 3
        >>> node_inputs(data)
        {'user': tensor([0, 1, 2])}
    """
    inputs = {}
    for node_type in data.node_types:
        store = data[node_type]
        if "x" in store:
            inputs[node_type] = store["x"]
        elif "n_id" in store:
            inputs[node_type] = store["n_id"]
        else:
            inputs[node_type] = torch.arange(store.num_nodes)
    return inputs


class NodeInputs(nn.Module):
    """First vectors of the nodes: an embedding looked up by id, or a projection of the features."""

    def __init__(
        self, num_nodes: Mapping[str, int], num_features: Mapping[str, int], dim: int
    ) -> None:
        super().__init__()
        self.node_types = (*num_nodes, *num_features)
        # By position, because names of modules must not contain a dot and names of types may.
        self.tables = nn.ModuleList(
            [nn.Embedding(size, dim) for size in num_nodes.values()]
            + [nn.Linear(size, dim) for size in num_features.values()]
        )

    def forward(self, x_dict: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return vectors for the node types that are in `x_dict`."""
        vectors = {}
        for node_type, table in zip(self.node_types, self.tables, strict=True):
            if node_type not in x_dict:
                continue
            x = x_dict[node_type]
            if x.dim() != (1 if isinstance(table, nn.Embedding) else 2):
                wanted = (
                    "ids of nodes, of shape [num_nodes]"
                    if isinstance(table, nn.Embedding)
                    else f"features, of shape [num_nodes, {table.in_features}]"
                )
                raise ModelError(
                    f"x_dict[{node_type!r}] must hold {wanted}, got shape {list(x.shape)}."
                )
            vectors[node_type] = table(x)
        return vectors


class LinkModel(nn.Module, ABC):
    """A link predictor: inputs, `num_layers` layers with leaky ReLU between them, and a head.

    A kind of GNN is a subclass that says what one layer is. `config` holds the arguments, ready for
    a checkpoint: `type(model)(**model.config)` is the same model before training.

    Args:
        num_nodes: number of nodes of every node type that has no features.
        num_features: number of features of every node type that has some.
        edge_types: relations that messages pass along; others in `edge_index_dict` are not read.
        link_type: the relation to predict.
        hidden: length of all embeddings.
        num_layers: L.
        head: name of the head, see `pagelink.models.heads`.
        seed: seed of the parameters. The global random state is neither read nor changed.
    """

    def __init__(
        self,
        num_nodes: Mapping[str, int],
        edge_types: Sequence[EdgeType],
        link_type: EdgeType,
        *,
        num_features: Mapping[str, int] | None = None,
        hidden: int = 64,
        num_layers: int = 2,
        head: str = "dot",
        seed: int = 0,
    ) -> None:
        super().__init__()
        num_features = dict(num_features or {})
        both = num_features.keys() & num_nodes.keys()
        if both:
            raise ModelError(f"{sorted(both)} are given both with and without features.")
        self.config: dict[str, Any] = {
            "num_nodes": dict(num_nodes),
            "edge_types": [tuple(edge_type) for edge_type in edge_types],
            "link_type": tuple(link_type),
            "num_features": num_features,
            "hidden": hidden,
            "num_layers": num_layers,
            "head": head,
            "seed": seed,
        }
        known = {*num_nodes, *num_features}
        for edge_type in (*edge_types, link_type):
            for node_type in (edge_type[0], edge_type[2]):
                if node_type not in known:
                    raise ModelError(
                        f"{edge_type} has node type {node_type!r}, but sizes are given only for "
                        f"{', '.join(sorted(known))}."
                    )
        self.edge_types: tuple[EdgeType, ...] = tuple(edge_types)
        self.link_type: EdgeType = link_type
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.inputs = NodeInputs(num_nodes, num_features, hidden)
            self.layers = nn.ModuleList([self.make_layer(hidden) for _ in range(num_layers)])
            self.head = make_head(head, hidden)

    @classmethod
    def for_data(cls, data: HeteroData, link_type: EdgeType, **options: Any) -> Self:
        """Return an untrained model for a graph.

        Messages pass along all of its relations but the predicted one and the reverse of that.
        """
        num_nodes, num_features = {}, {}
        for node_type in data.node_types:
            if "x" in data[node_type]:
                num_features[node_type] = int(data[node_type]["x"].shape[1])
            else:
                num_nodes[node_type] = int(data[node_type].num_nodes)
        reverse = TypedGraph.from_data(data, link_types=[link_type]).reverse
        left_out = (link_type, reverse.get(link_type))
        edge_types = [edge_type for edge_type in data.edge_types if edge_type not in left_out]
        return cls(num_nodes, edge_types, link_type, num_features=num_features, **options)

    @abstractmethod
    def make_layer(self, dim: int) -> nn.Module:
        """Return one layer, called as `layer(h_dict, edge_index_dict)`; it gives a new h_dict."""

    def encode(
        self, x_dict: Mapping[str, Tensor], edge_index_dict: Mapping[EdgeType, Tensor]
    ) -> dict[str, Tensor]:
        """Return the embeddings of all nodes, [num_nodes, hidden] per node type."""
        h_dict: dict[str, Tensor] = self.inputs(x_dict)
        for depth, layer in enumerate(self.layers):
            if depth:
                h_dict = {t: functional.leaky_relu(h, 0.01) for t, h in h_dict.items()}
            h_dict = layer(h_dict, edge_index_dict)
        return h_dict

    def forward(
        self,
        x_dict: Mapping[str, Tensor],
        edge_index_dict: Mapping[EdgeType, Tensor],
        edge_label_index: Tensor,
    ) -> Tensor:
        """Return the logits of the links in the columns of `edge_label_index`, [num_links]."""
        h_dict = self.encode(x_dict, edge_index_dict)
        src_type, _, dst_type = self.link_type
        src, dst = edge_label_index
        logits: Tensor = self.head(h_dict[src_type][src], h_dict[dst_type][dst])
        return logits
