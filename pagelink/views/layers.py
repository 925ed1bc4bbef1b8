"""Where the nodes of a subgraph stand: columns from source to target, rows with few crossings.

A node stands as many columns from the source as facts join it to that; what hangs on the target
alone stands before it, and what hangs on neither end floats in the middle. A fact that passes a
column has a place of its own in it, so that no line runs through a box.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeGuard

Node = tuple[str, str]
"""Node type and name."""
Passing = tuple[frozenset[Node], int]
"""Where a fact passes a column: the ends of the fact, and the column."""
Place = Node | Passing
FEWEST_COLUMNS = 4
_SWEEPS, _ROUNDS = 8, 4
Middles = dict[Place, float]
Joined = dict[Place, list[Place]]
"""What each place is joined to, in an order that is the same on every run."""
Routes = dict[frozenset[Node], list[Place]]


@dataclass(frozen=True)
class NamedFact:
    """A fact in words, read from the first node to the second."""

    src: Node
    relation: str
    dst: Node

    @property
    def ends(self) -> frozenset[Node]:
        """The two nodes."""
        return frozenset((self.src, self.dst))


def is_node(place: Place) -> TypeGuard[Node]:
    """Return whether a place is a node's."""
    return isinstance(place[0], str)


@dataclass(frozen=True)
class Layers:
    """Nodes in columns."""

    columns: list[list[Place]]
    """Of each column, its places from top to bottom."""
    routes: Routes
    """Of each pair of joined nodes, the places from the left to the right one."""

    def middles(self, sizes: Mapping[Place, float], between: float, total: float) -> Middles:
        """Return how far down the middle of each place is: near what it is joined to.

        Args:
            sizes: how tall each place is.
            between: what is free between two places at least.
            total: how tall the drawing is.
        """
        joined = _joined(self.columns, self.routes)
        at: Middles = {}
        for column in self.columns:
            share = total / max(len(column), 1)
            at.update({place: (row + 0.5) * share for row, place in enumerate(column)})
        for _ in range(_ROUNDS):
            for column in self.columns:
                _settle(column, _means(column, at, joined), at, sizes, between, total)
        return at


def columns_of(facts: Sequence[NamedFact], src: Node, dst: Node) -> dict[Node, int]:
    """Return the column of each node: 0 for the source, the last one for the target.

    Example:
        >>> a, p, q, b, x = (("author", name) for name in "apqbx")
        >>> path = [NamedFact(a, "writes", p), NamedFact(p, "cites", q)]
        >>> columns_of([*path, NamedFact(x, "in", b)], a, b)
        {('author', 'a'): 0, ('author', 'b'): 3, ('author', 'p'): 1, ('author', 'q'): 2, \
('author', 'x'): 2}
    """
    from_src, from_dst = _distances(facts, src), _distances(facts, dst)
    last = max(from_src.get(dst, 0), FEWEST_COLUMNS - 1)
    columns = {src: 0, dst: last}
    for node in dict.fromkeys(node for fact in facts for node in (fact.src, fact.dst)):
        if node in columns:
            continue
        if node in from_src:
            columns[node] = min(from_src[node], last - 1)
        elif node in from_dst:
            columns[node] = max(last - from_dst[node], 1)
        else:  # all that it is joined to floats with it
            afloat = _distances(facts, node)
            columns.update({other: 1 + far % (last - 1) for other, far in afloat.items()})
    return columns


def layers_of(facts: Sequence[NamedFact], src: Node, dst: Node) -> Layers:
    """Put the nodes into columns and order these, for facts in any order."""
    facts = sorted(facts, key=lambda fact: (sorted(fact.ends), fact.relation, fact.src))
    at = columns_of(facts, src, dst)
    columns: list[list[Place]] = [[] for _ in range(at[dst] + 1)]
    held = _distances(facts, src).keys() | _distances(facts, dst).keys()
    for node in sorted(at, key=lambda node: (node not in held, *map(_natural, node))):
        columns[at[node]].append(node)
    routes: Routes = {}
    for ends in dict.fromkeys(fact.ends for fact in facts):
        left, right = sorted(ends, key=lambda node: (at[node], *node))
        passed: list[Place] = []
        for column in range(at[left] + 1, at[right]):
            passed.append((ends, column))
            columns[column].append((ends, column))
        routes[ends] = [left, *passed, right]
    _order(columns, routes, {node for node in at if node not in held})
    return Layers(columns, routes)


def _distances(facts: Sequence[NamedFact], start: Node) -> dict[Node, int]:
    found, ring = {start: 0}, [start]
    while ring:
        near = [
            (other, found[node] + 1)
            for fact in facts
            for node, other in ((fact.src, fact.dst), (fact.dst, fact.src))
            if node in ring and other not in found
        ]
        ring = list(dict.fromkeys(other for other, _ in near))
        found.update(dict(near))
    return found


def _natural(text: str) -> list[tuple[int, str]]:
    """Orders User 9 before User 10."""
    return [
        (int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"([0-9]+)", text)
    ]


def _order(columns: list[list[Place]], routes: Routes, afloat: set[Node]) -> None:
    """Order each column by the mean height of its neighbours, and keep the best order seen.

    What floats is below what hangs on source or target.
    """
    joined = _joined(columns, routes)
    best, fewest = [list(column) for column in columns], _crossings(columns, joined)
    for sweep in range(_SWEEPS):
        order = range(len(columns)) if sweep % 2 == 0 else range(len(columns) - 1, -1, -1)
        for number in order:
            height = {
                place: (row + 0.5) / len(column)
                for column in columns
                for row, place in enumerate(column)
            }
            mean = _means(columns[number], height, joined)
            columns[number].sort(key=lambda place: (place in afloat, mean[place]))
        if (crossings := _crossings(columns, joined)) < fewest:
            best, fewest = [list(column) for column in columns], crossings
    columns[:] = best


def _joined(columns: list[list[Place]], routes: Routes) -> Joined:
    joined: Joined = {place: [] for column in columns for place in column}
    for route in routes.values():
        for one, other in pairwise(route):
            joined[one].append(other)
            joined[other].append(one)
    return joined


def _means(column: list[Place], at: Middles, joined: Joined) -> Middles:
    """Return the mean of where the neighbours of each place are; its own where it has none."""
    return {
        place: sum(at[other] for other in joined[place]) / len(joined[place])
        if joined[place]
        else at[place]
        for place in column
    }


def _settle(
    column: list[Place], wanted: Middles, at: Middles, sizes: Mapping[Place, float],
    between: float, total: float,
) -> None:  # fmt: skip
    """Put each place of a column where it is wanted, as far as those above and below let it."""
    room = sum(sizes[place] + between for place in column) - between
    top = 0.0
    for place in column:
        lowest = total - room + sizes[place] / 2  # what comes below needs its room, too
        at[place] = min(max(top + sizes[place] / 2, wanted[place]), lowest)
        top = at[place] + sizes[place] / 2 + between
        room -= sizes[place] + between


def _crossings(columns: list[list[Place]], joined: Joined) -> int:
    total = 0
    for left, right in pairwise(columns):
        row = {place: at for at, place in enumerate(right)}
        ends = [sorted(row[other] for other in joined[place] if other in row) for place in left]
        lines = [end for of_place in ends for end in of_place]
        total += sum(a > b for at, a in enumerate(lines) for b in lines[at + 1 :])
    return total
