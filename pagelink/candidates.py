"""Candidate paths of a batch, and the edges that their facts are.

Candidates are the best paths by the learned mask, by conciseness alone, and by the gradient of the
model, so that neither the concise nor the influential ones are missed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from pagelink.computation_graph import ComputationGraphs
from pagelink.copies import Edits
from pagelink.graph import Longs, TypedGraph
from pagelink.kernels import kernel
from pagelink.paths import FoundPaths, PathGraphs, best_paths

Doubles = npt.NDArray[np.float64]
Floats = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Ragged:
    """Lists of numbers, one after the other."""

    ptr: Longs
    values: Longs

    def take(self, order: Longs) -> Ragged:
        """The lists of these positions, in this order."""
        length = np.diff(self.ptr)[order]
        ptr = np.concatenate([[0], np.cumsum(length)])
        place = np.arange(ptr[-1]) + np.repeat(self.ptr[:-1][order] - ptr[:-1], length)
        return Ragged(ptr, self.values[place])

    def joined(self, ptr: Longs) -> Ragged:
        """Put lists together: ptr[i]:ptr[i + 1] become one."""
        return Ragged(self.ptr[ptr], self.values)


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
    slots: Ragged
    """Per candidate, all edges of its facts: every copy and both directions."""

    @property
    def link(self) -> Longs:
        """The link of each candidate."""
        return np.repeat(np.arange(len(self.ptr) - 1), np.diff(self.ptr))

    def found(self, links: Longs, members: Longs) -> FoundPaths:
        """The chosen candidates of some links, as the result of a search."""
        there = members >= 0
        return FoundPaths(
            arcs=np.where(there[:, :, None], self.arcs[members], -1),
            lengths=np.where(there, self.lengths[members], 0),
            complete=np.ones(len(links), dtype=np.bool_),
        )

    def removal(self, link: Longs, members: Longs) -> Edits:
        """Edits by the facts of sets of candidates.

        Args:
            link: per set, its link.
            members: [num_sets, most], candidates, -1 behind the last.
        """
        chosen = members >= 0
        slots = self.slots.take(members[chosen])
        ptr = np.concatenate([[0], np.cumsum(chosen.sum(1))])
        together = slots.joined(ptr)
        return Edits(link, together.ptr, together.values)


def find_candidates(
    facts: FactIndex,
    batch: ComputationGraphs,
    paths: PathGraphs,
    links: Longs,
    edge_logits: Floats,
    edge_gradient: Floats,
    count: int,
) -> Candidates:
    """Gather candidates for some links of a batch.

    Args:
        facts: the facts of the graph.
        batch: the computation graphs.
        paths: where paths may be.
        links: the links; the others have no candidates.
        edge_logits: M, the learned mask, per edge of the batch.
        edge_gradient: the gradient of the link's logit by the weight of each edge of the batch.
        count: candidates by each of the three rankings.
    """
    arc_logits = edge_logits[paths.arc_slot]
    arc_facts = facts.of_slots(batch, paths.arc_slot)
    gain = _sums(edge_gradient[arc_facts.values].astype(np.float64), arc_facts.ptr)
    # Each link by its own measure: the paths must not depend on who else is in the batch.
    first = paths.arc_ptr[paths.node_ptr[:-1] + np.arange(paths.num_links)]
    ptr = np.append(first, len(gain))
    mean = _sums(np.abs(gain), ptr) / np.maximum(np.diff(ptr), 1)
    gain = gain / np.repeat(np.maximum(mean, 1e-30), np.diff(ptr))
    rankings = [
        best_paths(paths, arc_logits, count, links),
        best_paths(paths, np.full(len(arc_logits), np.inf, dtype=np.float32), count, links),
        best_paths(
            replace(paths, arc_log_degree=np.zeros_like(paths.arc_log_degree)),
            gain.astype(np.float32),
            count,
            links,
        ),
    ]
    return _together(paths, links, rankings, arc_logits, arc_facts, batch.num_links)


def candidates_of(
    facts: FactIndex,
    batch: ComputationGraphs,
    paths: PathGraphs,
    links: Longs,
    edge_logits: Floats,
    found: FoundPaths,
) -> Candidates:
    """Take the paths of a search as candidates, in its order."""
    arc_logits = edge_logits[paths.arc_slot]
    arc_facts = facts.of_slots(batch, paths.arc_slot)
    return _together(paths, links, [found], arc_logits, arc_facts, batch.num_links)


def _together(
    paths: PathGraphs,
    links: Longs,
    rankings: list[FoundPaths],
    arc_logits: Floats,
    arc_facts: Ragged,
    num_links: int,
) -> Candidates:
    """Put rankings one after the other, each path where it comes first."""
    arcs = np.concatenate([found.arcs for found in rankings], axis=1)
    link = np.repeat(links, arcs.shape[1])
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
    degrees = paths.arc_log_degree[arcs[walked]]
    cost = np.logaddexp(0, -arc_logits[arcs[walked]].astype(np.float64)) + degrees
    bounds = np.concatenate([[0], np.cumsum(lengths)])
    return Candidates(
        ptr=np.searchsorted(link, np.arange(num_links + 1)),
        arcs=arcs,
        lengths=lengths,
        scores=-_sums(cost, bounds),
        concise=-_sums(degrees, bounds),
        slots=arc_facts.take(arcs[walked]).joined(bounds),
    )


def _sums(values: Doubles, ptr: Longs) -> Doubles:
    """Sums of values[ptr[i]:ptr[i + 1]]."""
    total = np.concatenate([[0.0], np.cumsum(values)])
    return np.diff(total[ptr])


class FactIndex:
    """All edges of each fact of a graph: every copy and both directions."""

    def __init__(self, graph: TypedGraph) -> None:
        self._ptr, self._edges = _edges_by_fact(graph.fact, int(graph.fact.max(initial=-1)) + 1)
        self._fact = graph.fact

    def of_slots(self, batch: ComputationGraphs, slots: Longs) -> Ragged:
        """Per edge of a batch, all edges of its link's graph that state the same fact."""
        ptr, values = _slots_of_facts(
            slots, batch.edges, batch.edge_ptr, self._fact, self._ptr, self._edges
        )
        return Ragged(ptr, values)


