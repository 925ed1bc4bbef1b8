from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from torch_geometric.data import HeteroData

from pagelink.datasets.folders import DataNotFoundError, find_data
from pagelink.datasets.ground_truth import Labels, Rule, find_labelled_pairs
from pagelink.datasets.useritemattr import UserItemAttr, generate_useritemattr
from pagelink.errors import GraphError, SettingsError
from pagelink.graph.typed_graph import TypedGraph

Node = tuple[str, int]
Fact = tuple[str, str, str, int, int]


# Ground truth, against brute force


def random_data(seed: int) -> HeteroData:
    """A small multigraph: parallel relations, self-loops, duplicates, one relation with reverse."""
    rng = np.random.default_rng(seed)
    data = HeteroData()
    sizes = {"a": 5, "b": 6, "c": 3}
    for node_type, size in sizes.items():
        data[node_type].num_nodes = size
    for edge_type, count in {
        ("a", "r", "b"): 9,
        ("a", "s", "b"): 5,
        ("b", "t", "c"): 7,
        ("b", "u", "b"): 6,
        ("c", "v", "a"): 4,
    }.items():
        ends = [rng.integers(sizes[edge_type[i]], size=count) for i in (0, 2)]
        data[edge_type].edge_index = torch.from_numpy(np.stack(ends))
    data["b", "rev_r", "a"].edge_index = data["a", "r", "b"].edge_index.flip(0)
    return data


def facts_of(data: HeteroData) -> dict[Node, list[tuple[Node, Fact]]]:
    """Return, for every node, its neighbours by each fact, and the stored edge that is walked."""
    around: dict[Node, list[tuple[Node, Fact]]] = {
        (t, i): [] for t in data.node_types for i in range(data[t].num_nodes)
    }
    for src_type, relation, dst_type in data.edge_types:
        if relation == "rev_r":
            continue
        edges = {(a, b) for a, b in data[src_type, relation, dst_type].edge_index.T.tolist()}
        done = set()
        for a, b in sorted(edges):
            src, dst = (src_type, a), (dst_type, b)
            if src == dst or frozenset((src, dst)) in done:
                continue
            done.add(frozenset((src, dst)))
            forth = (src_type, relation, dst_type, a, b)
            back = forth
            if relation == "r":
                back = ("b", "rev_r", "a", b, a)
            elif src_type == dst_type and (b, a) in edges:
                back = (src_type, relation, dst_type, b, a)
            around[src].append((dst, forth))
            around[dst].append((src, back))
    return around


def brute_force(
    data: HeteroData, ends: tuple[str, str], max_length: int, max_degree: int, rule: Rule
) -> Labels:
    """Return all qualifying paths of all pairs that no fact joins, best first."""
    around = facts_of(data)
    rank = {node: len(arcs) for node, arcs in around.items()}
    few = {node for node in rank if rank[node] <= max_degree}
    if rule == "released":
        around = {
            node: [arc for arc in arcs if arc[0] in few] if node in few else []
            for node, arcs in around.items()
        }
        rank = {node: len(arcs) for node, arcs in around.items()}

    def walks(path: list[Node], steps: list[Fact]) -> Iterator[tuple[list[Node], list[Fact]]]:
        if steps:
            yield path, steps
        if len(steps) < max_length and (len(path) == 1 or path[-1] in few):
            for node, fact in around[path[-1]]:
                if node not in path:
                    yield from walks([*path, node], [*steps, fact])

    found: dict[tuple[int, int], list[tuple[float, list[tuple[Node, str]], tuple[Fact, ...]]]] = {}
    for src in (node for node in around if node[0] == ends[0]):
        joined = {node for node, _ in around[src]}
        for path, steps in walks([src], []):
            if path[-1][0] == ends[1] and path[-1] not in joined:
                inner = [rank[node] for node in path[1:-1]]
                cost = float(np.prod(inner) if rule == "released" else np.sum(inner))
                # Types and relations of `random_data` are in the order of the alphabet.
                relations = [step[1].removeprefix("rev_") for step in steps]
                ties = list(zip(path[1:], relations, strict=True))
                link = src[1], path[-1][1]
                found.setdefault(link, []).append((cost, ties, tuple(steps)))
    return {link: [steps for _, _, steps in sorted(paths)] for link, paths in found.items()}


