"""Facts in the words of the graph."""

from __future__ import annotations

import pytest
import torch
from torch_geometric.data import HeteroData

from pagelink.graph.typed_graph import TypedGraph
from pagelink.study.explaining import Words

LINK = ("author", "likes", "paper")


@pytest.fixture
def words() -> Words:
    """Ada wrote two papers of one name; the reverse relation is stored first."""
    data = HeteroData()
    data["author"].num_nodes, data["paper"].num_nodes = 2, 2
    data["author"].name, data["paper"].name = ["Ada", "7"], ["Same <b>", "Same <b>"]
    writes = torch.tensor([[0, 0], [0, 1]])
    data["paper", "rev_writes", "author"].edge_index = writes.flip(0)
    data["author", "writes", "paper"].edge_index = writes
    return Words(TypedGraph.from_data(data, [LINK]), LINK)


def test_facts_read_in_the_direction_of_their_words(words: Words) -> None:
    assert words.fact(0) == "Ada writes “Same <b> (number 0)”"


def test_only_the_reverse_is_stored() -> None:
    data = HeteroData()
    data["author"].num_nodes, data["paper"].num_nodes = 1, 1
    data["author"].name, data["paper"].name = ["Ada"], ["Notes"]
    data["paper", "rev_writes", "author"].edge_index = torch.tensor([[0], [0]])
    assert Words(TypedGraph.from_data(data, [LINK]), LINK).fact(0) == "Ada writes Notes"


def test_nodes_of_one_name_are_told_apart_and_numbers_get_their_type(words: Words) -> None:
    assert words.link((1, 1)) == "author “7” likes “Same <b> (number 1)”"
    shown = words.shown((0, 1), (0, 1))
    assert shown.sentences == (
        "Ada writes “Same <b> (number 0)”.", "Ada writes “Same <b> (number 1)”.",
    )  # fmt: skip
    assert shown.svg.count("<rect") == 1 + 3
    assert "<b>" not in shown.svg


def test_facts_in_any_order_are_shown_alike(words: Words) -> None:
    assert words.shown((0, 1), (0, 1)) == words.shown((0, 1), (1, 0))


def test_what_the_model_says(words: Words) -> None:
    assert words.score(0.0) == "The model's score for this link is 0.00."
