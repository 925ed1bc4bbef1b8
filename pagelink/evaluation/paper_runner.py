"""`pagelink bench paper`: runs the parts, shows where it is, and writes the reports."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from rich.console import Console
from rich.progress import Progress as Bar
from rich.progress import SpinnerColumn, TextColumn, TimeElapsedColumn

from pagelink.evaluation.paper_parts import check_parts
from pagelink.evaluation.paper_plan import Plan, Progress
from pagelink.evaluation.paper_report import RUNS, as_markdown, sections, write_report
from pagelink.evaluation.runs import RunStore

QUICK_SEEDS = 2


@contextmanager
def shown_progress(console: Console) -> Iterator[Progress]:
    """Show what is being done, and for how long."""
    with Bar(
        SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn(), console=console,
        transient=True,
    ) as bar:  # fmt: skip
        task = bar.add_task("", total=None)

        def step(what: str) -> None:
            bar.update(task, description=what)

        yield step


def run_and_print(
    out: Path,
    names: Sequence[str],
    console: Console,
    *,
    seeds: int = 5,
    links: int = 200,
    quick: bool = False,
    aminer: Path | None = None,
) -> list[Path]:
    """Run parts of the benchmark, or what is left of them, print their tables, write the reports.

    Raises:
        SettingsError: there is no such part.
    """

    def say(words: str) -> None:
        console.print(words, soft_wrap=True, highlight=False, markup=False)

    parts = check_parts(names)
    plan = Plan(out / "models", seeds, links, aminer=aminer, say=say)
    if quick:
        plan = replace(plan, quick=True, seeds=min(seeds, QUICK_SEEDS))
        say("Tiny generated graphs, hardly trained: these figures say nothing.\n")
    store = RunStore(out / RUNS)
    with shown_progress(console) as step:
        for number, part in enumerate(parts, start=1):
            place = f"{part.name} ({number} of {len(parts)})"
            if part.run is not None:
                part.run(store, plan, lambda what, place=place: step(f"{place}: {what}"))  # type: ignore[misc]
    return report(out, out, console)


def report(folder: Path, out: Path, console: Console) -> list[Path]:
    """Print all tables of a folder of runs and write the reports."""
    written = write_report(folder, out)
    store = RunStore(folder / RUNS if (folder / RUNS).is_dir() else folder)
    console.print(as_markdown(sections(store)), soft_wrap=True, highlight=False, markup=False)
    for file in written:
        console.print(f"Wrote {file}", soft_wrap=True, highlight=False, markup=False)
    return written
