"""What the explorer answers about hand-made explanations."""

from __future__ import annotations

import dataclasses

from support.explanations import (
    everything,
    graph_of,
    make_control,
    make_evidence,
    make_explanation,
    strong,
)

from pagelink.explain.result import Explanation
from pagelink.graph.typed_graph import TypedGraph
from pagelink.views.wording import wording
from pagelink.web.answers import explained_answer
from pagelink.web.explained import Explained


def answered(explanation: Explanation) -> Explained:
    data, stored = graph_of(explanation)
    return explained_answer(TypedGraph.from_data(data), stored)


def test_the_answer_says_what_the_other_views_say() -> None:
    explanation = everything()
    said, answer = wording(explanation), answered(explanation)
    assert tuple(answer.opening) == said.opening
    (group,) = answer.groups
    assert [path.bundle for path in group.paths] == [1, 1, None]
    assert [bool(path.together) for path in group.paths] == [True, True, False]
    assert [path.share for path in group.paths] == [
        "42 % of the effect of these paths", "", "30 % of the effect of these paths",
    ]  # fmt: skip
    assert [step.active for step in group.paths[0].steps] == [True, False, True]
    assert [step.role for step in group.paths[0].steps] == [
        "", "Connecting step (no effect by itself)", "",
    ]  # fmt: skip
    assert (group.paths[2].gain, group.paths[2].connection) == (0.9, 0.62)
    assert answer.ends is None
    good, strongest, rests = answer.equally_good, answer.strongest, answer.what_else
    assert good is not None
    assert [equal.lines for equal in good.sets] == [
        ["User 3 buys Item 7; Item 7 is similar to Item 35",
         "User 3 buys Item 8; Item 8 is similar to Item 35"],
    ]  # fmt: skip
    assert strongest is not None
    assert strongest.sentence.endswith("lowers the score by 3.40.")
    assert [fact.sentence for fact in strongest.facts] == [
        "User 3 buys Item 54", "Artist 5 made Item 35",
    ]  # fmt: skip
    assert rests is not None
    assert [(part.name, part.change) for part in rests.parts] == [
        ("facts_near_dst", "+0.50"), ("features_dst", "+3.20 ± 0.31"),
    ]  # fmt: skip


def test_what_was_not_measured_is_null() -> None:
    answer = answered(make_explanation(strong(), evidence=make_evidence()))
    assert answer.equally_good is answer.strongest is answer.what_else is None


def test_the_end_that_counts_is_in_the_answer() -> None:
    evidence = make_evidence("degree_only", ends="dst", control=make_control(0.01))
    path = dataclasses.replace(strong(), is_evidence=False)
    answer = answered(make_explanation(path, evidence=evidence))
    assert (answer.verdict, answer.ends) == ("degree_only", "dst")
    assert answer.opening[0].startswith("What counts is how much is known about Item 35, not what")
    assert answer.groups[0].is_context
