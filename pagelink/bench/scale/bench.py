"""`pagelink bench scale`: a graph larger than a worker's memory, and a job that is disturbed.

`scale.json` has the figures of each size that was measured, and their tables.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import astuple
from itertools import starmap
from pathlib import Path
from typing import Any

from rich.console import Console

from pagelink.bench.paper.report import Table, tables_markdown, write_tables
from pagelink.bench.runs import check_names, measured
from pagelink.bench.scale.chaos import compare_disturbed
from pagelink.bench.scale.graph import ScaleGraph
from pagelink.bench.scale.steps import rate_of, take
from pagelink.explain.preparation import PROOFS
from pagelink.store.manifest import is_store

NAME = "scale"
PARTS = ("build", "cold", "worker", "engines", "chaos")
FULL = {"nodes": 10_000_000, "edges": 100_000_000, "links": 200, "rate": 1_600, "chaos": 100_000}
QUICK = {"nodes": 4_000, "edges": 20_000, "links": 8, "rate": 160, "chaos": 2_000}
ROWS: tuple[tuple[str, str, Callable[[dict[str, Any]], str]], ...] = (
    ("build", "edges stored, with their reverses", lambda f: f"{f['edges']:,}"),
    ("build", "store built in, CPU seconds", lambda f: f"{f['cpu']:,.0f}"),
    ("build", "store built in, peak memory", lambda f: f"{f['peak_gb']:.2f} GB"),
    ("build", "store on disk", lambda f: f"{f['disk_gb']:.1f} GB"),
    ("build", "store and temporary files, peak", lambda f: f"{f['peak_disk_gb']:.1f} GB"),
    (
        "cold",
        "cold store, new model: explainer made",
        lambda f: f"{f['new']['open_seconds']:.1f} s",
    ),
    ("cold", "first explanation after that", lambda f: f"{f['new']['first_seconds']:.1f} s"),
    (
        "cold",
        "cold store, known model: explainer made",
        lambda f: f"{f['known']['open_seconds']:.1f} s",
    ),
    ("cold", "first explanation after that", lambda f: f"{f['known']['first_seconds']:.1f} s"),
    ("worker", "edges of a computation graph, median", lambda f: f"{f['median_edges']:,.0f}"),
    ("worker", "CPU per link, from the store", lambda f: f"{f['store_ms']:.1f} ms"),
    ("worker", "CPU per link, same neighbourhoods in memory", lambda f: f"{f['memory_ms']:.1f} ms"),
    ("worker", "the one over the other", lambda f: f"{f['store_ms'] / f['memory_ms']:.2f}"),
    ("worker", "a worker's own memory, peak", lambda f: f"{f['anonymous_gb']:.2f} GB"),
    ("engines", "links per second, one worker", lambda f: f"{f['1']['rate']:.1f}"),
    ("engines", "links per second, two workers", lambda f: f"{f['2']['rate']:.1f}"),
    ("engines", "two workers over one", lambda f: f"{f['2']['rate'] / f['1']['rate']:.2f}"),
    ("engines", "engine overhead, two workers", lambda f: f"{100 * f['2']['overhead']:.1f} %"),
    ("chaos", "links of the disturbed job", lambda f: f"{f['links']:,}"),
    (
        "chaos",
        "killed on the way",
        lambda f: (
            f"{f['workers_killed']} workers, {f['nodes_killed']} node, {f['drivers_killed']} driver"
        ),
    ),
    ("chaos", "the same rows as undisturbed", lambda f: "yes" if f["same_rows"] else "NO"),
    ("chaos", "of them rounded otherwise", lambda f: f"{f['rows_rounded_otherwise']}"),
)
"""The table: the part that measures it, what it is, and how it is written."""


def run_and_print(
    out: Path,
    only: list[str],
    console: Console,
    *,
    quick: bool = False,
    seed: int = 0,
    nodes: int | None = None,
    edges: int | None = None,
) -> dict[str, Any]:
    """Measure, print tables, and keep what was measured in `scale.json`.

    Args:
        out: folder for the store and the results; a store that is there is not made again.
        only: parts to run; empty: all. What others measured before stays in the results.
        console: where to print.
        quick: tiny versions, to see that they run.
        seed: of the graph, the model and the links.
        nodes: of the graph; None: 10^7.
        edges: of the graph, each of which is stored in both directions; None: 10^8.

    Returns:
        The figures of this size, by part.

    Raises:
        SettingsError: there is no such part.
    """
    chosen = check_names("part", only, PARTS)
    sizes = QUICK if quick else FULL
    graph = ScaleGraph(nodes or sizes["nodes"], edges or sizes["edges"], seed)
    folder = out / f"scale-{graph.num_nodes}-{graph.num_edges}-{seed}"
    file = out / f"{NAME}.json"
    before = json.loads(file.read_text("utf-8")) if file.exists() else {}
    kept: dict[str, Any] = before.get("sizes", {})
    size = f"{graph.num_nodes:,} nodes, {graph.num_edges:,} edges"
    results: dict[str, Any] = kept.setdefault(size, {})

    where = (str(folder), *astuple(graph))

    def cold() -> dict[str, Any]:
        shutil.rmtree(f"{folder}{PROOFS}", ignore_errors=True)
        return {name: measured(take, "cold", *where, 1) for name in ("new", "known")}

    parts: dict[str, Callable[[], dict[str, Any]]] = {
        "build": lambda: measured(take, "build", *where, 0),
        "cold": cold,
        "worker": lambda: measured(take, "worker", *where, sizes["links"]),
        "engines": lambda: {str(n): rate_of(folder, graph, sizes["rate"], n) for n in (1, 2)},
        "chaos": lambda: compare_disturbed(out / "chaos", sizes["chaos"], console, seed),
    }
    for part in PARTS:
        if part not in chosen or (part == "build" and not only and is_store(folder)):
            continue
        console.print(f"Measuring {part} ...")
        results[part] = parts[part]()
        write_tables(list(starmap(_table, kept.items())), out, NAME, quick=quick, sizes=kept)
    console.print(tables_markdown([_table(size, results)], 2), markup=False)
    return results


def _table(size: str, results: dict[str, Any]) -> Table:
    rows = [(words, show(results[part])) for part, words, show in ROWS if part in results]
    return Table(size, ("", "measured"), rows)
