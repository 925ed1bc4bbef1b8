"""With the graph, without it and on a random one: what differs, and that nothing is done twice."""

from __future__ import annotations

from pathlib import Path

import torch
from rich.console import Console
from support.knowledge import write_graph

from pagelink.bench.knowledge import PART, rewired, run_and_print
from pagelink.bench.runs import RunStore
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
    said = Console(record=True, width=200)
    given = {"graph": graph, "minutes": 0.02, "options": {"hidden": 8}}
    run_and_print(out, said, only=["none"], **given)  # type: ignore[arg-type]
    first = RunStore(out).find(PART, "compgcn-none-0")
    run_and_print(out, said, **given)  # type: ignore[arg-type]
    assert RunStore(out).find(PART, "compgcn-none-0") == first
    text = said.export_text()
    assert text.count("| compgcn | none") == 2
    for messages in ("graph", "random"):
        assert text.count(f"| compgcn | {messages}") == 1
