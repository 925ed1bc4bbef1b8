"""A folder of node and edge tables read as a graph."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import NamedTuple, NoReturn
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch
from torch_geometric.data import HeteroData

from pagelink.errors import GraphError, did_you_mean
from pagelink.graph.schema import EdgeType
from pagelink.tables.files import SUFFIXES, TableFile, is_empty, read_table

NODE_COLUMNS = ("id", "name")
EDGE_COLUMNS = ("src", "dst")

# Not allowed in file names somewhere, or they would look like the __ between two parts.
ODD_CHARACTER = re.compile(r'[%/\\:*?"<>|\x00-\x1f\x7f]|(?<=_)_|^_|_$')
# Suggestions out of more ids than this would take longer than reading the graph.
MAX_SUGGESTIONS_FROM = 10_000


def file_stem(*parts: str) -> str:
    """Return how the file of a node type, or of the three parts of an edge type, is called.

    Example:
        >>> file_stem("gene"), file_stem("user", "rates__5/5", "film")
        ('nodes-gene', 'edges-user__rates_%5F5%2F5__film')
    """
    kind = "nodes" if len(parts) == 1 else "edges"
    encoded = (ODD_CHARACTER.sub(lambda odd: f"%{ord(odd[0]):02X}", part) for part in parts)
    return f"{kind}-{'__'.join(encoded)}"


def read_folder(folder: Path) -> HeteroData:
    """Read the graph in a folder; see `load_graph`."""
    tables = find_tables(folder)
    data = HeteroData()
    nodes = {t: _read_nodes(path, t, data) for t, path in tables.nodes.items()}
    for edge_type, path in tables.edges.items():
        _read_edges(path, edge_type, nodes, data)
    return data


def names_or_ids(names: pa.ChunkedArray, ids: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return the names, and the id where there is none."""
    return pc.if_else(is_empty(names), ids, names)


class Tables(NamedTuple):
    """The tables in a folder, in order."""

    nodes: dict[str, Path]
    edges: dict[EdgeType, Path]


def find_tables(folder: Path) -> Tables:
    """Return the node and edge tables in a folder.

    Raises:
        GraphError: a file is called wrongly, there are no edges, or a node type of them is missing.
    """
    nodes, edges = _tables_in(folder)
    if not edges:
        raise GraphError(
            f"{folder}: there is no table of edges. It would be called "
            "edges-<source type>__<relation>__<target type>.csv (or .tsv, .parquet)."
        )
    for (src, _, dst), path in edges.items():
        for node_type in (src, dst):
            if node_type not in nodes:
                raise GraphError(
                    f"{path}: there are no nodes of type {node_type!r}, the file "
                    f"{file_stem(node_type)}.csv (or .tsv, .parquet) is missing."
                    + did_you_mean(node_type, nodes)
                )
    return Tables(dict(sorted(nodes.items())), dict(sorted(edges.items())))


@dataclass(frozen=True)
class _Nodes:
    path: Path
    ids: pa.ChunkedArray


def _tables_in(folder: Path) -> tuple[dict[str, Path], dict[EdgeType, Path]]:
    nodes: dict[str, Path] = {}
    edges: dict[EdgeType, Path] = {}
    for path in sorted(folder.iterdir()):
        name = path.name.lower()
        if name.startswith((".", "extra-", "readme")) or not (
            name.startswith(("nodes", "edges")) or name.endswith(SUFFIXES)
        ):
            continue
        kind, _, rest = path.stem.partition("-")
        parts = tuple(unquote(part) for part in rest.split("__"))
        known = path.suffix.lower() in SUFFIXES and all(parts)
        if known and kind == "nodes" and len(parts) == 1:
            other = nodes.setdefault(parts[0], path)
        elif known and kind == "edges" and len(parts) == 3:
            other = edges.setdefault((parts[0], parts[1], parts[2]), path)
        else:
            raise GraphError(
                f"{path}: a table is called nodes-<type> or edges-<source type>__<relation>__"
                f"<target type>, and ends in {', '.join(SUFFIXES)}. Rename this file, or let its "
                "name begin with extra- if it is not part of the graph."
            )
        if other != path:
            raise GraphError(f"{path}: {other.name} is there too, and means the same table.")
    return nodes, edges


