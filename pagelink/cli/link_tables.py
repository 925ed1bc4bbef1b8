"""`pagelink explain --links` and `pagelink report`: many links, and a page about them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pagelink.cli.common import (
    console,
    errors,
    one_thread,
    output,
    progress_bar,
    say_written,
    writing,
)

if TYPE_CHECKING:
    from pagelink.engine import Engine, Forecast, FromFiles


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
    metrics: str | None = None,
    *,
    dry_run: bool = False,
) -> None:
    """Run the job, show how far it is, and say what came of it; or say what it will take."""
    from pagelink.engine import explain_table, forecast, published, write_report
    from pagelink.store.addresses import address_of

    given = {name: value for name, value in options.items() if value is not None}
    if dry_run:
        one_thread()  # as a worker
        del given["collect"]
        with shown("explaining a sample") as step:
            expected = forecast(opening, links, out, progress=step, **given)
        _say_forecast(expected, out, 1 if engine is None else engine.size)
        return
    watched = nullcontext(None) if metrics is None else published(metrics)
    with watched as figures, shown("explaining") as step:
        summary = explain_table(
            opening, links, out, engine, progress=step, metrics=figures, **given
        )
    if summary.damaged:
        errors.print(f"{summary.damaged} parts of an earlier run were damaged and made again.")
    if summary.resumed:
        console.print(f"{summary.resumed} links were done by an earlier run.")
    place = address_of(out)
    counts = ", ".join(f"{count} {name}" for name, count in summary.reasons.items())
    parts = "" if engine is None else f" in {summary.num_parts} parts"
    console.print(f"{summary.num_links} links ({counts}), {summary.num_rows} rows{parts}: {place}")
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
                "not spent on explaining, and none had more than "
                f"{summary.memory:.1f} GB of memory for itself."
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


def _say_forecast(expected: Forecast, out: Path, workers: int) -> None:
    """Say what a job will take; of a Ray cluster the number of workers may not be known: 0."""
    hours, between = expected.hours, expected.hours_range
    around = "" if between is None else f" ({_time(between[0])} to {_time(between[1])})"
    shared = f", {_time(hours / workers)} with {workers} workers" if workers > 1 else ""
    memory = f"{expected.memory:.1f} GB for each worker"
    if workers > 1:
        memory += f", {workers * expected.memory:.1f} GB for {workers}"
    console.print(
        f"Dry run: {expected.sampled} of {expected.num_links} links explained, nothing written. "
        f"Graph and model were open after {expected.opening:.1f} s. All of it will take about\n"
        f"  time    {_time(hours)} of one core{around}{shared}\n"
        f"  memory  {memory}, beside the pages of a store\n"
        f"  disk    {_size(expected.disk)} in {expected.num_parts} parts; "
        f"{_size(expected.free)} are free for {out}"
    )
    if expected.disk > expected.free:
        errors.print(f"There is not enough room for {out}.")


def _time(hours: float) -> str:
    if hours >= 2:
        return f"{hours:.3g} hours"
    return f"{60 * hours:.3g} minutes" if 60 * hours >= 2 else f"{3600 * hours:.3g} seconds"


def _size(gigabytes: float) -> str:
    return f"{gigabytes:.1f} GB" if gigabytes >= 1 else f"{1000 * gigabytes:.2g} MB"


@contextmanager
def shown(word: str, what: str = "links") -> Iterator[Callable[[int, int], None]]:
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
            errors.print(f"{done} of {total} {what}, {rate:.1f} per second{left}")

    yield step
