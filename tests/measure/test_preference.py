"""Facts have weight: of sets that are alike, the one of heavier facts is returned."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
import torch
from torch import Tensor, nn
from torch_geometric.data import HeteroData
from torch_geometric.nn import SimpleConv

from pagelink import PaGELink, Settings
from pagelink.errors import SettingsError
from pagelink.graph.typed_graph import TypedGraph
from pagelink.measure.preference import fact_weights

LISTENS, TAGGED = ("user", "listens", "artist"), ("artist", "tagged", "tag")
LIKES = ("user", "likes", "tag")
TIMES = (5, 1, 9)


def graph() -> HeteroData:
    """A user, three artists listened to, and a tag that all of them have."""
    data = HeteroData()
    data["user"].num_nodes, data["artist"].num_nodes, data["tag"].num_nodes = 1, 3, 1
    data[LISTENS].edge_index = torch.tensor([[0, 0, 0], [0, 1, 2]])
    data[LISTENS].attributes = pa.table({"times": TIMES, "note": ["a", "b", "c"]})
    data[TAGGED].edge_index = torch.tensor([[0, 1, 2], [0, 0, 0]])
    for edge_type in (LISTENS, TAGGED):
        back = (edge_type[2], f"rev_{edge_type[1]}", edge_type[0])
        data[back].edge_index = data[edge_type].edge_index.flip(0)
        if "attributes" in data[edge_type]:
            data[back].attributes = data[edge_type].attributes
    return data


class Either(nn.Module):
    """1 if some artist joins user and tag: each of the three paths does as well as the others."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = SimpleConv("sum"), SimpleConv("max")

    def forward(self, x_dict: Any, edges: Any, links: Tensor) -> Tensor:
        ones = torch.ones(len(x_dict["user"]), 1)
        nothing = torch.zeros(len(x_dict["artist"]), 1)
        heard = self.first((ones, nothing), edges[LISTENS])
        tagged = self.second((heard, torch.zeros(len(x_dict["tag"]), 1)), edges[TAGGED])
        return tagged[links[1], 0]


@pytest.mark.parametrize(("prefer", "artist"), [("times", 2), (None, 0)])
def test_the_heaviest_of_paths_that_are_alike(prefer: str | None, artist: int) -> None:
    settings = Settings(prefer=prefer, num_paths=1)
    explanation = PaGELink(Either(), graph(), LIKES, settings, threshold=None).explain(0, 0)
    assert explanation.paths[0].nodes[1] == ("artist", artist)
    assert explanation.settings.prefer == prefer


def test_weights_are_shares_of_the_facts_of_a_relation() -> None:
    flat = TypedGraph.from_data(graph())
    weight = fact_weights(flat, "times")
    for edge in range(flat.num_edges):
        edge_type, column = flat.edge_types[flat.relation[edge]], int(flat.column[edge])
        wanted = 1.0
        if "listens" in edge_type[1]:
            wanted = sum(each <= TIMES[column] for each in TIMES) / 3
        assert weight[edge] == pytest.approx(wanted)


def test_a_column_that_is_not_there_or_no_number() -> None:
    for column, words in (("tims", "Did you mean 'times'"), ("note", "must hold numbers")):
        with pytest.raises(SettingsError, match=words):
            PaGELink(Either(), graph(), LIKES, Settings(prefer=column), threshold=None)
    with pytest.raises(SettingsError, match="name of a column"):
        Settings(prefer="")
