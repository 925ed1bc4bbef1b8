"""GraphInMemory: nodes and edges that come in pieces, put together as a graph of PyG."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pyarrow as pa
import torch
from torch_geometric.data import HeteroData

from pagelink.graph.reverse_relations import add_reverse_relations
from pagelink.graph.schema import EdgeType
from pagelink.runtime.arrays import Floats, Longs


class GraphInMemory:
    """Takes the pieces that a `StoreWriter` takes, and makes a `HeteroData` of them.

    Example:
        >>> graph = GraphInMemory()
        >>> graph.add_nodes("user", 2, ids=pa.array(["a", "b"]), names=pa.array(["Ada", "Bo"]))
        >>> graph.add_edges(("user", "knows", "user"), np.array([[0], [1]]))
        >>> graph.finish(add_reverse=False)["user", "knows", "user"].edge_index.tolist()
        [[0], [1]]
    """

    def __init__(self) -> None:
        self._data = HeteroData()
        self._edges: dict[EdgeType, list[Longs]] = {}
        self._attributes: dict[EdgeType, list[pa.Table]] = {}
        self._phrases: Mapping[EdgeType, tuple[str, str]] = {}

    def step(self, word: str, done: int, total: int) -> None:
        """Reading into memory does not take long enough to be reported."""

    def add_nodes(self, node_type: str, count: int, *, ids: pa.Array, names: pa.Array) -> None:
        """Add nodes behind those of their type."""
        store = self._data[node_type]
        if "id" not in store:
            store.num_nodes, store.id, store.name = 0, [], []
        store.num_nodes += count
        words = ids.to_pylist()
        store.id += words
        store.name += words if names is ids else names.to_pylist()

    def set_features(self, node_type: str, pieces: Iterable[Floats], names: Sequence[str]) -> None:
        """Give all nodes of a type their features, rows in pieces of shape [n, num_features]."""
        self._data[node_type].x = torch.from_numpy(np.concatenate(list(pieces)))
        self._data[node_type].x_names = names

    def set_node_attributes(
        self, node_type: str, schema: pa.Schema, pieces: Iterable[pa.Table]
    ) -> None:
        """Give all nodes of a type their attributes, a table in pieces."""
        self._data[node_type].attributes = pa.concat_tables([schema.empty_table(), *pieces])

    def add_edges(self, edge_type: EdgeType, edge_index: Longs) -> None:
        """Add edges behind those of their relation; `edge_index` is of shape [2, n]."""
        self._edges.setdefault(edge_type, []).append(edge_index)

    def set_edge_attributes(
        self, edge_type: EdgeType, schema: pa.Schema, pieces: Iterable[pa.Table]
    ) -> None:
        """Give all edges of a relation their attributes, a table in pieces."""
        self._attributes[edge_type] = [schema.empty_table(), *pieces]

    def add_edge_attributes(self, edge_type: EdgeType, rows: pa.Table) -> None:
        """Give the next edges of a relation their attributes."""
        self._attributes.setdefault(edge_type, []).append(rows)

    def sort_relations(self) -> None:
        """Put the relations into the order of their names."""
        self._edges = dict(sorted(self._edges.items()))

    @property
    def edge_types(self) -> tuple[EdgeType, ...]:
        """The relations that were added, in order."""
        return tuple(self._edges)

    def set_phrases(self, phrases: Mapping[EdgeType, tuple[str, str]]) -> None:
        """Say how relations read, from source to target and back."""
        self._phrases = phrases

    def finish(self, *, add_reverse: bool) -> HeteroData:
        """Return the graph, with the reverse of every relation that lacks one if wanted."""
        for edge_type, pieces in self._edges.items():
            store = self._data[edge_type]
            edge_index = np.ascontiguousarray(np.concatenate(pieces, axis=1))
            store.edge_index = torch.from_numpy(edge_index)
            if edge_type in self._attributes:
                store.attributes = pa.concat_tables(self._attributes[edge_type])
            if edge_type in self._phrases:
                store.phrases = [*self._phrases[edge_type]]
        if add_reverse:
            add_reverse_relations(self._data)
        return self._data
