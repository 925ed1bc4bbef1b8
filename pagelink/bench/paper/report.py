"""What a report of the benchmark shows: tables as Markdown, plots of bars and lines as SVG.

Plots are placed here and drawn by a template.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from pagelink.bench.runs import layout, made_by, say
from pagelink.bench.speed.figures import Tick, steps
from pagelink.runtime.files import write_text
from pagelink.views.templates import render

WIDTH = 760
LEFT, RIGHT, TOP = 170.0, 720.0, 64.0
BAR = 24.0
LINES_LEFT, LINES_BOTTOM, LINES_RIGHT = 70.0, 330.0, 560.0
COLOURS = (
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f7f7f", "#b5a300",
    "#8c564b", "#9467bd", "#17becf",
)  # fmt: skip


@dataclass(frozen=True)
class Table:
    """A table of a report. Cells are what is printed; the first column names the row."""

    title: str
    columns: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    note: str = ""
    """In one sentence what it shows; figures of the paper that stand beside ours are rows."""


@dataclass(frozen=True)
class Series:
    """A line of a plot."""

    label: str
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float] = ()
    """Lower ends of the intervals, one per point; empty: none are drawn."""
    high: Sequence[float] = ()


@dataclass(frozen=True)
class Plot:
    """A drawing of lines over numbers, or of one bar per label if `bars` has any."""

    title: str
    x_label: str
    y_label: str
    series: Sequence[Series] = ()
    bars: Sequence[tuple[str, float, float, float]] = ()
    """Label, value, lower and upper end of its interval (the value itself: no interval)."""
    note: str = ""
    log_x: bool = False


def tables_markdown(tables: Iterable[Table], level: int) -> str:
    """Tables as Markdown, each with its heading and its note.

    Example:
        >>> print(tables_markdown([Table("Two", ("", "n"), (("row", "2"),), "It shows two.")], 3))
        ### Two
        <BLANKLINE>
        |     |   n |
        | --- | --: |
        | row |   2 |
        <BLANKLINE>
        It shows two.
        <BLANKLINE>
    """
    marks = "#" * level
    return "\n".join(
        f"{marks} {table.title}\n\n{layout([table.columns, *table.rows])}\n"
        + (f"\n{table.note}\n" if table.note else "")
        for table in tables
    )


def say_tables(
    tables: Sequence[Table], out: Path, name: str, console: Console, **more: Any
) -> None:
    """Print tables, and write them; see `write_tables`."""
    written = write_tables(tables, out, name, **more)
    say(console, tables_markdown(tables, 2))
    say(console, f"Wrote {' and '.join(map(str, written))}")


def write_tables(tables: Sequence[Table], out: Path, name: str, **more: Any) -> list[Path]:
    """Write tables as Markdown, and as JSON with what they were made by; return the files.

    Args:
        tables: what there is to show.
        out: the folder.
        name: of the two files, without their endings.
        more: what else the JSON holds, such as the seed and further figures.
    """
    whole = {"benchmark": name, **made_by(), **more, "tables": [asdict(table) for table in tables]}
    found = json.dumps(whole, indent=1, ensure_ascii=False, allow_nan=False)
    text = tables_markdown(tables, 2)
    return [write_text(out / f"{name}.md", text), write_text(out / f"{name}.json", found)]


# Drawing.


@dataclass(frozen=True)
class Bar:
    """A bar from zero, with the ends of its interval."""

    top: float
    start: float
    end: float
    low: float
    high: float
    label: str
    words: str


@dataclass(frozen=True)
class Line:
    """A series: its points, and the ends of their intervals."""

    label: str
    colour: str
    points: list[tuple[float, float]]
    spans: list[tuple[float, float, float]]
    """At x, from low to high."""
    label_at: float


def draw(plot: Plot) -> str:
    """Draw a plot as a standalone SVG."""
    return _bars(plot) if plot.bars else _lines(plot)


def _bars(plot: Plot) -> str:
    low = min(0.0, *(min(bar[1:]) for bar in plot.bars))
    high = max(0.0, *(max(bar[1:]) for bar in plot.bars))
    ticks = _ticks(low, high)

    def across(value: float) -> float:
        return LEFT + (RIGHT - LEFT) * (value - ticks[0]) / (ticks[-1] - ticks[0])

    placed = []
    for number, (label, value, least, most) in enumerate(plot.bars):
        words = f"{value:.3f}" + ("" if least == most else f" [{least:.3f}, {most:.3f}]")
        start, end = sorted((across(0.0), across(value)))
        placed.append(
            Bar(TOP + number * BAR, start, end, across(least), across(most), label, words)
        )
    bottom = TOP + len(placed) * BAR
    return render(
        "bench-bars.svg", plot=plot, bars=placed, width=WIDTH, height=bottom + 56, top=TOP,
        bottom=bottom, left=LEFT, zero=across(0.0),
        ticks=[Tick(across(tick), f"{tick:g}") for tick in ticks],
    )  # fmt: skip


def _lines(plot: Plot) -> str:
    xs = [x for series in plot.series for x in series.x]
    ys = [y for series in plot.series for y in (*series.y, *series.low, *series.high)]
    ys = [y for y in ys if not math.isnan(y)]
    scale = math.log10 if plot.log_x else float
    x_ticks = sorted(set(xs)) if plot.log_x or len(set(xs)) <= 8 else _ticks(min(xs), max(xs))
    y_ticks = _ticks(min(0.0, *ys), max(ys))
    first, last = scale(x_ticks[0]), scale(x_ticks[-1])

    def across(x: float) -> float:
        wide = last - first or 1.0
        return LINES_LEFT + (LINES_RIGHT - LINES_LEFT) * (scale(x) - first) / wide

    def up(y: float) -> float:
        share = (y - y_ticks[0]) / (y_ticks[-1] - y_ticks[0])
        return LINES_BOTTOM - (LINES_BOTTOM - TOP) * share

    lines = []
    for number, series in enumerate(plot.series):
        known = [i for i, y in enumerate(series.y) if not math.isnan(y)]
        spans = [(across(series.x[i]), up(series.low[i]), up(series.high[i])) for i in known
                 if series.low and series.high]  # fmt: skip
        points = [(across(series.x[i]), up(series.y[i])) for i in known]
        colour, label_at = COLOURS[number % len(COLOURS)], TOP + 10 + 20 * number
        lines.append(Line(series.label, colour, points, spans, label_at))
    return render(
        "bench-lines.svg", plot=plot, lines=lines, width=WIDTH,
        height=max(LINES_BOTTOM + 66, TOP + 20 * len(lines) + 20), left=LINES_LEFT,
        right=LINES_RIGHT, bottom=LINES_BOTTOM, top=TOP,
        x_ticks=[Tick(across(x), f"{x:g}") for x in x_ticks],
        y_ticks=[Tick(up(y), f"{y:g}") for y in y_ticks],
    )  # fmt: skip


def _ticks(low: float, high: float) -> Sequence[float]:
    """Round numbers around a range.

    Example:
        >>> [round(tick, 3) for tick in _ticks(-0.1, 0.9)]
        [-0.2, 0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    """
    span = max(high - low, 1e-9)
    step = steps(span)[1]
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(i * step, 12) for i in range(first, max(last, first + 1) + 1)]
