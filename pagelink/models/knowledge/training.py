"""Training of one model for all relations: every end of a link against all nodes."""

from __future__ import annotations

import copy
import dataclasses
import resource
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import HeteroData

from pagelink.errors import ModelError, SettingsError
from pagelink.graph.typed_graph import TypedGraph
from pagelink.models.knowledge.edges import RelationalEdges
from pagelink.models.knowledge.facts import KnownFacts, Splits, edges_of_triples, flat_triples
from pagelink.models.knowledge.model import KnowledgeModel, sorted_edges
from pagelink.models.knowledge.ranking import (
    RankFigures,
    Ranks,
    TestRanks,
    allowed_nodes,
    filtered_ranks,
    test_ranks,
)
from pagelink.models.link_model import node_inputs
from pagelink.runtime.undo import Undo
from pagelink.views.text import count


@dataclass(frozen=True, kw_only=True)
class KnowledgeSettings:
    """Settings of a training of one model for all relations."""

    epochs: int = 20
    """Maximum epochs, 1 or more. In each, every training link is predicted once each way."""
    patience: int = 3
    """Epochs without a rise of the validation MRR after which to stop, 1 or more."""
    lr: float = 0.01
    """Step size of Adam."""
    batch_size: int = 4096
    """Links per step. They are left out of the messages of their step."""
    queries: int | None = None
    """Training links of an epoch, drawn anew for each; None: all of them."""
    candidates: int | None = 1024
    """Nodes that the true end of a link is compared with in a step, drawn at random; None: all."""
    smoothing: float = 0.1
    """Share of the target distribution that is spread over all nodes, 0..1."""
    minutes: float | None = None
    """CPU minutes after which no further step begins; None: no limit. With one, the result depends
    on the speed of the machine."""
    valid_links: int = 1000
    """Validation links that are ranked after each epoch, at most; the same ones each time."""
    test_links: int | None = None
    """Test links that are ranked in the end, at most, drawn at random; None: all."""

    def __post_init__(self) -> None:
        for name in ("epochs", "patience", "batch_size", "valid_links"):
            if getattr(self, name) < 1:
                raise SettingsError(f"{name} must be at least 1, got {getattr(self, name)}.")
        if not 0 <= self.smoothing < 1 or not self.lr > 0:
            raise SettingsError(
                f"smoothing must be in 0..1 and lr above 0, got {self.smoothing} and {self.lr}."
            )


@dataclass(frozen=True)
class KnowledgeEpoch:
    """What one epoch came to."""

    number: int
    loss: float
    """Mean cross-entropy of the true end among all nodes."""
    valid_mrr: float


