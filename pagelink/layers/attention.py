"""HGT's attention over in-neighbours, without writing the messages out.

What the layer attends to is a softmax over the edges of each target, of one number per edge and
head. Only these numbers are written out: they come from inner products of both ends, which are
taken edge by edge, and the vectors of the sources are summed as in `fused`, head by head.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor
from torch_geometric.nn import HGTConv, MessagePassing, aggr
from torch_geometric.utils import softmax

from pagelink.layers.fused import (
    Neighbours,
    WeightedSum,
    dot_groups,
    ends_of,
    over_groups,
    sum_groups,
)


@dataclass(frozen=True)
class AttentionCall:
    """A propagation of HGTConv, whose messages need not be written out."""

    num_dst: int

    def sources(self, arguments: Mapping[str, Any]) -> Tensor | None:
        """Return the vectors that are summed; None: no kernel takes them."""
        fit = all(_fits(arguments.get(name)) for name in ("q", "k", "v"))
        return arguments["v"] if fit else None

    def receivers(self, arguments: Mapping[str, Any]) -> Any:
        """Return something of the targets."""
        return arguments.get("q")

    def collect(
        self,
        module: MessagePassing,
        edge_index: Tensor,
        arguments: Mapping[str, Any],
        weights: Tensor | None,
        edges: Neighbours,
    ) -> Tensor:
        """Return what the targets collect."""
        q, k, v = (_by_head(arguments[name]) for name in ("q", "k", "v"))
        alpha = torch.stack([_dots(*both, edges) for both in zip(q, k, strict=True)], dim=1)
        alpha = alpha * arguments["edge_attr"] / math.sqrt(q.shape[-1])
        alpha = softmax(alpha, edge_index[ends_of(module)[1]], None, len(edges.share))
        if weights is not None:
            alpha = alpha * weights[:, None]
        parts = [
            cast(Tensor, WeightedSum.apply(x, share, edges, False))  # type: ignore[no-untyped-call]
            for x, share in zip(v, alpha.t(), strict=True)
        ]
        return torch.cat(parts, dim=1)


def attention_call(module: MessagePassing, num_dst: int) -> AttentionCall | None:
    """Say how a call of a layer is done without messages, or None if it cannot be."""
    known = type(module) is HGTConv and isinstance(module.aggr_module, aggr.SumAggregation)
    return AttentionCall(num_dst) if known else None


def _by_head(x: Tensor) -> Tensor:
    return x.transpose(0, 1).contiguous()


def _fits(x: Any) -> bool:
    return (
        type(x) is Tensor and x.dtype == torch.float32 and x.device.type == "cpu" and x.dim() == 3
    )


def _dots(of_targets: Tensor, of_sources: Tensor, edges: Neighbours) -> Tensor:
    return cast(Tensor, _Dots.apply(of_targets, of_sources, edges))  # type: ignore[no-untyped-call]


class _Dots(torch.autograd.Function):
    """Per edge, the inner product of a vector of its target and a vector of its source."""

    @staticmethod
    def forward(ctx: Any, of_targets: Tensor, of_sources: Tensor, edges: Neighbours) -> Tensor:
        """Return one number per edge."""
        ctx.edges = edges
        ctx.save_for_backward(of_targets, of_sources)
        out = np.zeros(len(edges.by_dst[1]), dtype=np.float32)
        queries, keys = (each.detach().numpy() for each in (of_targets, of_sources))
        over_groups(dot_groups, edges.by_dst, keys, queries, out)
        return torch.from_numpy(out)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        """Return the gradients by both, where they are needed."""
        found: list[Tensor | None] = []
        numbers = gradients[0].contiguous().numpy()
        queries, keys = (each.detach().numpy() for each in ctx.saved_tensors)
        ways = ((ctx.edges.by_dst, keys, queries), (ctx.edges.by_src, queries, keys))
        for needed, (groups, others, own) in zip(ctx.needs_input_grad, ways, strict=False):
            found.append(None)
            if needed:
                out = np.empty(own.shape, dtype=np.float32)
                over_groups(sum_groups, groups, others, numbers, out)
                found[-1] = torch.from_numpy(out)
        return (*found, None)  # type: ignore[return-value]
