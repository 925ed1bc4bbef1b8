"""Whether the model relies on the paths, in plain words, and under which headings they stand.

`VERDICT_WORDS` has the words of each verdict, for all views; whoever adds a verdict adds them here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pagelink.explain.result import Explanation, Path
from pagelink.measure.verdict import Evidence, Verdict
from pagelink.views.beyond_wording import (
    other_facts_count_more,
    rests_on_path_facts,
    what_counts_most,
)
from pagelink.views.control_wording import Measured, degree_only, led_to, of_at_most, one_end
from pagelink.views.path_wording import MOST, bundled, counts_together, removing
from pagelink.views.score_wording import compared
from pagelink.views.sentences import because
from pagelink.views.statements import Fact, PathGroup, counted_facts, num_facts
from pagelink.views.text import number_word, percent


@dataclass(frozen=True)
class VerdictWords:
    """How a verdict is said."""

    short: str
    """The verdict in a few words, for a list of verdicts."""
    is_relied: bool
    """The model relies on the paths: views set off the sentences as good news."""
    sentences: Callable[[Measured], tuple[str, ...]]
    """The verdict in sentences, which a reader meets before any path."""
    groups: Callable[[Measured], list[PathGroup[Path]]]
    """The paths by what they are under this verdict, those that matter most first."""


def is_relied(evidence: Evidence) -> bool:
    """Whether the model relies on the paths, and not on one end of them alone."""
    return VERDICT_WORDS[evidence.verdict].is_relied and evidence.ends is None


def verdict_sentences(explanation: Explanation, link: Fact) -> tuple[str, ...]:
    """Return whether the model relies on the paths; nothing if that was not measured.

    What the prediction rests on comes first: the first path in one sentence or, where the model
    does not rely on paths, what it does rely on; then the verdict with its figures.
    """
    evidence, logit = explanation.evidence, explanation.logit
    if evidence is None or logit is None:
        return ()
    measured = Measured(explanation, evidence, logit, link)
    verdict = VERDICT_WORDS[evidence.verdict].sentences(measured)
    if is_relied(evidence):
        opening = because(explanation), *verdict
    elif rests_on_path_facts(explanation):
        # Said first, it would be taken for a word on what these facts connect.
        opening = *verdict, what_counts_most(explanation, link)
    else:
        opening = what_counts_most(explanation, link), *verdict
    told = *opening, _longer(measured), other_facts_count_more(explanation)
    return tuple(sentence for sentence in told if sentence)


def groups(explanation: Explanation, link: Fact) -> tuple[PathGroup[Path], ...]:
    """Return the paths by what they are, those that matter most first; no group is empty.

    Paths that count together stand one behind the other.
    """
    evidence, paths = explanation.evidence, explanation.paths
    if explanation.is_negative:
        found = _for_and_against(paths)
    elif evidence is None:
        found = [PathGroup(_ranked("rank best", paths, "the best first"), paths)]
    else:
        measured = Measured(explanation, evidence, explanation.logit or 0.0, link)
        found = VERDICT_WORDS[evidence.verdict].groups(measured)
    return tuple(
        PathGroup(group.heading, bundled(group.paths), group.is_context, group.is_drawn)
        for group in found
        if group.paths
    )


def _longer(measured: Measured) -> str:
    """Say that paths of the length that was set did not do."""
    length, searched = measured.explanation.settings.max_length, measured.evidence.max_length
    if searched <= length:
        return ""
    return (
        f"Paths {of_at_most(length)} did not explain the score, so longer ones were "
        f"searched, {of_at_most(searched)}."
    )


def _against(measured: Measured) -> tuple[str, ...]:
    """All paths together lower the score, and yet those shown may raise it: both are said."""
    bare, without = measured.without_paths, measured.without_these
    if bare.direction:
        what = "together they lower the score, which is "
        what += f"{bare.after} instead of {bare.before} without any of them"
    else:
        what = f"without any of them the score is still {bare.before}"
    told = [f"The model does not rely on paths {measured.length} here: {what}."]
    if not measured.explanation.paths:
        pass
    elif measured.is_noticed and without.direction < 0:
        others = "lower it by more" if bare.direction else "lower it by as much"
        told.append(
            f"Some of them raise it: without {measured.these}, all others left in place, "
            f"the {measured.falls}. The other paths {others}."
        )
    elif measured.evidence.rho_reached is None:
        told.append("None of the combinations of paths that were tested raises it.")
    return tuple(told)


def _not_used(measured: Measured) -> tuple[str, ...]:
    answers, sets = measured.without_paths, measured.evidence.num_sets
    if sets == 0:
        return ("The model does not rely on paths here: its score uses no fact at all.",)
    tested = f"{sets:,} {'was' if sets == 1 else 'were'} tested"
    instead = f"{answers.after} instead of {answers.before}"
    bare = instead if answers.direction else f"still {answers.before}"
    return (
        f"The model does not rely on paths {measured.length} here: no combination of them changes "
        f"the score noticeably ({tested}), and without any it is {bare}.",
    )


def _not_by_these(measured: Measured) -> tuple[str, ...]:
    """All paths at once carry the prediction; those shown do not."""
    if not measured.explanation.paths:
        return ()
    bare, do = measured.without_paths, "do" if len(measured.explanation.paths) > 1 else "does"
    return (
        f"{_these_paths(measured).capitalize()} alone {do} not carry the prediction: without "
        f"{measured.these} the {measured.falls}. Without any path {measured.length} the score "
        f"is {bare.after} instead of {bare.before}, so the model relies on other paths, or on many "
        "at once.",
    )


def _these_paths(measured: Measured) -> str:
    return "this path" if len(measured.explanation.paths) == 1 else "these paths"


def _supported(measured: Measured) -> tuple[str, ...]:
    paths = measured.explanation.paths
    if not paths:
        return ()
    if measured.evidence.ends is not None:
        return one_end(measured)
    if measured.evidence.inserted:
        return (*_redundant(measured), *led_to(measured))
    reasons, _ = _reasons_and_others(paths)
    if 0 < len(reasons) < len(paths):
        all_ = number_word(len(paths))
        relied = f"{number_word(len(reasons))} of these {all_} paths"
        both = "both" if len(paths) == 2 else f"all {all_}"
        without = f"the {counted_facts(paths)} of {both} paths"
    else:
        relied = _these_paths(measured) + ("" if reasons else " together")
        without = measured.these
    relies = f"The model relies on {relied}: without {without} its {measured.falls}."
    return (relies, *_not_sufficient(measured), *led_to(measured))


def _not_sufficient(measured: Measured) -> tuple[str, ...]:
    """Say of paths that the prediction needs that it needs more than them."""
    evidence, paths = measured.evidence, measured.explanation.paths
    span = measured.logit - evidence.logit_without_paths
    falls = measured.logit - evidence.logit_without_these
    share = evidence.sufficiency
    if share is None or share >= MOST or falls < MOST * span:
        return ()
    are = "It is" if len(paths) == 1 else "They are"
    brings = "brings" if num_facts(paths) == 1 else "bring"
    back = f"only {percent(share)}" if round(share, 2) > 0 else "nothing"
    return (
        f"{are} necessary, but not sufficient alone: added to the graph without any path, "
        f"{measured.these} {brings} back {back} of what all paths add.",
    )


def _redundant(measured: Measured) -> tuple[str, ...]:
    bare = measured.evidence.logit_without_paths
    added = compared(bare, bare + measured.evidence.influence)
    raises = "raises" if num_facts(measured.explanation.paths) == 1 else "raise"
    return (
        "The model relies on paths here, but many of them stand in for each other, so "
        f"{removing(measured.explanation)} a few changes little: without {measured.these} its "
        f"{measured.falls}.",
        f"Added to the graph without any path, {measured.these} {raises} its score from "
        f"{added.before} to {added.after}.",
    )


def _context(paths: tuple[Path, ...], one: str, many: str, rest: str = "") -> PathGroup[Path]:
    """Paths that the model does not rely on, under "A path ..." or "2 paths ..."."""
    heading = f"A path {one}" if len(paths) == 1 else f"{len(paths)} paths {many}"
    return PathGroup(heading + rest, paths, is_context=True, is_drawn=True)


def _no_reasons(measured: Measured) -> list[PathGroup[Path]]:
    one, many = "is not the model's reason", "are not the model's reasons"
    paths = measured.explanation.paths
    return [_context(paths, f"in the graph that {one}", f"in the graph that {many}")]


def _where_they_are(measured: Measured) -> list[PathGroup[Path]]:
    paths = measured.explanation.paths
    return [_context(paths, "that shows where these facts are", "that show where these facts are")]


def _for_and_against(paths: tuple[Path, ...]) -> list[PathGroup[Path]]:
    found = []
    for side, is_for in (("for", True), ("against", False)):
        those = tuple(path for path in paths if bool(path.is_evidence) is is_for)
        speak = "speaks" if len(those) == 1 else "speak"
        found.append(PathGroup(_ranked(f"{speak} {side} the link", those), those, is_drawn=True))
    return found


def _raising_or_not(measured: Measured) -> list[PathGroup[Path]]:
    """Under a verdict against the link: what raises the score all the same, and what does not."""
    paths, bar = measured.explanation.paths, measured.explanation.noise
    raising = _with_bundles(
        paths, [path for path in paths if path.is_evidence or (path.influence or 0.0) > bar]
    )
    others = tuple(path for path in paths if path not in raising)
    rest = " the score, though all paths together lower it"
    return [
        _context(raising, "that raises", "that raise", rest),
        _context(others, "that does", "that do", " not raise the score"),
    ]


def _reasons_and_context(measured: Measured) -> list[PathGroup[Path]]:
    paths = measured.explanation.paths
    if measured.evidence.ends is not None:
        return _where_they_are(measured)
    reasons, others = _reasons_and_others(paths)
    loose = tuple(path for path in others if {0, len(path) - 1} & {*path.idle})
    others = tuple(path for path in others if path not in loose)
    no_effect = "whose first or last fact has no effect"
    unused = _context(loose, no_effect, no_effect)
    if not reasons and len(others) > 1 and measured.is_noticed:
        many, rest = "that count only together: none adds to the others by itself", ""
    else:
        small = any((path.marginal or 0.0) > 0 for path in others)
        many, rest = "that add", " next to nothing" if small else " nothing"
        if len(paths) > 1:
            beside = "the others" if len(paths) - (len(others) == 1) > 1 else "the other"
            rest += f" to {beside}, only for context"
    relies = PathGroup(_ranked("the model relies on", reasons), reasons)
    return [relies, _context(others, "that adds", many, rest), unused]


def _reasons_and_others(paths: tuple[Path, ...]) -> tuple[tuple[Path, ...], tuple[Path, ...]]:
    """Return the paths that are evidence, or of which it was not measured, and all others.

    A path that counts together with another one stands with it.
    """
    reasons = _with_bundles(paths, [path for path in paths if path.is_evidence is not False])
    return reasons, tuple(path for path in paths if path not in reasons)


def _with_bundles(paths: tuple[Path, ...], chosen: list[Path]) -> tuple[Path, ...]:
    """Return some of the paths, with those that count together with one of them."""
    return tuple(p for p in paths if p in chosen or counts_together(p, [p, *chosen]))


def _ranked(what: str, paths: tuple[Path, ...], order: str = "") -> str:
    """Return "The 2 paths that rank best, the best first"."""
    if len(paths) == 1:
        return f"The path that {what.replace('rank best', 'ranks best')}"
    known = [abs(path.influence) for path in paths if path.influence is not None]
    if not order and len(known) == len(paths) and known == sorted(known, reverse=True):
        order = "the most influential first"
    return f"The {len(paths)} paths that {what}{', ' if order else ''}{order}"


VERDICT_WORDS: dict[Verdict, VerdictWords] = {
    "structure_not_used": VerdictWords(
        "no set of paths moves the score", False, _not_used, _no_reasons
    ),
    "structure_against": VerdictWords(
        "without any path the score is as high or higher", False, _against, _raising_or_not
    ),
    "not_by_these": VerdictWords(
        "all paths together carry the prediction, but none of the sets found does",
        False,
        _not_by_these,
        _no_reasons,
    ),
    "degree_only": VerdictWords(
        "what counts is how much is known about an end, not what it is connected to",
        False,
        degree_only,
        _where_they_are,
    ),
    "supported": VerdictWords(
        "the paths carry the prediction", True, _supported, _reasons_and_context
    ),
}
