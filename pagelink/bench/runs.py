"""What all benchmarks share: timed work, fresh processes, numbers and tables as text, run files.

A run of a benchmark is one JSON file, which knows how it was made. A run that was done under the
same key is not done again, so a benchmark that was interrupted goes on where it stopped. Tables and
plots are made from these files alone.
"""

from __future__ import annotations

import datetime
import json
import math
import os
import platform
import re
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from pagelink.errors import PageLinkError, SettingsError, did_you_mean
from pagelink.explain.building import versions
from pagelink.metrics.averages import mean_and_spread
from pagelink.runtime.files import write_text

Done = TypeVar("Done")


def environment() -> dict[str, str]:
    """Return an environment in which this very package is found, from wherever it is run."""
    root = str(Path(__file__).parents[2])
    path = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))
    return {**os.environ, "PYTHONPATH": path}


def measured(work: Callable[..., Any], *arguments: object) -> Any:
    """Call a function in a fresh process and return what it returned, by way of JSON.

    Args:
        work: a function of a module.
        arguments: plain JSON values.

    Raises:
        PageLinkError: it failed, with its last words.
    """
    program = (
        f"import json, sys; from {work.__module__} import {work.__name__} as work; "
        "print(json.dumps(work(*json.loads(sys.argv[1]))))"
    )
    command = [sys.executable, "-c", program, json.dumps(arguments)]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise PageLinkError(f"The process that measures {work.__name__} failed: {last}")
    return json.loads(done.stdout.splitlines()[-1])


def timed(work: Callable[[], Done]) -> tuple[Done, float]:
    """Do some work; return what it gives and the CPU seconds it took."""
    started = time.process_time()
    done = work()
    return done, time.process_time() - started


def check_names(kind: str, given: Iterable[str], known: Collection[str]) -> tuple[str, ...]:
    """Return the given names, each once, or all that are known if none is given.

    Args:
        kind: what is named, for the message.
        given: the names.
        known: all of them.

    Raises:
        SettingsError: one is not known.

    Example:
        >>> check_names("part", ["b", "b"], ["a", "b"]), check_names("part", [], ["a", "b"])
        (('b',), ('a', 'b'))
    """
    names = tuple(dict.fromkeys(given))
    for name in names:
        if name not in known:
            article = "An" if kind[0] in "aeiou" else "A"
            raise SettingsError(
                f"{article} {kind} is one of {', '.join(known)}; got {name!r}."
                + did_you_mean(name, known)
            )
    return names or tuple(known)


@contextmanager
def shown_progress(console: Console) -> Iterator[Callable[[str], None]]:
    """Show what is being done, and for how long."""
    with Progress(
        SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn(), console=console,
        transient=True,
    ) as bar:  # fmt: skip
        task = bar.add_task("", total=None)
        yield lambda what: bar.update(task, description=what)


def say(console: Console, words: str) -> None:
    """Print words as they are: nothing is wrapped, coloured or read as markup."""
    console.print(words, soft_wrap=True, highlight=False, markup=False)


# Numbers and tables as text.


def layout(rows: Sequence[Sequence[str]], left: Collection[int] = (0,)) -> str:
    """Lay rows out as a Markdown table that also reads well in a terminal.

    Args:
        rows: the cells; the first row is the head.
        left: the columns of words; the others are put to the right.

    Example:
        >>> print(layout([["", "a"], ["row", "1"]]))
        |     |   a |
        | --- | --: |
        | row |   1 |
    """
    widths = [max(3, *(len(row[i]) for row in rows)) for i in range(len(rows[0]))]
    rule = ["-" * w if i in left else "-" * (w - 1) + ":" for i, w in enumerate(widths)]
    return "\n".join(
        "| " + " | ".join(
            cell.ljust(width) if i in left else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ) + " |"
        for row in (rows[0], rule, *rows[1:])
    )  # fmt: skip


def plain(value: float) -> float | None:
    """A number for JSON: six digits, None for none."""
    return None if math.isnan(value) else float(f"{value:.6g}")


def plain_list(values: npt.ArrayLike) -> list[float | None]:
    """Numbers for JSON."""
    return [plain(float(value)) for value in np.asarray(values, dtype=np.float64)]


