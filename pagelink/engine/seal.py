"""The seal of a part: a checksum of the file, and a hash of what it is to hold, in its metadata."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet

from pagelink.errors import EngineError

AGAIN = "Run the same command again, which makes what is missing."
_SEAL, _CONTENT = b"pagelink.sha256", b"pagelink.content"
_NO_SEAL = b"0" * 64
_BETWEEN = 2
"""Bytes between a key of the metadata and its value: the kind of the value, and its length."""


def sealed(table: pa.Table, content: bytes) -> bytes:
    """Return rows as a Parquet file whose metadata have its checksum, taken with zeros there."""
    buffer = pa.BufferOutputStream()
    with pa.parquet.ParquetWriter(buffer, table.schema) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata({_CONTENT: content, _SEAL: _NO_SEAL})
    file = bytearray(buffer.getvalue())
    start = file.rindex(_SEAL) + len(_SEAL) + _BETWEEN
    file[start : start + len(_NO_SEAL)] = hashlib.sha256(file).hexdigest().encode()
    return bytes(file)


def part_size(table: pa.Table) -> int:
    """Return the number of bytes of a part with these rows."""
    return len(sealed(table, _NO_SEAL))


@contextmanager
def unsealed(path: Path) -> Iterator[tuple[Any, bytes]]:
    """Give a part as a Parquet file, and the hash of what it is to hold.

    Nothing is made of the file before its checksum is compared.

    Raises:
        EngineError: it is missing, damaged, or not a part.
    """
    try:
        file = bytearray(path.read_bytes())
    except OSError as error:
        raise EngineError(f"{path} cannot be read: {error.strerror}. {AGAIN}") from error
    start = file.rfind(_SEAL) + len(_SEAL) + _BETWEEN
    seal = bytes(file[start : start + len(_NO_SEAL)])
    file[start : start + len(_NO_SEAL)] = _NO_SEAL
    if hashlib.sha256(file).hexdigest().encode() != seal:
        raise EngineError(f"{path} is damaged: its checksum is not that of the file. {AGAIN}")
    with pa.parquet.ParquetFile(pa.BufferReader(file)) as opened:
        yield opened, opened.metadata.metadata[_CONTENT]
