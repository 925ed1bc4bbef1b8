"""The views of hand-made explanations: what they say, that it is safe, and that it can be read."""

from __future__ import annotations

import dataclasses
import json
import re
import unicodedata
from typing import Any
from xml.etree import ElementTree

import pytest
import resvg_py
from support.drawings import (
    SVG,
    Page,
    assert_lettering_has_room,
    assert_nodes_have_room,
    node_areas,
    text_areas,
)
from support.explanations import (
    BOUGHT,
    BUYS,
    HAS,
    ITEM,
    OWNED,
    USER,
    idle,
    make_evidence,
    make_explanation,
    make_path,
    simple,
    strong,
    through,
    weaker,
    worth,
)

from pagelink.explain.result import REASONS, Explanation, Path
from pagelink.measure.verdict import VERDICTS
from pagelink.settings import Settings
from pagelink.views.pages import to_html, to_html_fragment, to_svg, to_text
from pagelink.views.rows import SCHEMA, to_rows, to_table
from pagelink.views.statements import node_words, num_facts
from pagelink.views.templates import type_colours
from pagelink.views.text import ELLIPSIS, clean, numbers, shorten, text_width, wrap
from pagelink.views.wording import wording

HOSTILE = (
    "<script>alert(1)</script>",
    "\"><img src=x onerror=alert(1)> ' onload='alert(1)",
    "]]> &amp; <!-- -->",
    "{{ 7 * 7 }} </style></title></svg>",
    "bell\x07 null\x00 tab\x0b esc\x1b[31m c1\x9b31m \ufffe \ud800 end",
    "two\nlines\r\nand\u2028three",
    "\u202eevil\u202c \u2066spoof",
    "שלום עולם",
)


def forty() -> Explanation:
    inner = [("item", 100), ("attr", 5), ("item", 101)]
    paths = [
        through(("item", at % 7), ("user", 10 + at)) if at % 3 else through(*inner[: at % 4])
        for at in range(39)
    ]
    return make_explanation(*paths, through(("item", 2), ("attr", 1), ("item", 3), ("item", 4)))


def wordy() -> Explanation:
    names = {
        USER: "Vipin Kumar, the first of the authors of quite a few papers on spatial data",
        ("item", 1): "空间时间序列数据集的相关性分析及一种基于邻域的过滤方法及其应用研究与展望",
        ("user", 2): "W" * 90,
        ("item", 2): "تحليل البيانات المرئية في الشبكات العصبية البيانية",
        ITEM: "Photosensitive Accessibility for Interactive Data Visualizations, Part Two",
    }
    degrees = {("user", 2): 1_204_361}
    relation = ("was_mentioned_together_with_the_author_of", True)
    return make_explanation(
        make_path([USER, ("item", 1), ("user", 2), ITEM], [BUYS, relation, BUYS], names, degrees),
        make_path([USER, ("item", 2), ITEM], [BUYS, relation], names),
        make_path([USER, ITEM], [relation], names),
        through(("item", 1), ("attr", 8), ("item", 8), names=names),
        through(("item", 9), ("user", 2), names=names, degrees=degrees),
    )


def late() -> Explanation:
    message = "The time limit of 5 s was reached; the paths found so far are shown."
    return make_explanation(
        through(("item", 54)), reason="out_of_time", message=message, notes=("Pruning was undone.",)
    )


def without_paths() -> Explanation:
    return make_explanation(reason="not_connected", message="Nothing joins the two.")


def relied() -> Explanation:
    return make_explanation(idle(), strong(), weaker(), evidence=make_evidence())


def redundant() -> Explanation:
    evidence = make_evidence(inserted=True, influence=1.9, logit_without_these=2.57)
    paths = (worth(path, 0.02, 0.01, 0.0, 0.01) for path in (strong(), weaker()))
    return make_explanation(*paths, evidence=evidence)


def not_used() -> Explanation:
    evidence = make_evidence(
        "structure_not_used", influence=0.003, logit_without_these=2.587, logit_without_paths=2.584,
        logit_without_edges=2.58, logit_only_these=2.58, sufficiency=0.5,
    )  # fmt: skip
    paths = (worth(path, 0.003, 0.001, 0.0, 0.001) for path in (strong(), weaker()))
    return make_explanation(*paths, evidence=evidence)


def against() -> Explanation:
    evidence = make_evidence("structure_against", logit_without_paths=3.6, sufficiency=None)
    return make_explanation(strong(), idle(), evidence=evidence)


def wordy_evidence() -> Explanation:
    paths = [
        worth(path, 1.0, *(0.5 for _ in path.edges), is_evidence=at < 3)
        for at, path in enumerate(wordy().paths)
    ]
    return make_explanation(*paths, evidence=make_evidence(inserted=True))


MEASURED = [relied, redundant, not_used, against, wordy_evidence]
ALL = [simple, forty, wordy, late, without_paths, *MEASURED]


def hostile() -> Explanation:
    """Return an explanation with bad text in every place that takes text."""
    everything = " ".join(HOSTILE)
    nodes = [(text, at) for at, text in enumerate(HOSTILE)]
    names = {node: HOSTILE[-1 - at] for at, node in enumerate(nodes)}
    path = make_path(nodes, [(text, at % 2 == 0) for at, text in enumerate(HOSTILE[1:])], names)
    return make_explanation(
        path,
        link_type=(HOSTILE[0], HOSTILE[1], HOSTILE[-1]),
        reason="out_of_time",
        message=everything,
        notes=HOSTILE,
        versions={text: text for text in HOSTILE},
    )


# What is said


def test_words_read_in_the_direction_of_the_relation() -> None:
    lines = [line.strip(" 1.") for line in to_text(simple()).splitlines()]
    assert lines[5:8] == ["User 3 buys Item 54", "User 4 buys Item 54", "User 4 buys Item 35"]
    assert "Item 54 buys User 4" not in to_text(simple())
    assert "Item 35 has Attr 2" in lines


def test_text_names_link_and_score_first_and_claims_nothing_unmeasured() -> None:
    text = to_text(simple())
    first = "The link: User 3 likes Item 35\nThe model's score for this link is 2.59.\n"
    assert text.startswith(first)
    assert "was not measured" in text
    assert "relies" not in text
    assert "because" not in text