@pytest.mark.parametrize("rule", ["paper", "released"])
@pytest.mark.parametrize("ends", [("a", "b"), ("b", "b"), ("c", "a")])
@pytest.mark.parametrize(("max_length", "max_degree"), [(3, 6), (2, 7), (4, 7)])
def test_labels_agree_with_brute_force(
    rule: Rule, ends: tuple[str, str], max_length: int, max_degree: int
) -> None:
    num_paths = 0
    for seed in range(8):
        data = random_data(seed)
        expected = brute_force(data, ends, max_length, max_degree, rule)
        found = find_labelled_pairs(
            TypedGraph.from_data(data), *ends,
            max_length=max_length, max_degree=max_degree, max_paths=3, rule=rule,
        )  # fmt: skip
        assert found.labels() == {link: paths[:3] for link, paths in expected.items()}
        assert list(found.labels()) == sorted(expected)
        num_paths += len(found.arcs)
    assert num_paths > 20


def two_roads() -> HeteroData:
    """User 0 reaches item 2 by item 0 and user 1, and by item 1 and user 2."""
    data = HeteroData()
    data["user"].num_nodes = data["item"].num_nodes = 3
    data["user", "buys", "item"].edge_index = torch.tensor([[0, 0, 1, 1, 2, 2], [0, 1, 0, 2, 1, 2]])
    data["item", "bought_by", "user"].edge_index = data["user", "buys", "item"].edge_index.flip(0)
    return data


def road(item: int, user: int) -> tuple[Fact, ...]:
    return (
        ("user", "buys", "item", 0, item),
        ("item", "bought_by", "user", item, user),
        ("user", "buys", "item", user, 2),
    )


def test_equal_paths_are_ordered_by_their_nodes() -> None:
    labels = find_labelled_pairs(TypedGraph.from_data(two_roads()), "user", "item").labels()
    assert labels[0, 2] == [road(0, 1), road(1, 2)]


def test_max_degree_means_at_most_and_spares_the_ends_in_the_paper_only() -> None:
    data = two_roads()
    # Item 0 gets two attributes, and so four facts; user 0, an end, gets five.
    data["attr"].num_nodes = 2
    data["item", "has", "attr"].edge_index = torch.tensor([[0, 0], [0, 1]])
    data["user", "knows", "attr"].edge_index = torch.tensor([[0, 0], [0, 1]])
    data["user", "met", "attr"].edge_index = torch.tensor([[0], [0]])
    graph = TypedGraph.from_data(data)
    assert graph.degree[[graph.flat_index("item", 0), graph.flat_index("user", 0)]].tolist() == [
        4, 5
    ]  # fmt: skip

    def roads(rule: Rule, max_degree: int) -> list[tuple[Fact, ...]]:
        found = find_labelled_pairs(graph, "user", "item", max_degree=max_degree, rule=rule)
        return found.labels().get((0, 2), [])

    assert roads("paper", 4) == [road(1, 2), road(0, 1)]
    assert roads("paper", 3) == [road(1, 2)]
    assert roads("released", 4) == []
    assert roads("released", 5) == [road(1, 2), road(0, 1)]


def test_pairs_joined_already_are_left_out() -> None:
    graph = TypedGraph.from_data(two_roads())
    assert (0, 0) not in find_labelled_pairs(graph, "user", "item").labels()


def test_labels_of_chosen_pairs() -> None:
    found = find_labelled_pairs(TypedGraph.from_data(two_roads()), "user", "item")
    labels = found.labels()
    assert found.labels(np.array([1])) == {list(labels)[1]: list(labels.values())[1]}


def test_nothing_found_is_no_error() -> None:
    graph = TypedGraph.from_data(two_roads())
    found = find_labelled_pairs(graph, "user", "item", max_degree=1)
    assert (len(found), found.labels(), found.path_ptr.tolist()) == (0, {}, [0])


