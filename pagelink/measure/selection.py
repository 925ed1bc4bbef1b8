"""Which set of paths explains a link: concise, and of measured influence on the very model.

Effects are not additive, so whole sets are measured: sets of a pool of candidates, among them a
chain of the highest joint effect, the most concise ones and the most influential alone. Among the
sets that reach rho of the best influence found, and in which every path adds to what the others do,
the most concise one is taken.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pagelink.measure.candidates import Candidates
from pagelink.measure.greedy_set import CandidateSets, Chain, Steepest, make_pools, ranked
from pagelink.model.edited_logits import EditedLogits
from pagelink.runtime.arrays import Bools, Doubles, Longs
from pagelink.settings import Settings

REDUNDANT = 0.1
"""Paths stand in for each other if no set reaches this share of all of them by removal."""
STANDING_IN = 2.0
"""And if some set adds so many times what any takes away: else there are only very many paths."""
STEP = 6
"""Paths that are tried for the next one of a chain."""
SLACK = 0.5
"""Sets are measured that are foreseen to have this share of the influence that they need."""


@dataclass(frozen=True)
class Selection:
    """The chosen set of paths of each link, and what was measured to choose it."""

    candidates: Candidates
    """All candidates."""
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
    """EditedLogits is what the set adds to the graph without paths, as the paths are redundant."""
    alone: Doubles
    """Per candidate, the effect of removing its facts alone."""
    num_sets: Longs
    """Sets measured."""


def select(
    influence: EditedLogits,
    candidates: Candidates,
    alone: Doubles,
    graph: Bools,
    without_paths: Bools,
    logits: Doubles,
    logits_without_paths: Doubles,
    settings: Settings,
    steepest: Steepest,
) -> Selection:
    """Measure sets of candidates and choose one for each link.

    Args:
        influence: asks the model.
        candidates: candidate paths.
        alone: per candidate, the effect of removing its facts.
        graph: G, the edges of the batch that the model sees.
        without_paths: G0, without all facts that lie on a path.
        logits: f(G) per link.
        logits_without_paths: f(G0) per link.
        settings: rho and the rest.
        steepest: finds further candidates once some are taken out.
    """
    most = settings.paths_within_budget
    chain = Chain(influence, candidates, alone, graph, logits)
    for _ in range(most - 1):
        chain.lengthen(steepest, STEP)
    candidates, alone = chain.candidates, chain.alone
    sets = CandidateSets(
        make_pools(candidates, chain.members, alone, most, settings), candidates, most
    )
    concise = sets.conciseness()

    def measured(edited: Bools, links: Bools) -> tuple[Doubles, Doubles]:
        """The influence of sets, -inf where it was not measured, and the best of it."""
        base = logits if edited is graph else logits_without_paths
        sign = 1.0 if edited is graph else -1.0
        effect = np.full(sets.valid.shape, -np.inf)
        inside = sets.valid & links[:, None]
        if edited is graph:
            single = inside & sets.single
            effect[single] = alone[sets.members[single][:, 0]]
            inside = inside & ~single
        smaller = inside & ~sets.full
        effect[smaller] = sign * sets.changes(influence, edited, smaller, base)
        best = _highest(effect)
        if edited is graph:
            best = np.maximum(best, chain.best)
        # Of the many largest sets only those that may be chosen: concise enough, and foreseen to
        # have the influence, as far as that follows from the smaller ones.
        foreseen = sets.foreseen(effect)
        bar = np.where(best > 0, settings.rho * best, best)
        reach = (effect >= bar[:, None]) & sets.every_member_adds(effect)
        so_far = _highest(np.where(reach, concise, -np.inf))
        needed = np.where(concise > so_far[:, None], bar[:, None], best[:, None])
        needed = needed - (1 - SLACK) * np.abs(needed)
        promising = inside & sets.full & ((foreseen >= needed) | sets.chain)
        effect[promising] = sign * sets.changes(influence, edited, promising, base)
        return effect, np.maximum(best, _highest(effect))

    every = np.ones(len(logits), dtype=np.bool_)
    effect, best = measured(graph, every)
    largest = np.maximum(_highest(np.abs(effect)), chain.largest)
    num_sets = chain.num_sets + (np.isfinite(effect) & ~sets.single).sum(1)
    span = logits - logits_without_paths
    inserted = (span > 0) & (best < REDUNDANT * span) & np.isfinite(best)
    if inserted.any():
        added, best_added = measured(without_paths, inserted)
        inserted &= best_added > STANDING_IN * best
        effect = np.where(inserted[:, None], added, effect)
        best = np.where(inserted, best_added, best)
        num_sets = num_sets + np.isfinite(added).sum(1)

    # Filler is no evidence: every path of a set must add to what the others do.
    # Where no set speaks for the link, the one that speaks least against it is shown as what it is.
    sound = sets.valid & sets.every_member_adds(effect)
    within = _highest(np.where(sound, effect, -np.inf))
    bar = np.where(best > 0, np.minimum(settings.rho * best, within), within)
    worth = np.where(sound & (effect >= bar[:, None]), concise, -np.inf)
    place = np.argmax(worth, axis=1)
    rows = np.arange(len(place))
    members, found = sets.members[rows, place], effect[rows, place]
    rest = sets.without_each(effect, place)
    if settings.rho == 0:
        # The paper's ranking: the best by Score, as many as are wanted.
        members = ranked(candidates, candidates.scores, most)
        found, rest = set_effects(influence, candidates, graph, without_paths, members, inserted,
                               logits, logits_without_paths)  # fmt: skip
    order = _most_influential_first(members, alone)
    return Selection(
        candidates=candidates,
        members=np.take_along_axis(members, order, axis=1),
        influence=found,
        marginal=found[:, None] - np.take_along_axis(rest, order, axis=1),
        best=np.maximum(best, found),
        largest=largest,
        inserted=inserted,
        alone=alone,
        num_sets=num_sets,
    )


def set_effects(
    influence: EditedLogits,
    candidates: Candidates,
    graph: Bools,
    without_paths: Bools,
    members: Longs,
    inserted: Bools,
    logits: Doubles,
    logits_without_paths: Doubles,
) -> tuple[Doubles, Doubles]:
    """The influence of one set per link, and that of it without each of its members."""
    most = members.shape[1]
    sets = np.repeat(members[:, None], most + 1, axis=1)
    sets[:, np.arange(1, most + 1), np.arange(most)] = -1
    effects = np.zeros(sets.shape[:2])
    filled = (sets >= 0).any(2)
    for edited, mine in ((graph, ~inserted), (without_paths, inserted)):
        link, number = np.nonzero(filled & mine[:, None])
        answers = influence.logits(edited, candidates.removal(link, sets[link, number]))
        effects[link, number] = (
            logits[link] - answers if edited is graph else answers - logits_without_paths[link]
        )
    return effects[:, 0], effects[:, 1:]


def _highest(values: Doubles) -> Doubles:
    """The highest finite value of each row; -inf where there is none."""
    found: Doubles = np.where(np.isfinite(values), values, -np.inf).max(1, initial=-np.inf)
    return found


def _most_influential_first(members: Longs, alone: Doubles) -> Longs:
    strength = np.append(alone, -np.inf)[members]  # -1, where there is no member, is the last
    return np.argsort(-strength, axis=1, kind="stable")