@pytest.mark.parametrize("logit", [None, float("nan"), float("inf")])
def test_missing_score_is_said(logit: float | None) -> None:
    explanation = make_explanation(through(("item", 1)), logit=logit, logit_deployed=logit)
    for view in (to_text(explanation), to_html(explanation), to_svg(explanation)):
        assert "The model gives no score for this link." in view


def test_both_scores_are_shown_if_the_link_is_in_the_graph() -> None:
    explanation = make_explanation(
        through(("item", 1)), logit=-0.4, logit_deployed=3.2, link_in_graph=True
    )
    for view in (to_text(explanation), Page(to_html(explanation)).text("p")):
        assert "Its score is 3.20 with the link in place and -0.40 without it. " in view
        assert "This explanation is about the graph without the link." in view
    assert "already part of the graph" not in to_text(simple())
    # The paths belong to the graph without the link, and so does the score drawn with them.
    assert "likes · score -0.40" in to_svg(explanation)


@pytest.mark.parametrize("reason", REASONS)
@pytest.mark.parametrize("message", ["", "Nothing at all joins these two."])
def test_reason_is_said_first_in_every_view(reason: str, message: str) -> None:
    explanation = make_explanation(reason=reason, message=message)
    link, first, second, *_ = to_text(explanation).splitlines()
    assert link == "The link: User 3 likes Item 35"
    assert first == "There are no paths to show."
    assert second == message if message else second.endswith(".")

    page = Page(to_html(explanation))
    sentences = page.text("p")
    assert sentences.index(second) < sentences.index("The model's score")
    assert "rank best" not in page.text()

    root = ElementTree.fromstring(to_svg(explanation))
    assert len(node_areas(root)) == 2
    drawn = [text.text or "" for text in root.iter(f"{SVG}text") if "message" in str(text.attrib)]
    assert " ".join(drawn) == f"{first} {second}"
    assert (
        root.find(f".//{SVG}g[@class='pagelink-question']/{SVG}path[@stroke-dasharray]") is not None
    )


def test_paths_found_before_the_time_ran_out_are_shown_as_incomplete() -> None:
    text = to_text(late())
    assert "\nThis explanation is not complete.\nThe time limit of 5 s was reached" in text
    assert "User 3 buys Item 54" in text
    assert text.endswith("Notes:\n- Pruning was undone.")
    page = Page(to_html(late()))
    assert "Pruning was undone." in page.text("li")
    assert "This explanation is not complete." in page.text("p")


def test_nodes_that_are_called_alike_are_told_apart() -> None:
    nodes = [USER, ("item", 1), ("item", 2), ("attr", 1), ("attr", 9), ITEM]
    names = {("item", 1): "Rose", ("item", 2): "Rose", ("attr", 1): "1984", ("attr", 9): "item"}
    explanation = make_explanation(
        make_path(nodes, [BUYS, ("resembles", False), HAS, ("implies", False), OWNED], names)
    )
    phrases = {node: words.phrase for node, words in node_words(explanation).items()}
    assert phrases[("item", 1)] == "item “Rose” (number 1)"
    assert phrases[("item", 2)] == "item “Rose” (number 2)"
    assert phrases[("attr", 1)] == "attr “1984”"
    assert phrases[("attr", 9)] == "attr “item”"
    assert phrases[USER] == "User 3"
    details = to_svg(explanation)
    assert "item 1 · degree 12" in details
    assert "item 2 · degree 12" in details


def test_same_name_of_two_types_and_empty_names() -> None:
    names = {("attr", 1): "Nausea", ("item", 1): "Nausea", ("user", 6): " \n"}
    explanation = make_explanation(
        through(("attr", 1), ("item", 1), ("user", 6), names=names),
    )
    phrases = {node: words.phrase for node, words in node_words(explanation).items()}
    assert phrases[("attr", 1)] == "attr “Nausea”"
    assert phrases[("item", 1)] == "item “Nausea”"
    assert phrases[("user", 6)] == "user 6"


def test_long_names_are_quoted_in_sentences() -> None:
    title = "A Visual Analysis Approach"
    text = to_text(make_explanation(through(("item", 1), names={("item", 1): title})))
    assert f"User 3 buys “{title}”\n" in text


def test_degree_of_inner_nodes_is_shown_everywhere() -> None:
    hub = make_explanation(through(("item", 1), ("user", 2), degrees={("item", 1): 4361}))
    assert "Item 1 (degree 4,361)" in to_text(hub)
    assert "item · degree 4,361" in to_svg(hub)
    assert "Item 1 (degree 4,361)" in Page(to_html(hub)).text("p")


def test_without_mask_learning_no_learned_mask_is_credited() -> None:
    assert "learned mask" in to_text(simple())
    assert "learned mask" not in to_text(make_explanation(through(("item", 1)), epochs=0))


# What the paths are worth


LED_TO = (
    "What these facts lead to matters: exchanging them for random ones of the same kind, which "
    "keeps all degrees, lowers the score by 2.10 (95 % interval 1.80 to 2.40, 20 draws)."
)


BECAUSE = "Partly because User 3 buys Item 54, like User 4, and User 4 buys Item 35."


def opening(explanation: Explanation) -> list[str]:
    return to_text(explanation).split("\nThe model's score ")[0].splitlines()[1:]


