"""Random multigraphs through extraction, pruning and path search, against brute force."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from pagelink.bench.fuzz.faults import Fault
from pagelink.bench.fuzz.oracles.brute_force import (
    BruteForce,
    DrawnLink,
    brute_force,
    draw_links,
    extract,
    pruned,
)
from pagelink.bench.fuzz.oracles.multigraphs import Multigraph, edge_of, random_multigraph
from pagelink.bench.fuzz.oracles.walks import (
    Costs,
    WalkedArc,
    all_paths,
    arcs_of,
    in_order,
    promise,
    steps_on_walks,
    walks_of,
)
from pagelink.graph.computation_graph import ComputationGraphs, Extractor
from pagelink.graph.schema import EdgeType
from pagelink.graph.typed_graph import TypedGraph
from pagelink.runtime.arrays import Bools
from pagelink.search.paths import allowed_facts, build_path_graphs, cheapest_paths
from pagelink.search.pruning import prune


@dataclass(frozen=True)
class Search:
    """A random multigraph, links of it, and bounds on their paths."""

    drawn: Multigraph
    links: list[DrawnLink]
    num_hops: int | None
    """L; None: the model is not local."""
    seen: frozenset[EdgeType] | None
    """The relations that the model uses. None: all."""
    along: frozenset[EdgeType] | None
    """The relations that messages come by. None: those that the model uses."""
    core: int | None
    """None: nothing is pruned."""
    hub_degree: int | None
    max_length: int
    max_degree: int | None
    num_paths: int
    highest_cost: int

    @classmethod
    def draw(cls, rng: np.random.Generator) -> Search:
        """Draw one, half of them plain."""
        drawn = random_multigraph(rng, int(rng.integers(1, 6)))

        def one_of(*values: Any) -> Any:
            return values[rng.integers(len(values))]

        def some() -> frozenset[EdgeType]:
            return frozenset(t for t in drawn.pairs if rng.random() < 0.6)

        num_hops = one_of(1, 2, 2, 3, 4, None)
        return cls(
            drawn, draw_links(rng, drawn, int(rng.integers(1, 4))), num_hops,
            seen=one_of(None, None, None, some()), along=one_of(None, None, None, some()),
            core=one_of(None, 0, 1, 2, 3, 4), hub_degree=one_of(None, None, 0, 2, 4),
            max_length=int(rng.integers(1, 6)), max_degree=one_of(None, None, None, 1, 2, 3, 5),
            num_paths=one_of(1, 3, 50), highest_cost=one_of(0, 1, 3),
        )  # fmt: skip


def random_searches(seed: int, cases: range) -> Iterator[Fault]:
    """Extract, prune and search; yield what differs from brute force."""
    for case in cases:
        rng = np.random.default_rng((seed, case))
        search = Search.draw(rng)
        try:
            check_search(search, rng)
        except Exception as error:  # whatever it is: no multigraph may lead to one
            yield Fault("searches", case, f"{type(error).__name__}: {error}; {search}")


def check_search(search: Search, rng: np.random.Generator) -> None:
    """Compare all three steps with brute force; `rng` draws the costs of the steps.

    Raises:
        BrokenPromiseError: something differs.
    """
    drawn, links = search.drawn, search.links
    if not links:
        return
    graph = TypedGraph.from_data(drawn.data(), reverse=drawn.reverse)
    extractor = Extractor(
        graph, search.num_hops, _mask(graph, search.seen),
        along_relations=_mask(graph, search.along),
    )  # fmt: skip
    batch = extract(graph, extractor, links)
    expected = [
        brute_force(drawn, link, search.num_hops, search.seen, search.along) for link in links
    ]
    for i, inside in enumerate(expected):
        check_extraction(graph, batch.only(i), drawn, inside)
    kept = None
    if search.core is not None:
        kept = prune(graph, batch, search.core, search.hub_degree)
        for i, (link, inside) in enumerate(zip(links, expected, strict=True)):
            mine = slice(batch.edge_ptr[i], batch.edge_ptr[i + 1])
            left = {edge_of(graph, int(e)) for e in batch.edges[mine][kept[mine]]}
            should = pruned(drawn, inside, link, search.core, search.hub_degree)
            promise(left == should, f"pruning kept {left ^ should} otherwise for {link}")
    check_paths(graph, batch, kept, expected, search, Costs(rng, search.highest_cost))


def _mask(graph: TypedGraph, relations: frozenset[EdgeType] | None) -> Bools | None:
    if relations is None:
        return None
    return np.array([t in relations for t in graph.edge_types], dtype=np.bool_)


def check_extraction(
    graph: TypedGraph, batch: ComputationGraphs, drawn: Multigraph, expected: BruteForce
) -> None:
    """The graph of the first link of a batch is what brute force says.

    Raises:
        BrokenPromiseError: it is another one.
    """
    nodes = batch.nodes[: batch.node_ptr[1]]
    promise((np.diff(nodes) > 0).all(), "nodes are not in order")
    hops = {graph.node(int(v)): int(hop) for v, hop in zip(nodes, batch.hops, strict=False)}
    promise(hops == expected.hops, f"distances are {hops}, not {expected.hops}")
    ids = batch.edges[: batch.edge_ptr[1]]
    promise((np.diff(ids) > 0).all(), "edges are not in order")
    edges = [edge_of(graph, int(e)) for e in ids]
    promise(set(edges) == expected.edges, f"other edges: {set(edges) ^ expected.edges}")
    for i, edge in enumerate(edges):
        ends = graph.node(int(nodes[batch.src[i]])), graph.node(int(nodes[batch.dst[i]]))
        promise(ends == (edge.src, edge.dst), f"{edge} has the ends {ends}")
        promise(batch.visible[i] == (edge in expected.visible), f"visible or not: {edge}")
        fact_visible = drawn.fact(edge) in expected.visible_facts
        if edge.src != edge.dst:  # a self-loop lies on no path
            promise(batch.fact_visible[i] == fact_visible, f"fact visible or not: {edge}")


def check_paths(
    graph: TypedGraph,
    batch: ComputationGraphs,
    kept: Bools | None,
    expected: list[BruteForce],
    search: Search,
    costs: Costs,
) -> None:
    """The cheapest paths of all links are those of the enumeration, in its order.

    Raises:
        BrokenPromiseError: they are others.
    """
    drawn, longest, max_degree = search.drawn, search.max_length, search.max_degree
    allowed = allowed_facts(graph, batch, kept)
    paths = build_path_graphs(graph, batch, allowed, longest, max_degree)
    arcs = [arcs_of(graph, drawn, batch, paths, i) for i in range(len(search.links))]
    found = cheapest_paths(
        paths, np.concatenate([costs.of(each) for each in arcs]), search.num_paths
    )
    for i, (link, inside) in enumerate(zip(search.links, expected, strict=True)):
        facts = inside.visible_facts
        if search.core is not None and kept is not None:
            left = pruned(drawn, inside, link, search.core, search.hub_degree)
            facts = facts & {drawn.fact(edge) for edge in left}
        every = all_paths(drawn, link, facts, longest, max_degree)
        promise(paths.has_path()[i] == bool(every), f"{len(every)} paths for {link}")
        # No more is searched than can lead to the target in time.
        steps = [arc.step for arc in arcs[i].values()]
        on_walks = steps_on_walks(drawn, link, facts, longest, max_degree)
        promise(len(steps) == len(set(steps)), f"a step of {link} is there twice")
        promise(set(steps) == on_walks, f"steps of {link}: {set(steps) ^ on_walks}")
        walks = walks_of(found, i, arcs[i])
        should = in_order(drawn, every, costs)[: search.num_paths]
        promise(walks == should, f"the paths of {link} are {walks}, not {should}")
        promise(not any(map(_needlessly, [drawn] * len(arcs[i]), arcs[i].values())),
                f"{link} is walked backwards where the other direction is stored")  # fmt: skip


def _needlessly(drawn: Multigraph, arc: WalkedArc) -> bool:
    """Whether an edge is walked backwards although its fact is stored the other way, too."""
    fact = drawn.edges_of[drawn.fact(arc.edge)]
    return arc.reversed and any((edge.src, edge.dst) == arc.step[:2] for edge in fact)
