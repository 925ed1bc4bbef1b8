"""Plans of mechanisms: what a model of hand-set weights counts, and what is planted for a link."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from torch import Tensor

from pagelink.datasets.scenes import Schema

Head = Callable[[Sequence[Tensor]], Tensor]
"""From what was counted for each link, one tensor for each walk, to what is added to its score."""


@dataclass(frozen=True)
class Walk:
    """A sequence of stored relations along which a model hands on codes or content.

    A walk of several relations leads from the source of a link to its target, or from the target to
    the source, and the number of such walks is counted. One of a single relation leads to an end of
    the link from wherever: the number of facts of the relation at that end, or the sum of what they
    bring.
    """

    steps: tuple[str, ...]
    brings: str = "number"
    """Of a single relation: "number", the number of facts; "value", the sum of the values of the
    nodes they come from; "class", their number in each class, a row for each link."""
    weighted: bool = False
    """Whether the first inner node hands on its value times what it got."""
    best: bool = False
    """Whether the last step takes the largest message, instead of the sum."""


def along(steps: str, brings: str = "number", weighted: bool = False, best: bool = False) -> Walk:
    """Return a walk; its relations are separated by spaces."""
    return Walk(tuple(steps.split()), brings, weighted, best)


@dataclass(frozen=True)
class Plan:
    """What a model of hand-set weights uses, and what is planted for each link.

    A planted path is written as steps and nodes in turn, such as "saves m1 contains": nodes of the
    same name are the same node, the first letter is their kind, and a capital one makes a node that
    the links of a scene have in common.
    """

    what: str
    """The mechanism in words."""
    walks: tuple[Walk, ...]
    """What the model counts."""
    head: Head
    used: tuple[str, ...]
    """Planted paths that raise the score; empty: no path is used as such. Any of them is right as
    the first path."""
    others: tuple[str, ...]
    """Planted paths that do not."""
    verdict: str = "supported"
    crowded: Mapping[str, int] = field(default_factory=dict)
    """Inner nodes with this number of further facts."""
    weaker: tuple[str, ...] = ()
    """Planted paths that raise the score where better ones are missing: evidence, but not first."""
    values: Mapping[str, float] = field(default_factory=dict)
    """Values of inner nodes; those of other nodes are small and not negative."""
    at_ends: str = "all"
    """Which facts of the walks of a single relation raise the score: "all"; "value", those from a
    node with a value above 0; "class", those from a node of a class that is met at both ends;
    "none", as where their number is divided by."""
    max_length: int | None = None
    """Facts of a path at most, where it is not the default: the verdict depends on it."""

    @property
    def paths(self) -> tuple[str, ...]:
        """All planted paths."""
        return (*self.used, *self.weaker, *self.others)


@dataclass(frozen=True)
class Family:
    """Mechanisms on graphs of one schema."""

    schema: Schema
    plans: Mapping[str, Plan]
