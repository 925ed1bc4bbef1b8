"""UserItemAttr: the paper's synthetic graph of users, items and attributes, with ground truth."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch_geometric.data import HeteroData

from pagelink.datasets.folders import DatasetInfo, DatasetSummary, write_dataset
from pagelink.datasets.ground_truth import Labels, Rule, find_labelled_pairs
from pagelink.errors import SettingsError
from pagelink.graph.schema import EdgeType
from pagelink.graph.typed_graph import TypedGraph
from pagelink.models.architectures import RGCN
from pagelink.models.checkpoint import Checkpoint
from pagelink.models.commands import calibrated
from pagelink.models.links import split_links
from pagelink.models.training import TrainSettings, train

LINK_TYPE: EdgeType = ("user", "likes", "item")

Matrix = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class UserItemAttr:
    """A generated graph, the links to predict and the paths that explain them."""

    data: HeteroData
    """The graph for message passing, without `likes`; nodes have names such as "User 3"."""
    link_type: EdgeType
    likes: Tensor
    """The links to predict, [2, num_likes], ordered by user and item."""
    labels: Labels
    """Ground-truth paths of every link."""


def generate_useritemattr(
    *,
    num_users: int = 100,
    num_items: int = 100,
    num_attrs: int = 50,
    num_has: int = 227,
    num_wanted: int = 35,
    max_prefers: int = 8,
    items_per_user: int = 52,
    num_buys: int = 1222,
    min_shared: int = 3,
    num_likes: int | None = None,
    max_length: int = 3,
    max_degree: int = 15,
    max_paths: int = 5,
    rule: Rule = "released",
    seed: int = 0,
) -> UserItemAttr:
    """Generate a graph as the paper does.

    Items have attributes at random, and users prefer attributes at random, which is not shown. A
    user buys, of a random sample of items, those that have an attribute the user prefers. Then
    users buy items that a similar user bought. In the end `likes` joins users and items between
    which there is a concise and informative path, and no `buys`.

    Args:
        num_users: number of users.
        num_items: number of items.
        num_attrs: number of attributes.
        num_has: number of `has` edges; every item has at least one.
        num_wanted: number of attributes that anyone prefers. In the released graph a quarter of the
            items with one attribute are bought by no one.
        max_prefers: a user prefers 0 to this many attributes, each number equally often.
        items_per_user: size of the sample of items that a user looks at.
        num_buys: number of `buys` edges; those that the preferences do not give come from similar
            users.
        min_shared: users are similar if their preferences made them buy this many items in common.
        num_likes: number of links, drawn at random among all pairs that qualify. None: all.
        max_length: l_max of the ground-truth paths.
        max_degree: D_max of the ground-truth paths.
        max_paths: P_max, the number of ground-truth paths of a link at most.
        rule: which pairs qualify, see `pagelink.datasets.ground_truth.Rule`.
        seed: the same seed gives the same graph.

    Raises:
        SettingsError: sizes that do not go together.

    Example:
        >>> generated = generate_useritemattr(seed=0)
        >>> generated.data["user", "buys", "item"].num_edges
        1222
    """
    rng = np.random.default_rng(seed)
    has = _random_has(num_items, num_attrs, num_has, rng)
    prefers = _random_prefers(num_users, num_attrs, num_wanted, max_prefers, rng)
    buys = _preferred(prefers, has, items_per_user, rng)
    buys |= _bought_by_similar(buys, num_buys - int(buys.sum()), min_shared, rng)
    data = _hetero_data(buys, has)

    pairs = find_labelled_pairs(
        TypedGraph.from_data(data), "user", "item",
        max_length=max_length, max_degree=max_degree, max_paths=max_paths, rule=rule,
    )  # fmt: skip
    return UserItemAttr(data, LINK_TYPE, *pairs.draw(num_likes, rng))


def train_useritemattr(seed: int = 0, **sizes: Any) -> Checkpoint:
    """Generate a graph and train an RGCN on it as the paper does; takes a second or two.

    Args:
        seed: the same seed gives the same graph and model.
        sizes: those of the graph, see `generate_useritemattr`.
    """
    made = generate_useritemattr(seed=seed, **sizes)
    split, settings = split_links(made.likes, seed), TrainSettings.paper()
    model = RGCN.for_data(made.data, LINK_TYPE, paper_split=True, seed=seed)
    report = train(model, made.data, LINK_TYPE, split, settings, seed=seed)
    calibration = calibrated(model, made.data, LINK_TYPE, split, settings, seed=seed)
    return Checkpoint(
        model.eval(), LINK_TYPE, split, report, settings, made.data, calibration=calibration
    )


def make_useritemattr_folder(
    out: Path | str, seed: int = 0, *, num_likes: int | None = None, rule: Rule = "released"
) -> DatasetSummary:
    """Generate UserItemAttr and write it as a folder.

    Args:
        out: the folder to make.
        seed: the same seed gives the same files.
        num_likes: number of links. None: all pairs that qualify.
        rule: which pairs qualify, see `pagelink.datasets.ground_truth.Rule`.

    Raises:
        SettingsError: fewer pairs qualify than links are requested.
        GraphError: the folder is not empty or cannot be written.
    """
    made = generate_useritemattr(seed=seed, num_likes=num_likes, rule=rule)
    made.data[LINK_TYPE].edge_index = made.likes
    info = DatasetInfo("UserItemAttr", LINK_TYPE, seed, {"num_likes": num_likes, "rule": rule})
    folder = write_dataset(out, made.data, made.labels, info=info)
    return DatasetSummary.of(folder, made.data, LINK_TYPE, made.labels)


def _random_has(num_items: int, num_attrs: int, num_has: int, rng: np.random.Generator) -> Matrix:
    if not num_items <= num_has <= num_items * num_attrs:
        raise SettingsError(
            f"num_has must be in {num_items}..{num_items * num_attrs}: every item has at least one "
            f"attribute, and each of {num_attrs} at most once. Got {num_has}."
        )
    has = np.zeros((num_items, num_attrs), dtype=np.bool_)
    has[np.arange(num_items), rng.integers(num_attrs, size=num_items)] = True
    free = np.flatnonzero(~has)
    has.flat[rng.choice(free, size=num_has - num_items, replace=False)] = True
    return has


def _random_prefers(
    num_users: int, num_attrs: int, num_wanted: int, max_prefers: int, rng: np.random.Generator
) -> Matrix:
    if not 0 <= max_prefers <= num_wanted <= num_attrs:
        raise SettingsError(
            f"It must be that 0 <= max_prefers <= num_wanted <= num_attrs, got {max_prefers}, "
            f"{num_wanted}, {num_attrs}."
        )
    counts = rng.integers(max_prefers + 1, size=num_users)
    prefers = np.zeros((num_users, num_attrs), dtype=np.bool_)
    wanted = rng.choice(num_attrs, size=num_wanted, replace=False)
    prefers[:, wanted] = _ranks(num_users, num_wanted, rng) < counts[:, None]
    return prefers


def _preferred(
    prefers: Matrix, has: Matrix, items_per_user: int, rng: np.random.Generator
) -> Matrix:
    """Return the buys between users and items of their sample with an attribute they prefer."""
    num_users, num_items = len(prefers), len(has)
    if not 0 <= items_per_user <= num_items:
        raise SettingsError(f"items_per_user must be in 0..{num_items}, got {items_per_user}.")
    sampled = _ranks(num_users, num_items, rng) < items_per_user
    wanted: Matrix = sampled & (prefers @ has.T)
    return wanted


def _bought_by_similar(
    buys: Matrix, count: int, min_shared: int, rng: np.random.Generator
) -> Matrix:
    """Return `count` more buys, drawn among the pairs where a similar user buys the item."""
    if count < 0:
        raise SettingsError(
            f"num_buys is {-count} less than the buys that the preferences give. Raise num_buys, "
            "or lower items_per_user or max_prefers."
        )
    shared = buys.astype(np.float32) @ buys.T.astype(np.float32)
    np.fill_diagonal(shared, 0)
    candidates = np.flatnonzero(((shared >= min_shared) @ buys) & ~buys)
    if count > len(candidates):
        raise SettingsError(
            f"num_buys asks for {count} buys from similar users, but there are only "
            f"{len(candidates)}. Lower num_buys or min_shared, or raise items_per_user."
        )
    more = np.zeros_like(buys)
    more.flat[rng.choice(candidates, size=count, replace=False)] = True
    return more


def _ranks(rows: int, columns: int, rng: np.random.Generator) -> npt.NDArray[np.int64]:
    """Return a random permutation of 0..columns-1 in every row."""
    return rng.permuted(np.tile(np.arange(columns), (rows, 1)), axis=1)


def _hetero_data(buys: Matrix, has: Matrix) -> HeteroData:
    data = HeteroData()
    for node_type, size in (("user", len(buys)), ("item", len(has)), ("attr", has.shape[1])):
        data[node_type].num_nodes = size
        data[node_type].name = [f"{node_type.capitalize()} {index}" for index in range(size)]
    for edge_type, matrix in (
        (("user", "buys", "item"), buys),
        (("item", "bought_by", "user"), buys.T),
        (("item", "has", "attr"), has),
        (("attr", "of", "item"), has.T),
    ):
        data[edge_type].edge_index = torch.from_numpy(np.stack(np.nonzero(matrix)))
    return data