def test_ground_truth_refuses_what_makes_no_sense() -> None:
    graph = TypedGraph.from_data(two_roads())
    with pytest.raises(SettingsError, match="max_paths must be at least 1, got 0"):
        find_labelled_pairs(graph, "user", "item", max_paths=0)
    with pytest.raises(SettingsError, match="Did you mean 'released'"):
        find_labelled_pairs(graph, "user", "item", rule="release")  # type: ignore[arg-type]
    with pytest.raises(GraphError, match="Did you mean 'item'"):
        find_labelled_pairs(graph, "user", "items")


# UserItemAttr


@pytest.fixture(scope="module")
def generated() -> UserItemAttr:
    return generate_useritemattr(seed=0)


def edges_of(data: HeteroData) -> set[Fact]:
    return {
        (*edge_type, src, dst)
        for edge_type in data.edge_types
        for src, dst in data[edge_type].edge_index.T.tolist()
    }


def degrees(data: HeteroData, node_type: str) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    counts = [
        torch.bincount(data[t].edge_index[0], minlength=data[node_type].num_nodes)
        for t in data.edge_types
        if t[0] == node_type
    ]
    return torch.stack(counts).sum(dim=0).numpy()


def test_sizes_names_and_reverses(generated: UserItemAttr) -> None:
    data = generated.data
    assert {t: data[t].num_nodes for t in data.node_types} == {
        "user": 100, "item": 100, "attr": 50
    }  # fmt: skip
    assert (data["user"].name[3], data["item"].name[35], data["attr"].name[7]) == (
        "User 3", "Item 35", "Attr 7"
    )  # fmt: skip
    # What users prefer is hidden, and what they like is for prediction only.
    assert set(data.edge_types) == {
        ("user", "buys", "item"), ("item", "bought_by", "user"),
        ("item", "has", "attr"), ("attr", "of", "item"),
    }  # fmt: skip
    assert (data["user", "buys", "item"].num_edges, data["item", "has", "attr"].num_edges) == (
        1222, 227
    )  # fmt: skip
    reverse = {"buys": "bought_by", "bought_by": "buys", "has": "of", "of": "has"}
    edges = edges_of(data)
    assert len(edges) == 2 * (1222 + 227)
    assert {(d, reverse[r], s, b, a) for s, r, d, a, b in edges} == edges


def test_likes_have_valid_paths_and_no_buys(generated: UserItemAttr) -> None:
    edges = edges_of(generated.data)
    likes = [(user, item) for user, item in generated.likes.T.tolist()]
    assert likes == sorted(generated.labels)
    degree = {t: degrees(generated.data, t) for t in generated.data.node_types}
    for (user, item), paths in generated.labels.items():
        assert ("user", "buys", "item", user, item) not in edges
        assert degree["user"][user] <= 15
        assert degree["item"][item] <= 15
        assert 1 <= len(paths) <= 5
        for path in paths:
            assert len(path) == 3
            assert set(path) <= edges
            nodes = [(path[0][0], path[0][3])] + [(step[2], step[4]) for step in path]
            assert [(step[0], step[3]) for step in path] == nodes[:-1]
            assert (nodes[0], nodes[-1]) == (("user", user), ("item", item))
            assert len(set(nodes)) == 4
            assert all(degree[t][i] <= 15 for t, i in nodes[1:-1])


def test_buys_follow_preferences_and_similar_users() -> None:
    # One attribute is wanted, by half of the users. All that is bought has it; who does not want
    # it buys nothing: neither is similar to anyone.
    options = {"num_wanted": 1, "max_prefers": 1, "items_per_user": 40, "num_has": 800}
    data = generate_useritemattr(**options, num_buys=480, seed=3).data  # type: ignore[arg-type]
    users, items = data["user", "buys", "item"].edge_index.tolist()
    attrs: dict[int, set[int]] = {item: set() for item in items}
    for item, attr in data["item", "has", "attr"].edge_index.T.tolist():
        attrs.get(item, set()).add(attr)
    assert set.intersection(*attrs.values())
    assert 30 < len(set(users)) < 70
    # No two users have 50 items in common, so there is nothing to learn from others.
    with pytest.raises(SettingsError, match="there are only 0"):
        generate_useritemattr(**options, num_buys=480, min_shared=50, seed=3)  # type: ignore[arg-type]


