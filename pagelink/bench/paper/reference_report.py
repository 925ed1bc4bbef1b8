"""The table of `pagelink bench useritemattr-reference`."""

from __future__ import annotations

import math
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from pagelink.bench.paper.reference import BUDGETS, FIRST, Row, run, variants
from pagelink.bench.runs import layout
from pagelink.datasets.reference import load_reference

COLUMNS = (
    "auc", *(f"hit@{b}" for b in BUDGETS), *(f"first {n}" for n in FIRST), "coverage", "cpu",
)  # fmt: skip

LEGEND = """\
Means over the explainer seeds. auc: ROC-AUC of the mask over the unpruned computation graph.
hit@B: all edges of a labelled path are among the top B edges by mask. first n: a labelled path is
among the first n output paths. coverage: share of links with paths. cpu: CPU ms a link.
The row that never looks at the model wins: these figures say how concise explanations are, not
whether they are true of the model."""


def run_and_print(path: Path | None, seeds: int, links: int | None, console: Console) -> list[Row]:
    """Run all rows, with a progress bar, and print the table."""
    reference = load_reference(path)
    with Progress(
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
        console=console, transient=True,
    ) as bar:  # fmt: skip
        task = bar.add_task("explaining", total=len(variants()) * seeds + 1)

        def step(name: str) -> None:
            bar.update(task, advance=1, description=name)

        rows = run(reference, range(seeds), step, links)
    count = len(reference.test_links[:links])
    console.print(f"UserItemAttr, released data and weights: {count} links, {seeds} seeds\n")
    console.print(as_table(rows), soft_wrap=True, highlight=False, markup=False)
    console.print(f"\n{LEGEND}", soft_wrap=True, highlight=False)
    return rows


def as_table(rows: list[Row]) -> str:
    """Lay the rows out as a Markdown table that also reads well in a terminal."""
    lines = [["", *COLUMNS]]
    lines += [[row.name, *(_cell(column, row.mean(column)) for column in COLUMNS)] for row in rows]
    for row in rows[:2]:
        spreads = [row.spread(column) for column in COLUMNS]
        for word, end in (("lowest seed", 0), ("highest seed", 1)):
            cells = [_cell(c, spread[end]) for c, spread in zip(COLUMNS, spreads, strict=True)]
            lines.append([f"{row.name}, {word}", *cells])
    return layout(lines)


def _cell(column: str, value: float) -> str:
    if math.isnan(value):
        return "-"
    return f"{value * 1000:.1f}" if column == "cpu" else f"{value:.3f}"
