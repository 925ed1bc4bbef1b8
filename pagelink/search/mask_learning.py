"""Mask learning: prediction loss plus path loss, one Adam step per epoch for a batch of links.

Every edge of the pruned computation graph has a value M_e, its mask is sigmoid(M_e). The links of a
batch share the passes through the model and nothing else: losses are summed, the start comes from
the seed and the link, Adam works value by value.

The path loss is over the best paths by the current mask, or, as an alternative (`Walks`), over all
s-t walks of each length.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from pagelink.errors import ModelError
from pagelink.model.inputs import ModelInput
from pagelink.runtime.arrays import Bools, Doubles, Floats, Longs
from pagelink.search.paths import PathGraphs, best_paths
from pagelink.search.work import LEARNING, SEARCHING, Work

CONFIDENCE = 3.0
"""In the loss `gap` the unmasked graph has this logit, whatever the score of the model: the paper's
loss of a link that is predicted at 95 %."""


class Walks:
    """The walks from source to target in the path graphs of a batch.

    The entry (s, t) of the l-th power of a weighted adjacency is the sum, over all walks of l arcs
    from s to t, of the product of their weights; parallel arcs add up. One row of the power is
    enough, so a vector is multiplied by the adjacency l times, in log space.

    No walk goes through its source or target in between: path graphs have no such arcs. Sequences
    of relations that paths are held to do not count here.

    Args:
        paths: where walks may be.
        device: where weights are.
    """

    def __init__(self, paths: PathGraphs, device: torch.device | None = None) -> None:
        count = np.diff(paths.node_ptr)
        link = np.repeat(np.arange(paths.num_links), count)
        # A link has one more entry of arc_ptr than it has nodes.
        first = np.arange(len(paths.nodes)) + link
        out_degree = paths.arc_ptr[first + 1] - paths.arc_ptr[first]
        tail = np.repeat(np.arange(len(paths.nodes)), out_degree)
        head = paths.arc_dst + paths.node_ptr[link[tail]]
        self._max_length = paths.max_length
        self._num_nodes = len(paths.nodes)
        self._tail = torch.from_numpy(tail).to(device)
        self._head = torch.from_numpy(head.astype(np.int64)).to(device)
        self.links = np.flatnonzero(count)
        """The links that have walks."""
        start = paths.node_ptr[self.links]
        self._source = torch.from_numpy(start).to(device)
        counts = self.log_weights(torch.zeros(len(tail), dtype=torch.float64, device=device))
        self.log_counts = counts
        """[links, max_length]: log of the number of walks of length 1, 2, ...; -inf: there is none.
        """

    def log_weights(self, arc_log_weight: Tensor) -> Tensor:
        """Return the log of the summed weights of all walks of length 1 to l_max.

        Args:
            arc_log_weight: log of the weight of every arc, finite.

        Returns:
            [links, max_length], with gradients; -inf where there is no walk of the length.
        """
        # -inf has no usable gradient, so that unreached nodes have a finite stand-in for it.
        nowhere = -torch.finfo(arc_log_weight.dtype).max / 4
        reached = arc_log_weight.new_full((self._num_nodes,), nowhere)
        reached = reached.index_fill(0, self._source, 0.0)
        lengths = []
        for _ in range(self._max_length):
            step = reached[self._tail] + arc_log_weight
            with torch.no_grad():
                highest = torch.full_like(reached, nowhere).scatter_reduce(
                    0, self._head, step, "amax"
                )
            there = highest > nowhere / 2
            share = torch.where(there[self._head], (step - highest[self._head]).exp(), 0.0)
            total = torch.zeros_like(reached).index_add(0, self._head, share)
            reached = torch.where(there, highest + torch.where(there, total, 1.0).log(), nowhere)
            lengths.append(reached[self._source + 1])  # the target comes after the source
        found = torch.stack(lengths, dim=1)
        return torch.where(found > nowhere / 2, found, -math.inf)

    def loss(self, arc_log_weight: Tensor) -> Tensor:
        """Return, per link that has walks, minus the log of its mean weight of walks.

        Of each length, the mean weight of its walks, to the power of one over the length (so that
        long walks are not light by their length alone); of these, the mean over the lengths that
        there are.
        """
        there = torch.isfinite(self.log_counts)
        length = torch.arange(1, self._max_length + 1, device=arc_log_weight.device)
        summed = torch.where(there, self.log_weights(arc_log_weight), 0.0)
        counts = torch.where(there, self.log_counts, 0.0).to(summed.dtype)
        mean = torch.where(there, (summed - counts) / length, -math.inf)
        return there.sum(1).to(summed.dtype).log() - torch.logsumexp(mean, dim=1)


@dataclass(frozen=True)
class LearnedMasks:
    """The result of mask learning for a batch."""

    edge_logits: Floats
    """M, one value per edge of the batch; -inf where the edge was pruned."""
    epochs: Longs
    """Steps taken per link."""


def start_logits(work: Work) -> Floats:
    """Return M before learning: even, or the paper's noise, from the seed and the link alone."""
    graph, batch = work.setup.graph, work.batch
    logits = np.zeros(len(batch.edges), dtype=np.float32)
    if work.setup.settings.start == "even":
        return logits
    node_type = [
        (graph.node_types.index(t[0]), graph.node_types.index(t[2])) for t in graph.edge_types
    ]
    for i in range(batch.num_links):
        first, last = batch.edge_ptr[i : i + 2]
        edges = first + np.flatnonzero(work.kept[first:last])
        alive = np.zeros(batch.node_ptr[i + 1] - batch.node_ptr[i], dtype=np.bool_)
        alive[batch.src[edges]] = alive[batch.dst[edges]] = True
        nodes = batch.nodes[batch.node_ptr[i] : batch.node_ptr[i + 1]][alive]
        count = np.bincount(graph.node_type_of[nodes], minlength=len(graph.node_types))
        around = np.array([count[a] + (count[b] if a != b else 0) for a, b in node_type])
        deviation = np.sqrt(2) * np.sqrt(2 / np.maximum(2 * around, 1))
        rng = np.random.default_rng((work.seed, int(batch.link_src[i]), int(batch.link_dst[i])))
        relation = graph.relation[batch.edges[edges]]
        logits[edges] = rng.standard_normal(len(edges)) * deviation[relation]
    return logits


