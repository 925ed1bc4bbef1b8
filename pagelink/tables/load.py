"""Graphs as tables: load_graph, build_store and save_graph.

`load_graph` and `build_store` are the two endings of one road: the tables are read by the same
reader, which hands nodes and edges on in pieces, to a graph in memory or to the writer of a store.
"""

from __future__ import annotations

import re
import secrets
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, get_args

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import torch
from torch_geometric.data import HeteroData

from pagelink.errors import GraphError, SettingsError
from pagelink.graph.reading import RawGraph, read_data
from pagelink.graph.reverse_relations import relations_without_reverse, reverse_name
from pagelink.graph.schema import EdgeType
from pagelink.store.facts import Step
from pagelink.store.graph_store import GraphStore
from pagelink.store.manifest import is_store
from pagelink.store.values import check_finite
from pagelink.store.writer import EDGES_IN_MEMORY, StoreWriter
from pagelink.tables.columns import as_integers
from pagelink.tables.files import PIECE_ROWS, SUFFIXES, file_errors
from pagelink.tables.memory import GraphInMemory
from pagelink.tables.reader import (
    EDGE_COLUMNS,
    NODE_COLUMNS,
    PHRASE_FILE,
    file_stem,
    find_tables,
)
from pagelink.tables.words import PHRASE_COLUMNS, Words

Format = Literal["csv", "parquet"]

NODE_KEYS = ("id", "name", "x", "x_names", "attributes", "num_nodes")
EDGE_KEYS = ("edge_index", "attributes", "phrases")
TABLE_NAME = re.compile(
    rf"((nodes|edges)-.*|relations)({'|'.join(map(re.escape, SUFFIXES))})", re.DOTALL
)


def load_graph(
    path: Path | str, *, add_reverse: bool = True, words: Words | None = None
) -> HeteroData:
    r"""Read a graph from tables: a folder of node and edge tables, or one table of triples.

    A *folder* has `nodes-<type>.csv` files with the columns `id` and, if there are names, `name`,
    and `edges-<source type>__<relation>__<target type>.csv` files with the columns `src` and
    `dst`, which hold ids. A *table of triples* has the columns `head`, `relation`, `tail`, and
    maybe `head_type` and `tail_type` (without them all nodes are of type "entity"), `head_name`
    and `tail_name` (the first name of a node counts). Each file may be CSV, TSV or Parquet; text
    is UTF-8 with a header, columns come in any order, and their names in upper or lower case.
    Files called `extra-*` or `README*`, hidden files, and files that are no tables are ignored.

    Triples may also come without a header (three columns), as .txt, as N-Triples (.nt), and text of
    all kinds compressed (.gz). Beside a file called `train`, files called `valid` and `test` hold
    links that are not part of the graph; their nodes are. A folder with such a file is that graph.

    What the graph holds:

    - `data[node_type].id` and `.name`, lists of str, in the order of the file (of triples: of first
      appearance). Ids are any texts or integers, unique within their type; `007` stays `"007"`.
      The name is the id where there is none.
    - `data[node_type].x`, float32 [num_nodes, k]: the further columns that hold a number in every
      row; `.x_names` says which they are.
    - `data[node_type].attributes`: the other further columns, a pyarrow.Table with a row per node.
    - `data[edge_type].edge_index`, in the order of the file.
    - `data[edge_type].attributes`: all further columns, a pyarrow.Table with a row per edge.
    - `data[edge_type].phrases`: how the relation reads, from source to target and back, if `words`
      says so.

    A cell of CSV is a number if the whole column is and nothing is lost by it; dates stay text.

    A *graph store* (see `pagelink store`) is opened, not copied: it has all of this in files that
    are mapped into memory, and the reverse relations it was made with. To explain on a store of
    any size, open it as a `GraphStore`, of which no edge is read before it is needed.

    Args:
        path: the folder or the file.
        add_reverse: add `(dst, "rev_" + relation, src)` for every relation that has no reverse
            among the relations and does not itself store both directions of every edge. Its
            edges are flipped, in the same order, with the same `attributes`.
        words: files with names of nodes and phrases of relations. A store has those that it was
            made with.

    Raises:
        GraphError: something is missing or wrong; with the file and the line.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     triples = Path(folder) / "triples.csv"
        ...     _ = triples.write_text("head,relation,tail\nAda,knows,Bo\nBo,knows,Cy\n")
        ...     data = load_graph(triples)
        >>> data["entity"].name
        ['Ada', 'Bo', 'Cy']
        >>> data["entity", "rev_knows", "entity"].edge_index.tolist()
        [[1, 2], [0, 1]]
    """
    path = Path(path)
    with file_errors(path, "read"):
        if is_store(path):
            refuse_words_of_store(path, words)
            return GraphStore.open(path).data
        graph = GraphInMemory()
        find_tables(path, words).read_into(graph)
    return graph.finish(add_reverse=add_reverse)


