"""What the model answers once facts are really removed or added, before any choice of paths.

G is a link's graph as the model sees it, G0 is G without any fact that lies on a path from source
to target. Every choice among candidates, ours or a rival's, starts from the same trials.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pagelink.graph.computation_graph import ComputationGraphs
from pagelink.graph.edited_graphs import Edits
from pagelink.graph.lookup import slots_of_same_facts
from pagelink.graph.typed_graph import TypedGraph
from pagelink.measure.candidates import Candidates
from pagelink.model.edited_logits import EditedLogits
from pagelink.runtime.arrays import Bools, Doubles, Longs
from pagelink.runtime.timer import OutOfTimeError
from pagelink.search.paths import build_path_graphs
from pagelink.search.work import Setup, Work


@dataclass(frozen=True)
class ReferenceGraphs:
    """G and G0 of the links of a batch: what every edit starts from."""

    graph: TypedGraph
    batch: ComputationGraphs
    whole: Bools
    """G: the edges of the batch that the model sees."""
    on_path: Bools
    """Edges whose fact lies on a path of at most `max_length` facts, seen or not."""

    @property
    def bare(self) -> Bools:
        """G0: G without every fact on a path."""
        return self.whole & ~self.on_path

    @classmethod
    def of(
        cls, setup: Setup, batch: ComputationGraphs, until: float | None = None
    ) -> ReferenceGraphs:
        """Find G0 of a batch.

        Raises:
            OutOfTimeError: it was not found by `until`.
        """
        # Up to three facts a walk is a simple path. Beyond that some walks are not; the few facts
        # on nothing but such walks are taken out, too.
        graph, max_length = setup.graph, setup.settings.max_length
        whole = setup.predictor.needed(batch)
        extractor = setup.batches.extractor
        if not extractor.reaches(max_length):
            on_path = extractor.path_facts(batch, max_length, until)
            return cls(graph, batch, whole, on_path)
        facts = graph.representative[batch.edges]
        walks = build_path_graphs(graph, batch, facts, max_length, until=until)
        on_path = np.zeros(len(whole), dtype=np.bool_)
        on_path[slots_of_same_facts(graph, batch, walks.arc_slot).values] = True
        return cls(graph, batch, whole, on_path)


@dataclass(frozen=True)
class Trials:
    """The model's answers about the links of a batch: their context, and each candidate alone.

    NaN is what there was no time for.
    """

    work: Work
    model: EditedLogits
    """Answers questions about edited graphs."""
    graphs: ReferenceGraphs
    candidates: Candidates
    alone: Doubles
    """Per candidate, the effect of removing its facts from G."""
    gains: Doubles
    """Per candidate, what adding its facts to G0 adds to the logit."""
    without_paths: Doubles
    """f(G0) per link; NaN for links that are not measured."""
    without_edges: Doubles
    """f without any edge, per link; NaN for links that are not measured."""

    @classmethod
    def of(cls, work: Work, candidates: Candidates) -> Trials:
        """Remove each candidate alone, all paths, and all edges; add each candidate alone to G0.

        Raises:
            OutOfTimeError: the time was over before the model was asked.
        """
        setup, batch, links = work.setup, work.batch, work.links
        graphs = ReferenceGraphs.of(setup, batch, work.timer.search_end())
        whole = graphs.whole
        model = setup.edited(batch, work.relation, work.timer)
        each = candidates.removal(candidates.link, np.arange(len(candidates.lengths))[:, None])
        paths = Edits.towards(batch, whole & graphs.on_path, links)
        edges = Edits.towards(batch, whole, links)
        answers = model.logits(whole, Edits.joined([each, paths, edges]))
        context = np.full((2, len(work.logits)), np.nan)
        context[:, links] = answers[each.num_graphs :].reshape(2, -1)
        alone = work.logits[each.link] - answers[: each.num_graphs]
        gains = model.logits(graphs.bare, each) - context[0, each.link]
        return cls(work, model, graphs, candidates, alone, gains, *context)

    @property
    def span(self) -> Doubles:
        """f(G) - f(G0) per link: what all paths are worth together."""
        return self.work.logits - self.without_paths

    def effects(self, edits: Edits, *, inserted: bool = False) -> Doubles:
        """Return what sets of facts do: by removal from G, or by insertion into G0.

        Raises:
            OutOfTimeError: the time was over before all of it was measured.
        """
        if inserted:
            return self.logits(self.graphs.bare, edits) - self.without_paths[edits.link]
        effects: Doubles = self.work.logits[edits.link]
        return effects - self.logits(self.graphs.whole, edits)

    def logits(self, graph: Bools, edits: Edits) -> Doubles:
        """Return the logits of edited graphs, all of them.

        Raises:
            OutOfTimeError: the time was over before the model had scored all of them, or what
                came before.
        """
        answers = self.model.logits(graph, edits)
        if not self.model.complete:
            raise OutOfTimeError
        return answers

    def facts(self, candidates: Longs) -> tuple[Longs, Longs]:
        """Return the facts of candidates, one after the other, each by an edge that stands for it.

        And, per fact, the position of its candidate in what was given.
        """
        arcs = self.candidates.arcs[candidates]
        row, _ = np.nonzero(arcs >= 0)
        return self.work.paths.arc_slot[arcs[arcs >= 0]], row
