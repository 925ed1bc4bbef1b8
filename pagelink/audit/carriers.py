"""Single facts and nodes that move predictions: measured by removing each of them alone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pagelink.explain.options import facts_of, strongest_of
from pagelink.explain.result import Explanation, Node
from pagelink.graph.edited_graphs import Edits
from pagelink.graph.lookup import edges_of_facts, facts_of_triples, slots_of_facts
from pagelink.measure.trials import Trials
from pagelink.runtime.arrays import Longs
from pagelink.runtime.csr import Csr
from pagelink.views.statements import statement

FACTS, NODES = 24, 12
"""Facts and nodes of the highest gradient that are tried, beside those of the explanation."""
SUSPECTS = 40
"""Facts, and nodes, that move several links and are then tried on all links."""
LEAST_LINKS = 2
"""A fact or node that moves a single link is that link's own matter."""


@dataclass(frozen=True)
class Carrier:
    """A fact or a node that moves the score of a link."""

    kind: str
    """The relation of a fact, the type of a node."""
    nodes: tuple[Node, ...]
    """The two ends of a fact as it is stored, or the node."""
    text: str
    """In words of the graph."""
    degree: int
    """Facts at the node; 0 for a fact."""
    effect: float
    """How much the logit falls without the fact, or without all facts at the node."""


Suspects = tuple[tuple[Carrier, ...], tuple[Carrier, ...]]
"""Facts, and nodes."""
Place = tuple[int, Carrier]
"""A link, by its place, and what moves it."""


def moving_several(carriers: Iterable[Sequence[Carrier]]) -> list[list[Place]]:
    """Return the facts or nodes that move several links, those that move most first.

    Args:
        carriers: the facts, or the nodes, of each link.

    Returns:
        Per fact or node, the links that it moves.
    """
    moved: dict[tuple[Any, ...], list[Place]] = defaultdict(list)
    for place, those in enumerate(carriers):
        for each in those:
            moved[each.kind, each.nodes].append((place, each))
    found = [places for places in moved.values() if len(places) >= LEAST_LINKS]

    def order(places: list[Place]) -> tuple[Any, ...]:
        sizes = [abs(each.effect) for _, each in places]
        return -len(sizes), -float(np.mean(sizes)), places[0][1].text

    return sorted(found, key=order)


def carrying_facts(trials: Trials, explanation: Explanation) -> tuple[Carrier, ...]:
    """Return the facts that move the score of the only link of a batch, the strongest first.

    Tried are the facts of the returned paths, the strongest facts, and those of the highest
    gradient: a fact that was not tried may move the score as well.

    Raises:
        OutOfTimeError: the time was over before all of it was measured.
    """
    graph, batch = trials.graphs.graph, trials.work.batch
    slots = np.flatnonzero(trials.graphs.whole)
    facts, place = np.unique(graph.fact[batch.edges[slots]].astype(np.int64), return_inverse=True)
    slope = np.bincount(place, trials.work.gradient()[slots], minlength=len(facts))
    named = np.union1d(facts_of(graph, explanation.paths), strongest_of(graph, explanation))
    tried = np.union1d(_steepest(facts, slope, FACTS), np.intersect1d(named, facts))
    return _moved_by_facts(trials, tried)


def carrying_nodes(trials: Trials, explanation: Explanation) -> tuple[Carrier, ...]:
    """Return the nodes without whose facts the score moves, the strongest first.

    Source and target are not tried; otherwise as `carrying_facts`.

    Raises:
        OutOfTimeError: the time was over before all of it was measured.
    """
    graph, batch = trials.graphs.graph, trials.work.batch
    slots = np.flatnonzero(trials.graphs.whole)
    ends = np.concatenate([batch.src[slots], batch.dst[slots]])
    slope = np.bincount(ends, np.tile(trials.work.gradient()[slots], 2), minlength=len(batch.nodes))
    inner = [node for path in explanation.paths for node in path.nodes[1:-1]]
    if explanation.strongest is not None:
        inner += [node for fact in explanation.strongest.facts for node in fact.nodes]
    named = np.array([graph.flat_index(*node) for node in inner], dtype=np.int64)
    steepest = _steepest(np.arange(len(batch.nodes)), slope, NODES)
    return _moved_by_nodes(trials, np.union1d(batch.nodes[steepest], named))


