"""Table, JSON and plot of `pagelink bench speed`."""

from __future__ import annotations

import datetime
import json
import math
import os
import platform
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from pagelink.evaluation.speed_bench import chosen_rows, run
from pagelink.evaluation.speed_figures import Figure
from pagelink.evaluation.speed_plot import plot
from pagelink.evaluation.speed_sizes import FULL, QUICK
from pagelink.files import write_text
from pagelink.results import versions

COLUMNS = ("row", "what", "threads", "measured", "wall", "to reach", "")
LEGEND = """\
measured: by CPU time of all threads; wall: the same by wall time, where two threads ran. alone: one
link at a time; in batches: many side by side. all 20 epochs: no link leaves early; defaults: links
that have converged leave. bare passes: masked forward and backward of the model on the same
batches, inputs made beforehand, no search for paths. The models of movielens-small and
hetionet-core are two-layer SAGE of 64, untrained, and every link is learned; UserItemAttr has its
released weights. Ratios compare what ran in turn within one run, but for the 640 ms of
the released code, which is a known figure and was not measured here."""
TINY = "Tiny versions of the rows, on generated graphs: these figures say nothing about speed.\n"


def run_and_print(
    out: Path, quick: bool, only: Sequence[str], seed: int, console: Console
) -> list[Figure]:
    """Measure with a progress bar, print the table as Markdown, write speed.json and speed.svg.

    The files are written anew after each row, so that a long run can be looked at.
    """
    names = chosen_rows(only)
    figures: list[Figure] = []
    with Progress(
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
        console=console, transient=True,
    ) as bar:  # fmt: skip
        task = bar.add_task("", total=len(names))

        def starting(name: str) -> None:
            bar.update(task, completed=names.index(name), description=name)
            _write(out, figures, quick, seed)

        for figure in run(QUICK if quick else FULL, seed, only, starting):
            figures.append(figure)
    written = _write(out, figures, quick, seed)
    for text in (*([TINY] if quick else []), as_table(figures), f"\n{LEGEND}", f"\n{_notes()}"):
        console.print(text, soft_wrap=True, highlight=False, markup=False)
    for path in written:
        console.print(f"Wrote {path}", soft_wrap=True, highlight=False, markup=False)
    return figures


def _write(out: Path, figures: Sequence[Figure], quick: bool, seed: int) -> list[Path]:
    if not figures:
        return []
    result = as_dict(figures, quick, seed)
    text = json.dumps(result, indent=1, ensure_ascii=False, allow_nan=False)
    written = [write_text(out / "speed.json", text)]
    if any(figure.row == "linear" for figure in figures):
        written.append(write_text(out / "speed.svg", plot(figures)))
    return written


def as_dict(figures: Sequence[Figure], quick: bool, seed: int) -> dict[str, Any]:
    """Return all that was measured, and where, ready for JSON."""
    return {
        "benchmark": "speed",
        "quick": quick,
        "seed": seed,
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "versions": {"python": platform.python_version(), **versions()},
        "machine": platform.machine(),
        "cpu_count": os.cpu_count(),
        "figures": [_as_entry(figure) for figure in figures],
    }


def _as_entry(figure: Figure) -> dict[str, Any]:
    goal = figure.goal
    return {
        "row": figure.row,
        "what": figure.what,
        "threads": figure.threads,
        "value": None if math.isnan(figure.value) else figure.value,
        "wall": figure.wall,
        "unit": figure.unit,
        "to_reach": None if goal is None else {"bound": goal.bound, "kind": goal.kind},
        "reached": figure.reached,
        "how": figure.how,
        "missing": figure.missing or None,
        "samples": {name: list(values) for name, values in figure.samples.items()},
    }


def as_table(figures: Sequence[Figure]) -> str:
    """Lay the figures out as a Markdown table that also reads well in a terminal."""
    lines = [list(COLUMNS), *(_cells(figure) for figure in figures)]
    widths = [max(3, *(len(line[i]) for line in lines)) for i in range(len(COLUMNS))]
    right = {COLUMNS.index(name) for name in ("threads", "measured", "wall", "to reach")}
    rule = ["-" * (w - 1) + ":" if i in right else "-" * w for i, w in enumerate(widths)]
    return "\n".join(
        "| " + " | ".join(
            cell.rjust(width) if i in right else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(line, widths, strict=True))
        ) + " |"
        for line in (lines[0], rule, *lines[1:])
    )  # fmt: skip


def _cells(figure: Figure) -> list[str]:
    if figure.missing:
        return [figure.row, figure.what, "-", "no data", "-", "-", "not measured"]
    goal = figure.goal
    verdict = {True: "ok", False: "not reached", None: ""}[figure.reached]
    bound = "-"
    if goal is not None:
        words = "or less" if goal.kind == "at most" else "or more"
        bound = f"{_value(goal.bound, figure.unit)} {words}"
    several = figure.threads > 1 and figure.wall is not None
    wall = _value(figure.wall, figure.unit) if several and figure.wall is not None else "-"
    value = _value(figure.value, figure.unit)
    return [figure.row, figure.what, str(figure.threads), value, wall, bound, verdict]


def _value(value: float, unit: str) -> str:
    """Three digits, and the unit.

    Example:
        >>> _value(0.99834, "R²"), _value(13.0, "ms"), _value(51.4, "x"), _value(0.0123, "s")
        ('0.998', '13 ms', '51.4', '0.0123 s')
    """
    digits = f"{value:.3f}".rstrip("0") if unit == "R²" else f"{value:.3g}"
    if "e" in digits:
        digits = f"{value:.0f}"
    return digits if unit in ("x", "R²", "") else f"{digits} {unit}"


def _notes() -> str:
    known = ", ".join(f"{name} {version}" for name, version in versions().items())
    return f"{os.cpu_count()} CPUs, {platform.machine()}; {known}."
