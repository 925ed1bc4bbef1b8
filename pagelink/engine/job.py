"""Many links as a job: into a folder of parts, into one file, or as an iterator.

The rows do not depend on the engine, the number of workers, or what happened on the way. The parts
on disk are the only record of progress: started again, after whatever end, a job goes on with the
chunks that are missing.
"""

from __future__ import annotations

import heapq
import json
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from operator import itemgetter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from pagelink.engine.crew import Crew, Engine, Tally
from pagelink.engine.opening import Opening, Sent, job_identity
from pagelink.engine.parts import (
    FORMATS,
    SUMMARY_FILE,
    PartFolder,
    claimed,
    join_parts,
    part_files,
)
from pagelink.engine.tasks import LINKS_A_CHUNK, LINKS_A_WINDOW, Task, check_chunk, chunks, plan
from pagelink.engine.worker import InProcess, Order
from pagelink.errors import EngineError, SettingsError
from pagelink.explain.explainer import MEMORY, PaGELink
from pagelink.explain.options import ExplainOptions
from pagelink.explain.result import Explanation
from pagelink.graph.links import LinkLike
from pagelink.runtime.files import write_text
from pagelink.tables.link_tables import LinkRow, count_links

NOTHING_MORE = ExplainOptions()
CHUNKS_AHEAD = 4
"""For each worker, the number of chunks that may be under way or wait for an earlier one."""
SLOWEST = 10
INVALID = 20
_OF_SLOWEST = ["line", "src", "dst", "seconds"]
_COLUMNS = [*_OF_SLOWEST, "reason", "message", "verdict", "path"]


