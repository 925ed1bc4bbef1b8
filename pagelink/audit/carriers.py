"""Single facts and nodes that move a prediction: measured by removing each of them alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pagelink.explain.result import Explanation, Node, PathEdge
from pagelink.graph.edited_graphs import Edits
from pagelink.graph.lookup import fact_of, slots_of_facts
from pagelink.measure.trials import Trials
from pagelink.runtime.arrays import Longs
from pagelink.runtime.csr import Csr
from pagelink.views.statements import statement

FACTS, NODES = 24, 12
"""Facts and nodes of the highest gradient that are tried, beside those of the explanation."""


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


def carrying_facts(trials: Trials, explanation: Explanation) -> tuple[Carrier, ...]:
    """Return the facts that move the score of the only link of a batch, the strongest first.

    Tried are the facts of the returned paths, the strongest facts, and those of the highest
    gradient: a fact that was not tried may move the score as well.

    Raises:
        OutOfTimeError: the time was over before all of it was measured.
    """
    graph, batch = trials.graphs.graph, trials.work.batch
    slots = np.flatnonzero(trials.graphs.whole)
    of_slot = graph.fact[batch.edges[slots]].astype(np.int64)
    facts, place = np.unique(of_slot, return_inverse=True)
    slope = np.bincount(place, trials.work.gradient()[slots], minlength=len(facts))
    tried = np.union1d(_steepest(facts, slope, FACTS), np.array(_named_facts(trials, explanation)))
    tried = tried[np.isin(tried, facts)].astype(np.int64)
    lists = [slots_of_facts(graph, batch, 0, [fact]) for fact in tried.tolist()]
    found = []
    for fact, effect in _noticed(trials, tried, lists):
        same = batch.edges[slots[of_slot == fact]]
        edge = int(next((each for each in same if graph.representative[each]), same[0]))
        edge_type = graph.edge_types[graph.relation[edge]]
        src, dst = int(graph.src[edge]), int(graph.dst[edge])
        told = statement(graph, edge_type, src, dst)
        found.append(
            Carrier(edge_type[1], (graph.node(src), graph.node(dst)), told, 0, effect)
        )  # fmt: skip
    return tuple(found)


def carrying_nodes(trials: Trials, explanation: Explanation) -> tuple[Carrier, ...]:
    """Return the nodes without whose facts the score moves, the strongest first.

    Source and target are not tried; otherwise as `carrying_facts`.

    Raises:
        OutOfTimeError: the time was over before all of it was measured.
    """
    graph, batch = trials.graphs.graph, trials.work.batch
    slots = np.flatnonzero(trials.graphs.whole)
    gradient = trials.work.gradient()[slots]
    size = len(batch.nodes)
    ends = np.concatenate([batch.src[slots], batch.dst[slots]])
    slope = np.bincount(ends, np.tile(gradient, 2), minlength=size)
    inner = [node for path in explanation.paths for node in path.nodes[1:-1]]
    if explanation.strongest is not None:
        inner += [node for fact in explanation.strongest.facts for node in fact.nodes]
    named = np.array([graph.flat_index(*node) for node in inner], dtype=np.int64)
    tried = np.union1d(
        _steepest(np.arange(size), slope, NODES),
        np.flatnonzero(np.isin(batch.nodes, named)),
    )
    tried = np.setdiff1d(tried, batch.ends[:, 0]).astype(np.int64)
    lists = [
        slots[(batch.src[slots] == node) | (batch.dst[slots] == node)] for node in tried.tolist()
    ]
    found = []
    for node, effect in _noticed(trials, tried, lists):
        flat = int(batch.nodes[node])
        kind, index = graph.node(flat)
        name, degree = graph.node_name(flat), int(graph.degree[flat])
        found.append(Carrier(kind, ((kind, index),), name, degree, effect))
    return tuple(found)


def _named_facts(trials: Trials, explanation: Explanation) -> list[int]:
    """The facts that an explanation names."""
    graph = trials.graphs.graph

    def facts(edges: Iterable[tuple[PathEdge, Node, Node]]) -> list[int]:
        return [
            fact_of(graph, edge.type, edge.index, start if edge.reversed else end)
            for edge, start, end in edges
        ]

    found = []
    for path in explanation.paths:
        found += facts(zip(path.edges, path.nodes[:-1], path.nodes[1:], strict=True))
    if explanation.strongest is not None:
        found += facts((fact.edge, *fact.nodes) for fact in explanation.strongest.facts)
    return found


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
