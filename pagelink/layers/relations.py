"""Sums over in-neighbours with a linear map per relation, for all relations at once.

A layer such as RGCN maps what comes in by each relation by a matrix of its own. Done relation by
relation, its cost is that of the number of relations, whatever the number of edges. Here the edges
are in order of relation and target: what reaches a target by one relation is summed, mapped, and
summed over the relations, and relations without an edge cost nothing.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, cast

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from pagelink.layers.fused import Groups, Neighbours, grouped_edges, weighted_sum
from pagelink.layers.node_rows import NodeRows
from pagelink.runtime.arrays import Ints, Longs

FOR_TORCH = 262_144
"""Products of matrices with more multiplications are torch's, which has the requested number of
threads; for smaller ones a call of NumPy takes a fraction of the time of a call of torch."""
Range = tuple[int, int, int]
"""A relation, and the first and the last of its pairs."""


class RelationEdges:
    """The edges of a layer, in order of their relation and target.

    A relation and a target of its edges are a pair.

    Args:
        by_pair: the edges of each pair, in order of relation, then target.
        relation: per pair.
        target: per pair.
        num_src: the number of nodes that the edges may come from.
        num_dst: the number of targets.
        num_edges: the number of edges that have a weight.
    """

    def __init__(
        self,
        by_pair: Groups,
        relation: Ints,
        target: Ints,
        num_src: int,
        num_dst: int,
        num_edges: int,
    ) -> None:
        self._by_pair, self._relation, self._target = by_pair, relation, target
        self.num_src, self.num_dst, self.num_edges = num_src, num_dst, num_edges
        self.pairs = Neighbours(by_pair, num_src)
        self.targets = Neighbours.between(
            np.arange(len(target)), target.astype(np.int64), len(target), num_dst
        )
        size = np.bincount(target, weights=np.diff(by_pair[0]), minlength=num_dst)
        self.share = torch.from_numpy((1 / size[target]).astype(np.float32))
        """Per pair, one over the number of all edges of its target."""
        starts = np.flatnonzero(np.diff(relation, prepend=-1)).tolist()
        self.ranges: list[Range] = [
            (int(relation[first]), first, last)
            for first, last in pairwise([*starts, len(relation)])
        ]
        self._within: dict[int, RelationEdges] = {}

    @classmethod
    def of(
        cls, src: Longs, dst: Longs, relation: Longs, num_src: int, num_dst: int, num_relations: int
    ) -> RelationEdges:
        """The edges from some nodes to others.

        Raises:
            IndexError: an edge is of a node or relation that is not there.
        """
        _, edges, ends = grouped_edges(dst, src, num_dst, num_src)
        kinds = relation[edges]
        _, order, _ = grouped_edges(kinds, kinds, num_relations, num_relations)
        edges, ends, kinds, targets = edges[order], ends[order], kinds[order], dst[edges[order]]
        is_first = np.ones(len(edges), dtype=np.bool_)
        is_first[1:] = (np.diff(kinds) != 0) | (np.diff(targets) != 0)
        first = np.flatnonzero(is_first)
        ptr = np.append(first, len(edges))
        pairs = kinds[first].astype(np.int32), targets[first].astype(np.int32)
        return cls((ptr, edges, ends), *pairs, num_src, num_dst, len(edges))

    def averaged_as_in(self, whole: RelationEdges, targets: Longs) -> None:
        """Let means be over the edges of another graph, of which these are some.

        Args:
            whole: the edges of that graph.
            targets: per target of these, which one it is there.
        """
        keys = whole._relation.astype(np.int64) * whole.num_dst + whole._target
        mine = self._relation.astype(np.int64) * whole.num_dst + targets[self._target]
        self.pairs.share = whole.pairs.share[np.searchsorted(keys, mine)]

    def within(self, num_dst: int) -> RelationEdges:
        """The edges of the first targets."""
        if num_dst not in self._within:
            ptr, edges, ends = self._by_pair
            kept = self._target < num_dst
            size = np.diff(ptr)
            inside = np.repeat(kept, size)
            groups = np.append(0, np.cumsum(size[kept])), edges[inside], ends[inside]
            num_src = int(groups[2].max()) + 1 if len(groups[2]) else 0
            self._within[num_dst] = RelationEdges(
                groups, self._relation[kept], self._target[kept], num_src, num_dst, self.num_edges
            )
        return self._within[num_dst]


def relation_sum(
    x: Tensor,
    weights: Tensor | None,
    edges: RelationEdges,
    maps: Tensor,
    mean: bool,
    mean_of_all: bool = False,
) -> Tensor:
    """Return, per target, the sum over relations of the mapped sum over its edges.

    Args:
        x: [num_src, d], float32.
        weights: one per edge. None: 1.
        edges: the edges.
        maps: [num_relations, d, e]; [num_relations, d + 1, e] if each has a vector to add;
            [num_relations, d] if each multiplies number by number.
        mean: what comes in by one relation is averaged, not summed.
        mean_of_all: the sum over all relations is divided by the number of edges of the target.

    Returns:
        [num_dst, e], or [num_dst, d].
    """
    if isinstance(x, NodeRows):
        source = x.cell

        def make(count: int) -> Tensor:
            some = edges.within(count)
            rows = source.rows(some.num_src)
            return relation_sum(rows, weights, some, maps, mean, mean_of_all)

        return NodeRows.collected(make, edges.num_dst, x, maps.shape[-1])
    if maps.shape[1] > x.shape[1]:
        x = F.pad(x, (0, 1), value=1.0)
    if weights is None:
        weights = x.new_ones(edges.num_edges)
    collected = weighted_sum(x, weights, edges.pairs, mean)
    mapped = cast(Tensor, Mapped.apply(collected, maps, edges.ranges))  # type: ignore[no-untyped-call]
    of_pairs = edges.share if mean_of_all else x.new_ones(mapped.shape[0])
    return weighted_sum(mapped, of_pairs, edges.targets, False)


class Mapped(torch.autograd.Function):
    """Rows times the matrix, or the vector, of their relation; gradients by the rows."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, maps: Tensor, ranges: list[Range]) -> Tensor:
        """Return one row per row."""
        ctx.maps, ctx.ranges = maps, ranges
        return _mapped(rows, maps, ranges)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        """Return the gradient by the rows."""
        maps = ctx.maps if ctx.maps.dim() == 2 else ctx.maps.transpose(1, 2)
        return _mapped(gradients[0], maps, ctx.ranges), None, None


def _mapped(rows: Tensor, maps: Tensor, ranges: list[Range]) -> Tensor:
    rows = rows.detach().contiguous()
    out = torch.empty(rows.shape[0], maps.shape[-1])
    given, matrices, made = rows.numpy(), maps.detach().numpy(), out.numpy()
    if maps.dim() == 2:
        for relation, first, last in ranges:
            np.multiply(given[first:last], matrices[relation], out=made[first:last])
        return out
    most = FOR_TORCH // max(maps.shape[1] * maps.shape[2], 1)
    for relation, first, last in ranges:
        if last - first <= most:
            np.dot(given[first:last], matrices[relation], out=made[first:last])
        else:
            torch.mm(rows[first:last], maps[relation], out=out[first:last])
    return out
