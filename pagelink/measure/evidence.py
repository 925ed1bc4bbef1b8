"""What the chosen paths are worth: context, verdict, necessity, sufficiency, connection.

Everything is measured on graphs that were really edited; see `influence`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from pagelink.graph.computation_graph import ComputationGraphs
from pagelink.graph.edited_graphs import Edits
from pagelink.graph.lookup import FactIndex
from pagelink.graph.typed_graph import TypedGraph
from pagelink.measure.candidates import CandidateFinder, Candidates
from pagelink.measure.controls import draw_controls
from pagelink.measure.selection import Selection, select
from pagelink.measure.verdict import Evidence, Verdict, unnoticed
from pagelink.model.edited_logits import EditedLogits, edge_gradient
from pagelink.model.inputs import ModelInput
from pagelink.model.predictor import LinkPredictor
from pagelink.runtime.arrays import Bools, Csr, Doubles, Floats, Longs
from pagelink.runtime.timer import Timer
from pagelink.search.mask_learning import LearnedMasks
from pagelink.search.paths import FoundPaths, PathGraphs, build_path_graphs
from pagelink.settings import Settings


@dataclass(frozen=True)
class PathWorth:
    """What one chosen path is worth."""

    influence: float
    marginal: float
    added: float | None
    """What it adds to G0 alone; None where influence is not by insertion."""
    connection: float | None
    facts: tuple[float, ...]
    """The effect of removing each of its facts alone."""


@dataclass(frozen=True)
class Measured:
    """The evidence of one link, and what each of its paths is worth."""

    evidence: Evidence
    paths: tuple[PathWorth, ...]


def without_paths(
    graph: TypedGraph, facts: FactIndex, batch: ComputationGraphs, edges: Bools, max_length: int
) -> Bools:
    """G0: the edges without every fact that lies on a path of at most `max_length` facts."""
    # Up to three facts a walk is a simple path. Beyond that some walks are not; the few facts on
    # nothing but such walks are taken out, too.
    walks = build_path_graphs(graph, batch, graph.representative[batch.edges], max_length)
    left = edges.copy()
    left[facts.of_slots(batch, walks.arc_slot).values] = False
    return left


@dataclass(frozen=True)
class Context:
    """The model's answers without any choice: what the others are compared with."""

    logits: Doubles
    """f(G) of each link of the batch."""
    without_paths: Doubles
    """f(G0); NaN for links that are not measured."""
    without_edges: Doubles
    """f without any edge; NaN for links that are not measured."""


def look(
    influence: EditedLogits,
    batch: ComputationGraphs,
    candidates: Candidates,
    links: Longs,
    whole: Bools,
    bare: Bools,
    logits: Doubles,
) -> tuple[Context, Doubles]:
    """Ask for the context of some links, and for the effect of each candidate alone.

    All in one go: what goes through the model anyway is G itself, once for everything.
    """
    every = np.arange(len(candidates.lengths))[:, None]
    alone = candidates.removal(candidates.link, every)
    answers = influence.logits(
        whole,
        Edits.joined([
            alone, Edits.towards(batch, whole & ~bare, links), Edits.towards(batch, whole, links),
        ]),
    )  # fmt: skip
    context = np.full((2, len(logits)), np.nan)
    context[:, links] = answers[len(every) :].reshape(2, -1)
    return Context(logits, *context), logits[alone.link] - answers[: len(every)]


