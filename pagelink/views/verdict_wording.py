"""Whether the model relies on the paths, in plain words, and under which headings they stand."""

from __future__ import annotations

from dataclasses import dataclass

from pagelink.explain.result import Explanation, Path
from pagelink.measure.verdict import Evidence, unnoticed
from pagelink.views.statements import (
    Step,
    compared,
    counted_facts,
    num_facts,
    number_word,
    numbers,
    score_noun,
    these_facts,
)

MOST = 0.5
"""Paths are necessary if their removal takes this share of what all paths add, and not sufficient
alone if they bring back less than this share of it."""


def verdict(explanation: Explanation) -> tuple[str, ...]:
    """Return whether the model relies on the paths; nothing if that was not measured."""
    evidence, logit = explanation.evidence, explanation.logit
    if evidence is None or logit is None:
        return ()
    if evidence.verdict == "structure_against":
        return _against(explanation, evidence, logit)
    if evidence.verdict == "structure_not_used":
        return _not_used(explanation, evidence, logit)
    if not explanation.paths:
        return ()
    if evidence.verdict == "not_by_these":
        return _not_by_these(explanation, evidence, logit)
    return (_redundant if evidence.inserted else _supported)(explanation, evidence, logit)


def _against(explanation: Explanation, evidence: Evidence, logit: float) -> tuple[str, ...]:
    """All paths together lower the score, and yet those shown may raise it: both are said."""
    bare = compared(explanation.threshold, logit, evidence.logit_without_paths)
    if bare.direction:
        what = f"all paths together lower its {bare.noun}, without any of them it is higher, "
        what += f"{bare.after} instead of {bare.before}"
    else:
        what = f"without any of them its {bare.noun} is as high, {bare.before}"
    told = [f"The model does not rely on paths here: {what}."]
    without = compared(explanation.threshold, logit, evidence.logit_without_these)
    if not explanation.paths:
        pass
    elif evidence.influence > unnoticed(logit) and without.direction < 0:
        others = "lower it by more" if bare.direction else "lower it by as much"
        told.append(
            f"Some raise it: without {these_facts(explanation.paths)}, all others left in place, "
            f"its {without.noun} {without.change}. The other paths {others}."
        )
    elif evidence.rho_reached is None:
        told.append("No combination of paths that was tried raises it.")
    return tuple(told)


def _not_used(explanation: Explanation, evidence: Evidence, logit: float) -> tuple[str, ...]:
    answers = compared(explanation.threshold, logit, evidence.logit_without_paths)
    tried = f"{evidence.num_sets:,} {'was' if evidence.num_sets == 1 else 'were'} tried"
    instead = f"{answers.after} instead of {answers.before}"
    bare = instead if answers.direction else f"still {answers.before}"
    return (
        f"The model does not rely on paths here: no combination of them changes its {answers.noun} "
        f"noticeably ({tried}), and without any it is {bare}.",
    )


def _not_by_these(explanation: Explanation, evidence: Evidence, logit: float) -> tuple[str, ...]:
    """All paths at once carry the prediction; those shown do not."""
    bare = compared(explanation.threshold, logit, evidence.logit_without_paths)
    without = compared(explanation.threshold, logit, evidence.logit_without_these)
    these = "this path" if len(explanation.paths) == 1 else "these paths"
    done = f"{without.change}" if without.direction else f"stays at {without.before}"
    return (
        f"Not by {these}: without {these_facts(explanation.paths)} the model's {without.noun} "
        f"{done}. Without any path it would be {bare.after} instead of {bare.before}, so it relies "
        "on others, or on very many at once.",
    )


def _supported(explanation: Explanation, evidence: Evidence, logit: float) -> tuple[str, ...]:
    answers = compared(explanation.threshold, logit, evidence.logit_without_these)
    reasons = [path for path in explanation.paths if path.is_evidence is not False]
    if 0 < len(reasons) < len(explanation.paths):
        all_ = number_word(len(explanation.paths))
        relied = f"{number_word(len(reasons))} of these {all_} paths"
        without = f"the {counted_facts(explanation.paths)} of all {all_}"
    else:
        relied = "this path" if len(explanation.paths) == 1 else "these paths"
        relied += "" if reasons else " together"
        without = these_facts(explanation.paths)
    relies = f"The model relies on {relied}: without {without} its {answers.noun} {answers.change}."
    return (relies, *_not_sufficient(explanation, evidence, logit))


def _not_sufficient(explanation: Explanation, evidence: Evidence, logit: float) -> tuple[str, ...]:
    """Say of paths that the prediction needs that it needs more than them."""
    span = logit - evidence.logit_without_paths
    share = evidence.sufficiency
    falls = logit - evidence.logit_without_these
    if share is None or share >= MOST or falls < MOST * span:
        return ()
    one = len(explanation.paths) == 1
    brings = "brings" if num_facts(explanation.paths) == 1 else "bring"
    back = f"only {share:.0%}" if round(share, 2) > 0 else "nothing"
    return (
        f"{'It is' if one else 'They are'} necessary, not sufficient alone: put into the graph "
        f"without any path, {these_facts(explanation.paths)} {brings} back {back} of what all "
        "paths add.",
    )


