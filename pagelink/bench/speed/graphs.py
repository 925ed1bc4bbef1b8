"""Generated graphs of the speed benchmark, built by NumPy, and the model that runs on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch_geometric.data import HeteroData
from torch_geometric.nn import HeteroConv, SAGEConv

from pagelink.graph.schema import EdgeType

Pairs = npt.NDArray[np.int64]

LIKES: EdgeType = ("user", "likes", "item")
"""The predicted relation; it is in none of these graphs."""
BUYS: EdgeType = ("user", "buys", "item")
HAS: EdgeType = ("item", "has", "attr")
FOLLOWS: EdgeType = ("user", "follows", "user")
EDGES_PER_NODE = 10
"""Edges of one direction for each user and each item of a random part."""
CHAIN = 9
"""Facts between the explained links and the rest that is connected but far away."""


class HeteroSAGE(nn.Module):
    """A SAGEConv per relation in PyG's HeteroConv, two layers, scored by the inner product."""

    def __init__(
        self, edge_types: Sequence[EdgeType], num_features: int, hidden: int, seed: int
    ) -> None:
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.layers = nn.ModuleList(
                HeteroConv({t: SAGEConv((size, size), hidden) for t in edge_types}, aggr="mean")
                for size in (num_features, hidden)
            )
        self.eval().requires_grad_(False)

    def forward(
        self,
        x_dict: Mapping[str, Tensor],
        edge_index_dict: Mapping[EdgeType, Tensor],
        edge_label_index: Tensor,
    ) -> Tensor:
        """Return the logits of the links from users to items."""
        first, second = self.layers
        h_dict = {t: h.relu() for t, h in first(x_dict, edge_index_dict).items()}
        h_dict = second(h_dict, edge_index_dict)
        src, dst = edge_label_index
        logits: Tensor = (h_dict["user"][src] * h_dict["item"][dst]).sum(dim=-1)
        return logits


@dataclass(frozen=True)
class Generated:
    """A graph, and links to explain in it."""

    data: HeteroData
    links: list[tuple[int, int]]

    @property
    def num_features(self) -> int:
        """Length of the features of every node."""
        return int(self.data["user"].x.shape[1])


def random_graph(nodes: int, edges: int, num_features: int, links: int, seed: int) -> Generated:
    """Users, items and attributes with five relations of the same size, joined at random."""
    rng = np.random.default_rng(seed)
    sizes = {"user": 2 * nodes // 5, "item": nodes // 2, "attr": nodes // 10}
    facts = {
        relation: rng.integers([[sizes[relation[0]]], [sizes[relation[2]]]], size=(2, edges // 5))
        for relation in (BUYS, HAS, FOLLOWS)
    }
    data = _as_data(sizes, facts, num_features, rng)
    ends = rng.integers([[sizes["user"]], [sizes["item"]]], size=(2, links))
    return Generated(data, [(int(s), int(t)) for s, t in ends.T])


def growing_graph(
    core: int, total: int, far: bool, num_features: int, links: int, seed: int
) -> Generated:
    """The same surroundings of the same links, in a graph of about `total` edges.

    Args:
        core: edges of the part with the links; the same part at every `total`.
        total: edges of the graph.
        far: a chain of facts joins the two parts, longer than the model and the paths reach.
            False: nothing does.
        num_features: length of the features of every node.
        links: number of links.
        seed: the same seed gives the same core.
    """
    near, rest = np.random.default_rng((seed, 0)), np.random.default_rng((seed, 1))
    inner = max(core // (2 * EDGES_PER_NODE), 4)
    outer = max((total - core) // (2 * EDGES_PER_NODE), 4)
    size = inner + CHAIN + outer
    parts = [
        near.integers(inner, size=(2, EDGES_PER_NODE * inner)),
        inner + CHAIN + rest.integers(outer, size=(2, EDGES_PER_NODE * outer)),
    ]
    if far:
        # The chain's users and items alternate: user i buys item i, item i is bought by user i + 1.
        step = np.arange(inner - 1, inner + CHAIN)
        parts += [np.stack([step, step]), np.stack([step + 1, step])]
    # Messages come from the first nodes of the chain, so they belong to what stays the same.
    features = {
        kind: np.concatenate([_features(inner + CHAIN, num_features, near),
                              _features(outer, num_features, rest)])
        for kind in ("user", "item")
    }  # fmt: skip
    ends = near.integers(inner - 1, size=(2, links))
    data = _as_data({"user": size, "item": size}, {BUYS: np.concatenate(parts, axis=1)}, features)
    return Generated(data, [(int(s), int(t)) for s, t in ends.T])


def ladder_graph(edges: Sequence[int], num_features: int, seed: int) -> Generated:
    """Separate parts with about so many edges each, every part the computation graph of one link.

    In a part, the link's user buys all items and all users buy the link's item, so that messages
    come along every edge; the other facts are random, and each is on a path of the link.
    """
    rng = np.random.default_rng(seed)
    facts: list[Pairs] = []
    links: list[tuple[int, int]] = []
    users = items = 0
    for count in edges:
        side = max(count // (4 * EDGES_PER_NODE), 2)
        between = max(count // 2 - 2 * side, 1)
        first, around = np.array([[users], [items]]), np.arange(1, side + 1)
        own = np.zeros_like(around)
        facts += [
            first + np.stack([own, around]),
            first + np.stack([around, own]),
            first + 1 + rng.integers(side, size=(2, between)),
        ]
        links.append((users, items))
        users, items = users + side + 1, items + side + 1
    sizes = {"user": users, "item": items}
    data = _as_data(sizes, {BUYS: np.concatenate(facts, axis=1)}, num_features, rng)
    return Generated(data, links)


def _as_data(
    sizes: Mapping[str, int],
    facts: Mapping[EdgeType, Pairs],
    features: int | Mapping[str, npt.NDArray[np.float32]],
    rng: np.random.Generator | None = None,
) -> HeteroData:
    """A graph with the facts, and with the reverse of those between different node types."""
    data = HeteroData()
    for kind, size in sizes.items():
        if isinstance(features, int):
            assert rng is not None
            x = _features(size, features, rng)
        else:
            x = features[kind]
        data[kind].x = torch.from_numpy(x)
    for (src, relation, dst), pairs in facts.items():
        data[src, relation, dst].edge_index = torch.from_numpy(pairs)
        if src != dst:
            reverse = np.ascontiguousarray(pairs[::-1])
            data[dst, f"rev_{relation}", src].edge_index = torch.from_numpy(reverse)
    return data


def _features(size: int, length: int, rng: np.random.Generator) -> npt.NDArray[np.float32]:
    return rng.standard_normal((size, length), dtype=np.float32)