@pytest.mark.parametrize(
    ("make", "sentences"),
    [
        (relied, [BECAUSE, "The model relies on two of these three paths: without the seven facts "
                           "of all three paths its score falls from 2.59 to -0.36.", LED_TO]),
        (redundant, [BECAUSE, "The model relies on paths here, but many of them stand in for each "
                              "other, so removing a few changes little: without these five facts "
                              "its score falls from 2.59 to 2.57.",
                     "Added to the graph without any path, these five facts raise its score from "
                     "-1.20 to 0.70.", LED_TO]),
        (not_used, ["The model does not rely on paths of at most three facts here: no combination "
                    "of them changes the score noticeably (175 were tested), and without any it is "
                    "2.58 instead of 2.59."]),
        (against, ["The model does not rely on paths of at most three facts here: together they "
                   "lower the score, which is 3.60 instead of 2.59 without any of them.",
                   "Some of them raise it: without these five facts, all others left in place, the "
                   "score falls from 2.59 to -0.36. The other paths lower it by more."]),
    ],
)  # fmt: skip
def test_the_verdict_is_said_first_in_every_view(make: Any, sentences: list[str]) -> None:
    explanation = make()
    assert opening(explanation) == sentences
    page = Page(to_html(explanation)).text("p")
    assert page.index(sentences[0]) < page.index("The model's score")
    root = ElementTree.fromstring(to_svg(explanation))
    drawn = [t for t in root.iter(f"{SVG}text") if t.get("class") == "pagelink-message"]
    assert " ".join(text.text or "" for text in drawn) == " ".join(sentences)
    below = [t for t in root.iter(f"{SVG}text") if t.get("class") == "pagelink-label"]
    assert max(float(t.get("y", "")) for t in drawn) < min(float(t.get("y", "")) for t in below)
    assert sentences[0] in root.get("aria-label", "")


@pytest.mark.parametrize(
    ("make", "heading"),
    [
        (not_used, "2 paths in the graph that are not the model's reasons"),
        (against, "A path that raises the score, though all paths together lower it"),
    ],
)
def test_paths_that_are_no_reasons_are_not_shown_as_such(make: Any, heading: str) -> None:
    text = to_text(make())
    assert f"{heading}:\n\n1. User 3" in text
    assert "relies on" not in text
    page = Page(to_html(make()))
    assert heading in page.text("h2")
    assert ("div", "class", "pagelink-opening") in page.attributes
    assert ("li", "class", "pagelink-path") not in page.attributes
    assert f">{heading.replace(chr(39), '&#39;')}</text>" in to_svg(make())
    assert "Most of it" not in text
    assert "evidence" not in text


def test_context_is_shown_apart_after_the_evidence_and_numbered_on() -> None:
    explanation = relied()
    first, second = (
        "The 2 paths that the model relies on, the most influential first",
        "A path that adds nothing to the others, only for context",
    )
    assert [group.heading for group in wording(explanation).groups] == [first, second]
    text = to_text(explanation)
    places = [text.index(part) for part in (first, "1. User 3", "2. User 3", second, "3. User 3")]
    assert places == sorted(places)
    assert "Item 35 has Attr 2" in text[places[-1] :]
    html = to_html(explanation)
    assert html.index(f"{first}</h2>") < html.index(f"{second}</h2>")
    assert html.count('class="pagelink-path pagelink-context"') == 1
    assert '<ol class="pagelink-paths" start="3">' in html
    assert "pagelink-opening pagelink-relied" in html

    root = ElementTree.fromstring(to_svg(explanation))
    muted = [
        group.findtext(f"{SVG}title")
        for group in root.iter(f"{SVG}g")
        if group.find(f"{SVG}rect[@stroke-opacity]") is not None
    ]
    # Item 54 is on all three paths; it is not drawn through the heading.
    assert muted == ["Item 54 (item, degree 12)", "Attr 2 (attr, degree 12)"]
    headings = [t.text for t in root.iter(f"{SVG}text") if t.get("class") == "pagelink-group"]
    assert headings == [second]
    assert [row["path"] for row in to_rows(explanation)] == [1, 2, 3]
    assert [row["is_evidence"] for row in to_rows(explanation)] == [True, True, False]


@pytest.mark.parametrize(
    ("path", "said"),
    [
        (make_path([USER, ITEM], [("rates", False)]), "this path: without this one fact its"),
        (through(("item", 1)), "this path: without these two facts its"),
        (through(*(("item", at) for at in range(13))), "this path: without these 14 facts its"),
    ],
)
def test_facts_are_counted(path: Path, said: str) -> None:
    measured = worth(path, 2.95, *(0.1 for _ in path.edges))
    text = to_text(make_explanation(measured, evidence=make_evidence()))
    assert f"\nThe model relies on {said} score falls from 2.59 to -0.36.\n" in text
    assert "The path that the model relies on:\n" in text
    what = "fact" if len(path) == 1 else "path"
    assert f"Removing this {what} lowers the score by 2.95." in text


def test_a_fact_of_two_paths_is_one_fact_whichever_way_it_is_walked() -> None:
    there = make_path([USER, ("item", 1), ("user", 2), ITEM], [BUYS, BOUGHT, BUYS])
    back = make_path([USER, ("user", 2), ("item", 1), ITEM], [("knows", False), BUYS, HAS])
    assert num_facts([there, back]) == 5
    assert num_facts([there, there]) == 3
    assert num_facts([]) == 0


def test_scores_that_read_the_same_are_said_to_stay() -> None:
    high = {"logit": 12.4, "logit_deployed": 12.4}
    evidence = make_evidence(logit_without_these=12.4, logit_without_paths=7.0)
    _, sentence, _ = opening(make_explanation(strong(), evidence=evidence, **high))
    assert sentence.endswith("without these three facts its score stays at 12.40.")
    evidence = make_evidence("structure_against", logit_without_paths=12.4)
    sentence, _ = opening(make_explanation(strong(), evidence=evidence, **high))
    assert sentence.endswith("here: without any of them the score is still 12.40.")
    evidence = make_evidence("structure_not_used", logit_without_paths=12.4, num_sets=1)
    (sentence,) = opening(make_explanation(strong(), evidence=evidence, **high))
    assert sentence.endswith("(1 was tested), and without any it is still 12.40.")


def test_no_score_is_called_a_chance() -> None:
    for verdict in VERDICTS:
        for threshold in (None, 0.0):
            explanation = make_explanation(
                strong(), evidence=make_evidence(verdict, logit_without_paths=3.6),
                threshold=threshold,
            )  # fmt: skip
            for view in (to_text, to_html, to_html_fragment, to_svg):
                assert not re.search(r"in 100\b|the chance|estimate|raw score", view(explanation))


