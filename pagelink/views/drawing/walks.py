"""Any facts as walks: from source to target where they lead there, else as far as they go.

An explanation that was not made of paths is drawn like one that was, with nothing left out.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from pagelink.explain.result import PathEdge
from pagelink.views.layers import NamedFact, Node
from pagelink.views.statements import Fact, NodeWords, Step


@dataclass(frozen=True)
class Walk:
    """Facts one after the other, as the drawing of a path takes them."""

    rank: int
    nodes: tuple[NodeWords, ...]
    steps: tuple[Step, ...]
    strong: tuple[bool, ...]
    """Per node, whether it is the source or the target."""


def walks_of(facts: Sequence[NamedFact], src: Node, dst: Node) -> list[Walk]:
    """Return walks that have all facts; which they are depends on the facts alone.

    First paths from the source to the target, the shortest first: one through every fact that is on
    such a path, so that a fact may be on several. Then the other facts, each once, from the source
    or to the target where they are joined to these. Without facts, the two ends.
    """
    every = sorted(set(facts), key=lambda fact: (fact.src, fact.relation, fact.dst))
    chains = [chain for fact in every if (chain := _through(fact, every, src, dst))]
    kept: list[list[NamedFact]] = []
    for chain in sorted(chains, key=len):
        if not {*chain} <= {fact for other in kept for fact in other}:
            kept.append(chain)
    walked = [_nodes(chain, src) for chain in kept]
    rest = [fact for fact in every if not any(fact in chain for chain in kept)]
    while rest:
        start = next((end for end in (src, dst) if any(end in fact.ends for fact in rest)), None)
        first = start or min(rest[0].ends)
        chain = _onward(first, rest)
        nodes = _nodes(chain, first)
        rest = [fact for fact in rest if fact not in chain]
        if start == dst:
            chain, nodes = chain[::-1], nodes[::-1]
        kept.append(chain)
        walked.append(nodes)
    if not kept:
        kept, walked = [[], []], [[src], [dst]]
    return [
        _walk(rank, chain, nodes, (src, dst))
        for rank, (chain, nodes) in enumerate(zip(kept, walked, strict=True), start=1)
    ]


def _through(
    fact: NamedFact, facts: Sequence[NamedFact], src: Node, dst: Node
) -> list[NamedFact] | None:
    """The shortest path from source to target through a fact that this finds, or None."""
    found = []
    for start, stop in ((fact.src, fact.dst), (fact.dst, fact.src)):
        if start == stop:
            continue
        before = _shortest(facts, src, start, {stop, dst} - {start})
        if before is None:
            continue
        after = _shortest(facts, stop, dst, {*_nodes(before, src)})
        if after is not None:
            found.append([*before, fact, *after])
    return min(found, key=len, default=None)


def _shortest(
    facts: Sequence[NamedFact], start: Node, stop: Node, closed: Collection[Node]
) -> list[NamedFact] | None:
    """The facts of a shortest path between two nodes that passes no closed node, or None."""
    if start in closed:
        return None
    paths: dict[Node, list[NamedFact]] = {start: []}
    queue = [start]
    for node in queue:
        for fact in facts:
            if node in fact.ends:
                (other,) = fact.ends - {node} or {node}
                if other not in paths and other not in closed:
                    paths[other] = [*paths[node], fact]
                    queue.append(other)
    return paths.get(stop)


def _onward(start: Node, facts: Sequence[NamedFact]) -> list[NamedFact]:
    """Facts from a node on, until there is none that leads to a new node."""
    chain: list[NamedFact] = []
    node, seen = start, {start}
    while True:
        onward = (fact for fact in facts if node in fact.ends and not fact.ends <= seen)
        # What joins nodes that were passed already is a walk of its own.
        fact = next(onward, None) or next((f for f in facts if not chain and node in f.ends), None)
        if fact is None:
            return chain
        chain.append(fact)
        (node,) = fact.ends - {node} or {node}
        if node in seen:
            return chain
        seen.add(node)


def _nodes(chain: Sequence[NamedFact], start: Node) -> list[Node]:
    nodes = [start]
    for fact in chain:
        (other,) = fact.ends - {nodes[-1]} or {nodes[-1]}
        nodes.append(other)
    return nodes


def _walk(
    rank: int, chain: Sequence[NamedFact], nodes: Sequence[Node], ends: tuple[Node, Node]
) -> Walk:
    said = {
        node: NodeWords(node=(node[0], 0), name=node[1], kind=node[0], phrase=node[1], degree=None)
        for node in nodes
    }
    steps = []
    for fact, start in zip(chain, nodes, strict=False):
        backwards = fact.src != start
        edge = PathEdge(("", "", ""), 0, False, fact.relation, backwards, mask=1.0)
        told = Fact(said[fact.src], fact.relation, said[fact.dst])
        steps.append(Step(told, backwards, edge, stored="", details="", role=""))
    strong = tuple(node in ends for node in nodes)
    return Walk(rank, tuple(said[node] for node in nodes), tuple(steps), strong)
