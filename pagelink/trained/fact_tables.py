"""The facts of nodes as tables, and the gradient of the loss over them for many trials at once.

Scores of a node's facts are one matrix product for all trials that have the node, and so are
those of the facts of others for all nodes; gradients are written out, as they are matrix products,
too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from pagelink.trained.contrast import Contrast
from pagelink.trained.embeddings import EmbeddingModel
from pagelink.trained.pair_scores import pair_scores, pulled


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
    centre: Tensor
    """[m]: of the gate of each fact, see `contrast`."""
    width: Tensor
    inner: Tensor
    """[i, 3]: trial, fact and row of the other end, where that is trained anew, too."""


class TableGroup:
    """The tables of several nodes as one, filled up with rows and facts that count nothing."""

    def __init__(self, model: EmbeddingModel, tables: Sequence[FactTable]) -> None:
        most_rows = max(len(table.rows) for table in tables)
        most_facts = max(len(table.other) for table in tables)
        self._rows = torch.zeros(len(tables), most_rows, dtype=torch.long)
        self._is_real = torch.zeros_like(self._rows).bool()
        self._weight = torch.zeros(len(tables), most_rows, 1, most_facts)
        self._query = torch.zeros(len(tables), most_facts, model.nodes.shape[1])
        self._centre = torch.zeros(len(tables), 1, 1, most_facts)
        self._width = torch.ones_like(self._centre)
        for i, table in enumerate(tables):
            rows, facts = len(table.rows), len(table.other)
            self._rows[i, :rows], self._is_real[i, :rows] = table.rows, True
            self._weight[i, :rows, 0, :facts] = table.weight
            trial, fact, _ = table.inner.T
            self._weight[i, trial, 0, fact] = 0  # these are in `InnerFacts`
            self._query[i, :facts] = model.query(
                model.nodes[table.other], table.relation, table.is_head
            )
            self._centre[i, 0, 0, :facts], self._width[i, 0, 0, :facts] = table.centre, table.width

    def add_gradient(self, model: EmbeddingModel, vectors: Tensor, gradient: Tensor) -> None:
        """Add the gradient of the loss of the facts by the vectors of the nodes of the group."""
        tables, rows = self._rows.shape
        starts, size = vectors.shape[1:]
        mine = vectors[self._rows].reshape(tables, rows * starts, size)
        scores = pair_scores(model, mine, self._query)
        gate = _gate(scores.view(tables, rows, starts, -1), self._centre, self._width)
        by_score = gate.sub_(1).mul_(self._weight).view_as(scores)
        found = pulled(model, mine, self._query, by_score, scores)
        found = found.view(tables, rows, starts, size)[self._is_real]
        gradient.index_add_(0, self._rows[self._is_real], found)


class InnerFacts:
    """Facts between two nodes that are trained: they see the vectors of both.

    Each end learns from its own table.
    """

    def __init__(self, tables: Sequence[FactTable]) -> None:
        columns: list[list[Tensor]] = []
        for table in tables:
            trial, fact, row = table.inner.T
            columns.append(
                [table.rows[trial], row, table.relation[fact], table.is_head[fact],
                 table.centre[fact], table.width[fact], table.weight[trial, fact]]
            )  # fmt: skip
        own, partner, relation, is_head, *rest = map(torch.cat, zip(*columns, strict=True))
        self._own, self._partner, self._relation = own, partner, relation[:, None]
        self._is_head = is_head[:, None]
        self._centre, self._width, self._weight = (each[:, None] for each in rest)

    def add_gradient(self, model: EmbeddingModel, vectors: Tensor, gradient: Tensor) -> None:
        """Add the gradient of their loss by the vectors of both ends."""
        if not len(self._own):
            return
        ends, shape = vectors[self._own], (-1, vectors.shape[1])
        query = model.query(
            vectors[self._partner], self._relation.expand(shape), self._is_head.expand(shape)
        )
        gate = _gate(model.of_query(ends, query), self._centre, self._width)
        by_score = gate.sub_(1).mul_(self._weight)
        gradient.index_add_(0, self._own, by_score[..., None] * model.direction(ends, query))


class OtherFacts:
    """The facts of others, which push all nodes away.

    Args:
        contrast: what they are.
        nodes: the node of each vector.
        num_facts: the number of facts that each is trained on.
    """

    def __init__(self, contrast: Contrast, nodes: Tensor, num_facts: Tensor) -> None:
        self._query = contrast.query
        each, place = torch.unique(nodes, return_inverse=True)
        centre, width = contrast.of_others(each)
        self._centre = centre[:, place] if centre.shape[1] == len(each) else centre
        self._width = width
        self._weight = contrast.weight_of_others(nodes, num_facts)

    def add_gradient(self, model: EmbeddingModel, vectors: Tensor, gradient: Tensor) -> None:
        """Add the gradient of their loss by all vectors."""
        by_start = vectors.transpose(0, 1).contiguous()
        scores = pair_scores(model, by_start, self._query)
        by_score = _gate(scores, self._centre, self._width).mul_(self._weight)
        gradient += pulled(model, by_start, self._query, by_score, scores).transpose(0, 1)


def _gate(scores: Tensor, centre: Tensor, width: Tensor) -> Tensor:
    """How much of the training says that these scores are high; see `contrast`."""
    return (scores - centre).div_(width).sigmoid_()
