"""What a link to a node of very many facts takes, over one to a node of fewer."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
import torch
from torch_geometric.data import HeteroData

from pagelink.bench.speed.figures import Figure, Goal, both_clocks, interleaved, torch_threads
from pagelink.bench.speed.rows import HIDDEN, Sizes
from pagelink.explain.explainer import PaGELink
from pagelink.graph.schema import EdgeType
from pagelink.models.architectures import make_model
from pagelink.settings import Settings

LIKES: EdgeType = ("user", "likes", "item")
FEATURES, FACTS_A_USER = 16, 3
HUB = Goal(3.0)


def hub_graph(facts: int, users: int, seed: int) -> tuple[HeteroData, list[int]]:
    """Users who buy items at random, and the last item, which `facts` of them buy.

    Returns:
        The graph, and users from whom a path of three facts leads to that item.
    """
    rng = np.random.default_rng(seed)
    items = users // 4
    pairs = rng.integers([[users], [items]], size=(2, FACTS_A_USER * users))
    buyers = rng.choice(users, facts, replace=False)
    pairs = np.concatenate([pairs, np.stack([buyers, np.full(facts, items)])], axis=1)
    pairs = np.unique(pairs, axis=1)
    data = HeteroData()
    for kind, size in (("user", users), ("item", items + 1)):
        data[kind].x = torch.from_numpy(rng.standard_normal((size, FEATURES))).float()
    data["user", "buys", "item"].edge_index = torch.from_numpy(pairs)
    data["item", "rev_buys", "user"].edge_index = torch.from_numpy(pairs[::-1].copy())
    src, dst = pairs[:, pairs[1] < items]
    by_buyers = np.isin(np.arange(items), dst[np.isin(src, buyers)])
    others = np.setdiff1d(src[by_buyers[dst]], buyers)
    return data, others.tolist()


def hubs(sizes: Sizes, seed: int) -> Iterator[Figure]:
    """CPU time of links to a hub, alone, by the number of its facts."""
    works = {}
    few, many = (f"{facts:,} facts" for facts in sizes.hub_facts)
    for facts, name in zip(sizes.hub_facts, (few, many), strict=True):
        data, sources = hub_graph(facts, sizes.hub_users, seed)
        model = make_model("sage", data, LIKES, hidden=HIDDEN, seed=seed).eval()
        with torch_threads(1):
            explainer = PaGELink(model, data, LIKES, Settings(), seed, threshold=None)
        hub = data["item"].num_nodes - 1
        links = [(source, hub) for source in sources[: sizes.hub_links]]
        works[name] = partial(_each, explainer, links)
    with torch_threads(1):
        rounds = both_clocks(interleaved(works, sizes.overhead_repeats, warm=True), sizes.hub_links)
    yield Figure.ratio(
        "hub", f"a link to a node of {many} over {few}", many, few, rounds, goal=HUB,
        how=f"two-layer SAGE of {HIDDEN}, {sizes.hub_users:,} users of {FACTS_A_USER} facts, "
        f"{sizes.hub_links} links alone, defaults; median of {sizes.overhead_repeats} rounds",
    )  # fmt: skip


def _each(explainer: PaGELink, links: list[tuple[int, int]]) -> None:
    for link in links:
        explainer.explain(*link, rank=False)
