"""Direct facts that may be the explained link itself, under another name.

The link is taken out of the graph by its type. A relation that says the same under another name
stays in, and the best path is then that relation: no explanation. This is told before all else.
"""

from __future__ import annotations

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

    Where the graph stores links of the type, these are relations that join most of them, too; where
    it stores none, nothing tells them from the link, and any relation counts. What it finds depends
    on the graph and the link alone.
    """

    setup: Setup
    _restating: dict[EdgeType, frozenset[int] | None] = field(default_factory=dict, repr=False)

    def relations(self, link: Link) -> tuple[str, ...]:
        """Return the names of such relations, as `exclude_relations` takes them.

        Relations along which the model passes no messages, and facts that the settings leave out,
        lie on no path and do not count.
        """
        graph, allowed = self.setup.graph, self.setup.constraints.edges
        edges = edges_between(graph, link.src, link.dst)
        edges = edges[(graph.fact[edges] != link.fact)]
        edges = edges[self.setup.receptive_field.seen_relations[graph.relation[edges]]]
        if allowed is not None:
            edges = edges[allowed[edges]]
        found = np.unique(graph.relation_class[graph.relation[edges]]).tolist()
        if not found:
            return ()
        if link.type not in self._restating:
            self._restating[link.type] = self._restate(link.type)
        restating = self._restating[link.type]
        return tuple(self._name(each) for each in found if restating is None or each in restating)

    def note(self, link: Link, relations: tuple[str, ...]) -> str:
        """Say which relations may restate a link, and what to do about it."""
        named = " and ".join(f"'{name}'" for name in relations)
        one = len(relations) == 1
        verb, it = ("joins", "it") if one else ("join", "they")
        why = f"as {it} {'does' if one else 'do'} most links of this type in the graph"
        if self._restating[link.type] is None:
            why = f"and the graph holds no links of type '{link.type[1]}'"
        return (
            f"{named} {verb} source and target directly, {why}: {it} may be the link itself under "
            f"another name. If so, give it as link_type, or leave it out of the paths by "
            f"exclude_relations={list(relations)}."
        )

    def _restate(self, link_type: EdgeType) -> frozenset[int] | None:
        """The classes of relations that join most stored links of a type; None: none is stored."""
        graph = self.setup.graph
        stored = [
            t for t in (link_type, graph.reverse.get(link_type))
            if t is not None and graph.edge_counts[graph.edge_types.index(t)]
        ]  # fmt: skip
        if not stored:
            return None
        own = graph.relation_class[graph.edge_types.index(link_type)]
        src, dst = graph.some_links(stored[0], SAMPLE)
        counts = np.zeros(len(graph.edge_types), dtype=np.int64)
        for ends in zip(src.tolist(), dst.tolist(), strict=True):
            counts[
                np.unique(graph.relation_class[graph.relation[edges_between(graph, *ends)]])
            ] += 1
        return frozenset(np.flatnonzero(counts > MOST * len(src)).tolist()) - {int(own)}

    def _name(self, relation: int) -> str:
        """The shortest name that `exclude_relations` takes for this relation alone."""
        edge_types = self.setup.graph.edge_types
        edge_type = edge_types[relation]
        alone = sum(t[1] == edge_type[1] for t in edge_types) == 1
        return edge_type[1] if alone else "__".join(edge_type)
