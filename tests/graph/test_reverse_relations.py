"""Which relations are each other's reverse, and which nearly are."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pagelink.graph.reverse_relations import find_reverse, nearly_mirrored, reverse_name
from pagelink.graph.schema import EdgeType
from pagelink.runtime.arrays import Longs

NAMES = st.builds(
    lambda depth, name: "rev_" * depth + name, st.integers(0, 4), st.sampled_from("rs")
)
TYPES = st.tuples(st.sampled_from("ab"), NAMES, st.sampled_from("ab"))
EDGES = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=4)
GRAPHS = st.lists(st.tuples(TYPES, EDGES), max_size=9, unique_by=lambda each: each[0])


def as_edges(pairs: list[tuple[int, int]]) -> Longs:
    return np.array(pairs, dtype=np.int64).reshape(-1, 2).T


@settings(deadline=None)
@given(GRAPHS, st.lists(TYPES, max_size=2))
def test_a_relation_has_at_most_one_reverse(
    graph: list[tuple[EdgeType, list[tuple[int, int]]]], link_types: list[EdgeType]
) -> None:
    edges = {t: as_edges(pairs) for t, pairs in graph}
    found = find_reverse(edges, list(dict.fromkeys([*edges, *link_types])))
    for first, second in found.items():
        assert found[second] == first
        assert (first[0], first[2]) == (second[2], second[0])
        if second != reverse_name(first) and first != reverse_name(second):
            turned = {(v, u) for u, v in edges[second].T.tolist()}
            assert {tuple(pair) for pair in edges[first].T.tolist()} == turned


def test_the_order_of_the_names_does_not_count() -> None:
    names = [("n", "rev_" * depth + "r", "n") for depth in range(4)]
    edges = {t: as_edges([(0, 1 + i)]) for i, t in enumerate(names)}
    for few in (3, 4):
        for order in permutations(names[:few]):
            found = find_reverse({t: edges[t] for t in order}, order)
            assert found[names[0]] == names[1]
            assert len(found) == 2 * (few // 2)


def brute_force(edges: dict[EdgeType, Longs]) -> dict[EdgeType, list[EdgeType]]:
    sets = {t: {tuple(pair) for pair in each.T.tolist()} for t, each in edges.items()}
    found = {
        t: [
            o for o in edges
            if o != t and (o[0], o[2]) == (t[2], t[0]) and sets[t] and sets[o]
            and len({(v, u) for u, v in sets[o]} & sets[t])
            >= 0.9 * max(len(sets[t]), len(sets[o]))
        ]
        for t in edges
    }  # fmt: skip
    return {t: near for t, near in found.items() if near}


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from("ab"), st.sampled_from("ab"), st.sets(st.integers(0, 15))),
        max_size=5,
    )
)
def test_near_reverses_are_those_of_a_plain_comparison(
    drawn: list[tuple[str, str, set[int]]],
) -> None:
    edges = {}
    for i, (src, dst, codes) in enumerate(drawn):
        pairs = [divmod(code, 4) for code in sorted(codes)]
        edges[src, f"r{2 * i}", dst] = as_edges(pairs * 2)
        edges[dst, f"r{2 * i + 1}", src] = as_edges([(v, u) for u, v in pairs[1:]])
    offset = {"a": 0, "b": 4}
    shift = {t: np.array([[offset[t[0]]], [offset[t[2]]]]) for t in edges}
    flat = [each + shift[t] for t, each in edges.items()]
    src, dst = np.concatenate([as_edges([]), *flat], axis=1).astype(np.int32)
    counts = [each.shape[1] for each in flat]
    relation = np.repeat(np.arange(len(flat)), counts).astype(np.int32)
    expected = brute_force(edges)
    assert nearly_mirrored(src, dst, relation, list(edges), list(edges)) == expected
    for t in edges:
        one = nearly_mirrored(src, dst, relation, list(edges), [t])
        assert one == {k: v for k, v in expected.items() if k == t}


@pytest.mark.parametrize("held", [9, 8])
def test_nine_in_ten_are_enough(held: int) -> None:
    src, dst = np.arange(10), np.arange(10) + 10
    back, forth = dst[:held], src[:held]
    relation = np.repeat([0, 1], [10, held])
    there, turned = ("u", "buys", "i"), ("i", "sold_to", "u")
    found = nearly_mirrored(
        np.concatenate([src, back]).astype(np.int32),
        np.concatenate([dst, forth]).astype(np.int32),
        relation.astype(np.int32), [there, turned], [there],
    )  # fmt: skip
    assert found == ({there: [turned]} if held == 9 else {})
