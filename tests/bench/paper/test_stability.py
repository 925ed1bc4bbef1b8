from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pagelink.bench.answers import make_explainer
from pagelink.bench.paper import stability as paper_stability
from pagelink.bench.paper.plan import Plan, datasets
from pagelink.bench.paper.stability import filtered_targets, mean_stability, retrained
from pagelink.bench.runs import Run, RunStore
from pagelink.rivals.registry import RIVALS
from pagelink.settings import Settings


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("stability")


@pytest.fixture(scope="module")
def plan(folder: Path) -> Plan:
    return Plan(folder / "models", seeds=2, links=4, quick=True)


@pytest.fixture(scope="module")
def runs(folder: Path, plan: Plan) -> list[Run]:
    store = RunStore(folder / "runs")
    paper_stability.PART.run(store, plan)
    return list(store.all("stability"))


def made(paths: list[list[list[int]]]) -> Run:
    return Run("stability", "x", {}, {"per link": {"paths": paths}}, 0, 0, {}, "", "")


def test_stability_by_hand() -> None:
    one = made([[[1, 2], [3]], [[7]], []])
    other = made([[[1, 2], [4]], [[7]], []])
    # A third, all, and a link without any path in either run, which counts as nothing.
    assert mean_stability([one, other]) == pytest.approx((1 / 3 + 1 + 0) / 3)
    assert mean_stability([one]) is None


def test_a_retrained_model_is_another_one_on_the_same_links(plan: Plan) -> None:
    subject = datasets(plan)[0].subject
    assert retrained(subject, 0, plan.models) is subject.model
    weights = [
        np.concatenate([w.numpy().ravel() for w in model.state_dict().values()])
        for model in (subject.model, *(retrained(subject, 1, plan.models) for _ in range(2)))
    ]
    assert not np.allclose(weights[0], weights[1])
    assert (weights[1] == weights[2]).all()  # trained once, then read


def test_other_true_targets_are_left_out(plan: Plan) -> None:
    subject = datasets(plan)[0].subject
    explainer = make_explainer(subject, "pagelink", Settings(), 0)
    link = explainer.reader.read(subject.pairs[0])
    known = [0, 1, 2, subject.pairs[0][1]]
    targets = filtered_targets(explainer, link, known, 0)
    flat = {explainer.graph.flat_index("item", index) for index in known}
    assert flat & set(targets.tolist()) == {link.dst}
    assert (targets == filtered_targets(explainer, link, known, 0)).all()


def test_quick_run(runs: list[Run]) -> None:
    assert len(runs) == len(RIVALS) * 5  # two seeds, two more models, and the sum of them
    single = [run for run in runs if "per link" in run.figures]
    degree = [run for run in single if run.key["label"] == "degree"]
    assert mean_stability(degree) == 1
    chance = [r for r in single if r.key["label"] == "random-paths" and r.key["model"] == 0]
    stable = mean_stability(chance)
    assert stable is not None
    assert stable < 1
    ranks = [tuple(of["rank"]) for run in single if "rank" in (of := run.figures["per link"])]
    assert len(ranks) == len(RIVALS)
    assert len(set(ranks)) == 1  # the same sample for all


def test_table_comes_from_the_runs(runs: list[Run]) -> None:
    for run in runs:
        run.figures.pop("per link", None)  # published results go without
    (table,) = paper_stability.tables(runs)
    assert [row[0] for row in table.rows] == list(RIVALS)
    assert all(len(row) == len(table.columns) for row in table.rows)
    by_name = {row[0]: row for row in table.rows}
    assert by_name["degree"][2:4] == ("1.000", "1.000")
