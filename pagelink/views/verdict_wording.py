"""Whether the model relies on the paths, in plain words, and under which headings they stand."""

from __future__ import annotations

from dataclasses import dataclass

from pagelink.explanation import Explanation, Path
from pagelink.verdicts import Evidence, unnoticed
from pagelink.views.score_wording import compared, score_noun
from pagelink.views.statements import counted_facts, num_facts, number_word, these_facts

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
