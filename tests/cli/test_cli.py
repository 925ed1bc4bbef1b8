"""The command line, run as a user runs it."""

from __future__ import annotations

import io
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from rich.console import Console
from support.shell import shell

from pagelink.bench.paper.ablation import reference_and_print
from pagelink.datasets.folders import DataNotFoundError

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
    assert "\n1. Delia read The Tempest\n" in done.stdout
    assert "\nThe model relies on " in done.stdout
    assert "an interest in Scotland and shipwreck. The first path is by the rule" in done.stdout
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
def test_examples_run(
    example: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    with torch.random.fork_rng():
        runpy.run_path(str(example), run_name="__main__")
    assert len(capsys.readouterr().out.splitlines()) > 5


def test_first_figures_on_part_of_the_links() -> None:
    """The bench itself, on 30 links and one seed, with the order that the full run shows."""
    console = Console(file=io.StringIO(), width=200)
    try:
        table = reference_and_print(None, 1, 30, console)
    except DataNotFoundError as error:
        pytest.skip(str(error))
    rows = {
        name: {column: float(cell) for column, cell in zip(table.columns[1:], cells, strict=True)
               if cell != "-"}
        for name, *cells in table.rows
    }  # fmt: skip
    released, ours = rows["released settings"], rows["ours"]
    assert released["auc"] > 0.93
    assert released["hit@200"] > 0.8
    assert ours["auc"] > released["auc"]
    for budget in (10, 50, 100, 200):
        assert ours[f"hit@{budget}"] >= rows["paper, PaGE-Link"][f"hit@{budget}"]
        assert ours[f"hit@{budget}"] >= released[f"hit@{budget}"]
    assert ours["first 3"] >= 0.99
    assert ours["coverage"] == 1
    assert rows["no model, degree only"]["auc"] > 0.99
    for before in ("released settings, before learning", "ours, without L_path"):
        assert rows[before]["auc"] < 0.65
    assert "| ours " in console.file.getvalue()  # type: ignore[attr-defined]
