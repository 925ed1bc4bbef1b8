"""Words for what was requested, for predicted negatives, and for paths that only count together."""

from __future__ import annotations

import dataclasses
import json
from typing import Any
from xml.etree import ElementTree

import pytest
from support.drawings import SVG, Page, assert_lettering_has_room, assert_nodes_have_room
from support.explanations import (
    idle,
    make_evidence,
    make_explanation,
    simple,
    strong,
    through,
    weaker,
    worth,
)

from pagelink.explain.result import Explanation, Path
from pagelink.measure.verdict import VERDICTS, Verdict
from pagelink.views.pages import to_html, to_svg, to_text
from pagelink.views.rows import SCHEMA, to_rows, to_table
from pagelink.views.verdict_wording import VERDICT_WORDS
from pagelink.views.wording import wording


def drawn(explanation: Explanation, kind: str) -> str:
    """Return all lettering of a class in the drawing."""
    root = ElementTree.fromstring(to_svg(explanation))
    return " ".join(t.text or "" for t in root.iter(f"{SVG}text") if t.get("class") == kind)


def shown(explanation: Explanation) -> dict[str, str]:
    """Return what each view says in sentences."""
    return {
        "text": to_text(explanation),
        "html": Page(to_html(explanation)).text("p", "span", "h2"),
        "svg": f"{drawn(explanation, 'pagelink-message')} {drawn(explanation, 'pagelink-group')}",
        "aria": ElementTree.fromstring(to_svg(explanation)).get("aria-label", ""),
    }


# What was requested


def requested(**changes: Any) -> Explanation:
    runs = {0: 5, 1: 2, 2: 3}
    paths = [
        dataclasses.replace(path, runs=runs[at])
        for at, path in enumerate((idle(), strong(), weaker()))
    ]
    values = {"rank": 4, "rank_without_these": 31, "rank_of": 100, "runs": 5, **changes}
    return make_explanation(*paths, evidence=make_evidence(), **values)


def test_rank_and_runs_are_in_every_view() -> None:
    falls = "its score falls from 2.59 to -0.36, and its rank falls from 4th to 31st of 100 items."
    rank = "Item 35 ranks 4th of 100 items for User 3, with a score of 2.59."
    # The path that is only context comes last, and its number goes with it.
    runs = (
        "Of 5 runs, each with its own seed, path 1 was returned in 2, path 2 was returned in 3 and "
        "path 3 was returned in 5."
    )
    for name, said in shown(requested()).items():
        assert falls in said, name
        assert rank in said or name == "svg", name
        assert runs in said or name == "svg", name
    assert "PaGE-Link score -5.25 · in 2 of 5 runs" in to_html(requested())
    values = json.loads(json.dumps(requested().to_dict()))
    assert [values[name] for name in ("rank", "rank_without_these", "rank_of", "runs")] == [
        4, 31, 100, 5,
    ]  # fmt: skip
    assert [path["runs"] for path in values["paths"]] == [5, 2, 3]
    rows = to_rows(requested())
    assert {(r["rank"], r["rank_without_these"], r["rank_of"], r["runs"]) for r in rows} == {
        (4, 31, 100, 5)
    }
    assert [row["path_runs"] for row in rows] == [2, 3, 5]
    assert to_table(rows).schema == SCHEMA
    assert to_rows(Explanation.from_dict(values)) == rows


def test_what_stays_the_same_is_said_to() -> None:
    same = requested(rank_without_these=4)
    still = "its score falls from 2.59 to -0.36; it still ranks 4th of 100 items."
    assert still in to_text(same)
    assert "its rank rises from 4th to 1st of 100 items." in to_text(
        requested(rank_without_these=1)
    )
    alone = make_explanation(rank=7, rank_of=9, runs=3, reason="not_connected")
    assert "Item 35 ranks 7th of 9 items for User 3, with a score of 2.59." in to_text(alone)
    assert "runs" not in to_text(alone)
    (row,) = to_rows(alone)
    assert (row["rank"], row["runs"], row["path_runs"]) == (7, 3, None)
    path = dataclasses.replace(strong(), runs=3)
    all_ = make_explanation(path, evidence=make_evidence(), runs=3)
    assert "This path was returned in all 3 runs, each with its own seed." in to_text(all_)


