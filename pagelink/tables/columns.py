"""Columns of a table: which cells are empty, which columns are numbers.

A column may come in pieces; what it is, is known when all of them have been seen.
"""

from __future__ import annotations

from contextlib import suppress

import pyarrow as pa
import pyarrow.compute as pc

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


def as_texts(column: pa.ChunkedArray) -> pa.Array:
    """Return a column of a piece as one array of texts."""
    return one_array(column).cast(pa.string())


def one_array(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Return a column of a piece as one array."""
    while isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    return column


class FurtherColumn:
    """A column beside the known ones: of a type of its own, or text that may be numbers.

    Text is read as numbers if every cell is one and nothing is lost by it.

    Args:
        name: of the column.
        field: its type, where the file knows it.

    Example:
        >>> column = FurtherColumn("age")
        >>> column.see(pa.chunked_array([["1", "2"]]))
        >>> column.see(pa.chunked_array([["2.5", None]]))
        >>> column.convert(pa.chunked_array([["1", None]])).to_pylist()
        [1.0, None]
        >>> column.is_feature  # one is missing
        False
    """

    def __init__(self, name: str, field: pa.Field | None = None) -> None:
        self._name = name
        self._given = field
        self._num_rows = 0
        self._null = True
        self._filled = self._has_missing = False
        self._integer = self._number = True

    def see(self, column: pa.ChunkedArray) -> None:
        """Take in the next piece."""
        self._num_rows += len(column)
        self._null = self._null and column.null_count == len(column)
        filled = column if self._given is not None else _without_empty(column)
        self._has_missing = self._has_missing or filled.null_count > 0
        if self._given is not None or filled.null_count == len(filled):
            return
        self._filled = True
        self._integer = self._integer and pa.types.is_integer(as_integers(filled).type)
        self._number = self._number and bool(
            pc.all(pc.match_substring_regex(filled, NUMBER)).as_py()
        )

    @property
    def field(self) -> pa.Field:
        """Name and type of the whole column."""
        if self._given is not None:
            return self._given.with_name(self._name)
        kind = pa.string()
        if self._null:
            kind = pa.null()
        elif self._filled and self._integer:
            kind = pa.int64()
        elif self._filled and self._number:
            kind = pa.float64()
        return pa.field(self._name, kind)

    @property
    def is_feature(self) -> bool:
        """Whether a model can read the column: all numbers, none missing."""
        kind = self.field.type
        if pa.types.is_null(kind):  # a text file without rows does not tell its types
            return self._num_rows == 0
        tests = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)
        return any(test(kind) for test in tests) and not self._has_missing

    def convert(self, column: pa.ChunkedArray) -> pa.ChunkedArray:
        """Return a piece as what the whole column is."""
        kind = self.field.type
        if column.type == kind:
            return column
        if pa.types.is_null(kind):
            return pa.chunked_array([pa.nulls(len(column))])
        return _without_empty(column).cast(kind)


def _without_empty(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.if_else(is_empty(column), pa.scalar(None, pa.string()), column)
