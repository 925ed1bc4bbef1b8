"""What the returned paths are worth to the model: the rules, the verdict, and what it rests on.

f(G) is the logit of the link on the graph, G0 the graph without any fact on a path from source to
target. Each rule is written here once; the explainer, the rivals, the benchmarks, the checks, the
study and the pages use it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from pagelink.runtime.arrays import Bools, Doubles

Verdict = Literal[
    "structure_not_used", "structure_against", "not_by_these", "degree_only", "supported"
]
"""Of an explanation, the first that holds: no set of paths moves the score; without any path the
score is as high or higher; all paths together count, but none of the sets that may be returned
reaches a tenth of that; what counts is how much is known of an end, not what it is connected to;
the paths carry the prediction."""
VERDICTS: tuple[str, ...] = get_args(Verdict)
Ends = Literal["src", "dst", "both", "either"]
"""`either`: one of the two, or both; facts that join source and target directly do not tell."""
TENTH = 0.1
"""Paths that reach this share of what all paths do together carry the prediction."""
ONLY_DEGREE = 0.2
"""Only degrees count if what the facts lead to is at most this share of the influence."""
ONE_END = 0.8
"""An end counts by itself if its facts alone reach this share of the influence."""
EVIDENCE = 0.05
"""A path whose share of the set is below this, by removal and by insertion, is only context."""
LEAST_DRAWS = 5
"""With fewer swaps the degree control decides nothing."""


def stand_in(span: Doubles, removed: Doubles, added: Doubles) -> Bools:
    """Whether the paths of each link stand in for each other; influence is the gain then.

    Args:
        span: f(G) - f(G0).
        removed: the best effect of any set by removal from G.
        added: the best gain of any set by insertion into G0.

    Example:
        >>> removed, added = np.array([0.1, 2.0, 0.1]), np.array([3.0, 3.0, 0.3])
        >>> stand_in(np.full(3, 4.0), removed, added)
        array([ True, False, False])
    """
    bar = TENTH * span
    found: Bools = (span > 0) & (removed < bar) & (added >= bar)
    return found


def carry(span: Doubles, most: Doubles, noise: float) -> Bools:
    """Whether paths carry the prediction of each link.

    Args:
        span: f(G) - f(G0).
        most: the best effect or gain of some sets.
        noise: tau.

    Example:
        >>> carry(np.array([4.0, 4.0, -1.0]), np.array([0.5, 0.3, 0.5]), 0.01)
        array([ True, False, False])
    """
    found: Bools = (span > 0) & (most > noise) & (most >= TENTH * span)
    return found


def verdict_of(
    logit: float,
    without_paths: float,
    influence: float,
    largest: float,
    noise: float,
    control: DegreeControl | None = None,
) -> Verdict:
    """Return the verdict on a set of paths.

    Args:
        logit: f(G).
        without_paths: f(G0).
        influence: of the set, by removal or, where paths stand in for each other, by insertion.
        largest: the largest change of the score, either way, by any set that was measured.
        noise: tau, the largest change that is not noticed.
        control: what is lost when the facts of the set lead elsewhere; None: not measured.

    Example:
        >>> verdict_of(2.0, 1.0, influence=0.5, largest=0.6, noise=0.01)
        'supported'
        >>> verdict_of(2.0, 3.0, influence=0.5, largest=0.6, noise=0.01)
        'structure_against'
        >>> verdict_of(2.0, 1.0, influence=0.05, largest=0.6, noise=0.01)
        'not_by_these'
        >>> verdict_of(2.0, 2.0, influence=0.0, largest=0.0, noise=0.01)
        'structure_not_used'
        >>> verdict_of(2.0, 1.0, 0.5, 0.6, 0.01, DegreeControl(0.02, -0.03, 0.07, 20, 20))
        'degree_only'
    """
    span = logit - without_paths
    if max(abs(span), largest, abs(influence)) <= noise:
        return "structure_not_used"
    if span <= 0:
        return "structure_against"
    if influence <= noise or influence < TENTH * span:
        return "not_by_these"
    if control is not None and control.decides and control.high <= ONLY_DEGREE * influence:
        return "degree_only"
    return "supported"


def ends_of(influence: float, at_src: float, at_dst: float) -> Ends:
    """Return which end counts where only degrees do.

    Args:
        influence: of the set of paths.
        at_src: what is lost without the facts of the set at the source alone.
        at_dst: the same at the target.

    Example:
        >>> ends_of(2.0, 0.1, 1.9), ends_of(2.0, 1.2, 1.1)
        ('dst', 'both')
    """
    src, dst = at_src >= ONE_END * influence, at_dst >= ONE_END * influence
    if src == dst:
        return "both"
    return "src" if src else "dst"


def is_evidence(verdict: Verdict, share: float, active: Sequence[bool | None]) -> bool:
    """Whether a path counts as evidence: it has a share in a set that carries the prediction.

    Where only degrees count, no path does: any other facts would have done as well. Nor does a path
    whose first or last fact is idle: the model does not use that this end is connected to it.

    Args:
        verdict: on the set.
        share: of the path in it.
        active: whether each fact of the path is active; None: not known.
    """
    joins = active[0] is not False and active[-1] is not False
    return verdict in ("supported", "structure_against") and share >= EVIDENCE and joins


def end_of_all(active: Sequence[Sequence[bool | None]]) -> Ends | None:
    """Return the one end that counts, if the facts at the other are idle on every path.

    Args:
        active: per path, whether each of its facts is active; None: not known.

    Example:
        >>> end_of_all([(False, True), (False, True)]), end_of_all([(False, True), (True, True)])
        ('dst', None)
    """
    first, last = ({each[place] for each in active} for place in (0, -1))
    if first == {False} and False not in last:
        return "dst"
    return "src" if last == {False} and False not in first else None


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


def connection(effect: npt.ArrayLike, swapped: npt.ArrayLike) -> Doubles:
    """Return how much of a path's effect is due to its ends being connected by it.

    The share of its effect that is lost when only its inner facts, which touch neither source nor
    target, lead elsewhere; NaN where the path has no positive effect.

    Args:
        effect: the logit drop by removing the facts of the path, of one path or of several.
        swapped: the mean logit drop by swapping its inner facts.

    Example:
        >>> connection([2.0, -1.0], [0.5, 0.5]).tolist()
        [0.25, nan]
    """
    whole, inner = np.asarray(effect, dtype=np.float64), np.asarray(swapped, dtype=np.float64)
    share = np.full(np.broadcast(whole, inner).shape, np.nan)
    np.divide(inner, whole, out=share, where=whole > 0)
    return share


@dataclass(frozen=True)
class DegreeControl:
    """What is lost when all facts of the returned paths lead elsewhere and all degrees stay.

    That is f(G) less the mean of f after swapping the facts with others of their kind, less the
    same for as many facts at source and target that lie on no path. Where influence is by
    insertion, f(G0 + P) takes the place of f(G). The interval is one of 95 %.
    """

    effect: float
    low: float
    high: float
    num_draws: int
    """Swaps of the facts of the paths."""
    num_placebo: int
    """Swaps of facts on no path; 0: there are no such facts, and nothing is taken off for them."""

    @property
    def decides(self) -> bool:
        """Whether there were enough swaps to tell."""
        return self.num_draws >= LEAST_DRAWS


PartName = Literal[
    "path_facts", "facts_near_src", "facts_near_dst", "facts_between",
    "features_src", "features_dst", "features_others",
]  # fmt: skip
PARTS: tuple[PartName, ...] = get_args(PartName)


@dataclass(frozen=True)
class Part:
    """A part of what the model sees of a link, and what the score loses without it.

    Facts are removed. Features (or embeddings) are those of random nodes of the same type and of
    similar degree instead.
    """

    name: PartName
    size: int
    """Facts or nodes of the part."""
    effect: float
    """f(G) less f without the part; of features, the mean over the draws."""
    error: float | None
    """The standard error of that mean; None for facts, whose effect is exact."""


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
    gain: float
    """How much the logit of G0 rises when the returned paths are added to it."""
    worth: float | None
    """Of the returned paths, 0..1: the harmonic mean of their effect and their gain, each as a
    share of the largest of any set that was measured; by one of the two where no set has a positive
    one of the other. None: no set speaks for the link, or no other set was measured."""
    rho_reached: float | None
    """Their worth as a share of the best worth of any set that may be returned; None: no worth."""
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
    num_sets: int
    """Sets of paths that were measured."""
    max_length: int
    """The number of facts of the longest paths that were looked at."""
    control: DegreeControl | None = None
    """Whether it matters what the facts lead to; None: not measured, or no swap is possible."""
    influence_error: float | None = None
    """The standard error of the influence, where it is a mean over random starts (models without
    messages); None: it is exact."""
    ends: Ends | None = None
    """Under `degree_only`, the end of which only the number of facts counts; `either` if every fact
    of the paths is at both ends, so that this is not known. Under `supported`, the end that
    counts by itself: on every returned path the fact at the other one is idle."""

    def to_dict(self) -> dict[str, Any]:
        """Return everything as a plain dict."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Evidence:
        """Return the evidence that `to_dict` gave."""
        control = values.get("control")
        made = None if control is None else DegreeControl(**control)
        return cls(**{**values, "control": made})
