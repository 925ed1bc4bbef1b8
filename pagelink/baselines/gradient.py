"""Paths by the gradient of the model: one backward pass, nothing is measured."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from pagelink.baselines.ground import Ground, Ranked
from pagelink.baselines.rival import Rival, made_masks
from pagelink.candidates import FactIndex, steepest_paths
from pagelink.computation_graph import ComputationGraphs
from pagelink.influence import edge_gradient
from pagelink.learning import LearnedMasks
from pagelink.measuring import Work
from pagelink.paths import PathGraphs

DRAWN = 100
"""Paths that are looked at for each one that is wanted."""

Doubles = npt.NDArray[np.float64]
Floats = npt.NDArray[np.float32]


class Gradient(Rival):
    """The gradient of the logit by the weight of each edge; paths by the sum over their facts.

    The mask is sigmoid(g / mean of |g| over the link's edges): 0.5 is an edge that does nothing.
    """

    name = "gradient"

    def attribution(self, work: Work) -> Floats:
        """What each edge of the batch adds to the logit of its link."""
        return edge_gradient(self.predictor, work.recorded, len(work.batch.edges))

    def masks(self, work: Work) -> LearnedMasks:
        """Scale what the edges add, link by link, so that batches do not show in a result."""
        values = self.attribution(work).astype(np.float64)
        gain = of_facts(self._facts, work.batch, work.paths, values)
        found = steepest_paths(
            work.paths, gain, self.settings.paths_within_budget, work.links, DRAWN
        )
        for first, last in zip(work.batch.edge_ptr, work.batch.edge_ptr[1:], strict=False):
            here = values[first:last]
            used = np.abs(here[here != 0])
            values[first:last] = here / (used.mean() if len(used) else 1.0)
        return made_masks(work, values.astype(np.float32), found)


def rank(ground: Ground, num_paths: int) -> Ranked:
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
    return of_facts(ground.facts, ground.batch, ground.paths, gradient)


def of_facts(
    facts: FactIndex, batch: ComputationGraphs, paths: PathGraphs, edge_values: Doubles
) -> Doubles:
    """Per arc of the path graphs, the sum of some values over all edges of its fact."""
    edges = facts.of_slots(batch, paths.arc_slot)
    total = np.concatenate([[0.0], np.cumsum(edge_values[edges.values])])
    return np.diff(total[edges.ptr])
