"""Direct facts that may be the explained link itself, under another name.

The link is taken out of the graph by its type. A relation that says the same under another name
stays in, and the best path is then that relation: no explanation. This is said before all else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from pagelink.graph.links import Link
from pagelink.graph.lookup import edges_between
from pagelink.graph.schema import EdgeType
from pagelink.search.work import Setup

SAMPLE = 200
"""Stored links of a type that other relations are compared with, at most."""
MOST = 0.5
"""A relation that joins more than this share of them may restate links of the type."""


@dataclass(frozen=True)
class DirectFacts:
    """Finds relations that join the ends of a link directly and may restate it.

    These are all other relations, since links asked about may be stored under another name than the
    other links of their type. Those that join most stored links of the type, too, are reported in
    stronger words; and so are all where none is stored, since nothing tells them from the link.
    What it finds depends on the graph and the link alone.
    """

    setup: Setup
    _restating: dict[EdgeType, frozenset[str] | None] = field(default_factory=dict, repr=False)

    def relations(self, link: Link) -> tuple[str, ...]:
        """Return the names of such relations, as `exclude_relations` takes them.

        Relations on whose messages the score does not rest, and facts that the settings leave out,
        lie on no path and do not count.
        """
        graph, allowed = self.setup.graph, self.setup.constraints.edges
        edges = edges_between(graph, link.src, link.dst)
        edges = edges[(graph.fact[edges] != link.fact)]
        edges = edges[self.setup.receptive_field.seen_relations[graph.relation[edges]]]
        if allowed is not None:
            edges = edges[allowed[edges]]
        found = np.unique(graph.relation_class[graph.relation[edges]]).tolist()
        own = graph.relation_class[graph.edge_types.index(link.type)]
        return tuple(self._name(each) for each in found if each != own)

    def note(self, link: Link, relations: tuple[str, ...]) -> str:
        """Say which relations may restate a link, and what to do about it."""
        restating = self._restate(link.type)
        likely = [name for name in relations if restating is None or name in restating]
        others = [name for name in relations if name not in likely]
        sentences = []
        if likely:
            joins, it = _joins(likely)
            do = "does" if len(likely) == 1 else "do"
            why = f"as {it} {do} most links of this type in the graph"
            if restating is None:
                why = f"and the graph holds no links of type '{link.type[1]}'"
            sentences.append(
                f"{joins}, {why}: {it} may be the link itself under another name. If so, give it "
                f"as link_type, or leave it out of the paths by exclude_relations={likely}."
            )
        if others:
            joins, it = _joins(others)
            states = "states" if len(others) == 1 else "state"
            sentences.append(
                f"{joins}: if {it} {states} the link under another name, set "
                f"exclude_relations={others}."
            )
        return " ".join(sentences)

    def _restate(self, link_type: EdgeType) -> frozenset[str] | None:
        """The relations that join most stored links of a type; None: none is stored."""
        if link_type not in self._restating:
            self._restating[link_type] = self._find_restating(link_type)
        return self._restating[link_type]

    def _find_restating(self, link_type: EdgeType) -> frozenset[str] | None:
        graph = self.setup.graph
        stored = [
            t for t in (link_type, graph.reverse.get(link_type))
            if t is not None and graph.edge_counts[graph.edge_types.index(t)]
        ]  # fmt: skip
        if not stored:
            return None
        src, dst = graph.some_links(stored[0], SAMPLE)
        counts = np.zeros(len(graph.edge_types), dtype=np.int64)
        for ends in zip(src.tolist(), dst.tolist(), strict=True):
            counts[
                np.unique(graph.relation_class[graph.relation[edges_between(graph, *ends)]])
            ] += 1
        return frozenset(map(self._name, np.flatnonzero(counts > MOST * len(src)).tolist()))

    def _name(self, relation: int) -> str:
        """The shortest name that `exclude_relations` takes for this relation alone."""
        edge_types = self.setup.graph.edge_types
        edge_type = edge_types[relation]
        alone = sum(t[1] == edge_type[1] for t in edge_types) == 1
        return edge_type[1] if alone else "__".join(edge_type)


def _joins(relations: Sequence[str]) -> tuple[str, str]:
    """That relations join the ends of a link, and the word for them."""
    named = " and ".join(f"'{name}'" for name in relations)
    verb, it = ("joins", "it") if len(relations) == 1 else ("join", "they")
    return f"{named} {verb} source and target directly", it
