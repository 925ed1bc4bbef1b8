"""What was measured of one path, in plain words: alone, beside the others, and fact by fact."""

from __future__ import annotations

from collections.abc import Sequence

from pagelink.explain.result import Explanation, Path
from pagelink.views.statements import Step
from pagelink.views.text import decimals_for, numbers, percent

MOST = 0.5
"""Paths are necessary if their removal takes this share of what all paths add, and not sufficient
alone if they bring back less than this share of it."""
ALL = 0.95
"""A path with this share of an effect has all of it."""
OVERLAP = 1.05
"""Shares that add up to more than this are of the same effect."""
ENDS_ONLY = 0.1
"""Below this connection the effect of a path comes from its first and its last step."""
TOGETHER = "These paths count together: one of them alone speaks against the link."
_OTHER_SIDE = 0.05
"""By how much a share differs from that by removal if it is the one by adding."""
_TOO_SMALL = 0.005
"""An effect that two decimals do not show."""
_ROUNDING = 1e-6
"""An effect that is none."""


def size_of(change: float) -> str:
    """Return how large a change of the score is, without its sign."""
    size = abs(change)
    if size >= _TOO_SMALL:
        return numbers(size)[0]
    return f"{size:.1e}" if 0 < size < _ROUNDING else f"{size:.{decimals_for(size)}f}"


def removing(explanation: Explanation) -> str:
    """Return what is done to facts: they are removed, or the model is trained without them."""
    return "training without" if explanation.trained else "removing"


def removed(explanation: Explanation) -> str:
    """Return how facts are taken away, behind them."""
    return "left out of training" if explanation.trained else "removed"


def bundled(paths: Sequence[Path]) -> tuple[Path, ...]:
    """Return paths in their order, those that count together behind the first of them."""
    first: dict[int, int] = {}
    for place, path in enumerate(paths):
        if path.bundle is not None:
            first.setdefault(path.bundle, place)
    places = {place: first.get(-1 if p.bundle is None else p.bundle, place)
              for place, p in enumerate(paths)}  # fmt: skip
    return tuple(paths[place] for place in sorted(places, key=lambda at: (places[at], at)))


def counts_together(path: Path, paths: Sequence[Path]) -> bool:
    """Whether another of some paths is in the bundle of this one."""
    return path.bundle is not None and sum(p.bundle == path.bundle for p in paths) > 1


def share_words(explanation: Explanation, path: Path) -> str:
    """Return the part that a path has in what the returned ones do.

    For example "42 % of the effect of these paths".

    A share by adding is said to be one: the figures beside it are those of removal. Empty if it is
    no evidence, stands alone, or has no share; a share above all is no number. Where
    several paths have all of the effect, it is said whether they need each other or stand in for
    each other; where shares overlap, that they do.
    """
    share = path.share
    if not path.is_evidence or explanation.is_negative or len(explanation.paths) < 2:
        return ""
    if share is None or round(share, 2) <= 0:
        return ""
    if round(share, 2) > 1:
        if _is_by_gain(explanation, path, share):
            rest = "the other adds" if len(explanation.paths) == 2 else "the others add"
            return f"needed: without this one, {rest} nothing to the graph without any path"
        return "more effect than these paths together"
    others = [p for p in explanation.paths if p.is_evidence and p is not path]
    if round(share, 2) == 1 and any(round(p.share or 0.0, 2) == 1 for p in others):
        return _all_of_it(explanation, path)
    if _is_by_gain(explanation, path, share):
        return f"{percent(share)} of what these paths add to the graph without any path"
    told = f"{percent(share)} of the effect of these paths"
    if share + sum(max(p.share or 0.0, 0.0) for p in others) > OVERLAP:
        return f"{told}, some of it shared with {'the other' if len(others) == 1 else 'others'}"
    return told


def _is_by_gain(explanation: Explanation, path: Path, share: float) -> bool:
    """Whether a share is one by adding, while the figures beside it are those of removal."""
    evidence, marginal = explanation.evidence, path.marginal
    if evidence is None or evidence.inserted or marginal is None or evidence.influence <= 0:
        return False
    return share > marginal / evidence.influence + _OTHER_SIDE


