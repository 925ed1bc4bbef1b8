"""StoreWriter: a store made of pieces, for graphs that do not fit into memory."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pagelink.errors import GraphError, SettingsError
from pagelink.graph.reverse_relations import PairSet, reverse_name, reverse_of_sets, without_reverse
from pagelink.graph.schema import EdgeType, Fingerprint, Schema
from pagelink.graph.typed_graph import relation_classes
from pagelink.store.external_sort import Edges, SortedEdges, Spool, num_mirrored, sort_edges
from pagelink.store.facts import FlatBuild, Step, write_flat_graph
from pagelink.store.graph_store import GraphStore
from pagelink.store.manifest import ArrayWriter, begin_store, finish_store, write_errors
from pagelink.store.strings import StringsWriter
from pagelink.store.values import RelationFacts, TableSpool, Value, make_manifest, write_ipc

EDGES_IN_MEMORY = 4_000_000
MOST_EDGES = 2**30
TEMPORARY = "temporary"


Texts: TypeAlias = Sequence[str] | Any
"""Texts as a list, or as an Arrow array."""


@dataclass
class _Nodes:
    """What has come of the nodes of a type."""

    prefix: str
    count: int = 0
    texts: dict[str, StringsWriter] = field(default_factory=dict)
    names_differ: bool = False
    """From the ids."""
    values: dict[str, Value] = field(default_factory=dict)
    num_features: int = 0
    features: str | None = None
    """Their fingerprint."""

    def complete(self) -> dict[str, Value]:
        """Complete the files, and return how each value is stored."""
        found: dict[str, Value] = {}
        if "id" in self.texts:
            found["id"] = {"strings": self.texts["id"].close()}
        if "name" in self.texts:
            if "id" in self.texts and not self.names_differ:
                self.texts["name"].discard()
                found["name"] = found["id"]
            else:
                found["name"] = {"strings": self.texts["name"].close()}
        return found | self.values

    @property
    def schema(self) -> Schema:
        """What `graph_schema` says of the nodes, when all is complete."""
        names = self.texts["name"].fingerprint if "name" in self.texts else None
        return {
            "count": self.count,
            "num_features": self.num_features,
            "names": names,
            "features": self.features,
        }


class StoreWriter:
    """Makes a store of nodes and edges that come in pieces; edges go through the disk.

    Memory is needed for a small multiple of the nodes, and for `edges_in_memory` edges, or all
    edges of one node if these are more. Use it in a `with` block: if the store cannot be
    completed, nothing is left of it; of a process that is killed, a half-written one is.

    Args:
        out: the folder to make.
        edges_in_memory: how many edges are sorted at a time.
        progress: told of each step by name, done and total.

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
        self.files = begin_store(self.folder)
        self.temporary = self.folder / TEMPORARY
        self.limit = edges_in_memory
        self.step: Step = progress or (lambda word, done, total: None)
        self._nodes: dict[str, _Nodes] = {}
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
        self.files.__exit__(*failed)

    def add_nodes(
        self,
        node_type: str,
        count: int,
        *,
        ids: Texts | None = None,
        names: Texts | None = None,
    ) -> None:
        """Add nodes behind those of their type; all of a type have ids, or none, and so on."""
        nodes = self._nodes.setdefault(node_type, _Nodes(f"node{len(self._nodes)}"))
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
        """Give all nodes of a type their features, rows in pieces of shape [n, num_features]."""
        nodes = self._of(node_type)
        digest, writer = Fingerprint(), None
        with write_errors(self.folder):
            for piece in pieces:
                if writer is None:
                    nodes.num_features = piece.shape[1]
                    shape = (nodes.count, piece.shape[1])
                    writer = ArrayWriter(self.files, f"{nodes.prefix}.x", piece.dtype, shape)
                writer.write(piece)
                digest.add(piece)
            if writer is None:
                raise GraphError(f"Features of {node_type!r}: give at least one piece.")
            writer.close()
        nodes.features = digest.text
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
        if edge_type not in self._edges:
            with write_errors(self.folder):
                self._edges[edge_type] = Spool(self.temporary / f"edges-{len(self._edges)}", 2)
            self._reach[edge_type] = np.full(2, -1, dtype=np.int64)
            self._edge_values[edge_type] = {}
        if edge_index.min(initial=0) < 0 or edge_index.max(initial=0) >= 2**31:
            raise GraphError(f"{edge_type}: an edge has a node below 0 or above 2^31.")
        if edge_index.shape[1]:
            np.maximum(self._reach[edge_type], edge_index.max(axis=1), out=self._reach[edge_type])
        if sum(each.count for each in self._edges.values()) + edge_index.shape[1] >= MOST_EDGES:
            _refuse_size()  # at once, not after hours of sorting
        with write_errors(self.folder):
            self._edges[edge_type].append(edge_index.T.astype(np.int32))

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
        return GraphStore.open(self.folder)

    def _table(self, prefix: str, schema: pa.Schema, pieces: Iterable[pa.Table]) -> Value:
        with write_errors(self.folder):
            return {"table": write_ipc(self.files, f"{prefix}.attributes", schema, pieces)}

    def _of(self, node_type: str) -> _Nodes:
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
                self._edge_values[reverse_name(edge_type)] = self._edge_values[edge_type]
        sizes = [nodes.count for nodes in self._nodes.values()]
        offsets = np.cumsum([0, *sizes]).tolist()
        count = sum(each.count for each in edges.values())
        if offsets[-1] >= 2**31 or count >= MOST_EDGES:
            _refuse_size()
        in_order = self._sorted(edges, in_order)
        sets = {t: each.pairs for t, each in in_order.items()}
        pairs = reverse_of_sets(sets, list(edges))
        classes = relation_classes(list(edges), pairs)
        relations = [
            RelationFacts(
                sets[t], [] if t in pairs else self._near(t, edges, sets), self._edge_values[t]
            )
            for t in edges
        ]
        self._write_columns(edges, count)
        types = np.arange(len(self._nodes), dtype=np.int32)
        self.files.array("node_type", np.repeat(types, sizes))
        build = FlatBuild(
            files=self.files,
            folder=self.temporary,
            node_offset=dict(zip(self._nodes, offsets, strict=False)),
            num_nodes=offsets[-1],
            edges=edges,
            relation_class=classes,
            limit=self.limit,
            step=self.step,
        )
        write_flat_graph(build, list(in_order.values()))
        schema = {
            "nodes": {t: nodes.schema for t, nodes in self._nodes.items()},
            "relations": [
                {"type": list(t), "count": each.spool.count, "edges": each.fingerprint}
                for t, each in in_order.items()
            ],
        }
        return make_manifest(
            schema, node_values, relations, classes.tolist(), pairs, self.files.entries
        )

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
    ) -> list[EdgeType]:
        """Return relations that nearly mirror one, as `TypedGraph.near_reverses` does."""
        found = []
        for other in edges:
            if other == edge_type or (other[0], other[2]) != (edge_type[2], edge_type[0]):
                continue
            fewer, more = sorted((sets[edge_type].num_pairs, sets[other].num_pairs))
            if 0 < 0.9 * more <= fewer:
                shared = num_mirrored(edges[edge_type], edges[other], self.limit)
                if shared >= 0.9 * more:
                    found.append(other)
        return found

    def _write_columns(self, edges: dict[EdgeType, Edges], count: int) -> None:
        with ArrayWriter(self.files, "edge_index", np.int64, (2 * count,)) as writer:
            for each in edges.values():
                for end in (0, 1):
                    for piece in each.pieces(self.limit):
                        writer.write(piece[:, end])


def _as_array(texts: Texts) -> pa.Array:
    return texts if isinstance(texts, pa.Array) else pa.array(texts, pa.string())


def _refuse_size() -> NoReturn:
    raise GraphError(
        "Graphs of 2^30 edges or more, reverses included, do not fit the 32-bit indices used here. "
        "Leave out relations that no path is to use, or edges that say least."
    )
