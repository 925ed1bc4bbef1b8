"""What paths are worth to the model."""

from __future__ import annotations

import numpy.typing as npt

from pagelink.evaluation.averages import paired, ratio


def share_of_greedy(effects: npt.ArrayLike, greedy_effects: npt.ArrayLike) -> tuple[float, int]:
    """Return how much of the greedy search's effect the returned paths have, over all links.

    ``share = sum of effects / sum of greedy effects``: a ratio of sums, so that links on which
    next to nothing can be reached do not blow it up, and none has to be left out.

    Args:
        effects: Logit drop by removing the returned paths, one per link, 0 where there are none.
        greedy_effects: Logit drop reached by the greedy search, one per link.

    Returns:
        The share, NaN if the sum of the greedy effects is not positive; and the number of links
        whose greedy effect is not positive.

    Raises:
        GraphError: The lengths differ.

    Example:
        >>> share_of_greedy([1.0, 0.5, 0.0], [2.0, 0.5, -0.5])
        (0.75, 1)
    """
    values, over = paired(effects, greedy_effects)
    return ratio(values.sum(), over.sum()).item(), int((over <= 0).sum())
