"""Outputs: one process at a time writes one, and it gets its name only when it is complete.

What is written lies beside the output until then, as `.NAME.xxxxxxxx.tmp`, and the lock of an
output is `.NAME.lock`. A process that is killed leaves such files behind; the next one that writes
the same output removes them.
"""

from __future__ import annotations

import datetime
import errno
import os
import re
import secrets
import shlex
import shutil
import socket
import stat
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from pagelink.errors import BusyError, SettingsError

if sys.platform != "win32":
    import fcntl

TEMPORARY = ".tmp"
"""How the name of an incomplete output ends."""
_ADDRESS = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/")
_RANDOM = "[a-z0-9_]{8}"
_OF_A_PROCESS = re.compile(r"\.?(pagelink-[0-9a-f]{8})(?:\.lock)?")
_MOST_OF_A_COMMAND = 300


def check_local(path: Path | str) -> Path:
    """Refuse an address where a file or folder of this machine is expected.

    Args:
        path: as given, or already a `Path`, which has one slash for two.

    Raises:
        SettingsError: it starts with a scheme, as `s3://`, or with a machine, as `host:/`.

    Example:
        >>> check_local("run-1.5").name
        'run-1.5'
        >>> check_local("s3://bucket/rows.csv")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        ...
        pagelink.errors.SettingsError: s3://bucket/rows.csv is an address (s3), ...
    """
    if found := _ADDRESS.match(str(path)):
        raise SettingsError(
            f"{path} is an address ({found[1]}), and results are written to files and folders of "
            "this machine only. Give a path, and copy the result from there."
        )
    return Path(path)


# Incomplete outputs.


def temporary_name(path: Path) -> Path:
    """Return a new name beside an output, for what is left of it if this process is killed."""
    return path.with_name(f".{path.name}.{secrets.token_hex(4)}{TEMPORARY}")


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
    check_local(path).parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=TEMPORARY)
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


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """Give a folder in the temporary folder of this machine, which is removed at the end.

    Those of processes that were killed are removed, too.
    """
    place = Path(tempfile.gettempdir())
    for name in {found[1] for found in map(_OF_A_PROCESS.fullmatch, os.listdir(place)) if found}:
        with suppress(SettingsError, OSError), locked(place / name):
            shutil.rmtree(place / name, ignore_errors=True)
    folder = place / f"pagelink-{secrets.token_hex(4)}"
    with locked(folder):  # before it is there: others remove a folder that nobody holds
        folder.mkdir(mode=0o700)
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


# The lock of an output.


class _Lent(threading.local):
    """Locks that this thread holds, and lends to the next who asks for them in it."""

    def __init__(self) -> None:
        self.files: set[Path] = set()


_lent = _Lent()


@contextmanager
def locked(out: Path, *, lend: bool = False) -> Iterator[None]:
    """Give an output to this process alone, and remove what a killed one left of it.

    The kernel lets go of the lock when the process ends, however it ends.

    Args:
        out: the file or folder to write; it need not be there.
        lend: within the block, this thread may ask for the same lock again, by one at a time: for
            a command that has more to do than the function that writes, and locks.

    Raises:
        BusyError: somebody else writes it; with the process, its machine, start and command.
        SettingsError: it is an address, or cannot be locked.

    Example:
        >>> with tempfile.TemporaryDirectory() as folder, locked(Path(folder) / "out"):
        ...     with locked(Path(folder) / "out"):  # doctest: +ELLIPSIS
        ...         pass
        Traceback (most recent call last):
        ...
        pagelink.errors.BusyError: ...out is being written by process ...
    """
    file, lent = _lock_file(check_local(out)), _lent.files
    if file in lent:
        lent.discard(file)
        try:
            yield
        finally:
            lent.add(file)
        return
    made = [folder for folder in file.parents if not folder.exists()]
    with _acquire(file, out):
        try:
            _remove_left_overs(out)
            if lend:
                lent.add(file)
            yield
        finally:
            lent.discard(file)
            # As long as the lock is held: whoever has opened this file, too, will find that it is
            # not the one of this name any more, and opens the next one.
            file.unlink(missing_ok=True)
            with suppress(OSError):  # folders that nothing was written to
                for folder in made:
                    folder.rmdir()


def _lock_file(out: Path) -> Path:
    place = out.absolute().parent.resolve() / out.name
    # Beside the output, which may have to be made yet, unless only the output can be written.
    if place.is_dir() and not os.access(place.parent, os.W_OK):
        return place / ".lock"
    return place.with_name(f".{out.name}.lock")


def _acquire(file: Path, out: Path) -> IO[str]:
    while True:
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            lock = file.open("a+", encoding="utf-8")
            try:
                _flock(lock)
                if _is_of_this_name(lock, file):
                    lock.truncate(0)
                    lock.write(_owner())
                    lock.flush()
                    return lock
            except BaseException:
                lock.close()
                raise
            lock.close()
        except BlockingIOError as error:
            raise BusyError(
                f"{out} is being written by {_told(file)}. Wait for it, or choose another name."
            ) from error
        except OSError as error:
            raise SettingsError(
                f"{out} cannot be locked ({error.strerror}), so that two processes might write it "
                "at once. Choose another place, or mount its file system with locks (NFS: without "
                "nolock)."
            ) from error


def _flock(lock: IO[str]) -> None:
    if sys.platform != "win32":
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _is_of_this_name(lock: IO[str], file: Path) -> bool:
    """Whether nobody has removed the file between its opening and its locking."""
    try:
        return os.path.samestat(os.fstat(lock.fileno()), file.stat())
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ESTALE):
            return False
        raise


def _owner() -> str:
    now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    command = shlex.join(sys.orig_argv)[:_MOST_OF_A_COMMAND]
    return f"process {os.getpid()} on {socket.gethostname()} since {now}: {command}\n"


def _told(file: Path) -> str:
    """What the holder of a lock has said of itself, if it has come to that."""
    try:
        return " ".join(file.read_text("utf-8", "replace").split()) or "another process"
    except OSError:
        return "another process"


def _remove_left_overs(out: Path) -> None:
    """Remove what processes that were killed have left of an output."""
    left = re.compile(rf"\.{re.escape(out.name)}\.{_RANDOM}{re.escape(TEMPORARY)}")
    for name in filter(left.fullmatch, os.listdir(out.absolute().parent)):
        file = out.absolute().with_name(name)
        if stat.S_ISDIR(file.lstat().st_mode):
            shutil.rmtree(file, ignore_errors=True)
        else:
            file.unlink(missing_ok=True)
