"""The plot of `pagelink bench speed`: time against edges, with the fitted lines."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from pagelink.bench.speed.figures import Figure, Line
from pagelink.views.templates import render

WIDTH, HEIGHT = 920, 400
TOP, BOTTOM, LEFT, PANEL, BETWEEN = 76.0, 336.0, 66.0, 366.0, 92.0
TICKS = 5


@dataclass(frozen=True)
class Tick:
    """A number on an axis."""

    at: float
    label: str


@dataclass(frozen=True)
class Point:
    """One link: how many edges, how long."""

    x: float
    y: float
    title: str


@dataclass(frozen=True)
class Panel:
    """One range of edges, placed on the drawing."""

    left: float
    right: float
    bottom: float
    heading: str
    note: str
    x_ticks: list[Tick]
    y_ticks: list[Tick]
    points: list[Point]
    fit: tuple[float, float, float, float]


def plot(figures: Sequence[Figure]) -> str:
    """Draw the figures of the row `linear` as a standalone SVG, a panel for each."""
    ranges = [figure for figure in figures if figure.row == "linear" and not figure.missing]
    panels = [
        _panel(figure, LEFT + place * (PANEL + BETWEEN)) for place, figure in enumerate(ranges)
    ]
    title = "CPU time of an explanation against the edges of its computation graph. " + " ".join(
        f"{panel.heading}: {panel.note}." for panel in panels
    )
    return render("speed.svg", panels=panels, width=WIDTH, height=HEIGHT, title=title)


def _panel(figure: Figure, left: float) -> Panel:
    edges, seconds = figure.samples["edges"], figure.samples["cpu_s"]
    line = Line(figure.samples["slope"][0], figure.samples["intercept"][0], figure.value)
    unit, scale = ("s", 1.0) if max(seconds) >= 1 else ("ms", 1000.0)
    times = [scale * value for value in seconds]
    x_steps, y_steps = steps(max(edges)), steps(max(times))
    right = left + PANEL

    def across(x: float) -> float:
        return left + PANEL * x / x_steps[-1]

    def up(y: float) -> float:
        return BOTTOM - (BOTTOM - TOP) * y / y_steps[-1]

    ends = [
        (across(x), up(scale * (line.intercept + line.slope * x))) for x in (edges[0], edges[-1])
    ]
    return Panel(
        left, right, BOTTOM,
        heading=f"{edges[0]:,.0f} to {edges[-1]:,.0f} edges, CPU {unit} a link",
        note=f"SAGE of {figure.samples['hidden'][0]:.0f}; line: {1e6 * line.slope:.3g} µs an edge, "
        f"R² {line.r2:.3f}",
        x_ticks=[Tick(across(x), _number(x)) for x in x_steps],
        y_ticks=[Tick(up(y), _number(y)) for y in y_steps],
        points=[
            Point(across(x), up(y), f"{x:,.0f} edges: {y:.3g} {unit}")
            for x, y in zip(edges, times, strict=True)
        ],
        fit=(*ends[0], *ends[1]),
    )  # fmt: skip


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