def _redundant(explanation: Explanation, evidence: Evidence, logit: float) -> tuple[str, ...]:
    removed = compared(explanation.threshold, logit, evidence.logit_without_these)
    bare = evidence.logit_without_paths
    added = compared(explanation.threshold, bare, bare + evidence.influence)
    these = these_facts(explanation.paths)
    raise_ = "raises" if num_facts(explanation.paths) == 1 else "raise"
    return (
        "The model relies on paths here, but many of them stand in for each other, so that taking "
        f"away a few changes little: without {these} its {removed.noun} {removed.change}.",
        f"Put into the graph without any path, {these} {raise_} its {added.noun} "
        f"from {added.before} to {added.after}.",
    )


@dataclass(frozen=True)
class Headed:
    """Paths with what they are."""

    heading: str
    paths: tuple[Path, ...]
    is_context: bool = False
    """They were measured, and the model does not rely on them."""
    is_drawn: bool = False
    """The heading says what a drawing of the paths alone would not."""


def groups(explanation: Explanation) -> tuple[Headed, ...]:
    """Return the paths by what they are, those that matter most first; no group is empty."""
    evidence, paths = explanation.evidence, explanation.paths
    if explanation.reason == "predicted_negative":
        found = _for_and_against(paths)
    elif evidence is None:
        found = [Headed(_ranked("rank best", paths, "the best first"), paths)]
    elif evidence.verdict in ("structure_not_used", "not_by_these"):
        one = len(paths) == 1
        what = "A path of the graph that is not the model's reason" if one else (
            f"{len(paths)} paths of the graph that are not the model's reasons"
        )  # fmt: skip
        found = [Headed(what, paths, True, True)]
    elif evidence.verdict == "structure_against":
        found = _raising_or_not(explanation)
    else:
        found = _reasons_and_context(explanation, evidence)
    return tuple(group for group in found if group.paths)


def _for_and_against(paths: tuple[Path, ...]) -> list[Headed]:
    pro = tuple(path for path in paths if path.is_evidence)
    contra = tuple(path for path in paths if not path.is_evidence)
    return [
        Headed(_ranked(f"{_verb('speaks', those)} {side} the link", those), those, is_drawn=True)
        for those, side in ((pro, "for"), (contra, "against"))
    ]


def _raising_or_not(explanation: Explanation) -> list[Headed]:
    """Under a verdict against the link: what raises the score all the same, and what does not."""
    noun, bar = score_noun(explanation.threshold), unnoticed(explanation.logit or 0.0)
    raising = tuple(
        path for path in explanation.paths if path.is_evidence or (path.influence or 0.0) > bar
    )
    others = tuple(path for path in explanation.paths if path not in raising)
    one, many = len(raising) == 1, f"{len(raising)} paths that raise"
    raises = f"{'A path that raises' if one else many} the {noun}, though all together lower it"
    lowers = "A path that does" if len(others) == 1 else f"{len(others)} paths that do"
    return [
        Headed(raises, raising, True, True),
        Headed(f"{lowers} not raise the {noun}", others, True, True),
    ]


def _reasons_and_context(explanation: Explanation, evidence: Evidence) -> list[Headed]:
    paths = explanation.paths
    reasons = tuple(path for path in paths if path.is_evidence is not False)
    others = tuple(path for path in paths if path.is_evidence is False)
    one, number = len(others) == 1, len(others)
    if not reasons and number > 1 and evidence.influence > unnoticed(explanation.logit or 0.0):
        context = f"{number} paths that count only together: none adds to the others by itself"
    else:
        small = any((path.marginal or 0.0) > 0 for path in others)
        nothing = "next to nothing" if small else "nothing"
        adds = f"A path that adds {nothing}" if one else f"{number} paths that add {nothing}"
        beside = "the others" if len(paths) - one > 1 else "the other"
        context = f"{adds} to {beside}, only for context" if len(paths) > 1 else adds
    relies = _ranked("the model relies on", reasons)
    return [Headed(relies, reasons), Headed(context, others, True, True)]


def _ranked(what: str, paths: tuple[Path, ...], order: str = "") -> str:
    """Return "The 2 paths that rank best, the best first"."""
    if len(paths) == 1:
        return f"The path that {what.replace('rank best', 'ranks best')}"
    known = [abs(path.influence) for path in paths if path.influence is not None]
    if not order and len(known) == len(paths) and known == sorted(known, reverse=True):
        order = "the most influential first"
    return f"The {len(paths)} paths that {what}{', ' if order else ''}{order}"


def _verb(singular: str, paths: tuple[Path, ...]) -> str:
    return singular if len(paths) == 1 else singular.removesuffix("s")


# What was measured of one path, in plain words: alone, beside the others, and fact by fact.


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
