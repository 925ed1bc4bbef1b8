"""The folder of a job: its identity, its lock, its parts, which are the only record of progress.

    job.json                             what the job is; only the same job goes on in this folder
    lock                                 who works on it
    part-00000012.parquet                the rows of chunk 12
    part-00000013-0000-0128.parquet      a piece of chunk 13, which killed its workers
    part-00000013-0128-0129-killed.parquet   the one link that did it
    summary.json                         when all chunks are there

Files get their names when they are complete, and on disk.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset
import pyarrow.parquet

from pagelink.engine.opening import JOB_FILE, as_text, differing
from pagelink.engine.tasks import Piece, Task, joined
from pagelink.errors import EngineError, SettingsError
from pagelink.runtime.files import complete_file, write_text
from pagelink.views.rows import SCHEMA

LOCK_FILE = "lock"
SUMMARY_FILE = "summary.json"
_PART = re.compile(r"part-(\d{8,})(?:-(\d{4,})-(\d{4,})(-killed)?)?\.parquet")
_LEFT_OVER = (".part-*", f".{JOB_FILE}.*", f".{SUMMARY_FILE}.*")


def part_path(folder: Path, task: Task) -> Path:
    """Return where the rows of a task go."""
    piece = "" if task.is_whole and not task.killed else f"-{task.first:04d}-{task.last:04d}"
    killed = "-killed" if task.killed else ""
    return folder / f"part-{task.chunk:08d}{piece}{killed}.parquet"


def write_part(folder: Path, task: Task, table: pa.Table, job: str | None = None) -> None:
    """Write the rows of a task under a temporary name, see them on disk, rename them.

    Args:
        folder: where to.
        task: whose rows these are.
        table: the rows.
        job: the identity of the job, as text. None: the folder is known to be this job's.

    Raises:
        EngineError: they cannot be written, or the folder is another job's by now.
    """
    # A worker outlives a driver that was killed by some seconds, in which a new job may begin here.
    if job is not None and folder.is_dir() and _job_of(folder) != job:
        raise EngineError(f"{folder} is another job's by now: nothing is written there.")
    _write(part_path(folder, task), table)


def _job_of(folder: Path) -> str | None:
    try:
        return (folder / JOB_FILE).read_text("utf-8")
    except FileNotFoundError:
        return None


def _write(path: Path, table: pa.Table) -> None:
    if not path.parent.is_dir():
        raise EngineError(
            f"There is no folder {path.parent} on {socket.gethostname()}: workers write their "
            "parts themselves. Choose a folder that all machines share, or have the rows sent "
            "to the driver with --collect."
        )
    try:
        with complete_file(path) as temporary:
            pa.parquet.write_table(table, temporary)
            # A machine that loses power must not leave a name without its content.
            with temporary.open("rb") as written:
                os.fsync(written.fileno())
    except OSError as error:
        raise EngineError(
            f"{path} cannot be written on {socket.gethostname()}: {error}. The parts written so "
            "far are kept: make room and run the same command again."
        ) from error


class PartFolder:
    """The folder of a job that this process alone works on."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.done: set[int] = set()
        """Chunks of which the part is there."""
        self.pieces: dict[int, list[Piece]] = {}
        """Pieces of the other chunks that are there."""
        for file in path.iterdir():
            if name := _PART.fullmatch(file.name):
                chunk = int(name[1])
                if name[2] is None:
                    self.done.add(chunk)
                else:
                    piece = Piece(int(name[2]), int(name[3]), name[4] is not None)
                    self.pieces.setdefault(chunk, []).append(piece)
        for chunk in self.done & self.pieces.keys():
            self.forget_pieces(chunk)  # merged, but not yet removed

    def add(self, task: Task, product: pa.Table | None) -> None:
        """Write the rows of a task, unless its worker has written them."""
        if product is not None:
            write_part(self.path, task, product)

    @property
    def job(self) -> str | None:
        """The identity of its job, as it is stored."""
        return _job_of(self.path)

    def is_there(self, task: Task) -> bool:
        """Whether the rows of a task are on disk."""
        return part_path(self.path, task).exists()

    def merge(self, pieces: list[Task]) -> None:
        """Put the pieces of a chunk together into its part, unless there is only that.

        Raises:
            EngineError: it cannot be written.
        """
        whole = joined(pieces)
        if pieces != [whole]:
            tables = [pa.parquet.read_table(part_path(self.path, piece)) for piece in pieces]
            _write(part_path(self.path, whole), pa.concat_tables(tables))
            self.forget_pieces(whole.chunk)

    def forget_pieces(self, chunk: int) -> None:
        """Remove the pieces of a chunk."""
        for file in self.path.glob(f"part-{chunk:08d}-*.parquet"):
            file.unlink(missing_ok=True)
        self.pieces.pop(chunk, None)

    def remove(self) -> None:
        """Remove the folder, with all that is in it."""
        shutil.rmtree(self.path)


def part_files(folder: Path) -> list[Path]:
    """Return the parts of a folder, in the order of the chunks, without pieces."""
    named = ((_PART.fullmatch(file.name), file) for file in folder.iterdir())
    return [
        file for _, file in sorted((int(n[1]), file) for n, file in named if n and n[2] is None)
    ]


