"""Ground truth: which pairs of nodes are joined by concise and informative paths, and by which.

Two rules say what that means; both bound the length of a path by l_max and order the paths of a
pair from the least to the most connected inner nodes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numba import njit

from pagelink.errors import GraphError, SettingsError, did_you_mean
from pagelink.graph.lookup import triple_of
from pagelink.graph.typed_graph import TypedGraph
from pagelink.runtime.arrays import Bools, Doubles, Ints, Longs

Step = tuple[str, str, str, int, int]
"""An edge as it is stored: source type, relation, target type, source index, target index."""
LabelPath = tuple[Step, ...]
Labels = dict[tuple[int, int], list[LabelPath]]
"""Ground-truth paths of links (source index, target index), best first."""


Rule = Literal["paper", "released"]
"""`paper`, the rule as printed: inner nodes have at most D_max facts; paths are ordered by the sum
of the degrees of their inner nodes.

`released` reproduces the released labels of UserItemAttr, all pairs and all paths. Differs from the
paper: nodes of more than D_max facts leave the graph, s and t among them, and paths are ordered by
the product of the degrees (the sum of their logarithms) that the inner nodes have in what is left.
"""


@dataclass(frozen=True)
class LabelledPairs:
    """Pairs of nodes with their best paths, ordered by source and target."""

    graph: TypedGraph
    src: Longs
    dst: Longs
    """Indices of the two ends within their types."""
    path_ptr: Longs
    """Pair i has the paths path_ptr[i] to path_ptr[i + 1] - 1."""
    arcs: Longs
    """Arcs of the graph that a path walks, [num_paths, max_length], -1 after its end."""

    def __len__(self) -> int:
        return len(self.src)

    def labels(self, chosen: Longs | None = None) -> Labels:
        """Return the paths of the chosen pairs (positions; None: all) in the words of the graph."""
        labels: Labels = {}
        for pair in np.arange(len(self)) if chosen is None else chosen:
            paths = []
            for arcs in self.arcs[self.path_ptr[pair] : self.path_ptr[pair + 1]]:
                edges = self.graph.arc_edge[arcs[arcs >= 0]]
                paths.append(tuple(triple_of(self.graph, int(edge)) for edge in edges))
            labels[int(self.src[pair]), int(self.dst[pair])] = paths
        return labels


def find_labelled_pairs(
    graph: TypedGraph,
    src_type: str,
    dst_type: str,
    *,
    max_length: int = 3,
    max_degree: int = 15,
    max_paths: int = 5,
    rule: Rule = "released",
    exclude_joined: bool = True,
) -> LabelledPairs:
    """Find all pairs of nodes that a qualifying path joins, each with its best paths.

    Paths of equal rank are ordered by their nodes (by flat index, from the source on), then by
    their relations. The work is proportional to the number of simple paths of at most `max_length`
    facts from the sources through inner nodes of bounded degree.

    Args:
        graph: the message-passing graph.
        src_type: node type of the sources.
        dst_type: node type of the targets.
        max_length: l_max, the number of facts of a path at most. 1 or more.
        max_degree: D_max, the degree at most, counted in the whole graph. 1 or more.
        max_paths: P_max, the number of paths to keep per pair at most. 1 or more.
        rule: what qualifies and what is best, see `Rule`.
        exclude_joined: leave out pairs that are joined by a fact already.

    Raises:
        SettingsError: a number is less than 1, or there is no such rule.
        GraphError: there is no such node type.

    Example:
        >>> import torch
        >>> from torch_geometric.data import HeteroData
        >>> data = HeteroData()
        >>> data["user"].num_nodes, data["item"].num_nodes = 2, 2
        >>> data["user", "buys", "item"].edge_index = torch.tensor([[0, 1, 1], [0, 0, 1]])
        >>> pairs = find_labelled_pairs(TypedGraph.from_data(data), "user", "item")
        >>> pairs.labels()
        {(0, 1): [(('user', 'buys', 'item', 0, 0), ('user', 'buys', 'item', 1, 0), \
('user', 'buys', 'item', 1, 1))]}
    """
    for name, value in (
        ("max_length", max_length), ("max_degree", max_degree), ("max_paths", max_paths)
    ):  # fmt: skip
        if value < 1:
            raise SettingsError(f"{name} must be at least 1, got {value}.")
    if rule not in get_args(Rule):
        known = get_args(Rule)
        raise SettingsError(
            f"rule must be one of {known}, got {rule!r}.{did_you_mean(rule, known)}"
        )
    first_src, num_src = _nodes_of(graph, src_type)
    first_dst, num_dst = _nodes_of(graph, dst_type)

    few = graph.degree <= max_degree
    if rule == "released":
        ends = few
        tails = np.repeat(np.arange(graph.num_nodes), graph.degree)
        left = np.bincount(tails[few[graph.arc_dst]], minlength=graph.num_nodes)
        cost = left.astype(np.float64)
    else:
        ends = np.ones_like(few)
        cost = graph.degree.astype(np.float64)

    found = np.zeros(num_dst, dtype=np.int64)
    best_cost = np.empty((num_dst, max_paths))
    best_arcs = np.full((num_dst, max_paths, max_length), -1, dtype=np.int64)
    # One empty part each, so that there is something to concatenate if nothing is found.
    none = np.empty(0, dtype=np.int64)
    src, dst, counts, arcs = [none], [none], [none], [none.reshape(0, max_length)]
    for index in np.flatnonzero(ends[first_src : first_src + num_src]).tolist():
        found[:] = 0
        _walk(
            first_src + index, first_dst, graph.arc_ptr, graph.arc_dst, few, ends, cost,
            rule == "released", exclude_joined, found, best_cost, best_arcs,
        )  # fmt: skip
        reached = np.flatnonzero(found > 0)
        src.append(np.full(len(reached), index))
        dst.append(reached)
        counts.append(found[reached])
        arcs.append(best_arcs[reached][np.arange(max_paths) < found[reached, None]])
    return LabelledPairs(
        graph=graph,
        src=np.concatenate(src),
        dst=np.concatenate(dst),
        path_ptr=np.concatenate([[0], np.cumsum(np.concatenate(counts))]),
        arcs=np.concatenate(arcs),
    )


def _nodes_of(graph: TypedGraph, node_type: str) -> tuple[int, int]:
    """Return the flat index of the first node of a type, and the number of its nodes."""
    if node_type not in graph.node_types:
        raise GraphError(
            f"There is no node type {node_type!r} in the graph ({', '.join(graph.node_types)})."
            + did_you_mean(node_type, graph.node_types)
        )
    position = graph.node_types.index(node_type)
    first, end = graph.node_offset[position : position + 2]
    return int(first), int(end - first)


@njit(cache=True)
def _walk(
    source: int,
    first_dst: int,
    arc_ptr: Longs,
    arc_dst: Ints,
    inner: Bools,
    ends: Bools,
    cost: Doubles,
    multiply: bool,
    exclude_joined: bool,
    found: Longs,
    best_cost: Doubles,
    best_arcs: Longs,
) -> None:
    """Walk all qualifying simple paths from one source and keep the best ones of every target.

    `found` must be 0 at the start; it holds the number of paths kept per target, or -1 where the
    target is joined to the source already. The arcs of a node are ordered by (target, relation),
    so paths to one target come in lexicographic order: a later one of equal cost stays behind.
    """
    num_dst, max_paths, max_length = best_arcs.shape
    if exclude_joined:
        for arc in range(arc_ptr[source], arc_ptr[source + 1]):
            target = arc_dst[arc] - first_dst
            if 0 <= target < num_dst:
                found[target] = -1

    nodes = np.empty(max_length, dtype=np.int64)
    next_arc = np.empty(max_length, dtype=np.int64)
    total = np.empty(max_length, dtype=np.float64)
    walked = np.empty(max_length, dtype=np.int64)
    nodes[0], next_arc[0], total[0] = source, arc_ptr[source], 1.0 if multiply else 0.0
    depth = 0
    while depth >= 0:
        arc = next_arc[depth]
        if arc == arc_ptr[nodes[depth] + 1]:
            depth -= 1
            continue
        next_arc[depth] += 1
        node = arc_dst[arc]
        seen = False
        for i in range(depth + 1):
            seen |= nodes[i] == node
        if seen:
            continue
        walked[depth] = arc

        target = node - first_dst
        if 0 <= target < num_dst and found[target] >= 0 and ends[node]:
            place = found[target]
            while place > 0 and best_cost[target, place - 1] > total[depth]:
                place -= 1
            if place < max_paths:
                found[target] = min(found[target] + 1, max_paths)
                for i in range(found[target] - 1, place, -1):
                    best_cost[target, i] = best_cost[target, i - 1]
                    best_arcs[target, i] = best_arcs[target, i - 1]
                best_cost[target, place] = total[depth]
                best_arcs[target, place, : depth + 1] = walked[: depth + 1]
                best_arcs[target, place, depth + 1 :] = -1

        if inner[node] and depth + 1 < max_length:
            depth += 1
            nodes[depth], next_arc[depth] = node, arc_ptr[node]
            before = total[depth - 1]
            total[depth] = before * cost[node] if multiply else before + cost[node]
