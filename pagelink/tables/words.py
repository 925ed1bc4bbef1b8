"""How nodes and relations are called before readers: names by id, and phrases of relations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pagelink.errors import GraphError
from pagelink.graph.schema import EdgeType
from pagelink.tables.columns import as_texts, is_empty
from pagelink.tables.files import SUFFIXES, TableFile
from pagelink.tables.name_index import TextIndex
from pagelink.tables.text import PLAIN_TEXT, suffix_of

NAME_COLUMNS = ("id", "name")
PHRASE_COLUMNS = ("relation", "phrase", "reverse")

Phrases = dict[str, tuple[str, str]]
"""By the name of a relation, how it reads from source to target, and back; empty: not known."""


@dataclass(frozen=True)
class Words:
    """Files that say how the nodes and the relations of a graph are called.

    Each is a table as `load_graph` takes them: CSV, TSV, text or Parquet, with or without a header.
    """

    names: Path | None = None
    """Columns `id` and `name`; ids that no node has are ignored."""
    relations: Path | None = None
    """Columns `relation`, `phrase` and, if there are some, `reverse`: how a fact reads from source
    to target ("binds") and from target to source ("is bound by")."""

    @property
    def files(self) -> tuple[Path, ...]:
        """Those that are given."""
        return tuple(path for path in (self.names, self.relations) if path is not None)


class NodeNames:
    """Names by id, put in the place of those that a graph has.

    Example:
        >>> names = NodeNames([(pa.array(["m1"]), pa.array(["Alien"]))])
        >>> names.of(pa.array(["m0", "m1"]), pa.array(["m0", "m1"])).to_pylist()
        ['m0', 'Alien']
    """

    def __init__(self, pieces: Iterable[tuple[pa.Array, pa.Array]], path: Path | None = None):
        self._path = path
        self._ids = TextIndex()
        names, self._used = [pa.array([], pa.large_string())], False
        for ids, called in pieces:
            before = len(self._ids)
            numbers = self._ids.add(ids)
            _, first = np.unique(numbers, return_index=True)  # the first name of an id counts
            new = np.sort(first[numbers[first] >= before])
            names.append(called.take(pa.array(new)).cast(pa.large_string()))
        self._names = pa.concat_arrays(names)

    @classmethod
    def read(cls, path: Path) -> NodeNames:
        """Read a file of ids and names.

        Raises:
            GraphError: it cannot be read, or lacks a column.
        """
        file = _table(path, NAME_COLUMNS, ())
        pieces = ((as_texts(each.keys("id")), as_texts(each.table["name"]))
                  for each in file.pieces())  # fmt: skip
        return cls(pieces, path)

    def of(self, ids: pa.Array, names: pa.Array) -> pa.Array:
        """Return the names of nodes: those known here, else those they have."""
        numbers = self._ids.find(ids)
        self._used = self._used or bool((numbers >= 0).any())
        known = self._names.take(pa.array(numbers, mask=numbers < 0))
        return pc.if_else(is_empty(known), names.cast(pa.large_string()), known)

    def check_used(self) -> None:
        """Refuse names of which no node got one.

        Raises:
            GraphError: so it is.
        """
        if self._path is not None and not self._used:
            raise GraphError(
                f"{self._path}: none of its ids is a node of the graph. Its columns are id and "
                "name, in this order if there is no header."
            )


def read_phrases(path: Path) -> Phrases:
    """Read a file of relations and their phrases.

    Raises:
        GraphError: it cannot be read, lacks a column, or names a relation twice.
    """
    file = _table(path, PHRASE_COLUMNS[:2], PHRASE_COLUMNS[2:])
    found: Phrases = {}
    for piece in file.pieces():
        given = [as_texts(piece.keys(name)).to_pylist() for name in PHRASE_COLUMNS[:2]]
        back = [None] * piece.num_rows
        if PHRASE_COLUMNS[2] in file.names:
            back = as_texts(piece.table[PHRASE_COLUMNS[2]]).to_pylist()
        for row, (relation, phrase, reverse) in enumerate(zip(*given, back, strict=True)):
            if relation in found:
                raise GraphError(f"{piece.place(row)}: {relation!r} has a phrase already.")
            found[relation] = " ".join(phrase.split()), " ".join((reverse or "").split())
    return found


def phrases_of(
    phrases: Mapping[str, tuple[str, str]], edge_types: Iterable[EdgeType], path: Path
) -> dict[EdgeType, tuple[str, str]]:
    """Return the phrases of the relations that a graph has.

    Raises:
        GraphError: it has none of them.
    """
    known = list(edge_types)
    found = {t: phrases[t[1]] for t in known if t[1] in phrases}
    if not found:
        some = ", ".join(repr(t[1]) for t in known[:3])
        raise GraphError(
            f"{path}: none of its relations is one of the graph, which has {some}. Its columns are "
            "relation, phrase and reverse, in this order if there is no header."
        )
    return found


def _table(path: Path, required: tuple[str, ...], optional: tuple[str, ...]) -> TableFile:
    if not path.is_file():
        raise GraphError(f"{path}: there is no such file.")
    if suffix_of(path) not in (*SUFFIXES, PLAIN_TEXT):
        raise GraphError(f"{path}: a table ends in {', '.join((*SUFFIXES, PLAIN_TEXT))}.")
    return TableFile(path, required, optional, without_header=(*required, *optional))
