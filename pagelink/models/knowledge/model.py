"""KnowledgeModel: one encoder for a graph, one head for all relations; its view of one of them.

Called as `model(x_dict, edge_index_dict, edge_label_index, relation)`. A `OneRelation` of it is
called as every link predictor of pagelink is, so that all that is made for these works for it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch_geometric.data import HeteroData

from pagelink.errors import LinkError, ModelError
from pagelink.graph.schema import EdgeType, no_relation
from pagelink.models.knowledge.edges import RelationalEdges, SortedEdges
from pagelink.models.knowledge.encoders import LAYERS, Edges
from pagelink.models.knowledge.heads import make_relation_head
from pagelink.models.link_model import LinkModel, NodeInputs, Relations, node_inputs, one_of
from pagelink.runtime.undo import Undo

Vectors = Any
"""What a model computes of a graph before it knows the links."""


class KnowledgeModel(nn.Module, ABC):
    """A predictor of links of several relations of one graph: what all kinds share.

    `config` holds the arguments, ready for a checkpoint.

    Args:
        num_nodes: number of nodes of every node type that has no features.
        edge_types: relations that messages pass along; others in `edge_index_dict` are not read.
        link_types: the relations to predict.
        num_features: number of features of every node type that has some.
        options: the further arguments of the kind, for `config`.
    """

    by_relation: ClassVar[bool] = False
    """How `SortedEdges` are to scale messages."""
    scores_all: ClassVar[bool] = False
    """A query costs the same for one node as for all of them, and its logits need not be those of
    the query for the other end."""

    def __init__(
        self,
        num_nodes: Mapping[str, int],
        edge_types: Sequence[EdgeType],
        link_types: Sequence[EdgeType],
        num_features: Mapping[str, int] | None,
        **options: Any,
    ) -> None:
        super().__init__()
        self.config: dict[str, Any] = {
            "num_nodes": dict(num_nodes),
            "edge_types": [tuple(each) for each in edge_types],
            "link_types": [tuple(each) for each in link_types],
            "num_features": dict(num_features or {}),
            **options,
        }
        if not link_types:
            raise ModelError("A model needs at least one relation to predict.")
        self.node_types = (*num_nodes, *(num_features or {}))
        self.edge_types, self.link_types = tuple(edge_types), tuple(link_types)

    @classmethod
    def for_data(cls, data: HeteroData, link_types: Sequence[EdgeType], **options: Any) -> Self:
        """Return an untrained model for a graph; messages pass along all of its relations."""
        sizes = {t: int(data[t].num_nodes) for t in data.node_types if "x" not in data[t]}
        features = {t: int(data[t]["x"].shape[1]) for t in data.node_types if "x" in data[t]}
        model = cls(sizes, data.edge_types, link_types, num_features=features, **options)
        model.fit_inputs({t: data[t]["x"] for t in features})
        return model

    def fit_inputs(self, x_dict: Mapping[str, Tensor]) -> None:
        """Take from the features of a graph what has to be known of them before training."""

    def edges(self, x_dict: Mapping[str, Tensor], edge_index_dict: Any) -> RelationalEdges:
        """Return the edges of a graph as the layers read them."""
        return RelationalEdges(x_dict, edge_index_dict, self.node_types, self.edge_types)

    @abstractmethod
    def encode(self, x_dict: Mapping[str, Tensor], edges: Edges) -> Vectors:
        """Return what all links of a graph have in common."""

    @abstractmethod
    def against(
        self,
        vectors: Vectors,
        known: Tensor,
        relation: Tensor,
        inverse: bool,
        nodes: Tensor | None = None,
    ) -> Tensor:
        """Return the logits of queries with many nodes, [num_queries, number of these].

        Args:
            vectors: what `encode` returned.
            known: flat numbers of the known ends.
            relation: positions of the relations among `link_types`.
            inverse: the known ends are tails, and heads are sought.
            nodes: flat numbers of the nodes; None: all nodes of all types.
        """

    @abstractmethod
    def score(self, vectors: Vectors, src: Tensor, relation: Tensor, dst: Tensor) -> Tensor:
        """Return the logits of links between flat numbers of nodes, [num_links]."""

    def of_relation(self, link_type: EdgeType) -> OneRelation:
        """Return the predictor of the links of one relation.

        Raises:
            LinkError: the model does not predict it.
        """
        if link_type not in self.link_types:
            raise LinkError(
                "The model does not predict this relation. "
                + no_relation(",".join(link_type), self.link_types)
            )
        return OneRelation(self, link_type)

    def forward(
        self,
        x_dict: Mapping[str, Tensor],
        edge_index_dict: Mapping[EdgeType, Tensor],
        edge_label_index: Tensor,
        relation: Tensor,
    ) -> Tensor:
        """Return the logits of links, [num_links].

        Args:
            x_dict: inputs of the nodes.
            edge_index_dict: the graph.
            edge_label_index: the links, by index within the node types of their relations.
            relation: the position of each link's relation among `link_types`, [num_links].
        """
        edges = self.edges(x_dict, edge_index_dict)
        first = torch.tensor(
            [[edges.first[t[0]], edges.first[t[2]]] for t in self.link_types],
            device=edge_label_index.device,
        )
        src, dst = edge_label_index + first[relation].T
        return self.score(self.encode(x_dict, edges), src, relation, dst)


class OneRelation(LinkModel):
    """A `KnowledgeModel` as the predictor of one of its relations; it has the same parameters."""

    samples_neighbours = False
    ranks_only = True  # trained to tell true ends from others

    def __init__(self, whole: KnowledgeModel, link_type: EdgeType) -> None:
        sizes, features = whole.config["num_nodes"], whole.config["num_features"]
        super().__init__(sizes, whole.edge_types, link_type, features)
        self.whole = whole
        self.relation = whole.link_types.index(link_type)
        self.eval()

    def on_graph(
        self, x_dict: Mapping[str, Tensor], edge_index_dict: Relations
    ) -> Callable[[Tensor], Tensor]:
        """Embed the nodes, and return the head on the two ends of links."""
        edges = self.whole.edges(x_dict, edge_index_dict)
        return self.on_vectors(self.whole.encode(x_dict, edges), edges.first)

    def on_vectors(self, vectors: Vectors, first: Mapping[str, int]) -> Callable[[Tensor], Tensor]:
        """Return the head, given what all relations have in common.

        Args:
            vectors: what the model computed of the graph.
            first: the flat number of the first node of each type.
        """
        first_src, first_dst = (first[t] for t in self.link_type[::2])

        def logits(links: Tensor) -> Tensor:
            src, dst = links[0] + first_src, links[1] + first_dst
            relation = torch.full_like(src, self.relation)
            return self.whole.score(vectors, src, relation, dst)

        return logits


class EachRelation:
    """How an explainer calls a `OneRelation` for links of all relations of its `KnowledgeModel`.

    Args:
        whole: the model.
        edge_types: the relations of the graph, by whose positions types of links are given.
    """

    def __init__(self, whole: KnowledgeModel, edge_types: Sequence[EdgeType]) -> None:
        places = {t: position for position, t in enumerate(whole.link_types)}
        self.position = torch.tensor([places.get(t, -1) for t in edge_types])

    def __call__(self, model: OneRelation, data: HeteroData, edge_label_index: Tensor) -> Tensor:
        """Return the logits of links, each of the relation that `data.edge_label_type` says."""
        relation = self.position.to(edge_label_index.device)[data.edge_label_type]
        logits: Tensor = model.whole(
            node_inputs(data), data.edge_index_dict, edge_label_index, relation
        )
        return logits


class EncoderModel(KnowledgeModel):
    """Embeds all nodes, whatever the link: inputs, layers, and a head that knows the relation.

    See `KnowledgeModel` for the first arguments.

    Args:
        encoder: a name of `LAYERS`; with no layers the graph is not looked at.
        head: a name of `heads.HEADS`.
        hidden: length of all vectors, an even number.
        num_layers: L; 0 is a table of embeddings without a graph.
        num_bases: the number of matrices that those of the relations are mixed of, for `rgcn`.
        dropout: share of the numbers that a training step leaves out of the last vectors.
        embeddings: give every node without features a vector of its own.
        seed: seed of the parameters. The global random state is neither read nor changed.

    Example:
        >>> buys = ("user", "buys", "item")
        >>> model = EncoderModel({"user": 2, "item": 2}, [buys], [buys], hidden=8)
        >>> nodes = {"user": torch.arange(2), "item": torch.arange(2)}
        >>> edges = {buys: torch.tensor([[0, 1], [1, 0]])}
        >>> model.of_relation(buys)(nodes, edges, torch.tensor([[0, 1], [0, 1]])).shape
        torch.Size([2])
    """

    def __init__(
        self,
        num_nodes: Mapping[str, int],
        edge_types: Sequence[EdgeType],
        link_types: Sequence[EdgeType],
        *,
        num_features: Mapping[str, int] | None = None,
        encoder: str = "rgcn",
        head: str = "distmult",
        hidden: int = 64,
        num_layers: int = 2,
        num_bases: int = 4,
        dropout: float = 0.2,
        embeddings: bool = True,
        seed: int = 0,
    ) -> None:
        super().__init__(
            num_nodes, edge_types, link_types, num_features, encoder=encoder, head=head,
            hidden=hidden, num_layers=num_layers, num_bases=num_bases, dropout=dropout,
            embeddings=embeddings, seed=seed,
        )  # fmt: skip
        if hidden < 2 or hidden % 2:
            raise ModelError(f"hidden must be an even number from 2 up, got {hidden}.")
        layer = one_of("An encoder", LAYERS, encoder)
        self.by_relation = layer.by_relation  # type: ignore[misc]
        self.dropout = dropout
        with Undo() as undo:
            undo.later(torch.default_generator.set_state, torch.get_rng_state())
            torch.manual_seed(seed)
            self.inputs = NodeInputs(num_nodes, num_features or {}, hidden, embeddings)
            for table in self.inputs.tables:
                if isinstance(table, nn.Embedding):
                    nn.init.xavier_normal_(table.weight)
            self.relations = nn.Embedding(max(1, len(self.edge_types)), hidden)
            self.layers = nn.ModuleList(
                layer(max(1, len(self.edge_types)), hidden, num_bases) for _ in range(num_layers)
            )
            self.head = make_relation_head(head, len(self.link_types), hidden)

    def fit_inputs(self, x_dict: Mapping[str, Tensor]) -> None:
        """Scale the features by those of a graph."""
        self.inputs.fit(x_dict)

    def encode(self, x_dict: Mapping[str, Tensor], edges: Edges) -> Tensor:
        """Return the vectors of all nodes, [num_nodes of all types, hidden]."""
        h_dict = self.inputs(x_dict)
        h = torch.cat([h_dict[t] for t in self.node_types if t in h_dict])
        relations = self.relations.weight
        for depth, layer in enumerate(self.layers):
            if depth:
                h = torch.tanh(h)
            h, relations = layer(h, edges, relations)
        return functional.dropout(h, self.dropout, self.training)

    def against(
        self,
        vectors: Tensor,
        known: Tensor,
        relation: Tensor,
        inverse: bool,
        nodes: Tensor | None = None,
    ) -> Tensor:
        """Return the logits of queries with many nodes."""
        query = self.head.query(vectors[known], relation, inverse)
        return self.head.against_all(query, vectors if nodes is None else vectors[nodes])

    def score(self, vectors: Tensor, src: Tensor, relation: Tensor, dst: Tensor) -> Tensor:
        """Return the logits of links, [num_links]."""
        logits: Tensor = self.head(vectors[src], relation, vectors[dst])
        return logits


def sorted_edges(model: KnowledgeModel, edges: RelationalEdges) -> SortedEdges:
    """Return edges as a model trains on them."""
    return SortedEdges(edges, model.by_relation)
