"""The drawing of an explanation's facts, whoever found them."""

from __future__ import annotations

import re
from itertools import combinations, pairwise
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pagelink.views.layers import NamedFact, Node, columns_of
from pagelink.views.subgraph import (
    BOX_WIDTH,
    LABEL_SIZE,
    NOTHING,
    WIDTH,
    Placed,
    draw_subgraph,
    place,
)
from pagelink.views.templates import colours_of
from pagelink.views.text import text_width

SRC, DST = ("user", "User 3"), ("item", "Item 35")
KINDS = ("user", "item", "attr")
NODES: list[Node] = [SRC, DST, *((kind, f"{kind} {n}") for kind in KINDS for n in range(4))]

facts_drawn = st.lists(
    st.tuples(st.sampled_from(NODES), st.sampled_from(["buys", "has"]), st.sampled_from(NODES))
    .filter(lambda fact: fact[0] != fact[2])
    .map(lambda fact: NamedFact(*fact)),
    max_size=9,
    unique=True,
)


def placed(facts: list[NamedFact]) -> Placed:
    return place(facts, SRC, DST, colours_of(KINDS), 16.0)


def _drawn(facts: list[NamedFact]) -> str:
    return draw_subgraph("t", SRC, DST, facts, colours_of(KINDS))


def points(path: str) -> list[tuple[float, float]]:
    """Points on a path of cubic curves, its two ends left out."""
    numbers = [float(n) for n in re.findall(r"-?[0-9.]+", path)]
    pairs = list(zip(numbers[::2], numbers[1::2], strict=True))
    found = []
    for at in range(0, len(pairs) - 1, 3):
        a, b, c, d = pairs[at : at + 4]
        for step in range(1, 20):
            t = step / 20
            w = ((1 - t) ** 3, 3 * (1 - t) ** 2 * t, 3 * (1 - t) * t**2, t**3)
            found.append(tuple(sum(k * p[i] for k, p in zip(w, (a, b, c, d), strict=True))
                               for i in (0, 1)))  # fmt: skip
    return found


@given(facts_drawn)
@settings(max_examples=60, deadline=None, derandomize=True)
def test_no_line_runs_through_a_box_and_nothing_leaves_the_card(facts: list[NamedFact]) -> None:
    drawn = placed(facts)
    for one, other in combinations(drawn.boxes, 2):
        apart_x = abs(one.x - other.x) >= BOX_WIDTH
        apart_y = one.y + one.height <= other.y or other.y + other.height <= one.y
        assert apart_x or apart_y
    for box in drawn.boxes:
        assert 0 <= box.x <= drawn.width - BOX_WIDTH
        assert box.y >= 15.9
        assert box.y + box.height <= 16.1 + drawn.height
        for curve in drawn.curves:
            for x, y in points(curve.path):
                inside = box.x + 1 < x < box.x + BOX_WIDTH - 1 and box.y < y < box.y + box.height
                assert not inside


@given(facts_drawn, st.randoms(use_true_random=False))
@settings(max_examples=40, deadline=None, derandomize=True)
def test_the_drawing_depends_on_the_facts_alone(facts: list[NamedFact], random: object) -> None:
    turned = list(facts)
    random.shuffle(turned)  # type: ignore[attr-defined]
    assert _drawn(facts) == _drawn(turned)


def test_labels_of_a_star_do_not_cover_each_other() -> None:
    facts = [NamedFact(SRC, "buys", ("item", f"Item {n}")) for n in range(9)]
    labels = placed(facts).labels
    assert len(labels) == 9
    for one, other in combinations(labels, 2):
        wide = (text_width(one.lines[0], LABEL_SIZE) + text_width(other.lines[0], LABEL_SIZE)) / 2
        assert abs(one.y - other.y) > LABEL_SIZE or abs(one.x - other.x) > wide


def test_each_fact_points_the_way_it_reads() -> None:
    middle = ("item", "Item 9")
    (there,) = placed([NamedFact(SRC, "buys", middle)]).curves
    (back,) = placed([NamedFact(middle, "bought by", SRC)]).curves
    assert there.path == back.path
    assert there.tips != back.tips
    both = placed([NamedFact(SRC, "buys", middle), NamedFact(middle, "bought by", SRC)])
    assert len(both.curves) == 1
    assert set(both.curves[0].tips) == {*there.tips, *back.tips}
    assert " ".join(both.labels[0].lines) == "bought by, buys"


def test_what_hangs_on_neither_end_floats_in_the_middle() -> None:
    facts = [NamedFact(("user", "a"), "buys", ("item", "b")), NamedFact(SRC, "buys", DST)]
    assert columns_of(facts, SRC, DST) == {SRC: 0, DST: 3, ("user", "a"): 1, ("item", "b"): 2}


def test_long_paths_have_a_column_for_each_node() -> None:
    chain = [SRC, *(("item", f"Item {n}") for n in range(5)), DST]
    facts = [NamedFact(a, "to", b) for a, b in pairwise(chain)]
    assert list(columns_of(facts, SRC, DST).values()) == [0, 6, 1, 2, 3, 4, 5]
    assert placed(facts).width > WIDTH == placed([]).width


def test_an_empty_explanation_says_so() -> None:
    drawn = _drawn([])
    assert NOTHING in drawn
    assert len(ET.fromstring(drawn).findall(".//{*}rect")) == 3


@pytest.mark.parametrize("name", ["A<b> & “c”", "x" * 300, "", "\u202e right", "时间序列"])
def test_any_name_is_drawn_as_text(name: str) -> None:
    drawn = _drawn([NamedFact(SRC, "buys", ("item", name))])
    tree = ET.fromstring(drawn)
    assert tree.find(".//{*}b") is None
    for box in placed([NamedFact(SRC, "buys", ("item", name))]).boxes:
        assert all(text_width(line, 12.5, bold=True) <= BOX_WIDTH for line in box.name)
