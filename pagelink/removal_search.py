"""The smallest set of things whose joint removal brings a figure below 0.

Effects are not additive, so sets are measured as wholes: all sets of a size while they are few
enough, else those that extend the best smaller ones (a beam). A set that was found by extension is
stripped of the members it does not need.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import comb

import numpy as np
import numpy.typing as npt

Doubles = npt.NDArray[np.float64]
Set = tuple[int, ...]
Measure = Callable[[Sequence[Set]], Doubles]
"""From sets of things, by position, to the figure without them."""

BEAM = 8
"""Sets of a size that are extended."""


@dataclass(frozen=True)
class FoundRemoval:
    """The result of a search."""

    members: Set
    """The set that was found; if there is none, the one that came nearest."""
    value: float
    """The figure without it."""
    reached: bool
    """Whether the figure is below 0."""
    exhaustive: bool
    """All smaller sets were measured (all sets up to the budget, if none was found)."""
    num_sets: int
    """Sets measured."""


def smallest_removal(measure: Measure, size: int, budget: int, most_sets: int) -> FoundRemoval:
    """Search for the smallest set, at most `budget` large, whose removal makes the figure negative.

    Of sets of the same size the one with the lowest figure is taken.

    Args:
        measure: measures sets; nan counts as not below 0.
        size: number of things, 1 or more.
        budget: members of a set at most.
        most_sets: sets to measure, about; every single thing is measured in any case.

    Example:
        >>> weights = [3.0, 2.0, 1.0]
        >>> found = smallest_removal(
        ...     lambda sets: np.array([4.5 - sum(weights[i] for i in s) for s in sets]), 3, 3, 100)
        >>> found.members, found.value, found.exhaustive
        ((0, 1), -0.5, True)
    """
    known: dict[Set, float] = {}

    def measured(sets: list[Set]) -> list[Set]:
        """Measure sets that are new, and return all in the order of their figures."""
        new = [s for s in dict.fromkeys(sets) if s not in known]
        values = measure(new) if new else np.empty(0)
        known.update(zip(new, np.where(np.isnan(values), np.inf, values).tolist(), strict=True))
        return sorted(dict.fromkeys(sets), key=lambda s: (known[s], s))

    def result(members: Set, exhaustive: bool) -> FoundRemoval:
        value = known[members]
        return FoundRemoval(members, value, value < 0, exhaustive, len(known))

    ranked = measured([(i,) for i in range(size)])
    strongest = [s[0] for s in ranked]
    best, complete = ranked[0], True
    largest = min(budget, size)
    for count in range(1, largest + 1):
        smaller_are_complete = complete
        if count > 1:
            left = most_sets - len(known)
            if comb(size, count) <= left // 2:
                ranked = measured(list(combinations(range(size), count)))
            else:
                complete = False
                share = max(1, left // (largest - count + 1))  # the larger sets want theirs, too
                ranked = measured(_extended(ranked[:BEAM], strongest, share))
            best = min(best, ranked[0], key=lambda s: known[s])
        if known[ranked[0]] < 0:
            return result(_stripped(ranked[0], known, measured), smaller_are_complete)
    return result(best, complete)


def _extended(beam: list[Set], strongest: list[int], most: int) -> list[Set]:
    """Sets of one more member: of each in turn by the strongest, no more than so many."""
    found: dict[Set, None] = {}
    for new in strongest:
        for one in beam:
            if new not in one:
                found[tuple(sorted((*one, new)))] = None
                if len(found) == most:
                    return list(found)
    return list(found)


def _stripped(
    found: Set, known: dict[Set, float], measured: Callable[[list[Set]], list[Set]]
) -> Set:
    """Leave members out while the figure stays below 0."""
    while len(found) > 1:
        ranked = measured([found[:i] + found[i + 1 :] for i in range(len(found))])
        if known[ranked[0]] >= 0:
            return found
        found = ranked[0]
    return found