def build_store(
    source: Path | str,
    out: Path | str,
    *,
    add_reverse: bool = True,
    progress: Step | None = None,
    edges_in_memory: int = EDGES_IN_MEMORY,
    words: Words | None = None,
) -> GraphStore:
    r"""Make a store of the tables that `load_graph` reads; the store is that of the same graph.

    The tables are read in pieces and the edges go through the disk: memory is needed for a small
    multiple of the nodes, not for the edges.

    Args:
        source: a folder of node and edge tables, or a table of triples.
        out: the folder to make. A half-written store in it is removed first.
        add_reverse: as for `load_graph`.
        progress: called for each step with its name, done and total.
        edges_in_memory: how many edges are sorted at a time.
        words: as for `load_graph`.

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
    if is_store(source):
        raise GraphError(f"{source}: this is a store already.")
    with file_errors(source, "read"):
        tables = find_tables(source, words)
    with StoreWriter(out, edges_in_memory=edges_in_memory, progress=progress) as writer:
        # Pieces in step with the edges held, so that a small limit goes through many of them.
        tables.read_into(writer, min(PIECE_ROWS, edges_in_memory))
        return writer.finish(add_reverse=add_reverse)


def refuse_words_of_store(path: Path, words: Words | None) -> None:
    """Refuse names or phrases for a store, which has its own.

    Raises:
        GraphError: some are given.
    """
    if words is not None and words.files:
        raise GraphError(
            f"{path}: a store has the names and phrases that it was made with. Give them when it "
            "is made: pagelink store GRAPH --names ... --relations ... --out FOLDER."
        )


def save_graph(
    data: HeteroData,
    path: Path | str,
    *,
    format: Format = "csv",
    overwrite: bool = False,
    with_reverse: bool = False,
) -> Path:
    """Write a graph as a folder of tables that `load_graph` reads.

    The folder appears under its name when it is complete. What is written: `id` (the position if
    there is none), `name`, `x`, `attributes` and `edge_index`. CSV knows only texts and numbers;
    `attributes` of other types come back as text, and texts that look like numbers as numbers.
    Parquet keeps all types.

    Args:
        data: the graph.
        path: the folder to make.
        format: of all tables.
        overwrite: replace the tables of the graph that is in the folder now. Other files in it
            stay.
        with_reverse: also write the `rev_` relations that `load_graph` would add by itself.

    Returns:
        The folder.

    Raises:
        GraphError: the graph is malformed or holds what tables cannot hold, or the folder is there
            already or cannot be written.

    Example:
        >>> import tempfile
        >>> data = HeteroData()
        >>> data["user"].name, data["user"].num_nodes = ["Ada", "Bo"], 2
        >>> data["user", "knows", "user"].edge_index = torch.tensor([[0], [1]])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     saved = save_graph(data, Path(folder) / "graph")
        ...     [file.name for file in sorted(saved.iterdir())]
        ['edges-user__knows__user.csv', 'nodes-user.csv']
    """
    if format not in get_args(Format):
        raise SettingsError(f"format must be one of {get_args(Format)}, got {format!r}.")
    if not isinstance(data, HeteroData):
        raise GraphError(f"save_graph needs a HeteroData, got {type(data).__name__}.")
    path = Path(path)
    if path.exists() and not path.is_dir():
        raise GraphError(f"{path}: there is a file of this name. Give a folder.")
    if path.is_dir() and not overwrite and any(path.iterdir()):
        raise GraphError(f"{path}: the folder is not empty. Give another, or overwrite=True.")
    raw = read_data(data)
    _refuse_what_is_lost(data)
    skipped = set() if with_reverse else _added_by_loading(data, raw)
    write = pa.csv.write_csv if format == "csv" else pa.parquet.write_table
    with _complete_folder(path) as folder:
        ids = {}
        for node_type in data.node_types:
            table = _node_table(data[node_type], node_type, raw)
            ids[node_type] = table["id"]
            write(table, folder / f"{file_stem(node_type)}.{format}")
        for edge_type in raw.edges:
            if edge_type not in skipped:
                table = _edge_table(data[edge_type], edge_type, raw, ids)
                write(table, folder / f"{file_stem(*edge_type)}.{format}")
        phrases = {t[1]: both for t, both in raw.phrases.items() if t not in skipped}
        if phrases:
            columns = [[*phrases], *map(list, zip(*phrases.values(), strict=True))]
            table = pa.table(columns, list(PHRASE_COLUMNS))
            write(table, folder / f"{PHRASE_FILE}.{format}")
    return path


def _refuse_what_is_lost(data: HeteroData) -> None:
    lost = [f"data[{key!r}]" for key in data.stores[0]]
    lost += [f"data[{t!r}].{k}" for t in data.node_types for k in data[t] if k not in NODE_KEYS]
    lost += [f"data[{t!r}].{k}" for t in data.edge_types for k in data[t] if k not in EDGE_KEYS]
    if lost:
        raise GraphError(
            f"{', '.join(lost)} cannot be written as a table: only "
            f"{', '.join(NODE_KEYS)} of nodes and {', '.join(EDGE_KEYS)} of edges can. Make it a "
            "column of attributes, or delete it first."
        )


def _added_by_loading(data: HeteroData, raw: RawGraph) -> set[EdgeType]:
    """Return the reverse relations that `load_graph` adds if they are not written."""

    def is_flip(edge_type: EdgeType) -> bool:
        forward, backward = data[edge_type], data[reverse_name(edge_type)]
        there, back = (store.get("attributes") for store in (forward, backward))
        return torch.equal(backward.edge_index, forward.edge_index.flip(0)) and (
            there is back or there == back
        )

    skipped: set[EdgeType] = {
        reverse_name(t) for t in raw.edges if reverse_name(t) in raw.edges and is_flip(t)
    }
    while True:
        kept = {t: e for t, e in raw.edges.items() if t not in skipped}
        # Not all are added: a relation may be symmetric, or the mirror of yet another relation.
        added = {reverse_name(t) for t in relations_without_reverse(kept)}
        if skipped <= added:
            return skipped
        skipped &= added


def _node_table(store: Any, node_type: str, raw: RawGraph) -> pa.Table:
    size = raw.sizes[node_type]
    where = f"data[{node_type!r}]"
    ids = [str(key) for key in store["id"]] if "id" in store else [str(i) for i in range(size)]
    if len(ids) != size or len(set(ids)) != size or "" in ids:
        raise GraphError(f"{where}.id must hold {size} different ids, none of them empty.")
    # Integers are smaller without quotes; they are read as text all the same.
    columns = {"id": as_integers(_texts(ids, f"{where}.id"))}
    names = [str(name) for name in raw.names.get(node_type, ids)]
    if names != ids:
        columns["name"] = _texts(names, f"{where}.name")
    further: list[tuple[str, Any]] = []
    if "x" in store:
        x = store["x"].detach().cpu()
        if x.dim() != 2 or len(x) != size:
            raise GraphError(f"{where}.x must have the shape [{size}, number of features].")
        check_finite(x.numpy(), f"{where}.x")
        x_names = store["x_names"] if "x_names" in store else [f"x{i}" for i in range(x.shape[1])]
        if len(x_names) != x.shape[1]:
            raise GraphError(f"{where}.x_names must hold {x.shape[1]} names, one per feature.")
        further += zip(x_names, x.numpy().T, strict=True)
    further += _attributes(store, where, size)
    return _table(columns, further, NODE_COLUMNS, where)


def _edge_table(
    store: Any, edge_type: EdgeType, raw: RawGraph, ids: dict[str, pa.ChunkedArray]
) -> pa.Table:
    where = f"data[{edge_type!r}]"
    edge_index = raw.edges[edge_type]
    columns = {}
    for column, node_type, ends in zip(EDGE_COLUMNS, edge_type[::2], edge_index, strict=True):
        columns[column] = ids[node_type].take(pa.array(ends))
    further = _attributes(store, where, edge_index.shape[1])
    return _table(columns, further, EDGE_COLUMNS, where)


def _attributes(store: Any, where: str, size: int) -> list[tuple[str, Any]]:
    table = store["attributes"] if "attributes" in store else pa.table({})
    if not isinstance(table, pa.Table) or (table.num_columns and table.num_rows != size):
        raise GraphError(f"{where}.attributes must be a pyarrow.Table with {size} rows.")
    return list(zip(table.column_names, table.columns, strict=True))


def _table(
    columns: dict[str, Any], further: Sequence[tuple[str, Any]], known: Sequence[str], where: str
) -> pa.Table:
    for name, values in further:
        if not name.strip() or name != name.strip() or name in columns or name.lower() in known:
            raise GraphError(f"{where}: a further column cannot be called {name!r}. Rename it.")
        columns[name] = values
    return pa.table(columns)


def _texts(values: Sequence[str], where: str) -> pa.ChunkedArray:
    try:
        return pa.chunked_array([pa.array(values, pa.string())])
    except UnicodeEncodeError as error:
        raise GraphError(f"{where} holds {error.object!r}, which is no valid text.") from error


@contextmanager
def _complete_folder(path: Path) -> Iterator[Path]:
    """Give a folder to write to; put it in place when all went well, else remove it."""
    # The place of the folder itself, not of a link to it.
    path = path.resolve()
    fresh, old = (path.with_name(f".{path.name}.{secrets.token_hex(4)}") for _ in range(2))
    try:
        with file_errors(path, "written"):
            fresh.mkdir(parents=True)
            yield fresh
            if path.is_dir():
                path.rename(old)
            fresh.rename(path)
            if old.is_dir():
                for other in old.iterdir():
                    if not TABLE_NAME.fullmatch(other.name):
                        other.rename(path / other.name)
                shutil.rmtree(old)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
        if old.is_dir() and not path.exists():
            old.rename(path)
