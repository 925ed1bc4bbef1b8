"""What holds of every drawing: colours that are told apart, signs, whole words, narrow windows."""

from __future__ import annotations

import itertools
from xml.etree import ElementTree

import numpy as np
import pytest
from support.drawings import SVG, assert_lettering_has_room, assert_nodes_have_room
from support.explanations import everything, make_explanation, make_path

from pagelink.views.drawing import layout
from pagelink.views.drawing.pictures import draw
from pagelink.views.layers import NamedFact
from pagelink.views.pages import to_svg
from pagelink.views.statements import NodeWords
from pagelink.views.subgraph import draw_subgraph
from pagelink.views.templates import AGAINST, PALETTE, SUPPORTS, colours_of, type_colours
from pagelink.views.wording import wording

USER, ITEM = ("user", 3), ("item", 35)
LONG = "rated with fewer than four of the five stars that can be given in the second survey of 2017"
# Machado, Oliveira and Fernandes (2009), severity 1, on linear RGB.
SIGHT = {
    "normal": np.eye(3),
    "deuteranopia": np.array([
        [0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ]),
    "protanopia": np.array([
        [0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ]),
    "tritanopia": np.array([
        [1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602],
        [0.004733, 0.691367, 0.303900],
    ]),
}  # fmt: skip


def lab(colour: str, sight: np.ndarray) -> np.ndarray:
    """CIELAB of a colour as it is seen."""
    parts = np.array([int(colour[at : at + 2], 16) for at in (1, 3, 5)]) / 255
    linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    to_xyz = np.array([
        [0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505],
    ])  # fmt: skip
    xyz = to_xyz @ np.clip(sight @ linear, 0, 1) / np.array([0.9505, 1, 1.089])
    f = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


@pytest.mark.parametrize("sight", SIGHT)
def test_ten_types_are_told_apart_and_so_are_the_two_sides(sight: str) -> None:
    assert len(PALETTE) == 10
    seen = [lab(colour, SIGHT[sight]) for colour in PALETTE]
    assert min(np.linalg.norm(a - b) for a, b in itertools.combinations(seen, 2)) >= 16
    for_it, against = (lab(colour, SIGHT[sight]) for colour in (SUPPORTS, AGAINST))
    assert np.linalg.norm(for_it - against) >= 40


def test_forty_types_have_forty_signs() -> None:
    colours = colours_of(f"type {i:02d}" for i in range(40))
    assert len({(colour.main, colour.sign) for colour in colours.values()}) == 40


def test_a_type_has_its_colour_whatever_else_an_explanation_names() -> None:
    whole = {"node_types": ("artist", "attr", "item", "user")}
    short = make_explanation(make_path([USER, ITEM], [("buys", False)]), **whole)
    long = make_explanation(
        make_path([USER, ("item", 1), ("attr", 2), ITEM], [("buys", False), ("has", False)] * 1
                  + [("has", True)]), **whole,
    )  # fmt: skip
    assert type_colours(short)["user"] == type_colours(long)["user"]
    assert type_colours(long) == {
        kind: colour for kind, colour in colours_of(["artist", "attr", "item", "user"]).items()
        if kind != "artist"
    }  # fmt: skip


def words_of(svg: str, kind: str) -> str:
    root = ElementTree.fromstring(svg)
    return " ".join(
        text.text or "" for text in root.iter(f"{SVG}text") if text.get("class") == kind
    )


def test_a_relation_is_never_cut() -> None:
    path = make_path([USER, ("item", 1), ("user", 4), ITEM], [(LONG, False)] * 3)
    explanation = make_explanation(path, link_type=("user", LONG.replace(" ", "_"), "item"))
    drawing = draw(wording(explanation), type_colours(explanation))
    for svg in (to_svg(explanation), drawing.svg, drawing.narrow):
        assert words_of(svg, "pagelink-label").count(LONG) == 3
    assert_nodes_have_room(explanation)
    assert_lettering_has_room(explanation)
    question = ElementTree.fromstring(drawing.svg).find(f"{SVG}g[@class='pagelink-question']")
    assert question is not None
    assert " ".join(text.text or "" for text in question.iter(f"{SVG}text")) == LONG
    facts = [NamedFact(("user", "a"), LONG, ("item", "b"))]
    shown = draw_subgraph("a", ("user", "a"), ("item", "b"), facts, colours_of(["user", "item"]))
    lines = [text.text or "" for text in ElementTree.fromstring(shown).iter(f"{SVG}text")]
    assert LONG in " ".join(lines)


def test_the_narrow_drawing_has_every_path_and_nothing_beyond_its_frame() -> None:
    explanation = everything()
    drawing = draw(wording(explanation), type_colours(explanation))
    root = ElementTree.fromstring(drawing.narrow)
    width = float(root.get("width", ""))
    assert width < 390
    boxes = [rect for rect in root.iter(f"{SVG}rect") if rect.get("class") == "pagelink-node"]
    assert len(boxes) == sum(len(path.nodes) for path in explanation.paths)
    for box in boxes:
        assert float(box.get("x", "")) + float(box.get("width", "")) <= width
    tops = [float(box.get("y", "")) for box in boxes]
    assert tops == sorted(tops)


def test_the_sign_is_that_of_the_support_and_nothing_is_left_out_as_zero() -> None:
    svg = to_svg(everything())
    root = ElementTree.fromstring(svg)
    sides = {}
    for group in root.iter(f"{SVG}g"):
        kinds = group.get("class", "").split()
        effect = group.findtext(f"{SVG}text[@class='pagelink-effect']")
        if "pagelink-fact" in kinds and effect:
            sides.setdefault(effect[0], set()).update(kinds[1:])
    assert sides == {"+": {"pagelink-supports"}, "\N{MINUS SIGN}": {"pagelink-against"}}
    assert "0" not in words_of(svg, "pagelink-effect").split()


def test_facts_that_are_off_are_drawn_so() -> None:
    explanation = everything()
    for svg in (
        to_svg(explanation, frozenset({(1, 0)})),
        draw(wording(explanation), type_colours(explanation), frozenset({(1, 0)})).narrow,
    ):
        marked = [
            (group.get("data-path"), group.get("data-step"))
            for group in ElementTree.fromstring(svg).iter(f"{SVG}g")
            if "pagelink-off" in group.get("class", "").split()
        ]
        assert marked == [("1", "0")]


def test_a_box_is_as_wide_as_its_type_and_degree_need() -> None:
    compound = NodeWords(("compound", 0), "Methotrexate", "compound", "Methotrexate", 1404)
    width = layout._box_width(layout.ROOMY.end, layout.ROOMY.end, [compound])
    detail = layout.detail_of(compound, width - 2 * layout.PADDING - layout.SIGN)
    assert detail == "compound · degree 1,404"
