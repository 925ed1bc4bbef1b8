"""All figures of an explainer on its links, by one rule for every benchmark, and their averages.

A figure is one number per link. A new one is computed in `measure`, `shapes` or `against_labels`,
and entered in the columns of the table that shows it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from pagelink.bench import power_link
from pagelink.bench.answers import COUNTS, MAIN
from pagelink.bench.runs import plain
from pagelink.datasets.ground_truth import Labels
from pagelink.explain.result import Explanation
from pagelink.graph.lookup import facts_of_triples, first_edges_of_facts
from pagelink.graph.typed_graph import TypedGraph
from pagelink.measure.controls import PATH, PLACEBO, SET, control_of
from pagelink.measure.swaps import JobList, draw, swapped_logits
from pagelink.measure.verdict import (
    DegreeControl,
    Verdict,
    connection,
    stand_in,
    sufficiency,
    verdict_of,
)
from pagelink.metrics.averages import average, bootstrap_interval, coverage_of
from pagelink.metrics.labels import mask_auc, mask_auc_unpruned, path_hit
from pagelink.metrics.paths import (
    diversity,
    labelled_rates,
    mean_length,
    mean_log_degree,
    num_distinct,
    path_precision,
    path_recall,
    sparsity,
)
from pagelink.metrics.worth import (
    characterisation,
    pooled_sufficiency,
    probability_fidelity,
    share_of_greedy,
)
from pagelink.rivals.ground import PRUNED, FactPath, Ground, Ranked, edge_scores, facts_of
from pagelink.runtime.arrays import Bools, Doubles, Longs

SWAPS = 20
BUDGETS = (10, 50, 100, 200)
EFFECT = f"effect@{MAIN}"
PerLink = dict[str, Doubles]
"""By figure, one number per link; NaN where it is not defined."""
Columns = Sequence[tuple[str, str, int]]
"""Heading, figure, digits."""
LABELS: Columns = (
    ("AUC", "auc", 3), ("AUC unpruned", "auc unpruned", 3),
    ("HR@10", "hit rate@10", 3), ("HR@50", "hit rate@50", 3), ("HR@100", "hit rate@100", 3),
    ("HR@200", "hit rate@200", 3), ("label in 1", "label@1", 3), ("3", "label@3", 3),
    ("5", "label@5", 3), ("supportable: 1", "label@1 supportable", 3),
    ("3", "label@3 supportable", 3), ("5", "label@5 supportable", 3),
    ("precision", "precision", 3), ("recall", "recall", 3),
)  # fmt: skip
WORTH: Columns = (
    ("share 1", "share@1", 3), ("3", "share@3", 3), ("5", "share@5", 3),
    ("sufficiency", "sufficiency", 3), ("as a share", "sufficiency share", 3),
    ("connection", "connection", 3), ("characterisation", "characterisation", 3),
)  # fmt: skip
SHAPE: Columns = (
    ("paths", "paths", 2), ("length", "length", 2), ("log degree", "log degree", 2),
    ("sparsity", "sparsity", 3), ("inner nodes", "inner nodes", 2),
    ("metapaths", "metapaths", 2), ("diversity", "diversity", 3), ("coverage", "coverage", 3),
)  # fmt: skip
UNANSWERED = {
    "auc": 0.5, "auc unpruned": 0.5, **{f"hit rate@{b}": 0.0 for b in BUDGETS},
    "precision": 0.0, "recall": 0.0, **{f"effect@{n}": 0.0 for n in COUNTS},
    "connection": 0.0, "characterisation": None, "sparsity": None, "length": None,
    "log degree": None, "diversity": None, "paths": 0.0, "inner nodes": None, "metapaths": None,
    **{figure: None for _, figure, _ in power_link.COLUMNS},
}  # fmt: skip
"""What a link without the figure counts as; None: the mean is over the links that have it."""


def measure(
    ground: Ground,
    paths: Mapping[int, Ranked],
    greedy: Doubles,
    labels: Sequence[Sequence[FactPath]] | None,
    seed: int,
) -> tuple[PerLink, list[Verdict]]:
    """Measure what the answers of one ranking are worth to the model.

    Args:
        ground: the links.
        paths: by number of paths, the answer for each link.
        greedy: [num_links], the effect of the greedy search at `MAIN` paths.
        labels: per link, its labelled paths; None: there are no labels.
        seed: of the swaps.

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
            rows[f"hit@{count}"] = labelled(paths[count], labels)
    shown = paths[MAIN]
    bare = ground.bare_logits
    added = bare + ground.gains(every, [facts_of(p) for p in shown])
    noise = ground.explainer.setup.noise
    rows["span"], rows["added"] = ground.logits - bare, added - bare
    rows["sufficiency"] = sufficiency(ground.logits, bare, added, noise)
    rows["connection"], controls = swapped(ground, shown, seed)
    rows["paths"] = np.array([float(len(p)) for p in shown])
    rows["length"] = np.array([mean_length(p) for p in shown])
    graph = ground.explainer.graph
    edge_of = first_edges_of_facts(graph)
    rows["log degree"] = np.array(
        [mean_log_degree(inner_degrees(graph, edge_of, path) for path in p) for p in shown]
    )
    removed = np.maximum(greedy, rows[EFFECT])
    inserted = stand_in(rows["span"], removed, rows["added"])
    influence = np.where(inserted, rows["added"], rows[EFFECT])
    verdicts = [
        # Where influence is by insertion, swaps in the whole graph say nothing.
        verdict_of(logit, without, moved, largest, noise, None if by_gain else control)
        for logit, without, moved, largest, by_gain, control in zip(
            *(values.tolist() for values in (ground.logits, bare, influence, np.abs(greedy))),
            inserted.tolist(),
            controls,
            strict=True,
        )
    ]
    return rows, verdicts


