"""Sets of candidate paths to choose from, grown path by path.

Facts that do nothing as long as others are there may be worth most once these are gone. So each
next path is looked for where the gradient is steepest without those before, and measured together
with them; and likewise those that add most to a graph without paths. The sets to choose from are
all small subsets of a pool per link, in which these chains come first, then the best ones alone and
the most concise.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import combinations
from math import comb

import numpy as np

from pagelink.graph.edited_graphs import Edits
from pagelink.measure.candidates import Candidates
from pagelink.measure.trials import Trials
from pagelink.runtime.arrays import Bools, Doubles, Longs


class Chains:
    """Per link of a batch, two sets that grow: of the highest joint effect, and joint gain.

    Args:
        trials: the model's answers about the first candidates.
    """

    def __init__(self, trials: Trials) -> None:
        self.trials = trials
        """With all candidates so far."""
        self.members = {
            inserted: ranked(trials.candidates, self._alone(inserted), 1)
            for inserted in (False, True)
        }
        """By removal (False) and by insertion (True), [num_links, size]: the paths so far, -1 where
        there is none."""
        self.best = {inserted: self._best_alone(inserted) for inserted in (False, True)}
        """The highest effect, and gain, of any set on the way, -inf where there is none."""
        self.num_sets = np.diff(trials.candidates.ptr)

    def _alone(self, inserted: bool) -> Doubles:
        return self.trials.gains if inserted else self.trials.alone

    def _best_alone(self, inserted: bool) -> Doubles:
        best = np.full(len(self.trials.work.logits), -np.inf)
        known = np.nan_to_num(self._alone(inserted), nan=-np.inf)  # NaN: there was no time for it
        np.maximum.at(best, self.trials.candidates.link, known)
        return best

    @property
    def slots(self) -> Longs:
        """All edges of the facts of the paths removed so far, by position in the batch."""
        members = self.members[False]
        links = np.flatnonzero(members[:, 0] >= 0)
        return self.trials.candidates.removal(links, members[links]).slots.values

    def take(self, more: Candidates) -> Longs:
        """Put candidates beside those so far, measure the new ones alone, and say where all are."""
        candidates, old, tried = self.trials.candidates.joined(more)
        for inserted, members in self.members.items():
            self.members[inserted] = np.where(members >= 0, np.append(old, -1)[members], -1)
        alone = np.full((2, len(candidates.lengths)), np.nan)
        alone[:, old] = self.trials.alone, self.trials.gains
        new = np.flatnonzero(np.isnan(alone[0]))
        each = candidates.removal(candidates.link[new], new[:, None])
        alone[:, new] = self.trials.effects(each), self.trials.effects(each, inserted=True)
        self.trials = replace(self.trials, candidates=candidates, alone=alone[0], gains=alone[1])
        for inserted in self.best:
            self.best[inserted] = np.maximum(self.best[inserted], self._best_alone(inserted))
        self.num_sets = self.num_sets + np.bincount(each.link, minlength=len(self.num_sets))
        return tried

    def highest(self, count: int) -> Longs:
        """The candidates of the highest gain alone, some per link."""
        found = ranked(self.trials.candidates, self.trials.gains, count)
        return found[found >= 0]

    def grow(self, tried: Longs, *, inserted: bool) -> None:
        """Add, per link, the one of some candidates that goes best with the paths so far."""
        candidates, members = self.trials.candidates, self.members[inserted]
        link = candidates.link[tried]
        again = (members[link] == tried[:, None]).any(1)
        tried, link = tried[~again], link[~again]
        together = candidates.removal(link, np.column_stack([tried, members[link]]))
        effect = self.trials.effects(together, inserted=inserted)
        # The best one of each link joins the set; the first of equal ones stays.
        best = np.full(len(members), -np.inf)
        np.maximum.at(best, link, effect)
        added = np.full(len(best), -1)
        is_best = np.flatnonzero(effect == best[link])[::-1]
        added[link[is_best]] = tried[is_best]
        self.members[inserted] = np.column_stack([members, added])
        self.best[inserted] = np.maximum(self.best[inserted], best)
        self.num_sets = self.num_sets + np.bincount(link, minlength=len(best))


def ranked(candidates: Candidates, values: Doubles, count: int) -> Longs:
    """[num_links, count]: the candidates of highest value, -1 behind the last."""
    link = candidates.link
    order = np.lexsort((-values, link))
    place = np.arange(len(link)) - candidates.ptr[link]  # order keeps the links together
    found = np.full((len(candidates.ptr) - 1, count), -1)
    inside = place < count
    found[link[inside], place[inside]] = order[inside]
    return found


def make_pools(chains: Chains, worth: Doubles) -> Longs:
    """Per link, the two chains, then in turn the most concise and the best ones alone.

    Args:
        chains: the chains, with all candidates.
        worth: of each candidate alone.
    """
    settings, candidates = chains.trials.work.setup.settings, chains.trials.candidates
    size = pool_size(settings.paths_within_budget, settings.verified)
    alone = ranked(candidates, worth, size)
    concise = ranked(candidates, candidates.concise, size)
    in_turn = np.stack([concise, alone], axis=2).reshape(len(alone), -1)
    both = np.concatenate([chains.members[False], chains.members[True], in_turn], axis=1)
    earlier = np.tril(np.ones((both.shape[1],) * 2, dtype=bool), -1)
    repeated = ((both[:, :, None] == both[:, None, :]) & earlier).any(2)
    both = np.where(repeated, -1, both)
    front = np.argsort(both < 0, axis=1, kind="stable")
    return np.take_along_axis(both, front, axis=1)[:, :size]


class PathSets:
    """All sets of candidates of each link's pool, up to the number of paths, in one order."""

    def __init__(self, candidates: Candidates, pools: Longs, most: int) -> None:
        chosen, self._smaller = _subsets(pools.shape[1], most)
        self._candidates = candidates
        self.valid: Bools = chosen.max(1)[None] < (pools >= 0).sum(1)[:, None]
        """[num_links, num_sets]: the pool is large enough for the set."""
        self.members: Longs = np.where(
            self.valid[:, :, None] & (chosen >= 0), pools[:, chosen], -1
        )  # fmt: skip
        """[num_links, num_sets, most]: candidates, -1 behind the last."""
        self.single: Bools = np.asarray((chosen >= 0).sum(1) == 1)[None]
        """[1, num_sets]: the set is one candidate."""

    def edits(self, wanted: Bools) -> Edits:
        """The edits by the facts of the wanted sets, in order."""
        link, number = np.nonzero(wanted)
        return self._candidates.removal(link, self.members[link, number])

    def measured(self, trials: Trials, *, inserted: bool) -> Doubles:
        """[num_links, num_sets]: effects by removal, or gains by insertion; -inf of no set."""
        values = np.full(self.valid.shape, -np.inf)
        single, several = self.valid & self.single, self.valid & ~self.single
        alone = trials.gains if inserted else trials.alone
        values[single] = alone[self.members[single][:, 0]]
        values[several] = trials.effects(self.edits(several), inserted=inserted)
        return values

    def without_each(self, values: Doubles) -> Doubles:
        """[num_links, num_sets, most]: the value of each set without each of its members.

        That of nothing is 0, and where there is no member it is NaN.
        """
        extended = np.concatenate([values, np.zeros((len(values), 1))], axis=1)
        found: Doubles = np.where(self.members >= 0, extended[:, self._smaller], np.nan)
        return found


@cache
def pool_size(most: int, verified: int) -> int:
    """The largest pool that has no more sets than may be measured."""
    size = 1
    while sum(comb(size + 1, k) for k in range(1, most + 1)) <= verified:
        size += 1
    return size


@cache
def _subsets(size: int, most: int) -> tuple[Longs, Longs]:
    """All subsets of 0..size-1, and which sets they are without each of their members.

    Returns:
        [num_sets, most]: the members, -1 behind the last; and the number of the set without each,
        `num_sets` for the empty set and behind the last.
    """
    found = [c for k in range(1, min(most, size) + 1) for c in combinations(range(size), k)]
    number = {chosen: i for i, chosen in enumerate(found)}
    chosen = np.full((len(found), most), -1)
    smaller = np.full((len(found), most), len(found))
    for i, one in enumerate(found):
        chosen[i, : len(one)] = one
        for place in range(len(one)):
            rest = one[:place] + one[place + 1 :]
            smaller[i, place] = number.get(rest, len(found))
    return chosen, smaller
