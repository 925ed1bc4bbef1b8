"""Swaps of facts in plain form, on the whole graph: another judge that no choice of paths sees.

A fact (a, b) is exchanged with a fact (x, y) of the same relation elsewhere: they become (a, y) and
(x, b). Every node keeps its number of facts of each relation, so what changes is only what the
facts lead to. Nothing of the explainer's own swaps takes part, so that this can serve as a check.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch_geometric.data import HeteroData

from pagelink.bench.faithfulness.judges import EditedGraph, RewiredModel
from pagelink.bench.subjects import as_pairs
from pagelink.graph.links import Link
from pagelink.graph.lookup import edges_of_facts
from pagelink.graph.schema import EdgeType
from pagelink.graph.typed_graph import TypedGraph
from pagelink.metrics.averages import bootstrap_interval
from pagelink.models.links import LinkSplit, split_graph
from pagelink.models.messages import reverse_of
from pagelink.runtime.arrays import Bools, Doubles, Ints, Longs
from pagelink.runtime.csr import Csr

DRAWS, FEWEST = 20, 5
"""Swaps of a set of facts, and how many there must be to decide anything."""
NEAR = 40
"""Partners of the nearest degrees, of which one is drawn."""
TRIES = 20
"""Partners that are looked at before a draw is given up."""
FAR = 100
"""A distance in facts that no path has."""
EXCHANGES = 20
"""Exchanges of targets that are tried per link when links are shuffled."""

Placed = tuple[int, int, int]
"""A fact: the relation that stands for it and its reverse, tail and head."""


class FactSwaps:
    """Draws swaps of facts around a link.

    Args:
        graph: the whole graph, flat.
        max_length: no swap makes a new path of at most this many facts between the link's ends.
    """

    def __init__(self, graph: TypedGraph, max_length: int = 3) -> None:
        self._graph, self._max_length = graph, max_length
        # Of each fact: relation, tail and head, by an edge of the relation that stands for it.
        stands = graph.relation == graph.relation_class[graph.relation]
        order = np.argsort(stands, kind="stable")  # those come last, and have the last word
        fact, turned = graph.fact[order], ~stands[order]
        self.relation, self.tail, self.head = np.zeros((3, graph.num_facts), dtype=np.int64)
        self.relation[fact] = graph.relation_class[graph.relation[order]]
        self.tail[fact] = np.where(turned, graph.dst[order], graph.src[order])
        self.head[fact] = np.where(turned, graph.src[order], graph.dst[order])
        self._facts_of = Csr.grouped(self.relation, len(graph.edge_types))
        self._codes = np.sort(self._code(self.relation, self.tail, self.head))
        self._num_edges = np.diff(graph.edges_of_facts.ptr)
        self._arc_fact = graph.fact[graph.arc_edge]
        self._log_degree = np.log(np.maximum(graph.degree, 1))
        self._gone = np.zeros(graph.num_facts, dtype=np.bool_)

    def touches(self, node: int) -> Bools:
        """Per fact, whether it joins a node with another one."""
        found: Bools = ((self.tail == node) | (self.head == node)) & (self.tail != self.head)
        return found

    def on_path(self, src: int, dst: int, link_fact: int) -> Bools:
        """Per fact, whether it is on a path of at most `max_length` facts between two nodes."""
        from_src, from_dst = self._distances(src, dst, {link_fact} - {-1}, ())
        found = self._joins(from_src, from_dst, self.tail, self.head)
        found &= self.tail != self.head
        if link_fact >= 0:
            found[link_fact] = False
        return found

    def draw(
        self,
        src: int,
        dst: int,
        link_fact: int,
        facts: Sequence[int],
        rng: np.random.Generator,
        on_path: Bools | None = None,
    ) -> EditedGraph | None:
        """Return the graph in which each of the facts is exchanged with another one.

        No fact becomes one that is there already, nor the link itself, and no new path between the
        two ends arises. Partners touch neither end and are on no path between them.

        Args:
            src: source of the link, flat.
            dst: its target.
            link_fact: the fact that states the link, or -1; it is taken out.
            facts: what is swapped.
            rng: where partners are drawn from.
            on_path: what `on_path` returned for the link, if it is known.

        Returns:
            The edited graph; None if a fact has no partner.
        """
        ends = src, dst
        on_path = self.on_path(src, dst, link_fact) if on_path is None else on_path
        gone, new = {link_fact, *facts} - {-1}, list[Placed]()
        partners = []
        for fact in facts:
            found = self._partner(fact, ends, gone, new, on_path, rng)
            if found is None:
                return None
            partners.append(found)
            gone.add(found)
            new += self._exchanged(fact, found)
        edges = []
        for fact, partner in zip(facts, partners, strict=True):
            edges += self._moved(fact, int(self.head[fact]), int(self.head[partner]))
            edges += self._moved(partner, int(self.head[partner]), int(self.head[fact]))
        return EditedGraph(src, dst, frozenset(gone), tuple(edges))

    def _partner(
        self,
        fact: int,
        ends: tuple[int, int],
        gone: Collection[int],
        new: Sequence[Placed],
        on_path: Bools,
        rng: np.random.Generator,
    ) -> int | None:
        """A fact to exchange with, of those of near degrees; None if there is none."""
        relation, a, b = int(self.relation[fact]), int(self.tail[fact]), int(self.head[fact])
        first, last = self._facts_of.ptr[relation : relation + 2]
        others = self._facts_of.values[first:last]
        x, y = self.tail[others], self.head[others]
        # As many edges state it: copies and missing reverses would change degrees.
        free = self._num_edges[others] == self._num_edges[fact]
        free &= (x != y) & ~on_path[others] & ~np.isin(others, list(gone))
        for node in (*ends, a, b):
            free &= (x != node) & (y != node)
        others = others[free]
        x, y = self.tail[others], self.head[others]
        near = self._distances(*ends, gone, new)
        free = ~self._is_there(relation, np.full_like(y, a), y, new)
        free &= ~self._is_there(relation, x, np.full_like(x, b), new)
        free &= ~self._joins(*near, np.full_like(y, a), y) & ~self._joins(
            *near, x, np.full_like(x, b)
        )
        others = others[free]
        x, y = self.tail[others], self.head[others]
        apart = np.abs(self._log_degree[x] - self._log_degree[a])
        apart += np.abs(self._log_degree[y] - self._log_degree[b])
        # Of equal ones not always the first: the order is drawn before it is sorted.
        order = rng.permutation(len(others))
        order = order[np.argsort(apart[order], kind="stable")[:NEAR]]
        for place in rng.permutation(order)[:TRIES].tolist():
            # Both new facts together, and those of the swaps before, may still make a path.
            partner = int(others[place])
            added = [*new, *self._exchanged(fact, partner)]
            near = self._distances(*ends, {*gone, partner}, added)
            _, tails, heads = np.array(added, dtype=np.int64).T
            if not self._joins(*near, tails, heads).any():
                return partner
        return None

    def _exchanged(self, fact: int, partner: int) -> list[Placed]:
        relation = int(self.relation[fact])
        return [
            (relation, int(self.tail[fact]), int(self.head[partner])),
            (relation, int(self.tail[partner]), int(self.head[fact])),
        ]

    def _moved(self, fact: int, lost: int, other: int) -> list[tuple[int, int, int]]:
        """All edges of a fact with another node in the place of one of its ends."""
        graph, moved = self._graph, []
        for edge in edges_of_facts(graph, [fact]).tolist():
            src, dst = int(graph.src[edge]), int(graph.dst[edge])
            ends = (other if src == lost else src), (other if dst == lost else dst)
            moved.append((int(graph.relation[edge]), *ends))
        return moved

    def _is_there(self, relation: int, tail: Longs, head: Longs, new: Sequence[Placed]) -> Bools:
        """Per pair, whether it is a fact already, or would join a node with itself."""
        found: Bools = tail == head
        both_ways = self._within_a_type(relation)
        for one, other in ((tail, head), (head, tail))[: 2 if both_ways else 1]:
            codes = self._code(np.full_like(one, relation), one, other)
            place = np.minimum(np.searchsorted(self._codes, codes), len(self._codes) - 1)
            found |= self._codes[place] == codes
            for kind, new_tail, new_head in new:
                if kind == relation:
                    found |= (one == new_tail) & (other == new_head)
        return found

    def _within_a_type(self, relation: int) -> bool:
        source_type, _, target_type = self._graph.edge_types[relation]
        return source_type == target_type

    def _code(self, relation: Longs, tail: Longs, head: Longs) -> Longs:
        size = self._graph.num_nodes
        return (relation * size + tail) * size + head

    def _joins(self, from_src: Ints, from_dst: Ints, tail: Longs, head: Longs) -> Bools:
        """Per pair, whether a fact between the two would be on a short path of the link."""
        shortest = np.minimum(
            from_src[tail].astype(np.int64) + from_dst[head], from_src[head] + from_dst[tail]
        )
        joined: Bools = shortest + 1 <= self._max_length
        return joined

    def _distances(
        self, src: int, dst: int, gone: Collection[int], new: Sequence[Placed]
    ) -> tuple[Ints, Ints]:
        """Per node, its distance from either end in the edited graph; the other end is closed."""
        facts = list(gone)
        self._gone[facts] = True
        found = self._hops(src, dst, new), self._hops(dst, src, new)
        self._gone[facts] = False
        return found

    def _hops(self, start: int, closed: int, new: Sequence[Placed]) -> Ints:
        graph = self._graph
        distance = np.full(graph.num_nodes, FAR, dtype=np.int32)
        distance[start] = 0
        ring = np.array([start], dtype=np.int64)
        for hop in range(1, self._max_length):
            counts = graph.arc_ptr[ring + 1] - graph.arc_ptr[ring]
            shift = np.repeat(graph.arc_ptr[ring] - (np.cumsum(counts) - counts), counts)
            arcs = shift + np.arange(len(shift))
            reached = graph.arc_dst[arcs[~self._gone[self._arc_fact[arcs]]]].astype(np.int64)
            inside = set(ring.tolist())
            more = [head for _, tail, head in new if tail in inside]
            more += [tail for _, tail, head in new if head in inside]
            reached = np.unique(np.concatenate([reached, np.array(more, dtype=np.int64)]))
            ring = reached[(distance[reached] == FAR) & (reached != closed)]
            distance[ring] = hop
        return distance


@dataclass(frozen=True)
class SwapEffect:
    """What it costs when facts lead elsewhere, beside facts that are on no path."""

    value: float | None
    """The fall of the logit by swapping the facts, less that by swapping as many facts at the two
    ends that are on no path (placebo); None if there are too few swaps."""
    low: float | None
    """Lower end of its 95 % bootstrap interval over the draws."""
    high: float | None
    swapped: float | None
    """The mean fall by swapping the facts."""
    placebo: float | None
    """The mean fall by swapping the others; None where there are none, which counts as 0."""
    draws: int


def swap_effect(
    swaps: FactSwaps,
    ask: RewiredModel,
    link: Link,
    facts: Sequence[int],
    seed: int,
    draws: int = DRAWS,
) -> SwapEffect:
    """Measure whether it matters to a link's score what some facts lead to.

    Args:
        swaps: draws the swaps.
        ask: the model.
        link: the link.
        facts: facts that touch an end of it.
        seed: with the link, where the swaps are drawn from.
        draws: number of swaps.
    """
    ends = link.src, link.dst
    rng = np.random.default_rng((seed, *ends))
    on_path = swaps.on_path(*ends, link.fact)

    def falls(choose: Callable[[], Sequence[int] | None]) -> Doubles:
        """The fall of the logit by each swap that is found."""
        edited = [EditedGraph(*ends, frozenset({link.fact} - {-1}))]
        for _ in range(draws):
            chosen = choose()
            one = None
            if chosen is not None:
                one = swaps.draw(*ends, link.fact, chosen, rng, on_path)
            edited += [] if one is None else [one]
        logits = ask.logits(edited)
        fall: Doubles = logits[0] - logits[1:]
        return fall

    own = falls(lambda: facts)
    control = falls(lambda: placebo_facts(swaps, ends, link.fact, facts, on_path, rng))
    mean = float(control.mean()) if len(control) >= FEWEST else None
    if len(own) < FEWEST:
        return SwapEffect(None, None, None, None, mean, len(own))
    size = len(own) if mean is None else min(len(own), len(control))
    beyond = own[:size] - (0.0 if mean is None else control[:size])
    low, high = bootstrap_interval(beyond, seed)
    return SwapEffect(float(beyond.mean()), low, high, float(own.mean()), mean, size)


def placebo_facts(
    swaps: FactSwaps,
    ends: tuple[int, int],
    link_fact: int,
    facts: Sequence[int],
    on_path: Bools,
    rng: np.random.Generator,
) -> list[int] | None:
    """Draw as many facts at each end of a link as some facts have there, all on no path.

    Of the same relation where there is one at that end, else of any; where an end has too few, the
    other end gives more.

    Returns:
        The facts; None if there are not that many.
    """
    chosen: list[int] = []
    free = [np.flatnonzero(swaps.touches(end) & ~on_path) for end in ends]
    free = [each[each != link_fact] for each in free]
    for fact in facts:
        at = [n for n, end in enumerate(ends) if end in (swaps.tail[fact], swaps.head[fact])]
        first = free[at[0]] if at else free[0]
        same = first[swaps.relation[first] == swaps.relation[fact]]
        for some in (same, first, np.concatenate(free)):
            left = np.setdiff1d(some, chosen)
            if len(left):
                chosen.append(int(rng.choice(left)))
                break
        else:
            return None
    return chosen


def shuffled_links(
    data: HeteroData, link_type: EdgeType, seed: int
) -> tuple[HeteroData, LinkSplit]:
    """Return a graph whose training and validation links lead to other targets, and its split.

    Targets are exchanged between links of the same part, so that every node keeps its number of
    links in it. No link stays or becomes one of the graph's, as far as exchanges can do that. Test
    links stay as they are.

    Args:
        data: the graph with all links.
        link_type: the predicted relation, between two node types.
        seed: of the split and of the exchanges.
    """
    split, rng = split_graph(data, link_type, seed), np.random.default_rng((seed, 3))
    real = set(as_pairs(split.all))
    now, parts = set(real), []
    for part in (split.train, split.valid):
        links = list(as_pairs(part))
        for _ in range(EXCHANGES * len(links)):
            first, second = rng.integers(len(links), size=2).tolist()
            (a, b), (x, y) = links[first], links[second]
            if not {(a, y), (x, b)} & now and not {(a, y), (x, b)} & real:
                links[first], links[second] = (a, y), (x, b)
                now -= {(a, b), (x, y)}
                now |= {(a, y), (x, b)}
        parts.append(torch.tensor(links).T)
    made = LinkSplit(parts[0], parts[1], split.test)
    changed, reverse = copy.copy(data), reverse_of(data, link_type)
    changed[link_type].edge_index = made.all
    if reverse in data.edge_types:
        changed[reverse].edge_index = made.all.flip(0)
    return changed, made
