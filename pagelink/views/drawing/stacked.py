"""Where everything of a narrow drawing goes: paths under each other, each from top to bottom.

It shows what the wide drawing shows, in a column that fits a phone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pagelink.views.drawing.arrows import (
    LABEL_LINE,
    Arrow,
    Place,
    arrow_of,
    largest_effect,
    relation_lines,
)
from pagelink.views.drawing.layout import (
    DETAIL_LINE,
    HEADING_SIZE,
    NAME_LINE,
    NAME_SIZE,
    SIGN,
    detail_of,
)
from pagelink.views.drawing.walks import Walk
from pagelink.views.statements import NodeWords
from pagelink.views.text import wrap
from pagelink.views.wording import Wording

WIDTH, MARGIN, PADDING = 344.0, 12.0, 10.0
BOX_X = MARGIN + 34.0
BOX_WIDTH = WIDTH - MARGIN - BOX_X
ARROW_X = BOX_X + 22.0
LABEL_X = ARROW_X + 16.0
_NAME_LINES = 3
_ARROW_SPACE, _AFTER_PATH, _HEADING_LINE = 16.0, 22.0, 18.0


@dataclass(frozen=True)
class StackedBox:
    """A node of one path."""

    words: NodeWords
    y: float
    height: float
    name: tuple[str, ...]
    detail: str
    strong: bool
    """The source or the target."""
    muted: bool


@dataclass(frozen=True)
class StackedPath:
    """A path from top to bottom; `x1` and `x2` of its arrows are how far down these reach."""

    rank: int
    y: float
    bottom: float
    muted: bool
    heading: tuple[tuple[float, str], ...]
    """The lines above it, and how far down they are: of the first path of a group."""
    boxes: tuple[StackedBox, ...]
    arrows: tuple[Arrow, ...]
    labels: tuple[tuple[str, ...], ...]
    """The relation of each arrow, in lines."""


@dataclass(frozen=True)
class Stacked:
    """A narrow drawing, placed."""

    paths: tuple[StackedPath, ...]
    height: float


def stack(said: Wording, off: frozenset[Place] = frozenset()) -> Stacked:
    """Return where everything of the narrow drawing goes; without paths it is empty.

    Args:
        said: what is drawn.
        off: facts that are switched off.
    """
    y, largest, placed = MARGIN, largest_effect(said), []
    for group in said.groups:
        for at, path in enumerate(group.paths):
            lines: tuple[str, ...] = ()
            if group.is_drawn and at == 0:
                room = WIDTH - 2 * MARGIN
                lines = wrap(group.heading, room, HEADING_SIZE, _NAME_LINES, bold=True)
            heading = tuple((y + 14 + i * _HEADING_LINE, line) for i, line in enumerate(lines))
            y += len(lines) * _HEADING_LINE + (8 if lines else 0)
            most = 0 if group.is_context else largest
            ends = tuple(at in (0, len(path.nodes) - 1) for at in range(len(path.nodes)))
            walk = Walk(path.rank, path.nodes, path.steps, ends)
            placed.append(_path(walk, y, heading, group.is_context, most, off))
            y = placed[-1].bottom + _AFTER_PATH
    return Stacked(tuple(placed), y)


def stack_walks(walks: Sequence[Walk], message: str = "") -> Stacked:
    """Return where everything of a narrow drawing of walks goes, a message above them."""
    y, placed = MARGIN, []
    lines = wrap(message, WIDTH - 2 * MARGIN, HEADING_SIZE, _NAME_LINES, bold=True)
    heading = tuple((y + 14 + i * _HEADING_LINE, line) for i, line in enumerate(lines))
    y += len(lines) * _HEADING_LINE + (8 if lines else 0)
    for walk in walks:
        placed.append(_path(walk, y, heading, False, 0.0, frozenset()))
        y, heading = placed[-1].bottom + _AFTER_PATH, ()
    return Stacked(tuple(placed), y)


def _path(
    path: Walk, top: float, heading: tuple[tuple[float, str], ...], muted: bool,
    largest: float, off: frozenset[Place],
) -> StackedPath:  # fmt: skip
    boxes: list[StackedBox] = []
    arrows: list[Arrow] = []
    labels: list[tuple[str, ...]] = []
    y = top
    for at, node in enumerate(path.nodes):
        boxes.append(_box(node, y, path.strong[at], muted))
        y += boxes[-1].height
        if at < len(path.steps):
            step = path.steps[at]
            label = relation_lines(step, WIDTH - MARGIN - LABEL_X)
            arrow = arrow_of(step, (y, y), largest, (path.rank, at) in off)
            lines = len(label) + bool(arrow.effect or arrow.idle)
            stop = y + _ARROW_SPACE + lines * LABEL_LINE
            arrows.append(arrow_of(step, (y, stop), largest, arrow.off))
            labels.append(label)
            y = stop
    return StackedPath(
        path.rank, top, y, muted, heading, tuple(boxes), tuple(arrows), tuple(labels)
    )


def _box(node: NodeWords, y: float, strong: bool, muted: bool) -> StackedBox:
    room = BOX_WIDTH - 2 * PADDING - SIGN
    name = wrap(node.name, room, NAME_SIZE, _NAME_LINES, bold=True)
    height = PADDING + len(name) * NAME_LINE + DETAIL_LINE + PADDING - 4
    return StackedBox(node, y, height, name, detail_of(node, room), strong, muted)
