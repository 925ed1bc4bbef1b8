"""Passes of a model that is known as a whole (`FlatModel`) on the graphs of a batch.

What edits cannot change is computed once for each graph that is edited, and kept: the vectors of
its nodes, level by level. An edited graph costs the vectors of its own few nodes.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from pagelink.graph.computation_graph import ComputationGraphs
from pagelink.graph.edited_graphs import EditedGraphs
from pagelink.layers.fixed import fixed
from pagelink.layers.flat import FlatGraph, FlatModel, Level, by_kind, flat_model
from pagelink.model.borrowing import Borrowed
from pagelink.model.inputs import InputMaker, Output, as_logits
from pagelink.runtime.arrays import Bools, Ints, Longs
from pagelink.runtime.undo import Undo

T = TypeVar("T")

LEAST_FIXED = 50_000
"""Edges of links from which on it is worth while to compute once what no weight can change."""
MOST_KEPT = 4
"""Graphs whose vectors are kept at a time."""


@dataclass(frozen=True)
class _Frame:
    """What the graphs of some links have in common, whichever of their edges they have."""

    links: Bools
    first: Tensor
    """First vectors; a node has the same one in all graphs."""
    rows: list[Longs]
    """Per level from 1 on, the nodes of the batch whose vectors are kept."""
    kinds: list[Longs]
    """Their types."""
    place: list[Longs]
    """Per level from 0 on and node of the batch, its vector; -1: there is none."""
    edges: list[Longs]
    """Per level from 1 on, [4, num_edges]: slot, source in the level below, target, relation."""


@dataclass(frozen=True)
class _Kept:
    """Vectors of the nodes of graphs that are edited, below the last layer."""

    frame: _Frame
    vectors: list[Tensor]
    """Per level, as the layer above takes them."""


class FlatPasses:
    """Runs a model on graphs of links, of one batch in all calls.

    Args:
        model: what the model does.
        module: the model itself, which is borrowed for as long as passes take.
        maker: knows the whole graph.
        output: what the model returns.
        before_pass: called before each pass.
    """

    def __init__(
        self,
        model: FlatModel,
        module: nn.Module,
        maker: InputMaker,
        output: Output,
        before_pass: Callable[[], None],
    ) -> None:
        self.model, self.module, self._maker = model, module, maker
        self._output, self._before_pass = output, before_pass
        self._graph = graph = maker.graph
        relations = {edge_type: i for i, edge_type in enumerate(model.edge_types)}
        kinds = {node_type: i for i, node_type in enumerate(model.node_types)}
        self._relation = np.array([relations.get(t, -1) for t in graph.edge_types], dtype=np.int64)
        self._kind = np.array([kinds.get(t, -1) for t in graph.node_types], dtype=np.int64)
        self._frame: _Frame | None = None
        self._kept: dict[bytes, _Kept] = {}

    def _kinds(self, nodes: Ints | Longs) -> Longs:
        found: Longs = self._kind[self._graph.node_type_of[nodes]]
        return found

    def _relations(self, edges: Ints) -> Longs:
        """The relation of the model of flat edges, -1 where it has none such."""
        found: Longs = self._relation[self._graph.relation[edges]]
        return found

    def takes(self, batch: ComputationGraphs) -> bool:
        """Whether the links are of the types that the model scores."""
        ends = [self.model.node_types.index(t) for t in self.model.link_type[::2]]
        found = np.stack([self._kinds(batch.link_src), self._kinds(batch.link_dst)])
        return bool((found == np.array(ends)[:, None]).all())

    def run(
        self,
        batch: ComputationGraphs,
        edges: Longs,
        ends: Longs,
        new: Ints | None = None,
        looks: Longs | None = None,
    ) -> FlatRun:
        """Put graphs of links side by side; see `place_nodes` for the arguments."""
        slots, src, dst = edges
        own = batch.nodes if looks is None else looks
        nodes = (own if new is None else np.concatenate([own, own[new]])).astype(np.int64)
        table = np.stack([src, dst, self._relations(batch.edges[slots])])
        return FlatRun(
            self,
            FlatGraph.of(self.model, table, ends, nodes, self._kinds(nodes), self.first),
            len(slots),
        )

    def first(self, nodes: Longs) -> Tensor:
        """Return the first vectors of flat nodes, in ascending order."""
        graph, size = self._graph, self.model.layers[0].own.shape[1]
        bounds = np.searchsorted(nodes, graph.node_offset).tolist()
        parts = [torch.empty(0, size)]
        for i, node_type in enumerate(graph.node_types):
            first, last = bounds[i : i + 2]
            if node_type not in self.model.node_types:
                parts.append(torch.zeros(last - first, size))  # no relation of the model reads them
            elif last > first:
                x = self._maker.features(node_type, nodes[first:last] - graph.node_offset[i])
                parts.append(self.model.first(node_type, x).detach())
        return torch.cat(parts)

    def scores(self, graph: FlatGraph, weights: Tensor | None = None) -> Tensor:
        """Return the logits of links, while the model is borrowed."""
        self._before_pass()
        return as_logits(graph.scores(weights), graph.ends.shape[1], self._output)

    def borrowed(self, given: T, *, gradient: bool) -> Borrowed[T]:
        """Borrow the model for passes, and give something for as long."""

        def prepare(undo: Undo) -> T:
            torch.set_grad_enabled(gradient)
            return given

        return Borrowed(self.module, prepare, self.model.whole)

    def covers(self, graph: Bools, links: Longs) -> bool:
        """Whether what edits of these graphs cannot change is known."""
        kept = self._kept.get(graph.tobytes())
        return kept is not None and bool(kept.frame.links[links].all())

    def logits(
        self, batch: ComputationGraphs, graph: Bools, edited: EditedGraphs, links: Longs
    ) -> Tensor | None:
        """Return the logits of edited graphs; None: they have more than the graphs they are of.

        Args:
            batch: the computation graphs.
            graph: which edges of the batch the graphs have that are edited.
            edited: the edited graphs.
            links: per edited graph, its link.
        """
        with self.borrowed(None, gradient=False):
            self._before_pass()
            scores = self._edited(batch, graph, edited, links)
        return None if scores is None else as_logits(scores, len(links), self._output)

    def _edited(
        self, batch: ComputationGraphs, graph: Bools, edited: EditedGraphs, links: Longs
    ) -> Tensor | None:
        kept = self._kept_of(batch, graph, links)
        if kept is None:
            return None
        model, place_of = self.model, kept.frame.place
        total, src, dst = len(batch.nodes), edited.src, edited.dst - len(batch.nodes)
        relation = self._relations(batch.edges[edited.slots])
        kinds = self._kinds(batch.nodes[edited.node_of])
        is_new = src >= total
        # 1. From the ends down, the new nodes that are needed in each level.
        needed = np.zeros(len(kinds), dtype=np.bool_)
        needed[edited.ends - total] = True
        rows, which = [], []
        for _ in model.layers:
            rows.append(by_kind(np.flatnonzero(needed), kinds))
            which.append(np.flatnonzero(needed[dst] & (relation >= 0)))
            needed[src[which[-1]][is_new[which[-1]]] - total] = True
        # 2. And up again. At the bottom, a new node has the vector of the one it is a copy of.
        place, below = place_of[0][edited.node_of], kept.vectors[0]
        for depth, (mine, inside) in enumerate(zip(reversed(rows), reversed(which), strict=True)):
            if depth:
                place = np.where(place >= 0, place + len(kept.vectors[depth]), -1)
                below = torch.cat([kept.vectors[depth], model.between(below)])
            sources = src[inside]
            sources = np.where(
                is_new[inside],
                place[np.maximum(sources - total, 0)],
                place_of[depth][np.minimum(sources, total - 1)],
            )
            own = place[mine]
            if min(sources.min(initial=0), own.min(initial=0)) < 0:
                return None
            place = np.full(len(kinds), -1)
            place[mine] = np.arange(len(mine))
            level = Level(
                kinds[mine], own, sources, place[dst[inside]], relation[inside], len(below),
                len(model.edge_types),
            )  # fmt: skip
            below = level.vectors(model.layers[depth], below, None)
        of_src, of_dst = torch.from_numpy(place[edited.ends - total])
        return model.head(below.index_select(0, of_src), below.index_select(0, of_dst))

    def _kept_of(self, batch: ComputationGraphs, graph: Bools, links: Longs) -> _Kept | None:
        key = graph.tobytes()
        known = self._kept.pop(key, None)
        if known is None or not known.frame.links[links].all():
            frame = self._frame_of(batch, links)
            vectors = self._vectors(frame, graph)
            known = None if vectors is None else _Kept(frame, vectors)
        if known is not None:
            while len(self._kept) >= MOST_KEPT:
                del self._kept[next(iter(self._kept))]
            self._kept[key] = known
        return known

    def _vectors(self, frame: _Frame, graph: Bools) -> list[Tensor] | None:
        """The vectors of graphs that have some of the edges; None: an edge comes from nowhere."""
        vectors, num_relations = [frame.first], len(self.model.edge_types)
        for depth, (rows, edges) in enumerate(zip(frame.rows, frame.edges, strict=True)):
            _, sources, targets, relation = edges[:, graph[edges[0]]]
            if sources.min(initial=0) < 0:
                return None
            level = Level(
                frame.kinds[depth], frame.place[depth][rows], sources, targets, relation,
                len(vectors[-1]), num_relations,
            )  # fmt: skip
            found = level.vectors(self.model.layers[depth], vectors[-1], None)
            vectors.append(self.model.between(found))
        return vectors

    def _frame_of(self, batch: ComputationGraphs, links: Longs) -> _Frame:
        """What counts of the graphs of some links, and of all links so far."""
        chosen = np.zeros(batch.num_links, dtype=np.bool_)
        chosen[links] = True
        if self._frame is not None:
            if self._frame.links[links].all():
                return self._frame
            chosen |= self._frame.links
        every, depth = np.ones(len(batch.edges), dtype=np.bool_), len(self.model.layers)
        slots, src, dst = batch.edges_of(np.flatnonzero(chosen), every)
        relation, kinds = self._relations(batch.edges[slots]), self._kinds(batch.nodes)
        there = chosen[batch.link_of_nodes] & (kinds >= 0)
        # 1. At the bottom, a node has the same vector in all graphs.
        bottom = np.flatnonzero(there & (batch.hops <= depth))
        known, number = np.unique(batch.nodes[bottom].astype(np.int64), return_inverse=True)
        place = [np.full(len(batch.nodes), -1)]
        place[0][bottom] = number
        # 2. Level by level, nodes that are nearer to s and t.
        rows, edges = [], []
        for level in range(1, depth):
            rows.append(by_kind(np.flatnonzero(there & (batch.hops <= depth - level)), kinds))
            place.append(np.full(len(batch.nodes), -1))
            place[-1][rows[-1]] = np.arange(len(rows[-1]))
            inside = np.flatnonzero((place[-1][dst] >= 0) & (relation >= 0))
            sources = place[-2][src[inside]]
            edges.append(
                np.stack([slots[inside], sources, place[-1][dst[inside]], relation[inside]])
            )
        self._frame = _Frame(
            chosen, self.first(known), rows, [kinds[each] for each in rows], place, edges
        )
        return self._frame


@dataclass(frozen=True)
class FlatRun:
    """Graphs of links side by side, ready for passes."""

    passes: FlatPasses
    graph: FlatGraph
    num_edges: int
    last_fixed: dict[bytes, FlatGraph] = field(default_factory=dict)
    """The latest graph in which only some weights or features may be other, by which."""

    @property
    def whole(self) -> tuple[nn.Module, ...]:
        """Modules that are not run."""
        return self.graph.model.whole

    def logits(self) -> Tensor:
        """Return the logits of the links, without gradients."""
        with self.passes.borrowed(None, gradient=False):
            return self.passes.scores(self.graph)

    def weighted(
        self, calls: Sequence[Tensor]
    ) -> AbstractContextManager[Callable[[Tensor], Tensor]]:
        """Give a function from weights to logits, with gradients; see `LinkPredictor.weighted`."""
        (places,) = (call + 1 for call in calls)
        graph, free = self.graph, places > 0
        if len(free) >= LEAST_FIXED and 2 * int(free.sum()) < len(free):
            graph = self._fixed(free.numpy(), np.zeros(len(graph.first), dtype=np.bool_))
            places = torch.cat([places.new_zeros(1), places[free]])

        def run(weights: Tensor) -> Tensor:
            extended = torch.cat([weights.new_ones(1), weights])
            return self.passes.scores(graph, extended.index_select(0, places))

        return self.passes.borrowed(run, gradient=True)

    def looking(self, nodes: Ints, looks: Longs) -> FlatRun:
        """The same with other features: per flat node of one link, those of another one."""
        graph = self.graph
        moving = looks[np.searchsorted(nodes, graph.known)] != graph.known
        if sum(map(len, graph.which)) >= LEAST_FIXED and 2 * int(moving.sum()) < len(moving):
            graph = self._fixed(np.zeros(self.num_edges, dtype=np.bool_), moving)
        mine = looks[np.searchsorted(nodes, graph.known)]
        known, place = np.unique(mine, return_inverse=True)
        first = self.passes.first(known).index_select(0, torch.from_numpy(place))
        return replace(self, graph=replace(graph, first=first), last_fixed={})

    def _fixed(self, free: Bools, moving: Bools) -> FlatGraph:
        """The graph with what some weights and features cannot change computed once."""
        key = free.tobytes() + moving.tobytes()
        if key not in self.last_fixed:
            with self.passes.borrowed(None, gradient=False):
                made = fixed(self.graph, free, moving)
            self.last_fixed.clear()
            self.last_fixed[key] = made
        return self.last_fixed[key]


class LastPasses:
    """What runs a model on the graphs of a batch, for as long as there is the batch."""

    def __init__(self) -> None:
        self._batch: weakref.ref[ComputationGraphs] | None = None
        self._passes: FlatPasses | None = None

    def of(
        self,
        batch: ComputationGraphs,
        module: nn.Module,
        maker: InputMaker,
        output: Output,
        before_pass: Callable[[], None],
    ) -> FlatPasses | None:
        """Return it for a batch, with the weights that the model has at the first request.

        None: the model is not known as a whole. `FlatPasses` has the arguments.
        """
        if self._batch is None or self._batch() is not batch:
            self._passes, model = None, flat_model(module)
            if model is not None:
                passes = FlatPasses(model, module, maker, output, before_pass)
                self._passes = passes if passes.takes(batch) else None
            self._batch = weakref.ref(batch, self._forget)
        return self._passes

    def _forget(self, batch: object) -> None:
        if batch is self._batch:
            self._batch = self._passes = None

    def __reduce__(self) -> tuple[type[LastPasses], tuple[()]]:
        """A copy knows nothing."""
        return LastPasses, ()
