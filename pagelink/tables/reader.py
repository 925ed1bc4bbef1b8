"""The one reader of graphs in tables: a folder of node and edge tables, or a table of triples.

Tables are read in pieces, and so are nodes and edges handed on: to a `GraphInMemory`, or to a
`StoreWriter`. What is checked, and in which words something is refused, is the same for both.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pagelink.errors import GraphError, did_you_mean
from pagelink.graph.schema import EdgeType, first_not_finite
from pagelink.runtime.arrays import Floats, Longs
from pagelink.store.writer import StoreWriter
from pagelink.tables.columns import as_texts, is_empty
from pagelink.tables.files import SUFFIXES, Piece, TableFile
from pagelink.tables.memory import GraphInMemory
from pagelink.tables.name_index import IdCollector, IntegerIndex, TextIndex

NODE_COLUMNS = ("id", "name")
EDGE_COLUMNS = ("src", "dst")
TRIPLE_COLUMNS = ("head", "relation", "tail")
TYPE_COLUMNS = ("head_type", "tail_type")
NAME_COLUMNS = ("head_name", "tail_name")
DEFAULT_NODE_TYPE = "entity"

# Not allowed in file names somewhere, or they would look like the __ between two parts.
ODD_CHARACTER = re.compile(r'[%/\\:*?"<>|\x00-\x1f\x7f]|(?<=_)_|^_|_$')
# Suggestions out of more ids than this would take longer than reading the graph.
MAX_SUGGESTIONS_FROM = 10_000
NODES_AT_ONCE = 1 << 18

GraphMaker: TypeAlias = GraphInMemory | StoreWriter
"""What nodes and edges are handed to: the two endings of reading."""


@dataclass(frozen=True)
class GraphTables:
    """The tables of a graph, in order: of nodes and of edges, or one of triples."""

    nodes: dict[str, Path]
    edges: dict[EdgeType, Path]
    triples: Path | None = None

    def read_into(self, graph: GraphMaker, rows: int | None = None) -> None:
        """Read all tables, and hand on what they hold.

        Args:
            graph: takes nodes and edges.
            rows: as for `TableFile`; None for tables that fit into memory.

        Raises:
            GraphError: something is wrong in a table, with the line.
        """
        if self.triples is not None:
            _read_triples(graph, self.triples, rows)
        known = {t: _read_nodes(graph, t, path, rows) for t, path in self.nodes.items()}
        for edge_type, path in self.edges.items():
            _read_edges(graph, edge_type, path, known, rows)


def find_tables(path: Path) -> GraphTables:
    """Return the tables in a folder, or the one that a file is.

    Raises:
        GraphError: there is nothing, a file is called wrongly, there are no edges, or a node type
            of them is missing.
    """
    if not path.is_dir() and not path.is_file():
        siblings = [p.name for p in path.parent.iterdir()] if path.parent.is_dir() else []
        raise GraphError(
            f"{path}: there is no such file or folder.{did_you_mean(path.name, siblings)}"
        )
    if path.is_file():
        if path.suffix.lower() not in SUFFIXES:
            raise GraphError(f"{path}: a table of triples ends in {', '.join(SUFFIXES)}.")
        return GraphTables({}, {}, path)
    nodes, edges = _tables_in(path)
    if not edges:
        raise GraphError(
            f"{path}: there is no table of edges. It would be called "
            "edges-<source type>__<relation>__<target type>.csv (or .tsv, .parquet)."
        )
    for (src, _, dst), file in edges.items():
        for node_type in (src, dst):
            if node_type not in nodes:
                raise GraphError(
                    f"{file}: there are no nodes of type {node_type!r}, the file "
                    f"{file_stem(node_type)}.csv (or .tsv, .parquet) is missing."
                    + did_you_mean(node_type, nodes)
                )
    return GraphTables(dict(sorted(nodes.items())), dict(sorted(edges.items())))


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


def file_stem(*parts: str) -> str:
    """Return how the file of a node type, or of the three parts of an edge type, is called.

    Example:
        >>> file_stem("gene"), file_stem("user", "rates__5/5", "film")
        ('nodes-gene', 'edges-user__rates_%5F5%2F5__film')
    """
    kind = "nodes" if len(parts) == 1 else "edges"
    encoded = (ODD_CHARACTER.sub(lambda odd: f"%{ord(odd[0]):02X}", part) for part in parts)
    return f"{kind}-{'__'.join(encoded)}"


def _pieces(graph: GraphMaker, file: TableFile) -> Iterator[Piece]:
    """Yield the pieces of a file, and say how far it has been read."""
    for piece in file.pieces():
        yield piece
        graph.step(f"reading {file.path.name}", piece.last_row, 0)


# Tables of nodes and of edges.


@dataclass(frozen=True)
class _Known:
    """The nodes of a type, found by their ids."""

    path: Path
    index: TextIndex | IntegerIndex

    def __iter__(self) -> Iterator[str]:
        """Read the ids again, for a suggestion in an error."""
        for piece in TableFile(self.path, NODE_COLUMNS[:1]).pieces():
            yield from as_texts(piece.keys("id")).to_pylist()


def _read_nodes(graph: GraphMaker, node_type: str, path: Path, rows: int | None) -> _Known:
    file = TableFile(path, NODE_COLUMNS[:1], NODE_COLUMNS[1:], rows)
    collected = IdCollector()
    for piece in _pieces(graph, file):
        ids = names = as_texts(piece.keys("id"))
        collected.add(ids)
        if "name" in file.names:
            names = as_texts(piece.table["name"])
            names = pc.if_else(is_empty(names), ids, names)
        graph.add_nodes(node_type, len(ids), ids=ids, names=names)
    index = collected.index()
    if collected.twice is not None:
        _refuse_duplicate(file, *collected.twice)
    features = [name for name, column in file.further.items() if column.is_feature]
    others = [column.field for name, column in file.further.items() if name not in features]
    if features:
        graph.set_features(node_type, _numbers(file, features), features)
    if others:
        schema = pa.schema(others)
        pieces = (piece.further.select(schema.names) for piece in file.pieces())
        graph.set_node_attributes(node_type, schema, pieces)
    return _Known(path, index)


def _numbers(file: TableFile, features: list[str]) -> Iterator[Floats]:
    for piece in file.pieces():
        table = piece.further.select(features)
        columns = [column.cast(pa.float32(), safe=False).to_numpy() for column in table.columns]
        found = np.stack(columns, axis=1)
        if (place := first_not_finite(found)) is not None:
            row, column = place
            raise GraphError(
                f"{piece.place(row)}: {features[column]} is {table[column][row].as_py()}, but a "
                "feature is a finite number (32 bits). Give one in every row; or empty the cell: "
                "a column with empty cells is kept as an attribute, which no model reads."
            )
        yield found


def _refuse_duplicate(file: TableFile, earlier: int, row: int) -> None:
    piece = next(piece for piece in file.pieces() if row < piece.last_row)
    key = str(piece.table["id"][row - piece.first_row].as_py())
    place = file.place(earlier).rpartition(", ")[2]
    raise GraphError(f"{file.place(row)}: the id {key!r} is there already, on {place}.")


def _read_edges(
    graph: GraphMaker, edge_type: EdgeType, path: Path, nodes: dict[str, _Known], rows: int | None
) -> None:
    file = TableFile(path, EDGE_COLUMNS, rows=rows)
    for piece in _pieces(graph, file):
        found = np.empty((2, piece.num_rows), dtype=np.int64)
        for end, (column, node_type) in enumerate(zip(EDGE_COLUMNS, edge_type[::2], strict=True)):
            known = nodes[node_type]
            found[end] = known.index.find(piece.keys(column))
            if found[end].min(initial=0) < 0:
                row = int(found[end].argmin())
                key = str(piece.table[column][row].as_py())
                raise GraphError(
                    f"{piece.place(row)}: {column} is {key!r}, but {known.path.name} has no "
                    f"{node_type} with this id.{_suggestion(key, known)}"
                )
        graph.add_edges(edge_type, found)
    if file.further:
        schema = pa.schema([column.field for column in file.further.values()])
        graph.set_edge_attributes(edge_type, schema, (piece.further for piece in file.pieces()))


def _suggestion(key: str, ids: Iterable[str]) -> str:
    """Return which id may be meant; the ids are read twice."""

    def bare(key: str) -> str:
        return key.strip().casefold().lstrip("0")

    # Spreadsheets drop leading zeros; a difference in case or spaces is not easily seen.
    same = next((i for i in ids if bare(i) == bare(key)), None)
    if same is not None:
        return f" Did you mean {same!r}?"
    alike = (i for i in ids if i[:1] == key[:1] or i[-1:] == key[-1:])
    return did_you_mean(key, islice(alike, MAX_SUGGESTIONS_FROM))


# Tables of triples: nodes are numbered as they appear.


class _Numbered:
    """The nodes of a type, in the order of first appearance, and their names."""

    def __init__(self) -> None:
        self._ids = TextIndex()
        self._names = TextIndex()
        self._name_of = np.empty(0, dtype=np.int64)

    def add(self, ids: pa.Array, names: pa.Array | None) -> Longs:
        """Return the nodes of these ids; the first name of a node counts."""
        nodes = self._ids.add(ids)
        more = len(self._ids) - len(self._name_of)
        self._name_of = np.concatenate([self._name_of, np.full(more, -1)])
        if names is not None:
            named = np.flatnonzero(~is_empty(names).to_numpy(zero_copy_only=False))
            named = named[self._name_of[nodes[named]] < 0][::-1]  # the first is written last
            self._name_of[nodes[named]] = self._names.add(names.take(pa.array(named)))
        return nodes

    def pieces(self) -> Iterator[tuple[pa.Array, pa.Array]]:
        """Yield ids and names of all nodes; the id where there is no name."""
        names = self._names.texts()
        for first in range(0, len(self._ids), NODES_AT_ONCE):
            ids = self._ids.texts(first, first + NODES_AT_ONCE)
            numbers = self._name_of[first : first + NODES_AT_ONCE]
            called = names.take(pa.array(numbers, mask=numbers < 0))
            yield ids, pc.if_else(pc.is_null(called), ids, called)


def _read_triples(graph: GraphMaker, path: Path, rows: int | None) -> None:
    file = TableFile(path, TRIPLE_COLUMNS, (*TYPE_COLUMNS, *NAME_COLUMNS), rows)
    given = [name for name in TYPE_COLUMNS if name in file.names]
    if len(given) == 1:
        raise GraphError(
            f"{path}: there is a column {given[0]!r}; head_type and tail_type must both be "
            "there, or neither."
        )
    types: dict[str, _Numbered] = {}
    for piece in _pieces(graph, file):
        node = _nodes_of_ends(piece, types)
        for edge_type, mine in _relations(piece):
            graph.add_edges(edge_type, node[:, mine])
    if not file.num_rows:
        raise GraphError(f"{path}: there are no triples.")
    for node_type in sorted(types):
        for ids, names in types[node_type].pieces():
            graph.add_nodes(node_type, len(ids), ids=ids, names=names)
    graph.sort_relations()
    if file.further:
        for piece in file.pieces():
            further = piece.further
            for edge_type, mine in _relations(piece):
                graph.add_edge_attributes(edge_type, further.take(mine))


def _nodes_of_ends(piece: Piece, types: dict[str, _Numbered]) -> Longs:
    """Number the nodes of a piece, row by row; return those of heads and of tails."""
    kinds = _by_row(*_types(piece))
    ids = _by_row(*(as_texts(piece.keys(column)) for column in ("head", "tail")))
    names = None
    if any(column in piece.file.names for column in NAME_COLUMNS):
        nothing = pa.nulls(piece.num_rows, pa.string())
        names = _by_row(*(
            as_texts(piece.table[column]) if column in piece.file.names else nothing
            for column in NAME_COLUMNS
        ))  # fmt: skip
    node = np.empty(len(ids), dtype=np.int64)
    for (node_type,), here in _groups(kinds):
        numbered = types.setdefault(node_type, _Numbered())
        node[here] = numbered.add(ids.take(here), None if names is None else names.take(here))
    return node.reshape(-1, 2).T


def _relations(piece: Piece) -> Iterator[tuple[EdgeType, Longs]]:
    """Return the relations of a piece of triples, each with its rows in order."""
    heads, tails = _types(piece)
    return _groups(heads, as_texts(piece.keys("relation")), tails)


def _types(piece: Piece) -> list[pa.Array]:
    """Return the types of heads and of tails."""
    if TYPE_COLUMNS[0] not in piece.file.names:
        return [pa.repeat(DEFAULT_NODE_TYPE, piece.num_rows)] * 2
    return [as_texts(piece.keys(column)) for column in TYPE_COLUMNS]


def _by_row(heads: pa.Array, tails: pa.Array) -> pa.Array:
    """Return the cells of two columns, row by row."""
    order = np.arange(2 * len(heads)).reshape(2, -1).T.ravel()
    return pa.concat_arrays([heads, tails]).take(pa.array(order))


def _groups(*columns: pa.Array) -> Iterator[tuple[Any, Longs]]:
    """Yield the distinct rows of some columns, each with where it is, in order."""
    keys = [str(i) for i in range(len(columns))]
    table = pa.table([*columns, np.arange(len(columns[0]))], [*keys, "row"])
    # Without threads, for the order of the rows.
    found = table.group_by(keys, use_threads=False).aggregate([("row", "list")])
    for *words, rows in zip(*(found[name] for name in (*keys, "row_list")), strict=True):
        yield tuple(word.as_py() for word in words), rows.values.to_numpy()
