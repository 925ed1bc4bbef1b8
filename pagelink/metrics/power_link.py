"""The metrics of Power-Link by their names: Fidelity+, Fidelity-, sparsity of a mask, HdR.

From the released code of Chang, Ye, Lopez-Avila, Du and Li, "Path-based Explanation for Knowledge
Graph Completion" (KDD 2024), so that its tables can be read beside ours. They differ from ours in
that masks are soft (messages are weighted, no fact is removed), and in that a change of the score
counts by its size, whichever way it goes: an explanation that speaks against the link is as good as
one that supports it. `probability_fidelity`, `effect` and `rank_drop` keep the sign.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from pagelink.errors import GraphError
from pagelink.metrics.averages import Answers, paired
from pagelink.metrics.worth import rank_drop
from pagelink.runtime.arrays import Doubles


def fidelity_plus(probability: npt.ArrayLike, masked_out: Answers) -> Doubles:
    """Return Fidelity+ of each link: ``|p(G) - p(G weighted by 1 - mask)|``; high is good.

    Args:
        probability: p(G), one per link.
        masked_out: The probability with every message weighted by 1 less its mask; pruned edges
            have mask 0. None or NaN: no answer.

    Returns:
        One number in 0..1 per link, NaN without an answer. The figure of a table is their mean.

    Raises:
        GraphError: The lengths differ, or a number is not a probability.

    Example:
        >>> fidelity_plus([0.75, 0.5], [0.25, 0.75]).tolist()
        [0.5, 0.25]
    """
    return _change(probability, masked_out)


def fidelity_minus(probability: npt.ArrayLike, masked: Answers) -> Doubles:
    """Return Fidelity- of each link: ``|p(G) - p(G weighted by mask)|``; low is good.

    Args:
        probability: p(G), one per link.
        masked: The probability with every message weighted by its mask; pruned edges have mask 0.

    Returns:
        One number in 0..1 per link, NaN without an answer.

    Raises:
        GraphError: The lengths differ, or a number is not a probability.

    Example:
        >>> fidelity_minus([0.75, 0.5], [0.625, None]).tolist()
        [0.125, nan]
    """
    return _change(probability, masked)


def _change(before: npt.ArrayLike, after: Answers) -> Doubles:
    first, then = paired(before, np.asarray(after, dtype=np.float64))
    for value in (*first.tolist(), *then.tolist()):
        if not (math.isnan(value) or 0 <= value <= 1):
            raise GraphError(f"Probabilities are from 0 to 1, got {value:g}.")
    found: Doubles = np.abs(first - then)
    return found


def mask_sparsity(mask: npt.ArrayLike) -> float:
    """Return the sparsity of a soft mask: ``1 - mean of the mask``, pruned edges being 0.

    Pruning alone raises it. NaN for a link without edges.

    Example:
        >>> mask_sparsity([0.5, 0.25, 0.0, 0.0])
        0.8125
    """
    values = np.asarray(mask, dtype=np.float64)
    return 1 - float(values.mean()) if len(values) else math.nan


def unfiltered_rank(score: float, scores: npt.ArrayLike) -> int:
    """Return the rank of a target among all targets, known links included, as Power-Link counts it.

    The number of targets whose score is at least as high, or equal but for rounding (a relative
    difference of 1e-5); the target itself is one of them.

    Args:
        score: Of the target.
        scores: Of all targets, the target itself included.

    Example:
        >>> unfiltered_rank(2.0, [3.0, 2.0, 2.000001, 1.0])
        3
    """
    every = np.asarray(scores, dtype=np.float64)
    return int(((every > score) | np.isclose(every, score)).sum())


def hdr(before: npt.ArrayLike, after: Answers) -> Doubles:
    """Return HdR, whether the rank of each link gets worse without its first paths.

    ``1 if rank after > rank before else 0``. The figure of a table, HdR:m, is the mean over links
    for the first m paths: the share of links that a removal makes worse, by however little.

    Args:
        before: `unfiltered_rank` on the whole graph, one per link.
        after: The same without the facts of the first m paths; None or NaN without an answer.

    Raises:
        GraphError: The lengths differ, or a rank is below 1.

    Example:
        >>> hdr([1, 4, 2], [2, 3, None]).tolist()
        [1.0, 0.0, nan]
    """
    drop = rank_drop(before, after)
    found: Doubles = np.where(np.isnan(drop), np.nan, np.where(drop > 0, 1.0, 0.0))
    return found
