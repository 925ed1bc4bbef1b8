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
from pagelink.audit.rows import VERSION, Row, make_row, make_rows, settled
from pagelink.audit.summary import summarised
from pagelink.engine.crew import Engine
from pagelink.engine.job import complete, stream
from pagelink.engine.opening import Opening
from pagelink.engine.parts import claimed
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


def audit_links(
    explainer: PaGELink,
    links: Iterable[LinkLike],
    *,
    by: Sequence[str] = (),
    title: str = "",
    progress: Callable[[int, int], None] = lambda done, total: None,
    engine: Engine | None = None,
) -> Audit:
    """Find out what a model relies on, over some links.

    Args:
        explainer: the model, as it is explained.
        links: `(src, dst)` or `(src, dst, link_type)`, by indices or names.
        by: columns of the nodes to group links by, as `column` or `type.column`.
        title: what the page calls the model.
        progress: called with the number of links done and the number of all.
        engine: workers, each with a copy of the explainer. None: this process.

    Raises:
        SettingsError: there are no links, or no such column; before any work.
    """
    given = list(links)
    summarise = summariser(explainer, given, by, title)
    rows, made = [], (
        make_rows(explainer, given)
        if engine is None
        else stream(explainer, given, engine, LINKS_A_CHUNK, {}, Rows())
    )  # fmt: skip
    progress(0, len(given))
    for row in made:
        rows.append(row)
        progress(len(rows), len(given))
    return summarise(settled(explainer, given, rows))


def audit_job(
    opening: Opening,
    explainer: PaGELink,
    links: Sequence[LinkLike],
    parts: Path,
    *,
    by: Sequence[str] = (),
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
        by: columns of the nodes to group links by.
        title: what the page calls the model.
        progress: called with the number of links done and the number of all.
        engine: where the workers run. None: in this process.

    Raises:
        BusyError: another process works on the same folder.
        SettingsError: an argument is out of its range, or the folder is another job's.
        EngineError: the job cannot go on; what was written is kept.
    """
    given = [LinkRow(number, link) for number, link in enumerate(links, start=1)]
    summarise = summariser(explainer, links, by, title)
    engine = InProcess() if engine is None else engine
    engine.check()
    found = opening.identity()
    job = {
        "audit": VERSION,
        "links": hashlib.sha256(json.dumps([row.link for row in given]).encode()).hexdigest(),
        "settings": opening.settings.to_dict(),
        "seed": opening.seed,
        "threshold": opening.threshold,
        "chunk": LINKS_A_CHUNK,
        "versions": versions(),
        **found,
    }

    def planned() -> Iterator[Task]:
        return chunks(given, LINKS_A_CHUNK)

    order = Order(opening.expecting(found), rows=True, making=Rows())
    with claimed(parts, job, beside=True) as folder:
        complete(folder, planned, engine, order, len(given), LINKS_A_CHUNK, progress)
        rows = [row for task in planned() for row in _rows_of(folder.read(task), task)]
        audit = summarise(settled(explainer, links, rows))
        folder.remove()
    return audit


def _rows_of(table: pa.Table, task: Task) -> list[Row]:
    if table["line"].to_pylist() != [row.line for row in task.links]:
        raise EngineError(f"The part of chunk {task.chunk} does not hold the rows of its links.")
    return [Row.from_dict(json.loads(text)) for text in table["row"].to_pylist()]


def summariser(
    explainer: PaGELink, links: Sequence[LinkLike], by: Sequence[str], title: str
) -> Callable[[list[Row]], Audit]:
    """Check the arguments, before any work, and return what puts the rows together.

    Args:
        explainer: the model, as it is explained.
        links: the links.
        by: columns of the nodes to group links by.
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
