from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from support.multigraphs import hetero, seeds, sizes
from torch_geometric.data import Data
from torch_geometric.transforms import ToUndirected

from pagelink.bench.fuzz.oracles.multigraphs import (
    Fact,
    both_ways,
    edge_of,
    flat,
    random_multigraph,
)
from pagelink.errors import GraphError, LinkError
from pagelink.graph.schema import EdgeType
from pagelink.graph.typed_graph import TypedGraph

many_graphs = settings(deadline=None, derandomize=True, max_examples=40)
GRAPHS_AN_EXAMPLE = 5

BUYS: EdgeType = ("user", "buys", "item")
REV_BUYS: EdgeType = ("item", "rev_buys", "user")
VIEWS: EdgeType = ("user", "views", "item")
KNOWS: EdgeType = ("user", "knows", "user")
LIKES: EdgeType = ("user", "likes", "item")
REV_LIKES: EdgeType = ("item", "rev_likes", "user")


class TestFlattening:
    def test_by_hand(self) -> None:
        data = hetero({"user": 2, "item": 3}, {BUYS: [(1, 2), (0, 2), (1, 0)], KNOWS: [(1, 0)]})
        graph = TypedGraph.from_data(data)
        assert graph.node_types == ("user", "item")
        assert graph.node_offset.tolist() == [0, 2, 5]
        assert (graph.num_nodes, graph.num_edges) == (5, 4)
        assert graph.edge_types == (BUYS, KNOWS)
        assert graph.edge_counts == (3, 1)
        assert graph.mask_sizes == (3, 1)
        # By target, relation, source, column: user 0, then item 0, then item 2.
        assert graph.in_ptr.tolist() == [0, 1, 1, 2, 2, 4]
        assert graph.src.tolist() == [1, 1, 0, 1]
        assert graph.dst.tolist() == [0, 2, 4, 4]
        assert graph.relation.tolist() == [1, 0, 0, 0]
        assert graph.column.tolist() == [0, 2, 1, 0]
        assert [graph.node(i) for i in range(5)] == [
            ("user", 0), ("user", 1), ("item", 0), ("item", 1), ("item", 2)
        ]  # fmt: skip

    def test_link_types_come_last_and_have_no_edges(self) -> None:
        data = hetero({"user": 2, "item": 2}, {BUYS: [(0, 0)]})
        graph = TypedGraph.from_data(data, [LIKES, BUYS, LIKES])
        assert graph.edge_types == (BUYS, LIKES)
        assert graph.edge_counts == (1, 0)
        assert graph.mask_sizes == (1,)

    def test_empty_relations_keep_their_place(self) -> None:
        data = hetero({"user": 2, "item": 2}, {VIEWS: [], BUYS: [(0, 1)]})
        graph = TypedGraph.from_data(data)
        assert graph.edge_types == (VIEWS, BUYS)
        assert graph.edge_counts == (0, 1)
        assert graph.relation.tolist() == [1]

    def test_a_graph_without_relations(self) -> None:
        graph = TypedGraph.from_data(hetero({"user": 2}))
        assert (graph.num_nodes, graph.num_edges) == (2, 0)
        assert graph.degree.tolist() == [0, 0]

    def test_32_bit_edge_index(self) -> None:
        data = hetero({"user": 2, "item": 2}, {BUYS: [(0, 1), (1, 1)]})
        wide = TypedGraph.from_data(data)
        data[BUYS].edge_index = data[BUYS].edge_index.int()
        narrow = TypedGraph.from_data(data)
        assert narrow.src.tolist() == wide.src.tolist()
        assert narrow.dst.tolist() == wide.dst.tolist()

    def test_the_data_is_left_as_it_was(self) -> None:
        data = hetero({"user": 2, "item": 2}, {BUYS: [(0, 1), (1, 1)]})
        before = data.clone()
        TypedGraph.from_data(data, [LIKES])
        assert data.edge_types == before.edge_types == [BUYS]
        assert data.to_dict().keys() == before.to_dict().keys()
        assert torch.equal(data[BUYS].edge_index, before[BUYS].edge_index)

    @many_graphs
    @given(seeds, sizes)
    def test_every_stored_edge_is_there_once_and_in_order(self, seed: int, size: int) -> None:
        rng = np.random.default_rng(seed)
        for _ in range(GRAPHS_AN_EXAMPLE):
            drawn = random_multigraph(rng, size)
            graph = TypedGraph.from_data(drawn.data(), reverse=drawn.reverse)
            found = [edge_of(graph, e) for e in range(graph.num_edges)]
            position = {t: i for i, t in enumerate(graph.edge_types)}
            expected = sorted(
                drawn.edges,
                key=lambda e: (flat(graph, e.dst), position[e.type], flat(graph, e.src), e.column),
            )
            assert found == expected, drawn
            for node in drawn.nodes:
                first, last = graph.in_ptr[flat(graph, node) :][:2]
                assert found[first:last] == [e for e in expected if e.dst == node]


