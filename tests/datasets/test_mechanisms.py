"""Whether mechanisms do what they claim: facts are really deleted, in plain PyTorch Geometric."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from itertools import combinations, pairwise

import numpy as np
import pytest
import torch
from support.explanations import make_explanation, make_path
from torch_geometric.data import Batch, HeteroData

from pagelink import PaGELink
from pagelink.datasets.mechanisms import MECHANISMS, PLANS, Mechanism, MechanismLink, make_mechanism
from pagelink.datasets.music import LINK_TYPE, RELATIONS, STEPS, Fact, facts_of
from pagelink.errors import SettingsError

LINKS = 3
Count = Callable[[str], int]
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
    "negative, for": lambda n: 3 * n("saves contains") - n("likes contains"),
    "negative, against": lambda n: n("saves contains") - 2 * n("likes contains"),
    "popularity": lambda n: 0.7 * n("any contains"),
    "popularity, product": lambda n: 0.2 * n("saves any") * n("any contains"),
    "features only": lambda n: 0,
    "small effect": lambda n: 0.03 * n("saves contains"),
    "offset": lambda n: 4 * n("saves contains") + 500,
    "four facts": lambda n: 4 * n("saves contains by rev_by"),
    "forty": lambda n: 0.1 * n("saves contains"),
}  # fmt: skip
"""What is claimed of the scores, by the number of simple paths along relations, or of facts at an
end; the features of the ends come on top."""
AGAINST = {"negative, for", "negative, against"}


@cache
def mechanism(name: str) -> Mechanism:
    return make_mechanism(name, LINKS, seed=1)


def all_facts(data: HeteroData) -> frozenset[Fact]:
    return frozenset(
        (relation, int(a), int(b))
        for relation in RELATIONS
        for a, b in data[RELATIONS[relation]].edge_index.t().tolist()
    )


def steps_from(facts: Iterable[Fact]) -> dict[tuple[str, int], list[tuple[str, int, str, Fact]]]:
    """From each node, the steps that can be taken: type and number of the next node, step, fact."""
    found: dict[tuple[str, int], list[tuple[str, int, str, Fact]]] = {}
    for fact in facts:
        relation, a, b = fact
        src, _, dst = RELATIONS[relation]
        found.setdefault((src, a), []).append((dst, b, relation, fact))
        found.setdefault((dst, b), []).append((src, a, f"rev_{relation}", fact))
    return found


def simple_paths(
    facts: Iterable[Fact], link: MechanismLink, most: int, along: Sequence[str] | None = None
) -> list[frozenset[Fact]]:
    """All simple paths of at most this number of facts, or those along relations alone."""
    steps, target, found = steps_from(facts), ("track", link.dst), []

    def walk(nodes: list[tuple[str, int]], taken: list[Fact]) -> None:
        if nodes[-1] == target:
            found.append(frozenset(taken))
            return
        if len(taken) == most:
            return
        for kind, number, step, fact in steps.get(nodes[-1], []):
            if (kind, number) not in nodes and (along is None or along[len(taken)] == step):
                walk([*nodes, (kind, number)], [*taken, fact])

    walk([("listener", link.src)], [])
    return [path for path in found if along is None or len(path) == len(along)]


def by_hand(name: str, link: MechanismLink, facts: frozenset[Fact]) -> float:
    def count(what: str) -> int:
        first, *_, last = steps = what.split()
        if last == "any":
            return sum(fact[:2] == (first, link.src) for fact in facts)
        if first == "any":
            return sum((fact[0], fact[2]) == (last, link.dst) for fact in facts)
        return len(simple_paths(facts, link, len(steps), steps))

    x = mechanism(name).data.x_dict
    return float(x["listener"][link.src, 0] + x["track"][link.dst, 0]) + HAND[name](count)


def graph_of(data: HeteroData, facts: Iterable[Fact]) -> HeteroData:
    """The nodes with these facts alone, and their reverses."""
    edited = HeteroData()
    for kind in data.node_types:
        edited[kind].x = data[kind].x
    ends: dict[str, list[tuple[int, int]]] = {relation: [] for relation in RELATIONS}
    for relation, a, b in sorted(facts):
        ends[relation].append((a, b))
    for relation, pairs in ends.items():
        edge_index = torch.tensor(pairs, dtype=torch.long).reshape(-1, 2).t()
        edited[STEPS[relation]].edge_index = edge_index
        edited[STEPS[f"rev_{relation}"]].edge_index = edge_index.flip(0)
    return edited


def scores(name: str, link: MechanismLink, graphs: Sequence[frozenset[Fact]]) -> list[float]:
    """The score of a link on graphs of some facts, which are run side by side."""
    of = mechanism(name)
    batch = Batch.from_data_list([graph_of(of.data, facts) for facts in graphs])
    ends = [batch["listener"].ptr[:-1] + link.src, batch["track"].ptr[:-1] + link.dst]
    with torch.no_grad():
        found = of.model(batch.x_dict, batch.edge_index_dict, torch.stack(ends))
    return [float(score) for score in found]


def close(value: float) -> object:
    return pytest.approx(value, abs=1e-4)


def some_used(link: MechanismLink) -> list[frozenset[Fact]]:
    return sorted(link.used, key=sorted)[:8]


def contexts(name: str, link: MechanismLink) -> list[frozenset[Fact]]:
    """G; G0; used paths out of G, or in G0 alone and in pairs; without half of the facts."""
    whole = all_facts(mechanism(name).data)
    on_paths = frozenset[Fact]().union(*simple_paths(whole, link, 4))
    bare, rng = whole - on_paths, np.random.default_rng(5)
    used = some_used(link)
    found = [whole, bare, *(bare | p for p in used), *(whole - p for p in used)]
    found += [bare | p | q for p, q in pairwise(used)]
    for of in (on_paths, whole):
        for _ in range(4):
            half = frozenset(fact for fact in sorted(of) if rng.random() < 0.5)
            found.append(whole - half)
    return found


def planted_facts(name: str, link: MechanismLink) -> list[Fact]:
    """Facts on paths of at most three facts and of used ones; of many used paths, some."""
    short = simple_paths(all_facts(mechanism(name).data), link, 3)
    known = [path for path in short if path not in link.used] + some_used(link)
    return sorted(frozenset[Fact]().union(*known))


@pytest.mark.parametrize("name", MECHANISMS)
def test_scores_are_as_claimed_when_facts_are_deleted(name: str) -> None:
    for link in mechanism(name).links[:2]:
        graphs = contexts(name, link)
        for graph, score in zip(graphs, scores(name, link, graphs), strict=True):
            assert score == close(by_hand(name, link, graph))


@pytest.mark.parametrize("name", MECHANISMS)
def test_facts_that_support_raise_the_score_and_others_never_do(name: str) -> None:
    link = mechanism(name).links[-1]
    facts, graphs = planted_facts(name, link), contexts(name, link)
    assert set(facts) - link.supports
    pairs = [(fact, graph) for fact in facts for graph in graphs if fact in graph]
    with_it = dict(zip(graphs, scores(name, link, graphs), strict=True))
    without = scores(name, link, [graph - {fact} for fact, graph in pairs])
    raised: dict[Fact, list[float]] = {fact: [] for fact in facts}
    for (fact, graph), score in zip(pairs, without, strict=True):
        raised[fact].append(with_it[graph] - score)
    shown = {fact for fact in facts if max(raised[fact]) > 0.01}
    assert shown == set(facts) & link.supports
    for fact in set(facts) - link.supports:
        least = min(raised[fact])
        assert max(raised[fact]) < 1e-4
        # What speaks against a link is neither: taking it away raises the score.
        assert least == close(0) or (name in AGAINST and fact[0] in ("likes", "contains"))


@pytest.mark.parametrize("name", MECHANISMS)
def test_used_paths_are_paths_and_others_have_an_unused_fact(name: str) -> None:
    whole = all_facts(mechanism(name).data)
    for link in mechanism(name).links:
        paths = set(simple_paths(whole, link, 4))
        assert link.used <= paths
        assert len(link.used) == len(PLANS[name].used)
        short = {path for path in paths if len(path) <= 3}
        assert len(short - link.used) >= 2
        if link.used:
            assert {path for path in paths if path <= link.supports} == link.used
        assert link.supports <= whole


@pytest.mark.parametrize("name", MECHANISMS)
def test_the_verdict_is_right_by_its_definition(name: str) -> None:
    """Every set of up to three short paths is removed from G and added to G0."""
    of, plan = mechanism(name), PLANS[name]
    link = of.links[0]
    whole = all_facts(of.data)
    longest = 4 if name == "four facts" else 3
    paths = sorted(set(simple_paths(whole, link, longest)), key=sorted)
    bare = whole - frozenset[Fact]().union(*paths)
    some = some_used(link)[:5] + [path for path in paths if path not in link.used][:4]
    sets = [frozenset[Fact]().union(*c) for n in (1, 2, 3) for c in combinations(some, n)]
    f, f0 = scores(name, link, [whole, bare])
    effect = max(f - score for score in scores(name, link, [whole - s for s in sets]))
    gain = max(score - f0 for score in scores(name, link, [bare | s for s in sets]))
    if plan.verdict == "structure_not_used":
        assert (f, effect, gain) == (close(f0), close(0), close(0))
    elif plan.verdict == "structure_against":
        assert f0 > f + 0.5
    elif plan.verdict == "not_by_these":
        assert 0.01 < max(effect, gain) < 0.1 * (f - f0)
    else:
        assert max(effect, gain) > 0.5 * (f - f0) > 0.01
        # Its facts lead elsewhere, degrees stay: what only counts facts does not notice.
        facts = frozenset[Fact]().union(*(link.used or paths[:1]))
        (moved,) = scores(name, link, [swapped(whole, facts, link, longest)])
        if plan.verdict == "degree_only":
            assert moved == close(f)
        else:
            assert f - moved > 0.5 * (f - f0)


def swapped(
    whole: frozenset[Fact], facts: frozenset[Fact], link: MechanismLink, most: int
) -> frozenset[Fact]:
    """Exchange each fact (a, b) with one of its relation elsewhere (x, y): (a, y) and (x, b)."""
    edited, ends = set(whole), {("listener", link.src), ("track", link.dst)}
    known = set(simple_paths(whole, link, most))
    for fact in sorted(facts):
        relation, a, b = fact
        src, _, dst = RELATIONS[relation]
        for other in sorted(whole & edited - facts):
            _, x, y = other
            new = {(relation, a, y), (relation, x, b)}
            if other[0] != relation or new & edited or ends & {(src, x), (dst, y)}:
                continue
            tried = edited - {fact, other} | new
            if known.issuperset(simple_paths(tried, link, most)):
                edited = tried
                break
    assert not edited & facts
    assert len(edited) == len(whole)
    return frozenset(edited)


def test_the_small_effect_is_just_above_the_noise() -> None:
    of = make_mechanism("small effect", 30)
    explainer = PaGELink(of.model, of.data, LINK_TYPE, threshold=None)
    noise = explainer.explain(*of.pairs[0]).noise
    assert noise < 0.03 < 4 * noise


def test_graphs_come_from_the_seed_and_scenes_are_apart() -> None:
    one, same, other = (make_mechanism("AND", 35, seed) for seed in (3, 3, 4))
    assert all_facts(one.data) == all_facts(same.data) != all_facts(other.data)
    assert one.links == same.links
    x = one.data.x_dict
    for (src, relation, dst), name in ((RELATIONS[name], name) for name in RELATIONS):
        a, b = one.data[src, relation, dst].edge_index
        assert torch.equal(x[src][a, 1], x[dst][b, 1]), name
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
