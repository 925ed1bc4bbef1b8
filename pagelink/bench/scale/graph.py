"""A large graph for measurements, made in pieces straight into a store.

Users buy items, items have tags, users follow users. Degrees follow a power law: an end of an edge
is the node at the place u^SKEW of its type, u even in 0..1, and places are scattered over the node
numbers, so that busy nodes lie all over the files. Features are random. `ScaleOpening` is how a
worker opens the store with the model that is explained on it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch
from torch_geometric.data import HeteroData

from pagelink.explain.explainer import PaGELink
from pagelink.graph.schema import EdgeType
from pagelink.models.architectures import SAGE
from pagelink.settings import Settings
from pagelink.store.graph_store import GraphStore
from pagelink.store.writer import StoreWriter

LINK_TYPE = ("user", "likes", "item")
NODES = {"user": 0.4, "item": 0.4, "tag": 0.2}
"""Shares of the nodes."""
EDGES: dict[EdgeType, float] = {
    ("user", "buys", "item"): 0.7,
    ("item", "has", "tag"): 0.2,
    ("user", "follows", "user"): 0.1,
}
"""Shares of the edges; each relation gets its reverse."""
SKEW = 1.5
"""Degrees fall with the power -(2 * SKEW - 1) / (SKEW - 1): -4."""
FEATURES, HIDDEN = 16, 16
PIECE = 2_000_000
_SCATTER = 2_654_435_761  # a prime near 2^32 / golden ratio


@dataclass(frozen=True)
class ScaleGraph:
    """What to make."""

    num_nodes: int = 10_000_000
    num_edges: int = 100_000_000
    seed: int = 0

    @property
    def sizes(self) -> dict[str, int]:
        """Nodes of each type."""
        return {kind: max(int(share * self.num_nodes), 8) for kind, share in NODES.items()}

    @property
    def counts(self) -> dict[EdgeType, int]:
        """Edges of each relation, without those of its reverse."""
        return {kind: int(share * self.num_edges) for kind, share in EDGES.items()}

    def edges(self, edge_type: EdgeType) -> Iterator[npt.NDArray[np.int64]]:
        """Yield the edges of a relation in pieces of shape [2, n]."""
        sizes, number = self.sizes, list(EDGES).index(edge_type)
        for piece, first in enumerate(range(0, self.counts[edge_type], PIECE)):
            rng = np.random.default_rng((self.seed, number, piece))
            count = min(PIECE, self.counts[edge_type] - first)
            yield np.stack([
                _scattered(rng.random(count) ** SKEW, sizes[end])
                for end in (edge_type[0], edge_type[2])
            ])  # fmt: skip

    def features(self, node_type: str) -> Iterator[npt.NDArray[np.float32]]:
        """Yield the features of a node type in pieces of shape [n, FEATURES]."""
        size, number = self.sizes[node_type], list(NODES).index(node_type)
        for piece, first in enumerate(range(0, size, PIECE)):
            rng = np.random.default_rng((self.seed, 10 + number, piece))
            yield rng.standard_normal((min(PIECE, size - first), FEATURES), dtype=np.float32)

    def links(self, count: int) -> npt.NDArray[np.int64]:
        """Return links to explain, [2, count]: pairs that share a neighbour of a neighbour.

        A user who buys an item i, and an item j that another buyer of i buys, drawn by the same law
        as the edges: links between far-away nodes would have no paths.
        """
        buys = next(self.edges(("user", "buys", "item")))
        by_item = np.argsort(buys[1], kind="stable")
        item = buys[1][by_item]
        same = np.flatnonzero(item[1:] == item[:-1])
        rng = np.random.default_rng((self.seed, 99))
        chosen = rng.choice(same, count, replace=len(same) < count)
        one, other = buys[0][by_item[chosen]], buys[0][by_item[chosen + 1]]
        by_user = np.argsort(buys[0], kind="stable")
        user = buys[0][by_user]
        place = np.searchsorted(user, other) + rng.integers(0, 1 << 30, count) % np.maximum(
            np.searchsorted(user, other, side="right") - np.searchsorted(user, other), 1
        )
        return np.stack([one, buys[1][by_user[place]]])


def _scattered(share: npt.NDArray[np.float64], size: int) -> npt.NDArray[np.int64]:
    """The nodes at these places of the law, scattered over the numbers of their type."""
    place = np.minimum((share * size).astype(np.int64), size - 1)
    step = _SCATTER % size
    while np.gcd(step, size) != 1:  # else some numbers would never come up
        step += 1
    return place * step % size


def make_store(
    graph: ScaleGraph, out: Path, progress: Callable[[str, int, int], None] | None = None
) -> GraphStore:
    """Make the graph, in pieces, and write it as a store."""
    with StoreWriter(out, progress=progress) as writer:
        for node_type, size in graph.sizes.items():
            writer.add_nodes(node_type, size)
            writer.set_features(node_type, graph.features(node_type))
        for edge_type in EDGES:
            for piece in graph.edges(edge_type):
                writer.add_edges(edge_type, piece)
        return writer.finish()


def make_model(store: GraphStore, seed: int) -> SAGE:
    """Two layers of SAGE on the features; not trained, which costs an explanation the same."""
    small = HeteroData()  # of the same types: a model is made without a look at the large one
    for node_type in store.frame.node_types:
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
