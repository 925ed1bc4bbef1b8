"""Columns of text that are numbers: found out cell by cell, in pieces if need be."""

from __future__ import annotations

import csv
import re
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Literal, NoReturn

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

from pagelink.errors import GraphError, did_you_mean

# Numbers that lose nothing when they are read as such: 007 is a text, so are 0x1F and integers that
# are too long.
INTEGER = r"^(0|-?[1-9][0-9]*)$"
_WHOLE = r"(0|[1-9][0-9]*)"
_DECIMAL = rf"({_WHOLE}\.[0-9]*|\.[0-9]+)"
_SCIENTIFIC = rf"({_WHOLE}|{_DECIMAL})[eE][+-]?[0-9]+"
NUMBER = rf"^([+-]?(0|[1-9][0-9]{{0,17}}|{_DECIMAL}|{_SCIENTIFIC}|[iI]nf)|nan|NaN)$"


def is_empty(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return, for each text, whether there is none."""
    return pc.equal(pc.fill_null(column, ""), "")


def as_integers(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a column of text as integers if every cell is one and nothing is lost, else as it is.

    Example:
        >>> as_integers(pa.chunked_array([["1", "20"]])).type
        DataType(int64)
        >>> as_integers(pa.chunked_array([["1", "020"]])).type
        DataType(string)
    """
    if pc.all(pc.match_substring_regex(column, INTEGER)).as_py():
        with suppress(pa.ArrowInvalid):  # more digits than an integer holds
            return column.cast(pa.int64())
    return column


class NumberKind:
    """What a column of text is read as: it is a number if every cell is, and nothing is lost.

    A column may come in pieces; all are seen before the first is converted.

    Example:
        >>> kind = NumberKind()
        >>> kind.see(pa.chunked_array([["1", "2"]]))
        >>> kind.see(pa.chunked_array([["2.5", None]]))
        >>> kind.convert(pa.chunked_array([["1", None]])).to_pylist()
        [1.0, None]
    """

    def __init__(self) -> None:
        self._null = True
        self._filled = self.has_empty = False
        self._integer = self._number = True

    def see(self, column: pa.ChunkedArray) -> None:
        """Take in the next piece."""
        self._null = self._null and column.null_count == len(column)
        filled = _without_empty(column)
        self.has_empty = self.has_empty or filled.null_count > 0
        if filled.null_count == len(filled):
            return
        self._filled = True
        self._integer = self._integer and pa.types.is_integer(as_integers(filled).type)
        self._number = self._number and bool(
            pc.all(pc.match_substring_regex(filled, NUMBER)).as_py()
        )

    @property
    def type(self) -> pa.DataType:
        """What the cells are converted to."""
        if self._null:
            return pa.null()
        if self._filled and self._integer:
            return pa.int64()
        return pa.float64() if self._filled and self._number else pa.string()

    def convert(self, column: pa.ChunkedArray) -> pa.ChunkedArray:
        """Return a piece as what the whole column is."""
        if pa.types.is_null(self.type):
            return pa.chunked_array([pa.nulls(len(column))])
        return column if pa.types.is_string(self.type) else _without_empty(column).cast(self.type)


def _without_empty(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.if_else(is_empty(column), pa.scalar(None, pa.string()), column)


def as_numbers(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a whole column of text as what it is read as."""
    kind = NumberKind()
    kind.see(column)
    return kind.convert(column)


# One table file (CSV, TSV or Parquet) as a pyarrow.Table; a fault in it is named with its line.


DELIMITERS = {".csv": ",", ".tsv": "\t"}
SUFFIXES = (*DELIMITERS, ".parquet")

# A row has to fit into two blocks.
BLOCK_SIZE = 1 << 24


@dataclass(frozen=True)
class TableFile:
    """A table, or a piece of one, and the file it was read from."""

    path: Path
    table: pa.Table
    known: frozenset[str]
    """Columns that the reader asked for, there or not; all others are further columns."""
    first_row: int = 0
    """Which row of the file the first row of a piece is."""

    def keys(self, name: str) -> pa.ChunkedArray:
        """Return a column of ids, types or relations.

        Raises:
            GraphError: one of them is empty, with its line.
        """
        column = self.table[name]
        if pa.types.is_integer(column.type):
            row = pc.index(pc.is_null(column), True).as_py()
        else:
            row = pc.index(is_empty(column), True).as_py()
        if row >= 0:
            raise GraphError(f"{self.place(row)}: {name} is empty.")
        return column

    @property
    def further(self) -> pa.Table:
        """The columns that were not asked for."""
        return self.table.select([c for c in self.table.column_names if c not in self.known])

    def place(self, row: int) -> str:
        """Say where a row of the table stands: file and line, as an editor counts it."""
        row += self.first_row
        delimiter = DELIMITERS.get(self.path.suffix.lower())
        if delimiter is None:
            return f"{self.path}, row {row + 1}"
        # The header is the first record.
        line, _ = next(islice(_records(self.path, delimiter), row + 1, None))
        return f"{self.path}, line {line}"


@contextmanager
def file_errors(path: Path, deed: Literal["read", "written"]) -> Iterator[None]:
    """Turn what the operating system or pyarrow complain about into a GraphError of one line."""
    try:
        yield
    except (OSError, pa.ArrowException) as error:
        words = getattr(error, "strerror", None) or " ".join(str(error).split())
        raise GraphError(f"{path}: cannot be {deed}: {words}.") from error


def read_table(path: Path, required: Sequence[str], optional: Sequence[str] = ()) -> TableFile:
    """Read a table.

    Args:
        path: a file that ends in .csv, .tsv or .parquet.
        required: columns that must be there. They are found in lower or upper case, and are read
            as text.
        optional: columns that are treated likewise if they are there. All others are numbers if
            every cell is one and reading it so loses nothing, else text; in Parquet they are what
            they are.

    Raises:
        GraphError: the file cannot be read, or not as such a table; with the line.
    """
    known = frozenset((*required, *optional))
    delimiter = DELIMITERS.get(path.suffix.lower())
    with file_errors(path, "read"):
        if delimiter is None:
            table = _read_parquet(path, known, required)
        else:
            table = _read_text(path, delimiter, known, required)
    return TableFile(path, table, known)


def write_table(table: pa.Table, path: Path) -> None:
    """Write a table as CSV or Parquet, by the ending of its name."""
    if path.suffix == ".parquet":
        pa.parquet.write_table(table, path)
    else:
        pa.csv.write_csv(table, path)


@dataclass(frozen=True)
class TextHeader:
    """How a text file begins."""

    columns: list[str]
    """As the file calls them."""
    names: list[str]
    """As they are called here."""
    has_rows: bool


def read_header(
    path: Path, delimiter: str, known: frozenset[str], required: Sequence[str]
) -> TextHeader:
    """Read the header of a text file, and check it."""
    try:
        _check_quotes(path, delimiter)
        start = list(islice(_records(path, delimiter), 2))
    except UnicodeDecodeError as error:
        refuse_text(path, delimiter, error)
    if not start:
        raise GraphError(f"{path}: the file is empty. Its first line must name the columns.")
    line, header = start[0]
    separated = "commas" if delimiter == "," else "tabs"
    where = f"{path}, line {line} (columns separated by {separated})"
    return TextHeader(header, column_names(header, where, known, required), len(start) > 1)


def text_options(
    header: TextHeader, delimiter: str, block_size: int = BLOCK_SIZE
) -> dict[str, Any]:
    """Return how pyarrow has to read a text file: every cell as text."""
    return {
        "read_options": pa.csv.ReadOptions(block_size=block_size),
        "parse_options": pa.csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
        # Without types, an id 007 would become 7, and a gene called NA would be no gene.
        "convert_options": pa.csv.ConvertOptions(
            column_types=dict.fromkeys(header.columns, pa.string()),
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
            null_values=[""],
        ),
    }


def empty_text(header: TextHeader) -> pa.Table:
    """Return the table of a text file without rows, in which pyarrow would find no column."""
    return pa.table({name: pa.array([], pa.string()) for name in header.names})


def _read_text(
    path: Path, delimiter: str, known: frozenset[str], required: Sequence[str]
) -> pa.Table:
    header = read_header(path, delimiter, known, required)
    table = empty_text(header)
    if header.has_rows:
        try:
            table = pa.csv.read_csv(path, **text_options(header, delimiter))
        except (pa.ArrowInvalid, UnicodeDecodeError) as error:
            refuse_text(path, delimiter, error)
        table = table.rename_columns(header.names)
    return pa.table({n: table[n] if n in known else as_numbers(table[n]) for n in header.names})


def _read_parquet(path: Path, known: frozenset[str], required: Sequence[str]) -> pa.Table:
    # ParquetFile reads this one file; read_table would also read columns out of folder names.
    with pa.parquet.ParquetFile(path) as file:
        table = without_row_labels(file.read())
    names = column_names(table.column_names, str(path), known, required)
    table = table.rename_columns(names)
    for i, name in enumerate(names):
        if name in known:
            table = table.set_column(i, name, as_text(table[name], name, path))
    return table


def without_row_labels(table: pa.Table) -> pa.Table:
    """Return the columns of a Parquet file without what pandas adds."""
    kept = [c for c in table.column_names if not c.startswith("__index_level_")]
    return table.select(kept).replace_schema_metadata(None)


def as_text(column: pa.ChunkedArray, name: str, path: Path) -> pa.ChunkedArray:
    """Return a column of keys or names as text; what is neither text nor integer is refused."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    kind = column.type
    if pa.types.is_null(kind) or pa.types.is_integer(kind) or any(
        test(kind) for test in (pa.types.is_string, pa.types.is_large_string)
    ):  # fmt: skip
        return column.cast(pa.string())
    raise GraphError(f"{path}: the column {name!r} must hold text or integers, it holds {kind}.")


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


def _records(path: Path, delimiter: str, strict: bool = False) -> Iterator[tuple[int, list[str]]]:
    """Yield the records of a text file that are not blank, each with the line it begins on."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.reader(file, delimiter=delimiter, strict=strict)
        line = 1
        try:
            for fields in reader:
                if fields:
                    yield line, fields
                line = reader.line_num + 1
        except csv.Error as error:
            raise GraphError(
                f'{path}, line {line}: the quotes (") in this row do not match. Write a quote '
                "within a quoted text twice."
            ) from error


def _check_quotes(path: Path, delimiter: str) -> None:
    """Refuse a quote that is never closed: all rows after it would become one long name."""
    with path.open("rb") as file:
        quotes = sum(block.count(b'"') for block in iter(lambda: file.read(BLOCK_SIZE), b""))
    # A quote within an unquoted text (5" nails) is one of its letters, and need not be closed.
    if quotes % 2:
        deque(_records(path, delimiter, strict=True), maxlen=0)


def refuse_text(path: Path, delimiter: str, error: Exception) -> NoReturn:
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
    records = _records(path, delimiter)
    _, header = next(records)
    for line, fields in records:
        if len(fields) != len(header):
            raise GraphError(
                f"{path}, line {line}: the row has {len(fields)} fields, the header has "
                f"{len(header)}. Put texts with a {'comma' if delimiter == ',' else 'tab'} into "
                "quotes."
            ) from error
    raise GraphError(f"{path}: cannot be read: {' '.join(str(error).split())}.") from error
