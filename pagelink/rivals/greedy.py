"""The exhaustive greedy search: the measure of what paths can do to a score.

It adds, among all simple paths of at most l_max facts, the one whose removal from G lowers f most,
again and again, as many as are wanted. Where every path raises f it adds the one that raises it
least, because two paths may stand in for each other. Of the sets on its way, of one path or more,
the one of highest effect counts; explanations, too, may have fewer paths than are wanted, but not
none. By the same rule it searches the other side: the paths whose insertion into G0 raises f most.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from pagelink.rivals.gradients import arc_gradient
from pagelink.rivals.ground import Ground, Ranked, paths_by_degree
from pagelink.runtime.arrays import Bools, Doubles, Longs
from pagelink.search.paths import FoundPaths, best_paths

MOST_PATHS = 5000
"""Paths of a link that all are tried; see `GreedySearch.exhaustive`."""


@dataclass(frozen=True)
class GreedySearch:
    """What the search found."""

    chain: Ranked
    """Per link, the paths in the order they were added."""
    reached: Doubles
    """[num_links, num_paths + 1]: the effect (or gain) of the first 0, 1, ... of them together;
    -inf where there are no more."""
    exhaustive: Bools
    """[num_links]: all paths of the link were tried. Where there are too many, the search is over
    the most concise ones and those of the highest gradient, and its effect is a lower bound."""
    num_paths: Longs
    """[num_links]: paths that were tried."""

    def best(self, count: int) -> Ranked:
        """Of the sets of one to `count` paths on its way, the one of highest effect."""
        sizes = 1 + np.argmax(self.reached[:, 1 : count + 1], axis=1)
        return [paths[:size] for paths, size in zip(self.chain, sizes.tolist(), strict=True)]

    def effects(self, count: int) -> Doubles:
        """The effect of that set; 0 where there is no path."""
        return _known(self.reached[:, 1 : count + 1].max(1))

    def effects_of_all(self, count: int) -> Doubles:
        """The effect of exactly `count` paths, be it less than that of fewer of them."""
        sizes = np.minimum(count, [len(paths) for paths in self.chain])
        return _known(self.reached[np.arange(len(sizes)), sizes])

    def effects_or_none(self, count: int) -> Doubles:
        """The highest effect, where the search may also return no path at all."""
        return np.maximum(self.effects(count), 0.0)


def greedy_search(
    ground: Ground, num_paths: int, most: int = MOST_PATHS, *, inserted: bool = False
) -> GreedySearch:
    """Search greedily for the set of paths whose removal lowers the score most.

    Args:
        ground: the links.
        num_paths: paths of a set at most.
        most: paths of a link that are tried at most.
        inserted: search for the set whose insertion into G0 raises the score most, and where the
            result says effect, it is the gain, f(G0 + S) - f(G0).
    """
    found, exhaustive = all_paths(ground, most)
    tried = ground.candidates(found)
    num_links, count = ground.num_links, len(tried.lengths)
    chosen = np.full((num_links, num_paths), -1)
    reached = np.full((num_links, num_paths + 1), -np.inf)
    reached[:, 0] = 0.0
    for place in range(num_paths):
        members = chosen[tried.link].copy()
        members[:, place] = np.arange(count)
        # A path that is in the set already is no next one.
        again = (chosen[tried.link] == np.arange(count)[:, None]).any(1)
        edits = tried.removal(tried.link, members)
        moved = ground.gains_of(edits) if inserted else ground.effects_of(edits)
        effect = np.where(again, -np.inf, moved)
        for link in range(num_links):
            first, last = tried.ptr[link : link + 2]
            best = first + int(np.argmax(effect[first:last])) if last > first else -1
            if best >= 0 and np.isfinite(effect[best]):
                chosen[link, place], reached[link, place + 1] = best, effect[best]
    ranked = [
        [ground.as_facts(tried.arcs[one]) for one in members if one >= 0] for members in chosen
    ]
    return GreedySearch(ranked, reached, exhaustive, np.diff(tried.ptr))


def _known(values: Doubles) -> Doubles:
    return np.where(np.isfinite(values), values, 0.0)


def all_paths(ground: Ground, most: int) -> tuple[FoundPaths, Bools]:
    """All paths of each link; of a link with too many, half of them by degree, half by gradient."""
    paths = ground.paths
    found = paths_by_degree(paths, most + 1)
    exhaustive: Bools = found.lengths[:, most] == 0
    arcs = found.arcs[:, :most].copy()
    if not exhaustive.all():
        cut = np.flatnonzero(~exhaustive)
        half = most // 2
        steep = best_paths(
            replace(paths, arc_log_degree=np.zeros_like(paths.arc_log_degree)),
            _relative_gradient(ground), most - half, cut,
        )  # fmt: skip
        arcs[cut, half:] = steep.arcs  # those that are among the first half are tried once
    return FoundPaths(arcs, (arcs >= 0).sum(2), found.complete), exhaustive


def _relative_gradient(ground: Ground) -> npt.NDArray[np.float32]:
    """Per arc, the gradient of its fact as a share of the mean of its link."""
    gain = arc_gradient(ground)
    for link in range(ground.num_links):
        mine = ground.paths.arcs_of(link)
        if mine.stop > mine.start:
            gain[mine] /= max(float(np.abs(gain[mine]).mean()), 1e-30)
    relative: npt.NDArray[np.float32] = gain.astype(np.float32)
    return relative
