"""PGExp-Link as the PaGE-Link authors train theirs, with the settings of their released code.

One network per relation says the mask of an edge from the last representations of its two nodes and
of the two ends of the link. Every edge of the computation graph has a mask, also those that the
model cannot see. An epoch is one step of Adam on the summed losses of training links that are drawn
anew; the loss of a link that the model does not predict has the other sign, and no lower bound.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from pagelink.explain.explainer import MEMORY
from pagelink.graph.batches import GIGABYTE
from pagelink.graph.computation_graph import ComputationGraphs
from pagelink.graph.links import Link
from pagelink.model.borrowing import Borrowed
from pagelink.model.inputs import ModelInput
from pagelink.models.link_model import TowerModel, node_inputs
from pagelink.rivals.edge_vectors import edge_vectors
from pagelink.rivals.pgexp import MaskNetwork, PGExpLink, PGExpOptions
from pagelink.runtime.arrays import Doubles, Floats, Longs

LARGEST = 8.0
"""Mask logits of an explanation at most, up and down: far from where a float rounds to 0 or 1."""
KEPT = 1.0
"""Gigabytes of representations that are kept while training; others are computed when needed."""


@dataclass(frozen=True)
class PGExpReleasedOptions(PGExpOptions):
    """How the released code trains its mask predictor on UserItemAttr."""

    epochs: int = 100
    learning_rate: float = 0.005
    num_links: int = 4096
    """Training links at most; the paper's data sets have fewer."""
    links_a_step: int = 32
    """Links that go through the model together."""
    links_per_epoch: int = 256
    """Links of the only step of an epoch, drawn anew."""


Ends = Mapping[Hashable, tuple[Tensor, Tensor]]


@dataclass(frozen=True)
class NodeFeatures:
    """The representations of the nodes of a batch, and which of them an edge and a link have."""

    num_edges: int
    tables: Mapping[Hashable, Tensor]
    """Representations, [rows, d]: of all nodes of a type, by its name."""
    edges: Mapping[int, tuple[Tensor, Tensor, Hashable, Tensor, Hashable, Tensor]]
    """Per relation: slots, links, the table of the tails and their rows in it, that of the heads
    and theirs."""
    ends: tuple[Ends, Ends]
    """Of the sources and of the targets: by table, rows in it and their links."""
    num_links: int = 1

    @property
    def size(self) -> int:
        """Bytes."""
        rows = [each for _, _, _, a, _, b in self.edges.values() for each in (a, b)]
        return sum(each.nbytes for each in (*self.tables.values(), *rows))

    @classmethod
    def joined(cls, parts: Sequence[NodeFeatures]) -> NodeFeatures:
        """Put those of single links one after the other."""
        tables: dict[Hashable, list[Tensor]] = {}
        edges: dict[int, list[tuple[Tensor, ...]]] = {}
        keys: dict[int, tuple[Hashable, Hashable]] = {}
        ends: tuple[dict[Hashable, list[Tensor]], ...] = {}, {}
        rows: dict[Hashable, int] = {}
        num_edges = 0
        for link, part in enumerate(parts):
            for relation, (slots, _, tail, tails, head, heads) in part.edges.items():
                keys[relation] = tail, head
                edges.setdefault(relation, []).append((
                    slots + num_edges, torch.full_like(slots, link),
                    tails + rows.get(tail, 0), heads + rows.get(head, 0),
                ))  # fmt: skip
            for of_end, own in zip(ends, part.ends, strict=True):
                for key, (at, _) in own.items():
                    at = at + rows.get(key, 0)
                    of_end.setdefault(key, []).append(torch.stack([at, torch.full_like(at, link)]))
            for key, table in part.tables.items():
                tables.setdefault(key, []).append(table)
                rows[key] = rows.get(key, 0) + len(table)
            num_edges += part.num_edges
        found = {}
        for relation, of_links in edges.items():
            slots, links, tails, heads = map(torch.cat, zip(*of_links, strict=True))
            tail, head = keys[relation]
            found[relation] = slots, links, tail, tails, head, heads
        src, dst = (
            {key: (*torch.cat(each, 1),) for key, each in of_end.items()} for of_end in ends
        )
        whole = {key: torch.cat(each) for key, each in tables.items()}
        return cls(num_edges, whole, found, (src, dst), len(parts))


