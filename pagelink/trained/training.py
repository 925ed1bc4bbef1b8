"""How vectors are trained anew: from where, for how long, and in which steps."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from pagelink.errors import SettingsError

_BETAS = 0.9, 0.99


@dataclass(frozen=True)
class Training:
    """How mimics are trained."""

    starts: int = 5
    """Random starts; an effect is the mean over them. 5 or more."""
    steps: int = 60
    """Steps of Adam, each over all facts."""
    others: int = 384
    """Facts that stand for those of all other nodes, each in one direction: a node is
    distinguished from their ends, as in the training of the model."""
    max_facts: int = 200
    """Facts of a node at most. Of a node with more, this number at random stand for all of them;
    those in question are always among them, and stand for themselves."""
    learning_rate: float = 0.2
    """Of the first step, by the spread of the trained vectors; it falls to 0."""

    def __post_init__(self) -> None:
        lowest = {"starts": 5, "steps": 1, "others": 1, "max_facts": 1}
        for name, low in lowest.items():
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < low:
                raise SettingsError(f"{name} must be a whole number from {low} up, got {value!r}.")
        if not 0 < self.learning_rate < float("inf"):
            raise SettingsError(f"learning_rate must be above 0, got {self.learning_rate!r}.")


def random_start(node: int, starts: int, size: int, spread: float, seed: int) -> Tensor:
    """Return random vectors of a node, [starts, size]; never the trained one.

    They are the same whatever it is trained on, so that two trainings differ by their facts alone.

    Args:
        node: a flat node.
        starts: their number.
        size: of each.
        spread: of the trained vectors, by which these are scaled.
        seed: where random numbers come from.
    """
    rng = np.random.default_rng((seed, node))
    return torch.from_numpy(rng.standard_normal((starts, size)) * spread).float()


class Adam:
    """Adam with a rate that falls to 0, for vectors that are changed in place.

    Args:
        vectors: what is trained.
        training: the number of steps, and the first rate.
        spread: of the trained vectors, by which rates are scaled.
    """

    def __init__(self, vectors: Tensor, training: Training, spread: float) -> None:
        self._vectors, self._training, self._spread = vectors, training, spread
        self._mean, self._square = torch.zeros_like(vectors), torch.zeros_like(vectors)
        self._done = 0

    def step(self, gradient: Tensor) -> None:
        """Take the next step; the gradient is overwritten."""
        self._mean.lerp_(gradient, 1 - _BETAS[0])
        self._square.lerp_(gradient.square_(), 1 - _BETAS[1])
        rate = self._spread * self._training.learning_rate
        rate *= 1 - self._done / self._training.steps
        self._done += 1
        rate *= float(np.sqrt(1 - _BETAS[1] ** self._done) / (1 - _BETAS[0] ** self._done))
        self._vectors.addcdiv_(self._mean, self._square.sqrt().add_(1e-8), value=-rate)
