"""The facts of a path as statements: who does what to whom, in the direction of the words."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from pagelink.explain.result import Explanation, Path, PathEdge
from pagelink.views.naming import NodeWords, clean, isolate, type_words, words

_NUMBERS = (
    "no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven",
    "twelve",
)  # fmt: skip


@dataclass(frozen=True)
class Fact:
    """One statement about two nodes, in the direction in which its words read."""

    subject: NodeWords
    relation: str
    object: NodeWords

    def __str__(self) -> str:
        return f"{self.subject.isolated} {isolate(self.relation)} {self.object.isolated}"

    @property
    def short(self) -> str:
        """The same with long names cut: for a second mention."""
        return f"{self.subject.short} {isolate(self.relation)} {self.object.short}"


@dataclass(frozen=True)
class Step:
    """A fact as a path walks it."""

    fact: Fact
    backwards: bool
    """The fact's words read from the walk's end to its start."""
    edge: PathEdge
    stored: str
    """The edge type as the graph stores it."""
    details: str
    """What else is known of the fact, such as its source and date; may be empty."""

    def __str__(self) -> str:
        return f"{self.fact} ({self.details})" if self.details else str(self.fact)


def path_steps(path: Path, nodes: tuple[NodeWords, ...]) -> tuple[Step, ...]:
    """Return the facts of a path in order; `nodes` are the words of its nodes."""
    steps = []
    for edge, start, end in zip(path.edges, nodes[:-1], nodes[1:], strict=True):
        subject, object_ = (end, start) if edge.label_backwards else (start, end)
        fact = Fact(subject, words(edge.label), object_)
        details = ", ".join(f"{clean(k)}: {clean(str(v))}" for k, v in edge.attributes.items())
        steps.append(Step(fact, edge.label_backwards, edge, type_words(edge.type), details))
    return tuple(steps)


def num_facts(paths: Iterable[Path]) -> int:
    """Return how many different facts paths have: an edge and its reverse are one fact."""
    return len(
        {
            (frozenset(ends), words(edge.label))
            for path in paths
            for edge, *ends in zip(path.edges, path.nodes[:-1], path.nodes[1:], strict=True)
        }
    )


def number_word(number: int) -> str:
    """Return a number as part of a sentence: in letters up to twelve."""
    return _NUMBERS[number] if number < len(_NUMBERS) else f"{number:,}"


def counted_facts(paths: Iterable[Path]) -> str:
    """Return how many different facts paths have: "three facts"."""
    number = num_facts(paths)
    return f"{number_word(number)} fact{'' if number == 1 else 's'}"


def these_facts(paths: Iterable[Path]) -> str:
    """Return the facts of paths as part of a sentence: "these three facts"."""
    known = tuple(paths)
    return "this one fact" if num_facts(known) == 1 else f"these {counted_facts(known)}"


def enumerated(items: Iterable[str]) -> str:
    """Return a list as part of a sentence.

    Example:
        >>> enumerated(["a", "b", "c"])
        'a, b and c'
    """
    *others, last = items
    return f"{', '.join(others)} and {last}" if others else last


# The model's word on a link in plain words: a chance where it is one, otherwise a score.


_MOST_DECIMALS = 6
_LONG_NUMBER = 1e6
_MINUS = "\u2212"


@dataclass(frozen=True)
class ScoreWords:
    """The model's word on the link, under one circumstance."""

    circumstance: str
    """Empty, or whether the link itself was part of the graph."""
    chance: str
    """For example "93 in 100"."""
    raw: str
    probability: float


def score_words(explanation: Explanation) -> tuple[ScoreWords, ...]:
    """Return the chances of the link: with it in place, if the graph has it, and without it."""
    if explanation.threshold is None:
        return ()  # what a ranking model returns is no chance
    taken_out = _score("with the link taken out", explanation.logit, explanation.probability)
    deployed = _score(
        "with the link in place", explanation.logit_deployed, explanation.probability_deployed
    )
    if explanation.link_in_graph:
        return tuple(score for score in (deployed, taken_out) if score is not None)
    alone = _score("", explanation.logit, explanation.probability)
    return () if alone is None else (alone,)


def _score(circumstance: str, logit: float | None, probability: float | None) -> ScoreWords | None:
    if logit is None or probability is None or not math.isfinite(logit):
        return None
    return ScoreWords(circumstance, chance(probability), f"{logit:.2f}", probability)


