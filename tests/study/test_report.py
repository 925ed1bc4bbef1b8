"""The report of a study gives back what simulated people of known behaviour did."""

from __future__ import annotations

import csv
import io
import json
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console
from support.studies import NAMES, make_questions, make_study, shown

from pagelink.errors import MissingExtraError
from pagelink.study.database import Study, read_records
from pagelink.study.questions import Answer, Option, StudyAbout, StudyQuestion
from pagelink.study.report import PAPER_SHARE, Report, make_report, shares_of
from pagelink.study.report_views import draw_bars, print_report, to_csv, to_html
from pagelink.study.simulate import Behaviour, simulate
from pagelink.study.statistics import (
    Figure,
    agreement,
    alpha,
    answers_for_accuracy,
    answers_for_shares,
    difference_figure,
    mean_figure,
    most_disagreed,
    positions,
)
from pagelink.study.storage import write_study

LIKE = {"pagelink": 0.55, "gnnexp": 0.1, "degree": 0.15, "none": 0.2}
UNDERSTANDING = {"without": 0.4, "pagelink": 0.85, "with": 0.5}


def answered(
    choice: str, person: int = 1, question: int = 1,
    order: tuple[tuple[str, ...], ...] = (("pagelink",), ("gnnexp",)), **more: Any,
) -> Answer:  # fmt: skip
    given = {"kind": "best", "link": "a likes b", "fact": None, "truth": None, "seconds": 1.0,
             "level": None, "line": None, **more}  # fmt: skip
    return Answer(participant=person, question=question, order=order, choice=choice, **given)


def of(report: Report, name: str) -> Figure:
    return next(each.share for each in report.shares if each.name == name)


def accuracy(report: Report, variant: str) -> Figure:
    return next(each.accuracy for each in report.forecasts if each.variant == variant)


def gain(report: Report, variant: str) -> Figure:
    found = next(each.gain for each in report.forecasts if each.variant == variant)
    assert found is not None
    return found


def holds(figure: Figure, value: float) -> bool:
    assert len(figure.known) == 2
    return all(low <= value <= high for low, high in figure.known)


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> Report:
    path = tmp_path_factory.mktemp("simulated") / "s.db"
    with make_study(path, best=30, forecasts=30) as study:
        simulate(study, 36, Behaviour(LIKE, UNDERSTANDING), seed=1)
        return make_report(study)


def test_shares_are_given_back(simulated: Report) -> None:
    assert simulated.answers == 36 * 20
    assert simulated.people == simulated.joined == 36
    assert simulated.complete == 60
    assert simulated.cautions == []
    for name, planted in LIKE.items():
        assert holds(of(simulated, name), planted), name
    assert sum(each.share.value or 0 for each in simulated.shares) == pytest.approx(1)
    assert [each.chance for each in simulated.shares] == pytest.approx([0.25] * 4)


def test_understanding_is_given_back(simulated: Report) -> None:
    assert holds(accuracy(simulated, "without"), 0.4)
    assert holds(accuracy(simulated, "pagelink"), 0.85)
    assert holds(accuracy(simulated, "gnnexp"), 0.5)
    assert holds(gain(simulated, "pagelink"), 0.45)
    assert all(low > 0 for low, _ in gain(simulated, "pagelink").known)
    assert holds(gain(simulated, "degree"), 0.1)
    assert simulated.always_the_same == pytest.approx(1 / 3)
    for each in simulated.forecasts:
        counted = sum(sum(row.values()) for row in each.confusion.values())
        right = sum(each.confusion[truth][truth] for truth in each.confusion)
        assert counted == each.accuracy.answers
        assert right / counted == pytest.approx(each.accuracy.value)


def test_people_who_choose_alone_hardly_agree(simulated: Report) -> None:
    assert simulated.agreement.interval is not None
    assert simulated.agreement.interval[0] < 0.03
    assert abs(simulated.agreement.alpha or 1) < 0.08


def test_backgrounds_and_positions(simulated: Report) -> None:
    assert [each.level for each in simulated.backgrounds] == ["none", "some", "expert"]
    assert [each.people for each in simulated.backgrounds] == [12, 12, 12]
    own = [each.shares[0].share.answers for each in simulated.backgrounds]
    assert sum(own) == of(simulated, "pagelink").answers
    assert len(simulated.positions.places) == 3
    assert simulated.positions.p_value is not None
    assert simulated.positions.p_value > 0.01


