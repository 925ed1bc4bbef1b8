"""TypedGraph: a PyG graph seen as one flat directed multigraph, with its facts and its names.

Nodes of all types get one flat index, edges of all types one flat id: their position in the in-edge
CSR, ordered by (target, relation, source, column). A *fact* is an edge together with its reverse;
an *arc* is a fact walked one way. Only this module converts between flat and typed indices.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, Protocol, cast, runtime_checkable

import numpy as np
from torch_geometric.data import Data, HeteroData

from pagelink.errors import LinkError, did_you_mean
from pagelink.graph.ego_kernels import BatchArrays, GraphArrays
from pagelink.graph.flattening import flatten
from pagelink.graph.labels import phrase_of, relation_words
from pagelink.graph.reading import RelationNames, read_data, relation_called
from pagelink.graph.reverse_relations import (
    find_reverse,
    given_reverse,
    nearly_mirrored,
)
from pagelink.graph.schema import EdgeType, check_link_type
from pagelink.runtime.arrays import Bools, Ints, Longs
from pagelink.runtime.csr import Csr

Kind = Literal["names", "ids"]

MAX_SUGGESTIONS_FROM = 10_000
"""Reading more names than this from disk, to suggest one, takes too long."""


@runtime_checkable
class FoundOnDisk(Protocol):
    """Texts that are too many to be held, and are looked up where they lie."""

    def find(self, text: str, /) -> list[int]:
        """Return where a text is, in order."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[str]: ...


