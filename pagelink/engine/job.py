"""Many links as a job: into a folder of parts, into one file, or as an iterator.

The rows do not depend on the engine, the number of workers, or what happened on the way. The parts
on disk are the only record of progress: started again, after whatever end, a job goes on with the
chunks that are missing.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from itertools import starmap
from pathlib import Path
from typing import Any

from pagelink.engine.crew import Crew, Engine, Tally
from pagelink.engine.metrics import Metrics
from pagelink.engine.opening import Opening, Sent, job_identity
from pagelink.engine.parts import PartFolder, claimed
from pagelink.engine.summary import COUNTED, Count, Summary
from pagelink.engine.tasks import (
    LINKS_A_CHUNK,
    LINKS_A_WINDOW,
    Task,
    apart,
    check_chunk,
    chunks,
    plan,
)
from pagelink.engine.worker import Explanations, InProcess, Making, Order
from pagelink.explain.explainer import MEMORY, PaGELink
from pagelink.explain.options import ExplainOptions
from pagelink.graph.links import LinkLike
from pagelink.runtime.files import locked
from pagelink.store.addresses import Mirror, fetched, is_address
from pagelink.tables.link_tables import LinkRow, count_links
from pagelink.views.rows import is_one_file, write_rows

NOTHING_MORE = ExplainOptions()
CHUNKS_AHEAD = 4
"""For each worker, the number of chunks that may be under way or wait for an earlier one."""


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
    metrics: Metrics | None = None,
) -> Summary:
    """Explain the links of a table into one file, or into a folder of Parquet parts.

    The parts of a file are in a folder beside it, `NAME.parts`, until all of them are there.

    Args:
        opening: the graph, the model and the settings: `FromFiles(...)`, or `Sent(explainer)`.
        links: the table of links, or an address of one.
        out: a file: Parquet, CSV, TSV or JSON Lines, by its ending, with the rows in the order of
            the links. Or a folder, one that exists or a name without the ending of a file, as
            `run-1.5`; there, links of neighbouring sources go together. Or an address of one of
            both: the rows are sent to this process, which puts each part there.
        engine: where the workers run. None: in this process.
        asked: what the rows are to hold beside the paths.
        memory: about how many gigabytes the links that a worker explains side by side may take.
        chunk: the number of links per part.
        collect: the rows are sent to this process, which writes them: for workers that do not
            share the folder.
        progress: called with the number of links done and the number of all; first, before any
            work, with what an earlier run has done.
        metrics: figures that are kept up to date, see `published`.

    Raises:
        BusyError: another process writes the same file or folder.
        SettingsError: an argument is out of its range, or the folder is another job's.
        GraphError: the table of links cannot be read.
        EngineError: the job cannot go on; what was written is kept.
    """
    check_chunk(chunk)
    mirror = Mirror(out) if is_address(out) else None
    if mirror is not None:
        out, collect = mirror.path, True
    links = fetched(links)
    is_file = is_one_file(out)
    engine = InProcess() if engine is None else engine
    engine.check()
    metrics = metrics or Metrics()

    def step(done: int, total: int) -> None:
        metrics.step(done, total)
        progress(done, total)

    with locked(out, lend=True):
        # 1. What the job is, and what an earlier run has done of it.
        total = count_links(links)
        found = opening.identity()
        job = {
            **job_identity(links, opening, asked),
            "chunk": [chunk, chunk if is_file else LINKS_A_WINDOW],
            **found,
        }
        order = Order(opening.expecting(found), {"memory": memory, **asdict(asked)}, rows=True)
        path = out.absolute().with_name(f"{out.name}.parts") if is_file else out.absolute()
        count = Count()

        def planned() -> Iterator[Task]:
            return plan(links, chunk, sort=not is_file)

        with claimed(path, job, beside=is_file, mirror=None if is_file else mirror) as folder:
            # 2. The rest of it.
            run = complete(
                folder, planned, engine, order, total, chunk, step, metrics, collect=collect
            )
            count.damaged, count.resumed = run.damaged, run.resumed
            # 3. Every part, by its number, against the links that it is to hold.
            columns = None if is_file else COUNTED
            tables = starmap(count.add, folder.read_all(planned(), columns))
            if is_file:
                write_rows(tables, out)
                folder.remove()
                summary = count.summary(run.tally, engine)
                if mirror is not None:
                    mirror.push(out)
            else:
                deque(tables, maxlen=0)
                summary = count.summary(run.tally, engine)
                folder.finish(json.dumps(asdict(summary), indent=1))
    if mirror is not None:
        mirror.clear()
    metrics.finished = True
    return summary


@dataclass(frozen=True)
class Completed:
    """What it took to make the parts of a job complete."""

    tally: Tally
    resumed: int
    """How many links were found done by an earlier run."""
    damaged: int
    """How many parts of an earlier run were damaged, or held other rows, and were made again."""


def complete(
    folder: PartFolder,
    planned: Callable[[], Iterator[Task]],
    engine: Engine,
    order: Order,
    total: int,
    chunk: int,
    progress: Callable[[int, int], None] = lambda done, total: None,
    metrics: Metrics | None = None,
    *,
    collect: bool = False,
) -> Completed:
    """Have all parts of a job made that are not there yet.

    Args:
        folder: the folder of the job, which is this process's alone.
        planned: yields the chunks of the job, the same ones every time.
        engine: where the workers run.
        order: what they are to do.
        total: the number of links.
        chunk: the number of links per chunk.
        progress: called with the number of links done and the number of all.
        metrics: gets the number of links that were found done, and what the workers cost.
        collect: the rows are sent to this process, which writes them.

    Raises:
        EngineError: the job cannot go on; what was written is kept.
    """
    damaged = folder.check(planned())
    done = _Progress(total, progress, folder, chunk)
    resumed = done.done
    if not collect:
        order = replace(order, folder=folder.path, job=folder.job)
    crew = Crew(engine, order, folder)
    if metrics is not None:
        metrics.resumed, metrics.tally = resumed, crew.tally
    if isinstance(engine, InProcess):
        engine.step = done.show
    for tasks in crew.run(_left(planned(), folder, crew, done)):
        folder.merge(tasks)
        done.add(tasks[0])
    return Completed(crew.tally, resumed, damaged)


class _Progress:
    """How many links are done: at first, by an earlier run.

    Args:
        total: the number of links.
        tell: called with the number of links done and the number of all.
        folder: what an earlier run has done.
        chunk: the number of links per chunk; the last one may have fewer.
    """

    def __init__(
        self, total: int, tell: Callable[[int, int], None], folder: PartFolder, chunk: int
    ) -> None:
        self._total = total
        self._tell = tell
        self._of_pieces = {
            number: sum(piece.last - piece.first for piece in apart(pieces))
            for number, pieces in folder.pieces.items()
        }
        whole = sum(min(chunk, total - number * chunk) for number in folder.done)
        self.done = whole + sum(self._of_pieces.values())
        self.show()

    def add(self, task: Task) -> None:
        """Take note of a chunk that is complete; pieces of an earlier run are counted already."""
        self.done += task.size - self._of_pieces.get(task.chunk, 0)
        self.show()

    def show(self, ahead: int = 0) -> None:
        """Tell how many links are done, those of a chunk under way included."""
        self._tell(self.done + ahead, self._total)


def _left(
    planned: Iterator[Task], folder: PartFolder, crew: Crew, done: _Progress
) -> Iterator[Task]:
    """Yield what an earlier run has left to do of the chunks."""
    for task in planned:
        if task.chunk in folder.done:
            continue
        if rest := crew.ledger.resume(task, folder.pieces.get(task.chunk, [])):
            yield from rest
        else:  # its pieces were all there, one of a link that kills among them
            folder.merge(crew.ledger.take(task.chunk))
            done.add(task)


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
    making: Making | None = None,
) -> Iterator[Any]:
    """Explain links by workers that have a copy of the explainer; yield in the links' order.

    Args:
        explainer: what explains.
        links: as for `explain_many`; read as workers become free.
        engine: where the workers run.
        chunk: the number of links that a worker gets at a time.
        options: of `explain_many`.
        making: what is made of links. None: explanations.

    Raises:
        ModelError: the explainer cannot be pickled; at once.
        EngineError: the workers cannot go on.
    """
    engine.check()
    order = Order(Sent(explainer), options, making=making or Explanations())
    if not isinstance(engine, InProcess):
        _ = order.pickled  # what cannot be sent is refused at once
    return _stream(links, engine, order, chunk)


def _stream(links: Iterable[LinkLike], engine: Engine, order: Order, chunk: int) -> Iterator[Any]:
    rows = (LinkRow(number, link) for number, link in enumerate(links))
    results = InMemory()
    ready: dict[int, list[Any]] = {}
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
