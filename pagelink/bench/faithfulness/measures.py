"""What paths are worth to the model, link by link, by one rule for all rankings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from pagelink.bench.faithfulness.rankings import COUNTS, MAIN
from pagelink.datasets.ground_truth import Labels
from pagelink.graph.lookup import facts_of_triples, first_edges_of_facts
from pagelink.graph.typed_graph import TypedGraph
from pagelink.measure.candidates import ReferenceGraphs
from pagelink.measure.evidence import draw_controls
from pagelink.measure.verdict import REDUNDANT, Verdict, unnoticed
from pagelink.metrics.paths import mean_length, mean_log_degree
from pagelink.metrics.worth import connection, sufficiency
from pagelink.rivals.ground import FactPath, Ground, Ranked, facts_of
from pagelink.runtime.arrays import Doubles, Longs
from pagelink.runtime.csr import Csr

CONTROLS = 5
PerLink = dict[str, Doubles]
"""By figure, one number per link; NaN where it is not defined."""


def measure(
    ground: Ground,
    paths: Mapping[int, Ranked],
    greedy: Doubles,
    labels: Sequence[Sequence[FactPath]] | None,
    seed: int,
) -> tuple[PerLink, list[Verdict]]:
    """Measure the answers of one ranking.

    Args:
        ground: the links.
        paths: by number of paths, the answer for each link.
        greedy: [num_links], the effect of the greedy search at `MAIN` paths.
        labels: per link, its labelled paths; None: there are no labels.
        seed: of the control pairs.

    Returns:
        `effect@n`; `span`, f(G) - f(G0); at `MAIN` paths `added`, what the set adds to G0, and
        `sufficiency`, `connection`, `paths`, `length`, `log degree`;
        with labels `hit@n`; and the verdict of each link.
    """
    every = list(range(ground.num_links))
    rows: PerLink = {}
    for count in COUNTS:
        rows[f"effect@{count}"] = ground.effects(every, [facts_of(p) for p in paths[count]])
        if labels is not None:
            rows[f"hit@{count}"] = np.array(
                [float(bool(set(p) & set(of)))
                 for p, of in zip(paths[count], labels, strict=True)]
            )  # fmt: skip
    shown = paths[MAIN]
    sets = ground.edits(every, [facts_of(p) for p in shown])
    bare = ground.influence.logits(ground.bare, ground.edits(every, [[] for _ in every]))
    added = ground.influence.logits(ground.bare, sets)
    span = ground.logits - bare
    rows["span"], rows["added"] = span, added - bare
    rows["sufficiency"] = sufficiency(ground.logits, bare, added)
    rows["connection"] = connections(ground, shown, seed)
    rows["paths"] = np.array([float(len(p)) for p in shown])
    rows["length"] = np.array([mean_length(p) for p in shown])
    graph = ground.explainer.graph
    edge_of = first_edges_of_facts(graph)
    rows["log degree"] = np.array(
        [mean_log_degree(inner_degrees(graph, edge_of, path) for path in p) for p in shown]
    )
    verdicts = [
        verdict(float(f), float(f0), float(gone), float(put), float(best))
        for f, f0, gone, put, best in zip(
            ground.logits, bare, rows[f"effect@{MAIN}"], added - bare, greedy, strict=True
        )
    ]
    return rows, verdicts


def verdict(f: float, bare: float, removal: float, insertion: float, best: float) -> Verdict:
    """The verdict on a set of paths.

    Args:
        f: f(G).
        bare: f(G0).
        removal: the effect of removing the set from G.
        insertion: what the set adds to G0.
        best: the best effect by removal that is known for the link.

    Example:
        >>> verdict(2.0, 1.0, removal=0.5, insertion=0.4, best=0.6)
        'supported'
        >>> verdict(2.0, 3.0, removal=0.5, insertion=0.4, best=0.6)
        'structure_against'
        >>> verdict(2.0, 1.0, removal=-0.1, insertion=0.4, best=0.6)
        'not_by_these'
    """
    redundant = f > bare and max(best, removal) < REDUNDANT * (f - bare)
    influence = insertion if redundant else removal
    if max(abs(f - bare), abs(best), abs(influence)) <= unnoticed(f):
        return "structure_not_used"
    if bare >= f:
        return "structure_against"
    return "supported" if influence > unnoticed(f) else "not_by_these"


def connections(ground: Ground, ranked: Ranked, seed: int) -> Doubles:
    """Per link, the mean connection of its paths; NaN where there are no control pairs."""
    link: list[int] = []
    slots: list[Longs] = []
    paths: list[FactPath] = []
    graph = ground.explainer.graph
    for number, found in enumerate(ranked):
        for path in found:
            link.append(number)
            paths.append(path)
            places = {int(graph.fact[ground.batch.edges[slot]]): int(slot)
                      for slot in ground.slots(number, path)}  # fmt: skip
            slots.append(np.array([places[fact] for fact in path]))
    result = np.full(len(ranked), np.nan)
    if not link:
        return result
    links = np.array(link, dtype=np.int64)
    controls, path_of = draw_controls(
        ReferenceGraphs(ground.facts, ground.batch, ground.whole, ground.bare), links,
        Csr.of(slots), CONTROLS, seed,
    )  # fmt: skip
    gone = ground.influence.logits(ground.whole, controls)
    control = ground.logits[controls.link] - gone
    own = ground.effects(link, paths)
    values: list[list[float]] = [[] for _ in ranked]
    for i, number in enumerate(link):
        above = connection(float(own[i]), control[path_of == i])
        if not np.isnan(above):
            values[number].append(above)
    return np.array([np.mean(each) if each else np.nan for each in values])


def inner_degrees(graph: TypedGraph, edge_of: Longs, path: FactPath) -> list[int]:
    """Return D_v of the inner nodes of a path: those that two facts of it share.

    Args:
        graph: the graph.
        edge_of: some edge of each fact.
        path: its facts.
    """
    ends = [{int(graph.src[edge_of[fact]]), int(graph.dst[edge_of[fact]])} for fact in path]
    return [
        int(graph.degree[node])
        for one, next_one in pairwise(ends)
        for node in sorted(one & next_one)[:1]
    ]


def label_facts(
    graph: TypedGraph, labels: Labels, pairs: Sequence[tuple[int, int]]
) -> list[list[FactPath]]:
    """The labelled paths of links, as facts."""
    return [[facts_of_triples(graph, path) for path in labels[pair]] for pair in pairs]


def supportable(ground: Ground, labels: Sequence[Sequence[FactPath]]) -> npt.NDArray[np.bool_]:
    """Per link, whether some labelled path has a positive effect."""
    link = [i for i, paths in enumerate(labels) for _ in paths]
    effects = ground.effects(link, [path for paths in labels for path in paths])
    found = np.zeros(len(labels), dtype=np.bool_)
    np.logical_or.at(found, np.array(link, dtype=np.int64), effects > 0)
    return found
