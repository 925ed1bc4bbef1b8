"""Swaps of facts: a fact (a, b) and another one (x, y) of its relation become (a, y) and (x, b).

Every node keeps its number of facts of each relation; what they lead to changes. Reverses, copies
and edge attributes move along. No fact comes that is there already, nor the link itself, nor a new
short path from source to target. So a score that falls by swapping rests on what the facts lead to.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from pagelink.graph.computation_graph import ComputationGraphs
from pagelink.graph.edited_graphs import Edits
from pagelink.graph.extension import extended, positions, slots_of, with_edges
from pagelink.graph.typed_graph import TypedGraph
from pagelink.measure.swap_kernels import draw_swaps
from pagelink.measure.trials import ReferenceGraphs
from pagelink.runtime.arrays import Doubles, Ints, Longs
from pagelink.runtime.csr import Csr
from pagelink.runtime.timer import UNLIMITED, OutOfTimeError, Timer
from pagelink.search.work import Setup


class SwapArrays(NamedTuple):
    """What the drawing reads of a graph."""

    node_offset: Longs
    node_type_of: Ints
    src: Ints
    dst: Ints
    relation: Ints
    relation_class: Ints
    opposite: Ints
    arc_ptr: Longs
    arc_dst: Ints
    arc_edge: Ints
    degree: Ints
    fact: Ints
    fact_ptr: Longs
    """Per fact, where its edges begin among those of all facts."""


NO_EDGES: Longs = np.empty(0, dtype=np.int64)


@dataclass(frozen=True)
class Jobs:
    """Facts that are to be swapped together, in a number of draws."""

    link: Longs
    """Per job, its link, in ascending order."""
    facts: Csr
    """Per job, its facts, each by an edge of the batch that stands for it."""
    count: Longs
    """Draws that are wanted."""
    key: Longs
    """What tells the jobs of a link apart: the draws of a job depend on it."""
    without: Csr
    """Per job, edges of the batch that are taken out beforehand."""


class JobList:
    """Collects what is to be swapped, link by link in ascending order.

    Args:
        graphs: G and G0 of the batch.
        seed: with the ends of the link, where placebos are drawn from.
    """

    def __init__(self, graphs: ReferenceGraphs, seed: int) -> None:
        self._graphs, self._seed = graphs, seed
        self._rows: list[tuple[int, int, int]] = []
        self._facts: list[Longs] = []
        self._without: list[Longs] = []

    def add(self, link: int, facts: Longs, count: int, key: int, without: Longs = NO_EDGES) -> None:
        """Swap facts, each given by an edge of the batch, in a number of draws."""
        graph, batch = self._graphs.graph, self._graphs.batch
        _, first = np.unique(graph.fact[batch.edges[facts]], return_index=True)
        self._rows.append((link, count, key))
        self._facts.append(facts[np.sort(first)])
        self._without.append(without)

    def add_placebos(
        self, link: int, facts: Longs, count: int, key: int, without: Longs = NO_EDGES
    ) -> None:
        """Swap as many facts at source and target that lie on no path, others in each draw.

        They have the keys from `key` on. Where there are no such facts, there is no draw.
        """
        ends = self.ends(link)
        at = self._touched(np.unique(facts))
        free = [self._free_facts(link, end) for end in ends]
        wanted = [int((at == end).any(0).sum()) for end in ends]
        rng = np.random.default_rng((self._seed, *ends))
        for number in range(count):
            drawn = [
                rng.choice(some, min(len(some), most), replace=False)
                for some, most in zip(free, wanted, strict=True)
            ]
            placebo = np.unique(np.concatenate(drawn))
            if len(placebo):
                self.add(link, placebo, 1, key + number, without)

    def add_inner(
        self, link: int, path: Longs, count: int, key: int, without: Longs = NO_EDGES
    ) -> None:
        """Swap the facts of a path that touch neither end; there are some from three facts on."""
        inner = path[~np.isin(self._touched(path), self.ends(link)).any(0)]
        if len(inner):
            self.add(link, inner, count, key, without)

    @property
    def count(self) -> int:
        """Number of jobs so far."""
        return len(self._rows)

    def listed(self) -> Jobs:
        """All of them."""
        link, count, key = np.array(self._rows, dtype=np.int64).reshape(-1, 3).T.copy()
        return Jobs(link, Csr.of(self._facts), count, key, Csr.of(self._without))

    def ends(self, link: int) -> tuple[int, int]:
        """Source and target of a link, as flat nodes."""
        batch = self._graphs.batch
        return int(batch.link_src[link]), int(batch.link_dst[link])

    def _touched(self, slots: Longs) -> Longs:
        """[2, num_facts]: the flat nodes of facts."""
        graph, edges = self._graphs.graph, self._graphs.batch.edges[slots]
        return np.stack([graph.src[edges], graph.dst[edges]]).astype(np.int64)

    def _free_facts(self, link: int, end: int) -> Longs:
        """Facts at an end of a link that the model sees and that are on no path."""
        graphs, batch = self._graphs, self._graphs.batch
        first, last = batch.edge_ptr[link : link + 2]
        here = batch.nodes[batch.node_ptr[link] : batch.node_ptr[link + 1]]
        node = np.searchsorted(here, end)
        at = (batch.src[first:last] == node) | (batch.dst[first:last] == node)
        at &= ~graphs.on_path[first:last] & batch.fact_visible[first:last]
        slots: Longs = first + np.flatnonzero(at)
        return slots[graphs.graph.representative[batch.edges[slots]]]


@dataclass(frozen=True)
class Swaps:
    """Draws of swaps."""

    job: Longs
    """Per draw, its job."""
    facts: Csr
    """Per draw, the facts that are swapped, each by an edge of the batch."""
    partners: Longs
    """[num_facts, 3]: a flat edge of the partner of each of these facts, and its ends: source and
    target as the relation of the fact is stored."""


def draw(graphs: ReferenceGraphs, jobs: Jobs, max_length: int, seed: int) -> Swaps:
    """Draw swaps; a job has fewer draws than are wanted, or none, where there are no more.

    Args:
        graphs: G and G0 of a batch.
        jobs: what to swap.
        max_length: no path of at most this many facts from source to target may come.
        seed: with the ends of the link and the key of the job, where draws come from.
    """
    graph, batch = graphs.graph, graphs.batch
    arrays = SwapArrays(
        graph.node_offset, graph.node_type_of, graph.src, graph.dst, graph.relation,
        graph.relation_class, graph.opposite, graph.arc_ptr, graph.arc_dst, graph.arc_edge,
        graph.degree, graph.fact, graph.edges_of_facts.ptr,
    )  # fmt: skip
    # A path longer than the model sees from both ends has facts that it does not see.
    longest = max_length if batch.num_hops is None else min(max_length, 2 * batch.num_hops)
    jobs_drawn, partners, num_draws, num_partners = draw_swaps(
        jobs.link, jobs.facts.ptr, jobs.facts.values, jobs.count, jobs.key, batch.arrays, arrays,
        longest, np.uint64(seed),
    )  # fmt: skip
    drawn = jobs_drawn[:num_draws]
    return Swaps(drawn, jobs.facts.take(drawn), partners[:num_partners])


def swapped_logits(
    setup: Setup,
    batch: ComputationGraphs,
    relation: Longs,
    jobs: Jobs,
    swaps: Swaps,
    timer: Timer = UNLIMITED,
) -> Doubles:
    """Return the logit of each draw's link on G, less what its job takes out, with facts swapped.

    Args:
        setup: the model, and what makes computation graphs.
        batch: the computation graphs.
        relation: per link, the position of its link type in `graph.edge_types`.
        jobs: what was to be swapped.
        swaps: the draws.
        timer: when to stop.

    Raises:
        OutOfTimeError: the time was over before the model had scored all of them.
    """
    graph, num_draws = setup.graph, len(swaps.job)
    if not num_draws:
        return np.empty(0)
    # 1. The edges of all facts and partners, with the flat nodes that they lead to afterwards.
    owner = np.repeat(np.arange(num_draws), np.diff(swaps.facts.ptr))
    edge, src, dst, fact = _moved(graph, batch.edges[swaps.facts.values], swaps.partners)
    owner = owner[fact]
    link = jobs.link[swaps.job][owner]

    # 2. Computation graphs that have these edges, and what the model sees behind nodes that come
    #    nearer.
    extractor = setup.batches.extractor
    wider = with_edges(extractor, batch, link, edge)
    limit = batch.num_hops or 0
    for _ in range(limit):
        # Nodes that no message comes from are FAR away, the largest number there is.
        at = np.minimum(wider.hops[positions(wider, link, dst)], limit) + 1
        now = wider.hops[positions(wider, link, src)]
        nearer = at < np.minimum(now, limit)
        if not nearer.any():
            break
        seeds = np.stack([link, src, at])[:, nearer]
        wider = extended(extractor, wider, *seeds)
    slot = slots_of(wider, link, edge)
    shown = setup.predictor.needed(wider)

    # 3. Each draw: edges are taken out where they were, if they are there, and put in where they
    #    lead. Draws of a link in the same graph are measured together.
    draws, size = np.arange(num_draws + 1), len(shown)
    taken = np.divmod(np.unique(owner * size + slot), size)
    moved = Csr(np.searchsorted(owner, draws), np.arange(len(edge)))
    table = np.stack([slot, positions(wider, link, src), positions(wider, link, dst)])
    model, answers = setup.edited(wider, relation, timer), np.empty(num_draws)
    number = _numbered(jobs)
    for same in np.unique(number[swaps.job]).tolist():
        some = np.flatnonzero(number == same)
        some = some[np.unique(jobs.link[some], return_index=True)[1]]
        gone = jobs.without.take(some)
        of_gone = np.repeat(jobs.link[some], np.diff(gone.ptr))
        there = shown.copy()
        there[slots_of(wider, of_gone, batch.edges[gone.values])] = False
        owners, slots = (each[there[taken[1]]] for each in taken)
        removed = Csr(np.searchsorted(owners, draws), slots)
        mine = np.flatnonzero(number[swaps.job] == same)
        edits = Edits(jobs.link[swaps.job], removed, moved, table).chosen(mine)
        answers[mine] = model.logits(there, edits)
    if not model.complete:
        raise OutOfTimeError
    return answers


def _numbered(jobs: Jobs) -> Longs:
    """Per job, a number: jobs of a link have the same one if the same edges are taken out."""
    known: dict[int, dict[bytes, int]] = {}
    found = []
    for link, (first, last) in zip(jobs.link.tolist(), pairwise(jobs.without.ptr), strict=True):
        of_link = known.setdefault(link, {})
        found.append(of_link.setdefault(jobs.without.values[first:last].tobytes(), len(of_link)))
    return np.array(found, dtype=np.int64)


def _moved(graph: TypedGraph, facts: Ints, partners: Longs) -> tuple[Longs, Longs, Longs, Longs]:
    """All edges of facts and of their partners, with the ends that they get, and whose they are."""
    a, b = graph.src[facts].astype(np.int64), graph.dst[facts].astype(np.int64)
    edges, x, y = partners.T
    found = []
    for stated, tail, head in ((facts, a, y), (edges, x, b)):
        graph.check_facts(graph.fact[stated])
        every = graph.edges_of_facts.take(graph.fact[stated].astype(np.int64))
        owner = np.repeat(np.arange(len(stated)), np.diff(every.ptr))
        forth = graph.src[every.values] == tail[owner]  # the source stays
        src = np.where(forth, tail[owner], head[owner])
        dst = np.where(forth, head[owner], tail[owner])
        found.append((every.values, src, dst, owner))
    edge, src, dst, owner = (np.concatenate(each) for each in zip(*found, strict=True))
    order = np.argsort(owner, kind="stable")
    return edge[order], src[order], dst[order], owner[order]
