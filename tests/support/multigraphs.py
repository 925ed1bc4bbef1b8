"""Random multigraphs as hypothesis draws them, and those that are written down."""

from __future__ import annotations

from hypothesis import strategies as st
from torch_geometric.data import HeteroData

from pagelink.bench.fuzz.oracles.multigraphs import Multigraph
from pagelink.graph.schema import EdgeType

seeds = st.integers(0, 2**32 - 1)
sizes = st.integers(1, 5)


def hetero(
    nodes: dict[str, int], edges: dict[EdgeType, list[tuple[int, int]]] | None = None
) -> HeteroData:
    return Multigraph(nodes, edges or {}).data()
