"""GraphStore: a graph that stays on disk, mapped into memory.

Nothing is read when a store is opened but its manifest; what an explanation needs of the arrays is
read page by page, and the pages are shared by all processes of a machine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch_geometric.data import HeteroData

from pagelink.errors import StoreError
from pagelink.graph.reading import check_phrases
from pagelink.graph.reverse_relations import (
    PairSet,
    given_reverse,
    relation_classes,
    reverse_of_sets,
)
from pagelink.graph.schema import EdgeType, Schema, check_link_type, edge_type_of
from pagelink.graph.typed_graph import TypedGraph
from pagelink.runtime.arrays import Ints, Longs
from pagelink.store.facts import Step
from pagelink.store.layout import check_layout
from pagelink.store.manifest import (
    MANIFEST,
    Array,
    Entry,
    Signature,
    check_file,
    read_manifest,
    signature,
)
from pagelink.store.mapping import map_array, map_table
from pagelink.store.stored_graph import StoredGraph
from pagelink.store.strings import PARTS, StoredStrings
from pagelink.store.verification import remember, verify_files, verify_once

FLAT_ARRAYS = (
    "in_ptr", "src", "dst", "relation", "column", "fact", "opposite", "representative", "arc_ptr",
    "arc_dst", "arc_edge", "arc_reversed", "degree",
)  # fmt: skip
"""Arrays of a `TypedGraph` that a store holds under these names."""


class GraphStore:
    """A graph on disk. `open` it; `data` and `graph()` are the graph as it would be in memory."""

    def __init__(
        self, folder: Path, manifest: dict[str, Any], digest: str, seen: dict[str, Signature]
    ) -> None:
        self.folder = folder
        self.manifest = manifest
        self.digest = digest
        """The sha256 of the manifest: two stores with the same are the same."""
        self._seen = seen
        self._maps: dict[str, Any] = {}

    @classmethod
    def open(cls, folder: Path | str, *, verify: bool | Step = False) -> GraphStore:
        """Open a store.

        Args:
            folder: that `pagelink store` or `save_store` made.
            verify: compare the sha256 of every file, which reads all of them; a function is
                called with what is done, the bytes read, and those there are. False: this is done
                once on a machine, remembered by inode, size and times of the files.

        Raises:
            StoreError: the folder is no store, half-written, of another version, or a file of it
                is missing or not the one that was written; with its name.
        """
        store = cls._opened(Path(folder))
        if verify:
            store.verify(*([verify] if callable(verify) else []))
        else:
            verify_once(store.folder, store.files, store._seen)
        return store

    @classmethod
    def as_made(cls, folder: Path) -> GraphStore:
        """Open a store that this process has just made, and which it need not verify."""
        store = cls._opened(folder)
        remember(folder, store._seen)
        return store

    @classmethod
    def _opened(cls, folder: Path) -> GraphStore:
        manifest, digest = read_manifest(folder)
        check_layout(manifest, folder)
        files = manifest["files"].items()
        seen = {file: check_file(folder / file, entry) for file, entry in files}
        return cls(folder, manifest, digest, {**seen, MANIFEST: signature(folder / MANIFEST)})

    @property
    def files(self) -> dict[str, Entry]:
        """What the manifest says of each file."""
        files: dict[str, Entry] = self.manifest["files"]
        return files

    def verify(self, step: Step = lambda word, done, total: None) -> None:
        """Compare the sha256 of every file with the manifest, and remember that it was done.

        Args:
            step: called with what is done, the bytes read, and those there are.

        Raises:
            StoreError: a file was changed; with its name.
        """
        read_manifest(self.folder)
        verify_files(self.folder, self.files, step)
        remember(self.folder, self._seen)

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy in another process opens the files anew; no array is sent."""
        return _opened_again, (self.folder.absolute(), self.digest)

    @cached_property
    def damage(self) -> StoreError | None:
        """What `verify` finds wrong, looked at once; computed when something fails."""
        try:
            self.verify()
        except StoreError as error:
            return error
        return None

    def check_unchanged(self) -> None:
        """Refuse to go on with a store that was changed since it was opened.

        Raises:
            StoreError: with the file that was written, replaced or removed.
        """
        for file, before in self._seen.items():
            # Without the last time, which is another one when a backup gives a file a second name.
            if signature(self.folder / file)[:3] != before[:3]:
                raise StoreError(
                    f"{self.folder / file}: the file was changed while the store was open. "
                    "Open the store again."
                )

    @property
    def schema(self) -> Schema:
        """What `graph_schema` says of the graph, without reading it."""
        schema: Schema = self.manifest["schema"]
        return schema

    @property
    def edge_types(self) -> tuple[EdgeType, ...]:
        """The relations, in order."""
        return tuple(edge_type_of(each["type"]) for each in self.manifest["relations"])

    @cached_property
    def data(self) -> HeteroData:
        """The graph as PyG knows it, with all edges in memory; names and ids are `StoredStrings`.

        Raises:
            StoreError: an edge has an end that is no node.
        """
        return self._made(with_edges=True)

    @cached_property
    def frame(self) -> HeteroData:
        """What `data` has without its edges: nothing is read before it is used."""
        return self._made(with_edges=False)

    def _made(self, with_edges: bool) -> HeteroData:
        data = HeteroData()
        for each in self.manifest["nodes"]:
            store = data[each["type"]]
            for key, value in each["values"].items():
                store[key] = self._value(value, each["count"])
            store.num_nodes = each["count"]
        for each in self.manifest["relations"]:
            store = data[edge_type := edge_type_of(each["type"])]
            if with_edges:
                sizes = [int(data[node_type].num_nodes) for node_type in edge_type[::2]]
                store.edge_index = torch.from_numpy(self._edge_index(edge_type, sizes))
            for key, value in each["values"].items():
                store[key] = self._value(value, each["count"])
        return data

    def _edge_index(self, edge_type: EdgeType, sizes: list[int]) -> Longs:
        """The ends of the edges of a relation, [2, num_edges], checked against sizes."""
        found = np.ascontiguousarray(self.ends(edge_type).T, dtype=np.int64)
        for row, size in zip(found, sizes, strict=True):
            if row.min(initial=0) < 0 or row.max(initial=-1) >= size:
                raise StoreError(
                    f"{self.folder / 'edge_index.npy'}: damaged, an edge of {edge_type} has an "
                    "end that is no node. Copy the store anew, or build it again."
                )
        return found

    def ends(self, edge_type: EdgeType) -> Ints:
        """Return sources and targets of a relation by column, [num_edges, 2], as they are on disk.

        They are positions within their node types, and are not checked.
        """
        each = self.manifest["relations"][self.edge_types.index(edge_type)]
        first = each["rows"]["first"]
        found: Ints = self._map("edge_index.npy")[first : first + each["count"]]
        return found[:, ::-1] if each["rows"]["turned"] else found

    def graph(
        self,
        link_types: Sequence[EdgeType] = (),
        reverse: Mapping[EdgeType, EdgeType] | None = None,
    ) -> TypedGraph:
        """Return the flat graph over the files; no edge is read.

        Args:
            link_types: relations to predict, stored or not.
            reverse: as `TypedGraph.from_data` takes it. Facts are stored, so that only the reverses
                the store was made with can be given.

        Raises:
            StoreError: other reverses are given, or follow from the names of the link types.
        """
        nodes, relations = self.manifest["nodes"], self.manifest["relations"]
        node_types = tuple(each["type"] for each in nodes)
        for link_type in link_types:
            check_link_type(link_type, node_types)
        stored = self.edge_types
        new = [t for t in dict.fromkeys(link_types) if t not in stored]
        edge_types = (*stored, *new)
        if reverse is None:
            sets = {
                t: PairSet(**each["pairs"]) for t, each in zip(stored, relations, strict=True)
            }  # fmt: skip
            pairs = reverse_of_sets(sets, edge_types)
        else:
            pairs = given_reverse(reverse, edge_types)
        classes = relation_classes(edge_types, pairs)
        if classes[: len(stored)].tolist() != self.manifest["relation_class"]:
            raise StoreError(
                f"{self.folder}: the store was made with other reverse relations than "
                f"{pairs}. Leave reverse out, or explain on the graph in memory: "
                "load_graph(...) of its tables, or GraphStore.data."
            )
        flat: dict[str, Any] = {name: self.array(name) for name in FLAT_ARRAYS}
        return StoredGraph(
            node_types=node_types,
            node_offset=np.cumsum([0, *(each["count"] for each in nodes)], dtype=np.int64),
            edge_types=edge_types,
            edge_counts=(*(each["count"] for each in relations), *(0 for _ in new)),
            mask_sizes=tuple(each["count"] for each in relations),
            reverse=pairs,
            names=self._values("nodes", "name"),
            relation_class=classes,
            label_value=np.arange(len(edge_types)),
            attributes=self._values("relations", "attributes"),
            phrases={
                t: check_phrases(given, t)
                for t, given in self._values("relations", "phrases").items()
            },
            ids=self._values("nodes", "id"),
            store=self,
            **flat,
        )

    def whole_graph(self, link_types: Sequence[EdgeType] = ()) -> TypedGraph:
        """Return `graph` to be used as a whole: what it says of in-edges is read, and checked.

        Raises:
            StoreError: a file is damaged; or as of `graph`.
        """

        def in_range(array: Array, size: int) -> bool:
            return bool(array.min(initial=0) >= 0 and array.max(initial=-1) < size)

        graph = self.graph(link_types)
        fits = {
            "in_ptr": graph.in_ptr[0] == 0
            and graph.in_ptr[-1] == graph.num_edges
            and (np.diff(graph.in_ptr) >= 0).all(),
            "src": in_range(graph.src, graph.num_nodes),
            "relation": in_range(graph.relation, graph.num_relations),
            "node_type": (np.diff(graph.node_type_of) >= 0).all()
            and in_range(graph.node_type_of, len(graph.node_types)),
        }
        for name, whole in fits.items():
            if not whole:
                raise StoreError(
                    f"{self.folder / name}.npy: damaged, a number in it does not fit the rest of "
                    "the graph. Copy the store anew, or build it again."
                )
        return graph

    def _values(self, part: str, key: str) -> dict[Any, Any]:
        """Return one of the values of all node types (`nodes`) or `relations` that have it."""
        return {
            t if isinstance(t := each["type"], str) else edge_type_of(t): self._value(
                values[key], each["count"]
            )
            for each in self.manifest[part]
            if key in (values := each["values"])
        }

    def _value(self, value: dict[str, Any], count: int) -> Any:
        ((kind, said),) = value.items()
        if kind == "array":
            return torch.from_numpy(self._map(said))
        if kind == "strings":
            text, start, hash, place = (self._map(f"{said}.{part}.npy") for part in PARTS)
            return StoredStrings(text, start, hash, place, self.folder / said)
        if kind == "table":
            if said not in self._maps:
                self._maps[said] = map_table(self.folder / said, count)
            return self._maps[said]
        return said

    def array(self, name: str) -> Array:
        """Return one of the arrays of the flat graph."""
        return self._map(f"{name}.npy")

    def _map(self, file: str) -> Array:
        if file not in self._maps:
            self._maps[file] = map_array(self.folder / file, self.manifest["files"][file])
        array: Array = self._maps[file]
        return array


def _opened_again(folder: Path, digest: str) -> GraphStore:
    store = GraphStore.open(folder)
    if store.digest != digest:
        raise StoreError(f"{folder}: not the store that was sent here, but another one.")
    return store
