from __future__ import annotations

from pathlib import Path

import pytest

from pagelink.bench.paper import paths as paper_paths
from pagelink.bench.paper.paths import AMONG, BY_MASK, COVERED, FREE, PAPER, curves
from pagelink.bench.paper.plan import Plan
from pagelink.bench.runs import Run, RunStore


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Run]:
    folder: Path = tmp_path_factory.mktemp("paths")
    store = RunStore(folder / "runs")
    plan = Plan(folder / "models", seeds=2, links=6, quick=True)
    paper_paths.PART.run(store, plan)
    return list(store.all("paths"))


def test_the_two_rates_by_hand() -> None:
    paths = [[(1, 2), (3, 4), (5,)], [(6,), (7, 8)], []]
    labelled = [[(1, 4)], [(7, 8), (9,)], [(1,)]]
    found = curves(paths, labelled, (1, 2, 3))
    assert found[AMONG] == pytest.approx({"1": 0.0, "2": 1 / 3, "3": 1 / 3}, abs=1e-5)
    assert found[COVERED] == pytest.approx({"1": 0.0, "2": 2 / 3, "3": 2 / 3}, abs=1e-5)


def test_the_order_of_facts_matters_for_a_path_and_not_for_its_facts() -> None:
    found = curves([[(2, 1)]], [[(1, 2)]], (1,))
    assert (found[AMONG]["1"], found[COVERED]["1"]) == (0.0, 1.0)


def test_quick_run(runs: list[Run]) -> None:
    by_label = {label: [r for r in runs if r.key["label"] == label] for label in (PAPER, FREE)}
    assert [len(mine) for mine in by_label.values()] == [2, 1]  # only noise needs seeds
    for run in runs:
        among, covered = (run.figures["rates"][which] for which in (AMONG, COVERED))
        assert all(among[n] <= covered[n] for n in among)
    # Enough paths hold the labelled ones: the search leaves none of that length out.
    assert by_label[FREE][0].figures["rates"][AMONG]["200"] == 1.0


def test_tables_and_plots_come_from_the_runs(runs: list[Run]) -> None:
    (table,) = paper_paths.tables(runs)
    assert len(table.rows) == 8
    assert all(len(row) == len(table.columns) for row in table.rows)
    assert "-" in table.rows[0]  # the default is asked for few paths
    assert "-" not in table.rows[2]
    (plot,) = paper_paths.plots(runs)
    by_mask = next(line for line in plot.series if line.label == BY_MASK)
    assert len(by_mask.x) == 200
    assert list(by_mask.y) == sorted(by_mask.y)