class TestReverse:
    def test_rev_names_even_if_the_edges_differ(self) -> None:
        data = hetero({"user": 2, "item": 2}, {BUYS: [(0, 0), (1, 1)], REV_BUYS: [(0, 1)]})
        graph = TypedGraph.from_data(data)
        assert graph.reverse == both_ways({BUYS: REV_BUYS})

    def test_what_to_undirected_makes(self) -> None:
        data = ToUndirected()(hetero({"user": 3, "item": 3}, {BUYS: [(0, 0), (1, 2)]}))
        assert TypedGraph.from_data(data).reverse == both_ways({BUYS: REV_BUYS})

    def test_a_rev_name_between_other_node_types_is_no_reverse(self) -> None:
        other = ("user", "rev_buys", "item")
        data = hetero({"user": 2, "item": 2}, {BUYS: [(0, 1)], other: [(1, 0)]})
        assert TypedGraph.from_data(data).reverse == {}

    def test_exact_mirrors_in_any_order(self) -> None:
        bought_by = ("item", "bought_by", "user")
        data = hetero({"user": 3, "item": 3}, {BUYS: [(0, 1), (2, 0)], bought_by: [(0, 2), (1, 0)]})
        assert TypedGraph.from_data(data).reverse == both_ways({BUYS: bought_by})

    def test_mirrors_within_a_node_type(self) -> None:
        parent, child = ("user", "parent", "user"), ("user", "child", "user")
        data = hetero({"user": 3}, {parent: [(0, 1), (1, 2)], child: [(2, 1), (1, 0)]})
        assert TypedGraph.from_data(data).reverse == both_ways({parent: child})

    def test_copies_do_not_count(self) -> None:
        bought_by = ("item", "bought_by", "user")
        data = hetero({"user": 2, "item": 2}, {BUYS: [(0, 1), (0, 1)], bought_by: [(1, 0)]})
        assert TypedGraph.from_data(data).reverse == both_ways({BUYS: bought_by})

    @pytest.mark.parametrize("other", [[(0, 2)], [(0, 2), (1, 0), (1, 1)], [(0, 2), (1, 1)]])
    def test_near_mirrors_are_none(self, other: list[tuple[int, int]]) -> None:
        data = hetero(
            {"user": 3, "item": 3},
            {BUYS: [(0, 1), (2, 0)], ("item", "bought_by", "user"): other},
        )
        assert TypedGraph.from_data(data).reverse == {}

    @pytest.mark.parametrize("copy", [[], [(0, 1)]], ids=["plain", "with a copy"])
    def test_symmetric_relations_are_parallel_not_reverse(
        self, copy: list[tuple[int, int]]
    ) -> None:
        friend = ("user", "friend", "user")
        pairs = [(0, 1), (1, 0), *copy]
        data = hetero({"user": 2}, {KNOWS: pairs, friend: [(v, u) for u, v in pairs]})
        graph = TypedGraph.from_data(data)
        assert graph.reverse == {}
        assert graph.degree.tolist() == [2, 2]

    def test_empty_relations_do_not_mirror_each_other(self) -> None:
        data = hetero({"user": 2, "item": 2}, {BUYS: [], ("item", "bought_by", "user"): []})
        assert TypedGraph.from_data(data).reverse == {}

    def test_of_three_candidates_the_first_mirror_is_taken(self) -> None:
        first, second = ("item", "bought_by", "user"), ("item", "got_by", "user")
        data = hetero({"user": 2, "item": 2}, {BUYS: [(0, 1)], first: [(1, 0)], second: [(1, 0)]})
        graph = TypedGraph.from_data(data)
        assert graph.reverse == both_ways({BUYS: first})
        assert graph.degree.tolist() == [2, 0, 0, 2]

    def test_a_name_wins_over_a_mirror(self) -> None:
        other = ("item", "bought_by", "user")
        data = hetero({"user": 2, "item": 2}, {BUYS: [(0, 1)], other: [(1, 0)], REV_BUYS: [(1, 1)]})
        assert TypedGraph.from_data(data).reverse == both_ways({BUYS: REV_BUYS})

    def test_the_reverse_of_a_reverse_takes_no_partner_away(self) -> None:
        twice = ("user", "rev_rev_buys", "item")
        data = hetero({"user": 2, "item": 2}, {BUYS: [(0, 0)], REV_BUYS: [(0, 0)], twice: [(0, 1)]})
        graph = TypedGraph.from_data(data)
        for first, second in graph.reverse.items():
            assert graph.reverse[second] == first
        assert graph.degree.tolist() == [2, 0, 1, 1]

    def test_a_link_type_that_is_not_in_the_graph_may_have_its_reverse_there(self) -> None:
        data = hetero({"user": 2, "item": 2}, {REV_LIKES: [(0, 1)]})
        graph = TypedGraph.from_data(data, [LIKES])
        assert graph.reverse == both_ways({LIKES: REV_LIKES})

    def test_given_ones_replace_what_would_be_found(self) -> None:
        bought_by = ("item", "bought_by", "user")
        data = hetero(
            {"user": 2, "item": 2}, {BUYS: [(0, 1)], REV_BUYS: [(1, 0)], bought_by: [(0, 0)]}
        )
        graph = TypedGraph.from_data(data, reverse={bought_by: BUYS})
        assert graph.reverse == both_ways({BUYS: bought_by})
        assert graph.degree.tolist() == [3, 0, 1, 2]

    def test_none_at_all_by_an_empty_mapping(self) -> None:
        data = hetero({"user": 2, "item": 2}, {BUYS: [(0, 1)], REV_BUYS: [(1, 0)]})
        graph = TypedGraph.from_data(data, reverse={})
        assert graph.reverse == {}
        assert graph.degree.tolist() == [2, 0, 0, 2]
        assert (graph.opposite == -1).all()

    def test_a_relation_may_be_given_as_its_own_reverse(self) -> None:
        data = hetero({"user": 2}, {KNOWS: [(0, 1)]})
        assert TypedGraph.from_data(data, reverse={KNOWS: KNOWS}).degree.tolist() == [1, 1]

    @pytest.mark.parametrize(
        ("reverse", "message"),
        [
            ({BUYS: ("item", "rev_buy", "user")}, "is not a relation of the graph.*Did you mean"),
            ({BUYS: VIEWS}, "cannot be the reverse of .* node types do not fit"),
            ({BUYS: REV_BUYS, VIEWS: REV_BUYS}, "two reverses"),
        ],
    )
    def test_given_ones_that_cannot_be(
        self, reverse: dict[EdgeType, EdgeType], message: str
    ) -> None:
        data = hetero({"user": 2, "item": 2}, {BUYS: [(0, 1)], REV_BUYS: [(1, 0)], VIEWS: []})
        with pytest.raises(GraphError, match=message):
            TypedGraph.from_data(data, reverse=reverse)

    @many_graphs
    @given(seeds, sizes)
    def test_found_by_the_definition(self, seed: int, size: int) -> None:
        rng = np.random.default_rng(seed)
        for _ in range(GRAPHS_AN_EXAMPLE):
            drawn = random_multigraph(rng, size)
            drawn.pairs["b", "p", "a"] = [(v, u) for u, v in drawn.pairs.get(("a", "q", "b"), [])]
            mirror = {t: {(v, u) for u, v in pairs} for t, pairs in drawn.pairs.items()}
            expected = dict(drawn.reverse)
            for first, pairs in drawn.pairs.items():
                for second in drawn.pairs:
                    fits = first[0] == second[2] and first[2] == second[0] and first != second
                    free = first not in expected and second not in expected
                    symmetric = first[0] == first[2] and set(pairs) == mirror[first]
                    if fits and free and pairs and not symmetric and set(pairs) == mirror[second]:
                        expected |= {first: second, second: first}
            assert TypedGraph.from_data(drawn.data()).reverse == expected, drawn


