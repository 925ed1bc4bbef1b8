"""How relations are called before readers. Loads no torch, so that the views can use it."""

from __future__ import annotations

import re
from collections.abc import Mapping

HOMOGENEOUS_NODE_TYPE = "node"
REVERSE_PREFIX = "rev_"

EdgeType = tuple[str, str, str]
Phrases = Mapping[EdgeType, tuple[str, str]]


def relation_label(edge_type: tuple[str, str, str]) -> str:
    """Return the name of a relation; of what `to_homogeneous()` made of it, the relation alone.

    Of a name that is an address or a path, as those of Freebase are, it is the last part.

    Example:
        >>> relation_label(("node", "user__likes__item", "node"))
        'likes'
        >>> relation_label(("user", "often__likes__this", "item"))
        'often__likes__this'
        >>> relation_label(("entity", "/film/film/country", "entity"))
        'country'
        >>> relation_label(("entity", "http://dbpedia.org/ontology/birthPlace", "entity"))
        'birth place'
    """
    source, name, target = edge_type
    parts = name.split("__")
    named_by_ends = source == target == HOMOGENEOUS_NODE_TYPE and len(parts) == 3 and all(parts)
    return _last_part(parts[1] if named_by_ends else name)


def relation_words(
    edge_type: EdgeType, phrases: Phrases, reverse: Mapping[EdgeType, EdgeType]
) -> tuple[str, bool]:
    """Return the words for a relation, and whether they read from target to source.

    Args:
        edge_type: the relation.
        phrases: how relations read, from source to target and back.
        reverse: which relation is the reverse of which.
    """
    for each in (edge_type, reverse.get(edge_type)):
        if each is not None and each in phrases:
            return phrases[each][0], each != edge_type
    name = relation_label(edge_type)
    if name.startswith(REVERSE_PREFIX) and len(name) > len(REVERSE_PREFIX):
        return name.removeprefix(REVERSE_PREFIX).replace("_", " "), True
    return name.replace("_", " "), False


def phrase_of(
    edge_type: EdgeType, phrases: Phrases, reverse: Mapping[EdgeType, EdgeType], backwards: bool
) -> str:
    """Return how a fact of a relation reads from source to target, or back; empty: not known.

    Example:
        >>> binds, back = ("drug", "binds", "gene"), ("gene", "rev_binds", "drug")
        >>> phrase_of(back, {binds: ("binds", "is bound by")}, {back: binds}, False)
        'is bound by'
    """
    own, other = phrases.get(edge_type), phrases.get(reverse.get(edge_type, ("", "", "")))
    if own is not None and own[backwards]:
        return own[backwards]
    return "" if other is None else other[not backwards]


_PATH = re.compile(r"(rev_)?(?:/|[a-z][a-z0-9+.-]*:(?://)?)(?:.*[/#:])?([^/#:]*[^/#:\s])[/#]?")


def _last_part(name: str) -> str:
    found = _PATH.fullmatch(name)
    if found is None or "/" not in name:
        return name
    prefix, last = found.groups()
    return (prefix or "") + re.sub(r"(?<=[a-z])(?=[A-Z][a-z])", " ", last).lower()
