"""What all link predictors share: their inputs, the loop over the layers, and the head.

A predictor is called as `model(x_dict, edge_index_dict, edge_label_index)` and gives one logit per
column of `edge_label_index`. It works on any sub-graph: node types and relations may be empty. A
head makes the logit of a link from the embeddings of its two ends.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, Self, TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch_geometric.data import HeteroData

from pagelink.errors import ModelError, did_you_mean
from pagelink.graph.schema import EdgeType
from pagelink.models.messages import Adjacency, Block, message_relations
from pagelink.runtime.undo import Undo

T = TypeVar("T")
SLOPE = 0.01
"""Of the leaky ReLU between layers, below 0."""


class DotHead(nn.Module):
    """The inner product of the two embeddings, as in the paper."""

    def forward(self, src: Tensor, dst: Tensor) -> Tensor:
        """Return one logit per row."""
        return (src * dst).sum(dim=-1)


class CosineHead(nn.Module):
    """The cosine of the two embeddings times a learned scale: their lengths do not matter."""

    def __init__(self) -> None:
        super().__init__()
        # A cosine alone cannot leave -1..1, where the loss of a certain prediction is still 0.31.
        self.scale = nn.Parameter(torch.tensor(5.0))

    def forward(self, src: Tensor, dst: Tensor) -> Tensor:
        """Return one logit per row."""
        return self.scale * functional.cosine_similarity(src, dst, dim=-1)


class MLPHead(nn.Module):
    """Two linear layers on the two embeddings side by side."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.hidden = nn.Linear(2 * dim, dim)
        self.out = nn.Linear(dim, 1)

    def forward(self, src: Tensor, dst: Tensor) -> Tensor:
        """Return one logit per row."""
        hidden = functional.relu(self.hidden(torch.cat([src, dst], dim=-1)))
        logits: Tensor = self.out(hidden)
        return logits.squeeze(-1)


HEADS: dict[str, Callable[[int], nn.Module]] = {
    "dot": lambda dim: DotHead(),
    "cosine": lambda dim: CosineHead(),
    "mlp": MLPHead,
}


def make_head(name: str, dim: int) -> nn.Module:
    """Return the head of that name for embeddings of `dim` numbers.

    Args:
        name: one of `HEADS`.
        dim: length of an embedding.

    Returns:
        A module called as `head(src, dst)` with two tensors [num_links, dim]; it gives the logits,
        [num_links].

    Raises:
        ModelError: there is no head of that name.

    Example:
        >>> make_head("dot", 2)(torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0, 4.0]]))
        tensor([11.])
    """
    return one_of("A head", HEADS, name)(dim)


def one_of(what: str, known: Mapping[str, T], name: str) -> T:
    """Return what is known by that name.

    Raises:
        ModelError: there is none.
    """
    if name not in known:
        raise ModelError(
            f"{what} is one of {', '.join(known)}, got {name!r}.{did_you_mean(name, known)}"
        )
    return known[name]


Relations = Mapping[EdgeType, Tensor] | Mapping[EdgeType, Adjacency] | Sequence[Block]
"""The edges that a model is given: of each relation, or of each layer."""


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
        given = next((store[key] for key in ("x", "n_id") if key in store), None)
        inputs[node_type] = torch.arange(store.num_nodes) if given is None else given
    return inputs