class TestFacts:
    def test_an_edge_its_copies_and_its_reverse_are_one_fact(self) -> None:
        data = hetero({"user": 2, "item": 2}, {BUYS: [(0, 1), (0, 1), (1, 0)], REV_BUYS: [(1, 0)]})
        graph = TypedGraph.from_data(data)
        facts: dict[int, list[tuple[EdgeType, int]]] = defaultdict(list)
        for e in range(graph.num_edges):
            edge = edge_of(graph, e)
            facts[int(graph.fact[e])].append((edge.type, edge.column))
        assert sorted(map(sorted, facts.values())) == [
            [(REV_BUYS, 0), (BUYS, 0), (BUYS, 1)], [(BUYS, 2)]
        ]  # fmt: skip
        assert graph.degree.tolist() == [1, 1, 1, 1]

    def test_parallel_relations_are_different_facts(self) -> None:
        data = hetero({"user": 1, "item": 1}, {BUYS: [(0, 0)], VIEWS: [(0, 0)]})
        graph = TypedGraph.from_data(data)
        assert graph.fact[0] != graph.fact[1]
        assert graph.degree.tolist() == [2, 2]

    def test_both_directions_within_a_node_type_are_one_fact(self) -> None:
        graph = TypedGraph.from_data(hetero({"user": 2}, {KNOWS: [(0, 1), (1, 0)]}))
        assert graph.fact[0] == graph.fact[1]
        assert graph.degree.tolist() == [1, 1]
        assert graph.opposite.tolist() == [1, 0]

    def test_a_self_loop_has_no_degree_and_no_arc(self) -> None:
        graph = TypedGraph.from_data(hetero({"user": 2}, {KNOWS: [(0, 0), (0, 1)]}))
        assert graph.degree.tolist() == [1, 1]
        assert len(graph.arc_dst) == 2
        loop = graph.src == graph.dst
        assert not graph.representative[loop].any()
        assert (graph.opposite[loop] == -1).all()

    def test_the_same_indices_of_two_node_types_are_no_self_loop(self) -> None:
        graph = TypedGraph.from_data(hetero({"user": 1, "item": 1}, {BUYS: [(0, 0)]}))
        assert graph.degree.tolist() == [1, 1]

    @many_graphs
    @given(seeds, sizes)
    def test_facts_degrees_and_arcs_by_the_definition(self, seed: int, size: int) -> None:
        rng = np.random.default_rng(seed)
        for _ in range(GRAPHS_AN_EXAMPLE):
            drawn = random_multigraph(rng, size)
            graph = TypedGraph.from_data(drawn.data(), reverse=drawn.reverse)
            stored = [edge_of(graph, e) for e in range(graph.num_edges)]
            by_number: dict[int, set[Fact]] = defaultdict(set)
            for e, edge in enumerate(stored):
                by_number[int(graph.fact[e])].add(drawn.fact(edge))
            # One number, one fact; one fact, one number.
            assert all(len(facts) == 1 for facts in by_number.values()), drawn
            assert len(by_number) == len(drawn.facts), drawn

            assert {node: int(graph.degree[flat(graph, node)]) for node in drawn.nodes} == {
                node: drawn.degree(node) for node in drawn.nodes
            }, drawn

            standing = [drawn.fact(stored[e]) for e in np.flatnonzero(graph.representative)]
            walkable = {fact for fact in drawn.facts if len(fact[1]) == 2}
            assert len(standing) == len(set(standing)), drawn
            assert set(standing) == walkable, drawn

            for e, edge in enumerate(stored):
                back = [
                    other for other, candidate in enumerate(stored)
                    if (candidate.src, candidate.dst) == (edge.dst, edge.src) and candidate.src
                    != candidate.dst and drawn.fact(candidate) == drawn.fact(edge)
                ]  # fmt: skip
                assert graph.opposite[e] == (back[0] if back else -1), drawn

            arcs = []
            for node in drawn.nodes:
                first, last = graph.arc_ptr[flat(graph, node) :][:2]
                for arc in range(first, last):
                    edge = stored[graph.arc_edge[arc]]
                    head = graph.node(int(graph.arc_dst[arc]))
                    ends = (edge.dst, edge.src) if graph.arc_reversed[arc] else (edge.src, edge.dst)
                    assert ends == (node, head), drawn
                    if graph.arc_reversed[arc]:
                        # Against the stored direction only where no stored edge runs along.
                        assert not any(
                            (other.src, other.dst) == ends and drawn.fact(other) == drawn.fact(edge)
                            for other in stored
                        ), drawn
                    arcs.append((node, drawn.fact(edge)))
            assert len(arcs) == len(set(arcs)), drawn
            assert set(arcs) == {(node, fact) for fact in walkable for node in fact[1]}, drawn


