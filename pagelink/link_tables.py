"""Tables of links to explain: a bad row costs only itself, so it is read and kept as it is."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet

from pagelink.asked_links import LinkLike
from pagelink.errors import GraphError

REQUIRED = ("src", "dst")
OPTIONAL = ("link_type",)
DELIMITERS = {".csv": ",", ".tsv": "\t"}


@dataclass(frozen=True)
class LinkRow:
    """A row of a table of links."""

    line: int
    """Where it stands: the line as an editor counts, the row of a Parquet file."""
    link: LinkLike
    """(src, dst) or (src, dst, link type), by names or ids; fewer parts where some are missing."""


def read_links(path: Path) -> list[LinkRow]:
    """Read the columns `src`, `dst` and, if there is one, `link_type`, by names or ids.

    Raises:
        GraphError: there is no such file, it is no table, or it lacks a column.
    """
    if not path.is_file():
        raise GraphError(f"{path}: there is no such file.")
    if path.suffix.lower() == ".parquet":
        return _read_parquet(path)
    if path.suffix.lower() not in DELIMITERS:
        raise GraphError(f"{path}: a table of links ends in .csv, .tsv or .parquet.")
    rows: list[LinkRow] = []
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file, delimiter=DELIMITERS[path.suffix.lower()])
            places = _places(path, next(reader, []))
            for cells in reader:
                if cells:
                    rows.append(LinkRow(reader.line_num, _link(cells, places)))
    except UnicodeDecodeError as error:
        raise GraphError(f"{path}: not UTF-8 text: {error}.") from error
    except csv.Error as error:
        raise GraphError(f"{path}, line {reader.line_num}: {error}.") from error
    return rows


def _read_parquet(path: Path) -> list[LinkRow]:
    try:
        table = pa.parquet.read_table(path)
    except (OSError, pa.ArrowException) as error:
        raise GraphError(f"{path}: cannot be read as Parquet: {error}") from error
    places = _places(path, table.column_names)
    columns = [table.column(place).cast(pa.string()).to_pylist() for place in places]
    return [
        LinkRow(row, tuple(cell or "" for cell in cells))  # type: ignore[arg-type]
        for row, cells in enumerate(zip(*columns, strict=True), start=1)
    ]


def _places(path: Path, header: Sequence[str]) -> list[int]:
    names = [name.strip().lower() for name in header]
    missing = [name for name in REQUIRED if name not in names]
    if missing:
        found = f"found {', '.join(header)}" if header else "the file is empty"
        raise GraphError(
            f"{path}, line 1: a table of links has the columns src and dst; "
            f"{' and '.join(missing)} missing, {found}."
        )
    return [names.index(name) for name in (*REQUIRED, *OPTIONAL) if name in names]


def _link(cells: Sequence[str], places: Sequence[int]) -> LinkLike:
    found = [cells[place] for place in places if place < len(cells)]
    if len(found) == len(REQUIRED) + 1 and not found[-1]:
        found.pop()  # no link type given: the default one
    return tuple(found)  # type: ignore[return-value]
