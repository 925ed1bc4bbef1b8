"""What was measured of the paths, in plain words: the verdict, each path's part, the figures."""

from __future__ import annotations

from pagelink.explanation import Evidence, Explanation, Path
from pagelink.views.naming import count
from pagelink.views.score_wording import compared, in_words, numbers
from pagelink.views.statements import Step, num_facts

NOTHING = 0.01
"""A fact does nothing if it moves the score by at most this share of what its path does."""
MOSTLY_ENDS = 0.25
"""The effect of a path comes from its two ends if its connection is at most this share of it."""
_TOO_SMALL = 0.005
"""An effect that two decimals do not show."""
_NUMBERS = (
    "no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven",
    "twelve",
)  # fmt: skip
_NO_SHARE = "cannot be said, since without the paths the score is not lower"


def verdict(explanation: Explanation) -> tuple[str, ...]:
    """Return whether the model relies on the paths; nothing if that was not measured."""
    evidence, logit = explanation.evidence, explanation.logit
    if evidence is None or logit is None:
        return ()
    if evidence.verdict == "supported":
        if not explanation.paths:
            return ()
        return (_redundant if evidence.inserted else _supported)(explanation, evidence, logit)
    answers = compared(explanation, logit, evidence.logit_without_paths)
    if evidence.verdict == "structure_against":
        higher = f"higher, {answers.after} instead of {answers.before}"
        what = f"without any of them it scores {higher if answers.direction else 'as high'}"
    else:
        tried = f"{evidence.num_sets:,} {'was' if evidence.num_sets == 1 else 'were'} tried"
        instead = f"{answers.after} instead of {answers.before}"
        what = (
            f"no combination of them changes its {answers.noun} noticeably ({tried}), and without "
            f"any it is {instead if answers.direction else f'still {answers.before}'}"
        )
    return (f"The model does not rely on paths here: {what}.",)


def _supported(explanation: Explanation, evidence: Evidence, logit: float) -> tuple[str, ...]:
    answers = compared(explanation, logit, evidence.logit_without_these)
    reasons, others = split(explanation)
    if others and reasons:
        all_ = _number(len(explanation.paths))
        relied = f"{_number(len(reasons))} of these {all_} paths"
        without = f"the {_facts(explanation.paths)} of all {all_}"
    else:
        relied = "this path" if len(explanation.paths) == 1 else "these paths"
        relied += "" if reasons else " together"
        without = _these_facts(explanation.paths)
    return (
        f"The model relies on {relied}: without {without} its {answers.noun} {answers.change}.",
    )


def _redundant(explanation: Explanation, evidence: Evidence, logit: float) -> tuple[str, ...]:
    removed = compared(explanation, logit, evidence.logit_without_these)
    bare = evidence.logit_without_paths
    added = compared(explanation, bare, bare + evidence.influence)
    these = _these_facts(explanation.paths)
    raise_ = "raises" if num_facts(explanation.paths) == 1 else "raise"
    return (
        "The model relies on paths here, but many of them stand in for each other, so that taking "
        f"away a few changes little: without {these} its {removed.noun} {removed.change}.",
        f"Put into the graph without any path, {these} {raise_} its {added.noun} "
        f"from {added.before} to {added.after}.",
    )


def split(explanation: Explanation) -> tuple[tuple[Path, ...], tuple[Path, ...]]:
    """Return the paths that are shown as evidence (or unmeasured), and those only for context."""
    evidence, paths = explanation.evidence, explanation.paths
    if evidence is not None and evidence.verdict != "supported":
        return (), paths
    return (
        tuple(path for path in paths if path.is_evidence is not False),
        tuple(path for path in paths if path.is_evidence is False),
    )


def evidence_heading(paths: tuple[Path, ...]) -> str:
    """Return what stands above the paths that the model relies on."""
    if len(paths) == 1:
        return "The path that the model relies on"
    known = [path.influence for path in paths if path.influence is not None]
    falling = len(known) == len(paths) and known == sorted(known, reverse=True)
    order = ", the most influential first" if falling else ""
    return f"The {len(paths)} paths that the model relies on{order}"


def context_heading(explanation: Explanation, paths: tuple[Path, ...]) -> str:
    """Return what stands above paths that are no evidence."""
    one = len(paths) == 1
    if explanation.evidence is not None and explanation.evidence.verdict != "supported":
        if one:
            return "A path of the graph that is not the model's reason"
        return f"{len(paths)} paths of the graph that are not the model's reasons"
    if len(paths) == len(explanation.paths):
        what = "A path that adds nothing" if one else f"{len(paths)} paths of which none adds"
    else:
        what = "A path that adds nothing" if one else f"{len(paths)} paths that add nothing"
    others = "the others" if len(explanation.paths) - one > 1 else "the other"
    return f"{what} to {others}, only for context"


