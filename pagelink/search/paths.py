"""The k best simple paths under a hop bound and a degree bound, on true multigraphs.

First, per link, the few arcs that can lie on a path of at most l_max facts are cut out (two
breadth-first searches): the `PathGraphs`. They depend on the graph only. Then, for any edge mask,
the cheapest paths are found in them exactly: costs to the target by number of remaining hops are
computed and steer a best-first search. Costs are whole numbers (fixed point), so sums do not depend
on the order of adding, and ties are real ties; they are broken by the order of (node, relation).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F  # noqa: N812

from pagelink.graph.computation_graph import ComputationGraphs
from pagelink.graph.typed_graph import TypedGraph
from pagelink.runtime.arrays import Bools, Ints, Longs
from pagelink.runtime.kernels import Deadline, over_ranges
from pagelink.runtime.timer import OutOfTimeError
from pagelink.search.constraints import Automaton, Constraints
from pagelink.search.path_kernels import FoundArrays, SearchArrays, cheapest_paths_kernel
from pagelink.search.walk_kernels import cut_out_walks

FIXED_POINT = 2.0**32
"""Cost units per nat: resolution 2e-10, far below the precision of a mask."""
MAX_COST = 1e6
"""Costs are cut here (exp(-1e6) is zero anyway), so that sums stay within 64 bits."""
ARCS_AT_ONCE = 2**20
"""Arcs whose costs are made at once: what is made on the way takes five times as much room."""
NO_CONSTRAINTS = Constraints()


@dataclass(frozen=True)
class PathGraphs:
    """Per link, the arcs that lie on an s-t walk of at most l_max allowed facts.

    `arc_ptr[node_ptr[i]:]` are the arc ranges of the nodes of link i, source first, target second.
    """

    max_length: int
    node_ptr: Longs
    nodes: Ints
    """Flat nodes."""
    arc_ptr: Longs
    """One more than nodes per link: range of arcs of each node."""
    arc_dst: Ints
    """Position of the head within the link's nodes."""
    arc_slot: Longs
    """Position of the walked edge within the edges of the batch."""
    arc_reversed: Bools
    arc_log_degree: npt.NDArray[np.float64]
    """log D_v of the head v; 0 where the head is the target."""
    arc_symbol: Ints
    """What the automaton reads; all 0 where it reads nothing."""
    automaton: Automaton

    @property
    def num_links(self) -> int:
        """Number of links."""
        return len(self.node_ptr) - 1

    @classmethod
    def empty(cls, num_links: int, max_length: int) -> PathGraphs:
        """Path graphs without any arc."""
        none = np.empty(0, dtype=np.int32)
        return cls(
            max_length=max_length,
            node_ptr=np.zeros(num_links + 1, dtype=np.int64),
            nodes=none,
            arc_ptr=np.zeros(num_links, dtype=np.int64),
            arc_dst=none,
            arc_slot=np.empty(0, dtype=np.int64),
            arc_reversed=np.empty(0, dtype=np.bool_),
            arc_log_degree=np.empty(0),
            arc_symbol=none,
            automaton=NO_CONSTRAINTS.automaton,
        )

    def has_path(self, until: float | None = None) -> Bools:
        """Whether each link has any path.

        Raises:
            OutOfTimeError: that was not found out by `until`, a time of `time.perf_counter`.
        """
        if self.automaton.reads_nothing:  # then a shortest walk is a simple path
            return np.diff(self.node_ptr) > 0
        free = np.zeros(len(self.arc_slot), dtype=np.int64)
        found = cheapest_paths(self, free, 1, until=until)
        if not found.complete.all():
            raise OutOfTimeError
        return found.lengths[:, 0] > 0

    def arcs_of(self, link: int) -> slice:
        """The arcs of a link."""
        first = self.node_ptr[link] + link
        return slice(self.arc_ptr[first], self.arc_ptr[self.node_ptr[link + 1] + link])


@dataclass(frozen=True)
class FoundPaths:
    """The best paths of each link, best first: arcs of `PathGraphs`, -1 behind a path's end."""

    arcs: Longs
    """[num_links, num_paths, max_length]"""
    lengths: Longs
    """[num_links, num_paths], 0 where there are no more paths."""
    complete: Bools
    """[num_links], False where the deadline cut the search: there may be more paths."""
    opened: Longs | None = None
    """[num_links], the number of partial paths that the search put on its heap; None: unknown."""


def allowed_facts(
    graph: TypedGraph,
    batch: ComputationGraphs,
    kept: Bools | None = None,
    constraints: Constraints = NO_CONSTRAINTS,
) -> Bools:
    """Return the edges of the batch that stand for a fact that may lie on a path.

    A fact may if the model can see it, pruning kept it, and no constraint leaves it out.
    """
    allowed = graph.representative[batch.edges] & batch.fact_visible
    if constraints.edges is not None:
        allowed &= constraints.edges[batch.edges]
    return allowed if kept is None else allowed & kept


