"""`pagelink explain --links` and `pagelink report`: many links, and a page about them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pagelink.cli.common import console, errors, output, progress_bar, say_written, writing

if TYPE_CHECKING:
    from pagelink.engine import Engine, FromFiles


SECONDS_A_LINE = 30.0
ALL_FAILED, SOME_FAILED = 1, 3
"""Exit codes of a table of links; 2 is a wrong option."""


def report(
    result: Annotated[
        Path, typer.Argument(help="File or folder that `pagelink explain --links` wrote.")
    ],
    out: Annotated[Path, output("Page to write.")],
    partial: Annotated[
        bool, typer.Option("--partial", help="Of a folder whose job is not done: what there is.")
    ] = False,
) -> None:
    """Write a web page about many explained links: verdicts, metapaths, slowest, worst.

    pagelink report rows.parquet --out report.html
    """
    from pagelink.engine import write_report

    with writing(out, result):
        say_written([write_report(result, out, partial=partial)])


def run_table(
    opening: FromFiles,
    links: Path,
    out: Path,
    engine: Engine | None,
    options: dict[str, Any],
    report: Path | None,
) -> None:
    """Run the job, show how far it is, and say what came of it."""
    from pagelink.engine import explain_table, write_report

    given = {name: value for name, value in options.items() if value is not None}
    with shown("explaining") as step:
        summary = explain_table(opening, links, out, engine, progress=step, **given)
    if summary.damaged:
        errors.print(f"{summary.damaged} parts of an earlier run were damaged and made again.")
    if summary.resumed:
        console.print(f"{summary.resumed} links were done by an earlier run.")
    counts = ", ".join(f"{count} {name}" for name, count in summary.reasons.items())
    parts = "" if engine is None else f" in {summary.num_parts} parts"
    console.print(f"{summary.num_links} links ({counts}), {summary.num_rows} rows{parts}: {out}")
    if report is not None:
        with writing(report):
            say_written([write_report(out, report)])
    for name, number in summary.direct.items():
        errors.print(
            f"For {number} of {summary.num_links} links {name!r} joins source and target directly: "
            "it may be the link itself under another name. If so, leave it out by "
            f"--exclude-relation {name}."
        )
    if engine is not None:
        if summary.verdicts:
            told = ", ".join(f"{count} {name}" for name, count in summary.verdicts.items())
            console.print(f"Verdicts: {told}.")
        if summary.overhead is not None:
            console.print(
                f"{summary.rate:.1f} links per second by {summary.workers} workers, "
                f"{summary.restarts} of them replaced; {summary.overhead:.1%} of their time was "
                "not spent on explaining."
            )
        if summary.slowest:
            worst = summary.slowest[0]
            console.print(f"The slowest link took {worst['seconds']:.2f} s (line {worst['line']}).")
    for message in summary.invalid:
        errors.print(f"{links}, {message}")
    more = summary.reasons.get("invalid", 0) - len(summary.invalid)
    if more > 0:
        errors.print(f"... and {more} more; see the rows with reason invalid.")
    if summary.failed:
        errors.print(f"{summary.failed} of {summary.num_links} links failed.")
        raise typer.Exit(ALL_FAILED if summary.failed == summary.num_links else SOME_FAILED)


@contextmanager
def shown(word: str) -> Iterator[Callable[[int, int], None]]:
    """A bar on a terminal; a line now and then in the log of a job that nobody watches."""
    if console.is_terminal:
        with progress_bar(word) as bar:
            yield bar
        return
    said = time.monotonic()
    first: tuple[float, int] | None = None  # what an earlier run has done is not our pace

    def step(done: int, total: int) -> None:
        nonlocal said, first
        now = time.monotonic()
        first = first or (now, done)
        if now - said >= SECONDS_A_LINE and now > first[0]:
            said = now
            rate = (done - first[1]) / (now - first[0])
            left = f", {(total - done) / rate / 60:.0f} minutes left" if rate else ""
            errors.print(f"{done} of {total} links, {rate:.1f} per second{left}")

    yield step