def test_nothing_is_said_of_what_was_not_requested() -> None:
    for name, said in shown(simple()).items():
        assert "runs" not in said, name
        assert "Item 35 ranks" not in said, name
    for row in to_rows(simple()):
        assert {row[name] for name in ("rank", "rank_of", "runs", "path_runs")} == {None}


# Predicted negatives


def negative(*effects: float) -> Explanation:
    paths = tuple(
        dataclasses.replace(through(("item", at)), influence=effect, is_evidence=effect > 0)
        for at, effect in enumerate(effects)
    )
    message = "The model does not predict this link: its score is -0.5."
    return make_explanation(
        *paths, logit=-0.5, logit_deployed=-0.5, reason="predicted_negative", message=message
    )


def test_a_predicted_negative_says_what_speaks_for_the_link_and_what_against() -> None:
    explanation = negative(0.4, 0.2, -0.9)
    for name, said in shown(explanation).items():
        assert "The 2 paths that speak for the link, the most influential first" in said, name
        assert "The path that speaks against the link" in said, name
        for wrong in ("not complete", "only for context", "not measured", "relies", "rank best"):
            assert wrong not in said, (name, wrong)
    text = to_text(explanation)
    assert "\nThe model does not predict this link: its score is -0.5.\n" in text
    assert "Removing this path lowers the score by 0.40." in text
    assert "Removing this path raises the score by 0.90." in text
    assert "a path speaks for the link if the score then falls" in text
    assert "pagelink-context" not in [v for _, _, v in Page(to_html(explanation)).attributes]
    assert [row["path_influence"] for row in to_rows(explanation)] == [0.4, 0.2, -0.9]


@pytest.mark.parametrize(
    ("effects", "headings"),
    [
        ((0.4,), ["The path that speaks for the link"]),
        ((-0.1, -0.4), ["The 2 paths that speak against the link"]),
        ((), []),
    ],
)
def test_one_side_may_be_empty(effects: tuple[float, ...], headings: list[str]) -> None:
    explanation = negative(*effects)
    assert [group.heading for group in wording(explanation).groups] == headings
    assert ("There are no paths" in to_text(explanation)) == (not effects)


@pytest.mark.parametrize("make", [requested, lambda: negative(0.4, 0.2, -0.9)])
def test_drawings_have_room_for_what_they_say(make: Any) -> None:
    assert_nodes_have_room(make())
    assert_lettering_has_room(make())


# Alone, and beside the others


def remark(path: Path, *others: Path, **changes: Any) -> str:
    explanation = make_explanation(path, *others, evidence=make_evidence(**changes))
    (words,) = (each for each in wording(explanation).paths if each.path == path)
    return words.remarks[1]


@pytest.mark.parametrize(
    ("influence", "marginal", "said"),
    [
        (0.8, 0.81, ""),
        (0.8, 1.5, "With the other path removed, this one is worth another 1.50."),
        (0.8, -0.3, "With the other path removed, removing this one too raises the score by 0.30."),
        (0.0, 2.2, "With the other path removed, this one is worth another 2.20: they stand in for "
                   "each other."),
        (0.0, 0.1, "With the other path removed, this one is worth another 0.10."),
        (2.9, 0.0, "It is necessary, but not sufficient alone: with the other path removed, this "
                   "one is worth nothing."),
        (0.8, 0.01, "With the other path removed, this one is worth nothing more."),
    ],
)  # fmt: skip
def test_what_a_path_adds_to_the_others_is_said_where_it_differs(
    influence: float, marginal: float, said: str
) -> None:
    path = worth(through(("item", 1)), influence, 0.1, 0.1, marginal=marginal)
    assert remark(path, strong()).endswith(said or "by 0.80.")
    assert "other path" not in remark(path)


