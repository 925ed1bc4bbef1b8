"""The facts of several relations: their split, the graph that messages pass on, what is known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import HeteroData

from pagelink.errors import GraphError
from pagelink.graph.reverse_relations import REVERSE_PREFIX
from pagelink.graph.schema import EdgeType, no_relation, relations_called
from pagelink.graph.typed_graph import TypedGraph
from pagelink.models.links import LinkSplit, split_graph
from pagelink.models.messages import message_graph
from pagelink.runtime.arrays import Longs
from pagelink.tables.triples import read_held_out

FEWEST_TO_SPLIT = 10
"""Of a relation with fewer links all are for training."""

Splits = Mapping[EdgeType, LinkSplit]


def relations_to_predict(data: HeteroData, named: Sequence[str] = ()) -> list[EdgeType]:
    """Return the relations of a graph that are not the added reverse of another one.

    Args:
        data: the graph.
        named: only these, as `relations_called` reads them; all that a text may mean.

    Raises:
        GraphError: there is no such relation.
    """
    reverse = TypedGraph.from_data(data).reverse
    every = [t for t in data.edge_types if not (t[1].startswith(REVERSE_PREFIX) and t in reverse)]
    if not named:
        return every
    chosen: dict[EdgeType, None] = {}
    for name in named:
        found = relations_called(name, every)
        if not found:
            raise GraphError(no_relation(name, every))
        chosen |= dict.fromkeys(found)
    return list(chosen)


def split_relations(
    graph: Path | None, data: HeteroData, link_types: Sequence[EdgeType], seed: int = 0
) -> dict[EdgeType, LinkSplit]:
    """Return the links of relations in three parts: as files beside the graph have it, or 7:1:2.

    Args:
        graph: the file or folder that `data` was read from; None: there is none.
        data: the graph.
        link_types: the relations.
        seed: of a random split.
    """
    none = torch.empty((2, 0), dtype=torch.long)
    held_out = {} if graph is None else read_held_out(graph, data)
    splits = {}
    for edge_type in link_types:
        train = torch.unique(data[edge_type].edge_index, dim=1)
        if held_out:
            valid, test = (
                held_out.get(part, {}).get(edge_type, none) for part in ("valid", "test")
            )
            splits[edge_type] = LinkSplit(train, valid, test, given=True)
        elif train.shape[1] < FEWEST_TO_SPLIT:
            splits[edge_type] = LinkSplit(train, none, none)
        else:
            splits[edge_type] = split_graph(data, edge_type, seed)
    return splits


def held_out_of_graph(split: LinkSplit) -> bool:
    """Whether links to validate and to test are edges of the graph, from which they are cut."""
    return not split.given and bool(split.test.shape[1])


def training_graph(data: HeteroData, splits: Splits) -> HeteroData:
    """Return the graph that messages pass on: without the links to validate and to test."""
    for edge_type, split in splits.items():
        if held_out_of_graph(split):
            data = message_graph(data, edge_type, split.train)
    return data


def flat_triples(splits: Splits, part: str, first: Mapping[str, int]) -> Tensor:
    """Return the links of a part as head, relation, tail: flat numbers and positions, [3, n].

    Args:
        splits: the links; relations are numbered in their order.
        part: `train`, `valid` or `test`.
        first: the flat number of the first node of each type.
    """
    found = [torch.empty((3, 0), dtype=torch.long)]
    for position, (edge_type, split) in enumerate(splits.items()):
        src, dst = split.parts[part]
        src, dst = src + first[edge_type[0]], dst + first[edge_type[2]]
        found.append(torch.stack([src, torch.full_like(src, position), dst]))
    return torch.cat(found, dim=1)


class KnownFacts:
    """Which other ends are known for one end and a relation.

    Args:
        triples: head, relation, tail, [3, n].
        num_nodes: the number of nodes of all types.

    Example:
        >>> known = KnownFacts(torch.tensor([[0, 0, 1], [0, 0, 0], [1, 2, 2]]), 3)
        >>> known.others(torch.tensor([0, 1]), torch.tensor([0, 0]), inverse=False)
        (array([0, 0, 1]), array([1, 2, 2]))
    """

    def __init__(self, triples: Tensor, num_nodes: int) -> None:
        head, relation, tail = triples.numpy()
        self._num_nodes = num_nodes
        self._sides = []
        for one, other in ((head, tail), (tail, head)):
            codes = (relation * num_nodes + one) * num_nodes + other
            codes = np.unique(codes)
            self._sides.append((codes // num_nodes, codes % num_nodes))

    def others(self, known: Tensor, relation: Tensor, inverse: bool) -> tuple[Longs, Longs]:
        """Return pairs of a query's position and a node that answers it."""
        keys, answers = self._sides[inverse]
        wanted = (relation * self._num_nodes + known).numpy()
        low, high = np.searchsorted(keys, wanted), np.searchsorted(keys, wanted, "right")
        count = high - low
        rows = np.repeat(np.arange(len(wanted)), count)
        before = np.cumsum(count) - count
        return rows, answers[low[rows] + np.arange(len(rows)) - before[rows]]


def edges_of_triples(graph: TypedGraph, splits: Splits) -> tuple[Longs, Longs]:
    """Return, for the training triples in order, the edges that state each: CSR.

    Edges are numbered relation by relation, in the order of the graph's relations and of the
    columns of their edge_index, as `RelationalEdges` has them. An edge, its copies and its reverse
    state one fact.
    """
    counts = np.asarray(graph.edge_counts, dtype=np.int64)
    start = np.cumsum(counts) - counts
    number = start[graph.relation] + graph.column
    fact_of_edge = np.empty(len(number), dtype=np.int64)
    fact_of_edge[number] = graph.fact
    facts = [np.empty(0, dtype=np.int64)]
    for edge_type, split in splits.items():
        position = graph.edge_types.index(edge_type)
        here = slice(start[position], start[position] + counts[position])
        mine = np.flatnonzero(graph.relation == position)
        width = graph.num_nodes
        codes = np.empty(counts[position], dtype=np.int64)
        codes[graph.column[mine]] = graph.src[mine].astype(np.int64) * width + graph.dst[mine]
        order = np.argsort(codes, kind="stable")
        first = [graph.flat_index(node_type, 0) for node_type in edge_type[::2]]
        pairs = split.train.numpy() + np.array(first)[:, None]
        place = np.searchsorted(codes[order], pairs[0] * width + pairs[1])
        facts.append(fact_of_edge[here][order[place]])
    wanted = np.concatenate(facts)
    order = np.argsort(fact_of_edge, kind="stable")
    low = np.searchsorted(fact_of_edge[order], wanted)
    high = np.searchsorted(fact_of_edge[order], wanted, "right")
    count = high - low
    ptr = np.concatenate([[0], np.cumsum(count)])
    rows = np.repeat(np.arange(len(wanted)), count)
    return ptr, order[low[rows] + np.arange(len(rows)) - ptr[rows]]
