"""Ground-truth paths as lines of JSON, in the ids of the graph.

A line is one link: `{"src": id, "dst": id, "paths": [path, ...]}`, best path first. A path is a
list of steps from src to dst, and a step is `[source type, relation, target type, source id, target
id]`: an edge as it is stored. It is walked from target to source where the graph has no such edge
the other way.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from torch_geometric.data import HeteroData

from pagelink.datasets.ground_truth import LabelPath, Labels, Step, stored_step
from pagelink.errors import GraphError
from pagelink.graph import REVERSE_PREFIX, EdgeType, TypedGraph


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
    reader = _Reader.of(data)
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


@dataclass(frozen=True)
class _Reader:
    graph: TypedGraph
    index: dict[str, dict[str, int]]
    """Flat indices of the nodes by type and id."""

    @classmethod
    def of(cls, data: HeteroData) -> _Reader:
        graph = TypedGraph.from_data(data)
        index = {
            node_type: {key: int(first) + i for i, key in enumerate(_ids(data, node_type))}
            for node_type, first in zip(graph.node_types, graph.node_offset, strict=False)
        }
        return cls(graph, index)

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
        graph = self.graph
        relation_class = graph.relation_class[self._position(edge_type)]
        first, end = graph.arc_ptr[node : node + 2]
        low, high = np.searchsorted(graph.arc_dst[first:end], [other, other + 1])
        for edge in graph.arc_edge[first + low : first + high]:
            if graph.relation_class[graph.relation[edge]] == relation_class:
                return stored_step(graph, int(edge))
        raise ValueError(
            f"the graph has no edge {edge_type} between {graph.node_id(node)!r} and "
            f"{graph.node_id(other)!r}."
        )

    def _position(self, edge_type: EdgeType) -> int:
        """Return the position of a relation, or of the one that it is the reverse of."""
        known = self.graph.edge_types
        src, relation, dst = edge_type
        if edge_type not in known and relation.startswith(REVERSE_PREFIX):
            edge_type = dst, relation.removeprefix(REVERSE_PREFIX), src
        if edge_type not in known:
            raise ValueError(f"the graph has no relation {edge_type}.")
        return known.index(edge_type)
