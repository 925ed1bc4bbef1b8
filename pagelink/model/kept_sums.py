"""A pass of the model that is kept, and edited graphs computed by what is different in them."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
from torch import Tensor
from torch_geometric.data import HeteroData

from pagelink.graph import edited_graphs
from pagelink.graph.computation_graph import ComputationGraphs
from pagelink.graph.edit_kernels import NEW
from pagelink.graph.edited_graphs import Edits, GraphEditor
from pagelink.layers.kept import ChangedSums, Changes, KeptSums, Relation, Sums
from pagelink.layers.node_rows import RowsError
from pagelink.model.inputs import ModelInput
from pagelink.model.predictor import LinkPredictor
from pagelink.model.side_by_side import PlacedNodes, ids_by_type, place_new_nodes, place_nodes
from pagelink.runtime.arrays import Bools, Ints, Longs
from pagelink.runtime.csr import Csr, segment_sums


class KeptPass:
    """Graphs of a batch as they went through the model, and edited copies of them.

    Args:
        predictor: the model.
        batch: the computation graphs.
        graph: the edges of the batch that the graphs have.
        links: the links whose graphs are kept.
        relation: position in `graph.edge_types` of the link type of each link of the batch.
        editor: edits the graphs of the batch.

    Raises:
        RowsError: the model does something else with edges than to sum over neighbours.
    """

    def __init__(
        self,
        predictor: LinkPredictor,
        batch: ComputationGraphs,
        graph: Bools,
        links: Longs,
        relation: Longs,
        editor: GraphEditor,
    ) -> None:
        if not isinstance(predictor.data, HeteroData):
            raise RowsError("edges of several relations in one tensor")
        if any(
            predictor.maker.edge_attributes(predictor.data, position)
            for position in range(predictor.graph.num_relations)
        ):
            raise RowsError("edges with attributes")
        self._predictor, self._batch, self._relation = predictor, batch, relation
        self._graph, self._editor = graph.copy(), editor
        self._edge_relation: Ints = predictor.graph.relation[batch.edges]
        self._links = np.zeros(batch.num_links, dtype=np.bool_)
        self._links[links] = True
        edges, ends = batch.edges_of(links, graph), batch.ends[:, links]
        placed = place_nodes(
            predictor.graph, batch, edges, ends, None, None, predictor.shares_rim,
            every=self._links[batch.link_of_nodes],
        )  # fmt: skip
        self._number = placed.number
        self._by_rows = predictor.by_rows and placed.num_outermost >= predictor.least_spared
        inputs = self._inputs(placed, edges, ends, relation[links])
        self._sums = KeptSums(self._relations(inputs))
        self._run(inputs, self._sums)

    def difference(self, graph: Bools, links: Longs) -> float:
        """Return in how many edges graphs differ from those that were kept, link by link."""
        if not self._links[links].all():
            return math.inf
        return float(segment_sums(graph != self._graph, self._batch.edge_ptr)[links].sum())

    def edits_of(self, graph: Bools, edits: Edits) -> Edits:
        """Return edits of the graphs that were kept with the same result as these of others."""
        between = np.flatnonzero(graph != self._graph)
        if not len(between):
            return edits
        apart = Csr(np.searchsorted(between, self._batch.edge_ptr), between).take(edits.link)
        # An edge that is other by both is not.
        size, number = len(graph), np.arange(edits.num_graphs)
        one, other = (
            np.unique(np.repeat(number, np.diff(each.ptr)) * size + each.values)
            for each in (edits.slots, apart)
        )
        graphs, slots = np.divmod(np.setxor1d(one, other, assume_unique=True), size)
        ptr = np.searchsorted(graphs, np.arange(edits.num_graphs + 1))
        return dataclasses.replace(edits, slots=Csr(ptr, slots))

    def logits(self, edits: Edits) -> Tensor:
        """Return the logit of the link of each edited graph, on that graph."""
        graph = self._predictor.graph
        found = self._editor.changed_sums(edits, self._graph, self._edge_relation)
        placed = place_new_nodes(graph, self._batch, found.node_of)
        is_new = found.edges[3] == NEW
        relation = self._relation[edits.link]
        inputs = self._inputs(placed, found.edges[:3, is_new], found.ends, relation)
        # Per type, the nodes of the kept graphs that the new ones are copies of.
        kind = graph.node_type_of[self._batch.nodes[found.node_of]]
        copy_of = np.empty(len(kind), dtype=np.int64)
        copy_of[placed.start[kind] + placed.number] = self._number[found.node_of]
        by_type = dict(zip(graph.node_types, np.split(copy_of, placed.start[1:-1]), strict=True))
        stored = graph.edge_types[: graph.num_relations]
        sums = ChangedSums(
            self._sums, self._relations(inputs), self._changes(found, is_new, placed.number),
            [by_type[edge_type[2]] for edge_type in stored],
        )  # fmt: skip
        return self._run(inputs, sums)

    def _changes(
        self, found: edited_graphs.ChangedSums, is_new: Bools, number: Longs
    ) -> list[Changes]:
        """What comes and goes, by relation."""
        count = self._predictor.graph.num_relations
        slots, src, dst, sign = found.edges[:, ~is_new]
        edges = Csr.grouped(self._edge_relation[slots], count)
        afresh = Csr.grouped(found.afresh[1], count)
        src, dst, sign = (each[edges.values] for each in (self._number[src], number[dst], sign))
        anew = number[found.afresh[0]][afresh.values]
        cuts, cut = edges.ptr[1:-1], afresh.ptr[1:-1]
        each = (np.split(src, cuts), np.split(dst, cuts), np.split(sign, cuts), np.split(anew, cut))
        return [Changes(*of_relation) for of_relation in zip(*each, strict=True)]

    def _inputs(
        self, placed: PlacedNodes, edges: Longs, ends: Longs, relation: Longs
    ) -> ModelInput:
        predictor, number = self._predictor, placed.number
        kinds = self._edge_relation[edges[0]]
        slots, src, dst = edges[:, Csr.grouped(kinds, len(predictor.graph.edge_types)).values]
        return predictor.maker.assemble(
            ids_by_type(predictor.graph, placed.nodes, placed.start), self._batch.edges[slots],
            np.stack([number[src], number[dst]]), slots, number[ends], relation,
            rings=placed.rings if self._by_rows else (),
        )  # fmt: skip

    def _relations(self, inputs: ModelInput) -> list[Tensor]:
        return [store.edge_index for store in self._predictor.maker.edge_stores(inputs.data)]

    def _run(self, inputs: ModelInput, sums: Sums) -> Tensor:
        marked = [Relation.of(each, n) for n, each in enumerate(self._relations(inputs))]
        data = self._predictor.maker.with_edges(inputs.data, marked)
        given = inputs.with_data(data)
        return self._predictor.summed(inputs, given.by_rows if self._by_rows else data, sums)
