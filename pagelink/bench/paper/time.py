"""Part `time`: the paper's figure of time against edges, its complexity table, and the stages.

The stages are those of the method: the computation graph is extracted and pruned, the mask is
learned, paths are searched, and what they are worth is measured. The complexity table says what
grows with what: the exponent p of seconds ~ size^p in the edges of the computation graph, and in T,
the number of rounds that an explainer is given.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from pagelink.bench.answers import DEFAULT, make_explainer
from pagelink.bench.paper import subgraphs
from pagelink.bench.paper.plan import TITLES, Dataset, Part, Session, told
from pagelink.bench.paper.report import Plot, Series, Table
from pagelink.bench.runs import Figures, Run, cell, timed
from pagelink.bench.speed.figures import torch_threads
from pagelink.bench.speed.graphs import (
    FEATURES,
    LIKES,
    SMALL_HIDDEN,
    HeteroSAGE,
    ladder_graph,
    linear,
)
from pagelink.bench.speed.rows import QUICK, Sizes
from pagelink.bench.subjects import Subject
from pagelink.explain import pipeline
from pagelink.explain.explainer import PaGELink
from pagelink.rivals import rival
from pagelink.rivals.pgexp import PGExpLink
from pagelink.rivals.registry import make_rival
from pagelink.rivals.rival import Rival
from pagelink.settings import Settings

EXTRACT, PRUNE, LEARN, CHOOSE = "extraction", "pruning", "learning", "search"
STAGES = (EXTRACT, PRUNE, LEARN, CHOOSE)
_BEFORE = {
    "score_links": "scoring",
    "check_links": "checking",
    "prune_links": PRUNE,
    "learn_masks": LEARN,
}
"""Steps of the method that are functions, and their stages."""


@contextmanager
def watched(explainer: PaGELink) -> Iterator[dict[str, float]]:
    """Give the CPU seconds of each stage, added up for as long as the context is open.

    The search is what is left of the method without the other steps.
    """
    seconds = dict.fromkeys(STAGES, 0.0)
    others = {"method": 0.0, "scoring": 0.0, "checking": 0.0, "result": 0.0}

    def clocked(stage: str, step: Callable[..., Any]) -> Callable[..., Any]:
        into = seconds if stage in seconds else others

        def run(*given: Any, **named: Any) -> Any:
            started = time.process_time()
            try:
                return step(*given, **named)
            finally:
                into[stage] += time.process_time() - started

        return run

    own = explainer.pipeline
    places: list[tuple[Any, str, str]] = [
        (explainer.setup.batches, "extract", EXTRACT), (explainer.builder, "build", "result"),
    ]  # fmt: skip
    if isinstance(explainer, Rival):
        places.append((explainer, "masks", LEARN))
    for module in (pipeline, rival):
        places += [
            (module, step, stage) for step, stage in _BEFORE.items() if hasattr(module, step)
        ]
    before = [(owner, name, vars(owner).get(name)) for owner, name, _ in places]
    for owner, name, stage in places:
        setattr(owner, name, clocked(stage, getattr(owner, name)))
    explainer.pipeline = replace(own, method=clocked("method", own.method))
    try:
        yield seconds
    finally:
        explainer.pipeline = own
        for owner, name, was in before:
            if was is None:
                delattr(owner, name)  # the method of the class shows again
            else:
                setattr(owner, name, was)
        rest = seconds[PRUNE] + seconds[LEARN] + others["result"]
        seconds[CHOOSE] = others["method"] - rest


def stage_seconds(
    explainer: PaGELink, links: Sequence[tuple[int, int]], repeats: int = 1
) -> dict[str, float]:
    """CPU seconds per link of each stage and in total, and the mean number of epochs.

    Links are explained side by side; of several rounds, the one of the least total counts. What an
    explainer is trained for beforehand is `training`, once for all links.
    """
    training = timed(explainer.fit)[1] if isinstance(explainer, PGExpLink) else 0.0
    list(explainer.explain_many(links[:1]))  # what is made once is not counted
    rounds = []
    for _ in range(repeats):
        with watched(explainer) as seconds:
            answers, total = timed(lambda: list(explainer.explain_many(links)))
        rounds.append(
            {
                **{stage: value / len(links) for stage, value in seconds.items()},
                "total": total / len(links),
                "epochs": float(np.mean([answer.epochs for answer in answers])),
                "training": training,
            }
        )
    return min(rounds, key=lambda each: each["total"])


def exponent(sizes: Sequence[float], seconds: Sequence[float]) -> float:
    """Return p of seconds ~ size^p, the slope of the logs by least squares.

    Example:
        >>> round(exponent([10, 100, 1000], [0.2, 2.0, 20.0]), 6)
        1.0
    """
    x, y = np.log(np.asarray(sizes, float)), np.log(np.maximum(np.asarray(seconds, float), 1e-9))
    dx = x - x.mean()
    return float(dx @ (y - y.mean()) / (dx @ dx))


NAME = "time"
SIZES = Sizes(
    large_range=(5_500, 50_000, 100_000, 200_000), linear_repeats=5, linear_copies=16,
    large_repeats=3,
)  # fmt: skip
"""The paper's range of edges in full; beyond it only as far as minutes reach."""
EDGES, SLOW_EDGES, QUICK_EDGES = (10_000, 40_000, 160_000), (1_000, 2_000, 4_000), (60, 240)
"""Few edges are lost in what calling a model costs; SubgraphX-Link cannot be asked about more."""
ROUNDS = (5, 10, 20)
STAGE_LINKS = 50
OURS, BY_MASK, PAPER = "PaGELink, measured (default)", "PaGELink, by its mask", "paper's settings"
ROWS: dict[str, tuple[str, str, str | None]] = {
    BY_MASK: ("pagelink", "O(E + E_k T)", "epochs"),
    OURS: ("pagelink", "", "epochs"),
    "GNNExp-Link": ("gnnexp", "O(E T)", "epochs"),
    "PGExp-Link, after training": ("pgexp", "O(E)", None),
    "SubgraphX-Link": ("subgraphx", "V D^(2B - 2)", "rollouts"),
    "Power-Link": ("power-link", "", "epochs"),
    "GraphMask-Link, after training": ("graphmask", "", None),
    "J-Recs": ("jrecs", "", None),
    "gradient": ("gradient", "", None),
    "degree only": ("degree", "", None),
}
"""By row: the explainer, the paper's formula for it, and what T is called there."""

