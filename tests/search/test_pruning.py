from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.multigraphs import seeds, sizes

from pagelink.bench.fuzz.oracles.brute_force import (
    DrawnLink,
    brute_force,
    draw_links,
    extract,
    pruned,
)
from pagelink.bench.fuzz.oracles.multigraphs import Multigraph, edge_of, random_multigraph
from pagelink.graph.computation_graph import Extractor
from pagelink.graph.schema import EdgeType
from pagelink.graph.typed_graph import TypedGraph
from pagelink.search.pruning import protected_core, prune

many_graphs = settings(deadline=None, derandomize=True, max_examples=50)
GRAPHS_AN_EXAMPLE = 10
cores = st.integers(0, 5)


def peel(
    edges: list[tuple[int, int]], num_nodes: int, protected: set[int], core: int, removed: set[int]
) -> set[int]:
    """Take out any node with too few edges, as long as there is one."""
    alive = {v for v in range(num_nodes) if v in protected or v not in removed}
    while True:
        count = dict.fromkeys(alive, 0)
        for u, v in edges:
            if u in alive and v in alive:
                count[u] += 1
                count[v] += 1
        weak = {v for v in alive if count[v] < core and v not in protected}
        if not weak:
            return alive
        alive.remove(min(weak))


def call(
    edges: list[tuple[int, int]], num_nodes: int, protected: set[int], core: int, removed: set[int]
) -> set[int]:
    ends = np.array(edges, dtype=np.int64).reshape(-1, 2)
    out = np.zeros(num_nodes, dtype=np.bool_)
    out[list(removed)] = True
    safe = np.array(sorted(protected), dtype=np.int64)
    alive = protected_core(ends[:, 0].copy(), ends[:, 1].copy(), num_nodes, safe, core, out)
    return set(np.flatnonzero(alive).tolist())


def random_edges(rng: np.random.Generator, num_nodes: int, count: int) -> list[tuple[int, int]]:
    ends = rng.integers(0, num_nodes, (count, 2)).tolist()
    return [(u, v) for u, v in ends if u != v]


@many_graphs
@given(seeds, st.integers(1, 12), cores)
def test_the_core_is_what_is_left_after_peeling(seed: int, num_nodes: int, core: int) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(GRAPHS_AN_EXAMPLE):
        edges = random_edges(rng, num_nodes, int(rng.integers(0, 3 * num_nodes)))
        protected = set(rng.integers(0, num_nodes, rng.integers(0, 3)).tolist())
        removed = set(np.flatnonzero(rng.random(num_nodes) < 0.2).tolist())
        found = call(edges, num_nodes, protected, core, removed)
        assert found == peel(edges, num_nodes, protected, core, removed), (edges, protected)
        assert protected <= found


@many_graphs
@given(seeds, st.integers(1, 25), cores)
def test_without_protection_it_is_the_core_of_networkx(
    seed: int, num_nodes: int, core: int
) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(3):
        simple = nx.gnm_random_graph(
            num_nodes, int(rng.integers(0, 4 * num_nodes)), seed=int(rng.integers(2**31))
        )
        found = call(list(simple.edges), num_nodes, set(), core, set())
        assert found == set(nx.k_core(simple, core).nodes)


class TestCoreByHand:
    TRIANGLE = ((0, 1), (1, 2), (2, 0))

    def test_a_tail_goes_and_the_triangle_stays(self) -> None:
        assert call([*self.TRIANGLE, (2, 3), (3, 4)], 5, set(), 2, set()) == {0, 1, 2}

    def test_a_protected_end_holds_its_tail_up_to_the_other(self) -> None:
        path = [(0, 1), (1, 2), (2, 3), (2, 4)]
        # Between 0 and 3 every inner node has two edges; node 4 has one.
        assert call(path, 5, {0, 3}, 2, set()) == {0, 1, 2, 3}
        assert call(path, 5, {0}, 2, set()) == {0}

    def test_parallel_edges_count(self) -> None:
        assert call([(0, 1), (0, 1)], 2, set(), 2, set()) == {0, 1}
        assert call([(0, 1), (0, 1)], 2, set(), 3, set()) == set()

    def test_a_removed_node_takes_others_with_it(self) -> None:
        assert call([*self.TRIANGLE, (2, 3), (3, 0)], 4, set(), 2, {2}) == set()
        assert call([*self.TRIANGLE, (2, 3), (3, 0)], 4, set(), 2, {1}) == {0, 2, 3}

    def test_a_protected_node_is_not_removed(self) -> None:
        assert call(list(self.TRIANGLE), 3, {0}, 2, {0}) == {0, 1, 2}

    @pytest.mark.parametrize("core", [0, 1])
    def test_small_cores(self, core: int) -> None:
        kept = {0, 1, 2} if core == 0 else {0, 1}
        assert call([(0, 1)], 3, set(), core, set()) == kept

    def test_no_edges_and_no_nodes(self) -> None:
        assert call([], 3, {1}, 1, set()) == {1}
        assert call([], 0, set(), 2, set()) == set()


