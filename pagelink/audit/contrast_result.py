"""The result of a contrast, in words, and as a drawing of both targets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

from pagelink.audit.wording import signed
from pagelink.explain.counterfactual import RemovedFact
from pagelink.explain.result import Explanation, Node, Path, plain
from pagelink.graph.schema import EdgeType
from pagelink.views.beyond_wording import path_line
from pagelink.views.statements import node_words
from pagelink.views.templates import Colour, colours_of, render
from pagelink.views.text import clean, count, enumerated, shorten, words, wrap

ContrastVerdict = Literal["equal", "popularity", "paths", "facts", "no_facts"]
"""Of a difference, the first that holds: it is not noticed; of the target above, only the number of
facts counts; without the facts on paths, at least half of it is gone; facts turn the order; it is
there whatever facts are removed."""
CONTRAST_VERDICTS: tuple[str, ...] = get_args(ContrastVerdict)
SHOWN = 4
"""Paths that are said and drawn."""
COLUMN, BOX, LINE, ROW, MARGIN = 250.0, 150.0, 16.0, 74.0, 16.0
"""Of the drawing: from box to box, the width of a box, a line of text, from path to path."""
NAME, LABEL = 13.0, 11.5


@dataclass(frozen=True)
class PathEffect:
    """A path to one of the two targets, and what it does to the difference."""

    path: Path
    above: bool
    """It leads to the target that is above."""
    effect: float
    """By how much the difference falls without its facts; below 0: it rises."""


@dataclass(frozen=True)
class Contrast:
    """What puts one target above another; the first of the two is above, whichever was named."""

    link_type: EdgeType
    src: Node
    above: Node
    below: Node
    src_name: str
    above_name: str
    below_name: str
    turned: bool
    """The target that was named first is the one below."""
    logit_above: float
    logit_below: float
    verdict: ContrastVerdict
    without_paths: float
    """The difference without any fact on a path to either."""
    without_edges: float
    """The difference without any fact at all."""
    paths: tuple[PathEffect, ...]
    """The returned paths of both, by what they do to the difference."""
    facts: tuple[RemovedFact, ...]
    """The fewest facts found without which the order turns; else those that came nearest."""
    difference_without: float | None
    """The difference without these facts; None: there are none."""
    widening: tuple[RemovedFact, ...]
    """Facts that work against it: without them the difference is largest, as found."""
    difference_widened: float | None
    smallest: bool
    """All smaller sets of facts were measured, too."""
    num_sets: int
    """Sets of facts that were measured in search of those that turn the order."""
    explanations: tuple[Explanation, Explanation]
    """Of the target above, and of the one below."""

    @property
    def difference(self) -> float:
        """How much higher the one above scores."""
        return self.logit_above - self.logit_below

    @property
    def turns(self) -> bool:
        """Whether the order turns without the facts that were found."""
        return self.difference_without is not None and self.difference_without < 0

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain lists, dicts, numbers and strings, ready for JSON."""
        given = {name: plain(value) for name, value in vars(self).items() if name != "explanations"}
        return {
            **given, "difference": self.difference, "turns": self.turns,
            "explanations": [each.to_dict() for each in self.explanations], "text": str(self),
        }  # fmt: skip

    def to_svg(self) -> str:
        """Draw the paths that count, from the source on the left to both targets on the right."""
        return to_svg(self)

    def __str__(self) -> str:
        return to_text(self)


def to_text(found: Contrast) -> str:
    """Return a contrast in plain words."""
    blocks = [" ".join(opening(found))]
    shown = shown_paths(found)
    if shown:
        lines = [f"- {signed(each.effect)}: {path_sentence(found, each)}" for each in shown]
        blocks.append(
            "\n".join(["Paths, and by how much the difference falls without each:", *lines])
        )
    blocks.append(" ".join(filter(None, (turning(found), widening(found)))))
    blocks.append(context(found))
    return "\n\n".join(filter(None, blocks))


def opening(found: Contrast) -> list[str]:
    """Return which target is above, by how much, and what that rests on."""
    src, above, below = map(clean, (found.src_name, found.above_name, found.below_name))
    scores = f"{found.logit_above:.2f} against {found.logit_below:.2f}"
    if found.verdict == "equal":
        return [f"For {src} the model scores {above} and {below} alike: {scores}."]
    told = [f"For {src} the model scores {above} above {below}: {scores}."]
    if found.turned:
        told = [f"For {src} the model scores {above} above {below}, not below it: {scores}."]
    told.append({
        "popularity": (
            f"That is popularity: what counts is how many facts {above} has, not what they lead "
            "to."
        ),
        "paths": "It rests on paths: without any, at least half of the difference is gone.",
        "facts": "It does not rest on paths, but single facts can turn the order.",
        "no_facts": (
            "No facts that were tried turn the order, and paths do not make the difference: it "
            "rests on what the model has learned of the nodes themselves, or on many facts at once."
        ),
    }[found.verdict])  # fmt: skip
    return told


def shown_paths(found: Contrast) -> list[PathEffect]:
    """Return the paths that are shown: those that do most to the difference."""
    noise = found.explanations[0].noise
    return [each for each in found.paths if abs(each.effect) > noise][:SHOWN]


