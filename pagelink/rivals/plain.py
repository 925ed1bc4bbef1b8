"""Plain explainers: paths by degree alone, random paths, and random masks.

The first never looks at the model; random paths show what any set of paths of the same lengths
would do, a random mask what a mask of no meaning reaches with the same search for paths.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pagelink.rivals.ground import Ground, Ranked, paths_by_degree
from pagelink.rivals.rival import LOWEST, Rival, link_rng, made_masks
from pagelink.runtime.arrays import Longs
from pagelink.search.constraints import ANYTHING
from pagelink.search.mask_learning import LearnedMasks
from pagelink.search.paths import FIXED_POINT, FoundPaths, PathGraphs, cheapest_paths
from pagelink.search.work import Work

MASKED = 1000
"""Paths whose edges have a mask of their own."""


class DegreeOnly(Rival):
    """Paths by -(sum of log D_v), the paper's Score without a mask.

    The mask of an edge is 1 / (1 + r) for the rank r of the first path that holds it, and 0 for
    edges on none of the first thousand.
    """

    name = "degree"

    def masks(self, work: Work) -> LearnedMasks:
        """Rank edges by the paths they are on."""
        most = max(MASKED, self.settings.paths_within_budget)
        found = paths_by_degree(work.paths, most, work.links)
        logits = np.full(len(work.batch.edges), LOWEST, dtype=np.float32)
        # From the last to the first, so that the first path that holds an edge has the last word.
        for place in range(most - 1, -1, -1):
            arcs = found.arcs[:, place]
            logits[work.paths.arc_slot[arcs[arcs >= 0]]] = -np.log(place + 1)
        count = self.settings.paths_within_budget
        first = FoundPaths(found.arcs[:, :count], found.lengths[:, :count], found.complete)
        return made_masks(work, logits, first)


def rank_by_degree(ground: Ground, num_paths: int) -> Ranked:
    """Rank paths by -(sum of log D_v), the paper's Score without a mask."""
    return ground.ranked(paths_by_degree(ground.paths, num_paths))


# Random simple paths.


TRIES = 50
"""Draws for a path before it is given up, because all of its length are taken or not simple."""

Arcs = tuple[int, ...]


class RandomPaths(Rival):
    """Distinct paths drawn evenly from all that there are; the mask is 1/2 on them, 0 elsewhere.

    Where none is drawn, because hardly a walk is a simple path, or where paths are held to
    sequences of relations, they are the cheapest ones by random costs.
    """

    name = "random-paths"

    def masks(self, work: Work) -> LearnedMasks:
        """Draw the paths, by the seed and the link, and mark their edges."""
        paths, most = work.paths, self.settings.paths_within_budget
        arcs = np.full((len(work.links), most, paths.max_length), -1, dtype=np.int64)
        for row, link in enumerate(work.links.tolist()):
            rng, free = link_rng(work, link), paths.automaton is ANYTHING
            drawn = _Walks(paths, link).distinct([None] * most, rng) if free else []
            for place, path in enumerate(drawn):
                arcs[row, place, : len(path)] = path
            if not drawn:
                cost = np.zeros(len(paths.arc_slot), dtype=np.int64)
                mine = paths.arcs_of(link)
                cost[mine] = rng.exponential(FIXED_POINT, mine.stop - mine.start)
                arcs[row] = cheapest_paths(paths, cost, most, np.array([link])).arcs[0]
        complete = np.ones(len(work.links), dtype=np.bool_)
        found = FoundPaths(arcs, (arcs >= 0).sum(2), complete)
        logits = np.full(len(work.batch.edges), LOWEST, dtype=np.float32)
        logits[paths.arc_slot[arcs[arcs >= 0]]] = 0.0
        return made_masks(work, logits, found)


