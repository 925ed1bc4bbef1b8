"""Candidate paths of a batch: the best by the learned mask, by conciseness, and by the gradient.

So neither the concise nor the influential ones are missed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pagelink.graph.computation_graph import ComputationGraphs
from pagelink.graph.edited_graphs import Edits
from pagelink.graph.lookup import slots_of_same_facts
from pagelink.graph.typed_graph import TypedGraph
from pagelink.runtime.arrays import Doubles, Floats, Longs
from pagelink.runtime.csr import Csr, segment_sums
from pagelink.runtime.timer import UNLIMITED, OutOfTimeError, Timer
from pagelink.search.paths import (
    FIXED_POINT,
    FoundPaths,
    PathGraphs,
    best_paths,
    cheapest_paths,
)

DRAWN = 3
"""Paths of high mean gradient that are looked at for each one of a high sum that is wanted."""


@dataclass(frozen=True)
class Candidates:
    """Candidate paths of the links of a batch, grouped by link."""

    ptr: Longs
    """Range of each link's candidates."""
    arcs: Longs
    """[num_candidates, max_length]: arcs of the path graphs, -1 behind a path's end."""
    lengths: Longs
    scores: Doubles
    """Score(p) by the learned mask."""
    concise: Doubles
    """Score(p) without the mask: minus the sum of log D_v."""
    slots: Csr
    """Per candidate, all edges of its facts: every copy and both directions."""

    @classmethod
    def none(cls, num_links: int, max_length: int) -> Candidates:
        """No candidates, of some links."""
        whole, real = np.empty(0, dtype=np.int64), np.empty(0)
        ptr, arcs = np.zeros(num_links + 1, dtype=np.int64), whole.reshape(0, max_length)
        return cls(ptr, arcs, whole, real, real, Csr(np.zeros(1, dtype=np.int64), whole))

    @property
    def link(self) -> Longs:
        """The link of each candidate."""
        return np.repeat(np.arange(len(self.ptr) - 1), np.diff(self.ptr))

    def found(self, members: Longs) -> FoundPaths:
        """Chosen candidates, a row per link, -1 behind the last, as the result of a search."""
        there = members >= 0
        return FoundPaths(
            arcs=np.where(there[:, :, None], self.arcs[members], -1),
            lengths=np.where(there, self.lengths[members], 0),
            complete=np.ones(len(members), dtype=np.bool_),
        )

    def joined(self, more: Candidates) -> tuple[Candidates, Longs, Longs]:
        """Put further candidates of the same batch beside these, each path once.

        Returns:
            All of them, and where these and the further ones are among them.
        """
        arcs = np.concatenate([self.arcs, more.arcs])
        link = np.concatenate([self.link, more.link])
        # Arcs are numbered through the batch, so that equal rows are of one link.
        _, first, same = np.unique(arcs, axis=0, return_index=True, return_inverse=True)
        order = np.lexsort((first, link[first]))
        place = np.empty(len(order), dtype=np.int64)
        place[order] = np.arange(len(order))
        position = place[same.reshape(-1)]
        taken = first[order]
        everything = Candidates(
            ptr=np.searchsorted(link[taken], np.arange(len(self.ptr))),
            arcs=arcs[taken],
            lengths=np.concatenate([self.lengths, more.lengths])[taken],
            scores=np.concatenate([self.scores, more.scores])[taken],
            concise=np.concatenate([self.concise, more.concise])[taken],
            slots=self.slots.followed_by(more.slots).take(taken),
        )
        return everything, position[: len(self.arcs)], position[len(self.arcs) :]

    def removal(self, link: Longs, members: Longs) -> Edits:
        """Edits by the facts of sets of candidates.

        Args:
            link: per set, its link.
            members: [num_sets, most], candidates, -1 behind the last.
        """
        chosen = members >= 0
        ptr = np.concatenate([[0], np.cumsum(chosen.sum(1))])
        return Edits(link, self.slots.take(members[chosen]).joined(ptr))


