"""The reading of a PyG graph into plain arrays, with checks, and what its relations are called."""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch_geometric.data import Data, HeteroData

from pagelink.errors import GraphError, LinkError
from pagelink.graph.schema import HOMOGENEOUS_NODE_TYPE, Edges, EdgeType
from pagelink.runtime.arrays import Longs

RelationNames = Sequence[str] | Mapping[int, str]
"""Names of the relations of a homogeneous graph, by their value in `edge_type`."""


@dataclass(frozen=True)
class RawGraph:
    """Sizes, edge lists and names by type."""

    sizes: dict[str, int]
    edges: Edges
    columns: Edges
    """Where each edge stands in the edge_index of the data."""
    mask_sizes: dict[EdgeType, int]
    """Number of columns of the edge_index that holds a relation."""
    names: dict[str, Sequence[str]]
    attributes: dict[EdgeType, Any]
    """Tables with what else is known of the edges of a relation, a row per column."""
    ids: dict[str, Sequence[str]]
    """What the nodes are called in the tables they come from."""
    phrases: dict[EdgeType, tuple[str, str]] = field(default_factory=dict, kw_only=True)
    """How relations read, from source to target and back; empty: not known."""
    also_called: dict[EdgeType, tuple[EdgeType, ...]] = field(default_factory=dict)
    """What users may write instead of the name of a relation, and which ones it may mean."""
    held_out: dict[EdgeType, int] = field(default_factory=dict)
    """Relations to predict that are given by a value of `edge_type` that no edge has."""


def read_data(
    data: HeteroData | Data,
    relation_names: RelationNames | None = None,
    link_types: Sequence[EdgeType] = (),
) -> RawGraph:
    """Read a graph.

    Args:
        data: the graph.
        relation_names: how the relations of a homogeneous graph are called.
        link_types: relations to predict. If there is but one, and the homogeneous graph has a
            single relation, that is the one, whatever it is called.

    Raises:
        GraphError: it is malformed; with the relation and the column.
    """
    if isinstance(data, HeteroData):
        raw = _read_hetero(data)
    elif isinstance(data, Data):
        raw = _read_homogeneous(data, relation_names, link_types)
    else:
        raise GraphError(
            f"data must be a torch_geometric HeteroData or Data, got {type(data).__name__}."
        )
    _check_edges(raw)
    return raw


def _read_hetero(data: HeteroData) -> RawGraph:
    sizes: dict[str, int] = {}
    names: dict[str, Sequence[str]] = {}
    ids: dict[str, Sequence[str]] = {}
    for node_type in data.node_types:
        size = data[node_type].num_nodes
        if size is None:
            raise GraphError(
                f"The number of nodes of type {node_type!r} is unknown. "
                f"Set data[{node_type!r}].num_nodes."
            )
        sizes[node_type] = int(size)
        for key, texts in (("name", names), ("id", ids)):
            if key in data[node_type]:
                texts[node_type] = _check_names(data[node_type][key], node_type, int(size), key)
    edges: Edges = {}
    attributes: dict[EdgeType, Any] = {}
    phrases: dict[EdgeType, tuple[str, str]] = {}
    for edge_type in data.edge_types:
        store = data[edge_type]
        if "edge_index" in store:
            edges[edge_type] = _as_array(store["edge_index"], str(edge_type))
            if "attributes" in store:
                attributes[edge_type] = _check_table(store["attributes"], edge_type, edges)
            if "phrases" in store:
                phrases[edge_type] = check_phrases(store["phrases"], edge_type)
        elif "adj_t" in store:
            raise GraphError(
                f"{edge_type} is stored as a sparse matrix (adj_t), whose entries cannot be "
                "distinguished. Give the graph by edge_index."
            )
    columns = {t: np.arange(e.shape[1]) for t, e in edges.items()}
    mask_sizes = {t: int(c.size) for t, c in columns.items()}
    return RawGraph(sizes, edges, columns, mask_sizes, names, attributes, ids, phrases=phrases)


def check_phrases(given: Any, edge_type: EdgeType) -> tuple[str, str]:
    """Return how a relation reads, from source to target and back.

    Raises:
        GraphError: these are not two texts, the first of which is not empty.
    """
    right = isinstance(given, list | tuple) and len(given) == 2
    if not right or not all(isinstance(text, str) for text in given) or not given[0].strip():
        raise GraphError(
            f"data[{edge_type}].phrases must be two texts, how the relation reads from source to "
            f'target and back, as ["binds", "is bound by"] or ["binds", ""]; got {given!r}.'
        )
    return given[0], given[1]


