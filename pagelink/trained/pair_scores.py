"""Scores of many vectors by many queries, and the gradient by the vectors, without autograd.

Products and distances by the norm 2 are matrix products. Distances by the norm 1 are not; kernels
compute them, and what pulls along them, several times faster than torch's `cdist` and its gradient.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from pagelink.runtime.kernels import kernel
from pagelink.trained.embeddings import EmbeddingModel

SLIGHT = 1e-5
"""A pull that is not worth its time: a fact pulls by up to 1."""
Found = Any
"""Arrays in a kernel."""


def pair_scores(model: EmbeddingModel, ends: Tensor, query: Tensor) -> Tensor:
    """Return the scores of vectors [t, n, size] by queries [t, m, size], [t, n, m].

    Args:
        model: says how a score is made.
        ends: vectors.
        query: see `EmbeddingModel.query`.
    """
    if not model.is_distance:
        return torch.bmm(ends, query.mT).add_(model.offset)
    if model.norm == 1:
        far = torch.zeros(len(ends), ends.shape[1], query.shape[1])
        _add_distances(_plain(ends), _plain(query.mT), far.numpy())
    else:
        squares = ends.square().sum(-1)[..., None] + query.square().sum(-1)[:, None]
        far = torch.baddbmm(squares, ends, query.mT, alpha=-2).clamp_(min=1e-12).sqrt_()
    return far.neg_().add_(model.offset)


def pulled(
    model: EmbeddingModel, ends: Tensor, query: Tensor, by_score: Tensor, scores: Tensor
) -> Tensor:
    """Return the gradient by the vectors, [t, n, size], given that by their scores.

    Args:
        model: says how a score is made.
        ends: vectors.
        query: the queries.
        by_score: gradient by the scores, [t, n, m]; may be overwritten.
        scores: those of `pair_scores`; may be overwritten.
    """
    if not model.is_distance:
        return torch.bmm(by_score, query)
    if model.norm == 1:
        found = torch.zeros_like(ends, memory_format=torch.contiguous_format)
        _add_signs(_plain(ends), _plain(query), _plain(by_score), found.numpy())
        return found
    by_score = by_score.div_(scores.sub_(model.offset).neg_())
    return torch.bmm(by_score, query) - by_score.sum(-1)[..., None] * ends


def _plain(given: Tensor) -> Any:
    return given.contiguous().numpy()


@kernel
def _add_distances(ends: Found, query: Found, far: Found) -> None:
    """Add |ends - query| by the norm 1; queries with their entries first, [t, size, m]."""
    size, count = query.shape[1:]
    fours = size - size % 4
    for t in range(ends.shape[0]):
        for n in range(ends.shape[1]):
            # Over queries, not over entries: each has its own sum, so several are done at once.
            # By four entries: sums are read and written less often.
            for i in range(0, fours, 4):
                one, two = ends[t, n, i], ends[t, n, i + 1]
                three, four = ends[t, n, i + 2], ends[t, n, i + 3]
                for m in range(count):
                    far[t, n, m] += (
                        np.abs(one - query[t, i, m]) + np.abs(two - query[t, i + 1, m])
                    ) + (np.abs(three - query[t, i + 2, m]) + np.abs(four - query[t, i + 3, m]))
            for i in range(fours, size):
                for m in range(count):
                    far[t, n, m] += np.abs(ends[t, n, i] - query[t, i, m])


@kernel
def _add_signs(ends: Found, query: Found, by_score: Found, found: Found) -> None:
    """Add the gradient of minus the distance by the norm 1.

    A score pulls by +1 where the query is larger, else by -1: twice the first, less all.
    """
    count, size = query.shape[1:]
    fours, nothing = count - count % 4, np.float32(0)
    for t in range(ends.shape[0]):
        for n in range(ends.shape[1]):
            total = nothing
            for m in range(0, fours, 4):
                one, two = by_score[t, n, m], by_score[t, n, m + 1]
                three, four = by_score[t, n, m + 2], by_score[t, n, m + 3]
                if abs(one) + abs(two) + abs(three) + abs(four) > SLIGHT:
                    total += (one + two) + (three + four)
                    for i in range(size):
                        end = ends[t, n, i]
                        found[t, n, i] += (
                            (one if query[t, m, i] > end else nothing)
                            + (two if query[t, m + 1, i] > end else nothing)
                        ) + (
                            (three if query[t, m + 2, i] > end else nothing)
                            + (four if query[t, m + 3, i] > end else nothing)
                        )
            for m in range(fours, count):
                total += by_score[t, n, m]
                for i in range(size):
                    is_larger = query[t, m, i] > ends[t, n, i]
                    found[t, n, i] += by_score[t, n, m] if is_larger else nothing
            for i in range(size):
                found[t, n, i] = 2 * found[t, n, i] - total
