"""The files of a graph store: plain arrays and Arrow tables, and a manifest that lists them.

A store is a folder. Its `manifest.json` is written last, so that a folder without it is no store
yet; while one is being made, a file `half-written` says so. Each file stands in the manifest with
its size, its checksum and, if it is an array, its type and shape.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from pagelink.errors import StoreError
from pagelink.runtime.files import write_bytes

FORMAT = "pagelink store"
VERSION = 1
MANIFEST = "manifest.json"
HALF_WRITTEN = "half-written"

Array = npt.NDArray[Any]
Entry = dict[str, Any]
"""What the manifest says of a file: bytes, sha256, and dtype and shape of an array."""
Signature = tuple[int, int, int]

_BLOCK = 1 << 22
# Private pages that are only read are not memory of ours; without this flag the system may count
# them as such and refuse to map a file that is larger than its memory.
_NO_RESERVE = getattr(mmap, "MAP_NORESERVE", 0x4000 if sys.platform == "linux" else 0)


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
    head = {"format": FORMAT, "version": VERSION}
    with write_errors(folder):
        text = json.dumps({**head, **manifest}, ensure_ascii=False, indent=1)
        write_bytes(folder / MANIFEST, text.encode() + b"\n")
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
    except (ValueError, LookupError, TypeError) as error:
        raise StoreError(f"{path}: damaged, or not the manifest of a graph store.") from error
    if format != FORMAT:
        raise StoreError(f"{path}: not the manifest of a graph store, its format is {format!r}.")
    if version != VERSION:
        raise StoreError(
            f"{path}: the store has version {version!r}, this pagelink reads {VERSION}. "
            "Build it again."
        )
    return manifest, hashlib.sha256(content).hexdigest()


def signature(path: Path) -> Signature:
    """Return what changes when a file is written or replaced.

    Raises:
        StoreError: the file is missing.
    """
    try:
        found = path.stat()
    except OSError as error:
        raise StoreError(
            f"{path}: cannot be read: {error.strerror}. Build the store again."
        ) from error
    return found.st_ino, found.st_size, found.st_mtime_ns


def check_file(path: Path, entry: Entry, *, verify: bool) -> Signature:
    """Compare a file with its entry: its size and, of an array, its header; its sha256 if asked.

    Raises:
        StoreError: it is missing, or another file.
    """
    found = signature(path)
    if found[1] != entry["bytes"]:
        raise StoreError(
            f"{path}: the file has {found[1]:,} bytes instead of {entry['bytes']:,}. "
            "Build the store again."
        )
    with path.open("rb") as file:
        header = b"" if entry["dtype"] is None else npy_header(entry["dtype"], entry["shape"])
        if file.read(len(header)) != header:
            raise StoreError(
                f"{path}: not an array of type {entry['dtype']} and shape {entry['shape']}. "
                "Build the store again."
            )
        if verify and sha256_of(file) != entry["sha256"]:
            raise StoreError(
                f"{path}: the file was changed, its sha256 is not that of {MANIFEST}. "
                "Build the store again."
            )
    return found


def map_array(path: Path, entry: Entry) -> Array:
    """Return an array that lies in a file; only the pages that are used are read.

    Writing to it changes a private copy of the page, never the file.
    """
    # Copy on write rather than read-only: torch takes such arrays without a warning, and kernels
    # that are compiled for arrays in memory take them as they are.
    with path.open("rb") as file:
        if sys.platform == "win32":
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
        else:
            mapped = mmap.mmap(
                file.fileno(), 0, flags=mmap.MAP_PRIVATE | _NO_RESERVE,
                prot=mmap.PROT_READ | mmap.PROT_WRITE,
            )  # fmt: skip
    start = len(npy_header(entry["dtype"], entry["shape"]))
    array: Array = np.frombuffer(mapped, entry["dtype"], offset=start).reshape(entry["shape"])
    return array


def sha256_of(file: BinaryIO) -> str:
    """Return the checksum of a whole file."""
    file.seek(0)
    digest = hashlib.sha256()
    while block := file.read(_BLOCK):
        digest.update(block)
    return digest.hexdigest()


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
