"""Results that are published: joined with those that are there, and never of tiny versions."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from pagelink.bench import docs
from pagelink.bench.faithfulness import planted
from pagelink.bench.faithfulness.report import FAITHFULNESS
from pagelink.bench.paper.report import Table
from pagelink.bench.runs import RunStore
from pagelink.bench.speed.figures import Figure, Goal
from pagelink.bench.speed.report import as_dict
from pagelink.errors import PageLinkError


def speed(folder: Path, *figures: Figure, quick: bool = False) -> Path:
    """What `pagelink bench speed` writes."""
    folder.mkdir(exist_ok=True)
    (folder / "speed.json").write_text(json.dumps(as_dict(figures, quick, seed=0)))
    return folder


def models(folder: Path, subject: str, *titles: str) -> Path:
    """What `pagelink bench faithfulness --subject` writes, as far as it is joined."""
    folder.mkdir(exist_ok=True)
    tables = [asdict(Table(f"{subject}: {title}", ("", "n"), [("row", "1")])) for title in titles]
    whole: dict[str, Any] = {"quick": False, "subjects": [{"subject": subject}], "tables": tables}
    (folder / f"{FAITHFULNESS}.json").write_text(json.dumps(whole))
    return folder


def test_runs_of_other_data_sets_of_a_part_stay(tmp_path: Path) -> None:
    def run(folder: str, data: str, row: str, key: str = "subject") -> None:
        store = RunStore(tmp_path / folder / "runs")
        store.do("explainers", f"{data} {row}", {key: data, "row": row}, lambda: {"row": row})

    run("a", "released", "degree")
    run("a", "augcitation-rgcn", "degree")
    docs.publish(tmp_path / "a", tmp_path)
    run("b", "released", "gradient")
    docs.publish(tmp_path / "b", tmp_path)
    found = [file.stem for file in (tmp_path / docs.RESULTS / "explainers").iterdir()]
    assert sorted(found) == ["augcitation-rgcn-degree", "released-gradient"]


def titles(root: Path) -> list[str]:
    found = json.loads((root / docs.RESULTS / f"{FAITHFULNESS}.json").read_text())
    return [table["title"] for table in found["tables"]]


def test_rows_of_speed_are_joined(tmp_path: Path) -> None:
    page = tmp_path / "docs" / "speed.md"
    page.parent.mkdir()
    page.write_text("# Speed\n\n<!-- benchmark:speed -->\n<!-- /benchmark:speed -->\n")
    peak = Figure("memory", "peak", 5.0, "GB", goal=Goal(4.0))
    docs.publish(speed(tmp_path / "a", peak, Figure("first", "gone", 9.0, "s")), tmp_path)
    docs.publish(speed(tmp_path / "b", Figure("first", "a process", 2.0, "s")), tmp_path)
    assert docs.write_docs(tmp_path) == [page]
    shown = [line.split("|")[1:4] for line in page.read_text().splitlines() if "`" in line]
    assert [[cell.strip() for cell in row] for row in shown] == [
        ["`memory`", "peak", "**5 GB**"], ["`first`", "a process", "2 s"],
    ]  # fmt: skip


def test_explainers_that_were_not_run_anew_keep_their_cells(tmp_path: Path) -> None:
    names = [*planted.EXPLAINERS]

    def run(folder: str, *cells: str) -> None:
        nothing = ["-"] * (len(names) - len(cells))
        tables = [
            Table("all", ("", *names), [("AND", *cells, *nothing)]),
            Table("default", ("", "others given"), [("AND", cells[-1])]),
        ]
        whole = {"benchmark": planted.NAME, "quick": False, "tables": [*map(asdict, tables)]}
        (tmp_path / folder).mkdir()
        (tmp_path / folder / f"{planted.NAME}.json").write_text(json.dumps(whole))
        docs.publish(tmp_path / folder, tmp_path)

    run("a", "0.5", "0.25")
    run("b", "1.0")
    run("c", "0.75", "-")
    found = json.loads((tmp_path / docs.RESULTS / f"{planted.NAME}.json").read_text())["tables"]
    assert [table["rows"][0][:3] for table in found] == [["AND", "0.75", "0.25"], ["AND", "-"]]


def test_the_plot_of_speed_is_drawn_where_its_row_was_run(tmp_path: Path) -> None:
    samples = {"edges": [0, 500, 1000], "cpu_s": [0.01, 0.02, 0.03], "slope": [2e-5],
               "intercept": [0.01], "hidden": [8]}  # fmt: skip
    store = RunStore(tmp_path / docs.RESULTS)
    docs.publish(speed(tmp_path / "a", Figure("first", "a process", 2.0, "s")), tmp_path)
    assert docs.drawings(store) == {}
    line = Figure("linear", "R²", 1.0, "R²", samples=samples)
    docs.publish(speed(tmp_path / "b", line), tmp_path)
    assert list(docs.drawings(store)) == [docs.IMAGES / docs.SPEED_PLOT]


def test_all_tables_of_a_subject_are_replaced(tmp_path: Path) -> None:
    docs.publish(models(tmp_path / "a", "released", "129 links", "by rho"), tmp_path)
    docs.publish(models(tmp_path / "b", "movielens-sage", "20 links"), tmp_path)
    docs.publish(models(tmp_path / "c", "released", "100 links"), tmp_path)
    assert titles(tmp_path) == ["movielens-sage: 20 links", "released: 100 links"]


def test_tiny_versions_are_refused(tmp_path: Path) -> None:
    folder = speed(tmp_path / "a", Figure("first", "a process", 2.0, "s"), quick=True)
    with pytest.raises(PageLinkError, match="tiny version"):
        docs.publish(folder, tmp_path)
    assert not (tmp_path / docs.RESULTS).exists()


def test_a_part_without_results_leaves_its_place_empty(tmp_path: Path) -> None:
    text = "<!-- benchmark:experts -->\n<!-- /benchmark:experts -->"
    assert docs.filled(text, RunStore(tmp_path)) == text
