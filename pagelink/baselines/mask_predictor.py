"""MaskPredictor: a small network from the vectors of an edge and of a link to a mask logit.

One network per relation: hidden = relu(A sent + B heard + what the link's ends are + b), and the
logit is w * hidden + c. What an end of the link is: the mean of what it sends and hears, by
relation.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from pagelink.baselines.edge_vectors import EdgeVectors
from pagelink.computation_graph import ComputationGraphs

Key = tuple[int, str]
"""Relation, and which of its vectors."""


@dataclass(frozen=True)
class Features:
    """The vectors of a batch, ready for the network."""

    num_edges: int
    edges: dict[int, tuple[Tensor, Tensor, Tensor, Tensor]]
    """Per relation: slots, links, what is sent, what is heard."""
    ends: dict[tuple[str, int, str], Tensor]
    """Per end of the link, relation and vector: [num_links, d]; 0 where it has no such edge."""


class MaskPredictor:
    """The network; its vectors are scaled to mean 0 and deviation 1 over those it is made for.

    Args:
        batches: the computation graphs and vectors that it will be trained on.
        hidden: hidden units.
        seed: of the first weights.
    """

    def __init__(
        self,
        batches: Sequence[tuple[ComputationGraphs, dict[int, EdgeVectors]]],
        hidden: int,
        seed: int,
    ) -> None:
        self._scale: dict[Key, tuple[Tensor, Tensor]] = {}
        for relation in sorted({r for _, vectors in batches for r in vectors}):
            mine = [vectors[relation] for _, vectors in batches if relation in vectors]
            for role in ("sent", "heard"):
                whole = torch.cat([getattr(each, role) for each in mine])
                mean, deviation = whole.mean(0), whole.std(0, correction=0)
                # What is constant but for rounding must not be blown up to noise.
                constant = deviation <= 1e-4 * (1 + mean.abs())
                self._scale[relation, role] = mean, torch.where(constant, 1.0, deviation)
        generator = torch.Generator().manual_seed(seed)

        def drawn(rows: int, columns: int) -> Tensor:
            weights = torch.randn(rows, columns, generator=generator) / math.sqrt(rows)
            return weights.requires_grad_()

        self._weights: dict[tuple[str, int, str], Tensor] = {}
        for (relation, role), (mean, _) in self._scale.items():
            for part in ("edge", "src", "dst"):
                self._weights[part, relation, role] = drawn(len(mean), hidden)
        self._out: dict[int, tuple[Tensor, Tensor, Tensor]] = {}
        for relation in sorted({relation for relation, _ in self._scale}):
            zeros = torch.zeros(hidden), torch.zeros(1)
            bias, last_bias = (each.requires_grad_() for each in zeros)
            self._out[relation] = bias, drawn(hidden, 1), last_bias

    def parameters(self) -> list[Tensor]:
        """All weights."""
        return [
            *self._weights.values(),
            *(weight for each in self._out.values() for weight in each),
        ]

    def features(self, batch: ComputationGraphs, vectors: dict[int, EdgeVectors]) -> Features:
        """Scale the vectors of a batch, and gather those of the ends of its links.

        Relations that the network was not made for are left out.
        """
        edges, ends = {}, {}
        for relation, found in vectors.items():
            if relation not in self._out:
                continue
            link = np.searchsorted(batch.edge_ptr, found.slots, side="right") - 1
            shift = batch.node_ptr[link]
            tail = batch.nodes[shift + batch.src[found.slots]]
            head = batch.nodes[shift + batch.dst[found.slots]]
            sent = self._scaled(relation, "sent", found.sent)
            heard = self._scaled(relation, "heard", found.heard)
            for part, nodes in (("src", batch.link_src), ("dst", batch.link_dst)):
                for role, values, at in (("sent", sent, tail), ("heard", heard, head)):
                    own = np.flatnonzero(at == nodes[link])
                    ends[part, relation, role] = _means(values, own, link[own], batch.num_links)
            edges[relation] = torch.from_numpy(found.slots), torch.from_numpy(link), sent, heard
        return Features(len(batch.edges), edges, ends)

    def _scaled(self, relation: int, role: str, vectors: Tensor) -> Tensor:
        mean, deviation = self._scale[relation, role]
        return (vectors - mean) / deviation

    def logits(self, features: Features, elsewhere: float) -> Tensor:
        """Return one mask logit per edge of the batch; `elsewhere` where there are no vectors."""
        context: Tensor | float = 0.0
        for key, values in features.ends.items():
            context = context + values @ self._weights[key]
        logits = torch.full((features.num_edges,), elsewhere)
        for relation, (slots, link, sent, heard) in features.edges.items():
            bias, last, last_bias = self._out[relation]
            hidden = sent @ self._weights["edge", relation, "sent"] + bias
            hidden = hidden + heard @ self._weights["edge", relation, "heard"]
            if isinstance(context, Tensor):
                hidden = hidden + context[link]
            logits = logits.index_copy(0, slots, (hidden.relu() @ last)[:, 0] + last_bias)
        return logits


def _means(values: Tensor, rows: np.ndarray, link: np.ndarray, num_links: int) -> Tensor:
    """Per link, the mean of some rows; 0 where there is none."""
    total = torch.zeros(num_links, values.shape[1])
    total.index_add_(0, torch.from_numpy(link), values[torch.from_numpy(rows)])
    count = np.maximum(np.bincount(link, minlength=num_links), 1)
    return total / torch.from_numpy(count).float()[:, None]