def test_defaults_resemble_the_released_graph() -> None:
    # The released graph: 714 links of 1.63 paths; the degrees of users deviate by 7.9, those of
    # items by 8.9; 11 items are bought by no one.
    graphs = [generate_useritemattr(seed=seed) for seed in range(10)]
    links = np.array([graph.likes.shape[1] for graph in graphs])
    paths = [np.mean([len(p) for p in graph.labels.values()]) for graph in graphs]
    users = [degrees(graph.data, "user").std() for graph in graphs]
    items = [degrees(graph.data, "item").std() for graph in graphs]
    unsold = [100 - len(g.data["user", "buys", "item"].edge_index[1].unique()) for g in graphs]
    assert links.min() < 714 < links.max()
    assert np.mean(links) == pytest.approx(714, rel=0.2)
    assert np.mean(paths) == pytest.approx(1.63, rel=0.15)
    assert np.mean(users) == pytest.approx(7.9, rel=0.15)
    assert np.mean(items) == pytest.approx(8.9, rel=0.2)
    assert np.mean(unsold) == pytest.approx(11, abs=4)


def test_same_seed_same_graph_and_no_global_randomness(generated: UserItemAttr) -> None:
    before = torch.get_rng_state(), str(np.random.get_state())
    again, other = generate_useritemattr(seed=0), generate_useritemattr(seed=1)
    assert torch.equal(torch.get_rng_state(), before[0])
    assert str(np.random.get_state()) == before[1]
    assert again.labels == generated.labels
    assert edges_of(again.data) == edges_of(generated.data)
    assert edges_of(other.data) != edges_of(generated.data)


def test_a_sample_of_likes_is_a_part_of_all(generated: UserItemAttr) -> None:
    sample = generate_useritemattr(num_likes=50, seed=0)
    assert sample.likes.shape == (2, 50)
    assert [(user, item) for user, item in sample.likes.T.tolist()] == sorted(sample.labels)
    assert edges_of(sample.data) == edges_of(generated.data)
    assert {link: generated.labels[link] for link in sample.labels} == sample.labels
    everything: Labels = generate_useritemattr(rule="paper", seed=0).labels
    assert generated.labels.keys() < everything.keys()


def test_sizes_that_do_not_go_together_are_refused() -> None:
    for arguments, message in (
        ({"num_has": 99}, "num_has must be in 100..5000"),
        ({"max_prefers": 36}, "max_prefers <= num_wanted"),
        ({"items_per_user": 101}, "items_per_user must be in 0..100"),
        ({"num_buys": 100}, "Raise num_buys"),
        ({"num_buys": 9000}, "Lower num_buys"),
        ({"num_likes": 9000}, "pairs of this graph qualify"),
    ):
        with pytest.raises(SettingsError, match=message):
            generate_useritemattr(**arguments)  # type: ignore[arg-type]


# Where the data is


def test_data_is_found_by_path_then_variable_then_neighbourhood(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = tmp_path / "given"
    by_variable = tmp_path / "all" / "mine"
    shared = tmp_path / "shared" / "data" / "mine"
    for folder in (given, by_variable, shared, tmp_path / "project"):
        folder.mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "project")
    monkeypatch.delenv("PAGELINK_DATA", raising=False)
    assert find_data("mine") == shared
    monkeypatch.setenv("PAGELINK_DATA", str(tmp_path / "all"))
    assert find_data("mine") == by_variable
    assert find_data("mine", given) == given


def test_missing_data_says_where_it_was_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PAGELINK_DATA", str(tmp_path))
    with pytest.raises(DataNotFoundError, match=f"is not at {tmp_path / 'mine'}.*PAGELINK_DATA"):
        find_data("mine")
    monkeypatch.delenv("PAGELINK_DATA")
    monkeypatch.chdir(tmp_path)
    looked = tmp_path.parent / "shared" / "data" / "no-such-data"
    with pytest.raises(DataNotFoundError, match=f"is not at {looked} or "):
        find_data("no-such-data")
