"""What facts are worth to the model: its logits after really removing them, or really adding them.

Many edited computation graphs of a batch go through the model in one pass. A mask of
0 is not removal (a mean still counts the edge), so edges are taken out of the model's input.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from pagelink.graph.computation_graph import ComputationGraphs
from pagelink.graph.edited_graphs import Edits, GraphEditor
from pagelink.layers.node_rows import RowsError
from pagelink.layers.whole import NotWholeError
from pagelink.model.inputs import ModelInput
from pagelink.model.kept_sums import KeptPass
from pagelink.model.predictor import LinkPredictor
from pagelink.runtime.arrays import Bools, Doubles, Longs
from pagelink.runtime.csr import segment_sums
from pagelink.runtime.timer import UNLIMITED, Timer

EDGES_PER_PASS = 400_000
"""Edges that go through the model at once, about."""
CHANGES_PER_PASS = 100_000
"""Edges that are different in all edited graphs that go through the model at once, about."""
MOST_KEPT = 2
"""Passes that are kept: G and G0, mostly."""
WORTH_OF_A_CHANGE = 8
"""An edge that is different takes as long as this number of edges of a pass that is kept, about."""


def edge_gradient(
    predictor: LinkPredictor,
    recorded: ModelInput,
    num_edges: int,
    without: Longs | None = None,
    only: Longs | None = None,
) -> npt.NDArray[np.float32]:
    """Return the gradient of each link's logit by the weights of its edges, at weight 1.

    The weight of edges that are to be left out is 0, and so is what is returned for them. All is 0
    where the score of the model has no gradient.

    Args:
        predictor: the model.
        recorded: links of a batch as they went through the model.
        num_edges: edges of the batch.
        without: edges to leave out, by position in the batch.
        only: edges whose gradient is needed, those to leave out among them, in ascending order;
            what is returned for the others is 0. None: all edges.
    """
    if only is not None:
        number = torch.full((num_edges,), -1, dtype=torch.int32)
        number[torch.from_numpy(only)] = torch.arange(len(only), dtype=torch.int32)
        some = recorded.renumbered(number.to(predictor.device))
        gone = None if without is None else np.searchsorted(only, without)
        every = np.zeros(num_edges, dtype=np.float32)
        every[only] = edge_gradient(predictor, some, len(only), gone)
        return every
    weights = torch.ones(num_edges, device=predictor.device)
    if not predictor.has_gradient:
        return np.zeros(num_edges, dtype=np.float32)
    if without is not None:
        weights[torch.from_numpy(without).to(weights.device)] = 0
    weights.requires_grad_()
    with predictor.weighted(recorded) as run:
        logits = run(weights)
        gradient = torch.zeros_like(weights)
        if logits.requires_grad:
            (gradient,) = torch.autograd.grad(logits.sum(), weights, materialize_grads=True)
    found: npt.NDArray[np.float32] = gradient.float().cpu().numpy()
    if without is not None:
        found[without] = 0
    return np.nan_to_num(found, posinf=0.0, neginf=0.0)


class EditedLogits:
    """Asks the model about edited graphs of the links of a batch.

    Args:
        predictor: the model.
        batch: the computation graphs.
        relation: per link, the position of its link type in `graph.edge_types`.
        timer: when to stop.
        doing: what is done to the links, as the timer notes it.
    """

    def __init__(
        self,
        predictor: LinkPredictor,
        batch: ComputationGraphs,
        relation: Longs,
        timer: Timer = UNLIMITED,
        doing: str = "",
    ) -> None:
        self._predictor = predictor
        self._batch = batch
        self._relation = relation
        self._timer, self._doing = timer, doing
        self.complete = True
        """Whether there was time for all that was asked so far."""
        self._editor = self._flat = None
        if predictor.mode == "subgraphs" and predictor.shares_unedited and batch.num_hops:
            self._editor = GraphEditor(batch, batch.num_hops)
            self._flat = predictor.flat_passes(batch)
        self._kept: list[KeptPass] = []
        """The latest passes on graphs that were edited."""

    def logits(self, graph: Bools, edits: Edits) -> Doubles:
        """Return the logit of the link of each edited graph, on that graph; NaN: there was no time.

        Args:
            graph: the graphs that are edited: which edges of the batch they have.
            edits: what is other in each edited graph.
        """
        if self._predictor.keeps_sums and self._is_large(edits):
            try:
                return self._by_sums(graph, edits)
            except (RowsError, NotWholeError, TypeError, RuntimeError):
                # If it is the model's own, it comes again.
                self._predictor.keeps_sums = False
        answers = np.full(edits.num_graphs, np.nan)
        order = np.argsort(edits.link, kind="stable")
        sorted_edits = edits.chosen(order)
        for first, last, size in self._passes(graph, sorted_edits):
            with self._timer.step(size):
                logits = self._logits(graph, sorted_edits.part(first, last))
                answers[order[first:last]] = logits.cpu().double().numpy()
        return answers

    def _is_large(self, edits: Edits) -> bool:
        """Whether the edited graphs have enough edges to be computed by sums that change."""
        if self._editor is None or not edits.num_graphs:
            return False
        return int(self._editor.most_edges(edits).sum()) >= self._predictor.least_kept

    def _by_sums(self, graph: Bools, edits: Edits) -> Doubles:
        """The same, by the sums that are different in the edited graphs."""
        answers = np.full(edits.num_graphs, np.nan)
        kept = self._kept_pass(graph, edits)
        if kept is None:
            self.complete = False
            return answers
        edits = kept.edits_of(graph, edits)
        changes = np.diff(edits.slots.ptr) + np.diff(edits.moved_edges.ptr)
        number = np.cumsum(2 + changes) // CHANGES_PER_PASS
        starts = np.flatnonzero(np.diff(number, prepend=-1)).tolist()
        for first, last in pairwise([*starts, edits.num_graphs]):
            # What it takes says nothing about passes on whole graphs: the timer does not note it.
            if not self._timer.allows(float(changes[first:last].sum()), self._doing):
                self.complete = False
                break
            answers[first:last] = kept.logits(edits.part(first, last)).double().numpy()
        return answers

    def _kept_pass(self, graph: Bools, edits: Edits) -> KeptPass | None:
        """A pass on the graphs that are edited, or on nearly the same; None: there is no time."""
        links = np.unique(edits.link)
        size = float(segment_sums(graph, self._batch.edge_ptr)[links].sum())
        near = [(kept.difference(graph, edits.link), kept) for kept in self._kept]
        cost, nearest = min(near, key=lambda each: each[0], default=(math.inf, None))
        if nearest is not None and (cost == 0 or cost * WORTH_OF_A_CHANGE <= size):
            return nearest
        if not self._timer.allows(size, self._doing):
            return None
        assert self._editor is not None
        with self._timer.step(size):
            made = KeptPass(
                self._predictor, self._batch, graph, links, self._relation, self._editor
            )
        self._kept = [made, *self._kept[: MOST_KEPT - 1]]
        return made

    def errors(self, graph: Bools, edits: Edits) -> Doubles | None:
        """Return the standard error of what each edit does; None: that is exact."""
        return None

    def _logits(self, graph: Bools, edits: Edits) -> Tensor:
        predictor, batch, relation = self._predictor, self._batch, self._relation
        if self._editor is None:
            wanted = graph.copy()
            wanted[edits.slots.values] ^= True
            moved = edits.table[:, edits.moved_edges.values]
            return predictor.logits(predictor.inputs(batch, wanted, edits.link, relation, moved))
        edited = self._editor.edit(edits, graph)
        if self._flat is not None:
            found = self._flat.logits(batch, graph, edited, edits.link)
            if found is not None:
                return found
        return predictor.logits(predictor.edited_inputs(batch, graph, edited, edits.link, relation))

    def _passes(self, graph: Bools, edits: Edits) -> Iterator[tuple[int, int, float]]:
        """Cut edited graphs, in order of their links, into ranges that fit into one pass.

        Each with its number of edges, about. What the timer has no room for is left out.
        """
        links, costs = edits.link.tolist(), [0] * edits.num_graphs
        # Pass by pass, each graph has all nodes whatever its edges are, and takes about as long.
        whole = np.diff(self._batch.edge_ptr).tolist()
        if self._editor is not None:
            known = self._flat is not None and self._flat.covers(graph, np.unique(edits.link))
            sizes = segment_sums(graph, self._batch.edge_ptr)
            whole = (0 * sizes if known else sizes).tolist()
            costs = self._editor.most_edges(edits).tolist()
        first = 0
        while first < len(links):
            # The graph that is edited goes through the model once, with its edited copies.
            size = whole[links[first]] + costs[first]
            if not self._timer.allows(size, self._doing):
                self.complete = False
                return
            room, last = min(float(EDGES_PER_PASS), self._timer.room()), first + 1
            while self._editor is not None and last < len(links):
                same = links[last] == links[last - 1]
                more = costs[last] + (0 if same else whole[links[last]])
                if size + more > room:
                    break
                size, last = size + more, last + 1
            yield first, last, size
            first = last
