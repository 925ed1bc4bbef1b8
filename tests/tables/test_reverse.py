from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch_geometric.data import HeteroData

from pagelink.graph.reverse_relations import relations_without_reverse
from pagelink.graph.schema import EdgeType
from pagelink.graph.typed_graph import TypedGraph
from pagelink.tables.load import load_graph, save_graph

Pairs = list[tuple[int, int]]
LIKES, RATES = ("u", "likes", "v"), ("u", "rates", "v")
LIKED_BY, REV_LIKES = ("v", "liked_by", "u"), ("v", "rev_likes", "u")
KNOWS, REV_KNOWS = ("u", "knows", "u"), ("u", "rev_knows", "u")


def graph(pairs: dict[EdgeType, Pairs]) -> HeteroData:
    data = HeteroData()
    data["u"].num_nodes = data["v"].num_nodes = 4
    for edge_type, edges in pairs.items():
        data[edge_type].edge_index = torch.tensor(edges, dtype=torch.long).view(-1, 2).t()
    return data


@pytest.mark.parametrize(
    ("pairs", "added"),
    [
        ({LIKES: [(0, 1)]}, {REV_LIKES}),
        ({LIKES: []}, {REV_LIKES}),
        ({LIKES: [(0, 1), (0, 2)], REV_LIKES: [(2, 0), (1, 0)]}, set()),
        ({LIKES: [(0, 1)], REV_LIKES: [(3, 3)]}, set()),  # the name says it
        ({LIKES: [(0, 1), (0, 2)], LIKED_BY: [(2, 0), (1, 0), (1, 0)]}, set()),
        ({LIKES: [(0, 1)], LIKED_BY: [(2, 0)]}, {REV_LIKES, ("u", "rev_liked_by", "v")}),
        ({LIKES: [(0, 1)], RATES: [(0, 1)]}, {REV_LIKES, ("v", "rev_rates", "u")}),
        ({KNOWS: [(0, 1), (1, 2)]}, {REV_KNOWS}),
        ({KNOWS: [(0, 1), (1, 0), (1, 1), (1, 0)]}, set()),
        ({KNOWS: [(0, 1), (1, 0), (1, 2)]}, {REV_KNOWS}),
        ({KNOWS: [(2, 2)]}, set()),
        ({KNOWS: []}, {REV_KNOWS}),
    ],
)
def test_what_is_added(tmp_path: Path, pairs: dict[EdgeType, Pairs], added: set[EdgeType]) -> None:
    folder = save_graph(graph(pairs), tmp_path / "graph", with_reverse=True)
    assert set(load_graph(folder, add_reverse=False).edge_types) == set(pairs)
    data = load_graph(folder)
    assert set(data.edge_types) == set(pairs) | added
    for dst, relation, src in added:
        forward = data[src, relation.removeprefix("rev_"), dst]
        assert torch.equal(data[dst, relation, src].edge_index, forward.edge_index.flip(0))


def test_an_added_reverse_is_the_same_fact(tmp_path: Path) -> None:
    folder = save_graph(graph({LIKES: [(0, 1), (2, 3)], KNOWS: [(0, 1)]}), tmp_path / "graph")
    both = TypedGraph.from_data(load_graph(folder))
    one = TypedGraph.from_data(load_graph(folder, add_reverse=False))
    assert both.num_edges == 2 * one.num_edges
    assert both.degree.tolist() == one.degree.tolist()


@pytest.mark.parametrize(
    ("pairs", "written"),
    [
        ({LIKES: [(0, 1), (2, 3)], REV_LIKES: [(1, 0), (3, 2)]}, {LIKES}),
        # In another order, or with other edges, it is not what loading would add.
        ({LIKES: [(0, 1), (2, 3)], REV_LIKES: [(3, 2), (1, 0)]}, {LIKES, REV_LIKES}),
        ({LIKES: [(0, 1)], REV_LIKES: [(3, 2)]}, {LIKES, REV_LIKES}),
        # Loading adds no reverse to a relation that is symmetric, ...
        ({KNOWS: [(0, 1), (1, 0)], REV_KNOWS: [(1, 0), (0, 1)]}, {KNOWS, REV_KNOWS}),
        # ... or that mirrors another one.
        (
            {LIKES: [(0, 1)], REV_LIKES: [(1, 0)], LIKED_BY: [(1, 0)]},
            {LIKES, REV_LIKES, LIKED_BY},
        ),
    ],
)
def test_what_is_written(
    tmp_path: Path, pairs: dict[EdgeType, Pairs], written: set[EdgeType]
) -> None:
    data = graph(pairs)
    folder = save_graph(data, tmp_path / "graph")
    names = {"edges-" + "__".join(edge_type) + ".csv" for edge_type in written}
    assert {file.name for file in folder.glob("edges-*")} == names
    assert set(pairs) <= set(load_graph(folder).edge_types)
    for edge_type in pairs:
        loaded = load_graph(folder)[edge_type].edge_index
        assert torch.equal(loaded, data[edge_type].edge_index)


def test_a_reverse_with_other_attributes_is_written(tmp_path: Path) -> None:
    data = graph({LIKES: [(0, 1)], REV_LIKES: [(1, 0)]})
    data[LIKES].attributes = pa.table({"weight": [1.5]})
    for value, name in ((2.5, "other"), (1.5, "equal")):
        data[REV_LIKES].attributes = pa.table({"weight": [value]})
        folder = save_graph(data, tmp_path / name)
        assert (folder / "edges-v__rev_likes__u.csv").exists() == (name == "other")
        assert load_graph(folder)[REV_LIKES].attributes["weight"].to_pylist() == [value]


pairs = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), max_size=4)
types = st.sampled_from([LIKES, RATES, LIKED_BY, REV_LIKES, KNOWS, REV_KNOWS, ("u", "meets", "u")])


@given(st.dictionaries(types, pairs, min_size=1))
def test_relations_without_reverse_are_those_of_typed_graph(drawn: dict[EdgeType, Pairs]) -> None:
    data = graph(drawn)
    found = relations_without_reverse({t: data[t].edge_index.numpy() for t in data.edge_types})
    paired = TypedGraph.from_data(data).reverse
    assert found == [
        t for t in drawn
        if t not in paired
        and not (t[0] == t[2] and drawn[t] and {(b, a) for a, b in drawn[t]} == set(drawn[t]))
    ]  # fmt: skip


def test_large_indices_do_not_overflow() -> None:
    far = 2**31 - 1
    edges = np.array([[far, 0, far - 1], [0, far, far]])
    assert relations_without_reverse({KNOWS: edges}) == [KNOWS]
    assert relations_without_reverse({KNOWS: edges[:, :2]}) == []
