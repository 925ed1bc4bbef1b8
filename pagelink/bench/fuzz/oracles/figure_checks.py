"""Whether the figures of an explanation are true, and its reason and verdict follow from them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from pagelink.bench.fuzz.draws.data import RandomData
from pagelink.bench.fuzz.oracles.brute_force import BruteForce, DrawnLink
from pagelink.bench.fuzz.oracles.multigraphs import Multigraph
from pagelink.bench.fuzz.oracles.path_checks import early_by, facts_on, reachable
from pagelink.bench.fuzz.oracles.truth import NOTHING, Facts, LinkTruth, Noise
from pagelink.bench.fuzz.oracles.walks import steps_on_walks
from pagelink.explain.result import Explanation


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


def facts_of_all_paths(explanation: Explanation, link: LinkTruth, inside: BruteForce) -> Facts:
    """Every fact on a walk of at most `max_length` facts, which G0 has not."""
    drawn = link.truth.drawn
    walked = steps_on_walks(
        drawn, DrawnLink(link.src, link.dst, link.link_type),
        {drawn.fact(edge) for edge in inside.edges}, explanation.settings.max_length,
    )  # fmt: skip
    return frozenset((relations, frozenset({u, v})) for u, v, relations in walked)


def check_evidence(explanation: Explanation, link: LinkTruth, inside: BruteForce) -> Iterator[str]:
    """Yield which measured figures are not what the model says once facts are deleted."""
    evidence, drawn = explanation.evidence, link.truth.drawn
    if evidence is None:
        yield from _check_paths_alone(explanation, link)
        return
    facts = [frozenset(facts_on(drawn, path)) for path in explanation.paths]
    these, walked = NOTHING.union(*facts), facts_of_all_paths(explanation, link, inside)
    differs = partial(_differs, link, is_late(explanation))
    if says_unused(explanation) and abs(link.fall(NOTHING, link.every)) > link.noise.most:
        yield f"no edge is said to count, all of them: {link.fall(NOTHING, link.every):.6g}"
    # What a set is worth, and what it is worth more than another one: f on two edited graphs.
    by_insertion = evidence.inserted
    all_in = (walked - these, walked) if by_insertion else (NOTHING, these)
    yield from differs("influence", evidence.influence, *all_in)
    yield from differs("logit_without_these", evidence.logit_without_these, these)
    yield from differs("logit_without_paths", evidence.logit_without_paths, walked)
    yield from differs("logit_without_edges", evidence.logit_without_edges, link.every)
    yield from differs("logit_only_these", evidence.logit_only_these, link.every - these)
    if evidence.sufficiency is not None or not is_late(explanation):
        yield from _check_sufficiency(evidence.sufficiency, link, walked, these)
    for number, path in enumerate(explanation.paths):
        mine, others = facts[number], NOTHING.union(*facts[:number], *facts[number + 1 :])
        rest = (walked - these, walked - others) if by_insertion else (others, these)
        yield from differs("influence of a path", path.influence, NOTHING, mine)
        yield from differs("marginal of a path", path.marginal, *rest)
        if by_insertion:
            yield from differs("added of a path", path.added, walked - mine, walked)
        elif path.added is not None:
            yield "added is there although influence is by removal"
        for edge, fact in zip(path.edges, facts_on(drawn, path), strict=True):
            alone = frozenset({fact})
            yield from differs("influence of a fact", edge.influence, NOTHING, alone)


def _check_paths_alone(explanation: Explanation, link: LinkTruth) -> Iterator[str]:
    """The paths for and against a predicted negative, or those that there was time for."""
    for path in explanation.paths:
        facts = frozenset(facts_on(link.truth.drawn, path))
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


def check_words(explanation: Explanation, noise: Noise) -> Iterator[str]:
    """Yield where reason, verdict and figures of an explanation contradict each other.

    The links that the explainer knows the noise by are others than the oracle's.
    """
    reason, logit, threshold = explanation.reason, explanation.logit, explanation.threshold
    paths, evidence = explanation.paths, explanation.evidence
    if is_late(explanation):
        return  # its message says what was cut
    shown = bool(paths) or says_unused(explanation)
    if (reason is None) != (shown and reason != "predicted_negative"):
        yield f"reason {reason} with {len(paths)} paths"
    if (reason is None) == bool(explanation.message):
        yield f"reason {reason} with the message {explanation.message!r}"
    if logit is not None:
        negative = threshold is not None and logit < threshold
        if negative != (reason == "predicted_negative"):
            yield f"reason {reason} at a score of {logit} and a threshold of {threshold}"
    if explanation.epochs > explanation.settings.epochs:
        yield f"{explanation.epochs} epochs"
    if evidence is None or logit is None:
        if reason is None and explanation.settings.measure:
            yield "nothing was measured"
        return
    low, high = noise.least, noise.most
    bare, influence = evidence.logit_without_paths, evidence.influence
    holds = {
        "structure_not_used": max(abs(logit - bare), abs(influence)) <= high,
        "structure_against": bare >= logit,
        "supported": bare < logit and influence > low,
        "not_by_these": bare < logit and influence <= max(high, 0.1 * (logit - bare)),
    }
    if not holds[evidence.verdict]:
        yield f"verdict {evidence.verdict} at {logit}, {bare} without paths, influence {influence}"
    if evidence.rho_reached is not None and not evidence.rho_reached <= 1 + 1e-6:
        yield f"rho_reached is {evidence.rho_reached}"
    for path in paths:
        counts = evidence.verdict not in ("structure_not_used", "not_by_these")
        marginal = path.marginal or 0.0
        if (path.is_evidence and (not counts or marginal <= low)) or (
            not path.is_evidence and counts and marginal > high
        ):
            yield f"is_evidence is {path.is_evidence} at a marginal of {path.marginal}"


def check_reason(
    explanation: Explanation, drawn: Multigraph, inside: BruteForce, given: RandomData
) -> Iterator[str]:
    """Yield if there are paths where the reason says that there are none, or the other way."""
    settings, reason = explanation.settings, explanation.reason
    src, dst = explanation.src, explanation.dst
    if reason in ("predicted_negative", "out_of_time", "invalid") or says_unused(explanation):
        return
    facts = {fact for fact in inside.visible_facts if len(fact[1]) == 2}
    longest = settings.max_length

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