@dataclass(frozen=True)
class KnowledgeReport:
    """How a training went. The model holds the weights of the best epoch."""

    best_epoch: int
    valid_mrr: float
    test: TestRanks
    history: tuple[KnowledgeEpoch, ...] = field(repr=False)
    seed: int
    seconds: float = field(compare=False)
    """CPU seconds, testing included."""
    megabytes: float = field(compare=False)
    """The most memory that the process had so far."""
    stopped: bool = False
    """The time was over before all epochs were done."""
    ranks: tuple[Ranks, Ranks] | None = field(default=None, repr=False, compare=False)
    """Filtered ranks of the tails and the heads of the test links; a checkpoint has none."""

    @property
    def headline(self) -> str:
        """The figure that says most, in words."""
        return f"test MRR {self.test.both.mrr:.3f}"

    def __str__(self) -> str:
        over = " The time was over." if self.stopped else ""
        lines = [
            f"Trained for {count(len(self.history), 'epoch')} in {self.seconds:.1f} CPU seconds "
            f"and {self.megabytes / 1000:.2f} GB, best in epoch {self.best_epoch} with validation "
            f"MRR {self.valid_mrr:.3f}.{over}",
            f"Test, filtered: {self.test.both}; of tails {self.test.tails.mrr:.3f}, of heads "
            f"{self.test.heads.mrr:.3f}.",
        ]
        relations = self.test.relations
        shown = ", ".join(f"{t[1]} {f.mrr:.3f} ({count(f.num_queries // 2, 'link')})"
                          for t, f in relations[:3])  # fmt: skip
        if len(relations) > 1:
            lines.append(f"MRR of the largest of {len(relations)} relations: {shown}.")
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain values, for JSON."""
        return dataclasses.asdict(dataclasses.replace(self, ranks=None))

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> KnowledgeReport:
        """Return the report that `to_dict` was called on."""
        history = tuple(KnowledgeEpoch(**epoch) for epoch in plain["history"])
        return cls(**{**plain, "history": history, "test": TestRanks.from_dict(plain["test"])})


Progress = Callable[[KnowledgeEpoch], None]


def train_knowledge(
    model: KnowledgeModel,
    data: HeteroData,
    splits: Splits,
    settings: KnowledgeSettings | None = None,
    *,
    seed: int = 0,
    progress: Progress | None = None,
    facts: HeteroData | None = None,
) -> KnowledgeReport:
    """Train a model in place with Adam, and rank the test links.

    In a step the tails and the heads of some training links are predicted among all nodes of their
    type by cross-entropy; other nodes that training links have in their place are left out of it.
    The links of a step, and their reverses, pass no messages in it. The weights of the epoch with
    the best validation MRR are put back, and the model is left in evaluation mode. The same seed
    gives the same weights, if no time limit is set; the global random state stays as it was.

    Args:
        model: made for `data` and the relations of `splits`, in their order.
        data: the graph that messages pass on: no validation or test link is in it.
        splits: the links of every relation to predict.
        settings: how to train.
        seed: of the order of the links, the samples and the dropout.
        progress: called after every epoch.
        facts: the graph that says which edges state a link, if messages pass along others, which
            stand in their places.

    Raises:
        ModelError: the loss is not finite, or the model was made for other relations.
    """
    settings = settings or KnowledgeSettings()
    if tuple(splits) != model.link_types or tuple(data.edge_types) != model.edge_types:
        raise ModelError("The model was made for other relations. Make it for this graph.")
    training = _Training(model, data, splits, settings, seed, facts or data)
    with Undo() as undo:
        undo.later(torch.default_generator.set_state, torch.get_rng_state())
        return training.run(progress)


class _Training:
    """One training of one model: what all of its steps share."""

    def __init__(
        self,
        model: KnowledgeModel,
        data: HeteroData,
        splits: Splits,
        settings: KnowledgeSettings,
        seed: int,
        facts: HeteroData,
    ) -> None:
        self.began = time.process_time()
        self.model, self.settings, self.seed = model, settings, seed
        self.x_dict = node_inputs(data)
        whole = RelationalEdges(
            self.x_dict, dict(data.edge_index_dict), model.node_types, model.edge_types
        )
        self.first, self.num_nodes = whole.first, whole.num_nodes
        self.edges = sorted_edges(model, whole)
        self.stated = edges_of_triples(TypedGraph.from_data(facts), splits)
        self.parts = {p: flat_triples(splits, p, self.first) for p in ("train", "valid", "test")}
        if not self.parts["train"].shape[1]:
            raise ModelError("There are no training links.")
        self.known = KnownFacts(self.parts["train"], self.num_nodes)
        self.every = KnownFacts(torch.cat([*self.parts.values()], dim=1), self.num_nodes)
        self.masks = [
            allowed_nodes(model.link_types, self.first, self.num_nodes, inverse)
            for inverse in (False, True)
        ]

    def _is_over(self) -> bool:
        limit = self.settings.minutes
        return limit is not None and time.process_time() - self.began >= 60 * limit

    def run(self, progress: Progress | None) -> KnowledgeReport:
        model, settings = self.model, self.settings
        rng = np.random.default_rng([self.seed, 5])
        optimizer = torch.optim.Adam(model.parameters(), lr=settings.lr)
        valid = _some(self.parts["valid"], settings.valid_links, rng)
        test = _some(self.parts["test"], settings.test_links, rng)
        best, weights = KnowledgeEpoch(0, float("inf"), -1.0), copy.deepcopy(model.state_dict())
        history: list[KnowledgeEpoch] = []
        for number in range(1, settings.epochs + 1):
            losses = [self._step(optimizer, links, rng) for links in self._batches(rng)]
            if not losses:
                break
            both = self._ranks(valid)
            mrr = RankFigures.of(np.concatenate(both)).mrr if valid.shape[1] else -losses[-1]
            history.append(KnowledgeEpoch(number, float(np.mean(losses)), mrr))
            if progress is not None:
                progress(history[-1])
            if mrr > best.valid_mrr or number == 1:
                best, weights = history[-1], copy.deepcopy(model.state_dict())
            if number - best.number >= settings.patience or self._is_over():
                break
        model.load_state_dict(weights)
        model.eval()
        ranks = self._ranks(test)
        figures = test_ranks(*ranks, test[1].numpy(), model.link_types)
        return KnowledgeReport(
            best_epoch=best.number, valid_mrr=best.valid_mrr, test=figures,
            history=tuple(history), seed=self.seed, seconds=time.process_time() - self.began,
            megabytes=_most_memory(), stopped=self._is_over(), ranks=ranks,
        )  # fmt: skip

    def _batches(self, rng: np.random.Generator) -> Iterator[Tensor]:
        """Yield the links of each step of an epoch, by position."""
        count = self.parts["train"].shape[1]
        order = rng.permutation(count)[: self.settings.queries or count]
        for first in range(0, len(order), self.settings.batch_size):
            if self._is_over():
                return
            yield torch.from_numpy(order[first : first + self.settings.batch_size])

    def _step(self, optimizer: Any, links: Tensor, rng: np.random.Generator) -> float:
        model = self.model
        model.train()
        torch.manual_seed(int(rng.integers(2**62)))
        ptr, edges = self.stated
        picked = [edges[ptr[i] : ptr[i + 1]] for i in links.tolist()]
        self.edges.leave_out(np.concatenate(picked))
        optimizer.zero_grad()
        vectors = model.encode(self.x_dict, self.edges)
        triples = self.parts["train"][:, links]
        losses = [self._loss(vectors, triples, inverse, rng) for inverse in (False, True)]
        loss = (losses[0] + losses[1]) / 2
        if not bool(torch.isfinite(loss)):
            raise ModelError(f"The loss is {float(loss)}. Try a smaller lr.")
        loss.backward()
        optimizer.step()
        return float(loss.detach())

    def _loss(
        self, vectors: Any, triples: Tensor, inverse: bool, rng: np.random.Generator
    ) -> Tensor:
        """Return the cross-entropy of the true end beside other nodes that are no answers."""
        one, relation, other = triples if not inverse else triples.flip(0)
        wanted = self.settings.candidates
        nodes = torch.arange(self.num_nodes)
        all_at_once = self.model.scores_all or wanted is None or wanted >= self.num_nodes
        if wanted is not None and not all_at_once:
            drawn = rng.choice(self.num_nodes, size=wanted, replace=False)
            # Ends of other links of the step are the harder ones to tell apart.
            nodes = torch.unique(torch.cat([torch.from_numpy(drawn), other[:wanted]]))
        logits = self.model.against(vectors, one, relation, inverse, nodes)
        place = torch.full((self.num_nodes,), -1).index_put((nodes,), torch.arange(len(nodes)))
        rows, answers = self.known.others(one, relation, inverse)
        columns = place[torch.from_numpy(answers)]
        seen = columns >= 0
        left_out = torch.zeros(logits.shape, dtype=torch.bool)
        left_out[torch.from_numpy(rows)[seen], columns[seen]] = True
        mask = self.masks[inverse]
        if mask is not None:
            left_out |= torch.isinf(mask[relation][:, nodes])
        # The true end, whether it was drawn or not, comes first.
        if all_at_once:
            true = logits.gather(1, other[:, None]).squeeze(1)
            left_out.scatter_(1, other[:, None], True)
        else:
            ends = (other, one) if inverse else (one, other)
            true = self.model.score(vectors, ends[0], relation, ends[1])
        every = torch.cat([true[:, None], logits.masked_fill(left_out, -torch.inf)], dim=1)
        loss = every.logsumexp(dim=1) - true
        share = self.settings.smoothing
        if share:
            count = (~left_out).sum(dim=1) + 1
            mean = (logits.masked_fill(left_out, 0.0).sum(dim=1) + true) / count
            loss = (1 - share) * loss + share * (every.logsumexp(dim=1) - mean)
        return loss.mean()

    def _ranks(self, triples: Tensor) -> tuple[Ranks, Ranks]:
        """Return the filtered ranks of tails and heads on the whole training graph."""
        self.model.eval()
        self.edges.leave_out(np.empty(0, dtype=np.int64))
        with torch.no_grad():
            vectors = self.model.encode(self.x_dict, self.edges)
            tails, heads = (
                filtered_ranks(
                    self.model, vectors, triples, self.every, self.first, self.num_nodes,
                    inverse=inverse,
                )
                for inverse in (False, True)
            )  # fmt: skip
        return tails, heads


def _some(triples: Tensor, most: int | None, rng: np.random.Generator) -> Tensor:
    if most is None or triples.shape[1] <= most:
        return triples
    return triples[:, torch.from_numpy(np.sort(rng.permutation(triples.shape[1])[:most]))]


def _most_memory() -> float:
    """Return the most megabytes that the process has had."""
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most / (1e6 if sys.platform == "darwin" else 1e3)
