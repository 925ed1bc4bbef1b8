"""An audit as one page: what a product owner reads in two minutes, and the figures behind it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from markupsafe import Markup

from pagelink import __version__
from pagelink.audit.figures import AuditFigures, Group, Mean
from pagelink.audit.wording import (
    cautions,
    differs_words,
    halves_words,
    heading,
    headline,
    mean_words,
    moves,
    part_words,
    signed,
    verdict_rows,
)
from pagelink.measure.verdict import PARTS
from pagelink.views.templates import render
from pagelink.views.text import clean, count, words, wrap

WIDE, NARROW = (760.0, 250.0, 90.0), (344.0, 14.0, 62.0)
"""Of a plot: all of it, the room beside the bars for labels, and for figures."""
BAR, GAP, TOP = 18.0, 14.0, 8.0
LABEL, LINE, TICK = 13.0, 16.0, 40.0
MIXED = 1.05
"""A mean absolute value is shown where it is larger than the mean by this factor."""
SHOWN = 10
"""Metapaths, facts and nodes on the page; the JSON has all."""


@dataclass(frozen=True)
class Bar:
    """A bar of a plot, in its coordinates."""

    lines: tuple[tuple[float, str], ...]
    """The label, and how far down each of its lines is."""
    y: float
    start: float
    end: float
    reach: tuple[float, float] | None
    """Where the mean absolute value lies on both sides; None: it is not shown."""
    whisker: tuple[float, float] | None
    figure: str
    against: bool


def to_html(audit: AuditFigures) -> str:
    """Return one self-contained page that needs no network."""
    return render("audit.html", package="pagelink.audit", opens=False, **_values(audit))


def to_fragment(audit: AuditFigures) -> str:
    """Return what is on the page, for a page that opens the links of figures.

    A figure is a link to `?audit=KEY`; `pagelink.web.audited.opened` has the links of each key.
    """
    return render("audit-body.html", package="pagelink.audit", opens=True, **_values(audit))


def _values(audit: AuditFigures) -> dict[str, Any]:
    names = part_words(audit.link_type)
    return dict(
        audit=audit,
        heading=heading(audit),
        headline=headline(audit),
        cautions=[(each.text, each.key, count(each.num_links, "link"))
                  for each in cautions(audit)],
        parts_plot=Markup(parts_plot(audit)),
        narrow_plot=Markup(parts_plot(audit, narrow=True)),
        parts=[(name, names[name], mean_words(audit.parts[name]),
                f"{audit.parts[name].mean_abs:.2f}") for name in PARTS],
        verdicts=[(told, number, number / max(audit.num_links, 1))
                  for told, number in verdict_rows(audit.verdicts)],
        groups=[(by, [_group(at, each, audit) for at, each in groups])
                for by, groups in groupby(enumerate(audit.groups), key=lambda each: each[1].by)],
        facts=[(clean(each.text), moves(each, audit.num_links), each.num_links / audit.num_links)
               for each in audit.facts[:SHOWN]],
        nodes=[(f"{clean(each.text)} ({words(each.kind)}, {count(each.degree, 'fact')})",
                moves(each, audit.num_links), each.num_links / audit.num_links)
               for each in audit.nodes[:SHOWN]],
        halves=halves_words(audit),
        shown=SHOWN,
        signed=signed,
        mean_words=mean_words,
        interaction=mean_words(audit.interaction),
        shared=f"{audit.num_logits:,} of {audit.num_coalitions:,}",
        settings={name: "not set" if value is None else str(value)
                  for name, value in audit.settings.items()},
        version=__version__,
    )  # fmt: skip


def _group(place: int, group: Group, audit: AuditFigures) -> Mapping[str, Any]:
    judged = max(group.num_links, 1)
    shares = [
        (kind, group.verdicts.get(name, 0) / judged)
        for name, kind in (("supported", "paths"), ("degree_only", "popular"))
    ]
    at, pieces = 0.0, []
    for kind, share in shares:
        pieces.append((kind, 100 * at, 100 * share))
        at += share
    return {
        "key": f"group-{place}",
        "label": clean(group.label),
        "links": count(group.num_links, "link"),
        "score": f"{group.logit:.2f}",
        "paths": f"{group.verdicts.get('supported', 0)}",
        "popular": f"{group.verdicts.get('degree_only', 0)}",
        "pieces": pieces,
        "alone": group.rests_on_popularity,
        "differs": differs_words(group, audit),
        "metapath": group.metapath or "none",
    }


def parts_plot(audit: AuditFigures, *, narrow: bool = False) -> str:
    """Draw the mean Shapley value of each part, with its error and its mean absolute value.

    Args:
        audit: the audit.
        narrow: for narrow windows, labels above the bars.
    """
    names = part_words(audit.link_type)
    rows = [(names[name], audit.parts[name]) for name in PARTS]
    return bars_plot(rows, "Mean Shapley value of each part of the score", narrow=narrow)


def bars_plot(rows: Sequence[tuple[str, Mean]], title: str, *, narrow: bool = False) -> str:
    """Draw signed bars around 0.

    Args:
        rows: label and value of each bar.
        title: what is drawn, for screen readers.
        narrow: for narrow windows, labels above the bars.
    """
    width, left, right = NARROW if narrow else WIDE
    spans = [_span(mean) for _, mean in rows]
    low, high = min([0.0, *(span[0] for span in spans)]), max([0.0, *(span[1] for span in spans)])
    scale = (width - left - right) / max(high - low, 1e-9)

    def x(value: float) -> float:
        return left + (value - low) * scale

    bars, y = [], TOP
    for label, mean in rows:
        lines = wrap(label, (width if narrow else left) - 20, LABEL, 2)
        above = LINE * len(lines) if narrow else 0.0
        height = BAR if narrow else max(BAR, LINE * len(lines))
        middle = y + above + height / 2
        label_y = [(y if narrow else middle - LINE * len(lines) / 2) + LINE * (at + 0.8)
                   for at in range(len(lines))]  # fmt: skip
        bars.append(
            Bar(
                tuple(zip(label_y, lines, strict=True)), middle - BAR / 2,
                x(min(mean.mean, 0.0)), x(max(mean.mean, 0.0)),
                (x(-mean.mean_abs), x(mean.mean_abs)) if _is_mixed(mean) else None,
                (x(mean.mean - mean.error), x(mean.mean + mean.error)) if mean.error else None,
                signed(mean.mean), mean.mean < 0,
            )
        )  # fmt: skip
        y += above + height + GAP
    ticks = [(x(at), signed(at)) for at in (low, 0.0, high) if at == 0 or abs(at) * scale > TICK]
    return render(
        "bars.svg", package="pagelink.audit", bars=bars, title=title, width=width, height=y + 24,
        bottom=y, zero=x(0.0), label_x=0 if narrow else left - 12, narrow=narrow, top=TOP, bar=BAR,
        ticks=ticks,
    )  # fmt: skip


def _is_mixed(mean: Mean) -> bool:
    """Whether a part raises some scores and lowers others."""
    return mean.mean_abs > MIXED * abs(mean.mean)


def _span(mean: Mean) -> tuple[float, float]:
    """How far a bar reaches, with its error and its mean absolute value."""
    ends = [mean.mean - mean.error, mean.mean + mean.error]
    ends += [-mean.mean_abs, mean.mean_abs] if _is_mixed(mean) else []
    return min(ends), max(ends)
