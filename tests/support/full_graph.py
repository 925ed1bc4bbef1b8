"""What a model says on its whole graph with edges really taken out, in plain torch and PyG."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data, HeteroData

from support.zoo import Case

EdgeType = tuple[str, str, str]
Pair = tuple[int, int]
Node = tuple[str, int]
Gone = Callable[[EdgeType, Tensor, Tensor], Tensor]
"""From a relation, the sources and the targets of its edges to which of them are taken out."""


def relations(data: Any) -> Iterator[tuple[EdgeType, Tensor]]:
    """Each relation, and the columns of its edges in its edge_index."""
    if isinstance(data, HeteroData):
        for edge_type in data.edge_types:
            yield edge_type, torch.arange(data[edge_type].edge_index.shape[1])
    else:
        for number in range(int(data.edge_type.max()) + 1):
            yield (
                ("node", f"relation {number}", "node"),
                (data.edge_type == number).nonzero().view(-1),
            )


def without(data: Any, gone: Gone) -> Any:
    """A copy of the data without some edges."""
    edited, out = copy.copy(data), []
    for edge_type, columns in relations(data):
        store = data[edge_type] if isinstance(data, HeteroData) else data
        out.append((edge_type, columns[gone(edge_type, *store.edge_index[:, columns])]))
    if isinstance(data, Data):
        out = [(("node", "all", "node"), torch.cat([columns for _, columns in out]))]
    for edge_type, columns in out:
        store = edited[edge_type] if isinstance(data, HeteroData) else edited
        keep = torch.ones(store.edge_index.shape[1], dtype=torch.bool)
        keep[columns] = False
        store.edge_index = store.edge_index[:, keep]
        for key in ("edge_type", "edge_attr", "edge_weight"):
            if key in store:
                store[key] = store[key][keep]
    return edited


def link_type_of(case: Case) -> EdgeType:
    given = case.link_type
    src, name, dst = ("node", given, "node") if isinstance(given, str) else given
    return src, f"relation {name}" if name.isdecimal() else name, dst


def without_link(case: Case, pair: Pair) -> Any:
    """The data without a link, in both directions."""
    src, name, dst = link_type = link_type_of(case)
    # Of the homogeneous graphs, relation 1 is the reverse of relation 0.
    back = (dst, {"relation 0": "relation 1"}.get(name, f"rev_{name}"), src)

    def gone(edge_type: EdgeType, u: Tensor, v: Tensor) -> Tensor:
        forth = (u == pair[0]) & (v == pair[1]) & (edge_type == link_type)
        return forth | ((u == pair[1]) & (v == pair[0]) & (edge_type == back))

    return without(case.data, gone)


@torch.no_grad()
def scores(case: Case, data: Any, pairs: list[Pair]) -> Tensor:
    """The scores of links on some data, as a user would get them."""
    links, data, model = torch.tensor(pairs).t(), copy.copy(data), case.model.eval()
    forward = case.options.get("forward")
    if isinstance(data, HeteroData):
        for kind in data.node_types:
            data[kind].n_id = torch.arange(data[kind].num_nodes)
        x_dict = {t: data[t].x if "x" in data[t] else data[t].n_id for t in data.node_types}
        score = forward(model, data, links) if forward else model(
            x_dict, data.edge_index_dict, links)  # fmt: skip
    else:
        data.edge_label_type = torch.zeros(len(pairs), dtype=torch.long)
        x = data.x if data.x is not None else torch.arange(data.num_nodes)
        score = forward(model, data, links) if forward else model(
            x, data.edge_index, data.edge_type, links)  # fmt: skip
    score = score.view(-1)
    return torch.logit(score) if case.options.get("output") == "probability" else score


def distances(data: Any, ends: tuple[Node, Node]) -> dict[Node, int]:
    """How many edges messages have to pass from each node to one of the ends."""
    into: dict[Node, list[Node]] = {}
    for (src, _, dst), columns in relations(data):
        store = data[src, _, dst] if isinstance(data, HeteroData) else data
        for u, v in store.edge_index[:, columns].t().tolist():
            into.setdefault((dst, v), []).append((src, u))
    hops = dict.fromkeys(ends, 0)
    ring = list(ends)
    while ring:
        found = []
        for node in ring:
            for other in into.get(node, []):
                if other not in hops:
                    hops[other] = hops[node] + 1
                    found.append(other)
        ring = found
    return hops


def needed_hops(case: Case, pairs: list[Pair], most: int = 6) -> int | None:
    """The smallest radius around each link at which all have their score on the whole graph.

    Of a radius r those edges are left that enter a node at most r - 1 hops away; all nodes are.
    None: there is no such radius up to `most`.
    """
    needed = 0
    src_type, _, dst_type = link_type_of(case)
    for pair in pairs:
        data = without_link(case, pair)
        hops = distances(data, ((src_type, pair[0]), (dst_type, pair[1])))
        whole = scores(case, data, [pair])

        def is_right(radius: int, data: Any = data, hops: Any = hops, whole: Any = whole,
                     pair: Pair = pair) -> bool:  # fmt: skip
            def far(edge_type: EdgeType, u: Tensor, v: Tensor) -> Tensor:
                return torch.tensor(
                    [hops.get((edge_type[2], i), most + 1) > radius - 1 for i in v.tolist()],
                    dtype=torch.bool,
                )

            return torch.allclose(scores(case, without(data, far), [pair]), whole, atol=1e-5)

        radius = next((r for r in range(most + 1) if all(map(is_right, range(r, most + 1)))), None)
        if radius is None:
            return None
        needed = max(needed, radius)
    return needed
