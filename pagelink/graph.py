"""TypedGraph: a PyG graph seen as one flat directed multigraph, with its facts and its names.

Nodes of all types get one flat index, edges of all types one flat id: their position in the in-edge
CSR, ordered by (target, relation, source, column). A *fact* is an edge together with its reverse;
an *arc* is a fact walked one way. Only this module converts between flat and typed indices.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt
import torch
from torch_geometric.data import Data, HeteroData

from pagelink.errors import GraphError, LinkError, did_you_mean

EdgeType = tuple[str, str, str]
Ints = npt.NDArray[np.int32]
Longs = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

HOMOGENEOUS_NODE_TYPE = "node"
REVERSE_PREFIX = "rev_"


@dataclass(frozen=True)
class TypedGraph:
    """The message-passing graph as flat arrays.

    Example:
        >>> data = HeteroData()
        >>> data["user"].num_nodes, data["item"].num_nodes = 2, 2
        >>> data["user", "buys", "item"].edge_index = torch.tensor([[0, 0, 1], [0, 1, 1]])
        >>> graph = TypedGraph.from_data(data)
        >>> graph.degree.tolist()
        [2, 1, 1, 2]
    """

    node_types: tuple[str, ...]
    node_offset: Longs
    edge_types: tuple[EdgeType, ...]
    """Relations by position; link types that are not in the data come last, without edges."""
    edge_counts: tuple[int, ...]
    mask_sizes: tuple[int, ...]
    """Length of an edge mask per relation: the columns of the edge_index that holds it."""
    reverse: Mapping[EdgeType, EdgeType]
    """Which relations are known to be each other's reverse, both ways."""
    names: Mapping[str, Sequence[str]]
    relation_class: Ints
    """Position of the relation that stands for a relation and its reverse."""

    in_ptr: Longs
    src: Ints
    dst: Ints
    relation: Ints
    column: Ints
    fact: Ints
    """Facts are numbered; all copies and the reverse of an edge have its number."""
    opposite: Ints
    """First stored edge of the same fact the other way, or -1."""
    representative: Bools
    """True for one stored edge of every fact that is not a self-loop."""

    arc_ptr: Longs
    arc_dst: Ints
    arc_edge: Ints
    arc_reversed: Bools
    degree: Ints
    """Number of facts at a node: parallel relations count, duplicates and self-loops do not."""

    _name_index: dict[str, dict[str, list[int]]] = field(default_factory=dict, repr=False)

    @property
    def num_nodes(self) -> int:
        """Number of nodes of all types."""
        return int(self.node_offset[-1])

    @property
    def num_edges(self) -> int:
        """Number of stored edges of all types."""
        return len(self.src)

    @cached_property
    def node_type_of(self) -> Ints:
        """Position of the node type of every flat node."""
        return np.repeat(
            np.arange(len(self.node_types), dtype=np.int32), np.diff(self.node_offset)
        )

    @classmethod
    def from_data(
        cls,
        data: HeteroData | Data,
        link_types: Sequence[EdgeType] = (),
        reverse: Mapping[EdgeType, EdgeType] | None = None,
    ) -> TypedGraph:
        """Flatten a PyG graph.

        Args:
            data: a `HeteroData`, or a `Data` with `edge_type`, seen as a heterogeneous graph.
            link_types: relations to predict; they need not be among the data's relations.
            reverse: which relation is the reverse of which. None: found by PyG's `rev_` names and
                by edge sets that mirror each other exactly. An empty mapping: there are none.

        Raises:
            GraphError: the data is malformed, with the relation and the column.
        """
        if isinstance(data, HeteroData):
            sizes, edges, names = _read_hetero(data)
            columns = {t: np.arange(e.shape[1]) for t, e in edges.items()}
            sizes_of_masks = {t: e.shape[1] for t, e in edges.items()}
        elif isinstance(data, Data):
            sizes, edges, columns, names = _read_homogeneous(data)
            sizes_of_masks = dict.fromkeys(edges, data.num_edges)
        else:
            raise GraphError(
                f"data must be a torch_geometric HeteroData or Data, got {type(data).__name__}."
            )
        node_types = tuple(sizes)
        for link_type in link_types:
            _check_link_type(link_type, node_types)
        edge_types = [*edges, *(t for t in dict.fromkeys(link_types) if t not in edges)]
        _check_edges(edges, sizes)
        pairs = _find_reverse(edges, edge_types) if reverse is None else _given(reverse, edge_types)
        graph = _flatten(sizes, edges, columns, edge_types, pairs, names)
        mask_sizes = tuple(sizes_of_masks.get(t, 0) for t in edge_types)
        return dataclasses.replace(graph, mask_sizes=mask_sizes)

    def flat_index(self, node_type: str, index: int) -> int:
        """Return the flat index of a node."""
        return int(self.node_offset[self.node_types.index(node_type)]) + index

    def node(self, flat_index: int) -> tuple[str, int]:
        """Return type and index of a flat node."""
        position = int(self.node_type_of[flat_index])
        return self.node_types[position], int(flat_index - self.node_offset[position])

    def node_name(self, flat_index: int) -> str:
        """Return how a node is called: its name, else its type and index."""
        node_type, index = self.node(flat_index)
        names = self.names.get(node_type)
        return f"{node_type} {index}" if names is None else str(names[index])

    def relation_words(self, edge_type: EdgeType) -> tuple[str, bool]:
        """Return the words for a relation, and whether they read from target to source."""
        name = edge_type[1]
        if name.startswith(REVERSE_PREFIX) and len(name) > len(REVERSE_PREFIX):
            return name.removeprefix(REVERSE_PREFIX).replace("_", " "), True
        return name.replace("_", " "), False

    def link_fact(self, src: int, dst: int, link_type: EdgeType) -> int:
        """Return the fact that states the link itself, or -1 if it is not in the graph."""
        link_class = self.relation_class[self.edge_types.index(link_type)]
        for head, tail in ((dst, src), (src, dst)):
            edges = slice(self.in_ptr[head], self.in_ptr[head + 1])
            same = (self.src[edges] == tail) & (
                self.relation_class[self.relation[edges]] == link_class
            )
            if same.any():
                return int(self.fact[edges][same][0])
        return -1

    def find_node(self, node_type: str, key: int | str) -> int:
        """Return the flat index of a node given by name, by index, or as ``"id:3"``.

        Raises:
            LinkError: there is no such node, or several of that name.
        """
        size = int(np.diff(self.node_offset)[self.node_types.index(node_type)])
        if isinstance(key, str):
            index = self._find_name(node_type, key)
        elif isinstance(key, bool) or not isinstance(key, int | np.integer):
            raise LinkError(f"A {node_type} is given by index or name, got {key!r}.")
        else:
            index = int(key)
        if not 0 <= index < size:
            raise LinkError(
                f"{node_type} index must be in 0..{size - 1}, got {index}."
                if size
                else f"There are no nodes of type {node_type!r}."
            )
        return self.flat_index(node_type, index)

    def _find_name(self, node_type: str, key: str) -> int:
        by_name = self._name_index.get(node_type)
        if by_name is None:
            by_name = {}
            for index, name in enumerate(self.names.get(node_type, ())):
                by_name.setdefault(str(name), []).append(index)
            self._name_index[node_type] = by_name
        found = by_name.get(key, [])
        if len(found) > 1:
            choices = ", ".join(f"'id:{index}'" for index in found[:10])
            raise LinkError(
                f"{len(found)} nodes of type {node_type!r} are called {key!r}: choose by {choices}."
            )
        if found:
            return found[0]
        digits = key.removeprefix("id:")
        if digits.isdecimal():
            return int(digits)
        if not by_name:
            raise LinkError(
                f"There is no {node_type} {key!r}: nodes of this type have no names. Give an "
                f"index, or set data[{node_type!r}].name to a list of str."
            )
        raise LinkError(f"There is no {node_type} called {key!r}.{did_you_mean(key, by_name)}")


