"""The page about many links, made from what a job wrote."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from pagelink.engine.parts import iter_parts
from pagelink.runtime.files import write_text
from pagelink.store.addresses import fetched
from pagelink.views.rows import is_one_file, read_rows
from pagelink.views.table_report import TableReport


def write_report(result: Path | str, out: Path | str, *, partial: bool = False) -> Path:
    """Write a page about the links of a job: coverage, verdicts, metapaths, slowest, worst, errors.

    The rows are read one part after the other; the same rows give the same page.

    Args:
        result: the file or the folder that `explain_table` wrote.
        out: the page to write.
        partial: of a folder whose job is not done, take what there is.

    Returns:
        The page.

    Raises:
        SettingsError: it is not the result of a job, or the job is not done.
        EngineError: a part is missing or damaged.
    """
    result, out = fetched(result), Path(out)
    report = TableReport()
    for table in _tables(result, partial):
        report.add(table)
    write_text(out, report.to_html(result.name))
    return out


def _tables(result: Path, partial: bool) -> Iterator[pa.Table]:
    return read_rows(result) if is_one_file(result) else iter_parts(result, partial=partial)
