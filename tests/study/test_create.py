"""A study made of a small model: what is asked is true of it, and gives no explainer away."""

from __future__ import annotations

import contextlib
import json
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from pagelink import PaGELink
from pagelink.bench.faithfulness.judges import EditedGraph, RewiredModel
from pagelink.datasets.useritemattr import train_useritemattr
from pagelink.errors import SettingsError, StudyError
from pagelink.models.checkpoint import Checkpoint
from pagelink.models.link_model import LinkModel, node_inputs
from pagelink.rivals.registry import RIVALS
from pagelink.study.create import Made, Plan, create, lines_about
from pagelink.study.database import Study
from pagelink.study.explaining import Removal, Words, balanced, explainer_names, judged
from pagelink.study.questions import Truth

EXPLAINERS = ("pagelink", "gnnexp", "degree", "random-paths")
PLAN = Plan(EXPLAINERS, links=6, forecasts=5, seed=3)
SIZES = {"num_users": 30, "num_items": 30, "num_attrs": 15, "num_has": 60, "num_buys": 230,
         "items_per_user": 16, "num_wanted": 10, "max_degree": 30}  # fmt: skip


@contextlib.contextmanager
def no_bar(_: str) -> Iterator[Callable[[int, int], None]]:
    yield lambda done, total: None


@pytest.fixture(scope="module")
def checkpoint() -> Checkpoint:
    return train_useritemattr(0, **SIZES)


@pytest.fixture(scope="module")
def made(checkpoint: Checkpoint, tmp_path_factory: pytest.TempPathFactory) -> Made:
    return create(checkpoint, tmp_path_factory.mktemp("study") / "study.db", PLAN, no_bar)


@pytest.fixture
def rows(made: Made) -> Iterator[sqlite3.Connection]:
    with contextlib.closing(sqlite3.connect(made.path)) as connection:
        connection.row_factory = sqlite3.Row
        yield connection


def test_what_was_made(made: Made) -> None:
    with Study.open(made.path) as study:
        assert study.about.explainers == EXPLAINERS
        assert study.about.num_questions == 11
        assert study.about.settings is not None
        assert study.about.settings["budget"] == 9
        assert study.about.versions is not None
        assert "torch" in study.about.versions
    assert (made.num_links, made.num_forecasts) == (6, 5)
    assert list(made.path.parent.iterdir()) == [made.path]
    said = "\n".join(lines_about(made, PLAN, 0.1))
    assert "6 links, each explained by 4 explainers" in said
    assert "778 answers are enough; 3 per question make 18" in said


def test_every_explainer_is_in_every_question_once(rows: sqlite3.Connection) -> None:
    for question in rows.execute("SELECT * FROM question").fetchall():
        options = rows.execute(
            "SELECT * FROM option WHERE question = ? ORDER BY number", (question["id"],)
        ).fetchall()
        names = [name for option in options for name in json.loads(option["explainers"])]
        assert sorted(names) == sorted(EXPLAINERS)
        empty = [option for option in options if option["drawing"] is None]
        assert len(empty) == (question["kind"] == "forecast")
        drawings = [option["drawing"] for option in options if option["drawing"] is not None]
        assert len(set(drawings)) == len(drawings)


def test_nothing_gives_an_explainer_away_and_all_keep_the_budget(rows: sqlite3.Connection) -> None:
    for drawing in rows.execute("SELECT * FROM drawing").fetchall():
        sentences = json.loads(drawing["sentences"])
        assert 1 <= len(sentences) <= 9
        text = drawing["svg"].lower() + " ".join(sentences).lower()
        assert not [name for name in (*RIVALS, "influence", "mask") if name in text]
        assert "<script" not in text
        assert "<style" not in text


def test_the_right_answer_is_what_the_model_does(
    checkpoint: Checkpoint, rows: sqlite3.Connection
) -> None:
    # Asked the plain way, by gathering edges on the edited graph: none of the study's own means.
    graph = checkpoint.graph
    said = Words(graph, checkpoint.link_type)
    asked = RewiredModel(checkpoint.model, node_inputs(checkpoint.data), graph, 2)
    link_type = checkpoint.link_type
    noise = PaGELink(checkpoint.model, checkpoint.data, link_type).receptive_field.noise.tau
    facts = {said.fact(fact): fact for fact in set(graph.fact.tolist())}
    pairs = {said.link(pair): pair for pair in map(tuple, checkpoint.split.test.t().tolist())}
    for row in rows.execute("SELECT * FROM question WHERE kind = 'forecast'").fetchall():
        src, dst = pairs[row["link"]]
        ends = graph.flat_index("user", src), graph.flat_index("item", dst)
        before, after = asked.logits(
            [EditedGraph(*ends, frozenset()), EditedGraph(*ends, frozenset([facts[row["fact"]]]))]
        )
        change = float(after - before)
        assert row["change"] == pytest.approx(change, abs=1e-4)
        bar = noise
        truth = "rise" if change > bar else "fall" if change < -bar else "stay"
        assert row["truth"] == truth
        assert f"{before:.2f}" in row["score"]
        assert before >= 0


