"""Text files of rows: how they are opened and separated, and what is said of a damaged one."""

from __future__ import annotations

import csv
import gzip
import re
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Literal, NoReturn, cast

from pagelink.errors import GraphError

DELIMITERS = {".csv": ",", ".tsv": "\t"}
PLAIN_TEXT = ".txt"
"""Columns separated by tabs or commas, whichever its first line has; quotes are letters."""
COMPRESSED = ".gz"

BLOCK_SIZE = 1 << 24
"""Bytes of a piece of a text file. A row has to fit into two of them."""
MOST_CHARACTERS = BLOCK_SIZE
"""Of a field of a text file."""


def suffix_of(path: Path) -> str:
    """Return how the name of a file ends, in lower case, without a .gz behind it."""
    name = path.name.lower()
    return Path(name.removesuffix(COMPRESSED)).suffix


def open_bytes(path: Path) -> IO[bytes]:
    """Open a file to be read, uncompressed."""
    opener = gzip.open if path.name.lower().endswith(COMPRESSED) else open
    return cast("IO[bytes]", opener(path, "rb"))


def open_text(path: Path) -> IO[str]:
    """Open a text file to be read, uncompressed."""
    opener = gzip.open if path.name.lower().endswith(COMPRESSED) else open
    return cast("IO[str]", opener(path, "rt", encoding="utf-8-sig", newline=""))


def has_quotes(path: Path) -> bool:
    """Whether quotes in a file stand around texts."""
    return suffix_of(path) != PLAIN_TEXT


def delimiter(path: Path) -> str:
    """Return what separates the columns of a file."""
    if has_quotes(path):
        return DELIMITERS[suffix_of(path)]
    with open_bytes(path) as file:
        first = next((line for line in file if line.strip()), b"")
    return "," if b"\t" not in first and b"," in first else "\t"


def separator(path: Path) -> str:
    """Return the same in words."""
    return "comma" if delimiter(path) == "," else "tab"


def records(path: Path, strict: bool = False) -> Iterator[tuple[int, list[str]]]:
    """Yield the records of a text file that are not blank, each with the line it begins on."""
    quoting: Literal[0, 3] = csv.QUOTE_MINIMAL if has_quotes(path) else csv.QUOTE_NONE
    with open_text(path) as file:
        reader = csv.reader(file, delimiter=delimiter(path), strict=strict, quoting=quoting)
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


def check_quotes(path: Path) -> None:
    """Refuse a quote that is never closed: all rows after it would become one long name."""
    if not has_quotes(path):
        return
    with open_bytes(path) as file:
        quotes = sum(block.count(b'"') for block in iter(lambda: file.read(BLOCK_SIZE), b""))
    # A quote within an unquoted text (5" nails) is one of its letters, and need not be closed.
    if quotes % 2:
        deque(records(path, strict=True), maxlen=0)


def refuse_text(path: Path, error: Exception) -> NoReturn:
    """Raise what is wrong with a text file that could not be parsed, with its line."""
    line = 1
    with open_bytes(path) as file:
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
    rows = records(path)
    _, header = next(rows)
    for line, fields in rows:
        if len(fields) != len(header):
            advice = f" Put texts with a {separator(path)} into quotes." * has_quotes(path)
            raise GraphError(
                f"{path}, line {line}: the row has {len(fields)} fields, the first one has "
                f"{len(header)}.{advice}"
            ) from error
    raise GraphError(f"{path}: cannot be read: {' '.join(str(error).split())}.") from error
