from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support.dgl_files import EDGES, FILES, dgl_file

from pagelink.errors import GraphError
from pagelink.tables.dgl_file import read_dgl_graph


def written(folder: Path, content: bytes) -> Path:
    file = folder / "graph"
    file.write_bytes(content)
    return file


@pytest.mark.parametrize("stored", FILES)
def test_a_file_that_dgl_wrote(stored: str, tmp_path: Path) -> None:
    data = read_dgl_graph(written(tmp_path, dgl_file(stored)))
    assert {kind: data[kind].edge_index.tolist() for kind in data.edge_types} == EDGES
    sizes = {kind: data[kind].num_nodes for kind in data.node_types}
    assert sizes == {"user": 4, "item": 3, "attr": 2}


def test_other_and_damaged_files_are_refused(tmp_path: Path) -> None:
    whole = dgl_file("csr")
    for size in (0, 7, 100, 4096, len(whole) // 2 + 2048, len(whole) - 400):
        with pytest.raises(GraphError, match=r"dgl\.save_graphs"):
            read_dgl_graph(written(tmp_path, whole[:size]))
    with pytest.raises(GraphError, match="a DGL file should begin at byte 0"):
        read_dgl_graph(written(tmp_path, b"x" * 5000))
    with pytest.raises(GraphError, match="graph2"):
        read_dgl_graph(tmp_path / "graph2")
    rng = np.random.default_rng(0)
    for _ in range(300):
        damaged = bytearray(whole)
        for place in rng.integers(4096, len(whole), size=3).tolist():
            damaged[place] = int(rng.integers(256))
        try:
            data = read_dgl_graph(written(tmp_path, bytes(damaged)))
        except GraphError:
            continue
        assert all(data[kind].edge_index.shape[0] == 2 for kind in data.edge_types)
