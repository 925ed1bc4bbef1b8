"""Mechanisms: models of hand-set weights on drawn graphs, of which every fact's use is known.

A model counts walks along a few sequences of relations, and its head says what the counts are
worth; all other relations pass through it with weight 0. The counted walks of a link are those that
were planted for it and no others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch_geometric.data import HeteroData

from pagelink.datasets.counting import CountingModel
from pagelink.datasets.medicine import MEDICINE
from pagelink.datasets.music import MUSIC
from pagelink.datasets.plans import Plan
from pagelink.datasets.scenes import SCENE, VALUE, Drawing, Fact, Schema, facts_of
from pagelink.errors import SettingsError, did_you_mean
from pagelink.explain.result import Explanation


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


@dataclass(frozen=True, eq=False)
class Mechanism:
    """A graph, a model of hand-set weights, and links with the right answers."""

    name: str
    schema: Schema
    max_length: int | None
    """Facts of a path at most, where the right answers are not those of the default."""
    data: HeteroData
    model: nn.Module
    links: tuple[MechanismLink, ...]

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """The links as an explainer takes them."""
        return [(link.src, link.dst) for link in self.links]


FAMILIES = (MUSIC, MEDICINE)
PLANS: dict[str, Plan] = {name: plan for family in FAMILIES for name, plan in family.plans.items()}
MECHANISMS = tuple(PLANS)
HELD_OUT = tuple(MEDICINE.plans)
"""Those that explainers are judged by and were not made with."""


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
        >>> make_mechanism("one way", num_links=2).schema.link_type
        ('compound', 'treats', 'disease')
    """
    if name not in PLANS:
        raise SettingsError(
            f"A mechanism is one of {', '.join(MECHANISMS)}, got {name!r}."
            + did_you_mean(name, MECHANISMS)
        )
    schema = next(family.schema for family in FAMILIES if name in family.plans)
    return from_plan(PLANS[name], schema, num_links, (seed, MECHANISMS.index(name)), name)


def from_plan(
    plan: Plan, schema: Schema, num_links: int, seed: int | tuple[int, ...] = 0, name: str = ""
) -> Mechanism:
    """Make a graph and a model by any plan.

    Args:
        plan: what the model uses, and what is planted.
        schema: of the graph.
        num_links: links with right answers, 1 or more.
        seed: of the graph.
        name: what the mechanism is called.
    """
    drawing, drawn = Drawing(schema, np.random.default_rng(seed)), []
    for first in range(0, num_links, SCENE):
        number = min(SCENE, num_links - first)
        drawn += drawing.scene(plan.paths, plan.crowded, number, plan.values)
    order = drawing.order()
    data, links = drawing.data(order), []
    source, relation, target = schema.link_type
    for src, dst, planted in drawn:
        used = [schema.renamed(path, order) for path in planted]
        ends = int(order[source][src]), int(order[target][dst])
        supports = {fact for path in used[: len(plan.used) + len(plan.weaker)] for fact in path}
        at_ends = [
            schema.renamed(drawing.at(step, src if schema.steps[step][2] == source else dst), order)
            for step in (walk.steps[0] for walk in plan.walks if len(walk.steps) == 1)
        ]
        supports |= _supporting(plan, schema, data, at_ends) - {(relation, *ends)}
        links.append(MechanismLink(
            *ends, plan.verdict, frozenset(map(frozenset, used[: len(plan.used)])),
            frozenset(supports),
        ))  # fmt: skip
    model = CountingModel(schema, plan.walks, plan.head)
    return Mechanism(name, schema, plan.max_length, data, model.eval(), tuple(links))


def _supporting(
    plan: Plan, schema: Schema, data: HeteroData, at_ends: Sequence[Sequence[Fact]]
) -> set[Fact]:
    """Of the facts that are counted at the two ends, one list for each walk, those that support."""
    ends = set(schema.link_type[::2])

    def content(fact: Fact) -> Tensor:
        """Of the node that is not the end."""
        src, _, dst = schema.relations[fact[0]]
        found: Tensor = data[dst].x[fact[2]] if src in ends else data[src].x[fact[1]]
        return found[VALUE:]

    if plan.at_ends == "all":
        return {fact for facts in at_ends for fact in facts}
    if plan.at_ends == "value":
        return {fact for facts in at_ends for fact in facts if content(fact)[0] > 0}
    if plan.at_ends == "class":
        one, other = at_ends
        met = {
            (a, b) for a in one for b in other if torch.equal(content(a)[1:], content(b)[1:])
        }  # fmt: skip
        return {fact for pair in met for fact in pair}
    return set()
