from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from pagelink.bench.runs import measured
from pagelink.bench.scale.bench import QUICK, run_and_print
from pagelink.bench.scale.graph import EDGES, ScaleGraph
from pagelink.errors import SettingsError


def test_the_graph_has_few_busy_nodes_and_links_with_paths() -> None:
    graph = ScaleGraph(20_000, 200_000)
    src, dst = next(graph.edges(("user", "buys", "item")))
    degree = np.bincount(dst, minlength=graph.sizes["item"])
    assert degree.max() > 8 * degree.mean()
    again = next(ScaleGraph(20_000, 200_000).edges(("user", "buys", "item")))
    assert (again == np.stack([src, dst])).all()
    bought = {(int(u), int(i)) for u, i in zip(src, dst, strict=True)}
    buyers: dict[int, set[int]] = {}
    for user, item in bought:
        buyers.setdefault(item, set()).add(user)
    for user, item in graph.links(20).T.tolist():
        mine = [other for u, other in bought if u == user]
        assert any(buyers[other] & buyers[item] - {user} or item == other for other in mine)
    assert set(graph.counts) == set(EDGES)


@pytest.mark.slow
def test_a_tiny_run_measures_what_the_full_one_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def some_measured(work: Any, step: str, *given: Any) -> Any:
        # One of them in a process of its own, as all are: to start it costs more than the step.
        return measured(work, step, *given) if step == "cold" else work(step, *given)

    monkeypatch.setattr("pagelink.bench.scale.bench.measured", some_measured)
    parts = ["build", "cold", "worker", "engines"]
    results = run_and_print(tmp_path, parts, Console(quiet=True), quick=True)
    assert results["build"]["edges"] == pytest.approx(2 * QUICK["edges"], rel=0.01)
    assert results["worker"]["same_logits"]
    assert results["build"]["peak_disk_gb"] >= results["build"]["disk_gb"] > 0
    assert all(each["paths"] >= 1 for each in results["cold"].values())
    assert results["engines"]["2"]["rate"] > 0
    assert 0 <= results["engines"]["2"]["overhead"] < 1
    with pytest.raises(SettingsError, match="engines"):
        run_and_print(tmp_path, ["engine"], Console(quiet=True))
