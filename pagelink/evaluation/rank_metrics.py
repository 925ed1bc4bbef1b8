"""How far the target of a link falls among other targets when paths are taken from the graph.

A rank is one more than the number of candidates with a higher logit, in a sample of targets from
which the known links of the source are left out. Both ranks of a link are taken in the same sample,
each on its own graph: all of it, and without the facts of the first m paths.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from pagelink.errors import GraphError
from pagelink.evaluation.averages import Answers, paired

Floats = npt.NDArray[np.float64]


def rank_drop(before: npt.ArrayLike, after: Answers) -> Floats:
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


def reciprocal_rank_drop(before: npt.ArrayLike, after: Answers) -> Floats:
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


def falls_out(before: npt.ArrayLike, after: Answers, first: int) -> Floats:
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


def _ranks(before: npt.ArrayLike, after: Answers) -> tuple[Floats, Floats]:
    first, then = paired(before, np.asarray(after, dtype=np.float64))
    too_low = [rank for rank in (*first, *then) if rank < 1]
    if too_low:
        raise GraphError(f"Ranks count from 1, got {min(too_low):g}.")
    return first, then
