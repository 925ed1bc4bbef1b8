"""The work itself, the same on every engine: open once, then explain task after task."""

from __future__ import annotations

import os
import pickle
import socket
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import torch
from numba import cloudpickle

from pagelink import errors
from pagelink.engine.opening import Opening
from pagelink.engine.parts import write_part
from pagelink.engine.tasks import Task
from pagelink.explain.building import versions
from pagelink.explain.explainer import PaGELink
from pagelink.explain.result import Explanation
from pagelink.graph.links import LinkLike
from pagelink.views.rows import to_rows, to_table


class Making(Protocol):
    """What is made of links: explanations, or whatever else is found out of each by itself."""

    def make(
        self, explainer: PaGELink, links: list[LinkLike], options: dict[str, Any]
    ) -> Iterator[Any]:
        """Yield what is made of each link, in order."""

    def failed(self, explainer: PaGELink, link: LinkLike, error: Exception) -> Any:
        """Return what stands for a link on which the work failed."""

    def table(self, made: Iterable[tuple[int, Any]]) -> pa.Table:
        """Return the rows of links, each given by its line and what was made of it."""


class Explanations:
    """Links become explanations, and these rows of paths."""

    def make(
        self, explainer: PaGELink, links: list[LinkLike], options: dict[str, Any]
    ) -> Iterator[Explanation]:
        """Explain links."""
        return explainer.explain_many(links, **options)

    def failed(self, explainer: PaGELink, link: LinkLike, error: Exception) -> Explanation:
        """Return an explanation that says so."""
        return explainer.failed(link, error)

    def table(self, made: Iterable[tuple[int, Explanation]]) -> pa.Table:
        """Return one row per path, and one for each link without paths."""
        return to_table([row for line, each in made for row in to_rows(each, line)])


@dataclass(frozen=True)
class Order:
    """What a worker is to do."""

    opening: Opening
    options: dict[str, Any] = field(default_factory=dict)
    """Of `explain_many`: memory, and what else is requested."""
    rows: bool = False
    """Explanations become tables of rows; otherwise they stay as they are."""
    folder: Path | None = None
    """The worker writes the rows here, into a folder that it shares with the driver. None: the
    driver gets them."""
    job: str | None = None
    """The identity of the job, as the folder has it while it is this job's."""
    making: Making = field(default_factory=Explanations)

    @cached_property
    def pickled(self) -> bytes:
        """The order as bytes, for workers in other processes; classes of a script go by value.

        Raises:
            ModelError: it cannot be pickled.
        """
        try:
            content: bytes = cloudpickle.dumps(self)  # type: ignore[no-untyped-call]
        except Exception as error:
            raise errors.ModelError(
                "Workers get a pickled copy of the explainer, and this one cannot be pickled: "
                f"{type(error).__name__}: {error}. Take out of the model, the data and `forward` "
                "what cannot be copied (open files, locks, connections), or leave out engine=."
            ) from error
        return content


class WorkerDeathError(errors.EngineError):
    """Explaining a link ended the process."""


class Explaining:
    """Explains tasks as an order says, with a graph and a model that are opened once.

    Args:
        order: what to do.
        step: called with the number of links of a task that are explained.
    """

    def __init__(self, order: Order, step: Callable[[int], None] = lambda done: None) -> None:
        self._order = order
        self._step = step
        self._explainer = order.opening.open()

    def run(self, task: Task) -> Report:
        """Explain the links of a task; nothing comes of it if the graph changed under them."""
        order, explained = self._order, []
        order.opening.check_unchanged()
        started = time.perf_counter()
        for explanation in self._explanations(task):
            explained.append(explanation)
            self._step(len(explained))
        seconds = time.perf_counter() - started
        order.opening.check_unchanged()
        if not order.rows:
            return Report(seconds, explained, own_memory())
        lines = (link.line for link in task.links)
        table = order.making.table(zip(lines, explained, strict=True))
        if order.folder is None or order.job is None:
            return Report(seconds, table, own_memory())
        write_part(order.folder, task, table, order.job)
        return Report(seconds, memory=own_memory())

    def _explanations(self, task: Task) -> Iterator[Any]:
        making, links = self._order.making, [row.link for row in task.links]
        if task.killed:
            why = WorkerDeathError(task.killed)
            return iter([making.failed(self._explainer, link, why) for link in links])
        return making.make(self._explainer, links, self._order.options)


