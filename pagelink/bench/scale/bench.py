"""`pagelink bench scale`: a graph larger than a worker's memory, and a job that is disturbed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.console import Console

from pagelink.bench.runs import layout
from pagelink.bench.scale.chaos import compare_disturbed
from pagelink.bench.scale.graph import ScaleGraph
from pagelink.bench.scale.steps import measure, rate_of
from pagelink.errors import SettingsError, did_you_mean
from pagelink.runtime.files import write_text
from pagelink.store.manifest import is_store

PARTS = ("build", "cold", "worker", "engines", "chaos")
FULL = {"nodes": 10_000_000, "edges": 100_000_000, "links": 200, "rate": 1_600, "chaos": 100_000}
QUICK = {"nodes": 4_000, "edges": 20_000, "links": 8, "rate": 160, "chaos": 2_000}


def run_and_print(
    out: Path, only: list[str], console: Console, *, quick: bool = False, seed: int = 0
) -> dict[str, Any]:
    """Measure, print a table, and keep what was measured in `scale.json`.

    Args:
        out: folder for the store and the results; a store that is there is not made again.
        only: parts to run; empty: all. What others measured before stays in the results.
        console: where to print.
        quick: tiny versions, to see that they run.
        seed: of the graph, the model and the links.

    Raises:
        SettingsError: there is no such part.
    """
    for part in set(only) - set(PARTS):
        raise SettingsError(
            f"The parts are {', '.join(PARTS)}; got {part!r}.{did_you_mean(part, PARTS)}"
        )
    sizes = QUICK if quick else FULL
    graph = ScaleGraph(sizes["nodes"], sizes["edges"], seed)
    folder = out / f"scale-{graph.num_nodes}-{graph.num_edges}-{seed}"
    file = out / "scale.json"
    results: dict[str, Any] = json.loads(file.read_text("utf-8")) if file.exists() else {}

    parts: dict[str, Callable[[], dict[str, Any]]] = {
        "build": lambda: measure("build", folder, graph, 0),
        "cold": lambda: measure("cold", folder, graph, 1),
        "worker": lambda: measure("worker", folder, graph, sizes["links"]),
        "engines": lambda: {str(n): rate_of(folder, graph, sizes["rate"], n) for n in (1, 2)},
        "chaos": lambda: compare_disturbed(out / "chaos", sizes["chaos"], console, seed),
    }
    for part in PARTS:
        if (only and part not in only) or (part == "build" and not only and is_store(folder)):
            continue
        console.print(f"Measuring {part} ...")
        results[part] = parts[part]()
        write_text(file, json.dumps(results, indent=1))
    console.print(as_table(results), markup=False)
    return results


def as_table(results: dict[str, Any]) -> str:
    """Return what was measured as a Markdown table."""
    rows: list[list[str]] = [["", "measured"]]
    if found := results.get("build"):
        rows += [
            ["edges stored, with their reverses", f"{found['edges']:,}"],
            ["store built in, CPU seconds", f"{found['cpu']:,.0f}"],
            ["store built in, peak memory", f"{found['peak_gb']:.2f} GB"],
            ["store on disk", f"{found['disk_gb']:.1f} GB"],
        ]
    if found := results.get("cold"):
        rows += [
            ["explainer made from a cold store", f"{found['open_seconds']:.1f} s"],
            ["first explanation after that", f"{found['first_seconds']:.1f} s"],
        ]
    if found := results.get("worker"):
        rows += [
            ["edges of a computation graph, median", f"{found['median_edges']:,.0f}"],
            ["CPU a link, from the store", f"{found['store_ms']:.1f} ms"],
            ["CPU a link, same neighbourhoods in memory", f"{found['memory_ms']:.1f} ms"],
            ["the one over the other", f"{found['store_ms'] / found['memory_ms']:.2f}"],
            ["a worker's own memory, peak", f"{found['anonymous_gb']:.2f} GB"],
        ]
    if found := results.get("engines"):
        one, two = found["1"], found["2"]
        rows += [
            ["links a second, one worker", f"{one['rate']:.1f}"],
            ["links a second, two workers", f"{two['rate']:.1f}"],
            ["two workers over one", f"{two['rate'] / one['rate']:.2f}"],
            ["engine overhead, two workers", f"{100 * two['overhead']:.1f} %"],
        ]
    if found := results.get("chaos"):
        killed = (
            f"{found['workers_killed']} workers, {found['nodes_killed']} node, "
            f"{found['drivers_killed']} driver"
        )
        rows += [
            ["links of the disturbed job", f"{found['links']:,}"],
            ["killed on the way", killed],
            ["the same rows as undisturbed", "yes" if found["same_rows"] else "NO"],
            ["of them rounded otherwise", f"{found['rows_rounded_otherwise']}"],
        ]
    return layout(rows)
