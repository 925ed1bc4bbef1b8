from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pagelink import PaGELink, Settings
from pagelink.bench.measures import masks_against_labels
from pagelink.bench.paper import ablation as paper_ablation
from pagelink.bench.paper.ablation import FREE, MEASURED, REFERENCE, variants
from pagelink.bench.paper.plan import Plan, datasets
from pagelink.bench.runs import Run, RunStore
from pagelink.rivals.ground import fact_paths


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("ablation")


@pytest.fixture(scope="module")
def plan(folder: Path) -> Plan:
    return Plan(folder / "models", seeds=2, links=5, quick=True)


@pytest.fixture(scope="module")
def runs(folder: Path, plan: Plan) -> list[Run]:
    store = RunStore(folder / "runs")
    paper_ablation.PART.run(store, plan)
    return list(store.all("ablation"))


def test_mask_figures_by_hand() -> None:
    scores = np.array([0.9, 0.2, 0.8, -1.0] + [0.5] * 16)
    found = masks_against_labels([scores], [[np.array([0, 1]), np.array([3])]])
    # Positives at 0.9, 0.2 and -1: of 51 pairs with a negative, 17 are in order.
    assert found["auc"] == pytest.approx([17 / 51])
    assert (found["hit rate@10"][0], found["hit rate@50"][0]) == (0.0, 1.0)


def test_effects_are_the_models_own(plan: Plan) -> None:
    (dataset,) = datasets(plan)
    subject = dataset.subject
    explainer = PaGELink(
        subject.model, subject.data, subject.link_type, Settings(swaps=0), threshold=None
    )
    explanation = explainer.explain(*subject.pairs[0])
    (paths,) = fact_paths(explainer, [explanation])
    nothing, first = dataset.grounds[0].effects([0, 0], [[], paths[0]])
    assert nothing == pytest.approx(0, abs=1e-6)
    assert first == pytest.approx(explanation.paths[0].influence, abs=1e-4)


def test_every_piece_is_left_out_once() -> None:
    rows = variants(Settings.paper("useritemattr"))
    assert len(rows) == 14
    ours = Settings(num_paths=3, measure=False)
    without = rows["PaGELink, by its mask, without L_path"][1]
    assert without == ours.replace(alpha=0, beta=0, patience=None)
    assert rows["paper's settings, without k-core pruning"][1].hub_degree == 200
    assert rows[MEASURED][1].measure


def test_quick_run(runs: list[Run]) -> None:
    labels = [run.key["label"] for run in runs]
    assert len(labels) == 7 + 2 * 7  # only noise needs both seeds
    by_label = {run.key["label"]: run.figures for run in runs}
    assert by_label["PaGELink, by its mask, mask before learning"]["epochs"] == 0
    assert by_label[FREE]["auc"] > 0.9
    # What is chosen by the effect has more of it than what never looks at the model.
    assert by_label[MEASURED]["effect"] > by_label[FREE]["effect"]
    assert all(run.figures["answered"] == 1 for run in runs)


def test_table_comes_from_the_runs(runs: list[Run]) -> None:
    (table,) = paper_ablation.PART.tables(runs)
    assert len(table.rows) == 14
    assert all(len(row) == len(table.columns) for row in table.rows)
    noisy = next(row for row in table.rows if row[0] == "paper's settings, mask before learning")
    assert any("±" in cell for cell in noisy[1:]), noisy
    seeds = [run.figures["auc"] for run in runs if run.key["label"] == noisy[0]]
    assert len(set(seeds)) == 2


def test_the_reference_is_a_part_with_the_rows_of_its_command(folder: Path, plan: Plan) -> None:
    store = RunStore(folder / "runs")
    REFERENCE.run(store, plan)
    (table,) = REFERENCE.tables(list(store.all("reference")))
    assert table.columns == (
        "", "auc", "hit@10", "hit@50", "hit@100", "hit@200", "first 1", "first 3", "first 5",
        "first 10", "coverage", "cpu",
    )  # fmt: skip
    assert len(table.rows) == 10 + 2 + 2 * 2
    assert all(len(row) == len(table.columns) for row in table.rows)
    by_name = {row[0]: row for row in table.rows}
    assert by_name["paper, PaGE-Link"][1:3] == ("0.954", "0.163")
    assert float(by_name["no model, degree only"][1]) > 0.9
