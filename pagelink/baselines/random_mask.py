"""A mask at random: what a mask of no meaning reaches with the same search for paths."""

from __future__ import annotations

import numpy as np

from pagelink.baselines.rival import Rival, made_masks
from pagelink.learning import LearnedMasks
from pagelink.measuring import Work


class RandomMask(Rival):
    """Every mask value drawn evenly from 0 to 1, by the seed and the link."""

    name = "random-mask"

    def masks(self, work: Work) -> LearnedMasks:
        """Draw the masks."""
        batch = work.batch
        logits = np.empty(len(batch.edges), dtype=np.float32)
        for i in range(batch.num_links):
            here = slice(batch.edge_ptr[i], batch.edge_ptr[i + 1])
            rng = np.random.default_rng((work.seed, int(batch.link_src[i]), int(batch.link_dst[i])))
            logits[here] = rng.logistic(size=here.stop - here.start)
        return made_masks(work, logits)
