"""Random layers of graph networks, as users take them from PyG or write them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn
from torch_geometric.data import Data, HeteroData
from torch_geometric.nn import (
    FastRGCNConv,
    FiLMConv,
    GATConv,
    GATv2Conv,
    GCNConv,
    GraphConv,
    HANConv,
    HeteroConv,
    HGTConv,
    MessagePassing,
    RGCNConv,
    SAGEConv,
    TransformerConv,
    to_hetero,
)
from torch_geometric.utils import degree

from pagelink.bench.fuzz.draws.data import one_of
from pagelink.graph.schema import EdgeType

DIM = 4
Vectors = dict[str, Tensor]


class Stacked(nn.Module):
    """All node types as one graph, as `to_homogeneous` makes it, for a relational layer."""

    def __init__(self, data: HeteroData) -> None:
        super().__init__()
        self.kinds, self.types = list(data.node_types), list(data.edge_types)
        self.conv = RGCNConv(DIM, DIM, len(self.types))

    def forward(self, z: Vectors, edge_index_dict: dict[EdgeType, Tensor]) -> Vectors:
        """One layer on dicts."""
        sizes = [len(z[kind]) for kind in self.kinds]
        start = dict(zip(self.kinds, np.cumsum([0, *sizes]).tolist(), strict=False))
        edges, kinds = [], []
        for number, (src, name, dst) in enumerate(self.types):
            each = edge_index_dict[src, name, dst]
            edges.append(torch.stack([each[0] + start[src], each[1] + start[dst]]))
            kinds.append(torch.full((each.shape[1],), number))
        x = torch.cat([z[kind] for kind in self.kinds])
        x = self.conv(x, torch.cat(edges, dim=1), torch.cat(kinds))
        return dict(zip(self.kinds, x.split(sizes), strict=True))


class BusySources(MessagePassing):
    """A sum in which busy sources count less: it looks at edges that lead elsewhere."""

    def __init__(self) -> None:
        super().__init__(aggr="add")
        self.lin = nn.Linear(DIM, DIM)

    def forward(self, x: Tensor | tuple[Tensor, Tensor], edge_index: Tensor) -> Tensor:
        """One layer between two node types, or within one."""
        x = (x, x) if isinstance(x, Tensor) else x
        share = degree(edge_index[0], x[0].shape[0]).clamp(min=1).pow(-0.5).view(-1, 1)
        out: Tensor = self.propagate(edge_index, x=(self.lin(x[0]) * share, x[1]))
        return out + x[1]

    def message(self, x_j: Tensor) -> Tensor:
        """What a neighbour sends."""
        return x_j


class Sage(nn.Module):
    """For `to_hetero`."""

    def __init__(self, aggr: str) -> None:
        super().__init__()
        self.conv = SAGEConv((DIM, DIM), DIM, aggr=aggr)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """One layer."""
        out: Tensor = self.conv(x, edge_index)
        return out


Made = tuple[str, list[nn.Module], int | None]
"""A name, layers, and how many hops they see beyond their number; None: other edges, too."""


def hetero_layers(rng: np.random.Generator, data: HeteroData, count: int) -> Made:
    """Layers on dicts of vectors."""
    metadata = data.metadata()
    number = rng.random()
    if number < 0.08:
        return "HGT", [HGTConv(DIM, DIM, metadata, heads=2) for _ in range(count)], 0
    if number < 0.12:
        return "HAN", [HANConv(DIM, DIM, metadata, heads=2) for _ in range(count)], None
    if number < 0.2:
        return "RGCN, stacked", [Stacked(data) for _ in range(count)], 0
    updated = {t[2] for t in data.edge_types}
    if number < 0.24 and updated == set(data.node_types):
        aggr = one_of(rng, "mean", "max", "sum")
        return "to_hetero", [to_hetero(Sage(aggr), metadata) for _ in range(count)], 0
    # Some models leave relations out, and some use one convolution for all of them.
    used = [t for t in data.edge_types if rng.random() < 0.9] or list(data.edge_types)
    if rng.random() < 0.6:
        used = list(data.edge_types)
    name, make, more, takes = _conv(rng, data)
    shared = more == 0 and rng.random() < 0.1
    layers: list[nn.Module] = []
    for _ in range(count):
        one = make(used[0])
        layer = HeteroConv(
            {t: one if shared else make(t) for t in used},
            aggr=one_of(rng, "sum", "sum", "mean", "max"),
        )
        layer.takes = takes
        layers.append(layer)
    return name, layers, more


Conv = Callable[[EdgeType], nn.Module]


def _conv(rng: np.random.Generator, data: HeteroData) -> tuple[str, Conv, int | None, str | None]:
    """A name, convolutions by relation, hops beyond the number of layers, the edge values taken."""
    aggr = one_of(rng, "mean", "max", "sum")
    stores = data.edge_stores
    weighted = all("edge_weight" in store for store in stores)
    described = all("edge_attr" in store for store in stores)
    pair, wide = (DIM, DIM), {"heads": 2, "concat": False}
    kinds: list[tuple[str, Conv, int | None, str | None]] = [
        (f"SAGE {aggr}", lambda t: SAGEConv(pair, DIM, aggr=aggr), 0, None),
        (f"GraphConv {aggr}", lambda t: GraphConv(pair, DIM, aggr=aggr), 0, None),
        ("GAT", lambda t: GATConv(pair, DIM, add_self_loops=False, **wide), 0, None),
        ("GATv2", lambda t: GATv2Conv(pair, DIM, add_self_loops=False, **wide), 0, None),
        ("Transformer", lambda t: TransformerConv(pair, DIM, **wide), 0, None),
        ("FiLM", lambda t: FiLMConv(pair, DIM), 0, None),
        (
            "GCN within types",
            lambda t: GCNConv(DIM, DIM) if t[0] == t[2] else SAGEConv(pair, DIM, aggr=aggr),
            1,
            None,
        ),
    ]
    if rng.random() < 0.25:
        kinds.append(("busy sources", lambda t: BusySources(), None, None))
    if weighted:
        kinds += 3 * [
            ("weighted edges", lambda t: GraphConv(pair, DIM, aggr=aggr), 0, "edge_weight")
        ]
    if described:
        kinds += 3 * [
            (
                "described edges",
                lambda t: GATConv(pair, DIM, edge_dim=3, add_self_loops=False, **wide),
                0,
                "edge_attr",
            )
        ]
    found: tuple[str, Conv, int | None, str | None] = one_of(rng, *kinds)
    return found


def homogeneous_conv(
    rng: np.random.Generator, data: Data
) -> tuple[str, Callable[[], nn.Module], int | None]:
    """A name, what makes a layer, and how many hops it sees beyond one."""
    aggr = one_of(rng, "mean", "max", "sum")
    kinds: list[tuple[str, Callable[[], nn.Module], int | None]] = [
        ("GCN", lambda: GCNConv(DIM, DIM), 1),
        (f"SAGE {aggr}", lambda: SAGEConv(DIM, DIM, aggr=aggr), 0),
        (f"GraphConv {aggr}", lambda: GraphConv(DIM, DIM, aggr=aggr), 0),
        ("GAT with self-loops", lambda: GATConv(DIM, DIM, heads=2, concat=False), 0),
    ]
    if "edge_type" in data and data.num_edges:
        count = int(data.edge_type.max()) + 1
        kinds += 2 * [
            ("RGCN", lambda: RGCNConv(DIM, DIM, count), 0),
            ("FastRGCN", lambda: FastRGCNConv(DIM, DIM, count, num_bases=2), 0),
            ("FiLM, relational", lambda: FiLMConv(DIM, DIM, count), 0),
        ]
    if "edge_weight" in data:
        kinds.append(("weighted edges", lambda: GraphConv(DIM, DIM, aggr=aggr), 0))
    found: tuple[str, Callable[[], nn.Module], int | None] = one_of(rng, *kinds)
    return found
