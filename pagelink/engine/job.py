"""Which links go together: a table is cut into chunks, the same ones every time.

The table is read in windows of rows. Within a window the links are sorted by source, then target,
so that those of a chunk have neighbourhoods in common and read the same pages of a graph on disk.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Literal

from pagelink.engine.crew import Crew, Engine
from pagelink.engine.opening import JobOpening, job_identity, pickled
from pagelink.engine.parts import PartFolder, Piece, claimed, write_part
from pagelink.engine.summary import Summary, summarise
from pagelink.engine.tasks import Task
from pagelink.engine.worker import Order, Parts, Rows
from pagelink.errors import SettingsError
from pagelink.explain.explainer import MEMORY
from pagelink.explain.options import ExplainOptions
from pagelink.tables.link_tables import LinkRow, count_links, iter_links

LINKS_A_CHUNK = 256
LINKS_A_WINDOW = 65_536
"""About; a window is a whole number of chunks."""
_NUMBER = re.compile(r"(?:id:)?([0-9]{1,18})")


def check_chunk(chunk: object) -> None:
    """Refuse a size of chunks that is none.

    Raises:
        SettingsError: it is not a whole number from 1 to the size of a window.
    """
    if not isinstance(chunk, int) or isinstance(chunk, bool) or not 1 <= chunk <= LINKS_A_WINDOW:
        raise SettingsError(f"A chunk has 1 to {LINKS_A_WINDOW} links; got {chunk!r}.")


def plan(links: Path, chunk: int = LINKS_A_CHUNK) -> Iterator[Task]:
    """Yield the chunks of a table of links; chunk n has the same links whenever it is asked for.

    Args:
        links: the table.
        chunk: links in a chunk; the last one of a table may have fewer.

    Raises:
        GraphError: the table cannot be read, when that place is reached.
    """
    return chunks(iter_links(links), chunk, LINKS_A_WINDOW // chunk * chunk)


def chunks(
    rows: Iterable[LinkRow], chunk: int, window: int, *, sort: bool = True
) -> Iterator[Task]:
    """Cut rows into windows, sort each, and cut it into chunks.

    Example:
        >>> rows = [LinkRow(n, (src, "b")) for n, src in enumerate(["10", "9", "x", "2"], start=1)]
        >>> [[row.line for row in task.links] for task in chunks(rows, 2, 4)]
        [[4, 2], [1, 3]]
    """
    source = iter(rows)
    number = 0
    while read := list(islice(source, window)):
        if sort:
            read.sort(key=_place)
        for start in range(0, len(read), chunk):
            links = tuple(read[start : start + chunk])
            yield Task(number, 0, links, len(links))
            number += 1


def _place(row: LinkRow) -> tuple[tuple[bool, int, str], ...]:
    """Numbers in their order, then names in theirs."""
    return tuple(_key(str(part)) for part in row.link)


def _key(text: str) -> tuple[bool, int, str]:
    number = _NUMBER.fullmatch(text)
    return (False, int(number[1]), text) if number else (True, 0, text)


# What is there of chunks that were cut into pieces.


State = Literal["complete", "again", "open"]


@dataclass
class Ledger:
    """Knows when a chunk is done.

    Pieces are explained with other neighbours than the whole, which moves the last digits. So a
    chunk all pieces of which came through, whose workers then died by accident, is done once more
    as a whole; only if that fails again, or a link does kill, its pieces stand for it.
    """

    _pieces: dict[int, dict[Piece, Task]] = field(default_factory=dict)
    _repeated: set[int] = field(default_factory=set)

    def finish(self, task: Task) -> State:
        """Take note of a task that is done.

        Returns:
            `complete`: its chunk is done. `again`: the chunk is to be done once more, as a whole.
            `open`: pieces are missing.
        """
        if task.is_whole and not task.killed:
            return "complete"
        found = self._pieces.setdefault(task.chunk, {})
        found[Piece(task.first, task.last, bool(task.killed))] = task
        if missing(found, task.size):
            return "open"
        if any(piece.killed for piece in found) or task.chunk in self._repeated:
            return "complete"
        self._repeated.add(task.chunk)
        return "again"

    def take(self, chunk: int) -> list[Task]:
        """Return the pieces of a chunk in order, none if it was done as a whole; forget them."""
        return [task for _, task in sorted(self._pieces.pop(chunk, {}).items())]

    def resume(self, task: Task, pieces: list[Piece]) -> list[Task]:
        """Take note of the pieces of a chunk that are on disk, and return what is left of it."""
        pieces = apart(pieces)
        for piece in pieces:
            part = replace(task, first=piece.first, links=task.links[piece.first : piece.last])
            self.finish(replace(part, killed="found on disk" if piece.killed else ""))
        return [
            replace(task, first=first, links=task.links[first:last])
            for first, last in missing(pieces, task.size)
        ]


def joined(pieces: list[Task]) -> Task:
    """Return the task of a whole chunk from its pieces."""
    links = tuple(link for piece in pieces for link in piece.links)
    return Task(pieces[0].chunk, 0, links, len(links))


def apart(pieces: Iterable[Piece]) -> list[Piece]:
    """Return pieces no two of which have a link in common.

    A worker that was taken for dead may have written a piece that was cut further since.

    Example:
        >>> [(p.first, p.last) for p in apart([Piece(0, 2, False), Piece(0, 4, False),
        ...                                    Piece(2, 4, False), Piece(3, 4, True)])]
        [(0, 2), (2, 4)]
    """
    found: list[Piece] = []
    for piece in sorted(pieces):
        if not found or piece.first >= found[-1].last:
            found.append(piece)
    return found


def missing(pieces: Iterable[Piece], size: int) -> list[tuple[int, int]]:
    """Return which ranges of a chunk no piece covers.

    Example:
        >>> missing([Piece(2, 4, False), Piece(4, 5, True)], 8)
        [(0, 2), (5, 8)]
    """
    gaps, reached = [], 0
    for piece in sorted(pieces):
        if piece.first > reached:
            gaps.append((reached, piece.first))
        reached = max(reached, piece.last)
    return [*gaps, (reached, size)] if reached < size else gaps


# A job: the links of a table are explained by workers into a folder of parts.


NOTHING_MORE = ExplainOptions()


def explain_folder(
    opening: JobOpening,
    links: Path,
    out: Path,
    engine: Engine,
    *,
    asked: ExplainOptions = NOTHING_MORE,
    memory: float = MEMORY,
    chunk: int = LINKS_A_CHUNK,
    collect: bool = False,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Summary:
    """Explain the links of a table into a folder of Parquet parts.

    The parts on disk are the only record of progress: started again, after whatever end, the job
    goes on with the chunks that are missing. The rows do not depend on the engine, the number of
    workers, or what happened on the way.

    Args:
        opening: the graph, the model and the settings.
        links: the table of links.
        out: the folder; workers write into it, unless `collect`.
        engine: where the workers run: `Processes()` or `Ray()`.
        asked: what the rows are to hold beside the paths.
        memory: about how many gigabytes the links that a worker explains side by side may take.
        chunk: links a part.
        collect: the rows are sent to this process, which writes them: for workers that do not
            share the folder.
        progress: called with the number of links done and the number of all.

    Raises:
        SettingsError: an argument is out of its range, or the folder is another job's.
        GraphError: the table of links cannot be read.
        EngineError: the job cannot go on; what was written is kept.
    """
    check_chunk(chunk)
    engine.check()
    total = count_links(links)
    found = opening.identity()
    job = {
        **job_identity(links, opening.settings, opening.seed, opening.threshold, asked),
        "chunk": [chunk, LINKS_A_WINDOW],
        **found,
    }
    opening = opening.expecting(found)
    started = time.perf_counter()
    with claimed(out.absolute(), job) as folder:
        delivery = Rows() if collect else Parts(folder.path, folder.job)
        order = Order(opening, delivery, {"memory": memory, **asdict(asked)})
        crew = Crew(engine, pickled(order), (lambda task: False) if collect else folder.is_there)
        job_done = _Progress(folder, crew, total, progress)
        for finished in crew.run(job_done.tasks(plan(links, chunk))):
            if collect and finished.report is not None:
                write_part(folder.path, finished.task, finished.report.product)
            job_done.finish(finished.task)
        return summarise(
            folder, total, job_done.resumed, crew.tally, time.perf_counter() - started, engine
        )


class _Progress:
    """Which chunks are done and which are to do."""

    def __init__(
        self, folder: PartFolder, crew: Crew, total: int, show: Callable[[int, int], None]
    ) -> None:
        self._folder = folder
        self._crew = crew
        self._total = total
        self._show = show
        self._ledger = Ledger()
        self._done = 0
        self.resumed = 0

    def tasks(self, chunks: Iterator[Task]) -> Iterator[Task]:
        """Yield what is still to do of these chunks."""
        for task in chunks:
            pieces = self._folder.pieces.get(task.chunk, [])
            if task.chunk in self._folder.done:
                self.resumed += task.size
                self._count(task.size)
            elif not pieces:
                yield task
            elif rest := self._ledger.resume(task, pieces):
                yield from rest
            elif any(piece.killed for piece in pieces):
                self._folder.merge(self._ledger.take(task.chunk))
                self._count(task.size)
            else:
                self._again(task.chunk)

    def finish(self, task: Task) -> None:
        """Take note of a task that is done."""
        state = self._ledger.finish(task)
        if state == "again":
            self._again(task.chunk)
        elif state == "complete":
            if pieces := self._ledger.take(task.chunk):
                self._folder.merge(pieces)
            self._count(task.size)

    def _again(self, chunk: int) -> None:
        whole = joined(self._ledger.take(chunk))
        self._folder.forget_pieces(chunk)
        self._crew.repeat(whole)

    def _count(self, links: int) -> None:
        self._done += links
        self._show(self._done, self._total)
