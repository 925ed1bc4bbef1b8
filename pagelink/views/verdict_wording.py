"""Whether the model relies on the paths, in plain words, and under which headings they stand.

`VERDICT_WORDS` has the words of each verdict, for all views; whoever adds a verdict adds them here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pagelink.explain.result import Explanation, Path
from pagelink.measure.verdict import Evidence, Verdict
from pagelink.views.statements import (
    Compared,
    PathGroup,
    Step,
    compared,
    counted_facts,
    num_facts,
    score_noun,
    these_facts,
)
from pagelink.views.text import number_word, numbers

MOST = 0.5
"""Paths are necessary if their removal takes this share of what all paths add, and not sufficient
alone if they bring back less than this share of it."""
NOTHING = 0.01
"""A fact does nothing if it moves the score by at most this share of what its path does."""
MOSTLY_ENDS = 0.25
"""The effect of a path comes from its two ends if its connection is at most this share of it."""
_TOO_SMALL = 0.005
"""An effect that two decimals do not show."""


@dataclass(frozen=True)
class _Measured:
    """An explanation with its evidence, and the model's answers on edited graphs in words."""

    explanation: Explanation
    evidence: Evidence
    logit: float

    @property
    def without_these(self) -> Compared:
        """The model's answer without the facts of the returned paths, beside that with all."""
        threshold = self.explanation.threshold
        return compared(threshold, self.logit, self.evidence.logit_without_these)

    @property
    def without_paths(self) -> Compared:
        """Its answer without any path, beside that with all."""
        threshold = self.explanation.threshold
        return compared(threshold, self.logit, self.evidence.logit_without_paths)

    @property
    def is_noticed(self) -> bool:
        """The returned paths together speak for the link, noticeably."""
        return self.evidence.influence > self.explanation.noise

    @property
    def these(self) -> str:
        """The facts of the paths: "these three facts"."""
        return these_facts(self.explanation.paths)


@dataclass(frozen=True)
class VerdictWords:
    """How a verdict is told."""

    short: str
    """The verdict in a few words, for a list of verdicts."""
    is_relied: bool
    """The model relies on the paths: views set off the sentences as good news."""
    sentences: Callable[[_Measured], tuple[str, ...]]
    """The verdict in sentences, which a reader meets before any path."""
    groups: Callable[[_Measured], list[PathGroup[Path]]]
    """The paths by what they are under this verdict, those that matter most first."""


def verdict_sentences(explanation: Explanation) -> tuple[str, ...]:
    """Return whether the model relies on the paths; nothing if that was not measured."""
    evidence, logit = explanation.evidence, explanation.logit
    if evidence is None or logit is None:
        return ()
    return VERDICT_WORDS[evidence.verdict].sentences(_Measured(explanation, evidence, logit))


def groups(explanation: Explanation) -> tuple[PathGroup[Path], ...]:
    """Return the paths by what they are, those that matter most first; no group is empty."""
    evidence, paths = explanation.evidence, explanation.paths
    if explanation.is_negative:
        found = _for_and_against(paths)
    elif evidence is None:
        found = [PathGroup(_ranked("rank best", paths, "the best first"), paths)]
    else:
        measured = _Measured(explanation, evidence, explanation.logit or 0.0)
        found = VERDICT_WORDS[evidence.verdict].groups(measured)
    return tuple(group for group in found if group.paths)


def _against(measured: _Measured) -> tuple[str, ...]:
    """All paths together lower the score, and yet those shown may raise it: both are said."""
    bare, without = measured.without_paths, measured.without_these
    if bare.direction:
        what = f"all paths together lower its {bare.noun}, without any of them it is higher, "
        what += f"{bare.after} instead of {bare.before}"
    else:
        what = f"without any of them its {bare.noun} is as high, {bare.before}"
    told = [f"The model does not rely on paths here: {what}."]
    if not measured.explanation.paths:
        pass
    elif measured.is_noticed and without.direction < 0:
        others = "lower it by more" if bare.direction else "lower it by as much"
        told.append(
            f"Some raise it: without {measured.these}, all others left in place, "
            f"its {without.noun} {without.change}. The other paths {others}."
        )
    elif measured.evidence.rho_reached is None:
        told.append("No combination of paths that was tried raises it.")
    return tuple(told)


def _not_used(measured: _Measured) -> tuple[str, ...]:
    answers, sets = measured.without_paths, measured.evidence.num_sets
    if sets == 0:
        return (f"The model does not rely on paths here: its {answers.noun} uses no fact at all.",)
    tried = f"{sets:,} {'was' if sets == 1 else 'were'} tried"
    instead = f"{answers.after} instead of {answers.before}"
    bare = instead if answers.direction else f"still {answers.before}"
    return (
        f"The model does not rely on paths here: no combination of them changes its {answers.noun} "
        f"noticeably ({tried}), and without any it is {bare}.",
    )


