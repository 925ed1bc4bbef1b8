"""Explaining a table of links: any number of them, in parts that survive an interruption.

The links are explained a part at a time. Each part is a Parquet file in a folder beside the result,
written under a temporary name and renamed; the parts on disk are the only record of progress, so a
second run of the same job goes on where the first one stopped. When all parts are there they are
put together under the name of the result, and the folder goes.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from pagelink.engine.opening import JOB_FILE, as_text, differing, job_identity
from pagelink.errors import SettingsError
from pagelink.explain.explainer import MEMORY, PaGELink
from pagelink.explain.options import ExplainOptions
from pagelink.explain.result import Explanation
from pagelink.runtime.files import complete_file, write_text
from pagelink.tables.link_tables import LinkRow, read_links
from pagelink.views.rows import SCHEMA, to_rows, to_table

LINKS_A_PART = 256
FORMATS = (".parquet", ".csv", ".tsv", ".jsonl")
NOTHING_MORE = ExplainOptions()


@dataclass(frozen=True)
class JobResult:
    """What a job came to."""

    path: Path
    num_links: int
    num_rows: int
    resumed: int
    """How many links were found done by an earlier run."""
    reasons: Mapping[str, int]
    """How many links have each reason; "paths" counts those with paths."""
    invalid: tuple[str, ...]
    """Messages about malformed rows, with their lines."""


def explain_table(
    explainer: PaGELink,
    links: Path,
    out: Path,
    *,
    identity: Mapping[str, Any],
    progress: Callable[[int, int], None] = lambda done, total: None,
    part_size: int = LINKS_A_PART,
    memory: float = MEMORY,
    asked: ExplainOptions = NOTHING_MORE,
) -> JobResult:
    """Explain the links of a table and write the rows of their explanations.

    Args:
        explainer: what explains.
        links: the table of links.
        out: the result: Parquet, CSV, TSV or JSON Lines, by its ending.
        identity: what else the rows depend on (the model, the graph); an interrupted job is only
            taken up again by a job of the same identity, settings, seed and links, that asks for
            the same, of the same version.
        progress: called with the number of links done and the number of all.
        part_size: links per part.
        memory: about how many gigabytes the links that are explained side by side may take.
        asked: what the rows are to hold beside the paths: ranks, runs, predicted negatives.

    Raises:
        SettingsError: the ending is not known, or the parts of another job are in the way.
        GraphError: the table of links cannot be read.
    """
    if out.suffix not in FORMATS:
        raise SettingsError(
            f"{out}: results end in {', '.join(FORMATS)}, not in {out.suffix or 'nothing'!r}."
        )
    rows = read_links(links)
    parts = out.with_name(f"{out.name}.parts")
    job = {
        **job_identity(links, explainer.settings, explainer.seed, explainer.threshold, asked),
        "part_size": part_size,
        **identity,
    }
    _take_up(parts, job)
    done = 0
    for number, start in enumerate(range(0, len(rows), part_size)):
        chunk = rows[start : start + part_size]
        file = parts / f"part-{number:06d}.parquet"
        if file.exists():
            done += len(chunk)
            progress(done, len(rows))
            continue
        explanations = explainer.explain_many(
            (row.link for row in chunk), memory=memory, **asdict(asked)
        )
        _write_part(file, _rows(explanations, chunk, lambda n: progress(n, len(rows)), start))
    result = _summary(parts, out, len(rows), done)
    _put_together(parts, out)
    shutil.rmtree(parts)
    return result


def _take_up(parts: Path, job: Mapping[str, Any]) -> None:
    """Make the folder of the parts, or make sure that it belongs to this very job."""
    parts.mkdir(parents=True, exist_ok=True)
    file = parts / JOB_FILE
    if not file.exists():
        write_text(file, as_text(job))
    elif differs := differing(file.read_text("utf-8"), job):
        raise SettingsError(
            f"{parts} holds the parts of another job (other {', '.join(differs)}). Remove the "
            "folder to start anew, or choose another name for the result."
        )


def _rows(
    explanations: Iterator[Explanation],
    chunk: list[LinkRow],
    progress: Callable[[int], None],
    done: int,
) -> Iterator[dict[str, Any]]:
    for row, explanation in zip(chunk, explanations, strict=True):
        yield from to_rows(explanation, row.line)
        done += 1
        progress(done)


def _write_part(file: Path, rows: Iterator[dict[str, Any]]) -> None:
    table = to_table(list(rows))
    with complete_file(file) as temporary:
        pa.parquet.write_table(table, temporary)


def _summary(parts: Path, out: Path, num_links: int, resumed: int) -> JobResult:
    reasons: dict[str, int] = {}
    invalid: list[str] = []
    num_rows = 0
    for file in sorted(parts.glob("part-*.parquet")):
        table = pa.parquet.read_table(file, columns=["line", "reason", "message", "path"])
        num_rows += table.num_rows
        for row in table.to_pylist():
            if row["path"] in (None, 1):
                reason = row["reason"] or "paths"
                reasons[reason] = reasons.get(reason, 0) + 1
            if row["reason"] == "invalid":
                invalid.append(f"line {row['line']}: {row['message']}")
    return JobResult(out, num_links, num_rows, resumed, reasons, tuple(invalid))


def _put_together(parts: Path, out: Path) -> None:
    """Copy the parts, one at a time, into the result."""
    files = sorted(parts.glob("part-*.parquet"))
    with complete_file(out) as temporary:
        if out.suffix == ".parquet":
            with pa.parquet.ParquetWriter(temporary, SCHEMA) as writer:
                for file in files:
                    writer.write_table(pa.parquet.read_table(file))
        elif out.suffix == ".jsonl":
            with temporary.open("w", encoding="utf-8") as target:
                for file in files:
                    for row in pa.parquet.read_table(file).to_pylist():
                        target.write(json.dumps(row, ensure_ascii=False) + "\n")
        else:
            options = pa.csv.WriteOptions(delimiter="\t" if out.suffix == ".tsv" else ",")
            with pa.csv.CSVWriter(temporary, _flat(SCHEMA.empty_table()).schema,
                                  write_options=options) as target:  # fmt: skip
                for file in files:
                    target.write_table(_flat(pa.parquet.read_table(file)))


def _flat(table: pa.Table) -> pa.Table:
    """CSV has no lists: they become JSON texts."""
    for i, column in enumerate(table.schema):
        if pa.types.is_list(column.type):
            texts = [
                None if value is None else json.dumps(value, ensure_ascii=False)
                for value in table.column(i).to_pylist()
            ]
            table = table.set_column(i, column.name, pa.array(texts, pa.string()))
    return table
