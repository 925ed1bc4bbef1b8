"""The sets of facts that the benchmark compares, of one link: ours, and those of the rivals."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from pagelink.explain.result import Explanation, PathEdge
from pagelink.graph.computation_graph import ComputationGraphs
from pagelink.graph.edited_graphs import Edits
from pagelink.graph.lookup import slots_of_same_facts
from pagelink.measure.candidates import CandidateFinder
from pagelink.runtime.arrays import Doubles, Floats, Longs
from pagelink.runtime.csr import Csr
from pagelink.search.paths import FoundPaths
from pagelink.search.work import Work, prune_links, score_links
from pagelink.trained.explainer import TrainedExplainer
from pagelink.trained.measuring import TrainedSetup

OURS, STRONGEST, KELPIE, SIMILAR, DEGREE, RANDOM = (
    "paths", "strongest facts", "single facts (Kelpie)", "gradient similarity", "degree paths",
    "random paths",
)  # fmt: skip
ROWS = (OURS, STRONGEST, KELPIE, SIMILAR, DEGREE, RANDOM)
TRIED = 20
"""Facts at source and target whose mimics are trained, the most similar first."""
LISTED = 12
"""Paths of a ranking, of which as many are taken as have the requested number of facts."""


@dataclass(frozen=True)
class LinkSets:
    """What one link offers: its paths, and its facts."""

    explainer: TrainedExplainer
    work: Work
    finder: CandidateFinder

    @classmethod
    def of(cls, explainer: TrainedExplainer, link: Longs, seed: int) -> LinkSets | None:
        """Return the sets of a link; None: no path joins its ends."""
        head, relation, tail = link.tolist()
        read = explainer.link(head, tail, explainer.link_types[relation])
        setup = explainer.setup
        batch = ComputationGraphs.joined(setup.batches.extract([read]))
        work = prune_links(score_links(setup, batch, [read]), seed)
        if not len(work.links):
            return None
        even = np.zeros(len(batch.edges), dtype=np.float32)
        return cls(
            explainer, work, CandidateFinder(setup.graph, batch, work.paths, work.links, even)
        )

    def all_rows(self, answer: Explanation, seed: int) -> dict[str, frozenset[int]]:
        """Return the facts of every row, as many in each as the returned paths have."""
        ours = self._facts(edge for path in answer.paths for edge in path.edges)
        size = len(ours)
        if not size:
            return {}
        rng = np.random.default_rng((seed, int(self.work.batch.link_src[0])))
        noise = rng.random(len(self.work.batch.edges)).astype(np.float32)
        similar = self._by_gradient()
        return {
            OURS: ours,
            STRONGEST: self._facts(
                fact.edge for fact in (answer.strongest.facts if answer.strongest else ())
            ),
            KELPIE: self._by_mimics(similar[:TRIED], size),
            SIMILAR: frozenset(similar[:size].tolist()),
            DEGREE: self._paths(self.finder.most_concise(LISTED), size),
            RANDOM: self._paths(self.finder.steepest(noise, LISTED), size),
        }

    def similar(self, count: int) -> list[int]:
        """Return the facts at source and target that are most alike to the link."""
        found: list[int] = self._by_gradient()[:count].tolist()
        return found

    def effects(self, sets: Sequence[frozenset[int]], *, ends_only: bool = False) -> Doubles:
        """Return the effects of sets of facts by mimics."""
        setup = self.work.setup
        assert isinstance(setup, TrainedSetup)
        model = replace(setup, ends_only=ends_only).edited(self.work.batch, self.work.relation)
        gone = model.logits(self.work.batch.visible, self._edits(sets))
        return np.asarray(self.work.logits[0] - gone)

    def _facts(self, edges: Iterable[PathEdge]) -> frozenset[int]:
        """The facts of edges, as a result has them."""
        graph = self.explainer.graph
        found = []
        for edge in edges:
            position = graph.edge_types.index(edge.type)
            (number,) = np.flatnonzero((graph.relation == position) & (graph.column == edge.index))
            found.append(int(graph.fact[number]))
        return frozenset(found)

    def _edits(self, sets: Sequence[frozenset[int]]) -> Edits:
        """The graphs without each of some sets of facts."""
        batch, graph = self.work.batch, self.explainer.graph
        fact = graph.fact[batch.edges]
        slots = [
            np.flatnonzero(np.isin(fact, list(each)) & batch.visible).astype(np.int64)
            for each in sets
        ]
        return Edits(np.zeros(len(sets), dtype=np.int64), Csr.of(slots))

    def _by_gradient(self) -> Longs:
        """The facts at source and target, those that are most alike to the link first."""
        batch, graph = self.work.batch, self.explainer.graph
        gradient: Floats = self.work.gradient()
        at_end = np.flatnonzero(gradient)
        facts, place = np.unique(graph.fact[batch.edges[at_end]], return_inverse=True)
        value = np.bincount(place.reshape(-1), gradient[at_end], minlength=len(facts))
        return facts[np.argsort(-value, kind="stable")].astype(np.int64)

    def _by_mimics(self, facts: Longs, size: int) -> frozenset[int]:
        """The facts of the largest effects alone, source and target trained anew."""
        effect = self.effects([frozenset([fact]) for fact in facts.tolist()], ends_only=True)
        return frozenset(facts[np.argsort(-effect, kind="stable")[:size]].tolist())

    def _paths(self, found: FoundPaths, size: int) -> frozenset[int]:
        """The facts of the first paths of a ranking, as many as there is room for, at least one."""
        graph, batch = self.explainer.graph, self.work.batch
        taken: frozenset[int] = frozenset()
        for arcs in found.arcs[0]:
            slots = self.work.paths.arc_slot[arcs[arcs >= 0]]
            same = slots_of_same_facts(graph, batch, slots).values
            more = taken | frozenset(graph.fact[batch.edges[same]].tolist())
            if len(slots) and (not taken or len(more) <= size):
                taken = more
        return taken
