"""With the graph, without it and on a random one: what differs, and that nothing is done twice."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import torch
from rich.console import Console
from support.knowledge import write_graph

from pagelink.bench.knowledge import NAME, rewired, run_and_print, table
from pagelink.bench.paper.plan import PER_LINK
from pagelink.bench.runs import RunStore
from pagelink.errors import ModelError
from pagelink.tables.load import load_graph


def test_a_random_graph_keeps_degrees_and_reverses(tmp_path: Path) -> None:
    data = load_graph(write_graph(tmp_path))
    random = rewired(data, 0)
    assert random.edge_types == data.edge_types
    moved = 0
    for edge_type in data.edge_types:
        one, other = data[edge_type].edge_index, random[edge_type].edge_index
        moved += int((one != other).any(0).sum())
        for end in (0, 1):
            assert torch.equal(torch.bincount(one[end]), torch.bincount(other[end]))
        back = (edge_type[2], f"rev_{edge_type[1]}", edge_type[0])
        if back in data.edge_types:
            assert torch.equal(random[back].edge_index, other.flip(0))
    assert moved > 0


def test_runs_are_done_once_and_shown_side_by_side(tmp_path: Path) -> None:
    graph = write_graph(tmp_path)
    out = tmp_path / "out"
    said = Console(record=True, width=300)
    given = {"graph": graph, "minutes": 0.02, "options": {"hidden": 8}}
    run_and_print(out, said, only=["none"], **given)  # type: ignore[arg-type]
    first = RunStore(out / "runs").find(NAME, "compgcn-none-0")
    run_and_print(out, said, **given)  # type: ignore[arg-type]
    assert RunStore(out / "runs").find(NAME, "compgcn-none-0") == first
    text = said.export_text()
    assert len(re.findall(r"\| compgcn \| +none \|", text)) == 2
    for messages in ("graph", "random"):
        assert len(re.findall(rf"\| compgcn \| +{messages} \|", text)) == 1
    runs = {run.key["messages"]: run.figures for run in RunStore(out / "runs").all(NAME)}
    for found in runs.values():
        tried = dict(found["trials"])
        assert found["lr"] == max(tried, key=lambda lr: tried[lr])
        assert [*tried] == pytest.approx([0.01 / 3, 0.01, 0.03])
        assert len(found[PER_LINK]) == 5
        assert np.mean(found[PER_LINK]) == pytest.approx(found["mrr"], abs=1e-5)
    less = np.mean(runs["graph"][PER_LINK]) - np.mean(runs["none"][PER_LINK])
    rows = {row[1]: row for row in table(RunStore(out / "runs")).rows}
    assert rows["none"][3].startswith(f"{less:.3f} [")
    assert rows["graph"][3] == "-"
    with pytest.raises(ModelError, match="without messages there is nothing to train"):
        run_and_print(out, said, model="nbf", only=["none"], **given)  # type: ignore[arg-type]
