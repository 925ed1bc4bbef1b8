"""Words for what the control decides, for paths that count together, and for what else counts."""

from __future__ import annotations

import dataclasses
import itertools
import json
from typing import Any
from xml.etree import ElementTree

import pytest
from support.drawings import SVG, Page, assert_lettering_has_room, assert_nodes_have_room
from support.explanations import (
    alternative,
    idle,
    make_control,
    make_evidence,
    make_explanation,
    parts,
    strong,
    strongest,
    through,
    weaker,
    worth,
)

from pagelink.explain.result import Explanation, NamedFact, Path, StrongestFacts
from pagelink.measure.verdict import PARTS, VERDICTS
from pagelink.settings import Settings
from pagelink.views.pages import to_html, to_html_fragment, to_svg, to_text
from pagelink.views.rows import SCHEMA, to_rows, to_table
from pagelink.views.templates import type_colours
from pagelink.views.wording import items, wording


def said_in(explanation: Explanation, sentence: str) -> None:
    """Hold that a sentence of the first lines is in every view."""
    assert sentence in wording(explanation).opening
    assert sentence in to_text(explanation).splitlines()
    assert sentence in Page(to_html(explanation)).text("p")
    assert sentence in Page(to_html_fragment(explanation)).text("p")
    root = ElementTree.fromstring(to_svg(explanation))
    drawn = [t.text or "" for t in root.iter(f"{SVG}text") if t.get("class") == "pagelink-message"]
    assert sentence in " ".join(drawn)
    assert sentence in root.get("aria-label", "")


# Only degrees


def degree_only(ends: str | None = "dst", **changes: Any) -> Explanation:
    paths = (dataclasses.replace(p, is_evidence=False) for p in (strong(), weaker()))
    values = {"ends": ends, "control": make_control(0.01, low=-0.02, high=0.04), **changes}
    return make_explanation(*paths, evidence=make_evidence("degree_only", **values))


EXCHANGED = (
    "but exchanging them for random ones of the same kind, which keeps all degrees, lowers the "
    "score by 0.01 (95 % interval -0.02 to 0.04, 20 draws)."
)


@pytest.mark.parametrize(
    ("ends", "who"),
    [
        ("dst", "Item 35, not what it is"),
        ("src", "User 3, not what it is"),
        ("both", "User 3 and Item 35, not what they are"),
        (
            "either",
            "User 3 or Item 35 (a fact that joins both does not tell which), not what they are",
        ),
        (None, "User 3 and Item 35, not what they are"),
    ],
)
def test_that_only_the_number_of_facts_counts_is_said_first(ends: str | None, who: str) -> None:
    explanation = degree_only(ends)
    sentence = (
        f"What counts is how much is known about {who} connected to: removing these five facts "
        f"lowers the score by 2.95, {EXCHANGED}"
    )
    assert wording(explanation).opening == (sentence,)
    said_in(explanation, sentence)
    assert to_rows(explanation)[0]["ends"] == ends


def test_where_only_degrees_count_paths_are_context() -> None:
    said = wording(degree_only())
    assert not said.is_relied
    (group,) = said.groups
    assert group.heading == "2 paths that show where these facts are"
    assert group.is_context
    assert "relies on" not in to_text(degree_only())
    assert " of the effect of these paths" not in to_text(degree_only())
    assert "connection between" not in to_text(degree_only())
    (one,) = wording(
        make_explanation(strong(), evidence=make_evidence("degree_only", ends="src"))
    ).groups
    assert one.heading == "A path that shows where these facts are"


def test_degrees_by_insertion_and_a_rise() -> None:
    control = make_control(-0.01, low=-0.04, high=0.02, num_placebo=0)
    (sentence,) = wording(degree_only(inserted=True, influence=1.9, control=control)).opening
    assert sentence.endswith(
        "adding these five facts to the graph without any path raises the score by 1.90, but "
        "exchanging them for random ones of the same kind, which keeps all degrees, raises the "
        "score by 0.01 (95 % interval -0.02 to 0.04, 20 draws; no facts off the paths to compare "
        "with)."
    )


def test_degrees_beside_what_speaks_against_the_link() -> None:
    control = make_control(-1.3, low=-1.7, high=-0.9)
    (sentence,) = wording(degree_only(control=control)).opening
    assert sentence.startswith(
        "What counts is how much is known about Item 35; what it is connected to speaks against "
        "the link: removing these five facts lowers the score by "
    )
    assert "raises the score by 1.30 (95 % interval 0.90 to 1.70" in sentence


