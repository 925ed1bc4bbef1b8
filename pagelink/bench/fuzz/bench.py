"""`pagelink bench fuzz`: many random cases against promises, in a process that may die.

Cases are cut into chunks; each finished chunk is a file, so that a run goes on where it stopped. A
chunk that its process does not live to finish is run again case by case, to name the one.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from pagelink.bench.fuzz.faults import Fault, add_counts
from pagelink.bench.fuzz.worker import Ran, Worker, WorkerDiedError
from pagelink.bench.runs import Run, RunStore, layout, made_by, say
from pagelink.runtime.files import write_text

PARTS: dict[str, tuple[str, int]] = {
    "graphs": ("pagelink.bench.fuzz.graphs:random_graphs", 20),
    "searches": ("pagelink.bench.fuzz.searches:random_searches", 1_000),
    "interrupts": ("pagelink.bench.fuzz.interrupts:random_interrupts", 100),
    "damage": ("pagelink.bench.fuzz.damage:random_damage", 200),
}
"""Per part, the address of its function, and the number of cases of a chunk."""
PATIENCE = 1_800.0
"""Seconds that a chunk may take; each takes less than 100 of CPU time."""
SHOWN = 20
"""Faults that are printed; the report has all."""


def run_and_print(
    out: Path, wanted: Mapping[str, int], console: Console, *, seed: int = 0, first: int = 0
) -> int:
    """Run random cases, print a table, and write `fuzz.md` and `fuzz.json`.

    Args:
        out: folder for the reports, and a file per finished chunk: these are not run again.
        wanted: the number of cases of each part.
        console: where to print.
        seed: with the number of a case, what the case is drawn from.
        first: the number of the first case.

    Returns:
        The number of faults found.
    """
    wanted = {part: count for part, count in wanted.items() if count}
    store = RunStore(out)
    runs: dict[str, list[Run]] = {part: [] for part in wanted}
    with (
        Progress(
            TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(),
            TimeElapsedColumn(), console=console, transient=True,
        ) as bar,
        Worker(PATIENCE) as worker,
    ):  # fmt: skip
        for part, count in wanted.items():
            task = bar.add_task(part, total=count)
            for cases in chunks(first, count, PARTS[part][1]):
                runs[part].append(run_chunk(store, worker.run, part, seed, cases))
                bar.advance(task, len(cases))
    results = {part: summary(each) for part, each in runs.items()}
    faults = [fault for each in results.values() for fault in each["faults"]]
    made = {"benchmark": "fuzz", "seed": seed, "first": first, **made_by(), "parts": results}
    written = [
        write_text(out / "fuzz.md", f"{as_text(results)}\n"),
        write_text(out / "fuzz.json", json.dumps(made, indent=1, ensure_ascii=False)),
    ]
    say(console, as_text(results, most=SHOWN))
    for path in written:
        say(console, f"Wrote {path}")
    return len(faults)


def chunks(first: int, count: int, size: int) -> list[range]:
    """Cut cases into chunks that are the same whatever the number of cases is.

    Example:
        >>> chunks(5, 10, 8)
        [range(5, 8), range(8, 15)]
    """
    ends = [first, *range((first // size + 1) * size, first + count, size), first + count]
    return [range(*pair) for pair in pairwise(ends)]


RunCases = Callable[[str, int, range], Ran]
"""From the address of a part, a seed and cases to what came of them."""


def run_chunk(store: RunStore, run: RunCases, part: str, seed: int, cases: range) -> Run:
    """Run a chunk, unless it was; a case that ends its process is a fault."""

    def work() -> dict[str, Any]:
        try:
            ran = run(PARTS[part][0], seed, cases)
        except WorkerDiedError as error:
            ran = _one_by_one(run, part, seed, cases, str(error))
        return asdict(ran)

    name = f"seed {seed} cases {cases.start:08} to {cases.stop - 1:08}"
    return store.do(part, name, {"seed": seed, "cases": [cases.start, cases.stop]}, work)


def _one_by_one(run: RunCases, part: str, seed: int, cases: range, why: str) -> Ran:
    """Find the case at which a process ended."""
    faults: list[Fault] = []
    counts, cpu_seconds, found = Counter[str](), 0.0, False
    for case in cases:
        try:
            ran = run(PARTS[part][0], seed, range(case, case + 1))
        except WorkerDiedError as error:
            faults.append(Fault(part, case, str(error)))
            found = True
            continue
        faults += ran.faults
        add_counts(counts, ran.counts)
        cpu_seconds += ran.cpu_seconds
    if not found:
        last = cases.stop - 1
        faults.append(
            Fault(part, cases.start, f"{why} in cases {cases.start} to {last}, none alone")
        )
    return Ran(faults, cpu_seconds, dict(counts))


def summary(runs: list[Run]) -> dict[str, Any]:
    """Add up the chunks of a part."""
    counts = Counter[str]()
    for run in runs:
        add_counts(counts, run.figures["counts"])
    return {
        "cases": sum(run.key["cases"][1] - run.key["cases"][0] for run in runs),
        "faults": [fault for run in runs for fault in run.figures["faults"]],
        "cpu_seconds": round(sum(run.figures["cpu_seconds"] for run in runs), 1),
        "counts": dict(sorted(counts.items())),
    }


def as_text(results: Mapping[str, Mapping[str, Any]], most: int | None = None) -> str:
    """Return what was found as Markdown: a table, what was met beside, the faults."""
    rows = [["part", "cases", "faults", "CPU seconds", "CPU ms per case"]]
    for part, each in results.items():
        per_case = 1e3 * each["cpu_seconds"] / max(each["cases"], 1)
        numbers = (f"{each['cases']:,}", f"{len(each['faults']):,}", f"{each['cpu_seconds']:,.0f}")
        rows.append([part, *numbers, f"{per_case:.1f}"])
    lines = [layout(rows)]
    for part, each in results.items():
        if each["counts"]:
            lines += ["", f"Met in {part}:", ""]
            # Not all are counts: of some the largest is kept.
            lines += [
                f"- {what}: {count:,}" if isinstance(count, int) else f"- {what}: {count:.2g}"
                for what, count in each["counts"].items()
            ]
    faults = [fault for each in results.values() for fault in each["faults"]]
    if faults:
        lines += ["", "Faults:", ""]
        lines += [
            f"- {fault['part']} {fault['case']}: {' '.join(fault['what'].split())}"
            for fault in faults[:most]
        ]
    return "\n".join(lines)
