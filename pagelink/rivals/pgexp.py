"""PGExp-Link: a mask predictor that is trained once, then one pass per link.

PGExplainer for links on heterogeneous graphs. A small network says the mask of an edge from what
the model itself has of it (`edge_vectors`: taken from the messages, so that it works for any model
that edge weights reach) and from what it has of the link's ends. It is trained on links that the
model predicts, with masks drawn from a concrete distribution whose temperature falls:
sigmoid((logit + log u - log(1 - u)) / temperature). Edges that the model cannot see have no mask.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from pagelink.errors import ModelError
from pagelink.explain.explainer import MEMORY
from pagelink.graph.batches import GIGABYTE
from pagelink.graph.computation_graph import ComputationGraphs
from pagelink.graph.links import Link, LinkLike
from pagelink.model.borrowing import in_normal_mode
from pagelink.model.inputs import ModelInput
from pagelink.rivals.edge_vectors import MaskPredictor, edge_vectors
from pagelink.rivals.rival import LOWEST, Options, Rival, made_masks
from pagelink.runtime.arrays import Floats, Longs
from pagelink.search.mask_learning import LearnedMasks
from pagelink.search.work import Work
from pagelink.settings import Settings

TRAINING_MEMORY = 1.0
"""About how many gigabytes the graphs of all training links may take: they are kept for all epochs,
and what is recorded of their edges takes several times as much."""


@dataclass(frozen=True)
class PGExpOptions(Options):
    """How the mask predictor is trained."""

    epochs: int = 30
    learning_rate: float = 0.0003
    size: float = 1e-5
    """Weight of the sum of the mask."""
    entropy: float = 1.0
    """Weight of the mean entropy of the mask."""
    hidden: int = 64
    num_links: int = 256
    """Training links at most; fewer where their computation graphs take too much memory."""
    links_a_step: int = 64
    first_temperature: float = 5.0
    last_temperature: float = 1.0


class MaskNetwork(Protocol):
    """A network from vectors of edges and links to mask logits."""

    def parameters(self) -> list[Tensor]:
        """All weights."""

    def logits(self, features: Any, elsewhere: float) -> Tensor:
        """One mask logit per edge of the batch."""


@dataclass(frozen=True)
class Step:
    """Links that go through the model together in training."""

    recorded: ModelInput
    predicted: Tensor
    features: Any


class PGExpLink(Rival):
    """PGExplainer for links; see `Rival` for the arguments.

    It is trained when the first link is explained, or by `fit`.

    Args:
        train_links: links to train on, as for `explain_many`. None: links of the graph if the
            predicted relation is in it, else random pairs; of these, those that are predicted.
    """

    name = "pgexp"
    options_type = PGExpOptions

    def __init__(
        self, *given: Any, train_links: Iterable[LinkLike] | None = None, **arguments: Any
    ) -> None:
        super().__init__(*given, **arguments)
        self._train_links = None if train_links is None else list(train_links)
        self._given["train_links"] = self._train_links
        self._trained: dict[int, MaskNetwork] = {}

    @classmethod
    def own_settings(cls, settings: Settings, options: PGExpOptions) -> Settings:
        """Nothing is pruned, nothing is learned for a single link."""
        return settings.replace(core=0, hub_degree=None, remove_pruned=False, epochs=0)

    def masks(self, work: Work) -> LearnedMasks:
        """Predict the mask of each link."""
        network = self.fit(work.seed)
        with torch.no_grad():
            features = self._features(network, work.batch, work.recorded, work.relation)
            logits = network.logits(features, LOWEST)
        return made_masks(work, self._shown(work.batch, logits.numpy()))

    def _shown(self, batch: ComputationGraphs, logits: Floats) -> Floats:
        """The mask logits of a batch as explanations have them."""
        return logits

    @in_normal_mode
    def fit(self, seed: int | None = None) -> MaskNetwork:
        """Train the mask predictor, unless that was done; the seed decides how it starts.

        Raises:
            ModelError: none of the training links is predicted.
        """
        seed = self.seed if seed is None else seed
        if seed not in self._trained:
            with torch.enable_grad():
                self._trained[seed] = self._train(seed)
        return self._trained[seed]

    def _features(
        self, network: Any, batch: ComputationGraphs, recorded: ModelInput, relation: Longs
    ) -> Any:
        """What the network takes; `edges` are as in `edge_vectors.Features`.

        Here, the vectors of the edges that the model sees.
        """
        return network.features(batch, edge_vectors(self.predictor, batch, recorded))

    def _none_predicted(self) -> ModelError:
        return ModelError(
            f"{self.name} is trained on links that the model predicts, and none of the training "
            "links is. Give others by train_links=[(src, dst), ...], or threshold=None."
        )

    def _train(self, seed: int) -> MaskNetwork:
        options: PGExpOptions = self.options
        gathered = list(self._gathered(seed))
        if not gathered:
            raise self._none_predicted()
        vectors = [edge_vectors(self.predictor, *each[:2]) for each in gathered]
        batches = [(batch, found) for (batch, *_), found in zip(gathered, vectors, strict=True)]
        predictor = MaskPredictor(batches, options.hidden, seed)
        steps = [
            Step(inputs, torch.from_numpy(predicted), predictor.features(batch, found))
            for (batch, inputs, _, predicted), found in zip(gathered, vectors, strict=True)
        ]
        del gathered, vectors, batches
        adam = torch.optim.Adam(predictor.parameters(), lr=options.learning_rate)
        generator = torch.Generator().manual_seed(seed + 1)
        fall = options.last_temperature / options.first_temperature
        for epoch in range(options.epochs):
            temperature = options.first_temperature * fall ** (epoch / max(options.epochs - 1, 1))
            for number in torch.randperm(len(steps), generator=generator).tolist():
                step = steps[number]
                found = self._terms(predictor, step.recorded, step.features, temperature, generator)
                if found is not None:
                    answers, cost = found
                    loss = (F.softplus(-answers) + cost)[step.predicted].mean()
                    adam.zero_grad()
                    loss.backward(inputs=predictor.parameters())  # and nothing of the user's
                    adam.step()
        return predictor

    def _terms(
        self,
        network: MaskNetwork,
        recorded: ModelInput,
        features: Any,
        temperature: float,
        generator: torch.Generator,
    ) -> tuple[Tensor, Tensor] | None:
        """Per link, the score under a drawn mask, and what its size and entropy cost.

        None: no edge has a mask.
        """
        options: PGExpOptions = self.options
        logits = network.logits(features, LOWEST)
        if not logits.requires_grad:
            return None
        chance = torch.rand(len(logits), generator=generator).clamp(1e-6, 1 - 1e-6)
        drawn = (logits + torch.logit(chance)) / temperature
        slots = torch.cat([slots for slots, *_ in features.edges.values()])
        mask = torch.sigmoid(drawn[slots])
        weights = torch.ones(len(logits)).index_copy(0, slots, mask)
        with self.predictor.weighted(recorded) as run:
            answers = run(weights.to(self.predictor.device)).cpu()
        entropy = mask * F.softplus(-drawn[slots]) + (1 - mask) * F.softplus(drawn[slots])
        link = torch.cat([link for _, link, *_ in features.edges.values()])
        count = torch.bincount(link, minlength=len(answers)).clamp(min=1)
        cost = torch.zeros(len(answers)).index_add(0, link, options.size * mask)
        cost = cost.index_add(0, link, options.entropy * entropy / count[link])
        return answers, cost

    def _gathered(self, seed: int) -> Iterator[tuple[ComputationGraphs, ModelInput, Longs, Longs]]:
        """Training links side by side, as they went through the model, with the predicted ones.

        The third is the relation of each link, the last is which of them are predicted.
        """
        options: PGExpOptions = self.options
        left, room = options.num_links, TRAINING_MEMORY * GIGABYTE
        links = [link for link in self._drawn(seed) if link.message is None]
        for cut in self.setup.batches.cut(links, options.links_a_step, MEMORY):
            batch = ComputationGraphs.joined(cut.graphs)
            relation = self.setup.relations(cut.valid)
            logits, recorded = self.setup.logits(batch, relation)
            predicted = np.isfinite(logits)
            if self.threshold is not None:
                predicted &= logits >= self.threshold
            chosen = np.flatnonzero(predicted)[:left]
            left -= len(chosen)
            if len(chosen):
                yield batch, recorded, relation, chosen
                room -= cut.size
            if left == 0 or room < cut.size:
                return

    def _drawn(self, seed: int) -> Iterator[Link]:
        """Training links: the given ones, or enough drawn ones that some are predicted."""
        if self._train_links is not None:
            yield from map(self.reader.read_any, self._train_links)
            return
        graph, rng = self.graph, np.random.default_rng((seed, 2))
        wanted = 4 * self.options.num_links
        for link_type in self.link_types:
            stated = np.flatnonzero(graph.relation == graph.edge_types.index(link_type))
            if len(stated):
                chosen = rng.permutation(stated)[:wanted]
                src, dst = graph.src[chosen], graph.dst[chosen]
            else:
                ends = []
                for node_type in (link_type[0], link_type[2]):
                    k = graph.node_types.index(node_type)
                    first, last = graph.node_offset[k : k + 2].tolist()
                    ends.append(rng.integers(first, last, size=wanted))
                src, dst = ends
            for s, t in zip(src.tolist(), dst.tolist(), strict=True):
                if s != t:
                    yield Link(link_type, s, t, graph.link_fact(s, t, link_type))
