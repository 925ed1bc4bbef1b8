"""What is checked: a trained model, its graph, and the links whose explanations are looked at."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import torch
from torch import nn
from torch_geometric.data import HeteroData

from pagelink.explain.explainer import PaGELink
from pagelink.explain.result import Explanation
from pagelink.graph.schema import EdgeType
from pagelink.graph.typed_graph import TypedGraph
from pagelink.models.checkpoint import Checkpoint
from pagelink.runtime.arrays import Bools, Doubles, Longs
from pagelink.settings import Settings

Mark = Literal["fine", "warning", "not checked"]
Pairs = list[tuple[int, int]]


@dataclass(frozen=True)
class Finding:
    """What one check came to."""

    name: str
    mark: Mark
    verdict: str
    """One or two sentences."""
    details: tuple[str, ...] = ()
    """What it rests on, a line each."""
    figures: dict[str, Any] = field(default_factory=dict)
    """The same in numbers, ready for JSON."""


@dataclass(frozen=True)
class Subject:
    """A model with links to explain."""

    model: nn.Module
    data: HeteroData
    link_type: EdgeType
    links: Pairs
    settings: Settings = field(default_factory=Settings)
    seed: int = 0

    def explainer(
        self, model: nn.Module | None = None, seed: int | None = None, **changes: Any
    ) -> PaGELink:
        """Return an explainer of the model, or of another one; links are explained at any score."""
        return PaGELink(
            self.model if model is None else model, self.data, self.link_type,
            self.settings.replace(**changes), self.seed if seed is None else seed, threshold=None,
        )  # fmt: skip

    def explain(
        self, model: nn.Module | None = None, seed: int | None = None, **changes: Any
    ) -> list[Explanation]:
        """Explain all links."""
        return list(self.explainer(model, seed, **changes).explain_many(self.links))


def choose_links(checkpoint: Checkpoint, count: int, seed: int) -> Pairs:
    """Draw test links that the model predicts; where these are too few, other test links too."""
    with torch.no_grad():
        logits = checkpoint.score(checkpoint.split.test)
    order = np.random.default_rng((seed, 7)).permutation(checkpoint.split.test.shape[1])
    predicted = (logits >= 0).cpu().numpy()[order]
    chosen = np.concatenate([order[predicted], order[~predicted]])[:count]
    return [(int(s), int(t)) for s, t in checkpoint.split.test[:, torch.from_numpy(chosen)].t()]


def logits_without(explainer: PaGELink, links: Pairs, edges: Bools | None = None) -> Doubles:
    """The logits of links by one pass on the full graph, without some of its flat edges."""
    graph, link_type = explainer.graph, explainer.link_types[0]
    ends = flat_links(graph, link_type, links)
    relation = np.full(len(links), graph.edge_types.index(link_type))
    inputs = explainer.predictor.full_graph(ends[:, 0], ends[:, 1], relation, edges)
    found: Doubles = explainer.predictor.logits(inputs).cpu().double().numpy()
    return found


def flat_links(graph: TypedGraph, link_type: EdgeType, links: Sequence[tuple[int, int]]) -> Longs:
    """The flat indices of the ends of links, [num_links, 2]."""
    shift = [graph.flat_index(link_type[0], 0), graph.flat_index(link_type[2], 0)]
    return np.array(links, dtype=np.int64).reshape(-1, 2) + shift


def percent(share: float) -> str:
    """A share in words: whole per cents.

    Example:
        >>> percent(0.256), percent(0.004)
        ('26 %', '0.4 %')
    """
    return f"{100 * share:.0f} %" if share == 0 or share >= 0.0095 else f"{100 * share:.1g} %"