@many_graphs
@given(seeds, sizes, cores, st.sampled_from([None, 1, 2, 3, 4, 6, 9]), st.integers(1, 3))
def test_prune_by_the_definition(
    seed: int, size: int, core: int, hub_degree: int | None, num_hops: int
) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(GRAPHS_AN_EXAMPLE):
        drawn = random_multigraph(rng, size)
        links = draw_links(rng, drawn, 3)
        if not links:
            continue
        graph = TypedGraph.from_data(drawn.data(), reverse=drawn.reverse)
        batch = extract(graph, Extractor(graph, num_hops), links)
        kept = prune(graph, batch, core, hub_degree)
        assert kept.shape == batch.edges.shape
        for i, link in enumerate(links):
            here = slice(batch.edge_ptr[i], batch.edge_ptr[i + 1])
            found = {edge_of(graph, int(e)) for e in batch.edges[here][kept[here]]}
            inside = brute_force(drawn, link, num_hops)
            assert found == pruned(drawn, inside, link, core, hub_degree), (drawn, link)


BUYS: EdgeType = ("user", "buys", "item")
VIEWS: EdgeType = ("user", "views", "item")
KNOWS: EdgeType = ("user", "knows", "user")
LIKES: EdgeType = ("user", "likes", "item")


def kept_columns(
    drawn: Multigraph, link: DrawnLink, core: int, hub_degree: int | None = None
) -> set[tuple[str, int]]:
    graph = TypedGraph.from_data(drawn.data(), [link.type])
    batch = extract(graph, Extractor(graph, 3), [link])
    edges = [edge_of(graph, int(e)) for e in batch.edges[prune(graph, batch, core, hub_degree)]]
    return {(edge.type[1], edge.column) for edge in edges}


class TestPruneByHand:
    LINK = DrawnLink(("user", 0), ("item", 0), LIKES)

    def test_parallel_relations_hold_a_node_and_duplicates_do_not(self) -> None:
        parallel = Multigraph({"user": 2, "item": 1}, {BUYS: [(1, 0)], VIEWS: [(1, 0)]})
        assert kept_columns(parallel, self.LINK, 2) == {("buys", 0), ("views", 0)}
        double = Multigraph({"user": 2, "item": 1}, {BUYS: [(1, 0), (1, 0)]})
        assert kept_columns(double, self.LINK, 2) == set()

    def test_a_self_loop_does_not_hold_a_node(self) -> None:
        drawn = Multigraph({"user": 2, "item": 1}, {BUYS: [(1, 0)], KNOWS: [(1, 1)]})
        assert kept_columns(drawn, self.LINK, 2) == set()
        assert kept_columns(drawn, self.LINK, 1) == {("buys", 0), ("knows", 0)}

    def test_an_edge_and_its_reverse_are_one_fact(self) -> None:
        drawn = Multigraph(
            {"user": 2, "item": 1}, {BUYS: [(1, 0)], ("item", "rev_buys", "user"): [(0, 1)]}
        )
        assert kept_columns(drawn, self.LINK, 2) == set()

    def test_the_explained_link_holds_nothing(self) -> None:
        # user 1 hangs on t by one fact; the link itself counts for nobody.
        drawn = Multigraph({"user": 2, "item": 1}, {LIKES: [(0, 0)], BUYS: [(1, 0)]})
        assert kept_columns(drawn, self.LINK, 1) == {("buys", 0)}
        assert kept_columns(drawn, self.LINK, 2) == set()

    def test_hubs_go_and_the_ends_never(self) -> None:
        # user 1 has three facts, user 2 two, the ends more than both.
        drawn = Multigraph(
            {"user": 5, "item": 2},
            {
                KNOWS: [(1, 0), (2, 0), (3, 1), (3, 0), (4, 0)],
                BUYS: [(1, 0), (2, 0), (3, 0), (4, 0)],
            },
        )
        everything = kept_columns(drawn, self.LINK, 0)
        assert len(everything) == 9
        assert kept_columns(drawn, self.LINK, 0, 3) == everything
        assert kept_columns(drawn, self.LINK, 0, 2) == {
            ("knows", 1), ("knows", 4), ("buys", 1), ("buys", 3)
        }  # fmt: skip
        assert kept_columns(drawn, self.LINK, 0, 1) == set()

    def test_the_degree_of_a_hub_is_that_in_the_whole_graph(self) -> None:
        # user 1 knows many who are out of reach: nobody hears them.
        drawn = Multigraph(
            {"user": 9, "item": 1},
            {KNOWS: [(1, 0), *((1, i) for i in range(2, 9))], BUYS: [(1, 0)]},
        )
        assert kept_columns(drawn, self.LINK, 2, 8) == set()
        assert kept_columns(drawn, self.LINK, 2, 9) == {("knows", 0), ("buys", 0)}
