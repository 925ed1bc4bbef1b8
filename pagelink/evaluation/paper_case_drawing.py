"""Draws what several explainers return for one link, a panel for each: the paper's case study.

Source and target are at the sides. A node stands as many columns from the side as facts join it to
that end; what hangs on neither end floats in the middle, which is what the figure is to show.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pagelink.views.lettering import shorten, wrap
from pagelink.views.palette import Colour, colours_of
from pagelink.views.rendering import render

WIDTH, MARGIN, HEADING, ROW, GAP = 960.0, 24.0, 40.0, 92.0, 18.0
BOX_WIDTH, BOX_HEIGHT, LINES = 156.0, 60.0, 2
NAME_SIZE, LABEL_SIZE = 12.0, 11.0
COLUMNS = 4

Node = tuple[str, str]
"""Node type and name."""


@dataclass(frozen=True)
class CaseFact:
    """A fact, read from the first node to the second."""

    src: Node
    relation: str
    dst: Node


@dataclass(frozen=True)
class Panel:
    """What one explainer returns."""

    heading: str
    facts: tuple[CaseFact, ...]


@dataclass(frozen=True)
class _Box:
    x: float
    y: float
    name: tuple[str, ...]
    kind: str
    colour: Colour
    end: bool


@dataclass(frozen=True)
class _Line:
    x1: float
    y1: float
    x2: float
    y2: float
    label: str


@dataclass(frozen=True)
class _Placed:
    heading: str
    y: float
    boxes: list[_Box]
    lines: list[_Line]


def draw_panels(title: str, src: Node, dst: Node, panels: Sequence[Panel]) -> str:
    """Draw the panels below each other as a standalone SVG."""
    kinds = {node[0] for panel in panels for fact in panel.facts for node in (fact.src, fact.dst)}
    colours = colours_of({src[0], dst[0], *kinds})
    placed, top = [], MARGIN + 24
    for panel in panels:
        one, height = _place(panel, src, dst, colours, top)
        placed.append(one)
        top += height + GAP
    return render(
        "case.svg", title=title, panels=placed, width=WIDTH, height=top, box=(BOX_WIDTH, BOX_HEIGHT)
    )


def columns_of(facts: Sequence[CaseFact], src: Node, dst: Node) -> dict[Node, int]:
    """Return the column of each node, 0 for the source and 3 for the target.

    Example:
        >>> a, p, q, b, x = (("author", name) for name in "apqbx")
        >>> path = [CaseFact(a, "writes", p), CaseFact(p, "cites", q)]
        >>> columns_of([*path, CaseFact(x, "in", b)], a, b)
        {('author', 'a'): 0, ('author', 'b'): 3, ('author', 'p'): 1, ('author', 'q'): 2, \
('author', 'x'): 2}
    """
    from_src, from_dst = _distances(facts, src), _distances(facts, dst)
    columns = {src: 0, dst: COLUMNS - 1}
    middle = [node for fact in facts for node in (fact.src, fact.dst) if node not in columns]
    for place, node in enumerate(dict.fromkeys(middle)):
        if node in from_src:
            columns[node] = min(from_src[node], COLUMNS - 2)
        elif node in from_dst:
            columns[node] = max(COLUMNS - 1 - from_dst[node], 1)
        else:
            columns[node] = 1 + place % 2
    return columns


def _distances(facts: Sequence[CaseFact], start: Node) -> dict[Node, int]:
    found, ring = {start: 0}, [start]
    while ring:
        near = [
            other
            for fact in facts
            for node, other in ((fact.src, fact.dst), (fact.dst, fact.src))
            if node in ring and other not in found
        ]
        ring = list(dict.fromkeys(near))
        found.update({node: found_at for node in ring for found_at in [max(found.values()) + 1]})
    return found


def _place(
    panel: Panel, src: Node, dst: Node, colours: Mapping[str, Colour], top: float
) -> tuple[_Placed, float]:
    columns = columns_of(panel.facts, src, dst)
    in_column: dict[int, list[Node]] = {}
    for node, column in columns.items():
        in_column.setdefault(column, []).append(node)
    rows = max(len(nodes) for nodes in in_column.values())
    height = HEADING + rows * ROW
    step = (WIDTH - 2 * MARGIN - BOX_WIDTH) / (COLUMNS - 1)
    at: dict[Node, tuple[float, float]] = {}
    for column, nodes in in_column.items():
        share = rows * ROW / len(nodes)
        for row, node in enumerate(nodes):
            at[node] = (MARGIN + column * step, top + HEADING + (row + 0.5) * share)
    boxes = [
        _Box(
            x, y - BOX_HEIGHT / 2, wrap(node[1], BOX_WIDTH - 16, NAME_SIZE, LINES, bold=True),
            node[0], colours[node[0]], node in (src, dst),
        )
        for node, (x, y) in at.items()
    ]  # fmt: skip
    lines = [_line(at[fact.src], at[fact.dst], fact.relation, step) for fact in panel.facts]
    return _Placed(panel.heading, top, boxes, lines), height


def _line(a: tuple[float, float], b: tuple[float, float], relation: str, step: float) -> _Line:
    """From the side of one box to the facing side of the other."""
    label = shorten(relation, step - BOX_WIDTH, LABEL_SIZE)
    if a[0] == b[0]:  # in one column: from edge to edge
        down = BOX_HEIGHT / 2 if b[1] > a[1] else -BOX_HEIGHT / 2
        middle = a[0] + BOX_WIDTH / 2
        return _Line(middle, a[1] + down, middle, b[1] - down, label)
    if a[0] < b[0]:
        return _Line(a[0] + BOX_WIDTH, a[1], b[0], b[1], label)
    return _Line(a[0], a[1], b[0] + BOX_WIDTH, b[1], label)
