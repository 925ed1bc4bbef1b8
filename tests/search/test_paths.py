from __future__ import annotations

import math
from dataclasses import dataclass

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.multigraphs import seeds, sizes

from pagelink.bench.fuzz.oracles.brute_force import DrawnLink, brute_force, draw_links, extract
from pagelink.bench.fuzz.oracles.multigraphs import Multigraph, random_multigraph
from pagelink.bench.fuzz.oracles.walks import (
    Costs,
    Step,
    Walk,
    WalkedArc,
    all_paths,
    arcs_of,
    walks_of,
)
from pagelink.graph.computation_graph import Extractor
from pagelink.graph.schema import EdgeType
from pagelink.graph.typed_graph import TypedGraph
from pagelink.search.paths import (
    allowed_facts,
    best_paths,
    build_path_graphs,
    cheapest_paths,
)

many_graphs = settings(deadline=None, derandomize=True, max_examples=60)
GRAPHS_AN_EXAMPLE = 10
lengths = st.integers(1, 5)
degrees = st.sampled_from([None, None, 1, 2, 3, 5])


@many_graphs
@given(seeds, sizes, lengths, st.booleans())
def test_the_best_paths_by_enumeration(
    seed: int, size: int, max_length: int, without_mask: bool
) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(GRAPHS_AN_EXAMPLE):
        drawn = random_multigraph(rng, size)
        links = draw_links(rng, drawn, 1)
        if not links:
            continue
        graph = TypedGraph.from_data(drawn.data(), reverse=drawn.reverse)
        batch = extract(graph, Extractor(graph, 3), links)
        paths = build_path_graphs(graph, batch, allowed_facts(graph, batch, None), max_length)
        arcs = arcs_of(graph, drawn, batch, paths, 0)
        logits = (3 * rng.standard_normal(len(arcs))).astype(np.float32)
        if without_mask:
            logits[:] = np.inf
        mask = {arcs[i].step: 1 / (1 + math.exp(-logit)) for i, logit in enumerate(logits)}
        heads = [arcs[i].step[1] for i in range(len(arcs))]
        assert np.exp(paths.arc_log_degree) == pytest.approx(
            [1 if head == links[0].dst else drawn.degree(head) for head in heads]
        )

        def score(walk: Walk, mask: dict[Step, float] = mask, drawn: Multigraph = drawn) -> float:
            inner = [head for _, head, _ in walk[:-1]]  # D of s and of t is 1
            return sum(math.log(mask[step]) for step in walk) - sum(
                math.log(drawn.degree(node)) for node in inner
            )

        every = all_paths(
            drawn, links[0], brute_force(drawn, links[0], 3).visible_facts, max_length
        )
        walks = walks_of(best_paths(paths, logits, 4), 0, arcs)
        assert len(walks) == len(set(walks)) == min(4, len(every))
        assert set(walks) <= set(every)
        expected = sorted(map(score, every), reverse=True)[:4]
        assert [score(walk) for walk in walks] == pytest.approx(expected, abs=1e-6), drawn


@many_graphs
@given(seeds, sizes, lengths)
def test_neighbours_in_the_batch_do_not_matter(seed: int, size: int, max_length: int) -> None:
    rng = np.random.default_rng(seed)
    drawn = random_multigraph(rng, size)
    links = draw_links(rng, drawn, 6)
    if not links:
        return
    graph = TypedGraph.from_data(drawn.data(), reverse=drawn.reverse)
    costs = Costs(rng, 2)

    def search(chosen: list[DrawnLink]) -> list[list[Walk]]:
        batch = extract(graph, Extractor(graph, 2), chosen)
        paths = build_path_graphs(graph, batch, allowed_facts(graph, batch, None), max_length)
        arcs = [arcs_of(graph, drawn, batch, paths, i) for i in range(len(chosen))]
        arc_cost = np.concatenate([costs.of(each) for each in arcs])
        found = cheapest_paths(paths, arc_cost, 5)
        results = [walks_of(found, i, arcs[i]) for i in range(len(chosen))]
        some = rng.permutation(len(chosen))[: rng.integers(len(chosen) + 1)]
        fewer = cheapest_paths(paths, arc_cost, 5, some)
        assert [walks_of(fewer, row, arcs[i]) for row, i in enumerate(some)] == [
            results[i] for i in some
        ]
        return results

    whole = search(links)
    order = rng.permutation(len(links))
    assert search([links[i] for i in order]) == [whole[i] for i in order]
    assert [search([link])[0] for link in links] == whole


