"""What relations cost: many on the same edges, RGCNConv on FB15k-237; and what attention costs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch_geometric.data import Data, HeteroData
from torch_geometric.nn import GATConv, HeteroConv, RGCNConv, TransformerConv

from pagelink.bench.speed.figures import (
    Figure,
    Goal,
    both_clocks,
    cpu,
    interleaved,
    measure,
    median,
    torch_threads,
    wall,
)
from pagelink.bench.speed.graphs import LIKES, random_graph
from pagelink.bench.speed.rows import Sizes, explain_all
from pagelink.datasets.folders import find_data
from pagelink.explain.explainer import PaGELink
from pagelink.models.architectures import make_model
from pagelink.settings import Settings

DIM = 32
FEW = 4
BY_EDGES = Goal(2.0)
"""The cost follows edges, not relations."""
PER_LINK = Goal(1.0)
FB15K = "fb15k-237"
HEADS = 4


def related(nodes: int, edges: int, relations: int, seed: int) -> HeteroData:
    """The same random facts, whatever the number of relations; half of these are reverses."""
    rng = np.random.default_rng(seed)
    facts = torch.from_numpy(rng.integers(0, nodes, (2, edges // 2)))
    kind = torch.arange(edges // 2) % (relations // 2)
    data = HeteroData()
    data["node"].num_nodes = nodes
    for number in range(relations // 2):
        of_kind = facts[:, kind == number]
        data["node", f"r{number}", "node"].edge_index = of_kind
        data["node", f"rev_r{number}", "node"].edge_index = of_kind.flip(0)
    return data


def many_relations(sizes: Sizes, seed: int) -> Iterator[Figure]:
    """Explanations and explainers with many relations over those with few, on the same edges."""
    link_type = ("node", "r0", "node")
    rng = np.random.default_rng((seed, 1))
    ends = rng.integers(0, sizes.relation_nodes // 2, (sizes.relation_links, 2))
    links = [(int(src), int(dst) + sizes.relation_nodes // 2) for src, dst in ends]
    ways: dict[str, dict[str, Callable[[], object]]] = {
        "in batches": {}, "alone": {}, "making the explainer": {},
    }  # fmt: skip
    for count in (FEW, sizes.relations):
        data = related(sizes.relation_nodes, sizes.relation_edges, count, seed)
        model = make_model("rgcn", data, link_type, hidden=DIM, seed=seed).eval()
        make = partial(PaGELink, model, data, link_type, seed=seed, threshold=None)
        explainer = make()
        name = f"{count} relations"
        ways["in batches"][name] = partial(explain_all, explainer, links)
        ways["alone"][name] = partial(_each, explainer, links[: sizes.relation_links // 4])
        ways["making the explainer"][name] = make
    few, many = (f"{count} relations" for count in (FEW, sizes.relations))
    for words, works in ways.items():
        rounds = interleaved(works, sizes.relation_repeats, warm=words == "in batches")
        yield Figure.ratio(
            "relations", f"{many} over {FEW}, {words}", many, few, both_clocks(rounds),
            goal=BY_EDGES,
            how=f"two-layer RGCN of {DIM}, {sizes.relation_nodes:,} nodes, "
            f"{sizes.relation_edges:,} edges, defaults; median of {sizes.relation_repeats} rounds",
        )  # fmt: skip


def _each(explainer: PaGELink, links: list[tuple[int, int]]) -> None:
    for link in links:
        explainer.explain(*link, rank=False)


class DistMult(nn.Module):
    """Two layers of PyG's RGCNConv on embeddings, and a score by the relation asked about."""

    def __init__(self, num_nodes: int, num_relations: int, seed: int) -> None:
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.nodes = nn.Embedding(num_nodes, DIM)
            self.first, self.second = (RGCNConv(DIM, DIM, num_relations) for _ in range(2))
            self.relation = nn.Embedding(num_relations, DIM)

    def forward(self, data: Data, edge_label_index: Tensor) -> Tensor:
        """Return the logits of links."""
        x = self.first(self.nodes(data.n_id), data.edge_index, data.edge_type).relu()
        x = self.second(x, data.edge_index, data.edge_type)
        src, dst = edge_label_index
        score: Tensor = (x[src] * self.relation(data.edge_label_type) * x[dst]).sum(-1)
        return score