def test_an_incomplete_explanation_says_both() -> None:
    explanation = make_explanation(strong(), evidence=make_evidence(), reason="out_of_time")
    first, second, *others = opening(explanation)
    assert first == BECAUSE.replace("Partly", "Mostly")
    assert second.startswith("The model relies on this path")
    assert others == [LED_TO, "This explanation is not complete.", "The time ran out."]
    assert "pagelink-opening pagelink-relied" not in to_html(explanation)


def test_paths_that_only_matter_together() -> None:
    """Of two paths that are needed both, neither adds to the other."""
    paths = [dataclasses.replace(path, is_evidence=False) for path in (strong(), weaker())]
    text = to_text(make_explanation(*paths, evidence=make_evidence()))
    assert opening(make_explanation(*paths, evidence=make_evidence()))[0].startswith(
        "The model relies on these paths together: without these five facts"
    )
    assert "2 paths that count only together: none adds to the others by itself:" in text


def remarks(path: Path, **changes: Any) -> tuple[str, ...]:
    explanation = make_explanation(path, evidence=make_evidence(), **changes)
    return wording(explanation).paths[0].remarks[1:]


@pytest.mark.parametrize(
    ("influence", "said"),
    [
        (1.24, "lowers the score by 1.24."),
        (-0.3, "raises the score by 0.30."),
        (0.002, "lowers the score by 0.0020."),
        (3.4e-5, "lowers the score by 0.000034."),
        (0.0, "does not change the score."),
    ],
)
def test_the_effect_of_a_path_is_said(influence: float, said: str) -> None:
    path = worth(through(("item", 1)), influence, 0.0, 0.0)
    assert remarks(path)[0] == f"Removing this path {said}"


NOT_CONNECTED = (
    "The effect comes from the first and the last step; the connection between them adds nothing."
)


@pytest.mark.parametrize(
    ("connection", "said"),
    [
        (0.62, "The connection in between carries 62 % of its effect."),
        (0.1, "The connection in between carries 10 % of its effect."),
        (0.99, "The connection in between carries 99 % of its effect."),
        (0.996, "The connection in between carries all of its effect."),
        (3.4, "The connection in between carries all of its effect."),
        (0.099, NOT_CONNECTED),
        (-0.2, NOT_CONNECTED),
        (None, ""),
    ],
)
def test_whether_the_connection_matters_is_said(connection: float | None, said: str) -> None:
    path = worth(through(("item", 1), ("user", 2)), 1.0, 0.5, 0.3, 0.5, connection=connection)
    assert remarks(path)[0].endswith(said or "by 1.00.")
    # Of a path that is no reason, and of two facts, nothing is said of what connects them.
    context = dataclasses.replace(path, is_evidence=False)
    assert "connect" not in " ".join(remarks(context))
    short = worth(through(("item", 1)), 1.0, 0.5, 0.3, connection=connection)
    assert "connect" not in " ".join(remarks(short))


IDLE_STEP = "Connecting step (no effect by itself)"


@pytest.mark.parametrize(
    ("facts", "idle_ones", "said"),
    [
        # `active` decides, not the effect alone.
        ((0.5, 0.0, 0.4), (),
         "Its weakest fact: User 2 buys Item 1 (removing it alone hardly changes the score)."),
        ((0.5, 0.02, 0.4), (),
         "Its weakest fact: User 2 buys Item 1 (removing it alone lowers the score by 0.02)."),
        ((0.5, 0.3, -0.4), (),
         "Its weakest fact: User 2 buys Item 35 (removing it alone raises the score by 0.40)."),
        ((0.5, 0.3, -0.4), (2,),
         "Its weakest fact: User 2 buys Item 1 (removing it alone lowers the score by 0.30)."),
        ((0.5, 0.0, 0.5), (1,), ""),
    ],
)  # fmt: skip
def test_weak_and_idle_facts_are_named(
    facts: tuple[float, ...], idle_ones: tuple[int, ...], said: str
) -> None:
    path = worth(through(("item", 1), ("user", 2)), 1.0, *facts, idle=idle_ones)
    assert remarks(path)[1:] == ((said,) if said else ())
    explanation = make_explanation(path, evidence=make_evidence())
    names = ["User 3 buys Item 1", "User 2 buys Item 1", "User 2 buys Item 35"]
    told = to_text(explanation).splitlines()
    for at, name in enumerate(names):
        lines = [line.lstrip(" 1.") for line in told if line.lstrip(" 1.").startswith(name)]
        assert lines == [f"{name} · {IDLE_STEP}" if at in idle_ones else name]
    assert Page(to_html(explanation)).text("small").count(IDLE_STEP) == len(idle_ones)
    root = ElementTree.fromstring(to_svg(explanation))
    dotted = [
        group.findtext(f"{SVG}title")
        for group in root.iter(f"{SVG}g")
        if group.get("class") == "pagelink-fact"
        and group.find(f"{SVG}path[@stroke-dasharray]") is not None
    ]
    assert dotted == [f"{names[at]} · {IDLE_STEP}" for at in idle_ones]
    legend = "connecting step (no effect by itself)" in to_svg(explanation)
    assert legend == bool(idle_ones)


def test_where_no_fact_does_anything_no_step_connects() -> None:
    path = worth(through(("item", 1)), 0.0, 0.0, 0.0, idle=(0, 1), is_evidence=False)
    unused = make_evidence("structure_not_used", influence=0.0)
    assert IDLE_STEP not in to_text(make_explanation(path, evidence=unused))


def test_facts_that_do_the_same_have_no_weakest() -> None:
    assert len(remarks(worth(through(("item", 1)), 1.0, 0.5, 0.5))) == 1


def test_remarks_are_few_and_cut_long_names() -> None:
    for make in MEASURED:
        for path in wording(make()).paths:
            assert 2 <= len(path.remarks) <= 3
    name = "An Approach to Something that Takes Very Many Words to Say in Full"
    path = worth(through(("item", 1), names={("item", 1): name}), 1.0, 0.5, 0.4)
    assert remarks(path)[1].startswith("Its weakest fact: “An Approach to Something that")
    assert name not in remarks(path)[1]