def test_small_figures_are_distinguished() -> None:
    changes = {"logit_without_these": 3.4990, "logit_without_paths": 3.4985, "influence": 0.001,
               "logit_without_edges": 3.4985, "logit_only_these": 3.5,
               "control": make_control(0.001, low=0.0008, high=0.0012)}  # fmt: skip
    told = wording(make_explanation(strong(), logit=3.5, evidence=make_evidence(**changes)))
    assert "by 0.0010 (95 % interval 0.0008 to 0.0012" in told.opening[2]
    assert [answer for _, answer in told.figures[:4]] == [
        "3.5000", "3.4990", "3.4985", "3.4985",
    ]  # fmt: skip


# What the facts lead to


@pytest.mark.parametrize(
    ("control", "swaps", "said"),
    [
        (None, 20, "Whether it matters what these facts lead to, or only how many there are, could "
                   "not be decided: too few exchanges with other facts of the same kind are "
                   "possible."),
        (make_control(num_draws=4), 20, "Whether it matters what these facts lead to, or only how "
                                        "many there are, could not be decided: too few exchanges "
                                        "with other facts of the same kind are possible."),
        (None, 0, "Whether it matters what these facts lead to, or only how many there are, was "
                  "not measured."),
        (make_control(num_draws=5), 20, "What these facts lead to matters: exchanging them for "
                                        "random ones of the same kind, which keeps all degrees, "
                                        "lowers the score by 2.10 (95 % interval 1.80 to 2.40, 5 "
                                        "draws)."),
        (make_control(0.5, low=-0.2, high=1.2), 20,
         "It is not certain that what these facts lead to matters: exchanging them for random ones "
         "of the same kind, which keeps all degrees, lowers the score by 0.50 (95 % interval -0.20 "
         "to 1.20, 20 draws)."),
    ],
)  # fmt: skip
def test_whether_it_matters_what_facts_lead_to(control: Any, swaps: int, said: str) -> None:
    explanation = make_explanation(
        strong(), evidence=make_evidence(control=control), settings=Settings(swaps=swaps)
    )
    assert wording(explanation).opening[2:] == (said,)
    said_in(explanation, said)
    redundant = make_evidence(control=control, inserted=True)
    again = make_explanation(strong(), evidence=redundant, settings=Settings(swaps=swaps))
    assert wording(again).opening[-1] == said


def test_one_fact_is_told_as_one() -> None:
    path = worth(through(), 2.0, 2.0)
    told = wording(make_explanation(path, evidence=make_evidence(control=None))).opening
    assert told[2].startswith("Whether it matters what this fact leads to, or only that it is ")


# Length


@pytest.mark.parametrize("verdict", VERDICTS)
def test_longer_paths_are_said_to_have_been_searched(verdict: str) -> None:
    changes = {"logit_without_paths": 3.6} if verdict == "structure_against" else {}
    longer = make_explanation(strong(), evidence=make_evidence(verdict, max_length=4, **changes))
    sentence = (
        "Paths of at most three facts did not explain the score, so longer ones were searched, "
        "of at most four facts."
    )
    said_in(longer, sentence)
    usual = make_explanation(strong(), evidence=make_evidence(verdict, **changes))
    assert "longer" not in to_text(usual)
    if verdict in ("structure_not_used", "structure_against", "not_by_these"):
        first = wording(longer).opening[0]
        assert " of at most four facts" in first
        assert " of at most three facts" in wording(usual).opening[0]
    assert "- without any path of at most four facts: " in to_text(longer)
    assert {row["max_length"] for row in to_rows(longer)} == {4}


# Shares


