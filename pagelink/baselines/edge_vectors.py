"""The vectors that a user's model has of the edges, taken from the model as it is.

Models do not say which of their tensors are the representations of nodes, and some have other
vectors of a node for every relation. What all of them have is messages. So of every edge (u, v),
in the last propagation that carries it, two vectors are noted: what is sent along it (the message:
the representation of u, as this relation has it) and what v hears by that propagation (all messages
that v gets, collected).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch_geometric.nn import MessagePassing

from pagelink.computation_graph import ComputationGraphs
from pagelink.errors import ModelError
from pagelink.graph import Longs
from pagelink.model_inputs import ModelInput
from pagelink.predictor import LinkPredictor


@dataclass(frozen=True)
class EdgeVectors:
    """The edges of one relation that messages went along."""

    slots: Longs
    """Positions in the edges of the batch."""
    sent: Tensor
    """[edges, d]"""
    heard: Tensor
    """[edges, e]"""


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
    listener = _Listener()
    with listener.attached(predictor.model):
        predictor.logits(recorded)
    if len(listener.sent) != len(recorded.calls):
        raise ModelError(
            f"The model propagated {len(listener.sent)} times where it did {len(recorded.calls)} "
            "times before on the same graph; its forward pass must be deterministic in eval mode."
        )
    call_of = np.full(len(batch.edges), -1)
    place_of = np.zeros(len(batch.edges), dtype=np.int64)
    for call, numbers in enumerate(recorded.calls):
        slots = numbers.cpu().numpy()
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
            for part, vectors in zip(parts, (listener.sent, listener.heard), strict=True):
                part.append(vectors[call].cpu()[rows])
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
        self.sent: list[Tensor] = []
        self.heard: list[Tensor] = []

    @contextmanager
    def attached(self, model: nn.Module) -> Iterator[None]:
        """Hook into every layer; none sums without messages then."""
        with ExitStack() as stack:
            for module in model.modules():
                if isinstance(module, MessagePassing):
                    for hook in (
                        module.register_propagate_forward_pre_hook(self._begin),
                        module.register_message_forward_hook(self._send),
                        module.register_aggregate_forward_hook(self._hear),
                    ):
                        stack.callback(hook.remove)
            yield

    def _begin(self, module: MessagePassing, inputs: Any) -> None:
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