@many_graphs
@given(seeds, st.integers(2, 8))
def test_simple_graphs_agree_with_networkx(seed: int, num_nodes: int) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(3):
        pairs = [
            (u, v) for u in range(num_nodes) for v in range(u) if rng.random() < 0.5
        ]  # fmt: skip
        drawn = Multigraph({"user": num_nodes}, {KNOWS: pairs + [(v, u) for u, v in pairs]})
        link = DrawnLink(("user", 0), ("user", 1), ("user", "likes", "user"))
        graph = TypedGraph.from_data(drawn.data(), [link.type])
        batch = extract(graph, Extractor(graph, num_nodes), [link])
        paths = build_path_graphs(graph, batch, allowed_facts(graph, batch, None), num_nodes)
        arcs = arcs_of(graph, drawn, batch, paths, 0)
        costs = Costs(rng, 5)
        found = walks_of(cheapest_paths(paths, costs.of(arcs), 7), 0, arcs)

        directed = nx.DiGraph()
        directed.add_nodes_from(range(num_nodes))
        step = frozenset({KNOWS})
        for u, v in drawn.pairs[KNOWS]:
            directed.add_edge(u, v, weight=costs((("user", u), ("user", v), step)))
        try:
            expected = [
                nx.path_weight(directed, path, "weight")
                for _, path in zip(
                    range(7), nx.shortest_simple_paths(directed, 0, 1, "weight"), strict=False
                )
            ]
        except nx.NetworkXNoPath:
            expected = []
        assert [sum(map(costs, walk)) for walk in found] == expected
        for walk in found:
            assert nx.is_simple_path(directed, [0, *(head[1] for _, head, _ in walk)])
        assert len(set(found)) == len(found)


BUYS: EdgeType = ("user", "buys", "item")
REV_BUYS: EdgeType = ("item", "rev_buys", "user")
VIEWS: EdgeType = ("user", "views", "item")
KNOWS: EdgeType = ("user", "knows", "user")
LIKES: EdgeType = ("user", "likes", "item")
LINK = DrawnLink(("user", 0), ("item", 0), LIKES)


@dataclass(frozen=True)
class Search:
    """Path search on a hand-drawn graph, from user 0 to item 0, every step at the same cost."""

    drawn: Multigraph
    num_hops: int = 3
    max_length: int = 3
    max_degree: int | None = None
    num_paths: int = 20
    cost: int = 1

    def arcs(self) -> list[list[WalkedArc]]:
        graph = TypedGraph.from_data(self.drawn.data(), [LIKES])
        drawn = Multigraph(self.drawn.sizes, self.drawn.pairs, dict(graph.reverse))
        batch = extract(graph, Extractor(graph, self.num_hops), [LINK])
        allowed = allowed_facts(graph, batch, None)
        paths = build_path_graphs(graph, batch, allowed, self.max_length, self.max_degree)
        arcs = arcs_of(graph, drawn, batch, paths, 0)
        arc_cost = np.full(len(arcs), self.cost, dtype=np.int64)
        found = cheapest_paths(paths, arc_cost, self.num_paths)
        return [
            [arcs[int(arc)] for arc in numbers[:length]]
            for numbers, length in zip(found.arcs[0], found.lengths[0], strict=True) if length
        ]  # fmt: skip

    def words(self) -> list[str]:
        """Each path in a word: relations and nodes as walked, < for reversed."""
        return [
            " ".join(
                f"{'<' if arc.reversed else ''}{arc.edge.type[1]}{arc.edge.column} "
                f"{arc.step[1][0][0]}{arc.step[1][1]}"
                for arc in path
            )
            for path in self.arcs()
        ]


