"""Graphs as `dgl.save_graphs` writes them, read without DGL.

The format is version 2 of DGL's file of heterogeneous graphs: a head of 4,096 bytes, the position
of the first graph, then the graph. A graph is its metagraph (which node types a relation joins),
the edges of each relation, the number of nodes of each type, features of nodes and edges, and the
names of types. All numbers are little-endian; a list is preceded by its length. Edges come as pairs
(COO) or as one row after the other (CSR by source, CSC by target). Features are left out. Files of
DGL 1.0.0, 1.1.3 and 2.1.0 were read.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch_geometric.data import HeteroData

from pagelink.errors import GraphError
from pagelink.runtime.arrays import Longs
from pagelink.tables.files import file_errors

_FILE, _VERSION, _HETEROGRAPH, _HEAD = 0xDD2E4FF046B4A13F, 2, 2, 4096
_GRAPH, _METAGRAPH, _RELATION = 0xDD589FBE35224ABF, 0xDD3C5FFE20046ABF, 0xDD2E60F0F6B4A127
_CSR, _COO, _ARRAY = 0xDD6CD31205DFF127, 0xDD61FFD305DFF127, 0xDD5E40F096B4A13F
_IN_COO, _IN_CSR, _IN_CSC = 1, 2, 4
_KINDS = {0: "i", 1: "u", 2: "f"}


def read_dgl_graph(path: Path | str) -> HeteroData:
    """Read the first graph of a file that `dgl.save_graphs` wrote.

    Args:
        path: the file.

    Returns:
        The graph, with `num_nodes` of each node type and `edge_index` of each relation, its edges
        in the order of their ids. Features are left out.

    Raises:
        GraphError: the file cannot be read, or is no such file.
    """
    path = Path(path)
    with file_errors(path, "read"):
        content = path.read_bytes()
    try:
        return _Reader(content).graph()
    except (struct.error, ValueError, IndexError, TypeError, OverflowError) as error:
        raise GraphError(
            f"{path}: must be a file of one heterogeneous graph that dgl.save_graphs wrote "
            f"(version 2 of its format): {error}."
        ) from error


class _Reader:
    """Reads from a position on."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.at = 0

    def graph(self) -> HeteroData:
        self._expect(_FILE, "a DGL file")
        version, kind, num_graphs = (self._number() for _ in range(3))
        if (version, kind) != (_VERSION, _HETEROGRAPH) or num_graphs < 1:
            raise ValueError(f"it has version {version}, kind {kind} and {num_graphs} graphs")
        self.at = _HEAD
        self.at = self._number()
        self._expect(_GRAPH, "a graph")
        # Relation by relation, the node types that it joins.
        src_types, dst_types = self._metagraph()
        edges = [self._relation() for _ in range(self._number())]
        sizes = [self._number() for _ in range(self._number())]
        for _features in ("of nodes", "of edges"):
            for _ in range(self._number()):
                for _ in range(self._number()):
                    self._text(), self._array()
        node_types = [self._text() for _ in range(self._number())]
        relations = [self._text() for _ in range(self._number())]
        if len(node_types) != len(sizes) or not len(relations) == len(edges) == len(src_types):
            raise ValueError("its names are not as many as its types")
        data = HeteroData()
        for node_type, size in zip(node_types, sizes, strict=True):
            data[node_type].num_nodes = size
        for name, src, dst, pairs in zip(relations, src_types, dst_types, edges, strict=True):
            ends = np.array([sizes[src], sizes[dst]])
            if ((pairs < 0) | (pairs >= ends[:, None])).any():
                raise ValueError(f"the relation {name} has an edge to a node that is not there")
            data[node_types[src], name, node_types[dst]].edge_index = torch.from_numpy(pairs)
        return data

    def _metagraph(self) -> Longs:
        self._expect(_METAGRAPH, "a metagraph")
        return self._rows()

    def _relation(self) -> Longs:
        """The edges, [2, num_edges], in the order of their ids."""
        self._expect(_RELATION, "a relation")
        stored = self._number()
        self._number()  # the formats that the graph may be turned into
        if stored >> 32 != 1:
            raise ValueError("it is of an earlier version of DGL")
        found: Longs | None = None
        for bit in (_IN_COO, _IN_CSR, _IN_CSC):
            if stored & bit:
                self._metagraph()
                pairs = self._pairs() if bit == _IN_COO else self._rows()
                found = pairs[::-1].copy() if bit == _IN_CSC else pairs
        if found is None:
            raise ValueError(f"a relation has the unknown format {stored}")
        return found

    def _pairs(self) -> Longs:
        self._expect(_COO, "edges")
        self.at += 16  # numbers of rows and columns
        ends = np.stack([self._array(), self._array()])
        return self._ordered(ends, num_flags=2)

    def _rows(self) -> Longs:
        self._expect(_CSR, "rows of edges")
        self.at += 16
        first, head = self._array().astype(np.int64), self._array()
        if not len(first) or first[0] != 0 or first[-1] != len(head):
            raise ValueError("rows of edges do not fit the edges")
        tail = np.repeat(np.arange(len(first) - 1), np.diff(first))
        return self._ordered(np.stack([tail, head]), num_flags=1)

    def _ordered(self, ends: npt.NDArray[np.generic], num_flags: int) -> Longs:
        """Edges by their ids, which follow; none: they are in order."""
        ids = self._array()
        self.at += num_flags  # whether they are sorted
        found = np.empty(ends.shape, dtype=np.int64)
        found[:, ids if len(ids) else slice(None)] = ends
        return found

    def _array(self) -> npt.NDArray[np.generic]:
        self._expect(_ARRAY, "an array")
        _, _, _, ndim, kind, bits, lanes = self._take("<QiiiBBH")
        if lanes != 1 or kind not in _KINDS or ndim > 32:
            raise ValueError(f"an array has the unknown type {kind}, {bits}, {lanes}")
        shape = self._take(f"<{ndim}q")
        size = self._number()
        dtype = np.dtype(f"<{_KINDS[kind]}{(bits + 7) // 8}")
        found = np.frombuffer(self.content, dtype, size // dtype.itemsize, self.at)
        self.at += size
        return found.reshape(shape)

    def _text(self) -> str:
        size = self._number()
        found: bytes = self._take(f"<{size}s")[0]
        return found.decode()

    def _number(self) -> int:
        found = int(self._take("<q")[0])
        if found < 0:
            raise ValueError(f"there is a negative number at byte {self.at - 8}")
        return found

    def _expect(self, mark: int, what: str) -> None:
        found = self._take("<Q")[0]
        if found != mark:
            raise ValueError(f"{what} should begin at byte {self.at - 8}")

    def _take(self, layout: str) -> tuple[Any, ...]:
        found: tuple[Any, ...] = struct.unpack_from(layout, self.content, self.at)
        self.at += struct.calcsize(layout)
        return found
