"""Control pairs: two facts at the ends of a link that look like those of a path, but make none.

The effect of a path minus that of its control pairs says whether the path as a whole matters, or
only that it has an edge at each end.
"""

from __future__ import annotations

import numpy as np

from pagelink.graph.computation_graph import ComputationGraphs
from pagelink.graph.edited_graphs import Edits
from pagelink.graph.lookup import FactIndex
from pagelink.graph.typed_graph import TypedGraph
from pagelink.runtime.arrays import Bools, Csr, Longs
from pagelink.runtime.kernels import kernel

DRAWS = 4
"""Pairs to draw for each one that is wanted; those on a common path are not taken."""


def draw_controls(
    graph: TypedGraph,
    facts: FactIndex,
    batch: ComputationGraphs,
    whole: Bools,
    bare: Bools,
    link: Longs,
    paths: Csr,
    count: int,
    seed: int,
) -> tuple[Edits, Longs]:
    """Draw pairs of the relations of each path's first and last fact, on no common path.

    Args:
        graph: the flat graph.
        facts: its facts.
        batch: the computation graphs.
        whole: G, the edges of the batch that the model sees.
        bare: G0, without those on any path.
        link: per path, its link, in ascending order.
        paths: per path, its edges as positions in those of the batch.
        count: pairs for a path.
        seed: with the link, where they are drawn from.

    Returns:
        The removal of each pair, and the path it is for.
    """
    # Which way a fact goes tells nothing where both of its ends are of one type.
    directed = np.array([src != dst for src, _, dst in graph.edge_types])
    kind = graph.relation_class.astype(np.int64)
    turned = kind != np.arange(len(kind))
    ends = np.stack([batch.link_src, batch.link_dst]).astype(np.int64)
    table = _draw(
        link, paths.ptr, paths.values, ends, batch.node_ptr, batch.nodes, batch.edge_ptr,
        batch.edges, batch.src, batch.dst, graph.src, graph.fact, graph.relation, kind, turned,
        directed, whole, whole & ~bare, count, np.uint64(seed),
    )  # fmt: skip
    slots = facts.of_slots(batch, table[:, 1:].reshape(-1))
    together = slots.joined(np.arange(0, 2 * len(table) + 1, 2))
    return Edits(link[table[:, 0]], together.ptr, together.values), table[:, 0]


@kernel
def _mixed(state, value):  # type: ignore[no-untyped-def]
    """A well-spread number from two (the finaliser of splitmix64)."""
    z = (state ^ np.uint64(value)) + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@kernel
def _kind_at(e, end, src, relation, kind, turned, directed):  # type: ignore[no-untyped-def]
    """The relation of an edge, and whether its fact goes out of one of its ends or into it."""
    r = relation[e]
    outwards = directed[r] and ((src[e] == end) != turned[r])
    return 2 * kind[r] + (1 if outwards else 0)


@kernel
def _facts_at(local, start, stop, src, dst, edges, fact, whole):  # type: ignore[no-untyped-def]
    """The facts at a node of a link's graph, each by one edge, in order of the facts."""
    size = 0
    for e in range(start, stop):
        if whole[e] and (src[e] == local or dst[e] == local):
            size += 1
    slots = np.empty(size, dtype=np.int64)
    i = 0
    for e in range(start, stop):
        if whole[e] and (src[e] == local or dst[e] == local):
            slots[i] = e
            i += 1
    slots = slots[np.argsort(fact[edges[slots]], kind="mergesort")]
    count = 0
    for i in range(size):
        if i == 0 or fact[edges[slots[i]]] != fact[edges[slots[i - 1]]]:
            slots[count] = slots[i]
            count += 1
    return slots[:count]


@kernel
def _draw(  # type: ignore[no-untyped-def]
    link_of, path_ptr, path_slots, ends, node_ptr, nodes, edge_ptr, edges, src, dst, graph_src,
    fact, relation, kind, turned, directed, whole, on_path, count, seed,
):  # fmt: skip
    table = np.empty((len(link_of) * count, 3), dtype=np.int64)
    num_pairs = 0
    rank = 0
    at_source = at_target = np.empty(0, dtype=np.int64)
    for i in range(len(link_of)):
        link = link_of[i]
        if i > 0 and link_of[i - 1] == link:
            rank += 1
        else:
            rank = 0
            here = nodes[node_ptr[link] : node_ptr[link + 1]]
            first, last = edge_ptr[link], edge_ptr[link + 1]
            s, t = np.searchsorted(here, ends[0, link]), np.searchsorted(here, ends[1, link])
            at_source = _facts_at(s, first, last, src, dst, edges, fact, whole)
            at_target = _facts_at(t, first, last, src, dst, edges, fact, whole)
        path = path_slots[path_ptr[i] : path_ptr[i + 1]]
        if len(path) < 2:
            continue
        near = _alike(at_source, path, path[0], ends[0, link], edges, graph_src, fact, relation,
                      kind, turned, directed)  # fmt: skip
        far = _alike(at_target, path, path[-1], ends[1, link], edges, graph_src, fact, relation,
                     kind, turned, directed)  # fmt: skip
        if len(near) == 0 or len(far) == 0:
            continue
        state = _mixed(_mixed(_mixed(seed, ends[0, link]), ends[1, link]), rank)
        taken = 0
        for _ in range(DRAWS * count):
            state = _mixed(state, 1)
            one = near[state % np.uint64(len(near))]
            state = _mixed(state, 2)
            other = far[state % np.uint64(len(far))]
            # One of the two is on no path at all, so the two are on no common one.
            apart = not (on_path[one] and on_path[other])
            if taken < count and apart and fact[edges[one]] != fact[edges[other]]:
                table[num_pairs] = i, one, other
                num_pairs += 1
                taken += 1
    return table[:num_pairs]


@kernel
def _alike(  # type: ignore[no-untyped-def]
    slots, path, slot, end, edges, graph_src, fact, relation, kind, turned, directed
):
    """Facts at an end of the same kind as one of a path, not those of the path."""
    wanted = _kind_at(edges[slot], end, graph_src, relation, kind, turned, directed)
    found = np.empty(len(slots), dtype=np.int64)
    count = 0
    for e in slots:
        if _kind_at(edges[e], end, graph_src, relation, kind, turned, directed) != wanted:
            continue
        own = False
        for other in path:
            own |= fact[edges[other]] == fact[edges[e]]
        if not own:
            found[count] = e
            count += 1
    return found[:count]