Edges = dict[EdgeType, Longs]


def _read_hetero(data: HeteroData) -> tuple[dict[str, int], Edges, dict[str, Sequence[str]]]:
    sizes: dict[str, int] = {}
    names: dict[str, Sequence[str]] = {}
    for node_type in data.node_types:
        size = data[node_type].num_nodes
        if size is None:
            raise GraphError(
                f"The number of nodes of type {node_type!r} is unknown. "
                f"Set data[{node_type!r}].num_nodes."
            )
        sizes[node_type] = int(size)
        if "name" in data[node_type]:
            names[node_type] = _check_names(data[node_type]["name"], node_type, int(size))
    edges: Edges = {}
    for edge_type in data.edge_types:
        store = data[edge_type]
        if "edge_index" in store:
            edges[edge_type] = _as_array(store["edge_index"], str(edge_type))
        elif "adj_t" in store:
            raise GraphError(
                f"{edge_type} is stored as a sparse matrix (adj_t), whose entries cannot be told "
                "apart. Give the graph by edge_index."
            )
    return sizes, edges, names


def _read_homogeneous(
    data: Data,
) -> tuple[dict[str, int], Edges, dict[EdgeType, Longs], dict[str, Sequence[str]]]:
    size = data.num_nodes
    if size is None or "edge_index" not in data:
        raise GraphError("A homogeneous graph needs edge_index and num_nodes (or x).")
    edge_index = _as_array(data["edge_index"], "edge_index")
    kind = HOMOGENEOUS_NODE_TYPE
    names: dict[str, Sequence[str]] = {}
    if "name" in data:
        names[kind] = _check_names(data["name"], kind, int(size))
    edge_type = np.zeros(edge_index.shape[1], dtype=np.int64)
    given: Sequence[object] = ["is_linked_to"]
    if "edge_type" in data:
        edge_type = data["edge_type"].cpu().numpy()
        given = getattr(data, "_edge_type_names", [])
    if edge_type.shape != (edge_index.shape[1],) or (edge_type < 0).any():
        raise GraphError(
            f"edge_type must hold one number from 0 up for each of the {edge_index.shape[1]} edges."
        )
    edges: Edges = {}
    columns: dict[EdgeType, Longs] = {}
    for position in range(max(int(edge_type.max(initial=-1)) + 1, len(given))):
        relation = given[position] if position < len(given) else str(position)
        # to_homogeneous() leaves (source type, relation, target type) behind.
        relation = relation if isinstance(relation, str) else "__".join(relation)  # type: ignore[call-overload]
        columns[kind, relation, kind] = np.flatnonzero(edge_type == position)
        edges[kind, relation, kind] = edge_index[:, edge_type == position]
    return {kind: int(size)}, edges, columns, names


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


