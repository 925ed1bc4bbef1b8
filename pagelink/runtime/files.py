"""Writing of result files: under a temporary name, renamed when complete."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def complete_file(path: Path) -> Iterator[Path]:
    """Give a temporary file to write; it gets its name only if nothing went wrong.

    Example:
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with complete_file(Path(folder) / "new" / "a.txt") as temporary:
        ...         _ = temporary.write_text("done")
        ...     (Path(folder) / "new" / "a.txt").read_text()
        'done'
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        # mkstemp makes files only their owner can read; results are for everyone, as usual.
        umask = os.umask(0)
        os.umask(umask)
        temporary.chmod(0o666 & ~umask)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def write_text(path: Path, text: str) -> Path:
    """Write a UTF-8 file so that nothing half-written is ever left under its name."""
    return write_bytes(path, text.encode())


def write_bytes(path: Path, content: bytes) -> Path:
    """Write a file so that nothing half-written is ever left under its name."""
    with complete_file(path) as temporary:
        temporary.write_bytes(content)
    return path
