"""What a random case may show, and what a part of the random tests is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
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

LARGEST = "largest "
"""What begins with this is not counted: of it the largest is kept."""


def add_counts(total: Counter[str], more: Mapping[str, float]) -> None:
    """Add what was met in further cases.

    Example:
        >>> total = Counter({"links": 2, "largest difference": 1})
        >>> add_counts(total, {"links": 3, "largest difference": 0.5})
        >>> dict(total)
        {'links': 5, 'largest difference': 1}
    """
    for what, number in more.items():
        kept = max(total[what], number) if what.startswith(LARGEST) else total[what] + number
        total[what] = kept  # type: ignore[assignment]
