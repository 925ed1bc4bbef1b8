"""What is there of chunks that were cut into pieces."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Literal

from pagelink.engine.parts import Piece
from pagelink.engine.tasks import Task

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
            part = replace(task, first=piece.first, links=task.links[piece.first : piece.last])
            self.finish(replace(part, killed="found on disk" if piece.killed else ""))
        return [
            replace(task, first=first, links=task.links[first:last])
            for first, last in missing(pieces, task.size)
        ]


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
