"""Training of a link predictor on the whole graph, and its test figures.

As in the paper, the predicted relation takes no part in message passing.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
import torch
from sklearn.metrics import average_precision_score, roc_auc_score
from torch import Tensor, nn
from torch.nn import functional
from torch_geometric.data import HeteroData

from pagelink.errors import GraphError, ModelError, SettingsError
from pagelink.graph import EdgeType, TypedGraph
from pagelink.models.link_model import node_inputs
from pagelink.models.links import LinkSplit, sample_negatives, split_links

__all__ = ["Epoch", "LinkSplit", "TrainResult", "link_metrics", "split_links", "train"]


@dataclass(frozen=True)
class Epoch:
    """What one epoch came to."""

    number: int
    """From 1 up."""
    loss: float
    """Mean cross-entropy of the training links and as many negatives, before the step."""
    valid_auc: float
    """ROC-AUC on the validation links, after the step."""


@dataclass(frozen=True)
class TrainResult:
    """How a training went. The model holds the weights of the best epoch."""

    best_epoch: int
    valid_auc: float
    test_auc: float
    test_ap: float
    """Average precision, with as many negatives as test links."""
    history: tuple[Epoch, ...] = field(repr=False)
    valid_negatives: Tensor = field(repr=False, compare=False)
    test_negatives: Tensor = field(repr=False, compare=False)
    seed: int
    seconds: float = field(compare=False)


def link_metrics(positive: Tensor, negative: Tensor) -> tuple[float, float]:
    """Return ROC-AUC and average precision of the logits of links and of negatives.

    Example:
        >>> link_metrics(torch.tensor([2.0, 0.0]), torch.tensor([1.0, -1.0]))
        (0.75, 0.8333333333333333)
    """
    truth = np.repeat([1, 0], [len(positive), len(negative)])
    logits = torch.cat([positive, negative]).cpu().numpy()
    return float(roc_auc_score(truth, logits)), float(average_precision_score(truth, logits))


def train(
    model: nn.Module,
    data: HeteroData,
    link_type: EdgeType,
    split: LinkSplit,
    *,
    epochs: int = 100,
    lr: float = 0.01,
    patience: int = 30,
    seed: int = 0,
    progress: Callable[[Epoch], None] | None = None,
) -> TrainResult:
    """Train a model in place with Adam on cross-entropy, and test it.

    Every epoch is one step over all training links and as many fresh negatives. Negatives are
    never links of any part of the split. Training stops when the validation AUC has not risen for
    `patience` epochs; the weights of the best epoch are put back, and the model is left in
    evaluation mode. The same seed gives the same weights, bit for bit on one machine.

    Args:
        model: called as `model(x_dict, edge_index_dict, edge_label_index)`.
        data: the graph; the predicted relation and its reverse are kept from the model.
        link_type: the relation to predict.
        split: its links.
        epochs: number of epochs at most, 1 or more.
        lr: step size of Adam.
        patience: epochs without a rise after which to stop.
        seed: seed of the negatives.
        progress: called after every epoch.

    Raises:
        SettingsError: `epochs` is less than 1.
        GraphError: an end of a link is not a node, or there are too few pairs to draw negatives.
        ModelError: the loss is not finite.
    """
    if epochs < 1:
        raise SettingsError(f"epochs must be at least 1, got {epochs}.")
    began = time.process_time()
    num_src, num_dst = _check_links(data, link_type, split)
    known = split.all
    if link_type[0] == link_type[2]:  # no node is linked to itself
        loops = torch.arange(num_src)
        known = torch.cat([known, torch.stack([loops, loops])], dim=1)
    rng = np.random.default_rng(seed)

    def draw(links: Tensor) -> Tensor:
        return sample_negatives(num_src, num_dst, known, links.shape[1], rng)

    valid_negatives, test_negatives = draw(split.valid), draw(split.test)
    inputs = node_inputs(data), _message_passing(data, link_type)
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    best, best_weights = Epoch(0, float("inf"), -1.0), copy.deepcopy(model.state_dict())
    history: list[Epoch] = []
    for number in range(1, epochs + 1):
        loss = _step(model, optimizer, inputs, split.train, draw(split.train))
        valid_auc, _ = _evaluate(model, inputs, split.valid, valid_negatives)
        history.append(Epoch(number, loss, valid_auc))
        if progress is not None:
            progress(history[-1])
        if valid_auc > best.valid_auc:
            best, best_weights = history[-1], copy.deepcopy(model.state_dict())
        if number - best.number >= patience:
            break
    model.load_state_dict(best_weights)
    test_auc, test_ap = _evaluate(model, inputs, split.test, test_negatives)
    return TrainResult(
        best_epoch=best.number,
        valid_auc=best.valid_auc,
        test_auc=test_auc,
        test_ap=test_ap,
        history=tuple(history),
        valid_negatives=valid_negatives,
        test_negatives=test_negatives,
        seed=seed,
        seconds=time.process_time() - began,
    )


Inputs = tuple[Mapping[str, Tensor], Mapping[EdgeType, Tensor]]


def _check_links(data: HeteroData, link_type: EdgeType, split: LinkSplit) -> tuple[int, int]:
    sizes = []
    for row, node_type in enumerate((link_type[0], link_type[2])):
        size = int(data[node_type].num_nodes)
        index = split.all[row]
        if int(index.min()) < 0 or int(index.max()) >= size:
            raise GraphError(
                f"Links of {link_type} must have {node_type} indices in 0..{size - 1}, got "
                f"{int(index.min())}..{int(index.max())}."
            )
        sizes.append(size)
    return sizes[0], sizes[1]


def _message_passing(data: HeteroData, link_type: EdgeType) -> dict[EdgeType, Tensor]:
    """Return the edges without the predicted relation and its reverse, which would give it away."""
    reverse = TypedGraph.from_data(data, link_types=[link_type]).reverse.get(link_type)
    return {
        edge_type: data[edge_type].edge_index
        for edge_type in data.edge_types
        if edge_type not in (link_type, reverse)
    }


def _step(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    inputs: Inputs,
    positive: Tensor,
    negative: Tensor,
) -> float:
    model.train()
    optimizer.zero_grad()
    logits = model(*inputs, torch.cat([positive, negative], dim=1))
    truth = torch.zeros_like(logits)
    truth[: positive.shape[1]] = 1
    loss = functional.binary_cross_entropy_with_logits(logits, truth)
    if not torch.isfinite(loss):
        raise ModelError("The training loss is not finite. Lower lr, or look at the features.")
    loss.backward()
    optimizer.step()
    return float(loss.detach())


@torch.no_grad()
def _evaluate(
    model: nn.Module, inputs: Inputs, positive: Tensor, negative: Tensor
) -> tuple[float, float]:
    model.eval()
    logits = model(*inputs, torch.cat([positive, negative], dim=1))
    return link_metrics(logits[: positive.shape[1]], logits[positive.shape[1] :])