def test_the_share_is_set_beside_that_of_the_paper(simulated: Report) -> None:
    assert "78.79 % of 340 answers" in simulated.paper
    assert "below that by both intervals" in simulated.paper
    assert "three explainers and without “none of these”" in simulated.paper


@pytest.mark.parametrize(("agree", "low", "high"), [(1.0, 1.0, 1.0), (0.7, 0.3, 0.65)])
def test_planted_agreement_is_given_back(
    tmp_path: Path, agree: float, low: float, high: float
) -> None:
    # Two people do the same for a common reason in about `agree` squared of the cases.
    with make_study(tmp_path / "s.db", best=24, forecasts=0) as study:
        simulate(study, 10, Behaviour({"pagelink": 0.5, "none": 0.5}, agree=agree), seed=0)
        found = make_report(study).agreement
    assert found.alpha is not None
    assert low <= found.alpha <= high
    assert found.interval is not None
    assert found.interval[0] <= agree**2 <= found.interval[1]


def test_the_same_seed_gives_the_same_answers(tmp_path: Path) -> None:
    def rows(name: str) -> list[Answer]:
        with make_study(tmp_path / name, best=6, forecasts=6) as study:
            simulate(study, 4, Behaviour(LIKE, UNDERSTANDING), seed=2)
            return [
                Answer(**{**vars(answer), "seconds": 0.0}) for answer in read_records(study).answers
            ]

    assert rows("a.db") == rows("b.db") != []


def test_alpha_by_hand_with_missing_answers() -> None:
    # StudyQuestion 1: x x; question 2: x y y; question 3: y alone, which says nothing. Observed: 4
    # ordered pairs differ in question 2, over 2, over 5 answers: 0.4. Expected: 2 * 3 * 2 pairs of
    # 20: 0.6.
    answers = [
        answered("1", 1, 1), answered("1", 2, 1), answered("1", 1, 2), answered("2", 2, 2),
        answered("2", 3, 2), answered("2", 3, 3),
    ]  # fmt: skip
    found = agreement(answers, 0)
    assert found.alpha == pytest.approx(1 - 0.4 / 0.6)
    assert (found.questions, found.answers) == (2, 5)


def test_alpha_of_the_published_example() -> None:
    # Krippendorff (2011), "Computing Krippendorff's Alpha-Reliability", example C: 0.743.
    people = {"A": "123321412...", "B": "1233224125.3", "C": ".3332342251.", "D": "12332441251."}
    triples = [
        (person, str(unit), value)
        for person, values in people.items()
        for unit, value in enumerate(values)
        if value != "."
    ]
    assert alpha(triples) == pytest.approx(0.743, abs=5e-4)


def test_without_nltk_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "nltk", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'pagelink\[study\]'"):
        agreement([answered("1", 1), answered("2", 2)], 0)


def test_the_interval_of_alpha_is_around_alpha() -> None:
    rng = np.random.default_rng(0)
    answers = [
        answered(str(rng.choice(["1", "2", "none"], p=[0.6, 0.2, 0.2])), person, question)
        for question in range(40)
        for person in range(4)
    ]
    found = agreement(answers, 0)
    assert found.interval is not None
    assert found.alpha is not None
    assert found.interval[0] < found.alpha < found.interval[1]
    # With as good as no chance in the draw of questions, the draws are alpha itself.
    same = [answered(c, p, q) for q in range(30) for p, c in enumerate("112")]
    assert agreement(same, 0).interval == pytest.approx([agreement(same, 0).alpha] * 2, abs=1e-9)


def test_intervals_over_people_hold_the_truth_as_often_as_they_say() -> None:
    rng = np.random.default_rng(0)
    held = 0
    for trial in range(120):
        taste = rng.beta(3, 2, size=25)  # people differ, with a mean of 0.6
        answers, values = [], []
        for person in range(25):
            for question in range(12):
                answers.append(answered("1", person, question))
                values.append(float(rng.random() < taste[person]))
        low, high = mean_figure(answers, values, trial).by_participant or (1.0, 0.0)
        held += low <= 0.6 <= high
    assert 0.86 <= held / 120 <= 0.99


