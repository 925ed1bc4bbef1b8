"""A batch of links on its way through the method: scored by the model, then pruned.

`Setup` is what stays the same for all links of an explainer, `Work` is one batch. The steps that
follow (learning, search, measuring, selection) and all rivals start from the same `Work`.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np

from pagelink.graph.batches import Batches
from pagelink.graph.computation_graph import ComputationGraphs
from pagelink.graph.links import Link
from pagelink.graph.typed_graph import TypedGraph
from pagelink.model.edited_logits import edge_gradient
from pagelink.model.inputs import ModelInput
from pagelink.model.predictor import LinkPredictor
from pagelink.model.receptive_field import ReceptiveField
from pagelink.runtime.arrays import Bools, Doubles, Floats, Longs
from pagelink.runtime.timer import Timer
from pagelink.search.constraints import Constraints
from pagelink.search.paths import PathGraphs, allowed_facts, build_path_graphs
from pagelink.search.pruning import prune
from pagelink.settings import Settings


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

    def path_graphs(self, batch: ComputationGraphs, kept: Bools | None = None) -> PathGraphs:
        """Return where paths may be, within some edges of the batch (None: all of them)."""
        settings, constraints = self.settings, self.constraints
        allowed = allowed_facts(self.graph, batch, kept, constraints)
        return build_path_graphs(
            self.graph, batch, allowed, settings.max_length, settings.max_degree, constraints
        )

    def relations(self, links: list[Link]) -> Longs:
        """Return, per link, the position of its link type in `graph.edge_types`."""
        return np.array([self.graph.edge_types.index(link.type) for link in links])

    def logits(self, batch: ComputationGraphs, relation: Longs) -> tuple[Doubles, ModelInput]:
        """Return f(G) of each link, and all of them as they went through the model."""
        predictor = self.predictor
        inputs = predictor.inputs(
            batch, predictor.needed(batch), np.arange(batch.num_links), relation
        )
        logits, recorded, _ = predictor.record(inputs)
        return logits.cpu().double().numpy(), recorded


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
    """The logits with the links in the graph, where they are in it."""
    recorded: ModelInput
    """All links, as they went through the model."""

    def gradient(self, without: Longs | None = None) -> Floats:
        """Return the gradient of each link's logit by the weights of its edges.

        Args:
            without: edges of the batch to leave out.
        """
        return edge_gradient(self.setup.predictor, self.recorded, len(self.batch.edges), without)


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
    timer: Timer

    def is_measured(self) -> bool:
        """Whether the effects of paths are measured: requested, and there is something and time."""
        wanted = self.setup.settings.measure and len(self.links) > 0
        return wanted and not self.timer.is_over()


def score_links(setup: Setup, batch: ComputationGraphs, links: list[Link]) -> Scored:
    """Ask the model for the scores of links, without and with the links in the graph."""
    relation = setup.relations(links)
    logits, recorded = setup.logits(batch, relation)
    deployed = logits.copy()
    inside = [i for i, link in enumerate(links) if link.fact >= 0]
    together = setup.predictor.mode == "subgraphs" and inside
    for group in [inside] if together else [[i] for i in inside]:
        in_place = [dataclasses.replace(links[i], fact=-1) for i in group]
        there = ComputationGraphs.joined(setup.batches.extract(in_place))
        deployed[group] = setup.logits(there, relation[group])[0]
    return Scored(setup, batch, links, relation, logits, deployed, recorded)


def prune_links(scored: Scored, seed: int, timer: Timer) -> Work:
    """Prune, undo it for links that it would cut apart, and see which links can be explained."""
    setup, batch = scored.setup, scored.batch
    settings = setup.settings
    kept = prune(setup.graph, batch, settings.core, settings.hub_degree)
    paths = setup.path_graphs(batch, kept)
    has_path = paths.has_path(timer.until)
    unpruned = np.zeros(batch.num_links, dtype=np.bool_)
    if settings.unpruned_fallback and not has_path.all():
        cut = np.repeat(~has_path, np.diff(batch.edge_ptr))
        paths = setup.path_graphs(batch, kept | cut)
        now = paths.has_path(timer.until)
        unpruned = now & ~has_path
        kept |= np.repeat(unpruned, np.diff(batch.edge_ptr))
        has_path = now
    explained = np.isfinite(scored.logits) & has_path
    if setup.threshold is not None:
        explained &= scored.logits >= setup.threshold
    links = np.flatnonzero(explained)
    return Work(
        **vars(scored), kept=kept, paths=paths, unpruned=unpruned, links=links, seed=seed,
        timer=timer,
    )  # fmt: skip
