"""Random simple paths: what any set of paths of the same lengths would do."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pagelink.baselines.ground import FactPath, Ground, Ranked
from pagelink.graph import Longs

TRIES = 50
"""Draws for a path before it is given up, because all of its length are taken or not simple."""


def rank(ground: Ground, num_paths: int, *, lengths: Sequence[Sequence[int]], seed: int) -> Ranked:
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
        walks = _Walks(ground, number)
        drawn: list[FactPath] = []
        for length in lengths[number][:num_paths]:
            path = walks.draw(length, drawn, rng)
            if path is not None:
                drawn.append(path)
        ranked.append(drawn)
    return ranked


class _Walks:
    """Draws walks from source to target uniformly, by counting how many there are from a node."""

    def __init__(self, ground: Ground, link: int) -> None:
        self._ground = ground
        paths = ground.paths
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
        """Per node, its walks of so many arcs to the target, which is node 1."""
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

    def draw(
        self, length: int, taken: Sequence[FactPath], rng: np.random.Generator
    ) -> FactPath | None:
        """A simple path of so many facts that is not taken; None if none is found."""
        if self._size == 0 or self._walks_left(length)[0] == 0:
            return None
        for _ in range(TRIES):
            node, arcs, nodes = 0, [], [0]
            for left in range(length - 1, -1, -1):
                first, last = (self._ptr[node : node + 2] - self._first).tolist()
                weight = self._walks_left(left)[self._head[first:last]]
                place = rng.integers(weight.sum())
                arc = first + int(np.searchsorted(np.cumsum(weight), place, side="right"))
                node = int(self._head[arc])
                arcs.append(self._first + arc)
                nodes.append(node)
            path = self._ground.as_facts(np.array(arcs))
            if len(set(nodes)) == len(nodes) and path not in taken:
                return path
        return None
