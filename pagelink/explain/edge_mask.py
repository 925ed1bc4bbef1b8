"""The learned mask of a link, as results carry it: only the edges that have a value are stored."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

EdgeType = tuple[str, str, str]
Stored = tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]


class EdgeMask(Mapping[EdgeType, npt.NDArray[np.float32]]):
    """The learned mask of a link, per edge type, one value per edge of the data in its order.

    Only the edges that have a value are stored; an array over all edges of a type, 0 elsewhere, is
    made when it is looked up.
    """

    def __init__(self, sizes: Mapping[EdgeType, int], values: Mapping[EdgeType, Stored]) -> None:
        self._sizes = dict(sizes)
        self._values = dict(values)
        self._edges: tuple[npt.NDArray[Any], ...] = ()

    @classmethod
    def of_edges(
        cls,
        sizes: Mapping[EdgeType, int],
        relation: npt.NDArray[Any],
        column: npt.NDArray[Any],
        logits: npt.NDArray[np.float32],
    ) -> EdgeMask:
        """Return the mask of some edges: the position of their type in `sizes`, column, logit.

        They are put in order by type when they are first looked up.
        """
        mask = cls(sizes, {})
        mask._edges = relation, column, logits
        return mask

    def _stored(self) -> dict[EdgeType, Stored]:
        if self._edges:
            relation, column, logits = self._edges
            order = np.argsort(relation, kind="stable")
            bounds = np.searchsorted(relation[order], np.arange(len(self._sizes) + 1))
            column, value = column[order].astype(np.int64), 1 / (1 + np.exp(-logits[order]))
            for edge_type, first, last in zip(self._sizes, bounds, bounds[1:], strict=False):
                if last > first:
                    self._values[edge_type] = column[first:last], value[first:last]
            self._edges = ()
        return self._values

    def __getitem__(self, edge_type: EdgeType) -> npt.NDArray[np.float32]:
        dense = np.zeros(self._sizes[edge_type], dtype=np.float32)
        index, value = self.stored(edge_type)
        dense[index] = value
        return dense

    def __iter__(self) -> Iterator[EdgeType]:
        return iter(self._sizes)

    def __len__(self) -> int:
        return len(self._sizes)

    def stored(self, edge_type: EdgeType) -> Stored:
        """Return the columns that have a value, and the values."""
        empty = np.empty(0, dtype=np.int64), np.empty(0, dtype=np.float32)
        return self._stored().get(edge_type, empty)

    def to_list(self) -> list[dict[str, Any]]:
        """Return the stored values as plain lists."""
        return [
            {
                "type": list(edge_type),
                "size": size,
                "index": self.stored(edge_type)[0].tolist(),
                "value": [round(float(v), 6) for v in self.stored(edge_type)[1]],
            }
            for edge_type, size in self._sizes.items()
        ]

    @classmethod
    def from_list(cls, entries: list[dict[str, Any]]) -> EdgeMask:
        """Return the mask that `to_list` gave."""
        sizes: dict[EdgeType, int] = {}
        values = {}
        for entry in entries:
            src, relation, dst = entry["type"]
            edge_type = (src, relation, dst)
            sizes[edge_type] = entry["size"]
            values[edge_type] = (
                np.asarray(entry["index"], dtype=np.int64),
                np.asarray(entry["value"], dtype=np.float32),
            )
        return cls(sizes, values)
