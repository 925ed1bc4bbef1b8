"""The parts of the paper's benchmark, by name. A new one is one module and one line here."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from markupsafe import Markup
from rich.console import Console
from rich.progress import Progress as Bar
from rich.progress import SpinnerColumn, TextColumn, TimeElapsedColumn

from pagelink.bench.paper import ablation as paper_ablation
from pagelink.bench.paper import cases as paper_cases
from pagelink.bench.paper import connection as paper_connection
from pagelink.bench.paper import explainers as paper_explainers
from pagelink.bench.paper import paths as paper_paths
from pagelink.bench.paper import pruning as paper_pruning
from pagelink.bench.paper import stability as paper_stability
from pagelink.bench.paper import tables as paper_explainers_tables
from pagelink.bench.paper import time as paper_time
from pagelink.bench.paper.explainers import PART as EXPLAINERS
from pagelink.bench.paper.plan import PER_LINK, Part, Plan, Plot, Progress, Table
from pagelink.bench.paper.plot import draw
from pagelink.bench.paper.tables import summary
from pagelink.bench.runs import Run, RunStore, layout
from pagelink.errors import PageLinkError, SettingsError, did_you_mean
from pagelink.runtime.files import write_text
from pagelink.views.templates import render

COMPARE = "compare"
_PARTS = (
    Part(
        paper_explainers.PART, "Explainers", paper_explainers.run,
        paper_explainers_tables.tables, paper_explainers_tables.plots,
    ),
    Part(
        paper_connection.PART, "The price of connection", paper_connection.run,
        paper_connection.tables, paper_connection.plots,
    ),
    paper_paths.PART,
    paper_ablation.PART,
    paper_stability.PART,
    paper_pruning.PART,
    paper_time.PART,
    paper_cases.PART,
)  # fmt: skip
PARTS: dict[str, Part] = {part.name: part for part in _PARTS}
_OWN = Part(
    COMPARE, "Explainers on a model of one's own", None, paper_explainers_tables.tables,
    paper_explainers_tables.plots,
)  # fmt: skip
REPORTED: dict[str, Part] = {**PARTS, COMPARE: _OWN}
"""What reports can hold: the parts, and the runs of `pagelink bench compare`."""


def check_parts(names: Sequence[str]) -> tuple[Part, ...]:
    """Return the asked parts, all if none is asked for.

    Raises:
        SettingsError: there is no such part.
    """
    for name in names:
        if name not in PARTS:
            raise SettingsError(
                f"A part is one of {', '.join(PARTS)}; got {name!r}.{did_you_mean(name, PARTS)}"
            )
    return tuple(PARTS[name] for name in dict.fromkeys(names or PARTS))


# Reports of the benchmark, made from its run files alone: Markdown, and one page of HTML.


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


# `pagelink bench paper`: runs the parts, shows where it is, and writes the reports.


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


# The benchmark's tables in the docs: written from committed results, between markers.
#
# The results are run files without what they hold of single links, so that they stay small. What
# stands between `<!-- benchmark:NAME -->` and `<!-- /benchmark:NAME -->` is made from them: NAME
# is a part, `parts` for all of them with their headings, `summary` for one short table, or
# `origin` for what made the figures.


RESULTS = Path("docs") / "results"
FILES = (Path("docs") / "benchmark.md", Path("README.md"))
MOST_BYTES = 1_000_000
_MARKED = re.compile(r"(<!-- benchmark:([a-z-]+) -->\n).*?(<!-- /benchmark:\2 -->)", re.DOTALL)


def publish(folder: Path, root: Path) -> int:
    """Copy the runs of a benchmark to the results of a checkout, without those of single links.

    Parts that the folder does not have stay as they are.

    Args:
        folder: what `pagelink bench paper --out` wrote.
        root: the checkout.

    Returns:
        The bytes that all results take up.

    Raises:
        PageLinkError: there is no run, or the results would be too large to commit.
    """
    store = run_store(folder)
    parts = [name for name in PARTS if any(store.all(name))]
    if not parts:
        raise PageLinkError(f"There are no benchmark runs in {folder}.")
    for part in parts:
        target = root / RESULTS / part
        for old in target.glob("*.json"):
            old.unlink()
        for file in sorted((store.folder / part).glob("*.json")):
            run = json.loads(file.read_text(encoding="utf-8"))
            run["figures"].pop(PER_LINK, None)
            write_text(target / file.name, json.dumps(run, ensure_ascii=False) + "\n")
    size = sum(file.stat().st_size for file in (root / RESULTS).rglob("*.json"))
    if size > MOST_BYTES:
        raise PageLinkError(
            f"The results in {root / RESULTS} take up {size:,} bytes, more than {MOST_BYTES:,}. "
            f"Figures of single links belong under {PER_LINK!r}, which is left out."
        )
    return size


def filled(text: str, store: RunStore) -> str:
    """Return a text with what stands between its markers made anew from the results.

    Raises:
        PageLinkError: a marker has a name that means nothing.
    """

    def made(found: re.Match[str]) -> str:
        return f"{found[1]}{_content(found[2], store)}{found[3]}"

    return _MARKED.sub(made, text)


def write_docs(root: Path) -> list[Path]:
    """Make the tables in the docs of a checkout anew; return the files that changed."""
    changed = []
    for name in FILES:
        file = root / name
        if file.exists():
            text = file.read_text(encoding="utf-8")
            new = filled(text, RunStore(root / RESULTS))
            if new != text:
                changed.append(write_text(file, new))
    return changed


def _content(name: str, store: RunStore) -> str:
    if name == "origin":
        return origin(store.all()) + "\n"
    if name == "parts":
        return as_markdown(sections(store))
    if name == "summary":
        tables = summary(list(store.all(EXPLAINERS)))
        return tables_markdown(tables, 3)
    if name in PARTS:
        runs = list(store.all(name))
        return tables_markdown(PARTS[name].tables(runs), 3) if runs else "Not run yet.\n"
    raise PageLinkError(
        f"A marker <!-- benchmark:{name} --> means nothing: the names are origin, parts, summary, "
        f"{', '.join(PARTS)}."
    )