def test_true_answers_are_balanced(made: Made) -> None:
    assert sum(made.truths.values()) == 5
    assert max(made.truths.values()) <= 3


def test_the_same_seed_gives_the_same_study(
    checkpoint: Checkpoint, tmp_path: Path, rows: sqlite3.Connection
) -> None:
    plan = Plan(("degree", "random-paths"), links=4, seed=5)

    def questions(name: str) -> list[tuple[object, ...]]:
        path = create(checkpoint, tmp_path / name, plan, no_bar).path
        with contextlib.closing(sqlite3.connect(path)) as connection:
            return connection.execute(
                "SELECT * FROM question JOIN option ON question.id = question "
                "LEFT JOIN drawing ON drawing.id = drawing"
            ).fetchall()

    assert questions("a.db") == questions("b.db")


def test_fewer_links_than_asked_for_is_said(checkpoint: Checkpoint, tmp_path: Path) -> None:
    plan = Plan(("degree", "random-paths"), links=10_000, forecasts=0)
    made = create(checkpoint, tmp_path / "s.db", plan, no_bar)
    assert 0 < made.num_links <= checkpoint.split.test.shape[1]
    assert made.num_forecasts == 0
    assert any("10000 links were requested" in line for line in lines_about(made, plan, 0.1))


def test_an_explainer_with_nothing_to_show_is_shown_empty(checkpoint: Checkpoint) -> None:
    said = Words(checkpoint.graph, checkpoint.link_type)
    shown = said.shown((0, 0), ())
    assert shown.sentences == ("This explanation shows no facts.",)
    assert shown.sentences[0] in shown.svg


def test_an_existing_file_is_refused_before_any_work(
    checkpoint: Checkpoint, tmp_path: Path
) -> None:
    (tmp_path / "s.db").write_text("answers")
    with pytest.raises(StudyError, match="may hold answers"):
        create(checkpoint, tmp_path / "s.db", PLAN, no_bar)
    assert (tmp_path / "s.db").read_text() == "answers"


def test_a_model_that_predicts_nothing_is_refused(checkpoint: Checkpoint, tmp_path: Path) -> None:
    class Never(torch.nn.Module):
        """The same model, which finds no link likely."""

        def __init__(self, model: LinkModel) -> None:
            super().__init__()
            self.model = model

        def forward(self, *given: Any) -> torch.Tensor:
            scores: torch.Tensor = self.model(*given)
            return scores - 1000

    never = replace(checkpoint, model=Never(checkpoint.model))  # type: ignore[arg-type]
    with pytest.raises(StudyError, match="the model predicts 0"):
        create(never, tmp_path / "s.db", PLAN, no_bar)
    assert not (tmp_path / "s.db").exists()


def test_answering_needs_neither_model_nor_torch(made: Made) -> None:
    code = (
        "import sys; from pathlib import Path; from pagelink.study.database import Study\n"
        "study = Study.open(Path(sys.argv[1])); key = study.join(); page = study.next_page(key)\n"
        "assert study.answer(key, page.question, page.choices[0][0])\n"
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code, str(made.path)], check=True)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("pagelink,gnnexpp", "Did you mean 'gnnexp'"),
        ("pagelink", "two or more"),
        ("pagelink,random,random-paths", "two or more different"),
        ("", "one of"),
    ],
)
def test_wrong_explainers_are_refused(given: str, said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        explainer_names(given)


@pytest.mark.parametrize(
    "wrong", [{"links": 0}, {"per_person": 0}, {"budget": 2}, {"links": 3, "forecasts": 4}]
)
def test_wrong_plans_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(SettingsError, match=r"at least|at most"):
        Plan(EXPLAINERS, **wrong)  # type: ignore[arg-type]


def test_balance_takes_what_the_model_allows() -> None:
    def link(*truths: Truth) -> list[Removal]:
        change = {"rise": 1.0, "fall": -1.0, "stay": 0.0}
        return [judged(n, change[truth], 0.01, n % 2 == 0) for n, truth in enumerate(truths)]

    only_fall = [link("fall", "fall")] * 4
    free = [link("rise", "fall", "stay")] * 4
    chosen = balanced([*only_fall, *free], 8, seed=0)
    truths = [each.truth for each in chosen.values()]
    assert [truths.count(truth) for truth in ("rise", "fall", "stay")] == [2, 4, 2]
    fewer = [each.truth for each in balanced([*only_fall, *free], 6, seed=0).values()]
    assert [fewer.count(truth) for truth in ("rise", "fall", "stay")] == [2, 2, 2]
    assert balanced([[], link("stay")], 2, seed=0).keys() == {1}
