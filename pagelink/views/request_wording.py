"""Ranks and stability in words."""

from __future__ import annotations

from pagelink.explanation import Explanation


def rank_sentence(explanation: Explanation) -> str:
    """Say where the target ranks, with and without the facts of the returned paths.

    Returns:
        A sentence, empty if no rank was asked for.
    """
    if explanation.rank is None:
        return ""
    said = (
        f"Of the {explanation.rank_of} targets that were ranked for {explanation.src_name}, "
        f"{explanation.dst_name} is number {explanation.rank}"
    )
    after = explanation.rank_without_these
    if after is None:
        return f"{said}."
    if after == explanation.rank:
        return f"{said}; without the facts of these paths it would be just the same."
    return f"{said}; without the facts of these paths it would be number {after}."


def runs_sentence(explanation: Explanation) -> str:
    """Say in how many runs each of the paths was returned.

    Returns:
        A sentence, empty if there was but one run, or no path.
    """
    counts = [path.runs for path in explanation.paths if path.runs is not None]
    if explanation.runs is None or not counts:
        return ""
    total = explanation.runs
    if min(counts) == total:
        return f"All these paths were returned in each of {total} runs with other seeds."
    each = ", ".join(f"path {i} in {count}" for i, count in enumerate(counts, start=1))
    return f"Of {total} runs with other seeds, {each}."
