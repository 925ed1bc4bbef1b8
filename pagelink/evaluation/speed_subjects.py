"""The graphs, models and links that the speed benchmark explains."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn
from torch_geometric.data import HeteroData

from pagelink.datasets.locate import find_data
from pagelink.datasets.reference import FOLDER, load_reference
from pagelink.datasets.useritemattr import generate_useritemattr
from pagelink.evaluation.speed_figures import torch_threads
from pagelink.explainer import PaGELink
from pagelink.graph import EdgeType
from pagelink.models.registry import make_model
from pagelink.models.rgcn import RGCN
from pagelink.settings import Settings
from pagelink.tables import load_graph

USERITEMATTR, MOVIELENS, HETIONET = FOLDER, "movielens-small", "hetionet-core"
LINK_TYPES: dict[str, EdgeType] = {
    MOVIELENS: ("user", "likes", "movie"), HETIONET: ("compound", "treats", "disease"),
}  # fmt: skip
HIDDEN = 64

Links = list[tuple[int, int]]


@dataclass(frozen=True)
class Subject:
    """A graph with a model, and the links to choose from, in a random order."""

    name: str
    data: HeteroData
    link_type: EdgeType
    model: nn.Module
    pairs: Links

    def links(self, count: int | None) -> Links:
        """The first so many links; where there are fewer, they come again and again."""
        if count is None:
            return list(self.pairs)
        return [self.pairs[i % len(self.pairs)] for i in range(count)]

    def explainer(self, settings: Settings, seed: int) -> PaGELink:
        """An explainer that learns a mask for every link, whatever the model says of it."""
        with torch_threads(1):
            return PaGELink(self.model, self.data, self.link_type, settings, seed, threshold=None)


def load_subject(name: str, seed: int, tiny: bool = False) -> Subject:
    """Return one of the three data sets with its model.

    The models of the real graphs are two-layer SAGE of 64, untrained: what they say does not change
    how long it takes. UserItemAttr comes with its released weights.

    Args:
        name: name of the data set.
        seed: seed of the weights and of the order of the links.
        tiny: a small generated graph stands for the data set.

    Raises:
        DataNotFoundError: the data are not there.
    """
    if tiny:
        return _stand_in(name, seed)
    if name == USERITEMATTR:
        reference = load_reference()
        return Subject(
            name, reference.data, reference.link_type, reference.model, list(reference.test_links)
        )
    link_type = LINK_TYPES[name]
    data = load_graph(find_data(name))
    model = make_model("sage", data, link_type, hidden=HIDDEN, seed=seed).eval()
    return Subject(name, data, link_type, model, _shuffled(data[link_type].edge_index, seed))


def _stand_in(name: str, seed: int) -> Subject:
    """A small UserItemAttr; in place of a real graph its links are among its edges."""
    generated = generate_useritemattr(
        num_users=40, num_items=40, num_attrs=20, num_has=60, num_wanted=12, max_prefers=4,
        items_per_user=15, num_buys=160, min_shared=1, seed=0,
    )  # fmt: skip
    data, link_type = generated.data, generated.link_type
    pairs = _shuffled(generated.likes, seed)
    if name == USERITEMATTR:
        model: nn.Module = RGCN.for_data(data, link_type, paper_split=True, hidden=8, seed=seed)
        return Subject(name, data, link_type, model.eval(), pairs)
    link_type = ("user", "buys", "item")
    model = make_model("sage", data, link_type, hidden=8, seed=seed).eval()
    return Subject(name, data, link_type, model, _shuffled(data[link_type].edge_index, seed))


def _shuffled(edge_index: torch.Tensor, seed: int) -> Links:
    order = np.random.default_rng(seed).permutation(edge_index.shape[1])
    return [(int(src), int(dst)) for src, dst in edge_index.numpy().T[order]]


def explain_all(explainer: PaGELink, links: Sequence[tuple[int, int]]) -> int:
    """Explain links in batches, keeping none of the explanations; return how many have paths."""
    return sum(bool(explanation.paths) for explanation in explainer.explain_many(links))
