"""Pairs that are not links, drawn uniformly or with the degrees that links have."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from pagelink.errors import GraphError
from pagelink.graph import Bools, EdgeType, Longs

_MOST_DRAWS = 50


class Negatives:
    """Draws pairs that are not among the known links.

    Args:
        num_src: number of possible sources.
        num_dst: number of possible targets.
        known: pairs that must not be drawn, [2, num_known]; repetitions do no harm.
    """

    def __init__(self, num_src: int, num_dst: int, known: Tensor) -> None:
        self.num_src, self.num_dst = num_src, num_dst
        self._codes: Longs = np.unique((known[0] * num_dst + known[1]).cpu().numpy())

    @classmethod
    def for_links(cls, num_src: int, num_dst: int, link_type: EdgeType, links: Tensor) -> Negatives:
        """Take care of relations within one node type: no self-pairs, no turned links.

        There (u, v) and (v, u) are one fact, and a relation such as `resembles` is often stored one
        way only: a turned link would be a wrong negative.
        """
        if link_type[0] == link_type[2]:
            loops = torch.arange(num_src).expand(2, -1)
            links = torch.cat([links, links.flip(0), loops], dim=1)
        return cls(num_src, num_dst, links)

    def are_known(self, src: Longs, dst: Longs) -> Bools:
        """Return which pairs are known links."""
        return np.isin(src * self.num_dst + dst, self._codes)

    def uniform(self, count: int, rng: np.random.Generator) -> Tensor:
        """Draw distinct pairs, uniformly among all that are not known; [2, count].

        Raises:
            GraphError: there are not that many pairs.
        """
        free = self.num_src * self.num_dst - len(self._codes)
        if count > free:
            raise GraphError(
                f"{count} negative pairs are wanted, but of the {self.num_src} x {self.num_dst} "
                f"pairs only {free} are not known links. Ask for fewer, or use fewer links."
            )
        ranks = rng.choice(free, size=count, replace=False)
        # The r-th free pair has as many known pairs before it as there are known pairs with at
        # most r free ones before them: no pair is drawn in vain, however dense the links are.
        before = np.searchsorted(self._codes - np.arange(len(self._codes)), ranks, side="right")
        drawn = ranks + before
        return torch.from_numpy(np.stack([drawn // self.num_dst, drawn % self.num_dst]))

    def matched(self, links: Tensor, targets: Tensor, rng: np.random.Generator) -> Tensor:
        """Draw a pair per link: the same source with a target of another link, drawn at random.

        So sources have exactly, and targets nearly, the degrees of the links: a popular target is
        drawn as often as it is linked. What popularity alone can tell is gone.

        Args:
            links: the links to draw against, [2, num_links].
            targets: targets to draw from, repeated as often as they are linked.
            rng: source of randomness.

        Returns:
            Pairs, [2, num_links] at most: a link whose source has (nearly) all targets as known
            links gets no pair. Pairs may repeat.
        """
        src, pool = links[0].cpu().numpy(), targets.cpu().numpy()
        dst = rng.choice(pool, size=len(src))
        known = self.are_known(src, dst)
        for _ in range(_MOST_DRAWS):
            if not known.any():
                break
            dst[known] = rng.choice(pool, size=int(known.sum()))
            known = self.are_known(src, dst)
        return torch.from_numpy(np.stack([src[~known], dst[~known]]))


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
    return Negatives(num_src, num_dst, known).uniform(count, rng)
