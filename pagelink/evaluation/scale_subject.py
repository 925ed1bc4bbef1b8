"""The model that is explained on the large graph, and how it is opened."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import torch
from torch_geometric.data import HeteroData

from pagelink.evaluation.scale_graph import FEATURES, LINK_TYPE
from pagelink.explainer import PaGELink
from pagelink.models.sage import SAGE
from pagelink.settings import Settings
from pagelink.store import GraphStore

HIDDEN = 16


def make_model(store: GraphStore, seed: int) -> SAGE:
    """Two layers of SAGE on the features; not trained, which costs an explanation the same."""
    small = HeteroData()  # of the same types: a model is made without a look at the large one
    for node_type in store.data.node_types:
        small[node_type].x = torch.randn(8, FEATURES, generator=torch.Generator().manual_seed(seed))
    for edge_type in store.edge_types:
        small[edge_type].edge_index = torch.zeros(2, 1, dtype=torch.int64)
    return SAGE.for_data(
        small, LINK_TYPE, hidden=HIDDEN, embeddings=False, paper_split=True, seed=seed
    ).eval()


@dataclass(frozen=True)
class ScaleOpening:
    """How workers open the store and the model.

    Args:
        graph: the store.
        seed: of the model and the explainer.
    """

    graph: Path
    seed: int = 0
    settings: Settings = field(default_factory=Settings)
    threshold: float | None = None

    def identity(self) -> dict[str, str]:
        """What the rows depend on."""
        return {"graph": GraphStore.open(self.graph).digest, "model": f"SAGE {self.seed}"}

    def expecting(self, found: Any) -> Self:
        """The store knows itself whether it changes."""
        return self

    def open(self) -> PaGELink:
        """Return the explainer."""
        store = GraphStore.open(self.graph)
        model = make_model(store, self.seed)
        return PaGELink(model, store, LINK_TYPE, self.settings, self.seed, threshold=self.threshold)

    def check_unchanged(self) -> None:
        """Nothing is written to the store while it is measured."""