def _check_names(names: object, node_type: str, size: int) -> Sequence[str]:
    if not isinstance(names, Sequence | np.ndarray) or isinstance(names, str) or len(names) != size:
        raise GraphError(f"data[{node_type!r}].name must be a list of {size} names, one per node.")
    return names


def _check_link_type(link_type: object, node_types: Sequence[str]) -> None:
    if not isinstance(link_type, tuple) or len(link_type) != 3:
        raise LinkError(f"A link type is (source type, relation, target type), got {link_type!r}.")
    for node_type in (link_type[0], link_type[2]):
        if node_type not in node_types:
            raise LinkError(
                f"The link type {link_type} has node type {node_type!r}, which is not in the graph "
                f"({', '.join(node_types)}).{did_you_mean(str(node_type), node_types)}"
            )


def _check_edges(edges: Edges, sizes: Mapping[str, int]) -> None:
    for (src, relation, dst), edge_index in edges.items():
        for row, node_type in enumerate((src, dst)):
            if node_type not in sizes:
                raise GraphError(f"{(src, relation, dst)}: there is no node type {node_type!r}.")
            bad = (edge_index[row] < 0) | (edge_index[row] >= sizes[node_type])
            if bad.any():
                column = int(bad.argmax())
                raise GraphError(
                    f"{(src, relation, dst)}: edge_index[{row}, {column}] is "
                    f"{int(edge_index[row, column])}, but there are {sizes[node_type]} nodes of "
                    f"type {node_type!r}."
                )


def _given(
    reverse: Mapping[EdgeType, EdgeType], edge_types: Sequence[EdgeType]
) -> dict[EdgeType, EdgeType]:
    pairs: dict[EdgeType, EdgeType] = {}
    for first, second in reverse.items():
        for edge_type in (first, second):
            if edge_type not in edge_types:
                known = {str(t): t for t in edge_types}
                raise GraphError(
                    f"reverse names {edge_type}, which is not a relation of the graph."
                    + did_you_mean(str(edge_type), known)
                )
        if (first[0], first[2]) != (second[2], second[0]):
            raise GraphError(f"{second} cannot be the reverse of {first}: node types do not fit.")
        if pairs.get(first, second) != second or pairs.get(second, first) != first:
            raise GraphError(f"reverse gives two reverses to {first} or {second}.")
        pairs[first], pairs[second] = second, first
    return pairs


def _find_reverse(edges: Edges, edge_types: Sequence[EdgeType]) -> dict[EdgeType, EdgeType]:
    """Pair relations by `rev_` names, then by edge sets that mirror each other exactly."""
    pairs: dict[EdgeType, EdgeType] = {}
    for first in edge_types:
        second = (first[2], REVERSE_PREFIX + first[1], first[0])
        if second in edge_types:
            pairs[first], pairs[second] = second, first
    base = 1 + max((int(e.max(initial=0)) for e in edges.values()), default=0)
    keys = {t: np.unique(e[0] * base + e[1]) for t, e in edges.items() if e.shape[1]}
    mirrored = {t: np.unique(edges[t][1] * base + edges[t][0]) for t in keys}
    # A relation that is its own mirror is symmetric; its twin would be parallel, not a reverse.
    open_types = [
        t for t in keys
        if t not in pairs and not (t[0] == t[2] and np.array_equal(keys[t], mirrored[t]))
    ]  # fmt: skip
    for i, first in enumerate(open_types):
        for second in open_types[i + 1 :]:
            if (
                not {first, second} & pairs.keys()
                and (first[0], first[2]) == (second[2], second[0])
                and np.array_equal(keys[first], mirrored[second])
            ):
                pairs[first], pairs[second] = second, first
    return pairs


