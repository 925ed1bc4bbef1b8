"""Path hit rate: whether the best edges of a mask hold a whole ground-truth path, ties included.

Edges and scores are those of `pagelink.evaluation.mask_metrics`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from pagelink.errors import GraphError, SettingsError
from pagelink.evaluation.mask_metrics import edge_scores

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
    scores = edge_scores(scores)
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
