from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from pagelink import PaGELink, Settings
from pagelink.bench.paper import time as paper_time
from pagelink.bench.paper.plan import Plan
from pagelink.bench.paper.time import CHOOSE, LEARN, STAGES, exponent, stage_seconds, watched
from pagelink.bench.runs import Run, RunStore
from pagelink.bench.speed.graphs import LIKES, HeteroSAGE, ladder_graph
from pagelink.explain import pipeline


@pytest.fixture(scope="module")
def explainer() -> PaGELink:
    graph = ladder_graph((200,), 4, seed=0)
    model = HeteroSAGE(graph.data, 8, seed=0)
    settings = Settings(measure=False, patience=None)
    return PaGELink(model, graph.data, LIKES, settings, threshold=None)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Run]:
    folder: Path = tmp_path_factory.mktemp("time")
    store = RunStore(folder / "runs")
    plan = Plan(folder / "models", seeds=1, links=4, quick=True)
    paper_time.PART.run(store, plan)
    return list(store.all("time"))


def test_exponent_of_a_square() -> None:
    assert exponent([1, 2, 4], [3, 12, 48]) == pytest.approx(2)


def test_each_stage_has_its_own_seconds(
    explainer: PaGELink, monkeypatch: pytest.MonkeyPatch
) -> None:
    find = pipeline.best_by_mask

    def slow(*given: Any) -> Any:
        until = time.process_time() + 0.2
        while time.process_time() < until:
            pass
        return find(*given)

    monkeypatch.setattr(pipeline, "best_by_mask", slow)
    found = stage_seconds(explainer, [(0, 0)])
    assert found[CHOOSE] >= 0.2 > found[LEARN] > 0
    assert found["epochs"] == 20
    assert found["total"] >= sum(found[stage] for stage in STAGES)


def test_nobody_watches_afterwards(explainer: PaGELink) -> None:
    def seen() -> tuple[object, ...]:
        own = set(vars(explainer)), set(vars(explainer.setup.batches))
        return pipeline.prune_links, explainer.pipeline, own

    before = seen()
    with pytest.raises(RuntimeError), watched(explainer):
        raise RuntimeError
    assert seen() == before


def test_quick_run(runs: list[Run]) -> None:
    by_name = {run.name: run.figures for run in runs}
    assert len(by_name["time against edges"]["lines"]) == 2
    learned = by_name["growth PaGELink, by its mask"]
    assert learned["rounds"] == "epochs"
    assert learned["in_rounds"] > 0.2  # four times the epochs cannot be free
    assert by_name["growth degree only"]["in_rounds"] is None
    paper = by_name["tiny-rgcn stages paper's settings"]
    assert paper["epochs"] == 20


def test_tables_and_plots_come_from_the_runs(runs: list[Run]) -> None:
    found = list(paper_time.tables(runs))
    assert len(found) == 4
    for table in found:
        assert all(len(row) == len(table.columns) for row in table.rows)
    assert [row[0] for row in found[1].rows] == list(paper_time.ROWS)
    assert len(list(paper_time.plots(runs))) == 5