@dataclass(frozen=True)
class TypedGraph:
    """The message-passing graph as flat arrays.

    Example:
        >>> import torch
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
    """Length of an edge mask per relation of the data: the columns of the edge_index it is in."""
    reverse: Mapping[EdgeType, EdgeType]
    """Which relations are known to be each other's reverse, both ways."""
    names: Mapping[str, Sequence[str]]
    relation_class: Ints
    """Position of the relation that stands for a relation and its reverse."""
    label_value: Longs
    """What a model is given for links of a relation: its position, or its value in `edge_type`."""

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

    attributes: Mapping[EdgeType, Any]
    """Tables with what else is known of the edges of a relation, a row per column."""

    ids: Mapping[str, Sequence[str]]
    """What the nodes are called in the tables they come from."""

    phrases: Mapping[EdgeType, tuple[str, str]] = field(default_factory=dict)
    """How relations read, from source to target and back; empty: not known."""

    also_called: Mapping[EdgeType, tuple[EdgeType, ...]] = field(default_factory=dict, repr=False)
    """What users may write instead of the name of a relation, and which ones it may mean."""

    _lookup: dict[tuple[Kind, str], dict[str, list[int]]] = field(default_factory=dict, repr=False)

    @property
    def num_nodes(self) -> int:
        """Number of nodes of all types."""
        return int(self.node_offset[-1])

    @property
    def num_relations(self) -> int:
        """Number of relations of the data, which come first in `edge_types`."""
        return len(self.mask_sizes)

    @property
    def num_edges(self) -> int:
        """Number of stored edges of all types."""
        return len(self.src)

    @cached_property
    def num_facts(self) -> int:
        """Number of facts: an edge, its copies and its reverse are one."""
        return int(self.fact.max(initial=-1)) + 1

    @cached_property
    def edges_of_facts(self) -> Csr:
        """All edges of each fact: every copy and both directions, in order."""
        return Csr.grouped(self.fact, self.num_facts)

    @cached_property
    def arrays(self) -> GraphArrays:
        """What kernels read of the graph."""
        return GraphArrays(*(getattr(self, name) for name in GraphArrays._fields))

    @property
    def targets(self) -> Ints:
        """Targets of edges that kernels check `in_ptr` against: those in files, so here none."""
        return np.empty(0, dtype=np.int32)

    @cached_property
    def node_type_of(self) -> Ints:
        """Position of the node type of every flat node."""
        return np.repeat(np.arange(len(self.node_types), dtype=np.int32), np.diff(self.node_offset))

    @classmethod
    def from_data(
        cls,
        data: HeteroData | Data,
        link_types: Sequence[EdgeType] = (),
        reverse: Mapping[EdgeType, EdgeType] | None = None,
        relation_names: RelationNames | None = None,
    ) -> TypedGraph:
        """Flatten a PyG graph.

        Args:
            data: a `HeteroData`, or a `Data` with `edge_type`, seen as a heterogeneous graph.
            link_types: relations to predict; they need not be among the data's relations.
            reverse: which relation is the reverse of which. None: found by PyG's `rev_` names and
                by edge sets that mirror each other exactly. An empty mapping: there are none.
            relation_names: how the relations of a homogeneous graph are called, by their value in
                `edge_type`. None: by what `to_homogeneous()` left, else "relation 0" and so on.

        Raises:
            GraphError: the data is malformed, with the relation and the column.
            LinkError: a link type is not one, or may be one of several relations.
        """
        raw = read_data(data, relation_names, link_types)
        meant = [relation_called(t, raw.edges, raw.also_called) for t in link_types]
        for link_type in meant:
            check_link_type(link_type, tuple(raw.sizes))
        edge_types = [*raw.edges, *(t for t in dict.fromkeys(meant) if t not in raw.edges)]
        if reverse is None:
            pairs = find_reverse(raw.edges, edge_types)
        else:
            known = edge_types, raw.also_called
            called = {
                relation_called(first, *known): relation_called(second, *known)
                for first, second in reverse.items()
            }
            pairs = given_reverse(called, edge_types)
        return cls(
            node_types=tuple(raw.sizes),
            edge_types=tuple(edge_types),
            mask_sizes=tuple(raw.mask_sizes.values()),
            reverse=dict(pairs),
            names=raw.names,
            attributes=raw.attributes,
            ids=raw.ids,
            phrases=raw.phrases,
            also_called=raw.also_called,
            **flatten(raw, edge_types, pairs),
        )

    def relation_called(self, edge_type: EdgeType) -> EdgeType:
        """Return the relation that users mean, by its name or by what else it is called.

        Raises:
            LinkError: several may be meant.
        """
        return relation_called(edge_type, self.edge_types, self.also_called)

    def in_edges(self, node: int) -> slice:
        """Return which edges enter a flat node."""
        return slice(int(self.in_ptr[node]), int(self.in_ptr[node + 1]))

    def arcs_of(self, node: int) -> slice:
        """Return which arcs leave a flat node."""
        return slice(int(self.arc_ptr[node]), int(self.arc_ptr[node + 1]))

    # A graph on disk may be damaged; it overrides these. One in memory was checked when made.

    def check_extracted(self, batch: BatchArrays) -> None:
        """Refuse computation graphs with nodes or edges of which a file says what cannot be."""

    def check_facts(self, facts: Ints | Longs) -> None:
        """Refuse facts whose lists of edges cannot be."""

    def check_cells(self, cells: Any) -> Any:
        """Return cells of a table of attributes, if they can be read."""
        return cells

    def naming_damage(self) -> AbstractContextManager[None]:
        """Say of what fails on a damaged graph which of its files is damaged."""
        return nullcontext()

    def flat_index(self, node_type: str, index: int) -> int:
        """Return the flat index of a node."""
        return int(self.node_offset[self.node_types.index(node_type)]) + index

    def node(self, flat_index: int) -> tuple[str, int]:
        """Return type and index of a flat node."""
        position = int(np.searchsorted(self.node_offset, flat_index, side="right")) - 1
        return self.node_types[position], int(flat_index - self.node_offset[position])

    def node_name(self, flat_index: int) -> str:
        """Return how a node is called: its name, else its type and index."""
        node_type, index = self.node(flat_index)
        names = self.names.get(node_type)
        return f"{node_type} {index}" if names is None else str(names[index])

    def relation_words(self, edge_type: EdgeType) -> tuple[str, bool]:
        """Return the words for a relation, and whether they read from target to source."""
        return relation_words(edge_type, self.phrases, self.reverse)

    def phrase(self, edge_type: EdgeType, backwards: bool = False) -> str:
        """Return how a fact of a relation reads from source to target (or back); empty: unknown."""
        return phrase_of(edge_type, self.phrases, self.reverse, backwards)

    def edge_column(self, edge_type: EdgeType, name: str) -> Sequence[Any] | None:
        """Return what a column says of each edge of a relation, or None if there is none."""
        table = self.attributes.get(edge_type)
        if table is None or name not in table.column_names:
            return None
        return cast("Sequence[Any]", self.check_cells(table.column(name)).to_pylist())

    def edge_attributes(self, edge: int) -> dict[str, object]:
        """Return what else is known of an edge: its source, its date, and the like."""
        table = self.attributes.get(self.edge_types[self.relation[edge]])
        if table is None:
            return {}
        (row,) = self.check_cells(table.slice(int(self.column[edge]), 1)).to_pylist()
        return {key: value for key, value in row.items() if value is not None}

    def near_reverses(self, link_types: Sequence[EdgeType]) -> dict[EdgeType, list[EdgeType]]:
        """Relations that mirror a link type so nearly that they may be its reverse, but are not.

        Returns:
            For link types without a known reverse, relations that hold at least nine in ten of
            each other's pairs; nothing for the others.
        """
        stored = self.edge_types[: self.num_relations]
        asked = [t for t in stored if t in set(link_types) and t not in self.reverse]
        return nearly_mirrored(self.src, self.dst, self.relation, stored, asked)

    def some_links(self, edge_type: EdgeType, count: int) -> tuple[Longs, Longs]:
        """Return sources and targets of stored edges of a relation, at most `count` of them.

        They are evenly spaced in the order of the columns.
        """
        mine = np.flatnonzero(self.relation == self.edge_types.index(edge_type))
        mine = mine[np.argsort(self.column[mine])][spaced(len(mine), count)]
        return self.src[mine].astype(np.int64), self.dst[mine].astype(np.int64)

    def link_fact(self, src: int, dst: int, link_type: EdgeType) -> int:
        """Return the fact that states the link itself, or -1 if it is not in the graph."""
        link_class = self.relation_class[self.edge_types.index(link_type)]
        for head, tail in ((dst, src), (src, dst)):
            edges = self.in_edges(head)
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
        else:
            index = _as_index(key, node_type)
        if not 0 <= index < size:
            raise LinkError(
                f"{node_type} index must be in 0..{size - 1}, got {index}."
                if size
                else f"There are no nodes of type {node_type!r}."
            )
        return self.flat_index(node_type, index)

    def _find_name(self, node_type: str, key: str) -> int:
        """A name wins over an id, and an id over an index; `id:` leaves the names out."""
        bare = key.removeprefix("id:")
        called = self._called("names", node_type, key)
        with_id = self._called("ids", node_type, bare)
        found = called or with_id
        if key == bare and called and with_id:
            found = sorted({*called, *with_id})
        names, ids = self.names.get(node_type, ()), self.ids.get(node_type, ())
        if len(found) > 1:
            shown = [str(ids[i]) if len(ids) else str(i) for i in found[:10]]
            raise LinkError(
                f"{len(found)} nodes of type {node_type!r} are called {key!r}: choose by "
                + ", ".join(f"'id:{each}'" for each in shown) + "."
            )  # fmt: skip
        if found:
            return found[0]
        if bare.isdecimal() and not len(ids) and (bare != key or not len(names)):
            return int(bare)
        if not len(names) and not len(ids):
            raise LinkError(
                f"There is no {node_type} {key!r}: nodes of this type have no names. Give an "
                f"index, or set data[{node_type!r}].name to a list of str."
            )
        kinds: tuple[Kind, ...] = ("ids",) if key != bare else ("names", "ids")
        close = did_you_mean(bare, self._suggestions(node_type, kinds))
        if key.isdecimal() and not len(ids):
            close += f" An index is given as 'id:{key}', or as a number."
        raise LinkError(f"There is no {node_type} called {key!r}.{close}")

    def _called(self, kind: Kind, node_type: str, key: str) -> list[int]:
        words = getattr(self, kind).get(node_type, ())
        if isinstance(words, FoundOnDisk):
            return words.find(key)
        return self._positions(kind, node_type).get(key, [])

    def _suggestions(self, node_type: str, kinds: Sequence[Kind]) -> Iterator[str]:
        for kind in kinds:
            words = getattr(self, kind).get(node_type, ())
            if not isinstance(words, FoundOnDisk):
                yield from self._positions(kind, node_type)
            elif len(words) <= MAX_SUGGESTIONS_FROM:
                yield from dict.fromkeys(words)

    def _positions(self, kind: Kind, node_type: str) -> dict[str, list[int]]:
        if (kind, node_type) not in self._lookup:
            positions: dict[str, list[int]] = {}
            for index, word in enumerate(getattr(self, kind).get(node_type, ())):
                positions.setdefault(str(word), []).append(index)
            self._lookup[kind, node_type] = positions
        return self._lookup[kind, node_type]

    def node_id(self, flat_index: int) -> str:
        """Return what a node is called in the table it comes from, else its index."""
        node_type, index = self.node(flat_index)
        return str(self.ids[node_type][index]) if node_type in self.ids else str(index)


def spaced(size: int, count: int) -> Longs:
    """Return at most `count` evenly spaced positions.

    Example:
        >>> spaced(10, 4).tolist(), spaced(3, 4).tolist()
        ([0, 2, 5, 7], [0, 1, 2])
    """
    return np.arange(min(size, count), dtype=np.int64) * size // max(min(size, count), 1)


def _as_index(key: Any, node_type: str) -> int:
    """Take integers of Python, NumPy and torch."""
    try:
        if isinstance(key, bool):
            raise TypeError
        return operator.index(key)
    except (TypeError, RuntimeError):
        raise LinkError(f"A {node_type} is given by index or name, got {key!r}.") from None
