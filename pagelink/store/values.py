"""What a store holds of nodes and edges beside the flat graph: features, names, tables."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import torch
from torch_geometric.data import HeteroData

from pagelink.errors import GraphError, StoreError
from pagelink.graph.reverse_relations import PairSet
from pagelink.graph.schema import EdgeType, Fingerprint, Schema
from pagelink.store.files import ArrayWriter, StoreFiles
from pagelink.store.manifest import Entry
from pagelink.store.strings import StringsWriter, write_strings

TEXT_KEYS = ("name", "id")
# Rows of a table that lie together. All stores have the same, so that equal tables are equal files.
BATCH_ROWS = 1 << 14

Value = dict[str, Any]
"""How a value is stored: {"array": file}, {"strings": files}, {"table": file} or {"plain": it}."""


def write_values(files: StoreFiles, data: HeteroData) -> tuple[list[dict[str, Value]], ...]:
    """Write what nodes and edges have; return how, per node type and per relation."""
    for key in data.stores[0]:
        raise StoreError(f"data[{key!r}] cannot be stored: a store holds nodes and edges only.")
    tables: dict[int, Value] = {}

    def values(place: object, prefix: str, left_out: str) -> dict[str, Value]:
        store, where = data[place], f"data[{place!r}]"
        return {
            key: _write_value(files, f"{prefix}.{_file_name(key)}", f"{where}.{key}", store, tables)
            for key in store if key != left_out
        }  # fmt: skip

    nodes = [values(t, f"node{i}", "num_nodes") for i, t in enumerate(data.node_types)]
    edges = [values(t, f"relation{i}", "edge_index") for i, t in enumerate(data.edge_types)]
    return nodes, edges


def _write_value(
    files: StoreFiles, name: str, where: str, store: Any, tables: dict[int, Value]
) -> Value:
    key = where.rpartition(".")[2]
    value = store[key]
    if isinstance(value, torch.Tensor):
        try:
            return {"array": files.array(name, value.detach().cpu().numpy())}
        except TypeError as error:
            raise StoreError(f"{where} cannot be stored: NumPy has no {value.dtype}.") from error
    if key in TEXT_KEYS:
        texts = [str(text) for text in value]
        if key == "name" and "id" in store and texts == [str(text) for text in store["id"]]:
            return {"strings": name.removesuffix("name") + "id"}
        return {"strings": write_strings(files, name, pa.array(texts, pa.large_string()))}
    if isinstance(value, pa.Table):
        # A relation and its reverse share one table.
        if id(value) not in tables:
            tables[id(value)] = {"table": write_ipc(files, name, value.schema, [value])}
        return tables[id(value)]
    try:
        if json.loads(json.dumps(value)) == value:
            return {"plain": value}
    except (TypeError, ValueError):
        pass
    raise StoreError(
        f"{where} is a {type(value).__name__}, which cannot be stored. Make it a tensor or a "
        "column of attributes, or delete it first."
    )


def _file_name(key: str) -> str:
    return key if re.fullmatch(r"[a-z0-9_]+", key) else key.encode().hex()


def write_ipc(files: StoreFiles, name: str, schema: pa.Schema, pieces: Iterable[pa.Table]) -> str:
    """Write a table that comes in pieces as Arrow IPC; dictionaries are written out."""
    plain = _plain(schema)
    file = f"{name}.arrow"
    with pa.OSFile(str(files.folder / file), "wb") as sink, pa.ipc.new_file(sink, plain) as writer:
        for batch in _batches(piece.cast(plain) for piece in pieces):
            writer.write_batch(batch)
    return files.add(file)


def _plain(schema: pa.Schema) -> pa.Schema:
    return pa.schema(
        [f.with_type(f.type.value_type) if pa.types.is_dictionary(f.type) else f for f in schema]
    )


class TableSpool:
    """Rows of tables that come by relation in any order, kept in one file, read back by relation.

    One file for all of them: there may be more relations than a process may have open files.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._out: Any = None
        self._batches_of: dict[EdgeType, list[int]] = {}
        self._count = 0

    def add(self, edge_type: EdgeType, rows: pa.Table) -> None:
        """Put down the next rows of a relation; all tables have the same schema."""
        schema = _plain(rows.schema)
        if self._out is None:
            self._out = pa.ipc.new_file(str(self._path), schema)
        for batch in rows.cast(schema).combine_chunks().to_batches():
            self._out.write_batch(batch)
            self._batches_of.setdefault(edge_type, []).append(self._count)
            self._count += 1

    def drain(self) -> Iterator[tuple[EdgeType, pa.Schema, Iterator[pa.Table]]]:
        """Yield the relations, each with the pieces of its table."""
        if self._out is None:
            return
        self._out.close()
        with pa.memory_map(str(self._path)) as source:
            reader = pa.ipc.open_file(source)
            for edge_type, numbers in self._batches_of.items():
                pieces = (pa.Table.from_batches([reader.get_batch(i)]) for i in numbers)
                yield edge_type, reader.schema, pieces