def build_path_graphs(
    graph: TypedGraph,
    batch: ComputationGraphs,
    allowed: Bools,
    max_length: int,
    max_degree: int | None = None,
    constraints: Constraints = NO_CONSTRAINTS,
    until: float | None = None,
) -> PathGraphs:
    """Cut out of each computation graph what can lie on a path of at most `max_length` facts.

    Args:
        graph: the flat graph.
        batch: the computation graphs.
        allowed: the representative edges of the facts that may lie on a path.
        max_length: l_max.
        max_degree: D_max, for inner nodes. None: no bound.
        constraints: what else must hold of a path.
        until: when to stop at the latest, by `time.perf_counter`. None: never.

    Raises:
        OutOfTimeError: they were not cut out by then.
    """
    deadline = Deadline(until)
    if deadline.passed[0]:
        raise OutOfTimeError
    nodes_allowed = np.empty(0, np.bool_) if constraints.nodes is None else constraints.nodes
    highest = np.iinfo(np.int64).max if max_degree is None else max_degree
    found = over_ranges(
        lambda first, last: cut_out_walks(
            first, last, batch.arrays, graph.arrays, allowed, nodes_allowed, highest, max_length,
            deadline.passed,
        ),
        1 + np.diff(batch.edge_ptr),
        deadline,
    )  # fmt: skip
    if deadline.passed[0]:
        raise OutOfTimeError
    columns = found[0] if len(found) == 1 else map(np.concatenate, zip(*found, strict=True))
    del found
    node_count, nodes, out_degree, arc_dst, head, slot, is_reversed = columns
    node_ptr = np.cumsum(np.concatenate([[0], node_count]), dtype=np.int64)
    # One more than nodes per link: a link's first entry repeats the end of the link before.
    arc_ptr = np.zeros(len(nodes) + batch.num_links, dtype=np.int64)
    arc_ptr[np.arange(len(nodes)) + np.repeat(np.arange(1, batch.num_links + 1), node_count)] = (
        out_degree
    )
    return PathGraphs(
        max_length=max_length,
        node_ptr=node_ptr,
        nodes=nodes,
        arc_ptr=np.cumsum(arc_ptr),
        arc_dst=arc_dst,
        arc_slot=slot,
        arc_reversed=is_reversed,
        arc_log_degree=np.log(np.where(arc_dst == 1, 1, graph.degree[head])),
        arc_symbol=_symbols(graph, batch, constraints, slot, is_reversed, head),
        automaton=constraints.automaton,
    )


def _symbols(
    graph: TypedGraph,
    batch: ComputationGraphs,
    constraints: Constraints,
    slot: Longs,
    is_reversed: Bools,
    head: Ints,
) -> Ints:
    if constraints.automaton.reads_nothing:
        return np.zeros(len(slot), dtype=np.int32)
    required = np.zeros(len(slot), dtype=np.bool_)
    if constraints.required is not None:
        required = constraints.required[head]
    return Automaton.symbols(graph.relation[batch.edges[slot]], is_reversed, required)


def best_paths(
    paths: PathGraphs,
    arc_logits: npt.NDArray[np.float32],
    num_paths: int,
    links: Longs | None = None,
    until: float | None = None,
) -> FoundPaths:
    """Find the `num_paths` paths of highest Score(p) = sum of log sigmoid(M_e) - log D_v per link.

    Args:
        paths: where to search.
        arc_logits: M of the walked edge of every arc. `inf` leaves the mask out of the score.
        num_paths: k.
        links: which links to search, in this order. None: all of them.
        until: when to stop at the latest, by `time.perf_counter`. None: never.
    """
    whole = np.empty(len(arc_logits), dtype=np.int64)
    for first in range(0, len(whole), ARCS_AT_ONCE):
        here = slice(first, first + ARCS_AT_ONCE)
        # log sigmoid by torch: many times faster than numpy's logaddexp, and this runs in every
        # epoch.
        logits = torch.from_numpy(arc_logits[here].astype(np.float64))
        cost = F.softplus(-logits, threshold=40).numpy() + paths.arc_log_degree[here]
        whole[here] = np.rint(np.minimum(cost, MAX_COST) * FIXED_POINT)
    return cheapest_paths(paths, whole, num_paths, links, until)


def cheapest_paths(
    paths: PathGraphs,
    arc_cost: Longs,
    num_paths: int,
    links: Longs | None = None,
    until: float | None = None,
) -> FoundPaths:
    """Find the `num_paths` cheapest simple paths per link for whole, non-negative arc costs."""
    chosen = np.arange(paths.num_links) if links is None else np.ascontiguousarray(links, np.int64)
    automaton = paths.automaton
    next_state = automaton.next_state
    if automaton.reads_nothing:
        next_state = np.zeros((1, 1), dtype=np.int32)
    graph = SearchArrays(
        paths.node_ptr, paths.arc_ptr, paths.arc_dst, arc_cost, paths.arc_symbol, next_state,
        automaton.accepting,
    )  # fmt: skip
    out = FoundArrays(
        arcs=np.full((len(chosen), num_paths, paths.max_length), -1, dtype=np.int64),
        lengths=np.zeros((len(chosen), num_paths), dtype=np.int64),
        complete=np.ones(len(chosen), dtype=np.bool_),
        opened=np.zeros(len(chosen), dtype=np.int64),
    )
    deadline = Deadline(until)
    first_arc = paths.arc_ptr[paths.node_ptr[:-1] + np.arange(paths.num_links)]
    over_ranges(
        lambda first, last: cheapest_paths_kernel(first, last, chosen, graph, deadline.passed, out),
        1 + np.diff(first_arc, append=len(paths.arc_dst))[chosen],
        deadline,
    )
    return FoundPaths(*out)