def test_nothing_is_said_of_what_was_not_measured() -> None:
    bare = simple()
    said = wording(bare)
    assert said.figures == ()
    assert all(len(path.remarks) == 1 for path in said.paths)
    assert [group.heading for group in said.groups] == [
        "The 3 paths that rank best, the best first"
    ]
    assert "was not measured" in said.caveat
    for view in (to_text(bare), to_html(bare), to_svg(bare)):
        assert "The model relies" not in view
        assert "does not rely" not in view
        assert "without that fact" not in view
    assert "was not measured" not in to_text(relied())
    no_score = make_explanation(strong(), evidence=make_evidence(), logit=None, logit_deployed=None)
    assert "The model gives no score for this link." in to_text(no_score)


EQUALLY = (
    "Worth counts equally what removing a combination takes from the score, and what adding it to "
    "the graph without any path gives."
)


@pytest.mark.parametrize(
    ("rho", "changes", "said"),
    [
        (0.7, {}, " and show the simplest one with at least 70 % of the largest worth (fewest "
                  f"hubs, then fewest facts); it has 84 %. {EQUALLY}"),
        (0.0, {}, " and show the most concise paths by the learned mask, with 84 % of the largest "
                  f"worth. {EQUALLY}"),
        (1.0, {"rho_reached": 1.0}, f" and show the one of the largest worth. {EQUALLY}"),
        (0.7, {"rho_reached": None, "worth": None},
         "; none speaks for the link, and the most concise paths are shown. Each was tested by "
         "removing it from the graph, and by adding it to the graph without any path."),
        (1.0, {"gain": 0.01},
         " and show the one of the largest worth. Worth is what removing a combination takes from "
         "the score: adding one to the graph without any path does not raise it noticeably."),
        (1.0, {"logit_without_these": 2.58, "inserted": True},
         " and show the one of the largest worth. Worth is what adding a combination to the graph "
         "without any path gives: removing one does not lower the score noticeably. Since paths "
         "stand in for each other here, their influence is what they add to the graph without any "
         "path."),
    ],
)  # fmt: skip
def test_the_rule_is_said(rho: float, changes: dict[str, Any], said: str) -> None:
    explanation = make_explanation(
        strong(), evidence=make_evidence(**changes), settings=Settings(rho=rho)
    )
    caveat = wording(explanation).caveat
    assert caveat == f"We tested 175 combinations of paths{said}"
    assert caveat in to_text(explanation)
    assert caveat in Page(to_html(explanation)).text("p")


def test_where_there_is_nothing_to_choose_no_choice_is_told() -> None:
    explanation = make_explanation(strong(), evidence=make_evidence(num_sets=1))
    assert wording(explanation).caveat == (
        "Only one combination of paths could be tested: by removing it from the graph, and by "
        "adding it to the graph without any path."
    )


def test_the_answers_of_the_model_are_listed() -> None:
    lines = to_text(relied()).split("The model's answers:\n")[1].splitlines()
    assert lines == [
        "- with all facts: 2.59",
        "- without these seven facts: -0.36",
        "- without any path of at most three facts: -1.20",
        "- without any fact at all: -2.00",
        "- with these seven facts and nothing else in the graph: 1.70",
        "- share of the effect of all paths that these seven facts alone restore (facts on no path "
        "stay): 62 %",
    ]
    page = Page(to_html(relied()))
    assert page.tags.count("details") == 3
    for line in lines:
        assert line.split(": ")[1] in page.text("td")
    assert "\u22120.05" in page.text("td")  # fact by fact
    assert "+0.90" in page.text("td")
    missing = "not defined, since the score is no lower without any path"
    assert to_text(against()).endswith(missing)
    assert missing in Page(to_html(against())).text("td")
    hardly = make_evidence(logit_without_paths=2.58, sufficiency=None)
    assert to_text(make_explanation(strong(), evidence=hardly)).endswith(
        "not defined, since the score is hardly lower without any path"
    )
    inside = make_explanation(strong(), evidence=make_evidence(), link_in_graph=True)
    assert "- with all facts but the link itself: 2.59" in to_text(inside)


@pytest.mark.parametrize(
    ("sufficiency", "said"),
    [
        (7.31, "more than all of it"), (1.01, "more than all of it"), (1.004, "100 %"),
        (1.0, "100 %"), (0.0, "0 %"), (-0.004, "0 %"), (-0.01, "none of it"),
        (-3.2, "none of it"),
    ],
)  # fmt: skip
def test_a_share_is_between_nothing_and_all(sufficiency: float, said: str) -> None:
    evidence = make_evidence(sufficiency=sufficiency)
    explanation = make_explanation(strong(), evidence=evidence)
    restored = f"these three facts alone restore (facts on no path stay): {said}\n"
    assert restored in to_text(explanation) + "\n"
    assert said in Page(to_html(explanation)).text("td")
    assert explanation.to_dict()["evidence"]["sufficiency"] == sufficiency


def test_facts_are_drawn_by_what_they_are_worth() -> None:
    def lines(explanation: Explanation) -> dict[str, tuple[float, str]]:
        root = ElementTree.fromstring(to_svg(explanation))
        found = {}
        for group in root.iter(f"{SVG}g"):
            line = group.find(f"{SVG}path[@stroke-width]")
            if "pagelink-fact" in group.get("class", "").split() and line is not None:
                effect = group.findtext(f"{SVG}text[@class='pagelink-effect']", "")
                title = group.findtext(f"{SVG}title", "")
                found.setdefault(title, (float(line.get("stroke-width", "")), effect))
        return found

    drawn = lines(relied())
    assert drawn["User 3 buys Item 54"] == (4.4, "+0.90")
    assert drawn[f"User 4 buys Item 54 · {IDLE_STEP}"] == (1.2, "")
    assert drawn["User 9 buys Item 35"] == (1.4, "\u22120.05")
    assert drawn["Item 35 has Attr 2"] == (1.2, "+0.04")
    assert max(width for width, _ in lines(redundant()).values()) < 1.6
    assert set(lines(simple()).values()) == {(1.6, "")}


