"""Power-Link whole: its triplet edge scorer, its loss and its search for paths.

After H. Chang, J. Ye, A. Lopez-Avila, J. Du and J. Li, "Path-based Explanation for Knowledge Graph
Completion" (KDD 2024), by its released code. A network that is new for every link says the mask of
an edge from the vectors of the edge (head, relation, tail) and of the link. It is trained by::

    0.8 * -log p(weighted graph) - log P_on + gamma * norm of the mask
    P_on = mean over lengths l = 2 .. order of (mean weight of the walks of length l)^(1 / l)

with the weight of a walk the product of the masks of its edges; the factor 0.8 is in the code and
not in the paper, which also counts walks of one edge. Paths are the cheapest ones by the sum of
1 / mask; degrees do not count. `path_loss="power"` of `Settings` is the loss alone, on a mask with
a value of its own for each edge.

Differs from Power-Link: models do not say what their vectors of nodes and relations are, so that
the head of an edge is the message along it and the tail what its target hears (`edge_vectors`), of
root mean square 1 over the link, and a relation is a vector that is learned; those of the link are
the means of what its source sends and its target hears. As the network sees one link only, its
vectors are the same for all edges. Walks do not pass through the ends of the link. The variant with
three distances instead of six vectors is left out: vectors of two relations may differ in length.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from pagelink.graph.lookup import slots_of_same_facts
from pagelink.rivals.edge_vectors import EdgeVectors, edge_vectors
from pagelink.rivals.rival import LOWEST, Options, Rival, link_rng, made_masks
from pagelink.runtime.arrays import Floats, Longs
from pagelink.search.mask_learning import LearnedMasks
from pagelink.search.path_loss import Walks
from pagelink.search.paths import FIXED_POINT, MAX_COST, FoundPaths, cheapest_paths
from pagelink.search.work import LEARNING, Work
from pagelink.settings import Settings


@dataclass(frozen=True)
class PowerLinkOptions(Options):
    """As released, but for `norm`, which is set for each model there."""

    epochs: int = 50
    learning_rate: float = 0.005
    hidden: int = 64
    pred_weight: float = 0.8
    path_weight: float = 1.0
    """Weight of -log P_on, 1 as released. It raises the masks of all walks, so that after many
    steps those that the model uses do not stand out; 0 is Power-Link's ablation without it."""
    norm: float = 0.02
    """Gamma."""
    order: int = 3
    """Walks of two edges up to this number count."""


class TripletEdgeScorer:
    """The network of one link: 6d -> hidden -> hidden -> 1 with relu between.

    The first layer is the sum of one for each part of its input: of the message and what is heard
    by relation, of the relation, and of the link.

    Args:
        vectors: by relation, the vectors of the edges of the link.
        query: the vectors of the link, as one.
        hidden: hidden units.
        generator: where the first weights are drawn from.
    """

    def __init__(
        self,
        vectors: dict[int, EdgeVectors],
        query: Tensor,
        hidden: int,
        generator: torch.Generator,
    ) -> None:
        self._vectors, self._query = vectors, query

        def drawn(rows: int, columns: int, fan_in: int) -> Tensor:
            values = 2 * torch.rand(rows, columns, generator=generator) - 1
            return (values / math.sqrt(max(fan_in, 1))).requires_grad_()

        self._first: dict[int, tuple[Tensor, Tensor, Tensor]] = {}
        for relation, own in vectors.items():
            sizes = own.sent.shape[1], own.heard.shape[1]
            width = sum(sizes) + len(query) + len(vectors)
            self._first[relation] = (
                drawn(sizes[0], hidden, width), drawn(sizes[1], hidden, width),
                drawn(1, hidden, width),
            )  # fmt: skip
        self._of_query = drawn(len(query), hidden, 3 * len(query))
        self._rest = [
            drawn(hidden, hidden, hidden), drawn(1, hidden, hidden),
            drawn(hidden, 1, hidden), drawn(1, 1, hidden),
        ]  # fmt: skip
        self.slots = torch.from_numpy(np.concatenate([own.slots for own in vectors.values()]))
        """The edges that have a mask, by position in the batch."""

    def parameters(self) -> list[Tensor]:
        """All weights."""
        return [*(w for own in self._first.values() for w in own), self._of_query, *self._rest]

    def logits(self) -> Tensor:
        """Mask logits, in the order of `slots`."""
        parts = []
        for relation, own in self._vectors.items():
            a, b, name = self._first[relation]
            parts.append(own.sent @ a + own.heard @ b + name)
        hidden = (torch.cat(parts) + self._query @ self._of_query).relu()
        second, bias, last, last_bias = self._rest
        found: Tensor = ((hidden @ second + bias).relu() @ last + last_bias)[:, 0]
        return found