SHORT = {
    "subgraphx": {"expand": 2, "samples": 2},
    "pgexp": {"epochs": 1},
    "graphmask": {"epochs": 1},
}
"""Options under which growth is measured: how it grows is the question, not how long it takes."""


def once(session: Session) -> None:
    """Measure time against edges, and the growth of every explainer."""
    quick = session.plan.quick
    sizes = QUICK if quick else SIZES
    key: dict[str, Any] = {"paper": list(sizes.paper_range), "large": list(sizes.large_range)}
    session.do("time against edges", key, _against_edges, sizes)
    for row, (name, _, rounds) in ROWS.items():
        edges = QUICK_EDGES if quick else SLOW_EDGES if name == "subgraphx" else EDGES
        key = {"row": row, "edges": list(edges), "rounds": list(ROUNDS), "short": SHORT}
        session.do(f"growth {row}", key, _growth, row, name, rounds, edges)
    subgraphs.once(session)


def each(session: Session, dataset: Dataset) -> None:
    """Measure the stages on the links of a data set."""
    links = 3 if session.plan.quick else STAGE_LINKS
    rows = {OURS: Settings(), BY_MASK: Settings(measure=False), PAPER: dataset.paper_settings}
    for row, settings in rows.items():
        explained = len(dataset.subject.pairs[:links])
        key = dataset.key_of(row=row, explained=explained, settings=told(settings))
        name = f"{dataset.name} stages {row}"
        session.do(name, key, _stages, dataset.subject, explained, settings)


def _stages(subject: Subject, links: int, settings: Settings) -> Figures:
    with torch_threads(1):
        explainer = make_explainer(subject, DEFAULT, settings, 0)
        return stage_seconds(explainer, subject.pairs[:links])


def _against_edges(sizes: Sizes) -> Figures:
    lines = []
    for figure in linear(sizes, seed=0):
        samples = {name: list(values) for name, values in figure.samples.items()}
        lines.append({"r2": figure.value, "how": figure.how, **samples})
    return {"lines": lines}


