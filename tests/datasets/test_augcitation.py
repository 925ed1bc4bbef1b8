from __future__ import annotations

from itertools import pairwise, permutations, product

import numpy as np
import pytest
import torch
from torch_geometric.data import HeteroData

from pagelink.datasets.augcitation import build_augcitation
from pagelink.datasets.ground_truth import Labels
from pagelink.errors import GraphError, SettingsError
from pagelink.graph.reverse_relations import add_reverse_relations
from pagelink.graph.schema import EdgeType

Node = tuple[str, int]

SIZES = {"author": 4, "field": 3, "paper": 6, "reference": 2}
RELATIONS: dict[EdgeType, int] = {
    ("author", "reviews", "paper"): 2,
    ("author", "writes", "paper"): 7,
    ("paper", "cites", "paper"): 6,
    ("paper", "cites", "reference"): 5,
    ("paper", "in", "field"): 7,
}


def citation_graph(seed: int, add_reverse: bool = True) -> HeteroData:
    """A small multigraph with parallel relations, duplicates and papers that cite themselves."""
    rng = np.random.default_rng(seed)
    data = HeteroData()
    for node_type, size in SIZES.items():
        data[node_type].num_nodes = size
        data[node_type].name = [f"{node_type} no. {i}" for i in range(size)]
    for edge_type, count in RELATIONS.items():
        ends = [rng.integers(SIZES[edge_type[i]], size=count) for i in (0, 2)]
        data[edge_type].edge_index = torch.from_numpy(np.stack(ends))
    if add_reverse:
        add_reverse_relations(data)
    return data


def brute_force(data: HeteroData, max_length: int, max_degree: int) -> Labels:
    """Try every sequence of nodes between every author and every paper."""
    stored: dict[tuple[Node, Node], set[EdgeType]] = {}
    for edge_type in RELATIONS:
        for a, b in data[edge_type].edge_index.T.tolist():
            if (edge_type[0], a) != (edge_type[2], b):
                stored.setdefault(((edge_type[0], a), (edge_type[2], b)), set()).add(edge_type)
    backwards = ("paper", "rev_writes", "author") in data.edge_types

    def relations_between(u: Node, v: Node) -> list[EdgeType]:
        both = stored.get((u, v), set()) | stored.get((v, u), set())
        return sorted(both, key=list(RELATIONS).index)

    def step(u: Node, v: Node, edge_type: EdgeType) -> tuple[str, str, str, int, int]:
        if edge_type in stored.get((u, v), set()):
            return (*edge_type, u[1], v[1])
        if backwards:
            return edge_type[2], f"rev_{edge_type[1]}", edge_type[0], u[1], v[1]
        return (*edge_type, v[1], u[1])

    nodes = [(t, i) for t in data.node_types for i in range(SIZES[t])]
    degree = {u: sum(len(relations_between(u, v)) for v in nodes) for u in nodes}
    labels: Labels = {}
    for author, paper in product(range(SIZES["author"]), range(SIZES["paper"])):
        ends = ("author", author), ("paper", paper)
        if relations_between(*ends):
            continue
        inner_nodes = [n for n in nodes if n not in ends and degree[n] <= max_degree]
        found = []
        for length in range(2, max_length + 1):
            for inner in permutations(inner_nodes, length - 1):
                walk = (ends[0], *inner, ends[1])
                hops = list(pairwise(walk))
                for relations in product(*(relations_between(u, v) for u, v in hops)):
                    path = tuple(step(u, v, r) for (u, v), r in zip(hops, relations, strict=True))
                    order = [
                        (nodes.index(v), list(RELATIONS).index(r))
                        for (_, v), r in zip(hops, relations, strict=True)
                    ]
                    found.append((sum(degree[n] for n in inner), order, path))
        if found:
            labels[author, paper] = [path for _, _, path in sorted(found)]
    return labels


