from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from pagelink.runtime.kernels import COMPILING

EXTRACT = """
import numpy as np, torch
from torch_geometric.data import HeteroData
from pagelink.graph.typed_graph import TypedGraph
from pagelink.graph.computation_graph import Extractor
data = HeteroData()
data["user"].num_nodes, data["item"].num_nodes = 3, 2
data["user", "buys", "item"].edge_index = torch.tensor([[0, 0, 1], [0, 1, 1]])
graph = TypedGraph.from_data(data)
for _ in range(2):
    Extractor(graph, 2).extract(np.array([0]), np.array([4]), np.array([-1]))
"""


def test_a_compile_is_announced_once_and_a_load_from_disk_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    said = []
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", EXTRACT], capture_output=True, text=True, timeout=300
        )
        assert done.returncode == 0, done.stderr
        said.append([line for line in done.stderr.splitlines() if line.startswith("pagelink:")])
    assert len(said[0]) == 1
    assert said[0][0].startswith(COMPILING)
    assert said[1] == []
