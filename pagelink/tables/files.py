"""One table file (CSV, TSV or Parquet) read in pieces; a fault in it is named with its line."""

from __future__ import annotations

import csv
import re
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Literal, NoReturn

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

from pagelink.errors import GraphError, did_you_mean
from pagelink.tables.columns import FurtherColumn, is_empty, one_array

DELIMITERS = {".csv": ",", ".tsv": "\t"}
SUFFIXES = (*DELIMITERS, ".parquet")

PIECE_ROWS = 1 << 18
"""Rows of a piece of a Parquet file."""
BLOCK_SIZE = 1 << 24
"""Bytes of a piece of a text file. A row has to fit into two of them."""
MOST_CHARACTERS = BLOCK_SIZE
"""Of a field of a text file."""


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
        path: a file that ends in .csv, .tsv or .parquet.
        required: columns that must be there. They are found in lower or upper case, and are read
            as text.
        optional: columns that are treated likewise if they are there. All others are numbers if
            every cell is one and reading it so loses nothing, else text; in Parquet they are what
            they are.
        rows: rows of a piece of Parquet; pieces of text are of `BLOCK_SIZE` bytes. None: pieces
            that are needed again stay in memory, instead of being read again.

    Raises:
        GraphError: the file cannot be read, or its header is wrong.
    """

    def __init__(
        self,
        path: Path,
        required: Sequence[str],
        optional: Sequence[str] = (),
        rows: int | None = None,
    ) -> None:
        self.path = path
        self._rows = rows
        self._known = frozenset((*required, *optional))
        self._is_text = path.suffix.lower() in DELIMITERS
        fields: Sequence[Any]
        with file_errors(path, "read"):
            if self._is_text:
                self._header, self._has_rows, where = _read_header(path)
                fields = [None] * len(self._header)
            else:
                with pa.parquet.ParquetFile(path) as file:
                    fields = list(_without_row_labels(file.schema_arrow.empty_table()).schema)
                self._header, where = [field.name for field in fields], str(path)
        self.names = column_names(self._header, where, self._known, required)
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
        # The header is the first record.
        line, _ = next(islice(_records(self.path), row + 1, None))
        return f"{self.path}, line {line}"

    def _text_tables(self) -> Iterator[pa.Table]:
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
        parsing = pa.csv.ParseOptions(delimiter=_delimiter(self.path), newlines_in_values=True)
        blocks = pa.csv.ReadOptions(block_size=BLOCK_SIZE)
        try:
            with pa.csv.open_csv(self.path, blocks, parsing, cells) as reader:
                for batch in reader:
                    if batch.num_rows:
                        yield pa.Table.from_batches([batch]).rename_columns(self.names)
        except (pa.ArrowInvalid, UnicodeDecodeError) as error:
            _refuse_text(self.path, error)

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
        _check_quotes(path)
        start = list(islice(_records(path), 2))
    except UnicodeDecodeError as error:
        _refuse_text(path, error)
    if not start:
        raise GraphError(f"{path}: the file is empty. Its first line must name the columns.")
    line, header = start[0]
    where = f"{path}, line {line} (columns separated by {_separator(path)}s)"
    return header, len(start) > 1, where


def _delimiter(path: Path) -> str:
    return DELIMITERS[path.suffix.lower()]


def _separator(path: Path) -> str:
    return "comma" if _delimiter(path) == "," else "tab"


def _records(path: Path, strict: bool = False) -> Iterator[tuple[int, list[str]]]:
    """Yield the records of a text file that are not blank, each with the line it begins on."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.reader(file, delimiter=_delimiter(path), strict=strict)
        line = 1
        try:
            for fields in long_fields(reader):
                if fields:
                    yield line, fields
                line = reader.line_num + 1
        except csv.Error as error:
            raise GraphError(f"{path}, line {line}: {csv_fault(error)}") from error


def long_fields(reader: Iterator[list[str]]) -> Iterator[list[str]]:
    """Yield the rows of a csv.reader, whose fields may be longer than it allows by default."""
    while True:
        # The limit is one for all readers of the process: it is put back before anybody else runs.
        before = csv.field_size_limit(MOST_CHARACTERS)
        try:
            fields = next(reader, None)
        finally:
            csv.field_size_limit(before)
        if fields is None:
            return
        yield fields


def csv_fault(error: csv.Error) -> str:
    """Say what is wrong with a row that a csv.reader cannot read, and what to do."""
    if "field limit" in str(error):
        return (
            f"a field that begins in this row has more than {MOST_CHARACTERS:,} characters. "
            'Shorten it; or, if a quote (") before it is never closed, close that.'
        )
    return 'the quotes (") in this row do not match. Write a quote within a quoted text twice.'


def _check_quotes(path: Path) -> None:
    """Refuse a quote that is never closed: all rows after it would become one long name."""
    with path.open("rb") as file:
        quotes = sum(block.count(b'"') for block in iter(lambda: file.read(BLOCK_SIZE), b""))
    # A quote within an unquoted text (5" nails) is one of its letters, and need not be closed.
    if quotes % 2:
        deque(_records(path, strict=True), maxlen=0)


def _refuse_text(path: Path, error: Exception) -> NoReturn:
    """Raise what is wrong with a text file that could not be parsed, with its line."""
    line = 1
    with path.open("rb") as file:
        for text in file:
            try:
                text.decode()
            except UnicodeDecodeError as fault:
                line += len(re.findall(rb"\r(?!\n)", text[: fault.start]))
                raise GraphError(
                    f"{path}, line {line}: the text is not UTF-8 (byte 0x{text[fault.start]:02x}). "
                    "Save the file as UTF-8."
                ) from error
            line += len(re.findall(rb"\r\n?|\n", text))
    records = _records(path)
    _, header = next(records)
    for line, fields in records:
        if len(fields) != len(header):
            raise GraphError(
                f"{path}, line {line}: the row has {len(fields)} fields, the header has "
                f"{len(header)}. Put texts with a {_separator(path)} into quotes."
            ) from error
    raise GraphError(f"{path}: cannot be read: {' '.join(str(error).split())}.") from error
