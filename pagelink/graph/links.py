"""The links to explain, as users give them: from names, indices and link types to flat nodes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from pagelink.errors import LinkError
from pagelink.graph.schema import (
    HOMOGENEOUS_NODE_TYPE,
    EdgeType,
    nearest_relations,
    relations_called,
    several_relations,
)
from pagelink.graph.typed_graph import TypedGraph

Key = int | str
End = Literal["src", "dst"]
"""One of the two ends of a link."""
LinkLike = tuple[Key, Key] | tuple[Key, Key, EdgeType | Key]


@dataclass(frozen=True)
class Link:
    """A link to explain, in flat nodes."""

    type: EdgeType
    src: int
    dst: int
    fact: int
    """The fact of the graph that states the link itself, or -1."""
    message: str | None = None
    """Why the link is malformed, or None."""
    given: tuple[str, str] = ("", "")
    """A malformed link as it was given."""

    def at(self, end: End) -> int:
        """Return the flat node at one end."""
        return self.src if end == "src" else self.dst

    def moved(self, end: End, node: int) -> Link:
        """Return the link that has another node at one end, which the graph is not said to hold."""
        src, dst = (node, self.dst) if end == "src" else (self.src, node)
        return replace(self, src=src, dst=dst, fact=-1)

    @classmethod
    def broken(cls, given: Any, link_type: EdgeType, message: str) -> Link:
        """A link that cannot be explained."""
        parts = [str(part) for part in given] if isinstance(given, tuple | list) else [str(given)]
        src, dst = [*parts, "?", "?"][:2]
        return cls(link_type, -1, -1, -1, message, (src, dst))


class LinkReader:
    """Finds the nodes and the type of links as users give them.

    Args:
        graph: the graph, which knows the names of nodes and the phrases of relations.
        link_types: the types that links may have.
        has_default: links without a type are of the first one; else they are malformed.
    """

    def __init__(
        self, graph: TypedGraph, link_types: Sequence[EdgeType], *, has_default: bool = True
    ) -> None:
        self._graph = graph
        self._link_types = tuple(link_types)
        self._has_default = has_default
        self._called: dict[Any, EdgeType] = {}

    def read(self, row: LinkLike) -> Link:
        """Return a link in flat nodes.

        Raises:
            LinkError: there is no such node or link type.
        """
        # Rows of tensors and arrays are welcome, too.
        as_list = getattr(row, "tolist", None)
        given: Any = row if as_list is None else as_list()
        if not isinstance(given, tuple | list) or len(given) not in (2, 3):
            raise LinkError(f"A link is (src, dst) or (src, dst, link_type), got {given!r}.")
        link_type = self._type_of(given[2:])
        src = self._graph.find_node(link_type[0], given[0])
        dst = self._graph.find_node(link_type[2], given[1])
        if src == dst:
            raise LinkError(
                f"{self._graph.node_name(src)!r} is both source and target: there is no path from "
                "a node to itself."
            )
        return Link(link_type, src, dst, self._graph.link_fact(src, dst, link_type))

    def read_any(self, row: LinkLike) -> Link:
        """Return a link, also a malformed one, with the message why."""
        try:
            return self.read(row)
        except LinkError as error:
            return Link.broken(row, self._type_as_given(row), str(error))

    def _type_as_given(self, row: Any) -> EdgeType:
        """The type of a malformed link, in the words that it was given in where it is none."""
        given = row[2:] if isinstance(row, tuple | list) and len(row) == 3 else ()
        try:
            return self._type_of(given)
        except LinkError:
            src_type, _, dst_type = self._link_types[0]
            return src_type, "".join(part for part in given if isinstance(part, str)), dst_type

    def _type_of(self, given: Sequence[Any]) -> EdgeType:
        """The type that is meant, looked up once however many links are of it; none: the first."""
        if not given and not self._has_default:
            raise LinkError(
                f"The link names none of the {len(self._link_types)} relations. Name one in the "
                "column relation, or one for all by --link."
            )
        if not given:
            return self._link_types[0]
        key = tuple(given[0]) if isinstance(given[0], list) else given[0]
        if key not in self._called:
            self._called[key] = self._find_type(given[0])
        return self._called[key]

    def _find_type(self, given: EdgeType | Key) -> EdgeType:
        known, graph = self._link_types, self._graph
        fitting = [t for t in known if given in (t, t[1], list(t))]
        if not fitting and isinstance(given, str):
            phrases = {t: (phrase, "") for t in known if (phrase := graph.phrase(t))}
            fitting = relations_called(given, known, phrases)
        if not fitting and HOMOGENEOUS_NODE_TYPE in graph.node_types:
            meant = [graph.relation_called(t) for t in as_link_types(given, hetero=False)]
            fitting = [t for t in meant if t in known]
        if len(fitting) > 1:
            raise LinkError(several_relations(f"{given!r}", fitting))
        if fitting:
            return fitting[0]
        asked = ",".join(map(str, given)) if isinstance(given, tuple | list) else str(given)
        raise LinkError(
            f"{given!r} is not a link type of this explainer. {nearest_relations(asked, known)}"
        )


def as_link_types(
    given: EdgeType | Key | Sequence[EdgeType | Key], hetero: bool
) -> tuple[EdgeType, ...]:
    """Return the link types that were given, one or several.

    In a homogeneous graph the name of a relation, or its value in `edge_type`, is enough.
    """
    kind = HOMOGENEOUS_NODE_TYPE
    several: Sequence[Any] = ()
    if isinstance(given, Sequence) and not isinstance(given, str):
        several = given
    if not all(isinstance(part, str) for part in several):
        return tuple(as_link_types(link_type, hetero)[0] for link_type in several)
    if len(several) == 3:
        return ((several[0], several[1], several[2]),)
    is_key = isinstance(given, str | int) and not isinstance(given, bool)
    if hetero or not (several or is_key):
        raise LinkError(f"A link type is (source type, relation, target type), got {given!r}.")
    names = [str(relation) for relation in several or [given]]
    if wrong := [name for name in names if re.fullmatch("-[0-9]+", name)]:
        raise LinkError(
            "A link type is the name of a relation, or its value in edge_type; values of edge_type "
            f"are numbers from 0 up, got {wrong[0]}."
        )
    return tuple((kind, name, kind) for name in names)
