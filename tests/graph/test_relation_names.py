"""How the relations of a homogeneous graph are called, and which one a link type means."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch_geometric.data import Data, HeteroData

from pagelink.errors import GraphError, LinkError
from pagelink.graph.links import as_link_types
from pagelink.graph.schema import EdgeType
from pagelink.graph.typed_graph import TypedGraph


def node(name: str) -> EdgeType:
    return "node", name, "node"


def plain(*edge_type: int) -> Data:
    count = len(edge_type) or 2
    ends = torch.stack([torch.arange(count), torch.arange(count) + 1])
    data = Data(edge_index=ends, num_nodes=count + 1)
    if edge_type:
        data.edge_type = torch.tensor(edge_type)
    return data


def from_hetero(*edge_types: EdgeType) -> Data:
    data = HeteroData()
    for kind in dict.fromkeys(t for each in edge_types for t in each[::2]):
        data[kind].x = torch.ones(3, 1)
    for number, edge_type in enumerate(edge_types):
        data[edge_type].edge_index = torch.tensor([[number], [2]])
    return data.to_homogeneous()


RATES, LIKES = ("user", "rates", "book"), ("user", "rates", "film")


@pytest.mark.parametrize(
    ("data", "given", "names"),
    [
        (plain(0, 1), None, ["relation 0", "relation 1"]),
        (plain(0, 1), ["cites", "likes"], ["cites", "likes"]),
        (plain(0, 1), ("cites", "likes", "knows"), ["cites", "likes", "knows"]),
        (plain(0, 1), {1: "likes"}, ["relation 0", "likes"]),
        (plain(), ["cites"], ["cites"]),
        (from_hetero(RATES, LIKES), None, ["user__rates__book", "user__rates__film"]),
        (from_hetero(RATES, LIKES), {0: "rates"}, ["rates", "user__rates__film"]),
    ],
)
def test_names(data: Data, given: Any, names: list[str]) -> None:
    graph = TypedGraph.from_data(data, relation_names=given)
    assert [t[1] for t in graph.edge_types] == names


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["cites"], "a name for each of the 2 values of edge_type, from 0 to 1, got 1"),
        (["cites", "cites"], "Two relations are called 'cites'"),
        ("cites", "must be a sequence of names, or a mapping"),
        (["cites", ""], "must be a sequence of names, or a mapping"),
        ({-1: "cites"}, "must be a sequence of names, or a mapping"),
        ({"0": "cites"}, "must be a sequence of names, or a mapping"),
    ],
)
def test_wrong_names(given: Any, message: str) -> None:
    with pytest.raises(GraphError, match=message):
        TypedGraph.from_data(plain(0, 1), relation_names=given)


@pytest.mark.parametrize(
    ("data", "names", "link_type", "meant"),
    [
        # The only relation is the link's, whatever it is called.
        (plain(), None, "likes", "likes"),
        (plain(), ["cites"], "likes", "cites"),
        (plain(0, 0), None, "likes", "likes"),
        (plain(3, 3), None, "likes", "likes"),
        (from_hetero(RATES), None, "likes", "user__rates__book"),
        # By value, with names or without.
        (plain(0, 1), None, "0", "relation 0"),
        (plain(0, 1), None, 1, "relation 1"),
        (plain(0, 1), ["cites", "likes"], "relation 1", "likes"),
        (plain(0, 1), ["1", "0"], "0", "0"),
        # By the names that to_homogeneous() leaves.
        (from_hetero(RATES, ("user", "likes", "book")), None, "rates", "user__rates__book"),
        (from_hetero(RATES, LIKES), None, LIKES, "user__rates__film"),
        (from_hetero(RATES, LIKES), ["a", "b"], LIKES, "b"),
    ],
)
def test_the_stored_relation_is_meant(
    data: Data, names: list[str] | None, link_type: Any, meant: str
) -> None:
    asked = as_link_types(link_type, hetero=False)
    graph = TypedGraph.from_data(data, asked, relation_names=names)
    assert graph.num_relations == len(graph.edge_types), "no relation without edges was added"
    assert graph.relation_called(asked[0]) == node(meant)
    stated = graph.edge_counts[graph.edge_types.index(node(meant))]
    assert stated > 0


def test_another_relation_than_those_of_the_graph_is_added() -> None:
    graph = TypedGraph.from_data(plain(0, 1), [node("likes")])
    assert graph.edge_types[2:] == (node("likes"),)
    # Which of two link types the only relation is cannot be told.
    graph = TypedGraph.from_data(plain(), [node("likes"), node("cites")])
    assert graph.edge_types[1:] == (node("likes"), node("cites"))


def test_a_name_of_several_relations_is_refused() -> None:
    with pytest.raises(
        LinkError, match="by 'rates': choose 'user__rates__book' or 'user__rates__film'"
    ):
        TypedGraph.from_data(from_hetero(RATES, LIKES), [node("rates")])


def test_reverses_by_value() -> None:
    given = {node("0"): node("1")}
    graph = TypedGraph.from_data(plain(0, 1), reverse=given, relation_names=["cites", "cited_by"])
    assert graph.reverse == {node("cites"): node("cited_by"), node("cited_by"): node("cites")}


@pytest.mark.parametrize("link_type", [7, "7", "relation 7", "07"])
def test_a_value_that_no_edge_has_is_that_value(link_type: Any) -> None:
    # Also where the graph has a single relation: a value says that the link's is another one.
    for data, names in ((plain(0, 1), None), (plain(0, 1), ["a", "b"]), (plain(0, 0), None)):
        asked = as_link_types(link_type, hetero=False)
        graph = TypedGraph.from_data(data, asked, relation_names=names)
        assert graph.relation_called(asked[0]) == node("relation 7")
        assert graph.edge_types[graph.num_relations :] == (node("relation 7"),)
        assert graph.label_value.tolist() == [*range(graph.num_relations), 7]


def test_a_value_has_its_name() -> None:
    for asked in (node("7"), node("treats")):
        graph = TypedGraph.from_data(plain(0, 1), [asked], relation_names={7: "treats"})
        assert graph.label_value[graph.edge_types.index(node("treats"))] == 7
        assert graph.relation_called(asked) == node("treats")
    with pytest.raises(GraphError, match="Two relations are called 'relation 7'"):
        TypedGraph.from_data(plain(0, 1), [node("7")], relation_names={0: "relation 7"})


def test_link_types_without_a_value_share_none() -> None:
    graph = TypedGraph.from_data(plain(0, 1), [node("x"), node("2"), node("y")])
    assert [t[1] for t in graph.edge_types[2:]] == ["x", "relation 2", "y"]
    assert graph.label_value.tolist() == [0, 1, 3, 2, 4]


@pytest.mark.parametrize("link_type", [-1, "-1", [0, -1]])
def test_a_negative_value_is_refused(link_type: Any) -> None:
    with pytest.raises(LinkError, match="values of edge_type are numbers from 0 up, got -1"):
        as_link_types(link_type, hetero=False)
