"""The facts of nodes as tables, and the gradient of the loss over them for many trials at once.

Scores of a node's facts, true and random ones, are one matrix product for all trials that have the
node; gradients are written out, as they are matrix products, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from pagelink.trained.embeddings import EmbeddingModel


@dataclass(frozen=True)
class FactTable:
    """The facts of a node, and the trials that train it."""

    rows: Tensor
    """[n]: where its vectors are, per trial."""
    weight: Tensor
    """[n, m]: how much each fact counts, per trial."""
    other: Tensor
    """[m]: the other end of each fact."""
    relation: Tensor
    is_head: Tensor
    """The other end is the head."""
    negatives: Tensor
    """[m, k]: random ends in its place."""
    inner: Tensor
    """[i, 3]: trial, fact and row of the other end, where that is trained anew, too."""

    def queries(self, model: EmbeddingModel) -> Tensor:
        """[m, 1 + k, size]: what the facts, and random ones in their place, look for."""
        ends = model.nodes[torch.cat([self.other[:, None], self.negatives], 1)]
        relation = self.relation[:, None].expand(ends.shape[:2])
        return model.query(ends, relation, self.is_head[:, None].expand(ends.shape[:2]))


class TableGroup:
    """The tables of several nodes as one, filled up with rows and facts that count nothing."""

    def __init__(
        self, model: EmbeddingModel, tables: Sequence[FactTable], num_negatives: int
    ) -> None:
        most_rows = max(len(table.rows) for table in tables)
        most_facts = max(len(table.other) for table in tables)
        size = model.nodes.shape[1]
        self._rows = torch.zeros(len(tables), most_rows, dtype=torch.long)
        self._weight = torch.zeros(len(tables), most_rows, 1, most_facts)
        self._true = torch.zeros(len(tables), most_facts, size)
        self._random = torch.zeros(len(tables), most_facts * num_negatives, size)
        self._num_negatives, self._is_real = num_negatives, torch.zeros_like(self._rows).bool()
        self._correction = float(np.log(max(len(model.nodes) - 1, 1) / num_negatives))
        inner = []
        for i, table in enumerate(tables):
            rows, facts = len(table.rows), len(table.other)
            self._rows[i, :rows], self._is_real[i, :rows] = table.rows, True
            self._weight[i, :rows, 0, :facts] = table.weight
            query = table.queries(model)
            self._true[i, :facts] = query[:, 0]
            self._random[i, : facts * num_negatives] = query[:, 1:].reshape(-1, size)
            trial, fact, row = table.inner.T
            ends = table.rows[trial], row, table.relation[fact], table.is_head[fact]
            inner.append(torch.stack([torch.full_like(trial, i), trial, fact, *ends]))
        self._inner = torch.cat(inner, 1)

    def add_gradient(self, model: EmbeddingModel, vectors: Tensor, gradient: Tensor) -> None:
        """Add the gradient of the loss by the vectors of the nodes of the group."""
        tables, rows = self._rows.shape
        starts, size = vectors.shape[1:]
        mine = vectors[self._rows].reshape(tables, rows * starts, size)
        shape = (tables, rows, starts, -1)
        true, keep_true = _scores(model, mine, self._true)
        random, keep_random = _scores(model, mine, self._random)
        true, random = true.view(shape), random.view(*shape, self._num_negatives)
        # Facts between two nodes that are trained see the vectors of both. Each end learns from
        # its own table.
        table, trial, fact, own, partner, relation, is_head = self._inner
        at = table, trial, slice(None), fact
        by, heads = (each[:, None].expand(-1, starts) for each in (relation, is_head.bool()))
        query = model.query(vectors[partner], by, heads)
        if len(own):
            true[at] = model.of_query(vectors[own], query)
        true, random = self._loss_gradient(model, true, random)
        if len(own):
            pull = true[at][..., None] * model.direction(vectors[own], query)
            gradient.index_add_(0, own, pull)
            true[at] = 0
        found = _pulled(model, mine, self._true, true.reshape(tables, rows * starts, -1), keep_true)
        found += _pulled(
            model, mine, self._random, random.reshape(tables, rows * starts, -1), keep_random
        )
        found = found.view(tables, rows, starts, size)[self._is_real]
        gradient.index_add_(0, self._rows[self._is_real], found)

    def _loss_gradient(
        self, model: EmbeddingModel, true: Tensor, random: Tensor
    ) -> tuple[Tensor, Tensor]:
        """The gradient of the loss by the scores of facts and of random ones in their place."""
        loss, weight = model.loss, self._weight
        if loss.kind == "logistic":
            by_true = true.add_(loss.margin).neg_().sigmoid_().neg_().mul_(weight)
            by_random = random.add_(loss.margin).sigmoid_().mul_(weight[..., None])
            return by_true, by_random.div_(self._num_negatives)
        if loss.kind == "margin":
            close = (loss.margin - true[..., None] + random > 0).float()
            close.mul_(weight[..., None]).div_(self._num_negatives)
            return -close.sum(-1), close
        # As many random ends stand for all others.
        every = torch.cat([true[..., None], random.add_(self._correction)], -1).softmax(-1)
        every.mul_(weight[..., None])
        return every[..., 0] - weight, every[..., 1:]


def _scores(model: EmbeddingModel, ends: Tensor, query: Tensor) -> tuple[Tensor, Tensor]:
    """[t, n, m]: scores of vectors [t, n, size] by queries [t, m, size]; and the distances."""
    if not model.is_distance:
        scores = torch.bmm(ends, query.mT)
        return scores.add_(model.offset), scores
    if model.norm == 1:
        far = torch.cdist(ends, query, p=1.0)
    else:
        squares = ends.square().sum(-1)[..., None] + query.square().sum(-1)[:, None]
        far = torch.baddbmm(squares, ends, query.mT, alpha=-2).clamp_(min=1e-12).sqrt_()
    return model.offset - far, far


def _pulled(
    model: EmbeddingModel, ends: Tensor, query: Tensor, by_score: Tensor, far: Tensor
) -> Tensor:
    """The gradient by the vectors, given that by the scores."""
    if not model.is_distance:
        return torch.bmm(by_score, query)
    if model.norm == 1:
        found: Tensor = torch.ops.aten._cdist_backward(
            -by_score.contiguous(), ends.contiguous(), query.contiguous(), 1.0, far
        )
        return found
    by_score = by_score / far
    return torch.bmm(by_score, query) - by_score.sum(-1)[..., None] * ends
