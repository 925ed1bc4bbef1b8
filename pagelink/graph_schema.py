"""The schema of a graph: by which a model, or a store, knows the graph it was made for again."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
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
        x = store["x"].cpu().numpy() if "x" in store else None
        nodes[node_type] = {
            "count": int(store.num_nodes),
            "num_features": 0 if x is None else int(x.shape[1]),
            "names": fingerprint_of_names(map(str, store["name"])) if "name" in store else None,
            "features": None if x is None else Fingerprint().add(x).text,
        }
    relations = []
    for edge_type in data.edge_types:
        edge_index = data[edge_type].edge_index.cpu().numpy()
        src, dst = edge_index[:, np.lexsort(edge_index)]
        relations.append(
            {
                "type": list(edge_type),
                "count": int(edge_index.shape[1]),
                "edges": Fingerprint().add(src.astype("<i8")).add(dst.astype("<i8")).text,
            }
        )
    return {"nodes": nodes, "relations": relations}


class Fingerprint:
    """A short digest of values that may come in pieces.

    Example:
        >>> whole = Fingerprint().add(np.arange(4))
        >>> whole.text == Fingerprint().add(np.arange(2)).add(np.arange(2, 4)).text
        True
    """

    def __init__(self) -> None:
        self._digest = hashlib.sha256()

    def add(self, piece: npt.NDArray[Any] | bytes) -> Fingerprint:
        """Take the next values, in the order of their rows."""
        self._digest.update(piece if isinstance(piece, bytes) else piece.tobytes())
        return self

    @property
    def text(self) -> str:
        """Sixteen hexadecimal digits."""
        return self._digest.hexdigest()[:16]


def fingerprint_of_names(names: Iterable[str]) -> str:
    """Return the fingerprint of names, of which there may be more than fit into memory."""
    digest = Fingerprint()
    for position, name in enumerate(names):
        digest.add(name.encode() if position == 0 else b"\0" + name.encode())
    return digest.text
