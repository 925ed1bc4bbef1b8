"""A table of triples read in pieces into a store; nodes are numbered as they appear."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pagelink.graph.schema import EdgeType
from pagelink.runtime.arrays import Longs
from pagelink.store.external_sort import Spool
from pagelink.store.writer import StoreWriter
from pagelink.tables.files import TableFile, is_empty
from pagelink.tables.name_index import TextIndex
from pagelink.tables.pieces import TablePieces, as_texts
from pagelink.tables.triples import DEFAULT_NODE_TYPE, OPTIONAL, REQUIRED, has_types, refuse_nothing

NODES_AT_ONCE = 1 << 18


class _Type:
    """The nodes of a type, in the order of first appearance, and their names."""

    def __init__(self) -> None:
        self.ids = TextIndex()
        self._names = TextIndex()
        self._name_of = np.empty(0, dtype=np.int64)

    def add(self, ids: pa.Array, names: pa.Array | None) -> Longs:
        """Return the nodes of these ids; the first name of a node counts."""
        nodes = self.ids.add(ids)
        more = len(self.ids) - len(self._name_of)
        self._name_of = np.concatenate([self._name_of, np.full(more, -1)])
        if names is not None:
            named = np.flatnonzero(~is_empty(names).to_numpy(zero_copy_only=False))
            named = named[self._name_of[nodes[named]] < 0][::-1]  # the first is written last
            numbers = self._names.add(names.take(pa.array(named)))
            self._name_of[nodes[named]] = numbers
        return nodes

    def pieces(self) -> Iterator[tuple[pa.Array, pa.Array]]:
        """Yield ids and names of all nodes; the id where there is no name."""
        names = self._names.texts()
        for first in range(0, len(self.ids), NODES_AT_ONCE):
            ids = self.ids.texts(first, first + NODES_AT_ONCE)
            numbers = self._name_of[first : first + NODES_AT_ONCE]
            called = names.take(pa.array(numbers, mask=numbers < 0))
            yield ids, pc.if_else(pc.is_null(called), ids, called)


def add_triples(writer: StoreWriter, path: Path, rows: int) -> None:
    """Read a table of triples into a store; see `read_triples`."""
    file = TablePieces(path, REQUIRED, OPTIONAL, rows)
    typed = has_types(path, file.names)
    types: dict[str, _Type] = {}
    relation_of = Spool(writer.temporary / "relation-of-triples", 1)
    relations: dict[EdgeType, int] = {}
    for piece in file.pieces():
        if piece.table.num_rows:
            kinds = _add_piece(writer, piece, typed, types, relations)
            relation_of.append(kinds[:, None].astype(np.int32))
        writer.step(f"reading {path.name}", piece.first_row + piece.table.num_rows, 0)
    if not file.num_rows:
        refuse_nothing(path)
    for node_type in sorted(types):
        writer.add_nodes(node_type, 0, ids=[], names=[])
        for ids, names in types[node_type].pieces():
            writer.add_nodes(node_type, len(ids), ids=ids, names=names)
    writer.sort_relations()
    if file.further_names:
        _add_attributes(writer, file, relation_of, list(relations))


def _add_piece(
    writer: StoreWriter,
    piece: TableFile,
    typed: bool,
    types: dict[str, _Type],
    relations: dict[EdgeType, int],
) -> Longs:
    """Add nodes and edges of a piece; return the relation of each row, by number."""
    count = piece.table.num_rows
    kinds = pa.array([DEFAULT_NODE_TYPE] * (2 * count)).dictionary_encode()
    if typed:
        kinds = _by_row(piece.keys("head_type"), piece.keys("tail_type")).dictionary_encode()
    words, type_of = kinds.dictionary.to_pylist(), kinds.indices.to_numpy()
    ids = _by_row(piece.keys("head"), piece.keys("tail"))
    names = _names(piece)
    node = np.empty(2 * count, dtype=np.int64)
    for position, node_type in enumerate(words):
        here = np.flatnonzero(type_of == position)
        taken = pa.array(here)
        known = types.setdefault(node_type, _Type())
        node[here] = known.add(ids.take(taken), None if names is None else names.take(taken))
    named = as_texts(piece.keys("relation")).dictionary_encode()
    said = named.dictionary.to_pylist()
    src_type, dst_type = type_of.reshape(-1, 2).T.astype(np.int64)
    kind = (src_type * len(said) + named.indices.to_numpy()) * len(words) + dst_type
    numbers = np.empty(count, dtype=np.int64)
    for each in np.unique(kind).tolist():
        rest, dst = divmod(each, len(words))
        src, relation = divmod(rest, len(said))
        edge_type = (words[src], said[relation], words[dst])
        mine = np.flatnonzero(kind == each)
        writer.add_edges(edge_type, node.reshape(-1, 2)[mine].T)
        numbers[mine] = relations.setdefault(edge_type, len(relations))
    return numbers


def _names(piece: TableFile) -> pa.Array | None:
    there = [c for c in ("head_name", "tail_name") if c in piece.table.column_names]
    if not there:
        return None
    nothing = pa.chunked_array([pa.nulls(piece.table.num_rows, pa.string())])
    columns = [piece.table[c] if c in there else nothing for c in ("head_name", "tail_name")]
    return pc.fill_null(_by_row(*columns), "")


def _by_row(heads: pa.ChunkedArray, tails: pa.ChunkedArray) -> pa.Array:
    """Return the cells of two columns, row by row."""
    both = pa.concat_arrays([as_texts(heads), as_texts(tails)])
    order = np.arange(len(both)).reshape(2, -1).T.ravel()
    return both.take(pa.array(order))


def _add_attributes(
    writer: StoreWriter, file: TablePieces, relation_of: Spool, relations: list[EdgeType]
) -> None:
    """Put the further columns by relation: first into one file, in parts, then into their own."""
    schema = file.further_schema()
    plain = [
        f.with_type(f.type.value_type) if pa.types.is_dictionary(f.type) else f for f in schema
    ]
    path = writer.temporary / "attributes-of-triples.arrow"
    parts: list[list[int]] = [[] for _ in relations]
    written = 0
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, pa.schema(plain)) as out:
        for piece in file.pieces():
            table = file.further(piece).cast(pa.schema(plain))
            kinds = relation_of.read(piece.first_row, piece.first_row + table.num_rows)[:, 0]
            for number in np.unique(kinds).tolist():
                rows = table.take(pa.array(np.flatnonzero(kinds == number)))
                for batch in rows.combine_chunks().to_batches():
                    out.write_batch(batch)
                    parts[number].append(written)
                    written += 1
    with pa.memory_map(str(path)) as source:
        reader = pa.ipc.open_file(source)
        for edge_type in sorted(relations):
            batches = (reader.get_batch(i) for i in parts[relations.index(edge_type)])
            pieces = (pa.Table.from_batches([batch]) for batch in batches)
            writer.set_edge_attributes(edge_type, schema, pieces)
