from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch_geometric.data import Data, HeteroData

from pagelink.checks.description import Degrees, Hub, Spread, describe
from pagelink.datasets.folders import DataNotFoundError, find_data
from pagelink.errors import GraphError, LinkError
from pagelink.tables.load import load_graph

BUYS, SEES = ("user", "buys", "item"), ("user", "sees", "item")


def drawn() -> HeteroData:
    """Two parallel relations, a hub, a self-loop, a duplicate and an isolated node.

    Ada = pen, Ada - ink, Bo - pen, Cy - pen, Di; pen refers to itself and to ink.
    """
    data = HeteroData()
    data["user"].name, data["user"].num_nodes = ["Ada", "Bo", "Cy", "Di"], 4
    data["item"].num_nodes = 2
    data["empty"].num_nodes = 0
    data[BUYS].edge_index = torch.tensor([[0, 0, 1, 2, 2], [0, 1, 0, 0, 0]])
    data["item", "rev_buys", "user"].edge_index = data[BUYS].edge_index.flip(0)
    data[SEES].edge_index = torch.tensor([[0], [0]])
    data["item", "refers", "item"].edge_index = torch.tensor([[0, 0], [0, 1]])
    return data


def test_counts_degrees_and_hubs() -> None:
    found = describe(drawn())
    assert found.num_nodes == {"user": 4, "item": 2, "empty": 0}
    assert found.num_edges == {
        BUYS: 5, ("item", "rev_buys", "user"): 5, SEES: 1, ("item", "refers", "item"): 2
    }  # fmt: skip
    assert found.num_facts == 6  # 4 purchases, 1 sight, 1 reference
    assert found.reverse[BUYS] == ("item", "rev_buys", "user")
    # Ada 3, Bo 1, Cy 1, Di 0; pen 5 (3 buyers, 1 sight, ink), ink 2
    assert found.degrees == {
        "user": Degrees(1.25, 1.0, 3), "item": Degrees(3.5, 3.5, 5), "empty": Degrees(0.0, 0.0, 0)
    }  # fmt: skip
    assert found.hubs[:3] == (
        Hub("item", 0, "item 0", 5), Hub("user", 0, "Ada", 3), Hub("item", 1, "item 1", 2)
    )  # fmt: skip
    assert len(found.hubs) == 6


def test_neighbourhood_of_every_node() -> None:
    around = describe(drawn()).neighbourhood
    assert around.num_sampled == 6
    # Nodes within two in-edge hops. Ada, pen, ink: Ada, Bo, Cy, pen, ink. Bo and Cy: without ink.
    # Di: Di.
    assert around.num_nodes == Spread(4.5, 5)
    # All edges among them: 13; without ink, 10; none.
    assert around.num_edges == Spread(11.5, 13)
    # Edges that enter a node within one hop, where pen has 6 in-edges, ink, Ada and Cy 2, Bo 1:
    # of pen 11, of Ada and ink 10, of Cy 8, of Bo 7, of Di none.
    assert around.num_visible == Spread(9, 11)


def test_neighbourhood_is_that_of_brute_force() -> None:
    data = drawn()
    edges = [
        ((src, a), (dst, b))
        for src, relation, dst in data.edge_types
        for a, b in data[src, relation, dst].edge_index.t().tolist()
    ]
    sizes = []
    for start in [(t, i) for t in data.node_types for i in range(data[t].num_nodes)]:
        inner = {start} | {u for u, v in edges if v == start}
        within = inner | {u for u, v in edges if v in inner}
        induced = [(u, v) for u, v in edges if u in within and v in within]
        sizes.append((len(within), len(induced), sum(v in inner for _, v in induced)))
    around = describe(data).neighbourhood
    for column, spread in zip(
        np.array(sizes).T, (around.num_nodes, around.num_edges, around.num_visible), strict=True
    ):
        assert spread == Spread(float(np.median(column)), int(column.max()))