class CandidateFinder:
    """Finds candidate paths for some links of a batch.

    Args:
        graph: the flat graph.
        batch: the computation graphs.
        paths: where paths may be.
        links: the links; the others have no candidates.
        edge_logits: M, the learned mask, per edge of the batch.
        timer: when a search has to end; one that is cut raises `OutOfTimeError`.
    """

    def __init__(
        self,
        graph: TypedGraph,
        batch: ComputationGraphs,
        paths: PathGraphs,
        links: Longs,
        edge_logits: Floats,
        timer: Timer = UNLIMITED,
    ) -> None:
        self._timer = timer
        self._paths, self._links, self._num_links = paths, links, batch.num_links
        self._arc_logits = edge_logits[paths.arc_slot]
        self._arc_facts = slots_of_same_facts(graph, batch, paths.arc_slot)

    def taken(self, *rankings: FoundPaths) -> Candidates:
        """Take the paths of searches over the links, each path where it comes first."""
        arcs = np.concatenate([found.arcs for found in rankings], axis=1)
        link = np.repeat(self._links, arcs.shape[1])
        arcs = arcs.reshape(-1, arcs.shape[2])
        there = arcs[:, 0] >= 0
        arcs, link = arcs[there], link[there]
        # Arcs are numbered through the batch, so that equal rows are of one link.
        _, first = np.unique(arcs, axis=0, return_index=True)
        first.sort()
        arcs, link = arcs[first], link[first]
        order = np.argsort(link, kind="stable")
        arcs, link = arcs[order], link[order]
        walked = arcs >= 0
        lengths = walked.sum(1)
        degrees = self._paths.arc_log_degree[arcs[walked]]
        cost = np.logaddexp(0, -self._arc_logits[arcs[walked]].astype(np.float64)) + degrees
        bounds = np.concatenate([[0], np.cumsum(lengths)])
        return Candidates(
            ptr=np.searchsorted(link, np.arange(self._num_links + 1)),
            arcs=arcs,
            lengths=lengths,
            scores=-segment_sums(cost, bounds),
            concise=-segment_sums(degrees, bounds),
            slots=self._arc_facts.take(arcs[walked]).joined(bounds),
        )

    def candidates(self, edge_gradient: Floats, count: int) -> Candidates:
        """Return the best paths by the mask, by conciseness and by the gradient, `count` each."""
        return self.taken(
            self.best_by_mask(count), self.most_concise(count), self.steepest(edge_gradient, count)
        )

    def most_concise(self, count: int) -> FoundPaths:
        """The best paths by degree alone."""
        no_mask = np.full(len(self._arc_logits), np.inf, dtype=np.float32)
        return self._by_score(no_mask, count)

    def best_by_mask(self, count: int) -> FoundPaths:
        """The best paths by the learned mask, as the paper ranks them."""
        return self._by_score(self._arc_logits, count)

    def _by_score(self, arc_logits: Floats, count: int) -> FoundPaths:
        until = self._timer.search_end()
        return _complete(best_paths(self._paths, arc_logits, count, self._links, until))

    def steepest(self, edge_gradient: Floats, count: int) -> FoundPaths:
        """The paths of the highest sum of gradients of the logit by the weights of their facts.

        That is the first-order estimate of the effect of taking the path out.
        """
        gain = segment_sums(
            edge_gradient[self._arc_facts.values].astype(np.float64), self._arc_facts.ptr
        )
        until = self._timer.search_end()
        return _complete(steepest_paths(self._paths, gain, count, self._links, DRAWN, until))


def _complete(found: FoundPaths) -> FoundPaths:
    if not found.complete.all():
        raise OutOfTimeError
    return found


def steepest_paths(
    paths: PathGraphs,
    arc_gain: Doubles,
    count: int,
    links: Longs,
    drawn: int,
    until: float | None = None,
) -> FoundPaths:
    """Find the paths of the highest sum of any values of their arcs.

    Among paths of equal length the order is exact; a longer path is found if fewer than `drawn`
    times as many paths as are wanted come before it by its mean value.
    """
    # Each link by its own measure: the paths must not depend on who else is in the batch.
    first = paths.arc_ptr[paths.node_ptr[:-1] + np.arange(paths.num_links)]
    size = np.diff(first, append=len(arc_gain))
    full = np.flatnonzero(size)
    highest, lowest = np.zeros(len(size)), np.zeros(len(size))
    highest[full] = np.maximum.reduceat(arc_gain, first[full])
    lowest[full] = np.minimum.reduceat(arc_gain, first[full])
    span = np.where(highest > lowest, highest - lowest, 1.0)
    cost = (np.repeat(highest, size) - arc_gain) / np.repeat(span, size)  # costs are from 0 up
    found = cheapest_paths(
        paths, np.rint(cost * FIXED_POINT).astype(np.int64), drawn * count, links, until
    )
    sums = np.where(found.arcs >= 0, arc_gain[found.arcs], 0.0).sum(2)
    best = np.argsort(np.where(found.lengths > 0, -sums, np.inf), axis=1, kind="stable")[:, :count]
    return FoundPaths(
        np.take_along_axis(found.arcs, best[:, :, None], axis=1),
        np.take_along_axis(found.lengths, best, axis=1),
        found.complete,
    )
