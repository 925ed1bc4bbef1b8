"""What ranks and scores of a model meant on links that were held out from it.

A score is no chance. How many of the predictions of such a rank or score were held-out links is
counted once, after training, and kept as plain numbers: steps of a monotone function.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

EdgeType = tuple[str, str, str]
_Z = 1.959963984540054
"""Of a 95 % interval."""


@dataclass(frozen=True)
class HeldOutShare:
    """The share of like predictions that were held-out links.

    It is a lower bound of the share that are true, as not every true link is known.
    """

    share: float
    low: float
    """Lower end of the 95 % Wilson interval."""
    high: float
    num_predictions: int
    """How many predictions the share rests on."""
    num_links: int
    """How many of them were held-out links."""
    by: Literal["rank", "score"]
    """Like predictions are those of about the same rank, or of about the same score."""


@dataclass(frozen=True)
class Steps:
    """A monotone step function, with the counts behind each step.

    Raises:
        ValueError: the steps do not fit together.
    """

    starts: tuple[float, ...]
    """The lowest value of each step, ascending. Below the first one, its step holds, too."""
    num_predictions: tuple[int, ...]
    num_links: tuple[int, ...]

    def __post_init__(self) -> None:
        counts = list(zip(self.num_predictions, self.num_links, strict=True))
        if not self.starts or len(self.starts) != len(counts):
            raise ValueError("a step function needs a start and counts per step")
        if not all(0 <= links <= number and number > 0 for number, links in counts):
            raise ValueError("a step has more links than predictions")
        if not all(map(math.isfinite, self.starts)) or list(self.starts) != sorted(self.starts):
            raise ValueError("the steps of a step function are not ascending")

    def at(self, value: float) -> tuple[int, int]:
        """Return the number of predictions and of links of a value's step."""
        step = max(bisect_right(self.starts, value) - 1, 0)
        return self.num_predictions[step], self.num_links[step]

    def share(self, value: float) -> float:
        """Return the share of links at a value."""
        number, links = self.at(value)
        return links / number


@dataclass(frozen=True)
class HeldOutShares:
    """Per rank and per score, the share of predictions that were held-out links, of one relation.

    A rank is that of a target among all targets that its source is not known to be linked to.
    """

    link_type: EdgeType
    by_rank: Steps
    by_score: Steps

    def of_rank(self, rank: int) -> HeldOutShare:
        """Return the share of predictions of a rank that were held-out links."""
        return _share(*self.by_rank.at(rank), "rank")

    def of_score(self, logit: float) -> HeldOutShare:
        """Return the share of predictions of a score that were held-out links."""
        return _share(*self.by_score.at(logit), "score")

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> HeldOutShares:
        """Return what `to_dict` was called on."""
        src_type, relation, dst_type = values["link_type"]
        steps = [
            Steps(**{name: tuple(numbers) for name, numbers in values[which].items()})
            for which in ("by_rank", "by_score")
        ]
        return cls((src_type, relation, dst_type), *steps)


def wilson_interval(num_links: int, num_predictions: int) -> tuple[float, float]:
    """Return the 95 % Wilson interval of a share.

    Example:
        >>> [round(end, 3) for end in wilson_interval(5, 10)]
        [0.237, 0.763]
    """
    n, share = num_predictions, num_links / num_predictions
    middle = share + _Z**2 / (2 * n)
    half = _Z * math.sqrt(share * (1 - share) / n + _Z**2 / (4 * n**2))
    low, high = ((middle + sign * half) / (1 + _Z**2 / n) for sign in (-1, 1))
    # At 0 and 1 the interval ends there, whatever is lost in rounding.
    return (low if num_links else 0.0), (high if num_links < n else 1.0)


def _share(num_predictions: int, num_links: int, by: Literal["rank", "score"]) -> HeldOutShare:
    low, high = wilson_interval(num_links, num_predictions)
    share = num_links / num_predictions
    return HeldOutShare(share, low, high, num_predictions, num_links, by)