def carrying_suspects(trials: Trials, suspects: Suspects) -> Suspects:
    """Return which facts and nodes, of those that move other links, move the one of a batch.

    Raises:
        OutOfTimeError: the time was over before all of it was measured.
    """
    graph, batch = trials.graphs.graph, trials.work.batch
    facts, nodes = suspects
    triples = [(src[0], each.kind, dst[0], src[1], dst[1])
               for each in facts for src, dst in [each.nodes]]  # fmt: skip
    seen = graph.fact[batch.edges[trials.graphs.whole]]
    tried = np.intersect1d(np.array(facts_of_triples(graph, triples), dtype=np.int64), seen)
    flat = [graph.flat_index(*node) for each in nodes for node in each.nodes]
    return _moved_by_facts(trials, tried), _moved_by_nodes(trials, np.array(flat, dtype=np.int64))


def _moved_by_facts(trials: Trials, tried: Longs) -> tuple[Carrier, ...]:
    graph, batch = trials.graphs.graph, trials.work.batch
    lists = [slots_of_facts(graph, batch, 0, [fact]) for fact in tried.tolist()]
    found = []
    for fact, effect in _noticed(trials, tried, lists):
        # As it is stored, whichever direction of it the model sees for this link.
        edges = edges_of_facts(graph, [fact])
        edge = int(next((each for each in edges if graph.representative[each]), edges[0]))
        edge_type = graph.edge_types[graph.relation[edge]]
        src, dst = int(graph.src[edge]), int(graph.dst[edge])
        told = statement(graph, edge_type, src, dst)
        found.append(Carrier(edge_type[1], (graph.node(src), graph.node(dst)), told, 0, effect))
    return tuple(found)


def _moved_by_nodes(trials: Trials, flat: Longs) -> tuple[Carrier, ...]:
    """The nodes that move the score, of some; source and target are not tried."""
    graph, batch = trials.graphs.graph, trials.work.batch
    slots = np.flatnonzero(trials.graphs.whole)
    tried = np.setdiff1d(np.flatnonzero(np.isin(batch.nodes, flat)), batch.ends[:, 0])
    lists = [slots[(batch.src[slots] == node) | (batch.dst[slots] == node)]
             for node in tried.tolist()]  # fmt: skip
    seen = [place for place, each in enumerate(lists) if len(each)]
    found = []
    for node, effect in _noticed(trials, tried[seen], [lists[place] for place in seen]):
        at = int(batch.nodes[node])
        kind, index = graph.node(at)
        name, degree = graph.node_name(at), int(graph.degree[at])
        found.append(Carrier(kind, ((kind, index),), name, degree, effect))
    return tuple(found)


def _steepest(things: Longs, slope: Any, count: int) -> Longs:
    order = np.argsort(-np.abs(slope), kind="stable")[:count]
    found: Longs = things[order[slope[order] != 0]]
    return found


def _noticed(trials: Trials, things: Longs, lists: Sequence[Longs]) -> list[tuple[int, float]]:
    """Of things with their edges, those whose removal moves the score, and by how much."""
    if not len(things):
        return []
    edits = Edits(np.zeros(len(things), dtype=np.int64), Csr.of(list(lists)))
    effects = trials.effects(edits).tolist()
    noise = trials.work.setup.noise
    found = [pair for pair in zip(things.tolist(), effects, strict=True) if abs(pair[1]) > noise]
    return sorted(found, key=lambda pair: (-abs(pair[1]), pair[0]))
