"""Prediction heads: from the embeddings of the two ends of a link to its logit."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

from pagelink.errors import ModelError, did_you_mean


class DotHead(nn.Module):
    """The inner product of the two embeddings, as in the paper."""

    def forward(self, src: Tensor, dst: Tensor) -> Tensor:
        """Return one logit per row."""
        return (src * dst).sum(dim=-1)


class CosineHead(nn.Module):
    """The cosine of the two embeddings times a learned scale: their lengths do not matter."""

    def __init__(self) -> None:
        super().__init__()
        # A cosine alone cannot leave -1..1, where the loss of a certain prediction is still 0.31.
        self.scale = nn.Parameter(torch.tensor(5.0))

    def forward(self, src: Tensor, dst: Tensor) -> Tensor:
        """Return one logit per row."""
        return self.scale * functional.cosine_similarity(src, dst, dim=-1)


class MLPHead(nn.Module):
    """Two linear layers on the two embeddings side by side."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.hidden = nn.Linear(2 * dim, dim)
        self.out = nn.Linear(dim, 1)

    def forward(self, src: Tensor, dst: Tensor) -> Tensor:
        """Return one logit per row."""
        hidden = functional.relu(self.hidden(torch.cat([src, dst], dim=-1)))
        logits: Tensor = self.out(hidden)
        return logits.squeeze(-1)


HEADS: dict[str, Callable[[int], nn.Module]] = {
    "dot": lambda dim: DotHead(),
    "cosine": lambda dim: CosineHead(),
    "mlp": MLPHead,
}


def make_head(name: str, dim: int) -> nn.Module:
    """Return the head of that name for embeddings of `dim` numbers.

    Args:
        name: one of `HEADS`.
        dim: length of an embedding.

    Returns:
        A module called as `head(src, dst)` with two tensors [num_links, dim]; it gives the logits,
        [num_links].

    Raises:
        ModelError: there is no head of that name.

    Example:
        >>> make_head("dot", 2)(torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0, 4.0]]))
        tensor([11.])
    """
    if name not in HEADS:
        raise ModelError(
            f"A head is one of {', '.join(HEADS)}, got {name!r}.{did_you_mean(name, HEADS)}"
        )
    return HEADS[name](dim)
