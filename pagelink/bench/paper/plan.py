"""What the parts of the paper's benchmark share: the plan they work to, and what they show.

A part is a module `paper_<part>.py` with three functions: `run(store, plan, progress)` does its
runs through the store, `tables(runs)` and, if it has any, `plots(runs)` make what is shown from the
stored runs of the part alone. It is entered in `paper_parts.PARTS`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pagelink.bench.runs import Run, RunStore

Progress = Callable[[str], None]
"""Called with what comes next."""
PER_LINK = "per link"
"""Where the figures of a run keep one number per link. Published results go without, so tables and
plots are made from the others alone; what needs links (an interval) is a figure of its own."""


@dataclass(frozen=True)
class Plan:
    """How much is to be run."""

    models: Path
    """Folder of trained models; what it lacks is trained and put there."""
    seeds: int = 5
    """Explainer seeds, from 0 up."""
    links: int = 200
    """Links of a data set at most."""
    quick: bool = False
    """Tiny generated graphs, to see that it runs."""
    aminer: Path | None = None
    """The public AMiner file (a JSON object a line), or a citation graph as a folder of tables."""
    say: Callable[[str], None] = lambda words: None
    """Called with what a reader must know, such as data that are not there."""

    @property
    def seed_list(self) -> range:
        """The explainer seeds."""
        return range(self.seeds)


@dataclass(frozen=True)
class Table:
    """A table of a report. Cells are what is printed; the first column names the row."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""
    """In one sentence what it shows; figures of the paper that stand beside ours are rows."""


@dataclass(frozen=True)
class Series:
    """A line of a plot."""

    label: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    low: tuple[float, ...] = ()
    """Lower ends of the intervals, one per point; empty: none are drawn."""
    high: tuple[float, ...] = ()


@dataclass(frozen=True)
class Plot:
    """A drawing of lines over numbers, or of one bar per label if `bars` has any."""

    title: str
    x_label: str
    y_label: str
    series: tuple[Series, ...] = ()
    bars: tuple[tuple[str, float, float, float], ...] = ()
    """Label, value, lower and upper end of its interval (the value itself: no interval)."""
    note: str = ""
    log_x: bool = False


@dataclass(frozen=True)
class Part:
    """A part of the benchmark."""

    name: str
    heading: str
    run: Callable[[RunStore, Plan, Progress], None] | None
    """None: its runs are done elsewhere, it is only reported."""
    tables: Callable[[Sequence[Run]], list[Table]]
    plots: Callable[[Sequence[Run]], list[Plot]] = lambda runs: []
    drawings: Callable[[Sequence[Run]], dict[str, str]] = lambda runs: {}
    """Standalone SVGs that are no plots, such as graphs, by file name."""


def cell(value: float | None, digits: int = 3) -> str:
    """Print a figure; a dash where there is none.

    Example:
        >>> cell(0.95431), cell(12.0, 1), cell(None), cell(float("nan"))
        ('0.954', '12.0', '-', '-')
    """
    if value is None or math.isnan(value):
        return "-"
    return f"{value:,.{digits}f}"


def mean_cell(values: Sequence[float | None], digits: int = 3) -> str:
    """Print the mean over seeds with its spread (sample standard deviation).

    Example:
        >>> mean_cell([0.9, 1.0]), mean_cell([0.9]), mean_cell([None, 0.5]), mean_cell([0.5, 0.5])
        ('0.950 ± 0.071', '0.900', '-', '0.500')
    """
    known = [value for value in values if value is not None and not math.isnan(value)]
    if not known or len(known) < len(values):  # a seed without the figure has no mean to stand in
        return "-"
    spread = float(np.std(known, ddof=1)) if len(known) > 1 else 0.0
    words = cell(float(np.mean(known)), digits)
    return f"{words} ± {cell(spread, digits)}" if spread > 0.5 * 10**-digits else words


def interval_cell(value: float, low: float, high: float, digits: int = 3) -> str:
    """Print a figure with its interval.

    Example:
        >>> interval_cell(0.5, 0.25, 0.75, 2)
        '0.50 [0.25, 0.75]'
    """
    return f"{cell(value, digits)} [{cell(low, digits)}, {cell(high, digits)}]"