def _read_homogeneous(
    data: Data, relation_names: RelationNames | None, link_types: Sequence[EdgeType]
) -> RawGraph:
    size = data.num_nodes
    if size is None or "edge_index" not in data:
        raise GraphError("A homogeneous graph needs edge_index and num_nodes (or x).")
    edge_index = _as_array(data["edge_index"], "edge_index")
    kind = HOMOGENEOUS_NODE_TYPE
    names: dict[str, Sequence[str]] = {}
    if "name" in data:
        names[kind] = _check_names(data["name"], kind, int(size))
    edge_type = np.zeros(edge_index.shape[1], dtype=np.int64)
    if "edge_type" in data:
        given_types = data["edge_type"]
        if isinstance(given_types, torch.Tensor) and not given_types.is_floating_point():
            edge_type = given_types.cpu().numpy()
        else:
            edge_type = np.full(1, -1)
    if edge_type.shape != (edge_index.shape[1],) or edge_type.min(initial=0) < 0:
        raise GraphError(
            f"edge_type must hold one number from 0 up, an integer, for each of the "
            f"{edge_index.shape[1]} edges."
        )
    counts = np.bincount(edge_type, minlength=0 if "edge_type" in data else 1)
    called, also_called, held_out = _call_relations(data, relation_names, counts, link_types)
    # One stable sort, whatever the number of relations.
    order = np.argsort(edge_type, kind="stable")
    counts = np.append(counts, np.zeros(len(called) - len(counts), dtype=np.int64))
    columns = dict(zip(called, np.split(order, np.cumsum(counts)[:-1]), strict=True))
    edges = {relation: edge_index[:, mine] for relation, mine in columns.items()}
    whole = {relation: int(edge_index.shape[1]) for relation in edges}
    return RawGraph({kind: int(size)}, edges, columns, whole, names, {}, {}, also_called, held_out)


def _call_relations(
    data: Data,
    relation_names: RelationNames | None,
    counts: Longs,
    link_types: Sequence[EdgeType],
) -> tuple[list[EdgeType], dict[EdgeType, tuple[EdgeType, ...]], dict[EdgeType, int]]:
    """Return the relations of a homogeneous graph by value, and what else they may be called.

    Last come relations to predict, with their values, that no edge has.
    """
    kind = HOMOGENEOUS_NODE_TYPE
    typed = "edge_type" in data
    # to_homogeneous() leaves (source type, relation, target type) behind.
    left = list(getattr(data, "_edge_type_names", None) or ()) if typed else []
    given = _check_relation_names(relation_names, len(counts))
    filled = np.flatnonzero(counts)
    asked = link_types[0] if len(set(link_types)) == 1 else None
    values = {t: v for t in link_types if typed and (v := _value_of(t)) is not None}
    if asked in values:
        asked = None
    called: list[EdgeType] = []
    others: dict[EdgeType, dict[EdgeType, None]] = {}
    for value in range(max(len(counts), len(left), 1 + max(given, default=-1))):
        triple = tuple(left[value]) if value < len(left) else None
        numbered = f"relation {value}" if typed else "is_linked_to"
        name = given.get(value) or ("__".join(triple) if triple else numbered)
        also = [(kind, each, kind) for each in (numbered, str(value))]
        if triple:
            also += [triple, (kind, triple[1], kind), (kind, "__".join(triple), kind)]
        known = {(kind, name, kind), *also}
        # The only relation is the link's: it goes by the name of the link, if it has no other.
        if asked and asked not in known and asked[::2] == (kind, kind) and [value] == list(filled):
            also.append(asked)
            name = name if value in given or triple else asked[1]
        called.append((kind, name, kind))
        for each in also:
            others.setdefault(each, {})[called[-1]] = None
    held_out: dict[EdgeType, int] = {}
    for each, value in values.items():
        if each not in called and value >= len(called):
            relation = (kind, f"relation {value}", kind)
            held_out[relation] = value
            others.setdefault(each, {})[relation] = None
        elif each not in called:
            others.setdefault(each, {})[called[value]] = None
    every = [*called, *held_out]
    if len(set(every)) < len(every):
        twice = next(t[1] for i, t in enumerate(every) if t in every[:i])
        raise GraphError(f"Two relations are called {twice!r}: relation_names must differ.")
    also_called = {each: tuple(meant) for each, meant in others.items() if each not in every}
    return called, also_called, held_out


def _value_of(link_type: EdgeType) -> int | None:
    """The value of `edge_type` that a link type is given by: 7, "7" or "relation 7"."""
    kind = HOMOGENEOUS_NODE_TYPE
    found = re.fullmatch("(?:relation )?([0-9]{1,18})", str(link_type[1]))
    return int(found[1]) if found and link_type[::2] == (kind, kind) else None


