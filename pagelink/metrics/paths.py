"""Metrics of the paths of one link: against labelled ones, their shape and their stability.

Two paths are the same if their steps agree in order. For precision and recall, a step can be
anything that tells edges apart, facts for example.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable, Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import numpy.typing as npt

from pagelink.errors import GraphError, SettingsError
from pagelink.metrics.averages import Answers, Average, average

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


# What a set of paths looks like, and how alike two of them are: no model, no labels.
#
# A path is a sequence of facts, named by anything that tells facts apart. A link without paths has
# no length, no sparsity and no diversity: it is NaN here, and `averages.average` counts it.


def sparsity(paths: Iterable[Iterable[Hashable]], unpruned: Iterable[Hashable]) -> float:
    """Return how much of what pruning left the explanation does without.

    ``1 - |facts of the paths| / |unpruned facts|``. A fact on two paths counts once.

    Args:
        paths: The paths of the explanation.
        unpruned: The facts of the computation graph that pruning left.

    Returns:
        A number in 0..1; NaN if there are no paths: saying nothing is not being concise.

    Raises:
        GraphError: A fact of a path is not among the unpruned ones.

    Example:
        >>> sparsity([(1, 2, 3), (1, 4)], unpruned=range(10))
        0.6
    """
    shown, left = frozenset(fact for path in paths for fact in path), frozenset(unpruned)
    if not shown <= left:
        raise GraphError(
            f"Paths must consist of unpruned facts, {len(shown - left)} of {len(shown)} are not."
        )
    return 1 - len(shown) / len(left) if shown else math.nan


def mean_length(paths: Iterable[Sequence[Hashable]]) -> float:
    """Return the mean number of facts of the paths of a link.

    ``sum of |p| / number of paths``; NaN if there are no paths.

    Example:
        >>> mean_length([(1, 2, 3), (4,), (5, 6, 7)]) == 7 / 3
        True
    """
    return _mean([len(path) for path in paths])


def mean_log_degree(degrees: Iterable[Iterable[int]]) -> float:
    """Return the mean of log D_v over the inner nodes of the paths of a link.

    ``sum over paths and their inner nodes of log D_v / number of these nodes``. The ends of the
    link are on every path and say nothing; a node on two paths counts twice.

    Args:
        degrees: Per path, the degrees of its inner nodes in the whole graph.

    Returns:
        A number from 0 up; NaN if no path has an inner node.

    Raises:
        GraphError: A degree is below 1: a node on a path has a fact.

    Example:
        >>> mean_log_degree([(1, 4), ()]) == math.log(4) / 2
        True
    """
    every = [degree for path in degrees for degree in path]
    if every and min(every) < 1:
        raise GraphError(f"The degree of a node on a path must be at least 1, got {min(every)}.")
    return _mean([math.log(degree) for degree in every])


def jaccard(first: Iterable[Hashable], second: Iterable[Hashable]) -> float:
    """Return the overlap of two sets: ``|A & B| / |A | B|``, NaN if both are empty.

    Example:
        >>> jaccard("abc", "bcd")
        0.5
    """
    one, other = set(first), set(second)
    either = one | other
    return len(one & other) / len(either) if either else math.nan


def diversity(paths: Iterable[Sequence[Hashable]]) -> float:
    """Return how little the paths of a link share.

    The mean of ``1 - |p & q| / |p | q|`` over all pairs of paths, each as the set of its facts:
    0 if they are all the same, 1 if no two share a fact.

    Args:
        paths: The paths of the explanation, none of them empty.

    Returns:
        A number in 0..1; NaN for fewer than two paths.

    Raises:
        GraphError: A path is empty.

    Example:
        The first two share one of three facts, the third shares nothing.

        >>> round(diversity([(1, 2), (2, 3), (4, 5)]), 4)
        0.8889
    """
    every = list(paths)
    if not all(every):
        raise GraphError("A path must have facts, got an empty one.")
    return _mean([1 - jaccard(one, other) for one, other in combinations(every, 2)])


def num_distinct(paths: Iterable[Iterable[Hashable]]) -> float:
    """Return the number of different things on the paths of a link.

    ``|union over paths|``. Of inner nodes, it says how many intermediates a reader gets to see; of
    metapaths (one per path, as in ``[(m,) for m in metapaths]``) how many kinds of reasons.

    Args:
        paths: Per path, its inner nodes, its metapath, or anything else that can be compared.

    Returns:
        A whole number; NaN if there are no paths.

    Example:
        >>> num_distinct([("Alien", "Ridley Scott"), ("Alien",), ()])
        2.0
    """
    every = list(paths)
    return float(len({one for path in every for one in path})) if every else math.nan


def stability(runs: Sequence[Collection[Hashable] | None]) -> float:
    """Return how alike the paths of a link are in several runs.

    The mean of ``|P & Q| / |P | Q|`` over all pairs of runs, P and Q the sets of paths they return.
    Runs with other explainer seeds say how much of an explanation is chance; runs on retrained
    models say how much of it belongs to this one model. The two are never mixed in one figure.

    Args:
        runs: Per run, the paths it returns for the link, two or more runs. None is a run without an
            answer, the same as no paths. Two runs without paths share no path: such a pair counts
            as 0, so that a link is not called stable for being answered rarely.

    Returns:
        A number in 0..1; NaN if no run returns a path.

    Raises:
        SettingsError: There are fewer than two runs.

    Example:
        Of three pairs of runs, one has one path of three in common, the others none.

        >>> stability([{"p", "q"}, {"q", "r"}, None]) == (1 / 3) / 3
        True
    """
    if len(runs) < 2:
        raise SettingsError(f"Stability needs two runs or more, got {len(runs)}.")
    returned = [frozenset(run or ()) for run in runs]
    if not any(returned):
        return math.nan
    return _mean([jaccard(p, q) if p or q else 0.0 for p, q in combinations(returned, 2)])


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values)) if values else math.nan
