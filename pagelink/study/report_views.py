"""The report of a study: printed, and as a page with plots that needs nothing else."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from markupsafe import Markup
from rich.console import Console
from rich.table import Table
from rich.text import Text

from pagelink.study.report import PAPER_SHARE, Report
from pagelink.study.report_words import (
    BEST,
    FORECASTS,
    name_words,
    opening,
    per_cent,
    plain,
    tables,
)
from pagelink.study.shares import Figure
from pagelink.views.lettering import shorten
from pagelink.views.rendering import render

WIDTH, LEFT, RIGHT, TOP, ROW = 720.0, 172.0, 70.0, 14.0, 40.0
_STEPS = (0.05, 0.1, 0.2, 0.25, 0.5)
_MOST_TICKS = 6


@dataclass(frozen=True)
class Bar:
    """A row of a plot, placed."""

    label: str
    y: float
    start: float
    end: float
    words: str
    whiskers: tuple[tuple[float, float] | None, tuple[float, float] | None]
    """Over questions, over people."""
    chance: float | None


@dataclass(frozen=True)
class Tick:
    """A line of the grid."""

    x: float
    label: str


def print_report(report: Report, console: Console) -> None:
    """Print a report; what people wrote is never taken for markup."""
    console.print(Text(report.title, style="bold"))
    for sentence in opening(report):
        console.print(Text(sentence))
    for caution in report.cautions:
        console.print(Text(caution, style="bold yellow"))
    for table in tables(report):
        console.print()
        shown = Table(title=Text(table.heading, style="bold"), title_justify="left", box=None)
        for place, column in enumerate(table.columns):
            numeric = place > 0 and column not in ("about", "answers", "the score")
            shown.add_column(Text(column), justify="right" if numeric else "left")
        for row in table.rows:
            shown.add_row(*map(Text, row))
        console.print(shown, soft_wrap=False)
        if table.note:
            console.print(Text(table.note))


def to_html(report: Report) -> str:
    """Return a report as one page, light and dark, that loads nothing."""
    plots = {}
    if any(each.share.answers for each in report.shares):
        plots[BEST] = draw_bars(
            "Share of choices",
            [(name_words(each.name), each.share, each.chance) for each in report.shares],
            reference=(PAPER_SHARE, "PaGE-Link in the paper"),
        )
    if any(each.accuracy.answers for each in report.forecasts):
        plots[FORECASTS] = draw_bars(
            "Share of right forecasts",
            [(name_words(each.variant), each.accuracy, 1 / 3) for each in report.forecasts],
        )
    return render(
        "study-report.html", report=report, opening=opening(report), tables=tables(report),
        plots={heading: Markup(plot) for heading, plot in plots.items()},
    )  # fmt: skip


def draw_bars(
    title: str, rows: Sequence[tuple[str, Figure, float | None]],
    reference: tuple[float, str] | None = None,
) -> str:  # fmt: skip
    """Draw figures with both intervals as an SVG for a page that has its colours.

    Args:
        title: what is drawn.
        rows: label, figure, and its value by chance.
        reference: a value to draw a line at, and what it is.
    """
    values = [0.0, *plain([figure for _, figure, _ in rows])]
    if reference is not None:
        values.append(reference[0])
    high = min(1.0, math.ceil(max(values) * 10) / 10) or 1.0

    def at(value: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * value / high

    bars = []
    for number, (label, figure, chance) in enumerate(rows):
        bars.append(
            Bar(
                shorten(label, LEFT - 12, 13), TOP + number * ROW, at(0), at(figure.value or 0.0),
                per_cent(figure.value),
                (_span(figure.by_question, at), _span(figure.by_participant, at)),
                None if chance is None or chance > high else at(chance),
            )
        )  # fmt: skip
    step = next((step for step in _STEPS if high / step <= _MOST_TICKS), 0.5)
    ticks = [
        Tick(at(number * step), f"{100 * number * step:.0f} %")
        for number in range(int(high / step + 1e-9) + 1)
    ]
    bottom = TOP + len(rows) * ROW
    return render(
        "study-bars.svg", title=title, bars=bars, ticks=ticks, width=WIDTH, height=bottom + 64,
        top=TOP, bottom=bottom, left=LEFT, reference=None if reference is None else
        (at(reference[0]), reference[1]),
    )  # fmt: skip


def _span(
    interval: tuple[float, float] | None, at: Callable[[float], float]
) -> tuple[float, float] | None:
    return None if interval is None else (at(interval[0]), at(interval[1]))
