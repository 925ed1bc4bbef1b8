"""Plain rankings: each against brute force on a small graph with a model of random weights."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import networkx as nx
import numpy as np
import pytest
import torch

from pagelink import PaGELink, Settings
from pagelink.datasets.useritemattr import generate_useritemattr
from pagelink.models.architectures import RGCN
from pagelink.rivals import gradients as gradient
from pagelink.rivals.gradients import rank_by_gradient
from pagelink.rivals.greedy import greedy_search
from pagelink.rivals.ground import FactPath, Ground, fact_paths, facts_of
from pagelink.rivals.plain import rank_at_random, rank_by_degree


@pytest.fixture(scope="module")
def ground() -> Ground:
    made = generate_useritemattr(
        num_users=20, num_items=20, num_attrs=10, num_has=30, num_wanted=6, max_prefers=3,
        items_per_user=12, num_buys=80, min_shared=1, seed=0,
    )  # fmt: skip
    model = RGCN.for_data(made.data, made.link_type, paper_split=True, hidden=8, seed=0).eval()
    explainer = PaGELink(model, made.data, made.link_type, Settings(), threshold=None)
    pairs = [(int(s), int(t)) for s, t in made.likes.T]
    several = [len(paths) > 4 for paths in rank_by_degree(Ground.of(explainer, pairs), 5)]
    return Ground.of(explainer, [p for p, chosen in zip(pairs, several, strict=True) if chosen][:4])


def all_paths(ground: Ground, link: int) -> set[FactPath]:
    """Every simple path of at most three facts, by networkx."""
    graph = ground.explainer.graph
    multi = nx.MultiGraph()
    for edge in np.flatnonzero(graph.representative).tolist():
        multi.add_edge(int(graph.src[edge]), int(graph.dst[edge]), key=int(graph.fact[edge]))
    ends = ground.links[link]
    found = nx.all_simple_edge_paths(multi, ends.src, ends.dst, cutoff=3)
    return {tuple(key for _, _, key in path) for path in found}


def brute_effect(ground: Ground, link: int, facts: set[int]) -> float:
    """The effect of removing facts from the whole graph, without anything of the explainer."""
    whole, without = brute_logits(ground, link, [set(), facts])
    return whole - without


def brute_gain(ground: Ground, link: int, facts: set[int]) -> float:
    """What facts add to the graph without any fact on a path of at most three."""
    on_paths = {fact for path in all_paths(ground, link) for fact in path}
    bare, with_facts = brute_logits(ground, link, [on_paths, on_paths - facts])
    return with_facts - bare


def brute_logits(ground: Ground, link: int, removed: list[set[int]]) -> list[float]:
    """The logits on the whole graph without each of some sets of facts."""
    explainer, graph = ground.explainer, ground.explainer.graph
    ends = ground.links[link]
    x_dict = {
        t: torch.arange(int(graph.node_offset[i + 1] - graph.node_offset[i]))
        for i, t in enumerate(graph.node_types)
    }
    logits = []
    for gone in removed:
        kept = ~np.isin(graph.fact, list(gone))
        edges = {}
        for position, edge_type in enumerate(graph.edge_types[: graph.num_relations]):
            mine = np.flatnonzero(kept & (graph.relation == position))
            ends_of = (
                [graph.node(int(v))[1] for v in graph.src[mine]],
                [graph.node(int(v))[1] for v in graph.dst[mine]],
            )
            edges[edge_type] = torch.tensor(ends_of, dtype=torch.long).reshape(2, -1)
        pair = torch.tensor([[graph.node(ends.src)[1]], [graph.node(ends.dst)[1]]])
        with torch.no_grad():
            logits.append(float(explainer.predictor.model(x_dict, edges, pair)))
    return logits


def test_effects_are_those_of_the_edited_full_graph(ground: Ground) -> None:
    paths = sorted(all_paths(ground, 1))[:3]
    (effect,) = ground.effects([1], [facts_of(paths)])
    assert effect == pytest.approx(brute_effect(ground, 1, set(facts_of(paths))), abs=1e-5)
    assert effect != 0
    (gain,) = ground.gains([1], [facts_of(paths)])
    assert gain == pytest.approx(brute_gain(ground, 1, set(facts_of(paths))), abs=1e-5)
    assert gain != 0


def test_a_fact_of_the_bare_graph_adds_nothing_and_stays(ground: Ground) -> None:
    graph, moves = ground.explainer.graph, 0
    for link in range(ground.num_links):
        path = list(sorted(all_paths(ground, link))[0])
        first, last = ground.batch.edge_ptr[link : link + 2]
        there = np.unique(graph.fact[ground.batch.edges[first:last]][ground.bare[first:last]])
        sets = [[*path, fact] for fact in there.tolist()]
        links = [link] * len(sets)
        (gain,) = ground.gains([link], [path])
        assert ground.gains(links, sets) == pytest.approx([gain] * len(sets), abs=1e-6)
        # An edit of G0 by such a fact takes it out, which moves the score.
        moves += int((np.abs(ground.gains_of(ground.edits(links, sets)) - gain) > 1e-3).sum())
    assert moves


@pytest.mark.parametrize("brute", [brute_effect, brute_gain])
def test_greedy_is_that_of_brute_force(
    ground: Ground, brute: Callable[[Ground, int, set[int]], float]
) -> None:
    search = greedy_search(ground, 2, inserted=brute is brute_gain)
    assert search.exhaustive.all()
    for link in range(ground.num_links):
        paths = sorted(all_paths(ground, link))
        assert search.num_paths[link] == len(paths) > 1
        alone = {path: brute(ground, link, set(path)) for path in paths}
        first = max(alone, key=lambda path: alone[path])
        both = {path: brute(ground, link, {*first, *path}) for path in paths if path != first}
        second = max(both, key=lambda path: both[path])
        assert search.reached[link] == pytest.approx([0, alone[first], both[second]], abs=1e-5)
        assert search.chain[link][0] == first
        assert search.effects(2)[link] == pytest.approx(max(alone[first], both[second]), abs=1e-5)
        assert search.effects_of_all(2)[link] == pytest.approx(both[second], abs=1e-5)
        assert len(search.best(2)[link]) == (2 if both[second] > alone[first] else 1)
    assert np.array_equal(search.effects_or_none(2), np.maximum(search.effects(2), 0))


def test_greedy_says_where_it_did_not_try_all_paths(ground: Ground) -> None:
    search = greedy_search(ground, 1, most=3)
    many = np.array([len(all_paths(ground, link)) > 3 for link in range(ground.num_links)])
    assert many.any()
    assert np.array_equal(search.exhaustive, ~many)
    assert search.num_paths.max() <= 3
    assert (search.effects(1) <= greedy_search(ground, 1).effects(1) + 1e-6).all()


def test_degree_only_takes_the_least_connected_paths(ground: Ground) -> None:
    graph = ground.explainer.graph

    def cost(path: FactPath) -> float:
        ends = []
        for fact in path:
            edge = int(np.flatnonzero(graph.fact == fact)[0])
            ends.append({int(graph.src[edge]), int(graph.dst[edge])})
        inner = [next(iter(a & b)) for a, b in itertools.pairwise(ends)]
        return float(np.log(graph.degree[inner]).sum())

    for link, ranked in enumerate(rank_by_degree(ground, 3)):
        best = sorted(map(cost, all_paths(ground, link)))[:3]
        assert [cost(path) for path in ranked] == pytest.approx(best)


def test_gradient_takes_the_paths_of_highest_gradient(ground: Ground) -> None:
    gain = gradient.arc_gradient(ground)
    graph = ground.explainer.graph
    facts = graph.fact[ground.batch.edges[ground.paths.arc_slot]]
    for link, ranked in enumerate(rank_by_gradient(ground, 2)):
        mine = ground.paths.arcs_of(link)
        of_fact = dict(zip(facts[mine].tolist(), gain[mine].tolist(), strict=True))

        def total(path: FactPath, of_fact: dict[int, float] = of_fact) -> float:
            return sum(of_fact[fact] for fact in path)

        best = sorted(map(total, all_paths(ground, link)), reverse=True)[:2]
        assert [total(path) for path in ranked] == pytest.approx(best, abs=1e-6)


def test_random_paths_are_simple_distinct_and_of_the_asked_lengths(ground: Ground) -> None:
    lengths = [[3, 3]] * ground.num_links
    drawn = [rank_at_random(ground, 2, lengths=lengths, seed=seed) for seed in range(30)]
    assert drawn[0] == rank_at_random(ground, 2, lengths=lengths, seed=0)
    for link in range(ground.num_links):
        known = {path for path in all_paths(ground, link) if len(path) == 3}
        found = [path for each in drawn for path in each[link]]
        assert set(found) <= known
        assert len(set(found)) >= min(len(known), 5)
        assert all(len(set(each[link])) == len(each[link]) == 2 for each in drawn)


def test_a_length_that_no_path_has_gives_no_path(ground: Ground) -> None:
    assert rank_at_random(ground, 1, lengths=[[1]] * ground.num_links, seed=0) == [
        [] for _ in range(ground.num_links)
    ]


def test_paths_of_explanations_are_read_back(ground: Ground) -> None:
    explanations = list(ground.explainer.explain_many(ground.pairs()))
    for link, ranked in enumerate(fact_paths(ground.explainer, explanations)):
        assert set(ranked) <= all_paths(ground, link)
        assert len(ranked) == len(explanations[link].paths) > 0
        shown = explanations[link].evidence
        assert shown is not None
        (effect,) = ground.effects([link], [facts_of(ranked)])
        assert effect == pytest.approx(ground.logits[link] - shown.logit_without_these, abs=1e-5)
