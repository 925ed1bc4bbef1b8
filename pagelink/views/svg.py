"""The drawing: paths from the source on the left to the target on the right, as an SVG."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pagelink.explanation import Explanation
from pagelink.views import layout
from pagelink.views.lettering import shorten, text_width
from pagelink.views.naming import words
from pagelink.views.palette import Colour, type_colours
from pagelink.views.rendering import render
from pagelink.views.shapes import Layout
from pagelink.views.wording import Wording, wording

_LEGEND_SIZE, _LEGEND_LINE = 12.0, 24.0
_SWATCH, _BETWEEN = 26.0, 20.0


@dataclass(frozen=True)
class _LegendEntry:
    """One sign of the drawing and its meaning."""

    x: float
    y: float
    text: str
    sign: Colour | Literal["question", "fact", "effect"]
    """The colour of a node type, or the kind of line."""


@dataclass(frozen=True)
class Drawing:
    """A drawing, and how wide it is meant to be shown, in pixels."""

    svg: str
    width: float


def to_svg(explanation: Explanation) -> str:
    """Draw the paths as a standalone SVG that needs neither fonts nor network."""
    return draw(wording(explanation), type_colours(explanation)).svg


def draw(said: Wording, colours: dict[str, Colour]) -> Drawing:
    """Draw what an explanation says; `colours` are those of its node types."""
    placed = layout.place(said)
    legend = _legend(colours, placed, said.noun)
    svg = render(
        "paths.svg",
        placed=placed,
        colours=colours,
        legend=legend,
        height=legend[-1].y + layout.MARGIN,
        title=_title(said),
        sizes=layout,
        legend_size=_LEGEND_SIZE,
    )
    return Drawing(svg, placed.width)


def _title(said: Wording) -> str:
    """Return the drawing in one line, for readers who do not see it."""
    shown = [*said.opening, *(f"{group.heading}." for group in said.groups)]
    return " ".join([f"{said.link}.", said.score_sentence, *said.requests, *shown])


def _legend(colours: dict[str, Colour], placed: Layout, noun: str) -> list[_LegendEntry]:
    """Place the legend below the drawing, in as many lines as it needs."""
    signs: list[tuple[str, Colour | Literal["question", "fact", "effect"]]] = [
        (words(kind), colour) for kind, colour in colours.items()
    ]
    signs.append(("the link in question", "question"))
    if placed.arrows:
        signs.append(("a fact, read along the arrow", "fact"))
    if any(arrow.effect for arrow in placed.arrows):
        signs.append((f"change of the {noun} without that fact alone", "effect"))
    entries = []
    x, y = layout.MARGIN, placed.height + _LEGEND_LINE / 4
    room = placed.width - 2 * layout.MARGIN
    for meaning, sign in signs:
        text = shorten(meaning, room - _SWATCH, _LEGEND_SIZE)
        width = _SWATCH + text_width(text, _LEGEND_SIZE)
        if x > layout.MARGIN and x + width > layout.MARGIN + room:
            x, y = layout.MARGIN, y + _LEGEND_LINE
        entries.append(_LegendEntry(x, y, text, sign))
        x += width + _BETWEEN
    return entries