def chance(probability: float) -> str:
    """Return a probability in words."""
    # Rounding must not turn a strong opinion into a certainty.
    if probability > 0.99:
        return "more than 99 in 100"
    if probability < 0.01:
        return "less than 1 in 100"
    return f"{round(100 * probability)} in 100"


def score_sentence(explanation: Explanation, scores: tuple[ScoreWords, ...]) -> str:
    """Return what the model says of the link; `scores` are those of `score_words`."""
    ranked = _ranking_sentence(explanation)
    if ranked or not scores:
        return ranked or "There is no score of the model for this link."
    told = [f"{score.chance} (raw score {score.raw})" for score in scores]
    if not scores[0].circumstance:
        return f"The model puts the chance of this link at {told[0]}."
    each = [f"{text} {score.circumstance}" for text, score in zip(told, scores, strict=True)]
    return (
        "The link is already part of the graph. The model puts its chance at "
        f"{enumerated(each)}. The explanation is about the model with the link taken out."
    )


def _ranking_sentence(explanation: Explanation) -> str:
    """What a model that only ranks says of the link: a score that is high or low beside others."""
    if explanation.threshold is not None or explanation.logit is None:
        return ""
    if explanation.link_in_graph and explanation.logit_deployed is not None:
        return (
            "The link is already part of the graph. The model scores it with "
            f"{explanation.logit_deployed:.2f} with the link in place and {explanation.logit:.2f} "
            "with the link taken out. The explanation is about the model with the link taken out."
        )
    return f"The model scores this link with {explanation.logit:.2f}."


@dataclass(frozen=True)
class Compared:
    """Two answers of the model, in the same words."""

    noun: str
    """What is compared: the "estimate" if the chances can be told apart, or a score."""
    before: str
    after: str
    direction: int
    """-1 if the second is lower, 1 if it is higher, 0 if the words are the same."""

    @property
    def change(self) -> str:
        """For example "falls from 93 in 100 to 41 in 100"."""
        if self.direction == 0:
            return f"stays at {self.before}"
        return f"{'falls' if self.direction < 0 else 'rises'} from {self.before} to {self.after}"


def score_noun(threshold: float | None) -> str:
    """Return what a logit is called, in all views: beside chances it is the raw score."""
    return "score" if threshold is None else "raw score"


def compared(threshold: float | None, before: float, after: float) -> Compared:
    """Return two logits in words: chances, unless they would read the same or are none.

    Args:
        threshold: None if the model only ranks, so that what it returns is no chance.
        before: the first logit.
        after: the second.
    """
    if threshold is not None and math.isfinite(before) and math.isfinite(after):
        words = chance(_sigmoid(before)), chance(_sigmoid(after))
        if words[0] != words[1]:
            return Compared("estimate", *words, _sign(after - before))
    first, second = numbers(before, after)
    direction = 0 if first == second else _sign(after - before)
    return Compared(score_noun(threshold), first, second, direction)


def numbers(*values: float) -> tuple[str, ...]:
    """Return numbers with two decimals, or as many as it takes to tell them apart.

    Example:
        >>> numbers(12.4, 9.82), numbers(12.4, 12.3996)
        (('12.40', '9.82'), ('12.4000', '12.3996'))
    """
    if any(abs(value) >= _LONG_NUMBER for value in values):
        return tuple(f"{value:.3e}" for value in values)
    for decimals in range(2, _MOST_DECIMALS + 1):
        # Adding 0 turns a rounded -0.0 into 0.0.
        rounded = tuple(round(value, decimals) + 0.0 for value in values)
        if len(set(rounded)) == len(set(values)):
            return tuple(f"{value:.{decimals}f}" for value in rounded)
    return tuple(f"{round(value, 2) + 0.0:.2f}" for value in values)


def in_words(threshold: float | None, logit: float) -> str:
    """Return one answer of the model: "93 in 100 (raw score 2.59)"."""
    (raw,) = numbers(logit)
    if threshold is None or not math.isfinite(logit):
        return raw
    return f"{chance(_sigmoid(logit))} (raw score {raw})"


def signed_change(influence: float | None) -> str:
    """Return how the score changes without what has this influence; empty if that is not known."""
    if influence is None:
        return ""
    (size,) = numbers(abs(influence))
    if float(size) == 0:
        return "0"
    return f"{_MINUS if influence > 0 else '+'}{size}"


def _sign(number: float) -> int:
    return (number > 0) - (number < 0)


def _sigmoid(logit: float) -> float:
    return (1 + math.tanh(logit / 2)) / 2
