"""`pagelink bench faithfulness --only robust`: both judges by plain means, and a quick run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from pagelink.bench.faithfulness import robust
from pagelink.bench.faithfulness.bench import RANKINGS
from pagelink.bench.faithfulness.judges import EditedGraph, RewiredModel
from pagelink.bench.faithfulness.robust_report import in_words, random_name, tables
from pagelink.bench.runs import Run, RunStore
from pagelink.bench.subjects import Subject, load_subject, released_subject
from pagelink.cli.main import app
from pagelink.datasets.folders import DataNotFoundError
from pagelink.errors import SettingsError
from pagelink.graph.typed_graph import TypedGraph
from pagelink.models.feeds import scorer
from pagelink.models.link_model import node_inputs


@pytest.fixture(scope="module")
def subject(tmp_path_factory: pytest.TempPathFactory) -> Subject:
    return load_subject("tiny-rgcn", 3, 0, tmp_path_factory.mktemp("subjects"))


def test_training_without_nothing_is_the_training(subject: Subject) -> None:
    found = robust.retrained(subject, [], 0, 0)
    score = scorer(subject.model, node_inputs(subject.data), dict(subject.data.edge_index_dict))
    assert found["logit"] == pytest.approx(score(torch.tensor(subject.pairs).T).tolist(), abs=1e-4)
    assert found["facts"] == 0
    other = robust.retrained(subject, range(40), 0, 0)
    assert other["facts"] == 40
    assert other["logit"] != pytest.approx(found["logit"], abs=1e-3)
    assert all(0 <= share <= 1 for share in other["auc"])


def test_what_trainings_do_without() -> None:
    shown = {"one": [[1, 2], [2, 3]], "two": [[7], [8, 9]], "three": [[5], [5]]}
    sets = robust.taken_out(shown, range(50), seed=1)
    assert sets["nothing"] == []
    assert sets["one"] == [1, 2, 3]
    # Equally many facts are compared with the same ones, fewer with some of these.
    assert [name for name in sets if name.startswith("random")] == ["random 1", "random 3"]
    assert set(sets["random 1"]) < set(sets["random 3"])
    assert robust.taken_out(shown, range(50), seed=2)["random 3"] != sets["random 3"]


def test_halves_are_those_of_the_plain_way(subject: Subject) -> None:
    """With one random half per link: f with the facts and without, on plainly edited graphs."""
    (ground,) = robust._grounds(subject, 0)
    graph = TypedGraph.from_data(subject.data, [subject.link_type])
    ask = RewiredModel(subject.model, node_inputs(subject.data), graph, 2)
    shown = {"some": [ground.path_facts(link)[:4].tolist() for link in range(3)]}
    found = robust.halved(subject, shown, 1, 0)["some"]
    for number, link in enumerate(ground.links):
        rng = np.random.default_rng((0, link.src, link.dst, 5))
        facts = np.unique(graph.fact[ground.edges(number)])
        half = {int(f) for f, kept in zip(facts, rng.random(len(facts)) < 0.5, strict=True) if kept}
        everything = set(range(graph.num_facts))
        drawn = rng.permutation(ground.path_facts(number))[:4].tolist()
        for key, chosen in (("own", shown["some"][number]), ("random", drawn)):
            with_all, with_none = ask.logits(
                [
                    EditedGraph(link.src, link.dst, frozenset(everything - (half | {*chosen}))),
                    EditedGraph(link.src, link.dst, frozenset(everything - (half - {*chosen}))),
                ]
            )
            assert found[key][number] == pytest.approx(with_all - with_none, abs=1e-4)


def test_nothing_shown_is_worth_nothing(subject: Subject) -> None:
    found = robust.halved(subject, {"none": [[], [], []]}, 2, 0)["none"]
    assert found == {"own": [0, 0, 0], "random": [0, 0, 0]}


def made_runs(fall: dict[str, float]) -> list[Run]:
    """Three trainings; each ranking makes every link fall by so much more than random facts."""
    runs = []
    for number in range(3):
        for what in ("nothing", *RANKINGS, random_name(5)):
            logits = [4 - number * 0.1 - fall.get(what, 0.0)] * 6
            key = {"subject": "x", "links": 6, "seed": 0, "training": number, "without": what}
            figures = {"facts": 0 if what == "nothing" else 5, "logit": logits, "auc": logits}
            runs.append(Run("robust", f"{number} {what}", key, figures, 1, 1, {}, "", "2026-01-01"))
    return runs


def test_tables_by_hand() -> None:
    logit, auc = tables(made_runs({random_name(5): 1.0, "default": 3.0, "paper": 1.0}))
    assert logit.title == "x: training anew, fall of the logit"
    assert auc.rows == logit.rows
    assert logit.rows[0] == (
        "default", "5", "3.000", "1.000", "2.000 [2.000, 2.000]", "2.000 [2.000, 2.000]", "3 / 0",
        "-",
    )  # fmt: skip
    assert logit.rows[1][4] == "0.000 [0.000, 0.000]"
    assert logit.rows[1][-1] == "2.000 [2.000, 2.000]"
    assert logit.rows[2][-2] == "0 / 3"  # influence falls by nothing, random facts by 1
    assert "More than random facts of the paths: default." in logit.note
    assert "The default is above paper, influence" in logit.note


def test_words_need_links_and_trainings() -> None:
    rng = np.random.default_rng(0)
    sure = [rng.normal(1, 0.1, 50) for _ in range(3)]
    none = [rng.normal(0, 1, 50) for _ in range(3)]
    # In every training the links agree, but the trainings do not.
    torn = [np.full(50, value) + rng.normal(0, 0.1, 50) for value in (3.0, -2.0, 1.0)]
    nothing = in_words({"default": none, "paper": torn}, seed=0)
    assert nothing.startswith("Nothing shows")
    found = in_words({"default": sure, "paper": none, "greedy": sure}, seed=0)
    assert (
        found == "More than random facts of the paths: default, greedy. The default is above paper."
    )
    assert in_words({"default": sure, "greedy": sure}, seed=0) == (
        "More than random facts of the paths: default, greedy. "
        "Nothing separates the other rankings from the default."
    )


def test_quick_run_goes_on_where_it_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ["bench", "faithfulness", "--only", "robust", "--quick", "--out", str(tmp_path)]
    first = CliRunner().invoke(app, command)
    assert first.exit_code == 0, first.output
    folder = tmp_path / "runs" / "robust"
    paths = json.loads((folder / "tiny-rgcn-paths.json").read_text())["figures"]
    assert list(paths["shown"]) == list(RANKINGS)
    assert all(len(facts) == robust.QUICK_LINKS for facts in paths["shown"].values())
    everywhere = {fact for of_link in paths["shown"]["greedy"] for fact in of_link}
    assert everywhere <= set(paths["on paths"])
    table = (tmp_path / "robust.md").read_text()
    assert table in first.output
    assert table.count("| greedy ") == 3
    trainings = sorted(folder.glob("*training*.json"))
    trainings[0].unlink()
    trained: list[int] = []

    def counted(*given: Any) -> Any:
        trained.append(1)
        return retrained(*given)

    retrained = robust.retrained
    monkeypatch.setattr(robust, "retrained", counted)
    again = CliRunner().invoke(app, command)
    assert again.exit_code == 0, again.output
    assert trained == [1]
    assert (tmp_path / "robust.md").read_text() == table


def test_a_model_that_was_not_trained_here_is_refused(tmp_path: Path) -> None:
    try:
        subject = released_subject(2)
    except DataNotFoundError:
        pytest.skip("the released data are not there")
    plan = robust.Plan(2, 1, 1, 10)
    with pytest.raises(SettingsError, match="cannot be trained anew"):
        robust.run_subject(RunStore(tmp_path), subject, plan, 0, lambda what: None)
