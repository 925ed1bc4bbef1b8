"""Draws the facts of an explanation as one picture, in one style whoever found them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from pagelink.views.layers import FEWEST_COLUMNS, Layers, NamedFact, Node, Place, is_node, layers_of
from pagelink.views.templates import Colour, render
from pagelink.views.text import text_width, wrap

WIDTH, MARGIN = 760.0, 16.0
BOX_WIDTH, LINE, PADDING, BETWEEN, SMALLEST_GAP = 132.0, 15.0, 9.0, 16.0, 60.0
NAME_SIZE, LABEL_SIZE = 12.5, 11.0
NOTHING = "This explanation shows no facts."
_LINES, _EVERY_LINE, _LABEL_LINE = 3, 99, 12.5
_MORE_GAP = 40.0
_PORTS, _TIP = 14.0, 7.0
_TRIED = (0.5, 0.38, 0.62, 0.28, 0.72)
"""Where on its line a label may stand, as a share of it, best first."""

Point = tuple[float, float]
Curved = tuple[Point, Point, Point, Point]
"""A cubic curve: where it starts, two points that it bends towards, where it stops."""


@dataclass(frozen=True)
class Box:
    """A node."""

    x: float
    y: float
    height: float
    name: tuple[str, ...]
    title: str
    kind: str
    colour: Colour
    end: bool
    """It is the source or the target."""


@dataclass(frozen=True)
class Curve:
    """A line between two nodes, with the tips of its arrows."""

    path: str
    tips: tuple[str, ...]


@dataclass(frozen=True)
class Label:
    """The words of a line."""

    x: float
    y: float
    """Of the first of its lines."""
    lines: tuple[str, ...]


@dataclass(frozen=True)
class Placed:
    """A subgraph, placed below a given height."""

    boxes: list[Box]
    curves: list[Curve]
    labels: list[Label]
    width: float
    """Of the card; more than was given, if there are many columns."""
    height: float


def draw_subgraph(
    title: str, src: Node, dst: Node, facts: Sequence[NamedFact], colours: Mapping[str, Colour]
) -> str:
    """Draw facts between the ends of a link as a standalone SVG.

    Args:
        title: what is drawn, for screen readers.
        src: the source, at the left.
        dst: the target, at the right.
        facts: in any order: the drawing depends on which they are alone.
        colours: those of the node types.
    """
    note = 0.0 if facts else 34.0
    # Long relations get room for their lines, as far as letters stay readable.
    wanted = max((text_width(fact.relation, LABEL_SIZE) / 2 for fact in facts), default=0.0)
    more = min(max(wanted - SMALLEST_GAP, 0.0), _MORE_GAP) * (FEWEST_COLUMNS - 1)
    placed = place(facts, src, dst, colours, MARGIN + note, WIDTH + more)
    return render(
        "subgraph.svg", title=title, placed=placed, width=placed.width, margin=MARGIN,
        height=placed.height + 2 * MARGIN + note, box_width=BOX_WIDTH,
        nothing="" if facts else NOTHING,
    )  # fmt: skip


def place(
    facts: Sequence[NamedFact], src: Node, dst: Node, colours: Mapping[str, Colour], top: float,
    width: float = WIDTH,
) -> Placed:  # fmt: skip
    """Place boxes, lines and labels, `top` below the upper edge."""
    layers = layers_of(facts, src, dst)
    nodes = [each for column in layers.columns for each in column if is_node(each)]
    names = {
        node: wrap(node[1], BOX_WIDTH - 2 * PADDING, NAME_SIZE, _LINES, bold=True) or ("?",)
        for node in nodes
    }
    usual = 2 * PADDING + LINE * (max(map(len, names.values())) + 1) - 4
    heights = dict.fromkeys(nodes, usual)
    for end in (src, dst):  # alone in their columns: as tall as their lines need
        lines = sum(end in ends for ends in layers.routes)
        heights[end] = max(usual, lines * _PORTS + 2 * PADDING)
    fullest = max(map(len, layers.columns))
    height = max(fullest * (usual + BETWEEN) - BETWEEN, *heights.values())
    gaps = len(layers.columns) - 1
    width = max(width, 2 * MARGIN + BOX_WIDTH + gaps * (BOX_WIDTH + SMALLEST_GAP))
    step = (width - 2 * MARGIN - BOX_WIDTH) / gaps
    sizes = {each: usual for column in layers.columns for each in column} | heights
    middles = layers.middles(sizes, BETWEEN, height)
    at = {  # the middle of the left side
        each: (MARGIN + number * step, top + middles[each])
        for number, column in enumerate(layers.columns)
        for each in column
    }
    boxes = [
        Box(
            at[node][0], at[node][1] - heights[node] / 2, heights[node], names[node], node[1],
            node[0], colours[node[0]], node in (src, dst),
        )
        for node in nodes
    ]  # fmt: skip
    drawn = _Lines(facts, layers, at, heights, step - BOX_WIDTH)
    return Placed(boxes, drawn.curves, drawn.labels, width, height)


class _Lines:
    """The lines between placed boxes, and labels that do not cover each other."""

    def __init__(
        self, facts: Sequence[NamedFact], layers: Layers, at: dict[Place, Point],
        heights: Mapping[Node, float], gap: float,
    ) -> None:  # fmt: skip
        self._at, self._heights, self._gap = at, heights, gap
        self.curves: list[Curve] = []
        self.labels: list[Label] = []
        self._taken: list[tuple[Point, float, float]] = []
        ports = self._ports(layers)
        for ends, route in layers.routes.items():
            told = sorted({(fact.src, fact.relation) for fact in facts if fact.ends == ends})
            parts = self._parts(route, ports[route[0], ends], ports[route[-1], ends])
            # In one column both ends are right sides, and tips point to the left.
            turned = parts[0][0][0] == parts[-1][-1][0]
            tips = []
            if any(src == route[-1] for src, _ in told):
                tips.append(_tip(parts[0][0], _TIP))
            if any(src == route[0] for src, _ in told):
                tips.insert(0, _tip(parts[-1][-1], _TIP if turned else -_TIP))
            self.curves.append(Curve(_path(parts), tuple(tips)))
            # Labels stand in the gaps, not where a line passes a column.
            self._label(parts[::2], ", ".join(dict.fromkeys(relation for _, relation in told)))

    def _ports(self, layers: Layers) -> dict[tuple[Place, frozenset[Node]], float]:
        """How far from the middle of a side each line leaves it, so that tips stay apart."""
        sides: dict[tuple[Node, bool], list[tuple[float, frozenset[Node]]]] = {}
        for ends, route in layers.routes.items():
            for here, there in ((route[0], route[1]), (route[-1], route[-2])):
                assert is_node(here)
                right = self._at[there][0] >= self._at[here][0]
                sides.setdefault((here, right), []).append((self._at[there][1], ends))
        found: dict[tuple[Place, frozenset[Node]], float] = {}
        for (here, _), lines in sides.items():
            lines.sort(key=lambda line: line[0])
            room = (self._heights[here] - 14) / max(len(lines) - 1, 1)
            for number, (_, ends) in enumerate(lines):
                found[here, ends] = (number - (len(lines) - 1) / 2) * min(_PORTS, room)
        return found

    def _parts(self, route: list[Place], leaves: float, arrives: float) -> list[Curved]:
        """The curves of a line, which leaves and arrives so far from the middle of its sides."""
        first, last = self._at[route[0]], self._at[route[-1]]
        start = (first[0] + BOX_WIDTH, first[1] + leaves)
        if first[0] == last[0]:  # in one column: round the right sides
            stop = (last[0] + BOX_WIDTH, last[1] + arrives)
            out = start[0] + 0.62 * self._gap
            return [(start, (out, start[1]), (out, stop[1]), stop)]
        points = [start]
        for passed in route[1:-1]:
            x, y = self._at[passed]
            points += [(x, y), (x + BOX_WIDTH, y)]
        points.append((last[0], last[1] + arrives))
        return [_bent(a, b) for a, b in pairwise(points)]

    def _label(self, parts: list[Curved], words: str) -> None:
        # Wrapped, never cut: a relation that is cut may read as another one.
        lines = wrap(words, self._gap - 4, LABEL_SIZE, _EVERY_LINE)
        half = max(text_width(line, LABEL_SIZE) for line in lines) / 2
        tall = (len(lines) - 1) * _LABEL_LINE / 2
        places = [_on(part, share) for share in _TRIED for part in parts]
        free = [
            point for point in places
            if all(
                abs(point[1] - y) > LABEL_SIZE + 2 + tall + others
                or abs(point[0] - x) > half + other
                for (x, y), other, others in self._taken
            )
        ]  # fmt: skip
        x, y = (free or places)[0]
        self._taken.append(((x, y), half, tall))
        self.labels.append(Label(x, y - tall + LABEL_SIZE * 0.35, lines))


def _bent(a: Point, b: Point) -> Curved:
    bend = 0.4 * (b[0] - a[0])
    return a, (a[0] + bend, a[1]), (b[0] - bend, b[1]), b


def _on(curve: Curved, share: float) -> Point:
    """The point of a cubic curve."""
    rest = 1 - share
    weights = (rest**3, 3 * rest**2 * share, 3 * rest * share**2, share**3)
    return (
        sum(w * x for w, (x, _) in zip(weights, curve, strict=True)),
        sum(w * y for w, (_, y) in zip(weights, curve, strict=True)),
    )


def _path(parts: list[Curved]) -> str:
    x, y = parts[0][0]
    curves = ("C" + " ".join(f"{px:.1f} {py:.1f}" for px, py in points) for _, *points in parts)
    return f"M{x:.1f} {y:.1f}" + "".join(curves)


def _tip(point: Point, back: float) -> str:
    """A triangle at the end of a line that is pointed to."""
    x, y = point
    return f"M{x:.1f} {y:.1f}l{back:.1f} -4v8z"
