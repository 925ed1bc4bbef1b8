"""Whether it matters what the facts of the paths lead to, in plain words.

Exchanging facts for others of the same kind keeps every degree, and tells the two apart.
"""

from __future__ import annotations

from dataclasses import dataclass

from pagelink.explain.result import Explanation
from pagelink.measure.verdict import DegreeControl, Evidence
from pagelink.views.path_wording import removing, size_of
from pagelink.views.score_wording import Compared, compared, place
from pagelink.views.statements import Fact, num_facts, these_facts
from pagelink.views.text import decimals_for, enumerated, number_word, ordinal


@dataclass(frozen=True)
class Measured:
    """An explanation with its evidence, and the model's answers on edited graphs in words."""

    explanation: Explanation
    evidence: Evidence
    logit: float
    link: Fact

    @property
    def without_these(self) -> Compared:
        """The model's answer without the facts of the returned paths, beside that with all."""
        return compared(self.logit, self.evidence.logit_without_these)

    @property
    def falls(self) -> str:
        """What the score does without them, and the rank, if it is known.

        For example "score falls from 6.10 to 1.57, and its rank falls from 2nd to 1,204th of 9,726
        movies".
        """
        said, explanation = f"score {self.without_these.change}", self.explanation
        rank, after = explanation.rank, explanation.rank_without_these
        if rank is None or after is None:
            return said
        of = place(explanation, after, explanation.rank_ties_without_these)
        if after == rank:
            return f"{said}; it still ranks {of}"
        moves = "falls" if after > rank else "rises"
        return f"{said}, and its rank {moves} from {ordinal(rank)} to {of}"

    @property
    def without_paths(self) -> Compared:
        """Its answer without any path, beside that with all."""
        return compared(self.logit, self.evidence.logit_without_paths)

    @property
    def is_noticed(self) -> bool:
        """The returned paths together speak for the link, noticeably."""
        return self.evidence.influence > self.explanation.noise

    @property
    def these(self) -> str:
        """The facts of the paths: "these three facts"."""
        return these_facts(self.explanation.paths)

    @property
    def length(self) -> str:
        """Of which paths is spoken: "of at most three facts"."""
        return of_at_most(self.evidence.max_length)


def of_at_most(length: int) -> str:
    """Return how long paths may be: "of at most three facts"."""
    return f"of at most {number_word(length)} fact{'' if length == 1 else 's'}"


def led_to(measured: Measured) -> tuple[str, ...]:
    """Say whether it matters what the facts of the paths lead to, or only how many there are."""
    control, one = measured.evidence.control, num_facts(measured.explanation.paths) == 1
    these = "this fact leads" if one else "these facts lead"
    if control is not None and control.decides:
        if control.low > measured.explanation.noise:
            matters = f"What {these} to matters"
        else:
            matters = f"It is not certain that what {these} to matters"
        return (f"{matters}: {_exchanged(measured, control)}.",)
    number = "that it is there" if one else "how many there are"
    asked = f"Whether it matters what {these} to, or only {number},"
    if measured.explanation.settings.swaps == 0:
        return (f"{asked} was not measured.",)
    few = "too few exchanges with other facts of the same kind are possible"
    return (f"{asked} could not be decided: {few}.",)


def _exchanged(measured: Measured, control: DegreeControl) -> str:
    """Return what exchanging the facts does to the score, with its interval."""
    falls, low, high = control.effect, control.low, control.high
    verb = "lowers"
    if falls < 0:
        verb, falls, low, high = "raises", -falls, -high, -low
    one = num_facts(measured.explanation.paths) == 1
    them = "it for a random one" if one else "them for random ones"
    beside = "" if control.num_placebo else "; no facts off the paths to compare with"
    digits = decimals_for(max(abs(low), abs(high), abs(measured.evidence.influence)))
    by, least, most = (f"{round(value, digits) + 0.0:.{digits}f}" for value in (falls, low, high))
    return (
        f"exchanging {them} of the same kind, which keeps all degrees, {verb} the "
        f"score by {by} (95 % interval {least} to {most}, "
        f"{control.num_draws} draws{beside})"
    )


def degree_only(measured: Measured) -> tuple[str, ...]:
    """What counts is how much is known about an end."""
    evidence, link = measured.evidence, measured.link
    both = [link.subject.short, link.object.short]
    who = {"src": both[:1], "dst": both[1:]}.get(evidence.ends or "both", both)
    known = enumerated(who)
    connected = f"{'it is' if len(who) == 1 else 'they are'} connected to"
    if evidence.ends == "either":
        known = f"{' or '.join(who)} (a fact that joins both does not tell which)"
    control = evidence.control
    if control is not None and control.high < -measured.explanation.noise:
        connected = f"; what {connected} speaks against the link"
    else:
        connected = f", not what {connected}"
    if evidence.inserted:
        does = f"adding {measured.these} to the graph without any path raises"
    else:
        does = f"{removing(measured.explanation)} {measured.these} lowers"
    told = [f"{does} the score by {size_of(evidence.influence)}"]
    if evidence.control is not None:
        told.append(_exchanged(measured, evidence.control))
    return (f"What counts is how much is known about {known}{connected}: {', but '.join(told)}.",)


def one_end(measured: Measured) -> tuple[str, ...]:
    """What counts is one end: that the other one is connected to it does nothing."""
    link = measured.link
    who, other = (link.object, link.subject)
    if measured.evidence.ends == "src":
        who, other = other, who
    return (
        f"What counts is what {who.short} is connected to, not that {other.short} is connected to "
        f"it: without {measured.these} the {measured.falls}; those of "
        f"them at {other.short} alone change nothing.",
        *led_to(measured),
    )
