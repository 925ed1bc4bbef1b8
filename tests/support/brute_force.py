"""The definitions by brute force: what a model sees of a link, what pruning leaves, walks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from pagelink.graph.computation_graph import ComputationGraphs, Extractor
from pagelink.graph.ego_kernels import FAR
from pagelink.graph.schema import EdgeType
from pagelink.graph.typed_graph import TypedGraph
from pagelink.search.paths import PathGraphs
from support.multigraphs import (
    Edge,
    Fact,
    Multigraph,
    Node,
    degree,
    edge_of,
    flat,
)


@dataclass(frozen=True)
class DrawnLink:
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
    seen: set[EdgeType] | None = None,
    visible_hops: int | None = None,
    along: set[EdgeType] | None = None,
) -> BruteForce:
    """Messages come along relations that the model uses, from no further than it sees."""
    out = drawn.link_fact(link.src, link.dst, link.type)
    handed = [edge for edge in drawn.edges() if drawn.fact(edge) != out]
    used = [edge for edge in handed if seen is None or edge.type in seen]
    carrying = used if along is None else [edge for edge in handed if edge.type in along]
    everywhere = len(drawn.nodes())
    nodes = set(drawn.nodes()) if num_hops is None else set(distances(handed, link, num_hops))
    hops = distances(carrying, link, everywhere if num_hops is None else num_hops)
    inside = {edge for edge in handed if edge.src in nodes and edge.dst in nodes}
    limit = num_hops if visible_hops is None else visible_hops
    visible = {
        edge for edge in used
        if edge in inside and edge.dst in hops and (limit is None or hops[edge.dst] <= limit - 1)
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
    return [link for link in (draw_link(rng, drawn) for _ in range(count)) if link is not None]


def extract(graph: TypedGraph, extractor: Extractor, links: list[DrawnLink]) -> ComputationGraphs:
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
        weak = {node for node in alive - protected if degree(node, facts) < core}
        if not weak:
            return {edge for edge in inside.edges if edge.src in alive and edge.dst in alive}
        alive.remove(min(weak))


Relations = frozenset[EdgeType]
Step = tuple[Node, Node, Relations]
"""From a node to a node along a fact of these relations."""
Walk = tuple[Step, ...]


@dataclass(frozen=True)
class WalkedArc:
    step: Step
    edge: Edge
    reversed: bool


def arcs_of(
    graph: TypedGraph, drawn: Multigraph, batch: ComputationGraphs, paths: PathGraphs, link: int
) -> dict[int, WalkedArc]:
    """The arcs of a link by number, each checked against the stored edge that it walks."""
    nodes = paths.nodes[paths.node_ptr[link] : paths.node_ptr[link + 1]]
    first = paths.node_ptr[link] + link
    arcs: dict[int, WalkedArc] = {}
    for i, tail in enumerate(nodes):
        for arc in range(paths.arc_ptr[first + i], paths.arc_ptr[first + i + 1]):
            slot = paths.arc_slot[arc]
            assert batch.edge_ptr[link] <= slot < batch.edge_ptr[link + 1]
            edge = edge_of(graph, int(batch.edges[slot]))
            step = (
                graph.node(int(tail)),
                graph.node(int(nodes[paths.arc_dst[arc]])),
                drawn.relations(edge.type),
            )
            back = bool(paths.arc_reversed[arc])
            assert step[:2] == ((edge.dst, edge.src) if back else (edge.src, edge.dst))
            arcs[arc] = WalkedArc(step, edge, back)
    numbers = paths.arcs_of(link)
    assert sorted(arcs) == list(range(numbers.start, numbers.stop))
    return arcs
