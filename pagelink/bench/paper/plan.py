"""How the paper's benchmark works: the plan, its data sets, and parts that do runs and show them.

A part is a module with a `Part`: what it does on each data set and what it does once, both through
a `Session`, and the tables and plots that it makes of its stored runs alone. It is entered in
`runner.PARTS`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from pagelink.bench.answers import DEFAULT, make_explainer
from pagelink.bench.measures import label_facts
from pagelink.bench.paper.report import Plot, Table
from pagelink.bench.runs import Figures, Run, RunStore
from pagelink.bench.subjects import AMINER, KNOWLEDGE, RELEASED, Subject, load_subject
from pagelink.datasets.folders import DataNotFoundError
from pagelink.explain.explainer import PaGELink
from pagelink.graph.lookup import edges_of_triples
from pagelink.rivals.greedy import MOST_PATHS
from pagelink.rivals.ground import FactPath, Ground
from pagelink.runtime.arrays import Longs
from pagelink.settings import Settings

Progress = Callable[[str], None]
"""Called with what comes next."""
PER_LINK = "per link"
"""Where the figures of a run keep one number per link. Published results go without, so tables and
plots are made from the others alone; what needs links (an interval) is a figure of its own."""
GENERATED, CITATION, TINY = "useritemattr-rgcn", "augcitation-rgcn", "tiny-rgcn"
OWN_CITATION = f"{AMINER}-rgcn"
TITLES = {
    RELEASED: "UserItemAttr, released",
    GENERATED: "UserItemAttr, generated",
    CITATION: "AugCitation (vispub)",
    OWN_CITATION: "AugCitation (own citation graph)",
    KNOWLEDGE: "FB15k-237",
    TINY: "tiny",
}
LONG_TITLES = {
    RELEASED: "UserItemAttr, released data and weights",
    GENERATED: "UserItemAttr, generated and trained here",
    CITATION: "AugCitation from vispub-citation",
    KNOWLEDGE: "FB15k-237, RGCN with DistMult for all relations",
    TINY: "a tiny generated graph",
}
QUICK_LINKS, RELEASED_LINKS = 4, 129
FEW_PATHS = 200
DATA_SEED = 0
"""Of graphs, models and the choice of links; explainer seeds are another matter."""


@dataclass(frozen=True)
class Plan:
    """How much is to be run."""

    models: Path
    """Folder of trained models; what it lacks is trained and put there."""
    seeds: int = 5
    """Explainer seeds, from 0 up."""
    links: int = 200
    """Links of a data set at most."""
    quick: bool = False
    """Tiny generated graphs, to see that it runs."""
    only: tuple[str, ...] = ()
    """Data sets to run, by the names of `TITLES`; none: all."""
    without: tuple[str, ...] = ()
    """Explainers that the parts `explainers`, `connection` and `cases` do without."""
    aminer: Path | None = None
    """The public AMiner file (one JSON object per line), or a citation graph as a folder of
    tables."""
    say: Callable[[str], None] = lambda words: None
    """Called with what a reader must know, such as data that are not there."""

    @property
    def seed_list(self) -> range:
        """The explainer seeds."""
        return range(self.seeds)

    def chosen(self, names: Iterable[str]) -> tuple[str, ...]:
        """Those explainers that are not left out."""
        return tuple(name for name in names if name not in self.without)


@dataclass
class Dataset:
    """A data set with a model, links to explain and their labels, loaded when first used.

    What explainers share is made once: the links with all their paths, and the labelled edges.
    """

    name: str
    """The subject; see `load_subject`."""
    plan: Plan
    given: Subject | None = None
    """The model, if it is not one of `load_subject`; `known_by` says which."""
    known_by: dict[str, Any] | None = None

    @property
    def source(self) -> str | None:
        """The citation graph that was given, if it is built from it."""
        if self.name == OWN_CITATION and self.plan.aminer is not None:
            return self.plan.aminer.name
        return None

    @property
    def title(self) -> str:
        """The data set in words."""
        return LONG_TITLES.get(self.name, f"AugCitation from {self.source}")

    @property
    def published(self) -> str | None:
        """The data set of the paper whose figures stand beside ours."""
        if self.given is not None or self.name == KNOWLEDGE:
            return None
        return "AugCitation" if self.name in (CITATION, OWN_CITATION) else "UserItemAttr"

    @property
    def key(self) -> dict[str, Any]:
        """What all figures of the data set depend on, known before it is loaded."""
        return {
            "subject": self.name,
            "title": self.title,
            "published": self.published,
            "model seed": DATA_SEED,
            "links at most": self.links_at_most,
            "source": self.source,
            **(self.known_by or {}),
        }

    def key_of(self, links: int | None = None, **more: Any) -> dict[str, Any]:
        """The same by its very links, or the first of them, with what else is given."""
        pairs = self.subject.pairs[:links]
        told = hashlib.sha256(repr(pairs).encode()).hexdigest()[:16]
        return {
            "data": self.name, "data_seed": DATA_SEED, "links": len(pairs), "pairs": told, **more,
        }  # fmt: skip

    @property
    def links_at_most(self) -> int:
        """Links at most. The released data are explained whole: the paper's figures are."""
        if self.plan.quick:
            return min(self.plan.links, QUICK_LINKS)
        return RELEASED_LINKS if self.name == RELEASED else self.plan.links

    @property
    def greedy_paths(self) -> int:
        """Paths of a link that the greedy search tries: fewer where a pass takes long."""
        return FEW_PATHS if self.plan.quick or self.name == KNOWLEDGE else MOST_PATHS

    @cached_property
    def subject(self) -> Subject:
        """The model; it is trained if that was not done.

        Raises:
            DataNotFoundError: the data are not there.
        """
        if self.given is not None:
            return self.given
        return load_subject(
            self.name, self.links_at_most, DATA_SEED, self.plan.models, self.plan.aminer
        )

    @cached_property
    def paper_settings(self) -> Settings:
        """The released settings of the data set, for paths of any length they allow."""
        return Settings.paper((self.published or "UserItemAttr").lower())

    @cached_property
    def explainer(self) -> PaGELink:
        """An explainer whose graph and model the measuring uses."""
        return make_explainer(self.subject, DEFAULT, Settings(), DATA_SEED)

    @cached_property
    def grounds(self) -> list[Ground]:
        """The links in order, side by side."""
        return list(Ground.cut(self.explainer, self.subject.pairs))

    def cut(self, links: int | None = None) -> Iterator[tuple[Ground, slice]]:
        """Yield the grounds with the place of their links among the pairs.

        Args:
            links: only this number of links. None: all.
        """
        first, most = 0, len(self.subject.pairs[:links])
        for ground in self.grounds:
            if first >= most:
                return
            last = min(first + ground.num_links, most)
            if last - first < ground.num_links:
                ground = Ground.of(self.explainer, self.subject.pairs[first:last])
            yield ground, slice(first, last)
            first = last

    @cached_property
    def labels(self) -> list[list[FactPath]] | None:
        """Per link, the labelled paths as facts; None if the data set has no labels."""
        if self.subject.labels is None:
            return None
        return label_facts(self.explainer.graph, self.subject.labels, self.subject.pairs)

    @cached_property
    def label_positions(self) -> list[list[Longs]]:
        """Per link and labelled path, its edges as walked, by position in the link's graph.

        Empty where there are no labels.
        """
        labels, graph = self.subject.labels, self.explainer.graph
        if labels is None:
            return []
        return [
            [
                np.flatnonzero(np.isin(ground.edges(link), edges_of_triples(graph, path)))
                for path in labels[pair]
            ]
            for ground in self.grounds
            for link, pair in enumerate(ground.pairs())
        ]


