"""What the model is called with: parts of the user's graph, of the user's own class.

Every tensor that a model gets is a copy: whatever it does to it, the user's own stays as it is.
"""

from __future__ import annotations

import copy
import dataclasses
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch_geometric.data import Data, HeteroData

from pagelink.errors import ModelError
from pagelink.graph.schema import EdgeType
from pagelink.graph.typed_graph import TypedGraph
from pagelink.layers.flat import KnownAsWhole
from pagelink.layers.fused import Call
from pagelink.layers.node_rows import NodeRows, Rings
from pagelink.runtime.arrays import Ints, Longs
from pagelink.runtime.devices import to_device

Output = Literal["logit", "probability"]


class Assembled(NamedTuple):
    """A graph with links, as a model takes it."""

    data: Any
    """Of the user's own class, with plain `edge_index` tensors."""
    edge_label_index: Tensor
    rings: tuple[Rings, ...]
    """Per node type, the numbers of its nodes within 0, 1, ... hops of s and t, which come first;
    empty: they are in no such order."""


@dataclass(frozen=True)
class ModelInput:
    """What the model is called with, for some links of a batch."""

    make: Callable[[], Assembled]
    """Gives the graph, the same whenever it is called: it is made only if the model is."""
    slots: Tensor
    """For every input edge, in the order of `data`, its position in the batch's edges, or -1."""
    calls: tuple[Tensor, ...] = ()
    """Per propagation, the position in the batch's edges behind each message, or -1."""
    plain: tuple[Call | None, ...] = ()
    """Per propagation, how it is done without writing the messages out."""
    whole: tuple[nn.Module, ...] = ()
    """Layers that are done as a whole, as one propagation."""
    flat: KnownAsWhole | None = None
    """The same for a model that is known as a whole."""

    @property
    def data(self) -> Any:
        """The graph."""
        return self.make().data

    @property
    def edge_label_index(self) -> Tensor:
        """The links."""
        return self.make().edge_label_index

    @property
    def rings(self) -> tuple[Rings, ...]:
        """In which order the nodes are."""
        return self.make().rings

    def with_data(self, data: Any) -> ModelInput:
        """The same links on another graph."""
        made = self.make()._replace(data=data)
        return dataclasses.replace(self, make=lambda: made, flat=None)

    @cached_property
    def tensors(self) -> list[Tensor]:
        """All tensors that the model gets, as plain ones that count their changes."""
        given = [self.edge_label_index]
        for store in self.data.stores:
            given += [value for value in store._mapping.values() if isinstance(value, Tensor)]
        plain = [v.whole() if isinstance(v, NodeRows) else v for v in given]
        return [v if type(v) is Tensor else v.as_subclass(Tensor) for v in plain]

    def changes(self) -> list[int]:
        """Per tensor, how often it was changed in place; those of inference mode do not count."""
        return [0 if tensor.is_inference() else tensor._version for tensor in self.tensors]

    def edited_in_place(self, before: Sequence[int]) -> ModelError:
        """Return the error that names the tensors that have changed since."""
        names = ["edge_label_index"]
        for store in self.data.stores:
            where = f" of {store._key}" if store._key is not None else ""
            names += [f"{key}{where}" for key, value in store.items() if isinstance(value, Tensor)]
        each = zip(names, self.changes(), before, strict=True)
        changed = [name for name, now, then in each if now != then]
        return ModelError(
            f"The model changes its input in place: {', '.join(changed)}. Its score then depends "
            "on how often it was run, so it cannot be explained. Let it change a copy: "
            "`x = x + 1` instead of `x += 1`, `x.relu()` instead of `x.relu_()`, `inplace=False` "
            "in its layers. Your own tensors are as they were."
        )

    @cached_property
    def by_rows(self) -> Any:
        """The same graph, with vectors of nodes that are computed when they are looked at."""
        data = (
            with_edges(self.data, {}) if isinstance(self.data, HeteroData) else copy.copy(self.data)
        )
        for store, rings in zip(data.node_stores, self.rings, strict=True):
            for key in {"x", "n_id"} & set(store.keys()):
                store[key] = NodeRows.given(store[key], rings)
        return data

    def renumbered(self, number: Tensor) -> ModelInput:
        """Count the weights otherwise: `number` maps a position in the batch's edges to the new."""
        extended = torch.cat([number, number.new_tensor([-1])])
        return dataclasses.replace(self, calls=tuple(extended[call] for call in self.calls))


