"""The loop of every job: tasks go to workers, workers die and are replaced, no task is lost.

A worker has a few tasks at a time, so that it never waits for the driver. When it dies, the task it
was at is to blame and the others go to somebody else. A chunk that has killed three workers is cut
in halves, and these again with every death, until one link is left that kills by itself, three
times; it is not explained but gets a row that says so.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Protocol

from pagelink.engine.tasks import Ledger, Task, joined
from pagelink.engine.worker import Event, Failure, Hello, Order, Report
from pagelink.errors import EngineError
from pagelink.explain.building import versions

TASKS_A_WORKER = 2
"""One at work, one waiting."""
DEATHS = 3
"""This number of deaths is no accident."""
SECONDS_A_LOOK = 1.0


class Engine(Protocol):
    """Where workers run."""

    size: int
    """How many workers there are to be; known once started, and may change from then on."""

    def check(self) -> None:
        """Raise, before any work, if the engine cannot be used here."""

    def start(self, order: Order) -> None:
        """Get ready to hire workers that follow an order; `order.pickled` can be sent."""

    def hire(self) -> int:
        """Start a worker; it says Hello when it has opened the graph and the model."""

    def give(self, worker: int, task: Task) -> None:
        """Hand a task to a worker; it does them in order."""

    def events(self, timeout: float) -> list[Event]:
        """Wait for something to happen, at most this number of seconds."""

    def close(self) -> None:
        """Let all workers go, whatever they are at."""


class Results(Protocol):
    """Where the rows or explanations of tasks are kept."""

    def add(self, task: Task, product: Any) -> None:
        """Keep what a worker reported; None if it has kept its rows itself."""

    def is_there(self, task: Task) -> bool:
        """Whether the result of a task has arrived although its worker died."""

    def forget_pieces(self, chunk: int) -> None:
        """Drop the pieces of a chunk, which is done once more as a whole."""


@dataclass
class Tally:
    """What a job cost."""

    restarts: int = 0
    """Workers that died and were replaced; not those of a machine that left the cluster."""
    ready: int = 0
    """How many workers are ready now."""
    workers: int = 0
    """How many were ready at the same time, at most."""
    memory: int = 0
    """The most that one worker had for itself, in bytes."""
    work: float = 0.0
    """Seconds spent on explaining what is in the result, by all workers."""
    wall: float = 0.0
    """Seconds of the workers in all: from one answer to the next, and to their death; of those that
    replace others, from their start."""

    @property
    def overhead(self) -> float | None:
        """Share of the workers' time that was not spent on explaining."""
        return None if not self.wall else 1 - self.work / self.wall


@dataclass
class _Worker:
    tasks: deque[Task]
    since: float | None = None
    """From when on its time counts; None before a first worker is ready."""
    ready: bool = False


