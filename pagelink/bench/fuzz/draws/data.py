"""Random heterogeneous graphs as users have them, good and odd, for PyG."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor
from torch_geometric.data import Data, HeteroData

from pagelink.bench.fuzz.oracles.multigraphs import both_ways
from pagelink.graph.schema import HOMOGENEOUS_NODE_TYPE, EdgeType

Pairs = list[tuple[int, int]]
WORDS = ("Ada", "<b>Bo</b>", "=1+1", "Zoë", "id:3", "7", " ", "Müller & Söhne", "rev_x", "a\nb")
"""What names begin with: some would be read as something else if they were not taken as text."""
DAYS = ("2019-05-01", "2020-01-31", "2021-12-24", None)


def one_of(rng: np.random.Generator, *values: Any) -> Any:
    """One of some values, each as likely as the others."""
    return values[rng.integers(len(values))]


@dataclass(frozen=True)
class RandomData:
    """A graph, and what is predicted on it."""

    data: HeteroData | Data
    link_types: tuple[EdgeType, ...]
    reverse: dict[EdgeType, EdgeType] | None
    """As it is given to the explainer; None: to be found."""

    @classmethod
    def draw(cls, rng: np.random.Generator) -> RandomData:
        """Draw a graph of 1 to 5 node types and 1 to 12 relations."""
        return _homogeneous(rng) if rng.random() < 0.25 else _heterogeneous(rng)


def _heterogeneous(rng: np.random.Generator) -> RandomData:
    # 1. Node types: a few nodes each, sometimes none, sometimes more than messages can reach.
    kinds = [f"{letter}type" for letter in "abcde"[: rng.integers(1, 6)]]
    largest = one_of(rng, 8, 40, 40, 60, 60, 60)
    sizes = {kind: int(rng.integers(min(largest // 3, 6), largest)) for kind in kinds}
    ends = (kinds[0], one_of(rng, kinds[0], kinds[-1]))
    for kind in kinds:
        if kind not in ends and rng.random() < 0.15:
            sizes[kind] = 0
    # 2. Relations, one of them at least at an end of the links; then reverses of all kinds.
    wanted, pairs = int(rng.integers(1, one_of(rng, 4, 4, 6, 13))), dict[EdgeType, Pairs]()
    reverse: dict[EdgeType, EdgeType] = {}
    while len(pairs) < wanted:
        first = len(pairs) == 0
        src, dst = (one_of(rng, *(ends if first else kinds)) for _ in range(2))
        if first and rng.random() < 0.5:
            src, dst = dst, src
        edge_type = (src, f"r{len(pairs)}", dst)
        pairs[edge_type] = _random_pairs(rng, sizes[src], sizes[dst], src == dst, not first)
        if len(pairs) < wanted and rng.random() < 0.7:
            _add_reverse(rng, edge_type, pairs, reverse)
    # 3. The predicted relations: of the graph, or not.
    fitting = [t for t in pairs if sizes[t[0]] > 0 and sizes[t[2]] > 0]
    link_types = [(ends[0], "links", ends[1])]
    if fitting and rng.random() < 0.5:
        link_types = [one_of(rng, *fitting)]
        if rng.random() < 0.2:
            link_types = list(dict.fromkeys([*link_types, one_of(rng, *fitting)]))
    # 4. Node and edge attributes.
    data = HeteroData()
    width = int(rng.integers(2, 6))
    featured = rng.random() < 0.7
    named = rng.random() < 0.4
    for kind, size in sizes.items():
        data[kind].num_nodes = size
        if featured or rng.random() < 0.2:
            data[kind].x = _floats(rng, size, width + int(rng.integers(0, 2)))
        if named and rng.random() < 0.7:
            data[kind].name = _names(rng, size)
    tables, weights, attributes = (rng.random() < p for p in (0.25, 0.4, 0.4))
    for edge_type, each in pairs.items():
        data[edge_type].edge_index = torch.tensor(each, dtype=torch.long).view(-1, 2).t()
        if weights:
            data[edge_type].edge_weight = _floats(rng, len(each)).abs() + 0.1
        if attributes:
            data[edge_type].edge_attr = _floats(rng, len(each), 3)
        if tables and rng.random() < 0.7:
            data[edge_type].attributes = _table(rng, len(each))
    given = None if rng.random() < 0.6 else both_ways(reverse)
    return RandomData(data, tuple(link_types), given)


def _homogeneous(rng: np.random.Generator) -> RandomData:
    kind, size = HOMOGENEOUS_NODE_TYPE, int(rng.integers(4, one_of(rng, 12, 40, 80, 80)))
    pairs: dict[EdgeType, Pairs] = {}
    reverse: dict[EdgeType, EdgeType] = {}
    for number in range(rng.integers(1, 7)):
        pairs[kind, f"relation {number}", kind] = _random_pairs(rng, size, size, True, number > 0)
    if len(pairs) > 1 and rng.random() < 0.3:  # the second is the reverse of the first
        first, second = list(pairs)[:2]
        pairs[second] = [(v, u) for u, v in pairs[first]]
        reverse[first] = second
    edges = [(u, v, k) for k, each in enumerate(pairs.values()) for u, v in each]
    edges = [edges[i] for i in rng.permutation(len(edges))]
    columns = torch.tensor(edges, dtype=torch.long).view(-1, 3).t()
    data = Data(edge_index=columns[:2].contiguous(), num_nodes=size)
    if rng.random() < 0.8:
        data.x = _floats(rng, size, int(rng.integers(2, 6)))
    if rng.random() < 0.7:
        data.edge_type = columns[2].contiguous()
        stored = [f"relation {k}" for k in range(max((k for *_, k in edges), default=-1) + 1)]
    else:
        stored, reverse = ["is_linked_to"], {}
    if rng.random() < 0.4:
        data.edge_weight = _floats(rng, len(edges)).abs() + 0.1
    if rng.random() < 0.4:
        data.name = _names(rng, size)
    name = one_of(rng, *stored) if stored and rng.random() < 0.5 else "links"
    known = {(kind, name, kind) for name in stored}
    given = None if rng.random() < 0.6 else both_ways(
        {first: second for first, second in reverse.items() if {first, second} <= known}
    )  # fmt: skip
    return RandomData(data, ((kind, name, kind),), given)


def _random_pairs(
    rng: np.random.Generator, low: int, high: int, same: bool, may_lack: bool
) -> Pairs:
    """Few or many, with copies; sometimes a hub; self-loops and both directions in one type."""
    if low == 0 or high == 0 or (may_lack and rng.random() < 0.05):
        return []
    count = int(rng.integers(1, 1 + int(one_of(rng, 0.5, 0.7, 1.5) * (low + high))))
    # The last node of each type is often isolated.
    most = np.array([max(low - 1, 1), max(high - 1, 1)])
    ends = rng.integers(0, most, (count, 2))
    if rng.random() < 0.2:
        ends[rng.random(count) < 0.7, int(rng.integers(2))] = 0  # a hub
    pairs: Pairs = [(int(u), int(v)) for u, v in ends]
    if rng.random() < 0.3:
        pairs += pairs[: rng.integers(1, 4)]
    if same:
        kind = rng.random()
        if kind < 0.3:
            pairs = [(u, v) for u, v in pairs if u != v]
        if kind < 0.6:
            pairs += [(v, u) for u, v in pairs]  # undirected
    return [pairs[i] for i in rng.permutation(len(pairs))]


def _add_reverse(
    rng: np.random.Generator,
    edge_type: EdgeType,
    pairs: dict[EdgeType, Pairs],
    reverse: dict[EdgeType, EdgeType],
) -> None:
    """Add a relation the other way: by name or not, mirrored exactly, partly or not at all."""
    src, name, dst = edge_type
    mirror: Pairs = [(v, u) for u, v in pairs[edge_type]]
    back = (dst, one_of(rng, f"rev_{name}", f"rev_{name}", f"{name}_by"), src)
    kind = one_of(rng, "all", "all", "all", "some", "more", "other", "none", "itself")
    if kind == "itself" and src == dst:
        reverse[edge_type] = edge_type
        return
    if kind == "some":
        mirror = [pair for pair in mirror if rng.random() < 0.6]
    elif kind in ("more", "other"):
        others = [mirror[int(rng.integers(len(mirror)))] for _ in mirror]
        others = [(v, int(rng.permutation([u for _, u in mirror])[0])) for v, _ in others]
        mirror = others + (mirror if kind == "more" else [])
    elif kind == "none":
        mirror = []
    pairs[back] = [mirror[i] for i in rng.permutation(len(mirror))]
    reverse[edge_type] = back


def _floats(rng: np.random.Generator, *shape: int) -> Tensor:
    return torch.from_numpy(rng.standard_normal(shape).astype(np.float32))


def _names(rng: np.random.Generator, size: int) -> list[str]:
    """Names, not all of them different."""
    return [f"{one_of(rng, *WORDS)}{one_of(rng, '', i, i, i)}" for i in range(size)]


def _table(rng: np.random.Generator, count: int) -> pa.Table:
    """What tables say of edges: where they are from, and when."""
    return pa.table(
        {
            "source": pa.array([one_of(rng, "web", None) for _ in range(count)], pa.string()),
            "date": pa.array([one_of(rng, *DAYS) for _ in range(count)], pa.string()),
        }
    )


def edge_types_of(given: RandomData) -> list[EdgeType]:
    """The relations of a graph."""
    if isinstance(given.data, HeteroData):
        return list(given.data.edge_types)
    return list(relation_values(given))


def relation_values(given: RandomData) -> dict[EdgeType, int]:
    """The relations of a homogeneous graph, with their values of `edge_type`."""
    data, kind = given.data, HOMOGENEOUS_NODE_TYPE
    if "edge_type" in data:
        used = set(data.edge_type.tolist())
        names = [f"relation {value}" for value in range(max(used, default=-1) + 1)]
    else:
        used, names = ({0} if data.num_edges else set()), ["is_linked_to"]
    (link_type,) = given.link_types
    if len(used) == 1 and link_type[1] not in names:  # the only relation is the link's
        names[used.pop()] = link_type[1]
    return {(kind, name, kind): value for value, name in enumerate(names)}


def stored_pairs(given: RandomData, edge_type: EdgeType) -> list[tuple[int, int]]:
    """The edges of a relation, if the graph has it."""
    data = given.data
    if isinstance(data, HeteroData):
        if edge_type not in data.edge_types:
            return []
        edge_index = data[edge_type].edge_index
    else:
        edge_index = data.edge_index
        value = relation_values(given).get(edge_type, -1)
        kinds = data.edge_type if "edge_type" in data else torch.zeros(data.num_edges).long()
        edge_index = edge_index[:, kinds == value]
    return [(int(u), int(v)) for u, v in edge_index.t().tolist()]
