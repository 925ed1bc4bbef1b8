"""What a store holds of nodes and edges beside the flat graph: features, names, tables."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy.typing as npt
import pyarrow as pa
import torch
from torch_geometric.data import HeteroData

from pagelink.errors import GraphError, StoreError
from pagelink.graph.schema import EdgeType, Schema, first_not_finite
from pagelink.store.manifest import StoreFiles
from pagelink.store.strings import StringsWriter, write_strings

TEXT_KEYS = ("name", "id")
FEATURES = ("x", "edge_attr", "edge_weight")
"""What models read, by the names that PyG has for it."""
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
            values = value.detach().cpu().numpy()
        except TypeError as error:
            raise StoreError(f"{where} cannot be stored: NumPy has no {value.dtype}.") from error
        if key in FEATURES:
            check_finite(values, where)
        return {"array": files.array(name, values)}
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


def check_finite(values: npt.NDArray[Any], where: str, first_row: int = 0) -> None:
    """Refuse features that no model can compute with.

    Args:
        values: the features, a row per node or edge.
        where: what they are, for the error.
        first_row: the number of the first row.

    Raises:
        GraphError: one of them is NaN or infinite; with its row.
    """
    if (place := first_not_finite(values)) is not None:
        row = ", ".join(map(str, (place[0] + first_row, *place[1:])))
        raise GraphError(
            f"{where}: [{row}] is {values[place]}, but features are finite numbers. Replace it, "
            "or leave the feature out."
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


@dataclass
class NodeValues:
    """What a store that is being made has of the nodes of one type."""

    prefix: str
    """Of the names of its files."""
    count: int = 0
    texts: dict[str, StringsWriter] = field(default_factory=dict)
    names_differ: bool = False
    """From the ids."""
    values: dict[str, Value] = field(default_factory=dict)
    schema: Schema = field(
        default_factory=lambda: {"num_features": 0, "names": None, "features": None}
    )
    """What `graph_schema` says of the nodes beside their count."""

    def complete(self) -> dict[str, Value]:
        """Complete the files, and return how each value is stored."""
        found: dict[str, Value] = {}
        if "id" in self.texts:
            self.schema["ids"] = self.texts["id"].fingerprint
            found["id"] = {"strings": self.texts["id"].close()}
        if "name" in self.texts:
            self.schema["names"] = self.texts["name"].fingerprint
            if "id" in self.texts and not self.names_differ:
                self.texts["name"].discard()
                found["name"] = found["id"]
            else:
                found["name"] = {"strings": self.texts["name"].close()}
        return found | self.values
