"""What facts are worth to the model: its logits after really removing them, or really adding them.

Many edited computation graphs of a batch go through the model in one pass. A mask of
0 is not removal (a mean still counts the edge), so edges are taken out of the model's input.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import torch

from pagelink.graph.computation_graph import ComputationGraphs
from pagelink.graph.edited_graphs import Edits, GraphEditor
from pagelink.model.inputs import ModelInput
from pagelink.model.predictor import LinkPredictor
from pagelink.runtime.arrays import Bools, Doubles, Longs
from pagelink.runtime.csr import segment_sums
from pagelink.runtime.timer import UNLIMITED, Timer

EDGES_PER_PASS = 400_000
"""Edges that go through the model at once, about."""


def edge_gradient(
    predictor: LinkPredictor, recorded: ModelInput, num_edges: int, without: Longs | None = None
) -> npt.NDArray[np.float32]:
    """Return the gradient of each link's logit by the weights of its edges, at weight 1.

    The weight of edges that are to be left out is 0, and so is what is returned for them. All is 0
    where the score of the model has no gradient.

    Args:
        predictor: the model.
        recorded: links of a batch as they went through the model.
        num_edges: edges of the batch.
        without: edges to leave out, by position in the batch.
    """
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
        self._editor = None
        if predictor.mode == "subgraphs" and predictor.shares_unedited and batch.num_hops:
            self._editor = GraphEditor(batch, batch.num_hops)

    def logits(self, graph: Bools, edits: Edits) -> Doubles:
        """Return the logit of the link of each edited graph, on that graph; NaN: there was no time.

        Args:
            graph: the graphs that are edited: which edges of the batch they have.
            edits: what is other in each edited graph.
        """
        answers = np.full(edits.num_graphs, np.nan)
        order = np.argsort(edits.link, kind="stable")
        sorted_edits = edits.chosen(order)
        for first, last, size in self._passes(graph, sorted_edits):
            with self._timer.step(size):
                inputs = self._inputs(graph, sorted_edits.part(first, last))
                logits = self._predictor.logits(inputs)
                answers[order[first:last]] = logits.cpu().double().numpy()
        return answers

    def errors(self, graph: Bools, edits: Edits) -> Doubles | None:
        """Return the standard error of what each edit does; None: that is exact."""
        return None

    def _inputs(self, graph: Bools, edits: Edits) -> ModelInput:
        if self._editor is None:
            wanted = graph.copy()
            wanted[edits.slots.values] ^= True
            moved = edits.table[:, edits.moved_edges.values]
            return self._predictor.inputs(self._batch, wanted, edits.link, self._relation, moved)
        return self._predictor.edited_inputs(
            self._batch, graph, self._editor.edit(edits, graph), edits.link, self._relation
        )

    def _passes(self, graph: Bools, edits: Edits) -> Iterator[tuple[int, int, float]]:
        """Cut edited graphs, in order of their links, into ranges that fit into one pass.

        Each with its number of edges, about. What the timer has no room for is left out.
        """
        links, costs = edits.link.tolist(), [0] * edits.num_graphs
        # Pass by pass, each graph has all nodes whatever its edges are, and takes about as long.
        whole = np.diff(self._batch.edge_ptr).tolist()
        if self._editor is not None:
            whole = segment_sums(graph, self._batch.edge_ptr).tolist()
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
