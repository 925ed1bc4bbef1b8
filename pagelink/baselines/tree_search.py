"""Monte-Carlo tree search over sets of nodes around a link, from all of them to a few.

A move takes nodes out of a set, and with them what is then cut off from both ends of the link. What
a set is worth is its Shapley value. The search is a generator: it asks for the values of coalitions
and is sent the answers, so that many links can be searched side by side.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field
from math import ceil, sqrt

import numpy as np
import numpy.typing as npt

from pagelink.baselines.shapley import coalitions
from pagelink.graph import Bools, Longs

Doubles = npt.NDArray[np.float64]
Question = Generator[Bools, Doubles, None]
"""Asks [coalitions, nodes], who is there, and is sent one value for each."""
ROUNDED = 5
"""Digits of a value that count, so that the way a batch is computed decides no comparison."""


@dataclass(frozen=True)
class Around:
    """The players: nodes 0 and 1 are the ends of the link, which are always there."""

    num_nodes: int
    src: Longs
    dst: Longs
    """Ends of the facts between them."""

    def joined(self, inside: Bools) -> Bools:
        """The nodes of a set from which one of the ends can be reached within it."""
        reached = np.zeros(self.num_nodes, dtype=np.bool_)
        reached[:2] = True
        both = inside[self.src] & inside[self.dst]
        src, dst = self.src[both], self.dst[both]
        while True:
            more = reached.copy()
            more[dst[reached[src]]] = True
            more[src[reached[dst]]] = True
            if np.array_equal(more, reached):
                return reached
            reached = more

    def degrees(self, inside: Bools) -> Longs:
        """Facts at each node within a set."""
        both = inside[self.src] & inside[self.dst]
        ends = np.concatenate([self.src[both], self.dst[both]])
        return np.bincount(ends, minlength=self.num_nodes)


@dataclass
class _Set:
    """A node of the search tree."""

    inside: Bools
    reward: float = 0.0
    visits: int = 0
    total: float = 0.0
    children: list[_Set] = field(default_factory=list)
    expanded: bool = False

    @property
    def size(self) -> int:
        """Number of nodes, the ends of the link included."""
        return int(self.inside.sum())

    def mean(self) -> float:
        """What the sets found below it are worth, on the average."""
        return self.total / self.visits if self.visits else 0.0


@dataclass
class TreeSearch:
    """A search, and what it has found.

    Args:
        around: the players.
        budget: nodes of the wanted set at most, the ends of the link included.
        rollouts: ways down from all nodes to few.
        expand: moves that are tried from a set at most.
        depth: moves down to the budget, about: while many nodes are left, a move takes several.
        samples: coalitions for a Shapley value.
        explore: how much the first value of a set counts against what was found below it.
        rng: where coalitions are drawn from.
    """

    around: Around
    budget: int
    rollouts: int
    expand: int
    depth: int
    samples: int
    explore: float
    rng: np.random.Generator
    done: int = 0
    """Rollouts made."""
    best: _Set | None = None
    way: list[Bools] = field(default_factory=list)
    """The sets on the way down to the best one, from all nodes on."""
    _known: dict[bytes, _Set] = field(default_factory=dict)

    def run(self) -> Question:
        """Search; yields coalitions, wants their values."""
        everything = np.ones(self.around.num_nodes, dtype=np.bool_)
        root = _Set(self.around.joined(everything))
        while self.done < self.rollouts:
            way = [root]
            while way[-1].size > max(self.budget, 2):
                here = way[-1]
                if not here.expanded:
                    yield from self._grow(here)
                if not here.children:
                    break
                seen = sqrt(sum(child.visits for child in here.children))
                way.append(max(here.children, key=lambda child: self._promise(child, seen)))
            leaf = way[-1]
            if leaf is root:  # there are no more nodes than the budget has
                yield from self._value([root])
            for each in way:
                each.visits += 1
                each.total += leaf.reward
            self.done += 1
            if self.best is None or leaf.reward > self.best.reward:
                self.best, self.way = leaf, [each.inside for each in way]

    def _promise(self, child: _Set, seen: float) -> float:
        return child.mean() + self.explore * child.reward * (1 + seen) / (1 + child.visits)

    def _grow(self, here: _Set) -> Question:
        """Try moves: take out nodes of few facts first, as many as the depth asks for."""
        here.expanded = True
        degree = self.around.degrees(here.inside)
        nodes = np.flatnonzero(here.inside)
        nodes = nodes[nodes > 1]
        nodes = nodes[np.argsort(degree[nodes], kind="stable")]
        taken = max(1, ceil((here.size - self.budget) / self.depth))
        fresh = []
        for first in range(0, min(len(nodes), self.expand * taken), taken):
            inside = here.inside.copy()
            inside[nodes[first : first + taken]] = False
            inside = self.around.joined(inside)
            key = np.packbits(inside).tobytes()
            if key not in self._known:  # two ways may lead to one set
                self._known[key] = _Set(inside)
                fresh.append(self._known[key])
            here.children.append(self._known[key])
        yield from self._value(fresh)

    def _value(self, sets: list[_Set]) -> Question:
        """Ask for what is needed for the Shapley values of some sets, all at once."""
        asked, weights = [], []
        for each in sets:
            others = np.flatnonzero(~each.inside)
            before, weight = coalitions(len(others), self.samples, self.rng)
            without = np.zeros((len(before), self.around.num_nodes), dtype=np.bool_)
            without[:, :2] = True
            without[:, others] |= before
            asked += [without | each.inside, without]
            weights.append(weight)
        if not sets:
            return
        values = yield np.concatenate(asked)
        start = 0
        for each, weight in zip(sets, weights, strict=True):
            count = len(weight)
            gain = values[start : start + count] - values[start + count : start + 2 * count]
            each.reward = round(float(weight @ gain), ROUNDED)
            start += 2 * count