def test_shares_are_told_and_only_between_nothing_and_all() -> None:
    explanation = make_explanation(strong(), weaker(), idle(), evidence=make_evidence())
    assert [path.share for path in wording(explanation).paths] == [
        "42 % of the effect of these paths", "30 % of the effect of these paths", "",
    ]  # fmt: skip
    assert "\n   42 % of the effect of these paths.\n" in to_text(explanation)
    assert "30 % of the effect of these paths" in Page(to_html(explanation)).text("span")
    assert [row["path_share"] for row in to_rows(explanation)] == [0.42, 0.3, -0.1]

    def share(value: float | None) -> str:
        path = dataclasses.replace(strong(), share=value, marginal=2.95 * (value or 0.0))
        return wording(make_explanation(path, weaker(), evidence=make_evidence())).paths[0].share

    assert share(0.7) == "70 % of the effect of these paths"
    assert share(0.8) == "80 % of the effect of these paths, some of it shared with the other"
    assert share(8.34) == "more effect than these paths together"
    assert share(None) == share(-3.0) == ""
    assert wording(make_explanation(strong(), evidence=make_evidence())).paths[0].share == ""


def test_a_share_by_adding_is_said_to_be_one() -> None:
    """Beside "+0.18", by removal, "more effect than these paths together" is not understood."""

    def share(value: float, **changes: Any) -> str:
        path = dataclasses.replace(strong(), share=value, marginal=0.18)
        evidence = make_evidence(**changes)
        return wording(make_explanation(path, weaker(), evidence=evidence)).paths[0].share

    assert share(0.47) == "47 % of what these paths add to the graph without any path"
    needed = "needed: without this one, the other adds nothing to the graph without any path"
    assert share(1.09) == needed
    assert share(0.06) == "6 % of the effect of these paths"
    assert share(0.47, inserted=True) == "47 % of the effect of these paths"


def test_paths_that_each_have_all_of_the_effect() -> None:
    """A share of 100 % of both would read as if one were enough, or as if they added up."""

    def shares(number: int = 2, **values: float) -> list[str]:
        paths = [dataclasses.replace(p, share=1.0, **values) for p in (strong(), weaker(), idle())]
        shown = [dataclasses.replace(p, is_evidence=True) for p in paths[:number]]
        evidence = make_evidence(logit_without_these=1.0, gain=3.0)
        return [
            p.share for p in wording(make_explanation(*shown, evidence=evidence, logit=3.5)).paths
        ]

    needed = "both paths are needed: without this one, the other has no effect"
    assert shares(influence=2.5, gain=0.0) == [needed] * 2
    all_needed = "it is needed: without this one, the others have no effect"
    assert shares(3, influence=2.5, gain=0.0) == [all_needed] * 3
    enough = "enough alone: it has the effect of all these paths"
    assert shares(influence=0.1, gain=3.0) == [enough] * 2
    unclear = "all of the effect of these paths, shared with others"
    assert shares(influence=0.1, gain=0.1) == [unclear] * 2


def test_evidence_comes_first_in_every_view() -> None:
    explanation = make_explanation(idle(), weaker(), strong(), evidence=make_evidence())
    paths = [path.path for path in wording(explanation).paths]
    assert paths == [weaker(), strong(), idle()]
    assert [row["is_evidence"] for row in to_rows(explanation)] == [True, True, False]


# Paths that count together


def bundle() -> Explanation:
    """Return three paths, the first and the last of which count together."""
    needed = dataclasses.replace(strong(), bundle=1)
    other = dataclasses.replace(idle(), bundle=1)
    return make_explanation(needed, weaker(), other, evidence=make_evidence())


TOGETHER = "These paths count together: one of them alone speaks against the link."


def test_paths_that_count_together_are_one_item() -> None:
    explanation = bundle()
    said = wording(explanation)
    (group,) = said.groups
    assert [path.path for path in group.paths] == [strong(), idle(), weaker()]
    assert [[path.rank for path in item] for item in items(group.paths)] == [[1, 2], [3]]
    text = to_text(explanation)
    places = [text.index(part) for part in (TOGETHER, "\n   1. ", "\n   2. ", "\n3. ")]
    assert places == sorted(places)
    assert text.count(TOGETHER) == 1
    html = to_html(explanation)
    assert html.count('<li class="pagelink-bundle">') == 1
    inside = html.split('<li class="pagelink-bundle">')[1].split("</ol>")[0]
    assert inside.count("pagelink-number") == 2
    assert TOGETHER in Page(html).text("p")
    root = ElementTree.fromstring(to_svg(explanation))
    brackets = [p for p in root.iter(f"{SVG}path") if p.get("class") == "pagelink-bracket"]
    assert len(brackets) == 1
    assert ">paths that count together<" in to_svg(explanation)
    assert [row["path_bundle"] for row in to_rows(explanation)] == [1, 1, None]