class Appraiser:
    """Measures the chosen sets of paths of a batch.

    Args:
        graph: the flat graph.
        facts: its facts.
        batch: the computation graphs.
        paths: where the candidates are from.
        selection: the chosen sets of candidates.
        context: the model's answers without any choice.
        whole: G, the edges of the batch that the model sees.
        bare: G0.
    """

    def __init__(
        self,
        graph: TypedGraph,
        facts: FactIndex,
        batch: ComputationGraphs,
        paths: PathGraphs,
        selection: Selection,
        context: Context,
        whole: Bools,
        bare: Bools,
    ) -> None:
        self._graph, self._facts, self._batch, self._paths = graph, facts, batch, paths
        self._candidates, self._selection, self._context = selection.candidates, selection, context
        self._whole, self._bare = whole, bare

    def measure(
        self, influence: EditedLogits, links: Longs, settings: Settings, seed: int
    ) -> dict[int, Measured]:
        """Return the evidence of some links.

        Args:
            influence: asks the model.
            links: the links, each with a chosen set.
            settings: how many control pairs.
            seed: where they are drawn from.
        """
        members, logits = self._selection.members, self._context.logits
        link, place = np.nonzero(members[links] >= 0)
        link = links[link]
        chosen = members[link, place]
        arcs = self._candidates.arcs[chosen]
        lengths = (arcs >= 0).sum(1)
        fact_link, fact_ptr = np.repeat(link, lengths), np.concatenate([[0], np.cumsum(lengths)])
        path_slots = self._paths.arc_slot[arcs[arcs >= 0]]
        fact_slots = self._facts.of_slots(self._batch, path_slots)
        controls, control_of = draw_controls(
            self._graph, self._facts, self._batch, self._whole, self._bare, link,
            Csr(fact_ptr, path_slots), settings.controls, seed,
        )  # fmt: skip
        inserted = self._selection.inserted[link]

        sets = self._candidates.removal(links, members[links])
        others = self._whole.copy()
        others[sets.slots] = False
        parts = [
            sets,
            Edits.towards(self._batch, others & ~self._bare, links),
            Edits.towards(self._batch, others, links),
            Edits(fact_link, fact_slots.ptr, fact_slots.values),
            controls,
        ]
        answers = influence.logits(self._whole, Edits.joined(parts))
        cuts = np.cumsum([part.num_graphs for part in parts])
        gone, added, only, gone_fact, gone_control = np.split(answers, cuts[:-1])
        adds = np.full(len(link), np.nan)
        single = self._candidates.removal(link[inserted], chosen[inserted, None])
        adds[inserted] = (
            influence.logits(self._bare, single) - self._context.without_paths[single.link]
        )

        effect, marginal = self._selection.alone[chosen], self._selection.marginal[link, place]
        fact_effect = logits[fact_link] - gone_fact
        control_effect = logits[controls.link] - gone_control
        control_ptr = np.searchsorted(control_of, np.arange(len(link) + 1))
        worth = [
            PathWorth(
                float(effect[i]), float(marginal[i]), float(adds[i]) if inserted[i] else None,
                _connection(effect[i], control_effect[control_ptr[i] : control_ptr[i + 1]]),
                tuple(fact_effect[fact_ptr[i] : fact_ptr[i + 1]].tolist()),
            )
            for i in range(len(link))
        ]  # fmt: skip
        path_ptr = np.searchsorted(link, np.append(links, len(logits)))
        return {
            number: Measured(
                self._evidence(number, float(gone[i]), float(added[i]), float(only[i])),
                tuple(worth[path_ptr[i] : path_ptr[i + 1]]),
            )
            for i, number in enumerate(links.tolist())
        }

    def _evidence(self, link: int, gone: float, added: float, only: float) -> Evidence:
        chosen, context = self._selection, self._context
        f, bare = float(context.logits[link]), float(context.without_paths[link])
        influence, best = float(chosen.influence[link]), float(chosen.best[link])
        return Evidence(
            verdict=_verdict(f, bare, influence, float(chosen.largest[link])),
            influence=influence,
            inserted=bool(chosen.inserted[link]),
            logit_without_these=gone,
            logit_without_paths=bare,
            logit_without_edges=float(context.without_edges[link]),
            logit_only_these=only,
            sufficiency=(added - bare) / (f - bare) if f > bare else None,
            rho_reached=influence / best if best > 0 else None,
            num_sets=int(chosen.num_sets[link]),
        )


def _verdict(f: float, bare: float, influence: float, largest: float) -> Verdict:
    if max(abs(f - bare), largest, abs(influence)) <= unnoticed(f):
        return "structure_not_used"
    if bare >= f:
        return "structure_against"
    return "supported" if influence > unnoticed(f) else "not_by_these"


def _connection(effect: float, controls: Doubles) -> float | None:
    return float(effect - controls.mean()) if len(controls) else None


# Choosing paths for a batch of links by what they are worth to the model, and saying it.


Choice = Callable[
    [EditedLogits, Candidates, Doubles, Bools, Bools, Doubles, Doubles, Settings], Selection
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
    influence = EditedLogits(predictor, batch, work.relation)
    context, alone = look(influence, batch, candidates, links, whole, bare, work.logits)
    chosen = choose(
        influence, candidates, alone, whole, bare, work.logits, context.without_paths, settings
    )
    appraiser = Appraiser(graph, facts, batch, work.paths, chosen, context, whole, bare)
    return chosen, appraiser.measure(influence, links, settings, work.seed)