def _not_by_these(measured: _Measured) -> tuple[str, ...]:
    """All paths at once carry the prediction; those shown do not."""
    if not measured.explanation.paths:
        return ()
    bare, without = measured.without_paths, measured.without_these
    return (
        f"Not by {_these_paths(measured)}: without {measured.these} the model's {without.noun} "
        f"{without.change}. Without any path it would be {bare.after} instead of {bare.before}, "
        "so it relies on others, or on very many at once.",
    )


def _these_paths(measured: _Measured) -> str:
    return "this path" if len(measured.explanation.paths) == 1 else "these paths"


def _supported(measured: _Measured) -> tuple[str, ...]:
    paths = measured.explanation.paths
    if not paths or measured.evidence.inserted:
        return _redundant(measured) if paths else ()
    answers, (reasons, _) = measured.without_these, _reasons_and_others(paths)
    if 0 < len(reasons) < len(paths):
        all_ = number_word(len(paths))
        relied = f"{number_word(len(reasons))} of these {all_} paths"
        without = f"the {counted_facts(paths)} of all {all_}"
    else:
        relied = _these_paths(measured) + ("" if reasons else " together")
        without = measured.these
    relies = f"The model relies on {relied}: without {without} its {answers.noun} {answers.change}."
    return (relies, *_not_sufficient(measured))


def _not_sufficient(measured: _Measured) -> tuple[str, ...]:
    """Say of paths that the prediction needs that it needs more than them."""
    evidence, paths = measured.evidence, measured.explanation.paths
    span = measured.logit - evidence.logit_without_paths
    falls = measured.logit - evidence.logit_without_these
    share = evidence.sufficiency
    if share is None or share >= MOST or falls < MOST * span:
        return ()
    are = "It is" if len(paths) == 1 else "They are"
    brings = "brings" if num_facts(paths) == 1 else "bring"
    back = f"only {share:.0%}" if round(share, 2) > 0 else "nothing"
    return (
        f"{are} necessary, not sufficient alone: put into the graph without any path, "
        f"{measured.these} {brings} back {back} of what all paths add.",
    )


def _redundant(measured: _Measured) -> tuple[str, ...]:
    removed, bare = measured.without_these, measured.evidence.logit_without_paths
    added = compared(measured.explanation.threshold, bare, bare + measured.evidence.influence)
    raises = "raises" if num_facts(measured.explanation.paths) == 1 else "raise"
    return (
        "The model relies on paths here, but many of them stand in for each other, so that taking "
        f"away a few changes little: without {measured.these} its {removed.noun} {removed.change}.",
        f"Put into the graph without any path, {measured.these} {raises} its {added.noun} "
        f"from {added.before} to {added.after}.",
    )


def _context(paths: tuple[Path, ...], one: str, many: str, rest: str = "") -> PathGroup[Path]:
    """Paths that the model does not rely on, under "A path ..." or "2 paths ..."."""
    heading = f"A path {one}" if len(paths) == 1 else f"{len(paths)} paths {many}"
    return PathGroup(heading + rest, paths, is_context=True, is_drawn=True)


def _no_reasons(measured: _Measured) -> list[PathGroup[Path]]:
    one, many = "is not the model's reason", "are not the model's reasons"
    paths = measured.explanation.paths
    return [_context(paths, f"of the graph that {one}", f"of the graph that {many}")]


def _for_and_against(paths: tuple[Path, ...]) -> list[PathGroup[Path]]:
    found = []
    for side, is_for in (("for", True), ("against", False)):
        those = tuple(path for path in paths if bool(path.is_evidence) is is_for)
        speak = "speaks" if len(those) == 1 else "speak"
        found.append(PathGroup(_ranked(f"{speak} {side} the link", those), those, is_drawn=True))
    return found


def _raising_or_not(measured: _Measured) -> list[PathGroup[Path]]:
    """Under a verdict against the link: what raises the score all the same, and what does not."""
    paths, bar = measured.explanation.paths, measured.explanation.noise
    noun = score_noun(measured.explanation.threshold)
    raising = tuple(path for path in paths if path.is_evidence or (path.influence or 0.0) > bar)
    others = tuple(path for path in paths if path not in raising)
    rest = f" the {noun}, though all together lower it"
    return [
        _context(raising, "that raises", "that raise", rest),
        _context(others, "that does", "that do", f" not raise the {noun}"),
    ]


