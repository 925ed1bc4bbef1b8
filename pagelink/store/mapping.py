"""Arrays and tables that lie in files, of which only the pages that are used are read."""

from __future__ import annotations

import mmap
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa

from pagelink.errors import StoreError
from pagelink.store.manifest import Array, Entry, npy_header, read_errors

# Private pages that are only read are not memory of ours; without this flag the system may count
# them as such and refuse to map a file that is larger than its memory.
_NO_RESERVE = getattr(mmap, "MAP_NORESERVE", 0x4000 if sys.platform == "linux" else 0)
# Of a file of this many bytes neighbourhoods are read, here and there: what the system reads ahead
# of each page would be many times as much.
_LARGE = 1 << 30


def map_array(path: Path, entry: Entry) -> Array:
    """Return an array that lies in a file; only the pages that are used are read.

    Writing to it changes a private copy of the page, never the file.
    """
    # Copy on write rather than read-only: torch takes such arrays without a warning, and kernels
    # that are compiled for arrays in memory take them as they are.
    with read_errors(path), path.open("rb") as file:
        if sys.platform == "win32":
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
        else:
            mapped = mmap.mmap(
                file.fileno(), 0, flags=mmap.MAP_PRIVATE | _NO_RESERVE,
                prot=mmap.PROT_READ | mmap.PROT_WRITE,
            )  # fmt: skip
    if hasattr(mmap, "MADV_RANDOM") and len(mapped) >= _LARGE:
        mapped.madvise(mmap.MADV_RANDOM)
    start = len(npy_header(entry["dtype"], entry["shape"]))
    array: Array = np.frombuffer(mapped, entry["dtype"], offset=start).reshape(entry["shape"])
    return array


def map_table(path: Path, num_rows: int) -> pa.Table:
    """Return a table that lies in a file; its cells are read, and checked, when they are used.

    Raises:
        StoreError: there is no such table in it.
    """
    try:
        with read_errors(path):
            table = pa.ipc.open_file(pa.memory_map(str(path))).read_all()
        table.validate()
    except pa.ArrowException as error:
        words = " ".join(str(error).split())
        raise StoreError(f"{path}: damaged: {words}. Build the store again.") from error
    if table.num_rows != num_rows:
        raise StoreError(
            f"{path}: damaged, the table has {table.num_rows:,} rows instead of {num_rows:,}. "
            "Build the store again."
        )
    return table
