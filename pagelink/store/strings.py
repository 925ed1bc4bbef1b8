"""Texts on disk: UTF-8 bytes, where each begins, and a sorted list of hashes to find them by."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, overload

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pagelink.errors import StoreError
from pagelink.graph.schema import Fingerprint
from pagelink.runtime.arrays import Longs
from pagelink.runtime.kernels import kernel
from pagelink.store.manifest import Array, ArrayWriter, StoreFiles

PARTS = ("text", "start", "hash", "place")
_BLOCK = 1 << 16

Bytes = npt.NDArray[np.uint8]


class StoredStrings(Sequence[str]):
    """Texts that are read when they are needed.

    Args:
        text: all texts as UTF-8, one after the other.
        start: where each begins, and where the last ends.
        hash: hashes of all texts, in ascending order.
        place: which text each hash is of; ascending where hashes are equal.
        file: how the names of their files begin, for errors.

    Raises:
        StoreError: when a text is read whose place or bytes are damaged.

    Example:
        >>> strings = StoredStrings(*string_arrays(pa.array(["Ada", "Bo", "Ada"])))
        >>> strings[1], strings.find("Ada"), strings.find("Cy")
        ('Bo', [0, 2], [])
    """

    def __init__(
        self, text: Array, start: Array, hash: Array, place: Array, file: Path = Path()
    ) -> None:
        self._text, self._start, self._hash, self._place = text, start, hash, place
        self._file = file

    def __len__(self) -> int:
        return len(self._start) - 1

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        position = int(index)
        if position < 0:
            position += len(self)
        if not 0 <= position < len(self):
            raise IndexError(f"index {index} is out of range, there are {len(self)} texts")
        try:
            return self._bytes(position).decode()
        except UnicodeDecodeError as error:
            raise self._damage("text") from error

    def __iter__(self) -> Iterator[str]:
        for first in range(0, len(self), _BLOCK):
            yield from self.block(first, first + _BLOCK).to_pylist()

    def block(self, first: int, last: int) -> pa.LargeStringArray:
        """Return the texts from one position to before another, as a copy."""
        starts = np.array(self._start[first : last + 1])
        if starts[0] < 0 or starts[-1] > len(self._text) or (np.diff(starts) < 0).any():
            raise self._damage("start")
        found = texts_between(self._text, self._start, first, last)
        try:
            found.validate(full=True)
        except pa.ArrowInvalid as error:
            raise self._damage("text") from error
        return found

    def find(self, text: str) -> list[int]:
        """Return where a text is, in order; by binary search on disk."""
        try:
            wanted = text.encode()
        except UnicodeEncodeError:  # half a character cannot be in valid text
            return []
        content = np.frombuffer(wanted, dtype=np.uint8)
        sought = hashes(content, np.array([0, len(wanted)]))
        first = int(np.searchsorted(self._hash, sought, side="left")[0])
        last = int(np.searchsorted(self._hash, sought, side="right")[0])
        places = [int(place) for place in self._place[first:last]]
        if not all(0 <= place < len(self) for place in places):
            raise self._damage("place")
        return [place for place in places if self._bytes(place) == wanted]

    def _bytes(self, position: int) -> bytes:
        first, last = int(self._start[position]), int(self._start[position + 1])
        if not 0 <= first <= last <= len(self._text):
            raise self._damage("start")
        return self._text[first:last].tobytes()

    def _damage(self, part: str) -> StoreError:
        return StoreError(
            f"{self._file}.{part}.npy: damaged, there is no text at a place that it names. Copy "
            "the store anew, or build it again."
        )

    def __contains__(self, text: object) -> bool:
        return isinstance(text, str) and bool(self.find(text))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence) or isinstance(other, str):
            return NotImplemented
        return len(self) == len(other) and all(a == b for a, b in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        shown = ", ".join(map(repr, self[:3])) + (", ..." if len(self) > 3 else "")
        return f"StoredStrings of {len(self)}: [{shown}]"


class StringsWriter:
    """Writes the files of a `StoredStrings`; the texts may come in pieces."""

    def __init__(self, files: StoreFiles, name: str) -> None:
        self.name = name
        self.count = 0
        self._files = files
        self._text = ArrayWriter(files, f"{name}.text", np.uint8, (-1,))
        self._start = ArrayWriter(files, f"{name}.start", np.int64, (-1,))
        self._start.write(np.zeros(1, dtype=np.int64))
        self._end = 0
        self._hashes = [np.empty(0, dtype=np.uint64)]
        self._digest = Fingerprint()

    def add(self, texts: pa.Array) -> None:
        """Write the next texts."""
        text, start = utf8_of(texts)
        self._hashes.append(hashes(text, start))
        content = text[start[0] : start[-1]]
        self._text.write(content)
        self._start.write(start[1:] + (self._end - start[0]))
        self._digest.add(_separated(content, start[:-1] - start[0], self.count == 0))
        self._end += len(content)
        self.count += len(texts)

    @property
    def fingerprint(self) -> str:
        """What `fingerprint_of_names` says of all texts."""
        return self._digest.text

    def close(self) -> str:
        """Complete the files, and return their common name."""
        self._text.close()
        self._start.close()
        found, place = _in_order(np.concatenate(self._hashes))
        self._files.array(f"{self.name}.hash", found)
        self._files.array(f"{self.name}.place", place)
        return self.name

    def discard(self) -> None:
        """Remove the files."""
        for writer in (self._text, self._start):
            writer.close()
            (self._files.folder / writer.file).unlink()
            del self._files.entries[writer.file]


def write_strings(files: StoreFiles, name: str, texts: pa.Array) -> str:
    """Write texts to the files of a `StoredStrings`; return their name."""
    writer = StringsWriter(files, name)
    writer.add(texts)
    return writer.close()


def _separated(content: Bytes, start: Longs, is_first: bool) -> Bytes:
    """Return texts with a zero before each but the first."""
    found = np.insert(content, start, 0)
    return found[1:] if is_first and len(start) else found


def string_arrays(texts: pa.Array) -> tuple[Array, Array, Array, Array]:
    """Return the arrays of a `StoredStrings` in memory."""
    text, start = utf8_of(texts)
    return text[start[0] : start[-1]], start - start[0], *_in_order(hashes(text, start))


def texts_between(text: Array, start: Array, first: int, last: int) -> pa.LargeStringArray:
    """Return some of the texts that lie one after the other as an Arrow array, a copy."""
    starts = np.array(start[first : last + 1])
    content = np.array(text[starts[0] : starts[-1]])
    starts -= starts[0]
    buffers = pa.py_buffer(starts), pa.py_buffer(content)
    return pa.LargeStringArray.from_buffers(len(starts) - 1, *buffers)


def utf8_of(texts: pa.Array) -> tuple[Bytes, Longs]:
    """Return the bytes under an Arrow array of texts without nulls, and where each begins."""
    texts = texts.cast(pa.large_string())
    _, start, text = texts.buffers()
    if not len(texts) or start is None:
        return np.empty(0, dtype=np.uint8), np.zeros(1, dtype=np.int64)
    starts = np.frombuffer(start, dtype=np.int64)[texts.offset : texts.offset + len(texts) + 1]
    content = np.frombuffer(b"" if text is None else text, dtype=np.uint8)
    return content, starts


def hashes(text: Bytes, start: Longs) -> npt.NDArray[np.uint64]:
    """Return a 64-bit hash of each text."""
    found: npt.NDArray[np.uint64] = _hashes(read_only(text), read_only(start))
    return found


def read_only(array: Array) -> Any:
    """Return the array for a kernel that is compiled once, whether it may be written to or not."""
    view = array.view()
    view.flags.writeable = False
    return view


def _in_order(found: npt.NDArray[np.uint64]) -> tuple[Array, Array]:
    place = np.argsort(found, kind="stable")
    return found[place], place.astype(np.int32)


@kernel
def _hashes(text, start):  # type: ignore[no-untyped-def]
    """FNV-1a, then mixed so that all bits depend on all letters."""
    found = np.empty(len(start) - 1, dtype=np.uint64)
    for i in range(len(start) - 1):
        h = np.uint64(0xCBF29CE484222325)
        for j in range(start[i], start[i + 1]):
            h = (h ^ np.uint64(text[j])) * np.uint64(0x100000001B3)
        h ^= h >> np.uint64(33)
        h *= np.uint64(0xFF51AFD7ED558CCD)
        h ^= h >> np.uint64(33)
        found[i] = h
    return found