def _reasons_and_context(measured: _Measured) -> list[PathGroup[Path]]:
    paths = measured.explanation.paths
    reasons, others = _reasons_and_others(paths)
    if not reasons and len(others) > 1 and measured.is_noticed:
        many, rest = "that count only together: none adds to the others by itself", ""
    else:
        small = any((path.marginal or 0.0) > 0 for path in others)
        many, rest = "that add", " next to nothing" if small else " nothing"
        if len(paths) > 1:
            beside = "the others" if len(paths) - (len(others) == 1) > 1 else "the other"
            rest += f" to {beside}, only for context"
    relies = PathGroup(_ranked("the model relies on", reasons), reasons)
    return [relies, _context(others, "that adds", many, rest)]


def _reasons_and_others(paths: tuple[Path, ...]) -> tuple[tuple[Path, ...], tuple[Path, ...]]:
    """Return the paths that are evidence, or of which it was not measured, and all others."""
    others = tuple(path for path in paths if path.is_evidence is False)
    return tuple(path for path in paths if path.is_evidence is not False), others


def _ranked(what: str, paths: tuple[Path, ...], order: str = "") -> str:
    """Return "The 2 paths that rank best, the best first"."""
    if len(paths) == 1:
        return f"The path that {what.replace('rank best', 'ranks best')}"
    known = [abs(path.influence) for path in paths if path.influence is not None]
    if not order and len(known) == len(paths) and known == sorted(known, reverse=True):
        order = "the most influential first"
    return f"The {len(paths)} paths that {what}{', ' if order else ''}{order}"


VERDICT_WORDS: dict[Verdict, VerdictWords] = {
    "supported": VerdictWords(
        "the paths carry the prediction", True, _supported, _reasons_and_context
    ),
    "structure_not_used": VerdictWords(
        "no set of paths moves the score", False, _not_used, _no_reasons
    ),
    "structure_against": VerdictWords(
        "without any path the score is as high or higher", False, _against, _raising_or_not
    ),
    "not_by_these": VerdictWords(
        "paths carry the prediction, but no few of them that were found",
        False,
        _not_by_these,
        _no_reasons,
    ),
}


# What was measured of one path, in plain words: alone, beside the others, and fact by fact.


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
    evidence, logit = explanation.evidence, explanation.logit
    if path.influence is None or logit is None:
        return ()
    noun = score_noun(explanation.threshold)
    own = []
    if path.added is not None and evidence is not None:
        bare = evidence.logit_without_paths
        change = _change(f"the {noun}", ("raises", "lowers"), bare, path.added)
        own.append(f"Put alone into the graph without any path, it {change}.")
    what = "fact" if len(path) == 1 else "path's facts"
    change = _change("", ("rises", "falls"), logit, -path.influence)
    own.append(f"Without this {what} alone the {noun} {change}.")
    told = is_reason and path.influence > explanation.noise
    if told:
        own.append(_ends(path.influence, path.connection, explanation.noise))
    own.append(_beside_the_others(explanation, path, logit))
    facts = _facts_alone(path, steps, noun, explanation.noise) if told else ""
    return tuple(remark for remark in (" ".join(part for part in own if part), facts) if remark)


def _change(what: str, verbs: tuple[str, str], before: float, change: float) -> str:
    """Return "falls by 0.12 (from 2.34 to 2.22)", or "raises the score by 0.12 (...)"."""
    first, second = numbers(before, before + change)
    if first == second:
        return f"does not change {what}".rstrip()
    verb = f"{verbs[change < 0]} {what}".rstrip()
    return f"{verb} by {_size(change)} (from {first} to {second})"


def _beside_the_others(explanation: Explanation, path: Path, logit: float) -> str:
    """Return what a path does beside the others shown, where that differs from what it does alone.

    Paths that are needed together do much alone and nothing beside each other; paths that stand in
    for each other do nothing alone.
    """
    evidence, bar, marginal = explanation.evidence, explanation.noise, path.marginal
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


def _ends(influence: float, connection: float | None, noise: float) -> str:
    """Return whether only the two ends of a path matter, by facts like them on no common path."""
    if connection is None or connection > MOSTLY_ENDS * influence:
        return ""
    if connection <= noise:
        return "It comes from its two ends; that they are joined adds nothing."
    return f"Most of it comes from its two ends; that they are joined adds {connection:.2f}."


def _facts_alone(path: Path, steps: tuple[Step, ...], noun: str, noise: float) -> str:
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
        told.append(
            f"Its weakest fact: {steps[weakest].fact.short} ({_alone(least, noun, noise)})."
        )
    return " ".join(told)


def _alone(influence: float, noun: str, noise: float) -> str:
    if abs(influence) <= noise:
        return f"without it alone the {noun} hardly changes"
    falls = "falls" if influence > 0 else "rises"
    return f"without it alone the {noun} {falls} by {abs(influence):.2f}"


def _size(change: float) -> str:
    return f"{abs(change):.2f}" if abs(change) >= _TOO_SMALL else "less than 0.01"