def test_what_redundant_paths_add_alone_is_said() -> None:
    path = worth(through(("item", 1)), 0.0, 0.0, 0.0, marginal=1.9, gain=1.9)
    assert remark(path, strong(), inserted=True) == (
        "Added alone to the graph without any path, it raises the score by 1.90. Removing this "
        "path does not change the score."
    )
    less = dataclasses.replace(path, marginal=0.4)
    assert remark(less, strong(), inserted=True).endswith(
        "Added after the other path, it adds 0.40."
    )
    (row, _) = to_rows(make_explanation(path, strong(), evidence=make_evidence(inserted=True)))
    assert row["path_gain"] == 1.9


def test_weak_paths_are_not_relied_on() -> None:
    weak = worth(through(("item", 1)), 0.01, 0.0, 0.0, marginal=0.012, is_evidence=False)
    text = to_text(make_explanation(strong(), weak, evidence=make_evidence()))
    assert "The model relies on one of these two paths: without the five facts of both " in text
    assert "A path that adds next to nothing to the other, only for context:" in text


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"sufficiency": 0.13}, "bring back only 13 % of what all paths add."),
        ({"sufficiency": -0.4}, "bring back nothing of what all paths add."),
        ({"sufficiency": 0.6}, ""),
        ({"sufficiency": 0.13, "logit_without_these": 1.5}, ""),  # removal takes little, too
    ],
)
def test_necessary_but_not_sufficient(changes: dict[str, Any], said: str) -> None:
    head, *_ = to_text(make_explanation(strong(), evidence=make_evidence(**changes))).split(
        "The model's score"
    )
    if said:
        assert "It is necessary, but not sufficient alone: added to the graph without any" in head
        assert f"these three facts {said}\n" in head
    else:
        assert "necessary" not in head


def test_a_conjunction_of_a_real_model_is_said_to_be_one() -> None:
    from pagelink.datasets.planted import LINK_TYPE, plant
    from pagelink.explain.explainer import PaGELink

    planted = plant("both", num_links=6)
    for answer in PaGELink(planted.model, planted.data, LINK_TYPE).explain_many(planted.pairs):
        assert "necessary, but not sufficient alone" in str(answer)


# Against the link


def test_all_paths_lower_the_score_and_one_raises_it() -> None:
    evidence = make_evidence("structure_against", logit_without_paths=3.6, sufficiency=None)
    explanation = make_explanation(strong(), idle(), evidence=evidence)
    assert [group.heading for group in wording(explanation).groups] == [
        "A path that raises the score, though all paths together lower it",
        "A path that does not raise the score",
    ]
    for name, said in shown(explanation).items():
        assert "together they lower the score, which is 3.60 instead of 2.59" in said, name
        assert "The other paths lower it by more." in said, name
    nothing = dataclasses.replace(evidence, influence=-0.3, rho_reached=None)
    text = to_text(make_explanation(idle(), evidence=nothing))
    assert "None of the combinations of paths that were tested raises it." in text
    assert "Some of them raise it" not in text


def test_paths_that_do_something_only_all_at_once_are_not_said_to_do_nothing() -> None:
    evidence = make_evidence("not_by_these", influence=-0.5)
    (first, *_) = wording(make_explanation(idle(), evidence=evidence)).opening
    assert first.startswith("This path alone does not carry the prediction: without these three")
    assert first.endswith("so the model relies on other paths, or on many at once.")
    assert "does not rely on paths" not in first


def test_every_verdict_has_words() -> None:
    assert tuple(VERDICT_WORDS) == VERDICTS
    assert len({words.short for words in VERDICT_WORDS.values()}) == len(VERDICTS)


@pytest.mark.parametrize("verdict", VERDICTS)
def test_a_verdict_is_said_first_and_has_its_colour(verdict: Verdict) -> None:
    evidence = make_evidence(verdict=verdict)
    explanation = make_explanation(strong(), weaker(), evidence=evidence)
    said = wording(explanation)
    assert said.verdict == verdict
    assert said.opening
    assert said.groups
    assert said.is_relied == VERDICT_WORDS[verdict].is_relied
    assert ("pagelink-opening pagelink-relied" in to_html(explanation)) == said.is_relied
