"""A graph whose links can be learned in some epochs, and models trained on it."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor
from torch_geometric.data import HeteroData

from pagelink.graph.schema import EdgeType
from pagelink.models import TrainSettings, make_model, split_links, train
from pagelink.models.checkpoint import Checkpoint, save_checkpoint

BUYS: EdgeType = ("user", "buys", "item")
BOUGHT_BY: EdgeType = ("item", "bought_by", "user")
LIKES: EdgeType = ("user", "likes", "item")
REV_LIKES: EdgeType = ("item", "rev_likes", "user")
Pairs = set[tuple[int, int]]


def learnable(num_blocks: int = 4, size: int = 6) -> tuple[HeteroData, Tensor]:
    """Users and items in blocks that buy and like among themselves; and the likes, apart."""
    data = HeteroData()
    data["user"].num_nodes = data["item"].num_nodes = num_blocks * size
    block = torch.arange(num_blocks * size) // size
    inside = (block[:, None] == block[None, :]).nonzero().T
    bought = (inside[0] + inside[1]) % 2 == 0
    data[BUYS].edge_index = inside[:, bought]
    data[BOUGHT_BY].edge_index = inside[:, bought].flip(0)
    return data, inside[:, ~bought]


def as_set(pairs: Tensor) -> Pairs:
    return {(src, dst) for src, dst in pairs.T.tolist()}


DEFAULT = TrainSettings(epochs=2)
PAPER = TrainSettings.paper(epochs=2)


def graph() -> HeteroData:
    data, _ = learnable()
    data["user"].name = [f"User {i}" for i in range(24)]
    data["item"].x = torch.arange(48.0).view(24, 2).sin()
    return data


def stored(path: Path, settings: TrainSettings = DEFAULT, kind: str = "rgcn") -> Checkpoint:
    """Train, save, and return what should come back."""
    data, likes = graph(), learnable()[1]
    split = split_links(likes)
    model = make_model(kind, data, LIKES, hidden=8, paper_split=settings.paper_split)
    report = train(model, data, LIKES, split, settings)
    assert save_checkpoint(path, model, data, LIKES, split, report, settings) == path
    return Checkpoint(model, LIKES, split, report, settings, data)
