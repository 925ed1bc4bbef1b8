from __future__ import annotations

import tracemalloc
from dataclasses import fields

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support.multigraphs import hetero, seeds, sizes

from pagelink.bench.fuzz.oracles.brute_force import (
    BruteForce,
    DrawnLink,
    brute_force,
    draw_link,
    draw_links,
    extract,
)
from pagelink.bench.fuzz.oracles.multigraphs import Multigraph, edge_of, random_multigraph
from pagelink.bench.fuzz.searches import check_extraction
from pagelink.graph.computation_graph import ComputationGraphs, Extractor
from pagelink.graph.ego_kernels import FAR
from pagelink.graph.schema import EdgeType
from pagelink.graph.typed_graph import TypedGraph


def assert_same(first: ComputationGraphs, second: ComputationGraphs) -> None:
    for each in fields(ComputationGraphs):
        one, other = getattr(first, each.name), getattr(second, each.name)
        assert np.array_equal(one, other), each.name
        assert np.asarray(one).dtype == np.asarray(other).dtype, each.name


many_graphs = settings(deadline=None, derandomize=True, max_examples=50)
GRAPHS_AN_EXAMPLE = 8
hop_counts = st.integers(1, 4)


@many_graphs
@given(seeds, sizes, hop_counts)
def test_by_the_definition(seed: int, size: int, num_hops: int) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(GRAPHS_AN_EXAMPLE):
        drawn = random_multigraph(rng, size)
        link = draw_link(rng, drawn)
        if link is None:
            continue
        graph = TypedGraph.from_data(drawn.data(), reverse=drawn.reverse)
        batch = extract(graph, Extractor(graph, num_hops), [link])
        check_extraction(graph, batch, drawn, brute_force(drawn, link, num_hops))


@many_graphs
@given(seeds, sizes, hop_counts)
def test_relations_that_the_model_does_not_use_are_not_visible(
    seed: int, size: int, num_hops: int
) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(GRAPHS_AN_EXAMPLE):
        drawn = random_multigraph(rng, size)
        link = draw_link(rng, drawn)
        if link is None:
            continue
        graph = TypedGraph.from_data(drawn.data(), reverse=drawn.reverse)
        used = rng.random(len(graph.edge_types)) < 0.5
        seen = {t for t, use in zip(graph.edge_types, used, strict=True) if use}
        batch = extract(graph, Extractor(graph, num_hops, used), [link])
        check_extraction(graph, batch, drawn, brute_force(drawn, link, num_hops, seen))
        # Messages may be said to come by more relations, or by fewer.
        by = rng.random(len(graph.edge_types)) < 0.5
        along = {t for t, use in zip(graph.edge_types, by, strict=True) if use}
        batch = extract(graph, Extractor(graph, num_hops, used, along_relations=by), [link])
        check_extraction(graph, batch, drawn, brute_force(drawn, link, num_hops, seen, along=along))


@many_graphs
@given(seeds, sizes, st.booleans())
def test_the_whole_graph_by_the_definition(seed: int, size: int, all_visible: bool) -> None:
    rng = np.random.default_rng(seed)
    drawn = random_multigraph(rng, size)
    links = draw_links(rng, drawn, 3)
    if not links:
        return
    graph = TypedGraph.from_data(drawn.data(), reverse=drawn.reverse)
    used = rng.random(len(graph.edge_types)) < 0.7
    seen = {t for t, use in zip(graph.edge_types, used, strict=True) if use}
    batch = extract(graph, Extractor(graph, None, used, all_visible=all_visible), links)
    for i, link in enumerate(links):
        expected = brute_force(drawn, link, None, seen)
        if all_visible:
            visible = {edge for edge in expected.edges if edge.type in seen}
            facts = {drawn.fact(edge) for edge in visible}
            expected = BruteForce(expected.hops, expected.edges, visible, facts)
        check_extraction(graph, batch.only(i), drawn, expected)


@many_graphs
@given(seeds, sizes, hop_counts)
def test_a_batch_equals_its_links_one_by_one(seed: int, size: int, num_hops: int) -> None:
    rng = np.random.default_rng(seed)
    drawn = random_multigraph(rng, size)
    links = draw_links(rng, drawn, 6)
    if not links:
        return
    graph = TypedGraph.from_data(drawn.data(), reverse=drawn.reverse)
    extractor = Extractor(graph, num_hops)
    whole = extract(graph, extractor, links)
    assert whole.num_links == len(links)
    # A fresh extractor each, so that nothing can be left over from the link before.
    alone = [extract(graph, Extractor(graph, num_hops), [link]) for link in links]
    assert_same(whole, ComputationGraphs.joined(alone))
    for i, one in enumerate(alone):
        assert_same(whole.only(i), one)

    order = rng.permutation(len(links))
    permuted = extract(graph, extractor, [links[i] for i in order])
    assert_same(permuted, ComputationGraphs.joined([alone[i] for i in order]))
    cut = int(rng.integers(1, len(links) + 1))
    halves = [extract(graph, extractor, part) for part in (links[:cut], links[cut:]) if part]
    assert_same(whole, ComputationGraphs.joined(halves))


