"""All figures of one explainer on a stage, link by link, and their sums over the links."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from pagelink.bench.faithfulness.measures import PerLink, measure
from pagelink.bench.faithfulness.rankings import COUNTS, MAIN
from pagelink.bench.paper.reference import BUDGETS
from pagelink.bench.paper.stage import Stage, link_edges
from pagelink.explain.result import Explanation
from pagelink.metrics.averages import average, coverage_of
from pagelink.metrics.labels import mask_auc, mask_auc_unpruned, path_hit
from pagelink.metrics.paths import diversity, labelled_rates, path_precision, path_recall, sparsity
from pagelink.metrics.worth import characterisation, fidelity, pooled_sufficiency, share_of_greedy
from pagelink.rivals.ground import Ground, Ranked, facts_of
from pagelink.runtime.arrays import Doubles

MOST = max(COUNTS)
PRUNED = -1.0
"""Score of pruned edges, below every mask."""
UNANSWERED = {
    "auc": 0.5, "auc unpruned": 0.5, **{f"hit rate@{b}": 0.0 for b in BUDGETS},
    "precision": 0.0, "recall": 0.0, **{f"effect@{n}": 0.0 for n in COUNTS},
    "connection": 0.0, "characterisation": None, "sparsity": None, "length": None,
    "log degree": None, "diversity": None, "paths": 0.0,
}  # fmt: skip
"""What a link without the figure counts as; None: the mean is over the links that have it."""


def edge_scores(ground: Ground, link: int, explanation: Explanation) -> Doubles:
    """The mask over the unpruned computation graph of a link; pruned edges share the lowest."""
    graph, edges = ground.explainer.graph, link_edges(ground, link)
    scores = np.full(len(edges), PRUNED)
    for position, edge_type in enumerate(graph.edge_types[: graph.num_relations]):
        columns, values = explanation.edge_mask.stored(edge_type)
        dense = np.full(graph.mask_sizes[position], PRUNED)
        dense[columns] = values
        mine = graph.relation[edges] == position
        scores[mine] = dense[graph.column[edges[mine]]]
    return scores


def mask_figures(scores: Doubles, labelled: Sequence[npt.NDArray[np.int64]]) -> dict[str, float]:
    """How a mask of one link agrees with its labelled paths."""
    positive = np.zeros(len(scores), dtype=np.bool_)
    positive[np.concatenate(labelled)] = True
    unpruned, _ = mask_auc_unpruned(scores, positive, scores > PRUNED)
    return {
        "auc": mask_auc(scores, positive),
        "auc unpruned": unpruned,
        **{f"hit rate@{b}": path_hit(scores, labelled, b) for b in BUDGETS},
    }


def link_figures(
    stage: Stage,
    paths: Mapping[int, Ranked],
    explanations: Sequence[Explanation] | None,
    greedy: Doubles,
    seed: int,
    links: int | None = None,
) -> tuple[PerLink, list[str]]:
    """Measure one explainer on every link.

    Args:
        stage: the model and its links.
        paths: by number of paths, the answers.
        explanations: with the masks; None: there is no mask.
        greedy: [num_links], the effect of the greedy search at `MAIN` paths.
        seed: of the control pairs.
        links: the first so many links only.

    Returns:
        By figure, one number per link; and the verdicts.
    """
    parts: list[PerLink] = []
    verdicts: list[str] = []
    for number, (ground, here) in enumerate(stage.cut(links)):
        mine = {count: paths[count][here] for count in COUNTS}
        labels = None if stage.labels is None else stage.labels[number][: ground.num_links]
        rows, said = measure(ground, mine, greedy[here], labels, seed)
        verdicts += said
        rows |= _necessary_and_sufficient(ground, mine[MAIN])
        shown = None if explanations is None else explanations[here]
        rows |= _shapes(ground, mine[MAIN], shown)
        if labels is not None:
            rows["precision"] = np.array(
                [path_precision(p, of) for p, of in zip(mine[MOST], labels, strict=True)]
            )
            rows["recall"] = np.array(
                [path_recall(p, of) for p, of in zip(mine[MOST], labels, strict=True)]
            )
            if shown is not None:
                known = stage.label_positions[number]
                found = [
                    mask_figures(edge_scores(ground, link, one), known[link])
                    for link, one in enumerate(shown)
                ]
                rows |= {name: np.array([each[name] for each in found]) for name in found[0]}
        parts.append(rows)
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}, verdicts


def _necessary_and_sufficient(ground: Ground, shown: Ranked) -> PerLink:
    every = list(range(ground.num_links))
    sets = ground.edits(every, [facts_of(paths) for paths in shown])
    without = ground.influence.logits(ground.whole, sets)
    only = ground.influence.logits(np.zeros_like(ground.whole), sets)
    plus, minus = fidelity(ground.logits, without, only)
    score = characterisation(plus, minus)
    # Nothing removed and nothing kept is no explanation that could be characterised.
    none = np.array([not paths for paths in shown])
    return {"characterisation": np.where(none, np.nan, score)}


def _shapes(ground: Ground, shown: Ranked, explanations: Sequence[Explanation] | None) -> PerLink:
    spare = []
    graph = ground.explainer.graph
    for link, paths in enumerate(shown):
        edges = link_edges(ground, link)
        if explanations is not None:
            edges = edges[edge_scores(ground, link, explanations[link]) > PRUNED]
        left = set(graph.fact[edges].tolist())
        spare.append(sparsity(paths, left | set(facts_of(paths))))
    return {
        "sparsity": np.array(spare),
        "diversity": np.array([diversity(paths) for paths in shown]),
    }


def summed_up(
    rows: PerLink,
    verdicts: Sequence[str],
    reasons: Sequence[str | None],
    greedy: Mapping[str, Sequence[float]],
) -> dict[str, Any]:
    """Means and shares over the links, ready for JSON.

    Args:
        rows: as `link_figures` gives them.
        verdicts: one per link.
        reasons: one per link, None if there is none.
        greedy: of the greedy search, `effect@n` and `added` of the links, and `supportable`.
    """
    size = len(verdicts)
    found: dict[str, Any] = {"links": size}
    for name, unanswered in UNANSWERED.items():
        if name in rows:
            mean = average(rows[name], unanswered=unanswered)
            found[name] = plain(mean.value)
            found[f"{name}: links without"] = mean.num_unanswered
    for count in COUNTS:
        bound = np.asarray(greedy[f"effect@{count}"][:size])
        found[f"share@{count}"] = plain(share_of_greedy(rows[f"effect@{count}"], bound)[0])
        if "supportable" in greedy:
            rates = labelled_rates(rows[f"hit@{count}"], np.asarray(greedy["supportable"][:size]))
            found[f"label@{count}"] = plain(rates.every.value)
            found[f"label@{count} supportable"] = plain(rates.supportable.value)
            found["links supportable"] = rates.supportable.num_links
    span, added = rows["span"], rows["added"]
    bound = np.asarray(greedy["added"][:size])
    found["sufficiency share"] = plain(share_of_greedy(added, bound)[0])
    share, undefined = pooled_sufficiency(span, np.zeros(size), added)
    found["sufficiency"], found["sufficiency: links without"] = plain(share), undefined
    covered = coverage_of(rows["paths"].astype(int).tolist(), verdicts, reasons)
    found["coverage"] = covered.with_paths
    found["verdicts"] = covered.verdicts
    found["reasons"] = {name: share for name, share in covered.reasons.items() if share}
    return found


def plain(value: float) -> float | None:
    """A number for JSON: six digits, None for none."""
    return None if math.isnan(value) else float(f"{value:.6g}")


def plain_list(values: npt.ArrayLike) -> list[float | None]:
    """Numbers for JSON."""
    return [plain(float(value)) for value in np.asarray(values, dtype=np.float64)]