class TestLinkFact:
    def test_the_link_in_the_graph(self) -> None:
        data = hetero(
            {"user": 2, "item": 2},
            {BUYS: [(0, 1)], LIKES: [(1, 1), (0, 1), (0, 1)], REV_LIKES: [(1, 0)]},
        )
        graph = TypedGraph.from_data(data, [LIKES])
        fact = graph.link_fact(flat(graph, ("user", 0)), flat(graph, ("item", 1)), LIKES)
        edges = {(e.type, e.column) for e in map(lambda e: edge_of(graph, int(e)),
                                                np.flatnonzero(graph.fact == fact))}  # fmt: skip
        assert edges == {(LIKES, 1), (LIKES, 2), (REV_LIKES, 0)}

    def test_only_the_reverse_in_the_graph(self) -> None:
        data = hetero({"user": 2, "item": 2}, {BUYS: [(0, 1)], REV_LIKES: [(1, 0)]})
        graph = TypedGraph.from_data(data, [LIKES])
        fact = graph.link_fact(0, 3, LIKES)
        (edge,) = np.flatnonzero(graph.fact == fact)
        assert edge_of(graph, int(edge)).type == REV_LIKES

    @pytest.mark.parametrize(("src", "dst"), [(0, 0), (1, 1)])
    def test_not_in_the_graph(self, src: int, dst: int) -> None:
        data = hetero(
            {"user": 2, "item": 2},
            {BUYS: [(0, 0), (1, 1)], LIKES: [(0, 1)], REV_LIKES: [(1, 0)]},
        )
        graph = TypedGraph.from_data(data, [LIKES])
        src, dst = flat(graph, ("user", src)), flat(graph, ("item", dst))
        assert graph.link_fact(src, dst, LIKES) == -1

    def test_the_reverse_is_not_taken_for_the_link_if_it_is_said_to_be_none(self) -> None:
        data = hetero({"user": 2, "item": 2}, {REV_LIKES: [(1, 0)]})
        graph = TypedGraph.from_data(data, [LIKES], reverse={})
        assert graph.link_fact(0, 3, LIKES) == -1

    def test_within_a_node_type_the_other_direction_states_the_link_too(self) -> None:
        graph = TypedGraph.from_data(hetero({"user": 3}, {KNOWS: [(1, 0)]}))
        assert graph.link_fact(0, 1, KNOWS) == graph.link_fact(1, 0, KNOWS) == 0
        assert graph.link_fact(0, 2, KNOWS) == -1

    @many_graphs
    @given(seeds, sizes)
    def test_by_the_definition(self, seed: int, size: int) -> None:
        rng = np.random.default_rng(seed)
        for _ in range(GRAPHS_AN_EXAMPLE):
            drawn = random_multigraph(rng, size)
            graph = TypedGraph.from_data(drawn.data(), reverse=drawn.reverse)
            for link_type in drawn.pairs:
                src = (link_type[0], int(rng.integers(drawn.sizes[link_type[0]])))
                dst = (link_type[2], int(rng.integers(drawn.sizes[link_type[2]])))
                wanted = drawn.link_fact(src, dst, link_type)
                found = graph.link_fact(flat(graph, src), flat(graph, dst), link_type)
                numbers = {
                    int(graph.fact[e]) for e in range(graph.num_edges)
                    if drawn.fact(edge_of(graph, e)) == wanted
                }  # fmt: skip
                assert numbers == ({found} if found >= 0 else set()), drawn