def test_numbers_are_told_apart() -> None:
    assert numbers(2.59, 2.584) == ("2.59", "2.58")
    assert numbers(2.59, 2.5899) == ("2.5900", "2.5899")
    assert numbers(1.0, 1.0 + 1e-9) == ("1.00", "1.00")
    assert numbers(-0.001) == ("0.00",)
    assert numbers(2e7, 1.0) == ("2.000e+07", "1.000e+00")


def test_rows_carry_what_was_measured() -> None:
    first, _, third = to_rows(relied())
    of_the_link = {
        "verdict": "supported", "influence": 2.95, "inserted": False, "logit_without_these": -0.36,
        "logit_without_paths": -1.2, "logit_without_edges": -2.0, "sufficiency": 0.62,
        "rho_reached": 0.84,
    }  # fmt: skip
    for row in (first, third):
        assert {name: row[name] for name in of_the_link} == of_the_link
    assert (first["path_influence"], first["path_marginal"], first["path_connection"]) == (
        1.24, 1.24, 0.05,
    )  # fmt: skip
    assert first["edge_influences"] == [0.9, 0.001, 0.5]
    assert (third["path_influence"], third["is_evidence"]) == (-0.3, False)
    assert to_rows(against())[0]["sufficiency"] is None

    of_a_path = ("path_influence", "path_marginal", "path_connection", "is_evidence",
                 "edge_influences")  # fmt: skip
    for explanation in (simple(), without_paths()):
        for row in to_rows(explanation):
            assert {row[name] for name in (*of_the_link, *of_a_path)} == {None}
            assert set(row) == set(SCHEMA.names)
    rows = [row for make in ALL for row in to_rows(make())]
    table = to_table(rows)
    assert table.schema == SCHEMA
    assert table.to_pylist() == [{name: row[name] for name in SCHEMA.names} for row in rows]


@pytest.mark.parametrize("make", MEASURED)
def test_evidence_survives_a_round_trip(make: Any) -> None:
    explanation = make()
    again = Explanation.from_dict(json.loads(json.dumps(explanation.to_dict())))
    assert again.evidence == explanation.evidence
    assert again.to_dict() == explanation.to_dict()
    assert to_rows(again) == to_rows(explanation)


# Safety


def test_hostile_text_stays_text_in_the_drawing() -> None:
    root = ElementTree.fromstring(to_svg(hostile()))
    allowed = {"svg", "title", "rect", "g", "text", "path", "circle"}
    assert {element.tag.removeprefix(SVG) for element in root.iter()} == allowed
    for element in root.iter():
        assert not [name for name in element.attrib if name.startswith("on")]
    titles = " ".join(title.text or "" for title in root.iter(f"{SVG}title"))
    for text in HOSTILE:
        assert clean(text) in titles


@pytest.mark.parametrize("view", [to_html, to_html_fragment])
def test_hostile_text_stays_text_in_the_page(view: Any) -> None:
    html = view(hostile())
    plain = Page(view(simple()))
    page = Page(html)
    assert set(page.tags) <= set(plain.tags)
    assert {(tag, name) for tag, name, _ in page.attributes} <= {
        *((tag, name) for tag, name, _ in plain.attributes), ("p", "dir"), ("li", "dir"),
        ("div", "role"),
    }  # fmt: skip
    assert html.count("<style>") == html.count("</style>") == 1
    for text in HOSTILE:
        assert clean(text) in page.text("bdi")
        assert clean(text) in page.text("li")
    assert "49" not in page.text("bdi")


@pytest.mark.parametrize("view", [to_text, to_svg, to_html, to_html_fragment])
def test_no_control_character_gets_through(view: Any) -> None:
    output = view(hostile())
    output.encode("utf-8")
    controls = {character for character in output if unicodedata.category(character) == "Cc"}
    assert controls <= {"\n"}
    for forbidden in "\ufffe\u2028\u202e\u202c\u2066":
        assert forbidden not in output


def test_line_breaks_in_names_do_not_break_lines() -> None:
    plain = through(("item", 1), names={("item", 1): "two lines"})
    broken = through(("item", 1), names={("item", 1): "two\nlines"})
    assert to_text(make_explanation(plain)) == to_text(make_explanation(broken))


def test_right_to_left_names_are_isolated() -> None:
    name = HOSTILE[-1]
    explanation = make_explanation(through(("item", 1), names={("item", 1): name}))
    assert f"User 3 buys \u2068{name}\u2069\n" in to_text(explanation)
    assert ("bdi", name) in Page(to_html(explanation)).texts
    relation = make_explanation(make_path([USER, ITEM], [(name, False)]))
    assert f"User 3 \u2068{name}\u2069 Item 35\n" in to_text(relation)


@pytest.mark.parametrize("make", ALL)
def test_page_asks_for_nothing_from_the_network(make: Any) -> None:
    for html in (to_html(make()), to_html_fragment(make())):
        bare = html.replace('xmlns="http://www.w3.org/2000/svg"', "")
        assert not re.search(r"https?:|//|url\(|@import|\ssrc=|href=", bare)
    meta = [value for tag, name, value in Page(to_html(make())).attributes if tag == "meta"]
    assert "default-src 'none'; style-src 'unsafe-inline'; img-src data:" in meta


# The page


def test_page_is_complete_and_accessible() -> None:
    page = Page(to_html(simple()))
    assert ("html", "lang", "en") in page.attributes
    assert page.tags.count("title") > 1
    assert page.text("title").startswith("User 3 likes Item 35: link explanation")
    assert page.tags.count("h1") == 1
    labels = [value for tag, name, value in page.attributes if (tag, name) == ("svg", "aria-label")]
    assert labels
    assert labels[0].startswith("User 3 likes Item 35.")
    assert ("meta", "name", "viewport") in page.attributes
    assert page.tags.count("details") == 2
    assert ("details", "open", "") not in page.attributes
    assert "prefers-color-scheme: dark" in to_html(simple())


