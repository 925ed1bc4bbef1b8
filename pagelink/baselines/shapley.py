"""The Shapley value of a group of players, exact where that is cheap, sampled elsewhere.

The group G acts as one player beside the others. Its Shapley value is the mean of
v(S with G) - v(S) over the orders in which players may come, S being those before G: the size of S
is even from none to all, and S is even among the sets of its size.
"""

from __future__ import annotations

from itertools import combinations
from math import comb

import numpy as np
import numpy.typing as npt

from pagelink.graph import Bools

Doubles = npt.NDArray[np.float64]


def coalitions(num_others: int, samples: int, rng: np.random.Generator) -> tuple[Bools, Doubles]:
    """Sets of other players that may come before the group, and how much each counts.

    All of them if there are no more than `samples`, else so many at random.

    Args:
        num_others: number of other players.
        samples: sets at most.
        rng: where they are drawn from.

    Returns:
        [sets, num_others], who is in; and weights that sum to 1.

    Example:
        >>> inside, weights = coalitions(2, 4, np.random.default_rng(0))
        >>> inside.astype(int).tolist()
        [[0, 0], [1, 0], [0, 1], [1, 1]]
        >>> (6 * weights).round(6).tolist()
        [2.0, 1.0, 1.0, 2.0]
    """
    if 2**num_others <= samples:
        sets = [c for k in range(num_others + 1) for c in combinations(range(num_others), k)]
        inside = np.zeros((len(sets), num_others), dtype=np.bool_)
        for row, members in enumerate(sets):
            inside[row, list(members)] = True
        sizes = inside.sum(1).tolist()
        return inside, np.array([1 / (comb(num_others, k) * (num_others + 1)) for k in sizes])
    order = rng.random((samples, num_others)).argsort(axis=1).argsort(axis=1)
    # Sizes from none to all in even steps, each moved a little: fewer samples do for the same.
    size = (np.arange(samples) + rng.random(samples)) / samples * (num_others + 1)
    inside = order < np.floor(size)[:, None]
    return inside, np.full(samples, 1 / samples)
