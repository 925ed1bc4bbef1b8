"""`pagelink bench speed`: its rows, one after the other, and the files they are written to."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import platform
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from pagelink.bench.runs import check_names, measured, say
from pagelink.bench.speed import process
from pagelink.bench.speed.figures import Figure, Goal, median, plot
from pagelink.bench.speed.graphs import gnnexplainer, growth, linear
from pagelink.bench.speed.hubs import hubs
from pagelink.bench.speed.relations import FB15K, attention, knowledge_graph, many_relations
from pagelink.bench.speed.report import as_dict, as_table
from pagelink.bench.speed.rows import (
    FULL,
    HETIONET,
    MOVIELENS,
    QUICK,
    USERITEMATTR,
    DataRows,
    Sizes,
)
from pagelink.bench.speed.setup import setup_times
from pagelink.bench.speed.spared import spared_rows
from pagelink.bench.speed.starting import cold, command, imports
from pagelink.bench.speed.training import training
from pagelink.datasets.folders import DataNotFoundError, find_data
from pagelink.explain.building import versions
from pagelink.runtime.files import write_text

GIGABYTE = 10**9
NO_GROWTH = 1.05
"""Two processes that do the same may differ by this much."""


class Rows(DataRows):
    """Measures all rows; most of those here do so in fresh processes."""

    def rows(self, name: str) -> Iterator[Figure]:
        """What is gained by computing only the vectors that a link's score needs."""
        return spared_rows(self._load(name), self.sizes, self.seed)

    def memory(self, name: str) -> Iterator[Figure]:
        """Peak memory of streaming many links of hetionet-core, and whether it grows with them."""
        self._check_there(name)
        few, many = self.sizes.memory_links
        found = {
            count: measured(process.memory, name, count, self.seed, self.sizes.tiny)
            for count in (few, many)
        }
        peak, before = found[many]["peak"], found[few]["peak"]
        samples = {
            f"{count} links, {key}": [value]
            for count, values in found.items()
            for key, value in values.items()
        }
        how = (
            "ru_maxrss of a fresh process for each number of links, default settings; the links "
            "with the largest computation graphs come first and last"
        )
        what = f"{name}: peak for {many:,} links"
        for words, value, unit, bound in (
            (what, peak / GIGABYTE, "GB", 4.0),
            (f"{what} over that for {few:,}", peak / before, "x", NO_GROWTH),
        ):
            yield Figure("memory", words, value, unit, goal=Goal(bound), how=how, samples=samples)

    def first(self, name: str) -> Iterator[Figure]:
        """Seconds until a fresh process that has imported torch has its first explanation."""
        if self.sizes.tiny and name != USERITEMATTR:
            return
        self._check_there(name)
        once = partial(measured, process.first, name, self.seed, self.sizes.tiny)
        if not self.sizes.tiny:
            once()  # compiles the kernels, if that was never done
        runs = [once() for _ in range(self.sizes.first_repeats)]
        samples = {key: [each[key] for each in runs] for key in runs[0]}
        yield Figure(
            "first", f"{name}: first explanation of a fresh process", median(samples["cpu_s"]), "s",
            median(samples["wall_s"]), goal=Goal(5.0),
            how="import of all but torch, graph, explainer, one link; kernels compiled before; "
            f"median of {len(runs)} processes", samples=samples,
        )  # fmt: skip

    def _check_there(self, name: str) -> None:
        """Refuse a data set that is not there, before a process is started for it."""
        if not self.sizes.tiny:
            find_data(name)


GENERATED = ("",)
ROWS: dict[str, tuple[Callable[[Rows, str], Iterator[Figure]], tuple[str, ...]]] = {
    "useritemattr": (Rows.useritemattr, (USERITEMATTR,)),
    "overhead": (Rows.overhead, (USERITEMATTR, MOVIELENS, HETIONET)),
    "rows": (Rows.rows, (MOVIELENS, HETIONET)),
    "gnnexplainer": (lambda rows, _: gnnexplainer(rows.sizes, rows.seed), GENERATED),
    "growth": (lambda rows, _: growth(rows.sizes, rows.seed), GENERATED),
    "linear": (lambda rows, _: linear(rows.sizes, rows.seed), GENERATED),
    "setup": (lambda rows, _: setup_times(rows.sizes, rows.seed), GENERATED),
    "relations": (lambda rows, _: many_relations(rows.sizes, rows.seed), GENERATED),
    "rgcnconv": (lambda rows, _: knowledge_graph(rows.sizes, rows.seed), (FB15K,)),
    "attention": (lambda rows, _: attention(rows.sizes, rows.seed), GENERATED),
    "hub": (lambda rows, _: hubs(rows.sizes, rows.seed), GENERATED),
    "check": (Rows.check, (USERITEMATTR, MOVIELENS, HETIONET)),
    "real": (Rows.real, (MOVIELENS, HETIONET)),
    "slowest": (Rows.slowest, (MOVIELENS,)),
    "memory": (Rows.memory, (HETIONET,)),
    "first": (Rows.first, (USERITEMATTR, MOVIELENS)),
    "cold": (lambda rows, name: cold(rows.sizes, rows.seed, name), (USERITEMATTR,)),
    "import": (lambda rows, _: imports(rows.sizes), GENERATED),
    "training": (lambda rows, _: training(rows.sizes, rows.seed), GENERATED),
    "command": (lambda rows, name: command(rows.sizes, rows.seed, name), (MOVIELENS,)),
}
"""The rows by name: what measures one on a data set, and the data sets it is measured on."""