def datasets(plan: Plan) -> list[Dataset]:
    """The data sets of a plan."""
    own = () if plan.aminer is None else (OWN_CITATION,)
    # No data set of the paper, but that of Power-Link's, which is run only if it is named.
    named = (KNOWLEDGE,) if KNOWLEDGE in plan.only else ()
    names = (TINY,) if plan.quick else (RELEASED, GENERATED, CITATION, *own, *named)
    return [Dataset(name, plan) for name in names if not plan.only or name in plan.only]


def told(settings: Settings) -> dict[str, Any]:
    """Settings in the key of a run: what is not the default, and a mark of all of them."""
    own, default = settings.to_dict(), Settings().to_dict()
    mark = hashlib.sha256(repr(sorted(own.items())).encode()).hexdigest()[:12]
    return {**{name: value for name, value in own.items() if value != default[name]}, "all": mark}


@dataclass(frozen=True)
class Session:
    """Does the runs of a part, each once, and says which comes next."""

    store: RunStore
    part: str
    plan: Plan
    progress: Progress = lambda what: None

    def do(self, name: str, key: dict[str, Any], work: Callable[..., Figures], *given: Any) -> Run:
        """Do a run, unless one of the same name and key is there: figures are `work(*given)`."""
        self.progress(name)
        return self.store.do(self.part, name, key, partial(work, *given))

    def do_variants(
        self, dataset: Dataset, variants: Mapping[str, tuple[str, Settings]],
        work: Callable[..., Figures],
    ) -> None:  # fmt: skip
        """Do a run for every variant and seed: figures are `work(dataset, rival, settings, seed)`.

        Args:
            dataset: the data set.
            variants: by label, the explainer and its settings. Where the mask does not start from
                noise nothing depends on the seed, and one is run.
            work: gives the figures.
        """
        for label, (rival, settings) in variants.items():
            for seed in self.plan.seed_list if settings.start == "noise" else range(1):
                key = dataset.key_of(label=label, seed=seed, settings=told(settings))
                name = f"{dataset.name} {label} seed {seed}"
                self.do(name, key, work, dataset, rival, settings, seed)


@dataclass(frozen=True)
class Part:
    """A part of the benchmark."""

    name: str
    heading: str
    tables: Callable[[Sequence[Run]], Iterable[Table]]
    each: Callable[[Session, Dataset], None] = lambda session, dataset: None
    """What is done on each data set."""
    once: Callable[[Session], None] = lambda session: None
    """What is done without a data set."""
    plots: Callable[[Sequence[Run]], Iterable[Plot]] = lambda runs: ()
    drawings: Callable[[Sequence[Run]], dict[str, str]] = lambda runs: {}
    """Standalone SVGs that are no plots, such as graphs, by file name."""

    def run(self, store: RunStore, plan: Plan, progress: Progress = lambda what: None) -> None:
        """Do all runs; a data set that is not there is said and left out."""
        session = Session(store, self.name, plan, progress)
        self.once(session)
        for dataset in datasets(plan):
            try:
                self.each(session, dataset)
            except DataNotFoundError as error:
                plan.say(f"{dataset.title} is left out: {error}")


def by_dataset(runs: Sequence[Run]) -> dict[str, list[Run]]:
    """The runs of each data set, in the order of the data sets; those without one are left out."""
    return _grouped(runs, "data", TITLES)


def by_label(runs: Sequence[Run], labels: Iterable[str]) -> dict[str, list[Run]]:
    """The runs of each label, in the order of the labels; labels without runs are left out."""
    return _grouped(runs, "label", labels)


def _grouped(runs: Sequence[Run], key: str, values: Iterable[str]) -> dict[str, list[Run]]:
    found = {value: [run for run in runs if run.key.get(key) == value] for value in values}
    return {value: mine for value, mine in found.items() if mine}
