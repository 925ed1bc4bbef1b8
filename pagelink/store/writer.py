"""StoreWriter: a store made of pieces, for graphs that do not fit into memory."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pagelink.errors import GraphError, SettingsError
from pagelink.graph.reverse_relations import (
    PairSet,
    relation_classes,
    reverse_name,
    reverse_of_sets,
    without_reverse,
)
from pagelink.graph.schema import EdgeType, Schema
from pagelink.store.external_sort import Edges, SortedEdges, Spool, num_mirrored, sort_edges
from pagelink.store.facts import FlatBuild, Step, write_flat_graph
from pagelink.store.files import ArrayWriter, begin_store
from pagelink.store.graph_store import GraphStore
from pagelink.store.manifest import finish_store, write_errors
from pagelink.store.values import NodesWriter, Texts, Value, make_manifest, write_ipc

EDGES_IN_MEMORY = 4_000_000
MOST_EDGES = 2**30
TEMPORARY = "temporary"


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
        self._nodes: dict[str, NodesWriter] = {}
        self._edges: dict[EdgeType, Spool] = {}
        self._reach: dict[EdgeType, npt.NDArray[np.int64]] = {}
        self._edge_values: dict[EdgeType, dict[str, Value]] = {}
        with write_errors(self.folder):
            self.temporary.mkdir()

    def __enter__(self) -> StoreWriter:
        return self

    def __exit__(self, *failed: object) -> None:
        shutil.rmtree(self.temporary, ignore_errors=True)
        self.files.__exit__(*failed)

    @property
    def sizes(self) -> dict[str, int]:
        """The node types so far, with their numbers of nodes."""
        return {t: nodes.count for t, nodes in self._nodes.items()}

    def add_nodes(
        self,
        node_type: str,
        count: int,
        *,
        ids: Texts | None = None,
        names: Texts | None = None,
    ) -> None:
        """Add nodes behind those of their type; all of a type have ids, or none, and so on."""
        if node_type not in self._nodes:
            self._nodes[node_type] = NodesWriter(self.files, node_type, len(self._nodes))
        with write_errors(self.folder):
            self._nodes[node_type].add(count, ids, names)

    def set_features(
        self,
        node_type: str,
        pieces: Iterable[npt.NDArray[Any]],
        names: Sequence[str] | None = None,
    ) -> None:
        """Give all nodes of a type their features, rows in pieces of shape [n, num_features]."""
        nodes = self._of(node_type)
        with write_errors(self.folder):
            nodes.set_features(pieces, names)

    def set_node_attributes(
        self, node_type: str, schema: pa.Schema, pieces: Iterable[pa.Table]
    ) -> None:
        """Give all nodes of a type their attributes, a table in pieces."""
        nodes = self._of(node_type)
        with write_errors(self.folder):
            nodes.set_attributes(schema, pieces)

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
        name = f"relation{list(self._edges).index(edge_type)}.attributes"
        with write_errors(self.folder):
            self._edge_values[edge_type]["attributes"] = {
                "table": write_ipc(self.files, name, schema, pieces)
            }

    def finish(
        self, *, add_reverse: bool = True, notes: Mapping[str, Any] | None = None
    ) -> GraphStore:
        """Sort what came, write the flat graph and the manifest, and open the store.

        Args:
            add_reverse: add the reverse of every relation that lacks one, as `load_graph` does.
            notes: what else the manifest is to say, as plain values.
        """
        with write_errors(self.folder):
            manifest = self._write(self._checked_edges(), add_reverse)
            shutil.rmtree(self.temporary)
            finish_store(self.folder, {**manifest, **(notes or {})})
        return GraphStore.open(self.folder)

    def _of(self, node_type: str) -> NodesWriter:
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
        offsets = np.cumsum([0, *self.sizes.values()]).tolist()
        count = sum(each.count for each in edges.values())
        if offsets[-1] >= 2**31 or count >= MOST_EDGES:
            _refuse_size()
        in_order = self._sorted(edges, in_order)
        sets = {t: each.pairs for t, each in in_order.items()}
        pairs = reverse_of_sets(sets, list(edges))
        classes = relation_classes(list(edges), pairs)
        near = {t: [] if t in pairs else self._near(t, edges, sets) for t in edges}
        self._write_columns(edges, count)
        types = np.arange(len(self._nodes), dtype=np.int32)
        self.files.array("node_type", np.repeat(types, list(self.sizes.values())))
        build = FlatBuild(
            self.files, self.temporary, dict(zip(self._nodes, offsets, strict=False)), offsets[-1],
            edges, classes, self.limit, self.step,
        )  # fmt: skip
        write_flat_graph(build, list(in_order.values()))
        return make_manifest(
            self.sizes, node_values, sets, near, [self._edge_values[t] for t in edges],
            classes.tolist(), pairs, self._schema(in_order), self.files.entries,
        )  # fmt: skip

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

    def _schema(self, in_order: dict[EdgeType, SortedEdges]) -> Schema:
        return {
            "nodes": {t: nodes.schema for t, nodes in self._nodes.items()},
            "relations": [
                {"type": list(t), "count": each.spool.count, "edges": each.fingerprint}
                for t, each in in_order.items()
            ],
        }


def _refuse_size() -> NoReturn:
    raise GraphError(
        "Graphs of 2^30 edges or more, reverses included, do not fit the 32-bit indices used here. "
        "Leave out relations that no path is to use, or edges that say least."
    )
