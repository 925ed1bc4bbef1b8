"""What PaGELink returns is what the method written down plainly returns, on random multigraphs.

Models run in double precision: then the two ways agree to the last bit of a mask, and no choice
between two paths is left to rounding.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from support import plain
from support.zoo import DIM, Relational
from torch import Tensor, nn
from torch_geometric.data import Data, HeteroData
from torch_geometric.nn import GATConv, HeteroConv, RGCNConv, SAGEConv

from pagelink import Explanation, PaGELink, Settings

SIZES = {"user": 24, "item": 24, "tag": 12}
LIKES = ("user", "likes", "item")
KNOWS = ("user", "knows", "user")
CLUSTERS = 4


class Layers(nn.Module):
    """Layers of one conv per relation; a node without messages keeps its vector."""

    def __init__(self, data: HeteroData, make: Callable[[], nn.Module], kinds: tuple[str, str]):
        super().__init__()
        self.kinds = kinds
        self.layers = nn.ModuleList(
            HeteroConv({t: make() for t in data.edge_types}) for _ in range(2)
        )

    def forward(self, x_dict: Any, edge_index_dict: Any, links: Tensor) -> Tensor:
        for layer in self.layers:
            out = layer(x_dict, edge_index_dict)
            x_dict = {t: torch.tanh(x + out[t]) if t in out else x for t, x in x_dict.items()}
        source, target = (x_dict[kind] for kind in self.kinds)
        return 2 * (source[links[0]] * target[links[1]]).sum(-1)


CONVS: dict[str, Callable[[], nn.Module]] = {
    "SAGE": lambda: SAGEConv((DIM, DIM), DIM),
    "GAT": lambda: GATConv((DIM, DIM), DIM // 2, heads=2, add_self_loops=False),
}


@dataclasses.dataclass
class Drawn:
    """A graph, a model on it, and links to explain."""

    data: Any
    model: nn.Module
    link_type: Any
    links: list[tuple[int, int]]
    reverse: dict[Any, Any] | None = None


def random_data(rng: np.random.Generator) -> HeteroData:
    """Clusters of few nodes with many relations between them.

    Parallel, mirrored and partly mirrored relations, the same relation both ways within one type,
    copies, loops, a hub, isolated nodes (the last of each type), the predicted relation itself.
    """

    def pairs(src: str, dst: str, count: int) -> list[tuple[int, int]]:
        found = []
        for cluster in rng.integers(0, CLUSTERS, count).tolist():
            ends = [int(rng.integers(0, SIZES[t] // CLUSTERS - 1)) for t in (src, dst)]
            found.append((ends[0] * CLUSTERS + cluster, ends[1] * CLUSTERS + cluster))
        return found

    def turned(some: list[tuple[int, int]]) -> list[tuple[int, int]]:
        return [(v, u) for u, v in some]

    edges: dict[Any, list[tuple[int, int]]] = {}
    edges["user", "buys", "item"] = buys = pairs("user", "item", 34)
    buys.append(buys[0])
    edges["item", "rev_buys", "user"] = turned(buys)
    if rng.random() < 0.5:  # a reverse that lacks some edges and has others
        edges["item", "rev_buys", "user"] = turned(buys[:-6]) + pairs("item", "user", 4)
    edges["user", "views", "item"] = views = pairs("user", "item", 18) + buys[:3]
    if rng.random() < 0.5:  # a mirror by another name
        edges["item", "seen_by", "user"] = turned(views)
    edges["item", "like", "item"] = like = [*pairs("item", "item", 14), (5, 5)]
    if rng.random() < 0.5:
        like += turned(like[:6])
    edges["item", "has", "tag"] = has = pairs("item", "tag", 18)
    has += [(i * CLUSTERS, 0) for i in range(5)]
    if rng.random() < 0.7:
        edges["tag", "rev_has", "item"] = turned(has)
    edges["user", "knows", "user"] = pairs("user", "user", 14)
    if rng.random() < 0.5:
        edges["user", "rev_knows", "user"] = turned(edges["user", "knows", "user"])
    if rng.random() < 0.5:
        edges["user", "likes", "item"] = likes = pairs("user", "item", 12)
        likes.append(likes[0])
        if rng.random() < 0.5:
            edges["item", "rev_likes", "user"] = turned(likes)

    data = HeteroData()
    for node_type, size in SIZES.items():
        data[node_type].x = torch.from_numpy(rng.standard_normal((size, DIM)))
    for position in rng.permutation(len(edges)).tolist():
        edge_type = list(edges)[position]
        data[edge_type].edge_index = torch.tensor(edges[edge_type]).t().contiguous()
    return data


def draw(seed: int, kind: str) -> Drawn:
    rng = np.random.default_rng(seed)
    data = random_data(rng)
    link_type = KNOWS if seed % 4 == 3 else LIKES
    links = []
    if link_type in data.edge_types:
        links += [(u, v) for u, v in data[link_type].edge_index[:, :2].t().tolist() if u != v]
    while len(links) < 6:
        cluster = int(rng.integers(CLUSTERS))
        u, v = (int(x) for x in rng.integers(0, 5, 2) * CLUSTERS + cluster)
        if link_type != KNOWS or u != v:
            links.append((u, v))
    links += [(0, 1), (0, 23)]  # other clusters, an isolated node
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        if kind != "RGCN":
            model = Layers(data, CONVS[kind], (link_type[0], link_type[2]))
            reverse = {} if seed % 5 == 4 else None
            return Drawn(data, model.double(), link_type, links, reverse)
        whole = data.to_homogeneous()
        order = torch.randperm(whole.num_edges)
        flat = Data(
            x=whole.x, edge_index=whole.edge_index[:, order], edge_type=whole.edge_type[order]
        )
        first = {t: n for t, n in zip(SIZES, [0, 24, 48], strict=True)}
        links = [(u + first[link_type[0]], v + first[link_type[2]]) for u, v in links]
        name = "likes"
        if link_type in data.edge_types:
            name = str(data.edge_types.index(link_type))
        model = Relational(RGCNConv, len(data.edge_types)).double()
        return Drawn(flat, model, ("node", name, "node"), links)


VARIANTS: dict[str, dict[str, Any]] = {
    "default": {},
    "all": {"path_schedule": "all", "paths_per_epoch": 3, "patience": 4, "epochs": 12},
    "sum": {"path_loss": "sum", "alpha": 0.5, "beta": 0.25, "epochs": 6, "patience": None},
    "released": {
        "path_loss": "released",
        "path_schedule": "all",
        "paths_per_epoch": 3,
        "patience": None,
        "max_length": 2,
        "epochs": 8,
        "learning_rate": 0.05,
    },
    "long": {"max_length": 4, "num_paths": 6, "core": 0, "paths_per_epoch": 3, "epochs": 7},
    "removed": {"core": 3, "remove_pruned": True, "epochs": 6, "budget": 7, "num_paths": 5},
    "bounds": {"max_degree": 6, "hub_degree": 5, "unpruned_fallback": False, "patience": 2},
    "undone": {"core": 5, "hub_degree": 8, "max_degree": 8, "epochs": 5, "max_length": 3},
    "wide": {"num_hops": 3, "core": 2, "epochs": 5, "max_length": 3},
    "start": {"epochs": 0, "num_paths": 50},
    "short": {"max_length": 1, "core": 1, "epochs": 3},
    "paths only": {"pred_weight": 0.0, "epochs": 8, "paths_per_epoch": 4, "patience": 3},
}
KINDS = ("SAGE", "GAT", "RGCN")
THRESHOLDS = (None, None, -0.5)


def same(found: Explanation, expected: plain.Answer, drawn: Drawn) -> None:
    assert found.reason == expected.reason
    assert found.logit == pytest.approx(expected.logit, abs=1e-6)
    assert found.logit_deployed == pytest.approx(expected.logit_deployed, abs=1e-6)
    assert found.epochs == expected.epochs
    undone = any("Pruning would have cut" in note for note in found.notes)
    assert undone == (expected.pruning_undone and expected.reason is None)

    masks = {}
    for edge_type in found.edge_mask:
        columns, values = found.edge_mask.stored(edge_type)
        masks |= {(edge_type, int(c)): float(v) for c, v in zip(columns, values, strict=True)}
    wanted = {(edge.type, edge.column): value for edge, value in expected.masks.items()}
    assert masks.keys() == wanted.keys()
    assert masks == pytest.approx(wanted, abs=1e-4)

    assert len(found.paths) == len(expected.paths)
    scores = {written(path): score for path, score in expected.scores.items()}
    for mine, other in zip(found.paths, expected.paths, strict=True):
        walked = mine.nodes, tuple((e.type, e.index, e.reversed) for e in mine.edges)
        assert mine.score == pytest.approx(scores[walked], abs=1e-4)
        # The same path, unless there is another one as good.
        assert walked == written(other) or scores[walked] == pytest.approx(
            expected.scores[other], abs=1e-5
        )


def written(path: plain.Walk) -> Any:
    steps = zip(path.edges, path.backwards, strict=True)
    return path.nodes, tuple((e.type, e.column, back) for e, back in steps)


def answers(
    drawn: Drawn, settings: Settings, threshold: float | None
) -> tuple[PaGELink, list[plain.Answer]]:
    explainer = PaGELink(
        drawn.model, drawn.data, drawn.link_type, settings, threshold=threshold,
        reverse=drawn.reverse,
        relation_names=None if isinstance(drawn.data, HeteroData) else [str(i) for i in range(30)],
    )  # fmt: skip
    assert explainer.receptive_field.num_hops == 2
    src, name, dst = drawn.link_type
    expected = [
        plain.explain(
            drawn.model,
            drawn.data,
            ((src, u), (dst, v), name),
            settings,
            num_layers=2,
            threshold=threshold,
            reverse=drawn.reverse,
        )
        for u, v in drawn.links
    ]
    return explainer, expected


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("variant", VARIANTS)
def test_same_as_the_plain_method(kind: str, variant: str) -> None:
    number = list(VARIANTS).index(variant) + len(VARIANTS) * KINDS.index(kind)
    drawn = draw(number, kind)
    settings = Settings(measure=False, **VARIANTS[variant])
    explainer, expected = answers(drawn, settings, THRESHOLDS[number % 3])
    for many, wanted in zip(explainer.explain_many(drawn.links), expected, strict=True):
        same(many, wanted, drawn)
    for link, wanted in itertools.islice(zip(drawn.links, expected, strict=True), 3):
        same(explainer.explain(*link), wanted, drawn)