def _batches(pieces: Iterable[pa.Table]) -> Iterator[pa.RecordBatch]:
    """Cut pieces of any length into batches of one length."""
    waiting: list[pa.Table] = []
    rows = 0
    for piece in pieces:
        waiting.append(piece)
        rows += piece.num_rows
        if rows >= BATCH_ROWS:
            together = pa.concat_tables(waiting)
            whole = rows - rows % BATCH_ROWS
            for first in range(0, whole, BATCH_ROWS):
                yield _one_batch(together.slice(first, BATCH_ROWS))
            waiting, rows = [together.slice(whole)], rows - whole
    if rows:
        yield _one_batch(pa.concat_tables(waiting))


def _one_batch(rows: pa.Table) -> pa.RecordBatch:
    (batch,) = rows.combine_chunks().to_batches()
    # A slice has the cells around it in its buffers; a copy has not.
    return batch.take(pa.array(range(batch.num_rows)))


def make_manifest(
    sizes: Mapping[str, int],
    node_values: list[dict[str, Value]],
    sets: Mapping[EdgeType, PairSet],
    near_reverses: Mapping[EdgeType, list[EdgeType]],
    edge_values: list[dict[str, Value]],
    relation_class: list[int],
    reverse: Mapping[EdgeType, EdgeType],
    schema: Schema,
    files: Mapping[str, Entry],
) -> dict[str, Any]:
    """Put together what the manifest of a store says."""
    counts = {tuple(each["type"]): each["count"] for each in schema["relations"]}
    return {
        "nodes": [
            {"type": t, "count": size, "values": values}
            for (t, size), values in zip(sizes.items(), node_values, strict=True)
        ],
        "relations": [
            {
                "type": list(t), "count": counts[t], "pairs": vars(sets[t]),
                "near_reverses": [list(other) for other in near_reverses[t]], "values": values,
            }
            for t, values in zip(sets, edge_values, strict=True)
        ],
        "relation_class": relation_class,
        "reverse": [[list(first), list(second)] for first, second in reverse.items()],
        "schema": schema,
        "files": dict(sorted(files.items())),
    }  # fmt: skip


# The nodes of one type of a store that is being made: ids, names, features, attributes.


Texts: TypeAlias = Sequence[str] | Any
"""Texts as a list, or as an Arrow array."""


class NodesWriter:
    """Writes what nodes of a type have; ids and names come in pieces."""

    def __init__(self, files: StoreFiles, node_type: str, position: int) -> None:
        self.count = 0
        self._files = files
        self._type = node_type
        self._prefix = f"node{position}"
        self._texts: dict[str, StringsWriter] = {}
        self._names_differ = False
        self._values: dict[str, Value] = {}
        self._schema: Schema = {"num_features": 0, "names": None, "features": None}

    @property
    def schema(self) -> Schema:
        """What `graph_schema` says of the nodes, when all is complete."""
        return {"count": self.count, **self._schema}

    def add(self, count: int, ids: Texts | None, names: Texts | None) -> None:
        """Add nodes behind the others."""
        texts = {k: _as_array(v) for k, v in (("id", ids), ("name", names)) if v is not None}
        if self.count and texts.keys() != self._texts.keys():
            raise GraphError(f"Some nodes of type {self._type!r} have ids or names, some do not.")
        for key, values in texts.items():
            if len(values) != count or values.null_count:
                raise GraphError(
                    f"{count} {key}s of {self._type!r} are due, got {len(values)}, "
                    f"{values.null_count} of them empty."
                )
            if key not in self._texts:
                self._texts[key] = StringsWriter(self._files, f"{self._prefix}.{key}")
            self._texts[key].add(values)
        if len(texts) == 2 and count and not self._names_differ:
            self._names_differ = not pc.all(pc.equal(texts["id"], texts["name"])).as_py()
        self.count += count

    def set_features(self, pieces: Iterable[npt.NDArray[Any]], names: Sequence[str] | None) -> None:
        """Write the features of all nodes."""
        digest, writer = Fingerprint(), None
        for piece in pieces:
            if writer is None:
                shape = (self.count, piece.shape[1])
                writer = ArrayWriter(self._files, f"{self._prefix}.x", piece.dtype, shape)
                self._schema["num_features"] = piece.shape[1]
            writer.write(piece)
            digest.add(piece)
        if writer is None:
            raise GraphError(f"Features of {self._type!r}: give at least one piece.")
        writer.close()
        self._values["x"] = {"array": writer.file}
        self._schema["features"] = digest.text
        if names is not None:
            self._values["x_names"] = {"plain": list(names)}

    def set_attributes(self, schema: pa.Schema, pieces: Iterable[pa.Table]) -> None:
        """Write the attributes of all nodes."""
        name = f"{self._prefix}.attributes"
        self._values["attributes"] = {"table": write_ipc(self._files, name, schema, pieces)}

    def complete(self) -> dict[str, Value]:
        """Complete the files, and return how each value is stored."""
        values: dict[str, Value] = {}
        if "id" in self._texts:
            values["id"] = {"strings": self._texts["id"].close()}
        if "name" in self._texts:
            self._schema["names"] = self._texts["name"].fingerprint
            if "id" in self._texts and not self._names_differ:
                self._texts["name"].discard()
                values["name"] = values["id"]
            else:
                values["name"] = {"strings": self._texts["name"].close()}
        return values | self._values


def _as_array(texts: Texts) -> pa.Array:
    if isinstance(texts, pa.ChunkedArray):
        return texts.combine_chunks()
    return texts if isinstance(texts, pa.Array) else pa.array(texts, pa.string())
