"""Adjacency: a relation sorted both ways, for means over in-neighbours at full speed.

Training needs no edge masks, so no message has to be written down: this is many times as fast as
gathering messages and scattering them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from pagelink.graph import EdgeType


class Adjacency:
    """The edges of one relation; stands in for `edge_index` where a layer takes means only.

    Args:
        edge_index: [2, num_edges].
        num_src: number of source nodes.
        num_dst: number of target nodes.

    Example:
        >>> adjacency = Adjacency(torch.tensor([[0, 1, 1], [0, 0, 2]]), num_src=2, num_dst=3)
        >>> adjacency.mean(torch.tensor([[1.0], [3.0]])).tolist()
        [[2.0], [0.0], [3.0]]
    """

    def __init__(self, edge_index: Tensor, num_src: int, num_dst: int) -> None:
        src, dst = edge_index
        self.src, self.in_ptr = _sorted_by(dst, src, num_dst)
        self.dst, self.out_ptr = _sorted_by(src, dst, num_src)
        self.in_degree = self.in_ptr.diff()

    def mean_mapped(self, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        """Return the mean of `weight @ x_u + bias` over the in-neighbours u of every target.

        The linear map is applied on the side that has fewer nodes; the result is the same.
        """
        if len(self.out_ptr) <= len(self.in_ptr):
            return self.mean(functional.linear(x, weight, bias))
        out = functional.linear(self.mean(x), weight)
        return out if bias is None else out + (self.in_degree > 0)[:, None] * bias

    def mean(self, x: Tensor) -> Tensor:
        """Return the mean of x over the in-neighbours of every target, 0 where there are none."""
        out: Tensor = _Mean.apply(x, self)  # type: ignore[no-untyped-call]
        return out


def adjacencies(
    x_dict: Mapping[str, Tensor], edge_index_dict: Mapping[EdgeType, Tensor]
) -> dict[EdgeType, Adjacency]:
    """Return all relations of a graph as adjacencies."""
    return {
        edge_type: Adjacency(edge_index, len(x_dict[edge_type[0]]), len(x_dict[edge_type[2]]))
        for edge_type, edge_index in edge_index_dict.items()
    }


def _sorted_by(key: Tensor, other: Tensor, size: int) -> tuple[Tensor, Tensor]:
    pointers = torch.zeros(size + 1, dtype=torch.long)
    torch.cumsum(torch.bincount(key, minlength=size), dim=0, out=pointers[1:])
    return other[torch.argsort(key, stable=True)], pointers


class _Mean(torch.autograd.Function):
    """Sums rows by PyTorch's `embedding_bag`, forwards by target and backwards by source."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, adjacency: Adjacency) -> Tensor:
        ctx.adjacency = adjacency
        return functional.embedding_bag(
            adjacency.src, x, adjacency.in_ptr, mode="mean", include_last_offset=True
        )

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[Tensor, None]:
        adjacency: Adjacency = ctx.adjacency
        shared = gradients[0] / adjacency.in_degree.clamp(min=1)[:, None]
        out = functional.embedding_bag(
            adjacency.dst, shared, adjacency.out_ptr, mode="sum", include_last_offset=True
        )
        return out, None