def test_a_bundle_of_one_stands_for_itself() -> None:
    alone = dataclasses.replace(strong(), bundle=1)
    explanation = make_explanation(alone, weaker(), evidence=make_evidence())
    assert "count together" not in to_text(explanation)
    assert "pagelink-bracket" not in to_svg(explanation)


# Equally good


def test_sets_that_are_equally_good_are_listed_after_the_paths() -> None:
    two = alternative(through(("item", 7)), through(("item", 8)))
    one = alternative(through(("item", 9)), worth=0.77)
    explanation = make_explanation(strong(), evidence=make_evidence(), alternatives=(two, one))
    text = to_text(explanation)
    listed = (
        "Equally good:\n- User 3 buys Item 7; Item 7 is similar to Item 35\n"
        "  User 3 buys Item 8; Item 8 is similar to Item 35\n"
        "- User 3 buys Item 9; Item 9 is similar to Item 35\n"
    )
    assert listed in text
    assert text.index("1. User 3") < text.index("Equally good") < text.index("175 combinations")
    page = Page(to_html(explanation))
    assert "Equally good" in page.text("h2")
    assert "User 3 buys Item 8; Item 8 is similar to Item 35" in page.text("p")
    assert to_rows(explanation)[0]["alternatives"] == [
        "User 3 buys Item 7; Item 7 is similar to Item 35 | "
        "User 3 buys Item 8; Item 8 is similar to Item 35",
        "User 3 buys Item 9; Item 9 is similar to Item 35",
    ]
    assert "Equally good" not in to_text(make_explanation(strong(), evidence=make_evidence()))


def test_of_many_sets_the_first_are_listed() -> None:
    many = tuple(alternative(through(("item", at))) for at in range(5))
    explanation = make_explanation(strong(), evidence=make_evidence(), alternatives=many)
    assert "- User 3 buys Item 2; " in to_text(explanation)
    assert "- User 3 buys Item 3; " not in to_text(explanation)
    assert "\n- and 2 further sets of paths\n" in to_text(explanation)
    assert "and 2 further sets of paths" in Page(to_html(explanation)).text("li")
    assert len(to_rows(explanation)[0]["alternatives"]) == 5
    assert len(explanation.to_dict()["alternatives"]) == 5


# The strongest facts


SIGNS = "(+ supports the link, \u2212 speaks against it)"
OFF_PATH = (("artist", 5), "made", ("item", 35), 1.6)


def with_strongest(share: float | None, *paths: Path, **changes: Any) -> Explanation:
    found = strongest(share, 3.4, OFF_PATH)
    given = {"evidence": make_evidence(), "strongest": found, **changes}
    return make_explanation(*(paths or (strong(), weaker())), **given)


def test_the_strongest_facts_are_listed_and_compared() -> None:
    explanation = with_strongest(0.72)
    sentence = (
        "Removing these two facts together lowers the score by 3.40. Removing the paths has 72 % "
        "of this effect."
    )
    text = to_text(explanation)
    assert (
        f"The strongest facts {SIGNS}:\n{sentence}\n"
        "- User 3 buys Item 54 (alone: +0.90, on paths 1, 2)\n"
        "- Artist 5 made Item 35 (alone: +1.60)\n"
    ) in text
    page = Page(to_html(explanation))
    assert sentence in page.text("p")
    assert "Artist 5" in page.text("bdi")
    assert "Other facts count more" not in text
    row = to_rows(explanation)[0]
    assert (row["strongest_effect"], row["strongest_share"]) == (3.4, 0.72)
    assert row["strongest"] == ["User 3 buys Item 54", "Artist 5 made Item 35"]
    # A type that is not drawn has a colour in the words, and none in the legend.
    assert list(type_colours(explanation)) == ["artist", "item", "user"]
    assert ">artist</text>" not in to_svg(explanation)
    assert "strongest" not in to_text(make_explanation(strong(), evidence=make_evidence()))


@pytest.mark.parametrize(
    ("share", "said"),
    [
        (0.31, "Other facts count more: removing these paths has only 31 % of the effect of "
               "removing the two strongest facts."),
        (0.003, "Other facts count more: removing these paths has none of the effect of removing "
                "the two strongest facts."),
        (-0.4, "Other facts count more: removing these paths has none of the effect of removing "
               "the two strongest facts."),
        (0.5, ""),
        (None, ""),
    ],
)  # fmt: skip
def test_the_first_lines_say_that_other_facts_count_more(share: float | None, said: str) -> None:
    explanation = with_strongest(share)
    if said:
        said_in(explanation, said)
        assert "of this effect" not in to_text(explanation)  # once is enough
    else:
        assert "Other facts" not in to_text(explanation)


