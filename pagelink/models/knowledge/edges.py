"""The edges of all relations in one list, and sums of messages h_u * w_r along them.

Layers whose messages are a vector of the neighbour times a vector of the relation, number by
number, cost as much as there are edges, whatever the number of relations. For training they are
summed by compiled loops that write no message down; the gradient is of the same kind.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pagelink.graph.schema import EdgeType
from pagelink.runtime.arrays import Longs
from pagelink.runtime.kernels import kernel


class RelationalEdges:
    """The edges of a graph with their relations, nodes of all types numbered in one row.

    Args:
        x_dict: inputs of the nodes, by type.
        edge_index_dict: edges, by relation.
        node_types: all node types, in the order in which their nodes are numbered.
        edge_types: all relations; others are not read.

    Example:
        >>> buys = ("user", "buys", "item")
        >>> nodes = {"user": torch.arange(2), "item": torch.arange(1)}
        >>> edges = RelationalEdges(nodes, {buys: torch.tensor([[1], [0]])}, [*nodes], [buys])
        >>> edges.edge_index.tolist(), edges.relation.tolist()
        ([[1], [2]], [0])
    """

    def __init__(
        self,
        x_dict: Mapping[str, Tensor],
        edge_index_dict: Mapping[EdgeType, Tensor],
        node_types: Sequence[str],
        edge_types: Sequence[EdgeType],
    ) -> None:
        sizes = [len(x_dict[t]) if t in x_dict else 0 for t in node_types]
        starts = np.concatenate([[0], np.cumsum(sizes)]).tolist()
        self.first = dict(zip(node_types, starts, strict=False))
        self.num_nodes, self.num_relations = int(starts[-1]), len(edge_types)
        device = next(iter(x_dict.values())).device
        edges = [torch.empty(2, 0, dtype=torch.long, device=device)]
        counts, positions = [], []
        for position, edge_type in enumerate(edge_types):
            edge_index = edge_index_dict.get(edge_type)
            if edge_index is None or not edge_index.shape[1]:
                continue
            shift = self.first[edge_type[0]], self.first[edge_type[2]]
            if any(shift):
                edge_index = edge_index + torch.tensor(shift, device=device)[:, None]
            edges.append(edge_index)
            counts.append(edge_index.shape[1])
            positions.append(position)
        # Of these tensors the edges are made that explainers follow through the model.
        self.edge_index = torch.cat(edges, dim=1)
        self.relation = torch.repeat_interleave(
            torch.tensor(positions, dtype=torch.long, device=device),
            torch.tensor(counts, dtype=torch.long, device=device),
        )

    def of_target(self) -> Tensor:
        """Return 1 / the number of edges into the target, per edge."""
        dst = self.edge_index[1]
        degree = torch.bincount(dst, minlength=self.num_nodes)
        scale: Tensor = 1 / degree[dst].float()
        return scale

    def of_target_and_relation(self) -> Tensor:
        """Return 1 / the number of edges of the same relation into the target, per edge."""
        key = self.edge_index[1] * self.num_relations + self.relation
        _, group, count = torch.unique(key, return_inverse=True, return_counts=True)
        scale: Tensor = 1 / count[group].float()
        return scale


class SortedEdges:
    """The same edges in three orders, for sums at full speed; some can be left out.

    Args:
        edges: all edges.
        by_relation: messages are scaled by the number of edges of the same relation into the
            target; else by the number of all edges into it.
    """

    def __init__(self, edges: RelationalEdges, by_relation: bool) -> None:
        self.num_nodes, self.num_relations = edges.num_nodes, edges.num_relations
        self.first = edges.first
        src, dst = (each.cpu().numpy() for each in edges.edge_index)
        relation = edges.relation.cpu().numpy()
        self._group = dst * edges.num_relations + relation if by_relation else dst
        if by_relation:
            self._group = np.unique(self._group, return_inverse=True)[1]
        self._into = _ordered(dst, src, relation, edges.num_nodes)
        self._out_of = _ordered(src, dst, relation, edges.num_nodes)
        self._of_relation = _ordered(relation, src, dst, edges.num_relations)
        self.scale = self._scaled(np.ones(len(src), dtype=np.float32))

    def _scaled(self, kept: Any) -> Any:
        count = np.bincount(self._group, weights=kept)
        return (kept / np.maximum(count, 1)[self._group]).astype(np.float32)

    def leave_out(self, edges: Longs) -> None:
        """Leave out some edges, by their position; the others are scaled anew."""
        kept = np.ones(len(self.scale), dtype=np.float32)
        kept[edges] = 0
        self.scale = self._scaled(kept)

    def summed(self, h: Tensor, weight: Tensor) -> Tensor:
        """Return the scaled sum of h_u * w_r over the edges (u, r, v) into every node v.

        Args:
            h: [num_nodes, dim].
            weight: [num_relations, dim].
        """
        out: Tensor = _Sum.apply(h, weight, self, self.scale)  # type: ignore[no-untyped-call]
        return out


def _ordered(key: Any, one: Any, other: Any, size: int) -> tuple[Any, ...]:
    """Return where the edges of each key begin, their two other ends, and their positions."""
    order = np.argsort(key, kind="stable")
    ptr = np.concatenate([[0], np.cumsum(np.bincount(key, minlength=size))]).astype(np.int64)
    return ptr, one[order].astype(np.int32), other[order].astype(np.int32), order.astype(np.int32)


class _Sum(torch.autograd.Function):
    """Both directions of `SortedEdges.summed`."""

    @staticmethod
    def forward(ctx: Any, h: Tensor, weight: Tensor, edges: SortedEdges, scale: Any) -> Tensor:
        ctx.edges, ctx.scale = edges, scale
        ctx.save_for_backward(h, weight)
        out = np.zeros((edges.num_nodes, h.shape[1]), dtype=np.float32)
        _sum(*edges._into, scale, _array(h), _array(weight), out)
        return torch.from_numpy(out)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, None, None]:
        (grad,) = grads
        h, weight = ctx.saved_tensors
        edges, scale = ctx.edges, ctx.scale
        to_h, to_weight = np.zeros(h.shape, np.float32), np.zeros(weight.shape, np.float32)
        _sum(*edges._out_of, scale, _array(grad), _array(weight), to_h)
        _sum_products(*edges._of_relation, scale, _array(h), _array(grad), to_weight)
        return torch.from_numpy(to_h), torch.from_numpy(to_weight), None, None


def _array(values: Tensor) -> Any:
    return np.ascontiguousarray(values.detach().numpy())


@kernel
def _sum(ptr, other, relation, edge, scale, h, weight, out):  # type: ignore[no-untyped-def]
    for v in range(len(ptr) - 1):
        row = out[v]
        for i in range(ptr[v], ptr[v + 1]):
            s = scale[edge[i]]
            if s != 0:
                h_u, w = h[other[i]], weight[relation[i]]
                for k in range(len(row)):
                    row[k] += s * h_u[k] * w[k]


@kernel
def _sum_products(ptr, src, dst, edge, scale, h, grad, out):  # type: ignore[no-untyped-def]
    for r in range(len(ptr) - 1):
        row = out[r]
        for i in range(ptr[r], ptr[r + 1]):
            s = scale[edge[i]]
            if s != 0:
                h_u, g = h[src[i]], grad[dst[i]]
                for k in range(len(row)):
                    row[k] += s * h_u[k] * g[k]
