"""What differs between the graph a stored model was made for and another graph."""

from __future__ import annotations

from collections.abc import Iterator

from pagelink.graph_schema import Schema, graph_schema

__all__ = ["Schema", "differences", "graph_schema"]


def differences(stored: Schema, given: Schema) -> Iterator[str]:
    """Yield in words what a given graph has otherwise than the stored one."""
    for node_type, wanted in stored["nodes"].items():
        found = given["nodes"].get(node_type)
        if found is None:
            yield f"node type {node_type!r} is missing"
        elif found["count"] != wanted["count"]:
            yield f"{found['count']:,} nodes of type {node_type!r} instead of {wanted['count']:,}"
        elif found["num_features"] != wanted["num_features"]:
            yield (
                f"{found['num_features']} features of {node_type!r} instead of "
                f"{wanted['num_features']}"
            )
        elif found["names"] != wanted["names"]:
            yield f"other names, or another order, of the nodes of type {node_type!r}"
        elif found["features"] != wanted["features"]:
            yield f"other features of the nodes of type {node_type!r}"
    for node_type in given["nodes"].keys() - stored["nodes"].keys():
        yield f"node type {node_type!r} is new"
    theirs = {tuple(relation["type"]): relation for relation in given["relations"]}
    for wanted in stored["relations"]:
        found = theirs.pop(tuple(wanted["type"]), None)
        name = tuple(wanted["type"])
        if found is None:
            yield f"relation {name} is missing"
        elif found["count"] != wanted["count"]:
            yield f"{found['count']:,} edges of {name} instead of {wanted['count']:,}"
        elif found["edges"] != wanted["edges"]:
            yield f"other edges of {name}"
    for name in theirs:
        yield f"relation {name} is new"
