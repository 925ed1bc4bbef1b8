"""Ground: links of an explainer with all their paths, and the model to ask about them.

A path is the tuple of its facts in order from the source, which is enough: two paths of a link are
equal if and only if these agree. Explanations are read into these terms: their paths as facts,
their masks as scores of edges.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pagelink.explain.edge_mask import EdgeMask
from pagelink.explain.explainer import PaGELink
from pagelink.explain.options import facts_along
from pagelink.explain.result import Explanation
from pagelink.graph.computation_graph import ComputationGraphs
from pagelink.graph.edited_graphs import Edits
from pagelink.graph.links import Link, LinkLike
from pagelink.graph.lookup import slots_of_facts
from pagelink.graph.typed_graph import TypedGraph
from pagelink.measure.candidates import CandidateFinder, Candidates
from pagelink.measure.trials import ReferenceGraphs
from pagelink.model.edited_logits import EditedLogits
from pagelink.model.inputs import ModelInput
from pagelink.runtime.arrays import Bools, Doubles, Longs
from pagelink.runtime.csr import Csr
from pagelink.search.paths import (
    FoundPaths,
    PathGraphs,
    allowed_facts,
    best_paths,
    build_path_graphs,
)

FactPath = tuple[int, ...]
Ranked = list[list[FactPath]]
"""Per link, its paths, best first."""

LINKS_AT_ONCE = 64
PRUNED = -1.0
"""Score of edges without a mask, below every mask."""


@dataclass(frozen=True)
class Ground:
    """Links side by side, with every simple path of at most l_max facts: nothing is pruned."""

    explainer: PaGELink
    links: list[Link]
    batch: ComputationGraphs
    relation: Longs
    logits: Doubles
    """f(G)"""
    recorded: ModelInput
    paths: PathGraphs
    graphs: ReferenceGraphs
    """G and G0."""
    influence: EditedLogits

    @classmethod
    def of(cls, explainer: PaGELink, pairs: Sequence[LinkLike]) -> Ground:
        """Take links of an explainer side by side.

        Raises:
            LinkError: there is no such node.
        """
        links = [explainer.reader.read(pair) for pair in pairs]
        return cls._made(
            explainer, links, ComputationGraphs.joined(explainer.setup.batches.extract(links))
        )

    @classmethod
    def cut(cls, explainer: PaGELink, pairs: Sequence[LinkLike]) -> Iterator[Ground]:
        """Yield all links in order, as many side by side as fit into a gigabyte."""
        links = [explainer.reader.read(pair) for pair in pairs]
        for batch in explainer.setup.batches.cut(links, LINKS_AT_ONCE, 1.0):
            yield cls._made(explainer, batch.links, ComputationGraphs.joined(batch.graphs))

    @classmethod
    def _made(cls, explainer: PaGELink, links: list[Link], batch: ComputationGraphs) -> Ground:
        graph, predictor = explainer.graph, explainer.predictor
        relation = explainer.setup.relations(links)
        logits, recorded = explainer.setup.logits(batch, relation)
        length = explainer.settings.max_length
        return cls(
            explainer=explainer,
            links=links,
            batch=batch,
            relation=relation,
            logits=logits,
            recorded=recorded,
            paths=build_path_graphs(graph, batch, allowed_facts(graph, batch), length),
            graphs=ReferenceGraphs.of(explainer.setup, batch),
            influence=EditedLogits(predictor, batch, relation),
        )

    @property
    def whole(self) -> Bools:
        """G: the edges of the batch that the model sees."""
        return self.graphs.whole

    @property
    def bare(self) -> Bools:
        """G0: G without any fact on a path."""
        return self.graphs.bare

    @property
    def num_links(self) -> int:
        """Number of links."""
        return len(self.links)

    def pairs(self) -> list[tuple[int, int]]:
        """The links by index of source and target."""
        node = self.explainer.graph.node
        return [(node(link.src)[1], node(link.dst)[1]) for link in self.links]

    def edges(self, link: int) -> Longs:
        """The edges of a link's computation graph, in its order."""
        first, last = self.batch.edge_ptr[link : link + 2]
        return self.batch.edges[first:last].astype(np.int64)

    def candidates(self, found: FoundPaths) -> Candidates:
        """The paths of a search over all links, ready to be taken out."""
        even = np.zeros(len(self.batch.edges), dtype=np.float32)
        links = np.arange(self.num_links)
        finder = CandidateFinder(self.explainer.graph, self.batch, self.paths, links, even)
        return finder.taken(found)

    def as_facts(self, arcs: Longs) -> FactPath:
        """The facts of one path that is given by its arcs, -1 behind the last."""
        edges = self.batch.edges[self.paths.arc_slot[arcs[arcs >= 0]]]
        return tuple(self.explainer.graph.fact[edges].tolist())

    def ranked(self, found: FoundPaths) -> Ranked:
        """The paths of a search over all links."""
        return [[self.as_facts(arcs) for arcs in of_link if arcs[0] >= 0] for of_link in found.arcs]

    def slots(self, link: int, facts: Sequence[int]) -> Longs:
        """All edges of a link's graph that state some facts, by position in the batch."""
        return slots_of_facts(self.explainer.graph, self.batch, link, facts)

    def edits(self, links: Sequence[int], facts: Sequence[Sequence[int]]) -> Edits:
        """One copy for each set of facts: without them, or, where the graph lacks them, with."""
        slots = [self.slots(link, each) for link, each in zip(links, facts, strict=True)]
        return edits_of(links, slots)

    def effects(self, links: Sequence[int], facts: Sequence[Sequence[int]]) -> Doubles:
        """f(G) - f(G without the facts), for each set of facts."""
        return self.effects_of(self.edits(links, facts))

    def gains(self, links: Sequence[int], facts: Sequence[Sequence[int]]) -> Doubles:
        """f(G0 + the facts) - f(G0), for each set of facts."""
        # Facts of longer paths may be in G0; an edit would take these out.
        bare = self.bare
        slots = [self.slots(link, each) for link, each in zip(links, facts, strict=True)]
        return self.gains_of(edits_of(links, [each[~bare[each]] for each in slots]))

    def effects_of(self, edits: Edits) -> Doubles:
        """f(G) - f(G edited), for each edit."""
        effects: Doubles = self.logits[edits.link] - self.influence.logits(self.whole, edits)
        return effects

    def gains_of(self, edits: Edits) -> Doubles:
        """f(G0 edited) - f(G0), for each edit."""
        gains: Doubles = self.influence.logits(self.bare, edits) - self.bare_logits[edits.link]
        return gains

    @cached_property
    def bare_logits(self) -> Doubles:
        """f(G0), per link."""
        every = list(range(self.num_links))
        return self.influence.logits(self.bare, self.edits(every, [[] for _ in every]))

    def path_facts(self, link: int) -> Longs:
        """All facts on some path of a link, in ascending order."""
        slots = self.paths.arc_slot[self.paths.arcs_of(link)]
        return np.unique(self.explainer.graph.fact[self.batch.edges[slots]]).astype(np.int64)