@many_graphs
@given(seeds, sizes, hop_counts)
def test_the_scratch_arrays_are_clean_afterwards(seed: int, size: int, num_hops: int) -> None:
    rng = np.random.default_rng(seed)
    drawn = random_multigraph(rng, size)
    links = draw_links(rng, drawn, 3)
    if not links:
        return
    graph = TypedGraph.from_data(drawn.data(), reverse=drawn.reverse)
    extractor = Extractor(graph, num_hops)
    extract(graph, extractor, links)
    assert extractor._free
    assert all((hops == FAR).all() for hops, _ in extractor._free)
    assert all((position == -1).all() for _, position in extractor._free)


A: EdgeType = ("user", "buys", "item")
BACK: EdgeType = ("item", "rev_buys", "user")
LIKES: EdgeType = ("user", "likes", "item")
REV_LIKES: EdgeType = ("item", "rev_likes", "user")
KNOWS: EdgeType = ("user", "knows", "user")


def one_link(
    drawn: Multigraph, link: DrawnLink, num_hops: int | None
) -> tuple[TypedGraph, ComputationGraphs, set[tuple[EdgeType, int]]]:
    graph = TypedGraph.from_data(drawn.data(), [link.type])
    batch = extract(graph, Extractor(graph, num_hops), [link])
    edges = {edge_of(graph, int(e)) for e in batch.edges}
    return graph, batch, {(edge.type, edge.column) for edge in edges}


def test_the_explained_link_its_copies_and_its_reverse_are_taken_out() -> None:
    drawn = Multigraph(
        {"user": 2, "item": 2},
        {
            A: [(0, 0), (1, 0)],
            BACK: [(0, 0), (0, 1)],
            LIKES: [(0, 0), (1, 0), (0, 0)],
            REV_LIKES: [(0, 0), (0, 1)],
        },
    )
    _, batch, edges = one_link(drawn, DrawnLink(("user", 0), ("item", 0), LIKES), 2)
    # Other relations between s and t stay, and so do other links of the same relation.
    assert edges == {(A, 0), (A, 1), (BACK, 0), (BACK, 1), (LIKES, 1), (REV_LIKES, 1)}
    assert batch.link_fact[0] >= 0


def test_the_explained_link_is_no_edge_of_its_own_graph() -> None:
    drawn = Multigraph(
        {"user": 3, "item": 2},
        {LIKES: [(0, 0)], REV_LIKES: [(0, 0)], KNOWS: [(1, 0), (2, 1)]},
    )
    graph, batch, edges = one_link(drawn, DrawnLink(("user", 0), ("item", 0), LIKES), 1)
    assert edges == {(KNOWS, 0)}
    assert [graph.node(int(v)) for v in batch.nodes] == [("user", 0), ("user", 1), ("item", 0)]
    assert batch.hops.tolist() == [0, 1, 0]


def test_only_in_edges_lead_on() -> None:
    drawn = Multigraph({"user": 4, "item": 1}, {KNOWS: [(0, 1), (2, 0), (3, 2), (0, 3)]})
    graph, batch, edges = one_link(drawn, DrawnLink(("user", 0), ("item", 0), LIKES), 2)
    hops = {graph.node(int(v)): int(h) for v, h in zip(batch.nodes, batch.hops, strict=True)}
    # user 1 is only a target of user 0, so nothing it says can be heard.
    assert hops == {("user", 0): 0, ("user", 2): 1, ("user", 3): 2, ("item", 0): 0}
    # Induced: the edge from user 0 to user 3 is in, but enters a node on the rim.
    assert edges == {(KNOWS, 1), (KNOWS, 2), (KNOWS, 3)}
    visible = {edge_of(graph, int(e)).column for e in batch.edges[batch.visible]}
    assert visible == {1, 2}


def test_a_fact_is_visible_by_either_direction() -> None:
    # item 0 -> user 0 enters s, its reverse enters a node on the rim.
    drawn = Multigraph({"user": 2, "item": 2}, {A: [(0, 0)], BACK: [(0, 0)]})
    graph, batch, _ = one_link(drawn, DrawnLink(("user", 0), ("item", 1), LIKES), 1)
    by_type = {graph.edge_types[graph.relation[e]]: i for i, e in enumerate(batch.edges)}
    assert batch.visible[by_type[BACK]]
    assert not batch.visible[by_type[A]]
    assert batch.fact_visible.all()