def labelled(paths: Ranked, labels: Sequence[Sequence[FactPath]]) -> Doubles:
    """Per link, 1 if one of its paths is a labelled one, else 0."""
    return np.array([float(bool({*p} & {*of})) for p, of in zip(paths, labels, strict=True)])


def swapped(
    ground: Ground, ranked: Ranked, seed: int
) -> tuple[Doubles, list[DegreeControl | None]]:
    """Per link, the mean connection of its paths, NaN where it has none, and its degree control."""
    batch, jobs = ground.batch, JobList(ground.graphs, seed)
    for link, paths in enumerate(ranked):
        slots = [
            np.array([int(ground.slots(link, [fact])[0]) for fact in path], dtype=np.int64)
            for path in paths
        ]
        if slots:
            jobs.add(link, np.concatenate(slots), SWAPS, SET)
            jobs.add_placebos(link, np.concatenate(slots), SWAPS, PLACEBO)
        for place, path in enumerate(slots):
            jobs.add_inner(link, path, SWAPS, PATH + place)
    listed = jobs.listed()
    swaps = draw(ground.graphs, listed, ground.explainer.settings.max_length, seed)
    after = swapped_logits(ground.explainer.setup, batch, ground.relation, listed, swaps)
    link_of, key = listed.link[swaps.job], listed.key[swaps.job]
    lost = ground.logits[link_of] - after
    controls = [
        control_of(lost[(link_of == link) & (key == SET)],
                   lost[(link_of == link) & (key >= PLACEBO)])
        for link in range(len(ranked))
    ]  # fmt: skip
    result = np.full(len(ranked), np.nan)
    inner = (key >= PATH) & (key < PLACEBO)
    for link in np.unique(link_of[inner]).tolist():
        effects = ground.effects([link] * len(ranked[link]), ranked[link])
        mine = inner & (link_of == link)
        shares = [
            float(connection(effects[place - PATH], lost[mine & (key == place)].mean()))
            for place in np.unique(key[mine]).tolist()
            if effects[place - PATH] > ground.explainer.setup.noise
        ]
        result[link] = np.mean(shares) if shares else np.nan
    return result, controls


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


def shapes(ground: Ground, shown: Ranked, rows: PerLink, scores: Sequence[Doubles]) -> PerLink:
    """Characterisation, sparsity and diversity of the `MAIN` paths of each link, and `kinds`.

    Args:
        ground: the links.
        shown: their paths.
        rows: as `measure` returns them.
        scores: the mask of each link as scores of its edges; none for a ranking without masks.
    """
    every, graph = list(range(ground.num_links)), ground.explainer.graph
    sets = ground.edits(every, [facts_of(paths) for paths in shown])
    only = ground.influence.logits(np.zeros_like(ground.whole), sets)
    score = characterisation(
        *probability_fidelity(ground.logits, ground.logits - rows[EFFECT], only)
    )
    spare = []
    for link, paths in enumerate(shown):
        edges = ground.edges(link)
        left = graph.fact[edges[scores[link] > PRUNED] if scores else edges]
        spare.append(sparsity(paths, {*left.tolist(), *facts_of(paths)}))
    return {
        # Nothing removed and nothing kept is no explanation that could be characterised.
        "characterisation": np.where([not paths for paths in shown], np.nan, score),
        "sparsity": np.array(spare),
        "diversity": np.array([diversity(paths) for paths in shown]),
        **kinds(ground, shown),
    }


def kinds(ground: Ground, shown: Ranked) -> PerLink:
    """The numbers of different inner nodes and of different metapaths of each link's paths."""
    graph = ground.explainer.graph
    edge_of = first_edges_of_facts(graph)
    nodes, metapaths = [], []
    for link, paths in zip(ground.links, shown, strict=True):
        walks = [walked(graph, edge_of, link.src, path) for path in paths]
        nodes.append(num_distinct(inner for inner, _ in walks))
        metapaths.append(num_distinct([metapath] for _, metapath in walks))
    return {"inner nodes": np.array(nodes), "metapaths": np.array(metapaths)}


