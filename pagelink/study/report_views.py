"""The report of a study: printed, as a page with plots that needs nothing else, and raw as CSV.

Terminal and page show the same tables of words.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup
from rich.console import Console
from rich.table import Table
from rich.text import Text

from pagelink.study.questions import BACKGROUNDS, NONE, NONE_LABEL, WITHOUT, Answer
from pagelink.study.report import PAPER_SHARE, Report
from pagelink.study.statistics import Figure, Interval
from pagelink.views.rows import not_a_formula
from pagelink.views.templates import render
from pagelink.views.text import shorten

NOTHING = "-"
BEST, FORECASTS = "Which explains best", "What will the model do without a fact"
MOVE_WORDS: dict[str, str] = {"rise": "rises", "fall": "falls", "stay": "stays"}
COLUMNS = (
    "participant", "question", "kind", "link", "fact", "variant", "order_shown", "choice",
    "explainer", "true_answer", "correct", "seconds", "background", "background_line",
)  # fmt: skip
WIDTH, LEFT, RIGHT, TOP, ROW = 720.0, 172.0, 70.0, 14.0, 40.0
_STEPS = (0.05, 0.1, 0.2, 0.25, 0.5)
_MOST_TICKS = 6
_INTERVALS = ("over questions", "over people")


@dataclass(frozen=True)
class WordTable:
    """A table with a heading and what is to be known to read it."""

    heading: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""


def per_cent(value: float | None, *, signed: bool = False) -> str:
    """Return a share in words.

    Example:
        >>> per_cent(0.5327), per_cent(0.02, signed=True), per_cent(None)
        ('53.3 %', '+2.0 %', '-')
    """
    return NOTHING if value is None else f"{_points(value, signed)} %"


def between(interval: Interval | None, *, signed: bool = False) -> str:
    """Return an interval in words.

    Example:
        >>> between((0.4105, 0.6477)), between((-0.01, 0.2), signed=True)
        ('41.0 to 64.8 %', '-1.0 to +20.0 %')
    """
    if interval is None:
        return NOTHING
    return " to ".join(_points(end, signed) for end in interval) + " %"


def _points(share: float, signed: bool) -> str:
    return f"{100 * share:{'+' if signed else ''}.1f}"


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
        (name_words(each.name), *_figure(each.share), per_cent(each.chance))
        for each in report.shares
        if each.share.answers
    )
    return WordTable(
        BEST, ("", "share", *_INTERVALS, "by chance"), rows,
        f"Of {report.shares[0].share.answers} answers; 95 % intervals, which have no width where "
        "all or none chose so. Explainers that show the same facts are one option and share its "
        f"choice in equal parts. {report.paper}",
    )  # fmt: skip


def _agreement(report: Report) -> WordTable:
    kinds = {"which explains best": report.agreement, "forecasts": report.forecast_agreement}
    rows = []
    for words, each in kinds.items():
        if each.alpha is not None:
            interval = " to ".join(f"{end:.2f}" for end in each.interval or ()) or NOTHING
            rows.append(
                (words, f"{each.alpha:.2f}", interval, f"{each.questions}", f"{each.answers}")
            )
    return WordTable(
        "Do people agree", ("", "alpha", "over questions", "questions", "answers"), tuple(rows),
        "Krippendorff's alpha: 1 if all agree, 0 if no more than by chance. Of questions with two "
        "or more answers.",
    )  # fmt: skip


def _forecasts(report: Report) -> WordTable:
    rows = tuple(
        (name_words(each.variant), *_figure(each.accuracy), f"{each.accuracy.answers}")
        for each in report.forecasts
    )
    return WordTable(
        FORECASTS, ("", "right", *_INTERVALS, "answers"), rows,
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
        "What an explanation adds", ("", "gain", *_INTERVALS), rows,
        "The share of right forecasts minus that without explanation, in points.",
    )  # fmt: skip


def _figure(figure: Figure, *, signed: bool = False) -> tuple[str, ...]:
    intervals = (between(each, signed=signed) for each in figure.intervals)
    return per_cent(figure.value, signed=signed), *intervals


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
        said = ", ".join(
            f"{name_words(label) if each.kind == 'best' else MOVE_WORDS[label]} {count}"
            for label, count in each.answers.items()
        )
        rows.append((f"{each.question}", about, said, f"{100 * each.disagreement:.0f} %"))
    columns = ("question", "about", "answers", "pairs that differ")
    return WordTable("Where people disagreed most", columns, tuple(rows))


@dataclass(frozen=True)
class Bar:
    """A row of a plot, placed."""

    label: str
    y: float
    end: float
    words: str
    whiskers: tuple[tuple[float, ...] | None, ...]
    """Over questions, over people."""
    chance: float | None


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
    figures = [figure for _, figure, _ in rows]
    values = [0.0 if reference is None else reference[0], *(each.value or 0.0 for each in figures)]
    values += [end for figure in figures for interval in figure.known for end in interval]
    high = min(1.0, math.ceil(max(values) * 10) / 10) or 1.0

    def at(value: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * value / high

    bars = [
        Bar(
            shorten(label, LEFT - 12, 13), TOP + number * ROW, at(figure.value or 0.0),
            per_cent(figure.value),
            tuple(each and tuple(map(at, each)) for each in figure.intervals),
            None if chance is None or chance > high else at(chance),
        )
        for number, (label, figure, chance) in enumerate(rows)
    ]  # fmt: skip
    step = next((step for step in _STEPS if high / step <= _MOST_TICKS), 0.5)
    marked = [number * step for number in range(int(high / step + 1e-9) + 1)]
    bottom = TOP + len(rows) * ROW
    return render(
        "study-bars.svg", title=title, bars=bars,
        ticks=[(at(value), f"{100 * value:.0f} %") for value in marked],
        width=WIDTH, height=bottom + 64, top=TOP, bottom=bottom, left=LEFT,
        reference=None if reference is None else (at(reference[0]), reference[1]),
    )  # fmt: skip


def to_csv(answers: Sequence[Answer]) -> str:
    """Return the raw data, one row per answer."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for each in answers:
        best = each.kind == "best"
        cells = (
            each.participant, each.question, each.kind, each.link, each.fact,
            "" if best else "+".join(each.variants),
            "|".join("+".join(names) or WITHOUT for names in each.order), each.choice,
            "+".join(each.chosen) if best else "", each.truth,
            "" if best else int(each.correct), f"{each.seconds:.1f}", each.level, each.line,
        )  # fmt: skip
        writer.writerow(map(not_a_formula, cells))
    return text.getvalue()
