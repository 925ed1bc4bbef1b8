"""A byte that goes bad after a store was verified leads to an error with its file, to no crash."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import torch
from torch_geometric.data import HeteroData

from pagelink.errors import StoreError
from pagelink.graph.computation_graph import Extractor
from pagelink.graph.lookup import edge_walked, edges_between, edges_of_facts
from pagelink.graph.schema import EdgeType
from pagelink.store.graph_store import GraphStore
from pagelink.store.writer import save_store

BUYS: EdgeType = ("user", "buys", "item")
FAR = 10**9


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    data = HeteroData()
    data["user"].num_nodes, data["user"].name = 3, ["Ada", "Bo", "Cy"]
    data["item"].num_nodes = 2
    data[BUYS].edge_index = torch.tensor([[0, 1, 2, 2], [0, 0, 0, 1]])
    data["item", "rev_buys", "user"].edge_index = torch.tensor([[0, 0, 0, 1], [0, 1, 2, 2]])
    data[BUYS].attributes = pa.table({"when": ["May", "June", "July", "August"]})
    return save_store(data, tmp_path / "store").folder


def damaged(folder: Path, name: str, place: int, value: int) -> GraphStore:
    """Change a number in a file that was verified before."""
    file = folder / f"{name}.npy"
    array = np.load(file)
    array.reshape(-1).view(np.uint8 if array.dtype == bool else array.dtype)[place] = value
    np.save(file, array)
    return GraphStore.as_made(folder)


# The edges are ordered by target: 0-1 enter the users 0 and 1, 2-3 user 2, 4-6 item 0, 7 item 1.
@pytest.mark.parametrize(
    ("name", "place", "value"),
    [
        ("in_ptr", 3, FAR), ("in_ptr", 3, -FAR), ("in_ptr", 3, 0), ("in_ptr", 4, 5),
        ("src", 5, FAR), ("src", 5, -1), ("src", 5, 4),
        ("dst", 5, FAR), ("dst", 5, 0),
        ("relation", 5, FAR), ("relation", 5, -1), ("relation", 5, 1),
        ("column", 5, FAR), ("column", 5, -1),
        ("fact", 5, FAR), ("fact", 5, -1), ("fact", 5, 0),
        ("opposite", 5, FAR), ("opposite", 5, -2), ("opposite", 5, 3),
        ("representative", 5, 2), ("degree", 1, 0), ("degree", 1, -1),
        ("node_type", 1, FAR), ("node_type", 1, -1), ("node_type", 1, 1),
    ],
)  # fmt: skip
@pytest.mark.parametrize("all_seen", [True, False])
def test_computation_graphs(
    folder: Path, name: str, place: int, value: int, all_seen: bool
) -> None:
    graph = damaged(folder, name, place, value).graph()
    seen = None if all_seen else np.array([False, True])
    with pytest.raises(StoreError, match=r"\.npy: (damaged|the file was changed)"):
        Extractor(graph, 2, seen).extract(np.array([0]), np.array([3]), np.array([-1]))


@pytest.mark.parametrize("value", [FAR, -FAR, -1])
@pytest.mark.parametrize("name", ["fact_ptr", "fact_edges", "fact"])
def test_facts(folder: Path, name: str, value: int) -> None:
    graph = damaged(folder, name, 1, value).graph()
    with pytest.raises(StoreError, match=r"fact.*\.npy: damaged"):
        edges_of_facts(graph, np.arange(graph.num_facts))
    with pytest.raises(StoreError, match=rf"{name}\.npy: damaged"):
        graph.check_facts(graph.fact)


@pytest.mark.parametrize("value", [FAR, -FAR])
def test_neighbours(folder: Path, value: int) -> None:
    for name in ("arc_ptr", "arc_dst", "arc_edge"):
        intact = np.load(folder / f"{name}.npy")
        graph = damaged(folder, name, 0, value).graph()
        with pytest.raises(StoreError, match=rf"{name}\.npy: damaged"):
            edge_walked(graph, 0, 3, BUYS)
        np.save(folder / f"{name}.npy", intact)
    graph = damaged(folder, "in_ptr", 4, value).graph()
    with pytest.raises(StoreError, match=r"in_ptr\.npy: damaged"):
        edges_between(graph, 0, 3)


@pytest.mark.parametrize(
    ("part", "place", "value"), [("start", 1, FAR), ("start", 1, -FAR), ("text", 0, 255)]
)
def test_names(folder: Path, part: str, place: int, value: int) -> None:
    names = damaged(folder, f"node0.name.{part}", place, value).graph().names["user"]
    for read in (lambda: names[0], lambda: list(names)):
        with pytest.raises(StoreError, match=rf"node0\.name\.{part}\.npy: damaged"):
            read()


@pytest.mark.parametrize("value", [FAR, -1])
def test_places_of_names(folder: Path, value: int) -> None:
    names = ["Ada", "Bo", "Cy"]
    store = damaged(folder, "node0.name.place", 1, value)
    with pytest.raises(StoreError, match=r"node0\.name\.place\.npy: damaged"):
        [store.graph().find_node("user", name) for name in names]


def test_tables(folder: Path) -> None:
    file = folder / "relation0.attributes.arrow"
    content = file.read_bytes()
    offsets = np.array([0, 3, 7, 11, 17], dtype="<i4").tobytes()
    at = content.index(offsets)
    file.write_bytes(content[: at + 4] + b"\xff\xff\xff\x7f" + content[at + 8 :])
    graph = GraphStore.as_made(folder).graph()
    (edge,) = np.flatnonzero((graph.relation == 0) & (graph.column == 0))
    with pytest.raises(StoreError, match="a table of attributes is damaged"):
        graph.edge_attributes(int(edge))
    with pytest.raises(StoreError, match="a table of attributes is damaged"):
        graph.edge_column(BUYS, "when")
    file.write_bytes(content[:-40] + bytes(40))
    with pytest.raises(StoreError, match=r"relation0\.attributes\.arrow: damaged"):
        GraphStore.as_made(folder).graph()


@pytest.mark.parametrize("value", [FAR, -1])
def test_edges_that_are_used_as_a_whole(folder: Path, value: int) -> None:
    store = damaged(folder, "edge_index", 0, value)
    with pytest.raises(StoreError, match=r"edge_index\.npy: damaged, an edge of .*buys"):
        _ = store.data


def test_what_fails_on_a_sound_store_stays_what_it_is(folder: Path) -> None:
    graph = GraphStore.open(folder).graph()
    with pytest.raises(ZeroDivisionError), graph.naming_damage():
        _ = 1 / 0
