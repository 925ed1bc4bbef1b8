"""A graph on disk is the graph in memory, array by array; a damaged one is refused by file."""

from __future__ import annotations

import json
import os
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support.store_graphs import BUYS, WORDS, graphs
from torch_geometric.data import HeteroData

from pagelink.errors import LinkError, StoreError
from pagelink.graph.schema import graph_schema
from pagelink.graph.typed_graph import TypedGraph
from pagelink.store.graph_store import FLAT_ARRAYS, GraphStore
from pagelink.store.manifest import HALF_WRITTEN, MANIFEST, is_store
from pagelink.store.strings import StoredStrings, string_arrays
from pagelink.store.writer import save_store


def assert_same_graph(stored: TypedGraph, made: TypedGraph) -> None:
    for name in (*FLAT_ARRAYS, "node_offset", "relation_class", "node_type_of"):
        ours, theirs = getattr(stored, name), getattr(made, name)
        assert ours.dtype == theirs.dtype, name
        np.testing.assert_array_equal(ours, theirs, name)
    for name in ("ptr", "values"):
        ours, theirs = (getattr(g.edges_of_facts, name) for g in (stored, made))
        np.testing.assert_array_equal(ours, theirs)
    for name in ("node_types", "edge_types", "edge_counts", "mask_sizes", "reverse", "num_facts"):
        assert getattr(stored, name) == getattr(made, name), name
    for name in ("names", "ids", "attributes"):
        ours, theirs = getattr(stored, name), getattr(made, name)
        assert ours.keys() == theirs.keys()
        assert all(ours[key] == theirs[key] for key in ours), name
    assert stored.near_reverses(made.edge_types) == made.near_reverses(made.edge_types)


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


@settings(max_examples=40, deadline=None)
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
            links = [("user", "wants", "tag"), BUYS]
            made = TypedGraph.from_data(data, links)
            known = store.manifest["relation_class"]
            if made.relation_class[: len(known)].tolist() == known:
                assert_same_graph(store.graph(links), made)
            else:  # a link type takes the reverse by its name that a mirror had before
                with pytest.raises(StoreError, match="other reverse relations"):
                    store.graph(links)


# Names


@given(st.lists(WORDS, max_size=30), WORDS)
def test_texts_are_found_where_they_are(texts: list[str], other: str) -> None:
    strings = StoredStrings(*string_arrays(pa.array(texts, pa.string())))
    assert strings == texts
    assert [*strings] == [strings[i] for i in range(len(texts))] == texts
    assert strings[1:3] == texts[1:3]
    for text in {*texts, other}:
        assert strings.find(text) == [i for i, each in enumerate(texts) if each == text]
        assert (text in strings) == (text in texts)
    with pytest.raises(IndexError, match="out of range"):
        strings[len(texts)]


def small() -> HeteroData:
    data = HeteroData()
    data["user"].num_nodes = 3
    data["user"].id, data["user"].name = ["1", "2", "3"], ["Ada", "Bo", "Ada"]
    data["item"].num_nodes = 2
    data["item"].x = torch.tensor([[1.0], [2.0]])
    data[BUYS].edge_index = torch.tensor([[0, 1, 2], [0, 1, 1]])
    data["item", "bought_by", "user"].edge_index = torch.tensor([[1, 0, 1], [2, 0, 1]])
    data[BUYS].attributes = pa.table({"when": ["May", "June", None]})
    return data


@pytest.fixture
def stored(tmp_path: Path) -> GraphStore:
    return save_store(small(), tmp_path / "store")


@pytest.mark.parametrize("key", ["Ada", "Bo", "Cy", "id:2", "id:9", "Boo", "1", 2, "id:Bo"])
def test_nodes_are_found_as_in_memory(stored: GraphStore, key: str | int) -> None:
    def found(graph: TypedGraph) -> object:
        try:
            return graph.find_node("user", key)
        except LinkError as error:
            return str(error)

    assert found(stored.graph()) == found(TypedGraph.from_data(small()))


def test_what_is_known_of_an_edge_is_read_from_the_store(stored: GraphStore) -> None:
    graph = stored.graph()
    assert graph.edge_column(BUYS, "when") == ["May", "June", None]
    assert [graph.edge_attributes(e) for e in range(graph.num_edges)] == [
        TypedGraph.from_data(small()).edge_attributes(e) for e in range(graph.num_edges)
    ]


# Reverses


def test_reverses_that_are_stored_can_be_given_and_others_not(stored: GraphStore) -> None:
    pairs = {BUYS: ("item", "bought_by", "user")}
    assert_same_graph(stored.graph(reverse=pairs), TypedGraph.from_data(small(), reverse=pairs))
    with pytest.raises(StoreError, match="made with other reverse relations"):
        stored.graph(reverse={})