@contextmanager
def claimed(path: Path, job: Mapping[str, Any], *, beside: bool = False) -> Iterator[PartFolder]:
    """Give the folder of a job to this process alone.

    Args:
        path: the folder; it is made if it is not there.
        job: the identity of the job.
        beside: the folder is there only for the parts of a file beside it: it goes if the job ends
            before the first of them.

    Raises:
        SettingsError: another job has parts there, is working there, or the folder holds something
            else.
    """
    if path.exists() and not path.is_dir():
        raise SettingsError(f"{path} is a file; the parts of a job go into a folder.")
    if path.is_dir() and not (path / JOB_FILE).exists():
        others = [p.name for p in path.iterdir() if p.name != LOCK_FILE and p.name[0] != "."]
        if others:
            raise SettingsError(
                f"{path} is not the folder of a job: it holds {', '.join(sorted(others)[:3])}. "
                "Choose an empty or a new one."
            )
    path.mkdir(parents=True, exist_ok=True)
    with (path / LOCK_FILE).open("a+", encoding="utf-8") as lock:
        _lock(lock, path)
        _remove_left_overs(path)
        folder = PartFolder(path)
        # Go on with the job of the folder, if it is this very one or has not come to anything yet.
        file = path / JOB_FILE
        if not (file.exists() and (folder.done or folder.pieces)):
            write_text(file, as_text(job))
        elif differs := differing(file.read_text("utf-8"), job):
            raise SettingsError(
                f"{path} holds the parts of another job (other {', '.join(differs)}). Remove the "
                "folder to start anew, or write the results elsewhere."
            )
        (path / SUMMARY_FILE).unlink(missing_ok=True)
        try:
            yield folder
        finally:
            _remove_left_overs(path)
            lock.truncate(0)
            if beside and path.exists() and not any(map(_PART.fullmatch, os.listdir(path))):
                folder.remove()


def _lock(lock: IO[str], path: Path) -> None:
    # The kernel lets go of the lock when the process ends, however it ends.
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        lock.seek(0)
        owner = lock.read().strip() or "another process"
        raise SettingsError(
            f"Another job works on {path}: {owner}. Wait for it, or choose another folder."
        ) from error
    except OSError as error:
        raise SettingsError(
            f"{path} cannot be locked ({error.strerror}), so that two jobs might write there at "
            "once. Mount its file system with locks (NFS: without nolock), or choose another "
            "folder."
        ) from error
    if not os.fstat(lock.fileno()).st_nlink:
        raise SettingsError(f"Another job has just finished and removed {path}: start again.")
    lock.truncate(0)
    lock.write(f"process {os.getpid()} on {socket.gethostname()}\n")
    lock.flush()


def _remove_left_overs(path: Path) -> None:
    for pattern in _LEFT_OVER:
        for file in path.glob(pattern):
            file.unlink(missing_ok=True)


# Reading the folder of a job, and joining its parts into one file.


FORMATS = (".parquet", ".csv", ".tsv", ".jsonl")


def open_parts(folder: Path | str, *, partial: bool = False) -> pyarrow.dataset.Dataset:
    """Return the rows of a job as a dataset, which is read only as far as needed.

    Args:
        folder: what `--out` named.
        partial: take what there is of a job that is not done.

    Raises:
        SettingsError: it is not the folder of a job, or the job is not done.
    """
    path = Path(folder)
    if not (path / JOB_FILE).is_file():
        raise SettingsError(f"{path} is not the folder of a job: it has no {JOB_FILE}.")
    if not partial and not (path / SUMMARY_FILE).is_file():
        raise SettingsError(
            f"The job of {path} is not done. Run its command again to finish it, or take what "
            "there is with partial=True."
        )
    files = [str(file) for file in part_files(path)]
    return pyarrow.dataset.dataset(files, schema=SCHEMA, format="parquet")


def read_parts(folder: Path | str, *, partial: bool = False) -> pa.Table:
    """Return the rows of a job as one table, in the order of the links' lines.

    Args:
        folder: what `--out` named.
        partial: take what there is of a job that is not done.

    Raises:
        SettingsError: as `open_parts`.
    """
    return open_parts(folder, partial=partial).to_table().sort_by(
        [("line", "ascending"), ("path", "ascending")]
    )  # fmt: skip


def join_parts(folder: Path, out: Path) -> None:
    """Copy the parts of a folder, one at a time, into one file.

    Args:
        folder: the folder of a job whose chunks have the order of the links.
        out: the file; its ending, one of `FORMATS`, says which form it has.
    """
    tables = (pa.parquet.read_table(file) for file in part_files(folder))
    with complete_file(out) as temporary:
        if out.suffix == ".jsonl":
            with temporary.open("w", encoding="utf-8") as target:
                for table in tables:
                    for row in table.to_pylist():
                        target.write(json.dumps(row, ensure_ascii=False) + "\n")
        elif out.suffix == ".parquet":
            with pa.parquet.ParquetWriter(temporary, SCHEMA) as writer:
                for table in tables:
                    writer.write_table(table)
        else:
            options = pa.csv.WriteOptions(delimiter="\t" if out.suffix == ".tsv" else ",")
            schema = _flat(SCHEMA.empty_table()).schema
            with pa.csv.CSVWriter(temporary, schema, write_options=options) as writer:
                for table in tables:
                    writer.write_table(_flat(table))


def _flat(table: pa.Table) -> pa.Table:
    """CSV has no lists: they become JSON texts."""
    for i, column in enumerate(table.schema):
        if pa.types.is_list(column.type):
            texts = [
                None if value is None else json.dumps(value, ensure_ascii=False)
                for value in table.column(i).to_pylist()
            ]
            table = table.set_column(i, column.name, pa.array(texts, pa.string()))
    return table
