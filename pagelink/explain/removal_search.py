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

from pagelink.runtime.arrays import Doubles
from pagelink.runtime.timer import OutOfTimeError

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
    out_of_time: bool = False
    """The search was cut; there may be a smaller set."""


def smallest_removal(
    measure: Measure, size: int, budget: int, most_sets: int, at_once: int | None = None
) -> FoundRemoval:
    """Search for the smallest set, at most `budget` large, whose removal makes the figure negative.

    Of sets of the same size the one with the lowest figure is taken.

    Args:
        measure: measures sets; nan counts as not below 0. It may raise `OutOfTimeError`: the sets
            measured by then count.
        size: number of things, 1 or more.
        budget: members of a set at most.
        most_sets: sets to measure, about; every single thing is measured in any case.
        at_once: sets to measure at once at most. None: any number.

    Example:
        >>> weights = [3.0, 2.0, 1.0]
        >>> found = smallest_removal(
        ...     lambda sets: np.array([4.5 - sum(weights[i] for i in s) for s in sets]), 3, 3, 100)
        >>> found.members, found.value, found.exhaustive
        ((0, 1), -0.5, True)
    """
    known: dict[Set, float] = {}
    is_cut = False

    def measured(sets: list[Set]) -> list[Set]:
        """Measure sets that are new, and return all in the order of their figures."""
        nonlocal is_cut
        new = [s for s in dict.fromkeys(sets) if s not in known]
        step = at_once or max(len(new), 1)
        try:
            for first in range(0, len(new), step):
                part = new[first : first + step]
                values = measure(part)
                known.update(
                    zip(part, np.where(np.isnan(values), np.inf, values).tolist(), strict=True)
                )
        except OutOfTimeError:
            is_cut = True
        there = (s for s in dict.fromkeys(sets) if s in known)
        return sorted(there, key=lambda s: (known[s], s))

    def result(members: Set, exhaustive: bool) -> FoundRemoval:
        value = known.get(members, np.inf)
        exhaustive = exhaustive and not is_cut
        return FoundRemoval(members, value, value < 0, exhaustive, len(known), is_cut)

    ranked = measured([(i,) for i in range(size)])
    if not ranked:
        return result((), exhaustive=False)
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
            best = min(best, *ranked[:1], key=lambda s: known[s]) if ranked else best
        if known[best] < 0:
            return result(_stripped(best, known, measured), smaller_are_complete)
        if is_cut:
            break
    return result(best, complete)


def minimal_removal(measure: Measure, members: Set) -> FoundRemoval:
    """Leave members of a set out, while the figure without the rest of it stays below 0.

    Large pieces are tried first. Where things stand in for each other, a few of them do nothing,
    and this finds what the search from small sets upwards does not. Of what is found no member can
    be left out, but there may be a smaller set.

    Args:
        measure: measures sets, as for `smallest_removal`.
        members: a set.

    Example:
        >>> either = [{0, 1}, {2, 3}, {4, 5}]  # one of three pairs is enough
        >>> found = minimal_removal(
        ...     lambda sets: np.array([
        ...         max(0.5 if not pair & set(s) else -0.5 for pair in either) for s in sets]),
        ...     (0, 1, 2, 3, 4, 5))
        >>> found.members, found.reached
        ((1, 3, 5), True)
    """
    num_sets, is_cut = 0, False

    def figure(members: Set) -> float:
        nonlocal num_sets, is_cut
        try:
            value = float(measure([members])[0])
        except OutOfTimeError:
            is_cut = True
            return np.inf
        num_sets += 1
        return np.inf if np.isnan(value) else value

    found, value = members, figure(members)
    size = len(found) // 2 if value < 0 else 0
    while size and not is_cut:
        first = 0
        while first < len(found):
            rest = found[:first] + found[first + size :]
            without = figure(rest) if rest else np.inf
            if without < 0:
                found, value = rest, without
            else:
                first += size
        size //= 2
    return FoundRemoval(found, value, value < 0, False, num_sets, is_cut)


def _extended(beam: list[Set], strongest: list[int], most: int) -> list[Set]:
    """Sets of one more member: of each in turn by the strongest, at most `most` of them."""
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
        if not ranked or known[ranked[0]] >= 0:
            return found
        found = ranked[0]
    return found
