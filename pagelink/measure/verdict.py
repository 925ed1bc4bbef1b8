"""What the returned paths are worth to the model: the rules, the verdict, and what it rests on.

f(G) is the logit of the link on the graph, G0 the graph without any fact on a path from source to
target. Each rule is written here once; the explainer, the rivals, the benchmarks, the checks, the
study and the pages use it.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from pagelink.runtime.arrays import Bools, Doubles

Verdict = Literal["supported", "structure_not_used", "structure_against", "not_by_these"]
"""Of an explanation: the paths carry the prediction; no set of paths moves the score; without any
path the score is as high or higher; all paths together carry the prediction, but not these."""
VERDICTS: tuple[str, ...] = get_args(Verdict)
REDUNDANT = 0.1
"""Paths stand in for each other if no set reaches this share of all of them by removal."""
STANDING_IN = 2.0
"""And if some set adds this many times what any takes away: else there are only very many paths."""


def may_stand_in(span: Doubles, removed: Doubles) -> Bools:
    """Whether removing any set shows so little of f(G) - f(G0) that insertion has to be tried."""
    found: Bools = (span > 0) & (removed < REDUNDANT * span)
    return found


def stand_in(span: Doubles, removed: Doubles, added: Doubles) -> Bools:
    """Whether the paths of each link stand in for each other; influence is by insertion then.

    Args:
        span: f(G) - f(G0).
        removed: the best effect of any set by removal from G.
        added: the best gain of any set by insertion into G0.

    Example:
        >>> removed, added = np.array([0.1, 2.0, 0.3]), np.array([3.0, 3.0, 0.4])
        >>> stand_in(np.full(3, 4.0), removed, added)
        array([ True, False, False])
    """
    found: Bools = may_stand_in(span, removed) & (added > STANDING_IN * removed)
    return found


def verdict_of(
    logit: float, without_paths: float, influence: float, largest: float, noise: float
) -> Verdict:
    """Return the verdict on a set of paths.

    Args:
        logit: f(G).
        without_paths: f(G0).
        influence: of the set, by removal or, where paths stand in for each other, by insertion.
        largest: the largest change of the score, either way, by any set that was measured.
        noise: tau, the largest change that is not noticed. One bar for all: a set of paths that
            moves the score by no more is not used, a path that adds no more is no evidence.

    Example:
        >>> verdict_of(2.0, 1.0, influence=0.5, largest=0.6, noise=0.01)
        'supported'
        >>> verdict_of(2.0, 3.0, influence=0.5, largest=0.6, noise=0.01)
        'structure_against'
        >>> verdict_of(2.0, 1.0, influence=-0.1, largest=0.6, noise=0.01)
        'not_by_these'
        >>> verdict_of(2.0, 2.0, influence=0.0, largest=0.0, noise=0.01)
        'structure_not_used'
    """
    if max(abs(logit - without_paths), largest, abs(influence)) <= noise:
        return "structure_not_used"
    if without_paths >= logit:
        return "structure_against"
    return "supported" if influence > noise else "not_by_these"


def is_evidence(verdict: Verdict, marginal: float, noise: float) -> bool:
    """Whether a path counts as evidence: it noticeably adds to the others, and some set counts."""
    return verdict not in ("structure_not_used", "not_by_these") and marginal > noise


def sufficiency(
    logit: npt.ArrayLike, bare: npt.ArrayLike, added: npt.ArrayLike, noise: float = 0.0
) -> Doubles:
    """Return the share of what all paths are worth that some of them bring back alone.

    ``(f(G0 + P) - f(G0)) / (f(G) - f(G0))``, NaN where the denominator is not above the noise:
    there the paths together do nothing or speak against the link, and no share of that is support.

    Args:
        logit: f(G), of one link or of several.
        bare: f(G0).
        added: f(G0 + P).
        noise: tau, the largest change that is not noticed.

    Example:
        >>> sufficiency([3.0, 1.0], [1.0, 1.5], [2.5, 1.7]).tolist()
        [0.75, nan]
    """
    whole, without, back = (np.asarray(a, dtype=np.float64) for a in (logit, bare, added))
    span = whole - without
    share = np.full(np.broadcast(span, back).shape, np.nan)
    np.divide(back - without, span, out=share, where=span > noise)
    return share


def connection(effect: float, control_effects: npt.ArrayLike) -> float:
    """Return how much more a path does than its two ends would with other partners.

    ``effect of the path - mean effect of its control pairs``; NaN if there are no control pairs.

    Args:
        effect: the logit drop by removing the facts of the path.
        control_effects: the logit drops by removing each control pair.

    Example:
        >>> connection(1.5, [0.25, 0.75])
        1.0
    """
    controls = np.asarray(control_effects, dtype=np.float64)
    return float(effect - controls.mean()) if controls.size else np.nan


@dataclass(frozen=True)
class Evidence:
    """What the returned paths are worth to the model, measured on graphs that were really edited.

    G is the graph with the explained link taken out, G0 is G without any fact that lies on a path
    of at most `max_length` facts from source to target.
    """

    verdict: Verdict
    influence: float
    """How much the returned paths together add to the logit: by removing their facts from G, or, if
    `inserted`, by adding them to G0."""
    inserted: bool
    """The paths stand in for each other, so that removing a few of them changes little: influence
    is what they add to G0."""
    logit_without_these: float
    """The logit on G without the facts of the returned paths."""
    logit_without_paths: float
    """The logit on G0."""
    logit_without_edges: float
    """The logit on a graph without any edge."""
    logit_only_these: float
    """The logit with the facts of the returned paths and no other edge."""
    sufficiency: float | None
    """The share of f(G) - f(G0) that the returned paths bring back when they are added to G0; None
    if that difference is not above the noise."""
    rho_reached: float | None
    """Influence as a share of the best influence of any set that was measured; None if none has a
    positive one."""
    num_sets: int
    """Sets of paths that were measured."""

    def to_dict(self) -> dict[str, Any]:
        """Return everything as a plain dict."""
        return asdict(self)