def _read_nodes(path: Path, node_type: str, data: HeteroData) -> _Nodes:
    file = read_table(path, required=NODE_COLUMNS[:1], optional=NODE_COLUMNS[1:])
    ids = file.keys("id")
    if len(ids.unique()) < len(ids):
        _refuse_duplicate(file, ids.to_pylist())
    store = data[node_type]
    store.num_nodes = len(ids)
    store.id = ids.to_pylist()
    store.name = [*store.id]
    if "name" in file.table.column_names:
        store.name = names_or_ids(file.table["name"], ids).to_pylist()
    further = file.further
    features = [name for name in further.column_names if _is_feature(further[name])]
    if features:
        columns = [further[name].cast(pa.float32(), safe=False).to_numpy() for name in features]
        store.x = torch.from_numpy(np.stack(columns, axis=1))
        store.x_names = features
    if len(features) < further.num_columns:
        store.attributes = further.drop_columns(features)
    return _Nodes(path, ids)


def _is_feature(column: pa.ChunkedArray) -> bool:
    return is_feature(column.type, len(column), column.null_count > 0)


def is_feature(kind: pa.DataType, num_rows: int, has_missing: bool) -> bool:
    """Whether a model can read a column: all numbers, none missing."""
    if pa.types.is_null(kind):  # a text file without rows does not tell its types
        return num_rows == 0
    number = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    return bool(number and not has_missing)


def _read_edges(
    path: Path, edge_type: EdgeType, nodes: dict[str, _Nodes], data: HeteroData
) -> None:
    file = read_table(path, required=EDGE_COLUMNS)
    edge_index = np.empty((2, file.table.num_rows), dtype=np.int64)
    for row, (column, node_type) in enumerate(
        zip(EDGE_COLUMNS, (edge_type[0], edge_type[2]), strict=True)
    ):
        keys = file.keys(column)
        index = pc.index_in(keys, value_set=nodes[node_type].ids)
        if index.null_count:
            row = pc.index(pc.is_null(index), True).as_py()
            known = nodes[node_type]
            refuse_unknown(file, row, column, node_type, known.path, known.ids.to_pylist())
        edge_index[row] = index.to_numpy()
    data[edge_type].edge_index = torch.from_numpy(edge_index)
    if file.further.num_columns:
        data[edge_type].attributes = file.further


def _refuse_duplicate(file: TableFile, ids: Sequence[str]) -> None:
    first: dict[str, int] = {}
    for row, key in enumerate(ids):
        if key in first:
            refuse_duplicate(file, first[key], row, key)
        first[key] = row


def refuse_duplicate(file: TableFile, earlier: int, row: int, key: str) -> NoReturn:
    """Raise that an id is there twice."""
    place = file.place(earlier).rpartition(", ")[2]
    raise GraphError(f"{file.place(row)}: the id {key!r} is there already, on {place}.")


def refuse_unknown(
    file: TableFile, row: int, column: str, node_type: str, nodes: Path, ids: Iterable[str]
) -> NoReturn:
    """Raise that an edge names a node that is not there; the ids may be read twice."""
    key = str(file.table[column][row].as_py())
    raise GraphError(
        f"{file.place(row)}: {column} is {key!r}, but {nodes.name} has no {node_type} with "
        f"this id.{_suggestion(key, ids)}"
    )


def _suggestion(key: str, ids: Iterable[str]) -> str:
    def bare(key: str) -> str:
        return key.strip().casefold().lstrip("0")

    # Spreadsheets drop leading zeros; a difference in case or spaces is not easily seen.
    same = next((i for i in ids if bare(i) == bare(key)), None)
    if same is not None:
        return f" Did you mean {same!r}?"
    alike = (i for i in ids if i[:1] == key[:1] or i[-1:] == key[-1:])
    return did_you_mean(key, islice(alike, MAX_SUGGESTIONS_FROM))
