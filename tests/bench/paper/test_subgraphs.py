"""Counts of subgraphs against brute force, and how they grow."""

from __future__ import annotations

import itertools
import math

import networkx as nx
import pytest

from pagelink.bench.paper.subgraphs import (
    Neighbours,
    _grow,
    around_link,
    coalitions_asked,
    connected_sets,
    counted,
    growth,
    num_trees,
    plots,
    regular_graph,
    tables,
)


def neighbours(graph: nx.Graph) -> Neighbours:
    return [frozenset(graph[node]) for node in range(len(graph))]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_connected_sets_are_all_and_each_once(seed: int, size: int) -> None:
    graph = nx.gnp_random_graph(9, 0.3, seed=seed)
    found = [frozenset(members) for members in connected_sets(neighbours(graph), size)]
    brute = {
        frozenset(members)
        for members in itertools.combinations(range(9), size)
        if nx.is_connected(graph.subgraph(members))
    }
    assert len(found) == len(set(found))
    assert set(found) == brute


def test_trees_and_sets_by_hand() -> None:
    # A star: each choice of leaves is one set and one tree. A complete graph: Cayley's formula.
    star, complete = neighbours(nx.star_graph(6)), neighbours(nx.complete_graph(5))
    assert counted(star, 4) == {"nodes": 7, "sets": math.comb(6, 3), "trees": math.comb(6, 3)}
    assert counted(complete, 4) == {"nodes": 5, "sets": 5, "trees": 5 * 4**2}
    assert num_trees(complete, [0, 1]) == 1


def test_sets_of_nodes_are_fewer_than_trees_and_grow_slower_than_the_lemma_says() -> None:
    rows = _grow("degree", (4, 6, 8))["rows"]
    for row in rows:
        assert row["sets"] < row["trees"] < row["formula"]
    # By the lemma D^6; trees in a graph without short cycles have D^3 and lower terms.
    assert 3 <= growth(rows, "trees") < 4


def test_what_the_tree_search_asks_is_bounded() -> None:
    graph = regular_graph(300, 6, 0)
    small, large = coalitions_asked(graph, 4), coalitions_asked(graph, 8)
    assert large < 2 * small
    assert coalitions_asked(around_link(graph, 1), 4) < small


def test_the_computation_graph_is_all_within_some_hops() -> None:
    graph = neighbours(nx.path_graph(8))
    assert len(around_link(graph, 2)) == 4  # 0 and 1, then 2, then 3
    assert around_link(graph, 1) == [frozenset({1}), frozenset({0, 2}), frozenset({1})]


def test_table_and_plot_are_made_of_the_counts() -> None:
    by_name = {f"subgraphs by {name}": _grow(name, (2, 3)) for name in ("budget", "hops")}
    by_name["subgraphs by degree"] = _grow("degree", (4, 6))
    (table,) = tables(by_name)
    assert len(table.rows) == 6
    assert "the lemma has D^6" in table.note
    drawn = list(plots(by_name))
    assert [plot.x_label for plot in drawn] == ["degree D", "budget B", "number of hops"]
    assert [plot.series[0].x for plot in drawn] == [[4, 6], [2, 3], [2, 3]]
    assert all(len(plot.series) == 4 for plot in drawn)