def test_intervals_by_hand() -> None:
    # One person says 1 twice, the other 0 once: draws of people give 1, 2/3 or 0.
    answers = [answered("1", 1, 1), answered("1", 1, 2), answered("2", 2, 1)]
    figure = mean_figure(answers, [1, 1, 0], 0)
    assert figure.value == pytest.approx(2 / 3)
    assert figure.by_participant == (0.0, 1.0)
    assert figure.by_question == (0.5, 1.0)
    alone = mean_figure(answers[:1], [1], 0)
    assert (alone.value, alone.by_question, alone.by_participant) == (1.0, None, None)
    assert mean_figure([], [], 0) == Figure(None, 0, None, None)


def test_a_difference_by_hand() -> None:
    answers = [answered("1", person, question) for person in (1, 2) for question in (1, 2)]
    figure = difference_figure(
        answers, [1, 0, 1, 0], [True, False, True, False], [False, True, False, True], 0
    )
    assert figure.value == 1.0
    assert figure.by_participant == (1.0, 1.0)
    assert figure.by_question is None  # each side is one question
    nobody = difference_figure(answers, [1, 0, 1, 0], [True] * 4, [False] * 4, 0)
    assert nobody.value is None


def test_a_difference_from_one_question_has_no_interval() -> None:
    answers = [answered("1", person, person) for person in (1, 2, 3, 4)]
    one, others = [True, False, False, False], [False, True, True, False]
    figure = difference_figure(answers, [0, 1, 1, 0], one, others, 0)
    assert figure.value == -1.0
    assert figure.known == []


def test_explainers_with_the_same_facts_share_a_choice() -> None:
    order = (("pagelink", "degree"), ("gnnexp",))
    answers = [
        answered("1", 1, 1, order),
        answered("2", 2, 1, order),
        answered("none", 3, 1, order),
    ]
    found = {each.name: each for each in shares_of(answers, ("pagelink", "gnnexp", "degree"), 0)}
    values = {name: each.share.value for name, each in found.items()}
    assert values == pytest.approx(
        {"pagelink": 1 / 6, "gnnexp": 1 / 3, "degree": 1 / 6, "none": 1 / 3}
    )
    assert [each.chance for each in found.values()] == pytest.approx([1 / 6, 1 / 3, 1 / 6, 1 / 3])


def test_a_place_that_is_chosen_too_often_is_noticed() -> None:
    answers = [
        answered("1" if question < 13 else "2", person, question)
        for person in range(10)
        for question in range(20)
    ]
    found = positions(answers)
    assert found.p_value is not None
    assert found.p_value < 0.05
    assert [each.expected for each in found.places] == [100, 100]
    assert positions(answers[:4]).p_value is None
    assert positions([]).places == []


def test_questions_people_disagreed_on_come_first() -> None:
    answers = [
        answered("1", 1, 1), answered("1", 2, 1), answered("1", 1, 2), answered("2", 2, 2),
        answered("none", 3, 2), answered("1", 1, 3), answered("1", 2, 3), answered("2", 3, 3),
    ]  # fmt: skip
    first, second = most_disagreed(answers, 5)
    assert (first.question, first.disagreement) == (2, 1.0)
    assert second.question == 3
    assert second.disagreement == pytest.approx(2 / 3)
    assert second.answers == {"pagelink": 2, "gnnexp": 1}


def drawn(report: Report) -> str:
    console = Console(record=True, width=80, quiet=False, file=io.StringIO())
    print_report(report, console)
    return console.export_text()


def test_an_empty_study_has_a_report(tmp_path: Path) -> None:
    with make_study(tmp_path / "s.db") as study:
        study.join()
        report = make_report(study)
    assert "Nobody has answered yet" in drawn(report)
    assert "Nobody has answered yet" in to_html(report)
    assert "too few answers to compare" in report.paper
    json.dumps(report.to_dict(), allow_nan=False)


@pytest.mark.parametrize(("best", "forecasts"), [(1, 0), (0, 1), (1, 1)])
def test_one_answer_is_too_few(tmp_path: Path, best: int, forecasts: int) -> None:
    with make_study(tmp_path / "s.db", best=best, forecasts=forecasts) as study:
        key = study.join()
        page = study.next_page(key)
        assert page is not None
        study.answer(key, page.question, page.choices[-1][0])
        report = make_report(study)
    text = drawn(report)
    assert "too few" in text
    assert "too few" in to_html(report)
    json.dumps(report.to_dict(), allow_nan=False)


