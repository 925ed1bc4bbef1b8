"""Writing of result files: under a temporary name, renamed when complete."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def write_text(path: Path, text: str) -> Path:
    """Write a UTF-8 file so that nothing half-written is ever left under its name.

    Example:
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     write_text(Path(folder) / "new" / "a.txt", "done").read_text()
        'done'
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        # mkstemp makes files only their owner can read; results are for everyone, as usual.
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(temporary, 0o666 & ~umask)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    return path