def _growth(row: str, name: str, rounds: str | None, edges: Sequence[int]) -> Figures:
    """Seconds of one explainer by the number of edges of the link, and by that of rounds."""
    graph = ladder_graph(edges, FEATURES, seed=0)
    model = HeteroSAGE(graph.data, SMALL_HIDDEN, seed=0)
    # A bound on what is measured keeps every link alike: none leaves before the last round.
    base = Settings(patience=None, measure=row == OURS)

    def seconds(link: tuple[int, int], count: int | None) -> dict[str, float]:
        own: dict[str, Any] = {"options": dict(SHORT.get(name, {}))}
        settings = base
        if count is not None and name == "pagelink":
            settings = base.replace(epochs=count)
        elif count is not None and rounds is not None:
            own["options"][rounds] = count
        if name in ("pgexp", "graphmask"):
            own["train_links"] = graph.links
        explainer = make_rival(name, model, graph.data, LIKES, settings, 0, threshold=None, **own)
        return stage_seconds(explainer, [link], repeats=2)

    with torch_threads(1):
        by_edges = [seconds(link, None if rounds is None else ROUNDS[1]) for link in graph.links]
        middle = graph.links[len(edges) // 2]
        by_rounds = [] if rounds is None else [seconds(middle, count) for count in ROUNDS]
    totals = [each["total"] for each in by_edges]
    return {
        "edges": list(edges), "seconds": totals, "in_edges": exponent(edges, totals),
        "stages": {
            stage: exponent(edges, [each[stage] for each in by_edges]) for stage in STAGES
        },
        "in_rounds": exponent(ROUNDS, [each["total"] for each in by_rounds]) if by_rounds else None,
        "rounds": rounds,
    }  # fmt: skip


def tables(runs: Sequence[Run]) -> Iterator[Table]:
    """Time against edges, the complexity table, and where the time goes."""
    by_name = {run.name: run.figures for run in runs}
    if lines := by_name.get("time against edges"):
        yield _lines_table(lines)
    if growing := {row: by_name[own] for row in ROWS if (own := f"growth {row}") in by_name}:
        yield _growth_table(growing)
    yield from subgraphs.tables(by_name)
    if rows := _stage_rows(by_name):
        yield Table(
            "Where the time of a link goes, CPU ms",
            ("data set, settings", "epochs", *STAGES[:3], "search and measuring", "all"),
            rows,
            f"Up to {STAGE_LINKS} links side by side, one thread. A link has converged when "
            "its best paths stay the same for ten epochs; with the paper's settings none "
            "leaves before the last epoch. Learning includes its own searches.",
        )


def _lines_table(figures: Mapping[str, Any]) -> Table:
    rows = tuple(
        (
            f"{line['edges'][0]:,.0f} to {line['edges'][-1]:,.0f} edges",
            f"{1000 * line['cpu_s'][0]:,.1f}", f"{1000 * line['cpu_s'][-1]:,.1f}",
            cell(1e6 * line["slope"][0], 2), cell(line["r2"]),
            cell(exponent(line["edges"][1:], line["cpu_s"][1:]), 2),
        )
        for line in figures["lines"]
    )  # fmt: skip
    return Table(
        "Time of a link against the edges of its computation graph",
        ("range", "CPU ms, fewest edges", "CPU ms, most", "µs an edge", "R²", "exponent"), rows,
        "PaGELink by its mask, all 20 epochs. The exponent leaves the smallest graph out, where "
        "calling the model is all that counts.",
    )  # fmt: skip


def _growth_table(growing: Mapping[str, Mapping[str, Any]]) -> Table:
    rows = []
    for row, figures in growing.items():
        fewest, *_, most = figures["edges"]
        times = [f"{1000 * figures['seconds'][place]:,.1f}" for place in (0, -1)]
        by_rounds = figures["in_rounds"]
        told = "-" if by_rounds is None else f"{by_rounds:.2f} ({figures['rounds']})"
        stages = ", ".join(f"{stage} {figures['stages'][stage]:.2f}" for stage in STAGES)
        formula = ROWS[row][1] or "-"
        span = f"{fewest:,} to {most:,}"
        rows.append((row, formula, span, *times, cell(figures["in_edges"], 2), told, stages))
    return Table(
        "What grows with what",
        (
            "explainer", "the paper says", "edges", "ms, fewest", "ms, most",
            "exponent in edges", "exponent in T", "exponent of each stage",
        ),
        rows,
        "E: edges of the computation graph, E_k: of its k-core. CPU ms of a link alone, the "
        "lesser of two rounds, T = 10; an exponent of 1 is linear "
        "growth, less means that a fixed cost counts. Training PGExp-Link and GraphMask-Link is "
        "not in their rows. "
        "SubgraphX-Link is a tree search under a fixed number of rollouts, here with two moves and "
        "two coalitions each, not a search over all subgraphs.",
    )  # fmt: skip


def _stage_rows(by_name: Mapping[str, Mapping[str, Any]]) -> list[tuple[str, ...]]:
    rows = []
    for data, title in TITLES.items():
        for row in (OURS, BY_MASK, PAPER):
            figures = by_name.get(f"{data} stages {row}")
            if figures is not None:
                times = [f"{1000 * figures[name]:,.2f}" for name in (*STAGES, "total")]
                rows.append((f"{title}: {row}", f"{figures['epochs']:.1f}", *times))
    return rows


def plots(runs: Sequence[Run]) -> Iterator[Plot]:
    """The paper's figure, and the same for larger graphs."""
    by_name = {run.name: run.figures for run in runs}
    for line in by_name.get("time against edges", {"lines": []})["lines"]:
        x, slope, start = line["edges"], line["slope"][0], line["intercept"][0]
        measured = Series("measured", x, [1000 * s for s in line["cpu_s"]])
        fitted = Series("line", x, [1000 * (start + slope * v) for v in x])
        yield Plot(
            f"Time against edges, {x[0]:,.0f} to {x[-1]:,.0f}",
            "edges of G_c", "CPU ms per link", (measured, fitted),
            note=f"R² {line['r2']:.3f}. {line['how']}",
        )  # fmt: skip
    yield from subgraphs.plots(by_name)


PART = Part(NAME, "Time against edges, and what grows with what", tables, each, once, plots)