def paths_by_degree(paths: PathGraphs, count: int, links: Longs | None = None) -> FoundPaths:
    """The best paths by -(sum of log D_v), the paper's Score without a mask.

    Args:
        paths: the path graphs.
        count: number of paths per link at most.
        links: of these links. None: of all.
    """
    return best_paths(paths, np.full(len(paths.arc_slot), np.inf, dtype=np.float32), count, links)


def facts_of(paths: Sequence[FactPath]) -> list[int]:
    """The distinct facts of some paths.

    Example:
        >>> facts_of([(4, 2), (4, 3)])
        [2, 3, 4]
    """
    return sorted({fact for path in paths for fact in path})


def fact_paths(explainer: PaGELink, explanations: Iterable[Explanation]) -> Ranked:
    """The paths of explanations, one list per explanation."""
    return [
        [tuple(facts_along(explainer.graph, path)) for path in explanation.paths]
        for explanation in explanations
    ]


def edge_scores(graph: TypedGraph, edges: Longs, mask: EdgeMask) -> Doubles:
    """The mask of an explanation as one score per edge; pruned edges share the lowest."""
    scores = np.full(len(edges), PRUNED)
    relation = graph.relation[edges]
    for position, edge_type in enumerate(graph.edge_types[: graph.num_relations]):
        columns, values = mask.stored(edge_type)
        if len(columns):
            dense = np.full(graph.mask_sizes[position], PRUNED)
            dense[columns] = values
            mine = np.flatnonzero(relation == position)
            scores[mine] = dense[graph.column[edges[mine]]]
    return scores


def free_facts(graph: TypedGraph, mask: EdgeMask, budget: int) -> list[int]:
    """The facts of the highest mask, best first, whether they make paths or not.

    That is what rivals without paths explain by: an edge-induced subgraph. The mask of a fact is
    the highest of its edges. Of equal ones, the fact that comes first in the graph is first.

    Args:
        graph: the graph of the explainer.
        mask: of an explanation.
        budget: number of facts; fewer are returned if fewer have a mask.
    """
    scores = edge_scores(graph, np.arange(graph.num_edges), mask)
    edges = np.flatnonzero(scores > PRUNED)
    fact = graph.fact[edges]
    order = np.lexsort((fact, -scores[edges]))
    _, first = np.unique(fact[order], return_index=True)
    return [int(f) for f in fact[order][np.sort(first)[:budget]]]


def edits_of(links: Sequence[int], slots: Sequence[Longs]) -> Edits:
    """One copy per list of slots, of the link at the same place."""
    return Edits(np.asarray(links, dtype=np.int64), Csr.of(list(slots)))
