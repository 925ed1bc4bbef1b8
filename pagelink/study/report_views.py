"""The report of a study as tables of words, for the terminal and for the page alike."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from markupsafe import Markup
from rich.console import Console
from rich.table import Table
from rich.text import Text

from pagelink.study.questions import BACKGROUNDS, NONE, NONE_LABEL
from pagelink.study.report import PAPER_SHARE, Report
from pagelink.study.statistics import WITHOUT, Figure, Interval
from pagelink.views.templates import render
from pagelink.views.text import shorten

NOTHING = "-"
BEST, FORECASTS = "Which explains best", "What will the model do without a fact"
MOVE_WORDS: dict[str, str] = {"rise": "rises", "fall": "falls", "stay": "stays"}


@dataclass(frozen=True)
class WordTable:
    """A table with a heading and what is to be known to read it."""

    heading: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""


def per_cent(value: float | None) -> str:
    """Return a share in words.

    Example:
        >>> per_cent(0.5327), per_cent(None)
        ('53.3 %', '-')
    """
    return NOTHING if value is None else f"{100 * value:.1f} %"


def between(interval: Interval | None, *, signed: bool = False) -> str:
    """Return an interval in words.

    Example:
        >>> between((0.4105, 0.6477)), between((-0.01, 0.2), signed=True)
        ('41.0 to 64.8 %', '-1.0 to +20.0 %')
    """
    if interval is None:
        return NOTHING
    low, high = (f"{100 * end:+.1f}" if signed else f"{100 * end:.1f}" for end in interval)
    return f"{low} to {high} %"


def name_words(name: str) -> str:
    """What an explainer, a variant or a background is called."""
    known = {NONE: NONE_LABEL.lower(), WITHOUT: "without explanation"}
    return known.get(name, name)


def opening(report: Report) -> list[str]:
    """Who answered what, in sentences."""
    told = [
        f"{report.people} of {report.joined} people answered {report.answers} times; "
        f"{report.complete} of {report.questions} questions have the wanted {report.wanted} "
        "answers or more."
    ]
    if report.simulated is not None:
        told.insert(0, "These people are simulated: the figures say nothing about real ones.")
    seconds = [
        f"{value:.0f} seconds for {'“which is best”' if kind == 'best' else 'a forecast'}"
        for kind, value in report.seconds.items()
    ]
    if seconds and report.simulated is None:
        told.append(f"The median answer took {' and '.join(seconds)}.")
    return told


def tables(report: Report) -> list[WordTable]:
    """All tables that have something to say."""
    if report.answers == 0:
        return []
    found = [_shares(report), _agreement(report)]
    if any(each.accuracy.answers for each in report.forecasts):
        found += [_forecasts(report), _gains(report), _confusion(report)]
    found += [_backgrounds(report), _positions(report), _disagreed(report)]
    return [table for table in found if table.rows]


def _shares(report: Report) -> WordTable:
    rows = tuple(
        (
            name_words(each.name), *_figure(each.share), per_cent(each.chance),
        )
        for each in report.shares
        if each.share.answers
    )  # fmt: skip
    answers = report.shares[0].share.answers
    return WordTable(
        BEST, ("", "share", "over questions", "over people", "by chance"), rows,
        f"Of {answers} answers; 95 % intervals, which have no width where all or none chose so. "
        "Explainers that show the same facts are one option and share its choice in equal parts. "
        f"{report.paper}",
    )  # fmt: skip


def _agreement(report: Report) -> WordTable:
    rows = []
    for words, each in (
        ("which explains best", report.agreement), ("forecasts", report.forecast_agreement),
    ):  # fmt: skip
        if each.alpha is not None:
            interval = NOTHING
            if each.interval is not None:
                interval = f"{each.interval[0]:.2f} to {each.interval[1]:.2f}"
            rows.append(
                (words, f"{each.alpha:.2f}", interval, f"{each.questions}", f"{each.answers}")
            )
    return WordTable(
        "Do people agree", ("", "alpha", "over questions", "questions", "answers"),
        tuple(rows),
        "Krippendorff's alpha: 1 if all agree, 0 if no more than by chance. Of questions with two "
        "or more answers.",
    )  # fmt: skip


def _forecasts(report: Report) -> WordTable:
    rows = tuple(
        (name_words(each.variant), *_figure(each.accuracy), f"{each.accuracy.answers}")
        for each in report.forecasts
    )
    return WordTable(
        FORECASTS, ("", "right", "over questions", "over people", "answers"), rows,
        "Guessing is right in 33.3 %, always giving the commonest right answer in "
        f"{per_cent(report.always_the_same)}. Where explainers show the same facts, an answer "
        "counts for each of them.",
    )  # fmt: skip


def _gains(report: Report) -> WordTable:
    rows = tuple(
        (name_words(each.variant), *_figure(each.gain, signed=True))
        for each in report.forecasts
        if each.gain is not None
    )
    return WordTable(
        "What an explanation adds", ("", "gain", "over questions", "over people"), rows,
        "The share of right forecasts minus that without explanation, in points.",
    )  # fmt: skip


def _figure(figure: Figure, *, signed: bool = False) -> tuple[str, str, str]:
    value = per_cent(figure.value)
    if signed and figure.value is not None:
        value = f"{100 * figure.value:+.1f} %"
    return (
        value, between(figure.by_question, signed=signed),
        between(figure.by_participant, signed=signed),
    )  # fmt: skip


def _confusion(report: Report) -> WordTable:
    rows = []
    for each in report.forecasts:
        if each.variant not in (WITHOUT, "with any"):
            continue
        for truth, given in each.confusion.items():
            total = sum(given.values())
            if total:
                shares = (f"{n} ({100 * n / total:.0f} %)" for n in given.values())
                rows.append((name_words(each.variant), MOVE_WORDS[truth], *shares))
    columns = ("", "the score", *(f"said: {word}" for word in MOVE_WORDS.values()))
    return WordTable("What people said when the score really moved so", columns, tuple(rows))


def _backgrounds(report: Report) -> WordTable:
    levels = report.backgrounds
    rows = [("people", *(f"{each.people}" for each in levels))]
    for place, share in enumerate(report.shares):
        own = (each.shares[place].share for each in levels)
        rows.append((f"chose {name_words(share.name)}", *(_with_interval(each) for each in own)))
    rows.append(("right without", *(_with_interval(each.forecasts_without) for each in levels)))
    rows.append(("right with", *(_with_interval(each.forecasts) for each in levels)))
    note = "; ".join(f"{level}: {words}" for level, words in BACKGROUNDS.items())
    return WordTable(
        "By background", ("", *(each.level for each in levels)), tuple(rows),
        f"{note}. In brackets, intervals over people. Right: forecasts without and with an "
        "explanation.",
    )  # fmt: skip


def _with_interval(figure: Figure) -> str:
    if figure.by_participant is None:
        return per_cent(figure.value)
    low, high = figure.by_participant
    return f"{per_cent(figure.value)} ({100 * low:.0f} to {100 * high:.0f})"


def _positions(report: Report) -> WordTable:
    rows = tuple(
        (f"place {each.place}", f"{each.chosen}", f"{each.expected:.1f}")
        for each in report.positions.places
    )
    p = report.positions.p_value
    note = "There are too few choices to test whether the place on the page decides."
    if p is not None:
        decides = "Places differ by more than chance" if p < 0.05 else "No sign that places decide"
        note = f"{decides} (chi-squared test, p = {p:.3f}). The order was drawn for each person."
    return WordTable("By place on the page", ("", "chosen", "expected"), rows, note)


def _disagreed(report: Report) -> WordTable:
    rows = []
    for each in report.disagreed:
        about = each.link if each.fact is None else f"{each.link}, without: {each.fact}"
        said = (f"{_said(label, each.kind)} {count}" for label, count in each.answers.items())
        share = f"{100 * each.disagreement:.0f} %"
        rows.append((f"{each.question}", about, ", ".join(said), share))
    return WordTable(
        "Where people disagreed most", ("question", "about", "answers", "pairs that differ"),
        tuple(rows),
    )  # fmt: skip


def _said(label: str, kind: str) -> str:
    return name_words(label) if kind == "best" else MOVE_WORDS[label]


def plain(figures: Sequence[Figure]) -> list[float]:
    """All numbers of some figures, to find the range of a plot."""
    ends = [end for figure in figures for interval in figure.known for end in interval]
    return [*ends, *(figure.value for figure in figures if figure.value is not None)]


# The report of a study: printed, and as a page with plots that needs nothing else.


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
