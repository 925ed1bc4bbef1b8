"""`pagelink bench faithfulness --only sides`: the frontier over rho, and runs that are kept."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from pagelink.bench.faithfulness import sides
from pagelink.bench.faithfulness.sides import GAIN, QUICK_LINKS, QUICK_RHOS, REMOVAL, RIVALS
from pagelink.bench.runs import Run
from pagelink.cli.main import app

COMMAND = ["bench", "faithfulness", "--only", "sides", "--quick", "--out"]


def test_table() -> None:
    share = {"value": 0.25, "low": 0.125, "high": 0.5}
    key = {"subject": "some", "seed": 3}
    figures = {
        **{name: share for name in sides.SHARES}, "paths": 2.5, "links": 8, "supportable": 6,
        "not_positive": {"removal": 1, "gain": 2}, "per link": {},
    }  # fmt: skip
    greedy = {**figures, "per link": {"exhaustive": [True, False, False]}}
    own = {**figures, "verdicts": {"supported": 0.75, "none": 0.25}}
    found = sides.table([
        Run("sides", "rho = 0.5", {**key, "row": "rho = 0.5"}, own, 1, 1, {}, "", ""),
        Run("sides", REMOVAL, {**key, "row": REMOVAL}, greedy, 1, 1, {}, "", ""),
    ])  # fmt: skip
    assert found.columns[-3:] == ("paths", "supported", "none")
    cells = ("0.250 [0.125, 0.500]",) * 4
    assert found.rows[0] == ("rho = 0.5", *cells, "2.50", "0.75", "0.25")
    assert found.rows[1] == (REMOVAL, *cells, "2.50", "-", "-")
    assert "8 links, 6 of them supportable, seed 3" in found.note
    assert "not positive for 1 links, greedy gain for 2; of 2 links not all" in found.note


def test_quick_run_goes_on_where_it_stopped(tmp_path: Path) -> None:
    first = CliRunner().invoke(app, [*COMMAND, str(tmp_path)])
    assert first.exit_code == 0, first.output
    rows = json.loads((tmp_path / "sides.json").read_text())["rows"]
    assert list(rows) == [f"rho = {rho:g}" for rho in QUICK_RHOS] + [*RIVALS, REMOVAL, GAIN]
    assert rows[REMOVAL]["removal"]["value"] == pytest.approx(1)
    assert rows[GAIN]["gain"]["value"] == pytest.approx(1)
    assert rows[GAIN]["removal"]["value"] < 1
    assert rows[REMOVAL]["gain"]["value"] < 1
    for row in rows.values():
        assert row["links"] == QUICK_LINKS
        assert 0 <= row["label"]["value"] <= 1
        assert "per link" not in row
    assert sum(rows["rho = 1"]["verdicts"].values()) == pytest.approx(1)
    text = (tmp_path / "sides.md").read_text()
    assert text in first.output
    files = sorted((tmp_path / "runs" / "sides").glob("*.json"))
    assert len(files) == len(rows)
    before = {file: file.stat().st_mtime_ns for file in files[1:]}
    files[0].unlink()
    again = CliRunner().invoke(app, [*COMMAND, str(tmp_path)])
    assert again.exit_code == 0, again.output
    assert files[0].exists()
    assert {file: file.stat().st_mtime_ns for file in before} == before
    assert (tmp_path / "sides.md").read_text() == text
