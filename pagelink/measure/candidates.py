"""Candidate paths of a batch, and the model's answers once they are removed.

Candidates are the best paths by the learned mask, by conciseness alone, and by the gradient of the
model, so that neither the concise nor the influential ones are missed. `Trials` are what the model
answers once facts are really removed, before any choice of paths: G is a link's graph as the model
sees it, G0 is G without any fact that lies on a path from source to target. Every choice among
candidates, ours or a rival's, starts from the same trials.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pagelink.graph.computation_graph import ComputationGraphs
from pagelink.graph.edited_graphs import Edits
from pagelink.graph.lookup import slots_of_same_facts
from pagelink.graph.typed_graph import TypedGraph
from pagelink.model.edited_logits import EditedLogits
from pagelink.runtime.arrays import Bools, Doubles, Floats, Longs
from pagelink.runtime.csr import Csr, segment_sums
from pagelink.runtime.timer import UNLIMITED, OutOfTimeError, Timer
from pagelink.search.paths import (
    FIXED_POINT,
    FoundPaths,
    PathGraphs,
    best_paths,
    build_path_graphs,
    cheapest_paths,
)
from pagelink.search.work import MEASURING, Work

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


@dataclass(frozen=True)
class ReferenceGraphs:
    """G and G0 of the links of a batch: what every edit starts from."""

    graph: TypedGraph
    batch: ComputationGraphs
    whole: Bools
    """G: the edges of the batch that the model sees."""
    bare: Bools
    """G0: G without every fact on a path of at most `max_length` facts."""

    @classmethod
    def of(
        cls,
        graph: TypedGraph,
        batch: ComputationGraphs,
        whole: Bools,
        max_length: int,
        until: float | None = None,
    ) -> ReferenceGraphs:
        """Find G0 of a batch.

        Raises:
            OutOfTimeError: it was not found by `until`.
        """
        # Up to three facts a walk is a simple path. Beyond that some walks are not; the few facts
        # on nothing but such walks are taken out, too.
        facts = graph.representative[batch.edges]
        walks = build_path_graphs(graph, batch, facts, max_length, until=until)
        bare = whole.copy()
        bare[slots_of_same_facts(graph, batch, walks.arc_slot).values] = False
        return cls(graph, batch, whole, bare)


@dataclass(frozen=True)
class Trials:
    """The model's answers about the links of a batch: their context, and each candidate alone.

    NaN is what there was no time for.
    """

    work: Work
    model: EditedLogits
    """Answers questions about edited graphs."""
    graphs: ReferenceGraphs
    candidates: Candidates
    alone: Doubles
    """Per candidate, the effect of removing its facts from G."""
    without_paths: Doubles
    """f(G0) per link; NaN for links that are not measured."""
    without_edges: Doubles
    """f without any edge, per link; NaN for links that are not measured."""

    @classmethod
    def of(cls, work: Work, candidates: Candidates) -> Trials:
        """Remove each candidate alone, all paths, and all edges.

        All in one go: what goes through the model anyway is G itself, once for everything.

        Raises:
            OutOfTimeError: the time was over before the model was asked.
        """
        setup, batch, links = work.setup, work.batch, work.links
        whole = setup.predictor.needed(batch)
        graphs = ReferenceGraphs.of(
            setup.graph, batch, whole, setup.settings.max_length, work.timer.search_end()
        )
        model = EditedLogits(setup.predictor, batch, work.relation, work.timer, MEASURING)
        each = candidates.removal(candidates.link, np.arange(len(candidates.lengths))[:, None])
        paths = Edits.towards(batch, whole & ~graphs.bare, links)
        edges = Edits.towards(batch, whole, links)
        answers = model.logits(whole, Edits.joined([each, paths, edges]))
        context = np.full((2, len(work.logits)), np.nan)
        context[:, links] = answers[each.num_graphs :].reshape(2, -1)
        alone = work.logits[each.link] - answers[: each.num_graphs]
        return cls(work, model, graphs, candidates, alone, *context)

    def effects(self, edits: Edits, *, inserted: bool = False) -> Doubles:
        """Return what sets of facts do: by removal from G, or by insertion into G0.

        Raises:
            OutOfTimeError: the time was over before all of it was measured.
        """
        if inserted:
            return self.logits(self.graphs.bare, edits) - self.without_paths[edits.link]
        effects: Doubles = self.work.logits[edits.link]
        return effects - self.logits(self.graphs.whole, edits)

    def logits(self, graph: Bools, edits: Edits) -> Doubles:
        """Return the logits of edited graphs, all of them.

        Raises:
            OutOfTimeError: the time was over before the model was asked for all of them, or for
                what came before.
        """
        answers = self.model.logits(graph, edits)
        if not self.model.complete:
            raise OutOfTimeError
        return answers
