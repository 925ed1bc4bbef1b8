"""PGExp-Link as the PaGE-Link authors train theirs, with the settings of their released code.

One network per relation says the mask of an edge from the last representations of its two nodes and
of the two ends of the link. Every edge of the computation graph has a mask, also those that the
model cannot see. An epoch is one step of Adam on the summed losses of random training links.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pagelink.graph.computation_graph import ComputationGraphs
from pagelink.model.borrowing import Borrowed
from pagelink.model.inputs import ModelInput
from pagelink.models.link_model import TowerModel, node_inputs
from pagelink.rivals.edge_vectors import EdgeVectors, edge_vectors
from pagelink.rivals.pgexp import MaskNetwork, PGExpLink, PGExpOptions, Step, VectorBatches
from pagelink.runtime.arrays import Floats, Longs

LARGEST = 8.0
"""Mask logits of an explanation at most, up and down: far from where a float rounds to 0 or 1."""


@dataclass(frozen=True)
class PGExpReleasedOptions(PGExpOptions):
    """How the released code trains its mask predictor on UserItemAttr."""

    epochs: int = 100
    learning_rate: float = 0.005
    num_links: int = 2**20
    """Training links at most: all."""
    links_a_step: int = 32
    """Links that go through the model together; the links of an epoch are drawn by as many."""
    links_per_epoch: int = 256
    """Links of the only step of an epoch, drawn anew."""


class PGExpReleased(PGExpLink):
    """PGExp-Link as released; see `PGExpLink` for the arguments.

    Not as released: where a model is not one of this package, it does not give its last
    representations, and the messages along an edge stand for them; and training links that the
    model does not predict, whose loss has no lower bound there, are left out.
    """

    name = "pgexp-released"
    options_type = PGExpReleasedOptions

    def _network(self, batches: VectorBatches, seed: int) -> MaskNetwork:
        return NodeNetwork(batches, self.options.hidden, seed)

    def _vectors(
        self, batch: ComputationGraphs, recorded: ModelInput, relation: Longs
    ) -> dict[int, EdgeVectors]:
        """The vectors of all edges of the computation graph."""
        parts: dict[int, list[EdgeVectors]] = {}
        for link in range(batch.num_links):
            # One by one: links side by side share nodes at the rim, and their edges count here.
            alone = batch.only(link)
            every = np.ones(len(alone.edges), dtype=np.bool_)
            inputs = self.predictor.inputs(alone, every, [0], relation[[link]])
            for position, found in self._of_link(alone, inputs).items():
                slots = found.slots + batch.edge_ptr[link]
                parts.setdefault(position, []).append(replace(found, slots=slots))
        return {
            position: EdgeVectors(
                np.concatenate([each.slots for each in found]),
                torch.cat([each.sent for each in found]),
                torch.cat([each.heard for each in found]),
            )
            for position, found in parts.items()
        }

    def _of_link(self, batch: ComputationGraphs, inputs: ModelInput) -> dict[int, EdgeVectors]:
        model, graph = self.predictor.model, self.graph
        if not isinstance(model, TowerModel):
            recorded = self.predictor.record(inputs)[1]
            return edge_vectors(self.predictor, batch, recorded)
        data = inputs.data
        with Borrowed(model, lambda undo: torch.set_grad_enabled(False)):
            h_dict = model.encode(node_inputs(data), data.edge_index_dict)
        slots, found, first = inputs.slots.cpu().numpy(), {}, 0
        for edge_type in data.edge_types:
            tails, heads = data[edge_type].edge_index
            here = slots[first : first + len(tails)]
            first += len(tails)
            inside = torch.from_numpy(np.flatnonzero(here >= 0)).to(tails.device)
            if len(inside):
                sent, heard = h_dict[edge_type[0]][tails], h_dict[edge_type[2]][heads]
                found[graph.edge_types.index(edge_type)] = EdgeVectors(
                    here[here >= 0], sent[inside].cpu().float(), heard[inside].cpu().float()
                )
        return found

    def _shown(self, batch: ComputationGraphs, logits: Floats) -> Floats:
        """Scale the logits of a link down where masks would round to 0 or 1; their order stays.

        The weight of the entropy drives them there, and the released code ranks edges by logits.
        """
        highest = np.maximum.reduceat(np.append(np.abs(logits), 0), batch.edge_ptr[:-1])
        highest = np.where(np.diff(batch.edge_ptr) > 0, highest, 0)
        scale = np.minimum(1, LARGEST / np.maximum(highest, 1e-9))
        shown: Floats = logits * np.repeat(scale, np.diff(batch.edge_ptr)).astype(np.float32)
        return shown

    def _together(self, steps: list[Step]) -> Iterator[list[Step]]:
        options: PGExpReleasedOptions = self.options
        yield steps[: -(-options.links_per_epoch // options.links_a_step)]

    def _loss(self, *given: Any) -> Tensor | None:
        """The sum over the links that go through the model together."""
        loss, step = super()._loss(*given), given[1]
        return None if loss is None else loss * len(step.predicted)


@dataclass(frozen=True)
class NodeFeatures:
    """The vectors of a batch, ready for the network."""

    num_edges: int
    edges: dict[int, tuple[Tensor, Tensor, Tensor, Tensor]]
    """Per relation: slots, links, the vectors of the tails, those of the heads."""
    ends: tuple[Tensor, Tensor]
    """[num_links, d] of the sources and of the targets."""


class NodeNetwork:
    """Per relation, two linear layers with a ReLU between, on four vectors side by side.

    Args:
        batches: what it will be trained on.
        hidden: hidden units.
        seed: of the first weights and biases, uniform up to 1 / sqrt(inputs) as in `nn.Linear`.
    """

    def __init__(self, batches: VectorBatches, hidden: int, seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)

        def drawn(inputs: int, *shape: int) -> Tensor:
            drawn = 2 * torch.rand(*shape, generator=generator) - 1
            return (drawn / math.sqrt(inputs)).requires_grad_()

        widths = {
            relation: (found.sent.shape[1], found.heard.shape[1])
            for _, vectors in batches
            for relation, found in vectors.items()
        }
        self._width = max((sent for sent, _ in widths.values()), default=0)
        """Length of the vector of an end."""
        self._layers: dict[int, list[Tensor]] = {}
        for relation, (sent, heard) in sorted(widths.items()):
            inputs = sent + heard + 2 * self._width
            rows = (sent, heard, self._width, self._width)
            self._layers[relation] = [
                *(drawn(inputs, count, hidden) for count in rows), drawn(inputs, hidden),
                drawn(hidden, hidden, 1), drawn(hidden, 1),
            ]  # fmt: skip

    def parameters(self) -> list[Tensor]:
        """All weights."""
        return [weight for layers in self._layers.values() for weight in layers]

    def features(self, batch: ComputationGraphs, vectors: dict[int, EdgeVectors]) -> NodeFeatures:
        """Gather the vectors of edges and of the ends; unknown relations are left out.

        The vector of an end is the mean of those that it has on its edges, which are all equal
        where vectors are representations of nodes.
        """
        edges = {}
        sums = torch.zeros(2, batch.num_links, self._width)
        counts = torch.zeros(2, batch.num_links, 1)
        for relation, found in vectors.items():
            link = np.searchsorted(batch.edge_ptr, found.slots, side="right") - 1
            shift = batch.node_ptr[link]
            for end, nodes in enumerate((batch.link_src, batch.link_dst)):
                for values, at in ((found.sent, batch.src), (found.heard, batch.dst)):
                    node = batch.nodes[shift + at[found.slots]]
                    own = torch.from_numpy(np.flatnonzero(node == nodes[link]))
                    if values.shape[1] == self._width:
                        of_link = torch.from_numpy(link)[own]
                        sums[end].index_add_(0, of_link, values[own])
                        counts[end].index_add_(0, of_link, torch.ones(len(own), 1))
            if relation in self._layers:
                edges[relation] = (
                    torch.from_numpy(found.slots), torch.from_numpy(link), found.sent, found.heard
                )  # fmt: skip
        src, dst = sums / counts.clamp(min=1)
        return NodeFeatures(len(batch.edges), edges, (src, dst))

    def logits(self, features: NodeFeatures, elsewhere: float) -> Tensor:
        """Return one mask logit per edge of the batch; `elsewhere` where there are no vectors."""
        logits = torch.full((features.num_edges,), elsewhere)
        src, dst = features.ends
        for relation, (slots, link, sent, heard) in features.edges.items():
            tail, head, of_src, of_dst, bias, last, last_bias = self._layers[relation]
            of_link = src @ of_src + dst @ of_dst + bias
            hidden = (sent @ tail + heard @ head + of_link[link]).relu()
            logits = logits.index_copy(0, slots, (hidden @ last)[:, 0] + last_bias)
        return logits
