"""Metrics of a mask over the edges of one link: ROC-AUC, and path hit rate with ties.

Edges are positions 0 .. n-1 in the unpruned computation graph of the link, both directions of a
fact apart. `scores` holds one number per position, larger for what the explainer holds more
important; edges that were pruned share the lowest score.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from pagelink.errors import GraphError, SettingsError
from pagelink.runtime.arrays import Doubles


def mask_auc(scores: npt.ArrayLike, positive: npt.ArrayLike) -> float:
    """Return the ROC-AUC of the mask of one link.

    The share of pairs (p, q) of a positive and a negative edge that the mask puts in order, where
    a tie is half in order::

        AUC = (#{scores[p] > scores[q]} + #{scores[p] == scores[q]} / 2) / (#positive * #negative)

    Args:
        scores: One number per edge of the unpruned computation graph, `[n]`.
        positive: Whether the edge lies on a ground-truth path as walked, `[n]`.

    Returns:
        A number in 0..1; NaN if there is no positive or no negative edge.

    Raises:
        GraphError: The lengths differ, or a score is NaN.

    Example:
        Of the four pairs, three are in order and one is tied.

        >>> mask_auc([0.9, 0.4, 0.4, 0.1], [True, True, False, False])
        0.875
    """
    scores = checked_scores(scores)
    positive = np.asarray(positive, dtype=bool)
    if positive.shape != scores.shape:
        raise GraphError(
            f"There must be one label per edge: got {scores.size} scores and "
            f"labels of shape {positive.shape}."
        )
    num_positive = int(positive.sum())
    num_negative = positive.size - num_positive
    if num_positive == 0 or num_negative == 0:
        return math.nan
    # Tied edges share the mean of the ranks they take up: that counts their pairs half.
    _, group, size = np.unique(scores, return_inverse=True, return_counts=True)
    rank = np.cumsum(size) - (size - 1) / 2
    in_order = rank[group][positive].sum() - num_positive * (num_positive + 1) / 2
    return float(in_order / (num_positive * num_negative))


def mask_auc_unpruned(
    scores: npt.ArrayLike, positive: npt.ArrayLike, unpruned: npt.ArrayLike
) -> tuple[float, int]:
    """Return the ROC-AUC of the mask among the edges that pruning left, and what it cost.

    `mask_auc` of the edges with a mask of their own. Pruned edges are nearly all negative and all
    come last, which alone lifts the AUC over all edges; this one has only what was learned in it.
    In return it does not see positives that were pruned: their number belongs beside it.

    Args:
        scores: One number per edge of the unpruned computation graph, `[n]`.
        positive: Whether the edge lies on a ground-truth path as walked, `[n]`.
        unpruned: Whether pruning left the edge, `[n]`.

    Returns:
        The AUC, NaN if no positive or no negative edge is left; and the number of positive edges
        that were pruned.

    Raises:
        GraphError: The lengths differ, or a score is NaN.

    Example:
        Two negatives were pruned, and being last they flatter the AUC over all edges.

        >>> scores, positive = [0.9, 0.4, 0.4, 0.1, 0.0, 0.0], [1, 0, 1, 0, 0, 0]
        >>> mask_auc(scores, positive)
        0.9375
        >>> mask_auc_unpruned(scores, positive, [1, 1, 1, 1, 0, 0])
        (0.875, 0)
    """
    scores = checked_scores(scores)
    positive, unpruned = np.asarray(positive, dtype=bool), np.asarray(unpruned, dtype=bool)
    if unpruned.shape != scores.shape or positive.shape != scores.shape:
        raise GraphError(
            f"There must be one label and one flag per edge: got {scores.size} scores, labels of "
            f"shape {positive.shape} and flags of shape {unpruned.shape}."
        )
    lost = int((positive & ~unpruned).sum())
    return mask_auc(scores[unpruned], positive[unpruned]), lost


def degree_only_mask(paths_in_order: Iterable[Iterable[int]], num_edges: int) -> Doubles:
    """Return the model-free mask: minus the rank of the first path that holds the edge.

    ``mask[e] = -min{i : e on path i}`` with the ranks 1, 2, ...; an edge on none of the K paths
    gets the lowest value, -(K + 1). With paths in the order of their degrees alone, this is what
    any explainer of a model has to be compared with.

    Args:
        paths_in_order: Paths, best first, each given by the positions of its edges.
        num_edges: Number of edges of the unpruned computation graph.

    Returns:
        One number per edge, `[num_edges]`.

    Raises:
        GraphError: A position is out of range.

    Example:
        >>> degree_only_mask([[0, 2], [2, 3]], num_edges=5).tolist()
        [-1.0, -3.0, -1.0, -2.0, -3.0]
    """
    paths = [list(path) for path in paths_in_order]
    mask = np.full(num_edges, -(len(paths) + 1.0))
    # From the last to the first, so that the first path that holds an edge has the last word.
    for rank in range(len(paths), 0, -1):
        edges = paths[rank - 1]
        if edges and not 0 <= min(edges) <= max(edges) < num_edges:
            raise GraphError(
                f"Edges of a path must be at positions from 0 to {num_edges - 1}, got {edges}."
            )
        mask[edges] = -rank
    return mask


def checked_scores(scores: npt.ArrayLike) -> Doubles:
    """Return one number per edge as an array; refuse NaN and other shapes."""
    checked = np.asarray(scores, dtype=np.float64)
    if checked.ndim != 1 or np.isnan(checked).any():
        raise GraphError(
            f"There must be one number per edge, got scores of shape {checked.shape} with "
            f"{int(np.isnan(checked).sum())} NaN. Edges without a score get the lowest one."
        )
    return checked


# Path hit rate: whether the best edges of a mask hold a whole ground-truth path, ties included.


_MOST_UNIONS = 2**15
_MONTE_CARLO_DRAWS = 100_000
_CELLS_AT_ONCE = 2_000_000


def path_hit(scores: npt.ArrayLike, paths: Iterable[Iterable[int]], budget: int) -> float:
    """Return the probability that the top `budget` edges hold all edges of a ground-truth path.

    Exactly B = `budget` edges are taken by score, all if there are fewer. Edges tied at the cut
    come in random order: with m edges tied there, r of which are taken, and T_i the tied edges of
    path i, for the paths that have no edge below the cut::

        hit = P(some T_i is taken)
            = sum over non-empty sets I of paths of (-1)^(|I|+1) * P(union of T_i, i in I, is taken)
        P(U is taken) = C(m - |U|, r - |U|) / C(m, r)

    The value is exact, unless more than 15 paths with no tied set inside another's make more than
    32,768 different unions. Then 100,000 random orders, the same ones at every call, estimate it
    (standard error at most 0.0016).

    Args:
        scores: One number per edge of the unpruned computation graph, `[n]`.
        paths: The ground-truth paths, each given by the positions of its edges.
        budget: B, the number of edges to take, 1 or more.

    Returns:
        A number in 0..1; 0 if there are no paths.

    Raises:
        GraphError: A score is NaN, a path is empty, or a position is out of range.
        SettingsError: The budget is less than 1.

    Example:
        The second edge is one of three that are tied for one place.

        >>> round(path_hit([0.9, 0.5, 0.5, 0.5, 0.1], [[0, 1]], budget=2), 4)
        0.3333
    """
    scores = checked_scores(scores)
    edge_sets = [frozenset(path) for path in paths]
    for edges in edge_sets:
        if not edges or min(edges) < 0 or max(edges) >= scores.size:
            raise GraphError(
                f"A path must have edges, at positions from 0 to {scores.size - 1}, "
                f"got {sorted(edges)}."
            )
    if budget < 1:
        raise SettingsError(f"budget must be at least 1, got {budget!r}.")
    if not edge_sets:
        return 0.0
    if budget >= scores.size:
        return 1.0

    cut = np.partition(scores, -budget)[-budget]
    taken = budget - int((scores > cut).sum())
    num_tied = int((scores == cut).sum())
    tied_sets = [
        frozenset(edge for edge in edges if scores[edge] == cut)
        for edges in edge_sets
        if all(scores[edge] >= cut for edge in edges)
    ]
    return _chance_of_one(_minimal(tied_sets), num_tied, taken)


def _minimal(sets: Iterable[frozenset[int]]) -> list[frozenset[int]]:
    """Leave out every set that contains another: it is taken only if the other one is, too."""
    minimal: list[frozenset[int]] = []
    for candidate in sorted(set(sets), key=lambda edges: (len(edges), sorted(edges))):
        if not any(kept <= candidate for kept in minimal):
            minimal.append(candidate)
    return minimal


def _chance_of_one(sets: list[frozenset[int]], num_tied: int, taken: int) -> float:
    """Return the probability that `taken` of `num_tied` edges contain at least one of the sets."""
    # Inclusion-exclusion. Sets of paths with the same union share a term, many terms cancel, and a
    # union of more than `taken` edges is never taken, so that this is far less than 2^sets terms.
    terms = {frozenset[int](): 1}
    for edges in sets:
        for union, sign in list(terms.items()):
            joined = union | edges
            if len(joined) <= taken:
                terms[joined] = terms.get(joined, 0) - sign
        terms = {union: sign for union, sign in terms.items() if sign}
        if len(terms) > _MOST_UNIONS:
            return _estimated_chance_of_one(sets, num_tied, taken)
    # Whole numbers up to the one division: nothing is rounded before, however large they are.
    orders = math.comb(num_tied, taken)
    missed = sum(
        sign * math.comb(num_tied - len(union), taken - len(union)) for union, sign in terms.items()
    )
    return (orders - missed) / orders


def _estimated_chance_of_one(sets: list[frozenset[int]], num_tied: int, taken: int) -> float:
    edges = sorted(frozenset().union(*sets))
    column = {edge: position for position, edge in enumerate(edges)}
    members = [[column[edge] for edge in edge_set] for edge_set in sets]
    rng = np.random.default_rng(0)
    at_once = max(1, _CELLS_AT_ONCE // len(edges))
    hits = 0
    for start in range(0, _MONTE_CARLO_DRAWS, at_once):
        draws = min(at_once, _MONTE_CARLO_DRAWS - start)
        # How many of the edges that matter are taken, then which: the others need no order.
        number = rng.hypergeometric(len(edges), num_tied - len(edges), taken, size=draws)
        order = rng.random((draws, len(edges))).argsort(axis=1).argsort(axis=1)
        is_taken = order < number[:, None]
        hit = np.zeros(draws, dtype=bool)
        for columns in members:
            hit |= is_taken[:, columns].all(axis=1)
        hits += int(hit.sum())
    return hits / _MONTE_CARLO_DRAWS
