"""The nodes of one type of a store that is being made: ids, names, features, attributes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pagelink.errors import GraphError
from pagelink.graph_schema import Fingerprint, Schema
from pagelink.store_files import ArrayWriter, StoreFiles
from pagelink.store_strings import StringsWriter
from pagelink.store_values import Value, write_ipc

Texts: TypeAlias = Sequence[str] | Any
"""Texts as a list, or as an Arrow array."""


class NodesWriter:
    """Writes what nodes of a type have; ids and names come in pieces."""

    def __init__(self, files: StoreFiles, node_type: str, position: int) -> None:
        self.count = 0
        self._files = files
        self._type = node_type
        self._prefix = f"node{position}"
        self._texts: dict[str, StringsWriter] = {}
        self._names_differ = False
        self._values: dict[str, Value] = {}
        self._schema: Schema = {"num_features": 0, "names": None, "features": None}

    @property
    def schema(self) -> Schema:
        """What `graph_schema` says of the nodes, when all is complete."""
        return {"count": self.count, **self._schema}

    def add(self, count: int, ids: Texts | None, names: Texts | None) -> None:
        """Add nodes behind the others."""
        texts = {k: _as_array(v) for k, v in (("id", ids), ("name", names)) if v is not None}
        if self.count and texts.keys() != self._texts.keys():
            raise GraphError(f"Some nodes of type {self._type!r} have ids or names, some do not.")
        for key, values in texts.items():
            if len(values) != count or values.null_count:
                raise GraphError(
                    f"{count} {key}s of {self._type!r} are due, got {len(values)}, "
                    f"{values.null_count} of them empty."
                )
            if key not in self._texts:
                self._texts[key] = StringsWriter(self._files, f"{self._prefix}.{key}")
            self._texts[key].add(values)
        if len(texts) == 2 and count and not self._names_differ:
            self._names_differ = not pc.all(pc.equal(texts["id"], texts["name"])).as_py()
        self.count += count

    def set_features(self, pieces: Iterable[npt.NDArray[Any]], names: Sequence[str] | None) -> None:
        """Write the features of all nodes."""
        digest, writer = Fingerprint(), None
        for piece in pieces:
            if writer is None:
                shape = (self.count, piece.shape[1])
                writer = ArrayWriter(self._files, f"{self._prefix}.x", piece.dtype, shape)
                self._schema["num_features"] = piece.shape[1]
            writer.write(piece)
            digest.add(piece)
        if writer is None:
            raise GraphError(f"Features of {self._type!r}: give at least one piece.")
        writer.close()
        self._values["x"] = {"array": writer.file}
        self._schema["features"] = digest.text
        if names is not None:
            self._values["x_names"] = {"plain": list(names)}

    def set_attributes(self, schema: pa.Schema, pieces: Iterable[pa.Table]) -> None:
        """Write the attributes of all nodes."""
        name = f"{self._prefix}.attributes"
        self._values["attributes"] = {"table": write_ipc(self._files, name, schema, pieces)}

    def complete(self) -> dict[str, Value]:
        """Complete the files, and return how each value is stored."""
        values: dict[str, Value] = {}
        if "id" in self._texts:
            values["id"] = {"strings": self._texts["id"].close()}
        if "name" in self._texts:
            self._schema["names"] = self._texts["name"].fingerprint
            if "id" in self._texts and not self._names_differ:
                self._texts["name"].discard()
                values["name"] = values["id"]
            else:
                values["name"] = {"strings": self._texts["name"].close()}
        return values | self._values


def _as_array(texts: Texts) -> pa.Array:
    if isinstance(texts, pa.ChunkedArray):
        return texts.combine_chunks()
    return texts if isinstance(texts, pa.Array) else pa.array(texts, pa.string())
