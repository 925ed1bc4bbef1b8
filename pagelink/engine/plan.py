"""Which links go together: a table is cut into chunks, the same ones every time.

The table is read in windows of rows. Within a window the links are sorted by source, then target,
so that those of a chunk have neighbourhoods in common and read the same pages of a graph on disk.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

from pagelink.engine.tasks import Task
from pagelink.errors import SettingsError
from pagelink.link_tables import LinkRow, iter_links

LINKS_A_CHUNK = 256
LINKS_A_WINDOW = 65_536
"""About; a window is a whole number of chunks."""
_NUMBER = re.compile(r"(?:id:)?([0-9]{1,18})")


def check_chunk(chunk: object) -> None:
    """Refuse a size of chunks that is none.

    Raises:
        SettingsError: it is not a whole number from 1 to the size of a window.
    """
    if not isinstance(chunk, int) or isinstance(chunk, bool) or not 1 <= chunk <= LINKS_A_WINDOW:
        raise SettingsError(f"A chunk has 1 to {LINKS_A_WINDOW} links; got {chunk!r}.")


def plan(links: Path, chunk: int = LINKS_A_CHUNK) -> Iterator[Task]:
    """Yield the chunks of a table of links; chunk n has the same links whenever it is asked for.

    Args:
        links: the table.
        chunk: links in a chunk; the last one of a table may have fewer.

    Raises:
        GraphError: the table cannot be read, when that place is reached.
    """
    return chunks(iter_links(links), chunk, LINKS_A_WINDOW // chunk * chunk)


def chunks(
    rows: Iterable[LinkRow], chunk: int, window: int, *, sort: bool = True
) -> Iterator[Task]:
    """Cut rows into windows, sort each, and cut it into chunks.

    Example:
        >>> rows = [LinkRow(n, (src, "b")) for n, src in enumerate(["10", "9", "x", "2"], start=1)]
        >>> [[row.line for row in task.links] for task in chunks(rows, 2, 4)]
        [[4, 2], [1, 3]]
    """
    source = iter(rows)
    number = 0
    while read := list(islice(source, window)):
        if sort:
            read.sort(key=_place)
        for start in range(0, len(read), chunk):
            links = tuple(read[start : start + chunk])
            yield Task(number, 0, links, len(links))
            number += 1


def _place(row: LinkRow) -> tuple[tuple[bool, int, str], ...]:
    """Numbers in their order, then names in theirs."""
    return tuple(_key(str(part)) for part in row.link)


def _key(text: str) -> tuple[bool, int, str]:
    number = _NUMBER.fullmatch(text)
    return (False, int(number[1]), text) if number else (True, 0, text)
