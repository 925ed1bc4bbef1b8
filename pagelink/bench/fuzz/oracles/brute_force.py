"""The definitions by brute force: what a model sees of a link, what pruning leaves."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from pagelink.bench.fuzz.oracles.multigraphs import (
    Edge,
    Fact,
    Multigraph,
    Node,
    both_ways,
    degrees,
    flat,
)
from pagelink.graph.computation_graph import ComputationGraphs, Extractor
from pagelink.graph.ego_kernels import FAR
from pagelink.graph.schema import EdgeType
from pagelink.graph.typed_graph import TypedGraph


@dataclass(frozen=True)
class DrawnLink:
    """A link to explain."""

    src: Node
    dst: Node
    type: EdgeType


@dataclass(frozen=True)
class BruteForce:
    """The computation graph of one link."""

    hops: dict[Node, int]
    """The nodes of G_c, with the distance that messages come from."""
    edges: set[Edge]
    visible: set[Edge]
    visible_facts: set[Fact]


def distances(edges: Iterable[Edge], link: DrawnLink, limit: int) -> dict[Node, int]:
    """In-edge hops from s or t, as far as the limit."""
    hops = {link.src: 0, link.dst: 0}
    for hop in range(1, limit + 1):
        for edge in edges:
            if hops.get(edge.dst) == hop - 1 and edge.src not in hops:
                hops[edge.src] = hop
    return hops


def brute_force(
    drawn: Multigraph,
    link: DrawnLink,
    num_hops: int | None,
    seen: Collection[EdgeType] | None = None,
    along: Collection[EdgeType] | None = None,
) -> BruteForce:
    """Messages come along relations that the model uses, from no further than it sees."""
    out = drawn.link_fact(link.src, link.dst, link.type)
    handed = [edge for edge in drawn.edges if drawn.fact(edge) != out]
    used = [edge for edge in handed if seen is None or edge.type in seen]
    carrying = used if along is None else [edge for edge in handed if edge.type in along]
    everywhere = len(drawn.nodes)
    nodes = set(drawn.nodes) if num_hops is None else set(distances(handed, link, num_hops))
    hops = distances(carrying, link, everywhere if num_hops is None else num_hops)
    inside = {edge for edge in handed if edge.src in nodes and edge.dst in nodes}
    visible = {
        edge for edge in used
        if edge in inside and edge.dst in hops and (num_hops is None or hops[edge.dst] < num_hops)
    }  # fmt: skip
    distance = {node: hops.get(node, int(FAR)) for node in nodes}
    return BruteForce(distance, inside, visible, {drawn.fact(edge) for edge in visible})


def draw_link(rng: np.random.Generator, drawn: Multigraph) -> DrawnLink | None:
    """A link of a relation of the graph, often one that is stored; None if there is none."""
    link_type = list(drawn.pairs)[rng.integers(len(drawn.pairs))]
    pairs = drawn.pairs[link_type]
    if pairs and rng.random() < 0.5:
        u, v = pairs[rng.integers(len(pairs))]
    else:
        u, v = (int(rng.integers(drawn.sizes[kind])) for kind in (link_type[0], link_type[2]))
    src, dst = (link_type[0], u), (link_type[2], v)
    return None if src == dst else DrawnLink(src, dst, link_type)


def draw_links(rng: np.random.Generator, drawn: Multigraph, count: int) -> list[DrawnLink]:
    """Some links; fewer where there are none."""
    return [link for link in (draw_link(rng, drawn) for _ in range(count)) if link is not None]


def extract(graph: TypedGraph, extractor: Extractor, links: list[DrawnLink]) -> ComputationGraphs:
    """The computation graphs of links, by the code under test."""
    src = np.array([flat(graph, link.src) for link in links])
    dst = np.array([flat(graph, link.dst) for link in links])
    facts = [graph.link_fact(s, t, link.type) for s, t, link in zip(src, dst, links, strict=True)]
    return extractor.extract(src, dst, np.array(facts))


def pruned(
    drawn: Multigraph, inside: BruteForce, link: DrawnLink, core: int, hub_degree: int | None
) -> set[Edge]:
    """The edges that are left of a computation graph by the definition."""
    protected = {link.src, link.dst}
    alive = {
        node for node in inside.hops
        if node in protected or hub_degree is None or drawn.degree(node) <= hub_degree
    }  # fmt: skip
    while True:
        facts: set[Fact] = {
            drawn.fact(edge) for edge in inside.edges if edge.src in alive and edge.dst in alive
        }
        inside_degree = degrees(facts)
        weak = {node for node in alive - protected if inside_degree[node] < core}
        if not weak:
            return {edge for edge in inside.edges if edge.src in alive and edge.dst in alive}
        alive.remove(min(weak))


def reverse_of(
    pairs: Mapping[EdgeType, Iterable[tuple[int, int]]], edge_types: Iterable[EdgeType]
) -> dict[EdgeType, EdgeType]:
    """Reverses by `rev_` names, then by edges that mirror each other, both ways.

    Args:
        pairs: the edges of the relations of the graph.
        edge_types: these, and predicted relations that are not in the graph.
    """
    types = list(edge_types)
    found: dict[EdgeType, EdgeType] = {}
    for a, name, b in types:
        if (b, f"rev_{name}", a) in types and (a, name, b) not in {*found.values()}:
            found[a, name, b] = (b, f"rev_{name}", a)
    sets = {t: set(each) for t, each in pairs.items()}
    mirror = {t: {(v, u) for u, v in each} for t, each in sets.items()}
    free = [
        t for t in types
        if sets.get(t) and t not in {*found, *found.values()}
        and not (t[0] == t[2] and sets[t] == mirror[t])
    ]  # fmt: skip
    while free:
        first = free.pop(0)
        twins = [t for t in free if sets[t] == mirror[first] and t[::2] == first[2::-2]]
        if twins:
            found[first] = twins[0]
            free.remove(twins[0])
    return both_ways(found)
