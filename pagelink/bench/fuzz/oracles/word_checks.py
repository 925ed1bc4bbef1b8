"""Whether reason, verdict and figures of an explanation agree with each other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise

from pagelink.bench.fuzz.oracles.figure_checks import is_late, says_unused
from pagelink.bench.fuzz.oracles.truth import Noise
from pagelink.explain.result import Explanation
from pagelink.measure.verdict import Evidence

TENTH, ONLY_DEGREE, LEAST_DRAWS = 0.1, 0.2, 5
EVIDENCE = 0.05
FURTHER = 3
"""Facts that a path may have more than was requested, where the model sees the whole graph."""
ROUNDING = 1e-6


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
    yield from _check_verdict(evidence, logit, noise)
    yield from _check_control(explanation, evidence)
    yield from _check_length(explanation, evidence)
    yield from _check_paths(explanation, evidence, noise)
    yield from _check_alternatives(explanation, evidence)


def _check_verdict(evidence: Evidence, logit: float, noise: Noise) -> Iterator[str]:
    """The first verdict that holds; what the noise leaves open may be either."""
    low, high = noise.least, noise.most
    bare, influence = evidence.logit_without_paths, evidence.influence
    span, tenth = logit - bare, TENTH * (logit - bare)
    carries = span > 0 and influence > low and influence >= tenth * (1 - ROUNDING)
    control = evidence.control
    high_end = 0.0 if control is None else control.high - ONLY_DEGREE * influence
    decided = control is not None and control.num_draws >= LEAST_DRAWS
    holds = {
        "structure_not_used": max(abs(span), abs(influence)) <= high,
        "structure_against": span <= 0,
        "not_by_these": span > 0 and (influence <= high or influence <= tenth * (1 + ROUNDING)),
        "degree_only": carries and decided and high_end <= 0,
        "supported": carries and not (decided and high_end <= 0),
    }
    if not holds[evidence.verdict]:
        yield (
            f"verdict {evidence.verdict} at {logit}, {bare} without paths, "
            f"influence {influence}, control {control}"
        )
    worth, reached = evidence.worth, evidence.rho_reached
    if worth is not None and not 0 < worth <= 1 + ROUNDING:
        yield f"worth is {worth}"
    if reached is not None and not 0 <= reached <= 1 + ROUNDING:
        yield f"rho_reached is {reached}"


def _check_control(explanation: Explanation, evidence: Evidence) -> Iterator[str]:
    """Swaps are made where the verdict hangs on them, at most as many as were requested."""
    control, most = evidence.control, explanation.settings.swaps
    if evidence.verdict == "supported":
        # The one end at which facts count, if those at the other are idle on every path.
        first = {path.edges[0].active for path in explanation.paths}
        last = {path.edges[-1].active for path in explanation.paths}
        one = {"dst": first == {False} and False not in last,
               "src": last == {False} and False not in first}  # fmt: skip
        if evidence.ends != next((end for end, counts in one.items() if counts), None):
            yield f"ends {evidence.ends}, active are {first} at the source, {last} at the target"
    elif (evidence.ends is not None) != (evidence.verdict == "degree_only"):
        yield f"ends {evidence.ends} under {evidence.verdict}"
    if control is None:
        return
    if evidence.verdict not in ("degree_only", "supported"):
        yield f"a control under {evidence.verdict}"
    if not 2 <= control.num_draws <= most or not 0 <= control.num_placebo <= most:
        yield f"{control.num_draws} draws and {control.num_placebo} of placebos, of {most}"
    if not control.low <= control.effect <= control.high:
        yield f"the control is {control.effect}, from {control.low} to {control.high}"


def _check_length(explanation: Explanation, evidence: Evidence) -> Iterator[str]:
    """Paths are longer than was requested only where that is allowed, and they are needed."""
    settings, length, hops = explanation.settings, evidence.max_length, explanation.num_hops
    if length == settings.max_length:
        return
    most = settings.max_length + FURTHER if hops is None else 2 * hops
    most = most if settings.budget is None else min(most, settings.budget)
    if not settings.longer or not settings.max_length < length <= most:
        yield f"max_length is {length}, requested were {settings.max_length}"
    if evidence.verdict != "supported":
        yield f"longer paths under {evidence.verdict}"


def _check_paths(explanation: Explanation, evidence: Evidence, noise: Noise) -> Iterator[str]:
    """Evidence comes first, by share; what speaks against the link does not stand alone."""
    paths, settings = explanation.paths, explanation.settings
    shares = [min(path.share or 0.0, 1.0) for path in paths]
    may_be = [
        share >= EVIDENCE and all(path.edges[end].active is not False for end in (0, -1))
        for share, path in zip(shares, paths, strict=True)
    ]
    # Those that may be evidence come first.
    ranks = [share + counts for share, counts in zip(shares, may_be, strict=True)]
    if any(after > before + 2 * ROUNDING for before, after in pairwise(ranks)):
        yield f"the shares of the paths in their order are {shares}"
    known = [path.is_evidence for path in paths]
    if known != sorted(known, key=lambda counts: not counts):
        yield f"evidence does not come first: {known}"
    bundles = Counter(path.bundle for path in paths if path.bundle is not None)
    if 1 in bundles.values():
        yield "a bundle of one path"
    for path in paths:
        counts = evidence.verdict in ("supported", "structure_against")
        counts &= path.edges[0].active is not False and path.edges[-1].active is not False
        if path.is_evidence != (counts and (path.share or 0.0) >= EVIDENCE):
            yield (
                f"is_evidence is {path.is_evidence} at a share of {path.share} "
                f"under {evidence.verdict}"
            )
        alone = path.bundle is None and len(paths) > 1 and settings.rho > 0
        if alone and path.influence is not None and path.influence < -noise.most:
            yield f"a path of influence {path.influence} stands alone"
        if path.connection is not None and (len(path) < 3 or not settings.swaps):
            yield f"connection is {path.connection} of {len(path)} facts"


def _check_alternatives(explanation: Explanation, evidence: Evidence) -> Iterator[str]:
    """Further sets are others, and about as good."""
    chosen = set(explanation.paths)
    sets = [frozenset(each.paths) for each in explanation.alternatives]
    if frozenset(chosen) in sets or len(set(sets)) < len(sets):
        yield "the same set of paths twice"
    for each in explanation.alternatives:
        worth = evidence.worth or 0.0
        if not worth or abs(each.worth - worth) > (EVIDENCE + ROUNDING) * worth:
            yield f"a set of worth {each.worth} beside one of {worth}"
