"""The ranking that never looks at the model: cheapest paths by degree alone."""

from __future__ import annotations

import numpy as np

from pagelink.baselines.ground import Ground, Ranked
from pagelink.baselines.rival import LOWEST, Rival, made_masks
from pagelink.learning import LearnedMasks
from pagelink.measuring import Work
from pagelink.paths import FoundPaths, best_paths

MASKED = 1000
"""Paths whose edges have a mask of their own."""


class DegreeOnly(Rival):
    """Paths by -(sum of log D_v), the paper's Score without a mask.

    The mask of an edge is 1 / (1 + r) for the rank r of the first path that holds it, and 0 for
    edges on none of the first thousand.
    """

    name = "degree"

    def masks(self, work: Work) -> LearnedMasks:
        """Rank edges by the paths they are on."""
        no_mask = np.full(len(work.paths.arc_slot), np.inf, dtype=np.float32)
        most = max(MASKED, self.settings.paths_within_budget)
        found = best_paths(work.paths, no_mask, most, work.links)
        logits = np.full(len(work.batch.edges), LOWEST, dtype=np.float32)
        # From the last to the first, so that the first path that holds an edge has the last word.
        for place in range(most - 1, -1, -1):
            arcs = found.arcs[:, place]
            logits[work.paths.arc_slot[arcs[arcs >= 0]]] = -np.log(place + 1)
        count = self.settings.paths_within_budget
        first = FoundPaths(found.arcs[:, :count], found.lengths[:, :count], found.complete)
        return made_masks(work, logits, first)


def rank(ground: Ground, num_paths: int) -> Ranked:
    """Rank paths by -(sum of log D_v), the paper's Score without a mask."""
    no_mask = np.full(len(ground.paths.arc_slot), np.inf, dtype=np.float32)
    return ground.ranked(best_paths(ground.paths, no_mask, num_paths))
