"""GraphMask-Link: gates on the messages of every layer, trained once over many links.

After M. S. Schlichtkrull, N. De Cao and I. Titov, "Interpreting Graph Neural Networks for NLP With
Differentiable Edge Masking" (ICLR 2021), and its released code. A small network per layer says from
the vectors of a message whether it is needed; one that is not is replaced by a learned vector, the
baseline, instead of being scaled to nothing. Gates are drawn from a hard concrete distribution and
are 0 or 1. As few as possible are open, under the condition that the prediction stays::

    max over l >= 0, min over gates and baselines:
        scale * mean chance of an open gate + l * mean of max(0, KL(p(G) || p(gated)) - allowance)

The condition is kept by a Lagrange multiplier. Layers get their gates one after the other, the last
layer first; one that has none yet sends its messages as they are.

Differs from GraphMask: models do not say what their node representations are, so that a gate looks
at the message and at what its target hears (`propagations`) instead of source, message and target;
a network has one layer of `hidden` units, not as many as a message has entries; there is one
network and one baseline per convolution, so one per relation where these are kept by relation; and
all epochs count, where the released code keeps the sparsest gates of those that pass a test.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn
from torch_geometric.nn import MessagePassing

from pagelink.graph.links import Link
from pagelink.model.borrowing import hook
from pagelink.model.inputs import ModelInput
from pagelink.rivals.edge_vectors import Propagation, propagations
from pagelink.rivals.pgexp import PGExpLink
from pagelink.rivals.rival import LOWEST, Options, made_masks
from pagelink.runtime.undo import Undo
from pagelink.search.mask_learning import LearnedMasks
from pagelink.search.work import Work

TEMPERATURE, LOW, HIGH, OPEN = 1 / 3, -0.2, 1.0, 3.0
"""Of the hard concrete distribution: its temperature, the ends it is stretched to, and what is
added to a gate's logit so that gates are open at the start."""
FIRST_MULTIPLIER, MULTIPLIER_RANGE, MULTIPLIER_RATE = 0.55, (-2.0, 30.0), 0.01
"""Of the Lagrange multiplier, before softplus."""

Layer = tuple[str, int]


@dataclass(frozen=True)
class GraphMaskOptions(Options):
    """How the gates are trained."""

    epochs: int = 20
    """For each layer."""
    learning_rate: float = 0.01
    scale: float = 5.0
    """Weight of the mean chance of an open gate."""
    allowance: float = 0.03
    """KL divergence up to which the prediction counts as unchanged."""
    hidden: int = 32
    num_links: int = 128
    """Training links at most; fewer where their computation graphs take too much memory."""
    links_a_step: int = 32


def hard_concrete(logits: Tensor, uniform: Tensor) -> tuple[Tensor, Tensor]:
    """Draw gates that are 0 or 1, with gradients, and say how likely each is to be open.

    Args:
        logits: of the gates.
        uniform: a random number between 0 and 1 for each.

    Returns:
        The gates, and the chance that each is above 0 before it is rounded.

    Example:
        >>> gates, chance = hard_concrete(torch.tensor([3.0, -3.0]), torch.tensor([0.5, 0.5]))
        >>> gates.tolist(), [round(c, 3) for c in chance.tolist()]
        ([1.0, 0.0], [0.972, 0.078])
    """
    drawn = torch.sigmoid((torch.logit(uniform) + logits) / TEMPERATURE)
    soft = (drawn * (HIGH - LOW) + LOW).clamp(0, 1)
    hard = (soft > 0.5).to(soft.dtype)
    chance = torch.sigmoid(logits - TEMPERATURE * math.log(-LOW / HIGH))
    return soft + (hard - soft).detach(), chance


def divergence(before: Tensor, after: Tensor) -> Tensor:
    """Return KL(p || q) of two predictions, given by their logits.

    Example:
        >>> round(float(divergence(torch.tensor(0.0), torch.tensor(math.log(3)))), 4)
        0.1438
    """
    p = torch.sigmoid(before)
    yes = F.logsigmoid(before) - F.logsigmoid(after)
    no = F.logsigmoid(-before) - F.logsigmoid(-after)
    return p * yes + (1 - p) * no


