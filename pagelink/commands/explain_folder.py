"""`pagelink explain --links TABLE --out FOLDER`: a table of links, by several workers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from pagelink.commands.common import console, errors, progress_bar

if TYPE_CHECKING:
    from pagelink.engine import Engine, FromFiles, Summary
    from pagelink.on_request import OnRequest

SECONDS_A_LINE = 30.0


def explain_into_folder(
    opening: FromFiles,
    links: Path,
    out: Path,
    engine: Engine,
    *,
    asked: OnRequest,
    memory: float | None,
    chunk: int | None,
    collect: bool,
) -> None:
    """Run the job, show how far it is, and say what came of it."""
    from pagelink.engine import explain_folder
    from pagelink.engine.plan import LINKS_A_CHUNK
    from pagelink.explainer import MEMORY

    with _shown() as step:
        summary = explain_folder(
            opening, links, out, engine, asked=asked, memory=MEMORY if memory is None else memory,
            chunk=LINKS_A_CHUNK if chunk is None else chunk, collect=collect, progress=step,
        )  # fmt: skip
    _say(summary, links, out)


@contextmanager
def _shown() -> Iterator[Callable[[int, int], None]]:
    """A bar on a terminal; a line now and then in the log of a job that nobody watches."""
    if console.is_terminal:
        with progress_bar("explaining") as bar:
            yield bar
        return
    started = said = time.monotonic()
    before: int | None = None

    def step(done: int, total: int) -> None:
        nonlocal said, before
        now = time.monotonic()
        before = done if before is None else before
        if now - said >= SECONDS_A_LINE:
            said = now
            rate = (done - before) / (now - started)
            left = f", {(total - done) / rate / 60:.0f} minutes left" if rate else ""
            errors.print(f"{done} of {total} links, {rate:.1f} a second{left}")

    yield step


def _say(summary: Summary, links: Path, out: Path) -> None:
    if summary.resumed:
        console.print(f"{summary.resumed} links were done by an earlier run.")
    counts = ", ".join(f"{count} {name}" for name, count in summary.reasons.items())
    console.print(
        f"{summary.num_links} links ({counts}), {summary.num_rows} rows in {summary.num_parts} "
        f"parts: {out}", markup=False,
    )  # fmt: skip
    if summary.verdicts:
        told = ", ".join(f"{count} {name}" for name, count in summary.verdicts.items())
        console.print(f"Verdicts: {told}.")
    if summary.overhead is not None:
        console.print(
            f"{summary.rate:.1f} links a second by {summary.workers} workers, "
            f"{summary.restarts} of them replaced; {summary.overhead:.1%} of their time was not "
            "spent on explaining."
        )
    if summary.slowest:
        worst = summary.slowest[0]
        console.print(
            f"The slowest link took {worst['seconds']:.2f} s (line {worst['line']}).", markup=False
        )
    for message in summary.invalid:
        errors.print(f"{links}, {message}", markup=False)
    more = summary.reasons.get("invalid", 0) - len(summary.invalid)
    if more > 0:
        errors.print(f"... and {more} more; see the rows with reason invalid.")