def _all_of_it(explanation: Explanation, path: Path) -> str:
    """Return what a path does that has all of the effect, as another one does."""
    evidence, number = explanation.evidence, len(explanation.paths)
    if evidence is None or explanation.logit is None:
        return "all of the effect of these paths"
    effect = explanation.logit - evidence.logit_without_these
    if (path.influence or 0.0) >= ALL * effect > explanation.noise:
        them = "both paths are" if number == 2 else "it is"
        left = "the other has" if number == 2 else "the others have"
        return f"{them} needed: without this one, {left} no effect"
    if (path.gain or 0.0) >= ALL * evidence.gain > explanation.noise:
        return "enough alone: it has the effect of all these paths"
    return "all of the effect of these paths, shared with others"


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
    evidence = explanation.evidence
    if path.influence is None or explanation.logit is None:
        return ()
    bar, own = explanation.noise, []
    removal_shows_it = abs(path.influence) > bar or (path.gain or 0.0) <= bar
    if path.gain is not None and evidence and (evidence.inserted or not removal_shows_it):
        own.append(f"Added alone to the graph without any path, it {_change(path.gain)}.")
    what = "fact" if len(path) == 1 else "path"
    error = f" (standard error {size_of(path.influence_error)})" if path.influence_error else ""
    does = removing(explanation).capitalize()
    own.append(f"{does} this {what} {_change(-path.influence)}{error}.")
    if is_reason:
        own.append(_connection(path))
    own.append(_beside_the_others(explanation, path))
    facts = _weakest(explanation, path, steps) if is_reason and path.influence > bar else ""
    return tuple(remark for remark in (" ".join(part for part in own if part), facts) if remark)


def _change(change: float) -> str:
    """Return "lowers the score by 0.12"."""
    if abs(change) < _ROUNDING:
        return "does not change the score"
    return f"{'lowers' if change < 0 else 'raises'} the score by {size_of(change)}"


def _connection(path: Path) -> str:
    """Return whether it matters that the first and the last step are connected."""
    if path.connection is None or len(path) < 3:
        return ""
    if path.connection < ENDS_ONLY:
        return (
            "The effect comes from the first and the last step; the connection between them adds "
            "nothing."
        )
    share = "all" if round(path.connection, 2) >= 1 else percent(path.connection)
    return f"The connection in between carries {share} of its effect."


def _beside_the_others(explanation: Explanation, path: Path) -> str:
    """Return what a path does beside the others shown, where that differs from what it does alone.

    Paths that are needed together do much alone and nothing beside each other; paths that stand in
    for each other do nothing alone.
    """
    evidence, bar, marginal = explanation.evidence, explanation.noise, path.marginal
    number = len(explanation.paths)
    alone = path.gain if evidence is not None and evidence.inserted else path.influence
    if evidence is None or marginal is None or alone is None or number < 2:
        return ""
    if abs(marginal - alone) <= bar:
        return ""
    others = f"the other path{'s' if number > 2 else ''}"
    if evidence.inserted:
        added = f"it adds {marginal:.2f}" if abs(marginal) > bar else "it adds next to nothing"
        return f"Added after {others}, {added}."
    gone = f"{others} {removed(explanation)}"
    worth = f"{gone}, this one is worth"
    if abs(marginal) <= bar:
        if alone >= MOST * evidence.influence > 0:
            return f"It is necessary, but not sufficient alone: with {worth} nothing."
        return f"With {worth} nothing more."
    if marginal < 0:
        rise = f"{removing(explanation)} this one too raises the score by {size_of(marginal)}"
        return f"With {gone}, {rise}."
    instead = abs(alone) <= bar and marginal >= MOST * evidence.influence > 0
    why = ": they stand in for each other" if instead else ""
    return f"With {worth} another {size_of(marginal)}{why}."


def _weakest(explanation: Explanation, path: Path, steps: tuple[Step, ...]) -> str:
    """Return the fact that matters least; idle facts say so themselves."""
    noise = explanation.noise
    known = {at: step.edge.influence for at, step in enumerate(steps)
             if step.edge.influence is not None and step.edge.active is not False}  # fmt: skip
    if len(known) < 2 or path.influence is None:
        return ""
    weakest = min(known, key=lambda at: known[at] or 0.0)
    least = known[weakest] or 0.0
    # Where all facts do the same, none is the weakest.
    if max(value or 0.0 for value in known.values()) - least <= noise:
        return ""
    return f"Its weakest fact: {steps[weakest].fact.short} ({_alone(explanation, least)})."


def _alone(explanation: Explanation, influence: float) -> str:
    does = f"{removing(explanation)} it alone"
    if abs(influence) <= explanation.noise:
        return f"{does} hardly changes the score"
    lowers = "lowers" if influence > 0 else "raises"
    return f"{does} {lowers} the score by {size_of(influence)}"
