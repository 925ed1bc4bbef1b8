"""The one reader of graphs in tables: a folder of node and edge tables, or a table of triples.

Tables are read in pieces, and so are nodes and edges handed on: to a `GraphInMemory`, or to a
`StoreWriter`. What is checked, and in which words something is refused, is the same for both.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pagelink.errors import GraphError, did_you_mean
from pagelink.graph.schema import EdgeType, first_not_finite
from pagelink.runtime.arrays import Floats
from pagelink.store.manifest import is_store
from pagelink.tables.columns import as_texts, is_empty
from pagelink.tables.files import SUFFIXES, TableFile
from pagelink.tables.name_index import IdCollector, IntegerIndex, TextIndex
from pagelink.tables.triples import (
    TRIPLE_SUFFIXES,
    GraphMaker,
    is_held_out_name,
    is_triples,
    pieces_of,
    read_triples,
    train_file,
)
from pagelink.tables.words import NodeNames, Words, phrases_of, read_phrases

NODE_COLUMNS = ("id", "name")
EDGE_COLUMNS = ("src", "dst")
PHRASE_FILE = "relations"
"""In a folder, without its suffix: a table of relations and their phrases."""

# Not allowed in file names somewhere, or they would look like the __ between two parts.
ODD_CHARACTER = re.compile(r'[%/\\:*?"<>|\x00-\x1f\x7f]|(?<=_)_|^_|_$')
# Suggestions out of more ids than this would take longer than reading the graph.
MAX_SUGGESTIONS_FROM = 10_000


@dataclass(frozen=True)
class GraphTables:
    """The tables of a graph, in order: of nodes and of edges, or one of triples."""

    nodes: dict[str, Path]
    edges: dict[EdgeType, Path]
    triples: Path | None = None
    words: Words = field(default_factory=Words)

    def read_into(self, graph: GraphMaker, rows: int | None = None) -> None:
        """Read all tables, and hand on what they hold.

        Args:
            graph: takes nodes and edges.
            rows: as for `TableFile`; None for tables that fit into memory.

        Raises:
            GraphError: something is wrong in a table, with the line.
        """
        names_file, phrase_file = self.words.names, self.words.relations
        names = None if names_file is None else NodeNames.read(names_file)
        phrases = None if phrase_file is None else read_phrases(phrase_file)
        if self.triples is not None:
            read_triples(graph, self.triples, rows, names)
        known = {t: _read_nodes(graph, t, path, rows, names) for t, path in self.nodes.items()}
        for edge_type, path in self.edges.items():
            _read_edges(graph, edge_type, path, known, rows)
        if names is not None:
            names.check_used()
        if phrases is not None and phrase_file is not None:
            graph.set_phrases(phrases_of(phrases, graph.edge_types, phrase_file))


def find_tables(path: Path, words: Words | None = None) -> GraphTables:
    """Return the tables in a folder, or the one that a file is.

    Args:
        path: the folder or the file. A folder without tables of nodes and edges may have a file of
            triples that is called train.
        words: files with names and phrases.

    Raises:
        GraphError: there is nothing, a file is called wrongly, there are no edges, or a node type
            of them is missing.
    """
    if not path.is_dir() and not path.is_file():
        siblings = [p.name for p in path.parent.iterdir()] if path.parent.is_dir() else []
        raise GraphError(
            f"{path}: there is no such file or folder.{did_you_mean(path.name, siblings)}"
        )
    words = words or Words()
    if path.is_file():
        if not is_triples(path):
            raise GraphError(f"{path}: a table of triples ends in {', '.join(TRIPLE_SUFFIXES)}.")
        return GraphTables({}, {}, path, words)
    if not any(p.name.lower().startswith(("nodes-", "edges-")) for p in path.iterdir()):
        found = train_file(path)
        if found is not None:
            return GraphTables({}, {}, found, words)
    nodes, edges = _tables_in(path)
    if words.relations is None:
        words = replace(words, relations=_phrase_file(path))
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
    return GraphTables(dict(sorted(nodes.items())), dict(sorted(edges.items())), words=words)


def is_part_of_graph(file: Path, graph: Path) -> bool:
    """Whether a file of this name, there or not, would be read as a part of a graph.

    Example:
        >>> is_part_of_graph(Path("kg/test.csv"), Path("kg/train.txt"))
        True
        >>> is_part_of_graph(Path("kg/rows.csv"), Path("kg/train.txt"))
        False
    """
    if is_store(graph):
        return False
    triples = train_file(graph) if graph.is_dir() else graph
    if triples is not None and is_held_out_name(file, triples):
        return True
    if not graph.is_dir() or file.resolve().parent != graph.resolve():
        return False
    name = file.name.lower()
    as_table = name.startswith(("nodes", "edges")) or name.endswith(SUFFIXES)
    has_tables = any(p.name.startswith(("nodes-", "edges-")) for p in graph.iterdir())
    return as_table and has_tables and not name.startswith((".", "extra-", "readme"))


def _phrase_file(folder: Path) -> Path | None:
    """Return the table of phrases in a folder, if there is one."""
    files = (folder / f"{PHRASE_FILE}{suffix}" for suffix in SUFFIXES)
    return next((file for file in files if file.is_file()), None)


def _tables_in(folder: Path) -> tuple[dict[str, Path], dict[EdgeType, Path]]:
    nodes: dict[str, Path] = {}
    edges: dict[EdgeType, Path] = {}
    for path in sorted(folder.iterdir()):
        name = path.name.lower()
        if (
            name.startswith((".", "extra-", "readme"))
            or not (name.startswith(("nodes", "edges")) or name.endswith(SUFFIXES))
            or path == _phrase_file(folder)
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


def _read_nodes(
    graph: GraphMaker, node_type: str, path: Path, rows: int | None, words: NodeNames | None
) -> _Known:
    file = TableFile(path, NODE_COLUMNS[:1], NODE_COLUMNS[1:], rows)
    collected = IdCollector()
    for piece in pieces_of(graph, file):
        ids = names = as_texts(piece.keys("id"))
        collected.add(ids)
        if "name" in file.names:
            names = as_texts(piece.table["name"])
            names = pc.if_else(is_empty(names), ids, names)
        if words is not None:
            names = words.of(ids, names)
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
    for piece in pieces_of(graph, file):
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
