"""build_store: tables of any size, read in pieces, as a graph store."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pagelink.errors import GraphError
from pagelink.graph.schema import EdgeType
from pagelink.store.facts import Step
from pagelink.store.graph_store import GraphStore
from pagelink.store.manifest import is_store
from pagelink.store.writer import EDGES_IN_MEMORY, StoreWriter
from pagelink.tables.files import TableFile, file_errors
from pagelink.tables.folders import (
    EDGE_COLUMNS,
    NODE_COLUMNS,
    Tables,
    find_tables,
    names_or_ids,
    refuse_duplicate,
    refuse_unknown,
)
from pagelink.tables.load import check_source
from pagelink.tables.name_index import IdCollector, IntegerIndex, TextIndex
from pagelink.tables.pieces import PIECE_ROWS, TablePieces, as_texts, one_array
from pagelink.tables.store_triples import add_triples
from pagelink.tables.triples import check_suffix


def build_store(
    source: Path | str,
    out: Path | str,
    *,
    add_reverse: bool = True,
    progress: Step | None = None,
    edges_in_memory: int = EDGES_IN_MEMORY,
) -> GraphStore:
    r"""Make a store of the tables that `load_graph` reads; the store is that of the same graph.

    The tables are read in pieces and the edges go through the disk: memory is needed for a small
    multiple of the nodes, not for the edges.

    Args:
        source: a folder of node and edge tables, or a table of triples.
        out: the folder to make. A half-written store in it is removed first.
        add_reverse: as for `load_graph`.
        progress: told of each step by name, done and total.
        edges_in_memory: how many edges are sorted at a time.

    Raises:
        GraphError: something is missing or wrong in the tables; with the file and the line.
        StoreError: the store cannot be written.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     triples = Path(folder) / "triples.csv"
        ...     _ = triples.write_text("head,relation,tail\nAda,knows,Bo\nBo,knows,Cy\n")
        ...     store = build_store(triples, Path(folder) / "store")
        ...     list(store.data["entity"].name)
        ['Ada', 'Bo', 'Cy']
    """
    source, out = Path(source), Path(out)
    check_source(source)
    if is_store(source):
        raise GraphError(f"{source}: this is a store already.")
    with file_errors(source, "read"):
        tables = find_tables(source) if source.is_dir() else None
    if tables is None:
        check_suffix(source)
    # Pieces in step with the edges held, so that a small limit goes through many of them.
    rows = min(PIECE_ROWS, edges_in_memory)
    with StoreWriter(out, edges_in_memory=edges_in_memory, progress=progress) as writer:
        if tables is None:
            add_triples(writer, source, rows)
        else:
            _add_tables(writer, tables, rows)
        return writer.finish(add_reverse=add_reverse)


def _add_tables(writer: StoreWriter, tables: Tables, rows: int) -> None:
    nodes = {t: _add_nodes(writer, t, path, rows) for t, path in tables.nodes.items()}
    files = {t: _add_edges(writer, t, path, nodes, rows) for t, path in tables.edges.items()}
    for edge_type, file in files.items():
        if file.further_names:
            pieces = (file.further(piece) for piece in file.pieces())
            writer.set_edge_attributes(edge_type, file.further_schema(), pieces)


@dataclass(frozen=True)
class _Nodes:
    file: TablePieces
    index: TextIndex | IntegerIndex

    def __iter__(self) -> Iterator[str]:
        """Read the ids again, for a suggestion in an error."""
        for piece in self.file.pieces():
            yield from as_texts(piece.keys("id")).to_pylist()


def _add_nodes(writer: StoreWriter, node_type: str, path: Path, rows: int) -> _Nodes:
    file = TablePieces(path, NODE_COLUMNS[:1], NODE_COLUMNS[1:], rows)
    collected = IdCollector()
    writer.add_nodes(node_type, 0, ids=[], names=[])
    for piece in file.pieces():
        ids = as_texts(piece.keys("id"))
        _refuse_twice(file, collected.add(ids))
        names = as_texts(piece.table["name"]) if "name" in file.names else None
        called = ids if names is None else names_or_ids(names, ids)
        writer.add_nodes(node_type, len(ids), ids=ids, names=called)
        writer.step(f"reading {path.name}", piece.first_row + len(ids), 0)
    index, twice = collected.index()
    _refuse_twice(file, twice)
    assert index is not None
    features = file.features()
    others = [name for name in file.further_names if name not in features]
    if features:
        writer.set_features(node_type, _numbers(file, features), features)
    if others:
        schema = pa.schema([file.further_schema().field(name) for name in others])
        pieces = (file.further(piece).select(others) for piece in file.pieces())
        writer.set_node_attributes(node_type, schema, pieces)
    return _Nodes(file, index)


def _numbers(file: TablePieces, features: list[str]) -> Iterator[npt.NDArray[np.float32]]:
    for piece in file.pieces():
        table = file.further(piece)
        columns = [table[name].cast(pa.float32(), safe=False).to_numpy() for name in features]
        yield np.stack(columns, axis=1)


def _refuse_twice(file: TablePieces, twice: tuple[int, int] | None) -> None:
    if twice is None:
        return
    earlier, row = twice
    for piece in file.pieces():
        if row < piece.first_row + piece.table.num_rows:
            key = str(piece.table["id"][row - piece.first_row].as_py())
            whole = TableFile(file.path, piece.table, frozenset())
            refuse_duplicate(whole, earlier, row, key)


def _add_edges(
    writer: StoreWriter, edge_type: EdgeType, path: Path, nodes: dict[str, _Nodes], rows: int
) -> TablePieces:
    file = TablePieces(path, EDGE_COLUMNS, (), rows)
    writer.add_edges(edge_type, np.empty((2, 0), dtype=np.int64))
    for piece in file.pieces():
        found = np.empty((2, piece.table.num_rows), dtype=np.int64)
        ends = zip(EDGE_COLUMNS, (edge_type[0], edge_type[2]), strict=True)
        for end, (column, node_type) in enumerate(ends):
            known = nodes[node_type]
            found[end] = known.index.find(one_array(piece.keys(column)))
            unknown = np.flatnonzero(found[end] < 0)
            if len(unknown):
                refuse_unknown(piece, int(unknown[0]), column, node_type, known.file.path, known)
        writer.add_edges(edge_type, found)
        writer.step(f"reading {path.name}", piece.first_row + piece.table.num_rows, 0)
    return file
