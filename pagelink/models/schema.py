"""The schema of a graph: what a stored model was made for, and what differs in another graph."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

import numpy as np
from torch_geometric.data import HeteroData

Schema = dict[str, Any]
"""Plain values for JSON: `nodes` and `relations`, each by name."""


def graph_schema(data: HeteroData) -> Schema:
    """Return node types with counts, feature sizes and names, and relations with their edges.

    Names, features and edges are there as fingerprints. The order of the edges does not count, the
    order of the nodes does: embeddings are looked up by position.

    Example:
        >>> data = HeteroData()
        >>> data["user"].num_nodes = 3
        >>> graph_schema(data)["nodes"]
        {'user': {'count': 3, 'num_features': 0, 'names': None, 'features': None}}
    """
    nodes = {}
    for node_type in data.node_types:
        store = data[node_type]
        nodes[node_type] = {
            "count": int(store.num_nodes),
            "num_features": int(store["x"].shape[1]) if "x" in store else 0,
            "names": _digest("\0".join(map(str, store["name"])).encode())
            if "name" in store
            else None,
            "features": _digest(store["x"].cpu().numpy().tobytes()) if "x" in store else None,
        }
    relations = []
    for edge_type in data.edge_types:
        edge_index = data[edge_type].edge_index.cpu().numpy()
        ordered = edge_index[:, np.lexsort(edge_index)].astype("<i8")
        relations.append(
            {
                "type": list(edge_type),
                "count": int(edge_index.shape[1]),
                "edges": _digest(ordered.tobytes()),
            }
        )
    return {"nodes": nodes, "relations": relations}


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


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]
