"""`pagelink bench docs`: the tables of README and docs, written from committed results.

`docs/results` has the run files of `pagelink bench paper`, a folder per part, without what they
hold of single links, so that they stay small; one file of tables per part of
`pagelink bench faithfulness`, one of `pagelink bench knowledge` and one of
`pagelink bench examples`; and the figures of
`pagelink bench speed`. What stands between
`<!-- benchmark:NAME -->` and `<!-- /benchmark:NAME -->` is made from them. NAME is a part, `parts`
for all parts of the paper's benchmark with their headings, `summary` for one short table, `origin`
for what made the figures, `readme` for the table of the README, `speed`, or what `claims` has for
the page about the paper. Pictures that a page shows are drawn from the same results.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from pagelink.bench import knowledge, pyg_examples
from pagelink.bench.faithfulness import experts, planted, robust, sides, strongest
from pagelink.bench.faithfulness.report import FAITHFULNESS
from pagelink.bench.paper import ablation, claims, tables
from pagelink.bench.paper.plan import PER_LINK
from pagelink.bench.paper.report import Table, tables_markdown
from pagelink.bench.paper.runner import (
    EXPLAINERS,
    PARTS,
    as_markdown,
    origin,
    run_store,
    sections,
)
from pagelink.bench.runs import RunStore, layout
from pagelink.bench.scale import bench as scale
from pagelink.bench.speed import report as speed
from pagelink.bench.speed.bench import ROWS as SPEED_ROWS
from pagelink.bench.speed.figures import plot
from pagelink.bench.trained import bench as trained
from pagelink.errors import PageLinkError
from pagelink.runtime.files import write_text

RESULTS = Path("docs") / "results"
FILES = (
    Path("README.md"), Path("docs") / "benchmark.md", Path("docs") / "faithfulness.md",
    Path("docs") / "knowledge.md", Path("docs") / "paper.md", Path("docs") / "scale.md",
    Path("docs") / "speed.md",
    Path("docs") / "trained.md", Path("docs") / "your-model.md",
)  # fmt: skip
IMAGES = Path("docs") / "images"
MOST_BYTES = 1_500_000
TABLES = (
    planted.NAME, FAITHFULNESS, strongest.NAME, sides.NAME, experts.NAME, robust.NAME,
    knowledge.NAME, pyg_examples.NAME, scale.NAME, trained.NAME,
)  # fmt: skip
SPEED_PLOT = "speed.svg"
README = {
    "metapath": "one path among decoys",
    "parallel": "one of two parallel relations",
    "shared, shorter": "a path that shares a fact with a shorter one",
    "OR of 3": "any one of three paths",
    "four facts": "a path of four facts",
}
"""The mechanisms in the table of the README, and what the model uses in each."""
README_COLUMNS = {
    "default": "pagelink",
    "gnnexp": "GNNExplainer's objective",
    "gradient": "gradient",
    "degree": "degree (no model)",
    "paper": "the paper's ranking",
}
OTHERS = (
    "origin", "parts", "summary", "readme", "claims", "claims-labels", "claims-losses",
    "claims-counts",
)  # fmt: skip
PICTURES = tuple(
    Path(name).stem for name in (claims.CASE, claims.PATHS, claims.EDGES, *claims.LEMMAS.values())
)
NOT_RUN = "Not run yet.\n"
MARKED = re.compile(r"(<!-- benchmark:([a-z-]+) -->\n).*?(<!-- /benchmark:\2 -->)", re.DOTALL)


def publish(folder: Path, root: Path) -> int:
    """Copy results of benchmarks to those of a checkout, without figures of single links.

    Parts that the folder does not have stay as they are, and so do tables of other models and
    other rows of the table of speed.

    Args:
        folder: what `pagelink bench paper`, `faithfulness` or `speed` wrote with `--out`.
        root: the checkout.

    Returns:
        The bytes that all results take up.

    Raises:
        PageLinkError: there is nothing to copy, the results are those of tiny versions, or they
            would be too large to commit.
    """
    store = run_store(folder)
    parts = [name for name in PARTS if any(store.all(name))]
    names = (*TABLES, speed.NAME)
    files = [folder / f"{name}.json" for name in names if (folder / f"{name}.json").exists()]
    if not parts and not files:
        raise PageLinkError(f"There are no benchmark runs in {folder}.")
    for part in parts:
        target = root / RESULTS / part
        runs = {file.name: _run(file) for file in sorted((store.folder / part).glob("*.json"))}
        done = {_data_set(run) for run in runs.values()}
        for old in target.glob("*.json"):
            if _data_set(_run(old)) in done:
                old.unlink()
        for name, run in runs.items():
            run["figures"].pop(PER_LINK, None)
            write_text(target / name, json.dumps(run, ensure_ascii=False) + "\n")
    for file in files:
        found = json.loads(file.read_text(encoding="utf-8"))
        if found["quick"]:
            raise PageLinkError(f"{file} is of --quick, a tiny version: its figures say nothing.")
        joined = _joined(root / RESULTS / file.name, found)
        write_text(root / RESULTS / file.name, json.dumps(joined, ensure_ascii=False) + "\n")
    size = sum(file.stat().st_size for file in (root / RESULTS).rglob("*.json"))
    if size > MOST_BYTES:
        raise PageLinkError(
            f"The results in {root / RESULTS} take up {size:,} bytes, more than {MOST_BYTES:,}. "
            f"Figures of single links belong under {PER_LINK!r}, which is left out."
        )
    return size


def _run(file: Path) -> dict[str, Any]:
    run: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return run


def _data_set(run: dict[str, Any]) -> str | None:
    """The data set that a run is of; None: it is of no data set."""
    key: dict[str, Any] = run["key"]
    return key.get("subject", key.get("data"))


def _joined(file: Path, new: dict[str, Any]) -> dict[str, Any]:
    """Add what is in a file of results and not among the new ones: subjects run one by one.

    Tables of a subject, whose titles begin with its name, go with it; figures of speed with their
    row. Of planted mechanisms, single explainers may be run: the cells of the others stay.
    """
    old = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    if new.get("benchmark") == planted.NAME:
        _keep_cells(old.get("tables", []), new["tables"])
    ours = tuple(f"{each['subject']}: " for each in new.get("subjects", []))
    for key, name in (("tables", "title"), ("subjects", "subject"), ("figures", "row")):
        if key in new:
            done = [each[name] for each in new[key]]
            new[key] = [
                each
                for each in old.get(key, [])
                if each[name] not in done and not (ours and each[name].startswith(ours))
            ] + new[key]
    return new


def _keep_cells(old: list[dict[str, Any]], new: list[dict[str, Any]]) -> None:
    """Where a new table of all explainers has nothing, put what the old one of that title has."""
    known = {
        (table["title"], *table["columns"], row[0]): row for table in old for row in table["rows"]
    }
    for table in new:
        if table["columns"][1:] != [*planted.EXPLAINERS]:
            continue
        for number, row in enumerate(table["rows"]):
            before = known.get((table["title"], *table["columns"], row[0]), row)
            table["rows"][number] = [
                earlier if cell == "-" else cell for cell, earlier in zip(row, before, strict=True)
            ]


def filled(text: str, store: RunStore) -> str:
    """Return a text with what stands between its markers made anew from the results.

    Raises:
        PageLinkError: a marker has a name that means nothing.
    """
    return MARKED.sub(lambda found: found[1] + _content(found[2], store) + found[3], text)


def write_docs(root: Path) -> list[Path]:
    """Make tables and pictures in the docs of a checkout anew; return the files that changed."""
    store, made = RunStore(root / RESULTS), dict[Path, str]()
    for name in FILES:
        if (root / name).exists():
            text = (root / name).read_text(encoding="utf-8")
            made[root / name] = filled(text, store)
    shown = "".join(made.values())
    made |= {root / name: drawn for name, drawn in drawings(store).items() if name.name in shown}
    return [
        write_text(file, new)
        for file, new in made.items()
        if not file.exists() or file.read_text(encoding="utf-8") != new
    ]


def drawings(store: RunStore) -> dict[Path, str]:
    """The pictures that pages can show, by where they are in a checkout."""
    drawn = {name: each for name, (_, each) in claims.pictures(store).items()}
    figures = speed.stored_figures(_read(speed.NAME, store) or {"figures": []})
    if any(figure.row == "linear" and not figure.missing for figure in figures):
        drawn[SPEED_PLOT] = plot(figures)
    return {IMAGES / name: each + "\n" for name, each in drawn.items()}


def _content(name: str, store: RunStore) -> str:
    if name == "origin":
        return origin(store.all()) + "\n"
    if name == "parts":
        return as_markdown(sections(store))
    if name == "summary":
        return tables_markdown(tables.summary(list(store.all(EXPLAINERS))), 3)
    if name == "claims":
        return claims.conclusion(store) or NOT_RUN
    if name == "claims-labels":
        return _table(claims.label_table(list(store.all(EXPLAINERS))))
    if name == "claims-losses":
        return _table(claims.loss_table(list(store.all(ablation.REFERENCE.name))))
    if name == "claims-counts":
        return _table(claims.count_table(store))
    if name in PICTURES:
        return claims.pictures_markdown(store, f"{name}.svg") or NOT_RUN
    if name == "readme":
        return _readme(_stored(planted.NAME, store))
    if name == speed.NAME:
        found = _read(name, store)
        return speed.docs_table(found, tuple(SPEED_ROWS)) if found else NOT_RUN
    if name in TABLES:
        return tables_markdown(_stored(name, store), 3)
    if name in PARTS:
        runs = list(store.all(name))
        return tables_markdown(PARTS[name].tables(runs), 3) if runs else NOT_RUN
    raise PageLinkError(
        f"A marker <!-- benchmark:{name} --> means nothing: the names are "
        f"{', '.join((*OTHERS, *PICTURES, *PARTS, *TABLES, speed.NAME))}."
    )


def _table(made: Table | None) -> str:
    return NOT_RUN if made is None else tables_markdown([made], 3)


def _read(name: str, store: RunStore) -> dict[str, Any]:
    """What a result file of the checkout holds; nothing if there is no such file."""
    file = store.folder / f"{name}.json"
    found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    return found


def _stored(name: str, store: RunStore) -> list[Table]:
    """The tables of a part of the faithfulness benchmark; none if there is no such result."""
    return [
        Table(each["title"], tuple(each["columns"]), [*map(tuple, each["rows"])], each["note"])
        for each in _read(name, store).get("tables", [])
    ]


def _readme(shown: list[Table]) -> str:
    """Of some planted mechanisms, how often the first path is one that the model uses."""
    found = next((table for table in shown if planted.FIRST in table.title), None)
    if found is None:
        return NOT_RUN
    by_name = {row[0]: dict(zip(found.columns, row, strict=True)) for row in found.rows}
    rows = [
        (words, *(by_name[name][column] for column in README_COLUMNS))
        for name, words in README.items()
    ]
    return layout([("the model uses", *README_COLUMNS.values()), *rows]) + "\n"
