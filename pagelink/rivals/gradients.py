"""Paths by the gradient of the model, taken once or integrated: nothing is measured."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from pagelink.graph.computation_graph import ComputationGraphs
from pagelink.graph.lookup import slots_of_same_facts
from pagelink.graph.typed_graph import TypedGraph
from pagelink.measure.candidates import steepest_paths
from pagelink.model.edited_logits import edge_gradient
from pagelink.model.inputs import ModelInput
from pagelink.model.predictor import LinkPredictor
from pagelink.rivals.ground import Ground, Ranked
from pagelink.rivals.rival import Options, Rival, made_masks
from pagelink.runtime.arrays import Doubles, Floats
from pagelink.runtime.csr import segment_sums
from pagelink.runtime.timer import OutOfTimeError
from pagelink.search.mask_learning import LearnedMasks
from pagelink.search.paths import PathGraphs
from pagelink.search.work import LEARNING, Work

DRAWN = 100
"""Paths that are looked at for each one that is wanted."""


class Gradient(Rival):
    """The gradient of the logit by the weight of each edge; paths by the sum over their facts.

    The mask is sigmoid(g / mean of |g| over the link's edges): 0.5 is an edge that does nothing.
    """

    name = "gradient"

    def attribution(self, work: Work) -> Floats:
        """What each edge of the batch adds to the logit of its link."""
        return work.gradient()

    def masks(self, work: Work) -> LearnedMasks:
        """Scale what the edges add, link by link, so that batches do not show in a result."""
        values = self.attribution(work).astype(np.float64)
        gain = of_facts(self.graph, work.batch, work.paths, values)
        found = steepest_paths(
            work.paths, gain, self.settings.paths_within_budget, work.links, DRAWN
        )
        for first, last in zip(work.batch.edge_ptr, work.batch.edge_ptr[1:], strict=False):
            here = values[first:last]
            used = np.abs(here[here != 0])
            values[first:last] = here / (used.mean() if len(used) else 1.0)
        return made_masks(work, values.astype(np.float32), found)


def rank_by_gradient(ground: Ground, num_paths: int) -> Ranked:
    """Rank paths by the sum of the gradients of the logit by the weights of their edges.

    That is the first-order estimate of the effect of taking the path out; see `steepest_paths`.
    """
    links = np.arange(ground.num_links)
    return ground.ranked(
        steepest_paths(ground.paths, arc_gradient(ground), num_paths, links, DRAWN)
    )


def arc_gradient(ground: Ground) -> Doubles:
    """Per arc of the path graphs, the gradient of its fact: the sum over all of its edges."""
    gradient = edge_gradient(
        ground.explainer.predictor, ground.recorded, len(ground.batch.edges)
    ).astype(np.float64)
    return of_facts(ground.explainer.graph, ground.batch, ground.paths, gradient)


def of_facts(
    graph: TypedGraph, batch: ComputationGraphs, paths: PathGraphs, edge_values: Doubles
) -> Doubles:
    """Per arc of the path graphs, the sum of some values over all edges of its fact."""
    edges = slots_of_same_facts(graph, batch, paths.arc_slot)
    return segment_sums(edge_values[edges.values], edges.ptr)


# Integrated gradients: the gradient by the edge weights, averaged from no message to all.
#
# All edges of the computation graph have weight a, and a goes from 0 to 1. What an edge adds is
# the integral of its gradient, so that all of them together add f(1) - f(0): completeness. (At
# weight 0 an edge is still counted by a mean; that is not its removal.)


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
        """What each edge of the batch adds to the logit of its link.

        Raises:
            OutOfTimeError: there is no time for all points.
        """
        num_edges = len(work.batch.edges)
        if not work.timer.allows(self.options.steps * work.size, LEARNING):
            raise OutOfTimeError
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