class Page(HTMLParser):
    """Collects the tags of a page, and what it would load."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.loads: list[str] = []
        self.policy = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        given = dict(attrs)
        self.loads += [v for k in ("src", "href") if (v := given.get(k)) is not None]
        if given.get("http-equiv") == "Content-Security-Policy":
            self.policy = given["content"] or ""


def test_the_page_loads_nothing_and_has_plots(simulated: Report) -> None:
    page = Page(to_html(simulated))
    assert page.loads == []
    assert page.policy.startswith("default-src 'none'")
    assert page.tags.count("svg") == 2
    assert "script" not in page.tags
    # Answers of no variant but some forecasts: still drawn.
    assert "<svg" in draw_bars("t", [("a", Figure(None, 0, None, None), None)])


def test_texts_stay_texts(tmp_path: Path) -> None:
    evil = "[bold]<script>alert(1)</script>"
    questions = [
        StudyQuestion("best", 0, evil, "s", tuple(Option((name,), shown(name)) for name in NAMES))
    ]
    about = StudyAbout(evil, evil, 1, NAMES, 0)
    with Study.open(write_study(tmp_path / "s.db", about, questions)) as study:
        for place in (0, 1):
            key = study.join()
            study.set_background(key, None, "=1+1")
            page = study.next_page(key)
            assert page is not None
            study.answer(key, page.question, page.choices[place][0])
        report, answers = make_report(study), read_records(study).answers
        keys = [key]
    assert "script" not in Page(to_html(report)).tags
    assert evil in drawn(report)
    text = to_csv(answers)
    assert not any(key in text for key in keys)
    rows = list(csv.DictReader(io.StringIO(text)))
    assert rows[0]["background_line"] == "'=1+1"
    assert rows[0]["link"] == evil


def test_raw_data_says_all_of_an_answer(tmp_path: Path) -> None:
    with make_study(tmp_path / "s.db", best=3, forecasts=3) as study:
        simulate(study, 3, Behaviour(LIKE, UNDERSTANDING), seed=0)
        answers = read_records(study).answers
    rows = list(csv.DictReader(io.StringIO(to_csv(answers))))
    assert len(rows) == 18
    truths = {q: question.truth for q, question in enumerate(make_questions(3, 3), start=1)}
    for row in rows:
        if row["kind"] == "best":
            order = row["order_shown"].split("|")
            assert sorted(order) == sorted(NAMES)
            chosen = row["choice"]
            assert row["explainer"] == ("none" if chosen == "none" else order[int(chosen) - 1])
        else:
            assert row["true_answer"] == truths[int(row["question"])]
            assert int(row["correct"]) == (row["choice"] == row["true_answer"])
            assert row["variant"] in ("without", *NAMES)
    assert {row["participant"] for row in rows} == {"1", "2", "3"}
    assert {row["background"] for row in rows} == {"none", "some", "expert"}


def test_the_number_of_answers_has_the_power_it_says() -> None:
    rng = np.random.default_rng(0)
    size, studies = answers_for_shares(0.2), 4000
    counts = rng.multinomial(size, [0.6, 0.4], studies)
    shares = counts / size
    difference = shares[:, 0] - shares[:, 1]
    error = np.sqrt((shares.sum(1) - difference**2) / size)
    assert (difference / error > 1.96).mean() == pytest.approx(0.8, abs=0.03)
    each = answers_for_accuracy(0.2)
    one, other = (rng.binomial(each, p, studies) / each for p in (0.6, 0.4))
    error = np.sqrt((one * (1 - one) + other * (1 - other)) / each)
    assert ((one - other) / error > 1.96).mean() == pytest.approx(0.8, abs=0.03)


@pytest.mark.parametrize(
    ("share", "verdict"),
    [(0.95, "above that by both"), (0.3, "below that by both"), (PAPER_SHARE, "Both intervals")],
)
def test_comparison_with_the_paper(tmp_path: Path, share: float, verdict: str) -> None:
    like = {"pagelink": share, "gnnexp": 1 - share}
    with make_study(tmp_path / "s.db", best=15, forecasts=0) as study:
        simulate(study, 12, Behaviour(like), seed=0)
        assert verdict in make_report(study).paper
