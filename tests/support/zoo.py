"""Models as users write them, and the graphs they run on."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
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
    LGConv,
    MessagePassing,
    RGCNConv,
    SAGEConv,
    TransformerConv,
    to_hetero,
)

from pagelink import PaGELink

DIM = 8
USERS, ITEMS, TAGS = 80, 60, 30
LINK_TYPE = ("user", "likes", "item")


def make_graph(seed: int = 0, *, features: bool = True, odd_names: bool = False) -> HeteroData:
    """A small graph with parallel relations, a duplicate edge, a self-loop and an isolated node."""
    generator = torch.Generator().manual_seed(seed)

    def pairs(count: int, low: int, high: int) -> Tensor:
        return torch.stack([
            torch.randint(0, low - 1, (count,), generator=generator),
            torch.randint(0, high - 1, (count,), generator=generator),
        ])  # fmt: skip

    data = HeteroData()
    for node_type, size in (("user", USERS), ("item", ITEMS), ("tag", TAGS)):
        data[node_type].num_nodes = size
        if features:
            data[node_type].x = torch.randn(size, DIM, generator=generator)
    buys, views, has = pairs(90, USERS, ITEMS), pairs(40, USERS, ITEMS), pairs(50, ITEMS, TAGS)
    buys = torch.cat([buys, buys[:, :1]], dim=1)
    names = ("buys-it", "rel: views", "has tag") if odd_names else ("buys", "views", "has")
    for (src, dst), name, edges in zip(
        (("user", "item"), ("user", "item"), ("item", "tag")), names, (buys, views, has),
        strict=True,
    ):  # fmt: skip
        data[src, name, dst].edge_index = edges
        data[dst, f"rev_{name}", src].edge_index = edges.flip(0)
    similar = torch.cat([pairs(20, ITEMS, ITEMS), torch.tensor([[3], [3]])], dim=1)
    data["item", "similar", "item"].edge_index = similar
    return data


def make_homogeneous(seed: int = 0) -> Data:
    """The same as a `Data` with `edge_type`, in mixed order."""
    data = make_graph(seed).to_homogeneous()
    order = torch.randperm(data.num_edges, generator=torch.Generator().manual_seed(seed))
    return Data(
        x=data.x, edge_index=data.edge_index[:, order], edge_type=data.edge_type[order],
        num_nodes=data.num_nodes,
    )  # fmt: skip


def dot(z: dict[str, Tensor], links: Tensor) -> Tensor:
    return (z["user"][links[0]] * z["item"][links[1]]).sum(-1)


class Hetero(nn.Module):
    """Two HeteroConv layers of any conv."""

    def __init__(self, data: HeteroData, make: Callable[[], nn.Module], shared: bool = False):
        super().__init__()
        self.layers = nn.ModuleList()
        for _ in range(2):
            one = make()
            convs = {t: one if shared else make() for t in data.edge_types}
            self.layers.append(HeteroConv(convs, aggr="sum"))

    def forward(self, x_dict: Any, edge_index_dict: Any, edge_label_index: Tensor) -> Tensor:
        for i, layer in enumerate(self.layers):
            x_dict = layer(x_dict, edge_index_dict)
            if i == 0:
                x_dict = {t: torch.tanh(x) for t, x in x_dict.items()}
        return dot(x_dict, edge_label_index)


class Sage(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2 = SAGEConv((-1, -1), DIM), SAGEConv((-1, -1), DIM)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.conv2(self.conv1(x, edge_index).relu(), edge_index)


class WithHead(nn.Module):
    """An encoder of dicts with a head by name."""

    def __init__(self, encoder: nn.Module, head: str = "dot"):
        super().__init__()
        self.encoder = encoder
        self.head = head
        self.mlp = nn.Sequential(nn.Linear(2 * DIM, DIM), nn.ReLU(), nn.Linear(DIM, 1))

    def forward(self, x_dict: Any, edge_index_dict: Any, edge_label_index: Tensor) -> Tensor:
        z = self.encoder(x_dict, edge_index_dict)
        if self.head == "dot":
            return dot(z, edge_label_index)
        user, item = z["user"][edge_label_index[0]], z["item"][edge_label_index[1]]
        if self.head == "cosine":
            return F.cosine_similarity(user, item)
        if self.head == "probability":
            return torch.sigmoid((user * item).sum(-1) / 10)
        return self.mlp(torch.cat([user, item], -1))


class Stack(nn.Module):
    """Layers that take and return dicts, such as HGTConv and HANConv."""

    def __init__(self, layers: list[nn.Module]):
        super().__init__()
        self.layers = nn.ModuleList(layers)

    def forward(self, x_dict: Any, edge_index_dict: Any) -> Any:
        for layer in self.layers:
            x_dict = layer(x_dict, edge_index_dict)
        return x_dict


class Relational(nn.Module):
    """RGCNConv and the like on a homogeneous graph with edge_type."""

    def __init__(self, conv: Any, num_relations: int):
        super().__init__()
        self.conv1, self.conv2 = conv(DIM, DIM, num_relations), conv(DIM, DIM, num_relations)

    def forward(self, x: Tensor, edge_index: Tensor, edge_type: Tensor, links: Tensor) -> Tensor:
        x = torch.tanh(self.conv1(x, edge_index, edge_type))
        x = self.conv2(x, edge_index, edge_type)
        return (x[links[0]] * x[links[1]]).sum(-1)


class DistMult(Relational):
    """The relation of each link is part of its score."""

    def __init__(self, num_relations: int):
        super().__init__(RGCNConv, num_relations)
        self.relation = nn.Embedding(num_relations, DIM)

    def score(self, data: Any, links: Tensor) -> Tensor:
        x = torch.tanh(self.conv1(data.x, data.edge_index, data.edge_type))
        x = self.conv2(x, data.edge_index, data.edge_type)
        return (x[links[0]] * self.relation(data.edge_label_type) * x[links[1]]).sum(-1)


class Homogeneous(nn.Module):
    """Any conv on (x, edge_index)."""

    def __init__(self, make: Callable[[], nn.Module]):
        super().__init__()
        self.conv1, self.conv2 = make(), make()

    def forward(self, x: Tensor, edge_index: Tensor, edge_type: Tensor, links: Tensor) -> Tensor:
        x = self.conv2(torch.tanh(self.conv1(x, edge_index)), edge_index)
        return (x[links[0]] * x[links[1]]).sum(-1)


class HandWritten(MessagePassing):
    """A layer as in PyG's tutorial, with an edge network."""

    def __init__(self) -> None:
        super().__init__(aggr="max")
        self.net = nn.Sequential(nn.Linear(2 * DIM, DIM), nn.Tanh())

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return x + self.propagate(edge_index, x=x)

    def message(self, x_i: Tensor, x_j: Tensor) -> Tensor:
        return self.net(torch.cat([x_i, x_j - x_i], dim=-1))


