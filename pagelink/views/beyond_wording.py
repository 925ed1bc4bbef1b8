"""What counts beside the returned paths, in plain words.

Sets of paths that are equally good, the facts that count most wherever they are, and what else the
score rests on, part by part.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from pagelink.explain.result import Explanation, Node, Path, StrongestFacts
from pagelink.measure.verdict import Part, PartName
from pagelink.views.control_wording import of_at_most
from pagelink.views.path_wording import removing, size_of
from pagelink.views.score_wording import MINUS, place
from pagelink.views.statements import Fact, NodeWords, edge_words, fact_key, fact_keys, path_steps
from pagelink.views.text import count, number_word, percent, words

HALF = 0.5
"""Below this share of what as many facts can do, the first lines say that other facts count more;
and a part on which the score rests mostly has at least this share of what all parts add."""
SHOWN = 3
"""Sets of paths that are listed as equally good."""
_SIGNS = f"(+ supports the link, {MINUS} speaks against it)"


# Sets of paths that are as good as the returned one.


@dataclass(frozen=True)
class AlternativeWords:
    """A set of paths that is as good as the returned one, a line per path."""

    worth: float
    lines: tuple[str, ...]


@dataclass(frozen=True)
class EquallyGood:
    """Sets of paths that are as good as the returned one."""

    heading: str
    sets: tuple[AlternativeWords, ...]
    more: str
    """How many others there are; empty if all are listed."""


def equally_good(
    explanation: Explanation, nodes: Mapping[Node, NodeWords], limit: int | None = SHOWN
) -> EquallyGood | None:
    """Return the sets that are as good as the returned one, the first of them; None without any."""
    found = explanation.alternatives
    if not found:
        return None
    told = tuple(
        AlternativeWords(each.worth, tuple(path_line(path, nodes) for path in each.paths))
        for each in found[:limit]
    )
    others = len(found) - len(told)
    more = f"and {count(others, 'further set')} of paths" if others else ""
    return EquallyGood("Equally good", told, more)


def path_line(path: Path, nodes: Mapping[Node, NodeWords]) -> str:
    """Return a path in one line: its facts, one after the other."""
    steps = path_steps(path, tuple(nodes[node] for node in path.nodes))
    return "; ".join(str(step.fact) for step in steps)


# The facts that count most.


@dataclass(frozen=True)
class StrongFact:
    """One of the facts that count most."""

    fact: Fact
    remark: str
    """What it does alone, and which of the paths shown it is on; may be empty."""
    influence: float | None

    def __str__(self) -> str:
        return f"{self.fact} ({self.remark})" if self.remark else str(self.fact)


@dataclass(frozen=True)
class StrongestWords:
    """The facts that count most, and how the returned paths compare with them."""

    heading: str
    sentence: str
    facts: tuple[StrongFact, ...]
    """Empty if they are all facts of the paths."""


def strongest_words(
    explanation: Explanation, nodes: Mapping[Node, NodeWords], shown: Sequence[Path]
) -> StrongestWords | None:
    """Return the facts that count most; None if they were not looked for.

    Args:
        explanation: what they are from.
        nodes: what its nodes are called.
        shown: its paths in the order in which they are numbered.
    """
    found = explanation.strongest
    if found is None:
        return None
    bar = explanation.noise
    on: dict[object, list[int]] = {}
    for number, path in enumerate(shown, start=1):
        for key in dict.fromkeys(fact_keys(path)):
            on.setdefault(key, []).append(number)
    facts, everywhere = [], True
    for each in found.facts:
        start, end = each.nodes
        paths = on.get(fact_key(each.edge, start, end), [])
        everywhere = everywhere and bool(paths)
        added = "added" if each.edge.added else ""
        remarks = [added, _alone(each.edge.influence, bar), _on_paths(paths)]
        fact = edge_words(each.edge, nodes[start], nodes[end])
        told = ", ".join(remark for remark in remarks if remark)
        facts.append(StrongFact(fact, told, each.edge.influence))
    sentence = _strongest_sentence(explanation, found)
    heading = "The strongest facts"
    if facts and everywhere and len(facts) == len(on):
        return StrongestWords(heading, f"{sentence} {_all_of(len(facts), len(shown))}", ())
    if any(abs(fact.influence or 0.0) > bar for fact in facts):
        heading = f"{heading} {_SIGNS}"
    return StrongestWords(heading, sentence, tuple(facts))


def _strongest_sentence(explanation: Explanation, found: StrongestFacts) -> str:
    if found.share is None or not found.facts:
        return "No facts were found whose removal lowers the score noticeably."
    to = ""
    if explanation.rank_without_strongest is not None:
        to = f" and moves the link to {place(explanation, explanation.rank_without_strongest)}"
    lowers = f"lowers the score by {size_of(found.effect)}{to}"
    does = removing(explanation).capitalize()
    removal = f"{does} {_these(len(found.facts))} {lowers}."
    # Below half, the first lines have the share.
    if not explanation.paths or found.share < HALF:
        return removal
    them = "the path" if len(explanation.paths) == 1 else "the paths"
    if round(found.share, 2) < 1:
        return f"{removal} {does} {them} has {percent(found.share)} of this effect."
    much = "as much" if round(found.share, 2) == 1 else "more"
    return f"{removal} {does} {them} does {much}."


def _all_of(number: int, num_paths: int) -> str:
    these = "this path" if num_paths == 1 else "these paths"
    return f"It is the fact of {these}." if number == 1 else f"They are the facts of {these}."


def _these(number: int) -> str:
    return "this one fact" if number == 1 else f"these {number_word(number)} facts together"


def _alone(influence: float | None, noise: float) -> str:
    if influence is None:
        return ""
    return "alone: hardly any effect" if abs(influence) <= noise else f"alone: {_signed(influence)}"


def _signed(effect: float) -> str:
    """Return an effect beyond the noise with its sign, however small the scores are."""
    return f"{'+' if effect > 0 else MINUS}{size_of(effect)}"


def _on_paths(numbers: list[int]) -> str:
    if not numbers:
        return ""
    return f"on path{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers))}"


def other_facts_count_more(explanation: Explanation) -> str:
    """Return what the first lines say where paths have less than half the effect of other facts."""
    found = explanation.strongest
    if found is None or found.share is None or found.share >= HALF or not explanation.paths:
        return ""
    number = len(found.facts)
    facts = "the strongest fact" if number == 1 else f"the {number_word(number)} strongest facts"
    path = "this path" if len(explanation.paths) == 1 else "these paths"
    part = "none" if round(found.share, 2) <= 0 else f"only {percent(found.share)}"
    does = removing(explanation)
    return f"Other facts count more: {does} {path} has {part} of the effect of {does} {facts}."


# What else the score rests on.


@dataclass(frozen=True)
class PartWords:
    """One part of what the model sees, and what the score does without it."""

    name: PartName
    about: str
    change: str
    """What the part adds to the score, with its sign and error; "nothing" within noise."""
    effect: float
    error: float | None


@dataclass(frozen=True)
class WhatElse:
    """What the score rests on, part by part."""

    heading: str
    sentence: str
    parts: tuple[PartWords, ...]


def what_else_words(explanation: Explanation, link: Fact) -> WhatElse | None:
    """Return what the score rests on; None if that was not measured."""
    if not explanation.what_else:
        return None
    bar = explanation.noise
    parts = tuple(
        PartWords(
            part.name,
            _part(explanation, part, link) + _part_size(part),
            "nothing" if abs(part.effect) <= bar else _signed(part.effect) + _error(part),
            part.effect,
            part.error,
        )
        for part in explanation.what_else
        if part.size
    )
    return WhatElse(
        f"What the score rests on {_SIGNS}",
        what_counts_most(explanation, link),
        parts,
    )


def _noticed(explanation: Explanation) -> list[Part]:
    """The parts that change the score: a mean over draws below two of its errors may be nothing."""
    bar = explanation.noise
    return [
        part
        for part in explanation.what_else
        if abs(part.effect) > max(bar, 2 * (part.error or 0.0))
    ]


def rests_on_path_facts(explanation: Explanation) -> bool:
    """Whether facts on paths are the part that the score rests on most."""
    most = max(_noticed(explanation), key=lambda part: part.effect, default=None)
    return most is not None and most.effect > 0 and most.name == "path_facts"


def what_counts_most(explanation: Explanation, link: Fact) -> str:
    """Return the part that the score rests on most; empty if that was not measured."""
    if not explanation.what_else:
        return ""
    noticed = _noticed(explanation)
    if not noticed:
        return "No part of what the model sees changes the score noticeably by itself."
    most = max(noticed, key=lambda part: part.effect)
    if most.effect <= 0:
        least = min(noticed, key=lambda part: part.effect)
        what = _part(explanation, least, link) + _part_size(least)
        return (
            f"No part of what the model sees raises the score by itself; {what} lower it most: "
            f"{_instead(explanation, least)} it rises by {size_of(least.effect)}{_error(least)}."
        )
    whole = _sum(part.effect for part in noticed)
    rests = "mostly on" if most.effect >= HALF * whole else "on several parts, most of all on"
    what = _part(explanation, most, link) + _part_size(most)
    return (
        f"The score rests {rests} {what}: {_instead(explanation, most)} it falls by "
        f"{size_of(most.effect)}{_error(most)}."
    )


def _sum(effects: Iterable[float]) -> float:
    return sum(effect for effect in effects if effect > 0)


def _part(explanation: Explanation, part: Part, link: Fact) -> str:
    """Return a part in words, with the names of the ends."""
    src, dst = link.subject.short, link.object.short
    evidence = explanation.evidence
    longest = explanation.settings.max_length if evidence is None else evidence.max_length
    return {
        "path_facts": f"facts on paths {of_at_most(longest)}",
        "facts_near_src": f"facts near {src} that are on no path",
        "facts_near_dst": f"facts near {dst} that are on no path",
        "facts_between": f"facts as near to {src} as to {dst} that are on no path",
        "features_src": f"the features of {src}",
        "features_dst": f"the features of {dst}",
        "features_others": "the features of all other nodes",
    }[part.name]


def _is_features(part: Part) -> bool:
    return part.name.startswith("features")


def _part_size(part: Part) -> str:
    if part.name in ("features_src", "features_dst"):
        return ""
    noun = "node" if _is_features(part) else "fact"
    return f" ({count(part.size, noun)})"


def _instead(explanation: Explanation, part: Part) -> str:
    """Return how the part was taken out: "with those of a similar item instead", for example."""
    kinds = {"features_src": explanation.src[0], "features_dst": explanation.dst[0]}
    if part.name in kinds:
        return f"with those of a similar {words(kinds[part.name])} instead"
    return "with those of similar nodes instead" if _is_features(part) else "without these facts"


def _error(part: Part) -> str:
    return "" if part.error is None else f" ± {size_of(part.error)}"
