"""Facts as arrows of a drawing: their words in lines, their sign, and how thick they are.

`+` supports the prediction, and the minus sign speaks against it: the sign is that of what the fact
does for the score.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pagelink.views.score_wording import support
from pagelink.views.statements import Step
from pagelink.views.text import isolate, wrap
from pagelink.views.wording import Wording

LABEL_SIZE, LABEL_LINE, LONGEST_LABEL = 12.0, 14.5, 140.0
_UNMEASURED_THICKNESS, _THICKNESS = 1.6, (1.2, 4.4)
_LEAST_OF_ALL = 0.1
"""A fact has the thickest line only if it does this share of what all paths do together."""
EVERY_LINE = 99
"""Names of relations are wrapped into as many lines as they need: none is cut."""
ADDED = "(added)"
Side = Literal["supports", "against", ""]
Place = tuple[int, int]
"""A step of a path: the number of the path, from 1, and the step's, from 0."""


@dataclass(frozen=True)
class Arrow:
    """One step of a path, drawn from the left to the right."""

    x1: float
    x2: float
    backwards: bool
    label: tuple[str, ...]
    """The relation, in lines."""
    title: str
    effect: str
    """What the fact alone does for the score, with its sign; empty if unmeasured, idle or 0."""
    side: Side
    thickness: float
    """Of its line: by that effect, as a share of the largest one drawn."""
    idle: bool
    """The fact only connects others, and its line is dotted."""
    off: bool
    """The fact is switched off: taken out of the graph by the reader."""


def relation_lines(step: Step, width: float = LONGEST_LABEL) -> tuple[str, ...]:
    """Return the relation of a step in lines, whole, and whether the fact was added."""
    added = (ADDED,) if step.edge.added else ()
    return *wrap(step.fact.relation, width, LABEL_SIZE, EVERY_LINE), *added


def largest_effect(said: Wording) -> float:
    """Return the effect that has the thickest line."""
    effects = [abs(step.edge.influence or 0) for path in said.paths for step in path.steps]
    # Where paths stand in for each other no fact alone does much, and none looks as if it did.
    return max([abs(said.influence or 0) * _LEAST_OF_ALL, *effects])


def arrow_of(
    step: Step, ends: tuple[float, float], largest: float, off: bool, width: float = LONGEST_LABEL
) -> Arrow:
    """Return the arrow of a step between two places; `largest` has the thickest line.

    `width` is that of its label at most.
    """
    idle = bool(step.role)
    effect = "" if idle else support(step.edge.influence)
    side: Side = "" if not effect else "supports" if effect.startswith("+") else "against"
    thickness = _thickness(step.edge.influence, 0 if idle else largest)
    label = tuple(map(isolate, relation_lines(step, width)))
    return Arrow(*ends, step.backwards, label, str(step), effect, side, thickness, idle, off)


def _thickness(influence: float | None, largest: float) -> float:
    if influence is None:
        return _UNMEASURED_THICKNESS
    thin, thick = _THICKNESS
    return thin + (thick - thin) * abs(influence) / largest if largest else thin