class TestNames:
    @pytest.fixture
    def graph(self) -> TypedGraph:
        data = hetero({"user": 5, "item": 2}, {BUYS: [(0, 0)]})
        data["user"].name = ["Ada", "3", "Bob", "Bob", "Charles Babbage"]
        return TypedGraph.from_data(data)

    @pytest.mark.parametrize(
        ("key", "index"),
        [("Ada", 0), ("3", 1), ("id:3", 3), (3, 3), (np.int64(4), 4), ("id:0", 0)],
    )
    def test_a_name_wins_over_an_index(self, graph: TypedGraph, key: Any, index: int) -> None:
        assert graph.find_node("user", key) == index

    def test_duplicate_names_list_the_ids(self, graph: TypedGraph) -> None:
        with pytest.raises(LinkError, match=r"2 nodes of type 'user' .* 'id:2', 'id:3'"):
            graph.find_node("user", "Bob")

    def test_did_you_mean(self, graph: TypedGraph) -> None:
        with pytest.raises(LinkError, match=r"no user called .* Did you mean 'Charles Babbage'"):
            graph.find_node("user", "Charles Babage")

    def test_a_type_without_names(self, graph: TypedGraph) -> None:
        assert graph.find_node("item", 1) == graph.find_node("item", "1") == 6
        with pytest.raises(LinkError, match="no names"):
            graph.find_node("item", "Ada")

    def test_digits_are_a_name_where_there_are_names(self, graph: TypedGraph) -> None:
        with pytest.raises(LinkError, match=r"no user called '2'.*'id:2'"):
            graph.find_node("user", "2")

    @pytest.mark.parametrize("key", [5, -1, "id:5", 2**40])
    def test_out_of_range(self, graph: TypedGraph, key: Any) -> None:
        with pytest.raises(LinkError, match=r"user index must be in 0\.\.4, got"):
            graph.find_node("user", key)

    @pytest.mark.parametrize("key", [1.0, True, None, (1,), "id:", "id:x", "-1", ""])
    def test_what_is_no_key(self, graph: TypedGraph, key: Any) -> None:
        with pytest.raises(LinkError):
            graph.find_node("user", key)

    def test_a_type_without_nodes(self) -> None:
        graph = TypedGraph.from_data(hetero({"user": 0, "item": 1}, {BUYS: []}))
        with pytest.raises(LinkError, match="no nodes of type 'user'"):
            graph.find_node("user", 0)

    def test_how_nodes_are_called(self, graph: TypedGraph) -> None:
        assert graph.node_name(4) == "Charles Babbage"
        assert graph.node_name(6) == "item 1"

    def test_names_may_be_an_array(self) -> None:
        data = hetero({"user": 2}, {KNOWS: [(0, 1)]})
        data["user"].name = np.array(["Ada", "Bob"])
        assert TypedGraph.from_data(data).find_node("user", "Bob") == 1


