"""What benchmarks share: processes of their own, tables, and runs kept as files."""

from __future__ import annotations

import datetime
import json
import os
import platform
import re
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pagelink.errors import PageLinkError
from pagelink.explain.building import versions
from pagelink.runtime.files import write_text


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


# Tables as Markdown.


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


# Runs of a benchmark: one JSON file each, which knows how it was made.
#
# A run that was done under the same key is not done again, so a benchmark that was interrupted
# goes on where it stopped. Tables and plots are made from these files alone.


Figures = dict[str, Any]


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
        started, started_cpu = time.perf_counter(), time.process_time()
        figures = work()
        run = Run(
            part, name, wanted, json.loads(json.dumps(figures, allow_nan=False)),
            round(time.perf_counter() - started, 3), round(time.process_time() - started_cpu, 3),
            {"python": platform.python_version(), **versions()},
            f"{platform.machine()}, {os.cpu_count()} CPUs",
            datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
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
