"""The first figures: the paper's released data and weights, explained and scored by its labels."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pagelink.datasets.ground_truth import LabelPath
from pagelink.datasets.reference import ReferenceData
from pagelink.explain.explainer import PaGELink
from pagelink.explain.result import Explanation, Path
from pagelink.graph.lookup import edges_of_triples, triple_of
from pagelink.metrics.labels import degree_only_mask, mask_auc, path_hit
from pagelink.metrics.paths import labelled_in_first
from pagelink.runtime.arrays import Doubles, Ints
from pagelink.search.paths import allowed_facts, best_paths, build_path_graphs
from pagelink.settings import Settings

BUDGETS = (10, 50, 100, 200)
FIRST = (1, 3, 5, 10)
MODEL_FREE_PATHS = 10_000
"""More than any pair of the data has."""

Figures = Mapping[str, float]
Progress = Callable[[str], None]


@dataclass(frozen=True)
class Row:
    """One line of the table: what was run, and its figures for each seed."""

    name: str
    seeds: tuple[Figures, ...]

    def mean(self, figure: str) -> float:
        """Mean over the seeds; NaN where the row has no such figure."""
        return float(np.mean([seed.get(figure, np.nan) for seed in self.seeds]))

    def spread(self, figure: str) -> tuple[float, float]:
        """Lowest and highest over the seeds."""
        values = [seed.get(figure, np.nan) for seed in self.seeds]
        return float(np.min(values)), float(np.max(values))


PAPER_ROW = Row(
    "paper, PaGE-Link",
    ({"auc": 0.954, "hit@10": 0.163, "hit@50": 0.705, "hit@100": 0.790, "hit@200": 0.907},),
)


def variants() -> dict[str, Settings]:
    """The settings that are compared; the first is the paper's, the second ours."""
    released = Settings.paper("useritemattr")
    ours = Settings(num_paths=max(FIRST), measure=False)
    return {
        "released settings": released,
        "ours": ours,
        "released settings, before learning": released.replace(epochs=0),
        "released settings, without L_path": released.replace(alpha=0.0, beta=0.0),
        "released settings, without L_pred": released.replace(pred_weight=0.0),
        "ours, before learning": ours.replace(epochs=0),
        "ours, without L_path": ours.replace(alpha=0.0, beta=0.0, patience=None),
        "ours, without L_pred": ours.replace(pred_weight=0.0),
    }


def run(
    reference: ReferenceData,
    seeds: Sequence[int],
    progress: Progress = lambda name: None,
    links: int | None = None,
) -> list[Row]:
    """Explain the predicted test links with every variant and seed; return the rows of the table.

    Args:
        reference: the released data.
        seeds: explainer seeds.
        progress: called with the name of each variant and seed when it is done.
        links: only the first so many links. None: all.
    """
    pairs = reference.test_links[:links]
    scorer: Scorer | None = None
    rows = []
    for name, settings in variants().items():
        figures = []
        for seed in seeds:
            explainer = PaGELink(
                reference.model, reference.data, reference.link_type, settings, seed
            )
            scorer = scorer or Scorer(explainer, reference, pairs)
            started = time.process_time()
            explanations = list(explainer.explain_many(pairs))
            seconds = (time.process_time() - started) / len(pairs)
            figures.append({**scorer.score(explanations), "cpu": seconds})
            progress(f"{name}, seed {seed}")
        rows.append(Row(name, tuple(figures)))
    assert scorer is not None
    rows.append(Row("no model, degree only", (scorer.score_degree_only(),)))
    progress("no model, degree only")
    return [*rows, PAPER_ROW]


