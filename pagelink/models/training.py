"""Training of a link predictor, on the whole graph or by mini-batches, and its test figures."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterator

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch_geometric.data import HeteroData

from pagelink.errors import ModelError, SettingsError
from pagelink.graph import EdgeType
from pagelink.models.feeds import Edgeless, Feed, FullGraph, Inputs, Sampled, scorer
from pagelink.models.figures import EvaluationPairs, link_metrics, measure
from pagelink.models.link_model import LinkModel, node_inputs
from pagelink.models.links import LinkSplit, check_split
from pagelink.models.messages import Messages, message_graph, reverse_of
from pagelink.models.negatives import Negatives
from pagelink.models.report import Epoch, TrainReport
from pagelink.models.sampling import NeighbourSampler
from pagelink.models.train_settings import TrainSettings

Progress = Callable[[Epoch], None]


def train(
    model: nn.Module,
    data: HeteroData,
    link_type: EdgeType,
    split: LinkSplit,
    settings: TrainSettings | None = None,
    *,
    seed: int = 0,
    progress: Progress | None = None,
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
        data: the whole graph; it may or may not hold the links of the split.
        link_type: the relation to predict.
        split: its links.
        settings: how to train.
        seed: seed of the negatives, the order of the links, the samples and the dropout.
        progress: called after every epoch.

    Raises:
        GraphError: the split does not fit the graph, or there are too few pairs to draw negatives.
        ModelError: the loss is not finite, or the model was made for other relations.
        SettingsError: the fanout does not fit the number of layers.
    """
    settings = settings or TrainSettings()
    began = time.process_time()
    check_split(data, link_type, split)
    num_src, num_dst = (int(data[node_type].num_nodes) for node_type in link_type[::2])
    known = Negatives.for_links(num_src, num_dst, link_type, split.all)
    graph = message_graph(data, link_type, split.train, paper_split=settings.paper_split)
    _check_model(model, graph, settings)
    untrained = copy.deepcopy(model) if settings.retrain_edgeless else None

    messages = Messages(graph, link_type, reverse_of(data, link_type))
    fast = isinstance(model, LinkModel) and model.takes_adjacency
    feed: Feed = FullGraph(graph, messages, fast)
    if settings.batch_size is not None:
        feed = Sampled(NeighbourSampler(graph, messages, settings.fanout), fast)
    history, best = _fit(model, feed, split, known, settings, seed, progress)

    x_dict = node_inputs(graph)
    no_edges = {t: torch.empty(2, 0, dtype=torch.long) for t in messages.edges}
    retrained = None
    if untrained is not None:
        _fit(untrained, Edgeless(x_dict, no_edges, fast), split, known, settings, seed, None)
        retrained = scorer(untrained, x_dict, no_edges)
    figures = measure(
        scorer(model, x_dict, messages.edges), scorer(model, x_dict, no_edges), split, known,
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
    if settings.batch_size is not None and len(settings.fanout) != len(model.layers):
        raise SettingsError(
            f"fanout must have one number per layer of the model ({len(model.layers)}), got "
            f"{settings.fanout}."
        )


def _fit(
    model: nn.Module,
    feed: Feed,
    split: LinkSplit,
    known: Negatives,
    settings: TrainSettings,
    seed: int,
    progress: Progress | None,
) -> tuple[tuple[Epoch, ...], Epoch]:
    """Train, put the best weights back, and return all epochs and the best one."""
    rng = np.random.default_rng([seed, 2])
    valid_negatives = EvaluationPairs.draw(split, known, seed).valid
    optimizer = torch.optim.Adam(
        model.parameters(), lr=settings.lr, weight_decay=settings.weight_decay
    )
    best, best_weights = Epoch(0, float("inf"), -1.0), copy.deepcopy(model.state_dict())
    history: list[Epoch] = []
    for number in range(1, settings.epochs + 1):
        losses = []
        for positive in _parts(split.train, settings, rng):
            negative = _training_negatives(positive, split.train[1], known, settings, rng)
            step_seed = int(rng.integers(2**62))
            inputs = feed.inputs(torch.cat([positive, negative], dim=1), positive, step_seed)
            losses.append(_step(model, optimizer, inputs, positive.shape[1], step_seed))
        valid_auc = _valid_auc(model, feed, split.valid, valid_negatives, settings, seed)
        history.append(Epoch(number, float(np.mean(losses)), valid_auc))
        if progress is not None:
            progress(history[-1])
        if valid_auc > best.valid_auc:
            best, best_weights = history[-1], copy.deepcopy(model.state_dict())
        if number - best.number >= settings.patience:
            break
    model.load_state_dict(best_weights)
    model.eval()
    return tuple(history), best


def _parts(
    train_links: Tensor, settings: TrainSettings, rng: np.random.Generator
) -> Iterator[Tensor]:
    """Yield the links of each step of an epoch."""
    count = train_links.shape[1]
    num_parts = settings.folds
    if settings.batch_size is not None:
        num_parts = -(-count // settings.batch_size)
        if not settings.paper_split:
            num_parts = max(num_parts, 2)  # or no training link would ever pass a message
    order = torch.from_numpy(rng.permutation(count))
    for part in order.tensor_split(min(num_parts, count)):
        yield train_links[:, part]


def _training_negatives(
    positive: Tensor,
    targets: Tensor,
    known: Negatives,
    settings: TrainSettings,
    rng: np.random.Generator,
) -> Tensor:
    count = positive.shape[1]
    num_matched = round(settings.matched_negatives * count)
    matched = known.matched(positive[:, :num_matched], targets, rng)
    return torch.cat([matched, known.uniform(count - matched.shape[1], rng)], dim=1)


def _step(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    inputs: Inputs,
    num_positive: int,
    seed: int,
) -> float:
    model.train()
    optimizer.zero_grad()
    with torch.random.fork_rng(devices=[]):  # dropout draws from the global random state
        torch.manual_seed(seed)
        logits = model(*inputs)
    truth = torch.zeros_like(logits)
    truth[:num_positive] = 1
    loss = functional.binary_cross_entropy_with_logits(logits, truth)
    if not torch.isfinite(loss):
        raise ModelError("The training loss is not finite. Lower lr, or look at the features.")
    loss.backward()
    optimizer.step()
    return float(loss.detach())


@torch.no_grad()
def _valid_auc(
    model: nn.Module,
    feed: Feed,
    positive: Tensor,
    negative: Tensor,
    settings: TrainSettings,
    seed: int,
) -> float:
    """Return the validation AUC; nothing is held out, for no validation link is in the graph."""
    model.eval()
    pairs = torch.cat([positive, negative], dim=1)
    # Neighbourhoods are sampled as in training, the same in every epoch.
    chunks = pairs.split(2 * (settings.batch_size or pairs.shape[1]), dim=1)
    logits = torch.cat([model(*feed.inputs(part, part[:, :0], seed)) for part in chunks])
    return link_metrics(logits[: positive.shape[1]], logits[positive.shape[1] :])[0]
