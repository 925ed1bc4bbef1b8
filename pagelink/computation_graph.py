"""The computation graphs of a batch of links, and which of their edges the model can see.

G_c is induced by all nodes within L in-edge hops of s or t (the paper's L-hop ego graph), without
the explained link itself. It is found from the CSR arrays in time proportional to the edges at its
nodes; arrays as long as the graph are made once and reused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit

from pagelink.graph import Bools, Ints, Longs, TypedGraph

FAR = np.int32(2**31 - 1)
NO_FACT = -1


@dataclass(frozen=True)
class ComputationGraphs:
    """G_c of each link of a batch, one after the other.

    `nodes[node_ptr[i]:node_ptr[i + 1]]` are the flat nodes of link i in ascending order, `hops`
    their distance from s or t along the edges that messages come by.
    `edges[edge_ptr[i]:edge_ptr[i + 1]]` are its flat edges in ascending order; `src` and `dst` are
    positions within the link's own nodes.
    """

    link_src: Longs
    link_dst: Longs
    link_fact: Longs
    """The fact that states the link itself (taken out of G_c), or -1."""
    num_hops: int | None
    node_ptr: Longs
    nodes: Ints
    hops: Ints
    edge_ptr: Longs
    edges: Ints
    src: Ints
    dst: Ints
    visible: Bools
    """The edge itself can move the score: it enters a node within L - 1 hops."""
    fact_visible: Bools
    """One of the two directions of the edge's fact can move the score."""

    @property
    def num_links(self) -> int:
        """Number of links."""
        return len(self.link_src)

    @classmethod
    def joined(cls, parts: Sequence[ComputationGraphs]) -> ComputationGraphs:
        """Put batches one after the other."""

        def cat(name: str) -> Any:
            return np.concatenate([getattr(part, name) for part in parts])

        def pointers(name: str) -> Longs:
            steps = np.concatenate([[0], *(np.diff(getattr(part, name)) for part in parts)])
            return np.cumsum(steps, dtype=np.int64)

        return cls(
            num_hops=parts[0].num_hops,
            node_ptr=pointers("node_ptr"),
            edge_ptr=pointers("edge_ptr"),
            **{name: cat(name) for name in _ARRAYS},
        )

    def only(self, link: int) -> ComputationGraphs:
        """The computation graph of one link."""
        nodes = slice(self.node_ptr[link], self.node_ptr[link + 1])
        edges = slice(self.edge_ptr[link], self.edge_ptr[link + 1])
        cut = {"nodes": nodes, "hops": nodes, "link_src": slice(link, link + 1)}
        cut |= {"link_dst": cut["link_src"], "link_fact": cut["link_src"]}
        return ComputationGraphs(
            num_hops=self.num_hops,
            node_ptr=self.node_ptr[link : link + 2] - self.node_ptr[link],
            edge_ptr=self.edge_ptr[link : link + 2] - self.edge_ptr[link],
            **{name: getattr(self, name)[cut.get(name, edges)] for name in _ARRAYS},
        )


_ARRAYS = (
    "link_src", "link_dst", "link_fact", "nodes", "hops", "edges", "src", "dst", "visible",
    "fact_visible",
)  # fmt: skip


