"""Part `pruning`: what the k-core takes away, from the links at hand and by the paper's theorem.

The paper prunes to make learning cheaper; users of its code met pairs that pruning had cut apart.
So the sizes stand beside the share of links that lose their last path, or their labelled ones.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np

from pagelink.bench.paper.plan import PER_LINK, TITLES, Dataset, Part, Session
from pagelink.bench.paper.report import Plot, Series, Table
from pagelink.bench.runs import Figures, Run, cell
from pagelink.bench.speed.bare import extract
from pagelink.graph.computation_graph import ComputationGraphs
from pagelink.graph.typed_graph import TypedGraph
from pagelink.metrics.theory import (
    core_shares,
    count_connected_subgraphs,
    count_paths,
    counted_core_shares,
    log_expected_paths,
    log_subgraphs,
    random_graph,
)
from pagelink.search.paths import allowed_facts, build_path_graphs
from pagelink.search.pruning import prune

NAME = "pruning"
CORES = (2, 3, 4, 5, 6)
LENGTHS = (3, 5)
"""l_max: ours, and that of the released settings."""
MEAN_DEGREES = (4.0, 7.0, 10.0)
NODES, QUICK_NODES = 20_000, 2_000
SMALL, LARGE = (5, 6, 7), (10, 100, 1000)
"""Numbers of nodes: of graphs whose subgraphs are counted, and of those where both are expected."""
DENSITY = 0.6

Columns = Mapping[str, Sequence[float]]
"""By figure, one number per link."""


def pruned(
    graph: TypedGraph, batch: ComputationGraphs, labelled: Sequence[Sequence[int]], core: int
) -> dict[str, float]:
    """What the k-core leaves of the computation graph of one link.

    Args:
        graph: the flat graph.
        batch: the computation graph.
        labelled: facts of the labelled paths.
        core: k; 0 leaves everything.

    Returns:
        Nodes and edges that are left, s and t among the nodes; whether there is a path of at most
        3 and of at most 5 facts; and whether all facts of some labelled path are left.
    """
    kept = prune(graph, batch, core)
    ends = np.searchsorted(batch.nodes, [batch.link_src[0], batch.link_dst[0]])
    nodes = np.unique(np.concatenate([batch.src[kept], batch.dst[kept], ends]))
    facts = set(graph.fact[batch.edges[kept]].tolist())
    allowed = allowed_facts(graph, batch, kept)
    within = {n: build_path_graphs(graph, batch, allowed, n).has_path()[0] for n in LENGTHS}
    return {
        "nodes": float(len(nodes)) if core else float(len(batch.nodes)),
        "edges": float(kept.sum()),
        **{f"path of {length}": float(joined) for length, joined in within.items()},
        "labelled": float(any(facts.issuperset(path) for path in labelled)),
    }


def lost(before: Sequence[float], after: Sequence[float]) -> float | None:
    """Return, of the links that had something before, the share that has it no longer.

    None if no link had it.

    Example:
        >>> lost([1, 1, 1, 0], [1, 0, 1, 0]) == 1 / 3
        True
    """
    had = [then for was, then in zip(before, after, strict=True) if was]
    return sum(not then for then in had) / len(had) if had else None


def each(session: Session, dataset: Dataset) -> None:
    """Prune the computation graphs of a data set."""
    key = dataset.key_of(cores=list(CORES), lengths=list(LENGTHS))
    session.do(f"{dataset.name} k-cores", key, _on_links, dataset)


def once(session: Session) -> None:
    """Prune random graphs, and count what is in small ones."""
    seeds = list(session.plan.seed_list)
    nodes = QUICK_NODES if session.plan.quick else NODES
    key = {"nodes": nodes, "seeds": seeds, "cores": list(CORES), "degrees": list(MEAN_DEGREES)}
    session.do("theorem", key, _theorem, nodes, seeds)
    key = {"seeds": seeds, "small": list(SMALL), "large": list(LARGE), "density": DENSITY}
    session.do("proposition", key, _proposition, seeds)


def _on_links(dataset: Dataset) -> Figures:
    assert dataset.labels is not None  # all data sets of the paper have labels
    columns: dict[int, dict[str, list[float]]] = {core: {} for core in (0, *CORES)}
    for link, labelled in zip(dataset.subject.pairs, dataset.labels, strict=True):
        batch = extract(dataset.explainer, link)
        for core, of_core in columns.items():
            for name, value in pruned(dataset.explainer.graph, batch, labelled, core).items():
                of_core.setdefault(name, []).append(value)
    by_core = {core: summary(columns[0], after) for core, after in columns.items()}
    return {"links": len(dataset.subject.pairs), "by_core": by_core, PER_LINK: columns}


def summary(before: Columns, after: Columns) -> dict[str, float | None]:
    """Mean sizes, and the shares of the links that lost what they had; None where none had it."""
    sizes = ("nodes", "edges")
    return {
        name: float(np.mean(values)) if name in sizes else lost(before[name], values)
        for name, values in after.items()
    }


def _theorem(nodes: int, seeds: Sequence[int]) -> Figures:
    rows = []
    for degree, core in product(MEAN_DEGREES, CORES):
        drawn = [random_graph(nodes, round(degree * nodes / 2), seed) for seed in seeds]
        counted = [counted_core_shares(*ends, nodes, core) for ends in drawn]
        predicted = core_shares(degree, core)
        rows.append({"degree": degree, "core": core, "predicted": predicted, "counted": counted})
    return {"rows": rows}


def _proposition(seeds: Sequence[int]) -> Figures:
    """Logs to base 10, because the numbers outgrow a float."""
    rows: list[dict[str, Any]] = []
    for nodes in (*SMALL, *LARGE):
        edges = round(DENSITY * math.comb(nodes, 2))
        row: dict[str, Any] = {
            "nodes": nodes, "edges": edges,
            "paths": log_expected_paths(nodes, edges) / math.log(10),
            "short": log_expected_paths(nodes, edges, LENGTHS[0]) / math.log(10),
            "subgraphs": log_subgraphs(edges) / math.log(10),
        }  # fmt: skip
        if nodes in SMALL:
            drawn = [np.stack(random_graph(nodes, edges, seed)).tolist() for seed in seeds]
            row["counted"] = [count_paths(src, dst, 0, nodes - 1) for src, dst in drawn]
            row["connected"] = [count_connected_subgraphs(src, dst) for src, dst in drawn]
        rows.append(row)
    return {"rows": rows}


def tables(runs: Sequence[Run]) -> Iterator[Table]:
    """What pruning leaves, the theorem, and the proposition."""
    by_name = {run.name: run for run in runs}
    if rows := [row for data in TITLES for row in _rows_of(data, by_name)]:
        yield Table(
            "What the k-core leaves of computation graphs",
            (
                "data set, k", "nodes left", "edges left", "cut apart (3 facts)",
                "cut apart (5 facts)", "labelled path lost",
            ),
            rows,
            "Mean number per link and share of the unpruned one; shares of the links that have "
            "a path (a labelled path) before. PaGELink undoes the pruning of a link that it "
            "would cut apart, and says so.",
        )  # fmt: skip
    if theorem := by_name.get("theorem"):
        yield _theorem_table(theorem)
    if proposition := by_name.get("proposition"):
        yield _proposition_table(proposition)


def _rows_of(data: str, by_name: dict[str, Run]) -> list[tuple[str, ...]]:
    run = by_name.get(f"{data} k-cores")
    by_core = {} if run is None else run.figures["by_core"]
    rows = []
    for core, after in by_core.items():
        before = by_core["0"]
        size = [
            f"{after[what]:,.0f} ({after[what] / before[what]:.0%})" for what in ("nodes", "edges")
        ]
        names = (*(f"path of {length}" for length in LENGTHS), "labelled")
        gone = [cell(after[name]) for name in names]
        label = f"{TITLES[data]}, " + (f"k = {core}" if core != "0" else "not pruned")
        rows.append((label, *size, *gone))
    return rows


def _theorem_table(run: Run) -> Table:
    rows = []
    for row in run.figures["rows"]:
        counted = np.array(row["counted"])
        cells = [
            cell(value)
            for place in (0, 1)
            for value in (row["predicted"][place], counted[:, place].mean())
        ]
        rows.append((f"mean degree {row['degree']:g}, k = {row['core']}", *cells))
    return Table(
        "The k-core theorem, predicted and counted",
        ("random graph", "nodes predicted", "nodes counted", "edges predicted", "edges counted"),
        rows,
        f"Graphs of {run.key['nodes']:,} nodes, mean over {len(run.key['seeds'])} of them. The "
        "paper's example, mean degree 7 and k = 5, has about 0.69 of both.",
    )


def _proposition_table(run: Run) -> Table:
    rows = []
    for row in run.figures["rows"]:
        counts = [
            f"{np.mean(row[name]):,.1f}" if name in row else "-"
            for name in ("counted", "connected")
        ]
        logs = [f"10^{row[name]:,.1f}" for name in ("paths", "short", "subgraphs")]
        rows.append((f"{row['nodes']} nodes, {row['edges']} edges", *logs, *counts))
    return Table(
        "Paths between two nodes against subgraphs",
        (
            "random graph", "paths expected", "of at most 3 edges", "subgraphs", "paths counted",
            "connected subgraphs counted",
        ),
        rows,
        "Counted ones are means over drawn graphs that are small enough; the ratio of the first "
        "and the third column vanishes, as the proposition says.",
    )  # fmt: skip


def plots(runs: Sequence[Run]) -> list[Plot]:
    """The share of links that are cut apart, by k."""
    by_name = {run.name: run for run in runs}
    lines = []
    for data, title in TITLES.items():
        if run := by_name.get(f"{data} k-cores"):
            by_core, what = run.figures["by_core"], f"path of {LENGTHS[0]}"
            y = [by_core[str(core)][what] or 0.0 for core in CORES]
            lines.append(Series(title, CORES, y))
    title = "Links that k-core pruning cuts apart"
    return [Plot(title, "k", "share of links", lines)] if lines else []


PART = Part(NAME, "k-core pruning, and the size of the search", tables, each, once, plots)