class TestByHand:
    def test_parallel_relations_make_different_paths_and_copies_do_not(self) -> None:
        drawn = Multigraph(
            {"user": 2, "item": 1},
            {BUYS: [(1, 0), (1, 0)], VIEWS: [(1, 0)], KNOWS: [(1, 0), (1, 0), (0, 1)]},
        )
        assert Search(drawn).words() == ["knows2 u1 buys0 i0", "knows2 u1 views0 i0"]

    def test_against_the_stored_direction_only_where_no_reverse_is_stored(self) -> None:
        pairs = {KNOWS: [(1, 0)], BUYS: [(1, 0)]}
        drawn = Multigraph({"user": 2, "item": 1}, pairs)
        assert Search(drawn).words() == ["<knows0 u1 buys0 i0"]
        rev_knows: EdgeType = ("user", "rev_knows", "user")
        drawn = Multigraph({"user": 2, "item": 1}, pairs | {rev_knows: [(0, 1)]})
        assert Search(drawn).words() == ["rev_knows0 u1 buys0 i0"]

    def test_a_relation_between_the_ends_is_a_path_of_one(self) -> None:
        drawn = Multigraph({"user": 1, "item": 1}, {BUYS: [(0, 0)], LIKES: [(0, 0)]})
        assert Search(drawn).words() == ["buys0 i0"]

    def test_no_path(self) -> None:
        drawn = Multigraph({"user": 2, "item": 1}, {BUYS: [(1, 0)]})
        assert Search(drawn).words() == []

    def test_self_loops_lie_on_no_path(self) -> None:
        drawn = Multigraph(
            {"user": 2, "item": 1}, {KNOWS: [(0, 0), (1, 1), (1, 0)], BUYS: [(1, 0)]}
        )
        assert Search(drawn).words() == ["<knows2 u1 buys0 i0"]

    @pytest.mark.parametrize(("max_length", "count"), [(1, 0), (2, 1), (3, 3), (4, 5)])
    def test_the_length_is_bounded_before_the_paths_are_drawn(
        self, max_length: int, count: int
    ) -> None:
        # A ladder of users 1..3, who all bought the item: 1, 2 and 2 paths of 2, 3 and 4 facts.
        drawn = Multigraph(
            {"user": 4, "item": 1},
            {KNOWS: [(1, 0), (2, 1), (3, 1), (3, 2)], BUYS: [(1, 0), (2, 0), (3, 0)]},
        )
        words = Search(drawn, max_length=max_length, num_hops=4).words()
        assert len(words) == count
        # Even if longer paths cost nothing, and only one is asked for.
        assert len(Search(drawn, max_length=max_length, num_paths=1, cost=0).words()) == min(
            count, 1
        )

    def test_the_degree_is_bounded_by_at_most_and_for_inner_nodes_only(self) -> None:
        # user 1 has 3 facts, user 2 has 4 (one of them with nobody in reach), the ends have more.
        drawn = Multigraph(
            {"user": 5, "item": 2},
            {
                KNOWS: [(1, 0), (2, 0), (2, 4), (3, 0)],
                BUYS: [(1, 0), (2, 0), (3, 0)],
                VIEWS: [(1, 0), (2, 1), (0, 1), (0, 0)],
            },
        )
        through = [{arc.step[1] for arc in path} for path in Search(drawn).arcs()]
        assert {("user", 2), ("item", 0)} in through
        for bound, inner in ((4, {1, 2, 3}), (3, {1, 3}), (2, {3}), (1, set())):
            words = Search(drawn, max_length=2, max_degree=bound).arcs()
            assert {p[0].step[1][1] for p in words if len(p) == 2} == inner
            # The direct one has no inner node.
            assert ["views"] in [[arc.edge.type[1] for arc in path] for path in words]

    def test_equal_costs_are_ordered_by_node_and_then_by_relation(self) -> None:
        drawn = Multigraph(
            {"item": 1, "user": 4},
            {
                VIEWS: [(3, 0), (1, 0), (0, 0)],
                KNOWS: [(3, 0), (2, 0), (1, 0), (2, 1)],
                BUYS: [(2, 0), (1, 0)],
            },
        )
        # Items come before users, views before buys.
        short = ["views2 i0", "<knows2 u1 views1 i0", "<knows2 u1 buys1 i0",
                 "<knows1 u2 buys0 i0", "<knows0 u3 views0 i0"]  # fmt: skip
        assert Search(drawn, max_length=2, cost=0).words() == short
        # At one unit a fact the direct path is cheapest, then those of two, then those of three.
        long = ["<knows2 u1 <knows3 u2 buys0 i0", "<knows1 u2 knows3 u1 views1 i0",
                "<knows1 u2 knows3 u1 buys1 i0"]  # fmt: skip
        assert Search(drawn).words() == short + long
        assert Search(drawn, num_paths=4).words() == short[:4]

    def test_facts_that_the_model_cannot_see_are_never_on_a_path(self) -> None:
        # One layer: knows0 enters user 0, buys0 enters item 0, knows1 enters user 1 on the rim.
        drawn = Multigraph({"user": 3, "item": 1}, {KNOWS: [(1, 0), (2, 1)], BUYS: [(2, 0)]})
        assert Search(drawn, num_hops=1).words() == []
        assert Search(drawn, num_hops=2).words() == ["<knows0 u1 <knows1 u2 buys0 i0"]

    def test_more_paths_than_the_search_first_has_room_for(self) -> None:
        count = 8
        drawn = Multigraph(
            {"user": count, "item": 1},
            {
                KNOWS: [(u, v) for u in range(count) for v in range(count)],
                BUYS: [(u, 0) for u in range(count)],
                VIEWS: [(u, 0) for u in range(count)],
            },
        )
        # 2 direct; 7 users, then 7 * 6, then 7 * 6 * 5, each with the item in two ways.
        words = Search(drawn, max_length=4, num_paths=1000).words()
        assert len(words) == len(set(words)) == 2 * (1 + 7 + 42 + 210)

    def test_an_edge_without_weight_is_dear_but_not_cut(self) -> None:
        drawn = Multigraph(
            {"user": 3, "item": 1}, {KNOWS: [(1, 0), (2, 0)], BUYS: [(1, 0), (2, 0)]}
        )
        graph = TypedGraph.from_data(drawn.data(), [LIKES])
        batch = extract(graph, Extractor(graph, 2), [LINK])
        paths = build_path_graphs(graph, batch, allowed_facts(graph, batch, None), 2)
        arcs = arcs_of(graph, drawn, batch, paths, 0)
        for nothing in (-np.inf, np.float32(-3e38)):
            logits = np.zeros(len(arcs), dtype=np.float32)
            dear = [i for i, arc in arcs.items() if arc.step[1] == ("user", 1)]
            logits[dear] = nothing
            walks = walks_of(best_paths(paths, logits, 5), 0, arcs)
            assert [walk[0][1] for walk in walks] == [("user", 2), ("user", 1)]