def test_a_link_type_whose_name_makes_other_pairs_is_refused(stored: GraphStore) -> None:
    # By its name it would be the reverse of `buys`, whose reverse by its edges is `bought_by`.
    with pytest.raises(StoreError, match="made with other reverse relations"):
        stored.graph([("item", "rev_buys", "user")])


# Writing to what is mapped


def test_what_a_user_writes_to_never_reaches_the_files(stored: GraphStore) -> None:
    stored.data["item"].x.mul_(2)
    stored.graph().src[:] = 0
    again = GraphStore.open(stored.folder, verify=True)
    assert again.data["item"].x.tolist() == [[1], [2]]


# What is refused


ARRAYS = ["src.npy", "arc_dst.npy", "edge_index.npy", "node1.x.npy", "node0.name.text.npy"]


@pytest.mark.parametrize("file", [*ARRAYS, "relation0.attributes.arrow"])
def test_damaged_files_are_named(stored: GraphStore, file: str) -> None:
    path = stored.folder / file
    content = path.read_bytes()
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    for verify in (False, True):
        with pytest.raises(StoreError, match=f"{file}: the file was changed, its sha256"):
            GraphStore.open(stored.folder, verify=verify)
    path.write_bytes(content[:-1])
    with pytest.raises(StoreError, match=f"{file}: the file has .* bytes instead of"):
        GraphStore.open(stored.folder)
    path.unlink()
    with pytest.raises(StoreError, match=f"{file}: cannot be read: No such file"):
        GraphStore.open(stored.folder)


def test_an_array_of_another_type_is_refused(stored: GraphStore) -> None:
    path = stored.folder / "src.npy"
    np.save(path, np.load(path).view(np.float32))
    with pytest.raises(StoreError, match=r"src.npy: not an array of type <i4 and shape \[6\]"):
        GraphStore.open(stored.folder)


@pytest.mark.parametrize("version", [2, 4])
def test_other_versions_are_refused(stored: GraphStore, version: int) -> None:
    path = stored.folder / MANIFEST
    path.write_text(json.dumps({**stored.manifest, "version": version}))
    with pytest.raises(StoreError, match=f"has version {version}, this pagelink reads 3"):
        GraphStore.open(stored.folder)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "damaged, or not the manifest"),
        ("[]", "damaged, or not the manifest"),
        ('{"format": "cake", "version": 1}', "its format is 'cake'"),
        ('{"format": "pagelink store", "version": 3}', "manifest.json: the file was changed"),
    ],
)
def test_a_manifest_that_is_none(stored: GraphStore, content: str, message: str) -> None:
    (stored.folder / MANIFEST).write_text(content)
    with pytest.raises(StoreError, match=message):
        GraphStore.open(stored.folder)


def test_half_written_stores_are_refused_and_written_anew(stored: GraphStore) -> None:
    folder = stored.folder
    (folder / MANIFEST).rename(folder / HALF_WRITTEN)
    assert is_store(folder)
    with pytest.raises(StoreError, match=r"store is half-written, manifest\.json is missing"):
        GraphStore.open(folder)
    (folder / "left-over.npy").write_bytes(b"")
    assert save_store(small(), folder).digest == stored.digest
    assert not (folder / "left-over.npy").exists()
    assert not (folder / HALF_WRITTEN).exists()


def test_what_is_in_the_way_is_not_removed(stored: GraphStore, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="there is a store already"):
        save_store(small(), stored.folder)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("dear")
    with pytest.raises(StoreError, match="the folder is not empty"):
        save_store(small(), tmp_path / "mine")
    with pytest.raises(StoreError, match="there is a file of this name"):
        save_store(small(), tmp_path / "mine" / "letter.txt")
    assert (tmp_path / "mine" / "letter.txt").read_text() == "dear"
    assert not is_store(tmp_path / "mine")
    with pytest.raises(StoreError, match=r"not a graph store, there is no manifest\.json"):
        GraphStore.open(tmp_path / "mine")


@pytest.mark.parametrize("file", [MANIFEST, "src.npy", "relation0.attributes.arrow"])
def test_a_store_that_changes_while_it_is_open(stored: GraphStore, file: str) -> None:
    stored.check_unchanged()
    path = stored.folder / file
    state = path.stat()
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns + 1))
    with pytest.raises(StoreError, match=f"{file}: the file was changed while the store was open"):
        stored.check_unchanged()
    path.unlink()
    with pytest.raises(StoreError, match=f"{file}: cannot be read"):
        stored.check_unchanged()


@pytest.mark.parametrize(
    ("value", "message"),
    [({1, 2}, "is a set, which cannot be stored"), (torch.zeros(2, dtype=torch.bfloat16), "NumPy")],
)
def test_what_a_store_cannot_hold(tmp_path: Path, value: Any, message: str) -> None:
    data = small()
    data["item"].odd = value
    with pytest.raises(StoreError, match=message):
        save_store(data, tmp_path / "store")
    assert not (tmp_path / "store").exists(), "nothing is left of it"
