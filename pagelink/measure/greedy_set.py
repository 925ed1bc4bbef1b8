"""Sets of paths of high joint effect, one path after the other.

Facts that do nothing as long as others are there may be worth most once these are gone. So each
next path is looked for where the gradient is steepest without those before, and measured together
with them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from itertools import combinations
from math import ceil, comb

import numpy as np

from pagelink.measure.candidates import Candidates
from pagelink.model.edited_logits import EditedLogits
from pagelink.runtime.arrays import Bools, Doubles, Longs
from pagelink.settings import Settings

Steepest = Callable[[Longs, int], Candidates]
"""From edges that are left out, so many candidates per link by the gradient without them."""


class Chain:
    """The paths of a batch of links, measured alone and, one after the other, together.

    Args:
        influence: asks the model.
        candidates: candidate paths.
        alone: per candidate, the effect of removing its facts.
        graph: G, the edges of the batch that the model sees.
        logits: f(G) per link.
    """

    def __init__(
        self,
        influence: EditedLogits,
        candidates: Candidates,
        alone: Doubles,
        graph: Bools,
        logits: Doubles,
    ) -> None:
        self._influence, self._graph, self._logits = influence, graph, logits
        self.candidates = candidates
        """All candidates so far."""
        self.alone = alone
        """Per candidate, the effect of removing its facts alone."""
        self.members = ranked(candidates, self.alone, 1)
        """[num_links, length]: the paths so far, -1 where there is none."""
        self.best = np.append(self.alone, -np.inf)[self.members[:, 0]]
        """The highest effect of any set on the way, -inf where there is none."""
        self.largest = np.abs(self.best)
        """The largest change of the score, either way, by any of them."""
        self.num_sets = np.diff(candidates.ptr)

    def lengthen(self, steepest: Steepest, count: int) -> None:
        """Add the path that goes best with the others, of so many tried; none if there is none."""
        links = np.flatnonzero(self.members[:, 0] >= 0)
        gone = self.candidates.removal(links, self.members[links])
        self.candidates, old, tried = self.candidates.joined(steepest(gone.slots, count))
        self.members = np.where(self.members >= 0, np.append(old, -1)[self.members], -1)
        link = self.candidates.link[tried]
        again = (self.members[link] == tried[:, None]).any(1)
        tried, link = tried[~again], link[~again]

        alone = np.full(len(self.candidates.lengths), np.nan)
        alone[old] = self.alone
        new = np.flatnonzero(np.isnan(alone))
        by_itself = np.full((len(new), self.members.shape[1] + 1), -1)
        by_itself[:, 0] = new
        together = np.column_stack([tried, self.members[link]])
        effects = self._effects(np.concatenate([by_itself, together]))
        alone[new], effect = effects[: len(new)], effects[len(new) :]
        self.alone = alone

        best = np.full(len(self._logits), -np.inf)
        np.maximum.at(best, link, effect)
        added = np.full(len(best), -1)
        is_best = np.flatnonzero(effect == best[link])[::-1]  # the first of equal ones stays
        added[link[is_best]] = tried[is_best]
        self.members = np.column_stack([self.members, added])
        self.best = np.maximum(self.best, best)
        np.maximum.at(self.largest, link, np.abs(effect))
        measured = np.concatenate([self.candidates.link[new], link])
        self.num_sets = self.num_sets + np.bincount(measured, minlength=len(best))

    def _effects(self, members: Longs) -> Doubles:
        """The effects of removing sets of candidates, -1 behind the last one."""
        link = self.candidates.link[members[:, 0]]
        removal = self.candidates.removal(link, members)
        effects: Doubles = self._logits[link] - self._influence.logits(self._graph, removal)
        return effects


def ranked(candidates: Candidates, values: Doubles, count: int) -> Longs:
    """[num_links, count]: the candidates of highest value, -1 behind the last."""
    link = candidates.link
    order = np.lexsort((-values, link))
    place = np.arange(len(link)) - candidates.ptr[link]  # order keeps the links together
    found = np.full((len(candidates.ptr) - 1, count), -1)
    inside = place < count
    found[link[inside], place[inside]] = order[inside]
    return found


# Sets of candidate paths: a pool for each link, and all small subsets of it.


def make_pools(
    candidates: Candidates, chain: Longs, alone: Doubles, most: int, settings: Settings
) -> Longs:
    """Per link, the chain, the most concise candidates as rho has it, the most influential alone.

    One after the other, each candidate once.
    """
    size = pool_size(most, settings.verified)
    share = ceil((1 - settings.rho) * size)
    concise = ranked(candidates, candidates.concise, min(share, max(size - chain.shape[1], 1)))
    both = np.concatenate([chain, concise, ranked(candidates, alone, size)], axis=1)
    earlier = np.tril(np.ones((both.shape[1],) * 2, dtype=bool), -1)
    repeated = ((both[:, :, None] == both[:, None, :]) & earlier).any(2)
    both = np.where(repeated, -1, both)
    front = np.argsort(both < 0, axis=1, kind="stable")
    return np.take_along_axis(both, front, axis=1)[:, :size]


class CandidateSets:
    """All sets of one to `most` candidates of each link's pool, in one and the same order."""

    def __init__(self, pools: Longs, candidates: Candidates, most: int) -> None:
        chosen, self._smaller, self._terms = _subsets(pools.shape[1], most)
        sizes = (chosen >= 0).sum(1)
        self._candidates = candidates
        self.valid: Bools = chosen.max(1)[None] < (pools >= 0).sum(1)[:, None]
        """[num_links, num_sets]: the pool is large enough for the set."""
        self.members: Longs = np.where(
            self.valid[:, :, None] & (chosen >= 0), pools[:, chosen], -1
        )  # fmt: skip
        """[num_links, num_sets, most]: candidates, -1 behind the last."""
        self.single: Bools = np.asarray(sizes == 1)[None]
        """[1, num_sets]: the set is one candidate."""
        self.full: Bools = np.asarray((sizes == most) & (sizes > 1))[None]
        """[1, num_sets]: the set has as many as it can."""
        self.chain: Bools = np.asarray((chosen == np.arange(most)).all(1))[None]
        """[1, num_sets]: the set is the chain, which is first in every pool."""

    def changes(
        self, influence: EditedLogits, graph: Bools, wanted: Bools, logits: Doubles
    ) -> Doubles:
        """How much lower the logit is after an edit of a graph by each wanted set, in order."""
        link, number = np.nonzero(wanted)
        removal = self._candidates.removal(link, self.members[link, number])
        changes: Doubles = logits[link] - influence.logits(graph, removal)
        return changes

    def foreseen(self, effect: Doubles) -> Doubles:
        """The effect of a set if its candidates do together what its smaller sets add up to."""
        known = np.where(np.isfinite(effect), effect, 0.0)
        foreseen: Doubles = known @ self._terms.T
        return foreseen

    def every_member_adds(self, effect: Doubles) -> Bools:
        """Whether leaving any member out of a set lowers its effect."""
        extended = np.concatenate([effect, np.full((len(effect), 1), -np.inf)], axis=1)
        without = extended[:, self._smaller].max(2)  # the last column where there is none
        adds: Bools = effect > np.where(self.single, -np.inf, without)
        return adds

    def without_each(self, effect: Doubles, place: Longs) -> Doubles:
        """[num_links, most]: the effect of one set per link without each of its members."""
        extended = np.concatenate([effect, np.zeros((len(effect), 1))], axis=1)
        # The subsets of one fewer are in order of the members that they have: last one left out.
        smaller = self._smaller[place]
        count = (self.members[np.arange(len(place)), place] >= 0).sum(1)
        turned = np.maximum(count[:, None] - 1 - np.arange(smaller.shape[1]), 0)
        without = np.take_along_axis(smaller, turned, axis=1)
        found: Doubles = np.take_along_axis(extended, without, axis=1)
        return found

    def conciseness(self) -> Doubles:
        """Per set, how much more concise its paths are in all than the least concise candidate.

        Counted from there, so that a path less is not a gain in itself.
        """
        candidates = self._candidates
        lowest = np.full(len(candidates.ptr) - 1, np.inf)
        np.minimum.at(lowest, candidates.link, candidates.concise)
        gain = candidates.concise[self.members] - lowest[:, None, None]
        total: Doubles = np.where(self.members >= 0, gain, 0.0).sum(2)
        return total


