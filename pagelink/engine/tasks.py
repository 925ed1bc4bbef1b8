"""What goes between the driver of a job and its workers."""

from __future__ import annotations

import os
import socket
import traceback
from dataclasses import dataclass, replace
from typing import Any

from pagelink import errors
from pagelink.tables.link_tables import LinkRow


@dataclass(frozen=True)
class Task:
    """Links to explain: a chunk, or a piece of one that killed its worker."""

    chunk: int
    first: int
    """Where the links start in their chunk."""
    links: tuple[LinkRow, ...]
    size: int
    """How many links the whole chunk has."""
    killed: str = ""
    """Not to be explained, as that kills the worker: what its row is to say."""

    @property
    def last(self) -> int:
        """Where the links end in their chunk."""
        return self.first + len(self.links)

    @property
    def is_whole(self) -> bool:
        """Whether these are all links of the chunk."""
        return len(self.links) == self.size

    @property
    def key(self) -> tuple[int, int, int]:
        """The chunk and the links of it."""
        return self.chunk, self.first, self.last

    def halves(self) -> tuple[Task, Task]:
        """Return the two halves of a task of two links or more.

        Example:
            >>> task = Task(7, 2, tuple(LinkRow(n, (n, n)) for n in range(3)), 8)
            >>> [half.key for half in task.halves()]
            [(7, 2, 3), (7, 3, 5)]
        """
        middle = len(self.links) // 2
        return (
            replace(self, links=self.links[:middle]),
            replace(self, links=self.links[middle:], first=self.first + middle),
        )


@dataclass(frozen=True)
class Report:
    """What a worker says of a task that is done."""

    seconds: float
    """Spent on explaining; writing, sending and waiting come on top."""
    product: Any = None
    """The rows or explanations, where the worker does not write them itself."""


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
class Hello:
    """What a worker says when it has opened the graph and the model."""

    host: str
    pid: int
    versions: dict[str, str]

    @classmethod
    def mine(cls, versions: dict[str, str]) -> Hello:
        """Return that of this process."""
        return cls(socket.gethostname(), os.getpid(), versions)
