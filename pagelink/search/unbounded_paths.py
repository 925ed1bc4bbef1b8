"""The best paths of any length, within the edges that pruning kept.

That is where the released code looks for E_path: neither the length of a path is bounded, nor has
the model to see all of its facts. The search itself always has a bound, so it is repeated with
twice the bound until a longer path cannot be among the best: an inner node of a simple path has two
facts at least, so that n facts cost n times the lowest -log sigmoid(M) and (n - 1) log 2 at least.
"""

from __future__ import annotations

import math

import numpy as np

from pagelink.runtime.arrays import Bools, Doubles, Floats, Longs
from pagelink.runtime.timer import OutOfTimeError
from pagelink.search.paths import FoundPaths, PathGraphs, best_paths, build_path_graphs
from pagelink.search.work import Work

FIRST_BOUND = 8
"""Facts of a path at most, in the first search."""


class UnboundedPaths:
    """The kept graphs of a batch, to find the best paths of any length in."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self._longest = np.maximum(np.diff(work.batch.node_ptr) - 1, 1)
        self._bound = np.minimum(FIRST_BOUND, self._longest)
        """Per link, the bound that was enough so far."""
        self._graphs: dict[int, tuple[Bools, PathGraphs]] = {}
        """By bound: the links that have it, and their path graphs."""

    def best(
        self, edge_logits: Floats, count: int, links: Longs, until: float | None = None
    ) -> tuple[Longs, Bools]:
        """Find the paths of highest Score.

        Args:
            edge_logits: M of every edge of the batch; -inf where it was pruned.
            count: number of paths per link at most.
            links: the links.
            until: when to stop at the latest, by `time.perf_counter`. None: never.

        Returns:
            [links, count, length], the walked edges of the paths by position in the batch, best
            path first, -1 behind its end; and per link whether there was time enough.
        """
        steps = np.full((len(links), count, 1), -1, dtype=np.int64)
        complete = np.ones(len(links), dtype=np.bool_)
        waiting = np.arange(len(links))
        while len(waiting):
            bound = int(self._bound[links[waiting]].min())
            here = waiting[self._bound[links[waiting]] == bound]
            mine = links[here]
            try:
                paths = self._path_graphs(bound, mine, until)
            except OutOfTimeError:
                complete[waiting] = False
                break
            arc_logits = edge_logits[paths.arc_slot]
            found = best_paths(paths, arc_logits, count, mine, until)
            complete[here] = found.complete
            proved = self._proved(paths, arc_logits, found, edge_logits, mine)
            proved |= (bound >= self._longest[mine]) | ~found.complete
            self._bound[mine[~proved]] = np.minimum(2 * bound, self._longest[mine[~proved]])
            if bound > steps.shape[2]:
                longer = [(0, 0), (0, 0), (0, bound - steps.shape[2])]
                steps = np.pad(steps, longer, constant_values=-1)
            slots = np.where(found.arcs >= 0, paths.arc_slot[found.arcs], -1)
            steps[here[proved], :, :bound] = slots[proved]
            waiting = np.setdiff1d(waiting, here[proved])
        return steps, complete

    def _path_graphs(self, bound: int, links: Longs, until: float | None) -> PathGraphs:
        work, none = self._work, np.zeros(self._work.batch.num_links, dtype=np.bool_)
        inside, paths = self._graphs.get(bound, (none, None))
        if paths is None or not inside[links].all():
            setup, batch = work.setup, work.batch
            inside = inside.copy()
            inside[links] = True
            allowed = setup.graph.representative[batch.edges] & work.kept
            allowed &= np.repeat(inside, np.diff(batch.edge_ptr))
            constraints = setup.constraints
            if constraints.edges is not None:
                allowed &= constraints.edges[batch.edges]
            paths = build_path_graphs(
                setup.graph, batch, allowed, bound, setup.settings.max_degree, constraints, until
            )
            self._graphs[bound] = inside, paths
        return paths

    def _proved(
        self, paths: PathGraphs, arc_logits: Floats, found: FoundPaths, logits: Floats, links: Longs
    ) -> Bools:
        """Whether the last path of each link costs less than any longer path than there may be."""
        last = found.arcs[:, -1]
        cost = np.logaddexp(0, -arc_logits[last].astype(np.float64)) + paths.arc_log_degree[last]
        total: Doubles = np.where(last >= 0, cost, 0.0).sum(axis=1)
        total = np.where(found.lengths[:, -1] > 0, total, math.inf)
        ptr = self._work.batch.edge_ptr
        highest = np.array([logits[ptr[link] : ptr[link + 1]].max() for link in links.tolist()])
        least = np.logaddexp(0, -highest.astype(np.float64))
        longer = paths.max_length + 1
        return total < longer * least + (longer - 1) * math.log(2)
