"""Trials: what the model answers once facts are really removed, before any choice of paths.

G is a link's graph as the model sees it, G0 is G without any fact that lies on a path from source
to target. Every choice among candidate paths, ours or a rival's, starts from the same trials.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pagelink.graph.computation_graph import ComputationGraphs
from pagelink.graph.edited_graphs import Edits
from pagelink.graph.lookup import FactIndex
from pagelink.measure.candidates import Candidates
from pagelink.model.edited_logits import Influence
from pagelink.runtime.arrays import Bools, Doubles
from pagelink.search.paths import build_path_graphs
from pagelink.search.work import Work


@dataclass(frozen=True)
class ReferenceGraphs:
    """G and G0 of the links of a batch: what every edit starts from."""

    facts: FactIndex
    batch: ComputationGraphs
    whole: Bools
    """G: the edges of the batch that the model sees."""
    bare: Bools
    """G0: G without every fact on a path of at most `max_length` facts."""

    @classmethod
    def of(
        cls, facts: FactIndex, batch: ComputationGraphs, whole: Bools, max_length: int
    ) -> ReferenceGraphs:
        """Find G0 of a batch."""
        # Up to three facts a walk is a simple path. Beyond that some walks are not; the few facts
        # on nothing but such walks are taken out, too.
        graph = facts.graph
        walks = build_path_graphs(graph, batch, graph.representative[batch.edges], max_length)
        bare = whole.copy()
        bare[facts.of_slots(batch, walks.arc_slot).values] = False
        return cls(facts, batch, whole, bare)


@dataclass(frozen=True)
class Trials:
    """The model's answers about the links of a batch: their context, and each candidate alone."""

    work: Work
    model: Influence
    """Answers questions about edited graphs."""
    graphs: ReferenceGraphs
    candidates: Candidates
    alone: Doubles
    """Per candidate, the effect of removing its facts from G."""
    without_paths: Doubles
    """f(G0) per link; NaN for links that are not measured."""
    without_edges: Doubles
    """f without any edge, per link; NaN for links that are not measured."""

    @classmethod
    def of(cls, work: Work, candidates: Candidates) -> Trials:
        """Remove each candidate alone, all paths, and all edges.

        All in one go: what goes through the model anyway is G itself, once for everything.
        """
        setup, batch, links = work.setup, work.batch, work.links
        whole = setup.predictor.needed(batch)
        graphs = ReferenceGraphs.of(setup.facts, batch, whole, setup.settings.max_length)
        model = Influence(setup.predictor, batch, work.relation)
        each = candidates.removal(candidates.link, np.arange(len(candidates.lengths))[:, None])
        paths = Edits.towards(batch, whole & ~graphs.bare, links)
        edges = Edits.towards(batch, whole, links)
        answers = model.logits(whole, Edits.joined([each, paths, edges]))
        context = np.full((2, len(work.logits)), np.nan)
        context[:, links] = answers[each.num_copies :].reshape(2, -1)
        alone = work.logits[each.link] - answers[: each.num_copies]
        return cls(work, model, graphs, candidates, alone, *context)

    def effects(self, edits: Edits, *, inserted: bool = False) -> Doubles:
        """Return what sets of facts do: by removal from G, or by insertion into G0."""
        if inserted:
            gains: Doubles = self.model.logits(self.graphs.bare, edits)
            return gains - self.without_paths[edits.link]
        effects: Doubles = self.work.logits[edits.link]
        return effects - self.model.logits(self.graphs.whole, edits)