def knowledge_graph(sizes: Sizes, seed: int) -> Iterator[Figure]:
    """CPU seconds of a link alone, and of the explainer, with RGCNConv on FB15k-237."""
    if sizes.tiny:
        rng = np.random.default_rng(seed)
        triples = rng.integers(0, [40, 6, 40], (200, 3))
    else:
        triples = _triples(find_data(FB15K) / "train.txt")
    num_relations = int(triples[:, 1].max()) + 1
    both = np.concatenate([triples[:, [0, 2]], triples[:, [2, 0]]])
    kinds = np.concatenate([triples[:, 1], triples[:, 1] + num_relations])
    data = Data(
        edge_index=torch.from_numpy(np.ascontiguousarray(both.T)),
        edge_type=torch.from_numpy(kinds), num_nodes=int(both.max()) + 1,
    )  # fmt: skip
    model = DistMult(int(data.num_nodes or 0), 2 * num_relations, seed).eval()
    asked = triples[triples[:, 0] != triples[:, 2]]
    chosen = asked[np.random.default_rng(seed).integers(0, len(asked), sizes.kg_links)]
    types = [("node", str(kind), "node") for kind in np.unique(chosen[:, 1]).tolist()]
    with torch_threads(1):
        made: list[PaGELink] = []
        setup = measure(lambda: made.append(
            PaGELink(model, data, types, seed=seed, forward=_by_data, threshold=None)
        ))  # fmt: skip
        samples = [
            measure(partial(
                made[0].explain, src, dst, link_type=("node", str(kind), "node"), rank=False
            ))
            for src, kind, dst in chosen.tolist()
        ]  # fmt: skip
    how = (
        f"two layers of RGCNConv of {DIM}, {data.num_edges:,} edges, {2 * num_relations} relations"
    )
    taken = {"cpu_s": cpu(samples), "wall_s": wall(samples)}
    for words, value in (
        ("median", median(taken["cpu_s"])), ("slowest", max(taken["cpu_s"]))
    ):  # fmt: skip
        yield Figure(
            "rgcnconv", f"{FB15K}: a link alone, {words}", value, "s", goal=PER_LINK,
            how=f"{how}; {len(samples)} links, each once, defaults", samples=taken,
        )  # fmt: skip
    yield Figure(
        "rgcnconv", f"{FB15K}: making the explainer", setup.cpu, "s", how=f"{how}; once",
        samples={"cpu_s": [setup.cpu], "wall_s": [setup.wall]},
    )  # fmt: skip


def _triples(path: Path) -> np.ndarray[Any, np.dtype[np.int64]]:
    """The facts of a table without a header, as numbers of head, relation and tail."""
    numbers: tuple[dict[str, int], ...] = {}, {}
    nodes, relations = numbers
    found = []
    for line in path.read_text("utf-8").splitlines():
        head, relation, tail = line.split("\t")
        found.append([
            nodes.setdefault(head, len(nodes)), relations.setdefault(relation, len(relations)),
            nodes.setdefault(tail, len(nodes)),
        ])  # fmt: skip
    return np.array(found)


def _by_data(model: nn.Module, data: Data, edge_label_index: Tensor) -> Tensor:
    score: Tensor = model(data, edge_label_index)
    return score


class Attending(nn.Module):
    """Two layers of one kind per relation, and an inner product."""

    def __init__(self, data: HeteroData, make: Callable[[], nn.Module], seed: int) -> None:
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.layers = nn.ModuleList(
                HeteroConv({t: make() for t in data.edge_types}) for _ in range(2)
            )

    def forward(self, x_dict: Any, edge_index_dict: Any, edge_label_index: Tensor) -> Tensor:
        """Return the logits of the links from users to items."""
        first, second = self.layers
        h_dict = {t: h.relu() for t, h in first(x_dict, edge_index_dict).items()}
        h_dict = second(h_dict, edge_index_dict)
        src, dst = edge_label_index
        logits: Tensor = (h_dict["user"][src] * h_dict["item"][dst]).sum(dim=-1)
        return logits


def attention(sizes: Sizes, seed: int) -> Iterator[Figure]:
    """Explanations of models with attention over those of an RGCN of the same size."""
    graph = random_graph(
        sizes.attention_nodes, sizes.attention_edges, DIM, sizes.attention_links, seed
    )
    each, data = DIM // HEADS, graph.data
    models: dict[str, nn.Module] = {
        "RGCN": make_model("rgcn", data, LIKES, hidden=DIM, seed=seed),
        "HGT": make_model("hgt", data, LIKES, hidden=DIM, seed=seed),
        "GATConv": Attending(
            data, lambda: GATConv((DIM, DIM), each, heads=HEADS, add_self_loops=False), seed
        ),
        "TransformerConv": Attending(
            data, lambda: TransformerConv((DIM, DIM), each, heads=HEADS), seed
        ),
    }  # fmt: skip
    works = {}
    for name, model in models.items():
        explainer = PaGELink(model.eval(), data, LIKES, Settings(), seed, threshold=None)
        works[name] = partial(explain_all, explainer, graph.links)
    rounds = both_clocks(interleaved(works, sizes.relation_repeats, warm=True), len(graph.links))
    for name in list(models)[1:]:
        yield Figure.ratio(
            "attention", f"{name} over RGCN, in batches", name, "RGCN", rounds,
            how=f"two layers of {DIM}, {sizes.attention_nodes:,} nodes, {data.num_edges:,} edges, "
            f"{len(graph.links)} links, defaults; median of {sizes.relation_repeats} rounds",
        )  # fmt: skip
