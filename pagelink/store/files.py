"""The files of a store that is being made."""

from __future__ import annotations

import hashlib
import shutil
import sys
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

from pagelink.errors import StoreError
from pagelink.store.manifest import (
    HALF_WRITTEN,
    MANIFEST,
    Array,
    Entry,
    npy_header,
    sha256_of,
    write_errors,
)

if sys.platform != "win32":
    import fcntl


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


def begin_store(folder: Path) -> StoreFiles:
    """Make the folder of a new store, empty; what is left of a half-written one is removed.

    Raises:
        StoreError: there is something else in the folder, it cannot be made, or another process
            is making a store there.
    """
    check_free(folder)
    is_new = not folder.is_dir()
    with write_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        mark = (folder / HALF_WRITTEN).open("ab")
        try:
            _lock(mark, folder)
            if (folder / MANIFEST).exists():  # completed by another process just now
                (folder / HALF_WRITTEN).unlink()
            check_free(folder)
            _clear(folder, but=HALF_WRITTEN)
            mark.truncate(0)
            mark.write(b"This graph store is being written, or was left half-written.\n")
            mark.flush()
        except BaseException:
            mark.close()
            raise
    return StoreFiles(folder, is_new, mark)


def _lock(mark: BinaryIO, folder: Path) -> None:
    if sys.platform == "win32":
        return
    # The kernel lets go of the lock when the process ends, however it ends.
    try:
        fcntl.flock(mark, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise StoreError(
            f"{folder}: another process is making a store there. Wait for it, or give another "
            "folder."
        ) from error
    except OSError:
        return  # a file system without locks


def _clear(folder: Path, but: str = "") -> None:
    for each in folder.iterdir():
        if each.name != but:
            shutil.rmtree(each) if each.is_dir() and not each.is_symlink() else each.unlink()


class StoreFiles:
    """Writes the files of a store, and keeps their entries for the manifest.

    At the end of a `with` block the store is complete, or nothing is left of it.
    """

    def __init__(self, folder: Path, is_new: bool, mark: BinaryIO) -> None:
        self.folder = folder
        self._mark = mark
        self._is_new = is_new
        self.entries: dict[str, Entry] = {}
        self.open: set[BinaryIO] = set()

    def __enter__(self) -> StoreFiles:
        return self

    def __exit__(self, *failed: object) -> None:
        while self.open:
            with suppress(OSError):  # what a full disk did not take is lost anyway
                self.open.pop().close()
        if failed[0] is not None:
            _clear(self.folder)
            if self._is_new:
                self.folder.rmdir()
        self._mark.close()

    def array(self, name: str, values: Array) -> str:
        """Write an array to `<name>.npy` and return the name of the file."""
        with ArrayWriter(self, name, values.dtype, values.shape) as writer:
            writer.write(values)
        return writer.file

    def add(self, file: str) -> str:
        """Take up a file that is not an array and was written by others."""
        path = self.folder / file
        with path.open("rb") as content:
            digest = sha256_of(content)
        self.entries[file] = {
            "dtype": None, "shape": None, "bytes": path.stat().st_size, "sha256": digest
        }  # fmt: skip
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
        self._start = self._bytes = len(npy_header(self._dtype.str, shape))
        self._put(npy_header(self._dtype.str, shape))
        self._bytes = self._start

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
            self._shape = ((self._bytes - self._start) // row, *self._shape[1:])
            self._handle.seek(0)
            self._handle.write(npy_header(self._dtype.str, self._shape))
            digest = sha256_of(self._handle)
        self._handle.close()
        self._files.open.discard(self._handle)
        expected = self._start + int(np.prod(self._shape)) * self._dtype.itemsize
        if self._bytes != expected:
            raise StoreError(f"{self._path}: {self._bytes:,} bytes came, {expected:,} were due.")
        self._files.entries[self.file] = {
            "dtype": self._dtype.str, "shape": list(self._shape), "bytes": self._bytes,
            "sha256": digest,
        }  # fmt: skip
