"""How templates are filled, and the colours of node types in them.

Everything that is filled in is escaped, and no illegal character gets through. Colours are
distinct also for colour-blind readers, and are the same on every run.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from pagelink.explain.result import Explanation
from pagelink.views.statements import node_words
from pagelink.views.text import legal

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
    """Return a colour for each node type that an explanation names, by their sorted names."""
    return colours_of(kind for kind, _ in node_words(explanation))


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
