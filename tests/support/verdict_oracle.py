"""The verdict on a link by its definition, by brute force over all sets of up to three paths.

Nothing is searched, learned or pruned: all simple paths are listed, all sets of them are removed
from the graph and added to the bare one, and facts are exchanged by hand.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import torch

from pagelink.datasets.mechanisms import Mechanism, MechanismLink
from pagelink.datasets.scenes import Fact
from support.mechanism_facts import (
    Facts,
    ends_of,
    facts_without_link,
    scores,
    simple_paths,
    together,
)

NUM_PATHS = 3
RHO = 0.7
SWAPS, FEWEST, HALVES = 20, 5, 8
A_TENTH, DEGREE = 0.1, 0.2
Rng = np.random.Generator


@dataclass(frozen=True)
class Ruling:
    """What the definitions say of a link; of the fields, those that led to the verdict are set."""

    verdict: str
    difference: float
    """f(G) - f(G0)."""
    effect: float
    """The largest effect of a set of up to three paths."""
    gain: float
    """The largest gain of one."""
    by_gain: bool = False
    """Whether influence is gain, because paths stand in for each other."""
    controls: tuple[float, ...] = ()
    """Of each set that may be returned, the upper bound of D as a share of its influence."""
    lowest: tuple[float, ...] = ()
    """The same, lower bound."""
    best: tuple[tuple[Facts, ...], ...] = ()
    """The sets that may be returned."""
    idle: bool = False
    """Whether these have an idle fact, because all sets of some worth have one."""
    undecided: bool = False
    """Whether of some set too few facts could be swapped to tell degree from connection."""


def noise_of(of: Mechanism, num_random: int = 300) -> float:
    """The noise: of the scores of links asked about and of random ones, as they are stored."""
    source, _, target = of.schema.link_type
    rng = np.random.default_rng(0)
    ends = [rng.integers(0, of.data[kind].num_nodes, num_random) for kind in (source, target)]
    asked = torch.tensor(of.pairs).t()
    pairs = torch.cat([asked, torch.from_numpy(np.stack(ends))], dim=1)
    with torch.no_grad():
        found = of.model(of.data.x_dict, of.data.edge_index_dict, pairs).double().numpy()
    high, low = np.percentile(found, (75, 25))
    return float(max(0.01 * (high - low), 32 * np.finfo(np.float32).eps * np.abs(found).max()))


def rule(
    of: Mechanism, link: MechanismLink, tau: float, most: int = 3, seed: int = 0, judged: int = 6
) -> Ruling:
    """Rule on a link.

    Args:
        of: the mechanism.
        link: one of its links.
        tau: the noise.
        most: facts of a path at most.
        seed: of halves and swaps.
        judged: sets that the degree control is computed of, those of the largest worth.
    """
    rng = np.random.default_rng(seed)
    whole = facts_without_link(of, link)
    paths = sorted(set(simple_paths(of.schema, whole, link, most)), key=sorted)
    on_paths = together(paths)
    bare = whole - on_paths

    def f(graphs: Sequence[Facts]) -> np.ndarray[Any, np.dtype[np.float64]]:
        return np.array(scores(of, link, graphs), dtype=np.float64)

    sets = [c for n in range(1, NUM_PATHS + 1) for c in combinations(paths, n)]
    with_all, without = f([whole, bare])
    effects = with_all - f([whole - together(s) for s in sets])
    gains = f([bare | together(s) for s in sets]) - without
    difference = with_all - without
    found = {
        "difference": difference, "effect": float(effects.max()), "gain": float(gains.max()),
    }  # fmt: skip
    if max(np.abs(effects).max(), np.abs(gains).max(), abs(difference)) <= tau:
        return Ruling("structure_not_used", **found)
    if without >= with_all:
        return Ruling("structure_against", **found)
    by_gain = effects.max() < A_TENTH * difference
    if by_gain and gains.max() < A_TENTH * difference:
        return Ruling("not_by_these", **found)

    worth = _worth(effects, gains)
    activity = _activity(f, whole, bare, on_paths, paths, tau, rng)

    def active(s: Sequence[Facts]) -> bool:
        missing = together(s) - together(activity[path] for path in s)
        if not missing:
            return True
        inside = bare | together(s)
        moved = np.abs(f([inside]) - f([inside - {fact} for fact in sorted(missing)]))
        return bool((moved > tau).all())

    order = np.argsort(-worth, kind="stable")
    live = [i for i in order if worth[i] > 0 and active(sets[i])]
    left = live or [i for i in order if worth[i] > 0]
    near = [i for i in left if worth[i] >= RHO * worth[left[0]]][:judged]
    upper, lower, undecided = [], [], False
    for i in near:
        context = bare | together(sets[i]) if by_gain else whole
        influence = gains[i] if by_gain else effects[i]
        control = _control(of, link, f, context, together(sets[i]), on_paths, most, rng)
        if control is None:
            undecided = True
            continue
        mean, error = control
        upper.append((mean + 2 * error) / influence)
        lower.append((mean - 2 * error) / influence)
    verdict = "degree_only" if upper and max(upper) <= DEGREE else "supported"
    return Ruling(
        verdict, **found, by_gain=bool(by_gain), controls=tuple(upper), lowest=tuple(lower),
        best=tuple(sets[i] for i in near), idle=not live,
        undecided=undecided,
    )  # fmt: skip


def _worth(effects: Any, gains: Any) -> Any:
    n = np.clip(effects / effects.max(), 0, 1) if effects.max() > 0 else None
    g = np.clip(gains / gains.max(), 0, 1) if gains.max() > 0 else None
    if n is None or g is None:
        return g if n is None else n
    return np.where(n + g > 0, 2 * n * g / np.maximum(n + g, 1e-12), 0)


def _activity(
    f: Callable[[Sequence[Facts]], Any],
    whole: Facts,
    bare: Facts,
    on_paths: Facts,
    paths: Sequence[Facts],
    tau: float,
    rng: Rng,
) -> dict[Facts, Facts]:
    """The facts of each path that are active whatever set the path is in."""
    found = {}
    for path in paths:
        others = sorted(on_paths - path)
        halves = [
            bare | path | {fact for fact in others if rng.random() < 0.5} for _ in range(HALVES)
        ]
        graphs = [whole, bare | path, *halves]
        facts = sorted(path)
        before = f(graphs)
        after = f([graph - {fact} for fact in facts for graph in graphs])
        moved = np.abs(after.reshape(len(facts), -1) - before).max(1) > tau
        found[path] = frozenset(fact for fact, does in zip(facts, moved, strict=True) if does)
    return found


def _control(
    of: Mechanism,
    link: MechanismLink,
    f: Callable[[Sequence[Facts]], Any],
    context: Facts,
    facts: Facts,
    on_paths: Facts,
    most: int,
    rng: Rng,
) -> tuple[float, float] | None:
    """The degree control of facts in a graph, and its standard error; None: too few swaps."""
    (here,) = f([context])
    source, _, target = of.schema.link_type
    ends = {(source, link.src), (target, link.dst)}
    off = [
        fact
        for fact in sorted(context - on_paths)
        if ends & set(ends_of(of.schema, fact)) and fact[0] != of.schema.link_type[1]
    ]
    placebos = np.zeros(1)
    graphs = _draws(lambda: swapped(of, link, context, facts, most, rng))
    if len(graphs) < FEWEST:
        return None
    falls = here - f(graphs)
    if off:
        count = min(len(facts), len(off))

        def draw() -> Facts | None:
            some = [off[k] for k in rng.choice(len(off), count, replace=False)]
            return swapped(of, link, context, frozenset(some), most, rng)

        placebos = here - f(_draws(draw) or [context])
    errors = [np.std(each) / np.sqrt(len(each)) for each in (falls, placebos)]
    return float(np.mean(falls) - np.mean(placebos)), float(np.hypot(*errors))


def _around(of: Mechanism, link: MechanismLink, graph: Facts) -> Facts:
    """The facts between nodes from which a message reaches an end of the link."""
    schema = of.schema
    source, _, target = schema.link_type
    into: dict[tuple[str, int], list[tuple[str, int]]] = {}
    for fact in graph:
        one, other = ends_of(schema, fact)
        into.setdefault(other, []).append(one)
        if fact[0] not in schema.one_way:
            into.setdefault(one, []).append(other)
    near = {(source, link.src), (target, link.dst)}
    for _ in range(of.model.num_layers):
        near |= {other for node in near for other in into.get(node, [])}
    return frozenset(fact for fact in graph if near.issuperset(ends_of(schema, fact)))


def _draws(draw: Callable[[], Facts | None]) -> list[Facts]:
    found = []
    for _ in range(SWAPS):
        graph = draw()
        if graph is not None:
            found.append(graph)
        elif not found:
            break
    return found


def swapped(
    of: Mechanism, link: MechanismLink, graph: Facts, facts: Facts, most: int, rng: Rng
) -> Facts | None:
    """Exchange each fact (a, b) with one of its relation elsewhere (x, y): (a, y) and (x, b).

    Partners are drawn in the computation graph, among the quarter of nearest degrees; where none of
    these will do, in the whole graph, which the definition does not provide for: it would leave
    such a link undecided, although a score that counts facts is the same whatever the partner.
    None: a fact has none at all.
    """
    schema, edited = of.schema, graph
    source, relation, target = schema.link_type
    ends = {(source, link.src), (target, link.dst)}
    known = set(simple_paths(schema, graph, link, most))
    degree: dict[tuple[str, int], int] = {}
    for fact in graph:
        for node in ends_of(schema, fact):
            degree[node] = degree.get(node, 0) + 1

    def size(fact: Fact) -> float:
        return sum(np.log(degree.get(node, 1)) for node in ends_of(schema, fact))

    around = _around(of, link, graph)
    for fact in sorted(facts):
        free = [
            other for other in sorted(graph & edited - facts)
            if other[0] == fact[0] and not ends & set(ends_of(schema, other))
        ]  # fmt: skip
        free.sort(key=lambda other: abs(size(other) - size(fact)))
        inside = [other for other in free if other in around]
        near = inside[: max(20, len(inside) // 4)]
        partners = [near[k] for k in rng.permutation(len(near))]
        partners += [free[k] for k in rng.permutation(len(free)) if free[k] not in near]
        for partner in partners:
            name, a, b = fact
            _, x, y = partner
            new = {schema.fact(name, a, y), schema.fact(name, x, b)}
            if len({a, b, x, y}) < 4 and schema.relations[name][0] == schema.relations[name][2]:
                continue
            if new & edited or (relation, link.src, link.dst) in new:
                continue
            tried = edited - {fact, partner} | new
            if known.issuperset(simple_paths(schema, tried, link, most)):
                edited = tried
                break
        else:
            return None
    return edited
