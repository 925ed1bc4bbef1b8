"""A process that runs random cases, and whose death is seen."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections import Counter
from dataclasses import dataclass, field
from importlib import import_module
from multiprocessing.connection import Connection
from typing import Any

from pagelink.bench.fuzz.faults import Fault, add_counts


@dataclass(frozen=True)
class Ran:
    """What came of some cases."""

    faults: list[Fault]
    cpu_seconds: float
    counts: dict[str, int] = field(default_factory=dict)
    """What was met that is no fault, by kind."""


class WorkerDiedError(Exception):
    """The process exited, hung or raised while it ran some cases."""


class Worker:
    """Runs cases in a process of its own, which is started when there is none.

    Args:
        patience: seconds that a range of cases may take before the process is taken to hang.
    """

    def __init__(self, patience: float) -> None:
        self._patience = patience
        self._process: Any = None
        self._pipe: Any = None

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def run(self, part: str, seed: int, cases: range) -> Ran:
        """Run some cases of a part.

        Args:
            part: the address of its function, as `module:function`.
            seed: what the cases are drawn from, with their numbers.
            cases: their numbers.

        Raises:
            WorkerDiedError: the process did not live to tell.
        """
        if self._process is None:
            # Spawned, not forked: a process of its own in every respect.
            context = multiprocessing.get_context("spawn")
            self._pipe, other = context.Pipe()
            self._process = context.Process(target=_serve, args=(other,), daemon=True)
            self._process.start()
            other.close()
        try:
            self._pipe.send((part, seed, cases))
            if not self._pipe.poll(self._patience):
                self.stop()
                raise WorkerDiedError(f"no answer within {self._patience:g} seconds")
            answer = self._pipe.recv()
        except (EOFError, OSError):
            self._process.join()
            words = _exit_words(self._process.exitcode)
            self.stop()
            raise WorkerDiedError(words) from None
        if isinstance(answer, str):
            raise WorkerDiedError(answer)
        ran: Ran = answer
        return ran

    def stop(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._pipe.close()
        self._process = self._pipe = None


def _exit_words(code: int) -> str:
    if code >= 0:
        return f"the process exited with code {code}"
    return f"the process was ended by {signal.Signals(-code).name}"


def _serve(pipe: Connection) -> None:
    """Run cases for as long as somebody asks."""
    os.environ["OMP_NUM_THREADS"] = "1"  # torch, if the part needs it, is imported after this
    while True:
        try:
            part, seed, cases = pipe.recv()
        except (EOFError, KeyboardInterrupt):
            return
        try:
            pipe.send(run_part(part, seed, cases))
        except Exception as error:  # no part may raise; which case did is found one by one
            pipe.send(f"the part raised {type(error).__name__}: {error}")


def run_part(part: str, seed: int, cases: range) -> Ran:
    """Run cases of a part, given by its address, in this process."""
    module, _, name = part.partition(":")
    function = getattr(import_module(module), name)
    started = sum(os.times()[:4])  # with the processes that the part starts itself
    found, counts = [], Counter[str]()
    running = function(seed, cases)
    while True:
        try:
            found.append(next(running))
        except StopIteration as end:
            add_counts(counts, end.value or {})
            break
    return Ran(found, sum(os.times()[:4]) - started, dict(counts))
