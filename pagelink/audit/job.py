"""An audit of many links: the rows one after the other, by workers, or as a job that resumes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from pagelink.audit.groups import Columns, make_groups
from pagelink.audit.result import Audit
from pagelink.audit.rows import VERSION, Row, make_row, make_rows, settle, suspects_of
from pagelink.audit.sampling import distinct
from pagelink.audit.summary import summarised
from pagelink.engine.crew import Engine
from pagelink.engine.job import complete, stream
from pagelink.engine.opening import Opening
from pagelink.engine.parts import PartFolder, claimed
from pagelink.engine.tasks import Task, chunks
from pagelink.engine.worker import InProcess, Order
from pagelink.errors import EngineError, SettingsError
from pagelink.explain.building import versions
from pagelink.explain.explainer import PaGELink
from pagelink.explain.result import plain
from pagelink.graph.links import LinkLike
from pagelink.tables.link_tables import LinkRow

LINKS_A_CHUNK = 8
"""Links per part: the game of one link takes as long as explaining many."""
_SCHEMA = pa.schema([("line", pa.int64()), ("row", pa.string())])


class Rows:
    """Links become rows of an audit."""

    def make(
        self, explainer: PaGELink, links: list[LinkLike], options: dict[str, Any]
    ) -> Iterator[Row]:
        """Audit links."""
        return make_rows(explainer, links, **options)

    def failed(self, explainer: PaGELink, link: LinkLike, error: Exception) -> Row:
        """Return a row that says so."""
        return make_row(explainer, explainer.reader.read_any(link), explainer.failed(link, error))

    def table(self, made: Iterable[tuple[int, Row]]) -> pa.Table:
        """Return one row per link, its figures as JSON."""
        rows = [{"line": line, "row": json.dumps(row.to_dict())} for line, row in made]
        return pa.Table.from_pylist(rows, schema=_SCHEMA)


class Settled(Rows):
    """Rows of links, once what moves several of them was tried on each.

    Args:
        explainer: what reads links.
        links: the links, each once.
        rows: their rows.
    """

    def __init__(self, explainer: PaGELink, links: Iterable[LinkLike], rows: Sequence[Row]) -> None:
        self._rows = dict(zip(map(explainer.reader.read_any, links), rows, strict=True))
        self._suspects = suspects_of(rows)

    def make(
        self, explainer: PaGELink, links: list[LinkLike], options: dict[str, Any]
    ) -> Iterator[Row]:
        """Try on links what moves several."""
        for link in map(explainer.reader.read_any, links):
            yield settle(explainer, link, self._rows[link], self._suspects)

    def failed(self, explainer: PaGELink, link: LinkLike, error: Exception) -> Row:
        """Return the row as it was: nothing was tried."""
        return self._rows[explainer.reader.read_any(link)]


def audit_links(
    explainer: PaGELink,
    links: Iterable[LinkLike],
    *,
    by: str | Sequence[str] = (),
    title: str = "",
    progress: Callable[[int, int], None] = lambda done, total: None,
    engine: Engine | None = None,
) -> Audit:
    """Find out what a model relies on, over some links.

    Args:
        explainer: the model, as it is explained.
        links: `(src, dst)` or `(src, dst, link_type)`, by indices or names. A link counts once,
            however often it is given.
        by: a column of the nodes to group links by, or several, as `column` or `type.column`.
        title: what the page calls the model.
        progress: called with the number of steps done and the number of all, two per link: each
            link is measured, then what moves several links is tried on each.
        engine: workers, each with a copy of the explainer. None: this process.

    Raises:
        SettingsError: there are no links, or no such column; before any work.
    """
    given = distinct(explainer.reader, links)
    summarise = summariser(explainer, given, by, title)

    def made(making: Rows, before: int) -> list[Row]:
        rows: list[Row] = []
        progress(before, 2 * len(given))
        for row in (
            making.make(explainer, given, {})
            if engine is None
            else stream(explainer, given, engine, LINKS_A_CHUNK, {}, making)
        ):
            rows.append(row)
            progress(before + len(rows), 2 * len(given))
        return rows

    found = made(Rows(), 0)
    return summarise(made(Settled(explainer, given, found), len(given)))


def audit_job(
    opening: Opening,
    explainer: PaGELink,
    links: Sequence[LinkLike],
    parts: Path,
    *,
    by: str | Sequence[str] = (),
    title: str = "",
    progress: Callable[[int, int], None] = lambda done, total: None,
    engine: Engine | None = None,
) -> Audit:
    """Find out the same as a job whose parts are in a folder: started again, it goes on.

    The folder goes when the rows of all links are there.

    Args:
        opening: how a worker gets its explainer.
        explainer: the same explainer in this process.
        links: the links.
        parts: the folder, which is made if it is not there.
        by: a column of the nodes to group links by, or several.
        title: what the page calls the model.
        progress: called with the number of steps done and the number of all, two per link: each
            link is measured, then what moves several links is tried on each.
        engine: where the workers run. None: in this process.

    Raises:
        BusyError: another process works on the same folder.
        SettingsError: an argument is out of its range, or the folder is another job's.
        EngineError: the job cannot go on; what was written is kept.
    """
    given = distinct(explainer.reader, links)
    table = [LinkRow(number, link) for number, link in enumerate(given, start=1)]
    summarise = summariser(explainer, given, by, title)
    engine = InProcess() if engine is None else engine
    engine.check()
    found = opening.identity()
    job = {
        "audit": VERSION,
        "links": hashlib.sha256(json.dumps(given).encode()).hexdigest(),
        "settings": opening.settings.to_dict(),
        "seed": opening.seed,
        "threshold": opening.threshold,
        "chunk": LINKS_A_CHUNK,
        "versions": versions(),
        **found,
    }

    def planned() -> Iterator[Task]:
        return chunks(table, LINKS_A_CHUNK)

    def made(folder: PartFolder, making: Rows, before: int) -> list[Row]:
        order = Order(opening.expecting(found), rows=True, making=making)
        complete(
            folder, planned, engine, order, len(given), LINKS_A_CHUNK,
            lambda done, total: progress(before + done, 2 * total),
        )  # fmt: skip
        return [row for task in planned() for row in _rows_of(folder.read(task), task)]

    with claimed(parts, job, beside=True) as folder:
        rows = made(folder, Rows(), 0)
        with claimed(parts / "settled", job, beside=True) as second:
            rows = made(second, Settled(explainer, given, rows), len(given))
        audit = summarise(rows)
        folder.remove()
    return audit


def _rows_of(table: pa.Table, task: Task) -> list[Row]:
    if table["line"].to_pylist() != [row.line for row in task.links]:
        raise EngineError(f"The part of chunk {task.chunk} does not hold the rows of its links.")
    return [Row.from_dict(json.loads(text)) for text in table["row"].to_pylist()]


def summariser(
    explainer: PaGELink, links: Sequence[LinkLike], by: str | Sequence[str], title: str
) -> Callable[[list[Row]], Audit]:
    """Check the arguments, before any work, and return what puts the rows together.

    Args:
        explainer: the model, as it is explained.
        links: the links.
        by: a column of the nodes to group links by, or several.
        title: what the page calls the model.

    Raises:
        SettingsError: there are no links, or no such column.
    """
    if not links:
        raise SettingsError("There are no links to audit.")
    link_type = explainer.link_types[0]
    columns = Columns(explainer.predictor.data, (link_type[0], link_type[2]), by)
    return lambda rows: summarised(
        rows,
        lambda them: make_groups(them, columns),
        seed=explainer.seed,
        link_type=link_type,
        threshold=explainer.threshold,
        settings=plain(explainer.settings.to_dict()),  # as it comes back from a file
        versions=versions(),
        title=title,
    )
