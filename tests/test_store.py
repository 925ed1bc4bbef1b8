"""A graph on disk is the graph in memory, array by array; a damaged one is refused by file."""

from __future__ import annotations

import tempfile
import warnings
from pathlib import Path

import numpy as np
import pyarrow as pa
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_geometric.data import HeteroData

from pagelink.graph import EdgeType, TypedGraph
from pagelink.graph_schema import graph_schema
from pagelink.store import FLAT_ARRAYS, GraphStore, save_store

BUYS: EdgeType = ("user", "buys", "item")
WORDS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=6)


@st.composite
def graphs(draw: st.DrawFn) -> HeteroData:
    """Multigraphs with copies, self-loops, parallel relations, mirrors, names and tables."""
    data = HeteroData()
    sizes = {"user": draw(st.integers(0, 5)), "item": draw(st.integers(1, 5)), "tag": 2}
    for node_type, size in sizes.items():
        data[node_type].num_nodes = size
        if draw(st.booleans()):
            data[node_type].id = [f"{node_type}{i}" for i in range(size)]
        if draw(st.booleans()):
            data[node_type].name = draw(st.lists(WORDS, min_size=size, max_size=size))
        elif "id" in data[node_type] and draw(st.booleans()):
            data[node_type].name = [*data[node_type].id]
        if draw(st.booleans()):
            data[node_type].x = torch.rand(size, 3)
            data[node_type].x_names = ["a", "b", "c"]
    named = [
        BUYS, ("user", "sees", "item"), ("item", "rev_buys", "user"), ("item", "seen_by", "user"),
        ("item", "like", "item"), ("item", "as", "item"), ("user", "knows", "user"),
    ]  # fmt: skip
    mirrored = draw(st.booleans())
    for edge_type in draw(st.lists(st.sampled_from(named), unique=True, min_size=1)):
        ends = (sizes[edge_type[0]] - 1, sizes[edge_type[2]] - 1)
        pair = st.tuples(*(st.integers(0, max(end, 0)) for end in ends))
        most = 12 if min(ends) >= 0 else 0
        edges = torch.tensor(draw(st.lists(pair, max_size=most)), dtype=torch.long).view(-1, 2).t()
        turned = ("user", "sees", "item")
        if mirrored and edge_type == ("item", "seen_by", "user") and turned in data.edge_types:
            edges = data[turned].edge_index.flip(0).flip(1)
        data[edge_type].edge_index = edges.contiguous()
        count = edges.shape[1]
        if draw(st.booleans()):
            words = pa.array(["é", None, "x"] * count, pa.string())[:count]
            data[edge_type].attributes = pa.table(
                {"when": pa.array(range(count), pa.int64()), "why": words}
            )
        if draw(st.booleans()):
            data[edge_type].edge_weight = torch.rand(count)
    return data


def assert_same_graph(stored: TypedGraph, made: TypedGraph) -> None:
    for name in (*FLAT_ARRAYS, "node_offset", "relation_class", "node_type_of"):
        ours, theirs = getattr(stored, name), getattr(made, name)
        assert ours.dtype == theirs.dtype, name
        np.testing.assert_array_equal(ours, theirs, name)
    for name in ("ptr", "values"):
        ours, theirs = (getattr(g.edges_of_facts, name) for g in (stored, made))
        assert ours.dtype == theirs.dtype
        np.testing.assert_array_equal(ours, theirs)
    for name in ("node_types", "edge_types", "edge_counts", "mask_sizes", "reverse", "num_facts"):
        assert getattr(stored, name) == getattr(made, name), name
    for name in ("names", "ids", "attributes"):
        ours, theirs = getattr(stored, name), getattr(made, name)
        assert ours.keys() == theirs.keys()
        assert all(ours[key] == theirs[key] for key in ours), name
    for edge_type in made.edge_types:
        assert stored.near_reverses(edge_type) == made.near_reverses(edge_type)


def assert_same_data(stored: HeteroData, made: HeteroData) -> None:
    assert stored.node_types == made.node_types
    assert stored.edge_types == made.edge_types
    for kind in (*made.node_types, *made.edge_types):
        assert [*stored[kind].keys()] == [*made[kind].keys()] or kind in made.node_types
        assert {*stored[kind].keys()} == {*made[kind].keys()}
        for key, value in made[kind].items():
            ours = stored[kind][key]
            if isinstance(value, torch.Tensor):
                assert ours.dtype == value.dtype
                assert torch.equal(ours, value), (kind, key)
            else:
                assert ours == value, (kind, key)


@settings(max_examples=60, deadline=None)
@given(graphs())
def test_a_stored_graph_is_the_graph(data: HeteroData) -> None:
    with tempfile.TemporaryDirectory() as folder:
        save_store(data, Path(folder) / "store")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            store = GraphStore.open(Path(folder) / "store", verify=True)
            assert_same_data(store.data, data)
            assert_same_graph(store.graph(), TypedGraph.from_data(data))
            assert store.schema == graph_schema(data) == graph_schema(store.data)
            link = ("user", "wants", "tag")
            assert_same_graph(store.graph([link, BUYS]), TypedGraph.from_data(data, [link, BUYS]))