def path_sentence(found: Contrast, each: PathEffect) -> str:
    """Return a path in words."""
    explanation = found.explanations[0 if each.above else 1]
    return path_line(each.path, node_words(replace(explanation, paths=(each.path,))))


def context(found: Contrast) -> str:
    """Return what the difference is without any path, and without any fact."""
    above, below = clean(found.above_name), clean(found.below_name)
    return (
        f"The difference is {found.difference:.2f}; {found.without_paths:.2f} without any fact on "
        f"a path to {above} or {below}, {found.without_edges:.2f} without any fact at all."
    )


def _that(facts: Sequence[RemovedFact]) -> str:
    word = "fact" if len(facts) == 1 else "facts"
    return f"the {word} " + enumerated(f"that {clean(str(fact))}" for fact in facts)


def turning(found: Contrast) -> str:
    """Return the facts that turn the order, or come closest to that; may be empty."""
    above, below = clean(found.above_name), clean(found.below_name)
    if found.difference_without is None or found.verdict == "equal":
        return ""
    if not found.turns:
        told = (
            f"No set of facts that was tried ({count(found.num_sets, 'set')}) puts {below} above "
            f"{above}."
        )
        if found.difference - found.difference_without <= found.explanations[0].noise:
            return f"{told} None brings them noticeably closer."
        return (
            f"{told} Removing {_that(found.facts)} comes closest: the difference would be "
            f"{found.difference_without:.2f}."
        )
    fewer = "" if len(found.facts) == 1 else (
        " Fewer facts are not enough: all combinations were tried." if found.smallest
        else " None of them can be left out; whether fewer, other facts are enough was not tried."
    )  # fmt: skip
    return (
        f"Without {_that(found.facts)}, {below} would be above {above}, by "
        f"{-found.difference_without:.2f}.{fewer}"
    )


def widening(found: Contrast) -> str:
    """Return the facts that work against the order; may be empty."""
    if found.difference_widened is None or found.verdict == "equal":
        return ""
    one = len(found.widening) == 1
    return (
        f"The other way round, {_that(found.widening)} {'works' if one else 'work'} against that: "
        f"without {'it' if one else 'them'} the difference would be "
        f"{found.difference_widened:.2f}."
    )


# The drawing.


@dataclass(frozen=True)
class _Box:
    lines: tuple[str, ...]
    kind: str
    x: float
    y: float
    height: float
    colour: Colour
    strong: bool


@dataclass(frozen=True)
class _Arrow:
    label: str
    x1: float
    y1: float
    x2: float
    y2: float
    backwards: bool
    against: bool


def to_svg(found: Contrast) -> str:
    """Draw the source on the left, both targets on the right, and the paths that count between."""
    shown = shown_paths(found)
    rows = [each for each in shown if each.above] + [each for each in shown if not each.above]
    columns = max((len(each.path) for each in rows), default=1)
    kinds = {kind for each in rows for kind, _ in each.path.nodes}
    kinds |= {found.src[0], found.above[0], found.below[0]}
    colours = colours_of({*found.explanations[0].node_types, *kinds})

    def x(column: int) -> float:
        return MARGIN + column * COLUMN

    num_above = max(sum(each.above for each in rows), 1)
    num_below = max(len(rows) - sum(each.above for each in rows), 1)
    height = MARGIN * 2 + (num_above + num_below) * ROW

    def box(name: str, kind: str, column: int, middle: float, strong: bool) -> _Box:
        lines = wrap(clean(name), BOX - 24, NAME, 2, bold=True)
        tall = 28.0 + LINE * len(lines)
        return _Box(lines, words(kind), x(column), middle - tall / 2, tall, colours[kind], strong)

    middle_above = MARGIN + num_above * ROW / 2
    middle_below = MARGIN + num_above * ROW + num_below * ROW / 2
    boxes = [
        box(found.src_name, found.src[0], 0, height / 2, True),
        box(found.above_name, found.above[0], columns, middle_above, True),
        box(found.below_name, found.below[0], columns, middle_below, True),
    ]
    arrows: list[_Arrow] = []
    place = {True: 0, False: num_above}
    for each in rows:
        y = MARGIN + (place[each.above] + 0.5) * ROW
        place[each.above] += 1
        target = middle_above if each.above else middle_below
        places = [(0, height / 2), *((i, y) for i in range(1, len(each.path))), (columns, target)]
        for at, (node, name) in enumerate(
            zip(each.path.nodes[1:-1], each.path.names[1:-1], strict=True)
        ):
            boxes.append(box(name, node[0], at + 1, y, False))
        for edge, (one, y1), (two, y2) in zip(each.path.edges, places, places[1:], strict=False):
            label = shorten(words(edge.label), COLUMN - BOX - 14, LABEL)
            arrows.append(
                _Arrow(label, x(one) + BOX, y1, x(two), y2, edge.label_backwards, each.effect < 0)
            )
    return render(
        "contrast.svg", package="pagelink.audit", boxes=boxes, arrows=arrows, width=x(columns) + BOX
        + MARGIN, height=height + 30, box=BOX, title=" ".join(opening(found)),
        scores=((x(columns), boxes[1].y - 6, f"{found.logit_above:.2f}"),
                (x(columns), boxes[2].y - 6, f"{found.logit_below:.2f}")),
    )  # fmt: skip
