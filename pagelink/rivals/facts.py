"""Sets of single facts, anywhere in what the model sees: greedy removal, and plain rankings.

What paths are worth beside free facts is asked with as many facts as the paths have. The greedy
search removes one fact after the other, each the one among all visible facts whose removal lowers
the score most; nothing is left out or estimated. The plain rankings order the facts once: by what
each does alone (occlusion), by integrated gradients, at random.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from pagelink.graph.edited_graphs import Edits
from pagelink.rivals.gradients import IntegratedGradientOptions, integrated_gradient
from pagelink.rivals.ground import Ground
from pagelink.runtime.arrays import Bools, Doubles, Longs
from pagelink.runtime.csr import Csr, segment_sums

FactSets = list[list[int]]
"""Per link, some facts, the first chosen first."""


@dataclass(frozen=True)
class VisibleFacts:
    """The facts of links that can move their scores, grouped by link, in ascending order."""

    ptr: Longs
    """Range of each link's facts."""
    facts: Longs
    slots: Csr
    """Per fact, its edges that the model sees: every copy, both directions."""

    @classmethod
    def of(cls, ground: Ground) -> VisibleFacts:
        """Gather the facts of all links of a ground."""
        graph, batch = ground.explainer.graph, ground.batch
        slots = np.flatnonzero(ground.whole)
        link = np.searchsorted(batch.edge_ptr, slots, side="right") - 1
        key = link * graph.num_facts + graph.fact[batch.edges[slots]]
        order = np.argsort(key, kind="stable")
        keys, first = np.unique(key[order], return_index=True)
        bounds = np.arange(ground.num_links + 1) * graph.num_facts
        return cls(
            ptr=np.searchsorted(keys, bounds),
            facts=keys % graph.num_facts,
            slots=Csr(np.append(first, len(order)), slots[order]),
        )

    @property
    def link(self) -> Longs:
        """The link of each fact."""
        return np.repeat(np.arange(len(self.ptr) - 1), np.diff(self.ptr))

    def of_link(self, link: int) -> Longs:
        """The facts of one link."""
        return self.facts[self.ptr[link] : self.ptr[link + 1]]

    def logits_without(self, ground: Ground, graph: Bools, chosen: Longs) -> Doubles:
        """The logit after removing each of some facts (by position) alone from a graph."""
        edits = Edits(self.link[chosen], self.slots.take(chosen))
        return ground.influence.logits(graph, edits)

    def highest(self, values: Doubles, most: int) -> FactSets:
        """Per link, the facts of the highest values, best first; of equal ones the first."""
        found = []
        for first, last in zip(self.ptr[:-1], self.ptr[1:], strict=True):
            best = first + np.argsort(-values[first:last], kind="stable")[:most]
            found.append(self.facts[best].tolist())
        return found


def greedy_facts(ground: Ground, most: int) -> Iterator[FactSets]:
    """Remove, among all visible facts, the one whose removal lowers the score most; and again.

    Where every fact raises the score, it removes the one that raises it least.

    Args:
        ground: the links.
        most: number of facts.

    Yields:
        After each fact, the facts of each link so far; of a link with fewer visible facts, all.
    """
    visible = VisibleFacts.of(ground)
    graph, link = ground.whole.copy(), visible.link
    left = np.ones(len(visible.facts), dtype=np.bool_)
    chosen: FactSets = [[] for _ in range(ground.num_links)]
    for _ in range(most):
        tried = np.flatnonzero(left)
        after = visible.logits_without(ground, graph, tried)
        ptr = np.searchsorted(link[tried], np.arange(ground.num_links + 1))
        for number in np.flatnonzero(np.diff(ptr)).tolist():
            first, last = ptr[number : number + 2]
            best = int(tried[first + np.argmin(after[first:last])])
            chosen[number].append(int(visible.facts[best]))
            left[best] = False
            graph[visible.slots.take(np.array([best])).values] = False
        yield [facts.copy() for facts in chosen]


def facts_by_occlusion(ground: Ground, most: int) -> FactSets:
    """The facts of the largest effect when each is removed alone."""
    visible = VisibleFacts.of(ground)
    after = visible.logits_without(ground, ground.whole, np.arange(len(visible.facts)))
    return visible.highest(ground.logits[visible.link] - after, most)


def facts_by_integrated_gradient(
    ground: Ground, most: int, steps: int = IntegratedGradientOptions.steps
) -> FactSets:
    """The facts of the highest integrated gradient, summed over the edges of a fact."""
    visible = VisibleFacts.of(ground)
    of_edges = integrated_gradient(
        ground.explainer.predictor, ground.recorded, len(ground.batch.edges), steps
    ).astype(np.float64)
    sums = segment_sums(of_edges[visible.slots.values], visible.slots.ptr)
    return visible.highest(sums, most)


def facts_at_random(ground: Ground, most: int, seed: int) -> FactSets:
    """Visible facts at random; seed and ends of a link decide them, not the ground it is in."""
    visible = VisibleFacts.of(ground)
    values = [
        np.random.default_rng((seed, link.src, link.dst)).random(len(visible.of_link(number)))
        for number, link in enumerate(ground.links)
    ]
    return visible.highest(np.concatenate([*values, np.empty(0)]), most)