def power_loss(log_weights: Tensor, log_counts: Tensor, order: int) -> Tensor:
    """Return -log P_on of each link: the loss of Power-Link, lengths 2 up to `order`.

    Args:
        log_weights: [links, lengths], log of the summed weights of all walks of length 1, 2, ...
        log_counts: log of their numbers; -inf where there is none.
        order: the longest walks that count.

    Returns:
        One number per link, 0 for a link without such walks; with gradients.

    Example:
        Four walks of two edges of weight 0.25 in total, none of three: P_on is 0.25 / 2, as a
        length without walks counts as 0.

        >>> weights = torch.tensor([[-math.inf, math.log(0.25), -math.inf]])
        >>> counts = torch.tensor([[-math.inf, math.log(4.0), -math.inf]])
        >>> round(float(power_loss(weights, counts, 3)), 4) == round(math.log(8), 4)
        True
    """
    last = min(order, log_counts.shape[1])
    counts = log_counts[:, 1:last].to(log_weights.dtype)
    there = torch.isfinite(counts)
    length = torch.arange(2, last + 1, device=counts.device)
    summed = torch.where(there, log_weights[:, 1:last], 0.0)
    mean = (summed - torch.where(there, counts, 0.0)) / length
    any_walk = there.any(1)
    # A link without any has no loss, and no gradient that is not a number.
    masked = torch.where(there, mean, -math.inf)
    masked = torch.where(any_walk[:, None], masked, 0.0)
    loss = math.log(max(order - 1, 1)) - torch.logsumexp(masked, dim=1)
    return torch.where(any_walk, loss, 0.0)