def test_pairs_of_a_link_type_leave_the_link_out() -> None:
    data = HeteroData()
    data["user"].num_nodes = data["item"].num_nodes = 1
    data[BUYS].edge_index = torch.tensor([[0], [0]])
    found = describe(data, BUYS)
    assert found.neighbourhood.num_sampled == 50
    assert found.neighbourhood.num_nodes == Spread(2, 2)
    assert found.neighbourhood.num_edges == Spread(0, 0)
    other = describe(data, ("user", "likes", "item"))  # not a relation of the graph
    assert other.neighbourhood.num_edges == Spread(1, 1)
    assert "Within 2 hops of a pair of user and item (50 sampled, seed 0):" in str(other)


def test_the_sample_is_of_the_seed() -> None:
    random = np.random.default_rng(0)
    data = HeteroData()
    data["n"].num_nodes = 400
    ends = np.minimum(random.zipf(1.5, size=(2, 1500)), 400) - 1
    data["n", "r", "n"].edge_index = torch.from_numpy(ends)
    first = describe(data, seed=1)
    assert first.neighbourhood.num_sampled == 50
    assert first == describe(data, seed=1)
    assert first.neighbourhood != describe(data, seed=2).neighbourhood
    assert len(first.hubs) == 10


def test_text() -> None:
    lines = str(describe(drawn())).splitlines()
    assert lines[0] == (
        "6 nodes of 3 types, 13 edges of 4 relations; 6 facts, counting an edge and its reverse "
        "once."
    )
    assert lines[2:7] == [
        "node type  nodes  mean degree  median  max",
        "user           4          1.2       1    3",
        "item           2          3.5     3.5    5",
        "empty          0          0.0       0    0",
        "",
    ]
    assert lines[7:11] == [
        "relation              edges   reverse",
        "user - buys - item        5  rev_buys",
        "user - sees - item        1      none",
        "item - refers - item      2      none",
    ]
    assert lines[12:15] == ["Biggest hubs:", "  item 0 (item)  5", "  Ada (user)     3"]
    assert lines[-5] == "Within 2 hops of a node (6 sampled, seed 0):"
    assert lines[-1].split() == ["edges", "a", "model", "can", "see", "9", "11"]


def test_homogeneous_graphs() -> None:
    found = describe(Data(edge_index=torch.tensor([[0, 1], [1, 2]]), num_nodes=3))
    assert found.num_nodes == {"node": 3}
    assert found.degrees["node"].max == 2


def test_graphs_that_cannot_be_described() -> None:
    data = HeteroData()
    data["user"].num_nodes = data["item"].num_nodes = 0
    with pytest.raises(GraphError, match="has no relations"):
        describe(data)
    data[BUYS].edge_index = torch.empty(2, 0, dtype=torch.long)
    with pytest.raises(GraphError, match="has no nodes"):
        describe(data)
    data["user"].num_nodes = 1
    with pytest.raises(GraphError, match="no nodes of type 'item'"):
        describe(data, BUYS)
    with pytest.raises(LinkError, match="Did you mean 'user'"):
        describe(data, ("users", "buys", "item"))


def folder_of(name: str) -> Path:
    try:
        return find_data(name)
    except DataNotFoundError as error:
        pytest.skip(str(error))


def test_a_real_graph() -> None:
    found = describe(load_graph(folder_of("vispub-citation")))
    assert sum(found.num_nodes.values()) == 23_263
    # Every edge is stored with its reverse; 33 pairs of papers cite each other, which is one fact.
    assert sum(found.num_edges.values()) == 2 * 117_723
    assert found.num_facts == 117_723 - 33
    fields = [hub for hub in found.hubs if hub.name == "Data visualization"]
    assert [(hub.node_type, hub.degree) for hub in fields] == [("field", 2_397)]
    assert found.neighbourhood.num_sampled == 50
    assert found.neighbourhood.num_visible.max <= found.neighbourhood.num_edges.max <= 2 * 117_723