def cell(value: float | None, digits: int = 3) -> str:
    """Print a figure; a dash where there is none.

    Example:
        >>> cell(0.95431), cell(12.0, 1), cell(None), cell(float("nan"))
        ('0.954', '12.0', '-', '-')
    """
    if value is None or math.isnan(value):
        return "-"
    return f"{value:,.{digits}f}"


def mean_cell(values: Sequence[float | None], digits: int = 3) -> str:
    """Print the mean over seeds with its spread (sample standard deviation).

    Example:
        >>> mean_cell([0.9, 1.0]), mean_cell([0.9]), mean_cell([None, 0.5]), mean_cell([0.5, 0.5])
        ('0.950 ± 0.071', '0.900', '-', '0.500')
    """
    # A seed without the figure has no mean to stand in: it makes both NaN.
    mean, spread = mean_and_spread([math.nan if value is None else value for value in values])
    words = cell(mean, digits)
    return f"{words} ± {cell(spread, digits)}" if spread > 0.5 * 10**-digits else words


def interval_cell(
    value: float | None, low: float | None, high: float | None, digits: int = 3
) -> str:
    """Print a figure with its interval; a dash where there is none.

    Example:
        >>> interval_cell(0.5, 0.25, 0.75, 2), interval_cell(None, None, None)
        ('0.50 [0.25, 0.75]', '-')
    """
    if value is None:
        return "-"
    return f"{cell(value, digits)} [{cell(low, digits)}, {cell(high, digits)}]"


# Runs.


Figures = dict[str, Any]


def made_by() -> dict[str, Any]:
    """The versions and the date that belong to a result."""
    return {
        "versions": {"python": platform.python_version(), **versions()},
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    }


@dataclass(frozen=True)
class Run:
    """One run: what was done, and what came out."""

    part: str
    """The part of the benchmark, such as a table."""
    name: str
    """The run within the part; unique there."""
    key: Figures
    """What the figures depend on: seed, settings, data, links. With another key it is done anew."""
    figures: Figures
    seconds: float
    cpu_seconds: float
    versions: dict[str, str]
    machine: str
    date: str


class RunStore:
    """The runs in a folder.

    Args:
        folder: made if it is not there.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def do(self, part: str, name: str, key: Mapping[str, Any], work: Callable[[], Figures]) -> Run:
        """Do a run, unless one of the same key is there.

        Args:
            part: the part of the benchmark.
            name: the run within the part.
            key: what the figures depend on; plain JSON values.
            work: gives the figures; plain JSON values, None where there is no figure.
        """
        wanted = json.loads(json.dumps(dict(key)))
        known = self.find(part, name)
        if known is not None and known.key == wanted:
            return known
        started = time.perf_counter()
        figures, cpu_seconds = timed(work)
        run = Run(
            part, name, wanted, json.loads(json.dumps(figures, allow_nan=False)),
            round(time.perf_counter() - started, 3), round(cpu_seconds, 3),
            machine=f"{platform.machine()}, {os.cpu_count()} CPUs", **made_by(),
        )  # fmt: skip
        file = self._file(part, name)
        file.parent.mkdir(parents=True, exist_ok=True)
        write_text(file, json.dumps(run.__dict__, indent=1, ensure_ascii=False) + "\n")
        return run

    def find(self, part: str, name: str) -> Run | None:
        """The run of this name, if it was done."""
        file = self._file(part, name)
        return _read(file) if file.exists() else None

    def all(self, part: str | None = None) -> Iterator[Run]:
        """All runs, or those of a part, in order of their names."""
        for file in sorted(self.folder.glob("*/*.json" if part is None else f"{part}/*.json")):
            yield _read(file)

    def _file(self, part: str, name: str) -> Path:
        return self.folder / part / f"{re.sub(r'[^A-Za-z0-9.-]+', '-', name)}.json"


def _read(file: Path) -> Run:
    try:
        return Run(**json.loads(file.read_text(encoding="utf-8")))
    except (ValueError, TypeError) as error:
        raise PageLinkError(
            f"{file} is not the result of a benchmark run ({error}). Delete it to do the run anew."
        ) from error
