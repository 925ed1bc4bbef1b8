"""Which set of paths explains a link: concise, and of measured influence on the very model.

Effects are not additive, so whole sets are measured: all sets of a pool of candidates, some of them
the most concise, the others the most influential alone. Among the sets that
reach rho of the best influence found, and in which every path adds to what the others do, the most
concise one is taken.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import combinations
from math import ceil, comb

import numpy as np
import numpy.typing as npt

from pagelink.candidates import Candidates
from pagelink.graph import Bools, Longs
from pagelink.influence import Influence
from pagelink.settings import Settings

Doubles = npt.NDArray[np.float64]

REDUNDANT = 0.1
"""Paths stand in for each other if no set reaches this share of all of them by removal."""
NOTHING = 0.01
"""Paths that move the score by no more than this, or this share of it, are not used."""


@dataclass(frozen=True)
class Selection:
    """The chosen set of paths of each link, and what was measured to choose it."""

    members: Longs
    """[num_links, most]: candidates, the most influential first; -1 behind the last."""
    influence: Doubles
    """Of the chosen set."""
    best: Doubles
    """The best influence of any set that was measured."""
    largest: Doubles
    """The largest change of the score, either way, by any set that was measured."""
    inserted: Bools
    """Influence is what the set adds to the graph without paths, as the paths are redundant."""
    alone: Doubles
    """Per candidate, the effect of removing its facts alone."""
    num_sets: Longs
    """Sets measured."""


def select(
    influence: Influence,
    candidates: Candidates,
    graph: Bools,
    without_paths: Bools,
    logits: Doubles,
    logits_without_paths: Doubles,
    settings: Settings,
) -> Selection:
    """Measure sets of candidates and choose one for each link.

    Args:
        influence: asks the model.
        candidates: candidate paths.
        graph: G, the edges of the batch that the model sees.
        without_paths: G0, without all facts that lie on a path.
        logits: f(G) per link.
        logits_without_paths: f(G0) per link.
        settings: rho and the rest.
    """
    most = settings.paths_within_budget
    link = candidates.link
    every = np.arange(len(link))[:, None]
    alone = logits[link] - influence.logits(graph, candidates.removal(link, every))
    sets = _Sets(_pools(candidates, alone, most, settings), most)

    removed = logits[:, None] - sets.measured(influence, candidates, graph, alone, logits)
    effect = removed
    best = _highest(effect)
    span = logits - logits_without_paths
    inserted = (span > 0) & (best < REDUNDANT * span) & np.isfinite(best)
    if inserted.any():
        added = sets.measured(influence, candidates, without_paths, None, logits, inserted)
        effect = np.where(inserted[:, None], added - logits_without_paths[:, None], effect)
        best = _highest(effect)

    # Filler is no evidence: every path of a set must add to what the others do.
    # Where no set speaks for the link, the one that speaks least against it is shown as what it is.
    bar = np.where(best > 0, settings.rho * best, best)
    good = sets.valid & sets.every_member_adds(effect) & (effect >= bar[:, None])
    worth = np.where(good, sets.conciseness(candidates), -np.inf)
    place = np.argmax(worth, axis=1)
    members = np.take_along_axis(sets.members(), place[:, None, None], axis=1)[:, 0]
    found = effect[np.arange(len(place)), place]
    if settings.rho == 0:
        # The paper's ranking: the best by Score, as many as are wanted.
        has = np.flatnonzero(np.isfinite(best))
        members = _ranked(candidates, candidates.scores, most)
        found[has] = _effects(influence, candidates, graph, without_paths, members, has, inserted,
                              logits, logits_without_paths)  # fmt: skip
    return Selection(
        members=_most_influential_first(members, alone),
        influence=found,
        best=np.maximum(best, found),
        largest=_highest(np.abs(removed)),
        inserted=inserted,
        alone=alone,
        num_sets=sets.valid.sum(1),
    )


class _Sets:
    """All sets of one to `most` candidates of each link's pool, in one and the same order."""

    def __init__(self, pools: Longs, most: int) -> None:
        self._pools = pools
        self._chosen, self._smaller = _subsets(pools.shape[1], most)
        self._single: Bools = np.asarray((self._chosen >= 0).sum(1) == 1)
        sizes = (pools >= 0).sum(1)
        self.valid: Bools = self._chosen.max(1)[None] < sizes[:, None]
        """[num_links, num_sets]: the pool is large enough for the set."""

    def members(self) -> Longs:
        """[num_links, num_sets, most]: candidates, -1 behind the last."""
        inside = self.valid[:, :, None] & (self._chosen >= 0)
        return np.where(inside, self._pools[:, self._chosen], -1)

    def measured(
        self,
        influence: Influence,
        candidates: Candidates,
        graph: Bools,
        alone: Doubles | None,
        logits: Doubles,
        links: Bools | None = None,
    ) -> Doubles:
        """The logit of each set's copy of a graph; -inf effects where there is no such set.

        What was measured of single candidates before is `alone`.
        """
        answers = np.full(self.valid.shape, np.inf)
        wanted = self.valid if links is None else self.valid & links[:, None]
        if alone is not None:
            single = wanted & self._single[None]
            answers[single] = (logits[:, None] - alone[self.members()[:, :, 0]])[single]
            wanted = wanted & ~single
        link, number = np.nonzero(wanted)
        members = self.members()[link, number]
        answers[link, number] = influence.logits(graph, candidates.removal(link, members))
        return answers

    def every_member_adds(self, effect: Doubles) -> Bools:
        """Whether leaving any member out of a set lowers its effect."""
        extended = np.concatenate([effect, np.full((len(effect), 1), -np.inf)], axis=1)
        without = extended[:, self._smaller].max(2)  # the last column where there is none
        adds: Bools = effect > np.where(self._single[None], -np.inf, without)
        return adds

    def conciseness(self, candidates: Candidates) -> Doubles:
        """Per set, how much more concise its paths are in all than the least concise candidate.

        Counted from there, so that a path less is not a gain in itself.
        """
        lowest = np.full(len(candidates.ptr) - 1, np.inf)
        np.minimum.at(lowest, candidates.link, candidates.concise)
        members = self.members()
        gain = candidates.concise[members] - lowest[:, None, None]
        total: Doubles = np.where(members >= 0, gain, 0.0).sum(2)
        return total


