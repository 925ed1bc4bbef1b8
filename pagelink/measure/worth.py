"""What sets of paths are worth, on both sides, and the one list by which one of them is chosen."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pagelink.measure.verdict import EVIDENCE
from pagelink.runtime.arrays import Bools, Doubles, Longs

EQUALLY_GOOD = 0.05
"""Sets are as good as the chosen one if their worth differs by at most this share of its worth."""


def worths(
    effect: Doubles, gain: Doubles, most_effect: Doubles, most_gain: Doubles, noise: float
) -> Doubles:
    """Return what sets are worth, 0..1: the harmonic mean of effect and gain, as shares.

    Each is a share of the largest that was found for the link, cut to 0..1. If no set of the link
    has a noticeable gain, worth is the share of the effect alone, and the other way round.

    Args:
        effect: by removal from G, of sets of a link in a row.
        gain: by insertion into G0.
        most_effect: per link, the largest effect of any set.
        most_gain: per link, the largest gain.
        noise: tau.

    Example:
        >>> worths(np.array([[1.0, 2.0]]), np.array([[4.0, 1.0]]), np.array([2.0]),
        ...        np.array([4.0]), 0.01).round(3).tolist()
        [[0.667, 0.4]]
        >>> worths(np.array([[1.0]]), np.array([[-1.0]]), np.array([2.0]), np.array([-1.0]), 0.01)
        array([[0.5]])
    """
    n, g = _share(effect, most_effect, noise), _share(gain, most_gain, noise)
    both = n + g
    mean = np.divide(2 * n * g, both, out=np.zeros_like(both), where=both > 0)
    no_gain, no_effect = most_gain[:, None] <= noise, most_effect[:, None] <= noise
    found: Doubles = np.where(no_gain, n, np.where(no_effect, g, mean))
    return found


def _share(value: Doubles, most: Doubles, noise: float) -> Doubles:
    bound = np.where(most > noise, most, np.inf)[:, None]
    known = np.where(np.isfinite(value), value, 0.0)
    found: Doubles = np.clip(known / bound, 0.0, 1.0)
    return found


def shares(
    effect: Doubles, gain: Doubles, effect_without: Doubles, gain_without: Doubles, noise: float
) -> Doubles:
    """Return the share of each path in its set: the larger of those by removal and by insertion.

    Args:
        effect: of each set.
        gain: of each set.
        effect_without: of each set without each of its paths, along one further axis.
        gain_without: the same of the gain.
        noise: tau; a side on which the set does not count says nothing.

    Example:
        >>> shares(np.array([2.0]), np.array([4.0]), np.array([[2.0, 1.0]]),
        ...        np.array([[1.0, 4.0]]), 0.01).tolist()
        [[0.75, 0.5]]
    """
    found = np.zeros(effect_without.shape)
    for whole, rest in ((effect, effect_without), (gain, gain_without)):
        counts = np.isfinite(whole) & (whole > noise)
        size = np.where(counts, whole, 1.0)[..., None]
        share = np.where(counts[..., None], (size - rest) / size, 0.0)
        found = np.fmax(found, share)
    return np.where(np.isnan(effect_without), np.nan, found)


@dataclass(frozen=True)
class Sets:
    """Sets of paths of some links, [num_links, num_sets] each, and what the choice looks at."""

    valid: Bools
    worth: Doubles
    effect: Doubles
    is_sound: Bools
    """Every path adds to the others, and none that speaks against the link stands for itself."""
    is_active: Bools
    """No fact is idle."""
    hubs: Longs
    facts: Longs
    score: Doubles
    """The sum of Score(p)."""
    repeats: Longs | None = None
    """Inner nodes and metapaths that an earlier path of the set has; None: they do not count."""


def eligible(sets: Sets, rho: float, noise: float) -> Bools:
    """Return the sets to choose from: sound ones that reach rho of the best worth.

    Those with an idle fact are out, unless all of them have one. Where no set is worth anything,
    those that speak least against the link, within the noise, are shown as what they are.
    """
    sound: Bools = sets.valid & sets.is_sound & (sets.worth > 0)
    allowed = np.where(sound.any(1, keepdims=True), sound, sets.valid)
    best = np.where(allowed, sets.worth, 0.0).max(1, initial=0.0, keepdims=True)
    least = np.where(allowed, sets.effect, -np.inf).max(1, initial=-np.inf, keepdims=True)
    reach = np.where(best > 0, sets.worth >= rho * best, sets.effect >= least - noise)
    found: Bools = allowed & reach
    active: Bools = found & sets.is_active
    return np.where(active.any(1, keepdims=True), active, found)


def most_concise(sets: Sets, among: Bools) -> Longs:
    """Return, per link, the set with the fewest hubs, then the fewest facts, then the best Score.

    If repeats count, the fewest of them come before facts: paths that share inner nodes share
    facts, so that of sets with the fewest facts hardly any repeats less than the others.

    Args:
        sets: the sets.
        among: those to choose from; 0 where there is none.
    """
    for count in (sets.hubs, sets.repeats, sets.facts):
        if count is None:
            continue
        most = np.iinfo(np.int64).max
        fewest = np.where(among, count, most).min(1, initial=most)
        among = among & (count == fewest[:, None])
    found: Longs = np.argmax(np.where(among, sets.score, -np.inf), axis=1)
    return found


def equally_good(sets: Sets, among: Bools, place: Longs) -> Bools:
    """Return the other sets whose worth is within 5 % of that of the chosen one.

    Without idle facts, unless the chosen one has some itself.
    """
    chosen = np.take_along_axis(sets.worth, place[:, None], axis=1)
    active = np.take_along_axis(sets.is_active, place[:, None], axis=1)
    near = np.abs(sets.worth - chosen) <= EQUALLY_GOOD * chosen
    found: Bools = among & near & (chosen > 0) & (sets.is_active | ~active)
    found[np.arange(len(place)), place] = False
    return found


def counts(share: Doubles) -> Bools:
    """Return whether paths add enough to the others of their set to be evidence."""
    found: Bools = np.isnan(share) | (share >= EVIDENCE)
    return found
