"""Training of a link predictor: its settings, the loop, and the report.

Trains on the whole graph or by mini-batches, and tests the model in the end. Settings and report
are plain values, stored with every checkpoint.
"""

from __future__ import annotations

import copy
import dataclasses
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch_geometric.data import HeteroData

from pagelink.errors import ModelError, SettingsError
from pagelink.graph.schema import EdgeType
from pagelink.models.feeds import Feed, FullGraph, Inputs, available, device_of, on_device, scorer
from pagelink.models.figures import EvaluationPairs, Separation, TestFigures, link_metrics, measure
from pagelink.models.link_model import LinkModel, node_inputs
from pagelink.models.links import LinkSplit, Negatives, check_split, taken_pairs
from pagelink.models.messages import Messages, message_graph, reverse_of
from pagelink.models.row_adam import RowAdam
from pagelink.models.sampling import make_sampler
from pagelink.runtime.undo import Undo
from pagelink.store.graph_store import GraphStore


@dataclass(frozen=True, kw_only=True)
class TrainSettings:
    """Settings of a training. The defaults are meant for any graph.

    Example:
        >>> TrainSettings(epochs=5).paper_split
        False
        >>> TrainSettings.paper().paper_split
        True
    """

    paper_split: bool = False
    """Leave the predicted relation and its reverse out of message passing, as the paper does."""
    epochs: int = 100
    """Maximum epochs, 1 or more. In each, every training link is predicted once."""
    patience: int = 10
    """Epochs without a rise of the validation AUC after which to stop, 1 or more."""
    lr: float = 0.01
    """Step size of Adam."""
    weight_decay: float = 0.0
    """Weight decay of Adam, 0 or more."""
    folds: int = 5
    """Full-graph training: steps per epoch. A step predicts one fold of the training links, the
    others pass messages; so at least 2, unless `paper_split` keeps all of them out anyway."""
    matched_negatives: float = 0.0
    """Share of the training negatives that are degree-matched, 0..1; the others are uniform."""
    batch_size: int | None = None
    """Links per step of mini-batch training, on one sampled neighbourhood of all of them; `nbf` has
    no other than the full graph. None: full graph."""
    fanout: tuple[int, ...] = (4, 2)
    """Mini-batch training: in-edges taken per node and relation, hop by hop; one per layer."""
    max_candidates: int = 1000
    """Targets that a test link's target is ranked among; all, if there are no more than these."""
    retrain_edgeless: bool = False
    """Also train the model anew without any edges, as a third rival."""
    known: tuple[str, ...] = ()
    """Other relations whose pairs are no new links, such as `read` beside `will_like`: these are
    neither recommended nor ranked. The training does not depend on it."""

    def __post_init__(self) -> None:
        for name in ("epochs", "patience", "max_candidates"):
            if getattr(self, name) < 1:
                raise SettingsError(f"{name} must be at least 1, got {getattr(self, name)}.")
        if self.batch_size is not None and self.batch_size < 1:
            raise SettingsError(f"batch_size must be at least 1 or None, got {self.batch_size}.")
        if self.folds < (1 if self.paper_split else 2):
            raise SettingsError(
                f"folds must be at least 2, got {self.folds}: with one fold all training links "
                "would be held out of every step's messages."
            )
        if not (0 <= self.lr < math.inf and 0 <= self.weight_decay < math.inf):
            raise SettingsError(
                f"lr and weight_decay must be numbers from 0 up, got {self.lr} and "
                f"{self.weight_decay}."
            )
        if not 0 <= self.matched_negatives <= 1:
            raise SettingsError(f"matched_negatives must be in 0..1, got {self.matched_negatives}.")
        if not self.fanout or min(self.fanout) < 1:
            raise SettingsError(f"fanout must be numbers from 1 up, got {self.fanout}.")

    @classmethod
    def paper(cls, epochs: int = 100) -> TrainSettings:
        """Return the settings of the released code: one step per epoch on all training links.

        Differs from the paper: training stops after 30 epochs without a rise.
        """
        return cls(paper_split=True, epochs=epochs, patience=30, folds=1)


