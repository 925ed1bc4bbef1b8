"""The table of `pagelink bench useritemattr-reference`."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from pagelink.datasets.reference import load_reference
from pagelink.evaluation.reference_bench import BUDGETS, FIRST, Row, run, variants

COLUMNS = (
    "auc", *(f"hit@{b}" for b in BUDGETS), *(f"first {n}" for n in FIRST), "coverage", "cpu",
)  # fmt: skip


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
    console.print(as_table(rows, f"UserItemAttr, released data and weights: {count} links"))
    console.print(
        f"Means over {seeds} explainer seeds, lowest to highest below them. auc: ROC-AUC of the "
        "mask over the unpruned computation graph. hit@B: a labelled path lies within the top B "
        "edges. first n: a labelled path is among the first n output paths. coverage: links with "
        "paths. cpu: CPU ms a link.\n"
        "The row without a model wins: these figures say how concise explanations are, not "
        "whether they are true of the model.",
        highlight=False,
    )
    return rows


def as_table(rows: list[Row], title: str) -> Table:
    """Lay the rows out."""
    table = Table(title=title, title_justify="left")
    table.add_column("")
    for column in COLUMNS:
        table.add_column(column, justify="right")
    for row in rows:
        table.add_row(row.name, *(_cell(row, column) for column in COLUMNS))
    return table


def _cell(row: Row, column: str) -> str:
    mean = row.mean(column)
    if mean != mean:
        return "-"
    factor, digits = (1000, 1) if column == "cpu" else (1, 3)
    text = f"{mean * factor:.{digits}f}"
    low, high = row.spread(column)
    if len(row.seeds) > 1 and low != high:
        text += f"\n{low * factor:.{digits}f}-{high * factor:.{digits}f}"
    return text