def rank_at_random(
    ground: Ground, num_paths: int, *, lengths: Sequence[Sequence[int]], seed: int
) -> Ranked:
    """Draw distinct paths, uniformly among those of a length.

    Args:
        ground: the links.
        num_paths: paths of a link at most.
        lengths: per link, how long its paths shall be; those of the explanations to compare with.
        seed: with the link, where they are drawn from.
    """
    ranked = []
    for number, link in enumerate(ground.links):
        rng = np.random.default_rng((seed, link.src, link.dst))
        drawn = _Walks(ground.paths, number).distinct(lengths[number][:num_paths], rng)
        ranked.append([ground.as_facts(np.array(path)) for path in drawn])
    return ranked


class _Walks:
    """Draws walks from source to target uniformly, by counting how many there are from a node."""

    def __init__(self, paths: PathGraphs, link: int) -> None:
        self._max_length = paths.max_length
        first_node, last_node = paths.node_ptr[link : link + 2]
        self._ptr: Longs = paths.arc_ptr[first_node + link : last_node + link + 1]
        self._size = int(last_node - first_node)
        mine = paths.arcs_of(link)
        self._head = paths.arc_dst[mine]
        out = np.diff(self._ptr) if self._size else np.empty(0, dtype=np.int64)
        self._tail: Longs = np.repeat(np.arange(self._size), out)
        self._first = mine.start
        self._counts: list[Longs] = []

    def _walks_left(self, length: int) -> Longs:
        """Per node, its walks of this number of arcs to the target, which is node 1."""
        if not self._counts:
            start = np.zeros(self._size, dtype=np.int64)
            start[1] = 1
            self._counts.append(start)
        while len(self._counts) <= length:
            weight = self._counts[-1][self._head]
            counts = np.bincount(self._tail, weight, minlength=self._size).astype(np.int64)
            counts[1] = 0  # a path ends where it meets the target
            self._counts.append(counts)
        return self._counts[length]

    def distinct(self, lengths: Sequence[int | None], rng: np.random.Generator) -> list[Arcs]:
        """A path for each number of facts (None: any), no two the same; fewer if none is found."""
        drawn: list[Arcs] = []
        for length in lengths:
            path = self._draw(length, drawn, rng)
            drawn += [] if path is None else [path]
        return drawn

    def _draw(
        self, length: int | None, taken: Sequence[Arcs], rng: np.random.Generator
    ) -> Arcs | None:
        """A simple path of a number of facts (None: any) that is not taken; None: none is found."""
        lengths = range(1, self._max_length + 1) if length is None else [length]
        counts = [int(self._walks_left(n)[0]) if self._size else 0 for n in lengths]
        if sum(counts) == 0:
            return None
        for _ in range(TRIES):
            place = rng.integers(sum(counts)) if length is None else 0
            chosen = lengths[int(np.searchsorted(np.cumsum(counts), place, side="right"))]
            node, arcs, nodes = 0, [], [0]
            for left in range(chosen - 1, -1, -1):
                first, last = (self._ptr[node : node + 2] - self._first).tolist()
                weight = self._walks_left(left)[self._head[first:last]]
                place = rng.integers(weight.sum())
                arc = first + int(np.searchsorted(np.cumsum(weight), place, side="right"))
                node = int(self._head[arc])
                arcs.append(self._first + arc)
                nodes.append(node)
            if len(set(nodes)) == len(nodes) and tuple(arcs) not in taken:
                return tuple(arcs)
        return None


# A mask at random.


class RandomMask(Rival):
    """Every mask value drawn evenly from 0 to 1, by the seed and the link."""

    name = "random-mask"

    def masks(self, work: Work) -> LearnedMasks:
        """Draw the masks."""
        batch = work.batch
        logits = np.empty(len(batch.edges), dtype=np.float32)
        for i in range(batch.num_links):
            here = slice(batch.edge_ptr[i], batch.edge_ptr[i + 1])
            logits[here] = link_rng(work, i).logistic(size=here.stop - here.start)
        return made_masks(work, logits)