def learn_masks(work: Work) -> LearnedMasks:
    """Learn the masks of the links to explain, all of them side by side.

    Each epoch adds the gradients of
    L_pred (`Settings.pred_loss`) on the graph whose messages are weighted by the mask, and of
    L_path = -alpha * mean of M over E_path + beta * mean of M over the other edges,
    where E_path are the edges of the best paths by the current mask. A link whose E_path has not
    changed for `patience` epochs is done and leaves the model's input. When there is no time for
    another step, what was learned by then counts.
    """
    predictor, batch, settings = work.setup.predictor, work.batch, work.setup.settings
    start = start_logits(work)
    logits = np.where(work.kept, start, -np.inf).astype(np.float32)
    epochs = np.zeros(batch.num_links, dtype=np.int64)
    masks = LearnedMasks(logits, epochs)
    if settings.epochs == 0 or len(work.links) == 0:
        return masks
    state = _State(work, start)
    active = work.links
    wanted = predictor.needed(batch)
    recorded: ModelInput | None = work.recorded
    if settings.remove_pruned:
        wanted = wanted & work.kept
        recorded = None
    epoch = 0
    size = work.size
    while len(active):
        if not work.timer.allows(size, LEARNING):
            state.write(active, masks, epoch)
            return masks
        if recorded is not None and 2 * len(active) > batch.num_links:
            inside = np.arange(batch.num_links)
        else:
            inside = active
            recorded = predictor.record(predictor.inputs(batch, wanted, active, work.relation))[1]
        size = len(recorded.slots)
        with predictor.weighted(recorded.renumbered(state.number)) as run:
            recorded = None
            while len(active) and 2 * len(active) > len(inside):
                if not work.timer.allows(size, LEARNING):
                    state.write(active, masks, epoch)
                    return masks
                state.step(run, active, np.searchsorted(inside, active), size)
                epoch += 1
                done = state.steady[active] >= (settings.patience or settings.epochs)
                done |= epoch == settings.epochs
                state.write(active[done], masks, epoch)
                active = active[~done]
    return masks


