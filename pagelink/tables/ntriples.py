"""N-Triples, a line per triple: `<subject> <predicate> <object> .`, as RDF graphs are exported.

Ids are the addresses without their angle brackets. Labels of nodes are their names; other literals
state no relation between two nodes, and are left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from pagelink.errors import GraphError
from pagelink.tables.text import open_bytes

SUFFIX = ".nt"
COLUMNS = ("head", "relation", "tail")
ROWS_AT_ONCE = 1 << 18
LABELS = frozenset({
    "http://www.w3.org/2000/01/rdf-schema#label",
    "http://www.w3.org/2004/02/skos/core#prefLabel",
    "http://schema.org/name",
    "http://xmlns.com/foaf/0.1/name",
})  # fmt: skip
"""Relations whose literals are names."""

_NODE = r"<([^<>\"{}|^`\\\s]*)>|(_:\S+)"
_LINE = re.compile(
    rf'\s*(?:{_NODE})\s+<([^<>\s]*)>\s+(?:{_NODE}|"((?:[^"\\]|\\.)*)"(?:@([\w-]+)|\^\^<[^>]*>)?)'
    r"\s*\.\s*(?:#.*)?"
)
_ESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(.))")
_LETTERS = {"t": "\t", "n": "\n", "r": "\r", "b": "\b", "f": "\f"}


def read_ntriples(path: Path, labels: dict[str, str]) -> Iterator[pa.Table]:
    r"""Yield the triples of a file between nodes, in tables of the columns head, relation, tail.

    Args:
        path: a file of N-Triples, which may be compressed.
        labels: gets the names of the nodes by id. An English label, or one of no language, wins
            over others; of these the first.

    Raises:
        GraphError: a line is no triple.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file, labels = Path(folder) / "a.nt", {}
        ...     _ = file.write_text('<x:a> <x:knows> <x:b> .\n'
        ...                         '<x:a> <http://schema.org/name> "Ada"@en .\n')
        ...     [table.to_pylist() for table in read_ntriples(file, labels)], labels
        ([[{'head': 'x:a', 'relation': 'x:knows', 'tail': 'x:b'}]], {'x:a': 'Ada'})
    """
    rows: list[tuple[str, str, str]] = []
    preferred: set[str] = set()
    for number, line in enumerate(_lines(path), 1):
        if not (text := line.strip()) or text.startswith("#"):
            continue
        found = _LINE.fullmatch(text)
        if found is None:
            raise GraphError(
                f"{path}, line {number}: this is no triple of N-Triples, <subject> <predicate> "
                f"<object> and a full stop: {text[:80]!r}."
            )
        head, blank, relation, tail, blank_tail, literal, language = found.groups()
        head = _unescaped(head if blank is None else blank)
        tail = tail if blank_tail is None else blank_tail
        if tail is not None:
            rows.append((head, _unescaped(relation), _unescaped(tail)))
            if len(rows) >= ROWS_AT_ONCE:
                yield _table(rows)
                rows = []
        elif relation in LABELS and head not in preferred:
            if language is None or language.lower().split("-")[0] == "en":
                preferred.add(head)
                labels[head] = _unescaped(literal)
            else:
                labels.setdefault(head, _unescaped(literal))
    yield _table(rows)


def _lines(path: Path) -> Iterator[str]:
    with open_bytes(path) as file:
        for number, line in enumerate(file, 1):
            try:
                yield line.decode()
            except UnicodeDecodeError as error:
                raise GraphError(
                    f"{path}, line {number}: the text is not UTF-8. Save the file as UTF-8."
                ) from error


def _unescaped(text: str) -> str:
    if "\\" not in text:
        return text

    def letter(found: re.Match[str]) -> str:
        short, long, plain = found.groups()
        return _LETTERS.get(plain, plain) if plain else chr(int(short or long, 16))

    return _ESCAPE.sub(letter, text)


def _table(rows: list[tuple[str, str, str]]) -> pa.Table:
    columns = zip(*rows, strict=True) if rows else ((), (), ())
    return pa.table([pa.array(column, pa.string()) for column in columns], list(COLUMNS))
