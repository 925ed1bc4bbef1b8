"""Mask learning: prediction loss plus path loss, one Adam step per epoch for a batch of links.

Every edge of the pruned computation graph has a value M_e, its mask is sigmoid(M_e). The links of a
batch share the passes through the model and nothing else: losses are summed, the start comes from
the seed and the link, Adam works value by value.

The path loss (`path_loss`) is over the best paths by the current mask, or over all s-t walks of
each length.
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
from torch.optim.adam import adam

from pagelink.errors import ModelError
from pagelink.model.inputs import ModelInput
from pagelink.runtime.arrays import Doubles, Floats, Longs
from pagelink.runtime.devices import to_device, to_host
from pagelink.search.path_loss import Walks, path_gradient
from pagelink.search.paths import best_paths
from pagelink.search.unbounded_paths import UnboundedPaths
from pagelink.search.work import LEARNING, SEARCHING, Work

CONFIDENCE = 3.0
"""In the loss `gap` the unmasked graph has this logit, whatever the score of the model: the paper's
loss of a link that is predicted at 95 %."""
STILL = 1e-3
"""In the loss `released` a link is done when a step moves the norm of its mask by less."""


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
        # All nodes: the released code prunes edges, and leaves the nodes where they are.
        nodes = batch.nodes[batch.node_ptr[i] : batch.node_ptr[i + 1]]
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
    L_path (`Settings.path_loss`), which raises the edges of the best paths by the current mask,
    E_path, and lowers the others. A link whose E_path has not changed for `patience` epochs is done
    and leaves the model's input. When there is no time for another step, what was learned by then
    counts.
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
                done |= state.still[active] | (epoch == settings.epochs)
                state.write(active[done], masks, epoch)
                active = active[~done]
    return masks


class _Adam:
    """`torch.optim.Adam` by its functional form: the class imports all of PyTorch's compiler."""

    def __init__(self, values: list[Tensor], lr: float) -> None:
        self._values, self._lr = values, lr
        self._first = [torch.zeros_like(each) for each in values]
        self._second = [torch.zeros_like(each) for each in values]
        self._steps = [torch.zeros(()) for _ in values]

    @torch.no_grad()
    def step(self, gradients: list[Tensor]) -> None:
        adam(
            self._values, gradients, self._first, self._second, [], self._steps, amsgrad=False,
            beta1=0.9, beta2=0.999, lr=self._lr, weight_decay=0.0, eps=1e-8, maximize=False,
        )  # fmt: skip


