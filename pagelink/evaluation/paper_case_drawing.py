"""Draws what several explainers return for one link, a panel for each: the paper's case study."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pagelink.views.layers import NamedFact, Node
from pagelink.views.palette import colours_of
from pagelink.views.rendering import render
from pagelink.views.subgraph import BOX_WIDTH, place

WIDTH, MARGIN, HEADING, GAP = 960.0, 24.0, 40.0, 24.0


@dataclass(frozen=True)
class Panel:
    """What one explainer returns."""

    heading: str
    facts: tuple[NamedFact, ...]


def draw_panels(title: str, src: Node, dst: Node, panels: Sequence[Panel]) -> str:
    """Draw the panels below each other as a standalone SVG."""
    kinds = {node[0] for panel in panels for fact in panel.facts for node in (fact.src, fact.dst)}
    colours = colours_of({src[0], dst[0], *kinds})
    placed, top = [], MARGIN + 24
    for panel in panels:
        one = place(panel.facts, src, dst, colours, top + HEADING, WIDTH)
        placed.append((panel.heading, top, one))
        top += HEADING + one.height + GAP
    width = max(one.width for _, _, one in placed)
    return render(
        "case.svg", title=title, panels=placed, width=width, height=top, box_width=BOX_WIDTH
    )