def with_edges(data: HeteroData, edge_index: Mapping[EdgeType, Tensor]) -> HeteroData:
    """Return what `copy.copy` does, with other edges of some relations.

    There may be hundreds of relations, and many copies of each explanation: a relation costs one
    new dict here, in place of several calls of PyTorch Geometric's.
    """
    bare = object.__new__(type(data))
    vars(bare).update(vars(data), _edge_store_dict={})
    made = copy.copy(bare)
    parent = weakref.ref(made)
    for edge_type, store in data._edge_store_dict.items():
        mapping = store._mapping.copy()
        if edge_type in edge_index:
            mapping["edge_index"] = edge_index[edge_type]
        new = object.__new__(type(store))
        vars(new).update(vars(store), _mapping=mapping, _parent=parent)
        vars(new).pop("_cached_attr", None)
        made._edge_store_dict[edge_type] = new
    return made


class InputMaker:
    """Makes graphs for the model, with all attributes of the nodes and edges that are in them.

    Args:
        data: the user's graph.
        graph: the same, flat.
        origin: per node type, what `n_id` is to count by, if the graph is a part of a larger one.
    """

    def __init__(
        self,
        data: HeteroData | Data,
        graph: TypedGraph,
        origin: Mapping[str, Tensor] | None = None,
    ) -> None:
        self._data, self.graph, self._origin = data, graph, origin
        self._hetero = isinstance(data, HeteroData)
        self.device = _device_of(data)
        self._copies: dict[int, tuple[Tensor, int, Tensor]] = {}

    def forget_copies(self) -> None:
        """Copy the user's tensors anew for the next input, because a model has changed some."""
        self._copies.clear()

    def _copy(self, value: Tensor) -> Tensor:
        """The one copy of a tensor that goes into every input as a whole."""
        known = self._copies.get(id(value))
        changes = 0 if value.is_inference() else value._version
        if known is None or known[0] is not value or known[1] != changes:
            known = value, changes, value.detach().clone()
            self._copies[id(value)] = known
        return known[2]

    def with_other_sources(self, inputs: ModelInput) -> ModelInput:
        """The same inputs, but every edge comes from the source of another edge of its relation.

        Targets keep their number of edges, and no self-loop comes or goes.
        """
        data = copy.copy(inputs.data)
        for store in self.edge_stores(data):
            src, dst = store.edge_index
            other = src.roll(len(src) // 3 + 1)  # by one, most edges would stay at their target
            same_type = not self._hetero or store._key[0] == store._key[2]
            loop = (src == dst) | (other == dst) if same_type else torch.zeros_like(src).bool()
            store.edge_index = torch.stack([torch.where(loop, src, other), dst])
        return inputs.with_data(data)

    def edge_stores(self, data: Any) -> list[Any]:
        """What holds an edge_index, in the order in which the edges of an input are counted."""
        stored = self.graph.edge_types[: self.graph.num_relations]
        return [data._edge_store_dict[t] for t in stored] if self._hetero else [data]

    def edge_attributes(self, data: Any, position: int) -> list[Tensor]:
        """All that is known of the edges of a relation, but for where they are."""
        types = self.graph.edge_types
        store = data._edge_store_dict[types[position]] if self._hetero else data
        of_edges = [
            value
            for key, value in store.items()
            if key != "edge_index"
            and (self._hetero or (key in self._data and self._data.is_edge_attr(key)))
        ]
        return [value for value in of_edges if isinstance(value, Tensor)]

    def with_edges(self, data: Any, edge_index: Sequence[Tensor]) -> Any:
        """A copy of an input with other edges, in that order."""
        if self._hetero:
            return with_edges(data, dict(zip(self.graph.edge_types, edge_index, strict=False)))
        data = copy.copy(data)
        (data.edge_index,) = edge_index
        return data

    def on_all_nodes(
        self,
        edges: Ints | Longs,
        slots: Longs,
        ends: Longs,
        relation: Longs,
        moved: Longs | None = None,
        looks: Longs | None = None,
    ) -> ModelInput:
        """Make a graph of all nodes and these edges (ordered by relation), with these links.

        Args:
            edges: flat edges.
            slots: per edge, its position in the edges of the batch, or -1.
            ends: [2, num_links], flat nodes.
            relation: per link, the position of its type in `graph.edge_types`.
            moved: [4, num_moved], further edges: the flat edge whose attributes they have, its
                position in the edges of the batch, source and target.
            looks: per flat node, the one whose features it has. None: its own.
        """
        graph = self.graph
        sizes = np.diff(graph.node_offset)
        edge_index = np.empty((2, len(edges)), dtype=np.int64)
        for row, flat in zip(edge_index, (graph.src, graph.dst), strict=True):
            row[:] = flat[edges]
        if moved is not None and moved.shape[1]:
            edges = np.concatenate([edges, moved[0]])
            order = np.argsort(graph.relation[edges], kind="stable")
            edges, slots = edges[order], np.concatenate([slots, moved[1]])[order]
            edge_index = np.concatenate([edge_index, moved[2:]], axis=1)[:, order]
        for row in edge_index:
            row -= graph.node_offset[graph.node_type_of[row]]
        label_index = ends - graph.node_offset[graph.node_type_of[ends]]
        node_ids = [np.arange(size) for size in sizes]
        if looks is not None:
            node_ids = np.split(looks, graph.node_offset[1:-1])
            node_ids = [
                ids - first for ids, first in zip(node_ids, graph.node_offset, strict=False)
            ]
        return self.assemble(
            node_ids, edges, edge_index, slots, label_index, relation, all_nodes=looks is None
        )

    def assemble(
        self,
        node_ids: Sequence[Longs],
        edges: Ints | Longs,
        edge_index: Longs,
        slots: Longs,
        label_index: Longs,
        relation: Longs,
        all_nodes: bool = False,
        rings: tuple[Rings, ...] = (),
    ) -> ModelInput:
        """Make a graph of the user's class of these nodes and edges (ordered by relation)."""
        graph = self.graph
        column, index, label_type, label, position, *keeps = to_device(
            [graph.column[edges].astype(np.int64), edge_index, graph.label_value[relation],
             label_index, slots, *node_ids],
            self.device,
        )  # fmt: skip
        if self._hetero:
            bounds = np.searchsorted(graph.relation[edges], np.arange(graph.num_relations + 1))
            sizes = np.diff(bounds).tolist()
            stored = graph.edge_types[: graph.num_relations]
            data = with_edges(self._data, dict(zip(stored, index.split(sizes, 1), strict=True)))
            whole = data.stores[0]  # what is of no node type and of no relation
            for key, value in list(whole.items()):
                whole[key] = self._copy(value) if isinstance(value, Tensor) else value
            for node_type, keep in zip(graph.node_types, keeps, strict=True):
                nodes, origin = data[node_type], self._origin
                self._slice_store(nodes, "num_nodes", None if all_nodes else keep, len(keep))
                nodes.n_id = keep if origin is None else origin[node_type][keep]
            split = zip(stored, column.split(sizes), graph.edge_counts, strict=False)
            for edge_type, columns, count in split:
                if len(data._edge_store_dict[edge_type]._mapping) > 1:
                    self._slice_store(data[edge_type], "edge_index", columns, count)
        else:
            data = copy.copy(self._data)
            (keep,) = keeps
            self._slice_homogeneous(data, None if all_nodes else keep, column)
            data.n_id, data.num_nodes, data.edge_index = keep, len(keep), index
        data.edge_label_type = label_type
        made = Assembled(data, label, rings)
        return ModelInput(lambda: made, position)

    def features(self, node_type: str, ids: Longs) -> Tensor:
        """Return the features of nodes of a type, or what a model takes for their ids."""
        keep, store = torch.from_numpy(ids).to(self.device), self._data[node_type]
        if "x" in store:
            return _rows(store["x"], keep)
        return keep if self._origin is None else self._origin[node_type][keep]

    def _slice_store(self, store: Any, skip: str, keep: Tensor | None, size: int) -> None:
        """Cut every per-node (per-edge) tensor of a store down to the kept nodes (edges).

        The size is what is kept of nodes, and what there was of edges, which are cut already.
        """
        is_edges = skip == "edge_index"
        total = size if is_edges else store.num_nodes
        for key, value in list(store.items()):
            if key == "name" and keep is not None:
                del store[key]
            elif isinstance(value, Tensor) and key != skip:
                whole = key in ("edge_label", "edge_label_index") or value.dim() == 0
                of_each = not whole and value.shape[0] == total
                store[key] = _rows(value, keep) if of_each else self._copy(value)
        if not is_edges:
            store.num_nodes = size

    def _slice_homogeneous(self, data: Data, keep: Tensor | None, column: Tensor) -> None:
        tensors = {key: value for key, value in data.items() if isinstance(value, Tensor)}
        # Which is which is found out before anything is cut: PyG tells by the sizes of the others.
        of_edges = [key for key in tensors if key != "edge_index" and data.is_edge_attr(key)]
        of_nodes = [key for key in tensors if key not in of_edges and data.is_node_attr(key)]
        for key, value in tensors.items():
            if key in of_edges:
                data[key] = _rows(value, column)
            elif key in of_nodes:
                data[key] = _rows(value, keep)
            elif key != "edge_index":
                data[key] = self._copy(value)
        if "name" in data:
            del data["name"]


def _rows(value: Tensor, keep: Tensor | None) -> Tensor:
    """A copy of some rows of a tensor; None: of all."""
    value = value.detach()
    return value.clone() if keep is None else value[keep.to(value.device)]


def _device_of(data: HeteroData | Data) -> torch.device:
    stores = data.edge_stores if isinstance(data, HeteroData) else [data]
    for store in stores:
        if "edge_index" in store:
            device: torch.device = store["edge_index"].device
            return device
    return torch.device("cpu")


def call_hetero(model: nn.Module, data: Any, edge_label_index: Tensor) -> Tensor:
    """Call a model of a heterogeneous graph; ids take the place of features that are not there."""
    x_dict = {t: data[t].x if "x" in data[t] else data[t].n_id for t in data.node_types}
    of_relations = ((t, store._mapping) for t, store in data._edge_store_dict.items())
    edges = {t: values["edge_index"] for t, values in of_relations if "edge_index" in values}
    output: Tensor = model(x_dict, edges, edge_label_index)
    return output


def call_homogeneous(model: nn.Module, data: Any, edge_label_index: Tensor) -> Tensor:
    """Call a model of a homogeneous graph, with its relations if it has them."""
    x = data.x if "x" in data and data.x is not None else data.n_id
    kind = (data.edge_type,) if "edge_type" in data else ()
    output: Tensor = model(x, data.edge_index, *kind, edge_label_index)
    return output


def as_logits(output: Any, count: int, kind: Output) -> Tensor:
    """Return what a model gave for a number of links as logits.

    Raises:
        ModelError: it is not one score per link, or not of the kind.
    """
    if not isinstance(output, Tensor) or output.numel() != count:
        got = list(output.shape) if isinstance(output, Tensor) else type(output).__name__
        raise ModelError(
            f"The model must return one number per link ({count} here), got {got}. If it "
            "returns node embeddings, give forward=callable(model, data, edge_label_index)."
        )
    scores: Tensor = output.reshape(count)
    if not scores.is_floating_point():
        raise ModelError(f"The model must return floating-point scores, got {scores.dtype}.")
    if kind == "logit":
        return scores
    if bool(((scores < 0) | (scores > 1)).any()):
        raise ModelError(
            f"output='probability' but the model returned {float(scores.detach().max()):.4g}: "
            "say output='logit' if these are logits."
        )
    return torch.logit(scores, eps=torch.finfo(scores.dtype).eps)