class Crew:
    """The workers of a job.

    Args:
        engine: where they run.
        order: what they are to do.
        results: where their results are kept.
    """

    def __init__(self, engine: Engine, order: Order, results: Results) -> None:
        self._engine = engine
        self._order = order
        self._results = results
        self.ledger = Ledger()
        self._workers: dict[int, _Worker] = {}
        self._again: deque[Task] = deque()
        self._deaths: Counter[tuple[int, int, int]] = Counter()
        self._stillborn = 0
        self._most = 0
        self._work_on_pieces: defaultdict[int, float] = defaultdict(float)
        self.tally = Tally()

    def run(
        self, tasks: Iterator[Task], has_room: Callable[[], bool] = lambda: True
    ) -> Iterator[list[Task]]:
        """Have tasks done; yield those of each chunk when it is complete, in any order of chunks.

        Args:
            tasks: what to do; taken from as workers become free.
            has_room: while it says no, no further task is taken.

        Raises:
            PageLinkError: the job cannot go on, and that is no link's fault.
        """
        try:
            ahead = next(tasks, None)
            if ahead is None and not self._again:
                return
            self._engine.start(self._order)
            while ahead is not None or self._again or any(w.tasks for w in self._workers.values()):
                if ahead is not None or self._again:
                    self._follow()
                for worker in self._with_room():
                    if self._again:
                        self._give(worker, self._again.popleft())
                    elif ahead is not None and has_room():
                        self._give(worker, ahead)
                        ahead = next(tasks, None)
                for event in self._engine.events(SECONDS_A_LOOK):
                    yield from self._handle(event)
        finally:
            self._engine.close()

    def _follow(self) -> None:
        """Hire as many workers as there is room for now; one too many ends with its machine."""
        self._most = max(self._most, self._engine.size)
        for _ in range(len(self._workers), self._engine.size):
            self._hire()

    def _hire(self, since: float | None = None) -> None:
        self._workers[self._engine.hire()] = _Worker(deque(), since)

    def _with_room(self) -> Iterator[int]:
        """Workers for one more task each, those without any first."""
        for depth in range(TASKS_A_WORKER):
            for name, worker in self._workers.items():
                if worker.ready and len(worker.tasks) == depth:
                    yield name

    def _give(self, name: int, task: Task) -> None:
        self._workers[name].tasks.append(task)
        self._engine.give(name, task)

    def _handle(self, event: Event) -> Iterator[list[Task]]:
        worker = self._workers[event.worker]
        if isinstance(event.what, Failure):
            raise event.what.raised()
        if isinstance(event.what, Hello):
            _check_versions(event.what)
            self._clock(worker)
            worker.ready = True
            self._count_ready()
            self._stillborn = 0
        elif isinstance(event.what, Report):
            self._clock(worker)
            self.tally.work += event.what.seconds
            self.tally.memory = max(self.tally.memory, event.what.memory)
            task = worker.tasks.popleft()
            if not task.is_whole:
                self._work_on_pieces[task.chunk] += event.what.seconds
            self._results.add(task, event.what.product)
            yield from self._finish(task)
        else:
            if worker.since is not None:
                self._clock(worker)
            del self._workers[event.worker]
            self._count_ready()
            yield from self._bury(worker, event.how)

    def _count_ready(self) -> None:
        self.tally.ready = sum(worker.ready for worker in self._workers.values())
        self.tally.workers = max(self.tally.workers, self.tally.ready)

    def _clock(self, worker: _Worker) -> None:
        """Count the time of a worker up to now."""
        now = time.perf_counter()
        self.tally.wall += 0.0 if worker.since is None else now - worker.since
        worker.since = now

    def _finish(self, task: Task) -> Iterator[list[Task]]:
        state = self.ledger.finish(task)
        if state == "open":
            return
        pieces = self.ledger.take(task.chunk) or [task]
        if state == "complete":
            yield pieces
            return
        self._results.forget_pieces(task.chunk)
        self.tally.work -= self._work_on_pieces.pop(task.chunk, 0.0)  # it is done again
        whole = joined(pieces)
        self._deaths.pop(whole.key, None)
        self._again.append(whole)

    def _bury(self, worker: _Worker, how: str) -> Iterator[list[Task]]:
        self._stillborn += not worker.ready
        # A machine that goes takes all its workers along, so that a few may well die together.
        if self._stillborn >= DEATHS * self._most:
            raise EngineError(
                f"{self._stillborn} workers in a row died while they opened the graph and the "
                f"model ({how}). Most likely there is not enough memory: use fewer workers."
            )
        if len(self._workers) < self._engine.size:
            self.tally.restarts += 1
            self._hire(time.perf_counter())
        if worker.tasks:
            at_work, *others = worker.tasks
            self._again.extendleft(reversed(others))
            if self._results.is_there(at_work):
                yield from self._finish(at_work)
            else:
                self._blame(at_work, how)

    def _blame(self, task: Task, how: str) -> None:
        self._deaths[task.key] += 1
        is_one = len(task.links) == 1
        if self._deaths[task.key] < (DEATHS if task.is_whole or is_one else 1):
            self._again.append(task)
        elif not is_one:
            self._again.extend(task.halves())
        elif not task.killed:
            del self._deaths[task.key]
            message = f"explaining it killed the worker, {DEATHS} times ({how})."
            self._again.append(replace(task, killed=message))
        else:
            raise EngineError(
                f"Workers die even without explaining anything ({how}), on the row of line "
                f"{task.links[0].line}. The parts written so far are kept."
            )


def _check_versions(hello: Hello) -> None:
    mine = versions()
    differs = [f"{name} {hello.versions.get(name)}, not {mine[name]}" for name in mine
               if hello.versions.get(name) != mine[name]]  # fmt: skip
    if differs:
        raise EngineError(
            f"{hello.host} has {'; '.join(differs)}: the rows of a job come from one set of "
            "versions. Install the same on every machine."
        )
