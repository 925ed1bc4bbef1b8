"""Why this one and not that one: what puts one target of a source above another.

The figure is the difference of two scores. Facts are really removed from the graph, and both
targets are scored again; the fewest facts without which the order turns are searched for as those
of a counterfactual are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from pagelink.audit.contrast_result import Contrast, ContrastVerdict, PathEffect
from pagelink.errors import LinkError, ModelError, SettingsError
from pagelink.explain.counterfactual_search import named_facts
from pagelink.explain.explainer import PaGELink
from pagelink.explain.options import check_whole_number, facts_along
from pagelink.explain.ranking import EndScores
from pagelink.explain.removal_search import Measure, minimal_removal, smallest_removal
from pagelink.explain.result import Explanation
from pagelink.graph.links import Link
from pagelink.graph.lookup import first_edges_of_facts
from pagelink.model.borrowing import in_normal_mode
from pagelink.model.edited_logits import edge_gradient
from pagelink.runtime.arrays import Doubles, Longs
from pagelink.runtime.timer import OutOfTimeError, Timer
from pagelink.search.work import Setup

HALF = 0.5


@in_normal_mode
def contrast(
    explainer: PaGELink, links: Sequence[Link], *, budget: int, verified: int
) -> Contrast:  # fmt: skip
    """Find out what puts one of two targets above the other; see `PaGELink.contrast`.

    Args:
        explainer: the model, as it is explained.
        links: two links of one source.
        budget: facts to remove at most.
        verified: sets of facts to measure, about.
    """
    check_whole_number("budget", budget, 1)
    check_whole_number("verified", verified, 1)
    if links[0].dst == links[1].dst:
        name = explainer.graph.node_name(links[0].dst)
        raise LinkError(f"{name!r} is both targets; give two different ones.")
    try:
        pair = _Pair(explainer, links)
        logits = pair.logits([()])[0]
        if not np.isfinite(logits).all():
            raise ModelError(f"The model returns {logits.tolist()} for these links, not numbers.")
        turned = bool(logits[0] < logits[1])
        if turned:
            pair, logits = _Pair(explainer, links[::-1]), logits[::-1]
        return _measured(explainer, pair, logits, turned, budget, verified)
    except OutOfTimeError:
        raise SettingsError(
            f"The {explainer.settings.deadline:g} seconds of the deadline were over before the "
            "paths of both targets were measured. Give a later deadline."
        ) from None


class _Pair:
    """Two links of one source, the one above first, scored on the same graphs."""

    def __init__(self, explainer: PaGELink, links: Sequence[Link]) -> None:
        self.links = links
        # At the larger of the two radii, if their scores need different ones.
        setups = [explainer.pipeline.setup_for(link) for link in links]
        self.setup: Setup = max(setups, key=lambda each: each.batches.num_hops or np.inf)
        self.timer = Timer(self.setup.settings.deadline)
        self._scores = EndScores(self.setup, links[0], self.timer)
        self._own = [link.fact for link in links if link.fact >= 0]

    def logits(self, sets: Sequence[Sequence[int] | Longs]) -> Doubles:
        """The two logits without each set of facts; the links themselves are out in any case."""
        nodes = np.array([link.dst for link in self.links])
        removed = [np.array([*facts, *self._own], dtype=np.int64) for facts in sets]
        return self._scores.logits(nodes, removed)

    def differences(self, sets: Sequence[Sequence[int] | Longs]) -> Doubles:
        """How much higher the one above scores, without each set of facts."""
        both = self.logits(sets)
        found: Doubles = both[:, 0] - both[:, 1]
        return found

    def measuring(self, facts: Longs) -> Measure:
        """Return what measures the difference without some of these facts, by position."""
        return lambda sets: self.differences([facts[list(members)] for members in sets])

    def facts(self) -> tuple[Longs, Doubles, Longs]:
        """All facts that can move either score, their slopes, and those on a path to either.

        A slope is what removing the fact takes from the difference, by the gradient.
        """
        graph, slope = self.setup.graph, np.zeros(self.setup.graph.num_facts)
        seen, on_path = [], []
        for link, sign in zip(self.links, (1.0, -1.0), strict=True):
            (batch,) = self.setup.batches.extract([link], None, self.timer.until)
            recorded = self.setup.logits(batch, self.setup.relations([link]), self.timer)[1]
            gradient = edge_gradient(self.setup.predictor, recorded, len(batch.edges))
            np.add.at(slope, graph.fact[batch.edges], sign * gradient)
            needed = self.setup.predictor.needed(batch)
            seen.append(graph.fact[batch.edges[needed]])
            arcs = self.setup.path_graphs(batch, None, self.timer.last).arc_slot
            on_path.append(graph.fact[batch.edges[arcs]])
        every, paths = (
            np.setdiff1d(np.concatenate(lists).astype(np.int64), self._own)
            for lists in (seen, on_path)
        )
        return every, slope[every], paths


def _measured(
    explainer: PaGELink, pair: _Pair, logits: Doubles, turned: bool, budget: int, verified: int
) -> Contrast:
    graph, setup, links = pair.setup.graph, pair.setup, pair.links
    explanations = tuple(_explained(explainer, link) for link in links)
    difference = float(logits[0] - logits[1])
    # 1. The context, and each returned path.
    every, slope, on_path = pair.facts()
    found = [(path, number == 0) for number, each in enumerate(explanations) for path in each.paths]
    of_paths = [facts_along(graph, path) for path, _ in found]
    answers = pair.differences([on_path, every, *of_paths])
    effects = [
        PathEffect(path, above, difference - float(answer))
        for (path, above), answer in zip(found, answers[2:], strict=True)
    ]
    # 2. The fewest facts, and those that work against them: facts of paths first, then by the
    # gradient.
    most = max(verified // 4, budget)
    named = np.array(sorted({fact for facts in of_paths for fact in facts}), dtype=np.int64)
    sides = []
    for sign in (1.0, -1.0):
        steepest = every[np.argsort(-sign * slope, kind="stable")]
        order = np.concatenate([named, steepest[~np.isin(steepest, named)]])
        sides.append(np.sort(order[:most]))
    turning = _search(pair, sides[0], budget, verified, complete=len(sides[0]) == len(every))
    if turning.value >= 0:  # paths may stand in for each other: all those of an end at once
        first = first_edges_of_facts(graph)[on_path]
        ends = [on_path[(graph.src[first] == end) | (graph.dst[first] == end)]
                for end in (links[0].dst, links[0].src)]  # fmt: skip
        turning = _cut(pair, [*ends, named], budget, turning)
    widening = _widest(pair, sides[1], budget, difference)
    noise = setup.noise
    without_paths = float(answers[0])
    verdict = _verdict(difference, without_paths, turning.value < 0, explanations[0], noise)
    return Contrast(
        link_type=links[0].type, src=graph.node(links[0].src), above=graph.node(links[0].dst),
        below=graph.node(links[1].dst), src_name=graph.node_name(links[0].src),
        above_name=graph.node_name(links[0].dst), below_name=graph.node_name(links[1].dst),
        turned=turned, logit_above=float(logits[0]), logit_below=float(logits[1]),
        verdict=verdict, without_paths=without_paths, without_edges=float(answers[1]),
        paths=tuple(sorted(effects, key=lambda each: -abs(each.effect))),
        facts=named_facts(graph, turning.facts, links[0].src),
        difference_without=turning.value if turning.facts else None,
        widening=named_facts(graph, widening.facts, links[0].src),
        difference_widened=widening.value if widening.facts else None,
        smallest=turning.smallest, num_sets=turning.num_sets,
        explanations=(explanations[0], explanations[1]),
    )  # fmt: skip


def _verdict(
    difference: float, without_paths: float, turns: bool, above: Explanation, noise: float
) -> ContrastVerdict:
    if difference <= noise:
        return "equal"
    evidence = above.evidence
    if evidence is not None and evidence.verdict == "degree_only" and evidence.ends != "src":
        return "popularity"
    if difference - without_paths >= HALF * difference:
        return "paths"
    return "facts" if turns else "no_facts"


def _explained(explainer: PaGELink, link: Link) -> Explanation:
    src, dst = (explainer.graph.node(end)[1] for end in (link.src, link.dst))
    (answer,) = explainer.explain_many([(src, dst, link.type)], negatives=True)
    return answer


@dataclass(frozen=True)
class _Found:
    facts: list[int]
    value: float
    smallest: bool
    num_sets: int


def _search(pair: _Pair, facts: Longs, budget: int, verified: int, *, complete: bool) -> _Found:
    """The fewest of some facts without which the difference is below 0.

    Args:
        pair: the two links.
        facts: the facts.
        budget: facts to remove at most.
        verified: sets of facts to measure, about.
        complete: there are no other facts.
    """
    if not len(facts):
        return _Found([], np.inf, True, 0)

    found = smallest_removal(pair.measuring(facts), len(facts), budget, verified)
    return _Found(
        facts[list(found.members)].tolist(), found.value,
        (found.exhaustive and complete) or len(found.members) == 1, found.num_sets,
    )  # fmt: skip


def _cut(pair: _Pair, wholes: Sequence[Longs], budget: int, tried: _Found) -> _Found:
    """The fewest facts of some large sets without which the difference is below 0.

    Args:
        pair: the two links.
        wholes: the sets.
        budget: facts to remove at most.
        tried: what was found before, and stays if nothing is found here.
    """
    num_sets, best = tried.num_sets, tried
    for facts in wholes:
        found = minimal_removal(pair.measuring(facts), tuple(range(len(facts))))
        num_sets += found.num_sets
        is_better = best.value >= 0 or len(found.members) < len(best.facts)
        if found.reached and len(found.members) <= budget and is_better:
            best = _Found(facts[list(found.members)].tolist(), found.value, False, 0)
    return replace(best, num_sets=num_sets)


def _widest(pair: _Pair, facts: Longs, budget: int, difference: float) -> _Found:
    """The facts without which the difference is largest: the best one, and the next beside it."""
    chosen: list[int] = []
    value = difference
    while len(chosen) < budget and len(chosen) < len(facts):
        others = [fact for fact in facts.tolist() if fact not in chosen]
        try:
            answers = pair.differences([[*chosen, fact] for fact in others])
        except OutOfTimeError:
            break
        best = int(np.argmax(answers))
        if answers[best] - value <= pair.setup.noise:
            break
        chosen.append(others[best])
        value = float(answers[best])
    return _Found(sorted(chosen), value, False, 0)
