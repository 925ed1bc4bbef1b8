"""Explanations as rows of a table: one per path, and one for each link without paths.

Rows go into Parquet, JSON Lines, CSV or TSV.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from pagelink.errors import SettingsError
from pagelink.explain.result import Explanation
from pagelink.runtime.files import complete_file
from pagelink.views.beyond_wording import equally_good, strongest_words
from pagelink.views.statements import node_words, reads_backwards
from pagelink.views.text import words
from pagelink.views.wording import PathWords, paths_in_words

SCHEMA = pa.schema([
    ("line", pa.int64()), ("src_type", pa.string()), ("src", pa.string()),
    ("src_index", pa.int64()), ("relation", pa.string()), ("dst_type", pa.string()),
    ("dst", pa.string()), ("dst_index", pa.int64()), ("probability", pa.float64()),
    ("logit", pa.float64()), ("reason", pa.string()), ("message", pa.string()),
    ("verdict", pa.string()), ("ends", pa.string()), ("influence", pa.float64()),
    ("influence_error", pa.float64()), ("inserted", pa.bool_()), ("gain", pa.float64()),
    ("worth", pa.float64()),
    ("logit_without_these", pa.float64()), ("logit_without_paths", pa.float64()),
    ("logit_without_edges", pa.float64()), ("sufficiency", pa.float64()),
    ("rho_reached", pa.float64()), ("max_length", pa.int64()),
    ("control_effect", pa.float64()), ("control_low", pa.float64()),
    ("control_high", pa.float64()), ("control_draws", pa.int64()),
    ("control_placebo", pa.int64()), ("strongest", pa.list_(pa.string())),
    ("strongest_effect", pa.float64()), ("strongest_share", pa.float64()),
    ("what_else", pa.string()), ("alternatives", pa.list_(pa.string())),
    ("rank", pa.int64()), ("rank_ties", pa.int64()), ("rank_without_these", pa.int64()),
    ("rank_ties_without_these", pa.int64()), ("rank_without_strongest", pa.int64()),
    ("rank_of", pa.int64()), ("rank_is_sample", pa.bool_()), ("rank_end", pa.string()),
    ("runs", pa.int64()),
    ("held_out_share", pa.float64()), ("held_out_predictions", pa.int64()),
    ("path", pa.int64()), ("score", pa.float64()), ("length", pa.int64()), ("text", pa.string()),
    ("metapath", pa.string()),
    ("path_influence", pa.float64()), ("path_influence_error", pa.float64()),
    ("path_gain", pa.float64()),
    ("path_marginal", pa.float64()), ("path_share", pa.float64()),
    ("path_connection", pa.float64()), ("is_evidence", pa.bool_()), ("path_bundle", pa.int64()),
    ("path_runs", pa.int64()),
    ("node_types", pa.list_(pa.string())), ("node_indices", pa.list_(pa.int64())),
    ("node_names", pa.list_(pa.string())), ("relations", pa.list_(pa.string())),
    ("edge_indices", pa.list_(pa.int64())), ("masks", pa.list_(pa.float64())),
    ("edge_influences", pa.list_(pa.float64())), ("edge_active", pa.list_(pa.bool_())),
    ("attributes", pa.list_(pa.string())), ("notes", pa.string()),
    ("direct_relations", pa.list_(pa.string())), ("seed", pa.int64()),
    ("seconds", pa.float64()),
])  # fmt: skip
"""`line` is the line of the link in its table, `path` the rank from 1 on (null without paths),
`metapath` the node types and relations of the path in words, `attributes` a JSON object per fact of
the path; a fact that was added to the graph has `"added": true` in it.

What was measured, null where it was not: of the returned paths together, `verdict`, `ends` (under
`degree_only`), `influence` (how much they add to the logit: by removal, or if `inserted` by
insertion into the graph without paths), `influence_error` (its standard error, for models without
messages), `gain`, `worth`, `logit_without_these`,
`logit_without_paths`, `logit_without_edges`, `sufficiency` (null too if without the paths the logit
is not lower), `rho_reached` and `max_length`, as `Evidence` has them; `control_effect`,
`control_low`, `control_high`, `control_draws` and `control_placebo`, as `DegreeControl` has them.
Beside the paths: `strongest`, the facts that count most, in words, with `strongest_effect` and
`strongest_share`; `what_else`, a JSON list with an object per part (`name`, `size`, `effect`,
`error`); `alternatives`, sets of paths that are equally good, in words. Of each path,
`path_influence`, `path_influence_error`, `path_gain`, `path_marginal`, `path_share`,
`path_connection`, `is_evidence` and `path_bundle`, as `Path` has them; of each of its facts,
`edge_influences`, how much the logit falls without it alone, and `edge_active`, whether it moves
the score at all. Paths come in the order of the other views, those with `is_evidence` first.