def _flatten(
    sizes: Mapping[str, int],
    edges: Edges,
    columns: Mapping[EdgeType, Longs],
    edge_types: Sequence[EdgeType],
    pairs: Mapping[EdgeType, EdgeType],
    names: Mapping[str, Sequence[str]],
) -> TypedGraph:
    node_types = tuple(sizes)
    node_offset = np.cumsum([0, *sizes.values()], dtype=np.int64)
    num_nodes = int(node_offset[-1])
    offset = dict(zip(node_types, node_offset.tolist(), strict=False))
    position = {t: i for i, t in enumerate(edge_types)}
    counts = tuple(edges[t].shape[1] if t in edges else 0 for t in edge_types)
    if max(num_nodes, 2 * sum(counts)) >= 2**31:
        raise GraphError("Graphs of 2^30 edges or more do not fit the 32-bit indices used here.")

    none = np.empty((2, 0), dtype=np.int64)
    stacked = [edges.get(t, none) for t in edge_types]
    src = np.concatenate([e[0] + offset[t[0]] for t, e in zip(edge_types, stacked, strict=True)])
    dst = np.concatenate([e[1] + offset[t[2]] for t, e in zip(edge_types, stacked, strict=True)])
    relation = np.repeat(np.arange(len(edge_types)), counts)
    column = np.concatenate([columns.get(t, none[0]) for t in edge_types])
    order = np.argsort((dst * len(edge_types) + relation) * num_nodes + src, kind="stable")
    src, dst, relation, column = (a[order].astype(np.int32) for a in (src, dst, relation, column))

    relation_class = np.array(
        [min(i, position.get(pairs.get(t, t), i)) for i, t in enumerate(edge_types)], dtype=np.int32
    )
    # Of a relation and its reverse, one direction is the canonical one; within one node type the
    # ends are put in order, since (u, r, v) and (v, r, u) are one fact there.
    same_type = np.array([t[0] == t[2] for t in edge_types])[relation]
    turned = np.where(same_type, src > dst, relation_class[relation] != relation)
    low = np.where(turned, dst, src).astype(np.int64)
    high = np.where(turned, src, dst)
    keys = (relation_class[relation].astype(np.int64) * num_nodes + low) * num_nodes + high
    _, fact = np.unique(keys, return_inverse=True)
    num_facts = int(fact.max(initial=-1)) + 1

    first = np.full((2, num_facts), -1, dtype=np.int32)
    edge_ids = np.arange(len(src), dtype=np.int32)
    for way in (0, 1):
        ids = edge_ids[turned == bool(way)][::-1]  # backwards: the lowest id is written last
        first[way, fact[ids]] = ids
    opposite = np.where(turned, first[0, fact], first[1, fact]).astype(np.int32)
    loop = src == dst
    stands = np.where(first[0] >= 0, first[0], first[1])
    representative = (stands[fact] == edge_ids) & ~loop

    walked = stands[np.unique(fact[~loop])] if (~loop).any() else edge_ids[:0]
    forth = np.stack([src[walked], dst[walked], walked, np.zeros_like(walked)])
    back_edge = np.where(opposite[walked] >= 0, opposite[walked], walked)
    back = np.stack([dst[walked], src[walked], back_edge, opposite[walked] < 0])
    arcs = np.concatenate([forth, back], axis=1).astype(np.int64)
    arc_class = relation_class[relation[arcs[2]]]
    arcs = arcs[:, np.lexsort((arc_class, arcs[1], arcs[0]))]
    degree = np.bincount(arcs[0], minlength=num_nodes)
    return TypedGraph(
        node_types=node_types,
        node_offset=node_offset,
        edge_types=tuple(edge_types),
        edge_counts=counts,
        mask_sizes=counts,
        reverse=dict(pairs),
        names=dict(names),
        relation_class=relation_class,
        in_ptr=_pointers(np.bincount(dst, minlength=num_nodes)),
        src=src,
        dst=dst,
        relation=relation,
        column=column,
        fact=fact.astype(np.int32),
        opposite=opposite,
        representative=representative,
        arc_ptr=_pointers(degree),
        arc_dst=arcs[1].astype(np.int32),
        arc_edge=arcs[2].astype(np.int32),
        arc_reversed=arcs[3].astype(bool),
        degree=degree.astype(np.int32),
    )


def _pointers(counts: Longs) -> Longs:
    pointers = np.zeros(len(counts) + 1, dtype=np.int64)
    np.cumsum(counts, out=pointers[1:])
    return pointers
