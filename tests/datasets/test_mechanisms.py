"""Whether mechanisms do what they claim: facts are really deleted, in plain PyTorch Geometric."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from itertools import pairwise

import numpy as np
import pytest
import torch
from support.explanations import make_explanation, make_path
from support.mechanism_facts import (
    Facts,
    facts_without_link,
    mechanism_of,
    scores,
    simple_paths,
    stored_facts,
    together,
)

from pagelink import PaGELink
from pagelink.datasets.mechanisms import (
    MECHANISMS,
    PLANS,
    Mechanism,
    MechanismLink,
    make_mechanism,
)
from pagelink.datasets.scenes import VALUE, Fact, facts_of
from pagelink.errors import SettingsError


class Count:
    """What a hand counts in a graph of some facts; the features of nodes do not change."""

    def __init__(self, of: Mechanism, link: MechanismLink, facts: Facts) -> None:
        self.of, self.link, self.facts = of, link, facts

    def __call__(self, what: str) -> int:
        """Simple paths along relations, or facts at an end."""
        steps = what.split()
        if "any" in steps:
            return len(self.at(what))
        return len(simple_paths(self.of.schema, self.facts, self.link, len(steps), steps))

    def at(self, what: str) -> list[Fact]:
        """Facts of a relation at the source ("binds any") or at the target ("any marks")."""
        first, last = what.split()
        if last == "any":
            return [fact for fact in self.facts if fact[:2] == (first, self.link.src)]
        return [fact for fact in self.facts if (fact[0], fact[2]) == (last, self.link.dst)]

    def genes(self, what: str) -> list[int]:
        """Genes on the paths of two relations, or on the facts at an end."""
        if "any" in what:
            return [fact[1] if fact[0] == "marks" else fact[2] for fact in self.at(what)]
        paths = simple_paths(self.of.schema, self.facts, self.link, 2, what.split())
        return [fact[1] for path in paths for fact in path if fact[0] == "marks"]

    def values(self, what: str) -> list[float]:
        return [float(self.of.data["gene"].x[gene, VALUE]) for gene in self.genes(what)]

    def classes(self, what: str) -> list[int]:
        rows = self.of.data["gene"].x[:, VALUE + 1 :]
        return [int(rows[gene].argmax()) for gene in self.genes(what)]


HAND: dict[str, Callable[[Count], float]] = {
    "metapath": lambda n: 4 * n("saves contains"),
    "parallel": lambda n: 4 * n("saves contains"),
    "shared, equal length": lambda n: 4 * n("saves features rev_by"),
    "shared, shorter": lambda n: 4 * n("saves features rev_by"),
    "shared, lower degree": lambda n: 4 * n("saves features rev_by"),
    "AND": lambda n: 5 if n("saves contains") and n("follows rev_by") else 0,
    "(A or B) and (C or D)": lambda n: (
        5 if (n("saves contains") or n("likes contains"))
        and (n("follows rev_by") or n("subscribes released")) else 0
    ),
    "OR of 3": lambda n: (
        4 if n("saves contains") or n("follows rev_by") or n("subscribes released") else 0
    ),
    "OR of 8": lambda n: 4 if n("saves contains") else 0,
    "2 of 4": lambda n: 4 if n("saves contains") >= 2 else 0,
    "5 of 8": lambda n: 4 if n("saves contains") >= 5 else 0,
    "negative, for": lambda n: 3 * n("saves contains") - n("likes contains"),
    "negative, against": lambda n: n("saves contains") - 2 * n("likes contains"),
    "popularity": lambda n: 0.7 * n("any contains"),
    "popularity, product": lambda n: 0.2 * n("saves any") * n("any contains"),
    "features only": lambda n: 0,
    "small effect": lambda n: 0.03 * n("saves contains"),
    "offset": lambda n: 4 * n("saves contains") + 500,
    "four facts": lambda n: 4 * n("saves contains by rev_by"),
    "forty": lambda n: 0.1 * n("saves contains"),
    "same type": lambda n: 4 * n("binds interacts marks"),
    "second by name": lambda n: 4 * n("binds marks"),
    "shared first fact": lambda n: 4 * n("binds interacts marks"),
    "shared middle fact": lambda n: 4 * n("binds interacts marks"),
    "through a hub": lambda n: 4 * n("binds marks"),
    "one way": lambda n: 4 * n("binds part_of drives"),
    "against the arrow": lambda n: 4 * n("eases rev_shows"),
    "best of five": lambda n: 4 * max(n.values("binds marks"), default=0),
    "AND of three": lambda n: (
        5 if n("binds marks") and n("binds part_of drives") and n("eases rev_shows") else 0
    ),
    "OR of metapaths": lambda n: (
        4 if n("binds marks") or n("binds interacts marks") or n("binds part_of drives")
        or n("eases rev_shows") else 0
    ),
    "3 of 6": lambda n: 4 if n("binds marks") >= 3 else 0,
    "5 of 9": lambda n: 4 if n("binds marks") >= 5 else 0,
    "saturating": lambda n: 4 * math.tanh(n("binds marks") / 2),
    "veto": lambda n: 4 if n("binds marks") and not n("activates causes") else 0,
    "veto in part": lambda n: (1 if n("activates causes") else 4) if n("binds marks") else 0,
    "XOR": lambda n: 4 if bool(n("binds marks")) != bool(n("eases rev_shows")) else 0,
    "two good, three bad": lambda n: {0: 0, 1: 2, 2: 4, 3: 1}[n("binds marks")],
    "signed": lambda n: 4 * sum(n.values("binds marks")),
    "share": lambda n: 4 * n("binds marks") / max(1, n("any marks")),
    "path times number": lambda n: 0.8 * n("binds marks") * n("any marks"),
    "genes per compound": lambda n: 0.7 * n("binds any"),
    "genes per disease": lambda n: 0.7 * n("any marks"),
    "compounds per disease": lambda n: 0.7 * n("any treats"),
    "content of one end": lambda n: sum(n.values("any marks")),
    "two towers": lambda n: 1.5 * sum(
        one == other for one in n.classes("binds any") for other in n.classes("any marks")
    ),
    "tiny, with offset": lambda n: 0.04 * n("binds marks") - 300,
    "four facts, four asked": lambda n: 4 * n("binds part_of rev_part_of marks"),
    "four facts, three asked": lambda n: 4 * n("binds part_of rev_part_of marks"),
    "features alone": lambda n: 0,
}  # fmt: skip
"""What is claimed of the scores, by the number of simple paths along relations, or of facts at an
end; the features of the ends come on top."""
AGAINST = {
    "negative, for": ("likes", "contains"), "negative, against": ("likes", "contains"),
    "veto": ("activates", "causes"), "veto in part": ("activates", "causes"),
    "signed": ("binds", "marks"), "share": ("marks",),
}  # fmt: skip
"""Relations of facts that lower the score and never raise it."""


def by_hand(name: str, link: MechanismLink, facts: Facts) -> float:
    of = mechanism_of(name)
    source, _, target = of.schema.link_type
    own = float(of.data[source].x[link.src, 0] + of.data[target].x[link.dst, 0])
    return own + HAND[name](Count(of, link, facts))


def score_of(name: str, link: MechanismLink, graphs: list[Facts]) -> list[float]:
    return scores(mechanism_of(name), link, graphs)


@cache
def paths_of(name: str, link: MechanismLink, most: int) -> list[Facts]:
    of = mechanism_of(name)
    found = set(simple_paths(of.schema, facts_without_link(of, link), link, most))
    return sorted(found, key=sorted)


def close(value: float) -> object:
    return pytest.approx(value, abs=1e-4)


def some_used(name: str, link: MechanismLink) -> list[Facts]:
    """Paths that raise the score, those that are used first."""
    raising = [path for path in paths_of(name, link, 4) if path <= link.supports]
    return sorted(raising, key=lambda path: path not in link.used)[:9]


def contexts(name: str, link: MechanismLink) -> list[Facts]:
    """G; G0; used paths out of G, or in G0 alone and with others; without half of the facts."""
    whole = facts_without_link(mechanism_of(name), link)
    on_paths = together(paths_of(name, link, 4))
    bare, rng = whole - on_paths, np.random.default_rng(5)
    used = some_used(name, link)
    found = [whole, bare, *(bare | p for p in used), *(whole - p for p in used)]
    found += [bare | p | q for p, q in pairwise(used)]
    found += [bare | together((used + used)[i : i + n]) for n in (3, 5) for i in range(len(used))]
    for of in (on_paths, whole):
        for _ in range(4):
            half = frozenset(fact for fact in sorted(of) if rng.random() < 0.5)
            found.append(whole - half)
    return found


def planted_facts(name: str, link: MechanismLink) -> list[Fact]:
    """Facts on paths of at most three facts and of used ones; of many used paths, some."""
    short = [path for path in paths_of(name, link, 3) if path not in link.used]
    return sorted(together([*short, *some_used(name, link)]))


@pytest.mark.parametrize("name", MECHANISMS)
def test_scores_are_as_claimed_when_facts_are_deleted(name: str) -> None:
    for link in mechanism_of(name).links[:2]:
        graphs = contexts(name, link)
        for graph, score in zip(graphs, score_of(name, link, graphs), strict=True):
            assert score == close(by_hand(name, link, graph))


@pytest.mark.parametrize("name", MECHANISMS)
def test_facts_that_support_raise_the_score_and_others_never_do(name: str) -> None:
    link = mechanism_of(name).links[-1]
    facts, graphs = planted_facts(name, link), contexts(name, link)
    assert set(facts) - link.supports
    pairs = [(fact, graph) for fact in facts for graph in graphs if fact in graph]
    with_it = dict(zip(graphs, score_of(name, link, graphs), strict=True))
    without = score_of(name, link, [graph - {fact} for fact, graph in pairs])
    raised: dict[Fact, list[float]] = {fact: [] for fact in facts}
    for (fact, graph), score in zip(pairs, without, strict=True):
        raised[fact].append(with_it[graph] - score)
    shown = {fact for fact in facts if max(raised[fact]) > 0.01}
    assert shown == set(facts) & link.supports
    for fact in set(facts) - link.supports:
        least = min(raised[fact])
        assert max(raised[fact]) < 1e-4
        # What speaks against a link is neither: taking it away raises the score.
        assert least == close(0) or fact[0] in AGAINST.get(name, ())


@pytest.mark.parametrize("name", MECHANISMS)
def test_used_paths_are_paths_and_others_have_an_unused_fact(name: str) -> None:
    of, plan = mechanism_of(name), PLANS[name]
    for link in of.links:
        paths = set(paths_of(name, link, 4))
        assert link.used <= paths
        assert len(link.used) == len(plan.used)
        short = {path for path in paths if len(path) <= 3}
        assert len(short - link.used) >= 2
        raising = {path for path in paths if path <= link.supports}
        assert raising >= link.used
        if link.used or plan.weaker:
            assert len(raising) == len(plan.used) + len(plan.weaker)
        assert link.supports <= facts_without_link(of, link)


def test_the_small_effect_is_just_above_the_noise() -> None:
    of = make_mechanism("small effect", 30)
    explainer = PaGELink(of.model, of.data, of.schema.link_type, threshold=None)
    noise = explainer.explain(*of.pairs[0]).noise
    assert noise < 0.03 < 4 * noise


def test_graphs_come_from_the_seed_and_scenes_are_apart() -> None:
    one, same, other = (make_mechanism("AND", 35, seed) for seed in (3, 3, 4))
    assert stored_facts(one) == stored_facts(same) != stored_facts(other)
    assert one.links == same.links
    x = one.data.x_dict
    for src, relation, dst in one.data.edge_types:
        a, b = one.data[src, relation, dst].edge_index
        assert torch.equal(x[src][a, 1], x[dst][b, 1]), relation
    # Listeners of two scenes may have the same code; a track of another scene is not theirs.
    codes = [int(x["listener"][link.src, 2:].argmax()) for link in one.links]
    assert codes[0] == codes[30]
    pair = torch.tensor([[one.links[0].src], [one.links[30].dst]])
    own = x["listener"][pair[0], 0] + x["track"][pair[1], 0]
    assert torch.equal(one.model(x, one.data.edge_index_dict, pair), own)


def test_answers_are_judged() -> None:
    fact = ("saves", 1, 5), ("contains", 5, 2), ("by", 2, 7), ("follows", 1, 7)
    link = MechanismLink(1, 2, "supported", frozenset({frozenset(fact[:2])}), frozenset(fact[:2]))
    ends = ("listener", 1), ("track", 2)
    right = make_path([ends[0], ("mix", 5), ends[1]], [("saves", False), ("contains", False)])
    wrong = make_path([ends[0], ("artist", 7), ends[1]], [("follows", False), ("rev_by", False)])
    back = make_path([ends[0], ("artist", 7), ends[1]], [("follows", False), ("by", True)])
    assert facts_of(right) == set(fact[:2])
    assert facts_of(wrong) == facts_of(back) == set(fact[2:])
    assert link.first_is_right(make_explanation(right, wrong))
    assert not link.first_is_right(make_explanation(wrong, right))
    assert not link.first_is_right(make_explanation())
    nothing = MechanismLink(1, 2, "degree_only", frozenset(), frozenset(fact[1:2]))
    assert nothing.first_is_right(make_explanation(right)) is None
    assert link.evidence_is_right(make_explanation(wrong))  # not called evidence
    object.__setattr__(wrong, "is_evidence", True)
    assert not link.evidence_is_right(make_explanation(right, wrong))
    assert not link.verdict_is_right(make_explanation(right, evidence=None))


def test_an_unknown_mechanism_is_refused() -> None:
    with pytest.raises(SettingsError, match="Did you mean 'parallel'"):
        make_mechanism("paralel")
