from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from pagelink.bench.prebuild import missing
from pagelink.bench.runs import measured
from pagelink.runtime import prebuilt
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
    batch = Extractor(graph, 2).extract(np.array([0]), np.array([4]), np.array([-1]))
print(batch.nodes.tolist(), batch.edges.tolist())
"""


def extracted() -> tuple[str, list[str]]:
    """What a fresh process finds, and what it says of compiling."""
    done = subprocess.run(
        [sys.executable, "-c", EXTRACT], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return done.stdout, [line for line in done.stderr.splitlines() if line.startswith("pagelink:")]


COME = pytest.mark.skipif(
    not prebuilt.is_for_this_platform(), reason="no kernels come for this platform"
)


def test_a_compile_is_announced_once_and_a_load_from_disk_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv(prebuilt.SWITCH, "0")
    found, said = zip(*(extracted() for _ in range(2)), strict=True)
    assert len(said[0]) == 1
    assert said[0][0].startswith(COMPILING)
    assert said[1] == []
    assert found[0] == found[1]


@COME
def test_kernels_that_come_with_pagelink_are_not_compiled_and_do_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv(prebuilt.SWITCH, raising=False)
    first, again = extracted(), extracted()  # made from LLVM code, and read as machine code
    assert first == again
    monkeypatch.setenv(prebuilt.SWITCH, "0")
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "from source"))
    from_source = extracted()
    assert from_source[1]
    assert first == (from_source[0], [])


@pytest.mark.slow
@COME
def test_the_kernels_that_come_with_pagelink_are_those_of_its_code(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv(prebuilt.SWITCH, raising=False)
    assert measured(missing) == [], "a kernel was changed: run `make kernels`"
