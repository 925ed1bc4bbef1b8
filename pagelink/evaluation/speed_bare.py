"""Bare passes: what the model itself costs on the batches that pagelink makes.

A bare pass is what any way of learning a mask must do at least: the masked model forward, and the
gradient by the mask. Inputs are made beforehand; no path is searched, nothing is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn
from torch_geometric.nn import MessagePassing

from pagelink.computation_graph import ComputationGraphs
from pagelink.explainer import EDGES_A_BATCH, LINKS_A_BATCH, PaGELink
from pagelink.masking import borrowed
from pagelink.models.link_model import node_inputs
from pagelink.predictor import ModelInput
from pagelink.reach import chunks_by_edges

Run = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class BareBatch:
    """The model's input for some links side by side, each masked edge numbered."""

    recorded: ModelInput
    num_masked: int
    num_links: int


class BarePasses:
    """The batches of some links, ready to be run through the model.

    Args:
        explainer: how the links are cut into batches and the batches put together.
        links: (src, dst) of the explainer's first link type.
        one_by_one: a batch has one link.
    """

    def __init__(
        self, explainer: PaGELink, links: Sequence[tuple[int, int]], one_by_one: bool = False
    ) -> None:
        self.predictor = explainer.predictor
        at_once = 1 if one_by_one else LINKS_A_BATCH
        self.batches = [
            _prepare(explainer, [parts[i] for i in chunk])
            for first in range(0, len(links), at_once)
            for parts in [[extract(explainer, link) for link in links[first : first + at_once]]]
            for chunk in chunks_by_edges(
                np.array([int(part.visible.sum()) for part in parts]),
                EDGES_A_BATCH, explainer.predictor.mode,
            )
        ]  # fmt: skip

    def as_pagelink(self, epochs: int) -> None:
        """Run all batches the way pagelink runs the model."""
        for batch in self.batches:
            with self.predictor.weighted(batch.recorded) as run:
                _passes(run, batch.num_masked, epochs)

    def as_plain_pyg(self, epochs: int) -> None:
        """Run all batches by calling the model, with a hook on every layer's messages."""
        for batch in self.batches:
            with hooked(self.predictor.model, batch.recorded) as run:
                _passes(run, batch.num_masked, epochs)


def extract(explainer: PaGELink, link: tuple[int, int]) -> ComputationGraphs:
    """The computation graph of a link, as the explainer makes it."""
    graph, link_type = explainer.graph, explainer.link_types[0]
    src, dst = graph.flat_index(link_type[0], link[0]), graph.flat_index(link_type[2], link[1])
    ends = (src, dst, graph.link_fact(src, dst, link_type))
    return explainer.extractor.extract(*(np.array([end]) for end in ends))


def _prepare(explainer: PaGELink, parts: Sequence[ComputationGraphs]) -> BareBatch:
    predictor, graph = explainer.predictor, explainer.graph
    batch = ComputationGraphs.joined(parts)
    relation = np.full(batch.num_links, graph.edge_types.index(explainer.link_types[0]))
    wanted = predictor.needed(batch)
    inputs = predictor.inputs(batch, wanted, range(batch.num_links), relation)
    number = np.full(len(batch.edges), -1)
    number[wanted] = np.arange(int(wanted.sum()))
    recorded = predictor.record(inputs)[1].renumbered(torch.from_numpy(number))
    return BareBatch(recorded, int(wanted.sum()), batch.num_links)


def _passes(run: Run, num_masked: int, epochs: int) -> None:
    values = torch.zeros(num_masked, requires_grad=True)
    for _ in range(epochs):
        loss = F.softplus(-run(torch.sigmoid(values))).sum()
        torch.autograd.grad(loss, values)


@contextmanager
def hooked(model: nn.Module, recorded: ModelInput) -> Iterator[Run]:
    """Give a function from edge weights to logits that multiplies messages by plain PyG hooks."""
    calls: Iterator[Tensor] = iter(())
    weights = factor = torch.empty(0)

    def begin(module: MessagePassing, inputs: Any) -> None:
        nonlocal factor
        factor = weights[next(calls)].unsqueeze(-1)

    def multiply(module: MessagePassing, inputs: Any, message: Tensor) -> Tensor:
        return message * factor

    x_dict, edges = node_inputs(recorded.data), recorded.data.edge_index_dict

    def run(mask: Tensor) -> Tensor:
        nonlocal calls, weights
        # A message along no edge of the graph has number -1, and weight 1.
        calls, weights = iter(recorded.calls), torch.cat([mask, mask.new_ones(1)])
        logits: Tensor = model(x_dict, edges, recorded.edge_label_index)
        return logits

    with ExitStack() as stack:
        stack.enter_context(borrowed(model))
        for module in model.modules():
            if isinstance(module, MessagePassing):
                stack.callback(module.register_propagate_forward_pre_hook(begin).remove)
                stack.callback(module.register_message_forward_hook(multiply).remove)
        yield run