def label_values(raw: RawGraph, edge_types: Sequence[EdgeType]) -> Longs:
    """Return what a model is given for the type of a link: `data.edge_label_type`.

    Args:
        raw: the graph.
        edge_types: its relations, and link types that are not in it.

    Returns:
        Per relation its position, which is its value in the `edge_type` of a homogeneous graph; of
        a link type that is not in the graph the value it is given by, or else the next free number.
    """
    taken = set(raw.held_out.values())
    free = (value for value in itertools.count(len(raw.edges)) if value not in taken)
    added = [
        raw.held_out[t] if t in raw.held_out else next(free) for t in edge_types[len(raw.edges) :]
    ]
    return np.array([*range(len(raw.edges)), *added], dtype=np.int64)


def _check_relation_names(given: RelationNames | None, count: int) -> dict[int, str]:
    """Return names by value of `edge_type`."""
    if isinstance(given, Mapping):
        names = dict(given)
    elif given is None or (isinstance(given, Sequence) and not isinstance(given, str)):
        names = dict(enumerate(given or ()))
        if given is not None and len(names) < count:
            raise GraphError(
                f"relation_names must hold a name for each of the {count} values of edge_type, "
                f"from 0 to {count - 1}, got {len(names)}. To name some of them, give a mapping."
            )
    else:
        names = {-1: ""}
    for value, name in names.items():
        is_value = isinstance(value, int) and not isinstance(value, bool) and value >= 0
        if not is_value or not isinstance(name, str) or not name:
            raise GraphError(
                "relation_names must be a sequence of names, or a mapping from values of "
                f"edge_type to names, as {{0: 'cites'}}; got {given!r}."
            )
    return names


def _as_array(edge_index: object, where: str) -> Longs:
    if not isinstance(edge_index, torch.Tensor) or edge_index.is_sparse:
        raise GraphError(f"{where}: edge_index must be a dense tensor of shape [2, num_edges].")
    if edge_index.dim() != 2 or edge_index.shape[0] != 2 or edge_index.dtype not in (
        torch.int64, torch.int32,
    ):  # fmt: skip
        raise GraphError(
            f"{where}: edge_index must be an integer tensor of shape [2, num_edges], got "
            f"{edge_index.dtype} of shape {list(edge_index.shape)}."
        )
    return np.asarray(edge_index.detach().cpu().as_subclass(torch.Tensor), dtype=np.int64)


def _check_table(table: Any, edge_type: EdgeType, edges: Edges) -> Any:
    count = edges[edge_type].shape[1]
    if getattr(table, "num_rows", None) != count:
        raise GraphError(
            f"data[{edge_type}].attributes must be a pyarrow.Table with a row for each of the "
            f"{count} edges."
        )
    return table


def _check_names(names: Any, node_type: str, size: int, key: str = "name") -> Sequence[str]:
    listed = isinstance(names, Sequence | np.ndarray) and not isinstance(names, str)
    if not listed or len(names) != size:
        raise GraphError(
            f"data[{node_type!r}].{key} must be a list of {size} {key}s, one per node."
        )
    checked: Sequence[str] = names
    return checked


def relation_called(
    edge_type: EdgeType,
    known: Collection[EdgeType],
    also_called: Mapping[EdgeType, tuple[EdgeType, ...]],
) -> EdgeType:
    """Return the relation that is meant: a name wins over what else relations are called.

    Args:
        edge_type: as users give it.
        known: the relations.
        also_called: what else may be written, and which relations it may mean.

    Raises:
        LinkError: several may be meant.

    Example:
        >>> short, rates = ("node", "rates", "node"), ("node", "user__rates__book", "node")
        >>> relation_called(short, [rates], {short: (rates,)})
        ('node', 'user__rates__book', 'node')
    """
    meant = () if edge_type in known else also_called.get(edge_type, ())
    if len(meant) > 1:
        choices = " or ".join(repr(each[1]) for each in meant)
        raise LinkError(
            f"{len(meant)} relations of the graph may be meant by {edge_type[1]!r}: choose "
            f"{choices}."
        )
    return meant[0] if meant else edge_type


def _check_edges(raw: RawGraph) -> None:
    for edge_type, edge_index in raw.edges.items():
        for row, node_type in enumerate((edge_type[0], edge_type[2])):
            if node_type not in raw.sizes:
                raise GraphError(f"{edge_type}: there is no node type {node_type!r}.")
            bad = (edge_index[row] < 0) | (edge_index[row] >= raw.sizes[node_type])
            if bad.any():
                first = int(bad.argmax())
                raise GraphError(
                    f"{edge_type}: edge_index[{row}, {raw.columns[edge_type][first]}] is "
                    f"{edge_index[row, first]}, but there are {raw.sizes[node_type]} nodes of type "
                    f"{node_type!r}."
                )
