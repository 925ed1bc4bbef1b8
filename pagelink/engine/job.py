"""A job: the links of a table are explained by workers into a folder of parts."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path

from pagelink.engine.crew import Crew, Engine
from pagelink.engine.ledger import Ledger, joined
from pagelink.engine.opening import JobOpening, pickled
from pagelink.engine.parts import PartFolder, claimed, write_part
from pagelink.engine.plan import LINKS_A_CHUNK, LINKS_A_WINDOW, check_chunk, plan
from pagelink.engine.summary import Summary, summarise
from pagelink.engine.tasks import Task
from pagelink.engine.worker import Order, Parts, Rows
from pagelink.explainer import MEMORY
from pagelink.job_identity import job_identity
from pagelink.link_tables import count_links
from pagelink.on_request import OnRequest

NOTHING_MORE = OnRequest()


def explain_folder(
    opening: JobOpening,
    links: Path,
    out: Path,
    engine: Engine,
    *,
    asked: OnRequest = NOTHING_MORE,
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