@dataclass(frozen=True)
class Epoch:
    """What one epoch came to."""

    number: int
    """From 1 up."""
    loss: float
    """Mean cross-entropy of the training links and as many negatives, over the epoch's steps."""
    valid_auc: float
    """ROC-AUC on the validation links, after the epoch."""


@dataclass(frozen=True)
class TrainReport:
    """How a training went. The model holds the weights of the best epoch."""

    best_epoch: int
    valid_auc: float
    test: TestFigures
    history: tuple[Epoch, ...] = field(repr=False)
    seed: int
    seconds: float = field(compare=False)
    """CPU seconds, testing included."""

    @property
    def test_auc(self) -> float:
        """ROC-AUC on the test links and ordinary negatives."""
        return self.test.model.auc

    @property
    def test_ap(self) -> float:
        """Average precision on the test links and ordinary negatives."""
        return self.test.model.ap

    @property
    def headline(self) -> str:
        """The figure that says most, in words."""
        return f"test ROC-AUC {self.test_auc:.3f}"

    @property
    def uses_structure(self) -> bool:
        """On degree-matched negatives the model beats chance, degrees and itself without edges."""
        return self.test.uses_structure

    def __str__(self) -> str:
        return (
            f"Trained for {len(self.history)} epochs in {self.seconds:.1f} CPU seconds, best in "
            f"epoch {self.best_epoch} with validation ROC-AUC {self.valid_auc:.3f}.\n"
            f"{self.test.verdict}\n"
            f"Average precision {self.test_ap:.3f}. {self.test.ranking}"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain values, for JSON."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, plain: dict[str, Any]) -> TrainReport:
        """Return the report that `to_dict` was called on."""
        test = dict(plain["test"])
        for name in ("model", "degree_product", "edgeless", "retrained_edgeless"):
            test[name] = test[name] and Separation.from_dict(test[name])
        history = tuple(Epoch(**epoch) for epoch in plain["history"])
        return cls(**{**plain, "test": TestFigures(**test), "history": history})


Progress = Callable[[Epoch], None]


def train(
    model: nn.Module,
    data: HeteroData | GraphStore,
    link_type: EdgeType,
    split: LinkSplit,
    settings: TrainSettings | None = None,
    *,
    seed: int = 0,
    progress: Progress | None = None,
    device: torch.device | str | None = None,
) -> TrainReport:
    """Train a model in place with Adam on cross-entropy, and test it.

    The training links pass messages, and validation and test links never do; a step's own links
    are held out of its messages (see `pagelink.models.messages`). Negatives are never links of any
    part of the split. Training stops when the validation AUC has not risen for some epochs; the
    weights of the best epoch are put back, and the model is left in evaluation mode. Tests are run
    on the whole graph. The same seed gives the same weights, bit for bit on one machine; the global
    random state is neither read nor changed.

    Args:
        model: called as `model(x_dict, edge_index_dict, edge_label_index)`; a `LinkModel` must be
            made with the same `paper_split`.
        data: the whole graph; it may or may not hold the links of the split. Of a store, steps
            read what they sample, and tests one relation at a time.
        link_type: the relation to predict.
        split: its links.
        settings: how to train.
        seed: seed of the negatives, the order of the links, the samples and the dropout.
        progress: called after every epoch.
        device: where the model is while it is trained and tested. None: where it is now.

    Raises:
        GraphError: the split does not fit the graph, or there are too few pairs to draw negatives.
        ModelError: the loss is not finite, or the model was made for other relations.
        SettingsError: the fanout does not fit the number of layers, or the device is not there.
    """
    before = device_of(model)
    model.to(available(device or before))
    try:
        with Undo() as undo:
            settings = settings or TrainSettings()
            return _train(model, data, link_type, split, settings, seed, progress, undo)
    finally:
        model.to(before)


def _train(
    model: nn.Module,
    source: HeteroData | GraphStore,
    link_type: EdgeType,
    split: LinkSplit,
    settings: TrainSettings,
    seed: int,
    progress: Progress | None,
    undo: Undo,
) -> TrainReport:
    """Train a model where it is; what else is changed in it can be undone."""
    began = time.process_time()
    data = source.data if isinstance(source, GraphStore) else source
    check_split(data, link_type, split)
    num_src, num_dst = (int(data[node_type].num_nodes) for node_type in link_type[::2])
    known = Negatives.for_links(num_src, num_dst, link_type, split.all)
    taken = taken_pairs(data, link_type, split, settings.known)
    graph = message_graph(data, link_type, split.train, paper_split=settings.paper_split)
    _check_model(model, graph, settings)
    untrained = copy.deepcopy(model) if settings.retrain_edgeless else None

    reverse = reverse_of(data, link_type)
    messages = Messages(graph, link_type, reverse)
    fast = isinstance(model, LinkModel) and model.takes_adjacency
    x_dict = {t: x.to(device_of(model)) for t, x in node_inputs(graph).items()}
    sampled = settings.batch_size is not None and _samples(model)
    feed: Feed = (
        make_sampler(source, graph, messages, reverse, split.train, settings.fanout, fast)
        if sampled
        else FullGraph(x_dict, messages, fast)
    )
    lr, weight_decay = settings.lr, settings.weight_decay
    # The nodes of a sample are distinct, and a `LinkModel` looks each up once.
    distinct = isinstance(model, LinkModel)
    rows = RowAdam(model, lr, weight_decay, distinct, undo) if sampled else None
    history, best = _Training(model, feed, split, known, settings, seed, rows).run(progress)

    no_edges = {t: torch.empty(2, 0, dtype=torch.long) for t in messages.edges}
    retrained = None
    if untrained is not None:
        edgeless = copy.copy(graph)
        for edge_type, edge_index in no_edges.items():
            edgeless[edge_type].edge_index = edge_index
        nodes_alone = FullGraph(x_dict, Messages(edgeless, link_type, reverse), fast)
        _Training(untrained, nodes_alone, split, known, settings, seed).run()
        retrained = scorer(untrained, x_dict, no_edges)
    figures = measure(
        scorer(model, x_dict, messages.edges), scorer(model, x_dict, no_edges), split, known,
        taken=Negatives.for_links(num_src, num_dst, link_type, taken),
        retrained_edgeless=retrained, max_candidates=settings.max_candidates, seed=seed,
    )  # fmt: skip
    return TrainReport(
        best_epoch=best.number,
        valid_auc=best.valid_auc,
        test=figures,
        history=history,
        seed=seed,
        seconds=time.process_time() - began,
    )


def _check_model(model: nn.Module, graph: HeteroData, settings: TrainSettings) -> None:
    """Refuse a model whose relations or layers do not fit the graph or the settings."""
    if not isinstance(model, LinkModel):
        return
    unread = sorted(set(graph.edge_types) - set(model.edge_types))
    missing = sorted(set(model.edge_types) - set(graph.edge_types))
    if unread or missing:
        raise ModelError(
            "The model was made for other relations than messages pass along"
            + (f"; it does not read {unread}" if unread else "")
            + (f"; the graph has no {missing}" if missing else "")
            + ". Make it for this graph, with the paper_split of the settings."
        )
    sampled = settings.batch_size is not None and _samples(model)
    if sampled and len(settings.fanout) != len(model.layers):
        raise SettingsError(
            f"fanout must have one number per layer of the model ({len(model.layers)}), got "
            f"{settings.fanout}."
        )


def _samples(model: nn.Module) -> bool:
    """Whether mini-batches of a model are sampled neighbourhoods."""
    return not isinstance(model, LinkModel) or model.samples_neighbours


@dataclass(frozen=True)
class _Training:
    """One training of one model: what all of its steps share."""

    model: nn.Module
    feed: Feed
    split: LinkSplit
    known: Negatives
    settings: TrainSettings
    seed: int
    by_row: RowAdam | None = None
    """The optimizer of sampled neighbourhoods; else it is Adam."""

    def run(self, progress: Progress | None = None) -> tuple[tuple[Epoch, ...], Epoch]:
        """Train, put the best weights back, and return all epochs and the best one."""
        model, settings = self.model, self.settings
        optimizer = self.by_row or torch.optim.Adam(
            model.parameters(), lr=settings.lr, weight_decay=settings.weight_decay
        )
        rng = np.random.default_rng([self.seed, 2])
        valid_negatives = EvaluationPairs.draw(self.split, self.known, self.seed).valid
        best, best_weights = Epoch(0, float("inf"), -1.0), copy.deepcopy(model.state_dict())
        history: list[Epoch] = []
        for number in range(1, settings.epochs + 1):
            losses = []
            for positive in self._parts(rng):
                pairs = torch.cat([positive, self._negatives(positive, rng)], dim=1)
                step_seed = int(rng.integers(2**62))
                inputs = self._inputs(pairs, positive, step_seed)
                losses.append(self._step(optimizer, inputs, positive.shape[1], step_seed))
            history.append(Epoch(number, float(np.mean(losses)), self._valid_auc(valid_negatives)))
            if progress is not None:
                progress(history[-1])
            if history[-1].valid_auc > best.valid_auc:
                best, best_weights = history[-1], copy.deepcopy(model.state_dict())
            if number - best.number >= settings.patience:
                break
        model.load_state_dict(best_weights)
        model.eval()
        return tuple(history), best

    def _parts(self, rng: np.random.Generator) -> Iterator[Tensor]:
        """Yield the links of each step of an epoch."""
        settings, links = self.settings, self.split.train
        num_parts, count = settings.folds, links.shape[1]
        if settings.batch_size is not None:
            num_parts = -(-count // settings.batch_size)
            if not settings.paper_split:
                num_parts = max(num_parts, 2)  # or no training link would ever pass a message
        order = torch.from_numpy(rng.permutation(count))
        for part in order.tensor_split(min(num_parts, count)):
            yield links[:, part]

    def _negatives(self, positive: Tensor, rng: np.random.Generator) -> Tensor:
        count = positive.shape[1]
        num_matched = round(self.settings.matched_negatives * count)
        matched = self.known.matched(positive[:, :num_matched], self.split.train[1], rng)
        draw = self.known.uniform if self.by_row is None else self.known.pooled
        return torch.cat([matched, draw(count - matched.shape[1], rng)], dim=1)

    def _inputs(self, pairs: Tensor, held_out: Tensor, seed: int) -> Inputs:
        return on_device(self.feed.inputs(pairs, held_out, seed), device_of(self.model))

    def _step(
        self, optimizer: RowAdam | torch.optim.Adam, inputs: Inputs, num_positive: int, seed: int
    ) -> float:
        self.model.train()
        optimizer.zero_grad()
        with Undo() as undo:  # dropout draws from the global random state
            undo.later(torch.default_generator.set_state, torch.get_rng_state())
            torch.manual_seed(seed)
            logits = self.model(*inputs)
        truth = torch.zeros_like(logits)
        truth[:num_positive] = 1
        loss = functional.binary_cross_entropy_with_logits(logits, truth)
        if not torch.isfinite(loss):
            raise ModelError("The training loss is not finite. Lower lr, or look at the features.")
        loss.backward()
        optimizer.step()
        return float(loss.detach())

    @torch.no_grad()
    def _valid_auc(self, negative: Tensor) -> float:
        """Return the validation AUC; nothing is held out: no validation link is in the graph."""
        self.model.eval()
        positive = self.split.valid
        pairs = torch.cat([positive, negative], dim=1)
        # Neighbourhoods are sampled as in training, the same in every epoch.
        chunks = pairs.split(2 * (self.settings.batch_size or pairs.shape[1]), dim=1)
        inputs = (self._inputs(part, part[:, :0], self.seed) for part in chunks)
        logits = torch.cat([self.model(*each) for each in inputs])
        return link_metrics(logits[: positive.shape[1]], logits[positive.shape[1] :])[0]
