"""The schema of a graph, by which a model, or a store, knows the graph it was made for again."""

from __future__ import annotations

import difflib
import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt
from torch_geometric.data import HeteroData

from pagelink.errors import LinkError, did_you_mean
from pagelink.graph.labels import HOMOGENEOUS_NODE_TYPE as HOMOGENEOUS_NODE_TYPE
from pagelink.graph.labels import Phrases, relation_label
from pagelink.runtime.arrays import Longs

EdgeType = tuple[str, str, str]
Edges = dict[EdgeType, Longs]
Schema = dict[str, Any]
"""Plain values for JSON: `nodes` and `relations`, each by name."""


def edge_type_of(given: Sequence[str]) -> EdgeType:
    """Return three parts, as JSON keeps them, as a relation."""
    src_type, relation, dst_type = given
    return src_type, relation, dst_type


def graph_schema(data: HeteroData) -> Schema:
    """Return node types with counts, feature sizes and names, and relations with their edges.

    Names, features and edges are there as fingerprints. The order of the edges does not count, the
    order of the nodes does: embeddings are looked up by position. Nodes that have ids are known by
    these, whatever they are called.

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
        if "id" in store:
            nodes[node_type]["ids"] = fingerprint_of_names(map(str, store["id"]))
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


def differences(stored: Schema, given: Schema) -> Iterator[str]:
    """Yield in words what a given graph has otherwise than the stored one: none, if it fits."""
    for part, words in _DIFFERENCES.items():
        ours, theirs = _by_name(stored[part]), _by_name(given[part])
        for name, wanted in ours.items():
            if name not in theirs:
                yield f"{_PARTS[part]} {name!r} is missing"
                continue
            # Of a node type or relation the first difference is enough: others follow from it.
            left_out = "names" if "ids" in wanted and "ids" in theirs[name] else "ids"
            other = (k for k in words if k != left_out and theirs[name].get(k) != wanted.get(k))
            for key in islice(other, 1):
                yield words[key].format(name=name, found=theirs[name][key], wanted=wanted[key])
        yield from (f"{_PARTS[part]} {name!r} is new" for name in theirs if name not in ours)


_PARTS = {"nodes": "node type", "relations": "relation"}
_DIFFERENCES = {
    "nodes": {
        "count": "{found:,} nodes of type {name!r} instead of {wanted:,}",
        "num_features": "{found} features of {name!r} instead of {wanted}",
        "names": "other names, or another order, of the nodes of type {name!r}",
        "ids": "other ids, or another order, of the nodes of type {name!r}",
        "features": "other features of the nodes of type {name!r}",
    },
    "relations": {
        "count": "{found:,} edges of {name} instead of {wanted:,}",
        "edges": "other edges of {name}",
    },
}
"""What may differ in a part of a schema, in the order in which it is looked at, in words."""


def _by_name(part: Any) -> dict[Any, dict[str, Any]]:
    return part if isinstance(part, dict) else {tuple(each["type"]): each for each in part}


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


def first_not_finite(values: npt.NDArray[Any]) -> tuple[int, ...] | None:
    """Return where the first NaN or infinite number is, or None if all are finite.

    Example:
        >>> first_not_finite(np.array([[1.0, 2.0], [3.0, np.nan]]))
        (1, 1)
    """
    bad = ~np.isfinite(values)
    return tuple(int(i) for i in np.argwhere(bad)[0]) if bad.any() else None


def check_link_type(link_type: object, node_types: Sequence[str]) -> None:
    """Refuse a link type that is not a triple, or whose node types are not in the graph."""
    if not isinstance(link_type, tuple) or len(link_type) != 3:
        raise LinkError(f"A link type is (source type, relation, target type), got {link_type!r}.")
    for node_type in (link_type[0], link_type[2]):
        if node_type not in node_types:
            raise LinkError(
                f"The link type {link_type} has node type {node_type!r}, which is not in the graph "
                f"({', '.join(node_types)}).{did_you_mean(str(node_type), node_types)}"
            )


MOST_LISTED = 8
"""Relations that an error lists at most."""


def relations_called(
    given: str, known: Iterable[EdgeType], phrases: Phrases = MappingProxyType({})
) -> list[EdgeType]:
    """Return the relations that a text may mean.

    Those of this name, or of these three parts; else those of which readers see this, as
    "symptom_of" of "/medicine/symptom/symptom_of"; else those that read so from source to target.

    Example:
        >>> types = [("drug", "binds", "gene"), ("entity", "/film/film/genre", "entity")]
        >>> relations_called("genre", types)
        [('entity', '/film/film/genre', 'entity')]
        >>> relations_called("sticks to", types, {types[0]: ("sticks to", "")})
        [('drug', 'binds', 'gene')]
    """
    types, text = list(known), given.strip()
    names = [{t[1], ",".join(t)} for t in types]
    labels = [{label := relation_label(t), label.replace("_", " ")} for t in types]
    phrased = [{phrases[t][0]} if t in phrases else set() for t in types]
    for called in (names, labels, phrased) if text else ():
        found = [t for t, words in zip(types, called, strict=True) if text in words]
        if found:
            return found
    return []


def several_relations(given: str, found: Sequence[EdgeType]) -> str:
    """Return in words that a text may mean several relations, and which ones: not all of many."""
    some = "; ".join(",".join(edge_type) for edge_type in found[:MOST_LISTED])
    more = f" and {len(found) - MOST_LISTED} more" if len(found) > MOST_LISTED else ""
    return f"{given} may be one of several relations: {some}{more}."


def nearest_relations(given: str, known: Iterable[EdgeType]) -> str:
    """Return which relations are nearest to a text that is none, in words; else some of them all.

    Relations of the same name come first, whatever their ends; then those that read alike, in full
    or by what readers see of them.

    Example:
        >>> types = [("entity", "/film/film/genre", "entity"), ("item", "has", "attr")]
        >>> nearest_relations("genres", types)
        'Did you mean entity,/film/film/genre,entity?'
    """
    types = {",".join(edge_type): edge_type for edge_type in known}
    parts = [part.strip().lower() for part in re.split(r"[,;/\s-]+", given)]
    same = [text for text, t in types.items() if t[1].lower() in parts]
    words = {name.lower(): text for text, t in types.items() for name in (relation_label(t), text)}
    alike = [
        words[name]
        for asked in (",".join(parts), given.strip().lower().replace(" ", "_"))
        for name in difflib.get_close_matches(asked, words, n=3, cutoff=0.7)
    ]
    near = list(dict.fromkeys([*same, *alike]))[:3]
    if near:
        return f"Did you mean {' or '.join(near)}?"
    more = f" and {len(types) - MOST_LISTED} more" if len(types) > MOST_LISTED else ""
    return f"It has {'; '.join([*types][:MOST_LISTED])}{more}."


def no_relation(given: str, known: Iterable[EdgeType]) -> str:
    """Return in words that there is no such relation, and which ones are nearest.

    Example:
        >>> no_relation("user,like,item", [("user", "likes", "item"), ("item", "has", "attr")])
        'There is no relation user,like,item in the graph. Did you mean user,likes,item?'
    """
    return f"There is no relation {given} in the graph. {nearest_relations(given, known)}"