class PowerLinkWhole(Rival):
    """Power-Link for links; see `Rival` for the arguments."""

    name = "power-link"
    options_type = PowerLinkOptions

    @classmethod
    def own_settings(cls, settings: Settings, options: PowerLinkOptions) -> Settings:
        """Pruning as released: hubs, then the 2-core, and the model sees nothing else."""
        return settings.replace(core=2, hub_degree=200, remove_pruned=True)

    def masks(self, work: Work) -> LearnedMasks:
        """Train a network for each link, all of them side by side."""
        logits = np.full(len(work.batch.edges), LOWEST, dtype=np.float32)
        epochs = np.zeros(work.batch.num_links, dtype=np.int64)
        side_by_side = self.predictor.mode == "subgraphs"
        links = work.links
        for group in [links] if side_by_side else [links[i : i + 1] for i in range(len(links))]:
            if len(group):
                epochs[group] = self._learn(work, group, logits)
        return made_masks(work, logits, self._paths(work, logits), epochs=epochs)

    def _learn(self, work: Work, group: Longs, logits: Floats) -> int:
        """Learn the masks of some links, and write their logits; returns the epochs."""
        options: PowerLinkOptions = self.options
        batch, predictor = work.batch, self.predictor
        wanted = predictor.needed(batch) & work.kept
        inputs = predictor.inputs(batch, wanted, group, work.relation)
        recorded = predictor.record(inputs)[1]
        vectors = edge_vectors(predictor, batch, recorded)
        made = [self._scorer(work, link, vectors) for link in group.tolist()]
        scorers = [scorer for scorer in made if scorer is not None]
        if not scorers:
            return 0
        weights = [weight for scorer in scorers for weight in scorer.parameters()]
        slots = torch.cat([scorer.slots for scorer in scorers])
        walks = Walks(work.paths)
        rows = torch.from_numpy(np.searchsorted(walks.links, group))
        arc_slot = torch.from_numpy(_carried_slots(work, slots.numpy()))
        adam = torch.optim.Adam(weights, lr=options.learning_rate)
        size, done = len(recorded.slots), 0
        with predictor.weighted(recorded) as run:
            while done < options.epochs and work.timer.allows(size, LEARNING):
                with work.timer.step(size):
                    values = torch.cat([scorer.logits() for scorer in scorers])
                    every = torch.full((len(batch.edges) + 1,), LOWEST)
                    every = every.index_copy(0, slots, values)
                    mask = torch.sigmoid(values)
                    ones = torch.ones(len(batch.edges)).index_copy(0, slots, mask)
                    answers = run(ones.to(predictor.device)).cpu()
                    loss = options.pred_weight * F.softplus(-answers).sum()
                    log_weights = walks.log_weights(F.logsigmoid(every[arc_slot]))
                    of_walks = power_loss(log_weights, walks.log_counts, options.order)
                    loss = loss + options.path_weight * of_walks[rows].sum()
                    start = 0
                    for scorer in scorers:
                        own = mask[start : start + len(scorer.slots)]
                        loss = loss + options.norm * own.norm()
                        start += len(own)
                    gradients = torch.autograd.grad(loss, weights, allow_unused=True)
                    for weight, gradient in zip(weights, gradients, strict=True):
                        weight.grad = gradient
                    adam.step()
                done += 1
        with torch.no_grad():
            values = torch.cat([scorer.logits() for scorer in scorers])
        every = torch.full((len(batch.edges) + 1,), LOWEST).index_copy(0, slots, values)
        logits[slots.numpy()] = values.numpy()
        mine = np.isin(_arc_links(work), group)
        logits[work.paths.arc_slot[mine]] = every[arc_slot].numpy()[mine]
        return done

    def _scorer(
        self, work: Work, link: int, vectors: dict[int, EdgeVectors]
    ) -> TripletEdgeScorer | None:
        """A new network for a link, with the vectors of its edges; None: there are no messages."""
        batch = work.batch
        first, last = batch.edge_ptr[link : link + 2]
        own: dict[int, EdgeVectors] = {}
        for relation, found in vectors.items():
            here = np.flatnonzero((found.slots >= first) & (found.slots < last))
            if len(here):
                rows = torch.from_numpy(here)
                own[relation] = EdgeVectors(found.slots[here], found.sent[rows], found.heard[rows])
        if not own:
            return None
        scale = {}
        for role in ("sent", "heard"):
            squares = torch.cat([getattr(each, role).reshape(-1) for each in own.values()]) ** 2
            scale[role] = squares.mean().sqrt().clamp(min=1e-12)
        own = {
            relation: EdgeVectors(
                each.slots, each.sent / scale["sent"], each.heard / scale["heard"]
            )
            for relation, each in own.items()
        }
        query = []
        ends = np.searchsorted(
            batch.nodes[batch.node_ptr[link] : batch.node_ptr[link + 1]],
            [batch.link_src[link], batch.link_dst[link]],
        )
        for each in own.values():
            for values, at, end in (
                (each.sent, batch.src[each.slots], ends[0]),
                (each.heard, batch.dst[each.slots], ends[1]),
            ):
                there = torch.from_numpy(at == end)
                query.append(values[there].mean(0) if there.any() else torch.zeros(values.shape[1]))
        seed = int(link_rng(work, link).integers(2**31))
        generator = torch.Generator().manual_seed(seed)
        return TripletEdgeScorer(own, torch.cat(query), self.options.hidden, generator)

    def _paths(self, work: Work, logits: Floats) -> FoundPaths:
        """The cheapest paths by the sum of 1 / mask."""
        paths = work.paths
        mask = 1 / (1 + np.exp(-logits[paths.arc_slot].astype(np.float64)))
        cost = np.rint(np.minimum(1 / mask, MAX_COST) * FIXED_POINT).astype(np.int64)
        most = self.settings.paths_within_budget
        return cheapest_paths(paths, cost, most, work.links, work.timer.until)


def _arc_links(work: Work) -> Longs:
    """The link of each arc of the path graphs."""
    paths = work.paths
    counts = [paths.arcs_of(link) for link in range(paths.num_links)]
    return np.repeat(np.arange(paths.num_links), [each.stop - each.start for each in counts])


def _carried_slots(work: Work, slots: Longs) -> Longs:
    """Per arc, an edge of its fact that has a mask: its own, or its reverse; else one behind all.

    The model may hear a fact in one direction only.
    """
    graph, batch, paths = work.setup.graph, work.batch, work.paths
    has = np.zeros(len(batch.edges), dtype=np.bool_)
    has[slots] = True
    same = slots_of_same_facts(graph, batch, paths.arc_slot)
    arc = np.repeat(np.arange(len(paths.arc_slot)), np.diff(same.ptr))
    found = np.full(len(paths.arc_slot), len(batch.edges))
    usable = has[same.values]
    found[arc[usable]] = same.values[usable]
    return np.where(has[paths.arc_slot], paths.arc_slot, found)