class PGExpReleased(PGExpLink):
    """PGExp-Link as released; see `PGExpLink` for the arguments.

    Not as released: where a model is not one of this package, it does not give its last
    representations, and the messages along an edge stand for them. Where no training links are
    given, pairs that the model predicts are drawn.
    """

    name = "pgexp-released"
    options_type = PGExpReleasedOptions

    def _train(self, seed: int) -> MaskNetwork:
        options: PGExpReleasedOptions = self.options
        links = self._pool(seed)
        generator = torch.Generator().manual_seed(seed + 1)
        fall = options.last_temperature / options.first_temperature
        kept: dict[Link, NodeFeatures] = {}
        network: NodeNetwork | None = None
        for epoch in range(1, options.epochs + 1):
            order = torch.randperm(len(links), generator=generator)[: options.links_per_epoch]
            drawn = [links[number] for number in order.tolist()]
            if network is None:
                network = NodeNetwork(self._widths(drawn, kept), options.hidden, seed)
                adam = torch.optim.Adam(network.parameters(), lr=options.learning_rate)
            temperature = options.first_temperature * fall ** (epoch / options.epochs)
            adam.zero_grad()
            for logits, recorded, features in self._steps(drawn, kept):
                found = self._terms(network, recorded, features, temperature, generator)
                if found is not None:
                    answers, cost = found
                    loss = self._sign(logits) * F.softplus(-answers) + cost
                    usable = torch.from_numpy(np.isfinite(logits))
                    loss[usable].sum().backward(inputs=network.parameters())  # none of the user's
            if any(each.grad is not None for each in network.parameters()):
                adam.step()
        assert network is not None  # there is at least one epoch
        return network

    def _sign(self, logits: Doubles) -> Tensor:
        """1 for links that are predicted, -1 for given ones that are not, as released."""
        against = logits < (self.threshold or 0.0)
        return torch.from_numpy(np.where(against & (self._train_links is not None), -1.0, 1.0))

    def _pool(self, seed: int) -> list[Link]:
        """The training links: all that are given, or drawn pairs that are predicted.

        Raises:
            ModelError: there are none.
        """
        options: PGExpReleasedOptions = self.options
        links = (link for link in self._drawn(seed) if link.message is None)
        if self._train_links is not None:
            found = list(islice(links, options.num_links))
        else:
            found = []
            lowest = -np.inf if self.threshold is None else self.threshold
            for _, own, logits, _ in self._scored(links):
                found += [link for link, logit in zip(own, logits, strict=True) if logit >= lowest]
                if len(found) >= options.num_links:
                    break
        if not found:
            raise self._none_predicted()
        return found[: options.num_links]

    def _scored(
        self, links: Iterable[Link]
    ) -> Iterator[tuple[ComputationGraphs, list[Link], Doubles, ModelInput]]:
        """Links side by side, with their scores, as they went through the model."""
        options: PGExpReleasedOptions = self.options
        for cut in self.setup.batches.cut(links, options.links_a_step, MEMORY):
            batch = ComputationGraphs.joined(cut.graphs)
            logits, recorded = self.setup.logits(batch, self.setup.relations(cut.valid))
            yield batch, cut.valid, logits, recorded

    def _steps(
        self, links: list[Link], kept: dict[Link, NodeFeatures]
    ) -> Iterator[tuple[Doubles, ModelInput, NodeFeatures]]:
        """The links of an epoch: those that go through the model together, with their features.

        Args:
            links: the links.
            kept: features by link; as many as there is room for are added.
        """
        room = KEPT * GIGABYTE - sum(each.size for each in kept.values())
        for batch, own, logits, recorded in self._scored(links):
            relation, parts = self.setup.relations(own), []
            for number, link in enumerate(own):
                found = kept.get(link)
                if found is None:
                    found = self._of_link(batch.only(number), relation[[number]])
                    if found.size <= room:
                        kept[link] = found
                        room -= found.size
                parts.append(found)
            yield logits, recorded, NodeFeatures.joined(parts)

    def _features(
        self, network: Any, batch: ComputationGraphs, recorded: ModelInput, relation: Longs
    ) -> NodeFeatures:
        return NodeFeatures.joined(
            [self._of_link(batch.only(link), relation[[link]]) for link in range(batch.num_links)]
        )

    def _of_link(self, alone: ComputationGraphs, relation: Longs) -> NodeFeatures:
        """The representations of a link's nodes, on its own computation graph with all edges.

        One by one: links side by side share nodes at the rim, and their edges count here.
        """
        graph, model = self.graph, self.predictor.model
        inputs = self.predictor.inputs(alone, np.ones(len(alone.edges), np.bool_), [0], relation)
        if not isinstance(model, TowerModel):
            return self._by_messages(alone, self.predictor.record(inputs)[1])
        data = inputs.data
        with Borrowed(model, lambda undo: torch.set_grad_enabled(False)):
            h_dict = model.encode(node_inputs(data), data.edge_index_dict)
        tables: dict[Hashable, Tensor] = {kind: h.cpu().float() for kind, h in h_dict.items()}
        slots, edges, first = inputs.slots.cpu(), {}, 0
        for edge_type in data.edge_types:
            tails, heads = data[edge_type].edge_index.cpu()
            here = slots[first : first + len(tails)]
            first += len(tails)
            inside = here >= 0
            if bool(inside.any()):
                edges[graph.edge_types.index(edge_type)] = (
                    here[inside], torch.zeros_like(here[inside]),
                    edge_type[0], tails[inside], edge_type[2], heads[inside],
                )  # fmt: skip
        kinds = graph.edge_types[int(relation[0])][::2]
        rows = inputs.edge_label_index.cpu()
        ends: list[Ends] = [
            {kind: (at, torch.zeros_like(at))} for kind, at in zip(kinds, rows, strict=True)
        ]
        return NodeFeatures(len(alone.edges), tables, edges, (ends[0], ends[1]))

    def _by_messages(self, alone: ComputationGraphs, recorded: ModelInput) -> NodeFeatures:
        """The messages of a link's edges; an end has those along its edges."""
        tables: dict[Hashable, Tensor] = {}
        ends: tuple[dict[Hashable, tuple[Tensor, Tensor]], ...] = {}, {}
        edges = {}
        for relation, found in edge_vectors(self.predictor, alone, recorded).items():
            sent, heard = (relation, "sent"), (relation, "heard")
            tables[sent], tables[heard] = found.sent, found.heard
            slots = torch.from_numpy(found.slots)
            every = torch.arange(len(slots))
            edges[relation] = slots, torch.zeros_like(slots), sent, every, heard, every
            for key, at in ((sent, alone.src), (heard, alone.dst)):
                for of_end, node in zip(ends, alone.ends[:, 0], strict=True):
                    own = torch.from_numpy(np.flatnonzero(at[found.slots] == node))
                    of_end[key] = own, torch.zeros_like(own)
        return NodeFeatures(len(alone.edges), tables, edges, (ends[0], ends[1]))

    def _widths(
        self, links: list[Link], kept: dict[Link, NodeFeatures]
    ) -> dict[int, tuple[int, int]]:
        """Per relation, the lengths of the vectors of tails and heads."""
        return {
            relation: (features.tables[tail].shape[1], features.tables[head].shape[1])
            for *_, features in self._steps(links, kept)
            for relation, (_, _, tail, _, head, _) in features.edges.items()
        }

    def _shown(self, batch: ComputationGraphs, logits: Floats) -> Floats:
        """Scale the logits of a link down where masks would round to 0 or 1; their order stays.

        The weight of the entropy drives them there, and the released code finds the edges of the
        highest masks by logits.
        """
        highest = np.maximum.reduceat(np.append(np.abs(logits), 0), batch.edge_ptr[:-1])
        highest = np.where(np.diff(batch.edge_ptr) > 0, highest, 0)
        scale = np.minimum(1, LARGEST / np.maximum(highest, 1e-9))
        shown: Floats = logits * np.repeat(scale, np.diff(batch.edge_ptr)).astype(np.float32)
        return shown


