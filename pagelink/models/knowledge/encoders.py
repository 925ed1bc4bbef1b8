"""Encoders for graphs of many relations: their cost follows the edges, not the relations.

RGCN with basis decomposition (Schlichtkrull et al., ESWC 2018), without a loop over relations, and
CompGCN with products as composition (Vashishth et al., ICLR 2020).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.nn import MessagePassing

from pagelink.layers.fused import is_untouched
from pagelink.layers.whole import Pass
from pagelink.models.knowledge.edges import RelationalEdges, SortedEdges

Edges = RelationalEdges | SortedEdges


class ScaledSum(MessagePassing):
    """The sum of s_e * h_u * w_r over the edges e = (u, r, v) into a node: explainers follow it.

    Args:
        by_relation: s_e is one over the number of edges of relation r into v; else over that of all
            edges into v.
    """

    def __init__(self, by_relation: bool) -> None:
        super().__init__(aggr="sum")
        self.by_relation = by_relation

    def forward(self, h: Tensor, edges: Edges, weight: Tensor) -> Tensor:
        """Return one vector per node.

        Args:
            h: vectors of the nodes.
            edges: the edges.
            weight: [num_relations, dim].
        """
        if isinstance(edges, SortedEdges):
            return edges.summed(h, weight)
        size = (edges.num_nodes, edges.num_nodes)
        scale = edges.of_target_and_relation() if self.by_relation else edges.of_target()
        scaled = weight[edges.relation] * scale[:, None].to(weight.dtype)
        out: Tensor = self.propagate(edges.edge_index, x=h, weight=scaled, size=size)
        return out

    def message(self, x_j: Tensor, weight: Tensor) -> Tensor:
        """What a neighbour sends."""
        return x_j * weight

    def as_a_whole(self, on: Pass) -> Any:
        """Return the same without a vector per edge, for the passes of an explainer."""
        if not is_untouched(self):
            return None

        def forward(h: Tensor, edges: RelationalEdges, weight: Tensor) -> Tensor:
            return on.sum_by_relation(
                h, [edges.edge_index], weight, edges.num_nodes, mean=self.by_relation,
                mean_of_all=not self.by_relation, relation=edges.relation,
            )  # fmt: skip

        return forward


class BasisLayer(nn.Module):
    """h_v becomes W_0 h_v + b + sum over r of the mean of W_r h_u over the neighbours by r.

    W_r is a mix of a few matrices, with weights of its own: sum over b of a_rb V_b. So the messages
    of all relations are summed once for each V_b, before it is applied.

    Args:
        num_relations: the number of relations that messages pass along.
        dim: length of the vectors.
        num_bases: the number of V_b.
    """

    by_relation = True

    def __init__(self, num_relations: int, dim: int, num_bases: int) -> None:
        super().__init__()
        self.own = nn.Linear(dim, dim)
        self.mix = nn.Parameter(torch.randn(num_relations, num_bases) / num_bases**0.5)
        self.bases = nn.Linear(num_bases * dim, dim, bias=False)
        self.conv = ScaledSum(self.by_relation)

    def forward(self, h: Tensor, edges: Edges, relations: Tensor) -> tuple[Tensor, Tensor]:
        """Return the new vectors of nodes, and those of relations, which stay."""
        num_bases, dim = self.mix.shape[1], h.shape[1]
        weight = self.mix.repeat_interleave(dim, dim=1)
        summed = self.conv(h.repeat(1, num_bases), edges, weight)
        return self.own(h) + self.bases(summed), relations

    def as_a_whole(self, on: Pass) -> Any:
        """Return the same with the matrices W_r, so that no vector is repeated for each V_b."""
        num_bases, dim = self.mix.shape[1], self.own.in_features
        with torch.no_grad():
            bases = self.bases.weight.view(dim, num_bases, dim)
            maps = torch.einsum("rb,ebd->rde", self.mix, bases)

        def forward(h: Tensor, edges: RelationalEdges, relations: Tensor) -> tuple[Tensor, Tensor]:
            incoming = on.sum_by_relation(
                h, [edges.edge_index], maps, edges.num_nodes, mean=True, relation=edges.relation
            )
            return self.own(h) + incoming, relations

        return forward


class CompLayer(nn.Module):
    """h_v becomes W_0 h_v + b + W times the mean of h_u * z_r over all edges into v.

    The vectors z_r of the relations go through a linear map in every layer. Whether an edge is
    stored or the reverse of one is up to its relation, of which each has a vector of its own.

    Args:
        num_relations: not used: relations come with their vectors.
        dim: length of the vectors.
        num_bases: not used.
    """

    by_relation = False

    def __init__(self, num_relations: int, dim: int, num_bases: int) -> None:
        super().__init__()
        self.own = nn.Linear(dim, dim)
        self.neighbours = nn.Linear(dim, dim, bias=False)
        self.relation = nn.Linear(dim, dim, bias=False)
        self.conv = ScaledSum(self.by_relation)

    def forward(self, h: Tensor, edges: Edges, relations: Tensor) -> tuple[Tensor, Tensor]:
        """Return the new vectors of nodes and of relations."""
        summed = self.conv(h, edges, relations)
        return self.own(h) + self.neighbours(summed), self.relation(relations)


LAYERS: dict[str, type[BasisLayer] | type[CompLayer]] = {"rgcn": BasisLayer, "compgcn": CompLayer}
