"""Control pairs: two facts at the ends of a link that look like those of a path, but make none.

The effect of a path minus that of its control pairs says whether the path as a whole matters, or
only that it has an edge at each end.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pagelink.candidates import FactIndex
from pagelink.computation_graph import ComputationGraphs
from pagelink.copies import Edits
from pagelink.graph import Bools, Longs, TypedGraph

DRAWS = 4
"""Pairs to draw for each one that is wanted; those on a common path are not taken."""


def draw_controls(
    graph: TypedGraph,
    facts: FactIndex,
    batch: ComputationGraphs,
    whole: Bools,
    bare: Bools,
    link: Longs,
    paths: Sequence[Longs],
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
    pairs: list[tuple[int, int, int]] = []
    on_path = whole & ~bare
    ends: dict[int, list[_Around]] = {}
    for i, (number, path) in enumerate(zip(link.tolist(), paths, strict=True)):
        if len(path) < 2 or count == 0:
            continue
        link_ends = [int(batch.link_src[number]), int(batch.link_dst[number])]
        if number not in ends:
            ends[number] = [_Around(graph, batch, number, v, whole, on_path) for v in link_ends]
        rank = i - int(np.searchsorted(link, number))
        rng = np.random.default_rng((seed, *link_ends, rank))
        near, far = (
            around.alike(int(slot), path)
            for around, slot in zip(ends[number], (path[0], path[-1]), strict=True)
        )
        if len(near[0]) == 0 or len(far[0]) == 0:
            continue
        first = rng.integers(len(near[0]), size=DRAWS * count)
        second = rng.integers(len(far[0]), size=DRAWS * count)
        # One of the two is on no path at all, so the two are on no common one.
        apart = np.flatnonzero(~(near[1][first] & far[1][second]))[:count]
        pairs += [(i, int(near[0][first[k]]), int(far[0][second[k]])) for k in apart]
    table = np.array(pairs, dtype=np.int64).reshape(-1, 3)
    slots = facts.of_slots(batch, table[:, 1:].reshape(-1))
    together = slots.joined(np.arange(0, 2 * len(table) + 1, 2))
    return Edits(link[table[:, 0]], together.ptr, together.values), table[:, 0]


class _Around:
    """The facts at one end of a link, by relation and direction."""

    def __init__(
        self,
        graph: TypedGraph,
        batch: ComputationGraphs,
        link: int,
        end: int,
        whole: Bools,
        on_path: Bools,
    ) -> None:
        here = slice(batch.edge_ptr[link], batch.edge_ptr[link + 1])
        local = np.searchsorted(batch.nodes[batch.node_ptr[link] : batch.node_ptr[link + 1]], end)
        at = np.flatnonzero(
            ((batch.src[here] == local) | (batch.dst[here] == local)) & whole[here]
        ) + batch.edge_ptr[link]  # fmt: skip
        _, first = np.unique(graph.fact[batch.edges[at]], return_index=True)
        self._graph, self._edges, self._end = graph, batch.edges, end
        self._slots = at[first]
        self._kind = self._kinds(self._slots)
        self._on_path = on_path[self._slots]

    def _kinds(self, slots: Longs) -> Longs:
        """Relation of a fact, and whether it goes out of the end or into it."""
        graph, edges = self._graph, self._edges[slots]
        kind = graph.relation[edges]
        turned = graph.relation_class[kind] != kind
        same_type = np.array([t[0] == t[2] for t in graph.edge_types])[kind]
        outwards = ((graph.src[edges] == self._end) != turned) & ~same_type
        kinds: Longs = 2 * graph.relation_class[kind].astype(np.int64) + outwards
        return kinds

    def alike(self, slot: int, path: Longs) -> tuple[Longs, Bools]:
        """Facts of the same kind as one of a path, not those of the path; which are on a path."""
        fact = self._graph.fact
        own = np.isin(fact[self._edges[self._slots]], fact[self._edges[path]])
        chosen = (self._kind == self._kinds(np.array([slot]))[0]) & ~own
        return self._slots[chosen], self._on_path[chosen]
