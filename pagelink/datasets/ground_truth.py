"""Ground truth: which pairs of nodes are joined by concise and informative paths, and by which.

Two rules say what that means; both bound the length of a path by l_max and order the paths of a
pair from the least to the most connected inner nodes.

Labels are stored as lines of JSON, in the ids of the graph. A line is one link: `{"src": id, "dst":
id, "paths": [path, ...]}`, best path first. A path is a list of steps from src to dst, and a step
is `[source type, relation, target type, source id, target id]`: an edge as it is stored. It is
walked from target to source where the graph has no such edge the other way.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

import numpy as np
import torch
from numba import njit
from torch import Tensor
from torch_geometric.data import HeteroData

from pagelink.errors import GraphError, SettingsError, did_you_mean
from pagelink.graph.lookup import edge_walked, triple_of
from pagelink.graph.reverse_relations import REVERSE_PREFIX
from pagelink.graph.schema import EdgeType
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

    def draw(self, num_likes: int | None, rng: np.random.Generator) -> tuple[Tensor, Labels]:
        """Draw links at random among the pairs, None: all; return them, [2, num_likes], and labels.

        Raises:
            SettingsError: there are not that many pairs.
        """
        chosen = np.arange(len(self))
        if num_likes is not None:
            if not 1 <= num_likes <= len(self):
                raise SettingsError(
                    f"num_likes must be in 1..{len(self)}, only {len(self)} pairs of this graph "
                    f"qualify; got {num_likes}. Ask for fewer, or raise max_degree or max_length."
                )
            chosen = np.sort(rng.choice(len(self), size=num_likes, replace=False))
        links = torch.from_numpy(np.stack([self.src[chosen], self.dst[chosen]]))
        return links, self.labels(chosen)


def find_labelled_pairs(
    graph: TypedGraph,
    src_type: str,
    dst_type: str,
    *,
    max_length: int = 3,
    max_degree: int = 15,
    max_paths: int = 5,
    rule: Rule = "released",
) -> LabelledPairs:
    """Find all pairs of nodes that a qualifying path joins and no fact, each with its best paths.

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

    Raises:
        SettingsError: a number is less than 1, or there is no such rule.
        GraphError: there is no such node type.

    Example:
        >>> data = HeteroData()
        >>> data["user"].num_nodes, data["item"].num_nodes = 2, 2
        >>> data["user", "buys", "item"].edge_index = torch.tensor([[0, 1, 1], [0, 0, 1]])
        >>> pairs = find_labelled_pairs(TypedGraph.from_data(data), "user", "item")
        >>> pairs.labels()
        {(0, 1): [(('user', 'buys', 'item', 0, 0), ('user', 'buys', 'item', 1, 0), \
('user', 'buys', 'item', 1, 1))]}
    """
    bounds = {"max_length": max_length, "max_degree": max_degree, "max_paths": max_paths}
    for name, value in bounds.items():
        if value < 1:
            raise SettingsError(f"{name} must be at least 1, got {value}.")
    known = get_args(Rule)
    if rule not in known:
        raise SettingsError(
            f"rule must be one of {known}, got {rule!r}.{did_you_mean(rule, known)}"
        )
    first_src, num_src = _nodes_of(graph, src_type)
    first_dst, num_dst = _nodes_of(graph, dst_type)

    few = graph.degree <= max_degree
    ends, cost = np.ones_like(few), graph.degree.astype(np.float64)
    if rule == "released":
        ends, tails = few, np.repeat(np.arange(graph.num_nodes), graph.degree)
        left = np.bincount(tails[few[graph.arc_dst]], minlength=graph.num_nodes)
        cost = left.astype(np.float64)

    found = np.zeros(num_dst, dtype=np.int64)
    best_cost = np.empty((num_dst, max_paths))
    best_arcs = np.full((num_dst, max_paths, max_length), -1, dtype=np.int64)
    # An empty part, so that there is something to concatenate if nothing is found.
    none = np.empty(0, dtype=np.int64)
    parts = [(none, none, none, none.reshape(0, max_length))]
    for index in np.flatnonzero(ends[first_src : first_src + num_src]).tolist():
        found[:] = 0
        _walk(
            first_src + index, first_dst, graph.arc_ptr, graph.arc_dst, few, ends, cost,
            rule == "released", found, best_cost, best_arcs,
        )  # fmt: skip
        reached = np.flatnonzero(found > 0)
        counts = found[reached]
        arcs = best_arcs[reached][np.arange(max_paths) < counts[:, None]]
        parts.append((np.full(len(reached), index), reached, counts, arcs))
    src, dst, counts, arcs = map(np.concatenate, zip(*parts, strict=True))
    path_ptr = np.concatenate([[0], np.cumsum(counts)])
    return LabelledPairs(graph, src, dst, path_ptr, arcs)


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
    # 1. Targets that a fact joins to the source are out.
    for arc in range(arc_ptr[source], arc_ptr[source + 1]):
        target = arc_dst[arc] - first_dst
        if 0 <= target < num_dst:
            found[target] = -1

    # 2. Depth first from the source: at each depth the node, its next arc, and the cost so far.
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
        # 3. A simple path enters no node twice.
        node = arc_dst[arc]
        seen = False
        for i in range(depth + 1):
            seen |= nodes[i] == node
        if seen:
            continue
        walked[depth] = arc

        # 4. At a target: insert the path into its best ones, after all that cost no more.
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

        # 5. Go on through a node that may be inside a path.
        if inner[node] and depth + 1 < max_length:
            depth += 1
            nodes[depth], next_arc[depth] = node, arc_ptr[node]
            before = total[depth - 1]
            total[depth] = before * cost[node] if multiply else before + cost[node]


def label_lines(labels: Labels, data: HeteroData, link_type: EdgeType) -> Iterator[str]:
    r"""Yield the lines that state the labels.

    Example:
        >>> data = HeteroData()
        >>> data["user"].id, data["item"].num_nodes = ["ada", "bo"], 2
        >>> labels = {(1, 0): [(("user", "buys", "item", 1, 0),)]}
        >>> list(label_lines(labels, data, ("user", "likes", "item")))
        ['{"src": "bo", "dst": "0", "paths": [[["user", "buys", "item", "bo", "0"]]]}\n']
    """
    ids = {node_type: _ids(data, node_type) for node_type in data.node_types}
    for (src, dst), paths in labels.items():
        entry = {
            "src": ids[link_type[0]][src],
            "dst": ids[link_type[2]][dst],
            "paths": [[[*step[:3], ids[step[0]][step[3]], ids[step[2]][step[4]]] for step in path]
                      for path in paths],
        }  # fmt: skip
        yield json.dumps(entry, ensure_ascii=False) + "\n"


def parse_labels(
    lines: Iterable[str | bytes], path: Path, data: HeteroData, link_type: EdgeType
) -> Labels:
    """Return the labels that lines state, in the indices of a graph.

    A step names an edge; which way it is walked is found out, and the step returned is the edge
    that `data` stores in this direction, if there is one. So it does not matter whether reverse
    relations were there when the labels were written.

    Args:
        lines: the lines of a file; bytes are UTF-8.
        path: how to call the file in errors.
        data: the graph, with the ids that the lines use.
        link_type: the relation that the labels explain.

    Raises:
        GraphError: a line is no such line, or names what is not in the graph; with the line.
    """
    reader = _Reader(data)
    labels: Labels = {}
    for number, line in enumerate(lines, start=1):
        try:
            link, paths = reader.link(json.loads(line), link_type)
            if link in labels:
                raise ValueError("the link is there already.")
        except json.JSONDecodeError as error:
            raise GraphError(f"{path}, line {number}: is not JSON: {error.msg}.") from error
        except ValueError as error:
            raise GraphError(f"{path}, line {number}: {error}") from error
        labels[link] = paths
    return labels


def _ids(data: HeteroData, node_type: str) -> Sequence[str]:
    store = data[node_type]
    return [str(key) for key in (store["id"] if "id" in store else range(store.num_nodes))]


class _Reader:
    def __init__(self, data: HeteroData) -> None:
        self.graph = TypedGraph.from_data(data)
        self.index = {
            node_type: {
                key: self.graph.flat_index(node_type, i)
                for i, key in enumerate(_ids(data, node_type))
            }
            for node_type in self.graph.node_types
        }
        """Flat indices of the nodes by type and id."""

    def link(self, entry: object, link_type: EdgeType) -> tuple[tuple[int, int], list[LabelPath]]:
        """Read a line; a ValueError says what is wrong with it."""
        if not isinstance(entry, dict) or entry.keys() != {"src", "dst", "paths"}:
            raise ValueError("must be an object of src, dst and paths.")
        src = self._node(link_type[0], entry["src"])
        dst = self._node(link_type[2], entry["dst"])
        if not isinstance(entry["paths"], list):
            raise ValueError("paths must be a list of lists of steps.")
        paths = [self._path(path, src, dst) for path in entry["paths"]]
        return (self.graph.node(src)[1], self.graph.node(dst)[1]), paths

    def _node(self, node_type: object, key: object) -> int:
        nodes = self.index.get(str(node_type), {})
        if str(key) not in nodes:
            raise ValueError(f"the graph has no {node_type} with the id {key!r}.")
        return nodes[str(key)]

    def _path(self, path: object, src: int, dst: int) -> LabelPath:
        if not isinstance(path, list) or not all(
            isinstance(step, list) and len(step) == 5 and all(isinstance(s, str) for s in step)
            for step in path
        ):
            raise ValueError(
                "a path must be a list of steps [source type, relation, target type, source id, "
                "target id], all of them texts."
            )
        node = src
        steps: list[Step] = []
        for src_type, relation, dst_type, src_key, dst_key in path:
            ends = self._node(src_type, src_key), self._node(dst_type, dst_key)
            if node not in ends:
                raise ValueError(f"step {len(steps) + 1} of a path does not go on from the last.")
            other = ends[1] if node == ends[0] else ends[0]
            steps.append(self._step(node, other, (src_type, relation, dst_type)))
            node = other
        if node != dst:
            raise ValueError("a path does not end at dst.")
        return tuple(steps)

    def _step(self, node: int, other: int, edge_type: EdgeType) -> Step:
        graph, (src, relation, dst) = self.graph, edge_type
        stored = edge_type
        if stored not in graph.edge_types and relation.startswith(REVERSE_PREFIX):
            stored = dst, relation.removeprefix(REVERSE_PREFIX), src
        if stored not in graph.edge_types:
            raise ValueError(f"the graph has no relation {stored}.")
        edge = edge_walked(graph, node, other, stored)
        if edge < 0:
            raise ValueError(
                f"the graph has no edge {edge_type} between {graph.node_id(node)!r} and "
                f"{graph.node_id(other)!r}."
            )
        return triple_of(graph, edge)