@pytest.mark.parametrize(
    ("share", "said"),
    [
        (None, "No facts were found whose removal lowers the score noticeably."),
        (1.0, "Removing the paths does as much."),
        (3.2, "Removing the paths does more."),
        (-0.2, "Removing these two facts together lowers the score by 3.40."),
    ],
)  # fmt: skip
def test_a_share_beyond_sense_is_told_in_words(share: float | None, said: str) -> None:
    told = wording(with_strongest(share)).strongest
    assert told is not None
    assert told.sentence.endswith(said)
    assert "%" not in told.sentence


def test_strongest_facts_are_listed_unless_they_are_all_facts_of_the_paths() -> None:
    path = worth(through(("item", 54)), 1.0, 0.9, 0.8)
    one = strongest(1.0, 0.9)
    told = wording(make_explanation(path, evidence=make_evidence(), strongest=one)).strongest
    assert told is not None
    assert told.sentence.startswith("Removing this one fact lowers the score by 0.90. ")
    assert [str(fact) for fact in told.facts] == ["User 3 buys Item 54 (alone: +0.90, on path 1)"]
    ends = itertools.pairwise(path.nodes)
    every = [NamedFact(nodes, ("", ""), edge) for nodes, edge in zip(ends, path.edges, strict=True)]
    both = StrongestFacts(tuple(every), 1.0, 1.0)
    told = wording(make_explanation(path, evidence=make_evidence(), strongest=both)).strongest
    assert told is not None
    assert told.facts == ()
    assert told.heading == "The strongest facts"
    assert told.sentence.endswith("They are the facts of this path.")


def test_the_rank_without_the_strongest_facts_is_said() -> None:
    ranks = {"rank": 4, "rank_without_these": 31, "rank_without_strongest": 55, "rank_of": 100}
    explanation = with_strongest(0.72, **ranks)
    assert (
        "Removing these two facts together lowers the score by 3.40 and moves the link to 55th of "
        "100 items. "
    ) in to_text(explanation)
    assert to_rows(explanation)[0]["rank_without_strongest"] == 55


# What else


def features_only(**changes: Any) -> Explanation:
    evidence = make_evidence("structure_not_used", influence=0.0)
    found = parts(
        path_facts=(0.003, None), facts_near_src=(-0.4, None), facts_near_dst=(0.5, None),
        facts_between=(0.0, None), features_src=(0.01, 0.2), features_dst=(3.2, 0.31),
        features_others=(0.2, 0.05),
    )  # fmt: skip
    given = {"evidence": evidence, "what_else": found, **changes}
    return make_explanation(dataclasses.replace(strong(), is_evidence=False), **given)


RESTS = (
    "The score rests mostly on the features of Item 35: with those of a similar item instead it "
    "falls by 3.20 ± 0.31."
)


