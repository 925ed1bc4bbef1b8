"""A store made of pieces on disk is, byte for byte, the one made of the graph in memory."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support.store_graphs import BUYS, graphs
from torch_geometric.data import HeteroData

from pagelink.errors import BusyError, GraphError, StoreError
from pagelink.graph.reverse_relations import add_reverse_relations
from pagelink.store.facts import _facts, _flagged, _unflagged
from pagelink.store.graph_store import GraphStore
from pagelink.store.writer import MOST_EDGES, StoreWriter, save_store


def write_in_pieces(data: HeteroData, writer: StoreWriter, size: int) -> None:
    for node_type in data.node_types:
        store = data[node_type]
        for first in range(0, max(store.num_nodes, 1), size):
            count = min(size, store.num_nodes - first)
            texts = {f"{k}s": store[k][first : first + size] for k in ("id", "name") if k in store}
            writer.add_nodes(node_type, count, **texts)
        if "x" in store:
            rows = range(0, max(store.num_nodes, 1), size)
            pieces = (store.x[i : i + size].numpy() for i in rows)
            writer.set_features(node_type, pieces, store.x_names)
    for edge_type in data.edge_types:
        edges = data[edge_type].edge_index.numpy()
        for first in range(0, max(edges.shape[1], 1), size):
            writer.add_edges(edge_type, edges[:, first : first + size])
    for edge_type in data.edge_types:
        if "attributes" in data[edge_type]:
            table = data[edge_type].attributes
            pieces = [table.slice(i, size) for i in range(0, table.num_rows, size)]
            writer.set_edge_attributes(edge_type, table.schema, pieces)


@settings(max_examples=40, deadline=None)
@given(graphs(), st.sampled_from([1, 3, 100]), st.booleans())
def test_pieces_make_the_same_store(data: HeteroData, limit: int, add_reverse: bool) -> None:
    for edge_type in data.edge_types:
        if "edge_weight" in data[edge_type]:
            del data[edge_type].edge_weight  # tables have none
    with tempfile.TemporaryDirectory() as folder:
        with StoreWriter(Path(folder) / "pieces", edges_in_memory=limit) as writer:
            write_in_pieces(data, writer, 2)
            made = writer.finish(add_reverse=add_reverse)
        if add_reverse:
            add_reverse_relations(data)
        whole = save_store(data, Path(folder) / "whole")
        assert made.manifest == whole.manifest
        assert made.digest == whole.digest
        for edge_type in data.edge_types:
            assert np.array_equal(made.ends(edge_type), data[edge_type].edge_index.T.numpy())
        files = {file.name for file in made.folder.iterdir()}
        assert files == {file.name for file in whole.folder.iterdir()}
        type(made).open(made.folder, verify=True)


def test_a_relation_that_is_another_one_turned_is_stored_once(tmp_path: Path) -> None:
    data = HeteroData()
    data["user"].num_nodes, data["item"].num_nodes = 3, 2
    data["user", "buys", "item"].edge_index = torch.tensor([[0, 1, 2], [0, 1, 1]])
    data["user", "sees", "item"].edge_index = torch.tensor([[0, 1, 2], [0, 1, 0]])
    data["item", "bought_by", "user"].edge_index = torch.tensor([[0, 1, 1], [0, 1, 2]])
    store = save_store(data, tmp_path / "store")
    assert store.array("edge_index").tolist() == [[0, 0], [1, 1], [2, 1], [0, 0], [1, 1], [2, 0]]
    for edge_type in data.edge_types:
        assert store.data[edge_type].edge_index.tolist() == data[edge_type].edge_index.tolist()


FAULTS = [
    ("have ids or names, some do not", 2, {"ids": ["c", "d"]}),
    ("3 names of 'user' are due, got 2, 0 of them empty", 3, {"names": ["c", "d"]}),
    ("has the node 2, but there are 2 nodes of type 'item'", 2, {"names": ["c", "d"]}),
]


@pytest.mark.parametrize(("message", "count", "texts"), FAULTS)
def test_pieces_that_do_not_fit(
    tmp_path: Path, message: str, count: int, texts: dict[str, list[str]]
) -> None:
    def write() -> None:
        with StoreWriter(tmp_path / "store") as writer:
            writer.add_nodes("user", 2, names=["a", "b"])
            writer.add_nodes("item", 2)
            writer.add_nodes("user", count, **texts)
            writer.add_edges(BUYS, np.array([[0], [2]]))
            writer.finish()

    with pytest.raises(GraphError, match=message):
        write()
    assert not (tmp_path / "store").exists()


def test_edges_and_features_that_cannot_be(tmp_path: Path) -> None:
    with StoreWriter(tmp_path / "store") as writer:
        with pytest.raises(GraphError, match=r"shape \[2, n\], got \[3\]"):
            writer.add_edges(BUYS, np.zeros(3, dtype=np.int64))
        with pytest.raises(GraphError, match="a node below 0"):
            writer.add_edges(BUYS, np.array([[0], [-1]]))
        with pytest.raises(GraphError, match="no nodes of type 'user'"):
            writer.set_features("user", [np.zeros((1, 1))])


def test_two_processes_do_not_make_one_store(tmp_path: Path) -> None:
    out = tmp_path / "store"
    with StoreWriter(out) as first:
        first.add_nodes("user", 2)
        with pytest.raises(BusyError, match="store is being written by process"):
            StoreWriter(out)
        first.add_edges(("user", "knows", "user"), np.array([[0], [1]]))
        first.finish()
    with pytest.raises(StoreError, match="there is a store already"):
        StoreWriter(out)
    assert len(GraphStore.open(out, verify=True).edge_types) == 2


def test_too_many_edges_are_refused_when_they_come(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pagelink.store.writer.MOST_EDGES", 4)

    def write() -> None:
        with StoreWriter(tmp_path / "s") as writer:
            writer.add_nodes("user", 2)
            for _ in range(2):
                writer.add_edges(("user", "knows", "user"), np.array([[0, 1], [1, 0]]))

    with pytest.raises(GraphError, match="Leave out relations"):
        write()
    assert not (tmp_path / "s").exists()


def test_the_last_edges_that_fit_keep_their_flags_and_facts() -> None:
    """The numbers of a graph of just below 2^31 edges, without the graph."""
    last = np.array([MOST_EDGES - 1, MOST_EDGES - 2, 2**30], dtype=np.int32)
    flags = np.array([1, 0, 1], dtype=np.int32)
    for number, flag in zip(_unflagged(_flagged(last, flags)), (last, flags), strict=True):
        assert number.tolist() == flag.tolist()
    # Fact 0 has both directions, fact 1 only the edge from its higher end, fact 2 is a self-loop.
    rows = np.array([[0, 3, 5, 0], [0, 3, 5, 0], [0, 4, 6, 0], [0, 7, 7, 0]], dtype=np.int32)
    edge = np.array([2**30, 2**31 - 3, 2**31 - 2, 2**31 - 1], dtype=np.int32)
    turned = np.array([0, 1, 1, 0], dtype=np.int32)
    ptr, opposite, stands = _facts(rows, edge, turned)
    assert ptr.tolist() == [0, 2, 3, 4]
    assert opposite.tolist() == [2**31 - 3, 2**30, -1, -1]
    assert stands.tolist() == [1, 0, 1, 0]