class Gates:
    """The networks and baselines of all layers.

    Args:
        widths: per layer, the length of what is sent and of what is heard.
        depth: per layer, how many layers its messages went through before, and one.
        hidden: hidden units.
        seed: of the first weights.
    """

    def __init__(
        self, widths: dict[Layer, tuple[int, int]], depth: dict[Layer, int], hidden: int, seed: int
    ) -> None:
        generator = torch.Generator().manual_seed(seed)
        self.depth = depth
        self._parts: dict[Layer, list[Tensor]] = {}

        def drawn(rows: int, columns: int) -> Tensor:
            """As torch starts a linear layer."""
            values = 2 * torch.rand(rows, columns, generator=generator) - 1
            return (values / math.sqrt(rows)).requires_grad_()

        for layer, (sent, heard) in widths.items():
            zeros = torch.zeros(hidden).requires_grad_(), torch.zeros(1).requires_grad_()
            baseline = (2 * torch.rand(sent, generator=generator) - 1) / math.sqrt(max(sent, 1))
            self._parts[layer] = [
                drawn(sent, hidden), drawn(heard, hidden), drawn(hidden, 1), *zeros,
                baseline.requires_grad_(),
            ]  # fmt: skip

    def __contains__(self, layer: Layer) -> bool:
        """Whether the layer was there in training."""
        return layer in self._parts

    def parameters(self, depth: int) -> list[Tensor]:
        """The weights and baselines of all layers of a depth."""
        return [
            part for layer, own in self._parts.items() if self.depth[layer] == depth for part in own
        ]

    def baseline(self, layer: Layer) -> Tensor:
        """What stands for messages that are left out."""
        return self._parts[layer][-1]

    def logits(self, messages: Propagation) -> Tensor:
        """One logit per message."""
        a, b, last, bias, last_bias, _ = self._parts[messages.layer]
        size = (a.shape[1],)
        hidden = F.layer_norm(messages.sent.float().cpu() @ a, size)
        hidden = (hidden + F.layer_norm(messages.heard.float().cpu() @ b, size)) / 2 + bias
        found: Tensor = (hidden.relu() @ last)[:, 0] + last_bias + OPEN
        return found


def depths(noted: Sequence[Propagation], num_edges: int) -> dict[Layer, int]:
    """Say of each propagation how many before it carried some of its edges, and one."""
    reached = torch.zeros(num_edges + 1, dtype=torch.long)  # the last one stands for no edge
    found = {}
    for messages in noted:
        edges = messages.edges.cpu().reshape(-1)
        edges = edges[edges >= 0]
        found[messages.layer] = 1 + int(reached[edges].max()) if len(edges) else 1
        reached[edges] = found[messages.layer]
    return found


class _Gating:
    """Replaces messages by baselines where gates are closed, for one pass.

    Args:
        drawn: per propagation, the gate of each message and the baseline; None: none has a gate.
    """

    def __init__(self, drawn: Sequence[tuple[Tensor, Tensor] | None]) -> None:
        self._drawn = drawn
        self._next = 0

    def attach(self, model: nn.Module, undo: Undo) -> None:
        """Hook into every layer."""
        for module in model.modules():
            if isinstance(module, MessagePassing):
                hook(undo, module, "propagate_forward_pre", self._begin)
                hook(undo, module, "message_forward", self._gate)

    def _begin(self, module: MessagePassing, inputs: Any) -> None:
        self._next += 1

    def _gate(self, module: MessagePassing, inputs: Any, message: Tensor) -> Tensor:
        drawn = self._drawn[self._next - 1]
        if drawn is None:
            return message
        rows = message.movedim(module.node_dim, 0)
        gate = drawn[0].to(rows).view(-1, *[1] * (rows.dim() - 1))
        baseline = drawn[1].to(rows).view(rows.shape[1:])
        return (gate * rows + (1 - gate) * baseline).movedim(0, module.node_dim)