class TurnsHomogeneous(nn.Module):
    """A model that calls to_homogeneous() inside."""

    def __init__(self, num_relations: int):
        super().__init__()
        self.conv1, self.conv2 = (RGCNConv(DIM, DIM, num_relations) for _ in range(2))

    def forward(self, data: HeteroData, links: Tensor) -> Tensor:
        whole = data.to_homogeneous(add_edge_type=True, add_node_type=True)
        x = torch.tanh(self.conv1(whole.x, whole.edge_index, whole.edge_type))
        x = self.conv2(x, whole.edge_index, whole.edge_type)
        user, item = (
            x[whole.node_type == data.node_types.index(kind)] for kind in ("user", "item")
        )
        return (user[links[0]] * item[links[1]]).sum(-1)


class ByNodeId(nn.Module):
    """Embeddings looked up by the ids that come in place of features."""

    def __init__(self, data: HeteroData):
        super().__init__()
        self.tables = nn.ModuleDict(
            {t: nn.Embedding(data[t].num_nodes, DIM) for t in data.node_types}
        )
        self.body = Hetero(data, lambda: SAGEConv((DIM, DIM), DIM))

    def forward(self, ids: Any, edge_index_dict: Any, edge_label_index: Tensor) -> Tensor:
        return self.body(
            {t: self.tables[t](n) for t, n in ids.items()}, edge_index_dict, edge_label_index
        )


class WholeTable(ByNodeId):
    """The whole embedding table is used inside, whatever comes in."""

    def forward(self, ids: Any, edge_index_dict: Any, edge_label_index: Tensor) -> Tensor:
        x_dict = {t: table.weight for t, table in self.tables.items()}
        return self.body(x_dict, edge_index_dict, edge_label_index)


class LightGCN(nn.Module):
    """LGConv on one bipartite graph made inside, with a ranking score."""

    def __init__(self) -> None:
        super().__init__()
        self.user, self.item = nn.Embedding(USERS, DIM), nn.Embedding(ITEMS, DIM)
        self.conv = LGConv()

    def forward(self, data: HeteroData, links: Tensor) -> Tensor:
        users, items = self.user(data["user"].n_id), self.item(data["item"].n_id)
        shift = len(users)
        row, col = data["user", "buys", "item"].edge_index
        forth = torch.stack([row, col + shift])
        edge_index = torch.cat([forth, forth.flip(0)], dim=1)
        x = out = torch.cat([users, items])
        for _ in range(2):
            x = self.conv(x, edge_index)
            out = out + x
        return (out[links[0]] * out[shift + links[1]]).sum(-1)


