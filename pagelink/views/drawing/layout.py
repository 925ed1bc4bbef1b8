"""Where everything of a drawing goes: one row per path, between the source and the target.

The source and the target are tall boxes that all rows share. So is any other node that rows next to
each other have at the same place; where it comes up again further away, a caption says so.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from pagelink.explain.result import Node
from pagelink.views.drawing.arrows import (
    EVERY_LINE,
    LABEL_LINE,
    LABEL_SIZE,
    LONGEST_LABEL,
    Arrow,
    Place,
    arrow_of,
    largest_effect,
    relation_lines,
)
from pagelink.views.statements import NodeWords, PathGroup
from pagelink.views.text import isolate, shorten, text_width, wrap
from pagelink.views.wording import PathWords, Wording, items

NAME_SIZE, DETAIL_SIZE, TEXT_SIZE = 13.5, 11.0, 14.0
NAME_LINE, DETAIL_LINE, TEXT_LINE = 17.0, 15.0, 21.0
SIGN = 16.0
MARGIN, PADDING = 20.0, 12.0
BADGE_COLUMN = 34.0
HEADING_SIZE, _HEADING_ROW = 13.0, 34.0
_QUESTION_SPACE = 36.0
_ROW_SPACE, _CAPTION_SPACE = 22.0, 12.0
_VERDICT_WIDTH, _NO_ROWS_HEIGHT = 560.0, 44.0
_MESSAGE_LINES, _VERDICT_LINES = 6, 18
_REPEAT_NAME_AFTER = 640.0
_DETAIL_ROOM = 40.0
"""By how much a box is wider than its bounds so that the type of its node is not cut."""


@dataclass(frozen=True)
class Room:
    """How wide boxes and labels may be, and how many lines names have: from, to."""

    end: tuple[float, float]
    inner: tuple[float, float]
    label: tuple[float, float]
    arrow: float
    """Of an arrow beside its label."""
    middle: float
    """Between source and target at least."""
    end_lines: int
    inner_lines: int


ROOMY = Room((92.0, 150.0), (88.0, 160.0), (48.0, LONGEST_LABEL), 40.0, 380.0, 4, 2)
COMPACT = Room((76.0, 104.0), (76.0, 112.0), (40.0, 76.0), 28.0, 300.0, 6, 3)
"""For a frame that is too small for the roomy drawing: names are wrapped, or cut after some lines.
No word is broken if `ROOMY` does not break it."""


@dataclass(frozen=True)
class Box:
    """A node, drawn once for all the rows it spans."""

    words: NodeWords
    x: float
    y: float
    width: float
    height: float
    name: tuple[str, ...]
    detail: str
    sign_x: float
    """The middle of the sign of its type, before the detail."""
    text_x: float
    text_ys: tuple[float, ...]
    """Where its lettering starts; a very tall box repeats it."""
    caption: str = ""
    strong: bool = True
    """The source, the target, or a node that several paths share."""
    muted: bool = False
    """Of a path that is only context."""
    place: tuple[int, int] = (0, 0)
    """The number of a path that it is on, and where on it; of the ends (0, 0) and (0, -1)."""


@dataclass(frozen=True)
class Row:
    """One path: its rank in a badge, and an arrow for each of its steps."""

    rank: int
    y: float
    muted: bool
    """It is only context."""
    arrows: tuple[Arrow, ...]


@dataclass(frozen=True)
class Layout:
    """A drawing, placed."""

    width: float
    height: float
    left: float
    """The right side of the source, where the explained link and all paths start."""
    middle: float
    right: float
    """The left side of the target."""
    boxes: tuple[Box, ...]
    rows: tuple[Row, ...]
    brackets: tuple[tuple[float, float], ...]
    """Between the badges of paths that count together: from where down to where."""
    headings: tuple[tuple[float, str], ...]
    """Above the rows that they are about: how far down, and what they say."""
    label: tuple[str, ...]
    """Of the explained link, a dashed line."""
    label_width: float
    question_y: float
    """Where that line is."""
    message_top: float
    message: tuple[str, ...]


class _Measures:
    """Sizes that all rows share.

    Args:
        said: what is drawn.
        alone: the drawing has no page around it, and says itself what the page would.
        room: how wide everything may be.
    """

    def __init__(self, said: Wording, alone: bool, room: Room) -> None:
        self.room = room
        inner = [node for path in said.paths for node in path.nodes[1:-1]]
        steps = [step for path in said.paths for step in path.steps]
        self.end_width = _box_width(room.end, ROOMY.end, [said.link.subject, said.link.object])
        self.inner_width = _box_width(room.inner, ROOMY.inner, inner)
        relations = [step.fact.relation for step in steps]
        self.label_width = _unbroken(room.label, ROOMY.label, relations, LABEL_SIZE, bold=False)[1]
        names = [_name(node, self.inner_width - 2 * PADDING, room.inner_lines) for node in inner]
        lettering = max(map(len, names), default=1) * NAME_LINE + DETAIL_LINE
        self.inner_height = 2 * PADDING - 2 + lettering
        captions = len({node.node for node in inner}) < len(inner)
        lines = [len(relation_lines(step, self.label_width)) for step in steps]
        lettering = (
            2 * max(lines, default=1) * LABEL_LINE
        )  # above the arrow, which is in the middle
        tallest = max(self.inner_height, lettering)
        self.row_height = tallest + _ROW_SPACE + (_CAPTION_SPACE if captions else 0)
        self.headed = [group.paths[0].rank - 1 for group in said.groups if group.is_drawn]
        """Rows with a heading above them."""
        wordy = alone and bool(said.verdict is not None or self.headed or said.requests)
        widths = [self._row_width(path) for path in said.paths]
        self.middle_left = MARGIN + self.end_width + (BADGE_COLUMN if said.paths else 0)
        self.middle_width = max([_VERDICT_WIDTH if wordy else room.middle, *widths])
        message = " ".join([*said.opening, *said.requests]) if alone else ""
        most = _VERDICT_LINES if wordy else _MESSAGE_LINES
        self.message = wrap(message, self.middle_width - 56, TEXT_SIZE, most)
        score = f" · score {said.scores[-1].score}" if alone and said.scores else ""
        label = isolate(said.link.relation) + score
        self.label = wrap(label, self.middle_width - 110, LABEL_SIZE, EVERY_LINE, bold=True)
        self.question_row = _QUESTION_SPACE + 13 + LABEL_LINE * len(self.label)

    def _row_width(self, path: PathWords) -> float:
        lines = [line for step in path.steps for line in relation_lines(step, self.label_width)]
        labels = [text_width(line, LABEL_SIZE) for line in lines]
        gap = self.room.arrow + _within((self.room.label[0], self.label_width), labels)
        return (len(path.nodes) - 2) * self.inner_width + len(path.steps) * gap

    @property
    def top(self) -> float:
        """Where the rows begin: below the question and the message."""
        message = len(self.message) * TEXT_LINE + 20 if self.message else 0
        return MARGIN + self.question_row + message

    @property
    def middle_right(self) -> float:
        """The left side of the target."""
        return self.middle_left + self.middle_width

    def inner_x(self, num_inner: int, place: int) -> float:
        """Return the left side of an inner node: the nodes of a row are spread evenly."""
        gap = (self.middle_width - num_inner * self.inner_width) / (num_inner + 1)
        return self.middle_left + gap + place * (gap + self.inner_width)

    def row_y(self, row: int) -> float:
        """Return the middle of a row."""
        headings = sum(first <= row for first in self.headed)
        return self.top + (row + 0.5) * self.row_height + headings * _HEADING_ROW


def place(
    said: Wording, alone: bool = True, off: frozenset[Place] = frozenset(), room: Room = ROOMY
) -> Layout:
    """Return where everything of the drawing goes.

    Args:
        said: what is drawn.
        alone: with the verdict, since no page around the drawing says it.
        off: facts that are switched off.
        room: how wide everything may be.
    """
    measures = _Measures(said, alone, room)
    last = measures.row_y(len(said.paths) - 1) + measures.row_height / 2
    bottom = last if said.paths else measures.top + (0 if measures.message else _NO_ROWS_HEIGHT)
    height = bottom - MARGIN
    repeats = max(1, round(height / _REPEAT_NAME_AFTER))
    middles = [MARGIN + height * (2 * at + 1) / (2 * repeats) for at in range(repeats)]
    ends = (MARGIN, said.link.subject), (measures.middle_right, said.link.object)
    source, target = (
        _box(words, (x, MARGIN), (measures.end_width, height), middles, room.end_lines)
        for x, words in ends
    )
    target = replace(target, place=(0, -1))
    if said.paths:
        source = replace(source, width=source.width + BADGE_COLUMN)
    headings = [group.heading for group in said.groups if group.is_drawn]
    widths = [text_width(line, LABEL_SIZE, bold=True) for line in measures.label]
    return Layout(
        width=measures.middle_right + target.width + MARGIN,
        height=height + 2 * MARGIN,
        left=measures.middle_left,
        middle=measures.middle_left + measures.middle_width / 2,
        right=measures.middle_right,
        boxes=(source, target, *_inner_boxes(said, measures)),
        rows=_rows(said, measures, off),
        brackets=tuple(
            (measures.row_y(path.rank - 1), measures.row_y(path.rank))
            for group in said.groups
            for item in items(group.paths)
            for path in item[:-1]
        ),
        headings=tuple(
            (
                measures.row_y(row) - measures.row_height / 2 - _HEADING_ROW / 2 + 8,
                shorten(text, measures.middle_width - 24, HEADING_SIZE, bold=True),
            )
            for row, text in zip(measures.headed, headings, strict=True)
        ),
        label=measures.label,
        label_width=max(widths) + 28,
        question_y=MARGIN + measures.question_row / 2,
        message_top=MARGIN + measures.question_row + TEXT_LINE / 2 + 4,
        message=measures.message,
    )


def _within(bounds: tuple[float, float], widths: list[float]) -> float:
    return min(max([bounds[0], *widths]), bounds[1])


def _unbroken(
    bounds: tuple[float, float], roomy: tuple[float, float], texts: list[str], size: float,
    bold: bool,
) -> tuple[float, float]:  # fmt: skip
    """Return bounds in which each word fits into a line, up to the roomy bounds."""
    words = [text_width(word, size, bold=bold) for text in texts for word in text.split()]
    return bounds[0], min(max([bounds[1], *words]), roomy[1])


def _box_width(
    bounds: tuple[float, float], roomy: tuple[float, float], nodes: list[NodeWords]
) -> float:
    """Return how wide boxes of these nodes are: as their lettering needs, within bounds."""
    low, high = _unbroken(bounds, roomy, [node.name for node in nodes], NAME_SIZE, bold=True)
    names = [text_width(node.name, NAME_SIZE, bold=True) for node in nodes]
    details = [SIGN + text_width(f"{node.kind} · {node.links}", DETAIL_SIZE) for node in nodes]
    high = min(max([high, *details]), roomy[1] + _DETAIL_ROOM)  # a detail is one line
    return _within((low, high), names + details) + 2 * PADDING


def _name(node: NodeWords, width: float, max_lines: int) -> tuple[str, ...]:
    return wrap(node.name, width, NAME_SIZE, max_lines, bold=True)


def detail_of(node: NodeWords, width: float) -> str:
    """Return type and degree; where there is no room the type is cut, never the degree."""
    links = f" · {node.links}" if node.links else ""
    kind = shorten(node.kind, width - text_width(links, DETAIL_SIZE), DETAIL_SIZE)
    return isolate(kind) + links


def _box(
    words: NodeWords, corner: tuple[float, float], size: tuple[float, float],
    middles: Iterable[float], max_lines: int,
) -> Box:  # fmt: skip
    """Return a strong box without a caption, its lettering around each of some middles."""
    (x, y), (width, height) = corner, size
    name = _name(words, width - 2 * PADDING, max_lines)
    lettering = len(name) * NAME_LINE + DETAIL_LINE
    detail = detail_of(words, width - 2 * PADDING - SIGN)
    return Box(
        words=words,
        x=x,
        y=y,
        width=width,
        height=height,
        name=name,
        detail=detail,
        sign_x=x + width / 2 - text_width(detail, DETAIL_SIZE) / 2,
        text_x=x + width / 2,
        text_ys=tuple(middle - lettering / 2 for middle in middles),
    )


def _inner_boxes(said: Wording, measures: _Measures) -> list[Box]:
    rows_of: dict[Node, list[int]] = {}
    for row, path in enumerate(said.paths):
        for node in path.nodes[1:-1]:
            rows_of.setdefault(node.node, []).append(row)
    boxes = []
    for group in said.groups:
        for row, path in enumerate(group.paths):
            for at, words in enumerate(path.nodes[1:-1], start=1):
                if row and _same_place(group.paths[row - 1], path, at):
                    continue
                last = _last_row(group, row, at)
                others = [r for r in rows_of[words.node] if not path.rank - 1 <= r <= last]
                left = measures.inner_x(len(path.nodes) - 2, at - 1)
                top, bottom = measures.row_y(path.rank - 1), measures.row_y(last)
                box = _box(
                    words, (left, top - measures.inner_height / 2),
                    (measures.inner_width, bottom - top + measures.inner_height),
                    [(top + bottom) / 2], measures.room.inner_lines,
                )  # fmt: skip
                caption = _caption(others, measures.inner_width + measures.room.arrow)
                strong = bool(others) or path.rank - 1 != last
                own = (path.rank, at)
                boxes.append(
                    replace(box, caption=caption, strong=strong, muted=group.is_context, place=own)
                )
    return boxes


def _last_row(group: PathGroup[PathWords], row: int, at: int) -> int:
    """Return the last row of those from a path on that share its node at a place."""
    path = group.paths[row]
    while row + 1 < len(group.paths) and _same_place(group.paths[row + 1], path, at):
        row += 1
    return group.paths[row].rank - 1


def _same_place(other: PathWords, path: PathWords, at: int) -> bool:
    return len(other.nodes) == len(path.nodes) and other.nodes[at] == path.nodes[at]


def _caption(others: list[int], limit: float) -> str:
    if not others:
        return ""
    ranks = ", ".join(str(row + 1) for row in others)
    caption = f"also in path{'s' if len(others) > 1 else ''} {ranks}"
    if text_width(caption, DETAIL_SIZE) > limit:
        return f"also in {len(others)} other paths"
    return caption


def _rows(said: Wording, measures: _Measures, off: frozenset[Place]) -> tuple[Row, ...]:
    largest = largest_effect(said)
    return tuple(
        Row(
            path.rank,
            measures.row_y(path.rank - 1),
            group.is_context,
            _arrows(path, measures, 0 if group.is_context else largest, off),
        )
        for group in said.groups
        for path in group.paths
    )


def _arrows(
    path: PathWords, measures: _Measures, largest: float, off: frozenset[Place]
) -> tuple[Arrow, ...]:
    num_inner = len(path.nodes) - 2
    lefts = [measures.inner_x(num_inner, at) for at in range(num_inner)]
    starts = [measures.middle_left, *(left + measures.inner_width for left in lefts)]
    ends = zip(path.steps, starts, [*lefts, measures.middle_right], strict=True)
    return tuple(
        arrow_of(step, (start, stop), largest, (path.rank, at) in off, measures.label_width)
        for at, (step, start, stop) in enumerate(ends)
    )