What was requested, null where it was not: `rank`, `rank_ties`, `rank_without_these`,
`rank_ties_without_these`, `rank_without_strongest`, `rank_of`, `rank_is_sample` and `rank_end`, as
`Explanation` has them; `runs`, and `path_runs`, in how many of them the path was returned.

Where the model has a calibration: `held_out_share`, the share of like predictions that were
held-out links, and `held_out_predictions`, the number of predictions that this rests on."""
VERSION = 4
"""Rows of another version must not be mixed with these: it grows with every change of what a column
means; a change of the columns shows by itself."""
_OF_THE_LINK = ("probability", "logit", "reason", "seed", "seconds")
_OF_ITS_EVIDENCE = (
    "verdict", "ends", "influence", "influence_error", "inserted", "gain", "worth",
    "logit_without_these", "logit_without_paths", "logit_without_edges", "sufficiency",
    "rho_reached", "max_length",
)  # fmt: skip
_OF_THE_CONTROL = {
    "effect": "effect", "low": "low", "high": "high", "draws": "num_draws",
    "placebo": "num_placebo",
}  # fmt: skip
_ON_REQUEST = (
    "rank", "rank_ties", "rank_without_these", "rank_ties_without_these",
    "rank_without_strongest", "rank_of", "rank_is_sample", "rank_end", "runs",
)  # fmt: skip
_OF_A_PATH = (
    "influence", "influence_error", "gain", "marginal", "share", "connection", "bundle", "runs",
)  # fmt: skip


def to_rows(explanation: Explanation, line: int | None = None) -> list[dict[str, Any]]:
    """Return the rows of an explanation, with the columns of `SCHEMA`."""
    common = {
        "line": line,
        "src_type": explanation.src[0],
        "src": explanation.src_name,
        "src_index": explanation.src[1],
        "relation": explanation.link_type[1],
        "dst_type": explanation.dst[0],
        "dst": explanation.dst_name,
        "dst_index": explanation.dst[1],
        "message": explanation.message or None,
        "notes": " ".join(explanation.notes) or None,
        "direct_relations": list(explanation.direct_relations),
        **{name: getattr(explanation, name) for name in (*_OF_THE_LINK, *_ON_REQUEST)},
        "held_out_share": getattr(explanation.held_out_share, "share", None),
        "held_out_predictions": getattr(explanation.held_out_share, "num_predictions", None),
        **{name: getattr(explanation.evidence, name, None) for name in _OF_ITS_EVIDENCE},
        **_beside_the_paths(explanation),
    }
    if not explanation.paths:
        return [{name: common.get(name) for name in SCHEMA.names}]
    return [{**common, **_path_columns(said)} for said in paths_in_words(explanation)]


def _beside_the_paths(explanation: Explanation) -> dict[str, Any]:
    """Return the degree control, the strongest facts, what else counts and what is as good."""
    control = getattr(explanation.evidence, "control", None)
    nodes, found = node_words(explanation), explanation.strongest
    strong = strongest_words(explanation, nodes, ())
    good = equally_good(explanation, nodes, limit=None)
    parts = [asdict(part) for part in explanation.what_else]
    return {
        **{f"control_{n}": getattr(control, field, None) for n, field in _OF_THE_CONTROL.items()},
        "strongest": None if strong is None else [str(each.fact) for each in strong.facts],
        "strongest_effect": None if found is None else found.effect,
        "strongest_share": None if found is None else found.share,
        "what_else": json.dumps(parts) if parts else None,
        "alternatives": [" | ".join(each.lines) for each in good.sets] if good else None,
    }


def _path_columns(said: PathWords) -> dict[str, Any]:
    path, edges = said.path, said.path.edges
    return {
        "path": said.rank,
        "score": path.score,
        "length": len(path),
        "text": "; ".join(str(step.fact) for step in said.steps),
        "metapath": _metapath(said),
        **{f"path_{name}": getattr(path, name) for name in _OF_A_PATH},
        "is_evidence": path.is_evidence,
        "node_types": [node_type for node_type, _ in path.nodes],
        "node_indices": [index for _, index in path.nodes],
        "node_names": list(path.names),
        "relations": [edge.type[1] for edge in edges],
        "edge_indices": [edge.index for edge in edges],
        "masks": [edge.mask for edge in edges],
        "edge_influences": None if path.weakest is None else [edge.influence for edge in edges],
        "edge_active": None if edges[0].active is None else [edge.active for edge in edges],
        "attributes": [
            json.dumps(
                {**edge.attributes, **({"added": True} if edge.added else {})},
                default=str,
                ensure_ascii=False,
            )
            for edge in edges
        ],
    }


def _metapath(said: PathWords) -> str:
    path = said.path
    edges = zip(path.edges, path.nodes[1:], strict=True)
    return metapath_words(
        path.nodes[0][0],
        ((edge.phrase or edge.label, reads_backwards(edge), kind) for edge, (kind, _) in edges),
    )


def metapath_words(start: str, steps: Iterable[tuple[str, bool, str]]) -> str:
    """Return the node types and relations of a path, arrows in the direction in which they read.

    Args:
        start: the type of the source.
        steps: the words of each relation, whether they read backwards, and the type it leads to.

    Example:
        >>> metapath_words("user", [("buys", False, "item"), ("buys", True, "user")])
        'user → buys → item ← buys ← user'
    """
    told = words(start)
    for label, backwards, node_type in steps:
        arrow = "←" if backwards else "→"
        told += f" {arrow} {words(label)} {arrow} {words(node_type)}"
    return told


def to_table(rows: list[dict[str, Any]]) -> pa.Table:
    """Return rows as a pyarrow table."""
    return pa.Table.from_pylist(rows, schema=SCHEMA)


# Files of rows.


FORMATS = (".parquet", ".csv", ".tsv", ".jsonl")
_FORMAT_LIKE = re.compile(r"\.[A-Za-z][A-Za-z0-9]*")
# The last four are the wide forms of the first four, which some spreadsheets take for them.
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")


def is_one_file(out: Path) -> bool:
    """Return whether rows go into a file of this name, and not into a folder.

    A folder that exists is a folder, whatever its name. Otherwise an ending is that of a file if it
    is one of `FORMATS`, and a name whose ending no format could have, as `run-1.5`, is a folder's.

    Raises:
        SettingsError: its ending is that of some other format.

    Example:
        >>> [is_one_file(Path(name)) for name in ("rows.CSV", "run-1.5", "run")]
        [True, False, False]
        >>> is_one_file(Path("rows.xlsx"))  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        ...
        pagelink.errors.SettingsError: rows.xlsx: results end in .parquet, .csv, .tsv, .jsonl, ...
    """
    if out.is_dir():
        return False
    if not _FORMAT_LIKE.fullmatch(out.suffix):
        return False
    if out.suffix.lower() not in FORMATS:
        raise SettingsError(
            f"{out}: results end in {', '.join(FORMATS)}, not in {out.suffix!r}. For a folder of "
            "this name, make it first."
        )
    return True


def write_rows(tables: Iterable[pa.Table], out: Path) -> None:
    """Write tables of rows, one at a time, into one file, which gets its name when it is complete.

    CSV and TSV have no lists: they become JSON texts. They may be opened by a spreadsheet, too: a
    text that it would take for a formula is marked as text.

    Args:
        tables: with the columns of `SCHEMA`.
        out: the file; its ending, one of `FORMATS`, says which form it has.
    """
    form = out.suffix.lower()
    with complete_file(out) as temporary:
        if form == ".jsonl":
            with temporary.open("w", encoding="utf-8") as target:
                for table in tables:
                    for row in table.to_pylist():
                        target.write(json.dumps(row, ensure_ascii=False) + "\n")
        elif form == ".parquet":
            with pa.parquet.ParquetWriter(temporary, SCHEMA) as writer:
                for table in tables:
                    writer.write_table(table)
        else:
            options = pa.csv.WriteOptions(delimiter="\t" if form == ".tsv" else ",")
            schema = _flat(SCHEMA.empty_table()).schema
            with pa.csv.CSVWriter(temporary, schema, write_options=options) as writer:
                for table in tables:
                    writer.write_table(_flat(table))


def to_csv(table: pa.Table) -> bytes:
    """Return rows as the bytes of a CSV file, as `write_rows` writes it."""
    target = pa.BufferOutputStream()
    pa.csv.write_csv(_flat(table), target)
    return bytes(target.getvalue())


def _flat(table: pa.Table) -> pa.Table:
    """Return a table of numbers and texts that a spreadsheet takes for numbers and texts."""
    for i, column in enumerate(table.schema):
        values = table.column(i)
        if pa.types.is_list(column.type):
            texts = [
                None if value is None else json.dumps(value, ensure_ascii=False)
                for value in values.to_pylist()
            ]
        elif pa.types.is_string(column.type):
            texts = [not_a_formula(value) for value in values.to_pylist()]
        else:
            continue
        table = table.set_column(i, column.name, pa.array(texts, pa.string()))
    return table


ROWS_AT_ONCE = 4096
_BLOCK = 1 << 24
"""Bytes of a CSV file that are read at a time; no row may be longer."""


def read_rows(path: Path) -> Iterator[pa.Table]:
    """Yield the rows of a file that `write_rows` wrote, some at a time.

    Raises:
        SettingsError: it is not such a file, or of a version with other columns.
    """
    if not path.is_file():
        raise SettingsError(f"There is no file {path}.")
    try:
        for table in _tables_of(path):
            missing = [name for name in SCHEMA.names if name not in table.column_names]
            if missing:
                raise SettingsError(
                    f"{path} is no table of explanations of this version: it has no column "
                    f"{missing[0]!r}."
                )
            yield table.select(SCHEMA.names)
    except (pa.ArrowException, ValueError, OSError) as error:
        if isinstance(error, SettingsError):
            raise
        raise SettingsError(f"{path} cannot be read as a table of explanations: {error}") from error


def _tables_of(path: Path) -> Iterator[pa.Table]:
    form, names = path.suffix.lower(), set(SCHEMA.names)
    if form == ".jsonl":
        with path.open(encoding="utf-8") as lines:
            while rows := [json.loads(line) for line in islice(lines, ROWS_AT_ONCE)]:
                whole = all(isinstance(row, dict) and names <= row.keys() for row in rows)
                yield to_table(rows) if whole else pa.Table.from_pylist(rows)
    elif form == ".parquet":
        with pa.parquet.ParquetFile(path) as file:
            for batch in file.iter_batches(ROWS_AT_ONCE):
                yield pa.Table.from_batches([batch])
    else:
        flat = _flat(SCHEMA.empty_table()).schema
        reader = pa.csv.open_csv(
            path,
            pa.csv.ReadOptions(block_size=_BLOCK),
            pa.csv.ParseOptions(delimiter="\t" if form == ".tsv" else ",", newlines_in_values=True),
            pa.csv.ConvertOptions(
                column_types=flat, null_values=[""], strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )  # fmt: skip
        for batch in reader:
            yield _deep(pa.Table.from_batches([batch]))


def _deep(table: pa.Table) -> pa.Table:
    """Return a table of CSV as it was before `_flat`."""
    for i, name in enumerate(table.column_names):
        kind = SCHEMA.field(name).type if name in SCHEMA.names else None
        if kind is None or not (pa.types.is_list(kind) or pa.types.is_string(kind)):
            continue
        cells = table.column(i).to_pylist()
        if pa.types.is_list(kind):
            cells = [None if cell is None else json.loads(cell) for cell in cells]
        else:
            marked = [cell and cell[0] == "'" and cell[1:].startswith(_FORMULA) for cell in cells]
            cells = [c[1:] if is_marked else c for c, is_marked in zip(cells, marked, strict=True)]
        table = table.set_column(i, name, pa.array(cells, kind))
    return table


def not_a_formula(cell: Any) -> Any:
    """Return the value of a CSV cell; a text that spreadsheets take for a formula gets a `'`.

    Example:
        >>> not_a_formula("=HYPERLINK(...)"), not_a_formula("a=b"), not_a_formula(-2.5)
        ("'=HYPERLINK(...)", 'a=b', -2.5)
    """
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(_FORMULA) else cell
