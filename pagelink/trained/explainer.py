"""Explanations of models that pass no messages, by the facts that they were trained on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from pagelink.errors import SettingsError
from pagelink.explain.explainer import BATCH_SIZE, MEMORY
from pagelink.explain.options import ExplainOptions, check_arguments, check_batches
from pagelink.explain.preparation import Prepared
from pagelink.explain.ranking import KnownLinks
from pagelink.explain.result import Explanation
from pagelink.graph.batches import Batches
from pagelink.graph.links import Key, Link, LinkReader
from pagelink.graph.typed_graph import TypedGraph
from pagelink.model.borrowing import in_normal_mode
from pagelink.model.noise import Noise
from pagelink.model.predictor import LinkPredictor
from pagelink.model.receptive_field import ReceptiveField
from pagelink.search.constraints import Constraints
from pagelink.search.work import Setup
from pagelink.settings import Settings
from pagelink.trained.embeddings import EmbeddingModel
from pagelink.trained.facts import NodeFacts, training_graph
from pagelink.trained.known_models import embedding_model
from pagelink.trained.measuring import TrainedSetup
from pagelink.trained.mimics import Mimics, Training, Trial, TrialLink

NUM_HOPS = 2
"""Facts of the nodes within one fact of an end are looked at: paths of up to four facts."""
SCORED = 512
"""Facts, and random pairs, whose scores say what counts as nothing."""
PROBED = 16
"""Facts by which it is found how much random starts alone change."""
ERRORS = 2.0
"""A change of this number of standard errors of a typical effect is not noticed."""
DEFAULT = Settings(epochs=0, candidates=8, verified=24, swaps=8, longer=False)
"""No mask is learned, and fewer sets are measured: each is trained, not only passed."""
NOTE = (
    "The model passes no messages, so facts were taken out of its training: without them is what "
    "mimics say, copies of {nodes} trained anew from {starts} random starts on their other facts."
)


class TrainedExplainer(Prepared):
    """Explains links that a model without messages predicts, by what it was trained on.

    Candidates, choice, verdicts and results are those of `PaGELink`. What differs is how it is
    measured what facts are worth: by mimics (see `pagelink.trained.mimics`). The model stays as it
    is.

    Args:
        model: a trained model of PyKEEN or `torch_geometric.nn.kge` (ComplEx, DistMult, RotatE,
            TransE), a matrix factorisation called as `model(user, item)`, or an `EmbeddingModel`.
        triples: the facts that it was trained on: head, relation, tail by number,
            [num_facts, 3]; user and item, [num_facts, 2]; or a triples factory of PyKEEN.
        settings: how to explain. None: fewer sets are measured than by `Settings()`.
        seed: where random numbers come from.
        entity_names: of the nodes, by number; of users, then of items.
        relation_names: of the relations, by number.
        threshold: a link with a lower score is a predicted negative. None: the model ranks, no link
            is negative.
        training: how mimics are trained.
        ends_only: train only source and target anew, as Kelpie does, and not all nodes on paths.

    Raises:
        PageLinkError: the model or the triples cannot be used; the message says why.
    """

    @in_normal_mode
    def __init__(
        self,
        model: nn.Module | EmbeddingModel,
        triples: Any,
        *,
        settings: Settings | None = None,
        seed: int = 0,
        entity_names: Sequence[str] | None = None,
        relation_names: Sequence[str] | None = None,
        threshold: float | None = None,
        training: Training | None = None,
        ends_only: bool = False,
    ) -> None:
        check_arguments(settings, seed, threshold)
        settings = settings or DEFAULT
        if settings.epochs:
            raise SettingsError(
                f"epochs must be 0, got {settings.epochs}: a model without messages has no edge "
                "weights to learn a mask by."
            )
        known = embedding_model(model)
        data, types = training_graph(known, triples, entity_names, relation_names)
        self._given = {}
        self.threshold, self.held_out, self.store = threshold, None, None
        self.graph = TypedGraph.from_data(data, types)
        self.link_types = types
        self.known = KnownLinks.of(self.graph, types[0])
        module = model if isinstance(model, nn.Module) else nn.Module()
        self.facts, self.embeddings = NodeFacts(self.graph, types), known
        self.training, self.ends_only = training or Training(), ends_only
        self.predictor = LinkPredictor(module, data, self.graph, _scored(known, self.facts))
        self.predictor.shares_unedited = self.predictor.has_gradient = False
        every = np.ones(len(self.graph.edge_types), dtype=np.bool_)
        self.reader = LinkReader(self.graph, types)
        noise = self._noise(Mimics(known, self.facts, self.training, seed))
        self.receptive_field = ReceptiveField("subgraphs", NUM_HOPS, every, every, noise)
        self.warnings = self._warnings()
        self._adopt(settings, seed)

    def _setup(
        self, batches: Batches, settings: Settings, constraints: Constraints, seed: int
    ) -> Setup:
        return TrainedSetup(
            self.predictor, self.receptive_field, batches, settings, constraints, self.threshold,
            Mimics(self.embeddings, self.facts, self.training, seed), self.ends_only,
        )  # fmt: skip

    def _warnings(self) -> list[str]:
        nodes = "source and target" if self.ends_only else "the nodes on paths"
        return [NOTE.format(nodes=nodes, starts=self.training.starts)]

    def _noise(self, mimics: Mimics) -> Noise:
        """What counts as nothing: by the spread of scores, and by what random starts change."""
        graph, model = self.graph, self.embeddings
        forward = np.flatnonzero(self.facts.is_forward[graph.relation])
        rng = np.random.default_rng(0)
        edges = rng.choice(forward, min(SCORED, len(forward)), replace=False)
        number = self.facts.model_relation[graph.relation[edges]]
        src, dst = graph.src[edges].astype(np.int64), graph.dst[edges].astype(np.int64)
        heads, relations = np.concatenate([src, src]), np.concatenate([number, number])
        tails = np.concatenate([dst, rng.permutation(dst)])
        noise = Noise.of(model.scores(*map(torch.from_numpy, (heads, relations, tails))))
        gone = np.empty(0, dtype=np.int64)
        links, trials = [], []
        for i in range(min(PROBED, len(edges))):
            here = slice(*graph.in_ptr[src[i] : src[i] + 2])
            fact = int(rng.choice(graph.fact[here]))
            links.append(TrialLink(int(src[i]), int(dst[i]), int(number[i]), gone))
            ends, out = (int(src[i]), int(dst[i])), frozenset([fact])
            trials += [Trial(i, ends, counted=out), Trial(i, ends, out, counted=out)]
        scores = mimics.scores(links, trials)
        changes = scores[1::2] - scores[::2]
        errors = changes.std(axis=1, ddof=1) / np.sqrt(changes.shape[1])
        return Noise(noise.spread, max(noise.rounding, ERRORS * float(np.median(errors))))

    def _stream(
        self, links: Iterable[Any], *how: Any, raises: bool = False
    ) -> Iterator[Explanation]:
        return self.pipeline.stream(map(self._read, links), *how, raises=raises)

    def explain(self, src: Key, dst: Key, relation: Key | None = None) -> Explanation:
        """Explain one link, given by indices or names.

        Args:
            src: the head of the link, or the user.
            dst: its tail, or the item.
            relation: its relation, if the model has several.

        Raises:
            LinkError: there is no such node or relation.
        """
        (answer,) = self._stream(
            [(src, dst) if relation is None else (src, relation, dst)], ExplainOptions(False),
            BATCH_SIZE, MEMORY, raises=True,
        )  # fmt: skip
        return answer

    def explain_many(
        self,
        links: Iterable[Sequence[Key]],
        *,
        batch_size: int = BATCH_SIZE,
        memory: float = MEMORY,
        negatives: bool = False,
    ) -> Iterator[Explanation]:
        """Explain any number of links, in order, as an iterator.

        Args:
            links: head, relation and tail of each, or user and item, by indices or names.
            batch_size: the number of links that are explained side by side at most.
            memory: about how many gigabytes a batch of links may take.
            negatives: if a link is not predicted, say which paths speak for it, which against.

        Raises:
            SettingsError: an argument is out of its range.
        """
        check_batches(batch_size, memory)
        options = ExplainOptions(False, negatives=negatives)
        return self._stream(links, options, batch_size, memory)

    def _read(self, given: Any) -> Link:
        """A link in flat nodes; one that is malformed has a message why."""
        row = given.tolist() if hasattr(given, "tolist") else given
        parts = len(row) if isinstance(row, tuple | list) else 0
        if parts == 2 and len(self.link_types) == 1:
            return self.reader.read_any(tuple(row))
        if parts != 3:
            is_rating = self.embeddings.num_users is not None
            wanted = "user and item" if is_rating else "head, relation and tail"
            return Link.broken(row, self.link_types[0], f"A link is {wanted}, got {row!r}.")
        head, relation, tail = row
        if isinstance(relation, int) and 0 <= relation < len(self.link_types):
            relation = self.link_types[relation][1]
        return self.reader.read_any((head, tail, relation))


def _scored(model: EmbeddingModel, facts: NodeFacts) -> Any:
    """What calls a model through a `LinkPredictor`: the scores of links by their nodes."""

    def forward(module: nn.Module, data: Any, edge_label_index: Tensor) -> Tensor:
        relation = torch.from_numpy(facts.model_relation)[data.edge_label_type]
        (kinds,) = {facts.graph.edge_types[int(t)][::2] for t in data.edge_label_type} or {("", "")}
        ends = [
            data[kind].n_id[index] + int(facts.graph.flat_index(kind, 0))
            for kind, index in zip(kinds, edge_label_index, strict=True)
        ]
        return model.scores(ends[0], relation, ends[1])

    return forward


def explain_trained(
    model: nn.Module | EmbeddingModel,
    triples: Any,
    links: Iterable[Sequence[Key]],
    *,
    settings: Settings | None = None,
    seed: int = 0,
    entity_names: Sequence[str] | None = None,
    relation_names: Sequence[str] | None = None,
    threshold: float | None = None,
    training: Training | None = None,
    ends_only: bool = False,
) -> list[Explanation]:
    """Explain links that a model without messages predicts, by the facts it was trained on.

    The question is what the model would say had it not been trained on these facts (that of
    Kelpie, Rossi et al., SIGMOD 2022); the answer is paths, chosen, judged and shown as by
    `PaGELink`. `TrainedExplainer` has the arguments, and is made once for many calls.

    Args:
        model: the model.
        triples: the facts that it was trained on.
        links: head, relation and tail of each link, or user and item, by indices or names.
        settings: how to explain.
        seed: where random numbers come from.
        entity_names: of the nodes.
        relation_names: of the relations.
        threshold: a link with a lower score is a predicted negative.
        training: how mimics are trained.
        ends_only: train only source and target anew.

    Returns:
        One explanation per link, in order; a malformed link has the reason `invalid`.

    Raises:
        PageLinkError: the model or the triples cannot be used; the message says why.
    """
    explainer = TrainedExplainer(
        model, triples, settings=settings, seed=seed, entity_names=entity_names,
        relation_names=relation_names, threshold=threshold, training=training, ends_only=ends_only,
    )  # fmt: skip
    return list(explainer.explain_many(links))
