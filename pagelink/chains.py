"""Sets of paths of high joint effect, one path after the other.

Facts that do nothing as long as others are there may be worth most once these are gone. So each
next path is looked for where the gradient is steepest without those before, and measured together
with them.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from pagelink.candidates import Candidates
from pagelink.graph import Bools, Longs
from pagelink.influence import Influence

Doubles = npt.NDArray[np.float64]
Steepest = Callable[[Longs, int], Candidates]
"""From edges that are left out, so many candidates per link by the gradient without them."""


class Chain:
    """The paths of a batch of links, measured alone and, one after the other, together.

    Args:
        influence: asks the model.
        candidates: candidate paths.
        alone: per candidate, the effect of removing its facts.
        graph: G, the edges of the batch that the model sees.
        logits: f(G) per link.
    """

    def __init__(
        self,
        influence: Influence,
        candidates: Candidates,
        alone: Doubles,
        graph: Bools,
        logits: Doubles,
    ) -> None:
        self._influence, self._graph, self._logits = influence, graph, logits
        self.candidates = candidates
        """All candidates so far."""
        self.alone = alone
        """Per candidate, the effect of removing its facts alone."""
        self.members = ranked(candidates, self.alone, 1)
        """[num_links, length]: the paths so far, -1 where there is none."""
        self.best = np.append(self.alone, -np.inf)[self.members[:, 0]]
        """The highest effect of any set on the way, -inf where there is none."""
        self.largest = np.abs(self.best)
        """The largest change of the score, either way, by any of them."""
        self.num_sets = np.diff(candidates.ptr)

    def lengthen(self, steepest: Steepest, count: int) -> None:
        """Add the path that goes best with the others, of so many tried; none if there is none."""
        links = np.flatnonzero(self.members[:, 0] >= 0)
        gone = self.candidates.removal(links, self.members[links])
        self.candidates, old, tried = self.candidates.joined(steepest(gone.slots, count))
        self.members = np.where(self.members >= 0, np.append(old, -1)[self.members], -1)
        link = self.candidates.link[tried]
        again = (self.members[link] == tried[:, None]).any(1)
        tried, link = tried[~again], link[~again]

        alone = np.full(len(self.candidates.lengths), np.nan)
        alone[old] = self.alone
        new = np.flatnonzero(np.isnan(alone))
        by_itself = np.full((len(new), self.members.shape[1] + 1), -1)
        by_itself[:, 0] = new
        together = np.column_stack([tried, self.members[link]])
        effects = self._effects(np.concatenate([by_itself, together]))
        alone[new], effect = effects[: len(new)], effects[len(new) :]
        self.alone = alone

        best = np.full(len(self._logits), -np.inf)
        np.maximum.at(best, link, effect)
        added = np.full(len(best), -1)
        is_best = np.flatnonzero(effect == best[link])[::-1]  # the first of equal ones stays
        added[link[is_best]] = tried[is_best]
        self.members = np.column_stack([self.members, added])
        self.best = np.maximum(self.best, best)
        np.maximum.at(self.largest, link, np.abs(effect))
        measured = np.concatenate([self.candidates.link[new], link])
        self.num_sets = self.num_sets + np.bincount(measured, minlength=len(best))

    def _effects(self, members: Longs) -> Doubles:
        """The effects of removing sets of candidates, -1 behind the last one."""
        link = self.candidates.link[members[:, 0]]
        removal = self.candidates.removal(link, members)
        effects: Doubles = self._logits[link] - self._influence.logits(self._graph, removal)
        return effects


def ranked(candidates: Candidates, values: Doubles, count: int) -> Longs:
    """[num_links, count]: the candidates of highest value, -1 behind the last."""
    link = candidates.link
    order = np.lexsort((-values, link))
    place = np.arange(len(link)) - candidates.ptr[link]  # order keeps the links together
    found = np.full((len(candidates.ptr) - 1, count), -1)
    inside = place < count
    found[link[inside], place[inside]] = order[inside]
    return found
