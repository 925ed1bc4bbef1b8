"""Paths by brute force: all simple paths by recursion over facts, and what the search found."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from pagelink.bench.fuzz.oracles.brute_force import DrawnLink
from pagelink.bench.fuzz.oracles.multigraphs import Edge, Fact, Multigraph, Node, edge_of
from pagelink.graph.computation_graph import ComputationGraphs
from pagelink.graph.schema import EdgeType
from pagelink.graph.typed_graph import TypedGraph
from pagelink.runtime.arrays import Longs
from pagelink.search.paths import FoundPaths, PathGraphs

Relations = frozenset[EdgeType]
Step = tuple[Node, Node, Relations]
"""From a node to a node along a fact of these relations."""
Walk = tuple[Step, ...]


class BrokenPromiseError(AssertionError):
    """What was found is not what it should be."""


def promise(kept: object, what: str) -> None:
    """Refuse what is not as it should be.

    Raises:
        BrokenPromiseError: with what is wrong.
    """
    if not kept:
        raise BrokenPromiseError(what)


def all_paths(
    drawn: Multigraph,
    link: DrawnLink,
    facts: set[Fact],
    max_length: int,
    max_degree: int | None = None,
) -> list[Walk]:
    """All simple paths from s to t along facts, each walked either way."""
    at: dict[Node, list[tuple[Node, Relations]]] = {}
    for relations, ends in facts:
        for here in ends if len(ends) == 2 else ():
            at.setdefault(here, []).extend((there, relations) for there in ends - {here})

    def extend(walk: Walk, here: Node) -> Iterator[Walk]:
        if here == link.dst:
            yield walk
            return
        if len(walk) == max_length:
            return
        if here != link.src and max_degree is not None and drawn.degree(here) > max_degree:
            return
        been = {link.src, *(step[1] for step in walk)}
        for there, relations in at.get(here, ()):
            if there not in been:
                yield from extend((*walk, (here, there, relations)), there)

    return list(extend((), link.src))


def steps_on_walks(
    drawn: Multigraph,
    link: DrawnLink,
    facts: set[Fact],
    max_length: int,
    max_degree: int | None = None,
) -> set[Step]:
    """The steps of all walks from s to t of at most some length that meet either end once."""
    steps = {
        (u, v, relations)
        for relations, ends in facts if len(ends) == 2
        for u in ends for v in ends - {u}
        if u != link.dst and v != link.src
    }  # fmt: skip

    def open_to(node: Node) -> bool:
        return max_degree is None or drawn.degree(node) <= max_degree

    # Where one can be after, and before the last, so many steps.
    after, before = [{link.src}], [{link.dst}]
    for _ in range(max_length - 1):
        after.append({v for u, v, _ in steps if u in after[-1] and v != link.dst and open_to(v)})
        before.append({u for u, v, _ in steps if v in before[-1] and u != link.src and open_to(u)})
    return {
        step for step in steps
        for i, starts in enumerate(after) for j, stops in enumerate(before)
        if i + 1 + j <= max_length and step[0] in starts and step[1] in stops
    }  # fmt: skip


def in_order(drawn: Multigraph, walks: list[Walk], cost: Callable[[Step], float]) -> list[Walk]:
    """By cost, then by the sequence of (node, relation) in the order of the data."""
    node_types, edge_types = list(drawn.sizes), list(drawn.pairs)

    def key(walk: Walk) -> tuple[float, list[tuple[int, int, int]]]:
        sequence = [
            (node_types.index(head[0]), head[1], min(map(edge_types.index, relations)))
            for _, head, relations in walk
        ]
        return sum(map(cost, walk)), sequence

    return sorted(walks, key=key)


# What the code under test says, in the words of the above.


def walks_of(found: FoundPaths, row: int, arcs: dict[int, WalkedArc]) -> list[Walk]:
    """The paths that a search found for a link."""
    walks = []
    for numbers, length in zip(found.arcs[row], found.lengths[row], strict=True):
        promise((numbers[length:] == -1).all(), "there are arcs behind the end of a path")
        if length:
            walks.append(tuple(arcs[int(arc)].step for arc in numbers[:length]))
    # Best first, and nothing behind the last one.
    promise((found.lengths[row] > 0)[: len(walks)].all(), "there are gaps between the paths")
    return walks


class Costs:
    """Whole costs of steps, drawn once for each; few different ones, so that many are equal."""

    def __init__(self, rng: np.random.Generator, highest: int) -> None:
        self._rng = rng
        self._highest = highest
        self._drawn: dict[Step, int] = {}

    def __call__(self, step: Step) -> int:
        """The cost of a step."""
        if step not in self._drawn:
            self._drawn[step] = int(self._rng.integers(0, self._highest + 1))
        return self._drawn[step]

    def of(self, arcs: dict[int, WalkedArc]) -> Longs:
        """The costs of arcs, in the order of their numbers."""
        return np.array([self(arcs[arc].step) for arc in sorted(arcs)], dtype=np.int64)


@dataclass(frozen=True)
class WalkedArc:
    """An arc of a link: the step, and the stored edge that it walks."""

    step: Step
    edge: Edge
    reversed: bool


def arcs_of(
    graph: TypedGraph, drawn: Multigraph, batch: ComputationGraphs, paths: PathGraphs, link: int
) -> dict[int, WalkedArc]:
    """The arcs of a link by number, each checked against the stored edge that it walks."""
    nodes = paths.nodes[paths.node_ptr[link] : paths.node_ptr[link + 1]]
    first = paths.node_ptr[link] + link
    arcs: dict[int, WalkedArc] = {}
    for i, tail in enumerate(nodes):
        for arc in range(paths.arc_ptr[first + i], paths.arc_ptr[first + i + 1]):
            slot = paths.arc_slot[arc]
            mine = batch.edge_ptr[link] <= slot < batch.edge_ptr[link + 1]
            promise(mine, "an arc walks an edge of another link")
            edge = edge_of(graph, int(batch.edges[slot]))
            step = (
                graph.node(int(tail)),
                graph.node(int(nodes[paths.arc_dst[arc]])),
                drawn.relations(edge.type),
            )
            back = bool(paths.arc_reversed[arc])
            walked = (edge.dst, edge.src) if back else (edge.src, edge.dst)
            promise(step[:2] == walked, "an arc does not join the ends of its edge")
            arcs[arc] = WalkedArc(step, edge, back)
    numbers = paths.arcs_of(link)
    promise(sorted(arcs) == list(range(numbers.start, numbers.stop)), "arcs are not numbered")
    return arcs
