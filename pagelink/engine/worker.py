"""The work itself, the same on every engine: open once, then explain task after task."""

from __future__ import annotations

import os
import pickle
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import torch

from pagelink.engine.opening import Opening
from pagelink.engine.parts import write_part
from pagelink.engine.tasks import Failure, Hello, Report, Task
from pagelink.errors import EngineError
from pagelink.explain.building import versions
from pagelink.explain.result import Explanation
from pagelink.views.rows import to_rows, to_table


class Delivery(Protocol):
    """Where the explanations of a task go."""

    def deliver(self, task: Task, explanations: Iterator[Explanation]) -> Any:
        """Take them; what is returned is sent to the driver."""


@dataclass(frozen=True)
class Rows:
    """They become rows that the driver gets and writes."""

    def deliver(self, task: Task, explanations: Iterator[Explanation]) -> Any:
        """Return the table."""
        return to_table([
            row
            for link, explanation in zip(task.links, explanations, strict=True)
            for row in to_rows(explanation, link.line)
        ])  # fmt: skip


@dataclass(frozen=True)
class Parts(Rows):
    """They become rows that the worker writes into a folder that it shares with the driver."""

    folder: Path
    job: str | None
    """Its identity, as the folder has it while it is this job's."""

    def deliver(self, task: Task, explanations: Iterator[Explanation]) -> None:
        """Write the part, or the piece of one."""
        write_part(self.folder, task, super().deliver(task, explanations), self.job)


@dataclass(frozen=True)
class Explanations:
    """The driver gets them as they are."""

    def deliver(self, task: Task, explanations: Iterator[Explanation]) -> list[Explanation]:
        """Return them."""
        return list(explanations)


@dataclass(frozen=True)
class Order:
    """What a worker is to do, pickled once and sent to each."""

    opening: Opening
    delivery: Delivery
    options: dict[str, Any] = field(default_factory=dict)
    """Of `explain_many`: memory, and what else is asked for."""


class WorkerDeathError(EngineError):
    """Explaining a link ended the process."""


class Worker:
    """Explains tasks. It never raises: what goes wrong is part of what it returns."""

    def __init__(self) -> None:
        # Workers share the cores among them; a variable that says otherwise holds.
        torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS") or 1))

    def open(self, order: bytes) -> Hello | Failure:
        """Open the graph and the model."""
        try:
            self._order: Order = pickle.loads(order)
            self._explainer = self._order.opening.open()
        except Exception as error:
            return Failure.of(error)
        return Hello.mine(versions())

    def run(self, task: Task) -> Report | Failure:
        """Explain the links of a task and deliver what came of it."""
        try:
            self._order.opening.check_unchanged()
            clock = _Clock(self._explanations(task))
            product = self._order.delivery.deliver(task, clock)
        except Exception as error:
            return Failure.of(error)
        return Report(clock.seconds, product)

    def _explanations(self, task: Task) -> Iterator[Explanation]:
        links = [row.link for row in task.links]
        if task.killed:
            return iter(
                [self._explainer.failed(link, WorkerDeathError(task.killed)) for link in links]
            )
        return self._of_one_state(self._explainer.explain_many(links, **self._order.options))

    def _of_one_state(self, explained: Iterator[Explanation]) -> Iterator[Explanation]:
        """Pass explanations on; nothing is delivered if the graph changed under them."""
        yield from explained
        self._order.opening.check_unchanged()


class _Clock(Iterator[Explanation]):
    """Passes explanations on and measures how long they took to come."""

    def __init__(self, explanations: Iterator[Explanation]) -> None:
        self._explanations = explanations
        self.seconds = 0.0

    def __next__(self) -> Explanation:
        started = time.perf_counter()
        try:
            return next(self._explanations)
        finally:
            self.seconds += time.perf_counter() - started
