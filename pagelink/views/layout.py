"""Where everything of a drawing goes: one row per path, between the source and the target.

The source and the target are tall boxes that all rows share. So is any other node that rows next to
each other have at the same place; where it comes up again further away, a caption says so.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from pagelink.explain.result import Node
from pagelink.views.statements import NodeWords, PathGroup, support
from pagelink.views.text import isolate, shorten, text_width, wrap
from pagelink.views.wording import PathWords, Wording, items

NAME_SIZE, DETAIL_SIZE, LABEL_SIZE, TEXT_SIZE = 13.5, 11.0, 12.0, 14.0
NAME_LINE, DETAIL_LINE, TEXT_LINE = 17.0, 15.0, 21.0
MARGIN, PADDING = 28.0, 12.0
QUESTION_ROW = 64.0
QUESTION_Y = MARGIN + QUESTION_ROW / 2
MESSAGE_TOP = MARGIN + QUESTION_ROW + TEXT_LINE / 2 + 4
BADGE_COLUMN = 34.0
HEADING_SIZE, _HEADING_ROW = 13.0, 34.0
_ROW_SPACE, _CAPTION_SPACE = 24.0, 12.0
_ARROW_SPACE = 48.0
_END_WIDTHS, _INNER_WIDTHS, _LABEL_WIDTHS = (92.0, 150.0), (88.0, 160.0), (48.0, 150.0)
_MIDDLE_WIDTH, _VERDICT_WIDTH, _NO_ROWS_HEIGHT = 380.0, 560.0, 44.0
_END_LINES, _INNER_LINES, _MESSAGE_LINES, _VERDICT_LINES = 4, 2, 6, 18
_UNMEASURED_THICKNESS, _THICKNESS = 1.6, (1.2, 4.4)
_LEAST_OF_ALL = 0.1
"""A fact has the thickest line only if it does this share of what all paths do together."""
_REPEAT_NAME_AFTER = 640.0


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
    text_x: float
    text_ys: tuple[float, ...]
    """Where its lettering starts; a very tall box repeats it."""
    caption: str = ""
    strong: bool = True
    """The source, the target, or a node that several paths share."""
    muted: bool = False
    """Of a path that is only context."""


@dataclass(frozen=True)
class Arrow:
    """One step of a path, drawn from the left to the right."""

    x1: float
    x2: float
    backwards: bool
    label: str
    title: str
    effect: str
    """How the score changes without the fact alone, with its sign; empty if unmeasured or idle."""
    thickness: float
    """Of its line: by that change, as a share of the largest one drawn."""
    idle: bool
    """The fact only connects others, and its line is dotted."""


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
    label: str
    """Of the explained link, a dashed line."""
    label_width: float
    message: tuple[str, ...]


class _Measures:
    """Sizes that all rows share.

    Args:
        said: what is drawn.
    """

    def __init__(self, said: Wording) -> None:
        inner = [node for path in said.paths for node in path.nodes[1:-1]]
        self.end_width = _box_width(_END_WIDTHS, [said.link.subject, said.link.object])
        self.inner_width = _box_width(_INNER_WIDTHS, inner)
        names = [_name(node, self.inner_width - 2 * PADDING, _INNER_LINES) for node in inner]
        lettering = max(map(len, names), default=1) * NAME_LINE + DETAIL_LINE
        self.inner_height = 2 * PADDING - 2 + lettering
        captions = len({node.node for node in inner}) < len(inner)
        self.row_height = self.inner_height + _ROW_SPACE + (_CAPTION_SPACE if captions else 0)
        self.headed = [group.paths[0].rank - 1 for group in said.groups if group.is_drawn]
        """Rows with a heading above them."""
        wordy = bool(said.verdict is not None or self.headed or said.requests)
        widths = [_row_width(path, self.inner_width) for path in said.paths]
        self.middle_left = MARGIN + self.end_width + (BADGE_COLUMN if said.paths else 0)
        self.middle_width = max([_VERDICT_WIDTH if wordy else _MIDDLE_WIDTH, *widths])
        lines = _VERDICT_LINES if wordy else _MESSAGE_LINES
        message = " ".join([*said.opening, *said.requests])
        self.message = wrap(message, self.middle_width - 56, TEXT_SIZE, lines)

    @property
    def top(self) -> float:
        """Where the rows begin: below the question and the message."""
        message = len(self.message) * TEXT_LINE + 20 if self.message else 0
        return MARGIN + QUESTION_ROW + message

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


def place(said: Wording) -> Layout:
    """Return where everything of the drawing goes."""
    measures = _Measures(said)
    last = measures.row_y(len(said.paths) - 1) + measures.row_height / 2
    bottom = last if said.paths else measures.top + (0 if measures.message else _NO_ROWS_HEIGHT)
    height = bottom - MARGIN
    repeats = max(1, round(height / _REPEAT_NAME_AFTER))
    middles = [MARGIN + height * (2 * at + 1) / (2 * repeats) for at in range(repeats)]
    ends = (MARGIN, said.link.subject), (measures.middle_right, said.link.object)
    source, target = (
        _box(words, (x, MARGIN), (measures.end_width, height), middles, _END_LINES)
        for x, words in ends
    )
    if said.paths:
        source = replace(source, width=source.width + BADGE_COLUMN)
    headings, label = [group.heading for group in said.groups if group.is_drawn], _label(said)
    return Layout(
        width=measures.middle_right + target.width + MARGIN,
        height=height + 2 * MARGIN,
        left=measures.middle_left,
        middle=measures.middle_left + measures.middle_width / 2,
        right=measures.middle_right,
        boxes=(source, target, *_inner_boxes(said, measures)),
        rows=_rows(said, measures),
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
        label=label,
        label_width=text_width(label, LABEL_SIZE, bold=True) + 28,
        message=measures.message,
    )


def _label(said: Wording) -> str:
    """Return the words of the explained link; its relation is cut, never its score."""
    score = f" · score {said.scores[-1].score}" if said.scores else ""
    room = _MIDDLE_WIDTH - 110 - text_width(score, LABEL_SIZE, bold=True)
    return isolate(shorten(said.link.relation, room, LABEL_SIZE, bold=True)) + score


def _row_width(path: PathWords, inner_width: float) -> float:
    labels = [text_width(step.fact.relation, LABEL_SIZE) for step in path.steps]
    gap = _ARROW_SPACE + _within(_LABEL_WIDTHS, labels)
    return (len(path.nodes) - 2) * inner_width + len(path.steps) * gap


def _within(bounds: tuple[float, float], widths: list[float]) -> float:
    return min(max([bounds[0], *widths]), bounds[1])


def _box_width(bounds: tuple[float, float], nodes: list[NodeWords]) -> float:
    """Return how wide boxes of these nodes are: as their lettering needs, within bounds."""
    names = [text_width(node.name, NAME_SIZE, bold=True) for node in nodes]
    details = [text_width(f"{node.kind} · {node.links}", DETAIL_SIZE) for node in nodes]
    return _within(bounds, names + details) + 2 * PADDING


def _name(node: NodeWords, width: float, max_lines: int) -> tuple[str, ...]:
    return wrap(node.name, width, NAME_SIZE, max_lines, bold=True)


def _detail(node: NodeWords, width: float) -> str:
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
    return Box(
        words=words,
        x=x,
        y=y,
        width=width,
        height=height,
        name=name,
        detail=_detail(words, width - 2 * PADDING),
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
                    [(top + bottom) / 2], _INNER_LINES,
                )  # fmt: skip
                caption = _caption(others, measures.inner_width + _ARROW_SPACE)
                strong = bool(others) or path.rank - 1 != last
                boxes.append(replace(box, caption=caption, strong=strong, muted=group.is_context))
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


def _rows(said: Wording, measures: _Measures) -> tuple[Row, ...]:
    effects = [abs(step.edge.influence or 0) for path in said.paths for step in path.steps]
    # Where paths stand in for each other no fact alone does much, and none looks as if it did.
    largest = max([abs(said.influence or 0) * _LEAST_OF_ALL, *effects])
    return tuple(
        Row(
            path.rank,
            measures.row_y(path.rank - 1),
            group.is_context,
            _arrows(path, measures, 0 if group.is_context else largest),
        )
        for group in said.groups
        for path in group.paths
    )


def _arrows(path: PathWords, measures: _Measures, largest: float) -> tuple[Arrow, ...]:
    num_inner = len(path.nodes) - 2
    lefts = [measures.inner_x(num_inner, at) for at in range(num_inner)]
    starts = [measures.middle_left, *(left + measures.inner_width for left in lefts)]
    arrows = []
    for step, start, stop in zip(path.steps, starts, [*lefts, measures.middle_right], strict=True):
        influence, room = step.edge.influence, stop - start - _ARROW_SPACE
        label = shorten(step.fact.relation, room, LABEL_SIZE)
        idle = bool(step.role)
        effect = "" if idle else shorten(support(influence), room, DETAIL_SIZE)
        thickness = _thickness(influence, 0 if idle else largest)
        arrows.append(Arrow(start, stop, step.backwards, label, str(step), effect, thickness, idle))
    return tuple(arrows)


def _thickness(influence: float | None, largest: float) -> float:
    if influence is None:
        return _UNMEASURED_THICKNESS
    thin, thick = _THICKNESS
    return thin + (thick - thin) * abs(influence) / largest if largest else thin
