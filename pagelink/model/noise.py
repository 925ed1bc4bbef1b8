"""What counts as nothing among the scores of a model."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

SHARE = 0.01
"""A change of this share of the spread of scores is not noticed."""
EXACT = 1e-4
"""Two ways to run a model agree if their scores differ by this share of the spread at most."""
EPSILONS = 32
"""Or by this number of machine epsilons of the largest score."""


@dataclass(frozen=True)
class Noise:
    """The scale of a model's scores, found on links and random pairs.

    Nothing that rests on it changes when a constant is added to all scores, but for the rounding of
    numbers that large, or when all scores are multiplied by one.

    Example:
        >>> noise = Noise.of(torch.tensor([0.0, 1.0, 2.0, 3.0, 4.0]))
        >>> noise.spread, noise.tau
        (2.0, 0.02)
    """

    spread: float
    """The interquartile range."""
    rounding: float
    """What the arithmetic may change."""

    @classmethod
    def of(cls, scores: Tensor) -> Noise:
        """Find the scale of scores."""
        values = scores.detach().double()
        low, high = torch.quantile(values, values.new_tensor([0.25, 0.75])).tolist()
        largest = float(values.abs().max())
        return cls(high - low, EPSILONS * torch.finfo(scores.dtype).eps * largest)

    @property
    def tau(self) -> float:
        """The largest change that is not noticed."""
        return max(SHARE * self.spread, self.rounding)

    def same(self, one: Tensor, other: Tensor, output: str = "logit") -> Tensor:
        """Whether two ways to run a model agree, per score, but for its arithmetic.

        Args:
            one: scores.
            other: the same links, run in another way.
            output: what the model returns; near 0 and 1 a probability says little of its logit.
        """
        return self._within(max(EXACT * self.spread, self.rounding), one, other, output)

    def close(self, one: Tensor, other: Tensor, output: str = "logit") -> Tensor:
        """Whether scores agree so well that they hardly do by chance: by a tenth of the noise."""
        return self._within(max(0.1 * self.tau, self.rounding), one, other, output)

    def _within(self, limit: float, one: Tensor, other: Tensor, output: str) -> Tensor:
        epsilon = torch.finfo(one.dtype if one.dtype != torch.double else torch.float32).eps
        one, other = one.detach().double().cpu(), other.detach().double().cpu()
        bound = torch.clamp(EPSILONS * epsilon * other.abs(), min=limit)
        if output == "probability":
            p = torch.sigmoid(other)
            bound += 8 * epsilon / (p * (1 - p))
        return (one - other).abs() <= bound
