"""How speed is measured: CPU time of a piece of work, figures made of it, and their goals."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import torch

Work = Callable[[], object]


@dataclass(frozen=True)
class Sample:
    """Seconds that a piece of work took."""

    cpu: float
    """Of all threads of the process."""
    wall: float


@dataclass(frozen=True)
class Goal:
    """What a figure should reach.

    Example:
        >>> Goal(1.5).reached_by(1.2), Goal(50, "at least").reached_by(49.0)
        (True, False)
    """

    bound: float
    kind: Literal["at most", "at least"] = "at most"

    def reached_by(self, value: float) -> bool:
        """Whether a value is on the right side of the bound."""
        return value <= self.bound if self.kind == "at most" else value >= self.bound


@dataclass(frozen=True)
class Figure:
    """One line of the table."""

    row: str
    """Name of the row that it belongs to, as `--only` takes it."""
    what: str
    value: float
    """By CPU time, unless `how` says otherwise. NaN: not measured."""
    unit: str = ""
    wall: float | None = None
    """The same by wall time, where more than one thread ran."""
    threads: int = 1
    goal: Goal | None = None
    how: str = ""
    """How the value was taken from the samples."""
    samples: Mapping[str, Sequence[float]] = field(default_factory=dict)
    """What was measured, by name."""
    missing: str = ""
    """Why nothing was measured."""

    @property
    def reached(self) -> bool | None:
        """Whether the goal was reached; None without a goal or a value."""
        if self.goal is None or bool(np.isnan(self.value)):
            return None
        return self.goal.reached_by(self.value)

    @classmethod
    def not_measured(cls, row: str, what: str, why: str) -> Figure:
        """A line that says why there is no figure."""
        return cls(row, what, float("nan"), missing=why)


def measure(work: Work) -> Sample:
    """Do a piece of work once, and return what it took."""
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return Sample(time.process_time() - cpu, time.perf_counter() - wall)


def interleaved(works: Mapping[str, Work], repeats: int) -> dict[str, list[Sample]]:
    """Measure pieces of work in turn, so that a slow moment of the machine hits all of them."""
    samples: dict[str, list[Sample]] = {name: [] for name in works}
    for _ in range(repeats):
        for name, work in works.items():
            samples[name].append(measure(work))
    return samples


def cpu(samples: Sequence[Sample], per: float = 1.0) -> list[float]:
    """CPU seconds of samples, divided by how many things were done in each."""
    return [sample.cpu / per for sample in samples]


def wall(samples: Sequence[Sample], per: float = 1.0) -> list[float]:
    """Wall seconds of samples, divided by how many things were done in each."""
    return [sample.wall / per for sample in samples]


def median(values: Sequence[float]) -> float:
    """The middle of some values."""
    return float(np.median(values))


def median_ratio(above: Sequence[float], below: Sequence[float]) -> float:
    """The median, over the rounds, of one sample divided by the other of the same round.

    Example:
        >>> median_ratio([3.0, 4.0, 20.0], [2.0, 2.0, 2.0])
        2.0
    """
    return median([a / b for a, b in zip(above, below, strict=True)])


def mean_of_slowest(values: Sequence[float], share: float = 0.01) -> float:
    """Mean of the highest `share` of the values, at least one of them.

    Example:
        >>> mean_of_slowest([1.0, 5.0, 2.0, 7.0], share=0.5)
        6.0
    """
    count = max(round(share * len(values)), 1)
    return float(np.mean(np.sort(values)[-count:]))


@dataclass(frozen=True)
class Line:
    """A straight line through points."""

    slope: float
    intercept: float
    r2: float
    """Share of the variance that the line accounts for."""


def fit_line(x: Sequence[float], y: Sequence[float]) -> Line:
    """Fit a line by least squares.

    Example:
        >>> line = fit_line([0.0, 1.0, 2.0], [1.0, 3.0, 5.0])
        >>> round(line.slope, 6), round(line.intercept, 6), round(line.r2, 6)
        (2.0, 1.0, 1.0)
    """
    xs, ys = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    dx, dy = xs - xs.mean(), ys - ys.mean()
    slope = float((dx @ dy) / (dx @ dx))
    intercept = float(ys.mean() - slope * xs.mean())
    rest = ys - slope * xs - intercept
    return Line(slope, intercept, float(1 - (rest @ rest) / (dy @ dy)))


@contextmanager
def torch_threads(count: int) -> Iterator[None]:
    """Let torch use so many threads, and as many as before afterwards."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