def walked(
    graph: TypedGraph, edge_of: Longs, src: int, path: FactPath
) -> tuple[list[int], tuple[tuple[int, bool], ...]]:
    """Walk a path from its source.

    Args:
        graph: the graph.
        edge_of: some edge of each fact.
        src: where it starts.
        path: its facts.

    Returns:
        Its inner nodes, and its metapath: of each fact the relation, and whether it is walked
        backwards.
    """
    nodes, steps, here = [], [], src
    for fact in path:
        edge = int(edge_of[fact])
        back = int(graph.src[edge]) != here
        here = int(graph.src[edge] if back else graph.dst[edge])
        nodes.append(here)
        steps.append((int(graph.relation[edge]), back))
    return nodes[:-1], tuple(steps)


def against_labels(paths: Ranked, labels: Sequence[Sequence[FactPath]]) -> PerLink:
    """Precision and recall of the paths of each link."""
    both = list(zip(paths, labels, strict=True))
    return {
        "precision": np.array([path_precision(*one) for one in both]),
        "recall": np.array([path_recall(*one) for one in both]),
    }


def mask_scores(ground: Ground, explanations: Sequence[Explanation]) -> list[Doubles]:
    """Per link, its mask as scores over the edges of its unpruned computation graph."""
    graph = ground.explainer.graph
    return [
        edge_scores(graph, ground.edges(link), explanation.edge_mask)
        for link, explanation in enumerate(explanations)
    ]


def masks_against_labels(
    scores: Iterable[Doubles], positions: Sequence[Sequence[Longs]]
) -> PerLink:
    """How the mask of each link agrees with its labelled paths: ROC-AUC and hit rates.

    Args:
        scores: of each link, one score per edge of its computation graph.
        positions: of each link and labelled path, its edges by position in that graph.
    """
    found = []
    for mask, paths in zip(scores, positions, strict=True):
        positive = np.zeros(len(mask), dtype=np.bool_)
        positive[np.concatenate(paths)] = True
        unpruned, _ = mask_auc_unpruned(mask, positive, mask > PRUNED)
        hits = [path_hit(mask, paths, budget) for budget in BUDGETS]
        found.append([mask_auc(mask, positive), unpruned, *hits])
    names = ("auc", "auc unpruned", *(f"hit rate@{budget}" for budget in BUDGETS))
    return dict(zip(names, np.array(found).T, strict=True))


def joined(parts: Sequence[PerLink]) -> PerLink:
    """The links of several parts, one after the other."""
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def label_facts(
    graph: TypedGraph, labels: Labels, pairs: Sequence[tuple[int, int]]
) -> list[list[FactPath]]:
    """The labelled paths of links, as facts."""
    return [[facts_of_triples(graph, path) for path in labels[pair]] for pair in pairs]


def supportable(ground: Ground, labels: Sequence[Sequence[FactPath]]) -> Bools:
    """Per link, whether some labelled path has a positive effect."""
    link = [i for i, paths in enumerate(labels) for _ in paths]
    effects = ground.effects(link, [path for paths in labels for path in paths])
    found = np.zeros(len(labels), dtype=np.bool_)
    np.logical_or.at(found, np.array(link, dtype=np.int64), effects > 0)
    return found


def with_interval(values: Doubles, over: Doubles, seed: int = 0) -> tuple[float, float, float]:
    """A ratio of sums over links with the ends of its bootstrap interval; NaN without a ratio."""
    total = float(over.sum())
    if total <= 0:
        return math.nan, math.nan, math.nan
    return (float(values.sum()) / total, *bootstrap_interval(values, seed, over=over))


def summed_up(
    rows: PerLink,
    verdicts: Sequence[str],
    reasons: Sequence[str | None],
    greedy: Mapping[str, Sequence[float] | Doubles],
) -> dict[str, Any]:
    """Means and shares over the links, ready for JSON.

    Args:
        rows: the figures of the links.
        verdicts: one per link.
        reasons: one per link, None if there is none.
        greedy: of the greedy search, `effect@n` and `added` of the links, and `supportable`.
    """
    size = len(verdicts)
    bound = {name: np.asarray(values[:size]) for name, values in greedy.items()}
    found: dict[str, Any] = {"links": size}
    for name, unanswered in UNANSWERED.items():
        if name in rows:
            mean = average(rows[name], unanswered=unanswered)
            found[name] = plain(mean.value)
            found[f"{name}: links without"] = mean.num_unanswered
    for count in COUNTS:
        effect = f"effect@{count}"
        found[f"share@{count}"] = plain(share_of_greedy(rows[effect], bound[effect])[0])
        if "supportable" in bound:
            rates = labelled_rates(rows[f"hit@{count}"], bound["supportable"])
            found[f"label@{count}"] = plain(rates.every.value)
            found[f"label@{count} supportable"] = plain(rates.supportable.value)
            found["links supportable"] = rates.supportable.num_links
    found["sufficiency share"] = plain(share_of_greedy(rows["added"], bound["added"])[0])
    share, undefined = pooled_sufficiency(rows["span"], np.zeros(size), rows["added"])
    found["sufficiency"], found["sufficiency: links without"] = plain(share), undefined
    covered = coverage_of(rows["paths"].astype(int).tolist(), verdicts, reasons)
    found["coverage"] = covered.with_paths
    found["verdicts"] = covered.verdicts
    found["reasons"] = {name: share for name, share in covered.reasons.items() if share}
    return found
