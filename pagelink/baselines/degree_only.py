"""The ranking that never looks at the model: cheapest paths by degree alone."""

from __future__ import annotations

import numpy as np

from pagelink.baselines.ground import Ground, Ranked
from pagelink.paths import best_paths


def rank(ground: Ground, num_paths: int) -> Ranked:
    """Rank paths by -(sum of log D_v), the paper's Score without a mask."""
    no_mask = np.full(len(ground.paths.arc_slot), np.inf, dtype=np.float32)
    return ground.ranked(best_paths(ground.paths, no_mask, num_paths))
