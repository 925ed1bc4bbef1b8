"""What several parts of the paper's benchmark stand on: the data sets, their links and labels."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from pagelink.bench.faithfulness.measures import label_facts
from pagelink.bench.paper.plan import Plan
from pagelink.bench.subjects import AMINER, RELEASED, Subject, load_subject
from pagelink.datasets.folders import DataNotFoundError
from pagelink.explain.explainer import PaGELink
from pagelink.explain.ranking import TargetScores
from pagelink.graph.links import Link
from pagelink.graph.typed_graph import TypedGraph
from pagelink.rivals.ground import FactPath
from pagelink.settings import Settings

GENERATED, CITATION, TINY = "useritemattr-rgcn", "augcitation-rgcn", "tiny-rgcn"
OWN_CITATION = f"{AMINER}-rgcn"
TITLES = {
    RELEASED: "UserItemAttr, released",
    GENERATED: "UserItemAttr, generated",
    CITATION: "AugCitation (vispub)",
    OWN_CITATION: "AugCitation (own citation graph)",
    TINY: "tiny",
}
QUICK_LINKS = 6
DATA_SEED = 0
"""Of graphs, models and the choice of links; explainer seeds are another matter."""


def names(plan: Plan, released: bool = True) -> tuple[str, ...]:
    """The data sets of a plan; without the released one where its model must be trained anew."""
    if plan.quick:
        return (TINY,)
    own = () if plan.aminer is None else (OWN_CITATION,)
    return (*((RELEASED,) if released else ()), GENERATED, CITATION, *own)


def subjects(plan: Plan, released: bool = True) -> Iterator[Subject]:
    """Yield the data sets with their models; one that is not there is said and left out."""
    for name in names(plan, released):
        try:
            yield load(name, plan)
        except DataNotFoundError as error:
            plan.say(f"{TITLES[name]} is left out: {error}")


def load(name: str, plan: Plan) -> Subject:
    """Load one data set with its model and at most the plan's number of links.

    Raises:
        DataNotFoundError: the data are not there.
    """
    links = min(plan.links, QUICK_LINKS) if plan.quick else plan.links
    source = plan.aminer if name == OWN_CITATION else None
    return load_subject(name, links, DATA_SEED, plan.models, source)


def key_of(subject: Subject, **more: Any) -> dict[str, Any]:
    """What figures of a data set depend on: its name, its very links, and what else is given."""
    pairs = hashlib.sha256(repr(subject.pairs).encode()).hexdigest()[:16]
    return {
        "data": subject.name, "data_seed": DATA_SEED, "links": len(subject.pairs), "pairs": pairs,
        **more,
    }  # fmt: skip


def told(settings: Settings) -> dict[str, Any]:
    """Settings in the key of a run: what is not the default, and a mark of all of them."""
    own, default = settings.to_dict(), Settings().to_dict()
    mark = hashlib.sha256(repr(sorted(own.items())).encode()).hexdigest()[:12]
    return {**{name: value for name, value in own.items() if value != default[name]}, "all": mark}


def paper_settings(subject: Subject) -> Settings:
    """The released settings of the data set, for paths of any length they allow."""
    return Settings.paper(
        "augcitation" if subject.name in (CITATION, OWN_CITATION) else "useritemattr"
    )


def labels_of(subject: Subject, graph: TypedGraph) -> list[list[FactPath]]:
    """The labelled paths of the links, as facts, in the order of the links."""
    assert subject.labels is not None  # all data sets of the paper have labels
    return label_facts(graph, subject.labels, subject.pairs)


class Effects:
    """Asks the model about links on graphs from which facts are really removed, one at a time.

    Args:
        explainer: any explainer of the model and the graph.
    """

    def __init__(self, explainer: PaGELink) -> None:
        self._explainer = explainer

    def link(self, pair: tuple[int, int]) -> Link:
        """The link of a pair."""
        return self._explainer.reader.read(pair)

    def scores(self, pair: tuple[int, int]) -> TargetScores:
        """What scores the targets of the pair's source."""
        return self._explainer.target_scores(self.link(pair))

    def of(self, pair: tuple[int, int], sets: Sequence[Sequence[int]]) -> list[float]:
        """f(G) - f(G without the facts), for each set of facts; 0 for an empty one."""
        target = np.array([self.link(pair).dst])
        whole, *rest = self.scores(pair).logits(target, [(), *sets])[:, 0].tolist()
        return [whole - logit for logit in rest]
