"""Lookup of edges: from columns, triples and facts to edges of the flat graph, and back.

An edge can be named in four ways, and only this module goes from one to the other:

- by its *column* in the `edge_index` of its relation, as masks and paths of a result name it;
- by its *triple*: source type, relation, target type, source and target, as labels name it;
- by the *fact* that it states together with its copies and its reverse;
- by its *slot*: its position among the edges of a batch of computation graphs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

import numpy as np

from pagelink.errors import GraphError
from pagelink.graph.computation_graph import ComputationGraphs
from pagelink.graph.schema import EdgeType
from pagelink.graph.typed_graph import TypedGraph
from pagelink.runtime.arrays import Bools, Ints, Longs
from pagelink.runtime.csr import Csr
from pagelink.runtime.kernels import kernel
from pagelink.runtime.rooms import START, first_place

Triple = tuple[str, str, str, int, int]
"""Source type, relation, target type, and the indices of source and target within their types."""
Node = tuple[str, int]
"""Type, and index within the type."""


# By column.


def edges_by_column(graph: TypedGraph, edge_type: EdgeType) -> Longs:
    """Return, per column of the edge_index that holds a relation, the edge, or -1.

    Only columns of a homogeneous graph are -1: those that hold edges of another relation.
    """
    position = graph.edge_types.index(edge_type)
    size = graph.mask_sizes[position] if position < graph.num_relations else 0
    found = np.full(size, -1, dtype=np.int64)
    mine = np.flatnonzero(graph.relation == position)
    found[graph.column[mine]] = mine
    return found


def fact_of(graph: TypedGraph, edge_type: EdgeType, index: int, dst: Node) -> int:
    """Return the fact that an edge states, given by its column and its target.

    Only edges into its target are looked at.
    """
    into = _in_edges(graph, graph.flat_index(*dst))
    relation = graph.edge_types.index(edge_type)
    (stored,) = into[(graph.relation[into] == relation) & (graph.column[into] == index)]
    return int(graph.fact[stored])


def edges_of_relations(graph: TypedGraph, relations: Collection[EdgeType]) -> Bools:
    """Return, per edge, whether it is of one of some relations."""
    found: Bools = np.isin(graph.relation, [graph.edge_types.index(t) for t in relations])
    return found


# By triple.


def triple_of(graph: TypedGraph, edge: int) -> Triple:
    """Return an edge as a triple."""
    (_, src), (_, dst) = graph.node(int(graph.src[edge])), graph.node(int(graph.dst[edge]))
    return (*graph.edge_types[graph.relation[edge]], src, dst)


def edges_of_triples(graph: TypedGraph, triples: Iterable[Triple]) -> Longs:
    """Return the edge of each triple; of several copies the last.

    Raises:
        GraphError: the graph has no such edge.
    """
    found = []
    for src_type, name, dst_type, src, dst in triples:
        into = _in_edges(graph, graph.flat_index(dst_type, dst))
        relation = graph.edge_types.index((src_type, name, dst_type))
        same = graph.relation[into] == relation
        copies = into[same & (graph.src[into] == graph.flat_index(src_type, src))]
        if not len(copies):
            raise GraphError(
                f"The graph has no edge {(src_type, name, dst_type)} from {src} to {dst}."
            )
        found.append(copies[-1])
    return np.array(found, dtype=np.int64)


def facts_of_triples(graph: TypedGraph, triples: Iterable[Triple]) -> tuple[int, ...]:
    """Return the fact of each triple.

    Raises:
        GraphError: the graph has no such edge.
    """
    return tuple(graph.fact[edges_of_triples(graph, triples)].tolist())


def edges_between(graph: TypedGraph, src: int, dst: int) -> Longs:
    """Return all edges between two flat nodes: every relation, every copy and both directions."""
    found = []
    for head, tail in ((dst, src), (src, dst)):
        into = _in_edges(graph, head)
        found.append(into[graph.src[into] == tail])
    return np.unique(np.concatenate(found))


def edge_walked(graph: TypedGraph, src: int, dst: int, edge_type: EdgeType) -> int:
    """Return the edge by which a path goes from src to dst along a relation (or reverse), or -1."""
    relation_class = graph.relation_class[graph.edge_types.index(edge_type)]
    arcs = graph.arcs_of(src)
    low, high = np.searchsorted(graph.arc_dst[arcs], [dst, dst + 1])
    edges = graph.arc_edge[arcs][low:high]
    same = edges[graph.relation_class[graph.relation[edges]] == relation_class]
    return int(same[0]) if len(same) else -1


# By fact.


def first_edges_of_facts(graph: TypedGraph) -> Longs:
    """Return, per fact, the first of its edges; all of them have the same two ends."""
    edges = graph.edges_of_facts
    return edges.values[edges.ptr[:-1]].astype(np.int64, copy=False)


def representatives_of_facts(graph: TypedGraph) -> Longs:
    """Return, per fact, the edge that stands for it, or -1 for a self-loop."""
    edges = np.flatnonzero(graph.representative)
    found = np.full(graph.num_facts, -1, dtype=np.int64)
    found[graph.fact[edges]] = edges
    return found


def edges_of_facts(graph: TypedGraph, facts: Sequence[int] | Ints | Longs) -> Longs:
    """Return all edges that state some facts: every copy and both directions; -1 is no fact."""
    given = np.unique(np.asarray(facts, dtype=np.int64))
    given = given[given >= 0]
    graph.check_facts(given)
    return np.sort(graph.edges_of_facts.take(given).values)


def states_facts(graph: TypedGraph, facts: Sequence[int] | Ints | Longs) -> Bools:
    """Return, per edge, whether it states one of some facts; -1 is no fact."""
    found = np.zeros(graph.num_edges, dtype=np.bool_)
    found[edges_of_facts(graph, facts)] = True
    return found


# By slot.


def slots_of_facts(
    graph: TypedGraph, batch: ComputationGraphs, link: int, facts: Sequence[int]
) -> Longs:
    """Return all edges of a link's computation graph that state some facts, by slot."""
    first, last = batch.edge_ptr[link : link + 2]
    found: Longs = first + np.flatnonzero(np.isin(graph.fact[batch.edges[first:last]], list(facts)))
    return found