def explain_table(
    opening: Opening,
    links: Path,
    out: Path,
    engine: Engine | None = None,
    *,
    asked: ExplainOptions = NOTHING_MORE,
    memory: float = MEMORY,
    chunk: int = LINKS_A_CHUNK,
    collect: bool = False,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Summary:
    """Explain the links of a table into one file, or into a folder of Parquet parts.

    The parts of a file are in a folder beside it, `NAME.parts`, until all of them are there.

    Args:
        opening: the graph, the model and the settings: `FromFiles(...)`, or `Sent(explainer)`.
        links: the table of links.
        out: a file: Parquet, CSV, TSV or JSON Lines, by its ending, with the rows in the order of
            the links. Or a folder, one that exists or a name without an ending; there, links of
            neighbouring sources go together.
        engine: where the workers run. None: in this process.
        asked: what the rows are to hold beside the paths.
        memory: about how many gigabytes the links that a worker explains side by side may take.
        chunk: the number of links per part.
        collect: the rows are sent to this process, which writes them: for workers that do not
            share the folder.
        progress: called with the number of links done and the number of all.

    Raises:
        SettingsError: an argument is out of its range, or the folder is another job's.
        GraphError: the table of links cannot be read.
        EngineError: the job cannot go on; what was written is kept.
    """
    check_chunk(chunk)
    is_file = is_one_file(out)
    engine = InProcess() if engine is None else engine
    engine.check()
    total = count_links(links)
    found = opening.identity()
    job = {
        **job_identity(links, opening, asked),
        "chunk": [chunk, chunk if is_file else LINKS_A_WINDOW],
        **found,
    }
    order = Order(opening.expecting(found), {"memory": memory, **asdict(asked)}, rows=True)
    path = out.absolute().with_name(f"{out.name}.parts") if is_file else out.absolute()
    started = time.perf_counter()
    with claimed(path, job, beside=is_file) as folder:
        if not collect:
            order = replace(order, folder=folder.path, job=folder.job)
        crew = Crew(engine, order, folder)
        done = _Progress(total, progress)
        if isinstance(engine, InProcess):
            engine.step = done.show
        for tasks in crew.run(_left(plan(links, chunk, sort=not is_file), folder, crew, done)):
            folder.merge(tasks)
            done.add(tasks[0].size)
        summary = _summary(folder.path, done, crew.tally, time.perf_counter() - started, engine)
        if is_file:
            join_parts(folder.path, out)
            folder.remove()
        else:
            write_text(folder.path / SUMMARY_FILE, json.dumps(asdict(summary), indent=1))
        return summary


def is_one_file(out: Path) -> bool:
    """Return whether results go into a file of this name, and not into a folder.

    Raises:
        SettingsError: the ending is not known.
    """
    if out.is_dir() or not out.suffix:
        return False
    if out.suffix not in FORMATS:
        raise SettingsError(f"{out}: results end in {', '.join(FORMATS)}, not in {out.suffix!r}.")
    return True


@dataclass
class _Progress:
    """How many links are done."""

    total: int
    tell: Callable[[int, int], None]
    done: int = 0
    resumed: int = 0
    """Of these, by an earlier run."""

    def add(self, links: int) -> None:
        """Take note of a chunk that is complete."""
        self.done += links
        self.show()

    def show(self, ahead: int = 0) -> None:
        """Tell how many links are done, those of a chunk under way included."""
        self.tell(self.done + ahead, self.total)


def _left(
    planned: Iterator[Task], folder: PartFolder, crew: Crew, done: _Progress
) -> Iterator[Task]:
    """Yield what an earlier run has left to do of the chunks."""
    for task in planned:
        pieces = folder.pieces.get(task.chunk, [])
        rest = crew.ledger.resume(task, pieces)
        if task.chunk in folder.done:
            done.resumed += task.size
            done.add(task.size)
        elif rest:
            yield from rest
        elif any(piece.killed for piece in pieces):
            folder.merge(crew.ledger.take(task.chunk))
            done.add(task.size)
        else:  # all pieces came through: once more as a whole
            crew.ledger.take(task.chunk)
            folder.forget_pieces(task.chunk)
            yield task


# What a job came to, from its parts and what its workers cost.


@dataclass(frozen=True)
class Summary:
    """What a job came to."""

    num_links: int
    num_rows: int
    num_parts: int
    reasons: dict[str, int]
    """How many links have each reason; "paths" counts those with paths."""
    verdicts: dict[str, int]
    """How many links have each verdict."""
    slowest: list[dict[str, Any]]
    """The links that took longest: line, src, dst, seconds of one core."""
    invalid: list[str]
    """Messages about the first malformed links and those that killed their worker."""
    resumed: int
    """How many links were found done by an earlier run."""
    seconds: float
    """Of this run, from its start to its end."""
    rate: float
    """Links per second of this run."""
    engine: str
    workers: int
    restarts: int
    """How many workers died and were replaced, in this run."""
    overhead: float | None
    """Share of the workers' time that was not spent on explaining: waiting, wording the rows,
    writing the parts. None if there was nothing left to do."""


def _summary(
    folder: Path, done: _Progress, tally: Tally, seconds: float, engine: Engine
) -> Summary:
    """Go through the parts.

    Raises:
        EngineError: links are missing, or there twice.
    """
    reasons: Counter[str] = Counter()
    verdicts: Counter[str] = Counter()
    slowest: list[dict[str, Any]] = []
    invalid: list[dict[str, Any]] = []
    num_rows, files = 0, part_files(folder)
    for file in files:
        rows = pq.read_table(file, columns=_COLUMNS).to_pylist()
        num_rows += len(rows)
        links = [row for row in rows if row["path"] in (None, 1)]
        reasons.update(row["reason"] or "paths" for row in links)
        verdicts.update(row["verdict"] for row in links if row["verdict"])
        slowest = heapq.nlargest(SLOWEST, [*slowest, *links], key=itemgetter("seconds", "line"))
        invalid += [row for row in links if row["reason"] == "invalid"]
        invalid = heapq.nsmallest(INVALID, invalid, key=itemgetter("line"))
    if reasons.total() != done.total:
        raise EngineError(
            f"{folder} has the rows of {reasons.total()} links instead of {done.total}: parts were "
            "removed, or this machine does not see those of others yet. Run the same command again."
        )
    return Summary(
        num_links=done.total,
        num_rows=num_rows,
        num_parts=len(files),
        reasons=dict(sorted(reasons.items())),
        verdicts=dict(sorted(verdicts.items())),
        slowest=[{name: row[name] for name in _OF_SLOWEST} for row in slowest],
        invalid=[f"line {row['line']}: {row['message']}" for row in invalid],
        resumed=done.resumed,
        seconds=seconds,
        rate=(done.total - done.resumed) / seconds,
        engine=type(engine).__name__.lower(),
        workers=engine.size,
        restarts=tally.restarts,
        overhead=tally.overhead,
    )


# `explain_many` by several workers: explanations come in the order of the links.


class InMemory:
    """Keeps the explanations of tasks until their chunk is complete."""

    def __init__(self) -> None:
        self._products: dict[tuple[int, int, int], Any] = {}

    def add(self, task: Task, product: Any) -> None:
        """Keep those of a task."""
        self._products[task.key] = product

    def is_there(self, task: Task) -> bool:
        """Nothing arrives but by a report."""
        return False

    def forget_pieces(self, chunk: int) -> None:
        """Drop the pieces of a chunk."""
        self._products = {key: kept for key, kept in self._products.items() if key[0] != chunk}

    def take(self, tasks: Iterable[Task]) -> list[Any]:
        """Return the explanations of tasks one after the other, and forget them."""
        return [each for task in tasks for each in self._products.pop(task.key)]


def stream(
    explainer: PaGELink,
    links: Iterable[LinkLike],
    engine: Engine,
    chunk: int,
    options: dict[str, Any],
) -> Iterator[Explanation]:
    """Explain links by workers that have a copy of the explainer; yield in the links' order.

    Args:
        explainer: what explains.
        links: as for `explain_many`; read as workers become free.
        engine: where the workers run.
        chunk: the number of links that a worker gets at a time.
        options: of `explain_many`.

    Raises:
        ModelError: the explainer cannot be pickled; at once.
        EngineError: the workers cannot go on.
    """
    engine.check()
    order = Order(Sent(explainer), options)
    if not isinstance(engine, InProcess):
        _ = order.pickled  # what cannot be sent is refused at once
    return _stream(links, engine, order, chunk)


def _stream(
    links: Iterable[LinkLike], engine: Engine, order: Order, chunk: int
) -> Iterator[Explanation]:
    rows = (LinkRow(number, link) for number, link in enumerate(links))
    results = InMemory()
    ready: dict[int, list[Explanation]] = {}
    taken = next_out = 0

    def tasks() -> Iterator[Task]:
        nonlocal taken
        for task in chunks(rows, chunk):
            taken += 1
            yield task

    def has_room() -> bool:
        return taken - next_out <= CHUNKS_AHEAD * engine.size

    for complete in Crew(engine, order, results).run(tasks(), has_room):
        ready[complete[0].chunk] = results.take(complete)
        while next_out in ready:
            yield from ready.pop(next_out)
            next_out += 1