class _State:
    """Values, optimizer and E_path of the links being learned."""

    def __init__(self, work: Work, start: Floats) -> None:
        settings, batch, paths = work.setup.settings, work.batch, work.paths
        self._settings = settings
        self._paths = paths
        self._timer = work.timer
        self._whole = torch.from_numpy(work.logits)
        self._unit = torch.full_like(self._whole, math.nan)
        self._has_gradient = work.setup.predictor.has_gradient
        learned = np.zeros(batch.num_links, dtype=np.bool_)
        learned[work.links] = True
        mine = work.kept & np.repeat(learned, np.diff(batch.edge_ptr))
        moved = batch.visible.copy()
        moved[paths.arc_slot] = True
        if settings.entropy or settings.size:
            moved[:] = True
        # Kept edges that no message and no path ever touches all move alike, by beta alone: one
        # value per link stands for them.
        self._idle_edges = mine & ~moved
        self._slots = np.flatnonzero(mine & moved)
        self._edge_ptr = batch.edge_ptr
        self._ptr = np.searchsorted(self._slots, batch.edge_ptr)
        links = np.arange(batch.num_links, dtype=np.int32)
        self._link_of = np.repeat(links, np.diff(self._ptr))
        idle = np.add.reduceat(np.append(self._idle_edges, False), batch.edge_ptr[:-1], dtype=int)
        self._num_kept = np.diff(self._ptr) + np.where(np.diff(batch.edge_ptr) > 0, idle, 0)
        # Arcs of links that are not learned have no value; the search never looks at them.
        last = len(self._slots) - 1
        value = np.minimum(np.searchsorted(self._slots, paths.arc_slot), last)
        self._arc_value = value.astype(np.int32)

        device = work.setup.predictor.device
        number = np.full(len(batch.edges), -1, dtype=np.int32)
        number[self._slots] = np.arange(len(self._slots))
        self.number = torch.from_numpy(number).to(device)
        self._values = torch.from_numpy(start[self._slots]).to(device).requires_grad_()
        self._idle = torch.zeros(batch.num_links, device=device).requires_grad_()
        self._adam = torch.optim.Adam([self._values, self._idle], lr=settings.learning_rate)
        self._best = np.zeros(len(self._slots), dtype=np.bool_)
        self._walks: Walks | None = None
        if settings.path_loss == "power":
            self._walks = Walks(paths, device)
            self._learned = torch.from_numpy(learned[self._walks.links]).to(device)
            self._arc_value_on_device = torch.from_numpy(value).to(device)
        self._epoch = 0
        self.steady = np.zeros(batch.num_links, dtype=np.int64)
        """Per link, for how many epochs E_path has not changed."""

    def step(
        self,
        run: Callable[[Tensor], Tensor],
        active: Longs,
        place: Longs,
        size: int,
    ) -> None:
        """Take one epoch for the active links, given their places among the model's answers."""
        with self._timer.step(size):
            gradient = self._model_gradient(run, active, place)
        path_gradient, idle_gradient = self._path_gradients(active)
        self._values.grad = gradient + torch.from_numpy(path_gradient).to(gradient.device)
        self._idle.grad = torch.from_numpy(idle_gradient).to(gradient.device)
        self._adam.step()

    def _model_gradient(
        self, run: Callable[[Tensor], Tensor], active: Longs, place: Longs
    ) -> Tensor:
        """The gradient of all that is a loss of the masks as they are, by M."""
        settings, values = self._settings, self._values
        mask = torch.sigmoid(values)
        loss: Tensor | float = 0.0
        if settings.pred_weight and self._has_gradient:
            answers = run(mask)[torch.from_numpy(place).to(values.device)]
            if settings.pred_loss == "gap":
                answers = CONFIDENCE + self._gap(answers, active)
            loss = settings.pred_weight * F.softplus(-answers).sum()
        if settings.entropy:
            entropy = mask * F.softplus(-values) + (1 - mask) * F.softplus(values)
            share = torch.from_numpy(1 / self._num_kept[self._link_of]).float().to(values.device)
            loss = loss + settings.entropy * (share * entropy).sum()
        if settings.size:
            loss = loss + settings.size * mask.sum()
        if self._walks is not None and settings.alpha:
            weight = F.logsigmoid(values[self._arc_value_on_device])
            loss = loss + settings.alpha * self._walks.loss(weight)[self._learned].sum()
        if isinstance(loss, Tensor) and loss.requires_grad:
            (gradient,) = torch.autograd.grad(loss, values, materialize_grads=True)
        else:
            gradient = torch.zeros_like(values)
        if not bool(torch.isfinite(gradient).all()):
            raise ModelError("The model's score has a gradient that is not finite.")
        return gradient

    def _gap(self, answers: Tensor, active: Longs) -> Tensor:
        """What masked scores lack to those of the unmasked graph, by what the first mask took."""
        whole = self._whole[active].to(answers)
        with torch.no_grad():
            first = (answers - whole).abs().double().cpu()
            unit = torch.where(self._unit[active].isnan(), first, self._unit[active])
            self._unit[active] = unit
        unit = torch.where(unit > 0, unit, 1.0).to(answers)
        return (answers - whole) / unit

    def _path_gradients(self, active: Longs) -> tuple[Floats, Floats]:
        """Gradients of L_path by M, and find E_path on the way."""
        settings = self._settings
        num_links = len(self.steady)
        up, down = np.zeros(num_links), np.zeros(num_links)
        up[active], down[active] = settings.alpha, settings.beta
        if self._walks is not None:  # what the walks add is part of the loss
            return self._signed(self._on_walks, 0 * up, down)
        if not settings.alpha and not settings.beta and settings.patience is None:
            # No path counts for anything, so none is searched.
            return self._signed(self._best, up, down)
        arc_logits = self._values.detach().cpu().numpy()[self._arc_value]
        found = best_paths(
            self._paths, arc_logits, settings.paths_per_epoch, active, self._timer.search_end()
        )
        if not found.complete.all():
            self._timer.stop(SEARCHING)
        best = self._edges_of(found.arcs)
        changed = np.bincount(self._link_of[best != self._best], minlength=num_links) > 0
        self.steady = np.where(changed, 0, self.steady + 1)
        self._best = best
        on_path = best
        if settings.path_schedule == "cycle":
            count = settings.paths_per_epoch - self._epoch % settings.paths_per_epoch
            on_path = self._edges_of(found.arcs[:, :count])
        self._epoch += 1

        return self._signed(on_path, up, down)

    def _signed(self, on_path: Bools, up: Doubles, down: Doubles) -> tuple[Floats, Floats]:
        """Gradients that raise the edges on paths and lower the others, and the idle ones."""
        if self._settings.path_loss != "sum":
            num_on_path = np.bincount(self._link_of[on_path], minlength=len(up))
            up = up / np.maximum(num_on_path, 1)
            down = down / np.maximum(self._num_kept - num_on_path, 1)
        rise, fall = -up.astype(np.float32), down.astype(np.float32)
        return np.where(on_path, rise[self._link_of], fall[self._link_of]), fall

    @cached_property
    def _on_walks(self) -> Bools:
        """The edges on some walk from source to target."""
        mine = self._slots[self._arc_value] == self._paths.arc_slot
        return self._edges_of(np.flatnonzero(mine))

    def _edges_of(self, arcs: Longs) -> Bools:
        on_path = np.zeros(len(self._slots), dtype=np.bool_)
        on_path[self._arc_value[arcs[arcs >= 0]]] = True
        return on_path

    def write(self, links: Longs, masks: LearnedMasks, epoch: int) -> None:
        """Write the values of links that are done to where the result is kept."""
        masks.epochs[links] = epoch
        logits = masks.edge_logits
        values, idle = self._values.detach().cpu().numpy(), self._idle.detach().cpu().numpy()
        for link in links.tolist():
            first, last = self._ptr[link], self._ptr[link + 1]
            logits[self._slots[first:last]] = values[first:last]
            edges = slice(self._edge_ptr[link], self._edge_ptr[link + 1])
            logits[edges][self._idle_edges[edges]] += idle[link]
