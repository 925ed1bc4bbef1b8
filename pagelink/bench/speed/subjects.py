"""How much each row of the speed benchmark does: in full, and in the tiny version."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn
from torch_geometric.data import HeteroData

from pagelink.bench.speed.figures import torch_threads
from pagelink.datasets.folders import find_data
from pagelink.datasets.reference import FOLDER, load_reference
from pagelink.datasets.useritemattr import generate_useritemattr
from pagelink.explain.explainer import PaGELink
from pagelink.graph.schema import EdgeType
from pagelink.models.architectures import RGCN, make_model
from pagelink.settings import Settings
from pagelink.tables.load import load_graph


@dataclass(frozen=True)
class Sizes:
    """Numbers of links, repeats and edges."""

    tiny: bool = False
    """Generated graphs stand for the data sets."""
    threads: tuple[int, ...] = (1, 2)
    """Rows in which threads matter are measured once with each of these."""
    repeats: int = 5
    """Rounds of the rows on small graphs."""

    reference_links: int | None = None
    """Links of UserItemAttr; None: all that the model predicts."""
    overhead_links: int = 16
    """Links of each real graph; they are explained once for every round."""
    overhead_repeats: int = 3

    movielens_links: int = 500
    hetionet_links: int = 100
    fewer_links: int = 32
    """Of the same links, so many are explained in batches, with the defaults, with two threads."""

    rival_nodes: int = 5_000
    rival_edges: int = 50_000
    rival_hidden: int = 64
    rival_links: int = 32
    rival_epochs: tuple[int, ...] = (20, 100)
    rival_repeats: int = 1

    growth_core: int = 1_000
    """Edges around the explained links, the same at every size."""
    growth_links: int = 8
    growth_edges: tuple[int, ...] = (10**4, 10**5, 10**6, 10**7)
    growth_repeats: int = 15

    paper_range: tuple[int, ...] = (20, *range(500, 5_501, 500))
    large_range: tuple[int, ...] = (5_500, 200_000, 400_000, 600_000, 800_000, 1_000_000)
    linear_repeats: int = 10
    linear_copies: int = 32
    """Links of one size that are explained side by side."""
    large_repeats: int = 5

    memory_links: tuple[int, int] = (200, 1_000)
    first_repeats: int = 3


FULL = Sizes()
QUICK = Sizes(
    tiny=True, threads=(1,), repeats=2, reference_links=4, overhead_links=4, overhead_repeats=2,
    movielens_links=6, hetionet_links=4, fewer_links=3,
    rival_nodes=200, rival_edges=1_000, rival_hidden=8, rival_links=2, rival_epochs=(3, 4),
    growth_core=60, growth_links=2, growth_edges=(300, 600), growth_repeats=2,
    paper_range=(20, 60, 100, 140), large_range=(140, 300, 450, 600), linear_repeats=2,
    linear_copies=2, large_repeats=2, memory_links=(6, 9), first_repeats=1,
)  # fmt: skip


# The graphs, models and links that the speed benchmark explains.


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
