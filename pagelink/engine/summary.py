"""What a job came to, from its parts and what its workers cost."""

from __future__ import annotations

import heapq
import math
import time
from collections import Counter
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pagelink.engine.crew import Engine, Tally
from pagelink.engine.tasks import Task
from pagelink.errors import EngineError

SLOWEST = 10
INVALID = 20
_OF_SLOWEST = ["line", "src", "dst", "seconds"]
COUNTED = [*_OF_SLOWEST, "reason", "message", "verdict", "path", "direct_relations"]
"""The columns that a summary is made from."""


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
    direct: dict[str, int]
    """Relations that join the ends of most links directly and may be the links themselves under
    another name, and how many links; see `Explanation.direct_relations`."""
    slowest: list[dict[str, Any]]
    """The links that took longest: line, src, dst, seconds of one core."""
    invalid: list[str]
    """Messages about the first malformed links and those that killed their worker."""
    resumed: int
    """How many links were found done by an earlier run."""
    damaged: int
    """How many parts of an earlier run were damaged, or held other rows, and were made again."""
    seconds: float
    """Of this run, from its start to its end."""
    rate: float
    """Links per second of this run; those of an earlier one do not count."""
    engine: str
    workers: int
    """How many worked at the same time, at most; 0 if there was nothing left to do."""
    restarts: int
    """How many workers died and were replaced, in this run."""
    memory: float
    """The most memory that one worker had for itself, in GB; 0 if there was nothing left to do."""
    overhead: float | None
    """Share of the workers' time that was not spent on explaining: waiting, wording the rows,
    writing the parts, and what was lost with workers that died. None if there was nothing left to
    do."""

    @property
    def failed(self) -> int:
        """The number of links that could not be explained."""
        return self.reasons.get("invalid", 0)


@dataclass
class Count:
    """Counts the rows of a job, part by part."""

    started: float = field(default_factory=time.perf_counter)
    resumed: int = 0
    damaged: int = 0
    num_parts: int = 0
    num_rows: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    verdicts: Counter[str] = field(default_factory=Counter)
    direct: Counter[str] = field(default_factory=Counter)
    slowest: list[dict[str, Any]] = field(default_factory=list)
    invalid: list[dict[str, Any]] = field(default_factory=list)

    def add(self, task: Task, table: pa.Table) -> pa.Table:
        """Count the rows of a chunk, and return them.

        Raises:
            EngineError: they are not those of its links.
        """
        lines = table["line"].to_numpy()
        starts = np.append(True, lines[1:] != lines[:-1])[: len(lines)]
        if lines[starts].tolist() != [row.line for row in task.links]:
            raise EngineError(
                f"The part of chunk {task.chunk} does not hold the rows of its links."
            )
        self.num_parts += 1
        self.num_rows += len(lines)
        links = table.select(COUNTED).filter(pa.array(starts))
        reasons = links["reason"].fill_null("paths")
        self.reasons.update(_counted(reasons))
        self.verdicts.update(_counted(links["verdict"]))
        self.direct.update(_counted(pc.list_flatten(links["direct_relations"])))
        least = self.slowest[-1]["seconds"] if len(self.slowest) == SLOWEST else -math.inf
        slow = links.filter(pc.greater_equal(links["seconds"], least)).to_pylist()
        self.slowest = heapq.nlargest(
            SLOWEST, [*self.slowest, *slow], key=itemgetter("seconds", "line")
        )
        self.invalid += links.filter(pc.equal(reasons, "invalid")).to_pylist()
        self.invalid = heapq.nsmallest(INVALID, self.invalid, key=itemgetter("line"))
        return table

    def summary(self, tally: Tally, engine: Engine) -> Summary:
        """Return what the job came to."""
        seconds = time.perf_counter() - self.started
        num_links = self.reasons.total()
        return Summary(
            num_links=num_links,
            num_rows=self.num_rows,
            num_parts=self.num_parts,
            reasons=dict(sorted(self.reasons.items())),
            verdicts=dict(sorted(self.verdicts.items())),
            direct={name: n for name, n in sorted(self.direct.items()) if 2 * n > num_links},
            slowest=[{name: row[name] for name in _OF_SLOWEST} for row in self.slowest],
            invalid=[f"line {row['line']}: {row['message']}" for row in self.invalid],
            resumed=self.resumed,
            damaged=self.damaged,
            seconds=seconds,
            rate=(num_links - self.resumed) / seconds,
            engine=type(engine).__name__.lower(),
            workers=tally.workers,
            restarts=tally.restarts,
            memory=tally.memory / 1e9,
            overhead=tally.overhead,
        )


def _counted(values: pa.ChunkedArray) -> dict[str, int]:
    """Return how often each value occurs; what is missing is none."""
    found = pc.value_counts(pc.drop_null(values))
    return dict(zip(*(field.to_pylist() for field in found.flatten()), strict=True))
