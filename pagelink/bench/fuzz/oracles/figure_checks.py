"""Whether the figures of an explanation are true, and its reason follows from the graph."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial

from pagelink.bench.fuzz.draws.data import RandomData
from pagelink.bench.fuzz.oracles.brute_force import BruteForce, DrawnLink
from pagelink.bench.fuzz.oracles.multigraphs import Fact, Multigraph, Node
from pagelink.bench.fuzz.oracles.path_checks import early_by, facts_on, longest_of, reachable
from pagelink.bench.fuzz.oracles.truth import NOTHING, Facts, LinkTruth
from pagelink.bench.fuzz.oracles.walks import steps_on_walks
from pagelink.explain.result import Explanation
from pagelink.measure.verdict import PartName

ONE_END = 0.8
FURTHEST = 8
"""Facts from an end beyond which nodes are equally far."""
PARTS: tuple[PartName, ...] = ("path_facts", "facts_near_src", "facts_near_dst", "facts_between")


def _differs(
    link: LinkTruth, late: bool, name: str, value: float | None, *removed: Facts
) -> Iterator[str]:
    """Yield if a figure is not f(G without the first) (- f(G without the second)).

    Where the time was over, figures may be missing, but those that are there are true.
    """
    exact = link.fall(*removed) if len(removed) == 2 else link.without(removed[0])
    if value is None:
        if not late:
            yield f"{name} is missing, it is {exact:.6g}"
        return
    off = link.compare(value, *removed)
    if off > link.least_slack(*removed) and off > link.slack(*removed):
        yield f"{name} is {value:.6g}, by deleting edges {exact:.6g}"


def is_late(explanation: Explanation) -> bool:
    """Whether the time may have been over, so that some of it may be missing."""
    return explanation.settings.deadline is not None


def says_unused(explanation: Explanation) -> bool:
    """Whether there are no paths because the model is said to use no edge at all."""
    evidence = explanation.evidence
    return (
        not explanation.paths and evidence is not None and evidence.verdict == "structure_not_used"
    )


def check_scores(explanation: Explanation, link: LinkTruth) -> Iterator[str]:
    """Yield if the scores of the link itself are not what the model says."""
    late, deployed = is_late(explanation), explanation.logit_deployed
    yield from _differs(link, late, "logit", explanation.logit, NOTHING)
    if deployed is None and late:
        pass
    elif deployed is None or link.compare_deployed(deployed) > link.slack_deployed():
        yield f"logit_deployed is {deployed}, by the model {link.deployed:.6g}"
    if explanation.link_in_graph != bool(link.own):
        yield f"link_in_graph is {explanation.link_in_graph}"


def facts_of_all_paths(explanation: Explanation, link: LinkTruth) -> Facts:
    """Every fact on a walk of at most `max_length` facts, which G0 has not."""
    drawn = link.truth.drawn
    walked = steps_on_walks(
        drawn, DrawnLink(link.src, link.dst, link.link_type),
        drawn.facts - link.own, longest_of(explanation),
    )  # fmt: skip
    return frozenset((relations, frozenset({u, v})) for u, v, relations in walked)


def check_evidence(explanation: Explanation, link: LinkTruth, inside: BruteForce) -> Iterator[str]:
    """Yield which measured figures are not what the model says once facts are deleted."""
    evidence, drawn = explanation.evidence, link.truth.drawn
    if evidence is None:
        yield from _check_paths_alone(explanation, link)
        return
    facts = [frozenset(facts_on(drawn, path)) for path in explanation.paths]
    these, walked = NOTHING.union(*facts), facts_of_all_paths(explanation, link)
    differs = partial(_differs, link, is_late(explanation))
    if says_unused(explanation) and abs(link.fall(NOTHING, link.every)) > link.noise.most:
        yield f"no edge is said to count, all of them: {link.fall(NOTHING, link.every):.6g}"
    # What a set is worth, and what it is worth more than another one: f on two edited graphs.
    removed, added = (NOTHING, these), (walked - these, walked)
    by_insertion = evidence.inserted
    yield from differs("influence", evidence.influence, *(added if by_insertion else removed))
    yield from differs("gain", evidence.gain, *added)
    yield from differs("logit_without_these", evidence.logit_without_these, these)
    yield from differs("logit_without_paths", evidence.logit_without_paths, walked)
    yield from differs("logit_without_edges", evidence.logit_without_edges, link.every)
    yield from differs("logit_only_these", evidence.logit_only_these, link.every - these)
    if evidence.sufficiency is not None or not is_late(explanation):
        yield from _check_sufficiency(evidence.sufficiency, link, walked, these)
    if evidence.ends is not None and evidence.verdict == "degree_only":
        yield from _check_ends(explanation, link, walked, these)
    for number, path in enumerate(explanation.paths):
        mine, others = facts[number], NOTHING.union(*facts[:number], *facts[number + 1 :])
        rest = (walked - these, walked - others) if by_insertion else (others, these)
        yield from differs("influence of a path", path.influence, NOTHING, mine)
        yield from differs("gain of a path", path.gain, walked - mine, walked)
        yield from differs("marginal of a path", path.marginal, *rest)
        yield from _check_share(path.share, link, walked, these, others)
        for edge, fact in zip(path.edges, facts_on(drawn, path), strict=True):
            alone = frozenset({fact})
            yield from differs("influence of a fact", edge.influence, NOTHING, alone)
            yield from _check_active(edge.active, link, walked, (mine, these), alone)
    yield from check_strongest(explanation, link, inside, these)
    yield from check_what_else(explanation, link, inside, walked)


def _check_share(
    share: float | None, link: LinkTruth, walked: Facts, these: Facts, others: Facts
) -> Iterator[str]:
    """The larger of the shares by removal and by insertion, of those on which the set counts."""
    if share is None:
        yield "the share of a path is missing"
        return
    # Of each side the lowest and the highest share that rounding and the noise leave.
    low, high = 0.0, 0.0
    for whole, rest in (
        ((NOTHING, these), (NOTHING, others)),
        ((walked - these, walked), (walked - others, walked)),
    ):
        all_of_it, left = link.fall(*whole), link.fall(*rest)
        slack = 2 * link.slack(*whole, *rest)
        if all_of_it + slack <= link.noise.least:
            continue
        least, most = max(all_of_it - slack, link.noise.least), all_of_it + slack
        bounds = [
            1 - each / size for each in (left - slack, left + slack) for size in (least, most)
        ]
        high = max(high, *bounds)
        if all_of_it - slack > link.noise.most:
            low = max(low, min(bounds))
    if not low - 1e-6 <= share <= high + 1e-6:
        yield f"the share of a path is {share:.6g}, by deleting edges {low:.6g} to {high:.6g}"


def _check_active(
    active: bool | None, link: LinkTruth, walked: Facts, sets: tuple[Facts, ...], alone: Facts
) -> Iterator[str]:
    """A fact that moves the score in G, or in G0 with its path or with all paths, is not idle.

    Whether it moves it beside random halves of the other facts is not known here.
    """
    for start in (NOTHING, *(walked - each for each in sets)):
        moved = abs(link.fall(start, start | alone)) - link.slack(start, start | alone)
        if active is not True and moved > link.noise.most:
            yield f"active is {active} of a fact that moves the score by {moved:.6g}"


def _check_ends(
    explanation: Explanation, link: LinkTruth, walked: Facts, these: Facts
) -> Iterator[str]:
    """An end counts by itself if the facts of the set there reach 0.8 of the influence."""
    evidence = explanation.evidence
    assert evidence is not None
    counts = []
    for end in (link.src, link.dst):
        there = frozenset(fact for fact in these if end in fact[1])
        start = walked - these if evidence.inserted else NOTHING
        over = link.fall(start, start | there) - ONE_END * evidence.influence
        counts.append(None if abs(over) <= 2 * link.slack(start, start | there) else over > 0)
    src, dst = counts
    if src is None or dst is None:
        return  # too near to tell
    named = {(True, False): "src", (False, True): "dst"}.get((src, dst), "both")
    if all({link.src, link.dst} <= set(fact[1]) for fact in these):
        named = "either"
    if evidence.ends != named:
        yield f"ends is {evidence.ends}, by deleting edges {named}"


def check_strongest(
    explanation: Explanation, link: LinkTruth, inside: BruteForce, these: Facts
) -> Iterator[str]:
    """Yield if the strongest facts are no facts that the model sees, or their figures are wrong."""
    strongest, drawn = explanation.strongest, link.truth.drawn
    if strongest is None:
        if explanation.settings.strongest and explanation.paths and not is_late(explanation):
            yield "the strongest facts are missing"
        return
    columns = {(edge.type, edge.column): edge for edge in drawn.edges}
    facts = []
    for named in strongest.facts:
        stored = columns.get((named.edge.type, named.edge.index))
        if stored is None or (stored.src, stored.dst) != named.nodes or named.edge.reversed:
            yield f"{named.edge.type} {named.edge.index} does not join {named.nodes}"
            continue
        fact = drawn.fact(stored)
        facts.append(fact)
        alone = frozenset({fact})
        yield from _differs(
            link, False, "influence of a strong fact", named.edge.influence, NOTHING, alone
        )
    together = frozenset(facts)
    if len(together) < len(strongest.facts) or len(together) > len(these):
        yield f"{len(together)} strongest facts, {len(these)} facts on the paths"
    if not together <= inside.visible_facts:
        yield "a strongest fact is one that the model cannot see"
    yield from _differs(link, False, "effect of the strongest", strongest.effect, NOTHING, together)
    assert explanation.logit is not None
    assert explanation.evidence is not None
    of_paths = explanation.logit - explanation.evidence.logit_without_these
    if of_paths > strongest.effect + link.noise.most:
        yield f"the paths do {of_paths:.6g}, the strongest facts {strongest.effect:.6g}"
    if strongest.share is None:
        if strongest.effect > link.noise.most:
            yield f"no share of the strongest facts at an effect of {strongest.effect:.6g}"
    elif strongest.effect <= link.noise.least or not math.isclose(
        strongest.share, of_paths / strongest.effect, rel_tol=1e-6, abs_tol=1e-9
    ):
        yield f"the share of the strongest facts is {strongest.share:.6g}"


def check_what_else(
    explanation: Explanation, link: LinkTruth, inside: BruteForce, walked: Facts
) -> Iterator[str]:
    """Yield if the parts of facts are not all that the model sees, or do something else."""
    parts = {part.name: part for part in explanation.what_else}
    evidence, settings = explanation.evidence, explanation.settings
    assert evidence is not None
    wanted = settings.what_else and settings.measure and evidence.verdict != "supported"
    late = is_late(explanation) or (not explanation.paths and settings.deadline is not None)
    if wanted != bool(parts) and not late:
        yield f"{len(parts)} parts under {evidence.verdict}"
    if not parts:
        return
    seen = inside.visible_facts
    walked = walked if explanation.paths else frozenset()  # a verdict without paths: none is seen
    hops = explanation.num_hops
    limit = FURTHEST if hops is None else min(2 * hops, FURTHEST)
    near, far = (_away(link, inside, end, limit) for end in (link.src, link.dst))
    others = seen - walked

    def nearer(fact: Fact, to: dict[Node, int]) -> float:
        return min(to.get(node, math.inf) for node in fact[1])

    split = [
        seen & walked,
        {fact for fact in others if nearer(fact, near) < nearer(fact, far)},
        {fact for fact in others if nearer(fact, near) > nearer(fact, far)},
        {fact for fact in others if nearer(fact, near) == nearer(fact, far)},
    ]
    for name, facts in zip(PARTS, split, strict=True):
        part = parts.get(name)
        if part is None or part.size != len(facts) or part.error is not None:
            yield f"the part {name} is {part}, it has {len(facts)} facts"
            continue
        yield from _differs(
            link, False, f"effect of {name}", part.effect, NOTHING, frozenset(facts)
        )
    if sum(parts[name].size for name in PARTS if name in parts) != len(seen):
        yield f"the parts have other facts than the {len(seen)} that the model sees"
    if any(parts[name].size != 1 for name in ("features_src", "features_dst")):
        yield "an end is not one node"


def _away(link: LinkTruth, inside: BruteForce, start: Node, limit: int) -> dict[Node, int]:
    """How many facts nodes of a computation graph are from one of its nodes, as far as a limit."""
    facts = {fact for fact in map(link.truth.drawn.fact, inside.edges) if len(fact[1]) == 2}
    found, ring = {start: 0}, {start}
    for step in range(1, limit + 1):
        ring = {v for _, ends in facts if ends & ring for v in ends} - set(found)
        found |= dict.fromkeys(ring, step)
    return found


def _check_paths_alone(explanation: Explanation, link: LinkTruth) -> Iterator[str]:
    """The paths for and against a predicted negative, or those that there was time for."""
    walked = facts_of_all_paths(explanation, link)
    for path in explanation.paths:
        facts = frozenset(facts_on(link.truth.drawn, path))
        if path.gain is not None:
            yield from _differs(link, False, "gain of a path", path.gain, walked - facts, walked)
        if path.influence is None:
            if explanation.reason == "predicted_negative":
                yield "the influence of a path is missing"
            continue
        yield from _differs(link, False, "influence of a path", path.influence, NOTHING, facts)
        if explanation.reason is not None and path.is_evidence not in (None, path.influence > 0):
            yield f"is_evidence is {path.is_evidence} at an influence of {path.influence}"


def _check_sufficiency(
    value: float | None, link: LinkTruth, walked: Facts, these: Facts
) -> Iterator[str]:
    span = link.fall(NOTHING, walked)
    slack = 2 * link.slack(NOTHING, walked, walked - these)
    if abs(span) <= max(slack, link.noise.most):
        return  # too near to 0 to tell
    if (value is None) != (span < 0):
        yield f"sufficiency is {value} where all paths add {span:.6g}"
    elif value is not None:
        share = link.fall(walked - these, walked) / span
        if abs(share - value) > slack / span * (1 + abs(share)):
            yield f"sufficiency is {value:.6g}, by deleting edges {share:.6g}"


def check_reason(
    explanation: Explanation, drawn: Multigraph, inside: BruteForce, given: RandomData
) -> Iterator[str]:
    """Yield if there are paths where the reason says that there are none, or the other way."""
    settings, reason = explanation.settings, explanation.reason
    src, dst = explanation.src, explanation.dst
    if reason in ("predicted_negative", "out_of_time", "invalid") or says_unused(explanation):
        return
    facts = {fact for fact in inside.visible_facts if len(fact[1]) == 2}
    longest = longest_of(explanation)

    def free(node: object) -> bool:
        return True

    joined = reachable(facts, src, dst, free, len(inside.hops))
    short = reachable(facts, src, dst, free, longest)
    if (reason == "not_connected") != (not joined):
        yield f"reason {reason}, connected: {joined}"
    elif (reason == "beyond_max_length") != (joined and not short):
        yield f"reason {reason}, within max_length: {short}"
    if settings.metapaths or settings.forbid_metapaths or settings.via or not short:
        return  # what these leave is not a matter of reach
    excluded = {t for t in drawn.pairs if t[1] in settings.exclude_relations}
    left = {fact for fact in facts if not fact[0] & excluded}
    if settings.before:
        left = set(filter(early_by(settings, drawn, given), left))
    most = settings.max_degree
    allowed = reachable(
        left, src, dst,
        lambda v: v not in settings.exclude_nodes and (most is None or drawn.degree(v) <= most),
        longest,
    )  # fmt: skip
    if (reason == "excluded") != (not allowed):
        yield f"reason {reason}, paths within the constraints: {allowed}"
    if allowed and reason is not None and settings.unpruned_fallback:
        yield f"reason {reason}, although pruning is to be undone"


def check_rank(explanation: Explanation, link: LinkTruth, sample: int) -> Iterator[str]:
    """Yield if the ranks are not those of the model's scores, where no target is left out."""
    if is_late(explanation) and explanation.rank_of is None:
        return
    drawn, kind = link.truth.drawn, link.link_type[2]
    relations = drawn.relations(link.link_type)
    linked = {v for r, ends in drawn.facts if r == relations and link.src in ends for v in ends}
    targets = [
        (kind, i) for i in range(drawn.sizes[kind])
        if (kind, i) == link.dst or ((kind, i) not in linked and (kind, i) != link.src)
    ]  # fmt: skip
    if explanation.rank_of != min(len(targets), sample):
        yield f"{explanation.rank_of} targets were ranked, of {len(targets)}"
    if explanation.rank_of != len(targets):
        return
    facts = [fact for path in explanation.paths for fact in facts_on(drawn, path)]
    if (explanation.rank_without_these is None) != (not facts) and not is_late(explanation):
        yield f"rank_without_these is {explanation.rank_without_these} with {len(facts)} facts"
    ranks = [(explanation.rank, NOTHING)]
    if facts and explanation.rank_without_these is not None:
        ranks.append((explanation.rank_without_these, frozenset(facts)))
    for rank, removed in ranks:
        pairs = [(link.src, target) for target in targets]
        scores = link.truth.scores(link.own | removed, pairs, link.link_type)
        own = scores[targets.index(link.dst)]
        slack = max(2 * link.slack(removed), 1e-4 * max(map(abs, scores)))
        low = 1 + sum(score > own + slack for score in scores)
        high = 1 + sum(score > own - slack for score in scores) - 1
        if rank is None or not low <= rank <= max(low, high):
            yield f"the rank is {rank}, by the model's scores {low} to {high}"