class SharedVector(nn.Module):
    """One vector for all nodes of a type: they differ only by where they are in the graph."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(dim))

    def forward(self, ids: Tensor) -> Tensor:
        """Return the vector once per node."""
        return self.weight.expand(len(ids), -1)


class Projection(nn.Module):
    """A linear map of features that are first shifted and scaled, so that a year does no harm."""

    mean: Tensor
    scale: Tensor

    def __init__(self, size: int, dim: int) -> None:
        super().__init__()
        self.linear = nn.Linear(size, dim)
        self.register_buffer("mean", torch.zeros(size))
        self.register_buffer("scale", torch.ones(size))

    def fit(self, x: Tensor) -> None:
        """Take mean and deviation from the features of all nodes; constants are left as 0."""
        if x.shape[0]:
            deviation = x.float().std(dim=0, correction=0)
            self.mean.copy_(x.float().mean(dim=0))
            self.scale.copy_(torch.where(deviation > 0, deviation, torch.ones_like(deviation)))

    def forward(self, x: Tensor) -> Tensor:
        """Return one vector per node."""
        vectors: Tensor = self.linear((x - self.mean) / self.scale)
        return vectors


class NodeInputs(nn.Module):
    """First vectors of the nodes: an embedding looked up by id, or a projection of the features."""

    def __init__(
        self,
        num_nodes: Mapping[str, int],
        num_features: Mapping[str, int],
        dim: int,
        embeddings: bool = True,
    ) -> None:
        super().__init__()
        self.node_types = (*num_nodes, *num_features)
        # By position, because names of modules must not contain a dot and names of types may.
        self.tables = nn.ModuleList(
            [nn.Embedding(n, dim) if embeddings else SharedVector(dim) for n in num_nodes.values()]
            + [Projection(size, dim) for size in num_features.values()]
        )

    def fit(self, x_dict: Mapping[str, Tensor]) -> None:
        """Scale the features by those of a graph."""
        for node_type, table in zip(self.node_types, self.tables, strict=True):
            if isinstance(table, Projection):
                table.fit(x_dict[node_type])

    def forward(self, x_dict: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return vectors for the node types that are in `x_dict`."""
        vectors = {}
        for node_type, table in zip(self.node_types, self.tables, strict=True):
            if node_type not in x_dict:
                continue
            x, num_dims, wanted = x_dict[node_type], 1, "ids of nodes, of shape [num_nodes]"
            if isinstance(table, Projection):
                num_dims = 2
                wanted = f"features, of shape [num_nodes, {table.linear.in_features}]"
            elif x.dim() == 2 and x.shape[1] == 1:  # as PyG's explainers want all inputs
                x = x[:, 0]
            if x.dim() != num_dims:
                raise ModelError(
                    f"x_dict[{node_type!r}] must hold {wanted}, got shape {list(x.shape)}."
                )
            vectors[node_type] = table(x)
        return vectors

    def of_type(self, node_type: str, x: Tensor) -> Tensor:
        """Return vectors for nodes of one type."""
        return self.forward({node_type: x})[node_type]


