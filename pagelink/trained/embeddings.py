"""Models that score a link by the embeddings of its ends: any of them in one form.

As a function of one end u, with everything else fixed, the score is either the product <u, q> or
minus a distance |u - q|, where q is made of the relation and the other end. DistMult, ComplEx and
matrix factorisation are products, TransE and RotatE are distances. `EmbeddingModel` is that form;
`known_models` finds it for the models of libraries.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from pagelink.errors import ModelError, SettingsError

Kind = Literal["product", "translation", "complex", "rotation"]
KINDS: tuple[Kind, ...] = ("product", "translation", "complex", "rotation")
LossKind = Literal["logistic", "margin", "softmax"]
LOSSES: tuple[LossKind, ...] = ("logistic", "margin", "softmax")


@dataclass(frozen=True)
class Loss:
    """What a model was trained with, as mimics are."""

    kind: LossKind = "logistic"
    """`logistic`: log-loss of true and random links, each by itself. `margin`: a true link is to
    score higher than a random one by the margin. `softmax`: the true end among all ends."""
    margin: float = 0.0
    """Of `margin`; for `logistic`, what is added to scores."""

    def __post_init__(self) -> None:
        if self.kind not in LOSSES:
            raise SettingsError(f"The kind of a loss must be one of {LOSSES}, got {self.kind!r}.")


@dataclass(frozen=True)
class EmbeddingModel:
    """A model whose score rests on the embeddings of source, relation and target alone.

    `product`: the sum of h * r * t (DistMult; matrix factorisation, where r is 1). `complex`: the
    real part of the sum of h * r * conj(t) (ComplEx). `translation`: minus the norm of h + r - t
    (TransE). `rotation`: minus the norm of h * r - t, complex, |r| = 1 (RotatE). Complex vectors
    are given as real ones: all real parts, then all imaginary parts.

    Example:
        >>> nodes, relations = torch.tensor([[1.0, 0.0], [0.5, 2.0]]), torch.tensor([[2.0, 1.0]])
        >>> model = EmbeddingModel("product", nodes, relations)
        >>> zero, one = torch.tensor([0]), torch.tensor([1])
        >>> model.score(nodes[zero], zero, nodes[one]).tolist()
        [1.0]
    """

    kind: Kind
    nodes: Tensor
    """[num_nodes, size]: trained vectors of all nodes."""
    relations: Tensor
    """[num_relations, size]: of the relations."""
    loss: Loss = Loss()
    norm: float = 2.0
    """Of `translation` and `rotation`: 1 or 2."""
    unit_norm: float | None = None
    """The vectors of nodes have length 1 by this norm; None: any length."""
    offset: float = 0.0
    """What is added to every score."""
    fixed: Tensor | None = None
    """[num_nodes, size]: entries of the vectors that are not learned, such as the 1 by which a
    bias is multiplied. None: all are learned."""
    num_users: int | None = None
    """The first nodes, this number of them, are users, and the others items. None: all nodes are
    entities of one type."""

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ModelError(f"The kind of a model must be one of {KINDS}, got {self.kind!r}.")
        if self.norm not in (1, 2):
            raise ModelError(f"Distances must be by the norm 1 or 2, got {self.norm}.")
        if self.unit_norm not in (None, 1, 2):
            raise ModelError(f"unit_norm must be None, 1 or 2, got {self.unit_norm}.")
        for name in ("nodes", "relations"):
            table = getattr(self, name)
            if table.dim() != 2 or table.is_complex() or not table.is_floating_point():
                raise ModelError(
                    f"{name} must be real vectors, one per row, got {table.dtype} of shape "
                    f"{list(table.shape)}."
                )
            if not bool(torch.isfinite(table).all()):
                raise ModelError(f"The {name} of the model have vectors that are not finite.")
        if self.nodes.shape[1] != self.relations.shape[1]:
            raise ModelError(
                f"Vectors of nodes and relations must be equally long, got {self.nodes.shape[1]} "
                f"and {self.relations.shape[1]}."
            )

    @property
    def is_distance(self) -> bool:
        """Whether the score is minus a distance."""
        return self.kind in ("translation", "rotation")

    def query(self, other: Tensor, relation: Tensor, is_head: Tensor) -> Tensor:
        """Return q: by it the score is a product with, or a distance from, the vector of an end.

        Args:
            other: vectors of the other end, [..., size].
            relation: relations of the links, [...].
            is_head: whether the other end is the head, [...].
        """
        by = self.relations[relation]
        if self.kind == "product":
            return other * by
        way = torch.where(is_head, 1.0, -1.0)[..., None]
        if self.kind == "translation":
            return other + way * by
        # With Re(h r conj(t)) as with |h r - t|, |r| = 1, the head sees t * conj(r).
        real, imag = other.chunk(2, -1)
        by_real, by_imag = by.chunk(2, -1)
        by_imag = way * by_imag
        return torch.cat([real * by_real - imag * by_imag, real * by_imag + imag * by_real], -1)

    def of_query(self, end: Tensor, query: Tensor) -> Tensor:
        """Return the scores of links by the vectors of one end and what the other ends make."""
        if self.is_distance:
            far: Tensor = torch.linalg.vector_norm(end - query, self.norm, dim=-1)
            return self.offset - far
        return self.offset + (end * query).sum(-1)

    def score(self, head: Tensor, relation: Tensor, tail: Tensor) -> Tensor:
        """Return the scores of links by the vectors of their ends, [..., size]."""
        return self.of_query(tail, self.query(head, relation, torch.ones_like(relation).bool()))

    def scores(self, head: Tensor, relation: Tensor, tail: Tensor) -> Tensor:
        """Return the scores of links by number, as the model was trained."""
        return self.score(self.nodes[head], relation, self.nodes[tail])

    def direction(self, end: Tensor, query: Tensor) -> Tensor:
        """Return the gradient of the score by the vector of an end."""
        if not self.is_distance:
            return query.expand_as(end)
        away = query - end
        return F.normalize(away, dim=-1) if self.norm == 2 else away.sign()

    def shaped(self, free: Tensor, node: Tensor) -> Tensor:
        """Return learned vectors as the model has them: of length 1, fixed entries in place.

        Args:
            free: vectors, [num_vectors, ..., size].
            node: whose they are, [num_vectors].
        """
        if self.unit_norm is not None:
            free = F.normalize(free, p=self.unit_norm, dim=-1)
        if self.fixed is not None:
            shape = (len(node), *([1] * (free.dim() - 2)), -1)
            is_fixed = self.fixed[node].reshape(shape)
            free = torch.where(is_fixed, self.nodes[node].reshape(shape), free)
        return free

    def by_free(self, free: Tensor, gradient: Tensor) -> Tensor:
        """Return the gradient by learned vectors, given that by `shaped` ones; fixed entries too.

        Args:
            free: the vectors before they have length 1.
            gradient: by the vectors after it.
        """
        if self.unit_norm is None:
            return gradient
        length = torch.linalg.vector_norm(free, self.unit_norm, dim=-1, keepdim=True).clamp_(1e-12)
        unit = free / length
        # The gradient of the length by the vector.
        outward = unit if self.unit_norm == 2 else free.sign()
        found: Tensor = (gradient - (gradient * unit).sum(-1, keepdim=True) * outward) / length
        return found


def factorisation(
    users: Tensor,
    items: Tensor,
    user_bias: Tensor | None = None,
    item_bias: Tensor | None = None,
    bias: float = 0.0,
    loss: Loss | None = None,
) -> EmbeddingModel:
    """Return a matrix factorisation: the score is <user, item>, plus biases.

    A bias is one more entry of a vector, whose partner on the other side is 1 and stays so.

    Args:
        users: [num_users, size].
        items: [num_items, size].
        user_bias: [num_users]; None: there is none.
        item_bias: [num_items]; None: there is none.
        bias: added to every score.
        loss: what it was trained with; None: `logistic`.

    Example:
        >>> model = factorisation(torch.eye(2), torch.eye(2), item_bias=torch.tensor([0.5, 0.0]))
        >>> model.scores(torch.tensor([0, 1]), torch.tensor([0, 0]), torch.tensor([2, 2])).tolist()
        [1.5, 0.5]
    """
    if users.dim() != 2 or items.dim() != 2 or users.shape[1] != items.shape[1]:
        raise ModelError(
            "users and items must be vectors of one length, one per row, got shapes "
            f"{list(users.shape)} and {list(items.shape)}."
        )
    biases = []
    for table, given in ((users, user_bias), (items, item_bias)):
        own = torch.zeros(len(table)) if given is None else given.detach().float().cpu()
        if own.numel() != len(table):
            raise ModelError(f"{own.numel()} biases do not fit {len(table)} vectors.")
        biases.append(own.reshape(-1, 1))
    # Users end in their bias and 1, items in 1 and their bias.
    one, size = torch.ones_like, users.shape[1]
    left = [users.detach().float().cpu(), biases[0], one(biases[0])]
    right = [items.detach().float().cpu(), one(biases[1]), biases[1]]
    nodes = torch.cat([torch.cat(left, 1), torch.cat(right, 1)])
    fixed = torch.zeros_like(nodes, dtype=torch.bool)
    fixed[: len(users), size + 1] = fixed[len(users) :, size] = True
    fixed[: len(users), size] = user_bias is None
    fixed[len(users) :, size + 1] = item_bias is None
    relation = torch.ones(1, size + 2)
    return EmbeddingModel(
        "product", nodes, relation, loss or Loss(), offset=bias, fixed=fixed, num_users=len(users)
    )
