"""The files of a graph store: plain arrays and Arrow tables, and a manifest that lists them.

A store is a folder. Its `manifest.json` is written last, so that a folder without it is no store
yet; while one is being made, a file `half-written` says so. Each file stands in the manifest with
its size, its checksum and, if it is an array, its type and shape; the manifest has a checksum of
its own.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from pagelink.errors import StoreError
from pagelink.runtime.files import locked, write_bytes

FORMAT = "pagelink store"
VERSION = 3
MANIFEST = "manifest.json"
HALF_WRITTEN = "half-written"

Array = npt.NDArray[Any]
Entry = dict[str, Any]
"""What the manifest says of a file: bytes, sha256, and dtype and shape of an array."""
Signature = tuple[int, int, int, int]
"""Inode, size, and times of the last change of the content and of the file, in nanoseconds."""

_NO_CHECKSUM = "0" * 64
_BLOCK = 1 << 22


def is_store(path: Path | str) -> bool:
    """Return whether a path is a graph store, be it damaged or half-written."""
    folder = Path(path)
    if (folder / HALF_WRITTEN).is_file():
        return True
    try:
        with (folder / MANIFEST).open("rb") as file:
            return FORMAT.encode() in file.read(200)
    except OSError:
        return False


def finish_store(folder: Path, manifest: Mapping[str, Any]) -> None:
    """Write the manifest, which makes the folder a store."""
    head = {"format": FORMAT, "version": VERSION, "checksum": _NO_CHECKSUM}
    text = json.dumps({**head, **manifest}, ensure_ascii=False, indent=1).encode() + b"\n"
    checksum = hashlib.sha256(text).hexdigest()
    write_bytes(folder / MANIFEST, text.replace(_NO_CHECKSUM.encode(), checksum.encode(), 1))
    (folder / HALF_WRITTEN).unlink()


def read_manifest(folder: Path) -> tuple[dict[str, Any], str]:
    """Return the manifest of a store, and its sha256: the identity of the store.

    Raises:
        StoreError: there is none, or it is not one that this version reads.
    """
    path = folder / MANIFEST
    try:
        content = path.read_bytes()
    except OSError as error:
        if (folder / HALF_WRITTEN).is_file():
            raise StoreError(
                f"{folder}: the store is half-written, {MANIFEST} is missing. Build it again."
            ) from error
        raise StoreError(
            f"{folder}: not a graph store, there is no {MANIFEST}. `pagelink store` makes one."
        ) from error
    try:
        manifest = json.loads(content)
        format, version = manifest["format"], manifest["version"]
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        raise StoreError(f"{path}: damaged, or not the manifest of a graph store.") from error
    if format != FORMAT:
        raise StoreError(f"{path}: not the manifest of a graph store, its format is {format!r}.")
    if version != VERSION:
        raise StoreError(
            f"{path}: the store has version {version!r}, this pagelink reads {VERSION}. Build it "
            "again."
        )
    checksum = str(manifest.get("checksum")).encode(errors="replace")
    as_made = content.replace(checksum, _NO_CHECKSUM.encode(), 1)
    if hashlib.sha256(as_made).hexdigest().encode() != checksum:
        raise StoreError(
            f"{path}: the file was changed, its sha256 is not the one it states. Build the store "
            "again."
        )
    return manifest, hashlib.sha256(content).hexdigest()


def signature(path: Path) -> Signature:
    """Return what changes when a file is written or replaced.

    Raises:
        StoreError: the file is missing.
    """
    with read_errors(path):
        found = path.stat()
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def check_file(path: Path, entry: Entry) -> Signature:
    """Compare a file with its entry: its size and, of an array, its header.

    Raises:
        StoreError: it is missing, or another file.
    """
    found = signature(path)
    if found[1] != entry["bytes"]:
        raise StoreError(
            f"{path}: the file has {found[1]:,} bytes instead of {entry['bytes']:,}. "
            "Build the store again."
        )
    with read_errors(path), path.open("rb") as file:
        header = b"" if entry["dtype"] is None else npy_header(entry["dtype"], entry["shape"])
        if file.read(len(header)) != header:
            raise StoreError(
                f"{path}: not an array of type {entry['dtype']} and shape {entry['shape']}. "
                "Build the store again."
            )
    return found


def sha256_of(file: BinaryIO, step: Callable[[int], None] = lambda done: None) -> str:
    """Return the checksum of a whole file; `step` is called with the bytes of each block read."""
    file.seek(0)
    digest = hashlib.sha256()
    while block := file.read(_BLOCK):
        digest.update(block)
        step(len(block))
    return digest.hexdigest()


@contextmanager
def read_errors(path: Path) -> Iterator[None]:
    """Turn what the operating system complains about while a file is read into a StoreError."""
    try:
        yield
    except OSError as error:
        raise StoreError(
            f"{path}: cannot be read: {error.strerror or error}. Build the store again."
        ) from error


@contextmanager
def write_errors(folder: Path) -> Iterator[None]:
    """Turn what the operating system complains about while a store is written into a StoreError."""
    try:
        yield
    except OSError as error:
        words = error.strerror or str(error)
        place = error.filename or folder
        raise StoreError(
            f"{place}: cannot be written: {words}. Make room, or give another folder, and build "
            "the store again."
        ) from error


def npy_header(dtype: str, shape: list[int] | tuple[int, ...]) -> bytes:
    """Return the first bytes of an .npy file; of as many rows as may be, they are as many."""
    header = BytesIO()
    np.lib.format.write_array_header_1_0(
        header, {"descr": dtype, "fortran_order": False, "shape": tuple(shape)}
    )
    return header.getvalue()


# Writing: a store that is being made, and its arrays.


def check_free(folder: Path) -> None:
    """Refuse a folder that holds something else than a half-written store.

    Raises:
        StoreError: there is a store, a file, or whatever else.
    """
    if (folder / MANIFEST).exists():
        raise StoreError(f"{folder}: there is a store already. Give another folder, or remove it.")
    if folder.exists() and not folder.is_dir():
        raise StoreError(f"{folder}: there is a file of this name. Give a folder.")
    if folder.is_dir() and any(folder.iterdir()) and not (folder / HALF_WRITTEN).is_file():
        raise StoreError(f"{folder}: the folder is not empty. Give another.")


def _clear(folder: Path, but: str = "") -> None:
    for each in folder.iterdir():
        if each.name != but:
            shutil.rmtree(each) if each.is_dir() and not each.is_symlink() else each.unlink()


class StoreFiles:
    """Writes the files of a new store, and keeps their entries for the manifest.

    Args:
        folder: made empty; what is left of a half-written store is removed.

    Raises:
        StoreError: there is something else in the folder, or it cannot be made.
        BusyError: another process is making a store there.
    """

    def __init__(self, folder: Path) -> None:
        check_free(folder)
        self.folder = folder
        self.entries: dict[str, Entry] = {}
        self.open: set[BinaryIO] = set()
        self._is_new = not folder.is_dir()
        with write_errors(folder), ExitStack() as stack:
            stack.enter_context(locked(folder))
            check_free(folder)  # another process may have completed it just now
            folder.mkdir(parents=True, exist_ok=True)
            (folder / HALF_WRITTEN).write_text(
                "This graph store is being written, or was left half-written.\n"
            )
            _clear(folder, but=HALF_WRITTEN)
            self._lock = stack.pop_all()

    def close(self, failed: bool) -> None:
        """Let go of the folder; if the store could not be completed, nothing is left of it."""
        while self.open:
            with suppress(OSError):  # what a full disk did not take is lost anyway
                self.open.pop().close()
        with self._lock:
            if failed:
                _clear(self.folder)
                if self._is_new:
                    self.folder.rmdir()

    def array(self, name: str, values: Array) -> str:
        """Write an array to `<name>.npy` and return the name of the file."""
        with ArrayWriter(self, name, values.dtype, values.shape) as writer:
            writer.write(values)
        return writer.file

    @contextmanager
    def columns(self, count: int, **dtypes: npt.DTypeLike) -> Iterator[Callable[..., None]]:
        """Give a function that writes the next rows of several arrays, a piece of each."""
        with ExitStack() as stack:
            writers = [
                stack.enter_context(ArrayWriter(self, name, dtype, (count,)))
                for name, dtype in dtypes.items()
            ]

            def write(*pieces: Array) -> None:
                for writer, piece in zip(writers, pieces, strict=True):
                    writer.write(piece)

            yield write

    def add(self, file: str) -> str:
        """Take up a file that is not an array and was written by others."""
        path = self.folder / file
        with path.open("rb") as content:
            digest = sha256_of(content)
        size = path.stat().st_size
        self.entries[file] = {"dtype": None, "shape": None, "bytes": size, "sha256": digest}
        return file


class ArrayWriter:
    """An array written row by row; its checksum is taken on the way.

    Args:
        files: where it goes.
        name: of the file, without its ending.
        dtype: of the array.
        shape: of the array. If its first number is -1, the number of rows is what comes.
    """

    def __init__(
        self, files: StoreFiles, name: str, dtype: npt.DTypeLike, shape: tuple[int, ...]
    ) -> None:
        self.file = f"{name}.npy"
        self._files = files
        self._dtype = np.dtype(dtype).newbyteorder("<")
        self._shape = shape
        self._path = files.folder / self.file
        self._handle = self._path.open("w+b")
        files.open.add(self._handle)
        self._digest = hashlib.sha256()
        # Headers are padded, so that one with the number of rows will fit in the same place.
        self.start = self._bytes = len(npy_header(self._dtype.str, shape))
        """The byte at which its first row is."""
        self._put(npy_header(self._dtype.str, shape))
        self._bytes = self.start

    def write(self, values: Array) -> None:
        """Write the next rows; they are cast to the type of the array."""
        content = np.ascontiguousarray(values, dtype=self._dtype).reshape(-1).view(np.uint8).data
        self._put(content)
        self._bytes += len(content)

    def _put(self, content: bytes | memoryview) -> None:
        self._handle.write(content)
        if self._shape[:1] != (-1,):
            self._digest.update(content)

    def __enter__(self) -> ArrayWriter:
        return self

    def __exit__(self, *failed: object) -> None:
        if failed[0] is None:
            self.close()

    def close(self) -> None:
        """Complete the file, and enter it into the list of files."""
        digest = self._digest.hexdigest()
        if self._shape[:1] == (-1,):
            row = int(np.prod(self._shape[1:])) * self._dtype.itemsize
            self._shape = ((self._bytes - self.start) // row, *self._shape[1:])
            self._handle.seek(0)
            self._handle.write(npy_header(self._dtype.str, self._shape))
            digest = sha256_of(self._handle)
        self._handle.close()
        self._files.open.discard(self._handle)
        expected = self.start + int(np.prod(self._shape)) * self._dtype.itemsize
        if self._bytes != expected:
            raise StoreError(f"{self._path}: {self._bytes:,} bytes came, {expected:,} were due.")
        entry = {"dtype": self._dtype.str, "shape": list(self._shape), "bytes": self._bytes}
        self._files.entries[self.file] = {**entry, "sha256": digest}