class Scorer:
    """Scores explanations of the same links against the labels."""

    def __init__(
        self, explainer: PaGELink, reference: ReferenceData, pairs: Sequence[tuple[int, int]]
    ) -> None:
        graph = explainer.graph
        self._graph = graph
        self._pairs = pairs
        self._labels = [reference.labels[pair] for pair in pairs]
        src_type, _, dst_type = reference.link_type
        ends = np.array([[graph.flat_index(src_type, s), graph.flat_index(dst_type, t)]
                         for s, t in pairs])  # fmt: skip
        nothing = np.full(len(pairs), -1)
        self._batch = explainer.extractor.extract(ends[:, 0], ends[:, 1], nothing)
        self._label_edges = [self._positions(i) for i in range(len(pairs))]

    def score(self, explanations: Sequence[Explanation]) -> dict[str, float]:
        """Means over the links; a link without paths counts as a miss."""
        masks = [self._mask(i, explanation) for i, explanation in enumerate(explanations)]
        paths = [[_steps(path) for path in explanation.paths] for explanation in explanations]
        covered = float(np.mean([bool(explanation.paths) for explanation in explanations]))
        return {**self._score_masks(masks), **self._score_paths(paths), "coverage": covered}

    def score_degree_only(self) -> dict[str, float]:
        """The row that never looks at a model: cheapest paths by degree alone."""
        started = time.process_time()
        graph, batch = self._graph, self._batch
        ranked = build_path_graphs(graph, batch, allowed_facts(graph, batch, None), 3)
        no_mask = np.full(len(ranked.arc_slot), np.inf, dtype=np.float32)
        found = best_paths(ranked, no_mask, MODEL_FREE_PATHS)
        masks, paths = [], []
        for i in range(batch.num_links):
            count = int((found.lengths[i] > 0).sum())
            slots = [ranked.arc_slot[found.arcs[i, j, : found.lengths[i, j]]] for j in range(count)]
            positions = [(slot - batch.edge_ptr[i]).tolist() for slot in slots]
            masks.append(degree_only_mask(positions, int(np.diff(batch.edge_ptr)[i])))
            paths.append([self._steps_of_edges(batch.edges[slot]) for slot in slots[: max(FIRST)]])
        seconds = (time.process_time() - started) / batch.num_links
        covered = float(np.mean([bool(p) for p in paths]))
        return {
            **self._score_masks(masks), **self._score_paths(paths), "coverage": covered,
            "cpu": seconds,
        }  # fmt: skip

    def score_visible(self) -> dict[str, float]:
        """The row that only knows which edges can move the score at all: 1 for these, 0 else."""
        batch = self._batch
        parts = np.split(batch.visible.astype(np.float64), batch.edge_ptr[1:-1])
        return self._score_masks(parts)

    def _score_masks(self, masks: Sequence[Doubles]) -> dict[str, float]:
        auc, hits = [], []
        for mask, paths in zip(masks, self._label_edges, strict=True):
            positive = np.zeros(len(mask), dtype=bool)
            positive[np.concatenate(paths)] = True
            auc.append(mask_auc(mask, positive))
            hits.append([path_hit(mask, paths, budget) for budget in BUDGETS])
        rates = np.mean(hits, axis=0)
        return {
            "auc": float(np.mean(auc)),
            **{f"hit@{b}": float(rate) for b, rate in zip(BUDGETS, rates, strict=True)},
        }

    def _score_paths(self, paths: Sequence[Sequence[LabelPath]]) -> dict[str, float]:
        return {
            f"first {n}": float(
                np.mean(
                    [
                        labelled_in_first(p, labels, n)
                        for p, labels in zip(paths, self._labels, strict=True)
                    ]
                )
            )
            for n in FIRST
        }

    def _mask(self, link: int, explanation: Explanation) -> Doubles:
        """The mask over the unpruned computation graph; pruned edges share the lowest score."""
        graph, batch = self._graph, self._batch
        edges = batch.edges[batch.edge_ptr[link] : batch.edge_ptr[link + 1]]
        mask = np.full(len(edges), -1.0)
        for position, edge_type in enumerate(graph.edge_types[: graph.num_relations]):
            columns, values = explanation.edge_mask.stored(edge_type)
            dense = np.full(graph.mask_sizes[position], -1.0)
            dense[columns] = values
            mine = graph.relation[edges] == position
            mask[mine] = dense[graph.column[edges[mine]]]
        return mask

    def _positions(self, link: int) -> list[list[int]]:
        """The edges of each labelled path of a link, as walked, by position in its graph."""
        batch = self._batch
        edges = batch.edges[batch.edge_ptr[link] : batch.edge_ptr[link + 1]]
        return [
            np.searchsorted(edges, edges_of_triples(self._graph, path)).tolist()
            for path in self._labels[link]
        ]

    def _steps_of_edges(self, edges: Ints) -> LabelPath:
        return tuple(triple_of(self._graph, edge) for edge in edges)


def _steps(path: Path) -> LabelPath:
    return tuple(
        (*edge.type, src[1], dst[1])
        for edge, src, dst in zip(path.edges, path.nodes, path.nodes[1:], strict=False)
    )
