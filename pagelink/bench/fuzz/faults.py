"""What a random case may show, and what a part of the random tests is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Fault:
    """A promise that a random case broke."""

    part: str
    case: int
    """The number of the case; with the seed it gives the same case again."""
    what: str


Part = Callable[[int, range], Iterator[Fault]]
"""From a seed and the numbers of the cases to the faults found; a case depends on these only."""
