"""Whether swaps of facts are what they say: by hand on the full graph, edge by edge.

The code under test draws partners for the facts of an explanation and says what the score is then.
Here the stored edges are moved one by one, the model is called directly, and the edited graph is
looked at as plain sets.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from pagelink.bench.fuzz.oracles.brute_force import BruteForce, DrawnLink
from pagelink.bench.fuzz.oracles.multigraphs import Edge, Fact, Multigraph, Node, edge_of
from pagelink.bench.fuzz.oracles.path_checks import longest_of
from pagelink.bench.fuzz.oracles.truth import LinkTruth, Moved
from pagelink.bench.fuzz.oracles.walks import all_paths
from pagelink.explain.explainer import PaGELink
from pagelink.explain.result import Explanation
from pagelink.graph.computation_graph import ComputationGraphs
from pagelink.measure.swaps import JobList, Jobs, Swaps, draw, swapped_logits
from pagelink.measure.trials import ReferenceGraphs
from pagelink.runtime.arrays import Longs
from pagelink.search.work import Setup

DRAWS = 3
"""Swaps of each kind that are looked at."""
See = Callable[[Multigraph], BruteForce]
"""What the model sees of the link in an edited graph."""


@dataclass(frozen=True)
class _Drawn:
    """Swaps of the facts of one link, by the code under test."""

    setup: Setup
    batch: ComputationGraphs
    jobs: Jobs
    swaps: Swaps
    logits: list[float]

    @classmethod
    def of(cls, explainer: PaGELink, answer: Explanation, seed: int) -> _Drawn:
        """Swap all facts of the paths, facts on no path, and the inner facts of each path.

        In G, and the facts of the paths in G0 with them, too.
        """
        setup = explainer.pipeline.at(answer.num_hops).setup
        link = explainer.reader.read((answer.src[1], answer.dst[1], answer.link_type))
        batch = ComputationGraphs.joined(setup.batches.extract([link]))
        graph, length = setup.graph, longest_of(answer)
        setup = dataclasses.replace(setup, settings=setup.settings.replace(max_length=length))
        graphs = ReferenceGraphs.of(setup, batch)
        at = {
            (graph.edge_types[graph.relation[edge]], int(graph.column[edge])): slot
            for slot, edge in enumerate(batch.edges.tolist())
        }
        paths: list[Longs] = [
            np.array([at[edge.type, edge.index] for edge in path.edges]) for path in answer.paths
        ]
        facts = np.concatenate(paths)
        on_path = np.flatnonzero(graphs.on_path)
        same = np.isin(graph.fact[batch.edges[on_path]], graph.fact[batch.edges[facts]])
        wanted = JobList(graphs, seed)
        wanted.add(0, facts, DRAWS, 0)
        wanted.add(0, facts, DRAWS, 1, without=on_path[~same])
        wanted.add_placebos(0, facts, DRAWS, 100)
        for number, path in enumerate(paths):
            wanted.add_inner(0, path, DRAWS, 10 + number)
        jobs = wanted.listed()
        swaps = draw(graphs, jobs, length, seed)
        logits = swapped_logits(setup, batch, setup.relations([link]), jobs, swaps)
        return cls(setup, batch, jobs, swaps, logits.tolist())

    def pairs(self, number: int) -> list[tuple[Edge, Edge, Node, Node]]:
        """Per fact of a draw: an edge of it, an edge of its partner, and x and y of that."""
        graph, swaps = self.setup.graph, self.swaps
        here = slice(swaps.facts.ptr[number], swaps.facts.ptr[number + 1])
        facts = self.batch.edges[swaps.facts.values[here]].tolist()
        return [
            (edge_of(graph, fact), edge_of(graph, edge), graph.node(x), graph.node(y))
            for fact, (edge, x, y) in zip(facts, swaps.partners[here].tolist(), strict=True)
        ]

    def without(self, drawn: Multigraph, number: int) -> frozenset[Fact]:
        """The facts that were taken out before a draw."""
        gone = self.jobs.without.take(self.swaps.job[[number]]).values
        edges = self.batch.edges[gone].tolist()
        return frozenset(drawn.fact(edge_of(self.setup.graph, edge)) for edge in edges)


def check_swaps(
    explainer: PaGELink, answer: Explanation, link: LinkTruth, see: See, seed: int
) -> Iterator[str]:
    """Yield what is wrong with swaps of the facts of an explanation.

    Args:
        explainer: the explainer under test.
        answer: an explanation with paths.
        link: the scores of its link.
        see: what the model sees of it.
        seed: of the draws.

    Yields:
        What is wrong; nothing if no fact can be swapped.
    """
    made, drawn = _Drawn.of(explainer, answer, seed), link.truth.drawn
    for number, logit in enumerate(made.logits):
        pairs, gone = made.pairs(number), made.without(drawn, number)
        moved = dict[Edge, tuple[Node, Node]]()
        for fact, partner, x, y in pairs:
            if {x, y} != {partner.src, partner.dst}:
                yield f"the partner {partner} does not join {x} and {y}"
                return
            a, b = fact.src, fact.dst
            for ends, stays, comes in (((a, b), a, y), ((x, y), x, b)):
                stated = drawn.relations(fact.type), frozenset(ends)
                if stated not in drawn.facts:
                    yield f"{stated} is no fact"
                    return
                for edge in drawn.edges_of[stated]:
                    forth = edge.src == stays
                    moved[edge] = (stays, comes) if forth else (comes, stays)
        yield from _check_graph(answer, link, moved, see)
        yield from _check_logit(link, logit, gone, moved)


def _check_logit(
    link: LinkTruth, logit: float, gone: frozenset[Fact], moved: Moved
) -> Iterator[str]:
    off = link.compare_moved(logit, gone, moved)
    if off > link.least_slack(gone) and off > link.slack_moved(gone, moved):
        exact = link.moved(gone, moved)
        yield f"after a swap the score is {logit:.6g}, by moving edges {exact:.6g}"


def _check_graph(answer: Explanation, link: LinkTruth, moved: Moved, see: See) -> Iterator[str]:
    """All degrees stay, and there is no duplicate, not the link, and no new short path."""
    drawn = link.truth.drawn
    after = _edited(drawn, moved)
    if _degrees(after) != _degrees(drawn):
        yield "a swap changes the number of facts of a node"
    new = after.facts - drawn.facts
    if len(after.facts) != len(drawn.facts) or len(new) != len({*map(drawn.fact, moved)}):
        yield "a swap makes a fact that was there already"
    if drawn.link_fact(link.src, link.dst, link.link_type) in new:
        yield "a swap makes the link itself"
    asked = DrawnLink(link.src, link.dst, link.link_type)
    for walk in all_paths(after, asked, see(after).visible_facts, longest_of(answer)):
        facts = {(relations, frozenset({u, v})) for u, v, relations in walk}
        if facts & new:
            yield f"a swap makes a path of {len(walk)} facts"
            return


def _edited(drawn: Multigraph, moved: Moved) -> Multigraph:
    """The graph with stored edges led elsewhere, each at its place."""
    pairs = {edge_type: list[tuple[int, int]]() for edge_type in drawn.pairs}
    for edge in drawn.edges:
        (_, u), (_, v) = moved.get(edge, (edge.src, edge.dst))
        pairs[edge.type].append((u, v))
    return Multigraph(drawn.sizes, pairs, drawn.reverse, drawn.columns)


def _degrees(drawn: Multigraph) -> Counter[tuple[frozenset[tuple[str, str, str]], Node]]:
    """Facts of each kind at each node."""
    return Counter((kind, node) for kind, ends in drawn.facts for node in ends)
