"""Colours of node types: told apart also by colour-blind readers, the same on every run."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from pagelink.explain.result import Explanation
from pagelink.views.naming import NodeWords, legal

# Okabe and Ito's palette without black, in an order that keeps the first few far apart. Views also
# write each node's type, since more types than colours may come.
_OKABE_ITO = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9", "#F0E442")
_WHITE = 255
_DARK = 30


@dataclass(frozen=True)
class Colour:
    """The shades of one node type."""

    main: str
    fill: str
    """A light tint, behind dark text."""
    text: str
    """A dark shade, readable on white and on the tint."""


def type_colours(explanation: Explanation) -> dict[str, Colour]:
    """Return a colour for each node type of the link and its paths, by their sorted names."""
    kinds = {explanation.src[0], explanation.dst[0]}
    kinds.update(kind for path in explanation.paths for kind, _ in path.nodes)
    return colours_of(kinds)


def colours_of(kinds: Iterable[str]) -> dict[str, Colour]:
    """Return a colour for each of some node types, by their sorted names."""
    return {kind: _shades(_OKABE_ITO[place]) for kind, place in colour_places(kinds).items()}


def colour_places(kinds: Iterable[str]) -> dict[str, int]:
    """Return the place in the palette of each of some node types, from 0 to 6."""
    return {kind: place % len(_OKABE_ITO) for place, kind in enumerate(sorted(set(kinds)))}


def _shades(main: str) -> Colour:
    return Colour(main, _mix(main, _WHITE, 0.12), _mix(main, _DARK, 0.38))


def _mix(colour: str, other: int, share: float) -> str:
    """Return `share` of a colour mixed with a grey."""
    channels = (int(colour[at : at + 2], 16) for at in (1, 3, 5))
    return "#" + "".join(f"{round(share * c + (1 - share) * other):02x}" for c in channels)


# How templates are filled: everything is escaped, and no illegal character gets through.


def render(template: str, *, package: str = "pagelink.views", **values: Any) -> str:
    """Return a file of a package's `templates/`, filled with values escaped on the way."""
    return _environment(package).get_template(template).render(**values)


@functools.cache
def _environment(package: str) -> Environment:
    return Environment(
        loader=PackageLoader(package),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_without_controls,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _without_controls(value: object) -> object:
    """Guard each text that a template puts out; drawings made by another template stay as is."""
    return legal(value) if isinstance(value, str) and not isinstance(value, Markup) else value


# The shapes of a drawing, as templates draw them: places and lettering, nothing else.


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
    caption: str
    strong: bool
    """The source, the target, or a node that several paths share."""
    muted: bool
    """Of a path that is only context."""


@dataclass(frozen=True)
class Arrow:
    """One step of a path, drawn from the left to the right."""

    rank: int
    """Of its path."""
    step: int
    """Its position in the path."""
    x1: float
    x2: float
    y: float
    backwards: bool
    label: str
    title: str
    effect: str
    """How the score changes without the fact alone, with its sign; empty if unmeasured."""
    thickness: float
    """Of its line: by that change, as a share of the largest one drawn."""
    muted: bool


@dataclass(frozen=True)
class Badge:
    """The rank of a path, at the start of its row."""

    x: float
    y: float
    rank: int
    muted: bool


@dataclass(frozen=True)
class Heading:
    """What the paths below it are."""

    x: float
    y: float
    text: str


@dataclass(frozen=True)
class Question:
    """The link that is explained: a dashed line, its label in the middle."""

    x1: float
    x2: float
    y: float
    label: str
    label_width: float
    title: str


@dataclass(frozen=True)
class Layout:
    """A drawing, placed."""

    width: float
    height: float
    boxes: tuple[Box, ...]
    arrows: tuple[Arrow, ...]
    badges: tuple[Badge, ...]
    headings: tuple[Heading, ...]
    question: Question
    message: tuple[str, ...]
    message_x: float
    message_y: float
