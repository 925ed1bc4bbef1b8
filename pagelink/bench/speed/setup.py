"""What making an explainer takes: by layers, by relations and by link types of one graph."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
import torch
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.nn import FastRGCNConv

from pagelink.bench.speed.figures import Figure, Goal, both_clocks, interleaved, median
from pagelink.bench.speed.rows import Sizes
from pagelink.explain.explainer import PaGELink

DIM = 16
MIDDLE_LAYERS = 2
"""Layers where relations and link types grow."""
NOT_BY_TYPES = Goal(2.0)


class DistMultRGCN(nn.Module):
    """RGCN layers, and a score by the relation that is asked about."""

    def __init__(self, num_layers: int, num_relations: int, seed: int) -> None:
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.layers = nn.ModuleList(
                [FastRGCNConv(DIM, DIM, num_relations, num_bases=4) for _ in range(num_layers)]
            )
            self.relation = nn.Embedding(num_relations, DIM)

    def forward(self, data: Data, edge_label_index: Tensor) -> Tensor:
        """The logits of links."""
        x = data.x
        for layer in self.layers:
            x = torch.tanh(layer(x, data.edge_index, data.edge_type))
        src, dst = edge_label_index
        score: Tensor = (x[src] * self.relation(data.edge_label_type) * x[dst]).sum(-1)
        return score


def relational_graph(nodes: int, edges: int, relations: int, seed: int) -> Data:
    """The same random edges, whatever the number of relations that they are dealt to."""
    rng = np.random.default_rng(seed)
    x, ends = rng.standard_normal((nodes, DIM)), rng.integers(0, nodes, (2, edges))
    return Data(
        x=torch.from_numpy(x).float(), edge_index=torch.from_numpy(ends),
        edge_type=torch.arange(edges) % relations, num_nodes=nodes,
    )  # fmt: skip


def setup_times(sizes: Sizes, seed: int) -> Iterator[Figure]:
    """Seconds to make an explainer, in turn, and the largest number over the smallest."""
    middle, most = sizes.setup_relations[-2:]
    ways = {
        "layers": [(n, middle, 1) for n in sizes.setup_layers],
        "relations": [(MIDDLE_LAYERS, n, 1) for n in sizes.setup_relations],
        "link types": [(MIDDLE_LAYERS, most, n) for n in sizes.setup_link_types],
    }
    for what, counts in ways.items():
        works = {}
        for layers, relations, link_types in counts:
            name = f"layers {layers}, relations {relations}, link types {link_types}"
            data = relational_graph(sizes.setup_nodes, sizes.setup_edges, relations, seed)
            model = DistMultRGCN(layers, relations, seed).eval()
            asked = [("node", str(number), "node") for number in range(link_types)]
            works[name] = partial(
                PaGELink, model, data, asked, seed=seed, forward=_by_data, threshold=None
            )
        rounds = both_clocks(interleaved(works, sizes.setup_repeats, warm=True))
        how = (
            f"RGCN of {DIM} on {sizes.setup_nodes:,} nodes and {sizes.setup_edges:,} edges; "
            f"median of {sizes.setup_repeats} rounds"
        )
        for name in works:
            taken = rounds[f"{name}, cpu_s"]
            yield Figure(
                "setup", f"an explainer: {name}", median(taken), "s", how=how,
                samples={"cpu_s": taken},
            )  # fmt: skip
        first, *_, last = works
        yield Figure.ratio(
            "setup", f"most {what} over fewest", last, first, rounds, how=how,
            goal=NOT_BY_TYPES if what == "link types" else None,
        )  # fmt: skip


def _by_data(model: nn.Module, data: Data, edge_label_index: Tensor) -> Tensor:
    score: Tensor = model(data, edge_label_index)
    return score
