"""`pagelink bench paper`, `compare`, `report` and `docs`: runs the parts and writes the reports.

Reports are made from the run files alone, as Markdown and as one page of HTML. A new part is one
module and one line in `PARTS`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from markupsafe import Markup
from rich.console import Console

from pagelink.bench.paper import (
    ablation,
    cases,
    connection,
    explainers,
    paths,
    pruning,
    stability,
    tables,
    time,
)
from pagelink.bench.paper.plan import TITLES, Dataset, Part, Plan, Session
from pagelink.bench.paper.report import Table, draw, tables_markdown
from pagelink.bench.runs import Run, RunStore, check_names, say, shown_progress
from pagelink.bench.subjects import checkpoint_subject
from pagelink.datasets.ground_truth import Labels
from pagelink.errors import PageLinkError
from pagelink.models.checkpoint import Checkpoint
from pagelink.rivals.registry import RIVALS
from pagelink.runtime.files import write_text
from pagelink.views.templates import render

EXPLAINERS, COMPARE = explainers.NAME, "compare"
PARTS: dict[str, Part] = {
    part.name: part
    for part in (
        Part(EXPLAINERS, "Explainers", tables.tables, explainers.each, plots=tables.plots),
        connection.PART,
        paths.PART,
        ablation.PART,
        ablation.REFERENCE,
        stability.PART,
        pruning.PART,
        time.PART,
        cases.PART,
    )
}
REPORTED: dict[str, Part] = {
    **PARTS,
    COMPARE: Part(COMPARE, "Explainers on a model of one's own", tables.tables, plots=tables.plots),
}
"""What reports can hold: the parts, and the runs of `pagelink bench compare`."""


# Reports of the benchmark, made from its run files alone: Markdown, and one page of HTML.


HEADING = "Benchmark of link explanations"
RUNS = "runs"
"""Folder of the run files below that of a benchmark."""


@dataclass(frozen=True)
class Section:
    """What one part has to show."""

    heading: str
    tables: list[Table]
    drawings: list[Markup]
    """The plots and other drawings as SVG; the templates that drew them escaped the words."""


def run_store(folder: Path) -> RunStore:
    """The runs of a benchmark's folder, or of a folder of runs itself."""
    return RunStore(folder / RUNS if (folder / RUNS).is_dir() else folder)


def sections(store: RunStore) -> list[Section]:
    """What all parts that were run have to show, in the order of the parts."""
    found = []
    for part in REPORTED.values():
        if runs := list(store.all(part.name)):
            drawn = [*map(draw, part.plots(runs)), *part.drawings(runs).values()]
            found.append(Section(part.heading, list(part.tables(runs)), list(map(Markup, drawn))))
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
    return f"{len(found)} runs, {hours:.2f} CPU hours, {when}, on {machines} with {named}."


def as_markdown(shown: Sequence[Section], level: int = 2) -> str:
    """All sections as Markdown."""
    marks = "#" * level
    return "\n".join(
        f"{marks} {section.heading}\n\n" + tables_markdown(section.tables, level + 1)
        for section in shown
    )


# `pagelink bench paper`: runs the parts, shows where it is, and writes the reports.


QUICK_SEEDS = 2


def run_and_print(
    out: Path,
    names: Sequence[str],
    console: Console,
    *,
    seeds: int = 5,
    links: int = 200,
    quick: bool = False,
    aminer: Path | None = None,
    only: Sequence[str] = (),
    without: Sequence[str] = (),
) -> list[Path]:
    """Run parts of the benchmark, or what is left of them, print their tables, write the reports.

    Raises:
        SettingsError: there is no such part, data set or explainer.
    """
    parts = check_names("part", names, PARTS)
    only = check_names("data set", only, TITLES) if only else ()
    without = check_names("explainer", without, RIVALS) if without else ()
    if quick:
        seeds = min(seeds, QUICK_SEEDS)
        say(console, "Tiny generated graphs, hardly trained: these figures say nothing.\n")
    plan = Plan(
        out / "models", seeds, links, quick, tuple(only), tuple(without), aminer,
        lambda words: say(console, words),
    )  # fmt: skip
    store = RunStore(out / RUNS)
    with shown_progress(console) as step:
        for number, name in enumerate(parts, start=1):
            place = f"{name} ({number} of {len(parts)})"
            PARTS[name].run(store, plan, lambda what, place=place: step(f"{place}: {what}"))  # type: ignore[misc]
    return report(out, out, console)


def report(folder: Path, out: Path, console: Console) -> list[Path]:
    """Print all tables of a folder of runs and write the reports."""
    written = write_report(folder, out)
    say(console, as_markdown(sections(run_store(folder))))
    for file in written:
        say(console, f"Wrote {file}")
    return written


# `pagelink bench compare`: every explainer on a model of one's own, by what needs no labels.


def compare_and_print(
    stored: Checkpoint,
    model: Path,
    names: Sequence[str],
    out: Path,
    console: Console,
    *,
    links: int,
    seeds: int,
    seed: int,
    labels: Labels | None = None,
) -> list[Path]:
    """Run explainers on test links that a model predicts, print the tables, write the reports.

    Args:
        stored: the model with its graph.
        model: the file it is from, which tells its runs from those of others.
        names: the explainers.
        out: folder for the run files and the reports.
        console: where to print.
        links: number of links at most.
        seeds: number of explainer seeds.
        seed: of the choice of the links, and the first one of the explainers.
        labels: the ground-truth paths of the links, if there are any.

    Raises:
        PageLinkError: the model predicts no test link.
    """
    subject = checkpoint_subject(model.stem, stored, links, seed, labels)
    if not subject.pairs:
        raise PageLinkError(
            f"{model} predicts none of its test links, so there is nothing to explain. Train it "
            "longer, or on more links."
        )
    data = stored.data
    known_by: dict[str, Any] = {
        "title": f"{model.stem} ({', '.join(stored.link_type)})",
        "checkpoint": hashlib.sha256(model.read_bytes()).hexdigest()[:16],
        "nodes": sum(int(data[kind].num_nodes or 0) for kind in data.node_types),
        "edges": sum(int(data[kind].num_edges) for kind in data.edge_types),
        "links by seed": seed,
    }
    if labels is not None:
        known_by["labelled"] = True
    plan = Plan(out / "models", seeds, links)
    with shown_progress(console) as step:
        session = Session(RunStore(out / RUNS), COMPARE, plan, step)
        dataset = Dataset(model.stem, plan, subject, known_by)
        explainers.compare(session, dataset, names, range(seed, seed + seeds))
    return report(out, out, console)
