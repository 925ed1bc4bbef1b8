"""Reports of the benchmark, made from its run files alone: Markdown, and one page of HTML."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup

from pagelink.errors import PageLinkError
from pagelink.evaluation.markdown import layout
from pagelink.evaluation.paper_parts import REPORTED
from pagelink.evaluation.paper_plan import Plot, Table
from pagelink.evaluation.paper_plot import draw
from pagelink.evaluation.runs import Run, RunStore
from pagelink.files import write_text
from pagelink.views.rendering import render

HEADING = "Benchmark of link explanations"
RUNS = "runs"
"""Folder of the run files below that of a benchmark."""


@dataclass(frozen=True)
class Section:
    """What one part has to show."""

    heading: str
    tables: tuple[Table, ...]
    plots: tuple[Plot, ...]
    others: tuple[str, ...] = ()
    """Drawings that are no plots, as SVG."""

    @property
    def drawings(self) -> list[Markup]:
        """The plots and other drawings as SVG; the templates that drew them escaped the words."""
        return [Markup(svg) for svg in (*map(draw, self.plots), *self.others)]


def run_store(folder: Path) -> RunStore:
    """The runs of a benchmark's folder, or of a folder of runs itself."""
    return RunStore(folder / RUNS if (folder / RUNS).is_dir() else folder)


def sections(store: RunStore) -> list[Section]:
    """What all parts that were run have to show, in the order of the parts."""
    found = []
    for part in REPORTED.values():
        runs = list(store.all(part.name))
        if runs:
            found.append(
                Section(
                    part.heading, tuple(part.tables(runs)), tuple(part.plots(runs)),
                    tuple(part.drawings(runs).values()),
                )
            )  # fmt: skip
    return found


def write_report(folder: Path, out: Path) -> list[Path]:
    """Write `benchmark.md` and `benchmark.html` from the run files in a folder.

    Raises:
        PageLinkError: there are no run files in the folder, or one cannot be read.
    """
    store = run_store(folder)
    shown = sections(store)
    if not shown:
        raise PageLinkError(
            f"There are no benchmark runs in {folder}. Give the folder that "
            "`pagelink bench paper --out` wrote."
        )
    made = origin(store.all())
    page = render("bench.html", heading=HEADING, made=made, sections=shown)
    return [
        write_text(out / "benchmark.md", f"# {HEADING}\n\n{made}\n\n" + as_markdown(shown)),
        write_text(out / "benchmark.html", page),
    ]


def origin(runs: Iterable[Run]) -> str:
    """In one sentence, what the figures were made by and when."""
    found = list(runs)
    if not found:
        return ""
    dates = sorted(run.date[:10] for run in found)
    versions = found[-1].versions
    hours = sum(run.cpu_seconds for run in found) / 3600
    named = ", ".join(f"{name} {version}" for name, version in versions.items())
    when = dates[0] if dates[0] == dates[-1] else f"{dates[0]} to {dates[-1]}"
    machines = "; ".join(sorted({run.machine for run in found}))
    return (
        f"{len(found)} runs, {hours:.2f} CPU hours, {when}, on {machines} with {named}."
    )  # fmt: skip


def as_markdown(shown: Sequence[Section], level: int = 2) -> str:
    """All sections as Markdown."""
    marks = "#" * level
    return "\n".join(
        f"{marks} {section.heading}\n\n" + tables_markdown(section.tables, level + 1)
        for section in shown
    )


def tables_markdown(tables: Sequence[Table], level: int) -> str:
    """Tables as Markdown, each with its heading and its note.

    Example:
        >>> print(tables_markdown([Table("Two", ("", "n"), (("row", "2"),), "It shows two.")], 3))
        ### Two
        <BLANKLINE>
        |     |   n |
        | --- | --: |
        | row |   2 |
        <BLANKLINE>
        It shows two.
        <BLANKLINE>
    """
    return "\n".join(
        f"{'#' * level} {table.title}\n\n{layout([table.columns, *table.rows])}\n\n{table.note}\n"
        for table in tables
    )