class Extractor:
    """Extracts computation graphs; holds the arrays that are as long as the graph.

    Args:
        graph: the flat graph.
        num_hops: L. None: G_c is the whole graph, and visible is what messages can come from.
        seen_relations: per relation, whether the model ever passes messages along it. Edges of
            other relations are part of G_c but not visible. None: all are.
        along_relations: per relation, whether messages may come from the source of its edges. None:
            those that the model passes messages along.
        visible_hops: L for visibility, if the graphs are to be wider than that.
        all_visible: the model is not local: every edge that it passes messages along is visible.
    """

    def __init__(
        self,
        graph: TypedGraph,
        num_hops: int | None,
        seen_relations: Bools | None = None,
        *,
        along_relations: Bools | None = None,
        visible_hops: int | None = None,
        all_visible: bool = False,
    ) -> None:
        self._graph = graph
        self.num_hops = num_hops
        self._visible_hops = num_hops if visible_hops is None else visible_hops
        self._all_visible = all_visible
        everything = np.ones(len(graph.edge_types), dtype=np.bool_)
        self._seen = (everything if seen_relations is None else seen_relations)[graph.relation]
        along = everything if seen_relations is None else seen_relations
        along = along if along_relations is None else along_relations
        self._along = along[graph.relation]
        self._along_all = bool(self._along.all())
        # Whether a message is ever passed along the edge's fact, this way and the other way.
        way = (graph.src > graph.dst).astype(np.int8)
        seen_fact = np.zeros((2, int(graph.fact.max(initial=-1)) + 1), dtype=np.bool_)
        seen_fact[way[self._seen], graph.fact[self._seen]] = True
        self._seen_along = seen_fact[way, graph.fact]
        self._seen_against = seen_fact[1 - way, graph.fact]
        self._every_edge = np.ones(graph.num_edges, dtype=np.bool_)
        self._hops = np.full(graph.num_nodes, FAR, dtype=np.int32)
        self._position = np.empty(graph.num_nodes, dtype=np.int32)

    def _search(
        self, s: int, t: int, fact: int, num_hops: int | None, along: Bools
    ) -> tuple[Ints, Ints]:
        """Nodes within some hops of s or t along some edges; leaves the distances in `_hops`."""
        graph = self._graph
        limit = graph.num_nodes if num_hops is None else num_hops
        found: tuple[Ints, Ints] = _ego_nodes(
            graph.in_ptr, graph.src, graph.fact, along, s, t, fact, limit, self._hops
        )
        return found

    def _message_hops(self, s: int, t: int, fact: int, nodes: Ints, hops: Ints) -> Ints:
        """Distances that messages come from: along relations that the model uses."""
        if self._along_all:
            return hops
        near, distance = self._search(s, t, fact, self.num_hops, self._along)
        _forget(near, self._hops)
        message_hops = np.full(len(nodes), FAR, dtype=np.int32)
        message_hops[np.searchsorted(nodes, near)] = distance
        return message_hops

    def extract(self, link_src: Longs, link_dst: Longs, link_fact: Longs) -> ComputationGraphs:
        """Return the computation graphs of the links (s, t), given as flat nodes."""
        graph = self._graph
        parts: list[Any] = []
        for s, t, fact in zip(
            link_src.tolist(), link_dst.tolist(), link_fact.tolist(), strict=True
        ):
            nodes, hops = self._search(s, t, fact, self.num_hops, self._every_edge)
            if self.num_hops is None:
                _forget(nodes, self._hops)
                nodes, hops, induced = _everything(graph, fact, nodes, hops)
            else:
                induced = _induced_edges(
                    graph.in_ptr, graph.src, graph.fact, nodes, fact, self._hops, self._position
                )
                _forget(nodes, self._hops)
            parts.append((nodes, self._message_hops(s, t, fact, nodes, hops), *induced))
        nodes, hops, edges, src, dst = (
            np.concatenate([part[i] for part in parts]) for i in range(5)
        )
        node_ptr = np.cumsum([0] + [len(part[0]) for part in parts], dtype=np.int64)
        edge_ptr = np.cumsum([0] + [len(part[2]) for part in parts], dtype=np.int64)
        shift = np.repeat(node_ptr[:-1], np.diff(edge_ptr))
        limit = FAR if self._visible_hops is None else self._visible_hops
        inner = np.full(len(hops), True) if self._all_visible else hops < limit
        into, out_of = inner[shift + dst], inner[shift + src]
        return ComputationGraphs(
            link_src=link_src,
            link_dst=link_dst,
            link_fact=link_fact,
            num_hops=self.num_hops,
            node_ptr=node_ptr,
            nodes=nodes,
            hops=hops,
            edge_ptr=edge_ptr,
            edges=edges,
            src=src,
            dst=dst,
            visible=into & self._seen[edges],
            fact_visible=(into & self._seen_along[edges]) | (out_of & self._seen_against[edges]),
        )


def _everything(
    graph: TypedGraph, link_fact: int, found: Ints, distance: Ints
) -> tuple[Ints, Ints, tuple[Ints, Ints, Ints]]:
    """The whole graph, with the distances of the nodes that were found."""
    edges = np.flatnonzero(graph.fact != link_fact).astype(np.int32)
    nodes = np.arange(graph.num_nodes, dtype=np.int32)
    hops = np.full(graph.num_nodes, FAR, dtype=np.int32)
    hops[found] = distance
    return nodes, hops, (edges, graph.src[edges], graph.dst[edges])


@njit(cache=True, nogil=True)
def _ego_nodes(in_ptr, src, fact, along, s, t, link_fact, num_hops, hops):  # type: ignore[no-untyped-def]
    """Breadth-first search along in-edges from s and t. Leaves the distances in `hops`."""
    found = np.empty(64, dtype=np.int32)
    found[0] = s
    hops[s] = 0
    count = 1
    if t != s:
        found[1] = t
        hops[t] = 0
        count = 2
    start = 0
    for hop in range(1, num_hops + 1):
        stop = count
        for i in range(start, stop):
            v = found[i]
            for e in range(in_ptr[v], in_ptr[v + 1]):
                u = src[e]
                if hops[u] != FAR or fact[e] == link_fact or not along[e]:
                    continue
                hops[u] = hop
                if count == len(found):
                    grown = np.empty(2 * count, dtype=np.int32)
                    grown[:count] = found
                    found = grown
                found[count] = u
                count += 1
        if count == stop:
            break
        start = stop
    nodes = np.sort(found[:count])
    distance = np.empty(count, dtype=np.int32)
    for i in range(count):
        distance[i] = hops[nodes[i]]
    return nodes, distance


@njit(cache=True, nogil=True)
def _induced_edges(in_ptr, src, fact, nodes, link_fact, hops, position):  # type: ignore[no-untyped-def]
    """All edges with both ends among the nodes, the explained link apart, in ascending order."""
    for i in range(len(nodes)):
        position[nodes[i]] = i
    count = 0
    for v in nodes:
        for e in range(in_ptr[v], in_ptr[v + 1]):
            if hops[src[e]] != FAR and fact[e] != link_fact:
                count += 1
    edges = np.empty(count, dtype=np.int32)
    local_src = np.empty(count, dtype=np.int32)
    local_dst = np.empty(count, dtype=np.int32)
    count = 0
    for i in range(len(nodes)):
        v = nodes[i]
        for e in range(in_ptr[v], in_ptr[v + 1]):
            if hops[src[e]] != FAR and fact[e] != link_fact:
                edges[count] = e
                local_src[count] = position[src[e]]
                local_dst[count] = i
                count += 1
    return edges, local_src, local_dst


@njit(cache=True, nogil=True)
def _forget(nodes, hops):  # type: ignore[no-untyped-def]
    for v in nodes:
        hops[v] = FAR