class Worker:
    """Explains tasks for a driver elsewhere: what goes wrong is sent to it, and never raised."""

    def __init__(self) -> None:
        # Workers share the cores among them; a variable that says otherwise holds.
        torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS") or 1))

    def open(self, order: bytes) -> Hello | Failure:
        """Open the graph and the model."""
        try:
            self._explaining = Explaining(pickle.loads(order))
        except Exception as error:
            return Failure.of(error)
        return Hello.mine()

    def run(self, task: Task) -> Report | Failure:
        """Explain the links of a task and deliver what came of it."""
        try:
            return self._explaining.run(task)
        except Exception as error:
            return Failure.of(error)


# What a worker says to the driver.


@dataclass(frozen=True)
class Hello:
    """What a worker says when it has opened the graph and the model."""

    host: str
    versions: dict[str, str]

    @classmethod
    def mine(cls) -> Hello:
        """Return that of this process."""
        return cls(socket.gethostname(), versions())


@dataclass(frozen=True)
class Report:
    """What a worker says of a task that is done."""

    seconds: float
    """Spent on explaining; writing, sending and waiting come on top."""
    product: Any = None
    """The rows or explanations, where the worker does not write them itself."""
    memory: int = 0
    """See `own_memory`."""


def own_memory() -> int:
    """Return the most memory this process has had, in bytes, without the pages of mapped files.

    Pages of a graph on disk belong to the page cache. 0 where the system does not tell.
    """
    try:
        lines = Path("/proc/self/status").read_text("ascii", errors="replace").splitlines()
    except OSError:
        return 0
    status = dict(line.split(":", 1) for line in lines if ":" in line)
    peak, anonymous, mapped = (
        1024 * int(status.get(name, "0").split()[0]) for name in ("VmHWM", "RssAnon", "RssFile")
    )
    return max(anonymous, peak - mapped)


@dataclass(frozen=True)
class Failure:
    """Why a worker cannot go on: not a link's fault, so that it stops the job."""

    kind: str
    message: str
    trace: str

    @classmethod
    def of(cls, error: Exception) -> Failure:
        """Describe an exception so that it can be sent anywhere."""
        trace = "".join(traceback.format_exception(error))
        return cls(type(error).__name__, str(error), trace)

    def raised(self) -> errors.PageLinkError:
        """Return the error to raise for it in the driver: the same, where it is pagelink's own."""
        kind = getattr(errors, self.kind, None)
        if isinstance(kind, type) and issubclass(kind, errors.PageLinkError):
            error: errors.PageLinkError = kind(self.message)
        else:
            error = errors.EngineError(f"A worker cannot go on: {self.kind}: {self.message}")
        error.add_note(f"In a worker:\n{self.trace}")
        return error


@dataclass(frozen=True)
class Event:
    """Something that happened to a worker."""

    worker: int
    what: Hello | Report | Failure | None
    """None: it died."""
    how: str = ""
    """How it died."""


class InProcess:
    """An engine without other processes: this one explains, a task at a time.

    It shares the cores and the memory of the driver, so a link that kills it ends the job, too.
    """

    size = 1

    def __init__(self) -> None:
        self.step: Callable[[int], None] = lambda done: None
        """Called with the number of links of the present task that are explained."""
        self._tasks: deque[Task] = deque()
        self._explaining: Explaining | None = None

    def check(self) -> None:
        """This process is there."""

    def start(self, order: Order) -> None:
        """Open the graph and the model here; what is wrong with them is raised."""
        self._explaining = Explaining(order, self.step)

    def hire(self) -> int:
        """There is one worker."""
        return 1

    def give(self, worker: int, task: Task) -> None:
        """Put a task behind the others."""
        self._tasks.append(task)

    def events(self, timeout: float) -> list[Event]:
        """Do the next task, however long it takes."""
        assert self._explaining is not None
        if not self._tasks:
            return [Event(1, Hello.mine())]
        return [Event(1, self._explaining.run(self._tasks.popleft()))]

    def close(self) -> None:
        """Forget the graph and the model."""
        self._explaining = None
        self._tasks.clear()
