"""How speed is measured: CPU time of a piece of work, figures made of it, their goals and plot."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import torch

from pagelink.views.templates import render

Work = Callable[[], object]
Samples = Mapping[str, Sequence[float]]


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
    samples: Samples = field(default_factory=dict)
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
    def ratio(
        cls, row: str, what: str, above: str, below: str, samples: Samples, **others: Any
    ) -> Figure:
        """How many times as long one piece of work takes as another one, by `both_clocks`."""
        by_cpu, by_wall = (
            median_ratio(samples[f"{above}, {clock}"], samples[f"{below}, {clock}"])
            for clock in ("cpu_s", "wall_s")
        )
        return cls(row, what, by_cpu, "x", by_wall, samples=samples, **others)


def measure(work: Work) -> Sample:
    """Do a piece of work once, and return what it took."""
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return Sample(time.process_time() - cpu, time.perf_counter() - wall)


def interleaved(
    works: Mapping[str, Work], repeats: int, *, threads: int = 1, warm: bool = False
) -> dict[str, list[Sample]]:
    """Measure pieces of work in turn, so that a slow moment of the machine hits all of them.

    Args:
        works: the pieces of work.
        repeats: number of rounds.
        threads: number of threads that torch uses.
        warm: do a round before, which is not measured.
    """
    with torch_threads(threads):
        rounds = [
            {name: measure(work) for name, work in works.items()} for _ in range(repeats + warm)
        ]
    return {name: [each[name] for each in rounds[warm:]] for name in works}


def cpu(samples: Sequence[Sample], per: float = 1.0) -> list[float]:
    """CPU seconds of samples, divided by the number of things done in each."""
    return [sample.cpu / per for sample in samples]


def wall(samples: Sequence[Sample], per: float = 1.0) -> list[float]:
    """Wall seconds of samples, divided by the number of things done in each."""
    return [sample.wall / per for sample in samples]


def both_clocks(rounds: Mapping[str, Sequence[Sample]], per: float = 1.0) -> Samples:
    """CPU and wall seconds of pieces of work, by name and clock."""
    return {f"{name}, cpu_s": cpu(samples, per) for name, samples in rounds.items()} | {
        f"{name}, wall_s": wall(samples, per) for name, samples in rounds.items()
    }


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
    slope, intercept = np.polyfit(x, y, 1)
    return Line(float(slope), float(intercept), float(np.corrcoef(x, y)[0, 1] ** 2))


@contextmanager
def torch_threads(count: int) -> Iterator[None]:
    """Let torch use this number of threads, and as many as before afterwards."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


# The plot: time against edges, with the fitted lines.


WIDTH, HEIGHT = 920, 400
TOP, BOTTOM, LEFT, PANEL, BETWEEN = 76.0, 336.0, 66.0, 366.0, 92.0
TICKS = 5


@dataclass(frozen=True)
class Tick:
    """A number on an axis."""

    at: float
    label: str


def plot(figures: Sequence[Figure]) -> str:
    """Draw the figures of the row `linear` as a standalone SVG, a panel for each."""
    ranges = [figure for figure in figures if figure.row == "linear" and not figure.missing]
    panels = [
        _panel(figure, LEFT + place * (PANEL + BETWEEN)) for place, figure in enumerate(ranges)
    ]
    title = "CPU time of an explanation against the edges of its computation graph. " + " ".join(
        f"{panel['heading']}: {panel['note']}." for panel in panels
    )
    return render("speed.svg", panels=panels, width=WIDTH, height=HEIGHT, title=title)


def _panel(figure: Figure, left: float) -> dict[str, Any]:
    """One range of edges, placed on the drawing: what the template is filled with."""
    edges, seconds = figure.samples["edges"], figure.samples["cpu_s"]
    line = Line(figure.samples["slope"][0], figure.samples["intercept"][0], figure.value)
    unit, scale = ("s", 1.0) if max(seconds) >= 1 else ("ms", 1000.0)
    times = [scale * value for value in seconds]
    x_steps, y_steps = steps(max(edges)), steps(max(times))

    def across(x: float) -> float:
        return left + PANEL * x / x_steps[-1]

    def up(y: float) -> float:
        return BOTTOM - (BOTTOM - TOP) * y / y_steps[-1]

    return {
        "left": left,
        "right": left + PANEL,
        "bottom": BOTTOM,
        "heading": f"{edges[0]:,.0f} to {edges[-1]:,.0f} edges, CPU {unit} a link",
        "note": f"SAGE of {figure.samples['hidden'][0]:.0f}; line: {1e6 * line.slope:.3g} µs an "
        f"edge, R² {line.r2:.3f}",
        "x_ticks": [Tick(across(x), _number(x)) for x in x_steps],
        "y_ticks": [Tick(up(y), _number(y)) for y in y_steps],
        "points": [
            {"x": across(x), "y": up(y), "title": f"{x:,.0f} edges: {y:.3g} {unit}"}
            for x, y in zip(edges, times, strict=True)
        ],
        "fit": [
            at
            for x in (edges[0], edges[-1])
            for at in (across(x), up(scale * (line.intercept + line.slope * x)))
        ],
    }


def steps(highest: float) -> list[float]:
    """Round numbers from 0 to the first one that is not below the highest value.

    Example:
        >>> steps(5500)
        [0.0, 1000.0, 2000.0, 3000.0, 4000.0, 5000.0, 6000.0]
    """
    rough = highest / TICKS
    size = 10.0 ** math.floor(math.log10(rough))
    step = min((m * size for m in (1, 2, 2.5, 5, 10)), key=lambda s: abs(math.log(s / rough)))
    return [i * step for i in range(math.ceil(highest / step - 1e-9) + 1)]


def _number(value: float) -> str:
    return f"{value / 1e6:g}M" if value >= 1e6 else f"{value:,.6g}"