def test_what_the_score_rests_on_comes_before_the_verdict() -> None:
    explanation = features_only(strongest=strongest(0.1, 0.5, OFF_PATH))
    assert wording(explanation).opening[0] == RESTS
    assert wording(explanation).opening[1].startswith("The model does not rely on paths")
    said_in(explanation, RESTS)
    lines = to_text(explanation).split(f"What the score rests on {SIGNS}:\n")[1]
    assert lines.split("\n\n")[0].splitlines() == [
        "- facts on paths of at most three facts (12 facts): nothing",
        "- facts near User 3 that are on no path (12 facts): \u22120.40",
        "- facts near Item 35 that are on no path (12 facts): +0.50",
        "- facts as near to User 3 as to Item 35 that are on no path (12 facts): nothing",
        "- the features of User 3: nothing",
        "- the features of Item 35: +3.20 ± 0.31",
        "- the features of all other nodes (31 nodes): +0.20 ± 0.05",
    ]
    page = Page(to_html(explanation))
    assert "the features of Item 35" in page.text("th")
    assert "+3.20 ± 0.31" in page.text("td")
    assert to_text(explanation).count(RESTS) == 1
    empty = [dataclasses.replace(part, size=0) if part.name == "facts_between" else part
             for part in explanation.what_else]  # fmt: skip
    assert "as near to" not in to_text(dataclasses.replace(explanation, what_else=tuple(empty)))
    row = json.loads(to_rows(explanation)[0]["what_else"])
    assert row[5] == {"name": "features_dst", "size": 1, "effect": 3.2, "error": 0.31}
    assert [part["name"] for part in row] == list(PARTS)


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (parts(facts_near_dst=(1.5, None)),
         "The score rests mostly on facts near Item 35 that are on no path (12 facts): without "
         "these facts it falls by 1.50."),
        (parts(path_facts=(1.5, None)),
         "The score rests mostly on facts on paths of at most three facts (12 facts): without "
         "these facts it falls by 1.50."),
        (parts(features_others=(1.5, 0.2)),
         "The score rests mostly on the features of all other nodes (31 nodes): with those of "
         "similar nodes instead it falls by 1.50 ± 0.20."),
        (parts(features_src=(1.0, 0.1), features_dst=(1.2, 0.1), path_facts=(0.9, None)),
         "The score rests on several parts, most of all on the features of Item 35: with those "
         "of a similar item instead it falls by 1.20 ± 0.10."),
        (parts(features_src=(-1.0, 0.1), path_facts=(0.002, None)),
         "No part of what the model sees raises the score by itself; the features of User 3 "
         "lower it most: with those of a similar user instead it rises by 1.00 ± 0.10."),
        (parts(features_src=(0.001, 0.1)),
         "No part of what the model sees changes the score noticeably by itself."),
    ],
)  # fmt: skip
def test_what_counts_most_is_named(found: Any, said: str) -> None:
    said_in(features_only(what_else=found), said)


def test_what_else_is_said_without_a_verdict_and_beside_one_that_relies_on_paths() -> None:
    bare = make_explanation(reason="not_connected", what_else=parts(features_dst=(3.2, 0.31)))
    assert wording(bare).opening[:2] == (RESTS, "There are no paths to show.")
    relied = make_explanation(
        strong(), evidence=make_evidence(), what_else=parts(features_dst=(3.2, 0.31))
    )
    assert RESTS not in wording(relied).opening
    assert RESTS in to_text(relied)
    assert RESTS in Page(to_html(relied)).text("p")
    assert "rests" not in to_text(make_explanation(strong(), evidence=make_evidence()))


# All of it


ALL = [
    degree_only, bundle, features_only, lambda: with_strongest(0.3),
    lambda: with_strongest(0.3, alternatives=(alternative(through(("item", 7))),)),
]  # fmt: skip


@pytest.mark.parametrize("make", ALL)
def test_drawings_have_room_and_data_survive(make: Any) -> None:
    explanation = make()
    assert_nodes_have_room(explanation)
    assert_lettering_has_room(explanation)
    again = Explanation.from_dict(json.loads(json.dumps(explanation.to_dict())))
    for view in (to_text, to_svg, to_html, to_html_fragment, to_rows):
        assert view(again) == view(explanation)


def test_rows_carry_what_is_new() -> None:
    rows = to_rows(make_explanation(strong(), weaker(), evidence=make_evidence()))
    control = {
        "control_effect": 2.1, "control_low": 1.8, "control_high": 2.4, "control_draws": 20,
        "control_placebo": 20,
    }  # fmt: skip
    for row in rows:
        assert {name: round(row[name], 6) for name in control} == control
        assert (row["gain"], row["worth"], row["max_length"]) == (2.9, 0.8, 3)
    assert [row["path_gain"] for row in rows] == [None, 0.9]
    assert [row["edge_active"] for row in rows] == [[True, False, True], [True, True, True]]
    assert to_table(rows).schema == SCHEMA
    new = ("ends", "gain", "worth", "max_length", *control, "strongest", "strongest_effect",
           "strongest_share", "what_else", "alternatives", "edge_active", "path_gain",
           "path_share", "path_bundle", "rank_without_strongest")  # fmt: skip
    for row in to_rows(make_explanation(through(("item", 1)))):
        assert {name: row[name] for name in new} == dict.fromkeys(new)
    none = make_evidence(control=None)
    assert to_rows(make_explanation(strong(), evidence=none))[0]["control_draws"] is None