def run(
    sizes: Sizes = FULL,
    seed: int = 0,
    only: Sequence[str] = (),
    starting: Callable[[str], None] = lambda name: None,
) -> Iterator[Figure]:
    """Measure the rows in their order, and give each figure when it is there.

    Args:
        sizes: how much to do.
        seed: seed of graphs, models, links and explainers.
        only: names of rows. Empty: all.
        starting: called with the name of each row when it begins.

    Raises:
        SettingsError: there is no such row.
    """
    rows = Rows(sizes, seed)
    for name in chosen_rows(only):
        starting(name)
        for figure in _figures(rows, name):
            # What a tiny graph takes says nothing about the goals.
            yield dataclasses.replace(figure, goal=None) if sizes.tiny else figure


def _figures(rows: Rows, row: str) -> Iterator[Figure]:
    """The figures of a row on each of its data sets, or why there are none."""
    figures_of, data_sets = ROWS[row]
    for name in data_sets:
        try:
            yield from figures_of(rows, name)
        except DataNotFoundError as error:
            yield Figure(row, name, math.nan, missing=str(error))


def chosen_rows(only: Sequence[str]) -> list[str]:
    """The rows of these names in the order of the table; all, if none is named.

    Raises:
        SettingsError: there is no such row.
    """
    chosen = check_names("row", only, ROWS)
    return [name for name in ROWS if name in chosen]


# `pagelink bench speed`: runs the rows, shows where it is, and writes what they gave.


LEGEND = """\
measured: by CPU time of all threads; wall: the same by wall time, where two threads ran. alone: one
link at a time; in batches: many side by side. all 20 epochs: no link leaves early; defaults: links
that have converged leave. bare passes: masked forward and backward of the model on the same
batches, inputs made beforehand, no search for paths. The models of movielens-small and
hetionet-core are two-layer SAGE of 64, untrained, and every link is learned; UserItemAttr has its
released weights. Ratios compare what ran in turn within one run, but for the 640 ms of
the released code, which is a known figure and was not measured here."""
TINY = "Tiny versions of the rows, on generated graphs: these figures say nothing about speed.\n"


def run_and_print(
    out: Path, quick: bool, only: Sequence[str], seed: int, console: Console,
    threads: Sequence[int] = (),
) -> list[Figure]:  # fmt: skip
    """Measure with a progress bar, print the table as Markdown, write speed.json and speed.svg.

    The files are written anew after each row, so that a long run can be looked at.

    Args:
        out: folder for the files.
        quick: tiny versions.
        only: names of rows. Empty: all.
        seed: seed of graphs, models, links and explainers.
        console: where to print.
        threads: numbers of threads of the rows in which threads matter. Empty: one and two.
    """
    names = chosen_rows(only)
    sizes = QUICK if quick else FULL
    sizes = dataclasses.replace(sizes, threads=tuple(threads) or sizes.threads)
    figures: list[Figure] = []
    with Progress(
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
        console=console, transient=True,
    ) as bar:  # fmt: skip
        task = bar.add_task("", total=len(names))

        def starting(name: str) -> None:
            bar.update(task, completed=names.index(name), description=name)
            _write(out, figures, quick, seed)

        for figure in run(sizes, seed, only, starting):
            figures.append(figure)
    written = _write(out, figures, quick, seed)
    for text in (*([TINY] if quick else []), as_table(figures), f"\n{LEGEND}", f"\n{_notes()}"):
        say(console, text)
    for path in written:
        say(console, f"Wrote {path}")
    return figures


def _write(out: Path, figures: Sequence[Figure], quick: bool, seed: int) -> list[Path]:
    if not figures:
        return []
    result = as_dict(figures, quick, seed)
    text = json.dumps(result, indent=1, ensure_ascii=False, allow_nan=False)
    written = [write_text(out / "speed.json", text)]
    if any(figure.row == "linear" for figure in figures):
        written.append(write_text(out / "speed.svg", plot(figures)))
    return written


def _notes() -> str:
    known = ", ".join(f"{name} {version}" for name, version in versions().items())
    return f"{os.cpu_count()} CPUs, {platform.machine()}; {known}."
