"""LinkPredictor: any model -> logits of links on (edited, weighted) graphs, a batch at a time.

The links of a batch go through the model side by side, as one graph made of their sub-graphs.
Models that fail on sub-graphs run on all nodes with only the needed edges, and models that are not
local on the full graph; both take one link at a time.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cache, cached_property, partial
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch_geometric.data import Data, HeteroData
from torch_geometric.nn import MessagePassing

from pagelink.errors import ModelError, SettingsError
from pagelink.graph.computation_graph import ComputationGraphs
from pagelink.graph.edited_graphs import EditedGraphs
from pagelink.graph.typed_graph import TypedGraph
from pagelink.layers.fused import Call, sum_without_messages
from pagelink.layers.kept import Sums
from pagelink.layers.node_rows import NodeRows, RowsError
from pagelink.layers.whole import NotWholeError, Pass, replace_forward, whole_layers
from pagelink.model.borrowing import Borrowed
from pagelink.model.data_flow import DataFlow, Flow
from pagelink.model.flat_passes import FlatPasses, LastPasses
from pagelink.model.inputs import (
    InputMaker,
    ModelInput,
    Output,
    as_logits,
    call_hetero,
    call_homogeneous,
)
from pagelink.model.masking import Tracer, Weighting, check_maskable
from pagelink.model.side_by_side import ids_by_type, place_nodes
from pagelink.runtime.arrays import Bools, Ints, Longs
from pagelink.runtime.csr import Csr
from pagelink.runtime.undo import Undo

Forward = Callable[[nn.Module, Any, Tensor], Tensor]
Mode = Literal["subgraphs", "all_nodes", "full"]


def _nothing() -> None:
    pass


class LinkPredictor:
    """Runs the user's model.

    Args:
        model: any `torch.nn.Module`.
        data: the user's graph.
        graph: the same, flat.
        forward: `callable(model, data, edge_label_index)`; None: the model is called as
            `model(x_dict, edge_index_dict, edge_label_index)`, for a homogeneous graph as
            `model(x, edge_index, [edge_type,] edge_label_index)`.
        output: what the model returns, one number per link.
        origin: per node type, what the model is to take for the positions of its nodes, if the
            graph is a part of a larger one.
    """

    def __init__(
        self,
        model: nn.Module,
        data: HeteroData | Data,
        graph: TypedGraph,
        forward: Forward | None = None,
        output: Output = "logit",
        *,
        origin: Mapping[str, Tensor] | None = None,
    ) -> None:
        if not isinstance(model, nn.Module):
            raise ModelError(f"model must be a torch.nn.Module, got {type(model).__name__}.")
        if output not in ("logit", "probability"):
            raise SettingsError(f"output must be 'logit' or 'probability', got {output!r}.")
        check_maskable(model)
        self.model, self.graph, self.output = model, graph, output
        self.mode: Mode = "subgraphs"
        self.shares_rim = True
        """Links side by side may share the nodes at the rim of the receptive field."""
        self.shares_unedited = True
        """Edited graphs of a link may share the nodes that their edits cannot change."""
        self.keeps_sums = False
        """They may be computed by the sums that they change."""
        self.fuses = True
        """Layers that only sum their neighbours are done without writing messages out."""
        self.by_rows = False
        """Vectors of nodes are computed when they are looked at."""
        self.flat = False
        """The model is known as a whole, and done without its own code; see `FlatModel`."""
        self._last = LastPasses()
        self.least_spared, self.least_kept = 500, 50_000
        """Nodes at the rim, edges of edited graphs: from these on it is worth the effort."""
        self.has_gradient = True
        """The score has a gradient by the weights of edges, for some link."""
        self._plain_layers: Mapping[MessagePassing, Call] = {}
        self._is_recorded, self._whole = False, whole_layers(model)
        self.data, self._hetero = data, isinstance(data, HeteroData)
        self.before_pass: Callable[[], None] = _nothing
        """Called before each pass of the model: what shows progress or gives up listens here."""
        self.forward = forward
        self._forward = forward or (call_hetero if self._hetero else call_homogeneous)
        self.described_call = "forward(model, data, edge_label_index)" if forward else (
            "model(x_dict, edge_index_dict, edge_label_index)" if self._hetero
            else "model(x, edge_index, [edge_type,] edge_label_index)"
        )  # fmt: skip
        self.maker = InputMaker(data, graph, origin)
        self.device = self.maker.device

    @cached_property
    def _by_relation(self) -> Longs:
        """All edges, relation by relation: made only where the model runs on the whole graph."""
        return Csr.grouped(self.graph.relation, len(self.graph.edge_types)).values

    def adopt(self, other: LinkPredictor) -> None:
        """Run the model in the way that was found with another predictor of it."""
        self.mode = other.mode
        self.shares_rim, self.shares_unedited = other.shares_rim, other.shares_unedited
        self.fuses, self.has_gradient = other.fuses, other.has_gradient
        self.by_rows, self.keeps_sums, self.flat = other.by_rows, other.keeps_sums, other.flat

    def inputs(
        self,
        batch: ComputationGraphs,
        wanted: Bools,
        links: Sequence[int] | Longs,
        relation: Longs,
        moved: Longs | None = None,
        looks: Longs | None = None,
    ) -> ModelInput:
        """Put links of a batch side by side, each with its wanted edges.

        Args:
            batch: computation graphs.
            wanted: the edges of the batch to hand to the model. In mode `full` all edges outside of
                the computation graph go in, too.
            links: positions in the batch. More than one only in mode `subgraphs`.
            relation: position in `graph.edge_types` of the link type of each link of the batch.
            moved: [3, num_moved], further edges: whose relation and attributes they have (a
                position in the edges of the batch), and their ends (in its nodes).
            looks: per node of the batch, the flat node whose features it has. None: its own.
        """
        if self.mode == "subgraphs":
            links = np.asarray(links)
            shown = batch.edges_of(links, wanted)
            if moved is not None:
                shown = np.concatenate([shown, moved], axis=1)
            ends = batch.ends[:, links]
            return self._side_by_side(batch, shown, ends, relation[links], looks=looks)
        (link,) = links
        first, last = batch.edge_ptr[link], batch.edge_ptr[link + 1]
        if self.mode == "all_nodes":
            slots = first + np.flatnonzero(wanted[first:last])
            edges = batch.edges[slots]
            order = np.argsort(self.graph.relation[edges], kind="stable")
            edges, slots = edges[order], slots[order]
        else:
            edges = self._by_relation
            if batch.link_fact[link] >= 0:
                edges = edges[self.graph.fact[edges] != batch.link_fact[link]]
            place = np.searchsorted(batch.edges[first:last], edges)
            place = np.minimum(place, max(last - first - 1, 0))
            inside = batch.edges[first:last][place] == edges if last > first else edges < 0
            slots = np.where(inside, first + place, -1)
            del place
            chosen = ~inside | wanted[np.where(inside, slots, 0)]
            if not chosen.all():
                edges, slots = edges[chosen], slots[chosen]
        ends = np.array([[batch.link_src[link]], [batch.link_dst[link]]])
        if moved is not None:
            moved = np.stack([moved[0], batch.nodes[moved[1]], batch.nodes[moved[2]]])
            moved = np.concatenate([batch.edges[moved[:1]], moved])
        every: Longs | None = None
        if looks is not None:
            here = slice(batch.node_ptr[link], batch.node_ptr[link + 1])
            every = np.arange(self.graph.num_nodes)
            every[batch.nodes[here]] = looks[here]
        return self.maker.on_all_nodes(edges, slots, ends, relation[[link]], moved, every)

    def needed(self, batch: ComputationGraphs) -> Bools:
        """The edges of a batch that the model needs for its true score."""
        return batch.visible if self.mode != "full" else np.ones(len(batch.edges), dtype=np.bool_)

    def full_graph(
        self, link_src: Longs, link_dst: Longs, relation: Longs, without: Bools | None = None
    ) -> ModelInput:
        """The whole graph with some links, as the user would run it; without some of its edges."""
        edges = self._by_relation
        if without is not None:
            edges = edges[~without[edges]]
        slots = np.full(len(edges), -1)
        return self.maker.on_all_nodes(edges, slots, np.stack([link_src, link_dst]), relation)

    def logits(
        self,
        inputs: ModelInput,
        listen: Callable[[nn.Module, Undo], None] | None = None,
        flow: DataFlow | None = None,
        on: Pass | None = None,
    ) -> Tensor:
        """Return the model's logits of the links, without weights and without gradients.

        Args:
            inputs: the links.
            listen: hooks into the model for this pass; no layer sums without messages then.
            flow: follows the pass.
            on: of layers that are done as a whole while there is a listener. None: none is.
        """
        if inputs.flat is not None and self.flat and listen is None and flow is None:
            return inputs.flat.logits()
        on = Pass(flow=flow) if on is None and listen is None and self.fuses else on
        whole = () if on is None else self._whole

        def prepare(undo: Undo) -> None:
            torch.set_grad_enabled(False)
            if listen is not None:
                listen(self.model, undo)
            elif self.fuses:
                sum_without_messages(self._plain_layers, undo)
            if on is not None:
                replace_forward(whole, on, undo)
            if flow is not None:
                flow.listen(self.model, undo, whole)

        try:
            with Borrowed(self.model, prepare, whole):
                plain = listen is not None or flow is not None
                return self.run(inputs, flow) if plain else self._run_by_rows(inputs)
        except NotWholeError:
            known, self._whole = self._whole, []
            if listen is not None:  # it has listened to some of the pass
                raise
        try:
            return self.logits(inputs, flow=flow)
        except Exception:  # the layers fail by themselves: too many nodes for the model, say
            self._whole = known
            raise

    def summed(self, inputs: ModelInput, data: Any, sums: Sums) -> Tensor:
        """Return the same on `data`, the inputs with marked edges; layers sum by `layers.kept`."""
        if not self._is_recorded:  # which layers are plain is found on the way
            self.record(inputs)
        listen = partial(sums.listen, self._plain_layers, self._whole)
        return self.logits(inputs.with_data(data), listen, on=sums)

    def record(
        self, inputs: ModelInput, flow: DataFlow | None = None, *, by_message: bool = False
    ) -> tuple[Tensor, ModelInput, Tracer]:
        """Return the logits, the inputs ready for `weighted`, and what was noted on the way.

        Args:
            inputs: the links.
            flow: follows what the logits rest on.
            by_message: every layer passes messages of its own, and none is done as a whole.
        """
        tracer = Tracer()
        if inputs.flat is not None and self.flat and flow is None and not by_message:
            made = dataclasses.replace(inputs, calls=(inputs.slots,), whole=inputs.flat.whole)
            return self.logits(inputs), made, tracer
        inputs = dataclasses.replace(inputs, flat=None)
        whole = () if by_message or not self.fuses else self._whole
        given = [store.edge_index for store in self.maker.edge_stores(inputs.data)]
        if flow is not None:
            given = [each.clone() for each in given]  # the relations are parts of one tensor
        data = self.maker.with_edges(inputs.data, tracer.trace(given))
        if flow is not None:
            for position, each in enumerate(given):
                relations = 1 << position if self._hetero else (1 << self.graph.num_relations) - 1
                for tensor in (each, *self.maker.edge_attributes(data, position)):
                    flow.mark(tensor, Flow(0, relations, False))
            asked = Flow(-1, 0, True)
            flow.mark(inputs.edge_label_index, asked)
            flow.mark(data.edge_label_type, asked)
        listen = partial(tracer.listen, whole=whole)
        on = Pass(tracer.begin, flow) if whole else None
        try:
            logits = self.logits(inputs.with_data(data), listen, flow, on)
        except NotWholeError:
            return self.record(inputs, flow)
        self._plain_layers, self._is_recorded = tracer.plain_layers(), True
        slots = torch.cat([inputs.slots, inputs.slots.new_tensor([-1])])
        calls = tuple(slots[numbers] for numbers in tracer.calls)
        made = dataclasses.replace(
            inputs, calls=calls, plain=tuple(tracer.plain), whole=tuple(whole)
        )
        return logits, made, tracer

    def weighted(self, recorded: ModelInput) -> AbstractContextManager[Callable[[Tensor], Tensor]]:
        """Give a function from edge weights to logits, with gradients.

        The weights are one per number in `recorded.calls`.

        The model is borrowed for as long as the context is open; nothing else is to run it then.
        """
        if recorded.flat is not None:
            return recorded.flat.weighted(recorded.calls)
        weighting = Weighting(recorded.calls, recorded.plain if self.fuses else ())

        def run(weights: Tensor) -> Tensor:
            logits = self._run_by_rows(recorded, lambda: weighting.set(weights))
            weighting.finish()
            return logits

        def prepare(undo: Undo) -> Callable[[Tensor], Tensor]:
            torch.set_grad_enabled(True)
            weighting.attach(self.model, undo, recorded.whole)
            replace_forward(recorded.whole, Pass(weighting.begin), undo)
            return run

        return Borrowed(self.model, prepare, recorded.whole)

    def flat_passes(self, batch: ComputationGraphs) -> FlatPasses | None:
        """What runs the model on graphs of a batch, if it is known as a whole."""
        if not self.flat or self.mode != "subgraphs" or self.forward is not None:
            return None
        return self._last.of(batch, self.model, self.maker, self.output, lambda: self.before_pass())

    def _run_by_rows(self, inputs: ModelInput, begin: Callable[[], None] = _nothing) -> Tensor:
        """Run the model on vectors that are computed when they are looked at, where it can be."""
        if self.by_rows and inputs.rings:
            begin()
            try:
                return self.run(inputs, data=inputs.by_rows)
            except (RowsError, TypeError, RuntimeError):  # if it is the model's own, it comes again
                self.by_rows = False
        begin()
        return self.run(inputs)

    def run(self, inputs: ModelInput, flow: DataFlow | None = None, data: Any = None) -> Tensor:
        """Return the logits by one pass of the model, which is borrowed by now."""
        self.before_pass()
        before, data = inputs.changes(), inputs.data if data is None else data
        output = self._forward(self.model, data, inputs.edge_label_index)
        if isinstance(output, NodeRows):
            output = output.whole()
        if flow is not None:
            flow.finish(output)
        if inputs.changes() != before:
            self.maker.forget_copies()
            raise inputs.edited_in_place(before)
        return as_logits(output, inputs.edge_label_index.shape[1], self.output)

    def edited_inputs(
        self,
        batch: ComputationGraphs,
        graph: Bools,
        edited: EditedGraphs,
        links: Longs,
        relation: Longs,
    ) -> ModelInput:
        """Put edited graphs side by side, with the graphs they are made from.

        Args:
            batch: computation graphs.
            graph: the edges of the batch that the graphs have before they are edited.
            edited: the edited graphs.
            links: per edited graph, the link it is of.
            relation: position in `graph.edge_types` of the link type of each link of the batch.
        """
        new_edges = np.stack([edited.slots, edited.src, edited.dst])
        edges = np.concatenate([batch.edges_of(links, graph), new_edges], axis=1)
        return self._side_by_side(batch, edges, edited.ends, relation[links], edited.node_of)

    def _side_by_side(
        self,
        batch: ComputationGraphs,
        edges: Longs,
        ends: Longs,
        relation: Longs,
        new: Ints | None = None,
        looks: Longs | None = None,
    ) -> ModelInput:
        """One graph of these edges; ends count the nodes of the batch, then the new ones."""
        graph = self.graph
        order = Csr.grouped(graph.relation[batch.edges[edges[0]]], len(graph.edge_types)).values
        slots, src, dst = edges = edges[:, order]

        @cache
        def make() -> ModelInput:
            placed = place_nodes(graph, batch, edges, ends, new, looks, self.shares_rim)
            number, far = placed.number, placed.num_outermost
            return self.maker.assemble(
                ids_by_type(graph, placed.nodes, placed.start), batch.edges[slots],
                np.stack([number[src], number[dst]]), slots, number[ends], relation,
                rings=placed.rings if self.by_rows and far >= self.least_spared else (),
            )  # fmt: skip

        passes = self.flat_passes(batch)
        if passes is None:
            return make()
        flat = passes.run(batch, edges, ends, new, looks)
        return ModelInput(lambda: make().make(), torch.from_numpy(slots), flat=flat)
