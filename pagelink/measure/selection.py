"""Which set of paths explains a link: concise, and of measured worth to the very model.

Effects are not additive, so whole sets are measured, both by removing them from the graph and by
adding them to the graph without paths: removal alone cannot tell the path that a model uses from
one that shares a fact with it. `worth` has the rules, this applies them to a batch.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pagelink.measure.activity import Activity, activity_of
from pagelink.measure.candidates import Candidates
from pagelink.measure.path_sets import Chains, PathSets, make_pools, ranked
from pagelink.measure.preference import preference
from pagelink.measure.trials import Trials
from pagelink.measure.verdict import carry, stand_in
from pagelink.measure.worth import (
    Sets,
    counts,
    eligible,
    equally_good,
    most_concise,
    shares,
    worths,
)
from pagelink.runtime.arrays import Bools, Doubles, Longs
from pagelink.settings import Settings

MOST_ALTERNATIVES = 5
"""Sets as good as the chosen one that are listed."""


@dataclass(frozen=True)
class Selection:
    """The chosen set of paths of each link, and what was measured to choose it."""

    members: Longs
    """[num_links, most]: candidates, those that may be evidence first, by share; -1 behind the
    last."""
    effect: Doubles
    """Of the chosen set, by removal."""
    gain: Doubles
    """Of the chosen set, by insertion."""
    inserted: Bools
    """Influence is the gain, as the paths stand in for each other."""
    marginal: Doubles
    """[num_links, most]: how much of the influence is lost if one member is left out."""
    share: Doubles
    """[num_links, most]: of each member, on the side where it is larger."""
    bundle: Longs
    """[num_links, most]: members of the same number count together; -1: it stands for itself."""
    worth: Doubles
    """Of the chosen set; NaN where no other set was measured."""
    best: Doubles
    """The best worth of any set that may be returned; NaN where no other set was measured."""
    largest: Doubles
    """The largest change of the score, either way, by any set that was measured."""
    num_sets: Longs
    """Sets measured."""
    activity: Activity
    """Of the facts of all candidates that were asked about."""
    alternatives: list[list[tuple[float, Longs]]]
    """Per link, the worth and the members of sets as good as the chosen one."""

    @property
    def influence(self) -> Doubles:
        """Of the chosen set."""
        return np.where(self.inserted, self.gain, self.effect)


@dataclass(frozen=True)
class _Chosen:
    """One set per link, as it was measured."""

    members: Longs
    effect: Doubles
    gain: Doubles
    effect_without: Doubles
    """[num_links, most]: without each member."""
    gain_without: Doubles
    share: Doubles
    bundle: Longs
    worth: Doubles


def select(chains: Chains) -> Selection:
    """Measure sets of candidates and choose one per link.

    Args:
        chains: sets of the highest joint effect and gain, with all candidates.
    """
    trials = chains.trials
    settings, noise = trials.work.setup.settings, trials.work.setup.noise
    candidates, most = trials.candidates, settings.paths_within_budget

    # 1. Measure sets of a pool, on both sides.
    link = candidates.link
    alone = worths(
        trials.alone[:, None], trials.gains[:, None], chains.best[False][link],
        chains.best[True][link], noise,
    )[:, 0]  # fmt: skip
    pools = make_pools(chains, alone)
    sets = PathSets(candidates, pools, most)
    effect, gain = (sets.measured(trials, inserted=side) for side in (False, True))

    # 2. Find which facts are idle. A path that has one and adds nothing to G0 is none that the
    #    model uses, but may share facts with several that it does: removing it breaks all of them.
    #    Sets with such a path are out, also as a measure, where others carry the prediction.
    activity = activity_of(trials, np.unique(pools[pools >= 0]))
    without = sets.without_each(effect), sets.without_each(gain)
    share = shares(effect, gain, *without, noise)
    bundles = _bundles(sets.members, trials.alone, without[0], effect, noise)
    is_sound = counts(share).all(2) & (bundles != _LONELY).all(2)
    borrows = activity.has_idle & (trials.gains <= noise)
    used = sets.valid & ~np.any(np.append(borrows, False)[sets.members], axis=2)
    either = np.where(used & is_sound, np.maximum(effect, gain), -np.inf)
    carried = carry(trials.span, _highest(either), noise)
    valid = np.where(carried[:, None], used, sets.valid)
    most_effect, most_gain = (
        np.where(carried, _highest(np.where(used, side, -np.inf)), np.maximum(_highest(side), best))
        for side, best in ((effect, chains.best[False]), (gain, chains.best[True]))
    )

    # 3. Apply the list of choice.
    judged = Sets(
        valid=valid,
        worth=worths(effect, gain, most_effect, most_gain, noise),
        effect=effect,
        is_sound=is_sound,
        is_active=~np.any(np.append(activity.has_idle, False)[sets.members], axis=2),
        hubs=_num_hubs(trials, sets.members),
        facts=_num_facts(trials, sets.members),
        score=np.append(_preferred(trials, settings), 0.0)[sets.members].sum(2),
        repeats=_num_repeats(trials, sets.members) if settings.diverse else None,
    )
    place = most_concise(judged, eligible(judged, settings.rho, noise))
    measured: tuple[Any, ...] = (sets.members, effect, gain, *without, share, bundles)
    rows = np.arange(len(place))
    chosen = _Chosen(*(each[rows, place] for each in (*measured, judged.worth)))
    sound = judged.valid & judged.is_sound
    others = equally_good(judged, sound, place)
    alternatives = [_listed(judged, sets.members, i, others[i]) for i in rows.tolist()]
    if settings.rho == 0:
        # The paper's ranking: the best by Score, the requested number of them.
        chosen = _as_given(trials, ranked(candidates, candidates.scores, most))
        both = chosen.effect[:, None], chosen.gain[:, None]
        chosen = replace(chosen, worth=worths(*both, most_effect, most_gain, noise)[:, 0])
        alternatives = [[] for _ in rows]
        further = np.setdiff1d(chosen.members[chosen.members >= 0], pools)
        activity = activity.joined(activity_of(trials, further), further)

    # 4. Put the members of each set in order: first those that may be evidence (see `is_evidence`),
    #    by the largest share, then by what they do alone.
    there = chosen.members >= 0
    idle = np.append(activity.has_idle_end(candidates.lengths), False)[chosen.members]
    behind = idle | ~counts(chosen.share) | ~there
    first = np.where(there, np.minimum(np.nan_to_num(chosen.share), 1.0).round(6), -np.inf)
    strength = np.where(there, trials.alone[chosen.members], -np.inf)
    order = np.lexsort((-strength, -first, behind), axis=1)
    best = np.where(sound, judged.worth, 0.0).max(1, initial=0.0)
    return _selection(
        trials, chosen, order, stand_in(trials.span, most_effect, most_gain),
        best=np.maximum(best, chosen.worth),
        largest=np.maximum(_highest(np.abs(effect)), _highest(np.abs(gain))),
        num_sets=chains.num_sets + (sets.valid & ~sets.single).astype(np.int64).sum(axis=1),
        activity=activity,
        alternatives=alternatives,
    )  # fmt: skip


def _preferred(trials: Trials, settings: Settings) -> Doubles:
    """Return Score(p) of each candidate, less what its facts lack in weight."""
    candidates, batch = trials.candidates, trials.work.batch
    if settings.prefer is None:
        return candidates.scores
    graph = trials.work.setup.graph
    weight = preference(graph, batch.edges, candidates, settings.prefer)
    found: Doubles = candidates.scores + weight
    return found


def select_all(trials: Trials) -> Selection:
    """Choose all candidates as they come, as for a ranking that measures nothing."""
    link, members = trials.candidates.link, all_members(trials.candidates)
    chosen = _as_given(trials, members)
    highest = [chosen.effect.copy(), chosen.gain.copy()]
    for values, single in zip(highest, (trials.alone, trials.gains), strict=True):
        np.maximum.at(values, link, single)
    found = members >= 0
    return _selection(
        trials, chosen, np.broadcast_to(np.arange(members.shape[1]), members.shape),
        stand_in(trials.span, *highest),
        best=chosen.worth,
        largest=np.maximum(np.abs(chosen.effect), np.abs(chosen.gain)),
        num_sets=np.where(found.any(1), 1, 0),
        activity=activity_of(trials, members[found]),
        alternatives=[[] for _ in members],
    )  # fmt: skip


def all_members(candidates: Candidates) -> Longs:
    """[num_links, most]: all candidates of each link as they come, -1 behind the last."""
    link, counted = candidates.link, np.diff(candidates.ptr)
    members = np.full((len(counted), max(int(counted.max(initial=0)), 1)), -1)
    members[link, np.arange(len(link)) - candidates.ptr[link]] = np.arange(len(link))
    return members


def _selection(
    trials: Trials,
    chosen: _Chosen,
    order: Longs,
    inserted: Bools,
    *,
    best: Doubles,
    largest: Doubles,
    num_sets: Longs,
    activity: Activity,
    alternatives: list[list[tuple[float, Longs]]],
) -> Selection:
    """The chosen sets, with their members in an order."""
    largest = largest.copy()
    for values in (trials.alone, trials.gains):
        np.maximum.at(largest, trials.candidates.link, np.abs(values))
    influence = np.where(inserted, chosen.gain, chosen.effect)
    rest = np.where(inserted[:, None], chosen.gain_without, chosen.effect_without)
    members, marginal, share, bundle = (
        np.take_along_axis(each, order, axis=1)
        for each in (chosen.members, influence[:, None] - rest, chosen.share, chosen.bundle)
    )
    return Selection(
        members, chosen.effect, chosen.gain, inserted, marginal, share, bundle, chosen.worth, best,
        largest, num_sets, activity, alternatives,
    )  # fmt: skip


def _as_given(trials: Trials, members: Longs) -> _Chosen:
    """What one set per link is worth on both sides, and without each of its members."""
    most, there = members.shape[1], members >= 0
    sets = np.repeat(members[:, None], most + 1, axis=1)
    sets[:, np.arange(1, most + 1), np.arange(most)] = -1
    values = np.zeros((2, *sets.shape[:2]))
    link, number = np.nonzero((sets >= 0).any(2))
    edits = trials.candidates.removal(link, sets[link, number])
    for side in (False, True):
        values[int(side), link, number] = trials.effects(edits, inserted=side)
    effect, gain = (np.where(there.any(1), side[:, 0], np.nan) for side in values)
    less, lost = (np.where(there, side[:, 1:], np.nan) for side in values)
    share = shares(effect, gain, less, lost, trials.work.setup.noise)
    unknown = np.full(len(members), np.nan)  # no other set is measured to compare with
    return _Chosen(members, effect, gain, less, lost, share, np.full(members.shape, -1), unknown)


_LONELY = -2


def _bundles(members: Longs, alone: Doubles, rest: Doubles, effect: Doubles, noise: float) -> Longs:
    """Per path of each set, the number of its bundle, -1 for none, -2 if it has no company.

    A path that speaks against the link when it is removed alone is shown only with the one that it
    needs: that without which the set loses most.
    """
    against = np.append(alone < -noise, False)[members] & (members >= 0)
    found = np.where(against, _LONELY, -1)
    lost = np.where(against | (members < 0), -np.inf, effect[..., None] - rest)
    partner = lost.argmax(2)
    has_partner = against.any(2) & (lost.max(2) > noise)
    row, number = np.nonzero(has_partner)
    together = against[row, number]
    together[np.arange(len(row)), partner[row, number]] = True
    found[row, number] = np.where(together, 1, found[row, number])
    return found


def _listed(judged: Sets, members: Longs, link: int, others: Bools) -> list[tuple[float, Longs]]:
    """The sets of a link as good as the chosen one, in the order of choice."""
    number = np.flatnonzero(others)
    keys = (-judged.score[link, number], judged.facts[link, number], judged.hubs[link, number])
    order = number[np.lexsort(keys)][:MOST_ALTERNATIVES]
    return [(float(judged.worth[link, i]), members[link, i][members[link, i] >= 0]) for i in order]


def _num_facts(trials: Trials, members: Longs) -> Longs:
    """[num_links, num_sets]: different facts of each set."""
    arcs = trials.candidates.arcs[members]
    walked = (members >= 0)[..., None] & (arcs >= 0)
    slots = np.where(walked, trials.work.paths.arc_slot[arcs], -1)
    graph, batch = trials.graphs.graph, trials.work.batch
    facts = np.where(walked, graph.fact[batch.edges[slots]], -1)
    return _num_different(facts.reshape(*facts.shape[:2], -1))


def _num_hubs(trials: Trials, members: Longs) -> Longs:
    """[num_links, num_sets]: different inner nodes of each set that are hubs."""
    graph, nodes = trials.graphs.graph, _inner_nodes(trials, members)
    head = np.maximum(nodes, 0)
    is_hub = graph.degree[head] > trials.work.setup.hub_bars[graph.node_type_of[head]]
    return _num_different(np.where((nodes >= 0) & is_hub, nodes, -1))


def _num_repeats(trials: Trials, members: Longs) -> Longs:
    """[num_links, num_sets]: inner nodes and metapaths that were on an earlier path of the set."""
    nodes = _inner_nodes(trials, members)
    paths, arcs = trials.work.paths, trials.candidates.arcs
    edges = trials.work.batch.edges[paths.arc_slot[arcs]]
    step = 2 * trials.graphs.graph.relation[edges].astype(np.int64) + paths.arc_reversed[arcs]
    _, metapath = np.unique(np.where(arcs >= 0, step, -1), axis=0, return_inverse=True)
    kinds = np.where(members >= 0, np.append(metapath.reshape(-1), -1)[members], -1)
    again: Longs = (nodes >= 0).sum(-1) - _num_different(nodes)
    again += (kinds >= 0).sum(-1) - _num_different(kinds)
    return again


def _inner_nodes(trials: Trials, members: Longs) -> Longs:
    """[num_links, num_sets, most * l_max]: the inner nodes of the paths of each set; -1: none."""
    paths = trials.work.paths
    arcs = trials.candidates.arcs[members]
    inner = (members >= 0)[..., None] & (arcs >= 0)
    inner &= np.where(inner, paths.arc_dst[arcs], 1) != 1  # position 1 is the target
    # Where an arc leads, by the position of its head among the nodes of its link.
    first = np.arange(len(members))[:, None, None, None]
    head = paths.nodes[np.where(inner, paths.node_ptr[first] + paths.arc_dst[arcs], 0)]
    nodes = np.where(inner, head, -1)
    return nodes.reshape(*nodes.shape[:2], -1)


def _num_different(values: Longs) -> Longs:
    """Along the last axis, the number of different values from 0 up."""
    ordered = np.sort(values, axis=-1)
    new = np.ones(ordered.shape, dtype=np.bool_)
    new[..., 1:] = ordered[..., 1:] != ordered[..., :-1]
    found: Longs = (new & (ordered >= 0)).sum(-1)
    return found


def _highest(values: Doubles) -> Doubles:
    """The highest finite value of each row; -inf where there is none."""
    found: Doubles = np.where(np.isfinite(values), values, -np.inf).max(1, initial=-np.inf)
    return found
