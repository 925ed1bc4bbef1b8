"""The folder of a job: its identity and its parts, which are the only record of progress.

    job.json                             what the job is; only the same job goes on in this folder
    part-00000012.parquet                the rows of chunk 12
    part-00000013-0000-0128.parquet      a piece of chunk 13, which killed its workers
    part-00000013-0128-0129-killed.parquet   the one link that did it
    summary.json                         when all chunks are there

Files get their names when they are complete, and on disk. A part is sealed: its metadata have a
checksum of the file, and a hash of the job and the links whose rows it holds. A part that does not
agree with one of them is as good as missing.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import socket
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset

from pagelink.engine.opening import JOB_FILE, as_text, differing
from pagelink.engine.seal import AGAIN, sealed, unsealed
from pagelink.engine.tasks import Piece, Task, apart, joined, missing
from pagelink.errors import EngineError, SettingsError
from pagelink.runtime.files import complete_file, locked, temporary_name, write_text
from pagelink.store.addresses import Mirror, fetched
from pagelink.views.rows import SCHEMA

SUMMARY_FILE = "summary.json"
PARTS_AHEAD = 2
"""For each core, the number of parts that are read before they are needed."""
_PART = re.compile(r"part-(\d{8,})(?:-(\d{4,})-(\d{4,})(-killed)?)?\.parquet")
_LEFT_OVER = (".part-*", f".{JOB_FILE}.*", f".{SUMMARY_FILE}.*")


def part_path(folder: Path, task: Task) -> Path:
    """Return where the rows of a task go."""
    is_piece = not task.is_whole or task.killed
    piece = Piece(task.first, task.last, bool(task.killed)) if is_piece else None
    return _path(folder, task.chunk, piece)


def _path(folder: Path, chunk: int, piece: Piece | None = None) -> Path:
    of_chunk = "" if piece is None else f"-{piece.first:04d}-{piece.last:04d}"
    killed = "-killed" if piece is not None and piece.killed else ""
    return folder / f"part-{chunk:08d}{of_chunk}{killed}.parquet"


def write_part(folder: Path, task: Task, table: pa.Table, job: str) -> None:
    """Write the rows of a task under a temporary name, see them on disk, rename them.

    Args:
        folder: where to.
        task: whose rows these are.
        table: the rows.
        job: the identity of the job, as it is stored.

    Raises:
        EngineError: they cannot be written, or the folder is another job's by now.
    """
    path, here = part_path(folder, task), socket.gethostname()
    if not folder.is_dir():
        raise EngineError(
            f"There is no folder {folder} on {here}: workers write their parts themselves. Choose "
            "a folder that all machines share, or have the rows sent to the driver with --collect."
        )
    # A worker outlives a driver that was killed by some seconds, in which a new job may begin here.
    if _job_of(folder) != job:
        raise EngineError(f"{folder} is another job's by now: nothing is written there.")
    try:
        with complete_file(path) as temporary, temporary.open("wb") as target:
            target.write(sealed(table, _content_of(task, job)))
            # A machine that loses power must not leave a name without its content.
            target.flush()
            os.fsync(target.fileno())
    except OSError as error:
        raise EngineError(
            f"{path} cannot be written on {here}: {error}. The parts written so far are kept: make "
            "room and run the same command again."
        ) from error


def _job_of(folder: Path) -> str | None:
    try:
        return (folder / JOB_FILE).read_text("utf-8", errors="replace")
    except FileNotFoundError:
        return None


def _content_of(task: Task, job: str) -> bytes:
    """Return a hash of what the part of a task is to hold: rows of which job and of which links."""
    links = [(row.line, *row.link) for row in task.links]
    what = json.dumps([job, task.chunk, task.first, bool(task.killed), links])
    return hashlib.sha256(what.encode()).hexdigest().encode()


# The folder.


class PartFolder:
    """The folder of a job that this process alone works on.

    Args:
        path: the folder.
        job: the identity of the job, as it is stored.
        mirror: where its parts are put when they are complete, if elsewhere, too.
    """

    def __init__(self, path: Path, job: str, mirror: Mirror | None = None) -> None:
        self.path = path
        self.job = job
        self._mirror = mirror
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

    def check(self, planned: Iterable[Task]) -> int:
        """Compare the parts with the links they are to hold, and remove those that do not agree.

        Args:
            planned: all chunks of the job.

        Returns:
            The number of files that did not agree.

        Raises:
            SettingsError: there are parts of chunks that the job does not have.
        """
        found = {*self.done, *self.pieces}
        if not found:
            return 0
        removed = 0
        for task in planned:
            found.discard(task.chunk)
            if task.chunk in self.done and not self.is_there(task):
                _path(self.path, task.chunk).unlink(missing_ok=True)
                self.done.discard(task.chunk)
                removed += 1
            for piece in list(self.pieces.get(task.chunk, [])):
                if not self.is_there(task.piece(piece)):
                    _path(self.path, task.chunk, piece).unlink(missing_ok=True)
                    self.pieces[task.chunk].remove(piece)
                    removed += 1
            # Pieces that were merged; and those that all came through, whose chunk is done once
            # more as a whole.
            pieces = self.pieces.get(task.chunk, [])
            whole = not missing(apart(pieces), task.size) and not any(p.killed for p in pieces)
            if task.chunk in self.done or whole:
                self.forget_pieces(task.chunk)
        if found:
            raise SettingsError(
                f"{self.path} has parts that are not of this job, as part-{max(found):08d}: it has "
                "fewer links. Remove them, or write the results elsewhere."
            )
        return removed

    def add(self, task: Task, product: pa.Table | None) -> None:
        """Write the rows of a task, unless its worker has written them."""
        if product is not None:
            write_part(self.path, task, product, self.job)

    def is_there(self, task: Task) -> bool:
        """Whether the rows of a task are on disk, undamaged."""
        try:
            self.read(task, columns=[])
        except EngineError:
            return False
        return True

    def read(self, task: Task, columns: list[str] | None = None) -> pa.Table:
        """Return the rows of a task, or some of their columns.

        Raises:
            EngineError: its part is missing, damaged, or holds the rows of other links.
        """
        path = part_path(self.path, task)
        with unsealed(path) as (file, content):
            if content != _content_of(task, self.job):
                raise EngineError(f"{path} holds rows of other links, or of another job. {AGAIN}")
            return file.read(columns, use_threads=False)

    def read_all(
        self, planned: Iterable[Task], columns: list[str] | None = None
    ) -> Iterator[tuple[Task, pa.Table]]:
        """Yield tasks with their rows, in order; some parts are read ahead, on all cores.

        Raises:
            EngineError: as `read`.
        """
        threads = len(os.sched_getaffinity(0))
        with ThreadPoolExecutor(threads) as pool:
            ahead: deque[tuple[Task, Future[pa.Table]]] = deque()
            for task in planned:
                ahead.append((task, pool.submit(self.read, task, columns)))
                if len(ahead) > PARTS_AHEAD * threads:
                    first, table = ahead.popleft()
                    yield first, table.result()
            yield from ((task, table.result()) for task, table in ahead)

    def merge(self, pieces: list[Task]) -> None:
        """Put the pieces of a chunk together into its part, unless there is only that.

        Raises:
            EngineError: it cannot be written.
        """
        whole = joined(pieces)
        if pieces != [whole]:
            tables = [self.read(piece) for piece in pieces]
            write_part(self.path, whole, pa.concat_tables(tables), self.job)
            self.forget_pieces(whole.chunk)
        if self._mirror is not None:
            self._mirror.push(part_path(self.path, whole))

    def finish(self, summary: str) -> None:
        """Write the summary: the job is done."""
        file = write_text(self.path / SUMMARY_FILE, summary)
        if self._mirror is not None:
            self._mirror.push_missing([*self.path.glob("part-*.parquet"), file])

    def forget_pieces(self, chunk: int) -> None:
        """Remove the pieces of a chunk."""
        for file in self.path.glob(f"part-{chunk:08d}-*.parquet"):
            file.unlink(missing_ok=True)
        self.pieces.pop(chunk, None)

    def remove(self) -> None:
        """Remove the folder, with all that is in it."""
        # Whole or not at all, as half of a folder is no job's.
        gone = temporary_name(self.path)
        self.path.rename(gone)
        shutil.rmtree(gone)


@contextmanager
def claimed(
    path: Path, job: Mapping[str, Any], *, beside: bool = False, mirror: Mirror | None = None
) -> Iterator[PartFolder]:
    """Give the folder of a job to this process alone.

    Args:
        path: the folder; it is made if it is not there.
        job: the identity of the job.
        beside: the folder is there only for the parts of a file beside it: it goes if the job ends
            before the first of them.
        mirror: where the parts are put, and taken from at first, if elsewhere than in the folder.

    Raises:
        BusyError: another process works there.
        SettingsError: another job has parts there, or the folder holds something else.
    """
    with locked(path):
        if mirror is not None:
            mirror.pull(_PART, JOB_FILE)
        _check_ours(path)
        path.mkdir(parents=True, exist_ok=True)
        _remove_left_overs(path)
        folder = PartFolder(path, as_text(job), mirror)
        # Go on with the job of the folder, if it is this very one or has not come to anything yet.
        stored = _job_of(path)
        if stored is None or not (folder.done or folder.pieces):
            write_text(path / JOB_FILE, folder.job)
        elif stored != folder.job:
            raise SettingsError(
                f"{path} holds the parts of another job (other {_differing(stored, job)}). Remove "
                "the folder to start anew, or write the results elsewhere."
            )
        (path / SUMMARY_FILE).unlink(missing_ok=True)
        if mirror is not None:
            mirror.remove(SUMMARY_FILE)
            mirror.push(path / JOB_FILE)
        try:
            yield folder
        finally:
            _remove_left_overs(path)
            if beside and path.exists() and not any(map(_PART.fullmatch, os.listdir(path))):
                folder.remove()


def _check_ours(path: Path) -> None:
    if path.exists() and not path.is_dir():
        raise SettingsError(f"{path} is a file; the parts of a job go into a folder.")
    if path.is_dir() and not (path / JOB_FILE).exists():
        others = [each.name for each in path.iterdir() if each.name[0] != "."]
        if others:
            raise SettingsError(
                f"{path} is not the folder of a job: it holds {', '.join(sorted(others)[:3])}. "
                "Choose an empty or a new one."
            )


def _differing(stored: str, job: Mapping[str, Any]) -> str:
    try:
        return ", ".join(differing(stored, job))
    except (ValueError, AttributeError):
        return f"{JOB_FILE}, which is damaged"


def _remove_left_overs(path: Path) -> None:
    for pattern in _LEFT_OVER:
        for file in path.glob(pattern):
            file.unlink(missing_ok=True)


# Reading the folder of a job.


def open_parts(folder: Path | str, *, partial: bool = False) -> pyarrow.dataset.Dataset:
    """Return the rows of a job as a dataset, which is read only as far as needed.

    So the checksums of the parts are not compared; `read_parts` does that.

    Args:
        folder: what `--out` named; one at an address is copied to this machine.
        partial: take what there is of a job that is not done.

    Raises:
        SettingsError: it is not the folder of a job, or the job is not done.
        EngineError: parts of it are gone.
    """
    files = list(map(str, _part_files(fetched(folder), partial)))
    return pyarrow.dataset.dataset(files, schema=SCHEMA, format="parquet")


def read_parts(folder: Path | str, *, partial: bool = False) -> pa.Table:
    """Return the rows of a job as one table, in the order of the links' lines.

    Args:
        folder: what `--out` named.
        partial: take what there is of a job that is not done.

    Raises:
        SettingsError: as `open_parts`.
        EngineError: a part is missing or damaged.
    """
    tables = iter_parts(folder, partial=partial)
    return pa.concat_tables([SCHEMA.empty_table(), *tables]).sort_by(
        [("line", "ascending"), ("path", "ascending")]
    )


def iter_parts(folder: Path | str, *, partial: bool = False) -> Iterator[pa.Table]:
    """Yield the rows of a job part by part; otherwise as `read_parts`."""
    for file in _part_files(fetched(folder), partial):
        with unsealed(file) as (opened, _):
            yield opened.read()


def _part_files(folder: Path, partial: bool) -> list[Path]:
    """Return the parts of a job in the order of the chunks, without pieces."""
    if not (folder / JOB_FILE).is_file():
        raise SettingsError(f"{folder} is not the folder of a job: it has no {JOB_FILE}.")
    if partial:
        return [_path(folder, chunk) for chunk in sorted(PartFolder(folder, "").done)]
    try:
        summary = json.loads((folder / SUMMARY_FILE).read_text("utf-8"))
        files = [_path(folder, chunk) for chunk in range(summary["num_parts"])]
    except FileNotFoundError as error:
        raise SettingsError(
            f"The job of {folder} is not done. Run its command again to finish it, or take what "
            "there is with partial=True (--partial)."
        ) from error
    except (ValueError, LookupError, TypeError) as error:
        raise EngineError(f"{folder / SUMMARY_FILE} is damaged. {AGAIN}") from error
    for file in files:
        if not file.is_file():
            raise EngineError(f"{file} is missing. {AGAIN}")
    return files
