"""One table file (CSV, TSV, text or Parquet) read in pieces; a fault is named with its line."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

from pagelink.errors import GraphError, did_you_mean
from pagelink.tables import ntriples
from pagelink.tables.columns import FurtherColumn, is_empty, one_array
from pagelink.tables.text import (
    BLOCK_SIZE,
    DELIMITERS,
    check_quotes,
    delimiter,
    has_quotes,
    records,
    refuse_text,
    separator,
    suffix_of,
)

SUFFIXES = (*DELIMITERS, ".parquet")

PIECE_ROWS = 1 << 18
"""Rows of a piece of a Parquet file."""


@dataclass(frozen=True)
class Piece:
    """Some rows of a table file, one after the other."""

    file: TableFile
    table: pa.Table
    """Known columns as text or, in Parquet, as integers if they are; others as they were read."""
    first_row: int
    """Which row of the file the first one is."""

    @property
    def num_rows(self) -> int:
        """Number of rows of this piece."""
        return int(self.table.num_rows)

    @property
    def last_row(self) -> int:
        """The row of the file at which the next piece begins."""
        return self.first_row + self.num_rows

    def keys(self, name: str) -> pa.Array:
        """Return a column of ids, types or relations.

        Raises:
            GraphError: one of them is empty, with its line.
        """
        column = one_array(self.table[name])
        empty = pc.is_null(column) if pa.types.is_integer(column.type) else is_empty(column)
        row = pc.index(empty, True).as_py()
        if row >= 0:
            raise GraphError(f"{self.place(row)}: {name} is empty.")
        return column

    @property
    def further(self) -> pa.Table:
        """The columns that are not known, as what they are in the whole file.

        All pieces have been read once before.
        """
        columns = self.file.further
        arrays = [column.convert(self.table[name]) for name, column in columns.items()]
        return pa.table(arrays, schema=pa.schema([column.field for column in columns.values()]))

    def place(self, row: int) -> str:
        """Say where a row of this piece stands: file and line."""
        return self.file.place(self.first_row + row)


class TableFile:
    """A table file, read in pieces as often as they are needed.

    Args:
        path: a file that ends in .csv, .tsv, .txt (or one of these and .gz) or .parquet.
        required: columns that must be there. They are found in lower or upper case, and are read
            as text.
        optional: columns that are treated likewise if they are there. All others are numbers if
            every cell is one and reading it so loses nothing, else text; in Parquet they are what
            they are.
        rows: rows of a piece of Parquet; pieces of text are of `BLOCK_SIZE` bytes. None: pieces
            that are needed again stay in memory, instead of being read again.
        without_header: the columns of a text file whose first line names none of the known ones,
            and of a Parquet file whose columns have numbers for names.
        other_names: what the required columns may be called instead, all of them, in their order.
        fewer: what to do with a file without a header that lacks one of the required columns.

    Raises:
        GraphError: the file cannot be read, or its header is wrong.
    """

    def __init__(
        self,
        path: Path,
        required: Sequence[str],
        optional: Sequence[str] = (),
        rows: int | None = None,
        *,
        without_header: Sequence[str] = (),
        other_names: Sequence[Sequence[str]] = (),
        fewer: str = "",
    ) -> None:
        self.path = path
        self._rows = rows
        self._known = frozenset((*required, *optional))
        self._is_text = suffix_of(path) != ".parquet"
        self.has_header = True
        """Whether the columns are named in the file, or known by its kind."""
        self.labels: dict[str, str] = {}
        """What nodes are called in N-Triples, by id; known when all pieces have been read."""
        fields: Sequence[Any]
        with file_errors(path, "read"):
            if suffix_of(path) == ntriples.SUFFIX:
                self._header, where, fields = list(ntriples.COLUMNS), str(path), [None] * 3
            elif self._is_text:
                self._header, self._has_rows, where = _read_header(path)
                said = {cell.strip().lower() for cell in self._header}
                named = self._known & said or any(set(each) <= said for each in other_names)
                if without_header and not named:
                    advice = fewer if len(self._header) == len(required) - 1 else ""
                    self._take_first_line_as_row(without_header, len(required), where, advice)
                fields = [None] * len(self._header)
            else:
                with pa.parquet.ParquetFile(path) as file:
                    fields = list(_without_row_labels(file.schema_arrow.empty_table()).schema)
                self._header, where = [field.name for field in fields], str(path)
                if _are_numbers(self._header) and len(self._header) <= len(without_header):
                    self._header = list(without_header[: len(self._header)])
        header = _renamed(self._header, required, other_names)
        try:
            self.names = column_names(header, where, self._known, required)
        except GraphError as error:
            if not (without_header and self._is_text and len(header) == len(required)):
                raise
            raise GraphError(
                f"{error} If this line is the first row, and names no columns, put one above it "
                f"that does: {', '.join(required)}."
            ) from error
        self.further = {
            name: FurtherColumn(name, field)
            for name, field in zip(self.names, fields, strict=True)
            if name not in self._known
        }
        """The columns that are not known, by name."""
        self.num_rows = 0
        """Known when all pieces have been read, as the types of further columns are."""
        self._is_seen = False
        self._kept: list[Piece] = []

    def _take_first_line_as_row(
        self, columns: Sequence[str], required: int, where: str, advice: str
    ) -> None:
        number = len(self._header)
        if not required <= number <= len(columns):
            plural = "s" * (number != 1)
            message = (
                f"{where}: there is no header, and {number} column{plural}. Without a header they "
                f"are {', '.join(columns)}; with more, let the first line name them. {advice}"
            )
            raise GraphError(message.rstrip())
        self._header = list(columns[:number])
        self.has_header, self._has_rows = False, True

    def pieces(self) -> Iterator[Piece]:
        """Yield all rows in pieces; at least one, be it empty.

        Raises:
            GraphError: the file cannot be read, with the line.
        """
        if self._is_seen and self._kept:
            yield from self._kept
            return
        first = 0
        with file_errors(self.path, "read"):
            for table in self._text_tables() if self._is_text else self._parquet_tables():
                piece = Piece(self, table, first)
                if not self._is_seen:
                    for name, column in self.further.items():
                        column.see(table[name])
                    if self.further and self._rows is None:
                        self._kept.append(piece)
                first = piece.last_row
                yield piece
        self.num_rows, self._is_seen = first, True

    def place(self, row: int) -> str:
        """Say where a row stands: file and line, as an editor counts it."""
        if not self._is_text:
            return f"{self.path}, row {row + 1}"
        line, _ = next(islice(records(self.path), row + self.has_header, None))
        return f"{self.path}, line {line}"

    def _text_tables(self) -> Iterator[pa.Table]:
        if suffix_of(self.path) == ntriples.SUFFIX:
            yield from ntriples.read_ntriples(self.path, self.labels)
            return
        if not self._has_rows:  # pyarrow would find no column
            yield pa.table({name: pa.array([], pa.string()) for name in self.names})
            return
        # Without types, an id 007 would become 7, and a gene called NA would be no gene.
        cells = pa.csv.ConvertOptions(
            column_types=dict.fromkeys(self._header, pa.string()),
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
            null_values=[""],
        )
        quoted = has_quotes(self.path)
        parsing = pa.csv.ParseOptions(
            delimiter=delimiter(self.path), newlines_in_values=quoted,
            quote_char='"' if quoted else False,
        )  # fmt: skip
        names = None if self.has_header else self._header
        blocks = pa.csv.ReadOptions(block_size=BLOCK_SIZE, column_names=names)
        try:
            with pa.csv.open_csv(self.path, blocks, parsing, cells) as reader:
                for batch in reader:
                    if batch.num_rows:
                        yield pa.Table.from_batches([batch]).rename_columns(self.names)
        except (pa.ArrowInvalid, UnicodeDecodeError) as error:
            refuse_text(self.path, error)

    def _parquet_tables(self) -> Iterator[pa.Table]:
        # ParquetFile reads this one file; read_table would also read columns out of folder names.
        with pa.parquet.ParquetFile(self.path, pre_buffer=False, buffer_size=1 << 20) as file:
            if not file.metadata.num_rows:
                yield self._known_as_text(file.schema_arrow.empty_table())
            for batch in file.iter_batches(self._rows or PIECE_ROWS):
                yield self._known_as_text(pa.Table.from_batches([batch]))

    def _known_as_text(self, table: pa.Table) -> pa.Table:
        """Name the columns; what is neither text nor integer cannot be a key or a name."""
        table = _without_row_labels(table).rename_columns(self.names)
        for i, name in enumerate(self.names):
            if name not in self._known or pa.types.is_integer(table[name].type):
                continue
            kind = table[name].type
            if pa.types.is_dictionary(kind):
                kind = kind.value_type
            tests = (
                pa.types.is_null, pa.types.is_integer, pa.types.is_string, pa.types.is_large_string
            )  # fmt: skip
            if not any(test(kind) for test in tests):
                raise GraphError(
                    f"{self.path}: the column {name!r} must hold text or integers, it holds {kind}."
                )
            table = table.set_column(i, name, table[name].cast(kind).cast(pa.string()))
        return table


def _are_numbers(names: Sequence[str]) -> bool:
    """Whether columns are called by their places, as tools do that were given no names.

    Example:
        >>> _are_numbers(["0", "1", "2"]), _are_numbers(["_c0", "_c1"]), _are_numbers(["h", "t"])
        (True, True, False)
    """
    first = re.fullmatch(r"(\D*)([01])", names[0]) if names else None
    if first is None:
        return False
    return list(names) == [f"{first[1]}{int(first[2]) + i}" for i in range(len(names))]


def _without_row_labels(table: pa.Table) -> pa.Table:
    """Return the columns of a Parquet file without what pandas adds."""
    kept = [c for c in table.column_names if not c.startswith("__index_level_")]
    return table.select(kept).replace_schema_metadata(None)


@contextmanager
def file_errors(path: Path, deed: Literal["read", "written"]) -> Iterator[None]:
    """Turn what the operating system or pyarrow complain about into a GraphError of one line."""
    try:
        yield
    except (OSError, pa.ArrowException) as error:
        words = getattr(error, "strerror", None) or " ".join(str(error).split())
        raise GraphError(f"{path}: cannot be {deed}: {words}.") from error


def column_names(
    header: Sequence[str], where: str, known: frozenset[str], required: Sequence[str]
) -> list[str]:
    """Return how the columns are called here: stripped, and known ones in lower case."""
    stripped = [name.strip() for name in header]
    names = [name.lower() if name.lower() in known else name for name in stripped]
    for i, name in enumerate(names):
        if not name:
            raise GraphError(f"{where}: column {i + 1} has no name.")
        if name in names[:i]:
            raise GraphError(f"{where}: there are two columns {name!r}.")
    for name in required:
        if name not in names:
            raise GraphError(
                f"{where}: there is no column {name!r}, only {', '.join(map(repr, names))}."
                + did_you_mean(name, names)
            )
    return names


def _read_header(path: Path) -> tuple[list[str], bool, str]:
    """Return the header of a text file, whether there are rows, and where the header stands."""
    try:
        check_quotes(path)
        start = list(islice(records(path), 2))
    except UnicodeDecodeError as error:
        refuse_text(path, error)
    if not start:
        raise GraphError(f"{path}: the file is empty.")
    line, header = start[0]
    where = f"{path}, line {line} (columns separated by {separator(path)}s)"
    return header, len(start) > 1, where


def _renamed(
    header: Sequence[str], required: Sequence[str], other_names: Sequence[Sequence[str]]
) -> list[str]:
    """Return a header with the names of the required columns, where it has others for them."""
    found = [name.strip().lower() for name in header]
    for names in other_names:
        if not set(required) <= set(found) and set(names) <= set(found):
            meant = dict(zip(names, required, strict=True))
            return [meant.get(low, name) for low, name in zip(found, header, strict=True)]
    return list(header)