class NodeNetwork:
    """Per relation, two linear layers with a ReLU between, on four vectors side by side.

    Args:
        widths: per relation, the lengths of the vectors of tails and heads.
        hidden: hidden units.
        seed: of the first weights and biases, uniform up to 1 / sqrt(inputs) as in `nn.Linear`.
    """

    def __init__(self, widths: Mapping[int, tuple[int, int]], hidden: int, seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)

        def drawn(inputs: int, *shape: int) -> Tensor:
            drawn = 2 * torch.rand(*shape, generator=generator) - 1
            return (drawn / math.sqrt(inputs)).requires_grad_()

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

    def logits(self, features: NodeFeatures, elsewhere: float) -> Tensor:
        """Return one mask logit per edge of the batch; `elsewhere` for relations not known."""
        logits = torch.full((features.num_edges,), elsewhere)
        src, dst = (self._ends(features, of_end) for of_end in features.ends)
        for relation, (slots, link, sent, tails, heard, heads) in features.edges.items():
            if relation not in self._layers:
                continue
            tail, head, of_src, of_dst, bias, last, last_bias = self._layers[relation]
            # Nodes are fewer than edges, so that these go through the first layer.
            hidden = (features.tables[sent] @ tail)[tails] + (features.tables[heard] @ head)[heads]
            hidden = hidden + (src @ of_src + dst @ of_dst + bias)[link]
            logits = logits.index_copy(0, slots, (hidden.relu() @ last)[:, 0] + last_bias)
        return logits

    def _ends(self, features: NodeFeatures, ends: Ends) -> Tensor:
        """[num_links, d]: the mean of the vectors that an end has; one where these are of nodes."""
        total = torch.zeros(features.num_links, self._width)
        count = torch.zeros(features.num_links, 1)
        for key, (rows, links) in ends.items():
            table = features.tables[key]
            if table.shape[1] == self._width:
                total.index_add_(0, links, table[rows])
                count.index_add_(0, links, torch.ones(len(rows), 1))
        return total / count.clamp(min=1)
