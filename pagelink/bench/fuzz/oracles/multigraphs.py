"""A brute-force model of typed multigraphs, in plain Python sets, and random ones to test on.

It knows nothing of flat indices; the oracles of the computation graph, of pruning and of path
search are built on it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import torch
from torch_geometric.data import HeteroData

from pagelink.graph.schema import EdgeType
from pagelink.graph.typed_graph import TypedGraph

Node = tuple[str, int]
Fact = tuple[frozenset[EdgeType], frozenset[Node]]
"""A relation with its reverse, and the two ends; a self-loop has one end."""


@dataclass(frozen=True)
class Edge:
    """A stored edge."""

    type: EdgeType
    column: int
    src: Node
    dst: Node


@dataclass(frozen=True)
class Multigraph:
    """A typed multigraph, written down so that a failing example can be read."""

    sizes: dict[str, int]
    pairs: dict[EdgeType, list[tuple[int, int]]]
    reverse: dict[EdgeType, EdgeType] = field(default_factory=dict)
    columns: dict[EdgeType, list[int]] = field(default_factory=dict)
    """Where the edges of a relation stand, if one edge_index has those of all relations."""

    def data(self) -> HeteroData:
        """The same for PyG."""
        data = HeteroData()
        for node_type, size in self.sizes.items():
            data[node_type].num_nodes = size
        for edge_type, pairs in self.pairs.items():
            data[edge_type].edge_index = torch.tensor(pairs, dtype=torch.long).view(-1, 2).t()
        return data

    @cached_property
    def nodes(self) -> list[Node]:
        """All nodes."""
        return [(kind, i) for kind, size in self.sizes.items() for i in range(size)]

    @cached_property
    def edges(self) -> list[Edge]:
        """All stored edges."""
        return [
            Edge(edge_type, column, (edge_type[0], u), (edge_type[2], v))
            for edge_type, pairs in self.pairs.items()
            for column, (u, v) in zip(
                self.columns.get(edge_type, range(len(pairs))), pairs, strict=True
            )
        ]

    def relations(self, edge_type: EdgeType) -> frozenset[EdgeType]:
        """A relation with its reverse."""
        return frozenset({edge_type, self.reverse.get(edge_type, edge_type)})

    def fact(self, edge: Edge) -> Fact:
        """What an edge states."""
        # The two relations of a fact run between two node types in opposite directions, so two
        # ends, in any order, say which way each of them runs. In one node type both are one fact.
        return self.relations(edge.type), frozenset({edge.src, edge.dst})

    @cached_property
    def facts(self) -> set[Fact]:
        """What all edges state."""
        return set(self.edges_of)

    @cached_property
    def edges_of(self) -> dict[Fact, list[Edge]]:
        """The edges that state each fact."""
        found: dict[Fact, list[Edge]] = {}
        for edge in self.edges:
            found.setdefault(self.fact(edge), []).append(edge)
        return found

    @cached_property
    def degrees(self) -> dict[Node, int]:
        """Number of facts at each node that has any."""
        return degrees(self.facts)

    def degree(self, node: Node) -> int:
        """Number of facts at a node."""
        return self.degrees[node]

    def link_fact(self, src: Node, dst: Node, link_type: EdgeType) -> Fact:
        """The fact that a link would be."""
        return self.relations(link_type), frozenset({src, dst})


def degrees(facts: set[Fact]) -> Counter[Node]:
    """Parallel relations are different facts, duplicates the same one; self-loops have one end."""
    return Counter(node for _, ends in facts if len(ends) == 2 for node in ends)


def both_ways(pairs: dict[EdgeType, EdgeType]) -> dict[EdgeType, EdgeType]:
    """Pairs of reverses, from each to the other."""
    return pairs | {second: first for first, second in pairs.items()}


POSSIBLE_RELATIONS: tuple[EdgeType, ...] = (
    ("a", "r", "b"),
    ("b", "rev_r", "a"),
    ("a", "q", "b"),
    ("b", "p", "a"),
    ("b", "s", "b"),
    ("b", "rev_s", "b"),
    ("b", "z", "b"),
    ("b", "o", "c"),
)
REV_NAMES: dict[EdgeType, EdgeType] = both_ways(
    {("a", "r", "b"): ("b", "rev_r", "a"), ("b", "s", "b"): ("b", "rev_s", "b")}
)


def random_multigraph(rng: np.random.Generator, size: int = 4) -> Multigraph:
    """Few nodes and many relations: parallel, mirrored, partly mirrored, with loops and copies."""
    if rng.random() < 0.2:
        return random_dense_graph(rng, size + 2)
    sizes = {kind: int(rng.integers(1, size + 1)) for kind in ("a", "b", "c")}
    order = rng.permutation(len(POSSIBLE_RELATIONS))[: rng.integers(1, 8)]
    pairs: dict[EdgeType, list[tuple[int, int]]] = {}
    for position in order:
        src, _, dst = edge_type = POSSIBLE_RELATIONS[position]
        count = int(rng.integers(0, 2 * size + 1))
        ends = rng.integers(0, (sizes[src], sizes[dst]), (count, 2))
        pairs[edge_type] = [(int(u), int(v)) for u, v in ends]
        if count and rng.random() < 0.3:
            pairs[edge_type].append(pairs[edge_type][0])
        other = REV_NAMES.get(edge_type)
        if other in pairs and rng.random() < 0.7:
            pairs[edge_type] = [(v, u) for u, v in pairs[other]]
        if src == dst and rng.random() < 0.3:
            pairs[edge_type] += [(v, u) for u, v in pairs[edge_type]]
    present = {t: other for t, other in REV_NAMES.items() if t in pairs and other in pairs}
    return Multigraph(sizes, pairs, present)


def random_dense_graph(rng: np.random.Generator, size: int) -> Multigraph:
    """One node type in which most nodes are neighbours, so that there are paths of any length."""
    every = [(u, v) for u in range(size) for v in range(u)]
    pairs: dict[EdgeType, list[tuple[int, int]]] = {}
    for name, share in (("s", 0.6), ("z", 0.1)):
        chosen = [pair for pair in every if rng.random() < share]
        back = [(v, u) for u, v in chosen]
        pairs["b", name, "b"] = chosen + (back if rng.random() < 0.5 else [])
        if name == "s" and rng.random() < 0.5:
            pairs["b", "rev_s", "b"] = back
    present = {t: other for t, other in REV_NAMES.items() if t in pairs and other in pairs}
    return Multigraph({"a": 0, "b": size, "c": 0}, pairs, present)


def flat(graph: TypedGraph, node: Node) -> int:
    """The number of a node in the flat graph."""
    return graph.flat_index(*node)


def edge_of(graph: TypedGraph, flat_edge: int) -> Edge:
    """The stored edge behind a flat edge, by its relation and column alone."""
    edge_type = graph.edge_types[graph.relation[flat_edge]]
    return Edge(
        edge_type, int(graph.column[flat_edge]),
        graph.node(int(graph.src[flat_edge])), graph.node(int(graph.dst[flat_edge])),
    )  # fmt: skip