def test_page_tells_scores_masks_and_how_it_was_made() -> None:
    explanation = simple()
    page = Page(to_html(explanation))
    cells = page.text("td", "bdi", "th")
    assert page.tags.count("li") >= 3 + 9
    assert page.text("span").count("PaGE-Link score -5.25") == 3
    assert cells.count("0.625") == 9
    assert "user → buys → item" in cells
    for expected in ("41", "0.25", "2 hops around each end", "20 steps", "2.13.0", "max_degree"):
        assert expected in cells
    unknown = Page(to_html(make_explanation(num_hops=None, reason="invalid")))
    assert "the whole graph" in unknown.text("bdi")


def test_fragment_is_scoped() -> None:
    html = to_html_fragment(simple())
    page = Page(html)
    assert not {"html", "head", "body", "main", "meta", "h1"} & set(page.tags)
    assert html.lstrip().startswith('<div class="pagelink-view">')
    classes = [value for _, name, value in page.attributes if name == "class"]
    assert all(value.startswith("pagelink-") for value in classes)
    assert not [name for _, name, _ in page.attributes if name == "id"]
    css = re.sub(r"@(media|container)[^{]*\{", "", page.text("style"))
    selectors = re.findall(r"([^{}]+)\{", css)
    assert len(selectors) > 10
    for selector in selectors:
        assert all(part.strip().startswith(".pagelink-view") for part in selector.split(","))


# The drawing


@pytest.mark.parametrize("make", [*ALL, hostile])
def test_nodes_do_not_overlap_and_lie_inside(make: Any) -> None:
    assert_nodes_have_room(make())


@pytest.mark.parametrize("make", [*ALL, hostile])
def test_lettering_overlaps_neither_nodes_nor_itself(make: Any) -> None:
    assert_lettering_has_room(make())


def test_forty_paths_all_appear_in_every_view() -> None:
    explanation = forty()
    assert len(explanation.paths) == 40
    root = ElementTree.fromstring(to_svg(explanation))
    ranks = [
        group.findtext(f"{SVG}text")
        for group in root.iter(f"{SVG}g")
        if group.get("class") == "pagelink-rank"
    ]
    assert ranks == [str(rank) for rank in range(1, 41)]
    facts = [g for g in root.iter(f"{SVG}g") if g.get("class") == "pagelink-fact"]
    assert len(facts) == sum(len(path) for path in explanation.paths)
    assert re.findall(r"^(\d+)\. ", to_text(explanation), re.MULTILINE) == ranks
    assert Page(to_html(explanation)).text("span").count("PaGE-Link score") == 40


@pytest.mark.parametrize("make", [simple, forty])
def test_arrows_lead_from_subject_to_object(make: Any) -> None:
    root = ElementTree.fromstring(to_svg(make()))
    boxes = [(title.split(" (")[0], area) for title, area in node_areas(root)]

    def at(x: float, y: float) -> str:
        return next(
            name
            for name, (left, top, right, bottom) in boxes
            if top <= y <= bottom and min(abs(x - left), abs(x - right)) <= 7
        )

    seen = 0
    for group in root.iter(f"{SVG}g"):
        if group.get("class") == "pagelink-fact":
            head = group.find(f"{SVG}g/{SVG}path")
            tail = group.find(f"{SVG}g/{SVG}circle")
            assert head is not None
            assert tail is not None
            tip = re.match(r"M([\d.]+) ([\d.]+)l(-?)9 ", head.get("d", ""))
            assert tip is not None
            tail_x = float(tail.get("cx", ""))
            assert (tail_x < float(tip[1])) == (tip[3] == "-")  # the head opens towards the tail
            title = group.findtext(f"{SVG}title", "")
            assert title.startswith(at(tail_x, float(tail.get("cy", ""))) + " ")
            assert title.endswith(" " + at(float(tip[1]), float(tip[2])))
            seen += 1
    assert seen == sum(len(path) for path in make().paths)


def test_shared_nodes_are_drawn_once_or_point_to_each_other() -> None:
    root = ElementTree.fromstring(to_svg(simple()))
    shared = [area for title, area in node_areas(root) if title.startswith("Item 54 ")]
    single = [area for title, area in node_areas(root) if title.startswith("Item 7 ")]
    assert len(shared) == len(single) == 1
    assert shared[0][3] - shared[0][1] > 2 * (single[0][3] - single[0][1])

    apart = make_explanation(
        through(("item", 54), ("user", 4)),
        through(("item", 7), ("attr", 2)),
        through(("item", 54), ("user", 9)),
    )
    root = ElementTree.fromstring(to_svg(apart))
    captions = [t.text for t in root.iter(f"{SVG}text") if t.get("class") == "pagelink-caption"]
    assert captions == ["also in path 3", "also in path 1"]


def test_shared_nodes_at_different_places_are_not_drawn_as_one() -> None:
    explanation = make_explanation(
        through(("item", 54), ("user", 4)), through(("item", 54), ("attr", 2), ("item", 8))
    )
    areas = node_areas(ElementTree.fromstring(to_svg(explanation)))
    lefts = {area[0] for title, area in areas if title.startswith("Item 54 ")}
    assert len(lefts) == 2


def test_long_lists_of_shared_paths_are_counted() -> None:
    paths = [through(("item", at if at % 2 else 54), ("user", at)) for at in range(30)]
    drawn = to_svg(make_explanation(*paths))
    assert drawn.count(">also in 14 other paths<") == 15


def test_message_stays_between_source_and_target() -> None:
    message = "Nothing joins the two, and that takes many words to say. " * 5
    for paths in ((), (through(("item", 1)),)):
        explanation = make_explanation(*paths, reason="out_of_time", message=message)
        root = ElementTree.fromstring(to_svg(explanation))
        (_, source), (_, target), *_ = node_areas(root)
        areas = list(text_areas(root, "pagelink-message"))
        assert len(areas) > 3
        for area in areas:
            assert source[2] < area[0]
            assert area[2] < target[0]
            assert area[3] < source[3]


def test_long_names_are_cut_with_the_whole_name_in_the_title() -> None:
    root = ElementTree.fromstring(to_svg(wordy()))
    titles = [title for title, _ in node_areas(root)]
    assert any(title.startswith("W" * 90 + " (user, degree 1,204,361)") for title in titles)
    names = [t.text or "" for t in root.iter(f"{SVG}text") if t.get("class") == "pagelink-name"]
    assert not [name for name in names if "W" * 40 in name]
    assert [name for name in names if name.startswith("W") and name.endswith(ELLIPSIS)]
    assert "degree 1,204,361" in to_svg(wordy())


