"""Feeds: what a model is called with for some links, in training and in tests.

The whole message-passing graph, or a small graph sampled around a batch of links, for graphs too
large for full steps (see `pagelink.models.sampling`); and where the model is.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from functools import partial
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch_geometric.data import HeteroData

from pagelink.errors import SettingsError
from pagelink.graph.schema import EdgeType
from pagelink.models.figures import Score
from pagelink.models.link_model import LinkModel, Relations
from pagelink.models.messages import Messages, OneByOne, adjacencies
from pagelink.store.graph_store import GraphStore

Inputs = tuple[dict[str, Tensor], Relations, Tensor]
"""What a model is called with: x_dict, edge_index_dict, edge_label_index."""


class Feed(Protocol):
    """Gives a model its inputs for some links."""

    def inputs(self, pairs: Tensor, held_out: Tensor, seed: int) -> Inputs:
        """Return the inputs for pairs, with no link that is held out among the edges."""


class FullGraph:
    """Feeds the whole message-passing graph.

    Args:
        x_dict: the inputs of its nodes, where the model is.
        messages: its edges.
        fast: the model takes an `Adjacency` for an `edge_index`.
    """

    def __init__(self, x_dict: dict[str, Tensor], messages: Messages, fast: bool) -> None:
        self.x_dict = x_dict
        self.messages = messages
        # Most relations are the same in every step: they are sorted once.
        self.whole = adjacencies(self.x_dict, messages.edges) if fast else None

    def inputs(self, pairs: Tensor, held_out: Tensor, seed: int) -> Inputs:
        """Return the whole graph without the links held out."""
        edges = self.messages.without(held_out)
        if self.whole is None:
            return self.x_dict, edges, pairs
        changed = {t: index for t, index in edges.items() if index is not self.messages.edges[t]}
        return self.x_dict, {**self.whole, **adjacencies(self.x_dict, changed)}, pairs


def scorer(
    model: nn.Module, x_dict: dict[str, Tensor], edge_index_dict: dict[EdgeType, Tensor]
) -> Score:
    """Return a function from pairs to the model's logits on one graph, without gradients.

    What all pairs have in common, a `LinkModel` computes once, however often the function is
    called.
    """
    model.eval()
    device = device_of(model)
    x_dict = {t: x.to(device) for t, x in x_dict.items()}
    if isinstance(model, LinkModel) and model.takes_adjacency:
        with torch.no_grad():
            run = model.on_graph(x_dict, OneByOne(x_dict, edge_index_dict))
    else:
        edges = {t: edge_index.to(device) for t, edge_index in edge_index_dict.items()}
        run = partial(model, x_dict, edges)
        if isinstance(model, LinkModel):
            with torch.no_grad():
                run = model.on_graph(x_dict, edges)

    @torch.no_grad()
    def score(pairs: Tensor) -> Tensor:
        return run(pairs.to(device)).to(pairs.device)

    return score


def device_of(model: nn.Module) -> torch.device:
    """Return where the parameters of a model are; the CPU if it has none."""
    first = next(model.parameters(), None)
    return torch.device("cpu") if first is None else first.device


def available(device: torch.device | str) -> torch.device:
    """Return a device that torch can use here.

    Raises:
        SettingsError: it cannot.
    """
    try:
        found = torch.device(device)
        torch.empty(1, device=found).cpu()
    except (RuntimeError, AssertionError) as error:
        raise SettingsError(
            f"device must be one that torch can use here, as cpu or cuda:0, got {device!r}: "
            f"{str(error).splitlines()[0]}"
        ) from error
    return found


def placed(
    model: nn.Module, source: HeteroData | GraphStore, device: str | None
) -> tuple[nn.Module, HeteroData | GraphStore]:
    """Return a model and its graph on a device, to explain there; None: as they are.

    Raises:
        SettingsError: the device is not there, or the graph is a store, which is read on the CPU.
    """
    if device is None or (place := available(device)).type == "cpu":
        return model, source
    if isinstance(source, GraphStore):
        raise SettingsError(
            f"A store is read on the CPU, so its links cannot be explained on {device}. Give the "
            "tables that it was made of, or leave the device out."
        )
    return model.to(place), copy.copy(source).to(place)


def on_device(inputs: Inputs, device: torch.device) -> Inputs:
    """Return the inputs of a model on a device."""
    x_dict, edges, pairs = inputs
    moved: Any = (
        {t: each.to(device) for t, each in edges.items()}
        if isinstance(edges, Mapping)
        else [block.to(device) for block in edges]
    )
    return {t: x.to(device) for t, x in x_dict.items()}, moved, pairs.to(device)
