"""Bare passes: what the model itself costs on the batches that pagelink makes.

A bare pass is what any way of learning a mask must do at least: the masked model forward, and the
gradient by the mask. Inputs are made beforehand; no path is searched, nothing is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn
from torch_geometric.nn import MessagePassing

from pagelink.explain.explainer import PaGELink
from pagelink.graph.computation_graph import ComputationGraphs
from pagelink.model.borrowing import Borrowed, hook
from pagelink.model.inputs import ModelInput
from pagelink.model.predictor import LinkPredictor
from pagelink.models.link_model import node_inputs
from pagelink.runtime.undo import Undo

Run = Callable[[Tensor], Tensor]


Weighted = Callable[[ModelInput], AbstractContextManager[Run]]
Batch = tuple[ModelInput, int]
"""What the model was run on while some links were learned side by side; values of the mask."""


class BarePasses:
    """The very batches that an explainer makes of some links, ready to be run again.

    They are noted while the links are explained once; so it does not matter how they are cut.

    Args:
        explainer: its links must stay to the last epoch (`patience=None`).
        links: (src, dst) of the explainer's first link type.
    """

    def __init__(self, explainer: PaGELink, links: Sequence[tuple[int, int]]) -> None:
        self.predictor = explainer.predictor
        with _noting(self.predictor) as self.batches:
            for _ in explainer.explain_many(links):
                pass
        self.plain_batches = [
            (_by_message(self.predictor, one), size) for one, size in self.batches
        ]

    def as_pagelink(self, epochs: int) -> None:
        """Run all batches the way pagelink runs the model."""
        self._run(self.predictor.weighted, self.batches, epochs)

    def as_plain_pyg(self, epochs: int) -> None:
        """Run all batches by calling the model, with a hook on every layer's messages."""
        self._run(partial(hooked, self.predictor.model), self.plain_batches, epochs)

    def _run(self, weighted: Weighted, batches: Sequence[Batch], epochs: int) -> None:
        for recorded, num_masked in batches:
            values = torch.zeros(num_masked, requires_grad=True)
            with weighted(recorded) as run:
                for _ in range(epochs):
                    loss = F.softplus(-run(torch.sigmoid(values))).sum()
                    torch.autograd.grad(loss, values)


def _by_message(predictor: LinkPredictor, recorded: ModelInput) -> ModelInput:
    """The same, with the weights of the messages of each propagation of the model's own."""
    if recorded.flat is None:
        return recorded
    (numbers,) = recorded.calls
    number = numbers.new_full((int(recorded.slots.max()) + 1,), -1)
    number[recorded.slots] = numbers
    return predictor.record(recorded, by_message=True)[1].renumbered(number)


def extract(explainer: PaGELink, link: tuple[int, int]) -> ComputationGraphs:
    """The computation graph of a link, as the explainer makes it."""
    flat = explainer.link(*link)
    return explainer.extractor.extract(
        *(np.array([end]) for end in (flat.src, flat.dst, flat.fact))
    )


@contextmanager
def _noting(predictor: LinkPredictor) -> Iterator[list[Batch]]:
    """Note what the model is run on, weighted, for as long as the context is open."""
    noted: list[Batch] = []
    weighted = predictor.weighted

    @contextmanager
    def noting(recorded: ModelInput) -> Iterator[Run]:
        with weighted(recorded) as run:
            place = len(noted)

            def noting_run(weights: Tensor) -> Tensor:
                if len(noted) == place:  # the first of many passes
                    noted.append((recorded, len(weights)))
                return run(weights)

            yield noting_run

    predictor.weighted = noting  # type: ignore[method-assign]
    try:
        yield noted
    finally:
        del predictor.weighted  # the method of the class shows again


def hooked(model: nn.Module, recorded: ModelInput) -> AbstractContextManager[Run]:
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

    def prepare(undo: Undo) -> Run:
        for module in model.modules():
            if isinstance(module, MessagePassing):
                hook(undo, module, "propagate_forward_pre", begin)
                hook(undo, module, "message_forward", multiply)
        return run

    return Borrowed(model, prepare)
