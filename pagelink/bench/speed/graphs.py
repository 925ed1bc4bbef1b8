"""Graphs made to measure, built by NumPy, the model that runs on them, and the rows on them.

Does the rest of the graph matter, is time linear in edges, and how long PyG's own GNNExplainer
takes, which masks the whole graph for every link.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch_geometric.data import HeteroData
from torch_geometric.explain import Explainer, GNNExplainer
from torch_geometric.nn import HeteroConv, SAGEConv

from pagelink.bench.speed.bare import extract
from pagelink.bench.speed.figures import (
    Figure,
    Goal,
    Work,
    both_clocks,
    cpu,
    fit_line,
    interleaved,
    torch_threads,
)
from pagelink.bench.speed.rows import EVERY_EPOCH, Sizes, explain_all
from pagelink.explain.explainer import PaGELink
from pagelink.graph.schema import EdgeType
from pagelink.settings import Settings

Pairs = npt.NDArray[np.int64]

LIKES: EdgeType = ("user", "likes", "item")
"""The predicted relation; it is in none of these graphs."""
BUYS: EdgeType = ("user", "buys", "item")
HAS: EdgeType = ("item", "has", "attr")
FOLLOWS: EdgeType = ("user", "follows", "user")
EDGES_A_NODE = 10
"""Edges of one direction for each user and each item of a random part."""
CHAIN = 9
"""Facts between the explained links and the rest that is connected but far away."""
FEATURES = 16
HIDDEN, SMALL_HIDDEN = 64, 16
"""The model of the paper's range of edges, and that of all larger graphs."""
FLAT, LINEAR, RIVAL = Goal(1.2), Goal(0.98, "at least"), Goal(50.0, "at least")