def _effects(
    influence: Influence,
    candidates: Candidates,
    graph: Bools,
    without_paths: Bools,
    members: Longs,
    links: Longs,
    inserted: Bools,
    logits: Doubles,
    logits_without_paths: Doubles,
) -> Doubles:
    """The influence of one set for each of some links."""
    effects = np.empty(len(links))
    for edited, mine in ((graph, ~inserted[links]), (without_paths, inserted[links])):
        chosen = links[mine]
        answers = influence.logits(edited, candidates.removal(chosen, members[chosen]))
        effects[mine] = (
            logits[chosen] - answers if edited is graph else answers - logits_without_paths[chosen]
        )
    return effects


def _ranked(candidates: Candidates, values: Doubles, count: int) -> Longs:
    """[num_links, count]: the candidates of highest value, -1 behind the last."""
    link = candidates.link
    order = np.lexsort((-values, link))
    place = np.arange(len(link)) - candidates.ptr[link]  # order keeps the links together
    ranked = np.full((len(candidates.ptr) - 1, count), -1)
    inside = place < count
    ranked[link[inside], place[inside]] = order[inside]
    return ranked


def _pools(candidates: Candidates, alone: Doubles, most: int, settings: Settings) -> Longs:
    """Per link, the most concise candidates and the most influential ones alone, as rho has it."""
    size = _pool_size(most, settings.verified)
    concise = _ranked(candidates, candidates.concise, ceil((1 - settings.rho) * size))
    strong = _ranked(candidates, alone, size)
    repeated = (strong[:, :, None] == concise[:, None, :]).any(2)
    both = np.concatenate([concise, np.where(repeated, -1, strong)], axis=1)
    front = np.argsort(both < 0, axis=1, kind="stable")
    return np.take_along_axis(both, front, axis=1)[:, :size]


@cache
def _pool_size(most: int, verified: int) -> int:
    """The largest pool that has no more sets than may be measured."""
    size = 1
    while sum(comb(size + 1, k) for k in range(1, most + 1)) <= verified:
        size += 1
    return size


@cache
def _subsets(size: int, most: int) -> tuple[Longs, Longs]:
    """All subsets of 0..size-1, and of each the subsets of one fewer; -1 behind the last."""
    found = [c for k in range(1, min(most, size) + 1) for c in combinations(range(size), k)]
    number = {chosen: i for i, chosen in enumerate(found)}
    chosen = np.full((len(found), most), -1)
    smaller = np.full((len(found), most), -1)
    for i, one in enumerate(found):
        chosen[i, : len(one)] = one
        if len(one) > 1:
            smaller[i, : len(one)] = [number[one[:j] + one[j + 1 :]] for j in range(len(one))]
    return chosen, smaller


def _highest(values: Doubles) -> Doubles:
    """The highest finite value of each row; -inf where there is none."""
    found: Doubles = np.where(np.isfinite(values), values, -np.inf).max(1, initial=-np.inf)
    return found


def _most_influential_first(members: Longs, alone: Doubles) -> Longs:
    if len(alone) == 0:
        return members
    strength = np.where(members >= 0, alone[members], -np.inf)
    return np.take_along_axis(members, np.argsort(-strength, axis=1, kind="stable"), axis=1)
