"""A batch of links on its way through the method: scored by the model, then pruned.

`Setup` is what stays the same for all links of an explainer, `Work` is one batch. The steps that
follow (learning, search, measuring, selection) and all rivals start from the same `Work`.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from pagelink.graph.batches import Batches
from pagelink.graph.computation_graph import ComputationGraphs
from pagelink.graph.links import Link
from pagelink.graph.lookup import slots_of_same_facts
from pagelink.graph.typed_graph import TypedGraph, spaced
from pagelink.model.edited_logits import EditedLogits, edge_gradient
from pagelink.model.inputs import ModelInput
from pagelink.model.predictor import LinkPredictor
from pagelink.model.receptive_field import ReceptiveField
from pagelink.runtime.arrays import Bools, Doubles, Floats, Longs
from pagelink.runtime.timer import UNLIMITED, OutOfTimeError, Timer
from pagelink.search.constraints import Constraints
from pagelink.search.paths import PathGraphs, allowed_facts, build_path_graphs
from pagelink.search.pruning import prune
from pagelink.settings import Settings

EXTRACTING = "the computation graph was extracted"
SCORING = "the link was scored"
SEARCHING = "paths were searched"
LEARNING = "the mask was learned"
MEASURING = "it was measured what paths are worth"
"""What is done to links, as a timer notes it when it cuts something."""
HUB_PERCENTILE, LEAST_HUB = 99.5, 100
"""A hub has a higher degree than this share of the nodes of its type, and than this number."""
HUB_SAMPLE = 100_000
"""Nodes of a type whose degrees are looked at, evenly spaced."""


@dataclass(frozen=True)
class Setup:
    """The model, the settings, and what follows from them."""

    predictor: LinkPredictor
    receptive_field: ReceptiveField
    """What the model sees of the graph."""
    batches: Batches
    """Makes computation graphs."""
    settings: Settings
    constraints: Constraints
    """What the settings demand of paths, compiled for the graph."""
    threshold: float | None = 0.0
    """A link with a lower logit is a predicted negative; None: there are none."""

    @property
    def graph(self) -> TypedGraph:
        """The flat graph."""
        return self.predictor.graph

    @property
    def noise(self) -> float:
        """Tau: the largest change of a score that is not noticed."""
        return self.receptive_field.noise.tau

    @property
    def passes_messages(self) -> bool:
        """Whether the score rests on messages along the edges of the graph."""
        return True

    @cached_property
    def hub_bars(self) -> Longs:
        """Per node type, the degree above which an inner node of a path is a hub."""
        graph, given = self.graph, self.settings.hub_degree
        if given is not None:
            return np.full(len(graph.node_types), given, dtype=np.int64)
        bars = []
        for first, last in pairwise(graph.node_offset.tolist()):
            some = first + spaced(last - first, HUB_SAMPLE)
            bars.append(np.percentile(graph.degree[some], HUB_PERCENTILE) if len(some) else 0)
        found: Longs = np.maximum(np.array(bars), LEAST_HUB).astype(np.int64)
        return found

    def path_graphs(
        self, batch: ComputationGraphs, kept: Bools | None = None, until: float | None = None
    ) -> PathGraphs:
        """Return where paths may be, within some edges of the batch (None: all of them).

        Raises:
            OutOfTimeError: they were not found by `until`.
        """
        settings, constraints = self.settings, self.constraints
        allowed = allowed_facts(self.graph, batch, kept, constraints)
        return build_path_graphs(
            self.graph, batch, allowed, settings.max_length, settings.max_degree, constraints, until
        )

    def relations(self, links: list[Link]) -> Longs:
        """Return, per link, the position of its link type in `graph.edge_types`."""
        return np.array([self.graph.edge_types.index(link.type) for link in links])

    def logits(
        self, batch: ComputationGraphs, relation: Longs, timer: Timer = UNLIMITED
    ) -> tuple[Doubles, ModelInput]:
        """Return f(G) of each link, and all of them as they went through the model."""
        predictor = self.predictor
        with timer.step(self.size(batch)):
            inputs = predictor.inputs(
                batch, predictor.needed(batch), np.arange(batch.num_links), relation
            )
            logits, recorded, _ = predictor.record(inputs)
            return logits.cpu().double().numpy(), recorded

    def edited(
        self,
        batch: ComputationGraphs,
        relation: Longs,
        timer: Timer = UNLIMITED,
        doing: str = MEASURING,
    ) -> EditedLogits:
        """Return what scores the links of a batch on edited graphs."""
        return EditedLogits(self.predictor, batch, relation, timer, doing)

    def gradient(
        self,
        batch: ComputationGraphs,
        recorded: ModelInput,
        without: Longs | None = None,
        only: Longs | None = None,
    ) -> Floats:
        """Return the gradient of each link's logit by the weights of its edges.

        Args:
            batch: the links.
            recorded: the same, as they went through the model.
            without: edges of the batch to leave out.
            only: edges of the batch that need one, see `edge_gradient`. None: all.
        """
        return edge_gradient(self.predictor, recorded, len(batch.edges), without, only)

    def size(self, batch: ComputationGraphs) -> int:
        """Return the number of edges of a batch that go through the model."""
        return int(self.predictor.needed(batch).sum())


@dataclass(frozen=True)
class Scored:
    """Links side by side, with what the model says of them."""

    setup: Setup
    batch: ComputationGraphs
    requested: list[Link]
    """The links of the batch, in its order."""
    relation: Longs
    """Per link, the position of its link type in `graph.edge_types`."""
    logits: Doubles
    """f(G): the link itself is taken out of the graph."""
    deployed: Doubles
    """The logits with the links in the graph, where they are in it; NaN: there was no time."""
    recorded: ModelInput
    """All links, as they went through the model."""
    timer: Timer

    @cached_property
    def size(self) -> int:
        """The number of edges that go through the model."""
        return self.setup.size(self.batch)

    def gradient(self, without: Longs | None = None) -> Floats:
        """Return the gradient of each link's logit by the weights of its edges.

        Args:
            without: edges of the batch to leave out.

        Raises:
            OutOfTimeError: there is no time for it.
        """
        return self._gradient if without is None else self._gradient_without(without)

    @cached_property
    def _gradient(self) -> Floats:
        """That on the whole graph, which several stages use."""
        found = self._gradient_without(None)
        found.flags.writeable = False
        return found

    def _gradient_without(self, without: Longs | None, only: Longs | None = None) -> Floats:
        if not self.timer.allows(self.size, MEASURING):
            raise OutOfTimeError
        with self.timer.step(self.size):
            return self.setup.gradient(self.batch, self.recorded, without, only)


@dataclass(frozen=True)
class Work(Scored):
    """Links that are scored and pruned."""

    kept: Bools
    """Edges that pruning kept."""
    paths: PathGraphs
    """Where paths may be."""
    unpruned: Bools
    """Links for which pruning was undone, as it would have cut source from target."""
    links: Longs
    """The links to explain: predicted, and with a path."""
    seed: int

    @cached_property
    def path_slots(self) -> Longs:
        """All edges of the facts that may lie on paths, in ascending order."""
        same = slots_of_same_facts(self.setup.graph, self.batch, self.paths.arc_slot)
        return np.unique(same.values)

    def path_gradient(self, without: Longs) -> Floats:
        """Return `gradient` on graphs without some facts of paths, for the other facts of paths.

        Where no graph is crowded, other facts have theirs, too.
        """
        only = self.path_slots if self.batch.crowded.any() else None
        return self._gradient_without(without, only)

    def is_measured(self) -> bool:
        """Whether the effects of paths are measured: requested, and there is something."""
        return self.setup.settings.measure and len(self.links) > 0


def score_links(
    setup: Setup, batch: ComputationGraphs, links: list[Link], timer: Timer = UNLIMITED
) -> Scored:
    """Ask the model for the scores of links, without and with the links in the graph.

    The first pass is taken in any case: without a score there is nothing to say of a link.
    """
    relation = setup.relations(links)
    logits, recorded = setup.logits(batch, relation, timer)
    deployed = logits.copy()
    inside = [i for i, link in enumerate(links) if link.fact >= 0]
    together = setup.predictor.mode == "subgraphs" and inside
    for group in [inside] if together else [[i] for i in inside]:
        in_place = [dataclasses.replace(links[i], fact=-1) for i in group]
        deployed[group] = np.nan
        try:
            there = ComputationGraphs.joined(setup.batches.extract(in_place, None, timer.until))
            if timer.allows(setup.size(there), SCORING):
                deployed[group] = setup.logits(there, relation[group], timer)[0]
        except OutOfTimeError:
            timer.stop(SCORING)
    return Scored(setup, batch, links, relation, logits, deployed, recorded, timer)


def prune_links(scored: Scored, seed: int) -> Work:
    """Prune, undo it for links that it would cut apart, and see which links can be explained."""
    setup, batch, until = scored.setup, scored.batch, scored.timer.last
    settings = setup.settings
    unpruned = np.zeros(batch.num_links, dtype=np.bool_)
    try:
        kept = prune(setup.graph, batch, settings.core, settings.hub_degree, until)
        paths = setup.path_graphs(batch, kept, until)
        has_path = paths.has_path(until)
        if settings.unpruned_fallback and not has_path.all():
            cut = np.repeat(~has_path, np.diff(batch.edge_ptr))
            paths = setup.path_graphs(batch, kept | cut, until)
            now = paths.has_path(until)
            unpruned = now & ~has_path
            kept |= np.repeat(unpruned, np.diff(batch.edge_ptr))
            has_path = now
    except OutOfTimeError:
        scored.timer.stop(SEARCHING)
        kept, unpruned = np.zeros_like(batch.visible), np.zeros_like(unpruned)
        paths, has_path = PathGraphs.empty(batch.num_links, settings.max_length), unpruned
    explained = np.isfinite(scored.logits) & has_path
    if setup.threshold is not None:
        explained &= scored.logits >= setup.threshold
    links = np.flatnonzero(explained)
    given = {each.name: getattr(scored, each.name) for each in dataclasses.fields(scored)}
    return Work(**given, kept=kept, paths=paths, unpruned=unpruned, links=links, seed=seed)