class GraphMaskLink(PGExpLink):
    """GraphMask for links; see `PGExpLink` for the arguments.

    The mask of an edge is the highest chance of an open gate of its messages, over all layers.
    Beside each training link, one with a random other target is trained on.
    """

    name = "graphmask"
    options_type = GraphMaskOptions  # type: ignore[assignment]  # of no PGExplainer

    def masks(self, work: Work) -> LearnedMasks:
        """Say from the messages of each link which of its edges are needed."""
        gates = cast(Gates, self.fit(work.seed))
        best = torch.full((len(work.batch.edges),), LOWEST)
        with torch.no_grad():
            for messages in propagations(self.predictor, work.recorded):
                if messages.layer in gates:
                    logits = gates.logits(messages)
                    for edges in torch.atleast_2d(messages.edges.cpu()):
                        there = edges >= 0
                        best.scatter_reduce_(0, edges[there], logits[there], "amax")
        return made_masks(work, best.numpy())

    def _train(self, seed: int) -> Any:
        options: GraphMaskOptions = self.options
        gathered = list(self._gathered(seed))
        if not gathered:
            raise self._none_predicted()
        widths: dict[Layer, tuple[int, int]] = {}
        depth: dict[Layer, int] = {}
        for batch, recorded, *_ in gathered:
            noted = propagations(self.predictor, recorded)
            for layer, own in depths(noted, len(batch.edges)).items():
                depth[layer] = max(depth.get(layer, 1), own)
            for messages in noted:
                widths[messages.layer] = messages.sent.shape[1], messages.heard.shape[1]
        gates = Gates(widths, depth, options.hidden, seed)
        generator = torch.Generator().manual_seed(seed + 1)
        multiplier = torch.tensor(FIRST_MULTIPLIER, requires_grad=True)
        ascent = torch.optim.RMSprop([multiplier], lr=MULTIPLIER_RATE, centered=True, maximize=True)
        learned: list[Tensor] = []
        for first in range(max(depth.values()), 0, -1):
            learned += gates.parameters(first)
            adam = torch.optim.Adam(learned, lr=options.learning_rate)
            for _ in range(options.epochs):
                for number in torch.randperm(len(gathered), generator=generator).tolist():
                    _, recorded, *_ = gathered[number]
                    penalty, excess = self._losses(gates, first, recorded, generator)
                    if not excess.requires_grad:
                        continue
                    loss = options.scale * penalty + F.softplus(multiplier) * excess
                    of_gates = torch.autograd.grad(
                        loss, [*learned, multiplier], allow_unused=True
                    )  # nothing of the user's
                    for weight, gradient in zip([*learned, multiplier], of_gates, strict=True):
                        weight.grad = gradient
                    adam.step()
                    ascent.step()
                    with torch.no_grad():
                        multiplier.clamp_(*MULTIPLIER_RANGE)
        return gates

    def _drawn(self, seed: int) -> Iterator[Link]:
        """The links of `PGExpLink`, each with a random other target behind it.

        Were all of them predicted, a baseline could say so in the place of every message.
        """
        graph, rng = self.graph, np.random.default_rng((seed, 3))
        for link in super()._drawn(seed):
            yield link
            if link.message is None:
                kind = int(graph.node_type_of[link.dst])
                other = int(rng.integers(*graph.node_offset[kind : kind + 2]))
                if other != link.src:
                    fact = graph.link_fact(link.src, other, link.type)
                    yield Link(link.type, link.src, other, fact)

    def _losses(
        self,
        gates: Gates,
        first: int,
        recorded: ModelInput,
        generator: torch.Generator,
    ) -> tuple[Tensor, Tensor]:
        """The mean chance of an open gate, by layers of a depth, and what the condition lacks."""
        options: GraphMaskOptions = self.options
        whole = self.predictor.logits(recorded).cpu()
        chosen = torch.isfinite(whole)
        noted = propagations(self.predictor, recorded)
        drawn: list[tuple[Tensor, Tensor] | None] = []
        open_sum, count = torch.zeros(()), 0
        for messages in noted:
            if messages.layer not in gates or gates.depth[messages.layer] < first:
                drawn.append(None)
                continue
            logits = gates.logits(messages)
            uniform = torch.rand(len(logits), generator=generator).clamp(1e-6, 1 - 1e-6)
            gate, chance = hard_concrete(logits, uniform)
            # What the model adds by itself, such as a loop at each node, is no edge to leave out.
            own = (torch.atleast_2d(messages.edges.cpu()) >= 0).any(0)
            drawn.append((torch.where(own, gate, 1.0), gates.baseline(messages.layer)))
            open_sum, count = open_sum + chance[own].sum(), count + int(own.sum())
        # All messages at weight 1, and none of them summed without being written out.
        added = tuple(torch.full_like(messages.edges, -1) for messages in noted)
        plain = dataclasses.replace(recorded, calls=added, plain=(), whole=(), flat=None)
        with self.predictor.weighted(plain) as run, Undo() as undo:
            _Gating(drawn).attach(self.predictor.model, undo)
            answers = run(torch.empty(0, device=self.predictor.device)).cpu()[chosen]
        excess = torch.relu(divergence(whole[chosen], answers) - options.allowance).mean()
        return open_sum / max(count, 1), excess
