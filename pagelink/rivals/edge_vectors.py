"""The vectors that a user's model has of the edges, taken from the model as it is.

Models do not say which of their tensors are the representations of nodes, and some have other
vectors of a node for every relation. What all of them have is messages. So of every edge (u, v),
in the last propagation that carries it, two vectors are noted: what is sent along it (the message:
the representation of u, as this relation has it) and what v hears by that propagation (all messages
that v gets, collected). A `MaskPredictor` goes from these to the mask of an edge.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch_geometric.nn import MessagePassing

from pagelink.errors import ModelError
from pagelink.graph.computation_graph import ComputationGraphs
from pagelink.model.borrowing import hook
from pagelink.model.inputs import ModelInput
from pagelink.model.predictor import LinkPredictor
from pagelink.runtime.arrays import Longs
from pagelink.runtime.undo import Undo


@dataclass(frozen=True)
class EdgeVectors:
    """The edges of one relation that messages went along."""

    slots: Longs
    """Positions in the edges of the batch."""
    sent: Tensor
    """[edges, d]"""
    heard: Tensor
    """[edges, e]"""


@dataclass(frozen=True)
class Propagation:
    """The messages of one propagation of a pass."""

    layer: tuple[str, int]
    """The layer by its name, and which of its calls in the pass it is."""
    edges: Tensor
    """Per message, the position in the edges of the batch, or -1; two rows of them where a message
    goes along two edges that the model joined."""
    sent: Tensor
    """[messages, d]"""
    heard: Tensor
    """[messages, e]: what all messages to the same node come to."""


def propagations(predictor: LinkPredictor, recorded: ModelInput) -> list[Propagation]:
    """Run the model once more and note the messages of every propagation.

    Args:
        predictor: the model.
        recorded: links of a batch as they went through the model.

    Raises:
        ModelError: a layer's messages are not one vector per edge.
    """
    if recorded.whole:  # then not every message is a propagation's
        recorded = predictor.record(recorded, by_message=True)[1]
    listener = _Listener()
    predictor.logits(recorded, listener.listen)
    if len(listener.sent) != len(recorded.calls):
        raise ModelError(
            f"The model propagated {len(listener.sent)} times where it did {len(recorded.calls)} "
            "times before on the same graph; its forward pass must be deterministic in eval mode."
        )
    noted = zip(listener.layers, recorded.calls, listener.sent, listener.heard, strict=True)
    return [Propagation(*each) for each in noted]


def edge_vectors(
    predictor: LinkPredictor, batch: ComputationGraphs, recorded: ModelInput
) -> dict[int, EdgeVectors]:
    """Run the model once more and note the vectors of all edges, by relation.

    Args:
        predictor: the model.
        batch: the computation graphs.
        recorded: links of the batch as they went through the model.

    Raises:
        ModelError: a layer's messages are not one vector per edge, or differ in length within a
            relation.
    """
    noted = propagations(predictor, recorded)
    call_of = np.full(len(batch.edges), -1)
    place_of = np.zeros(len(batch.edges), dtype=np.int64)
    for call, messages in enumerate(noted):
        slots = messages.edges.cpu().numpy()
        there = np.flatnonzero(slots >= 0)
        call_of[slots[there]], place_of[slots[there]] = call, there
    carried = np.flatnonzero(call_of >= 0)
    relation = predictor.graph.relation[batch.edges[carried]]
    found = {}
    for position in np.unique(relation).tolist():
        slots = carried[relation == position]
        calls, places = call_of[slots], place_of[slots]
        # One after the other by call, and back into the order of the edges.
        order = np.argsort(calls, kind="stable")
        back = torch.from_numpy(np.argsort(order))
        parts: list[list[Tensor]] = [[], []]
        for call in np.unique(calls).tolist():
            rows = torch.from_numpy(places[calls == call])
            for part, vectors in zip(parts, (noted[call].sent, noted[call].heard), strict=True):
                part.append(vectors.cpu()[rows])
        if len({(a.shape[1], b.shape[1]) for a, b in zip(*parts, strict=True)}) != 1:
            raise ModelError(
                f"Edges of {predictor.graph.edge_types[position]} are carried by layers of "
                "different widths, so that they have no vectors of one length."
            )
        sent, heard = (torch.cat(part)[back].float() for part in parts)
        found[position] = EdgeVectors(slots, sent, heard)
    return found


class _Listener:
    """Notes the messages of every propagation, and what they come to at their targets."""

    def __init__(self) -> None:
        self.layers: list[tuple[str, int]] = []
        self.sent: list[Tensor] = []
        self.heard: list[Tensor] = []

    def listen(self, model: nn.Module, undo: Undo) -> None:
        """Hook into every layer."""
        for name, module in model.named_modules():
            if isinstance(module, MessagePassing):
                hook(undo, module, "propagate_forward_pre", partial(self._begin, name))
                hook(undo, module, "message_forward", self._send)
                hook(undo, module, "aggregate_forward", self._hear)

    def _begin(self, name: str, module: MessagePassing, inputs: Any) -> None:
        self.layers.append((name, sum(other == name for other, _ in self.layers)))
        self._target = inputs[0][1 if module.flow == "source_to_target" else 0]

    def _send(self, module: MessagePassing, inputs: Any, message: Any) -> None:
        self.sent.append(_rows(module, message))

    def _hear(self, module: MessagePassing, inputs: Any, out: Any) -> None:
        self.heard.append(_rows(module, out)[self._target])


def _rows(module: MessagePassing, value: Any) -> Tensor:
    """One vector per edge or node."""
    dim = module.node_dim
    if not isinstance(value, Tensor) or not -value.dim() <= dim < value.dim():
        raise ModelError(
            f"{type(module).__name__} has no tensor of one message per edge to be taken as its "
            "vectors; a mask predictor cannot be trained on this model."
        )
    rows = value.detach().movedim(dim, 0)
    return rows.reshape(rows.shape[0], math.prod(rows.shape[1:]))


# MaskPredictor: a small network from the vectors of an edge and of a link to a mask logit.
#
# One network per relation: hidden = relu(A sent + B heard + what the link's ends are + b), and the
# logit is w * hidden + c. What an end of the link is: the mean of what it sends and hears, by
# relation.


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
