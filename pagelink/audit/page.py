"""An audit as one page: what a product owner reads in two minutes, and the figures behind it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from markupsafe import Markup

from pagelink import __version__
from pagelink.audit.result import Audit, Group
from pagelink.audit.wording import (
    cautions,
    differs_words,
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

WIDTH, LEFT, RIGHT = 760.0, 250.0, 110.0
"""Of a plot: all of it, the room for labels, the room for figures."""
BAR, GAP, TOP = 18.0, 14.0, 8.0
LABEL = 13.0
MIXED = 1.05
"""A mean absolute value is shown where it is larger than the mean by this factor."""
SHOWN = 10
"""Metapaths, facts and nodes on the page; the JSON has all."""


@dataclass(frozen=True)
class Bar:
    """A bar of a plot, in its coordinates."""

    lines: tuple[str, ...]
    y: float
    start: float
    end: float
    reach: tuple[float, float] | None
    """Where the mean absolute value lies on both sides; None: it is not shown."""
    whisker: tuple[float, float] | None
    figure: str
    against: bool


def to_html(audit: Audit) -> str:
    """Return one self-contained page that needs no network."""
    names = part_words(audit.link_type)
    return render(
        "audit.html",
        package="pagelink.audit",
        audit=audit,
        heading=heading(audit),
        headline=headline(audit),
        cautions=cautions(audit),
        parts_plot=Markup(parts_plot(audit)),
        parts=[(names[name], mean_words(audit.parts[name]), f"{audit.parts[name].mean_abs:.2f}")
               for name in PARTS],
        verdicts=[(told, number, number / max(audit.num_links, 1))
                  for told, number in verdict_rows(audit.verdicts)],
        groups=[(by, [_group(each, audit) for each in groups])
                for by, groups in groupby(audit.groups, key=lambda each: each.by)],
        facts=[(clean(each.text), moves(each, audit.num_links), each.num_links / audit.num_links)
               for each in audit.facts[:SHOWN]],
        nodes=[(f"{clean(each.text)} ({words(each.kind)}, {count(each.degree, 'fact')})",
                moves(each, audit.num_links), each.num_links / audit.num_links)
               for each in audit.nodes[:SHOWN]],
        shown=SHOWN,
        signed=signed,
        mean_words=mean_words,
        interaction=mean_words(audit.interaction),
        shared=f"{audit.num_logits:,} of {audit.num_coalitions:,}",
        settings={name: "not set" if value is None else str(value)
                  for name, value in audit.settings.items()},
        version=__version__,
    )  # fmt: skip


def _group(group: Group, audit: Audit) -> Mapping[str, Any]:
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
        "label": clean(group.label),
        "links": count(group.num_links, "link"),
        "score": f"{group.logit:.2f}",
        "paths": f"{group.verdicts.get('supported', 0)}",
        "popular": f"{group.verdicts.get('degree_only', 0)}",
        "pieces": pieces,
        "alone": group.rests_on_popularity,
        "differs": differs_words(group, audit.link_type),
        "metapath": group.metapath or "none",
    }


def parts_plot(audit: Audit) -> str:
    """Draw the mean Shapley value of each part, with its error and its mean absolute value."""
    names = part_words(audit.link_type)
    rows = [
        (names[n], audit.parts[n].mean, audit.parts[n].error, audit.parts[n].mean_abs)
        for n in PARTS
    ]
    return bars_plot(rows, "Mean Shapley value of each part of the score")


def bars_plot(rows: Sequence[tuple[str, float, float, float | None]], title: str) -> str:
    """Draw signed bars around 0.

    Args:
        rows: label, value, standard error, and mean absolute value, if it is to be shown.
        title: what is drawn, for screen readers.
    """
    reach = [max(abs(value) + error, size or 0.0) for _, value, error, size in rows]
    largest = max([*reach, 1e-9])
    low = -largest if any(value < 0 or size is not None for _, value, _, size in rows) else 0.0
    scale = (WIDTH - LEFT - RIGHT) / (largest - low)

    def x(value: float) -> float:
        return LEFT + (value - low) * scale

    bars, y = [], TOP
    for label, value, error, size in rows:
        lines = tuple(wrap(label, LEFT - 20, LABEL, 2))
        height = max(BAR, 16.0 * len(lines))
        bars.append(
            Bar(
                lines, y + (height - BAR) / 2, x(min(value, 0.0)), x(max(value, 0.0)),
                None if size is None or size <= MIXED * abs(value) else (x(-size), x(size)),
                (x(value - error), x(value + error)) if error > 0 else None,
                signed(value), value < 0,
            )
        )  # fmt: skip
        y += height + GAP
    return render(
        "bars.svg", package="pagelink.audit", bars=bars, title=title, width=WIDTH, height=y + 24,
        bottom=y, zero=x(0.0), left=LEFT, top=TOP, bar=BAR,
        ticks=[(x(at), signed(at)) for at in (low, 0.0, largest) if low < 0 or at >= 0],
    )  # fmt: skip
