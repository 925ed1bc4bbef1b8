"""The kinds of link predictors, as PyG modules, by name.

RGCN: the relational graph convolution of the paper. SAGE: a GraphSAGE convolution per relation.
HGT: the heterogeneous graph transformer, by PyG's own convolution. NBF: no embeddings, walks from
the source to the target; see `pagelink.models.nbf`.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch_geometric.data import HeteroData
from torch_geometric.nn import HGTConv, Linear, MeanAggregation, MessagePassing, SAGEConv
from torch_geometric.nn.module_dict import ModuleDict

from pagelink.errors import ModelError
from pagelink.graph.schema import EdgeType
from pagelink.layers.flat import FlatLayer, FlatModel
from pagelink.layers.whole import Pass
from pagelink.models.link_model import SLOPE, LinkModel, TowerModel, one_of
from pagelink.models.messages import Adjacency, Block
from pagelink.models.nbf import NBF

WORTH_IT = 8
"""Relations per pair of node types from which on they are done at once."""


class ByRelation(ModuleDict):
    """A module per relation, by its name: where PyG's explainers look for what they mask.

    PyG's own ModuleDict, because names of modules must not contain a dot and relations may.

    Args:
        edge_types: the relations.
        make: makes the module of one.
    """

    def __init__(self, edge_types: Sequence[EdgeType], make: Callable[[], nn.Module]) -> None:
        super().__init__({"__".join(edge_type): make() for edge_type in edge_types})

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        # Files of earlier versions have the modules by position.
        for position, name in enumerate(self._modules):
            old = f"{prefix}{position}."
            for key in [key for key in state_dict if key.startswith(old)]:
                state_dict[f"{prefix}{name}.{key.removeprefix(old)}"] = state_dict.pop(key)
        super()._load_from_state_dict(state_dict, prefix, *args)


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


class RelationLayer(nn.Module, ABC):
    """A map of a node's own vector, plus what comes in by each relation; the kinds say how."""

    relations: ByRelation

    def __init__(self, edge_types: Sequence[EdgeType]) -> None:
        super().__init__()
        self.edge_types = tuple(edge_types)
        self.between: dict[tuple[str, str], list[int]] = {}
        """Positions of the relations between two node types."""
        for position, (src, _, dst) in enumerate(self.edge_types):
            self.between.setdefault((src, dst), []).append(position)

    @abstractmethod
    def own_vectors(self, h_dict: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return what becomes of the nodes' own vectors."""

    @abstractmethod
    def incoming(self, relation: nn.Module, src: Tensor, dst: Tensor, edges: Any) -> Tensor:
        """Return what comes in by one relation."""

    @abstractmethod
    def own_maps(self, num_types: int) -> list[Any]:
        """Return, per node type, the linear map of the nodes' own vectors."""

    @abstractmethod
    def maps(self, relations: Sequence[Any]) -> Tensor:
        """Return the matrices of relations, each with the vector that it adds as its last row."""

    def share(self, dst_type: str) -> float:
        """Return what is divided by, of all that comes in by relations."""
        return 1.0

    def forward(
        self, h_dict: Mapping[str, Tensor], edges: Mapping[EdgeType, Any] | Block
    ) -> dict[str, Tensor]:
        """Return the new vectors of all nodes, or of those of a block."""
        targets, edge_index_dict = h_dict, edges if isinstance(edges, Mapping) else edges.relations
        if isinstance(edges, Block):
            targets = {node_type: h[: edges.rows[node_type]] for node_type, h in h_dict.items()}
        out = self.own_vectors(targets)
        for edge_type, relation in zip(self.edge_types, self.relations.values(), strict=True):
            if edge_type not in edge_index_dict:
                continue
            src, _, dst = edge_type
            incoming = self.incoming(
                relation, h_dict[src], targets[dst], edge_index_dict[edge_type]
            )
            # Divided by a number of the schema, not of the sub-graph: a node's vector must not
            # depend on which relations other nodes have.
            share = self.share(dst)
            out[dst] = out[dst] + (incoming if share == 1 else incoming / share)
        return out

    def as_a_whole(self, on: Pass) -> Any:
        """Return the same, with all relations between two node types at once."""
        if len(self.edge_types) < WORTH_IT * len(self.between):
            return None
        made: dict[tuple[str, str], Tensor] = {}
        relations = list(self.relations.values())

        def forward(h_dict: Mapping[str, Tensor], edge_index_dict: Any) -> dict[str, Tensor]:
            out = self.own_vectors(h_dict)
            for (src, dst), of_both in self.between.items():
                found = [edge_index_dict.get(self.edge_types[each]) for each in of_both]
                there = [(k, edges) for k, edges in enumerate(found) if edges is not None]
                if there:
                    numbers, indices = zip(*there, strict=True)
                    if (src, dst) not in made:
                        of_these = [relations[each] for each in of_both]
                        with torch.no_grad():
                            made[src, dst] = self.maps(of_these)
                    incoming = on.sum_by_relation(
                        h_dict[src], indices, made[src, dst], h_dict[dst].shape[0], mean=True,
                        relation=numbers,
                    )  # fmt: skip
                    out[dst] = out[dst] + incoming / self.share(dst)
            return out

        return forward


class RelationTower(TowerModel):
    """A tower of `RelationLayer`: per layer one sum over all edges; see `TowerModel`."""

    takes_adjacency = True

    def as_flat(self) -> FlatModel | None:
        """Return what the model does as sums over all relations; None: some module is another."""
        known = {RGCN, SAGE, RGCNLayer, SAGELayer, ByRelation, RelationConv, MeanConv, nn.Linear}
        kinds = {*map(type, (self, *self.layers.modules()))}
        if not self.edge_types or kinds - known - {nn.ModuleList, Linear, MeanAggregation}:
            return None
        types, layers, every = self.inputs.node_types, [], cast(list[RelationLayer], [*self.layers])
        for layer in every:
            shares = [layer.share(dst) for _, _, dst in self.edge_types]
            maps = layer.maps([*layer.relations.values()])
            layers.append(FlatLayer.of(maps, shares, layer.own_maps(len(types))))
        between = partial(functional.leaky_relu, negative_slope=SLOPE)
        return FlatModel(
            types, self.edge_types, self.link_type, self.inputs.of_type, tuple(layers), between,
            self.head, (self.inputs, *every),
        )  # fmt: skip


class RGCNLayer(RelationLayer):
    """h_v becomes W_0 h_v + b_0 plus what comes in by each relation; W_0 is one for all types."""

    def __init__(self, edge_types: Sequence[EdgeType], dim: int) -> None:
        super().__init__(edge_types)
        self.own = nn.Linear(dim, dim)
        self.relations = ByRelation(self.edge_types, lambda: RelationConv(dim))

    def own_vectors(self, h_dict: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return W_0 h + b_0."""
        return {node_type: self.own(h) for node_type, h in h_dict.items()}

    def own_maps(self, num_types: int) -> list[Any]:
        """Return W_0 and b_0."""
        return [self.own] * num_types

    def incoming(self, relation: nn.Module, src: Tensor, dst: Tensor, edges: Any) -> Tensor:
        """Return the mean of W_r h_u + b_r."""
        out: Tensor = relation(src, edges, dst.shape[0])
        return out

    def maps(self, relations: Sequence[Any]) -> Tensor:
        """Return W_r and b_r."""
        linear = [vars(relation)["_modules"]["linear"]._parameters for relation in relations]
        weight = torch.stack([each["weight"] for each in linear])
        bias = torch.stack([each["bias"] for each in linear])
        return torch.cat([weight, bias[..., None]], dim=2).transpose(1, 2)


class RGCN(RelationTower):
    """RGCN encoder with a head on top; see `TowerModel` for the arguments.

    Example:
        >>> import torch
        >>> buys = ("user", "buys", "item")
        >>> model = RGCN({"user": 3, "item": 2}, [buys], ("user", "likes", "item"), hidden=8)
        >>> nodes = {"user": torch.arange(3), "item": torch.arange(2)}
        >>> edges = {buys: torch.tensor([[0, 1], [1, 0]])}
        >>> model(nodes, edges, torch.tensor([[0, 2], [0, 1]])).shape
        torch.Size([2])
    """

    def make_layer(self, dim: int) -> RGCNLayer:
        """Return a layer with a linear map of its own per relation."""
        return RGCNLayer(self.edge_types, dim)


class MeanConv(SAGEConv):
    """PyG's SAGEConv; it takes an `Adjacency` too."""

    # PyG would take that which it wrote for SAGEConv, without masks, for the original.
    propagate = MessagePassing.propagate

    def forward(self, x: tuple[Tensor, Tensor], edge_index: Tensor | Adjacency) -> Tensor:
        """Return one vector per target node."""
        if isinstance(edge_index, Adjacency):
            return edge_index.mean_mapped(x[0], self.lin_l.weight)
        out: Tensor = super().forward(x, edge_index)
        return out


class SAGELayer(RelationLayer):
    """h_v becomes U h_v + b plus the mean of W_r m_r(v) over the relations r into v's type.

    m_r(v) is the mean of the in-neighbours by r, 0 where there are none. U and b are v's type's.
    """

    def __init__(self, node_types: Sequence[str], edge_types: Sequence[EdgeType], dim: int) -> None:
        super().__init__(edge_types)
        self.node_types = tuple(node_types)
        self.own = nn.ModuleList(nn.Linear(dim, dim) for _ in self.node_types)
        self.relations = ByRelation(
            self.edge_types, lambda: MeanConv((dim, dim), dim, root_weight=False, bias=False)
        )
        entered = [edge_type[2] for edge_type in self.edge_types]
        self.num_relations = {node_type: entered.count(node_type) for node_type in node_types}

    def own_vectors(self, h_dict: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return U h + b."""
        return {
            node_type: own(h_dict[node_type])
            for node_type, own in zip(self.node_types, self.own, strict=True)
            if node_type in h_dict
        }

    def own_maps(self, num_types: int) -> list[Any]:
        """Return U and b of each type."""
        return [*self.own]

    def incoming(self, relation: nn.Module, src: Tensor, dst: Tensor, edges: Any) -> Tensor:
        """Return W_r m_r."""
        out: Tensor = relation((src, dst), edges)
        return out

    def maps(self, relations: Sequence[Any]) -> Tensor:
        """Return W_r."""
        weights = torch.stack([relation.lin_l.weight for relation in relations])
        return weights.transpose(1, 2)

    def share(self, dst_type: str) -> float:
        """Return the number of relations into a node type."""
        return self.num_relations[dst_type]


class SAGE(RelationTower):
    """GraphSAGE encoder with a head on top; see `TowerModel` for the arguments.

    Example:
        >>> import torch
        >>> buys = ("user", "buys", "item")
        >>> model = SAGE({"user": 3, "item": 2}, [buys], ("user", "likes", "item"), hidden=8)
        >>> nodes = {"user": torch.arange(3), "item": torch.arange(2)}
        >>> edges = {buys: torch.tensor([[0, 1], [1, 0]])}
        >>> model(nodes, edges, torch.tensor([[0, 2], [0, 1]])).shape
        torch.Size([2])
    """

    def make_layer(self, dim: int) -> SAGELayer:
        """Return a layer with a linear map of its own per relation and per node type."""
        return SAGELayer(self.inputs.node_types, self.edge_types, dim)


ATTENTION_HEADS = 4


class HGTLayer(nn.Module):
    """Attention over all in-neighbours of a node, whatever the relation.

    Nodes of a type that no relation enters stay as they are.
    """

    def __init__(self, node_types: Sequence[str], edge_types: Sequence[EdgeType], dim: int) -> None:
        super().__init__()
        self.edge_types = tuple(edge_types)
        # The convolution makes names of parameters out of the types, and fails on dots in them.
        self.plain = {node_type: f"n{i}" for i, node_type in enumerate(node_types)}
        self.plain_relations = [
            (self.plain[src], f"r{i}", self.plain[dst])
            for i, (src, _, dst) in enumerate(edge_types)
        ]
        metadata = (list(self.plain.values()), self.plain_relations)
        self.conv = HGTConv(dim, dim, metadata, ATTENTION_HEADS)

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


class HGT(TowerModel):
    """HGT encoder with a head on top; see `TowerModel` for the arguments.

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
        return HGTLayer(self.inputs.node_types, self.edge_types, dim)


MODELS: dict[str, type[LinkModel]] = {"rgcn": RGCN, "sage": SAGE, "hgt": HGT, "nbf": NBF}
_OF_GRAPH = ("num_nodes", "edge_types", "link_type", "num_features")


def model_options(name: str) -> list[str]:
    """Return the options that a model takes.

    Example:
        >>> model_options("nbf")
        ['hidden', 'num_layers', 'seed']
    """
    kind = one_of("A model", MODELS, name)
    return [key for key in inspect.signature(kind).parameters if key not in _OF_GRAPH]


def make_model(
    name: str, data: HeteroData, link_type: EdgeType, *, paper_split: bool = False, **options: Any
) -> LinkModel:
    """Return an untrained model for a graph.

    Args:
        name: one of `MODELS`.
        data: the graph.
        link_type: the relation to predict.
        paper_split: as in the settings of the training.
        options: see `TowerModel` and `NBF`.

    Raises:
        ModelError: there is no such model, or no such option.

    Example:
        >>> data = HeteroData()
        >>> data["user"].num_nodes = data["item"].num_nodes = 2
        >>> type(make_model("sage", data, ("user", "likes", "item"), hidden=8)).__name__
        'SAGE'
    """
    kind, taken = one_of("A model", MODELS, name), model_options(name)
    for key in options:
        if key not in taken:
            raise ModelError(f"{name} has no option {key!r}; it takes {', '.join(taken)}.")
    return kind.for_data(data, link_type, paper_split=paper_split, **options)
