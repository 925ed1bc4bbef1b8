"""The command line, run as a user runs it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console
from support.shell import shell

from pagelink.bench.paper.reference import run, variants
from pagelink.bench.paper.reference_report import as_table
from pagelink.datasets.locate import DataNotFoundError
from pagelink.datasets.reference import ReferenceData, load_reference

ROOT = Path(__file__).parents[2]


def pagelink(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pagelink", *arguments],
        capture_output=True, text=True, cwd=cwd, timeout=300, check=False,
    )  # fmt: skip


def test_help_does_not_wait_for_torch() -> None:
    code = "import sys, pagelink.cli.main; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_demo_prints_and_writes_an_explanation(tmp_path: Path) -> None:
    done = pagelink("demo", "--out", "pages", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "test ROC-AUC 0.9" in done.stdout
    assert "\n1. User " in done.stdout
    assert "\nThe model relies on " in done.stdout
    page = (tmp_path / "pages" / "explanation.html").read_text()
    assert "<svg" in page
    assert (tmp_path / "pages" / "explanation.svg").read_text().startswith("<svg")
    assert sorted(p.name for p in (tmp_path / "pages").iterdir()) == [
        "explanation.html", "explanation.svg",
    ]  # fmt: skip


def test_missing_data_is_one_line_and_exit_code_1(tmp_path: Path) -> None:
    arguments = ("bench", "useritemattr-reference", "--data", "nowhere")
    done = pagelink(*arguments, cwd=tmp_path)
    assert done.returncode == 1
    assert "nowhere" in done.stderr
    assert "Traceback" not in done.stderr
    with pytest.raises(DataNotFoundError):  # which the interpreter prints, with its traceback
        shell("--debug", *arguments, cwd=tmp_path)
    assert shell("bench", "useritemattr-reference", "--seeds", "0", cwd=tmp_path).returncode == 2


@pytest.mark.parametrize("example", sorted((ROOT / "examples").glob("*.py")), ids=lambda p: p.name)
def test_examples_run(example: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(example)], capture_output=True, text=True, cwd=tmp_path, timeout=300,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) > 5


@pytest.fixture(scope="module")
def reference() -> ReferenceData:
    try:
        return load_reference()
    except DataNotFoundError as error:
        pytest.skip(str(error))


def test_first_figures_on_part_of_the_links(reference: ReferenceData) -> None:
    """The bench itself, on 30 links and one seed, with the order that the full run shows."""
    done = []
    rows = {row.name: row for row in run(reference, [0], done.append, links=30)}
    assert len(done) == len(variants()) + 1
    released, ours = rows["released settings"], rows["ours"]
    assert released.mean("auc") > 0.93
    assert released.mean("hit@200") > 0.8
    assert ours.mean("auc") > released.mean("auc")
    for budget in (10, 50, 100, 200):
        assert ours.mean(f"hit@{budget}") >= rows["paper, PaGE-Link"].mean(f"hit@{budget}")
        assert ours.mean(f"hit@{budget}") >= released.mean(f"hit@{budget}")
    assert ours.mean("first 3") >= 0.99
    assert ours.mean("coverage") == 1
    assert rows["no model, degree only"].mean("auc") > 0.99
    for before in ("released settings, before learning", "ours, without L_path"):
        assert rows[before].mean("auc") < 0.65
    Console().print(as_table(list(rows.values())))
    assert "| ours " in as_table(list(rows.values()))