def test_node_types_have_colours_by_sorted_name_and_a_legend() -> None:
    root = ElementTree.fromstring(to_svg(simple()))
    legend = {
        group.findtext(f"{SVG}text"): group.find(f"{SVG}path[@class='pagelink-sign']")
        for group in root.iter(f"{SVG}g")
        if group.get("class") == "pagelink-legend"
    }
    kinds = ["attr", "item", "user"]
    assert list(legend)[:3] == kinds
    signs = [sign for sign in legend.values() if sign is not None]
    strokes = [sign.get("fill") for sign in signs]
    assert len(set(strokes)) == len({sign.get("d") for sign in signs}) == 3
    for group in root.iter(f"{SVG}g"):
        rect = group.find(f"{SVG}rect[@class='pagelink-node']")
        if rect is not None:
            kind = re.search(r"\((\w+),", group.findtext(f"{SVG}title", ""))
            assert kind is not None
            assert rect.get("stroke") == strokes[kinds.index(kind[1])]


def test_text_in_nodes_has_contrast() -> None:
    def luminance(colour: str) -> float:
        parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    nodes = [(kind, 0) for kind in "abcdefghi"]
    path = make_path(nodes, [("leads to", False)] * (len(nodes) - 1))
    colours = type_colours(make_explanation(path))
    assert len({colour.main for colour in colours.values()}) >= 7
    for colour in colours.values():
        assert (luminance(colour.fill) + 0.05) / (luminance(colour.text) + 0.05) >= 4.5


# Lettering


@pytest.mark.parametrize("text", ["A Visual Analysis Approach", "W" * 50, "空间时间序列" * 9, "a"])
def test_text_is_cut_to_the_room_there_is(text: str) -> None:
    for limit in (30.0, 75.0, 160.0):
        assert text_width(shorten(text, limit, 12), 12) <= limit + 1e-6
        lines = wrap(text, limit, 12, 3)
        assert 1 <= len(lines) <= 3
        assert all(text_width(line, 12) <= limit + 1e-6 for line in lines)
    assert shorten(text, text_width(text, 12), 12) == text


def test_marks_are_never_cut_from_their_letters() -> None:
    family = "👨\u200d👩\u200d👧"
    for unit in ("e\u0301", "\u0915\u093e", family):
        for limit in range(30, 200, 7):
            cut = shorten(unit * 30, float(limit), 12).removesuffix(ELLIPSIS)
            assert len(cut) % len(unit) == 0


def test_wide_scripts_count_as_wide() -> None:
    assert text_width("木", 10) >= 10
    assert text_width("👧", 10) >= 10
    assert text_width("e\u0301", 10) == text_width("e", 10)


# All views


@pytest.mark.parametrize("make", ALL)
def test_views_survive_a_round_trip(make: Any) -> None:
    explanation = make()
    again = Explanation.from_dict(explanation.to_dict())
    for view in (to_text, to_svg, to_html, to_html_fragment):
        assert view(again) == view(explanation)


def test_methods_of_an_explanation_are_these_views() -> None:
    explanation = simple()
    assert str(explanation) == to_text(explanation)
    assert explanation.to_svg() == to_svg(explanation)
    assert explanation.to_html() == to_html(explanation)
    assert explanation._repr_html_() == to_html_fragment(explanation)


def test_what_is_known_of_a_fact_is_shown_everywhere() -> None:
    path = through(("item", 1), ("user", 4))
    told = {"source": "<b>Ledger</b>", "date": "2021-05-04"}
    edges = (dataclasses.replace(path.edges[0], attributes=told), *path.edges[1:])
    explanation = make_explanation(dataclasses.replace(path, edges=edges))
    assert "(source: <b>Ledger</b>, date: 2021-05-04)" in str(explanation)
    for view in (explanation.to_svg(), explanation.to_html()):
        assert "source: &lt;b&gt;Ledger&lt;/b&gt;, date: 2021-05-04" in view
        assert "<b>Ledger" not in view
    (row,) = to_rows(explanation, line=7)
    assert json.loads(row["attributes"][0]) == told
    assert row["line"] == 7
    back = Explanation.from_dict(json.loads(json.dumps(explanation.to_dict())))
    assert back.paths[0].edges[0].attributes == told


def test_rows_without_paths_carry_the_reason() -> None:
    explanation = make_explanation(reason="not_connected", message="No way.")
    (row,) = to_rows(explanation)
    assert (row["reason"], row["message"], row["path"]) == ("not_connected", "No way.", None)
    assert to_table([row]).num_rows == 1


def test_png_is_drawn_with_letters() -> None:
    """The words take ink: the same drawing without them has less."""
    long = make_explanation(through(("item", 1)), dst_name="W" * 12)
    png = long.to_png()
    assert png.startswith(b"\x89PNG")
    bare = re.sub(r"<text.*?</text>", "", long.to_svg(), flags=re.DOTALL)
    without = bytes(resvg_py.svg_to_bytes(svg_string=bare, zoom=2.0, background="#ffffff"))
    assert len(png) > 1.5 * len(without)


def test_phrases_of_each_direction_are_used_by_all_views() -> None:
    path = through(("item", 54), ("user", 4))
    phrases = ("orders", "is ordered by", "orders")
    edges = tuple(
        dataclasses.replace(edge, phrase=phrase)
        for edge, phrase in zip(path.edges, phrases, strict=True)
    )
    said = dataclasses.replace(path, edges=edges)
    explanation = make_explanation(said, link_phrase="will order")
    text = str(explanation)
    assert "will order" in text
    assert "likes" not in text
    for view in (text, to_html(explanation), to_rows(explanation)[0]["metapath"]):
        assert "is ordered by" in view
    assert "is ordered by" in "".join(ElementTree.fromstring(to_svg(explanation)).itertext())
    assert num_facts([said, said]) == 3
    again = Explanation.from_dict(json.loads(json.dumps(explanation.to_dict())))
    assert str(again) == text
