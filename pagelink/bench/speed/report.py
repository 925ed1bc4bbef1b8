"""What was measured of speed as JSON, and as tables: one for the terminal, one for the docs."""

from __future__ import annotations

import dataclasses
import datetime
import math
import os
import platform
from collections.abc import Sequence
from typing import Any

from pagelink.bench.runs import layout
from pagelink.bench.speed.figures import Figure, Goal
from pagelink.explain.building import versions

NAME = "speed"
COLUMNS = ("row", "what", "threads", "measured", "wall", "to reach", "")
LEFT = (0, 1, 6)
"""Columns of words; the others are numbers."""
DOCS_COLUMNS = ("row", "what", "measured", "target")


def as_dict(figures: Sequence[Figure], quick: bool, seed: int) -> dict[str, Any]:
    """Return all that was measured, and where, ready for JSON."""
    date = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    return {
        "benchmark": NAME,
        "quick": quick,
        "seed": seed,
        "date": date,
        "versions": {"python": platform.python_version(), **versions()},
        "machine": platform.machine(),
        "cpu_count": os.cpu_count(),
        "figures": [{**_as_entry(figure), "date": date} for figure in figures],
    }


def _as_entry(figure: Figure) -> dict[str, Any]:
    entry = dataclasses.asdict(figure)
    entry["to_reach"] = entry.pop("goal")
    value = None if math.isnan(figure.value) else figure.value
    return {**entry, "value": value, "reached": figure.reached, "missing": figure.missing or None}


def stored_figures(stored: dict[str, Any]) -> list[Figure]:
    """Return the figures of such a JSON.

    Example:
        >>> figures = [Figure("memory", "peak", 2.0, "GB", goal=Goal(4.0)), Figure("first", "", 1)]
        >>> stored_figures(as_dict(figures, quick=True, seed=0)) == figures
        True
    """
    kept = [field.name for field in dataclasses.fields(Figure)]
    return [
        Figure(**{key: entry[key] for key in kept if key in entry} | {
            "value": math.nan if entry["value"] is None else entry["value"],
            "goal": None if entry["to_reach"] is None else Goal(**entry["to_reach"]),
            "missing": entry["missing"] or "",
        })
        for entry in stored["figures"]
    ]  # fmt: skip


def as_table(figures: Sequence[Figure]) -> str:
    """Lay the figures out as a Markdown table that also reads well in a terminal."""
    return layout([COLUMNS, *(_cells(figure) for figure in figures)], LEFT)


def _cells(figure: Figure) -> list[str]:
    if figure.missing:
        return [figure.row, figure.what, "-", "no data", "-", "-", "not measured"]
    verdict = {True: "ok", False: "not reached", None: ""}[figure.reached]
    wall = "-"
    if figure.threads > 1 and figure.wall is not None:
        wall = _value(figure.wall, figure.unit)
    value = _value(figure.value, figure.unit)
    return [figure.row, figure.what, str(figure.threads), value, wall, _bound(figure), verdict]


def docs_table(stored: dict[str, Any], order: Sequence[str]) -> str:
    """Lay out what was measured for the docs, with the targets; what misses its target is bold.

    Rows that were not run, or whose data were not there, do not appear.

    Args:
        stored: what `as_dict` made, perhaps of rows that were run one by one.
        order: the names of the rows, as they come in the table.

    Returns:
        The table, and a line on what it was made by; empty if nothing was measured.
    """
    figures = [figure for figure in stored_figures(stored) if not figure.missing]
    figures.sort(key=lambda figure: order.index(figure.row))
    if not figures:
        return ""
    days = sorted(entry["date"][:10] for entry in stored["figures"])
    when = days[0] if days[0] == days[-1] else f"{days[0]} to {days[-1]}"
    made = ", ".join(f"{name} {version}" for name, version in stored["versions"].items())
    count = sum(figure.reached is False for figure in figures)
    aims = sum(figure.reached is not None for figure in figures)
    return (
        layout([DOCS_COLUMNS, *map(_docs_cells, figures)], LEFT)
        + f"\n\nBold: misses its target, {count} of {aims}. CPU time, by one thread where nothing "
        f"else is said; seed {stored['seed']}, {when}, with {made}.\n"
    )


def _docs_cells(figure: Figure) -> tuple[str, ...]:
    value, what = _value(figure.value, figure.unit), figure.what
    if figure.threads > 1:
        what += f", {figure.threads} threads"
        if figure.wall is not None:
            what += f" (wall: {_value(figure.wall, figure.unit)})"
    return (
        f"`{figure.row}`",
        what,
        f"**{value}**" if figure.reached is False else value,
        _bound(figure),
    )


def _bound(figure: Figure) -> str:
    if figure.goal is None:
        return "-"
    words = "or less" if figure.goal.kind == "at most" else "or more"
    return f"{_value(figure.goal.bound, figure.unit)} {words}"


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