def slots_of_same_facts(graph: TypedGraph, batch: ComputationGraphs, slots: Longs) -> Csr:
    """Return, per edge of a batch, all edges of its link's graph that state the same fact."""
    of_facts = graph.edges_of_facts
    graph.check_facts(graph.fact[batch.edges[slots]])
    return Csr(
        *_slots_of_facts(
            slots, batch.edges, batch.edge_ptr, graph.fact, of_facts.ptr, of_facts.values
        )
    )


def _in_edges(graph: TypedGraph, node: int) -> Longs:
    edges = graph.in_edges(node)
    return np.arange(edges.start, edges.stop)


@kernel
def _slots_of_facts(slots, edges, edge_ptr, fact, fact_ptr, fact_edges):  # type: ignore[no-untyped-def]
    # 1. Room for all edges of the facts, as if every one of them were in the link's graph.
    ptr = np.zeros(len(slots) + 1, dtype=np.int64)
    most = 0
    for i in range(len(slots)):
        f = fact[edges[slots[i]]]
        most += fact_ptr[f + 1] - fact_ptr[f]
    values = np.empty(most, dtype=np.int64)
    count = 0
    for i in range(len(slots)):
        # 2. The link whose graph the slot is in, and the fact that its edge states.
        slot = slots[i]
        link = first_place(edge_ptr, START, len(edge_ptr), slot + 1) - 1
        first, last = edge_ptr[link], edge_ptr[link + 1]
        f = fact[edges[slot]]
        # 3. Each edge of the fact, by bisection of the link's edges, which are in ascending order.
        for j in range(fact_ptr[f], fact_ptr[f + 1]):
            place = first_place(edges, first, last, fact_edges[j])
            if place < last and edges[place] == fact_edges[j]:
                values[count] = place
                count += 1
        ptr[i + 1] = count
    return ptr, values[:count]