class TestHomogeneous:
    def test_columns_refer_to_the_one_edge_index(self) -> None:
        data = Data(
            edge_index=torch.tensor([[0, 1, 2, 0], [1, 2, 0, 1]]),
            edge_type=torch.tensor([1, 0, 1, 2]), num_nodes=3,
        )  # fmt: skip
        graph = TypedGraph.from_data(data)
        assert graph.edge_types == tuple(("node", f"relation {i}", "node") for i in range(3))
        assert graph.edge_counts == (1, 2, 1)
        assert graph.mask_sizes == (4, 4, 4)
        for e in range(4):
            column = graph.column[e]
            assert [graph.src[e], graph.dst[e]] == data.edge_index[:, column].tolist()
            assert graph.relation[e] == data.edge_type[column]

    def test_without_edge_type_there_is_one_relation(self) -> None:
        data = Data(edge_index=torch.tensor([[0, 1], [1, 0]]), num_nodes=3)
        graph = TypedGraph.from_data(data, [("node", "likes", "node")])
        assert graph.edge_counts == (2,)
        assert graph.edge_types == (("node", "likes", "node"),)
        assert graph.degree.tolist() == [1, 1, 0]

    def test_relation_names_of_to_homogeneous(self) -> None:
        data = hetero({"user": 2, "item": 2}, {BUYS: [(0, 1)], REV_BUYS: [(1, 0)]})
        for kind in ("user", "item"):
            data[kind].x = torch.ones(2, 1)
        graph = TypedGraph.from_data(data.to_homogeneous())
        assert [name for _, name, _ in graph.edge_types] == [
            "user__buys__item", "item__rev_buys__user"
        ]  # fmt: skip
        # The edge sets mirror each other, so they are found to be each other's reverse.
        assert graph.degree.tolist() == [1, 0, 0, 1]

    def test_names(self) -> None:
        data = Data(edge_index=torch.tensor([[0], [1]]), num_nodes=2, name=["Ada", "Bob"])
        assert TypedGraph.from_data(data).find_node("node", "Bob") == 1

    def test_relations_without_edges_in_between(self) -> None:
        data = Data(edge_index=torch.tensor([[0], [1]]), edge_type=torch.tensor([2]), num_nodes=2)
        graph = TypedGraph.from_data(data)
        assert graph.edge_counts == (0, 0, 1)
        assert graph.relation.tolist() == [2]


