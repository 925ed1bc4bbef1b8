"""Returned paths against labelled ones.

Two paths are the same if their steps agree in order. For precision and recall, a step can be
anything that tells edges apart, facts for example.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pagelink.errors import GraphError, SettingsError
from pagelink.evaluation.averages import Answers, Average, average

Step = tuple[str, str, str, int, int]
"""One edge of a path as it is walked: (src_type, relation, dst_type, src_index, dst_index)."""


def labelled_in_first(
    paths: Sequence[Sequence[Step]], labelled: Iterable[Sequence[Step]], n: int
) -> bool:
    """Return whether one of the first n output paths is a ground-truth path.

    Two paths are the same if their steps agree in order: `paths[i] == labelled[j]` for some i < n.

    Args:
        paths: The paths of the explanation, best first, each a sequence of steps as walked.
        labelled: The ground-truth paths, as walked.
        n: How many output paths count, 1 or more.

    Raises:
        SettingsError: n is less than 1.

    Example:
        >>> buys, bought = ("user", "buys", "item", 3, 5), ("item", "rev_buys", "user", 5, 4)
        >>> again = ("user", "buys", "item", 4, 7)
        >>> labelled_in_first([[again], [buys, bought, again]], [(buys, bought, again)], n=1)
        False
        >>> labelled_in_first([[again], [buys, bought, again]], [(buys, bought, again)], n=2)
        True
    """
    if n < 1:
        raise SettingsError(f"n must be at least 1, got {n!r}.")
    known = {tuple(path) for path in labelled}
    return any(tuple(path) in known for path in paths[:n])


@dataclass(frozen=True)
class LabelledRates:
    """How often a labelled path was found, over two sets of links."""

    every: Average
    """Over all links."""
    supportable: Average
    """Over the links where some labelled path has a positive effect on the model."""


def labelled_rates(found: Answers, supportable: npt.ArrayLike) -> LabelledRates:
    """Return the share of links with a labelled path in the first n, over all and supportable ones.

    ::

        every       = sum of found / number of links
        supportable = sum of found where supportable / number of supportable links

    The model of a link that is not supportable gains nothing from any labelled path, so an
    explanation that is true of the model has no reason to return one.

    Args:
        found: `labelled_in_first` of each link, `[links]`. None or NaN, for a link without an
            answer, counts as not found.
        supportable: Whether some labelled path of the link has a positive effect, `[links]`.

    Returns:
        Both shares. NaN over no links.

    Raises:
        GraphError: The lengths differ.

    Example:
        >>> rates = labelled_rates([True, False, True, None], [True, True, False, True])
        >>> rates.every.value, round(rates.supportable.value, 3), rates.supportable.num_links
        (0.5, 0.333, 3)
    """
    hits, inside = np.asarray(found, dtype=np.float64), np.asarray(supportable, dtype=bool)
    if hits.ndim != 1 or hits.shape != inside.shape:
        raise GraphError(
            f"There must be one figure and one flag per link, got shapes {hits.shape} and "
            f"{inside.shape}."
        )
    return LabelledRates(average(hits, unanswered=0.0), average(hits[inside], unanswered=0.0))


def path_precision(
    returned: Iterable[Sequence[Hashable]], labelled: Iterable[Sequence[Hashable]]
) -> float:
    """Return the share of the returned paths of a link that are labelled.

    ``|R & L| / |R|`` with R the set of returned and L that of labelled paths.

    Returns:
        A number in 0..1; NaN if no path is returned.

    Example:
        >>> path_precision([(1, 2), (3,), (4, 5)], [(3,), (2, 1)]) == 1 / 3
        True
    """
    found, known = {tuple(path) for path in returned}, {tuple(path) for path in labelled}
    return len(found & known) / len(found) if found else math.nan


def path_recall(
    returned: Iterable[Sequence[Hashable]], labelled: Iterable[Sequence[Hashable]]
) -> float:
    """Return the share of the labelled paths of a link that are returned.

    ``|R & L| / |L|`` with R the set of returned and L that of labelled paths. With fewer paths in
    the budget than labels it cannot reach 1.

    Returns:
        A number in 0..1, 0 if no path is returned; NaN if none is labelled.

    Example:
        >>> path_recall([(1, 2), (3,), (4, 5)], [(3,), (2, 1)])
        0.5
    """
    return path_precision(labelled, returned)
