"""Metrics of a mask over the edges of one link.

Edges are positions 0 .. n-1 in the unpruned computation graph of the link, both directions of a
fact apart. `scores` holds one number per position, larger for what the explainer holds more
important; edges that were pruned share the lowest score.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from pagelink.errors import GraphError

Floats = npt.NDArray[np.float64]


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
    scores = edge_scores(scores)
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
    scores = edge_scores(scores)
    positive, unpruned = np.asarray(positive, dtype=bool), np.asarray(unpruned, dtype=bool)
    if unpruned.shape != scores.shape or positive.shape != scores.shape:
        raise GraphError(
            f"There must be one label and one flag per edge: got {scores.size} scores, labels of "
            f"shape {positive.shape} and flags of shape {unpruned.shape}."
        )
    lost = int((positive & ~unpruned).sum())
    return mask_auc(scores[unpruned], positive[unpruned]), lost


def degree_only_mask(paths_in_order: Iterable[Iterable[int]], num_edges: int) -> Floats:
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


def edge_scores(scores: npt.ArrayLike) -> Floats:
    """Return one number per edge as an array; refuse NaN and other shapes."""
    checked = np.asarray(scores, dtype=np.float64)
    if checked.ndim != 1 or np.isnan(checked).any():
        raise GraphError(
            f"There must be one number per edge, got scores of shape {checked.shape} with "
            f"{int(np.isnan(checked).sum())} NaN. Edges without a score get the lowest one."
        )
    return checked
