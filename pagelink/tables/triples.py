"""One table of triples (head, relation, tail) read as a graph."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch
from torch_geometric.data import HeteroData

from pagelink.errors import GraphError
from pagelink.graph.schema import EdgeType
from pagelink.runtime.arrays import Ints, Longs
from pagelink.tables.files import SUFFIXES, TableFile, read_table
from pagelink.tables.folders import names_or_ids

DEFAULT_NODE_TYPE = "entity"
REQUIRED = ("head", "relation", "tail")
OPTIONAL = ("head_type", "tail_type", "head_name", "tail_name")


def read_triples(path: Path) -> HeteroData:
    """Read the graph in a table of triples; see `load_graph`."""
    check_suffix(path)
    file = read_table(path, REQUIRED, OPTIONAL)
    if file.table.num_rows == 0:
        refuse_nothing(path)
    node_types, type_of = _types(file)
    data = HeteroData()
    node = _add_nodes(data, file, node_types, type_of)
    _add_edges(data, file, node_types, type_of, node)
    return data


def check_suffix(path: Path) -> None:
    """Refuse a file that is no table."""
    if path.suffix.lower() not in SUFFIXES:
        raise GraphError(f"{path}: a table of triples ends in {', '.join(SUFFIXES)}.")


def refuse_nothing(path: Path) -> NoReturn:
    """Raise that a table has no rows."""
    raise GraphError(f"{path}: there are no triples.")


def has_types(path: Path, columns: Sequence[str]) -> bool:
    """Return whether the ends of triples have types; one end alone cannot."""
    given = [name for name in ("head_type", "tail_type") if name in columns]
    if len(given) == 1:
        raise GraphError(
            f"{path}: there is a column {given[0]!r}; head_type and tail_type must both be "
            "there, or neither."
        )
    return bool(given)


def _types(file: TableFile) -> tuple[list[str], Ints]:
    """Return the node types, and the position of the type of every end of a triple."""
    if not has_types(file.path, file.table.column_names):
        return [DEFAULT_NODE_TYPE], np.zeros(2 * file.table.num_rows, dtype=np.int32)
    words, codes = _encode(file.keys("head_type"), file.keys("tail_type"))
    return words.to_pylist(), codes


def _add_nodes(data: HeteroData, file: TableFile, node_types: list[str], type_of: Ints) -> Longs:
    """Add the nodes in order of first appearance; return the node of every end of a triple."""
    ids, id_of = _encode(file.keys("head"), file.keys("tail"))
    nothing = pa.chunked_array([pa.nulls(file.table.num_rows, pa.string())])
    names, name_of = _encode(
        *(
            pc.fill_null(file.table[c] if c in file.table.column_names else nothing, "")
            for c in ("head_name", "tail_name")
        )
    )
    named = pc.not_equal(names, "").to_numpy(zero_copy_only=False)[name_of]
    node = np.empty(len(id_of), dtype=np.int64)
    for position in sorted(range(len(node_types)), key=node_types.__getitem__):
        here = np.flatnonzero(type_of == position)
        first = _first_appearance(id_of, here, len(ids))
        present = np.flatnonzero(first >= 0)
        present = present[np.argsort(first[present])]
        rank = np.empty(len(ids), dtype=np.int64)
        rank[present] = np.arange(len(present))
        node[here] = rank[id_of[here]]
        # Of several names of a node, the first one counts.
        first_named = _first_appearance(id_of, here[named[here]], len(ids))[present]
        chosen = pa.array(name_of[first_named], mask=first_named < 0)
        store = data[node_types[position]]
        store.num_nodes = len(present)
        node_ids = ids.take(pa.array(present))
        store.id = node_ids.to_pylist()
        store.name = names_or_ids(names.take(chosen), node_ids).to_pylist()
    return node


def _add_edges(
    data: HeteroData, file: TableFile, node_types: list[str], type_of: Ints, node: Longs
) -> None:
    relations, relation_of = _encode(file.keys("relation"))
    num_types = len(node_types)
    src_type, dst_type = type_of.reshape(-1, 2).T
    kind = (src_type.astype(np.int64) * len(relations) + relation_of) * num_types + dst_type
    order = np.argsort(kind, kind="stable")
    starts = np.flatnonzero(np.diff(kind[order], prepend=-1))
    rows_of: dict[EdgeType, Longs] = {}
    for rows in np.split(order, starts[1:]):
        rest, dst = divmod(int(kind[rows[0]]), num_types)
        src, relation = divmod(rest, len(relations))
        rows_of[node_types[src], relations[relation].as_py(), node_types[dst]] = rows
    ends = node.reshape(-1, 2)
    further = file.further
    for edge_type in sorted(rows_of):
        rows = rows_of[edge_type]
        data[edge_type].edge_index = torch.from_numpy(np.ascontiguousarray(ends[rows].T))
        if further.num_columns:
            data[edge_type].attributes = further.take(pa.array(rows))


def _encode(*columns: pa.ChunkedArray) -> tuple[pa.Array, Ints]:
    """Return the distinct texts, and the position among them of each cell, row by row."""
    chunks = [chunk for column in columns for chunk in column.chunks]
    # All chunks get one dictionary.
    encoded = pa.chunked_array(chunks, pa.string()).dictionary_encode()
    codes = np.concatenate([chunk.indices.to_numpy() for chunk in encoded.chunks])
    by_row = codes.reshape(len(columns), -1).T.ravel()
    return encoded.chunk(0).dictionary, by_row


def _first_appearance(codes: Ints, where: Longs, size: int) -> Longs:
    """Return, for each code, the first of these positions that holds it, or -1."""
    first = np.full(size, -1, dtype=np.int64)
    first[codes[where[::-1]]] = where[::-1]  # backwards: the first position is written last
    return first
