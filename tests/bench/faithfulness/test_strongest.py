"""`pagelink bench faithfulness --only strongest`: figures by hand, and runs that are kept."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from pagelink.bench.faithfulness import strongest
from pagelink.bench.faithfulness.strongest import GNN, GREEDY, MOST, OURS, PATHS, RIVALS, ROWS
from pagelink.bench.subjects import Separations, Subject
from pagelink.cli.main import app

COMMAND = ["bench", "faithfulness", "--only", "strongest", "--quick", "--out"]


def subject() -> Subject:
    separations = Separations(0.9, 0.8, 0.6, 0.5, None, None)
    model, data = None, None
    return Subject("some", model, data, ("a", "b", "c"), (), None, separations)  # type: ignore[arg-type]


def answers(**effects: list[list[float]]) -> dict[str, dict[str, list[Any]]]:
    """Answers for three links, of two, one and no facts; a rival takes a second per fact."""
    ours = {
        "facts": [2, 1, 0], "effect": [1.5, 0.5, 0.0], "of paths": [1.0, -0.5, 0.0],
        "cpu": [0.1, 0.1, 0.1], "cpu of all": [0.4] * 3, "off": [0.0, 2e-6, 0.0],
        "strongest": [2, 0, 0],
    }  # fmt: skip
    found: dict[str, dict[str, list[Any]]] = {OURS: ours}
    for row in RIVALS:
        values = effects.get(row.replace(" ", "_"), [[0.0, 0.0, 0.0]] * 3)
        found[row] = {"effects": values, "cpu": [[0.0, 1.0, 2.0]] * 3, "visible": [10, 20, 30]}
    return found


def test_figures_by_hand() -> None:
    given = answers(
        greedy_removal=[[0.0, 1.0, 2.0], [0.0, -0.25, 9.0], [0.0, 9.0, 9.0]],
        GNNExplainer=[[0.0, 0.0, 1.0], [0.0, 0.25, 9.0], [0.0, 9.0, 9.0]],
    )
    figures = strongest.summed_up(subject(), given, seed=0)
    assert (figures["links"], figures["links without paths"]) == (3, 1)
    assert figures["links, greedy not positive"] == 1
    assert figures["links, fewer facts found"] == 1
    assert figures["stated effect off by"] == 2e-6
    assert figures["facts per link"] == 1
    assert figures["visible facts per link"] == 20
    rows = figures["rows"]
    assert list(rows) == list(ROWS)
    assert rows[OURS]["of greedy"]["value"] == pytest.approx(2 / 1.75, rel=1e-5)
    assert rows[OURS]["of GNNExplainer"]["value"] == pytest.approx(2 / 1.25, rel=1e-5)
    assert rows[PATHS]["of greedy"]["value"] == pytest.approx(0.5 / 1.75, rel=1e-5)
    assert rows[GNN]["effect"]["value"] == pytest.approx(1.25 / 3, rel=1e-5)
    assert rows[GREEDY]["of greedy"] == {
        "value": 1,
        "low": None,
        "high": None,
    }  # a link alone is < 0
    # Two facts, one fact, none: a rival is not charged for a link without paths.
    assert rows[GREEDY]["cpu"] == pytest.approx(1)
    assert rows[OURS]["cpu of greedy"] == pytest.approx(0.1)
    assert rows[PATHS]["cpu of GNNExplainer"] == pytest.approx(0.4)
    table = strongest.table(figures)
    assert "3 links, 1 of them without paths" in table.note
    assert "on degree-matched pairs 0.800 and 0.500" in table.note
    assert table.rows[0][0] == OURS
    assert table.rows[0][-3:] == ("100.0", "0.1000", "0.1000")


def test_the_greedy_search_may_be_run_on_fewer_links() -> None:
    given = answers(
        greedy_removal=[[0.0, 1.0, 2.0], [0.0, 0.5, 9.0], [0.0, 9.0, 9.0]],
        GNNExplainer=[[0.0, 0.0, 1.0], [0.0, 0.25, 9.0], [0.0, 9.0, 9.0]],
    )
    given[GREEDY] = {key: values[:1] for key, values in given[GREEDY].items()}
    figures = strongest.summed_up(subject(), given, seed=0)
    rows = figures["rows"]
    assert rows[OURS]["of greedy"]["value"] == pytest.approx(1.5 / 2, rel=1e-5)
    assert rows[OURS]["cpu of greedy"] == pytest.approx(0.1 / 2)
    assert rows[OURS]["of GNNExplainer"]["value"] == pytest.approx(2 / 1.25, rel=1e-5)
    assert "Of the first 1 links alone" in strongest.table(figures).note


def test_quick_run_goes_on_where_it_stopped(tmp_path: Path) -> None:
    first = CliRunner().invoke(app, [*COMMAND, str(tmp_path)])
    assert first.exit_code == 0, first.output
    (figures,) = json.loads((tmp_path / "strongest.json").read_text())["subjects"]
    assert figures["links"] == strongest.QUICK_LINKS
    assert figures["stated effect off by"] < 1e-4
    rows = figures["rows"]
    assert rows[GREEDY]["of greedy"]["value"] == pytest.approx(1)
    assert all(row["cpu"] > 0 for row in rows.values())
    text = (tmp_path / "strongest.md").read_text()
    assert text in first.output
    runs = tmp_path / "runs" / "strongest"
    files = sorted(runs.glob("*.json"))
    assert len(files) == (1 + len(RIVALS)) * strongest.QUICK_LINKS // strongest.QUICK_AT_ONCE
    for row in RIVALS:
        (file, *_) = runs.glob(f"*{row.replace(' ', '-')}*1-to-2.json")
        of_link = json.loads(file.read_text())["figures"]["per link"]
        assert [len(values) for values in of_link["effects"]] == [MOST + 1] * 2
        assert [values[0] for values in of_link["effects"]] == [0, 0]
        assert all(values == sorted(values) for values in of_link["cpu"])
    (ours, *_) = runs.glob("*strongest-facts*.json")
    ours.unlink()
    before = {file: file.stat().st_mtime_ns for file in files if file != ours}
    again = CliRunner().invoke(app, [*COMMAND, str(tmp_path)])
    assert again.exit_code == 0, again.output
    assert ours.exists()
    assert {file: file.stat().st_mtime_ns for file in before} == before
    (rerun,) = json.loads((tmp_path / "strongest.json").read_text())["subjects"]
    for row in ROWS:
        assert rerun["rows"][row]["of greedy"] == rows[row]["of greedy"]


def test_an_unknown_subject_is_refused(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, [*COMMAND, str(tmp_path), "--subject", "tiny-rgnc"])
    assert done.exit_code != 0
    assert "Did you mean 'tiny-rgcn'" in str(done.exception) + done.output
