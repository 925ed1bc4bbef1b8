"""Tables of links to explain: a bad row costs only itself, so it is read and kept as it is."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import count, repeat
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from pagelink.errors import GraphError
from pagelink.graph.links import LinkLike
from pagelink.runtime.files import write_bytes
from pagelink.tables.columns import as_texts
from pagelink.tables.files import SUFFIXES, TableFile
from pagelink.tables.text import DELIMITERS, csv_fault, long_fields

REQUIRED = ("src", "dst")
RELATION = ("link_type", "relation")
"""Either says which relation a link is of."""
ROWS_AT_ONCE = 65_536
"""Rows of a Parquet file that are in memory at a time."""


class LinkRow(NamedTuple):
    """A row of a table of links: there may be 10^8 of them."""

    line: int
    """Where it stands: the line as an editor counts, the row of a Parquet file."""
    link: LinkLike
    """(src, dst) or (src, dst, link type), by names or ids; fewer parts where some are missing."""


def read_links(path: Path) -> list[LinkRow]:
    """Read the columns `src`, `dst` and, if there is one, `relation` or `link_type`.

    Ends are names or ids; relations are named as `relations_called` reads them.

    Raises:
        GraphError: there is no such file, it is no table, or it lacks a column.
    """
    return list(iter_links(path))


def iter_links(path: Path) -> Iterator[LinkRow]:
    """Read links as `read_links` does, a piece of the table at a time.

    Raises:
        GraphError: as `read_links`, when that row is reached.
    """
    _check(path)
    return _iter_text(path) if path.suffix.lower() in DELIMITERS else _iter_parquet(path)


def _check(path: Path) -> None:
    if not path.is_file():
        raise GraphError(f"{path}: there is no such file.")
    if path.suffix.lower() not in SUFFIXES:
        raise GraphError(f"{path}: a table of links or nodes ends in .csv, .tsv or .parquet.")


def count_links(path: Path) -> int:
    """Return how many links a table has, and make sure that all of it can be read.

    Raises:
        GraphError: as `read_links`.
    """
    if path.is_file() and path.suffix.lower() == ".parquet":
        with _parquet(path) as file:
            _places(path, file.schema_arrow.names)
            return int(file.metadata.num_rows)
    return sum(1 for _ in iter_links(path))


def _iter_text(path: Path) -> Iterator[LinkRow]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.reader(file, delimiter=DELIMITERS[path.suffix.lower()])
        try:
            rows = long_fields(reader)
            places = _places(path, next(rows, []))
            for cells in rows:
                if cells:
                    yield LinkRow(reader.line_num, _link(cells, places))
        except csv.Error as error:
            raise GraphError(f"{path}, line {reader.line_num}: {csv_fault(error)}") from error
        except UnicodeDecodeError as error:
            raise GraphError(f"{path}: not UTF-8 text: {error}.") from error


@contextmanager
def _parquet(path: Path) -> Iterator[Any]:
    try:
        with pa.parquet.ParquetFile(path) as file:
            yield file
    except (OSError, pa.ArrowException) as error:
        raise GraphError(f"{path}: cannot be read as Parquet: {error}") from error


def _iter_parquet(path: Path) -> Iterator[LinkRow]:
    with _parquet(path) as file:
        header = file.schema_arrow.names
        names = [header[place] for place in _places(path, header)]
        row = count(1)
        for batch in file.iter_batches(ROWS_AT_ONCE, columns=names):
            texts = (batch.column(name).cast(pa.string()).fill_null("") for name in names)
            links: Any = zip(*(column.to_pylist() for column in texts), strict=True)
            yield from map(LinkRow, row, map(_named, links))


def _places(path: Path, header: Sequence[str]) -> list[int]:
    names = [name.strip().lower() for name in header]
    missing = [name for name in REQUIRED if name not in names]
    if missing:
        found = f"found {', '.join(header)}" if header else "the file is empty"
        raise GraphError(
            f"{path}, line 1: a table of links has the columns src and dst; "
            f"{' and '.join(missing)} missing, {found}."
        )
    return [names.index(name) for name in (*REQUIRED, *_relation_column(path, names))]


def _relation_column(path: Path, names: Sequence[str]) -> list[str]:
    """The column that says which relation a link is of; none: all are of the same."""
    found = [name for name in RELATION if name in names]
    if len(found) > 1:
        raise GraphError(
            f"{path}, line 1: both {' and '.join(found)} say which relation a link is of; keep one."
        )
    return found


def _link(cells: Sequence[str], places: Sequence[int]) -> LinkLike:
    return _named(tuple(cells[place] for place in places if place < len(cells)))


def _named(cells: tuple[str, ...]) -> LinkLike:
    """A link, without a relation where none is named."""
    is_named = len(cells) <= len(REQUIRED) or cells[-1].strip()
    return cells if is_named else cells[: len(REQUIRED)]  # type: ignore[return-value]


def names_relations(path: Path) -> bool:
    """Whether a table of links, or of nodes, has a column that says which relation is meant.

    Raises:
        GraphError: there is no such file, or it is no table.
    """
    _check(path)
    if path.suffix.lower() == ".parquet":
        with _parquet(path) as file:
            header = file.schema_arrow.names
    else:
        with path.open(encoding="utf-8-sig", newline="", errors="replace") as lines:
            header = next(csv.reader(lines, delimiter=DELIMITERS[path.suffix.lower()]), [])
    return bool(_relation_column(path, [name.strip().lower() for name in header]))


class NodeRow(NamedTuple):
    """A row of a table of nodes."""

    node: str
    relation: str | None
    """Of the links that are sought; None or empty: not named."""


def read_nodes(path: Path) -> tuple[str, list[NodeRow]]:
    """Read a table with a column `src` or `dst` of nodes, by names or ids.

    A column `relation` or `link_type` may say of which relation links are sought.

    Returns:
        Which of the two, and the rows, in order.

    Raises:
        GraphError: there is no such file, it is no table, or it does not have just one of them.
    """
    _check(path)
    file = TableFile(path, (), (*REQUIRED, *RELATION))
    ends = [name for name in REQUIRED if name in file.names]
    if len(ends) != 1:
        raise GraphError(f"{path}: a table of nodes has a column src, or a column dst.")
    named = _relation_column(path, file.names)
    rows: list[NodeRow] = []
    for piece in file.pieces():
        nodes = as_texts(piece.keys(ends[0])).to_pylist()
        relations = as_texts(piece.table[named[0]]).to_pylist() if named else repeat(None)
        rows += (NodeRow(*row) for row in zip(nodes, relations, strict=False))
    return ends[0], rows


def write_rows(path: Path, table: pa.Table) -> None:
    """Write a table as Parquet or CSV, by the name of the file, complete or not at all."""
    sink = io.BytesIO()
    write = pa.parquet.write_table if path.suffix.lower() == ".parquet" else pa.csv.write_csv
    write(table, sink)
    write_bytes(path, sink.getvalue())
