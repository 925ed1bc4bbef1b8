"""Heads that depend on the relation: DistMult, ComplEx and RotatE, of one end against many.

PyG's `torch_geometric.nn.kge` has the same scores for tables of embeddings; here the vectors come
from an encoder, and one end is scored against all nodes by one product of matrices.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn

from pagelink.models.link_model import one_of


class RelationHead(nn.Module, ABC):
    """Scores (head, relation, tail) from the vectors of the two ends.

    A query is what remains to be compared with the other end when one end and the relation are
    known: `compared(query(h, r), t)` and `compared(query(t, r, inverse=True), h)` are the same.

    Args:
        num_relations: the number of relations to predict.
        dim: length of a vector.
    """

    def __init__(self, num_relations: int, dim: int) -> None:
        super().__init__()
        self.relation = nn.Embedding(num_relations, dim)
        nn.init.xavier_normal_(self.relation.weight)

    @abstractmethod
    def query(self, known: Tensor, relation: Tensor, inverse: bool = False) -> Tensor:
        """Return the queries for the other ends, [num_queries, dim].

        Args:
            known: vectors of the known ends.
            relation: the relations, [num_queries].
            inverse: the known ends are tails, and heads are sought.
        """

    def compared(self, query: Tensor, other: Tensor) -> Tensor:
        """Return the logit of each query with the vector in the same row, [num_queries]."""
        return (query * other).sum(dim=-1)

    def against_all(self, query: Tensor, others: Tensor) -> Tensor:
        """Return the logits of each query with every vector, [num_queries, num_vectors]."""
        return query @ others.T

    def forward(self, src: Tensor, relation: Tensor, dst: Tensor) -> Tensor:
        """Return one logit per row."""
        return self.compared(self.query(src, relation), dst)


class DistMult(RelationHead):
    """The sum of h * r * t (Yang, Yih, He, Gao and Deng, ICLR 2015); the same both ways.

    Example:
        >>> head = DistMult(1, 2)
        >>> _ = nn.init.constant_(head.relation.weight, 2.0)
        >>> head(torch.tensor([[1.0, 2.0]]), torch.tensor([0]), torch.tensor([[3.0, 4.0]])).tolist()
        [22.0]
    """

    def query(self, known: Tensor, relation: Tensor, inverse: bool = False) -> Tensor:
        """Return the product of end and relation."""
        query: Tensor = known * self.relation(relation)
        return query


class ComplEx(RelationHead):
    """The real part of the sum of h * r * conj(t) (Trouillon et al., ICML 2016).

    The first half of a vector has the real parts, the second the imaginary ones.
    """

    def query(self, known: Tensor, relation: Tensor, inverse: bool = False) -> Tensor:
        """Return the complex product of end and relation."""
        return _product(known, self.relation(relation), inverse)


class RotatE(RelationHead):
    """A margin less the distance of the rotated head from the tail (Sun et al., ICLR 2019).

    The distance is Euclidean, as in PyG. A relation is an angle per complex number.
    """

    def __init__(self, num_relations: int, dim: int) -> None:
        super().__init__(num_relations, dim // 2)
        nn.init.uniform_(self.relation.weight, 0, 2 * math.pi)
        self.margin = nn.Parameter(torch.tensor(6.0))

    def query(self, known: Tensor, relation: Tensor, inverse: bool = False) -> Tensor:
        """Return the rotated head, or the tail rotated back."""
        angle = self.relation(relation)
        return _product(known, torch.cat([angle.cos(), angle.sin()], dim=-1), inverse)

    def compared(self, query: Tensor, other: Tensor) -> Tensor:
        """Return the margin less the distance."""
        logits: Tensor = self.margin - torch.linalg.vector_norm(query - other, dim=-1)
        return logits

    def against_all(self, query: Tensor, others: Tensor) -> Tensor:
        """Return the same against every vector."""
        return self.margin - torch.cdist(query, others)


def _product(known: Tensor, relation: Tensor, conjugate: bool) -> Tensor:
    """Return the complex product, with the conjugate of the relation if wanted."""
    a, b = known.chunk(2, dim=-1)
    c, d = relation.chunk(2, dim=-1)
    d = -d if conjugate else d
    return torch.cat([a * c - b * d, a * d + b * c], dim=-1)


HEADS: dict[str, type[RelationHead]] = {
    "distmult": DistMult, "complex": ComplEx, "rotate": RotatE
}  # fmt: skip


def make_relation_head(name: str, num_relations: int, dim: int) -> RelationHead:
    """Return the head of that name.

    Raises:
        ModelError: there is none.
    """
    return one_of("A head for all relations", HEADS, name)(num_relations, dim)
