"""Which set of paths explains a link: concise, and of measured influence on the very model.

Effects are not additive, so whole sets are measured. All sets of a pool of candidates are: one half
of the pool are the best by Score, the other half the most influential alone. Among the sets that
reach rho of the best influence found, the most concise one is taken.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import combinations
from math import comb

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


@dataclass(frozen=True)
class Sets:
    """Sets of candidates, in order of their links."""

    link: Longs
    members: Longs
    """[num_sets, most], -1 behind the last."""


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
    sets = _sets(candidates, alone, most, settings.verified)
    larger = (sets.members[:, 1:] >= 0).any(1)
    effect = np.empty(len(sets.link))
    effect[~larger] = alone[sets.members[~larger, 0]]
    effect[larger] = logits[sets.link[larger]] - influence.logits(
        graph, candidates.removal(sets.link[larger], sets.members[larger])
    )
    num_links = len(logits)
    best = _largest(effect, sets.link, num_links)
    largest = _largest(np.abs(effect), sets.link, num_links)
    span = logits - logits_without_paths
    inserted = (span > 0) & (best < REDUNDANT * span) & np.isfinite(best)
    again = inserted[sets.link]
    if again.any():
        added = influence.logits(
            without_paths, candidates.removal(sets.link[again], sets.members[again])
        )
        effect[again] = added - logits_without_paths[sets.link[again]]
        best = np.where(inserted, _largest(effect, sets.link, num_links), best)
    chosen = _choose(sets, effect, best, candidates, settings.rho, most)
    return Selection(
        members=_most_influential_first(chosen[0], alone),
        influence=chosen[1],
        best=best,
        largest=largest,
        inserted=inserted,
        alone=alone,
        num_sets=np.bincount(sets.link, minlength=num_links),
    )


def _choose(
    sets: Sets, effect: Doubles, best: Doubles, candidates: Candidates, rho: float, most: int
) -> tuple[Longs, Doubles]:
    """Per link, the most concise set that reaches rho of the best; and its influence."""
    num_links = len(best)
    score = np.where(sets.members >= 0, candidates.scores[sets.members], 0.0).sum(1)
    # Where no set speaks for the link there is no evidence, and as with rho = 0 the paths are those
    # of the paper: the best by Score, as many as are wanted.
    paper = (best <= 0) | (rho == 0)
    ranked = _by_score(candidates, most)
    eligible = effect >= rho * best[sets.link]
    members = np.full((num_links, most), -1)
    influence = np.full(num_links, -np.inf)
    order = np.lexsort((-score, ~eligible, sets.link))
    first = np.searchsorted(sets.link[order], np.arange(num_links))
    has = first < len(order)
    has[has] = sets.link[order][first[has]] == np.flatnonzero(has)
    members[has], influence[has] = sets.members[order[first[has]]], effect[order[first[has]]]
    for i in np.flatnonzero(paper & has):
        members[i] = ranked[i]
        same = (sets.link == i) & (np.sort(sets.members, axis=1) == np.sort(ranked[i])).all(1)
        influence[i] = effect[np.flatnonzero(same)[0]]
    return members, influence


def _sets(candidates: Candidates, alone: Doubles, most: int, verified: int) -> Sets:
    """All sets of each link's pool, the single candidates outside of it, and the best by Score."""
    size = _pool_size(most, verified)
    ranked = _by_score(candidates, most)
    links, members = [], []
    for i in range(len(candidates.ptr) - 1):
        mine = np.arange(candidates.ptr[i], candidates.ptr[i + 1])
        if len(mine) == 0:
            continue
        pool = _pool(mine, candidates.scores[mine], alone[mine], size)
        singles = np.full((len(mine), most), -1)
        singles[:, 0] = mine
        larger = _subsets(len(pool), most)
        found = [singles, np.where(larger >= 0, pool[larger], -1)]
        if (ranked[i] >= 0).sum() > 1 and not np.isin(ranked[i], [*pool, -1]).all():
            found.append(ranked[i][None])
        members += found
        links.append(np.full(sum(len(part) for part in found), i))
    if not links:
        return Sets(np.empty(0, dtype=np.int64), np.empty((0, most), dtype=np.int64))
    return Sets(np.concatenate(links), np.concatenate(members))


def _by_score(candidates: Candidates, most: int) -> Longs:
    """Per link, its candidates of highest Score."""
    ranked = np.full((len(candidates.ptr) - 1, most), -1)
    order = np.lexsort((-candidates.scores, candidates.link))
    for i in range(len(ranked)):
        mine = order[candidates.ptr[i] : candidates.ptr[i + 1]][:most]
        ranked[i, : len(mine)] = mine
    return ranked


def _pool(mine: Longs, scores: Doubles, alone: Doubles, size: int) -> Longs:
    """Half of them the best by Score, half the most influential alone."""
    concise = mine[np.argsort(-scores, kind="stable")]
    strong = mine[np.argsort(-alone, kind="stable")]
    half = concise[: (size + 1) // 2]
    rest = strong[~np.isin(strong, half)]
    return np.concatenate([half, rest])[:size]


@cache
def _pool_size(most: int, verified: int) -> int:
    """The largest pool that has no more sets than may be measured."""
    size = 1
    while sum(comb(size + 1, k) for k in range(1, most + 1)) <= verified:
        size += 1
    return size


@cache
def _subsets(size: int, most: int) -> Longs:
    """All subsets of two and more of 0..size-1, -1 behind the last."""
    found = [
        [*chosen, *[-1] * (most - k)]
        for k in range(2, min(most, size) + 1)
        for chosen in combinations(range(size), k)
    ]
    return np.array(found, dtype=np.int64).reshape(len(found), most)


def _largest(values: Doubles, link: Longs, num_links: int) -> Doubles:
    largest = np.full(num_links, -np.inf)
    np.maximum.at(largest, link, values)
    return largest


def _most_influential_first(members: Longs, alone: Doubles) -> Longs:
    strength = np.where(members >= 0, alone[members], -np.inf) if len(alone) else members
    return np.take_along_axis(members, np.argsort(-strength, axis=1, kind="stable"), axis=1)