class _State:
    """Values, optimizer and E_path of the links being learned."""

    def __init__(self, work: Work, start: Floats) -> None:
        settings, batch, paths = work.setup.settings, work.batch, work.paths
        self._settings = settings
        self._paths = paths
        self._timer = work.timer
        self._whole = torch.from_numpy(work.logits)
        self._unit: Tensor | None = None
        self._has_gradient = work.setup.predictor.has_gradient
        learned = np.zeros(batch.num_links, dtype=np.bool_)
        learned[work.links] = True
        mine = work.kept & np.repeat(learned, np.diff(batch.edge_ptr))
        moved = batch.visible.copy()
        if batch.crowded.any():
            # What paths cannot use of a crowded graph stays in the model's input at weight 1.
            moved &= ~np.repeat(batch.crowded, np.diff(batch.edge_ptr))
            moved[work.path_slots] |= batch.visible[work.path_slots]
        moved[paths.arc_slot] = True
        self._unbounded = UnboundedPaths(work) if settings.path_loss == "released" else None
        if settings.entropy or settings.size or self._unbounded is not None:
            moved[:] = True
        # Kept edges that no weighted message and no path ever touches all move alike, by beta
        # alone: one value per link stands for them.
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
        self._number = number
        self.number = torch.from_numpy(number).to(device)
        self._values = torch.from_numpy(start[self._slots]).to(device).requires_grad_()
        self._idle = torch.zeros(batch.num_links, device=device).requires_grad_()
        self._on_host = to_host([self._values, self._idle])
        self._adam = _Adam([self._values, self._idle], settings.learning_rate)
        self._best = np.zeros(len(self._slots), dtype=np.int64)
        self._walks: Walks | None = None
        if settings.path_loss == "power":
            self._walks = Walks(paths, device)
            self._learned = torch.from_numpy(learned[self._walks.links]).to(device)
            self._arc_value_on_device = torch.from_numpy(value).to(device)
        self._epoch = 0
        self.steady = np.zeros(batch.num_links, dtype=np.int64)
        """Per link, for how many epochs E_path has not changed."""
        self.still = np.zeros(batch.num_links, dtype=np.bool_)
        """Per link, whether the last step hardly moved the mask; only for the loss `released`."""
        self._norm = self._norms()

    def step(
        self,
        run: Callable[[Tensor], Tensor],
        active: Longs,
        place: Longs,
        size: int,
    ) -> None:
        """Take one epoch for the active links, given their places among the model's answers."""
        # One copy each way: what the paths say goes to the device, the values come back.
        by_path, idle, links, answers = to_device(
            [*self._path_gradients(active), active, place], self._values.device
        )
        with self._timer.step(size):
            gradient = self._model_gradient(run, links, answers)
        self._adam.step([gradient + by_path, idle])
        finite = torch.isfinite(gradient).all().float().view(1)
        *self._on_host, (is_finite,) = to_host([self._values, self._idle, finite])
        if not is_finite:
            raise ModelError("The model's score has a gradient that is not finite.")
        if self._unbounded is not None:
            before, self._norm = self._norm, self._norms()
            self.still = np.abs(self._norm - before) < STILL

    def _norms(self) -> Doubles:
        """The Euclidean norm of the mask of each link."""
        mask = torch.sigmoid(torch.from_numpy(self._on_host[0])).numpy().astype(np.float64)
        squares = np.bincount(self._link_of, weights=mask**2, minlength=len(self.steady))
        norms: Doubles = np.sqrt(squares)
        return norms

    def _model_gradient(
        self, run: Callable[[Tensor], Tensor], active: Tensor, place: Tensor
    ) -> Tensor:
        """The gradient of all that is a loss of the masks as they are, by M."""
        settings, values = self._settings, self._values
        mask = torch.sigmoid(values)
        loss: Tensor | float = 0.0
        if settings.pred_weight and self._has_gradient:
            answers = run(mask)[place]
            if settings.pred_loss == "gap":
                answers = CONFIDENCE + self._gap(answers, active)
            loss = settings.pred_weight * F.softplus(-answers).sum()
        if settings.entropy:
            entropy = mask * F.softplus(-values) + (1 - mask) * F.softplus(values)
            loss = loss + settings.entropy * (self._share * entropy).sum()
        if settings.size:
            loss = loss + settings.size * mask.sum()
        if self._walks is not None and settings.alpha:
            weight = F.logsigmoid(values[self._arc_value_on_device])
            loss = loss + settings.alpha * self._walks.loss(weight)[self._learned].sum()
        if isinstance(loss, Tensor) and loss.requires_grad:
            (gradient,) = torch.autograd.grad(loss, values, materialize_grads=True)
        else:
            gradient = torch.zeros_like(values)
        return gradient

    @cached_property
    def _share(self) -> Tensor:
        """Per edge, one over the number of kept edges of its link."""
        share = torch.from_numpy(1 / self._num_kept[self._link_of])
        return share.float().to(self._values.device)

    def _gap(self, answers: Tensor, active: Tensor) -> Tensor:
        """What masked scores lack to those of the unmasked graph, by what the first mask took."""
        if self._unit is None:
            self._whole = self._whole.to(answers)
            self._unit = torch.full_like(self._whole, math.nan)
        whole = self._whole[active]
        with torch.no_grad():
            unit = self._unit[active]
            unit = torch.where(unit.isnan(), (answers - whole).abs(), unit)
            self._unit[active] = unit
        return (answers - whole) / torch.where(unit > 0, unit, 1.0)

    def _path_gradients(self, active: Longs) -> tuple[Floats, Floats]:
        """The gradients of L_path by M; E_path is found on the way."""
        settings = self._settings
        num_links = len(self.steady)
        up, down = np.zeros(num_links), np.zeros(num_links)
        up[active], down[active] = settings.alpha, settings.beta
        logits, times = self._on_host[0], self._best
        if self._walks is not None:  # what the walks add is part of the loss
            times, up = self._on_walks, 0 * up
        elif settings.alpha or settings.beta or settings.patience is not None:
            # Otherwise no path counts for anything, so none is searched.
            times = self._search(logits, active)
        return path_gradient(
            settings.path_loss, logits, times, self._link_of, up, down, self._num_kept
        )

    def _search(self, logits: Floats, active: Longs) -> Longs:
        """Find the best paths; per edge, the number of those of this epoch that it lies on."""
        settings, until = self._settings, self._timer.search_end()
        if self._unbounded is None:
            found = best_paths(
                self._paths, logits[self._arc_value], settings.paths_per_epoch, active, until
            )
            complete = found.complete
            steps = np.where(found.arcs >= 0, self._arc_value[found.arcs], -1)
        else:
            whole = np.full(len(self._number), -np.inf, dtype=np.float32)
            whole[self._slots] = logits
            slots, complete = self._unbounded.best(whole, settings.paths_per_epoch, active, until)
            steps = np.where(slots >= 0, self._number[slots], -1)
        if not complete.all():
            self._timer.stop(SEARCHING)
        best = self._times(steps)
        changed = (best > 0) != (self._best > 0)
        num_changed = np.bincount(self._link_of[changed], minlength=len(self.steady))
        self.steady = np.where(num_changed > 0, 0, self.steady + 1)
        self._best = best
        count = settings.paths_per_epoch
        if settings.path_schedule == "cycle":
            count -= self._epoch % settings.paths_per_epoch
        self._epoch += 1
        return best if count == settings.paths_per_epoch else self._times(steps[:, :count])

    @cached_property
    def _on_walks(self) -> Longs:
        """Per edge, 1 if it is on some walk from source to target."""
        mine = self._slots[self._arc_value] == self._paths.arc_slot
        return np.minimum(self._times(self._arc_value[mine]), 1)

    def _times(self, steps: Longs) -> Longs:
        return np.bincount(steps[steps >= 0], minlength=len(self._slots))

    def write(self, links: Longs, masks: LearnedMasks, epoch: int) -> None:
        """Write the values of links that are done to where the result is kept."""
        masks.epochs[links] = epoch
        logits = masks.edge_logits
        values, idle = self._on_host
        for link in links.tolist():
            first, last = self._ptr[link], self._ptr[link + 1]
            logits[self._slots[first:last]] = values[first:last]
            edges = slice(self._edge_ptr[link], self._edge_ptr[link + 1])
            logits[edges][self._idle_edges[edges]] += idle[link]