@pytest.mark.parametrize("add_reverse", [True, False])
@pytest.mark.parametrize(("max_length", "max_degree"), [(3, 30), (3, 5), (2, 5)])
def test_labels_are_those_of_the_rule(add_reverse: bool, max_length: int, max_degree: int) -> None:
    most = cut = 0
    for seed in range(6):
        data = citation_graph(seed, add_reverse)
        expected = brute_force(data, max_length, max_degree)
        built = build_augcitation(
            data, num_likes=None, max_length=max_length, max_degree=max_degree, max_paths=2
        )
        assert built.labels == {link: paths[:2] for link, paths in expected.items()}
        assert built.num_qualifying == len(expected)
        most += sum(len(paths) for paths in expected.values())
        cut += sum(len(paths) > 2 for paths in expected.values())
    assert most > 20
    assert max_length == 2 or cut > 0


def test_likes_are_a_seeded_sample_without_repetition() -> None:
    data = citation_graph(1)
    everything = build_augcitation(data, num_likes=None)
    samples = [build_augcitation(data, num_likes=7, seed=seed) for seed in range(40)]
    for sample in samples:
        links = [(author, paper) for author, paper in sample.likes.T.tolist()]
        assert len(links) == 7
        assert links == sorted(set(links)) == list(sample.labels)
        assert {link: everything.labels[link] for link in links} == sample.labels
        assert sample.num_qualifying == everything.num_qualifying > 7
    again = build_augcitation(data, num_likes=7, seed=3)
    assert torch.equal(again.likes, samples[3].likes)
    assert not torch.equal(samples[3].likes, samples[4].likes)
    # Every pair has its chance.
    assert {link for sample in samples for link in sample.labels} == set(everything.labels)


def test_no_liked_pair_is_joined_by_any_base_edge() -> None:
    for seed in range(6):
        data = citation_graph(seed)
        joined = {
            (a, b)
            for relation in ("writes", "reviews")
            for a, b in data["author", relation, "paper"].edge_index.T.tolist()
        }
        labels = build_augcitation(data, num_likes=None).labels
        assert labels
        assert not joined & labels.keys()


def test_the_graph_gets_one_relation_more_and_the_one_given_stays() -> None:
    graph = citation_graph(0)
    before = {t: graph[t].edge_index.clone() for t in graph.edge_types}
    built = build_augcitation(graph, num_likes=3)
    assert built.link_type == ("author", "likes", "paper")
    assert list(graph.edge_types) == list(before)
    assert list(built.data.edge_types) == [*before, built.link_type]
    for edge_type, edge_index in before.items():
        assert torch.equal(built.data[edge_type].edge_index, edge_index)
    assert torch.equal(built.data[built.link_type].edge_index, built.likes)
    assert built.data["field"].name == graph["field"].name


def test_other_types_and_the_released_rule() -> None:
    graph = citation_graph(2)
    built = build_augcitation(
        graph, num_likes=None, author="paper", paper="field", relation="fits", rule="released",
        max_degree=6,
    )  # fmt: skip
    assert built.link_type == ("paper", "fits", "field")
    by_paper = build_augcitation(
        graph, num_likes=None, author="paper", paper="field", relation="fits", max_degree=6
    )
    # As released, hubs are no ends of links either.
    assert built.labels.keys() < by_paper.labels.keys()


def test_what_cannot_be_built_is_refused() -> None:
    graph = citation_graph(0)
    count = build_augcitation(graph, num_likes=None).num_qualifying
    for num_likes in (0, -1, count + 1):
        message = rf"num_likes must be in 1\.\.{count}.*got {num_likes}"
        with pytest.raises(SettingsError, match=message):
            build_augcitation(graph, num_likes=num_likes)
    with pytest.raises(SettingsError, match="No pair of author and paper qualifies"):
        build_augcitation(graph, num_likes=None, max_length=1)
    with pytest.raises(SettingsError, match="max_length must be at least 1"):
        build_augcitation(graph, max_length=0)
    with pytest.raises(GraphError, match="Did you mean 'author'"):
        build_augcitation(graph, author="authors")
    once = build_augcitation(graph, num_likes=3).data
    with pytest.raises(GraphError, match=r"has the relation .*likes.* already"):
        build_augcitation(once, num_likes=3)