class WithEdgeAttributes(nn.Module):
    """edge_attr by GATConv, edge_weight by GraphConv."""

    def __init__(self, data: HeteroData):
        super().__init__()
        self.first = HeteroConv({
            t: GATConv((DIM, DIM), DIM, edge_dim=3, add_self_loops=False) for t in data.edge_types
        })  # fmt: skip
        self.second = HeteroConv({t: GraphConv((DIM, DIM), DIM) for t in data.edge_types})

    def forward(self, data: HeteroData, links: Tensor) -> Tensor:
        x = self.first(data.x_dict, data.edge_index_dict, edge_attr_dict=data.edge_attr_dict)
        x = {t: torch.tanh(v) for t, v in x.items()}
        x = self.second(x, data.edge_index_dict, edge_weight_dict=data.edge_weight_dict)
        return dot(x, links)


class GraphWideNorm(nn.Module):
    """Node vectors centred over all nodes of the graph between two layers."""

    def __init__(self, data: HeteroData):
        super().__init__()
        self.first, self.second = (
            HeteroConv({t: SAGEConv((DIM, DIM), DIM) for t in data.edge_types}) for _ in range(2)
        )

    def forward(self, x_dict: Any, edge_index_dict: Any, edge_label_index: Tensor) -> Tensor:
        x_dict = self.first(x_dict, edge_index_dict)
        x_dict = {t: (x - x.mean(0)) / (x.std(0) + 1) for t, x in x_dict.items()}
        return dot(self.second(x_dict, edge_index_dict), edge_label_index)


@dataclass
class Case:
    """A model with its data, ready for PaGELink."""

    model: nn.Module
    data: Any
    link_type: Any = LINK_TYPE
    options: dict[str, Any] = field(default_factory=dict)
    mode: str = "subgraphs"
    num_hops: int | None = 2
    links: list[tuple[int, int]] | None = None
    """Links to explain, where `links_of` has none for the graph."""
    unseen: frozenset[str] = frozenset()
    """Relations along which no message is passed."""


def by_data(model: Any, data: Any, links: Tensor) -> Tensor:
    return model(data, links)


def hetero(make: Callable[[], nn.Module], shared: bool = False) -> Callable[[], Case]:
    def build() -> Case:
        data = make_graph()
        return Case(Hetero(data, make, shared), data)

    return build


def headed(head: str, **options: Any) -> Callable[[], Case]:
    def build() -> Case:
        data = make_graph()
        encoder = to_hetero(Sage(), data.metadata())
        return Case(_ready(WithHead(encoder, head), data), data, options=options)

    return build


def homogeneous(make: Callable[[Data], nn.Module], num_hops: int = 2) -> Callable[[], Case]:
    def build() -> Case:
        data = make_homogeneous()
        return Case(make(data), data, ("node", "likes", "node"), num_hops=num_hops)

    return build


def _ready(model: nn.Module, data: HeteroData) -> nn.Module:
    with torch.no_grad():
        model(data.x_dict, data.edge_index_dict, torch.tensor([[0], [0]]))
    return model


def _odd_names() -> Case:
    data = make_graph(odd_names=True)
    model = _ready(WithHead(to_hetero(Sage(), data.metadata())), data)
    return Case(model, data, links=links_of(Case(model, make_graph()))[:-1])


def _dict_layers(make: Callable[[HeteroData], nn.Module], **expected: Any) -> Callable[[], Case]:
    def build() -> Case:
        data = make_graph()
        return Case(WithHead(Stack([make(data), make(data)])), data, **expected)

    return build


def _data_signature() -> Case:
    class Model(nn.Module):
        def __init__(self, inner: nn.Module):
            super().__init__()
            self.inner = inner

        def forward(self, data: HeteroData, links: Tensor) -> Tensor:
            return self.inner(data.x_dict, data.edge_index_dict, links)

    data = make_graph()
    return Case(
        Model(WithHead(Stack([HGTConv(DIM, DIM, data.metadata(), 2) for _ in range(2)]))), data,
        options={"forward": by_data},
    )  # fmt: skip


def _to_homogeneous() -> Case:
    data = make_graph()
    return Case(TurnsHomogeneous(len(data.edge_types)), data, options={"forward": by_data})


def _node_ids() -> Case:
    data = make_graph(features=False)
    return Case(ByNodeId(data), data)


def _whole_table() -> Case:
    data = make_graph(features=False)
    return Case(WholeTable(data), data, mode="all_nodes")


