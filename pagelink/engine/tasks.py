"""Which links go together, and which of them are done.

A table is read in windows of rows and cut into chunks, the same ones every time. Within a window
the links may be sorted by source, then target, so that those of a chunk have neighbourhoods in
common and read the same pages of a graph on disk. A chunk that kills its workers is cut into
pieces; the ledger knows when all of them are there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import count, islice
from pathlib import Path
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc

from pagelink.errors import SettingsError
from pagelink.tables.link_tables import LinkRow, iter_links

LINKS_A_CHUNK = 256
LINKS_A_WINDOW = 65_536
"""About; a window is a whole number of chunks."""
_NUMBER = "^(?:id:)?[0-9]{1,18}$"


@dataclass(frozen=True)
class Task:
    """Links to explain: a chunk, or a piece of one that killed its worker."""

    chunk: int
    first: int
    """Where the links start in their chunk."""
    links: tuple[LinkRow, ...]
    size: int
    """How many links the whole chunk has."""
    killed: str = ""
    """Not to be explained, as that kills the worker: what its row is to say."""

    @property
    def last(self) -> int:
        """Where the links end in their chunk."""
        return self.first + len(self.links)

    @property
    def is_whole(self) -> bool:
        """Whether these are all links of the chunk."""
        return len(self.links) == self.size

    @property
    def key(self) -> tuple[int, int, int]:
        """The chunk and the links of it."""
        return self.chunk, self.first, self.last

    def halves(self) -> tuple[Task, Task]:
        """Return the two halves of a task of two links or more.

        Example:
            >>> task = Task(7, 2, tuple(LinkRow(n, (n, n)) for n in range(3)), 8)
            >>> [half.key for half in task.halves()]
            [(7, 2, 3), (7, 3, 5)]
        """
        middle = self.first + len(self.links) // 2
        return self.cut(self.first, middle), self.cut(middle, self.last)

    def cut(self, first: int, last: int) -> Task:
        """Return the part of a task between two places of its chunk."""
        return replace(self, first=first, links=self.links[first - self.first : last - self.first])

    def piece(self, piece: Piece) -> Task:
        """Return the task of a piece that is on disk."""
        killed = "found on disk" if piece.killed else ""
        return replace(self.cut(piece.first, piece.last), killed=killed)


def check_chunk(chunk: object) -> None:
    """Refuse a size of chunks that is none.

    Raises:
        SettingsError: it is not a whole number from 1 to the size of a window.
    """
    if not isinstance(chunk, int) or isinstance(chunk, bool) or not 1 <= chunk <= LINKS_A_WINDOW:
        raise SettingsError(f"A chunk has 1 to {LINKS_A_WINDOW} links; got {chunk!r}.")


def plan(links: Path, chunk: int = LINKS_A_CHUNK, *, sort: bool = True) -> Iterator[Task]:
    """Yield the chunks of a table of links; chunk n has the same links in every run.

    Args:
        links: the table.
        chunk: links in a chunk; the last one of a table may have fewer.
        sort: sort the links within windows. Otherwise they keep the order of the table.

    Raises:
        GraphError: the table cannot be read, when that place is reached.
    """
    return chunks(iter_links(links), chunk, LINKS_A_WINDOW // chunk * chunk if sort else None)


def chunks(rows: Iterable[LinkRow], chunk: int, window: int | None = None) -> Iterator[Task]:
    """Cut rows into windows, sort each, and cut it into chunks; without a window, only the latter.

    Example:
        >>> rows = [LinkRow(n, (src, "b")) for n, src in enumerate(["10", "9", "x", "2"], start=1)]
        >>> [[row.line for row in task.links] for task in chunks(rows, 2, 4)]
        [[4, 2], [1, 3]]
    """
    source, number = iter(rows), count()
    while read := list(islice(source, window or chunk)):
        if window:
            read = _sorted(read)
        for start in range(0, len(read), chunk):
            links = tuple(read[start : start + chunk])
            yield Task(next(number), 0, links, len(links))


def _sorted(rows: list[LinkRow]) -> list[LinkRow]:
    """Return rows by source, then target, then link type; the same ones in their given order."""
    links = [row.link for row in rows]
    keys: list[pa.Array] = []
    for place in range(max(map(len, links))):
        keys += _keys([str(link[place]) if place < len(link) else None for link in links])
    table = pa.table([*keys, pa.array(range(len(rows)))], list(map(str, range(len(keys) + 1))))
    order = pc.sort_indices(table, [(name, "ascending") for name in table.column_names])
    return list(map(rows.__getitem__, order.to_pylist()))


def _keys(texts: list[str | None]) -> list[pa.Array]:
    """Return keys to sort by: what is missing, then numbers in their order, then names."""
    column = pa.array(texts, pa.string())
    is_number = pc.match_substring_regex(column, _NUMBER)
    digits = pc.if_else(is_number, pc.replace_substring_regex(column, "^id:", ""), "0")
    flags = (pc.is_valid(column), pc.invert(is_number))
    return [*(flag.cast(pa.int8()) for flag in flags), digits.cast(pa.int64()), column]


# Chunks that were cut into pieces.


@dataclass(frozen=True, order=True)
class Piece:
    """A piece of a chunk that is there."""

    first: int
    last: int
    killed: bool


State = Literal["complete", "again", "open"]


@dataclass
class Ledger:
    """Knows when a chunk is done.

    Pieces are explained with other neighbours than the whole, which moves the last digits. So a
    chunk all pieces of which came through, whose workers then died by accident, is done once more
    as a whole; only if that fails again, or a link does kill, its pieces stand for it.
    """

    _pieces: dict[int, dict[Piece, Task]] = field(default_factory=dict)
    _repeated: set[int] = field(default_factory=set)

    def finish(self, task: Task) -> State:
        """Take note of a task that is done.

        Returns:
            `complete`: its chunk is done. `again`: the chunk is to be done once more, as a whole.
            `open`: pieces are missing.
        """
        if task.is_whole and not task.killed:
            return "complete"
        found = self._pieces.setdefault(task.chunk, {})
        found[Piece(task.first, task.last, bool(task.killed))] = task
        if missing(found, task.size):
            return "open"
        if any(piece.killed for piece in found) or task.chunk in self._repeated:
            return "complete"
        self._repeated.add(task.chunk)
        return "again"

    def take(self, chunk: int) -> list[Task]:
        """Return the pieces of a chunk in order, none if it was done as a whole; forget them."""
        return [task for _, task in sorted(self._pieces.pop(chunk, {}).items())]

    def resume(self, task: Task, pieces: list[Piece]) -> list[Task]:
        """Take note of the pieces of a chunk that are on disk, and return what is left of it."""
        pieces = apart(pieces)
        for piece in pieces:
            self.finish(task.piece(piece))
        return [task.cut(first, last) for first, last in missing(pieces, task.size)]


def joined(pieces: list[Task]) -> Task:
    """Return the task of a whole chunk from its pieces."""
    links = tuple(link for piece in pieces for link in piece.links)
    return Task(pieces[0].chunk, 0, links, len(links))


def apart(pieces: Iterable[Piece]) -> list[Piece]:
    """Return pieces no two of which have a link in common.

    A worker that was taken for dead may have written a piece that was cut further since.

    Example:
        >>> [(p.first, p.last) for p in apart([Piece(0, 2, False), Piece(0, 4, False),
        ...                                    Piece(2, 4, False), Piece(3, 4, True)])]
        [(0, 2), (2, 4)]
    """
    found: list[Piece] = []
    for piece in sorted(pieces):
        if not found or piece.first >= found[-1].last:
            found.append(piece)
    return found


def missing(pieces: Iterable[Piece], size: int) -> list[tuple[int, int]]:
    """Return which ranges of a chunk no piece covers.

    Example:
        >>> missing([Piece(2, 4, False), Piece(4, 5, True)], 8)
        [(0, 2), (5, 8)]
    """
    gaps, reached = [], 0
    for piece in sorted(pieces):
        if piece.first > reached:
            gaps.append((reached, piece.first))
        reached = max(reached, piece.last)
    return [*gaps, (reached, size)] if reached < size else gaps
