"""Columns of text that are numbers: found out cell by cell, in pieces if need be."""

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
