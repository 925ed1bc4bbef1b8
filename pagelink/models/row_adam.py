"""Adam for mini-batches: of a table of embeddings, only the rows that a step has read are updated.

A step of Adam on all rows of a table takes as long as a step on the whole graph, however few nodes
the step is about. Here a row, and the two means that Adam keeps of its gradients, stay as they are
in a step that does not read it, as in `torch.optim.SparseAdam`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor, nn

from pagelink.runtime.kernels import kernel
from pagelink.runtime.undo import Undo

BETAS, EPSILON = (0.9, 0.999), 1e-8
"""The defaults of `torch.optim.Adam`."""


@dataclass
class _Means:
    """What Adam keeps of a table, of the shape of the table."""

    of_gradient: Tensor
    of_square: Tensor


@dataclass
class RowAdam:
    """Adam on all parameters of a model; on embeddings row by row.

    Use it in a `with Undo() as undo` block, which ends with the model's embeddings as they were:
    while the model is trained, their gradients are sparse.

    Args:
        model: the model.
        lr: step size.
        weight_decay: as of `torch.optim.Adam`; of a table, for the rows of a step.
        distinct: no step looks up a row of a table twice.
        undo: where to note what is changed in the model.
    """

    model: nn.Module
    lr: float
    weight_decay: float
    distinct: bool
    undo: Undo
    _tables: dict[Tensor, _Means] = field(default_factory=dict)
    _steps: int = 0

    def __post_init__(self) -> None:
        for module in self.model.modules():
            if isinstance(module, nn.Embedding) and not module.sparse:
                self.undo.later(vars(module).__setitem__, "sparse", False)
                module.sparse = True
                weight = module.weight
                self._tables[weight] = _Means(torch.zeros_like(weight), torch.zeros_like(weight))
        rest = [each for each in self.model.parameters() if each not in self._tables]
        self._adam = torch.optim.Adam(rest, lr=self.lr, weight_decay=self.weight_decay)

    def zero_grad(self) -> None:
        """Forget the gradients of the step before."""
        self.model.zero_grad()

    @torch.no_grad()
    def step(self) -> None:
        """Take a step by the gradients of the model."""
        self._adam.step()
        self._steps += 1
        for table, means in self._tables.items():
            if table.grad is None:
                continue
            gradient = table.grad if self.distinct else table.grad.coalesce()
            rows, values = gradient._indices()[0], gradient._values()
            _update(table, means, rows, values, self._steps, self.lr, self.weight_decay)


def _update(
    table: Tensor, means: _Means, rows: Tensor, gradient: Tensor, steps: int, lr: float,
    weight_decay: float,
) -> None:  # fmt: skip
    first, second = (1 - beta**steps for beta in BETAS)
    if table.device.type == "cpu":
        _adam_rows(
            table.numpy(), means.of_gradient.numpy(), means.of_square.numpy(), rows.numpy(),
            gradient.numpy(),
            np.array([lr / first, second**-0.5, weight_decay, *BETAS, EPSILON], dtype=np.float32),
        )  # fmt: skip
        return
    gradient = gradient + weight_decay * table[rows]
    mean = torch.lerp(means.of_gradient[rows], gradient, 1 - BETAS[0])
    square = torch.lerp(means.of_square[rows], gradient.square(), 1 - BETAS[1])
    means.of_gradient[rows], means.of_square[rows] = mean, square
    table[rows] -= lr / first * mean / (square.sqrt() / second**0.5 + EPSILON)


@kernel
def _adam_rows(table, of_gradient, of_square, rows, gradient, numbers):  # type: ignore[no-untyped-def]
    """All of a step in one go over the rows, which are read from memory once."""
    lr, scale, weight_decay = numbers[0], numbers[1], numbers[2]
    beta1, beta2, epsilon = numbers[3], numbers[4], numbers[5]
    one = np.float32(1)
    for i in range(len(rows)):
        row = rows[i]
        for j in range(table.shape[1]):
            g = gradient[i, j] + weight_decay * table[row, j]
            mean = beta1 * of_gradient[row, j] + (one - beta1) * g
            square = beta2 * of_square[row, j] + (one - beta2) * g * g
            of_gradient[row, j] = mean
            of_square[row, j] = square
            table[row, j] -= lr * mean / (np.sqrt(square) * scale + epsilon)
