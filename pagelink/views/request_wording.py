"""What was asked for beside the paths, in words: the target's rank, how stable the paths are."""

from __future__ import annotations

from collections.abc import Sequence

from pagelink.explanation import Explanation, Path
from pagelink.views.statements import Fact, enumerated


def requests(explanation: Explanation, link: Fact, paths: Sequence[Path]) -> tuple[str, ...]:
    """Return a sentence for each thing that was asked for.

    Args:
        explanation: the explanation.
        link: the link in words.
        paths: its paths in the order in which they are shown.
    """
    sentences = (rank_sentence(explanation, link), runs_sentence(explanation.runs, paths))
    return tuple(sentence for sentence in sentences if sentence)


def rank_sentence(explanation: Explanation, link: Fact) -> str:
    """Say where the target ranks, with and without the facts of the returned paths.

    Returns:
        A sentence, empty if no rank was asked for.
    """
    if explanation.rank is None:
        return ""
    said = (
        f"Of the {explanation.rank_of} targets that were ranked for {link.subject.short}, "
        f"{link.object.short} is number {explanation.rank}"
    )
    after = explanation.rank_without_these
    if after is None:
        return f"{said}."
    if after == explanation.rank:
        return f"{said}; without the facts of these paths it would be just the same."
    return f"{said}; without the facts of these paths it would be number {after}."


def runs_sentence(runs: int | None, paths: Sequence[Path]) -> str:
    """Say in how many runs each of the paths was returned.

    Args:
        runs: how many runs there were.
        paths: the paths in the order in which they are shown.

    Returns:
        A sentence, empty if there was but one run, or no path.
    """
    counts = [path.runs for path in paths]
    if runs is None or not counts or None in counts:
        return ""
    if all(count == runs for count in counts):
        these = "This path was" if len(counts) == 1 else "All these paths were"
        return f"{these} returned in each of {runs} runs, each with a seed of its own."
    each = [f"path {i} was returned in {count}" for i, count in enumerate(counts, start=1)]
    return f"Of {runs} runs, each with a seed of its own, {enumerated(each)}."


def runs_of(runs: int | None, path: Path) -> str:
    """Return in how many runs a path was returned, in short: "in 3 of 5 runs"; may be empty."""
    return "" if runs is None or path.runs is None else f"in {path.runs} of {runs} runs"
