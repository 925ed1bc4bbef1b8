"""What the nodes of a graph are linked to, in portions that a page can show."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import numpy.typing as npt
from torch import Tensor

from pagelink.graph import EdgeType, TypedGraph
from pagelink.views.naming import words
from pagelink.web import contract
from pagelink.web.answers import node_answer

Longs = npt.NDArray[np.int64]
_EXAMPLES = 6


class Neighbours:
    """Known links and facts of sources.

    Args:
        graph: the flat graph.
        link_type: the predicted relation.
        known: true links, [2, num_links], in the graph or not.
    """

    def __init__(self, graph: TypedGraph, link_type: EdgeType, known: Tensor | None) -> None:
        self._graph = graph
        self._link_type = link_type
        src_type, _, dst_type = link_type
        self._first_src = graph.flat_index(src_type, 0)
        self._first_dst = graph.flat_index(dst_type, 0)
        counts = np.diff(graph.node_offset)
        self._num_dst = int(counts[graph.node_types.index(dst_type)])
        pairs = np.empty((2, 0), dtype=np.int64) if known is None else known.cpu().numpy()
        order = np.lexsort((pairs[1], pairs[0]))
        self._known_src, self._known_dst = pairs[:, order]

    @property
    def examples(self) -> list[int]:
        """Sources to begin with: some with known links, else those of most facts."""
        counts = np.diff(self._graph.node_offset)
        num_src = int(counts[self._graph.node_types.index(self._link_type[0])])
        degree = self._graph.degree[self._first_src : self._first_src + num_src]
        linked = np.unique(self._known_src)
        pool = linked if len(linked) else np.arange(num_src)
        best: list[int] = pool[np.argsort(-degree[pool], kind="stable")][:_EXAMPLES].tolist()
        return best

    @cached_property
    def relations(self) -> list[contract.Relation]:
        """The relations that paths may go along, each with its reverse."""
        graph = self._graph
        kinds = graph.relation_class[graph.relation[graph.representative]]
        facts = np.bincount(kinds, minlength=len(graph.edge_types))
        stored = graph.edge_types[: graph.num_relations]
        names = [edge_type[1] for edge_type in stored]
        return [
            contract.Relation(
                name=edge_type[1] if names.count(edge_type[1]) == 1 else "__".join(edge_type),
                words=words(edge_type[1]),
                src_type=edge_type[0],
                dst_type=edge_type[2],
                facts=int(facts[position]),
            )
            for position, edge_type in enumerate(stored)
            if graph.relation_class[position] == position
        ]

    def all_targets(self, src: int) -> Longs:
        """All nodes that a source may be linked to: all but itself."""
        targets = np.arange(self._num_dst)
        others: Longs = targets[self._first_dst + targets != self._first_src + src]
        return others

    def known_of(self, src: int) -> Longs:
        """The targets that a source is known to be linked to, ascending."""
        graph = self._graph
        first, last = np.searchsorted(self._known_src, [src, src + 1])
        flat = self._first_src + src
        arcs = slice(graph.arc_ptr[flat], graph.arc_ptr[flat + 1])
        kinds = graph.relation_class[graph.relation[graph.arc_edge[arcs]]]
        mine = kinds == graph.relation_class[graph.edge_types.index(self._link_type)]
        stated = graph.arc_dst[arcs][mine].astype(np.int64) - self._first_dst
        return np.union1d(self._known_dst[first:last], stated)

    def known_answers(self, src: int, targets: Longs) -> list[contract.Known]:
        """Known targets, and whether the graph holds the links to them."""
        graph = self._graph
        return [
            contract.Known(
                node=node_answer(graph, self._link_type[2], target),
                in_graph=graph.link_fact(
                    self._first_src + src, self._first_dst + target, self._link_type
                )
                >= 0,
            )
            for target in targets.tolist()
        ]

    def facts_at(self, src: int, limit: int) -> list[contract.FactGroup]:
        """The facts of a source by relation, but for the predicted one; most facts first."""
        graph = self._graph
        flat = self._first_src + src
        arcs = np.arange(graph.arc_ptr[flat], graph.arc_ptr[flat + 1])
        edges = graph.arc_edge[arcs]
        link_class = graph.relation_class[graph.edge_types.index(self._link_type)]
        groups: dict[tuple[str, bool], list[int]] = {}
        for arc, relation in zip(arcs.tolist(), graph.relation[edges].tolist(), strict=True):
            if graph.relation_class[relation] == link_class:
                continue
            said, turned = graph.relation_words(graph.edge_types[relation])
            key = words(said), bool(graph.arc_reversed[arc]) != turned
            groups.setdefault(key, []).append(int(graph.arc_dst[arc]))
        return [
            contract.FactGroup(
                words=said,
                backwards=backwards,
                total=len(others),
                nodes=[node_answer(graph, *graph.node(other)) for other in others[:limit]],
            )
            for (said, backwards), others in sorted(
                groups.items(), key=lambda item: (-len(item[1]), item[0])
            )
        ]