class LinkModel(nn.Module, ABC):
    """A link predictor for one graph: what is common to all kinds.

    `config` holds the arguments, ready for a checkpoint: `type(model)(**model.config)` is the same
    model before training.

    Args:
        num_nodes: number of nodes of every node type that has no features.
        edge_types: relations that messages pass along; others in `edge_index_dict` are not read.
        link_type: the relation to predict.
        num_features: number of features of every node type that has some.
        options: the further arguments of the kind, for `config`.
    """

    takes_adjacency: ClassVar[bool] = False
    """The layers take an `Adjacency` for an `edge_index`, and a `Block` for all edges: training is
    then many times as fast."""
    samples_neighbours: ClassVar[bool] = True
    """Mini-batches are trained on sampled neighbourhoods; else on the whole graph."""
    ranks_only: ClassVar[bool] = False
    """Logits only compare the ends of links: 0 is no border."""
    layers: nn.ModuleList

    def __init__(
        self,
        num_nodes: Mapping[str, int],
        edge_types: Sequence[EdgeType],
        link_type: EdgeType,
        num_features: Mapping[str, int] | None,
        **options: Any,
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
            **options,
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

    @classmethod
    def for_data(
        cls, data: HeteroData, link_type: EdgeType, *, paper_split: bool = False, **options: Any
    ) -> Self:
        """Return an untrained model for a graph.

        Messages pass along all of its relations, and along the predicted one and its reverse, be
        they in `data` or not; with `paper_split` along all but these two.
        """
        num_nodes, num_features = {}, {}
        for node_type in data.node_types:
            if "x" in data[node_type]:
                num_features[node_type] = int(data[node_type]["x"].shape[1])
            else:
                num_nodes[node_type] = int(data[node_type].num_nodes)
        edge_types = message_relations(data, link_type, paper_split=paper_split)
        model = cls(num_nodes, edge_types, link_type, num_features=num_features, **options)
        model.fit_inputs({t: data[t]["x"] for t in num_features})
        return model

    def fit_inputs(self, x_dict: Mapping[str, Tensor]) -> None:
        """Take from the features of a graph what has to be known of them before training."""

    def threshold(self, given: float | None) -> float | None:
        """Return the threshold of its explainer, if another is given: None if it only ranks."""
        return None if self.ranks_only else given

    @abstractmethod
    def on_graph(
        self, x_dict: Mapping[str, Tensor], edge_index_dict: Relations
    ) -> Callable[[Tensor], Tensor]:
        """Return the function from links, [2, num_links], to their logits on one graph.

        What all links have in common is computed once, here.
        """

    def forward(
        self,
        x_dict: Mapping[str, Tensor],
        edge_index_dict: Relations,
        edge_label_index: Tensor,
    ) -> Tensor:
        """Return the logits of the links in the columns of `edge_label_index`, [num_links]."""
        return self.on_graph(x_dict, edge_index_dict)(edge_label_index)


class TowerModel(LinkModel):
    """Embeds all nodes, whatever the link: inputs, `num_layers` layers, and a head on two ends.

    Between the layers there is a leaky ReLU. A kind of GNN is a subclass that says what one layer
    is.

    Args:
        num_nodes: number of nodes of every node type that has no features.
        num_features: number of features of every node type that has some.
        edge_types: relations that messages pass along; others in `edge_index_dict` are not read.
        link_type: the relation to predict.
        hidden: length of all embeddings.
        num_layers: L.
        head: name of the head, see `pagelink.models.link_model`.
        dropout: share of the numbers that a training step leaves out of the input of each layer.
        embeddings: give every node without features a free vector of its own. False: one vector per
            node type, so that the model has nothing to go by but the structure.
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
        dropout: float = 0.0,
        embeddings: bool = True,
        seed: int = 0,
    ) -> None:
        super().__init__(
            num_nodes, edge_types, link_type, num_features, hidden=hidden, num_layers=num_layers,
            head=head, dropout=dropout, embeddings=embeddings, seed=seed,
        )  # fmt: skip
        self.dropout = dropout
        with Undo() as undo:
            undo.later(torch.default_generator.set_state, torch.get_rng_state())
            torch.manual_seed(seed)
            self.inputs = NodeInputs(num_nodes, num_features or {}, hidden, embeddings)
            self.layers = nn.ModuleList([self.make_layer(hidden) for _ in range(num_layers)])
            self.head = make_head(head, hidden)

    def fit_inputs(self, x_dict: Mapping[str, Tensor]) -> None:
        """Scale the features by those of a graph."""
        self.inputs.fit(x_dict)

    @abstractmethod
    def make_layer(self, dim: int) -> nn.Module:
        """Return one layer, called as `layer(h_dict, edge_index_dict)`; it gives a new h_dict."""

    def encode(self, x_dict: Mapping[str, Tensor], edge_index_dict: Relations) -> dict[str, Tensor]:
        """Return the embeddings of all nodes, [num_nodes, hidden] per node type."""
        h_dict: dict[str, Tensor] = self.inputs(x_dict)
        for depth, layer in enumerate(self.layers):
            if depth:
                h_dict = {t: functional.leaky_relu(h, SLOPE) for t, h in h_dict.items()}
            if self.dropout:
                h_dict = {
                    t: functional.dropout(h, self.dropout, self.training) for t, h in h_dict.items()
                }
            of_layer = edge_index_dict
            h_dict = layer(h_dict, of_layer if isinstance(of_layer, Mapping) else of_layer[depth])
        return h_dict

    def on_graph(
        self, x_dict: Mapping[str, Tensor], edge_index_dict: Relations
    ) -> Callable[[Tensor], Tensor]:
        """Embed the nodes, and return the head on the two ends of links."""
        return partial(self.score, self.encode(x_dict, edge_index_dict))

    def score(self, h_dict: Mapping[str, Tensor], edge_label_index: Tensor) -> Tensor:
        """Return the logits of links from the embeddings of the nodes, [num_links]."""
        src_type, _, dst_type = self.link_type
        src, dst = edge_label_index
        logits: Tensor = self.head(h_dict[src_type][src], h_dict[dst_type][dst])
        return logits
