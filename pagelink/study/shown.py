"""Facts as they are shown: a drawing and sentences that depend on the facts alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cached_property

import numpy as np

from pagelink.graph import EdgeType, Longs, TypedGraph
from pagelink.study.explaining import Pair
from pagelink.study.questions import Shown
from pagelink.views.layers import NamedFact, Node, columns_of
from pagelink.views.naming import clean, isolate, phrases_of, words
from pagelink.views.score_wording import chance
from pagelink.views.subgraph import NOTHING, draw_subgraph


class Words:
    """Says and draws facts in the words of a graph.

    Args:
        graph: the graph.
        link_type: the predicted relation.
    """

    def __init__(self, graph: TypedGraph, link_type: EdgeType) -> None:
        self._graph, self._link_type = graph, link_type
        self._kinds = {kind: words(kind) for kind in graph.node_types}
        self._alike = {kind: Counter(map(str, names)) for kind, names in graph.names.items()}

    def link(self, pair: Pair) -> str:
        """The predicted link as a sentence."""
        src, dst = map(self._phrase, self._ends(pair))
        return f"{src} {words(self._link_type[1])} {dst}"

    def score(self, logit: float) -> str:
        """What the model says of a link."""
        probability = float(1 / (1 + np.exp(-logit)))
        return (
            f"The model puts the chance of this link at {chance(probability)} (score {logit:.2f})."
        )

    def fact(self, fact: int) -> str:
        """A fact as a sentence."""
        src, relation, dst = self._read(fact)
        return f"{self._phrase(src)} {isolate(relation)} {self._phrase(dst)}"

    def shown(self, pair: Pair, facts: Sequence[int]) -> Shown:
        """An explanation, from whichever explainer."""
        src, dst = map(self._node, self._ends(pair))
        named = {fact: self._named(fact) for fact in facts}
        column = columns_of(sorted(named.values(), key=str), src, dst)

        def order(fact: int) -> tuple[int, int, str]:
            at = sorted(column[node] for node in named[fact].ends)
            return at[0], at[-1], self.fact(fact)

        sentences = tuple(f"{self.fact(fact)}." for fact in sorted(facts, key=order))
        title = f"{len(facts)} facts about: {self.link(pair)}"
        svg = draw_subgraph(title, src, dst, list(named.values()), self._kinds.values())
        return Shown(svg, sentences or (NOTHING,))

    def _ends(self, pair: Pair) -> tuple[int, int]:
        graph, (src_type, _, dst_type) = self._graph, self._link_type
        return graph.flat_index(src_type, pair[0]), graph.flat_index(dst_type, pair[1])

    def _read(self, fact: int) -> tuple[int, str, int]:
        """A fact in the direction of its words, by flat nodes."""
        graph, edge = self._graph, int(self._edge_of[fact])
        relation, backwards = graph.relation_words(graph.edge_types[graph.relation[edge]])
        src, dst = int(graph.src[edge]), int(graph.dst[edge])
        return (dst, clean(relation), src) if backwards else (src, clean(relation), dst)

    @cached_property
    def _edge_of(self) -> Longs:
        """Of each fact, the edge that states it first."""
        graph = self._graph
        edges = np.flatnonzero(graph.representative)[::-1]
        found = np.full(int(graph.fact.max(initial=-1)) + 1, -1, dtype=np.int64)
        found[graph.fact[edges]] = edges
        return found

    def _named(self, fact: int) -> NamedFact:
        src, relation, dst = self._read(fact)
        return NamedFact(self._node(src), relation, self._node(dst))

    def _node(self, flat: int) -> Node:
        kind, index = self._graph.node(flat)
        name = clean(self._graph.node_name(flat))
        if not name or self._alike.get(kind, Counter())[self._graph.node_name(flat)] > 1:
            name = f"{name} (number {index})".strip()
        return self._kinds[kind], name

    def _phrase(self, flat: int) -> str:
        node = self._graph.node(flat)
        return isolate(phrases_of({node: self._node(flat)[1]}, self._relations)[node])

    @cached_property
    def _relations(self) -> Iterable[str]:
        return {words(relation) for _, relation, _ in self._graph.edge_types}
