"""Integrated gradients: the gradient by the edge weights, averaged from no message to all.

All edges of the computation graph have weight a, and a goes from 0 to 1. What an edge adds is the
integral of its gradient, so that all of them together add f(1) - f(0): completeness. (At weight 0
an edge is still counted by a mean; that is not its removal.)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from pagelink.baselines.gradient import Gradient
from pagelink.baselines.rival import Options
from pagelink.measuring import Work
from pagelink.model_inputs import ModelInput
from pagelink.predictor import LinkPredictor

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True)
class IntegratedGradientOptions(Options):
    """How the integral is taken."""

    steps: int = 16
    """Points of a Gauss-Legendre rule."""


class IntegratedGradient(Gradient):
    """The integrated gradient of the logit by the weight of each edge; see `Gradient`."""

    name = "integrated-gradient"
    options_type = IntegratedGradientOptions

    def attribution(self, work: Work) -> Floats:
        """What each edge of the batch adds to the logit of its link."""
        num_edges = len(work.batch.edges)
        return integrated_gradient(self.predictor, work.recorded, num_edges, self.options.steps)


def integrated_gradient(
    predictor: LinkPredictor, recorded: ModelInput, num_edges: int, steps: int
) -> Floats:
    """Integrate the gradient of each link's logit by the weights of its edges, from 0 to 1.

    Args:
        predictor: the model.
        recorded: links of a batch as they went through the model.
        num_edges: edges of the batch.
        steps: points of the quadrature.
    """
    points, shares = np.polynomial.legendre.leggauss(steps)
    total = torch.zeros(num_edges, dtype=torch.float64, device=predictor.device)
    with predictor.weighted(recorded) as run:
        for point, share in zip((points + 1) / 2, shares / 2, strict=True):
            weights = torch.full((num_edges,), float(point), device=predictor.device)
            weights.requires_grad_()
            (gradient,) = torch.autograd.grad(run(weights).sum(), weights)
            total += float(share) * gradient
    found: Floats = total.float().cpu().numpy()
    return np.nan_to_num(found, posinf=0.0, neginf=0.0)