def path_remarks(explanation: Explanation, path: Path, steps: tuple[Step, ...]) -> tuple[str, ...]:
    """Return what was measured of one path: at most two remarks."""
    logit = explanation.logit
    if path.influence is None or logit is None:
        return ()
    own = _own_effect(logit, path.influence, "fact" if len(path) == 1 else "path's facts")
    if path.influence < _TOO_SMALL or path not in split(explanation)[0]:
        return (own,)
    remarks = [
        f"{own} {_ends(path.influence, path.connection)}".rstrip(),
        _facts_alone(path, steps),
    ]
    return tuple(remark for remark in remarks if remark)


def _own_effect(logit: float, influence: float, what: str) -> str:
    before, after = numbers(logit, logit - influence)
    if before == after:
        return f"Without this {what} alone the score does not change."
    size = f"{abs(influence):.2f}" if abs(influence) >= _TOO_SMALL else "less than 0.01"
    change = f"{'falls' if influence > 0 else 'rises'} by {size} (from {before} to {after})"
    return f"Without this {what} alone the score {change}."


def _ends(influence: float, connection: float | None) -> str:
    """Return whether only the two ends of a path matter, by facts like them on no common path."""
    if connection is None or connection > MOSTLY_ENDS * influence:
        return ""
    if connection < _TOO_SMALL:
        return "It comes from its two ends; that they are joined adds nothing."
    return f"Most of it comes from its two ends; that they are joined adds {connection:.2f}."


def _facts_alone(path: Path, steps: tuple[Step, ...]) -> str:
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
            f"Its {_number(len(idle))} inner facts"
            if len(idle) == len(steps) - 2
            else (f"{_number(len(idle)).capitalize()} of its inner facts")
        )
        told.append(f"{inner} are links in the chain, not evidence.")
    least = steps[weakest].edge.influence
    most = max(step.edge.influence or 0.0 for step in steps)
    # Where all facts do the same, none is the weakest.
    if weakest not in idle and least is not None and most - least > NOTHING * influence:
        told.append(f"Its weakest fact: {steps[weakest].fact.short} ({_alone(least)}).")
    return " ".join(told)


def _alone(influence: float) -> str:
    if abs(influence) < _TOO_SMALL:
        return "without it alone the score does not change"
    falls = "falls" if influence > 0 else "rises"
    return f"without it alone the score {falls} by {abs(influence):.2f}"


def rule(explanation: Explanation, evidence: Evidence) -> str:
    """Return what was measured, and by what rule the paths were chosen."""
    rho, reached = explanation.settings.rho, evidence.rho_reached
    asked = "put into the graph without any path" if evidence.inserted else "taken out of the graph"
    measured = f"The facts of {count(evidence.num_sets, 'combination')} of paths were {asked}"
    if reached is None:
        chosen = "none had an effect in favour of the link, and the most concise paths are shown"
    elif rho == 0:
        chosen = (
            f"the most concise paths are shown, which reach {reached:.0%} of the largest effect"
        )
    elif rho == 1:
        chosen = "the combination with the largest effect is shown"
    else:
        chosen = (
            f"of the combinations that reach {rho:.0%} of the largest effect the most concise one "
            f"is shown, which reaches {reached:.0%}"
        )
    return f"{measured} and the model was asked again; {chosen}."


def figures(explanation: Explanation) -> tuple[tuple[str, str], ...]:
    """Return the model's answers on edited graphs, each with what it is about."""
    evidence, logit = explanation.evidence, explanation.logit
    if evidence is None or logit is None or not explanation.paths:
        return ()
    these = _these_facts(explanation.paths)
    whole = "with all facts but the link itself" if explanation.link_in_graph else "with all facts"
    answers = {
        whole: logit,
        f"without {these}": evidence.logit_without_these,
        "without any path": evidence.logit_without_paths,
        "without any fact at all": evidence.logit_without_edges,
        f"with only {these}": evidence.logit_only_these,
    }
    share = _NO_SHARE if evidence.sufficiency is None else f"{evidence.sufficiency:.0%}"
    return (
        *((about, in_words(explanation, answer)) for about, answer in answers.items()),
        ("of the difference that all paths make, these bring back", share),
    )


def _these_facts(paths: tuple[Path, ...]) -> str:
    return "this one fact" if num_facts(paths) == 1 else f"these {_facts(paths)}"


def _facts(paths: tuple[Path, ...]) -> str:
    number = num_facts(paths)
    return f"{_number(number)} fact{'' if number == 1 else 's'}"


def _number(number: int) -> str:
    return _NUMBERS[number] if number < len(_NUMBERS) else f"{number:,}"