def _light_gcn() -> Case:
    data = make_graph(features=False)
    return Case(LightGCN(), data, options={"forward": by_data, "threshold": None}, num_hops=4)


def _edge_attributes() -> Case:
    data = make_graph()
    generator = torch.Generator().manual_seed(5)
    for edge_type in data.edge_types:
        count = data[edge_type].num_edges
        data[edge_type].edge_attr = torch.randn(count, 3, generator=generator)
        data[edge_type].edge_weight = torch.rand(count, generator=generator) + 0.5
    return Case(WithEdgeAttributes(data), data, options={"forward": by_data})


def _dist_mult() -> Case:
    data = make_homogeneous()
    return Case(
        DistMult(7), data, "0",
        options={"forward": lambda model, data, links: model.score(data, links)},
    )  # fmt: skip


def _graph_wide_norm() -> Case:
    data = make_graph()
    return Case(GraphWideNorm(data), data, mode="full", num_hops=None)


ZOO: dict[str, Callable[[], Case]] = {
    "HeteroConv SAGE": hetero(lambda: SAGEConv((DIM, DIM), DIM)),
    "HeteroConv GAT": hetero(lambda: GATConv((DIM, DIM), 4, heads=2, add_self_loops=False)),
    "HeteroConv GATv2": hetero(lambda: GATv2Conv((DIM, DIM), 4, heads=2, add_self_loops=False)),
    "HeteroConv GraphConv": hetero(lambda: GraphConv((DIM, DIM), DIM, aggr="mean")),
    "HeteroConv TransformerConv": hetero(lambda: TransformerConv((DIM, DIM), 4, heads=2)),
    "HeteroConv FiLM": hetero(lambda: FiLMConv((DIM, DIM), DIM)),
    "one conv for all relations": hetero(lambda: SAGEConv((DIM, DIM), DIM), shared=True),
    "to_hetero": headed("dot"),
    "to_hetero odd names": _odd_names,
    "HGT": _dict_layers(lambda data: HGTConv(DIM, DIM, data.metadata(), heads=2)),
    "HAN": _dict_layers(
        lambda data: HANConv(DIM, DIM, data.metadata(), heads=2), mode="full", num_hops=None
    ),
    "RGCN": homogeneous(lambda data: Relational(RGCNConv, 7)),
    "FastRGCN": homogeneous(lambda data: Relational(FastRGCNConv, 7)),
    "FiLM relational": homogeneous(lambda data: Relational(FiLMConv, 7)),
    "GCN with self-loops": homogeneous(
        lambda data: Homogeneous(lambda: GCNConv(DIM, DIM)), num_hops=3
    ),
    "hand-written": homogeneous(lambda data: Homogeneous(HandWritten)),
    "to_homogeneous inside": _to_homogeneous,
    "forward(data)": _data_signature,
    "embedding by n_id": _node_ids,
    "whole embedding table": _whole_table,
    "LightGCN": _light_gcn,
    "edge_attr and edge_weight": _edge_attributes,
    "cosine head": headed("cosine"),
    "MLP head": headed("mlp"),
    "probability": headed("probability", output="probability"),
    "DistMult per link": _dist_mult,
    "graph-wide norm": _graph_wide_norm,
}


def make_case(name: str, seed: int = 0) -> Case:
    """Build a case with seeded weights, leaving the global random state alone."""
    return built(ZOO[name], seed)


def built(build: Callable[[], Case], seed: int = 0) -> Case:
    """Build any case so."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return build()


@cache
def shared_case(name: str) -> tuple[Case, PaGELink]:
    """Return a case with its explainer, made once for all tests of a process that change neither.

    The explainer answers for every link, and has the default settings.
    """
    case = make_case(name)
    options = {"threshold": None} | case.options
    return case, PaGELink(case.model, case.data, case.link_type, **options)


def links_of(case: Case) -> list[tuple[int, int]]:
    """Some are in the graph, some have a path of three facts, one has none, one is no link."""
    if case.links is not None:
        return [*case.links, (10**6, 0)]
    flat = isinstance(case.data, Data)
    shift = USERS if flat else 0
    if flat:
        edges = case.data.edge_index[:, case.data.edge_type == 0].t().tolist()
    else:
        edges = case.data["user", "buys", "item"].edge_index.t().tolist()
    links = [(u, i) for u, i in edges[:2]]
    for (u, i), (v, j) in itertools.combinations(edges, 2):
        if i == j and u != v and len(links) < 6:
            links += [(u, k) for w, k in edges if w == v and k != i][:1]
    return [*dict.fromkeys(links), (0, 1 + shift), (10**6, shift)]
