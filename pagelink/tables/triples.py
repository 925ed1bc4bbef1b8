"""Tables of triples: nodes are numbered as they appear, and files beside it hold out some links."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch
from torch import Tensor
from torch_geometric.data import HeteroData

from pagelink.errors import GraphError
from pagelink.graph.schema import EdgeType
from pagelink.runtime.arrays import Longs
from pagelink.store.writer import StoreWriter
from pagelink.tables.columns import as_texts, is_empty
from pagelink.tables.files import SUFFIXES, Piece, TableFile, file_errors
from pagelink.tables.memory import GraphInMemory
from pagelink.tables.name_index import TextIndex
from pagelink.tables.ntriples import SUFFIX as NTRIPLES
from pagelink.tables.text import COMPRESSED, PLAIN_TEXT, suffix_of
from pagelink.tables.words import NodeNames

TRIPLE_SUFFIXES = (*SUFFIXES, PLAIN_TEXT, NTRIPLES)
TRIPLE_COLUMNS = ("head", "relation", "tail")
_ENDS = (
    ("head", "tail"), ("subject", "object"), ("source", "target"), ("from", "to"), ("src", "dst"),
    ("start", "end"), ("node1", "node2"), ("entity1", "entity2"), ("h", "t"), ("s", "o"),
)  # fmt: skip
_RELATIONS = (
    "relation", "predicate", "relationship", "relation_type", "edge_type", "metaedge", "property",
    "rel", "r", "p", "type", "label",
)  # fmt: skip
OTHER_NAMES = tuple((head, name, tail) for name in _RELATIONS for head, tail in _ENDS)
"""How the columns may be called, the clearer names first."""
FEW_ROWS = 10
"""In fewer rows than these, names that occur once say nothing."""
PAIRS = (
    "Pairs of one relation are a table with the columns src and dst, called "
    "edges-<source type>__<relation>__<target type>.csv, in a folder with the tables of its nodes."
)
TYPE_COLUMNS = ("head_type", "tail_type")
NAME_COLUMNS = ("head_name", "tail_name")
DEFAULT_NODE_TYPE = "entity"
NODES_AT_ONCE = 1 << 18

TRAIN = "train"
HELD_OUT = {"valid": ("valid", "validation", "dev", "val"), "test": ("test",)}
"""How the files beside `train` may be called."""
GraphMaker = GraphInMemory | StoreWriter
"""What nodes and edges are handed to: the two endings of reading."""


def held_out_files(path: Path) -> dict[str, Path]:
    """Return the validation and the test file beside a file of training triples, if it is one.

    Raises:
        GraphError: there are two of a kind.

    Example:
        >>> held_out_files(Path("triples.csv"))
        {}
    """
    found: dict[str, Path] = {}
    if not path.is_file() or _stem(path) != TRAIN:
        return found
    for part, names in HELD_OUT.items():
        files = [p for p in sorted(path.parent.iterdir()) if _stem(p) in names and is_triples(p)]
        if len(files) > 1:
            raise GraphError(
                f"{files[1]}: {files[0].name} is there too. Only one can be the {part} part."
            )
        if files:
            found[part] = files[0]
    return found


def is_held_out_name(file: Path, triples: Path) -> bool:
    """Whether a file of this name would hold out links of a file of training triples."""
    if _stem(triples) != TRAIN or file.resolve().parent != triples.resolve().parent:
        return False
    names = {TRAIN, *(name for names in HELD_OUT.values() for name in names)}
    return _stem(file) in names and suffix_of(file) in TRIPLE_SUFFIXES


def is_triples(path: Path) -> bool:
    """Whether a file may be a table of triples, by its name."""
    compressed = path.name.lower().endswith(COMPRESSED)
    fitting = suffix_of(path) in TRIPLE_SUFFIXES and not (compressed and ".parquet" in path.name)
    return fitting and path.is_file()


def train_file(folder: Path) -> Path | None:
    """Return the training triples in a folder, if there is one file of them."""
    files = [p for p in sorted(folder.iterdir()) if _stem(p) == TRAIN and is_triples(p)]
    return files[0] if len(files) == 1 else None


def _stem(path: Path) -> str:
    return path.name.lower().removesuffix(COMPRESSED).removesuffix(suffix_of(path))


def _open(path: Path, rows: int | None) -> TableFile:
    known = (*TYPE_COLUMNS, *NAME_COLUMNS)
    return TableFile(path, TRIPLE_COLUMNS, known, rows, without_header=TRIPLE_COLUMNS,
                     other_names=OTHER_NAMES, fewer=PAIRS)  # fmt: skip


def read_held_out(path: Path, data: HeteroData) -> dict[str, dict[EdgeType, Tensor]]:
    """Return the links of the files beside a training file, by relation, [2, num_links] each.

    Args:
        path: the file of training triples, or its folder.
        data: the graph that `load_graph` made of it.

    Raises:
        GraphError: a file cannot be read, or is not of this graph.
    """
    path = (train_file(path) or path) if path.is_dir() else path
    index: dict[str, TextIndex] = {}
    for node_type in data.node_types:
        index[node_type] = TextIndex()
        index[node_type].add(pa.array(data[node_type].id, pa.string()))
    found: dict[str, dict[EdgeType, Tensor]] = {}
    for part, file in held_out_files(path).items():
        links: dict[EdgeType, list[Tensor]] = {}
        with file_errors(file, "read"):
            for piece in _open(file, None).pieces():
                both = [as_texts(piece.keys(column)) for column in ("head", "tail")]
                for edge_type, rows in _relations(piece):
                    here = [ids.take(pa.array(rows)) for ids in both]
                    types = zip(edge_type[::2], here, strict=True)
                    ends = [index[node_type].find(ids) for node_type, ids in types]
                    pairs = torch.from_numpy(np.stack(ends))
                    if int(pairs.min()) < 0:
                        raise GraphError(f"{file}: a {edge_type[0]} of it is no node of the graph.")
                    links.setdefault(edge_type, []).append(pairs)
        found[part] = {t: torch.cat(pairs, dim=1) for t, pairs in sorted(links.items())}
    return found


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


def read_triples(
    graph: GraphMaker, path: Path, rows: int | None, names: NodeNames | None = None
) -> None:
    """Read a table of triples, and hand its nodes and edges on.

    Nodes that only held-out links have are nodes, too; these links are no edges.

    Args:
        graph: takes nodes and edges.
        path: the table.
        rows: as for `TableFile`.
        names: what nodes are called, wherever the table says something else.

    Raises:
        GraphError: something is wrong in the table, with the line.
    """
    file = _open(path, rows)
    given = [name for name in TYPE_COLUMNS if name in file.names]
    if len(given) == 1:
        raise GraphError(
            f"{path}: there is a column {given[0]!r}; head_type and tail_type must both be "
            "there, or neither."
        )
    types: dict[str, _Numbered] = {}
    for piece in pieces_of(graph, file):
        _refuse_unknown_header(piece)
        node = _nodes_of_ends(piece, types)
        for edge_type, mine in _relations(piece):
            graph.add_edges(edge_type, node[:, mine])
    if not file.num_rows:
        raise GraphError(f"{path}: there are no triples.")
    labels = dict(file.labels)
    for held_out in held_out_files(path).values():
        beside = _open(held_out, rows)
        if (TYPE_COLUMNS[0] in beside.names) != bool(given):
            raise GraphError(f"{held_out}: must have head_type and tail_type as {path.name} has.")
        for piece in pieces_of(graph, beside):
            _nodes_of_ends(piece, types)
        labels = {**beside.labels, **labels}
    stated = NodeNames([(pa.array([*labels]), pa.array([*labels.values()]))]) if labels else None
    for node_type in sorted(types):
        for ids, called in types[node_type].pieces():
            for more in (stated, names):
                called = called if more is None else more.of(ids, called)
            graph.add_nodes(node_type, len(ids), ids=ids, names=called)
    graph.sort_relations()
    if file.further:
        for piece in file.pieces():
            further = piece.further
            for edge_type, mine in _relations(piece):
                graph.add_edge_attributes(edge_type, further.take(mine))


def _refuse_unknown_header(piece: Piece) -> None:
    """Refuse a first line, read as a triple, that has nothing in common with all other lines."""
    if piece.file.has_header or piece.first_row or piece.num_rows < FEW_ROWS:
        return
    columns = {name: as_texts(piece.keys(name)) for name in TRIPLE_COLUMNS}
    ends = pa.concat_arrays([columns["head"], columns["tail"]])
    cells = [columns[name][0] for name in TRIPLE_COLUMNS]
    among = (ends, columns["relation"], ends)
    if all(pc.sum(pc.equal(a, c)).as_py() == 1 for a, c in zip(among, cells, strict=True)):
        raise GraphError(
            f"{piece.place(0)}: none of {', '.join(repr(cell.as_py()) for cell in cells)} is in "
            "any other line: this looks like a header. Call its columns head, relation and tail; "
            "or, if it is a triple, put a line with these three names above it."
        )


def pieces_of(graph: GraphMaker, file: TableFile) -> Iterator[Piece]:
    """Yield the pieces of a file, and say how far it has been read."""
    for piece in file.pieces():
        yield piece
        graph.step(f"reading {file.path.name}", piece.last_row, 0)


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