class TestMalformed:
    @pytest.mark.parametrize(
        ("pairs", "message"),
        [
            ([(0, 0), (1, 5)], r"\('user', 'buys', 'item'\): edge_index\[1, 1\] is 5, .* 3 nodes"),
            ([(0, 0), (1, 1), (2, 0)], r"edge_index\[0, 2\] is 2, .* 2 nodes of type 'user'"),
            ([(0, -1)], r"edge_index\[1, 0\] is -1"),
        ],
    )
    def test_out_of_bounds(self, pairs: list[tuple[int, int]], message: str) -> None:
        data = hetero({"user": 2, "item": 3}, {BUYS: pairs})
        with pytest.raises(GraphError, match=message):
            TypedGraph.from_data(data)

    def test_out_of_bounds_in_a_homogeneous_graph(self) -> None:
        data = Data(
            edge_index=torch.tensor([[0, 1, 0, 9], [1, 0, 1, 0]]),
            edge_type=torch.tensor([0, 0, 1, 1]), num_nodes=2,
        )  # fmt: skip
        # The column is that of data.edge_index, not that among the edges of the relation.
        with pytest.raises(GraphError, match=r"'relation 1'.*edge_index\[0, 3\] is 9"):
            TypedGraph.from_data(data)

    @pytest.mark.parametrize(
        "edge_index",
        [
            torch.zeros(3, 2, dtype=torch.long),
            torch.zeros(2, dtype=torch.long),
            torch.zeros(2, 1, 1, dtype=torch.long),
            torch.zeros(2, 2),
            torch.zeros(2, 2, dtype=torch.bool),
            torch.zeros(2, 2, dtype=torch.long).to_sparse(),
            [[0], [0]],
        ],
        ids=[
            "three rows",
            "one-dimensional",
            "three-dimensional",
            "float",
            "bool",
            "sparse",
            "list",
        ],
    )
    @pytest.mark.parametrize("homogeneous", [False, True])
    def test_shape_and_dtype(self, edge_index: Any, homogeneous: bool) -> None:
        if homogeneous:
            data: Any = Data(edge_index=edge_index, num_nodes=2)
        else:
            data = hetero({"user": 2, "item": 2})
            data[BUYS].edge_index = edge_index
        where = "edge_index" if homogeneous else r"\('user', 'buys', 'item'\)"
        with pytest.raises(GraphError, match=where + r": edge_index must be .* \[2, num_edges\]"):
            TypedGraph.from_data(data)

    def test_sparse_adjacency(self) -> None:
        data = hetero({"user": 2, "item": 2})
        data[BUYS].adj_t = torch.eye(2).to_sparse()
        with pytest.raises(GraphError, match=r"'buys'.*adj_t.*edge_index"):
            TypedGraph.from_data(data)

    def test_unknown_number_of_nodes(self) -> None:
        data = hetero({"item": 2})
        data["user"].colour = "blue"
        with (
            pytest.warns(UserWarning, match="num_nodes"),
            pytest.raises(GraphError, match=r"'user' is unknown.*data\['user'\].num_nodes"),
        ):
            TypedGraph.from_data(data)

    def test_a_node_type_that_is_not_there(self) -> None:
        data = hetero({"user": 2}, {BUYS: [(0, 0)]})
        with pytest.raises(GraphError, match="no node type 'item'"):
            TypedGraph.from_data(data)

    @pytest.mark.parametrize("names", [["Ada"], ["a", "b", "c"], "ab", torch.zeros(2), 7])
    def test_names(self, names: Any) -> None:
        data = hetero({"user": 2}, {KNOWS: [(0, 1)]})
        data["user"].name = names
        with pytest.raises(GraphError, match=r"data\['user'\].name must be a list of 2 names"):
            TypedGraph.from_data(data)

    @pytest.mark.parametrize(
        ("link_type", "message"),
        [
            (("usr", "likes", "item"), "node type 'usr'.* Did you mean 'user'"),
            (("user", "likes", "book"), r"node type 'book', which is not .*\(user, item\)"),
            (("user", "likes"), "A link type is"),
            ("likes", "A link type is"),
        ],
    )
    def test_link_type(self, link_type: Any, message: str) -> None:
        data = hetero({"user": 2, "item": 2}, {BUYS: [(0, 0)]})
        with pytest.raises(LinkError, match=message):
            TypedGraph.from_data(data, [link_type])

    @pytest.mark.parametrize(
        "edge_type",
        [
            torch.tensor([0]),
            torch.tensor([0, -1]),
            torch.tensor([[0, 1]]),
            torch.tensor([0.0, 0.5]),
            [0, 1],
        ],
        ids=["too few", "negative", "two-dimensional", "not whole", "list"],
    )
    def test_edge_type(self, edge_type: Any) -> None:
        data = Data(edge_index=torch.tensor([[0, 1], [1, 0]]), edge_type=edge_type, num_nodes=2)
        with pytest.raises(GraphError, match="edge_type must hold one number from 0 up"):
            TypedGraph.from_data(data)

    @pytest.mark.parametrize("data", [Data(x=torch.ones(2, 1)), "graph", None, {}])
    def test_no_graph(self, data: Any) -> None:
        with pytest.raises(GraphError):
            TypedGraph.from_data(data)
