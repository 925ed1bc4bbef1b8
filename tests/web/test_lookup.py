from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_geometric.data import HeteroData

from pagelink.explain.ranking import KnownLinks
from pagelink.graph.typed_graph import TypedGraph
from pagelink.web.lookup import NameSearch, Neighbours, fold

LETTERS = "abAB éß-中🙂\u0627\n"


@given(
    st.lists(st.text(LETTERS, max_size=8), min_size=1, max_size=12),
    st.text(LETTERS, max_size=5),
)
@settings(max_examples=100, deadline=None)
def test_every_name_that_holds_the_words_is_found_and_no_other(
    names: list[str], typed: str
) -> None:
    total, found = NameSearch(names, [1] * len(names)).find(typed, 100)
    words = fold(typed).split()
    wanted = {i for i, name in enumerate(names) if all(word in fold(name) for word in words)}
    assert (total, set(found), len(found)) == (len(wanted), wanted, len(wanted))


def test_the_name_itself_comes_first_then_whole_words_then_beginnings_then_the_rest() -> None:
    names = ["cheating", "the heat", "heat wave", "heat", "heat index", "Héat"]
    total, found = NameSearch(names, [9, 9, 1, 1, 2, 7]).find("HEAT", 10)
    assert total == 6
    assert [names[i] for i in found] == [
        "Héat", "heat", "the heat", "heat index", "heat wave", "cheating",
    ]  # fmt: skip


def test_a_whole_word_comes_before_the_beginning_of_one() -> None:
    names = ["User 14", "User 1", "1st user", "User 21"]
    _, found = NameSearch(names, [9, 1, 5, 9]).find("1", 10)
    assert [names[i] for i in found] == ["User 1", "1st user", "User 14", "User 21"]


def test_words_come_in_any_order_and_in_any_script() -> None:
    names = ["Seven Samurai (七人の侍)", "Samurai Champloo", "Амели"]
    search = NameSearch(names, [1, 1, 1])
    assert search.find("samurai seven", 5) == (1, [0])
    assert search.find("侍", 5) == (1, [0])
    assert search.find("аМЕЛИ", 5) == (1, [2])


def test_nothing_typed_gives_the_heaviest() -> None:
    assert NameSearch(["a", "b", "c"], [1, 3, 2]).find("  ", 2) == (3, [1, 2])


def test_no_result_is_no_error() -> None:
    assert NameSearch(["a"], [1]).find("zzz", 5) == (0, [])
    assert NameSearch([], []).find("a", 5) == (0, [])
    assert NameSearch(["a"], [1]).find("a longer text than all names together", 5) == (0, [])


def test_a_hundred_thousand_names_are_searched_as_one_by_one() -> None:
    names = [f"Person {i % 977} of the {i}th house" for i in range(100_000)]
    typed = "house 99 person"
    plain = {
        i for i, name in enumerate(map(fold, names)) if all(word in name for word in typed.split())
    }
    total, found = NameSearch(names, range(100_000)).find(typed, 20)
    assert total == len(plain)
    assert len(found) == 20
    assert set(found) <= plain


def test_names_near_what_was_typed() -> None:
    names = ["Mad Max 2: The Road Warrior (1981)", "Alien (1979)", "Amélie (2001)", "Ran", ""]
    search = NameSearch(names, [1] * 5)
    for typed, wanted in (("Mda Max", 0), ("road warior", 0), ("alein", 1), ("ameile", 2)):
        assert search.find(typed, 5) == (0, [])
        assert search.near(typed, 5)[0] == wanted
    assert search.near("quite another thing", 5) == []
    assert search.near("x", 5) == search.near("", 5) == []
    like = NameSearch(["Item 38", "Item 3", "Item 30"], [9, 1, 9])
    assert like.near("itm 3", 1) == [1]


def test_facts_of_a_node_read_by_the_phrase_of_their_direction() -> None:
    data = HeteroData()
    data["drug"].num_nodes = data["gene"].num_nodes = 2
    binds, knows = ("drug", "binds", "gene"), ("drug", "knows", "gene")
    for edge_type in (binds, knows):
        data[edge_type].edge_index = torch.tensor([[0], [1]])
    data[binds].phrases = ("binds to", "is bound by")
    graph = TypedGraph.from_data(data, [binds])
    none = KnownLinks.of(graph, binds)
    neighbours = Neighbours(graph, binds, none, none)
    for node, wanted in (
        (graph.flat_index("drug", 0), [("binds to", False), ("knows", False)]),
        (graph.flat_index("gene", 1), [("is bound by", False), ("knows", True)]),
    ):
        found = neighbours.facts_at(node, 5, True)
        assert [(group.words, group.backwards) for group in found] == wanted
