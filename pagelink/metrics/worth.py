"""What paths are worth to the model, from its logits on graphs that were really edited.

f(G) is the logit of the link on the graph, G0 the graph without any fact on a path from source to
target, P the facts of the returned paths. All functions are element by element, one number per
link; NaN where a figure is not defined or a logit is NaN, for `averages.average` to count. The
rules of sufficiency and connection are those of the verdict and stand in `measure.verdict`.

A rank is one more than the number of candidates with a higher logit, in a sample of targets from
which the known links of the source are left out. Both ranks of a link are taken in the same sample,
each on its own graph: all of it, and without the facts of the first m paths.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from pagelink.errors import GraphError, SettingsError
from pagelink.measure import verdict
from pagelink.metrics.averages import Answers, as_answers, filled, paired, ratio
from pagelink.runtime.arrays import Doubles


def effect(logits: npt.ArrayLike, without: npt.ArrayLike) -> Doubles:
    """Return the effect of removing sets of facts: ``f(G) - f(G without S)``.

    Of the facts of the returned paths, this is their necessity.

    Example:
        >>> effect([2.0, 1.0], [0.5, 1.25]).tolist()
        [1.5, -0.25]
    """
    before, after = _logits(logits, without)
    return before - after


def sufficiency(logits: npt.ArrayLike, bare: npt.ArrayLike, added: npt.ArrayLike) -> Doubles:
    """Return the share of what all paths are worth that the returned ones bring back alone.

    The rule is that of the verdict, `pagelink.measure.verdict.sufficiency`.

    Args:
        logits: f(G), one per link.
        bare: f(G0).
        added: f(G0 + P).

    Raises:
        GraphError: The lengths differ.

    Example:
        >>> sufficiency([3.0, 1.0], [1.0, 1.5], [2.5, 1.7]).tolist()
        [0.75, nan]
    """
    whole, without, back = _logits(logits, bare, added)
    return verdict.sufficiency(whole, without, back)


def pooled_sufficiency(
    logits: npt.ArrayLike, bare: npt.ArrayLike, added: npt.ArrayLike
) -> tuple[float, int]:
    """Return the sufficiency over all links for which it is defined, as one ratio of sums.

    ``sum of (f(G0 + P) - f(G0)) / sum of (f(G) - f(G0))`` over the links with a positive
    denominator, so that links with a tiny one do not drown the others.

    Args:
        logits: f(G), one per link.
        bare: f(G0).
        added: f(G0 + P); where nothing is returned, NaN or f(G0): nothing is brought back.

    Returns:
        The ratio, NaN if no link has a positive denominator; and the number of links that have
        none. These are to be shown beside it.

    Example:
        >>> pooled_sufficiency([3.0, 1.0, 5.0], [1.0, 1.5, 1.0], [2.5, 1.7, float("nan")])
        (0.25, 1)
    """
    whole, without, back = _logits(logits, bare, added)
    span, gain = whole - without, filled(back - without, unanswered=0.0)
    defined = span > 0
    share = ratio(gain[defined].sum(), span[defined].sum()).item()
    return share, int((~defined).sum())


def share_of_greedy(effects: Answers, greedy_effects: npt.ArrayLike) -> tuple[float, int]:
    """Return how much of the greedy search's effect the returned paths have, over all links.

    ``share = sum of effects / sum of greedy effects``: a ratio of sums, so that links on which
    next to nothing can be reached do not blow it up, and none has to be left out.

    The same holds for sufficiency, with what either set adds to G0, ``f(G0 + P) - f(G0)``, in the
    place of effects.

    Args:
        effects: Logit drop by removing the returned paths, one per link. None or NaN, for a link
            without an answer, counts as 0: nothing is removed.
        greedy_effects: Logit drop reached by the greedy search, one per link.

    Returns:
        The share, NaN if the sum of the greedy effects is not positive; and the number of links
        whose greedy effect is not positive.

    Raises:
        GraphError: The lengths differ.

    Example:
        >>> share_of_greedy([1.0, 0.5, None], [2.0, 0.5, -0.5])
        (0.75, 1)
    """
    values, over = paired(filled(effects, unanswered=0.0), greedy_effects)
    return ratio(values.sum(), over.sum()).item(), int((over <= 0).sum())


def probability_fidelity(
    logits: npt.ArrayLike, without: npt.ArrayLike, only: npt.ArrayLike
) -> tuple[Doubles, Doubles]:
    """Return both fidelities of an explanation, as differences of probabilities.

    With p = 1 / (1 + exp(-f))::

        fid+ = p(G) - p(G without P)      large: the paths are necessary
        fid- = p(G) - p(P and no other edge)    small: the paths are sufficient

    The sign is kept: a set of paths that speaks against the link has a negative fid+.

    Args:
        logits: f(G), one per link.
        without: f(G without P).
        only: f with the facts of P and no other edge.

    Returns:
        fid+ and fid-, each in -1..1.

    Example:
        >>> plus, minus = probability_fidelity([0.0], [-math.log(3)], [-math.log(4)])
        >>> plus.round(4).tolist(), minus.round(4).tolist()
        ([0.25], [0.3])
    """
    # By tanh: exp overflows for the large logits that some models give.
    whole, rest, alone = (0.5 + np.tanh(f / 2) / 2 for f in _logits(logits, without, only))
    return whole - rest, whole - alone


def characterisation(
    fid_plus: npt.ArrayLike,
    fid_minus: npt.ArrayLike,
    necessity_weight: float = 0.5,
    sufficiency_weight: float = 0.5,
) -> Doubles:
    """Return the characterisation score: necessary and sufficient, both in one number.

    The weighted harmonic mean of fid+ and 1 - fid- (Amara et al. 2022, GraphFramEx), which is
    large only if both are::

        charact = (w+ + w-) / (w+ / fid+ + w- / (1 - fid-))

    It is 0 where one of the two is 0, the limit of the formula. It is undefined, and NaN, where one
    is negative: a mean of that kind of support and opposition has no meaning (fid+ < 0 is common:
    the paths speak against the link; 1 - fid- < 0 cannot be). With equal weights it is at most 1.

    Args:
        fid_plus: fid+, as `fidelity` returns it, one per link.
        fid_minus: fid-.
        necessity_weight: w+, above 0.
        sufficiency_weight: w-, above 0.

    Raises:
        GraphError: The lengths differ.
        SettingsError: A weight is not positive.

    Example:
        >>> characterisation([0.25, -0.1], [0.25, 0.2]).tolist()
        [0.375, nan]
    """
    if not (necessity_weight > 0 and sufficiency_weight > 0):
        raise SettingsError(
            f"Both weights must be above 0, got {necessity_weight!r} and {sufficiency_weight!r}."
        )
    plus, minus = paired(fid_plus, fid_minus)
    kept = 1 - minus
    # Multiplied out: no division by zero where one of the two is 0, and the limit where it is.
    top = (necessity_weight + sufficiency_weight) * plus * kept
    score = ratio(top, necessity_weight * kept + sufficiency_weight * plus)
    score = np.where((plus == 0) & (kept == 0), 0.0, score)
    return np.where((plus >= 0) & (kept >= 0), score, math.nan)


def _logits(*of_links: npt.ArrayLike) -> list[Doubles]:
    first, *others = (as_answers(each) for each in of_links)
    return [first, *(paired(first, other)[1] for other in others)]


# Ranks: how far the target of a link falls among other targets without the paths.


def rank_drop(before: npt.ArrayLike, after: Answers) -> Doubles:
    """Return by how many places the target falls: ``rank after - rank before``.

    Args:
        before: Rank on the whole graph, one per link, 1 or more.
        after: Rank without the first m paths; None or NaN where there are no paths to remove.

    Returns:
        One number per link, negative where the target rises, NaN where there is no answer.

    Raises:
        GraphError: The lengths differ, or a rank is below 1.

    Example:
        >>> rank_drop([1, 4, 2], [6, 3, None]).tolist()
        [5.0, -1.0, nan]
    """
    first, then = _ranks(before, after)
    return then - first


def reciprocal_rank_drop(before: npt.ArrayLike, after: Answers) -> Doubles:
    """Return by how much the reciprocal rank falls: ``1 / rank before - 1 / rank after``.

    A fall from the first place counts, one from place 80 to place 90 hardly does. The mean over
    links is the mean reciprocal rank that the paths are worth.

    Args:
        before: Rank on the whole graph, one per link, 1 or more.
        after: Rank without the first m paths; None or NaN where there are no paths to remove.

    Returns:
        One number in -1..1 per link, NaN where there is no answer.

    Raises:
        GraphError: The lengths differ, or a rank is below 1.

    Example:
        >>> reciprocal_rank_drop([1, 4, 2], [5, 2, None]).tolist()
        [0.8, -0.25, nan]
    """
    first, then = _ranks(before, after)
    return 1 / first - 1 / then


def falls_out(before: npt.ArrayLike, after: Answers, first: int) -> Doubles:
    """Return whether the target was among the first k and is no longer.

    ``1 if rank before <= k < rank after else 0``; NaN where there is no answer.

    Args:
        before: Rank on the whole graph, one per link, 1 or more.
        after: Rank without the first m paths; None or NaN where there are no paths to remove.
        first: k.

    Raises:
        GraphError: The lengths differ, or a rank is below 1.

    Example:
        >>> falls_out([1, 4, 2], [6, 9, None], first=3).tolist()
        [1.0, 0.0, nan]
    """
    was, then = _ranks(before, after)
    fell = np.where((was <= first) & (then > first), 1.0, 0.0)
    return np.where(np.isnan(was) | np.isnan(then), np.nan, fell)


def _ranks(before: npt.ArrayLike, after: Answers) -> tuple[Doubles, Doubles]:
    first, then = paired(before, np.asarray(after, dtype=np.float64))
    too_low = [rank for rank in (*first, *then) if rank < 1]
    if too_low:
        raise GraphError(f"Ranks count from 1, got {min(too_low):g}.")
    return first, then
