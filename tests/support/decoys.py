"""Models trained to use one kind of path, among decoys of other kinds.

Links with a shared red are positives, and all links, negatives too, share a green and a blue. There
are many graphs to learn from, so that none is learned by heart.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import torch
from torch.nn import functional
from torch_geometric.data import HeteroData

from pagelink.datasets.planted import (
    COLOURS,
    LINK_TYPE,
    Planted,
    PlantedLink,
    coloured_graph,
)
from pagelink.models import make_model

PAIRS = 150
STEPS = 300


def draw(rng: np.random.Generator) -> tuple[HeteroData, dict[str, list[list[int]]]]:
    ones = [1] * (2 * PAIRS)
    counts = {"red": [1] * PAIRS + [0] * PAIRS, "green": ones, "blue": ones}
    return coloured_graph(counts, rng, num_colours=20)


@cache
def trained_on_decoys(kind: str, layers: int, seed: int = 0) -> Planted:
    rng = np.random.default_rng(seed)
    data, shared = draw(rng)
    model = make_model(
        kind, data, LINK_TYPE, paper_split=True, hidden=32, num_layers=layers, seed=seed
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    pairs = torch.arange(2 * PAIRS).expand(2, -1)
    truth = (pairs[0] < PAIRS).float()
    graphs = [draw(rng)[0] for _ in range(50)]
    for step in range(STEPS):
        fresh = graphs[step % len(graphs)]
        optimizer.zero_grad()
        logits = model(fresh.x_dict, fresh.edge_index_dict, pairs)
        loss = functional.binary_cross_entropy_with_logits(logits, truth)
        loss.backward()
        optimizer.step()
    links = tuple(
        PlantedLink(
            i, i, "supported",
            frozenset({(("user", i), ("red", shared["red"][i][0]), ("item", i))}),
        )
        for i in range(PAIRS)
    )  # fmt: skip
    return Planted("one_metapath", data, model.eval(), links, COLOURS)
