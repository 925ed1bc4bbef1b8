"""The model's word on a link: where the link ranks, and its score.

A sigmoid of the score is no chance, so that none is shown.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from pagelink.explain.result import Explanation
from pagelink.views.statements import Fact
from pagelink.views.text import decimals_for, enumerated, numbers, ordinal, plural, words

MINUS = "\u2212"
_RANK_NOT_SAID = ("structure_not_used", "degree_only")
"""Verdicts whose sentences have no rank."""


@dataclass(frozen=True)
class ScoreWords:
    """The model's score of the link, under one circumstance."""

    circumstance: str
    """Empty, or whether the link itself was part of the graph."""
    score: str


def score_words(explanation: Explanation) -> tuple[ScoreWords, ...]:
    """Return the scores of the link: with it in place, if it was there, and without it."""
    answers = {"": explanation.logit}
    if explanation.link_in_graph:
        deployed = explanation.logit_deployed
        there = "as trained" if explanation.trained else "with the link in place"
        answers = {there: deployed, "without it": answers[""]}
    return tuple(
        ScoreWords(circumstance, _score(logit))
        for circumstance, logit in answers.items()
        if logit is not None and math.isfinite(logit)
    )


def _score(logit: float) -> str:
    """Return a score: two decimals, or as many as it takes not to look like 0."""
    (said,) = numbers(logit)
    decimals = decimals_for(abs(logit))
    return said if float(said) or round(logit, decimals) == 0 else f"{logit:.{decimals}f}"


def score_sentence(explanation: Explanation, link: Fact, scores: tuple[ScoreWords, ...]) -> str:
    """Return where the link ranks, if that is known, and its score.

    Args:
        explanation: the explanation.
        link: the link in words.
        scores: those of `score_words`.
    """
    if not scores:
        return "The model gives no score for this link."
    if not scores[0].circumstance:
        if explanation.rank is None:
            return f"The model's score for this link is {scores[0].score}."
        ranks = f"{_ranked_end(explanation, link)}, with a score of {scores[0].score}"
        return f"{ranks}{_rank_without(explanation)}."
    told = enumerated(f"{score.score} {score.circumstance}" for score in scores)
    rank = ""
    if explanation.rank is not None:
        rank = f" {_ranked_end(explanation, link)}{_rank_without(explanation)}."
    if explanation.trained:
        return (
            f"The model was trained on this link. Its score is {told}. This explanation is about "
            f"training without the link.{rank}"
        )
    return (
        f"The link is already part of the graph. Its score is {told}. This explanation is about "
        f"the graph without the link.{rank}"
    )


def _ranked_end(explanation: Explanation, link: Fact) -> str:
    """Return "Alien ranks 2nd of 9,726 movies for User 3"."""
    own, other = link.object, link.subject
    if explanation.rank_end == "src":
        own, other = other, own
    ranks = place(explanation, explanation.rank, explanation.rank_ties)
    return f"{own.short} ranks {ranks} for {other.short}"


def _rank_without(explanation: Explanation) -> str:
    """Return the rank without the paths, where the verdict does not say it."""
    evidence, rank = explanation.evidence, explanation.rank_without_these
    if rank is None or (evidence and evidence.verdict not in _RANK_NOT_SAID):
        return ""
    these = "this path" if len(explanation.paths) == 1 else "these paths"
    still = "still " if rank == explanation.rank else ""
    tied = _tied(explanation.rank_ties_without_these)
    return f"; without {these} it would {still}rank {ordinal(rank)}{tied}"


def place(explanation: Explanation, rank: int | None, ties: int | None = None) -> str:
    """Return a rank of the ranked end of the link.

    For example "2nd of 9,726 movies", "151st of a sample of 500 movies (tied with 299 others)".
    """
    ranked = explanation.src if explanation.rank_end == "src" else explanation.dst
    sample = "a sample of " if explanation.rank_is_sample else ""
    among = f"{sample}{explanation.rank_of or 0:,} {plural(words(ranked[0]))}"
    return f"{ordinal(rank or 0)} of {among}{_tied(ties)}"


def _tied(ties: int | None) -> str:
    """Return " (tied with 300 others)" where ties change the rank."""
    return f" (tied with {ties:,} others)" if ties and ties > 1 else ""


@dataclass(frozen=True)
class Compared:
    """Two scores, in as many decimals as it takes to tell them apart."""

    before: str
    after: str
    direction: int
    """-1 if the second is lower, 1 if it is higher, 0 if the words are the same."""

    @property
    def change(self) -> str:
        """For example "falls from 6.10 to 1.57"."""
        if self.direction == 0:
            return f"stays at {self.before}"
        return f"{'falls' if self.direction < 0 else 'rises'} from {self.before} to {self.after}"


def compared(before: float, after: float) -> Compared:
    """Return two scores in words."""
    direction = (after > before) - (after < before)
    first, second = numbers(before, after)
    return Compared(first, second, direction * (first != second))


def support(influence: float | None) -> str:
    """Return what supports the link with a plus, what speaks against it with a minus.

    Args:
        influence: by how much the score falls without it.

    Returns:
        Empty if that is not known, or nothing.

    Example:
        >>> support(4.35), support(0.0)
        ('+4.35', '')
    """
    if influence is None:
        return ""
    (size,) = numbers(abs(influence))
    if float(size) == 0:
        return ""
    return f"{'+' if influence > 0 else MINUS}{size}"