@kernel
def _edges_by_fact(fact, num_facts):  # type: ignore[no-untyped-def]
    ptr = np.zeros(num_facts + 1, dtype=np.int64)
    for e in range(len(fact)):
        ptr[fact[e] + 1] += 1
    for f in range(num_facts):
        ptr[f + 1] += ptr[f]
    place = ptr[:-1].copy()
    edges = np.empty(len(fact), dtype=np.int32)
    for e in range(len(fact)):
        edges[place[fact[e]]] = e
        place[fact[e]] += 1
    return ptr, edges


@kernel
def _slots_of_facts(slots, edges, edge_ptr, fact, fact_ptr, fact_edges):  # type: ignore[no-untyped-def]
    ptr = np.zeros(len(slots) + 1, dtype=np.int64)
    most = 0
    for i in range(len(slots)):
        f = fact[edges[slots[i]]]
        most += fact_ptr[f + 1] - fact_ptr[f]
    values = np.empty(most, dtype=np.int64)
    count = 0
    for i in range(len(slots)):
        slot = slots[i]
        link = np.searchsorted(edge_ptr, slot, side="right") - 1
        first, last = edge_ptr[link], edge_ptr[link + 1]
        f = fact[edges[slot]]
        for j in range(fact_ptr[f], fact_ptr[f + 1]):
            place = first + np.searchsorted(edges[first:last], fact_edges[j])
            if place < last and edges[place] == fact_edges[j]:
                values[count] = place
                count += 1
        ptr[i + 1] = count
    return ptr, values[:count]
