"""Runs of a benchmark: done once, done anew when their key changes, never half written."""

from __future__ import annotations

from pathlib import Path

import pytest

from pagelink.bench.runs import RunStore
from pagelink.errors import PageLinkError


def test_a_run_is_done_once_for_its_key(tmp_path: Path) -> None:
    store, asked = RunStore(tmp_path), []

    def work() -> dict[str, float]:
        asked.append(1)
        return {"auc": 0.5 + len(asked)}

    first = store.do("masks", "released, seed 0", {"seed": 0, "rho": (1, 2)}, work)
    again = RunStore(tmp_path).do("masks", "released, seed 0", {"seed": 0, "rho": (1, 2)}, work)
    assert first == again
    assert asked == [1]
    other = store.do("masks", "released, seed 0", {"seed": 1, "rho": (1, 2)}, work)
    assert other.figures == {"auc": 2.5}
    assert [run.figures for run in store.all("masks")] == [{"auc": 2.5}]
    assert first.versions["python"]
    assert first.seconds >= 0


def test_an_interrupted_run_leaves_nothing(tmp_path: Path) -> None:
    def work() -> dict[str, float]:
        raise KeyboardInterrupt

    store = RunStore(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        store.do("masks", "x", {}, work)
    assert store.find("masks", "x") is None


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    store = RunStore(tmp_path)
    store.do("masks", "x", {}, dict)
    (tmp_path / "masks" / "x.json").write_text("{")
    with pytest.raises(PageLinkError, match=r"x\.json is not the result"):
        store.find("masks", "x")


def test_what_is_no_number_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="Out of range"):
        RunStore(tmp_path).do("masks", "x", {}, lambda: {"auc": float("nan")})
