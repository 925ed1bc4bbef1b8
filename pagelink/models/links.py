"""Links to learn from: the split of the known ones, and pairs that are not links."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from pagelink.errors import GraphError


@dataclass(frozen=True)
class LinkSplit:
    """Pairs (source index, target index), [2, num_links] each."""

    train: Tensor
    valid: Tensor
    test: Tensor

    @property
    def all(self) -> Tensor:
        """The pairs of all three parts."""
        return torch.cat([self.train, self.valid, self.test], dim=1)


def split_links(pairs: Tensor, seed: int = 0) -> LinkSplit:
    """Split links at random into training, validation and test links, 7:1:2.

    Args:
        pairs: distinct pairs, [2, num_links], at least ten.
        seed: seed of the split.

    Raises:
        GraphError: there are too few links, or one of them is there twice.

    Example:
        >>> split = split_links(torch.stack([torch.arange(20), torch.arange(20)]))
        >>> split.train.shape[1], split.valid.shape[1], split.test.shape[1]
        (14, 2, 4)
    """
    count = pairs.shape[1]
    if count < 10:
        raise GraphError(f"A split needs at least 10 links, got {count}.")
    distinct = torch.unique(pairs, dim=1).shape[1]
    if distinct < count:
        raise GraphError(
            f"Links to split must be distinct, but {count - distinct} of {count} are repeated: a "
            "repeated link could be in two parts. Drop the repetitions."
        )
    order = torch.from_numpy(np.random.default_rng(seed).permutation(count))
    num_train, num_valid = count * 7 // 10, count // 10
    parts = order.split([num_train, num_valid, count - num_train - num_valid])
    train, valid, test = (pairs[:, part] for part in parts)
    return LinkSplit(train, valid, test)


def sample_negatives(
    num_src: int, num_dst: int, known: Tensor, count: int, rng: np.random.Generator
) -> Tensor:
    """Draw distinct pairs, uniformly among all pairs that are not known links.

    Args:
        num_src: number of possible sources.
        num_dst: number of possible targets.
        known: pairs that must not be drawn, [2, num_known]; repetitions do no harm.
        count: number of pairs to draw.
        rng: source of randomness.

    Returns:
        Pairs, [2, count], in random order.

    Raises:
        GraphError: there are not that many pairs.

    Example:
        >>> known = torch.tensor([[0, 0, 1], [0, 1, 1]])
        >>> sample_negatives(2, 2, known, 1, np.random.default_rng(0)).tolist()
        [[1], [0]]
    """
    codes = np.unique((known[0] * num_dst + known[1]).cpu().numpy())
    free = num_src * num_dst - len(codes)
    if count > free:
        raise GraphError(
            f"{count} negative pairs are wanted, but of the {num_src} x {num_dst} pairs only "
            f"{free} are not known links. Ask for fewer, or use fewer links."
        )
    ranks = rng.choice(free, size=count, replace=False)
    # The r-th free pair has as many known pairs before it as there are known pairs with at most r
    # free ones before them: no pair is drawn in vain, however dense the links are.
    drawn = ranks + np.searchsorted(codes - np.arange(len(codes)), ranks, side="right")
    return torch.from_numpy(np.stack([drawn // num_dst, drawn % num_dst]))
