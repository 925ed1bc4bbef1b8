"""Which set of paths explains a link: concise, and of measured influence on the very model.

Effects are not additive, so whole sets are measured: sets of a pool of candidates, among them the
greedy set of the highest joint effect, the most concise ones and the most influential alone. Among
the sets that reach rho of the best influence found, and in which every path adds to what the others
do, the most concise one is taken.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pagelink.measure.candidates import Candidates, Trials
from pagelink.measure.greedy_set import CandidateSets, GreedySet, ranked
from pagelink.measure.verdict import may_stand_in, stand_in
from pagelink.runtime.arrays import Bools, Doubles, Longs

SLACK = 0.5
"""Sets are measured that are foreseen to have this share of the influence that they need."""


@dataclass(frozen=True)
class Selection:
    """The chosen set of paths of each link, and what was measured to choose it."""

    members: Longs
    """[num_links, most]: candidates, the most influential first; -1 behind the last."""
    influence: Doubles
    """Of the chosen set."""
    marginal: Doubles
    """[num_links, most]: how much of it is lost if one member is left out."""
    best: Doubles
    """The best influence of any set that was measured."""
    largest: Doubles
    """The largest change of the score, either way, by any set that was measured."""
    inserted: Bools
    """Influence is what the set adds to the graph without paths, as the paths are redundant."""
    num_sets: Longs
    """Sets measured."""


def select(greedy: GreedySet) -> Selection:
    """Measure sets of candidates and choose one per link.

    Args:
        greedy: the greedy sets, with all candidates.
    """
    trials = greedy.trials
    settings = trials.work.setup.settings
    sets = CandidateSets(greedy)
    concise = sets.conciseness()

    # 1. Measure sets by removal from G, and, where that shows next to nothing of what all paths are
    #    worth together, by insertion into G0.
    every = np.ones(len(trials.work.logits), dtype=np.bool_)
    effect, best = _measured(greedy, sets, concise, every, inserted=False)
    largest = np.maximum(_highest(np.abs(effect)), greedy.largest)
    num_sets = greedy.num_sets + (np.isfinite(effect) & ~sets.single).sum(1)
    span = trials.work.logits - trials.without_paths
    inserted = may_stand_in(span, best) & np.isfinite(best)
    if inserted.any():
        added, best_added = _measured(greedy, sets, concise, inserted, inserted=True)
        inserted &= stand_in(span, best, best_added)
        effect = np.where(inserted[:, None], added, effect)
        best = np.where(inserted, best_added, best)
        num_sets = num_sets + np.isfinite(added).sum(1)

    # 2. Filler is no evidence: every path of a set must add to what the others do. Where no set
    #    speaks for the link, the one that speaks least against it is shown as what it is.
    sound = sets.valid & sets.every_member_adds(effect)
    within = _highest(np.where(sound, effect, -np.inf))
    bar = np.where(best > 0, np.minimum(_share(settings.rho, best), within), within)

    # 3. Of the sets that reach rho of the best, the most concise one.
    place = np.argmax(np.where(sound & (effect >= bar[:, None]), concise, -np.inf), axis=1)
    rows = np.arange(len(place))
    members, found = sets.members[rows, place], effect[rows, place]
    rest = sets.without_each(effect, place)
    if settings.rho == 0:
        # The paper's ranking: the best by Score, the requested number of them.
        scores = trials.candidates.scores
        members = ranked(trials.candidates, scores, settings.paths_within_budget)
        found, rest = set_effects(trials, members, inserted)
    order = _most_influential_first(members, trials.alone)
    return Selection(
        members=np.take_along_axis(members, order, axis=1),
        influence=found,
        marginal=found[:, None] - np.take_along_axis(rest, order, axis=1),
        best=np.maximum(best, found),
        largest=largest,
        inserted=inserted,
        num_sets=num_sets,
    )


def select_all(trials: Trials) -> Selection:
    """Choose all candidates as they come, as for a ranking that measures nothing."""
    candidates = trials.candidates
    link, num_links = candidates.link, len(candidates.ptr) - 1
    counts, members = np.diff(candidates.ptr), all_members(candidates)
    by_removal = np.zeros(num_links, dtype=np.bool_)
    effect, rest = set_effects(trials, members, by_removal)
    largest = np.abs(effect)
    np.maximum.at(largest, link, np.abs(trials.alone))
    return Selection(
        members=members,
        influence=np.where(counts > 0, effect, np.nan),
        marginal=effect[:, None] - rest,
        best=np.full(num_links, np.nan),  # no other set is measured to compare with
        largest=largest,
        inserted=by_removal,
        num_sets=(counts > 0).astype(np.int64),
    )


def all_members(candidates: Candidates) -> Longs:
    """[num_links, most]: all candidates of each link as they come, -1 behind the last."""
    link, counts = candidates.link, np.diff(candidates.ptr)
    members = np.full((len(counts), max(int(counts.max(initial=0)), 1)), -1)
    members[link, np.arange(len(link)) - candidates.ptr[link]] = np.arange(len(link))
    return members


def set_effects(trials: Trials, members: Longs, inserted: Bools) -> tuple[Doubles, Doubles]:
    """The influence of one set per link, and that of it without each of its members."""
    most = members.shape[1]
    sets = np.repeat(members[:, None], most + 1, axis=1)
    sets[:, np.arange(1, most + 1), np.arange(most)] = -1
    effects = np.zeros(sets.shape[:2])
    filled = (sets >= 0).any(2)
    for by_insertion, mine in ((False, ~inserted), (True, inserted)):
        link, number = np.nonzero(filled & mine[:, None])
        removal = trials.candidates.removal(link, sets[link, number])
        effects[link, number] = trials.effects(removal, inserted=by_insertion)
    return effects[:, 0], effects[:, 1:]


def _measured(
    greedy: GreedySet, sets: CandidateSets, concise: Doubles, links: Bools, *, inserted: bool
) -> tuple[Doubles, Doubles]:
    """The influence of sets of some links, -inf where it was not measured, and the best of it."""
    trials, rho = greedy.trials, greedy.trials.work.setup.settings.rho
    effect = np.full(sets.valid.shape, -np.inf)
    inside = sets.valid & links[:, None]
    if not inserted:
        single = inside & sets.single
        effect[single] = trials.alone[sets.members[single][:, 0]]
        inside = inside & ~single
    smaller = inside & ~sets.full
    effect[smaller] = trials.effects(sets.removal(smaller), inserted=inserted)
    best = _highest(effect)
    if not inserted:
        best = np.maximum(best, greedy.best)
    # Of the many largest sets only those that may be chosen: concise enough, and foreseen to have
    # the influence, as far as that follows from the smaller ones.
    foreseen = sets.foreseen(effect)
    bar = np.where(best > 0, _share(rho, best), best)
    reach = (effect >= bar[:, None]) & sets.every_member_adds(effect)
    so_far = _highest(np.where(reach, concise, -np.inf))
    needed = np.where(concise > so_far[:, None], bar[:, None], best[:, None])
    needed = needed - (1 - SLACK) * np.abs(needed)
    promising = inside & sets.full & ((foreseen >= needed) | sets.greedy)
    effect[promising] = trials.effects(sets.removal(promising), inserted=inserted)
    return effect, np.maximum(best, _highest(effect))


def _share(rho: float, best: Doubles) -> Doubles:
    """Rho of the best influence, where there is a positive one; elsewhere it may be -inf."""
    return rho * np.maximum(best, 0)


def _highest(values: Doubles) -> Doubles:
    """The highest finite value of each row; -inf where there is none."""
    found: Doubles = np.where(np.isfinite(values), values, -np.inf).max(1, initial=-np.inf)
    return found


def _most_influential_first(members: Longs, alone: Doubles) -> Longs:
    strength = np.append(alone, -np.inf)[members]  # -1, where there is no member, is the last
    return np.argsort(-strength, axis=1, kind="stable")
