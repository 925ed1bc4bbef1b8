"""Logits of a model on graphs with facts taken out and others put in, by the plain way.

Around every link the in-edges are gathered hop by hop on the edited graph, and the model runs on
what was gathered. Nothing of the explainer's own machinery for edited graphs takes part, so that
this can also serve as a check of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from pagelink.graph import Longs, TypedGraph
from pagelink.models.link_model import LinkModel

Doubles = npt.NDArray[np.float64]
EDGES_A_PASS = 400_000


@dataclass(frozen=True)
class EditedGraph:
    """The whole graph, other in some facts, and the link that is asked for."""

    src: int
    dst: int
    """The ends of the link, as flat nodes."""
    removed: frozenset[int]
    """Facts that are taken out, the link's own among them."""
    added: tuple[tuple[int, int, int], ...] = ()
    """Edges that are put in: position of the relation, flat source, flat target."""


class EditedGraphs:
    """Asks a model about edited graphs.

    Args:
        model: called as `model(x_dict, edge_index_dict, edge_label_index)`.
        x_dict: the inputs of all nodes, by node type.
        graph: the graph, flat.
        num_hops: how far the model sees.
    """

    def __init__(
        self, model: LinkModel, x_dict: dict[str, Tensor], graph: TypedGraph, num_hops: int
    ) -> None:
        self._model, self._x_dict, self._graph, self._num_hops = model, x_dict, graph, num_hops

    def logits(self, edited: Sequence[EditedGraph]) -> Doubles:
        """Return the logit of each graph's link."""
        answers: list[Doubles] = []
        for part in self._passes(edited):
            answers.append(self._run(part))
        return np.concatenate([*answers, np.empty(0)])

    def _passes(self, edited: Sequence[EditedGraph]) -> Iterator[list[tuple[EditedGraph, Longs]]]:
        part: list[tuple[EditedGraph, Longs]] = []
        size = 0
        for one in edited:
            edges = self._around(one)
            if part and size + edges.shape[1] > EDGES_A_PASS:
                yield part
                part, size = [], 0
            part.append((one, edges))
            size += edges.shape[1]
        if part:
            yield part

    def _around(self, edited: EditedGraph) -> Longs:
        """[3, num_edges]: relation, source, target of the edges that can move the score."""
        graph = self._graph
        added = np.array(edited.added, dtype=np.int64).reshape(-1, 3).T
        removed = np.array(sorted(edited.removed), dtype=np.int64)
        inside = np.zeros(graph.num_nodes, dtype=np.bool_)
        ring = np.unique([edited.src, edited.dst])
        found = [np.empty((3, 0), dtype=np.int64)]
        for _ in range(self._num_hops):
            inside[ring] = True
            edges = np.concatenate(
                [np.arange(*graph.in_ptr[node : node + 2]) for node in ring]
                + [np.empty(0, dtype=np.int64)]
            ).astype(np.int64)
            edges = edges[~np.isin(graph.fact[edges], removed)]
            own = np.stack([graph.relation[edges], graph.src[edges], graph.dst[edges]])
            new = added[:, np.isin(added[2], ring)]
            found += [own.astype(np.int64), new]
            sources = np.unique(np.concatenate([own[1], new[1]])).astype(np.int64)
            ring = sources[~inside[sources]]
        return np.concatenate(found, axis=1)

    def _run(self, part: list[tuple[EditedGraph, Longs]]) -> Doubles:
        """Run the model on graphs side by side, each with nodes of its own."""
        graph, size = self._graph, self._graph.num_nodes
        shifts = np.repeat(np.arange(len(part)) * size, [edges.shape[1] for _, edges in part])
        relation, src, dst = np.concatenate([edges for _, edges in part], axis=1)
        ends = np.array([[one.src, one.dst] for one, _ in part]).T + np.arange(len(part)) * size
        keys = np.unique(np.concatenate([src + shifts, dst + shifts, ends.ravel()]))
        node = keys % size
        kind = graph.node_type_of[node]
        place = np.empty(len(keys), dtype=np.int64)
        x_dict = {}
        for position, node_type in enumerate(graph.node_types):
            mine = np.flatnonzero(kind == position)
            place[mine] = np.arange(len(mine))
            local = node[mine] - graph.node_offset[position]
            x_dict[node_type] = self._x_dict[node_type][torch.from_numpy(local)]

        def numbers(flat: Longs) -> Longs:
            return place[np.searchsorted(keys, flat)]

        edge_index = np.stack([numbers(src + shifts), numbers(dst + shifts)])
        edge_index_dict = {
            edge_type: torch.from_numpy(edge_index[:, relation == position])
            for position, edge_type in enumerate(graph.edge_types[: graph.num_relations])
        }
        pairs = torch.from_numpy(np.stack([numbers(ends[0]), numbers(ends[1])]))
        with torch.no_grad():
            logits: Tensor = self._model(x_dict, edge_index_dict, pairs)
        return logits.double().numpy()
