"""The drawing of paths as SVG, for wide windows, for smaller ones and for narrow ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from pagelink.views.drawing import arrows as arrow_sizes
from pagelink.views.drawing import layout, stacked
from pagelink.views.drawing.arrows import Arrow, Place
from pagelink.views.drawing.walks import Walk
from pagelink.views.statements import IDLE
from pagelink.views.templates import AGAINST, SUPPORTS, Colour, render
from pagelink.views.text import shorten, text_width, words
from pagelink.views.wording import Wording

_LEGEND_SIZE, _LEGEND_LINE = 12.0, 24.0
_SWATCH, _BETWEEN = 26.0, 20.0
_SMALLEST_SCALE = 0.72
"""In a frame where a drawing would shrink below this share of its size, the next narrower one is
shown."""
_NOT_WORTH_IT = 40.0
"""Pixels that a compact drawing is narrower at least."""
FRAMES = range(300, 2001, 50)
"""Widths of frames that a page tells apart."""
_INK = {"": "#6b7785", "supports": SUPPORTS, "against": AGAINST}
"""Of lines, by what their facts do."""
Sign = Colour | Literal["question", "fact", "idle", "supports", "against", "together"]
"""What the legend explains: the sign of a node type, or a kind of line."""
LegendEntry = tuple[float, float, str, Sign]
"""Where a sign stands, and what it means."""


@dataclass(frozen=True)
class Drawing:
    """The same drawing for wide windows, for smaller ones and for narrow ones."""

    svg: str
    width: float
    """How wide the wide drawing is meant to be shown, in pixels."""
    compact: str
    """With names in more lines; the wide drawing again, if that makes it no narrower."""
    compact_width: float
    narrow: str
    """Paths under each other; the wide drawing again, if there are no paths."""

    @property
    def smallest(self) -> int:
        """In a frame of fewer pixels, the compact drawing is the one to show."""
        return round(self.width * _SMALLEST_SCALE)

    @property
    def compact_smallest(self) -> int:
        """In a frame of fewer pixels, the narrow drawing is the one to show."""
        return round(self.compact_width * _SMALLEST_SCALE)

    @property
    def frames(self) -> tuple[int, int]:
        """Both, as widths that a page without scripts tells apart."""
        return _frame(self.smallest), _frame(self.compact_smallest)


def _frame(smallest: int) -> int:
    return next((frame for frame in FRAMES if frame >= smallest), FRAMES[-1])


def draw(said: Wording, colours: dict[str, Colour], off: frozenset[Place] = frozenset()) -> Drawing:
    """Draw what an explanation says, for a page that has its verdict in words.

    Args:
        said: what the explanation says.
        colours: those of its node types.
        off: facts that are drawn as switched off.
    """
    wide = wide_drawing(said, colours, False, off)
    compact = wide_drawing(said, colours, False, off, layout.COMPACT)
    if compact[1] > wide[1] - _NOT_WORTH_IT:
        compact = wide
    placed = stacked.stack(said, off)
    if not placed.paths:
        return Drawing(*wide, *compact, wide[0])
    narrow = _narrow(placed, colours, _title(said))
    return Drawing(*wide, *compact, narrow)


def draw_walks(
    title: str, walks: Sequence[Walk], colours: dict[str, Colour], message: str = ""
) -> str:
    """Draw walks for narrow windows, under each other.

    Args:
        title: what is drawn, for screen readers.
        walks: see `walks_of`.
        colours: those of the node types.
        message: what stands above them.
    """
    return _narrow(stacked.stack_walks(walks, message), colours, title)


def _narrow(placed: stacked.Stacked, colours: dict[str, Colour], title: str) -> str:
    room = stacked.WIDTH - 2 * stacked.MARGIN
    arrows = [arrow for path in placed.paths for arrow in path.arrows]
    kinds = {box.words.node[0] for path in placed.paths for box in path.boxes}
    signs = _signs({kind: colours[kind] for kind in colours if kind in kinds}, arrows)
    legend = _legend(signs, (stacked.MARGIN, placed.height), room)
    return render(
        "stacked.svg", placed=placed, colours=colours, legend=legend, title=title, ink=_INK,
        height=legend[-1][1] + stacked.MARGIN + 4, sizes=stacked, common=layout,
        legend_size=_LEGEND_SIZE, arrows=arrow_sizes,
    )  # fmt: skip


def wide_drawing(
    said: Wording, colours: dict[str, Colour], alone: bool, off: frozenset[Place],
    room: layout.Room = layout.ROOMY,
) -> tuple[str, float]:  # fmt: skip
    """Return the drawing for wide windows, and its width; the arguments are those of `place`."""
    placed = layout.place(said, alone, off, room)
    kinds = {box.words.node[0] for box in placed.boxes}
    drawn = {kind: colour for kind, colour in colours.items() if kind in kinds}
    arrows = [arrow for row in placed.rows for arrow in row.arrows]
    signs = _signs(drawn, arrows)
    signs.insert(len(drawn), ("the predicted link", "question"))
    if placed.brackets:
        signs.append(("paths that count together", "together"))
    corner = layout.MARGIN, placed.height + _LEGEND_LINE / 4
    legend = _legend(signs, corner, placed.width - 2 * layout.MARGIN)
    svg = render(
        "paths.svg", placed=placed, colours=colours, legend=legend, title=_title(said), ink=_INK,
        height=legend[-1][1] + layout.MARGIN, link=str(said.link), sizes=layout,
        legend_size=_LEGEND_SIZE, arrows=arrow_sizes,
    )  # fmt: skip
    return svg, placed.width


def _title(said: Wording) -> str:
    """Return the drawing in one line, for readers who do not see it."""
    shown = [*said.opening, *(f"{group.heading}." for group in said.groups)]
    return " ".join([f"{said.link}.", said.score_sentence, *said.requests, *shown])


def _signs(colours: dict[str, Colour], arrows: list[Arrow]) -> list[tuple[str, Sign]]:
    """Return what is to be explained of a drawing."""
    signs: list[tuple[str, Sign]] = [(words(kind), colour) for kind, colour in colours.items()]
    sides = {arrow.side for arrow in arrows}
    if "supports" in sides:
        signs.append(("+ supports (lower score without it)", "supports"))
    if "against" in sides:
        signs.append(("\N{MINUS SIGN} speaks against (higher without it)", "against"))
    if not sides - {""} and arrows:
        signs.append(("a fact, read along the arrow", "fact"))
    if any(arrow.idle for arrow in arrows):
        signs.append((IDLE[0].lower() + IDLE[1:], "idle"))
    return signs


def _legend(
    signs: list[tuple[str, Sign]], corner: tuple[float, float], room: float
) -> list[LegendEntry]:
    """Place the legend from a corner on, in as many lines as it needs."""
    entries = []
    x, y = left, _ = corner
    for meaning, sign in signs:
        text = shorten(meaning, room - _SWATCH, _LEGEND_SIZE)
        width = _SWATCH + text_width(text, _LEGEND_SIZE)
        if x > left and x + width > left + room:
            x, y = left, y + _LEGEND_LINE
        entries.append((x, y, text, sign))
        x += width + _BETWEEN
    return entries
