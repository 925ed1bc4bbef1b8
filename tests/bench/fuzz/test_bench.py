"""The runner of random cases: chunks, processes that die, going on where it stopped."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path

import pytest
from rich.console import Console
from support.deadly import EXITED, FAULTY, HANGING, KILLED, RAISING
from typer.testing import CliRunner

from pagelink.bench.fuzz import bench
from pagelink.bench.fuzz.bench import run_and_print
from pagelink.cli.bench import bench as commands

QUIET = Console(quiet=True)


@pytest.fixture
def deadly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(bench.PARTS, "deadly", ("support.deadly:deadly_cases", 5))
    monkeypatch.setattr(bench, "PATIENCE", 5.0)


def faults_in(out: Path) -> dict[int, str]:
    found = json.loads((out / "fuzz.json").read_text())["parts"]["deadly"]["faults"]
    return {fault["case"]: fault["what"] for fault in found}


@pytest.mark.usefixtures("deadly")
def test_a_case_that_ends_its_process_is_named(tmp_path: Path) -> None:
    assert run_and_print(tmp_path, {"deadly": 10}, QUIET) == 2
    assert faults_in(tmp_path) == {
        KILLED: "the process was ended by SIGSEGV", EXITED: "the process exited with code 4",
    }  # fmt: skip
    parts = json.loads((tmp_path / "fuzz.json").read_text())["parts"]
    assert parts["deadly"]["cases"] == 10
    assert parts["deadly"]["counts"] == {"cases": 8}  # the others were run all the same


@pytest.mark.usefixtures("deadly")
def test_a_case_that_hangs_or_raises_is_named(tmp_path: Path) -> None:
    assert run_and_print(tmp_path, {"deadly": 2}, QUIET, first=HANGING) == 1
    assert faults_in(tmp_path) == {HANGING: "no answer within 5 seconds"}
    assert run_and_print(tmp_path, {"deadly": 5}, QUIET, first=RAISING) == 2
    assert faults_in(tmp_path) == {
        RAISING: "the part raised RuntimeError: of the part itself", FAULTY: "broken under seed 0",
    }  # fmt: skip
    report = (tmp_path / "fuzz.md").read_text()
    assert f"- deadly {FAULTY}: broken under seed 0" in report


@pytest.mark.usefixtures("deadly")
def test_finished_chunks_are_not_run_again(tmp_path: Path) -> None:
    run_and_print(tmp_path, {"deadly": 3}, QUIET)
    (file,) = tmp_path.glob("deadly/*.json")
    # What is written there counts, as nobody looks again.
    file.write_text(file.read_text().replace('"cases": 3', '"cases": 300'))
    assert run_and_print(tmp_path, {"deadly": 3}, QUIET) == 0
    counts = json.loads((tmp_path / "fuzz.json").read_text())["parts"]["deadly"]["counts"]
    assert counts == {"cases": 300}
    run_and_print(tmp_path, {"deadly": 3}, QUIET, seed=1)
    assert len(list(tmp_path.glob("deadly/*.json"))) == 2


def test_the_command_exits_by_whether_there_are_faults(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = CliRunner().invoke(commands, ["fuzz", "--searches", "40", "--out", str(tmp_path)])
    assert done.exit_code == 0
    assert "| searches |    40 |      0 |" in done.output
    monkeypatch.setitem(bench.PARTS, "searches", ("support.deadly:deadly_cases", 5))
    broken = ["fuzz", "--searches", "1", "--first", str(FAULTY), "--out", str(tmp_path / "other")]
    assert CliRunner().invoke(commands, broken).exit_code == 1


def test_the_parts_are_where_they_are_said_to_be() -> None:
    for address, _ in bench.PARTS.values():
        module, _, name = address.partition(":")
        assert callable(getattr(import_module(module), name))
