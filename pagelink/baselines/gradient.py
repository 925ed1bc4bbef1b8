"""Paths by the gradient of the model: one backward pass, nothing is measured."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from pagelink.baselines.ground import FactPath, Ground, Ranked
from pagelink.influence import edge_gradient
from pagelink.paths import FIXED_POINT, cheapest_paths

DRAWN = 100
"""Paths that are looked at for each one that is wanted."""

Doubles = npt.NDArray[np.float64]


def rank(ground: Ground, num_paths: int) -> Ranked:
    """Rank paths by the sum of the gradients of the logit by the weights of their edges.

    That is the first-order estimate of the effect of taking the path out. Among paths of equal
    length the order is exact; a longer path is found if fewer than `DRAWN` times as many paths as
    are wanted come before it by its mean gradient.
    """
    gain = arc_gradient(ground)
    return [_of_link(ground, gain, link, num_paths) for link in range(ground.num_links)]


def arc_gradient(ground: Ground) -> Doubles:
    """Per arc of the path graphs, the gradient of its fact: the sum over all of its edges."""
    facts = ground.facts.of_slots(ground.batch, ground.paths.arc_slot)
    gradient = edge_gradient(
        ground.explainer.predictor, ground.recorded, len(ground.batch.edges)
    ).astype(np.float64)
    total = np.concatenate([[0.0], np.cumsum(gradient[facts.values])])
    return np.diff(total[facts.ptr])


def _of_link(ground: Ground, gain: Doubles, link: int, num_paths: int) -> list[FactPath]:
    mine = ground.paths.arcs_of(link)
    if mine.start == mine.stop:
        return []
    highest = gain[mine].max()
    span = float(highest - gain[mine].min()) or 1.0
    cost = np.zeros(len(gain), dtype=np.int64)
    cost[mine] = np.rint((highest - gain[mine]) / span * FIXED_POINT)  # costs are from 0 up
    found = cheapest_paths(ground.paths, cost, DRAWN * num_paths, np.array([link]))
    drawn = [arcs[arcs >= 0] for arcs in found.arcs[0] if arcs[0] >= 0]
    drawn.sort(key=lambda arcs: -float(gain[arcs].sum()))
    return [ground.as_facts(arcs) for arcs in drawn[:num_paths]]
