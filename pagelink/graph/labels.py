"""How relations are called before readers. Loads no torch, so that the views can use it."""

from __future__ import annotations

HOMOGENEOUS_NODE_TYPE = "node"


def relation_label(edge_type: tuple[str, str, str]) -> str:
    """Return the name of a relation; of what `to_homogeneous()` made of it, the relation alone.

    Example:
        >>> relation_label(("node", "user__likes__item", "node"))
        'likes'
        >>> relation_label(("user", "often__likes__this", "item"))
        'often__likes__this'
    """
    source, name, target = edge_type
    parts = name.split("__")
    named_by_ends = source == target == HOMOGENEOUS_NODE_TYPE and len(parts) == 3 and all(parts)
    return parts[1] if named_by_ends else name
