"""The models and links that the paper's benchmark explains, with their labels and the greedy bound.

What explainers share is made once: the links with all their paths, the labelled edges. The greedy
search is a run of its own, because every explainer is measured against it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from pagelink.bench.faithfulness.measures import label_facts
from pagelink.bench.faithfulness.rankings import make_explainer
from pagelink.bench.paper.plan import Plan
from pagelink.bench.subjects import RELEASED, Subject, load_subject
from pagelink.explain.explainer import PaGELink
from pagelink.graph.lookup import edges_of_triples
from pagelink.rivals.ground import FactPath, Ground
from pagelink.runtime.arrays import Longs
from pagelink.settings import Settings

MODEL_SEED = 0
QUICK_LINKS = 4


@dataclass(frozen=True)
class Dataset:
    """A data set of the benchmark."""

    name: str
    """The subject; see `load_subject`."""
    title: str
    published: str | None
    """The data set of the paper whose figures stand beside ours."""


def datasets(plan: Plan) -> list[Dataset]:
    """The data sets of a plan."""
    if plan.quick:
        return [Dataset("tiny-rgcn", "a tiny generated graph", "UserItemAttr")]
    found = [
        Dataset(RELEASED, "UserItemAttr, released data and weights", "UserItemAttr"),
        Dataset("useritemattr-rgcn", "UserItemAttr, generated and trained here", "UserItemAttr"),
        Dataset("augcitation-rgcn", "AugCitation from vispub-citation", "AugCitation"),
    ]
    if plan.aminer is not None:
        found.append(Dataset("aminer-rgcn", f"AugCitation from {plan.aminer.name}", "AugCitation"))
    return found


@dataclass
class Stage:
    """A model with the links to explain, ready for all explainers. It is loaded when first used."""

    dataset: Dataset
    plan: Plan
    given: Subject | None = None
    """The model, if it is not one of `load_subject`; `known_by` says which."""
    known_by: dict[str, Any] | None = None

    @property
    def key(self) -> dict[str, Any]:
        """What all figures of the data set depend on."""
        aminer = self.plan.aminer if self.dataset.name.startswith("aminer") else None
        return {
            "subject": self.dataset.name,
            "title": self.dataset.title,
            "published": self.dataset.published,
            "model seed": MODEL_SEED,
            "links at most": self.num_asked,
            "source": None if aminer is None else aminer.name,
            **(self.known_by or {}),
        }

    @property
    def num_asked(self) -> int:
        """Links at most. The released data are explained whole: the paper's figures are."""
        if self.plan.quick:
            return QUICK_LINKS
        return 129 if self.dataset.name == RELEASED else self.plan.links

    @cached_property
    def subject(self) -> Subject:
        """The model; it is trained if that was not done."""
        if self.given is not None:
            return self.given
        return load_subject(
            self.dataset.name, self.num_asked, MODEL_SEED, self.plan.models, self.plan.aminer
        )

    @cached_property
    def explainer(self) -> PaGELink:
        """An explainer whose graph and model the measuring uses."""
        return make_explainer(self.subject, Settings(), MODEL_SEED)

    @cached_property
    def grounds(self) -> list[Ground]:
        """The links in order, side by side."""
        return list(Ground.cut(self.explainer, self.subject.pairs))

    @cached_property
    def labels(self) -> list[list[list[FactPath]]] | None:
        """Per ground and link, the labelled paths as facts."""
        if self.subject.labels is None:
            return None
        return [
            label_facts(self.explainer.graph, self.subject.labels, ground.pairs())
            for ground in self.grounds
        ]

    @cached_property
    def label_positions(self) -> list[list[list[Longs]]]:
        """Per ground, link and labelled path, its edges as walked, by position in the link's graph.

        Empty where there are no labels.
        """
        labels = self.subject.labels
        if labels is None:
            return []
        graph = self.explainer.graph
        return [
            [
                [
                    np.flatnonzero(np.isin(link_edges(ground, link), edges_of_triples(graph, path)))
                    for path in labels[pair]
                ]
                for link, pair in enumerate(ground.pairs())
            ]
            for ground in self.grounds
        ]

    def cut(self, links: int | None) -> list[tuple[Ground, slice]]:
        """The grounds with the place of their links among the pairs, of the first so many links."""
        found, first = [], 0
        most = len(self.subject.pairs) if links is None else links
        for ground in self.grounds:
            if first >= most:
                break
            last = min(first + ground.num_links, most)
            if last - first < ground.num_links:
                ground = Ground.of(self.explainer, self.subject.pairs[first:last])
            found.append((ground, slice(first, last)))
            first = last
        return found


def link_edges(ground: Ground, link: int) -> Longs:
    """The edges of a link's computation graph, in its order."""
    first, last = ground.batch.edge_ptr[link : link + 2]
    return ground.batch.edges[first:last].astype(np.int64)


def stages(plan: Plan) -> list[Stage]:
    """One stage for each data set of a plan."""
    return [Stage(dataset, plan) for dataset in datasets(plan)]
