"""Choosing paths for a batch of links by what they are worth to the model, and saying it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from pagelink.candidates import CandidateFinder, Candidates, FactIndex, Floats
from pagelink.computation_graph import ComputationGraphs
from pagelink.evidence import Appraiser, Doubles, Measured, look, without_paths
from pagelink.graph import Bools, Longs
from pagelink.influence import Influence, edge_gradient
from pagelink.learning import LearnedMasks
from pagelink.model_inputs import ModelInput
from pagelink.paths import FoundPaths, PathGraphs
from pagelink.predictor import LinkPredictor
from pagelink.selection import Selection, select
from pagelink.settings import Settings
from pagelink.timer import Timer

Choice = Callable[
    [Influence, Candidates, Doubles, Bools, Bools, Doubles, Doubles, Settings], Selection
]
"""How a set of candidates is chosen for each link; see `select`."""


@dataclass(frozen=True)
class Work:
    """A batch of links on its way through the method; its rivals start from the same."""

    batch: ComputationGraphs
    relation: Longs
    """Per link, the position of its link type in `graph.edge_types`."""
    logits: Doubles
    recorded: ModelInput
    """All links, as they went through the model."""
    kept: Bools
    """Edges that pruning kept."""
    paths: PathGraphs
    links: Longs
    """The links to explain: predicted, and with a path."""
    seed: int
    timer: Timer


def choose_paths(
    predictor: LinkPredictor,
    facts: FactIndex,
    work: Work,
    masks: LearnedMasks,
    settings: Settings,
) -> tuple[FoundPaths, dict[int, Measured]]:
    """Choose among candidates by the mask, by conciseness and by the gradient, and measure them.

    Args:
        predictor: the model.
        facts: the facts of the graph.
        work: the links.
        masks: what was learned.
        settings: how many candidates, rho and the rest.
    """

    def gradient(without: Longs | None = None) -> Floats:
        return edge_gradient(predictor, work.recorded, len(work.batch.edges), without)

    def steepest(without: Longs, count: int) -> Candidates:
        return finder.taken(finder.steepest(gradient(without), count))

    finder = CandidateFinder(facts, work.batch, work.paths, work.links, masks.edge_logits)
    candidates = finder.taken(
        finder.best_by_mask(settings.candidates),
        finder.most_concise(settings.candidates),
        finder.steepest(gradient(), settings.candidates),
    )
    chosen, measured = measure_paths(
        predictor, facts, work, candidates, partial(select, steepest=steepest), settings
    )
    return chosen.candidates.found(work.links, chosen.members[work.links]), measured


def measure_paths(
    predictor: LinkPredictor,
    facts: FactIndex,
    work: Work,
    candidates: Candidates,
    choose: Choice,
    settings: Settings,
) -> tuple[Selection, dict[int, Measured]]:
    """Choose a set of candidates for each link, and measure what it is worth.

    Args:
        predictor: the model.
        facts: the facts of the graph.
        work: the links.
        candidates: candidate paths.
        choose: how to choose among them.
        settings: for the choice, and how many control pairs.
    """
    graph, batch, links = predictor.graph, work.batch, work.links
    whole = predictor.needed(batch)
    bare = without_paths(graph, facts, batch, whole, settings.max_length)
    influence = Influence(predictor, batch, work.relation)
    context, alone = look(influence, batch, candidates, links, whole, bare, work.logits)
    chosen = choose(
        influence, candidates, alone, whole, bare, work.logits, context.without_paths, settings
    )
    appraiser = Appraiser(graph, facts, batch, work.paths, chosen, context, whole, bare)
    return chosen, appraiser.measure(influence, links, settings, work.seed)
