"""What was measured of one path, in plain words: alone, beside the others, and fact by fact."""

from __future__ import annotations

from pagelink.explanation import Explanation, Path
from pagelink.verdicts import unnoticed
from pagelink.views.score_wording import numbers, score_noun
from pagelink.views.statements import Step, number_word
from pagelink.views.verdict_wording import MOST

NOTHING = 0.01
"""A fact does nothing if it moves the score by at most this share of what its path does."""
MOSTLY_ENDS = 0.25
"""The effect of a path comes from its two ends if its connection is at most this share of it."""
_TOO_SMALL = 0.005
"""An effect that two decimals do not show."""


def path_remarks(
    explanation: Explanation, path: Path, steps: tuple[Step, ...], is_reason: bool
) -> tuple[str, ...]:
    """Return what was measured of one path: at most two remarks.

    Args:
        explanation: what the path is from.
        path: the path.
        steps: its facts.
        is_reason: the model relies on it, so that it is worth saying which of its facts matter.
    """
    logit = explanation.logit
    if path.influence is None or logit is None:
        return ()
    noun = score_noun(explanation.threshold)
    what = "fact" if len(path) == 1 else "path's facts"
    own = [_added(explanation, path, noun), _own_effect(logit, path.influence, what, noun)]
    told = is_reason and path.influence >= _TOO_SMALL
    if told:
        own.append(_ends(path.influence, path.connection))
    own.append(_beside_the_others(explanation, path, logit))
    facts = _facts_alone(path, steps, noun) if told else ""
    return tuple(remark for remark in (" ".join(part for part in own if part), facts) if remark)


def _own_effect(logit: float, influence: float, what: str, noun: str) -> str:
    before, after = numbers(logit, logit - influence)
    if before == after:
        return f"Without this {what} alone the {noun} does not change."
    change = f"{'falls' if influence > 0 else 'rises'} by {_size(influence)}"
    return f"Without this {what} alone the {noun} {change} (from {before} to {after})."


def _added(explanation: Explanation, path: Path, noun: str) -> str:
    """Return what a path does where the others do not stand in for it."""
    evidence = explanation.evidence
    if path.added is None or evidence is None:
        return ""
    bare = evidence.logit_without_paths
    before, after = numbers(bare, bare + path.added)
    if before == after:
        return f"Put alone into the graph without any path, it does not change the {noun}."
    change = f"{'raises' if path.added > 0 else 'lowers'} the {noun} by {_size(path.added)}"
    return f"Put alone into the graph without any path, it {change} (from {before} to {after})."


def _beside_the_others(explanation: Explanation, path: Path, logit: float) -> str:
    """Return what a path does beside the others shown, where that differs from what it does alone.

    Paths that are needed together do much alone and nothing beside each other; paths that stand in
    for each other do nothing alone.
    """
    evidence, bar, marginal = explanation.evidence, unnoticed(logit), path.marginal
    number = len(explanation.paths)
    alone = path.influence if path.added is None else path.added
    if evidence is None or marginal is None or alone is None or number < 2:
        return ""
    if abs(marginal - alone) <= bar:
        return ""
    verb, noun = "lowers" if marginal > 0 else "raises", score_noun(explanation.threshold)
    if evidence.inserted:
        added = f"it adds {marginal:.2f}" if abs(marginal) > bar else "it adds next to nothing"
        return f"Beside the other{'s' if number > 2 else ''} {added}."
    gone = "the other paths are gone" if number > 2 else "the other path is gone"
    if abs(marginal) <= bar:
        if alone >= MOST * evidence.influence > 0:
            return f"It is necessary, not sufficient alone: once {gone}, it adds nothing."
        return f"Once {gone}, taking it out too hardly changes anything."
    said = f"Once {gone}, taking it out too {verb} the {noun} by {_size(marginal)}"
    instead = abs(alone) <= bar and marginal >= MOST * evidence.influence > 0
    return f"{said}: they stand in for each other." if instead else f"{said}."


def _ends(influence: float, connection: float | None) -> str:
    """Return whether only the two ends of a path matter, by facts like them on no common path."""
    if connection is None or connection > MOSTLY_ENDS * influence:
        return ""
    if connection < _TOO_SMALL:
        return "It comes from its two ends; that they are joined adds nothing."
    return f"Most of it comes from its two ends; that they are joined adds {connection:.2f}."


def _facts_alone(path: Path, steps: tuple[Step, ...], noun: str) -> str:
    """Return the fact that matters least, and the inner facts that do nothing."""
    weakest, influence = path.weakest, path.influence
    if weakest is None or influence is None or len(steps) < 2:
        return ""
    idle = [
        at
        for at, step in enumerate(steps[1:-1], start=1)
        if step.edge.influence is not None and abs(step.edge.influence) <= NOTHING * influence
    ]
    told = []
    if len(idle) == 1:
        told.append(f"A link in the chain, not evidence: {steps[idle[0]].fact.short}.")
    elif idle:
        inner = (
            f"Its {number_word(len(idle))} inner facts"
            if len(idle) == len(steps) - 2
            else f"{number_word(len(idle)).capitalize()} of its inner facts"
        )
        told.append(f"{inner} are links in the chain, not evidence.")
    least = steps[weakest].edge.influence
    most = max(step.edge.influence or 0.0 for step in steps)
    # Where all facts do the same, none is the weakest.
    if weakest not in idle and least is not None and most - least > NOTHING * influence:
        told.append(f"Its weakest fact: {steps[weakest].fact.short} ({_alone(least, noun)}).")
    return " ".join(told)


def _alone(influence: float, noun: str) -> str:
    if abs(influence) < _TOO_SMALL:
        return f"without it alone the {noun} does not change"
    falls = "falls" if influence > 0 else "rises"
    return f"without it alone the {noun} {falls} by {abs(influence):.2f}"


def _size(change: float) -> str:
    return f"{abs(change):.2f}" if abs(change) >= _TOO_SMALL else "less than 0.01"
