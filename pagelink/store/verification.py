"""A store is verified once on a machine: every file is read, and its sha256 compared.

What was verified is remembered in the user's cache folder, by inode, size and times of each file,
so that a store that is copied, replaced or changed is verified again before it is used.
"""

from __future__ import annotations

import hashlib
import json
import os
import socket
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from pagelink.errors import StoreError
from pagelink.runtime.files import write_text
from pagelink.store.facts import Step
from pagelink.store.manifest import MANIFEST, Entry, Signature, read_errors, sha256_of

if sys.platform != "win32":
    import fcntl

CACHE_VARIABLE = "PAGELINK_CACHE"
"""Environment variable: the folder for what pagelink remembers, if not the user's cache folder."""
LONG = 1 << 30
"""Bytes that take long enough to read for a word about it."""
_RECENT = 2_000_000_000
# Nanoseconds. Some file systems count time in seconds or two: a file that changed just before it
# was verified may change again and still have the same times, so that it is not remembered.

Seen = Mapping[str, Signature]


def verify_files(
    folder: Path, entries: Mapping[str, Entry], step: Step = lambda word, done, total: None
) -> None:
    """Compare the sha256 of files with their entries in the manifest.

    Args:
        folder: the store.
        entries: the files to read, and what the manifest says of them.
        step: called with what is done, the bytes read, and those there are.

    Raises:
        StoreError: a file is another one; with its name.
    """
    total, done = sum(entry["bytes"] for entry in entries.values()), 0

    def read(count: int) -> None:
        nonlocal done
        done += count
        step(f"verifying {folder.name}", done, total)

    for file, entry in entries.items():
        path = folder / file
        with read_errors(path), path.open("rb") as content:
            found = sha256_of(content, read)
        if found != entry["sha256"]:
            raise StoreError(
                f"{path}: the file was changed, its sha256 is not that of {MANIFEST}. "
                "Build the store again, or copy it anew."
            )


def verify_once(folder: Path, entries: Mapping[str, Entry], seen: Seen) -> None:
    """Verify the files of a store that were not verified on this machine yet.

    One process does so while others wait for it.

    Raises:
        StoreError: a file is another one; with its name.
    """
    if not _new_files(folder, entries, seen):
        return
    with _lock(folder):
        new = _new_files(folder, entries, seen)
        if new:
            with _said(folder, sum(entry["bytes"] for entry in new.values())) as step:
                verify_files(folder, new, step)
            remember(folder, seen)


def remember(folder: Path, seen: Seen) -> None:
    """Keep that files of a store are as the manifest says, for the next time it is opened."""
    recent = time.time_ns() - _RECENT
    kept = {file: list(found) for file, found in seen.items() if max(found[2:]) < recent}
    with suppress(OSError):  # without a record the store is verified again, which is no error
        _forget_removed(_records())
        record = {"store": str(folder.absolute()), "files": kept}
        if kept:
            write_text(_record(folder), json.dumps(record, indent=1))


def _forget_removed(records: Path) -> None:
    for record in records.glob("*.json"):
        with suppress(ValueError, LookupError, TypeError):
            if not Path(json.loads(record.read_text("utf-8"))["store"]).is_dir():
                record.unlink()
                record.with_suffix(".lock").unlink(missing_ok=True)


def _new_files(folder: Path, entries: Mapping[str, Entry], seen: Seen) -> dict[str, Entry]:
    """Return the files that are not known to be verified."""
    try:
        known: Any = json.loads(_record(folder).read_text("utf-8"))["files"]
        return {f: entry for f, entry in entries.items() if known.get(f) != list(seen[f])}
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return dict(entries)


def _record(folder: Path) -> Path:
    """Where it is kept what was verified of a store on this machine."""
    # A home may be shared by machines that have each a store of their own at the same path.
    place = json.dumps([socket.gethostname(), str(folder.absolute())])
    return _records() / f"{hashlib.sha256(place.encode(errors='replace')).hexdigest()[:32]}.json"


def _records() -> Path:
    """Return the folder of the records: that of the user, or a temporary one if it is read-only.

    Raises:
        OSError: neither can be written.
    """
    with suppress(OSError, RuntimeError):  # a home that cannot be written, or none
        records = cache_folder() / "verified-stores"
        records.mkdir(parents=True, exist_ok=True)
        if os.access(records, os.W_OK | os.X_OK):
            return records
    user = os.getuid() if sys.platform != "win32" else 0
    records = Path(tempfile.gettempdir()) / f"pagelink-verified-stores-{user}"
    records.mkdir(mode=0o700, exist_ok=True)
    state = records.stat()
    if sys.platform != "win32" and (state.st_uid != user or state.st_mode & 0o022):
        raise PermissionError(f"{records} belongs to somebody else.")
    return records


def cache_folder() -> Path:
    """Return the folder for what pagelink keeps from one run to the next."""
    if given := os.environ.get(CACHE_VARIABLE):
        return Path(given)
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData/Local") / "pagelink"
    if sys.platform == "darwin":
        return Path.home() / "Library/Caches/pagelink"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pagelink"


@contextmanager
def _lock(folder: Path) -> Iterator[None]:
    """Have a store verified by one process at a time, where there are locks."""
    if sys.platform == "win32":
        yield
        return
    try:
        file = _record(folder).with_suffix(".lock").open("ab")
    except OSError:
        yield
        return
    with file:
        # The kernel lets go of the lock when the process ends, however it ends.
        with suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextmanager
def _said(folder: Path, size: int) -> Iterator[Step]:
    """Say that a large store is being verified, and how far it is."""
    if size < LONG:
        yield lambda word, done, total: None
        return
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    console.print(
        f"pagelink: verifying {folder}, once on this machine: {size / 1e9:.1f} GB are read",
        markup=False, highlight=False, soft_wrap=True,
    )  # fmt: skip
    with Progress(console=console, transient=True) as bar:
        task = bar.add_task("verifying", total=size)
        yield lambda word, done, total: bar.update(task, completed=done)