@cache
def pool_size(most: int, verified: int) -> int:
    """The largest pool that has no more sets than may be measured."""
    size = 1
    while sum(comb(size + 1, k) for k in range(1, most + 1)) <= verified:
        size += 1
    return size


@cache
def _subsets(size: int, most: int) -> tuple[Longs, Longs, Doubles]:
    """All subsets of 0..size-1, what smaller ones each has, and what it is foreseen to do.

    Returns:
        The subsets, -1 behind the last member; of each its subsets of one fewer, -1 behind the
        last; [num_sets, num_sets], how often each subset counts for it. The effect of a set of k is
        the sum over its smaller sets of m, each (-1)^(k - m + 1) times, if nothing comes of all k
        together that does not come of fewer.
    """
    found = [c for k in range(1, min(most, size) + 1) for c in combinations(range(size), k)]
    number = {chosen: i for i, chosen in enumerate(found)}
    chosen = np.full((len(found), most), -1)
    smaller = np.full((len(found), most), -1)
    terms = np.zeros((len(found), len(found)))
    for i, one in enumerate(found):
        chosen[i, : len(one)] = one
        for k in range(1, len(one)):
            parts = [number[part] for part in combinations(one, k)]
            terms[i, parts] = (-1) ** (len(one) - k + 1)
            if k == len(one) - 1:
                smaller[i, : len(one)] = parts
    return chosen, smaller, terms
