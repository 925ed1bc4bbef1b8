"""How templates are filled, and the colours and signs of node types in them.

Everything that is filled in is escaped, and no illegal character gets through. A node type has the
same colour and the same sign in every drawing of a graph: they depend on the names of the graph's
node types alone.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, PrefixLoader, StrictUndefined
from markupsafe import Markup

from pagelink.explain.edge_mask import EdgeType
from pagelink.explain.result import Explanation
from pagelink.views.statements import node_words
from pagelink.views.text import legal

# Okabe and Ito's palette without black and yellow, and four more. Any two of these are at least 16
# apart in CIELAB for normal sight and for the three kinds of colour blindness.
PALETTE = (
    "#0072b2", "#e69f00", "#009e73", "#cc79a7", "#d55e00", "#56b4e9", "#8020dd", "#664422",
    "#882266", "#8f7cf0",
)  # fmt: skip
# Drawn around (0, 0), five units to each side. With ten colours, the first 40 types differ.
SIGNS = (
    "M-5 0a5 5 0 1 0 10 0a5 5 0 1 0 -10 0z",  # circle
    "M-4.4 -4.4h8.8v8.8h-8.8z",  # square
    "M0 -5.2L5.2 4.4H-5.2z",  # triangle
    "M0 -5.8L5.8 0L0 5.8L-5.8 0z",  # diamond
    "M-1.8 -5.2h3.6v3.4h3.4v3.6h-3.4v3.4h-3.6v-3.4h-3.4v-3.6h3.4z",  # cross
    "M-5 -4.4H5L0 5.2z",  # triangle, pointing down
    "M0 -5.6L5.3 -1.7L3.3 4.5H-3.3L-5.3 -1.7z",  # pentagon
    "M0 -6L1.5 -1.9L5.7 -1.9L2.4 0.8L3.5 4.9L0 2.5L-3.5 4.9L-2.4 0.8L-5.7 -1.9L-1.5 -1.9z",  # star
)
SUPPORTS, AGAINST = "#0069a6", "#b84a00"
"""Of facts by the sign of what they do; all readers distinguish blue and orange."""
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
    sign: str
    """The outline of the sign of the type, as path data around (0, 0)."""


def type_colours(explanation: Explanation) -> dict[str, Colour]:
    """Return a colour for each node type that an explanation names, by those of its whole graph."""
    named = {kind for kind, _ in node_words(explanation)}
    every = {*explanation.node_types, *connected_types([explanation.link_type]), *named}
    return {kind: each for kind, each in colours_of(every).items() if kind in named}


def connected_types(edge_types: Iterable[EdgeType]) -> set[str]:
    """Return the node types that some edge types connect."""
    return {end for src, _, dst in edge_types for end in (src, dst)}


def colours_of(kinds: Iterable[str]) -> dict[str, Colour]:
    """Return a colour and a sign for each of some node types, by their sorted names."""
    return {kind: colour_at(place) for place, kind in enumerate(sorted(set(kinds)))}


def graph_colours(node_types: Iterable[str], edge_types: Iterable[EdgeType]) -> dict[str, Colour]:
    """Return the colours of all node types of a graph, those of `type_colours` among them.

    Args:
        node_types: the types of its nodes.
        edge_types: its relations, the predicted one among them. Types that none of these has are
            named by no explanation: they come last.
    """
    connected = connected_types(edge_types)
    order = sorted(node_types, key=lambda kind: (kind not in connected, kind))
    return {kind: colour_at(place) for place, kind in enumerate(order)}


def colour_at(place: int) -> Colour:
    """Return the colour and the sign of the node type at a place, from 0."""
    main = PALETTE[place % len(PALETTE)]
    sign = SIGNS[place % len(SIGNS)]
    return Colour(main, _mix(main, _WHITE, 0.12), _mix(main, _DARK, 0.38), sign)


def _mix(colour: str, other: int, share: float) -> str:
    """Return `share` of a colour mixed with a grey."""
    channels = (int(colour[at : at + 2], 16) for at in (1, 3, 5))
    return "#" + "".join(f"{round(share * c + (1 - share) * other):02x}" for c in channels)


def render(template: str, *, package: str = "pagelink.views", **values: Any) -> str:
    """Return a file of a package's `templates/`, filled with values escaped on the way.

    Files of other packages extend those of this one as `views/base.html`.
    """
    return _environment(package).get_template(template).render(**values)


def file_text(name: str) -> str:
    """Return a file of `templates/` that is nothing to fill in, such as a script."""
    return (Path(__file__).parent / "templates" / name).read_text("utf-8")


@functools.cache
def _environment(package: str) -> Environment:
    return Environment(
        loader=ChoiceLoader(
            [PackageLoader(package), PrefixLoader({"views": PackageLoader("pagelink.views")})]
        ),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_without_controls,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _without_controls(value: object) -> object:
    """Guard each text that a template puts out; drawings made by another template stay as is."""
    return legal(value) if isinstance(value, str) and not isinstance(value, Markup) else value
