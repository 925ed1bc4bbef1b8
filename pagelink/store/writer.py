"""StoreWriter: a store made of pieces, for graphs that do not fit into memory.

`save_store` hands it a graph that is in memory.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NoReturn, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from torch_geometric.data import HeteroData

from pagelink.errors import GraphError, SettingsError, StoreError
from pagelink.graph.reading import read_data
from pagelink.graph.reverse_relations import (
    PairSet,
    relation_classes,
    reverse_name,
    reverse_of_sets,
    without_reverse,
)
from pagelink.graph.schema import EdgeType, Fingerprint, graph_schema
from pagelink.store.external_sort import (
    Edges,
    SortedEdges,
    Spool,
    num_mirrored,
    sort_edges,
    write_once,
)
from pagelink.store.facts import FlatBuild, Step, write_flat_graph
from pagelink.store.graph_store import GraphStore
from pagelink.store.manifest import ArrayWriter, StoreFiles, finish_store, write_errors
from pagelink.store.strings import StringsWriter
from pagelink.store.values import (
    NodeValues,
    TableSpool,
    Value,
    check_finite,
    write_ipc,
    write_values,
)

EDGES_IN_MEMORY = 4_000_000
MOST_EDGES = 2**31
"""Edges and nodes are numbered by 31 bits; the last one is for flags while a store is made."""
TEMPORARY = "temporary"

Texts: TypeAlias = Sequence[str] | Any
"""Texts as a list, or as an Arrow array."""


class StoreWriter:
    """Makes a store of nodes and edges that come in pieces; edges go through the disk.

    Memory is needed for a small multiple of the nodes, and for `edges_in_memory` edges, or all
    edges of one node if these are more. Use it in a `with` block: if the store cannot be
    completed, nothing is left of it; of a process that is killed, a half-written one is.

    Args:
        out: the folder to make.
        edges_in_memory: how many edges are sorted at a time.
        progress: called for each step with its name, done and total.

    Raises:
        StoreError: the folder cannot be written, or there is something in it.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with StoreWriter(Path(folder) / "store") as writer:
        ...         writer.add_nodes("user", 3, names=["Ada", "Bo", "Cy"])
        ...         writer.add_edges(("user", "knows", "user"), np.array([[0], [1]]))
        ...         writer.add_edges(("user", "knows", "user"), np.array([[1], [2]]))
        ...         store = writer.finish()
        ...     store.edge_types, store.graph().degree.tolist()
        ((('user', 'knows', 'user'), ('user', 'rev_knows', 'user')), [1, 2, 1])
    """

    def __init__(
        self,
        out: Path | str,
        *,
        edges_in_memory: int = EDGES_IN_MEMORY,
        progress: Step | None = None,
    ) -> None:
        if edges_in_memory < 1:
            raise SettingsError(f"edges_in_memory must be at least 1, got {edges_in_memory}.")
        self.folder = Path(out)
        self.files = StoreFiles(self.folder)
        self.temporary = self.folder / TEMPORARY
        self.limit = edges_in_memory
        self.step: Step = progress or (lambda word, done, total: None)
        self._nodes: dict[str, NodeValues] = {}
        self._edges: dict[EdgeType, Spool] = {}
        self._reach: dict[EdgeType, npt.NDArray[np.int64]] = {}
        self._edge_values: dict[EdgeType, dict[str, Value]] = {}
        self._mixed_attributes = TableSpool(self.temporary / "attributes.arrow")
        with write_errors(self.folder):
            self.temporary.mkdir()

    def __enter__(self) -> StoreWriter:
        return self

    def __exit__(self, *failed: object) -> None:
        shutil.rmtree(self.temporary, ignore_errors=True)
        self.files.close(failed[0] is not None)

    def add_nodes(
        self,
        node_type: str,
        count: int,
        *,
        ids: Texts | None = None,
        names: Texts | None = None,
    ) -> None:
        """Add nodes behind those of their type; all of a type have ids, or none, and so on."""
        nodes = self._nodes.setdefault(node_type, NodeValues(f"node{len(self._nodes)}"))
        texts = {k: _as_array(v) for k, v in (("id", ids), ("name", names)) if v is not None}
        if nodes.count and texts.keys() != nodes.texts.keys():
            raise GraphError(f"Some nodes of type {node_type!r} have ids or names, some do not.")
        for key, values in texts.items():
            if len(values) != count or values.null_count:
                raise GraphError(
                    f"{count} {key}s of {node_type!r} are due, got {len(values)}, "
                    f"{values.null_count} of them empty."
                )
            with write_errors(self.folder):
                if key not in nodes.texts:
                    nodes.texts[key] = StringsWriter(self.files, f"{nodes.prefix}.{key}")
                nodes.texts[key].add(values)
        if len(texts) == 2 and count and not nodes.names_differ:
            nodes.names_differ = not pc.all(pc.equal(texts["id"], texts["name"])).as_py()
        nodes.count += count

    def set_features(
        self,
        node_type: str,
        pieces: Iterable[npt.NDArray[Any]],
        names: Sequence[str] | None = None,
    ) -> None:
        """Give all nodes of a type their features, rows in pieces of shape [n, num_features].

        Raises:
            GraphError: one of them is NaN or infinite; with its row.
        """
        nodes = self._of(node_type)
        pieces = iter(pieces)
        first = next(pieces, None)
        if first is None:
            raise GraphError(f"Features of {node_type!r}: give at least one piece.")
        shape, digest = (nodes.count, first.shape[1]), Fingerprint()
        with (
            write_errors(self.folder),
            ArrayWriter(self.files, f"{nodes.prefix}.x", first.dtype, shape) as writer,
        ):
            row = 0
            for piece in chain([first], pieces):
                check_finite(piece, f"The features of {node_type!r}", row)
                writer.write(piece)
                digest.add(piece)
                row += len(piece)
        nodes.schema |= {"num_features": first.shape[1], "features": digest.text}
        nodes.values["x"] = {"array": writer.file}
        if names is not None:
            nodes.values["x_names"] = {"plain": list(names)}

    def set_node_attributes(
        self, node_type: str, schema: pa.Schema, pieces: Iterable[pa.Table]
    ) -> None:
        """Give all nodes of a type their attributes, a table in pieces."""
        nodes = self._of(node_type)
        nodes.values["attributes"] = self._table(nodes.prefix, schema, pieces)

    def add_edges(self, edge_type: EdgeType, edge_index: npt.NDArray[np.integer[Any]]) -> None:
        """Add edges behind those of their relation; `edge_index` is of shape [2, n]."""
        if edge_index.ndim != 2 or len(edge_index) != 2:
            raise GraphError(
                f"{edge_type}: edges have the shape [2, n], got {list(edge_index.shape)}."
            )
        if edge_index.min(initial=0) < 0 or edge_index.max(initial=0) >= 2**31:
            raise GraphError(f"{edge_type}: an edge has a node below 0 or above 2^31.")
        if sum(each.count for each in self._edges.values()) + edge_index.shape[1] >= MOST_EDGES:
            _refuse_size()  # at once, not after hours of sorting
        with write_errors(self.folder):
            if edge_type not in self._edges:
                self._edges[edge_type] = Spool(self.temporary / f"edges-{len(self._edges)}", 2)
                self._reach[edge_type] = np.full(2, -1, dtype=np.int64)
                self._edge_values[edge_type] = {}
            rows = edge_index.T.astype(np.int32)
            self._edges[edge_type].append(rows)
        self._reach[edge_type] = np.maximum(self._reach[edge_type], rows.max(axis=0, initial=-1))

    def sort_relations(self) -> None:
        """Put the relations into the order of their names."""
        self._edges = {t: self._edges[t] for t in sorted(self._edges)}

    def set_edge_attributes(
        self, edge_type: EdgeType, schema: pa.Schema, pieces: Iterable[pa.Table]
    ) -> None:
        """Give all edges of a relation their attributes, a table in pieces.

        All relations have been added before, and are in order.
        """
        prefix = f"relation{list(self._edges).index(edge_type)}"
        self._edge_values[edge_type]["attributes"] = self._table(prefix, schema, pieces)

    def add_edge_attributes(self, edge_type: EdgeType, rows: pa.Table) -> None:
        """Give the next edges of a relation their attributes; relations come in any order."""
        with write_errors(self.folder):
            self._mixed_attributes.add(edge_type, rows)

    @property
    def edge_types(self) -> tuple[EdgeType, ...]:
        """The relations that were added, in order."""
        return tuple(self._edges)

    def set_phrases(self, phrases: Mapping[EdgeType, tuple[str, str]]) -> None:
        """Say how relations read, from source to target and back; after all attributes."""
        for edge_type, both in phrases.items():
            self._edge_values[edge_type]["phrases"] = {"plain": [*both]}

    def finish(
        self, *, add_reverse: bool = True, notes: Mapping[str, Any] | None = None
    ) -> GraphStore:
        """Sort what came, write the flat graph and the manifest, and open the store.

        Args:
            add_reverse: add the reverse of every relation that lacks one, as `load_graph` does.
            notes: what else the manifest is to say, as plain values.
        """
        with write_errors(self.folder):
            for edge_type, schema, pieces in self._mixed_attributes.drain():
                self.set_edge_attributes(edge_type, schema, pieces)
            manifest = self._write(self._checked_edges(), add_reverse)
            shutil.rmtree(self.temporary)
            finish_store(self.folder, {**manifest, **(notes or {})})
        return GraphStore.as_made(self.folder)

    def _table(self, prefix: str, schema: pa.Schema, pieces: Iterable[pa.Table]) -> Value:
        with write_errors(self.folder):
            return {"table": write_ipc(self.files, f"{prefix}.attributes", schema, pieces)}

    def _of(self, node_type: str) -> NodeValues:
        if node_type not in self._nodes:
            raise GraphError(f"There are no nodes of type {node_type!r}; add them first.")
        return self._nodes[node_type]

    def _checked_edges(self) -> dict[EdgeType, Edges]:
        for edge_type in self._edges:
            for end, node_type in enumerate((edge_type[0], edge_type[2])):
                most, size = int(self._reach[edge_type][end]), self._of(node_type).count
                if most >= size:
                    raise GraphError(
                        f"{edge_type}: an edge has the node {most}, but there are {size} nodes of "
                        f"type {node_type!r}."
                    )
        return {
            t: Edges(spool, self._nodes[t[0]].count, self._nodes[t[2]].count)
            for t, spool in self._edges.items()
        }

    def _write(self, edges: dict[EdgeType, Edges], add_reverse: bool) -> dict[str, Any]:
        node_values = [nodes.complete() for nodes in self._nodes.values()]
        in_order = self._sorted(edges, {})
        if add_reverse:
            for edge_type in without_reverse({t: each.pairs for t, each in in_order.items()}):
                edges[reverse_name(edge_type)] = edges[edge_type].turned
                values = dict(self._edge_values[edge_type])
                values.pop("phrases", None)
                self._edge_values[reverse_name(edge_type)] = values
        sizes = {t: nodes.count for t, nodes in self._nodes.items()}
        if max(sum(sizes.values()), sum(each.count for each in edges.values())) >= MOST_EDGES:
            _refuse_size()
        in_order = self._sorted(edges, in_order)
        edges = write_once(self.files, edges, self.limit)
        sets = {t: each.pairs for t, each in in_order.items()}
        pairs = reverse_of_sets(sets, list(edges))
        classes = relation_classes(list(edges), pairs)
        near = {t: [] if t in pairs else self._near(t, edges, sets) for t in edges}
        types = np.arange(len(self._nodes), dtype=np.int32)
        self.files.array("node_type", np.repeat(types, list(sizes.values())))
        build = FlatBuild(self.files, self.temporary, sizes, edges, classes, self.limit, self.step)
        write_flat_graph(build, list(in_order.values()))
        return {
            "nodes": [
                {"type": t, "count": nodes.count, "values": values}
                for (t, nodes), values in zip(self._nodes.items(), node_values, strict=True)
            ],
            "relations": [
                {
                    "type": list(t),
                    "count": each.count,
                    "rows": {"first": each.rows.first, "turned": each.is_turned},
                    "pairs": vars(sets[t]),
                    "near_reverses": near[t],
                    "values": self._edge_values[t],
                }
                for t, each in edges.items()
            ],
            "relation_class": classes.tolist(),
            "reverse": [[list(first), list(second)] for first, second in pairs.items()],
            "schema": {
                "nodes": {t: {"count": n.count, **n.schema} for t, n in self._nodes.items()},
                "relations": [
                    {"type": list(t), "count": each.count, "edges": in_order[t].fingerprint}
                    for t, each in edges.items()
                ],
            },
            "files": dict(sorted(self.files.entries.items())),
        }

    def _sorted(
        self, edges: dict[EdgeType, Edges], done: dict[EdgeType, SortedEdges]
    ) -> dict[EdgeType, SortedEdges]:
        """Sort the relations that are not yet."""
        found = dict(done)
        for position, (edge_type, each) in enumerate(edges.items()):
            if edge_type not in found:
                found[edge_type] = sort_edges(
                    each, self.temporary, f"relation{position}", self.limit
                )
            self.step("sorting relations", position + 1, len(edges))
        return found

    def _near(
        self, edge_type: EdgeType, edges: dict[EdgeType, Edges], sets: dict[EdgeType, PairSet]
    ) -> list[list[str]]:
        """Return relations that nearly mirror one, as `TypedGraph.near_reverses` does."""
        found = []
        for other in edges:
            if other == edge_type or (other[0], other[2]) != (edge_type[2], edge_type[0]):
                continue
            fewer, more = sorted((sets[edge_type].num_pairs, sets[other].num_pairs))
            if 0 < 0.9 * more <= fewer:
                shared = num_mirrored(edges[edge_type], edges[other], self.limit)
                if shared >= 0.9 * more:
                    found.append(list(other))
        return found


def save_store(data: HeteroData, folder: Path | str) -> GraphStore:
    """Write a graph that is in memory as a store.

    Args:
        data: the graph. Its node and edge values are tensors with a row per node or edge, `name`
            and `id`, `x_names`, and `attributes`; others cannot be stored.
        folder: to make; there may be a half-written store in it.

    Raises:
        StoreError: the folder cannot be written, or the graph holds what a store cannot hold.
        GraphError: the graph is malformed.

    Example:
        >>> import tempfile
        >>> import torch
        >>> data = HeteroData()
        >>> data["user"].name, data["user"].num_nodes = ["Ada", "Bo"], 2
        >>> data["user", "knows", "user"].edge_index = torch.tensor([[0], [1]])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     store = save_store(data, Path(folder) / "store")
        ...     store.graph().find_node("user", "Bo")
        1
    """
    if not isinstance(data, HeteroData):
        raise GraphError(f"save_store needs a HeteroData, got {type(data).__name__}.")
    raw = read_data(data)
    lost = [t for t in data.edge_types if t not in raw.edges]
    if lost:
        raise StoreError(f"data[{lost[0]}] cannot be stored: it has no edge_index.")
    schema = graph_schema(data)["nodes"]
    with StoreWriter(folder) as writer:
        for node_type, size in raw.sizes.items():
            writer.add_nodes(node_type, size)
        for edge_type, edges in raw.edges.items():
            writer.add_edges(edge_type, edges)
        with write_errors(writer.folder):
            node_values, edge_values = write_values(writer.files, data)
        for (node_type, nodes), values in zip(writer._nodes.items(), node_values, strict=True):
            nodes.values, nodes.schema = values, schema[node_type]
        writer._edge_values = dict(zip(raw.edges, edge_values, strict=True))
        return writer.finish(add_reverse=False)


def _as_array(texts: Texts) -> pa.Array:
    return texts if isinstance(texts, pa.Array) else pa.array(texts, pa.string())


def _refuse_size() -> NoReturn:
    raise GraphError(
        "Graphs of 2^31 nodes or edges or more, reverses included, do not fit the 32-bit indices "
        "used here. Leave out relations that no path is to use, or edges that say least."
    )
