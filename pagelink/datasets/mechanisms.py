"""Mechanisms: models of hand-set weights on music graphs, of which every fact's use is known.

A model counts walks along a few sequences of relations, and its head says what the counts are
worth; all other relations pass through it with weight 0. The counted walks of a link are those that
were planted for it and no others.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from torch import Tensor, nn
from torch_geometric.data import HeteroData

from pagelink.datasets.music import (
    SCENE,
    STEPS,
    CountingModel,
    Drawing,
    Fact,
    Head,
    facts_of,
    renamed,
)
from pagelink.errors import SettingsError, did_you_mean
from pagelink.explain.result import Explanation


@dataclass(frozen=True)
class Plan:
    """What a model of hand-set weights uses, and what is planted for each link.

    A planted path is written as relations and nodes in turn, such as "saves m1 contains": nodes of
    the same name are the same node, and the first letter is their type.
    """

    what: str
    """The mechanism in words."""
    walks: tuple[str, ...]
    """Relations, as walked, whose walks from source to target the model counts. Those of one
    relation are not from the source: all facts of the relation at that end are counted."""
    head: Head
    used: tuple[str, ...]
    """Planted paths that raise the score; empty: no path is used as such."""
    others: tuple[str, ...]
    """Planted paths that do not."""
    verdict: str = "supported"
    crowded: Mapping[str, int] = field(default_factory=dict)
    """Inner nodes with this number of further facts."""


@dataclass(frozen=True)
class MechanismLink:
    """A link with the right answer."""

    src: int
    dst: int
    verdict: str
    used: frozenset[frozenset[Fact]]
    """The paths that the model uses, by their facts; empty: it uses none as a path."""
    supports: frozenset[Fact]
    """The facts that raise the score; no other one ever does."""

    def first_is_right(self, explanation: Explanation) -> bool | None:
        """Whether the first path is one that the model uses; None if there is no such path."""
        if not self.used:
            return None
        return bool(explanation.paths) and facts_of(explanation.paths[0]) in self.used

    def evidence_is_right(self, explanation: Explanation) -> bool:
        """Whether no path is called evidence that has a fact which never raises the score."""
        return all(facts_of(p) <= self.supports for p in explanation.paths if p.is_evidence)

    def verdict_is_right(self, explanation: Explanation) -> bool:
        """Whether the verdict is the right one."""
        return explanation.evidence is not None and explanation.evidence.verdict == self.verdict


@dataclass(frozen=True)
class Mechanism:
    """A graph, a model of hand-set weights, and links with the right answers."""

    name: str
    data: HeteroData
    model: nn.Module
    links: tuple[MechanismLink, ...]

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """The links as an explainer takes them."""
        return [(link.src, link.dst) for link in self.links]


# The mechanisms.


def _one(count: Tensor) -> Tensor:
    return count.clamp(max=1)


_SAVED, _LIKED = "saves contains", "likes contains"
_FOLLOWED, _SUBSCRIBED = "follows rev_by", "subscribes released"
_FEATURED = "saves features rev_by"
_LONG = "saves m1 features a1 rev_by"
_DECOYS = ("likes m2 contains", "skips m3 contains", "follows a1 rev_by", "subscribes l1 released")
_FURTHER = ("likes m2 features a2 rev_by", "skips m3 contains")
_BY_LABEL = "subscribes l1 rev_signed_to a1 rev_by"


def _saved(count: int) -> tuple[str, ...]:
    return tuple(f"saves m{number} contains" for number in range(11, 11 + count))


PLANS: dict[str, Plan] = {
    "metapath": Plan(
        "a saved mix with the track counts; liked and skipped ones, a followed artist and a label "
        "do not",
        (_SAVED,), lambda n: 4 * n[0], ("saves m1 contains",), _DECOYS,
    ),
    "parallel": Plan(
        "a saved mix counts; the listener also likes the same mix",
        (_SAVED,), lambda n: 4 * n[0], ("saves m1 contains",),
        ("likes m1 contains", "skips m2 contains", "follows a1 rev_by"),
    ),
    "shared, equal length": Plan(
        "an artist of a saved mix counts; a path of as many facts, by the artist's label, shares "
        "the last one",
        (_FEATURED,), lambda n: 4 * n[0], (_LONG,), (_BY_LABEL, *_FURTHER),
    ),
    "shared, shorter": Plan(
        "the same; the listener also follows that artist, a path of two facts",
        (_FEATURED,), lambda n: 4 * n[0], (_LONG,), ("follows a1 rev_by", *_FURTHER),
    ),
    "shared, lower degree": Plan(
        "the same by label, and the saved mix has 20 facts more",
        (_FEATURED,), lambda n: 4 * n[0], (_LONG,), (_BY_LABEL, *_FURTHER), crowded={"m1": 20},
    ),
    "AND": Plan(
        "a saved mix and a followed artist count together, either alone is worth nothing",
        (_SAVED, _FOLLOWED), lambda n: 5 * _one(n[0]) * _one(n[1]),
        ("saves m1 contains", "follows a1 rev_by"),
        ("likes m2 contains", "skips m3 contains", "subscribes l1 released"),
    ),
    "(A or B) and (C or D)": Plan(
        "a saved or a liked mix, and an artist or a label",
        (_SAVED, _LIKED, _FOLLOWED, _SUBSCRIBED),
        lambda n: 5 * _one(n[0] + n[1]) * _one(n[2] + n[3]),
        ("saves m1 contains", "likes m2 contains", "follows a1 rev_by", "subscribes l1 released"),
        ("skips m3 contains", "skips m4 features a2 rev_by"),
    ),
    "OR of 3": Plan(
        "a saved mix, an artist or a label: one is as good as all",
        (_SAVED, _FOLLOWED, _SUBSCRIBED), lambda n: 4 * _one(n[0] + n[1] + n[2]),
        ("saves m1 contains", "follows a1 rev_by", "subscribes l1 released"),
        ("likes m2 contains", "skips m3 contains"),
    ),
    "OR of 8": Plan(
        "one of eight saved mixes is as good as all",
        (_SAVED,), lambda n: 4 * _one(n[0]), _saved(8), _DECOYS,
    ),
    "2 of 4": Plan(
        "two of four saved mixes are needed, more add nothing",
        (_SAVED,), lambda n: 4 * _one((n[0] - 1).clamp(min=0)), _saved(4), _DECOYS,
    ),
    "negative, for": Plan(
        "a saved mix is worth 3, a liked one -1",
        (_SAVED, _LIKED), lambda n: 3 * n[0] - n[1], ("saves m1 contains",), _DECOYS,
    ),
    "negative, against": Plan(
        "a saved mix is worth 1, each of two liked ones -2",
        (_SAVED, _LIKED), lambda n: n[0] - 2 * n[1], ("saves m1 contains",),
        (*_DECOYS, "likes m4 contains"), "structure_against",
    ),
    "popularity": Plan(
        "the number of mixes that contain the track, whoever saved them",
        ("contains",), lambda n: 0.7 * n[0], (), ("saves m1 contains", *_DECOYS), "degree_only",
    ),
    "popularity, product": Plan(
        "the number of mixes that the listener saved times that of the mixes with the track",
        ("rev_saves", "contains"), lambda n: 0.2 * n[0] * n[1], (),
        ("saves m1 contains", "saves m4 contains", *_DECOYS), "degree_only",
    ),
    "features only": Plan(
        "nothing but the features of listener and track",
        (_SAVED,), lambda n: 0 * n[0], (), ("saves m1 contains", *_DECOYS), "structure_not_used",
    ),
    "small effect": Plan(
        "as the first, worth two to three times the noise",
        (_SAVED,), lambda n: 0.03 * n[0], ("saves m1 contains",), _DECOYS,
    ),
    "offset": Plan(
        "as the first, with 500 added to all scores",
        (_SAVED,), lambda n: 4 * n[0] + 500, ("saves m1 contains",), _DECOYS,
    ),
    "four facts": Plan(
        "an artist of whom the listener saved another track counts; decoys have three facts",
        ("saves contains by rev_by",), lambda n: 4 * n[0], ("saves m1 contains t1 by a1 rev_by",),
        ("likes m2 features a2 rev_by", "subscribes l1 rev_signed_to a3 rev_by",
         "follows a4 signed_to l2 released"),
    ),
    "forty": Plan(
        "forty saved mixes count, each a fortieth: no three of them reach a tenth",
        (_SAVED,), lambda n: 0.1 * n[0], _saved(40), _DECOYS, "not_by_these",
    ),
}  # fmt: skip
MECHANISMS = tuple(PLANS)


def make_mechanism(name: str, num_links: int = 300, seed: int = 0) -> Mechanism:
    """Make a graph and a model with a known mechanism.

    Args:
        name: one of `MECHANISMS`; `PLANS` says what each is.
        num_links: links with right answers, 1 or more.
        seed: of the graph.

    Raises:
        SettingsError: there is no such mechanism.

    Example:
        >>> mechanism = make_mechanism("OR of 3", num_links=2)
        >>> [len(link.used) for link in mechanism.links], mechanism.links[0].verdict
        ([3, 3], 'supported')
    """
    if name not in PLANS:
        raise SettingsError(
            f"A mechanism is one of {', '.join(MECHANISMS)}, got {name!r}."
            + did_you_mean(name, MECHANISMS)
        )
    plan = PLANS[name]
    drawing, drawn = Drawing(np.random.default_rng((seed, MECHANISMS.index(name)))), []
    for first in range(0, num_links, SCENE):
        paths = (*plan.used, *plan.others)
        drawn += drawing.scene(paths, plan.crowded, min(SCENE, num_links - first))
    order, links = drawing.order(), []
    for src, dst, planted in drawn:
        used = planted[: len(plan.used)]
        supports = {fact for path in used for fact in path}
        for walk in plan.walks:
            if " " not in walk:
                end = src if STEPS[walk][2] == "listener" else dst
                supports.update(drawing.at(walk, end))
        links.append(MechanismLink(
            int(order["listener"][src]), int(order["track"][dst]), plan.verdict,
            frozenset(frozenset(renamed(path, order)) for path in used),
            frozenset(renamed(supports, order)),
        ))  # fmt: skip
    model = CountingModel([walk.split() for walk in plan.walks], plan.head, SCENE)
    return Mechanism(name, drawing.data(order), model.eval(), tuple(links))