def test_a_fact_is_visible_by_any_of_its_relations() -> None:
    # Users 0 and 1 know each other: one fact, stored by two edges of each relation. The model uses
    # the second relation only.
    rev_knows: EdgeType = ("user", "rev_knows", "user")
    mutual = [(0, 1), (1, 0)]
    drawn = Multigraph({"user": 2, "item": 1}, {KNOWS: mutual, rev_knows: mutual, A: [(1, 0)]})
    graph = TypedGraph.from_data(drawn.data(), [LIKES])
    used = np.array([edge_type != KNOWS for edge_type in graph.edge_types])
    link = DrawnLink(("user", 0), ("item", 0), LIKES)
    batch = extract(graph, Extractor(graph, 2, used), [link])
    assert batch.fact_visible.all()


def test_a_model_that_is_not_local_sees_every_edge() -> None:
    drawn = Multigraph({"user": 4, "item": 1}, {KNOWS: [(1, 0), (2, 1), (0, 2)]})
    _, batch, _ = one_link(drawn, DrawnLink(("user", 0), ("item", 0), LIKES), None)
    assert len(batch.edges) == 3
    assert batch.visible.all()
    assert batch.fact_visible.all()


def test_ends_without_edges() -> None:
    drawn = Multigraph({"user": 3, "item": 1}, {KNOWS: [(1, 2)]})
    graph, batch, edges = one_link(drawn, DrawnLink(("user", 0), ("item", 0), LIKES), 3)
    assert [graph.node(int(v)) for v in batch.nodes] == [("user", 0), ("item", 0)]
    assert edges == set()


@pytest.mark.parametrize("num_hops", [3, 126, 127, 300])
def test_far_reaching_models(num_hops: int) -> None:
    length = 320
    drawn = Multigraph(
        {"user": length, "item": 1}, {KNOWS: [(i + 1, i) for i in range(length - 1)]}
    )
    _, batch, _ = one_link(drawn, DrawnLink(("user", 0), ("item", 0), LIKES), num_hops)
    assert batch.hops.tolist() == [*range(num_hops + 1), 0]
    assert len(batch.edges) == num_hops


def test_more_nodes_than_the_first_guess() -> None:
    # The list of found nodes grows on the way.
    drawn = Multigraph({"user": 400, "item": 1}, {KNOWS: [(i, i // 7) for i in range(1, 400)]})
    link = DrawnLink(("user", 0), ("item", 0), LIKES)
    graph = TypedGraph.from_data(drawn.data(), [LIKES])
    batch = extract(graph, Extractor(graph, 3), [link])
    check_extraction(graph, batch, drawn, brute_force(drawn, link, 3))


def test_the_result_does_not_depend_on_the_rest_of_the_graph() -> None:
    drawn = random_multigraph(np.random.default_rng(3), 5)
    drawn.pairs.setdefault(("b", "z", "b"), [(0, 0)])
    link = next(link for link in draw_links(np.random.default_rng(4), drawn, 20))
    small = TypedGraph.from_data(drawn.data(), reverse=drawn.reverse)
    data = drawn.data()
    far_nodes, far_edges = 20_000, 100_000
    first = drawn.sizes["b"]
    far = np.random.default_rng(5).integers(first, first + far_nodes, (2, far_edges))
    data["b"].num_nodes = first + far_nodes
    store = data["b", "z", "b"]
    near = store.edge_index
    store.edge_index = near.new_tensor(np.concatenate([near.numpy(), far], axis=1))
    large = TypedGraph.from_data(data, reverse=drawn.reverse)

    extractor = Extractor(large, 3)
    batch, expected = extract(large, extractor, [link]), extract(small, Extractor(small, 3), [link])
    assert large.num_edges == small.num_edges + far_edges
    for name in ("node_ptr", "edge_ptr", "hops", "src", "dst", "visible", "fact_visible"):
        assert np.array_equal(getattr(batch, name), getattr(expected, name)), name
    assert len(batch.edges) <= small.num_edges
    assert [large.node(int(v)) for v in batch.nodes] == [small.node(int(v)) for v in expected.nodes]


def test_the_memory_does_not_depend_on_the_rest_of_the_graph() -> None:
    count = 200_000
    data = hetero({"user": count, "item": 1})
    nodes = torch.arange(count)
    data[KNOWS].edge_index = torch.stack([nodes[:-1], nodes[1:]])
    graph = TypedGraph.from_data(data, [LIKES])
    extractor = Extractor(graph, 2)
    link = np.array([100]), np.array([count]), np.array([-1])
    extractor.extract(*link)
    tracemalloc.start()
    batch = extractor.extract(*link)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert batch.nodes.tolist() == [98, 99, 100, count]
    assert peak < count  # not even one byte per node