class HeteroSAGE(nn.Module):
    """A SAGEConv per relation in PyG's HeteroConv, two layers, scored by the inner product."""

    def __init__(self, data: HeteroData, hidden: int, seed: int) -> None:
        super().__init__()
        relations, num_features = data.edge_types, data["user"].x.shape[1]
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.layers = nn.ModuleList(
                HeteroConv({t: SAGEConv((size, size), hidden) for t in relations}, aggr="mean")
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


def random_graph(nodes: int, edges: int, num_features: int, links: int, seed: int) -> Generated:
    """Users, items and attributes with five relations of the same size, joined at random."""
    rng = np.random.default_rng(seed)
    sizes = {"user": 2 * nodes // 5, "item": nodes // 2, "attr": nodes // 10}
    facts = {
        relation: rng.integers([[sizes[relation[0]]], [sizes[relation[2]]]], size=(2, edges // 5))
        for relation in (BUYS, HAS, FOLLOWS)
    }
    features = {kind: _features(size, num_features, rng) for kind, size in sizes.items()}
    data = _as_data(features, facts)
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
    inner = max(core // (2 * EDGES_A_NODE), 4)
    outer = max((total - core) // (2 * EDGES_A_NODE), 4)
    parts = [
        near.integers(inner, size=(2, EDGES_A_NODE * inner)),
        inner + CHAIN + rest.integers(outer, size=(2, EDGES_A_NODE * outer)),
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
    data = _as_data(features, {BUYS: np.concatenate(parts, axis=1)})
    return Generated(data, [(int(s), int(t)) for s, t in ends.T])


def ladder_graph(edges: Sequence[int], num_features: int, seed: int) -> Generated:
    """Separate parts of about these numbers of edges, each the computation graph of one link.

    In a part, the link's user buys all items and all users buy the link's item, so that messages
    come along every edge; the other facts are random, and each is on a path of the link.
    """
    rng = np.random.default_rng(seed)
    facts: list[Pairs] = []
    links: list[tuple[int, int]] = []
    users = items = 0
    for count in edges:
        side = max(count // (4 * EDGES_A_NODE), 2)
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
    features = {
        kind: _features(size, num_features, rng)
        for kind, size in (("user", users), ("item", items))
    }
    return Generated(_as_data(features, {BUYS: np.concatenate(facts, axis=1)}), links)


def _as_data(
    features: Mapping[str, npt.NDArray[np.float32]], facts: Mapping[EdgeType, Pairs]
) -> HeteroData:
    """A graph with the facts, and with the reverse of those between different node types."""
    data = HeteroData()
    for kind, x in features.items():
        data[kind].x = torch.from_numpy(x)
    for (src, relation, dst), pairs in facts.items():
        data[src, relation, dst].edge_index = torch.from_numpy(pairs)
        if src != dst:
            reverse = np.ascontiguousarray(pairs[::-1])
            data[dst, f"rev_{relation}", src].edge_index = torch.from_numpy(reverse)
    return data


def _features(size: int, length: int, rng: np.random.Generator) -> npt.NDArray[np.float32]:
    return rng.standard_normal((size, length), dtype=np.float32)


def growth(sizes: Sizes, seed: int) -> Iterator[Figure]:
    """Time of the same links while the rest of the graph grows."""
    for far in (False, True):
        works = {}
        for edges in sizes.growth_edges:
            graph = growing_graph(sizes.growth_core, edges, far, FEATURES, sizes.growth_links, seed)
            explainer = _explainer(graph, SMALL_HIDDEN, seed)
            works[f"{edges} edges"] = partial(_explain_each, explainer, graph.links)
        rounds = interleaved(works, sizes.growth_repeats, warm=True)
        seconds = {name: cpu(samples, len(graph.links)) for name, samples in rounds.items()}
        best = [min(values) for values in seconds.values()]
        where = "connected, but far away" if far else "not connected"
        first, last = sizes.growth_edges[0], sizes.growth_edges[-1]
        yield Figure(
            "growth", f"slowest over fastest, {first:,} to {last:,} edges, {where}",
            max(best) / min(best), "x", goal=FLAT,
            how=f"CPU s per link alone, {len(graph.links)} links with {sizes.growth_core} edges "
            f"around them, explainer made before; minimum of {sizes.growth_repeats} rounds for "
            "each size", samples={f"{name}, cpu_s": values for name, values in seconds.items()},
        )  # fmt: skip


def linear(sizes: Sizes, seed: int) -> Iterator[Figure]:
    """Time against the number of edges of the computation graph."""
    yield _line(sizes.paper_range, HIDDEN, sizes.linear_repeats, sizes.linear_copies, seed)
    yield _line(sizes.large_range, SMALL_HIDDEN, sizes.large_repeats, 1, seed)


def _line(edges: Sequence[int], hidden: int, repeats: int, copies: int, seed: int) -> Figure:
    graph = ladder_graph(edges, FEATURES, seed)
    explainer = _explainer(graph, hidden, seed)
    counts = [len(extract(explainer, link).edges) for link in graph.links]
    # One link for each number of edges, in copies side by side: alone, a small link costs what
    # calling the model costs, and its edges are lost in that.
    works = {str(link): partial(explain_all, explainer, [link] * copies) for link in graph.links}
    rounds = list(interleaved(works, repeats, warm=True).values())
    best = [min(cpu(samples, copies)) for samples in rounds]
    line = fit_line(counts, best)
    return Figure(
        "linear", f"R² of time against edges, {counts[0]:,} to {counts[-1]:,}", line.r2, "R²",
        goal=LINEAR,
        how=f"SAGE of {hidden}, one link for each number of edges, in a batch of {copies} of it; "
        f"CPU s per link, minimum of {repeats} rounds; "
        f"{1e6 * line.slope:.3g} us an edge and {1000 * line.intercept:.3g} ms",
        samples={
            "edges": counts, "cpu_s": best, "hidden": [hidden],
            "slope": [line.slope], "intercept": [line.intercept],
            **{
                f"{count} edges, cpu_s": cpu(samples, copies)
                for count, samples in zip(counts, rounds, strict=True)
            },
        },
    )  # fmt: skip


def _explainer(graph: Generated, hidden: int, seed: int) -> PaGELink:
    model = HeteroSAGE(graph.data, hidden, seed)
    with torch_threads(1):
        settings = EVERY_EPOCH.replace(check="wider")  # which does not grow with the graph
        return PaGELink(model, graph.data, LIKES, settings, seed, threshold=None)


def _explain_each(explainer: PaGELink, links: Sequence[tuple[int, int]]) -> None:
    for link in links:
        explainer.explain(*link, rank=False)


def gnnexplainer(sizes: Sizes, seed: int) -> Iterator[Figure]:
    """CPU of GNNExplainer over the CPU of pagelink, for the same links, epochs and model."""
    graph = random_graph(
        sizes.rival_nodes, sizes.rival_edges, sizes.rival_hidden, sizes.rival_links, seed
    )
    model = HeteroSAGE(graph.data, sizes.rival_hidden, seed)
    for epochs in sizes.rival_epochs:
        settings = Settings(epochs=epochs, patience=None, measure=False)
        ours = PaGELink(model, graph.data, LIKES, settings, seed, threshold=None)
        works: dict[str, Work] = {
            "gnnexplainer": partial(explain_whole_graph, model, graph, epochs, seed),
            "in batches": partial(explain_all, ours, graph.links),
            "one by one": partial(_explain_each, ours, graph.links),
        }
        for threads in sizes.threads:
            with torch_threads(threads):
                works["in batches"]()
            rounds = interleaved(works, sizes.rival_repeats, threads=threads)
            used = both_clocks(rounds, len(graph.links))
            for way in ("in batches", "one by one"):
                yield Figure.ratio(
                    "gnnexplainer", f"GNNExplainer over pagelink {way}, {epochs} epochs",
                    "gnnexplainer", way, used, threads=threads,
                    goal=RIVAL if way == "in batches" else None,
                    how=f"{len(graph.links)} links; {sizes.rival_nodes:,} nodes, "
                    f"{graph.data.num_edges:,} edges, 5 relations, two-layer SAGE of "
                    f"{sizes.rival_hidden}; median of the ratios of {sizes.rival_repeats} rounds",
                )  # fmt: skip


def explain_whole_graph(model: HeteroSAGE, graph: Generated, epochs: int, seed: int) -> None:
    """Learn an edge mask of the whole graph for each link, by PyG's GNNExplainer."""
    explainer = Explainer(
        model, algorithm=GNNExplainer(epochs=epochs), explanation_type="model",
        edge_mask_type="object",
        model_config={
            "mode": "binary_classification", "task_level": "edge", "return_type": "raw"
        },
    )  # fmt: skip
    data = graph.data
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        for link in graph.links:
            ends = torch.tensor(link).view(2, 1)
            explainer(data.x_dict, data.edge_index_dict, edge_label_index=ends)
