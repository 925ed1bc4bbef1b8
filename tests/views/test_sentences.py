"""The first sentence of an explanation, ranks and signs."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from support.explanations import (
    BOUGHT,
    BUYS,
    idle,
    make_evidence,
    make_explanation,
    make_path,
    parts,
    strong,
    strongest,
    through,
    weaker,
    worth,
)

from pagelink.explain.result import Explanation, Node, Path
from pagelink.measure.verdict import VERDICTS, Verdict
from pagelink.views.pages import to_text
from pagelink.views.score_wording import support
from pagelink.views.sentences import _is_verb, because, chained
from pagelink.views.statements import Fact, NodeWords, path_steps
from pagelink.views.text import ordinal, plural
from pagelink.views.verdict_wording import VERDICT_WORDS
from pagelink.views.wording import wording

ANN, MAX, ALIEN, SCIFI = ("user", 0), ("movie", 1), ("movie", 2), ("genre", 3)
NAMES = {ANN: "Ann", MAX: "Mad Max", ALIEN: "Alien", SCIFI: "Sci-Fi"}
GENRE = ("has genre", False), ("has genre", True)


def called(node: Node, name: str = "") -> NodeWords:
    name = name or NAMES.get(node, f"{node[0].title()} {node[1]}")
    return NodeWords(node, name, node[0], name, None)


def facts(path: Path) -> list[Fact]:
    return [step.fact for step in path_steps(path, tuple(map(called, path.nodes)))]


# One path in one sentence


def film() -> Path:
    return make_path([ANN, MAX, SCIFI, ALIEN], [("likes", False), *GENRE], NAMES)


@pytest.mark.parametrize(
    ("nodes", "relations", "said"),
    [
        ([ANN, MAX, SCIFI, ALIEN], [("likes", False), *GENRE],
         "Ann likes Mad Max, which has genre Sci-Fi, like Alien"),
        ([ANN, MAX, ("user", 4), ALIEN], [BUYS, BOUGHT, BUYS],
         "Ann buys Mad Max, like User 4, and User 4 buys Alien"),
        # What a person does is said with "who".
        ([ANN, ("user", 4), ALIEN], [("follows", False), ("likes", False)],
         "Ann follows User 4, who likes Alien"),
        # A preposition alone, or a passive, is no verb.
        ([ANN, MAX, ("attr", 5), ALIEN], [BUYS, ("has", False), ("of", False)],
         "Ann buys Mad Max, which has Attr 5, which is of Alien"),
        ([ANN, MAX, ("user", 4)], [BUYS, ("bought by", False)],
         "Ann buys Mad Max, which is bought by User 4"),
        # Whether this is one cannot be known: "starred in" is, "published in" is not.
        ([ANN, MAX, ("venue", 1)], [("wrote", False), ("published in", False)],
         "Ann wrote Mad Max, and Mad Max published in Venue 1"),
        ([ANN, ALIEN], [("rated below 4", False)], "Ann rated below 4 Alien"),
    ],
)  # fmt: skip
def test_facts_are_one_clause(nodes: list[Node], relations: Any, said: str) -> None:
    assert chained(facts(make_path(nodes, relations, NAMES))) == said


@pytest.mark.parametrize(
    ("relation", "verb"),
    [
        ("likes", True), ("has genre", True), ("is similar to", True), ("rated below 4", True),
        ("used", True), ("of", False), ("in", False), ("bought by", False), ("published in", False),
        ("liked by", False), ("user blue", False), ("", False),
    ],
)  # fmt: skip
def test_verbs_are_told_from_other_relations(relation: str, verb: bool) -> None:
    assert _is_verb(relation) is verb


def measured(*paths: Path, **changes: Any) -> Explanation:
    return make_explanation(*paths, **{"evidence": make_evidence(), **changes})


def rated() -> Path:
    return worth(film(), 2.95, 1.0, 0.5, 1.0)


def test_the_path_that_counts_most_is_the_first_sentence() -> None:
    explanation = measured(rated(), link_type=("user", "likes", "movie"))
    said = "Mostly because Ann likes Mad Max, which has genre Sci-Fi, like Alien."
    assert because(explanation) == said
    assert wording(explanation).opening[0] == said
    assert to_text(explanation).splitlines()[1] == said


def test_what_is_less_than_half_is_said_to_be_a_part() -> None:
    # The larger share is named, and it is below half.
    assert because(measured(weaker(), strong())).startswith("Partly because User 3 buys Item 54, ")
    assert "User 4" in because(measured(weaker(), strong()))
    half = dataclasses.replace(strong(), share=0.5)
    assert because(measured(half, weaker())).startswith("Mostly")
    # Of two paths that are needed both, neither is most of it.
    assert because(measured(half, dataclasses.replace(weaker(), share=0.5))).startswith("Partly")
    # Half of the paths' effect, and those have less than half of what other facts have.
    few = measured(rated(), strongest=strongest(0.4, 7.0))
    assert because(few).startswith("Partly")
    assert because(measured(rated(), strongest=strongest(0.6, 5.0))).startswith("Mostly")
    bundle = dataclasses.replace(half, bundle=1), dataclasses.replace(weaker(), bundle=1)
    assert because(measured(*bundle)).startswith("Partly")


def test_the_path_with_the_largest_figure_beside_it_is_named() -> None:
    # Its share is that of a gain, which is not shown; by removal it does little.
    by_gain = dataclasses.replace(weaker(), influence=0.18, marginal=0.19, share=1.09)
    assert "User 4" in because(measured(by_gain, strong()))
    # Where adding is what shows the effect, the share counts.
    added = measured(by_gain, strong(), evidence=make_evidence(inserted=True))
    assert "User 9" in because(added)


def test_a_path_that_alone_speaks_against_the_link_is_not_named_first() -> None:
    raising = dataclasses.replace(strong(), influence=-1.1, share=0.6)
    assert "User 9" in because(measured(raising, weaker()))
    assert "User 4" in because(measured(raising))


def test_without_evidence_there_is_no_sentence() -> None:
    assert because(measured(idle())) == ""
    assert because(make_explanation(strong(), evidence=None, paths=())) == ""
    unmeasured = make_explanation(through(("item", 1)))
    assert because(unmeasured) == ""
    assert "because" not in to_text(unmeasured)


@pytest.mark.parametrize("verdict", [v for v in VERDICTS if not VERDICT_WORDS[v].is_relied])
def test_where_the_model_does_not_rely_on_paths_what_it_relies_on_is_first(
    verdict: Verdict,
) -> None:
    found = parts(features_dst=(3.2, 0.31))
    path = dataclasses.replace(strong(), is_evidence=verdict == "structure_against")
    explanation = measured(path, evidence=make_evidence(verdict), what_else=found)
    first, second, *_ = wording(explanation).opening
    assert first.startswith("The score rests mostly on the features of Item 35: ")
    assert not second.startswith("The score rests")
    assert "because" not in to_text(explanation)


@pytest.mark.parametrize("ends", [None, "src"])
def test_where_only_the_number_of_facts_counts_paths_are_not_what_is_said_first(
    ends: Any,
) -> None:
    verdict: Verdict = "degree_only" if ends is None else "supported"
    evidence = make_evidence(verdict, ends=ends)
    found = parts(path_facts=(3.2, None))
    first, *others = wording(measured(strong(), evidence=evidence, what_else=found)).opening
    assert "rests" not in first
    assert sum("rests mostly on facts on paths" in sentence for sentence in others) == 1


def test_a_small_score_does_not_look_like_zero() -> None:
    said = to_text(make_explanation(logit=1.2e-5, evidence=None, paths=()))
    assert "score for this link is 0.000012" in said
    assert "score for this link is 0.00." in to_text(
        make_explanation(logit=1.2e-9, evidence=None, paths=())
    )


# Ranks


def ranked(**changes: Any) -> Explanation:
    names = {ANN: "Ann", ALIEN: "Alien"}
    path = worth(make_path([ANN, MAX, ALIEN], [BUYS, GENRE[0]], names), 4.53, 1.0, 1.0)
    evidence = make_evidence(logit_without_these=1.57)
    values: dict[str, Any] = {
        "evidence": evidence,
        "logit": 6.1,
        "logit_deployed": 6.1,
        "rank": 2,
        "rank_of": 9726,
        "rank_end": "dst",
    }
    return make_explanation(path, **{**values, **changes})


def test_the_headline_says_how_score_and_rank_move() -> None:
    assert wording(ranked(rank_without_these=1204)).opening[1] == (
        "The model relies on this path: without these two facts its score falls from 6.10 to 1.57, "
        "and its rank falls from 2nd to 1,204th of 9,726 movies."
    )
    assert (
        wording(ranked(rank_without_these=2))
        .opening[1]
        .endswith("its score falls from 6.10 to 1.57; it still ranks 2nd of 9,726 movies.")
    )
    assert wording(ranked()).opening[1].endswith("its score falls from 6.10 to 1.57.")


def test_either_end_has_a_rank() -> None:
    assert wording(ranked()).score_sentence == (
        "Alien ranks 2nd of 9,726 movies for Ann, with a score of 6.10."
    )
    tied = ranked(rank_ties=1, rank_without_these=4863, rank_ties_without_these=9725)
    assert (
        wording(tied)
        .opening[1]
        .endswith(" from 2nd to 4,863rd of 9,726 movies (tied with 9,725 others).")
    )
    sampled = ranked(rank_of=100, rank_is_sample=True, rank_ties=2)
    assert "ranks 2nd of a sample of 100 movies (tied with 2 others) for" in to_text(sampled)
    source = ranked(rank_end="src", rank=1, rank_of=610)
    assert wording(source).score_sentence == (
        "Ann ranks 1st of 610 users for Alien, with a score of 6.10."
    )
    inside = ranked(link_in_graph=True, logit_deployed=8.0)
    assert wording(inside).score_sentence == (
        "The link is already part of the graph. Its score is 8.00 with the link in place and 6.10 "
        "without it. This explanation is about the graph without the link. Alien ranks 2nd of "
        "9,726 movies for Ann."
    )
    bare = ranked(evidence=None, rank_without_these=31)
    assert wording(bare).score_sentence.endswith(
        "with a score of 6.10; without this path it would rank 31st."
    )
    unused = ranked(evidence=make_evidence("structure_not_used"), rank_without_these=2)
    assert wording(unused).score_sentence.endswith("without this path it would still rank 2nd.")
    unranked = ranked(rank=None, rank_of=None, rank_end=None)
    assert wording(unranked).score_sentence == "The model's score for this link is 6.10."


# Signs, ordinals and plurals


def test_what_supports_the_link_has_a_plus() -> None:
    assert [support(value) for value in (4.35, -0.3, 0.0, 0.001, -0.001, None)] == [
        "+4.35", "\u22120.30", "", "", "", "",
    ]  # fmt: skip
    assert support(2e7) == "+2.000e+07"
    assert support(-2e7) == "\u22122.000e+07"


def test_ordinals() -> None:
    numbers = (1, 2, 3, 4, 11, 12, 13, 21, 102, 111, 1012, 1203)
    assert [ordinal(number) for number in numbers] == [
        "1st", "2nd", "3rd", "4th", "11th", "12th", "13th", "21st", "102nd", "111th", "1,012th",
        "1,203rd",
    ]  # fmt: skip


def test_plurals() -> None:
    expected = {
        "movie": "movies", "category": "categories", "day": "days", "class": "classes",
        "box": "boxes", "branch": "branches", "virus": "viruses", "series": "series",
        "users": "users", "side effect": "side effects", "person": "people",
    }  # fmt: skip
    assert {noun: plural(noun) for noun in expected} == expected
