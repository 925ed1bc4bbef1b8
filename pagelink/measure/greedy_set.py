"""Sets of paths of high joint effect, one path after the other.

Facts that do nothing as long as others are there may be worth most once these are gone. So each
next path is looked for where the gradient is steepest without those before, and measured together
with them. The sets to choose from are all small subsets of a pool per link, in which the greedy set
comes first, then the most concise candidates and those of the highest effect alone.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import combinations
from math import ceil, comb

import numpy as np

from pagelink.graph.edited_graphs import Edits
from pagelink.measure.candidates import Candidates, Trials
from pagelink.runtime.arrays import Bools, Doubles, Longs


class GreedySet:
    """Per link of a batch, the set of paths of the highest joint effect, grown path by path.

    Args:
        trials: the model's answers about the first candidates.
    """

    def __init__(self, trials: Trials) -> None:
        self.trials = trials
        """With all candidates so far."""
        self.members = ranked(trials.candidates, trials.alone, 1)
        """[num_links, size]: the paths so far, -1 where there is none."""
        self.best = np.append(trials.alone, -np.inf)[self.members[:, 0]]
        """The highest effect of any set on the way, -inf where there is none."""
        self.largest = np.abs(self.best)
        """The largest change of the score, either way, by any of them."""
        self.num_sets = np.diff(trials.candidates.ptr)

    @property
    def slots(self) -> Longs:
        """All edges of the facts of the paths so far, by position in the batch."""
        links = np.flatnonzero(self.members[:, 0] >= 0)
        return self.trials.candidates.removal(links, self.members[links]).slots.values

    def add_best(self, more: Candidates) -> None:
        """Add, per link, the one of some candidates that goes best with the paths so far."""
        # 1. Put them beside the candidates so far; a path that is in the set already is not tried.
        candidates, old, tried = self.trials.candidates.joined(more)
        members = np.where(self.members >= 0, np.append(old, -1)[self.members], -1)
        link = candidates.link[tried]
        again = (members[link] == tried[:, None]).any(1)
        tried, link = tried[~again], link[~again]

        # 2. Measure each alone, if it is new, and together with the set.
        alone = np.full(len(candidates.lengths), np.nan)
        alone[old] = self.trials.alone
        new = np.flatnonzero(np.isnan(alone))
        by_itself = np.full((len(new), members.shape[1] + 1), -1)
        by_itself[:, 0] = new
        together = np.column_stack([tried, members[link]])
        sets = np.concatenate([by_itself, together])
        effects = self.trials.effects(candidates.removal(candidates.link[sets[:, 0]], sets))
        alone[new], effect = effects[: len(new)], effects[len(new) :]
        self.trials = replace(self.trials, candidates=candidates, alone=alone)

        # 3. The best one of each link joins the set; the first of equal ones stays.
        best = np.full(len(self.best), -np.inf)
        np.maximum.at(best, link, effect)
        added = np.full(len(best), -1)
        is_best = np.flatnonzero(effect == best[link])[::-1]
        added[link[is_best]] = tried[is_best]
        self.members = np.column_stack([members, added])
        self.best = np.maximum(self.best, best)
        np.maximum.at(self.largest, link, np.abs(effect))
        measured = np.concatenate([candidates.link[new], link])
        self.num_sets = self.num_sets + np.bincount(measured, minlength=len(best))


def ranked(candidates: Candidates, values: Doubles, count: int) -> Longs:
    """[num_links, count]: the candidates of highest value, -1 behind the last."""
    link = candidates.link
    order = np.lexsort((-values, link))
    place = np.arange(len(link)) - candidates.ptr[link]  # order keeps the links together
    found = np.full((len(candidates.ptr) - 1, count), -1)
    inside = place < count
    found[link[inside], place[inside]] = order[inside]
    return found


# The sets to choose from.


def make_pools(greedy: GreedySet) -> Longs:
    """Per link, the greedy set, the most concise candidates as rho has it, the best ones alone.

    One after the other, each candidate once.
    """
    settings, candidates = greedy.trials.work.setup.settings, greedy.trials.candidates
    size = pool_size(settings.paths_within_budget, settings.verified)
    share = ceil((1 - settings.rho) * size)
    room = max(size - greedy.members.shape[1], 1)
    concise = ranked(candidates, candidates.concise, min(share, room))
    alone = ranked(candidates, greedy.trials.alone, size)
    both = np.concatenate([greedy.members, concise, alone], axis=1)
    earlier = np.tril(np.ones((both.shape[1],) * 2, dtype=bool), -1)
    repeated = ((both[:, :, None] == both[:, None, :]) & earlier).any(2)
    both = np.where(repeated, -1, both)
    front = np.argsort(both < 0, axis=1, kind="stable")
    return np.take_along_axis(both, front, axis=1)[:, :size]


class CandidateSets:
    """All sets of candidates of each link's pool, up to the number of paths, in one order."""

    def __init__(self, greedy: GreedySet) -> None:
        most = greedy.trials.work.setup.settings.paths_within_budget
        candidates, pools = greedy.trials.candidates, make_pools(greedy)
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
        """[1, num_sets]: the set has the largest number of paths."""
        self.greedy: Bools = np.asarray((chosen == np.arange(most)).all(1))[None]
        """[1, num_sets]: the set is the greedy one, which is first in every pool."""

    def removal(self, wanted: Bools) -> Edits:
        """The edits by the facts of the wanted sets, in order."""
        link, number = np.nonzero(wanted)
        return self._candidates.removal(link, self.members[link, number])

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
