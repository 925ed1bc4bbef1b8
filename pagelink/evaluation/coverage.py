"""Coverage: how many links get paths, which verdict they get, and why others get none."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from pagelink.errors import GraphError
from pagelink.explanation import REASONS, VERDICTS


@dataclass(frozen=True)
class Coverage:
    """Shares of all links; NaN if there are none."""

    num_links: int
    with_paths: float
    """With at least one path."""
    verdicts: dict[str, float]
    """With each verdict, those that no link has included."""
    without_verdict: float
    """Without any; with those of `verdicts` it makes 1."""
    reasons: dict[str, float]
    """With each reason, those that no link has included. A link with paths can have one, too: it
    ran out of time and has what was found until then."""
    without_reason: float
    """Without any; with those of `reasons` it makes 1."""
    unexplained: float
    """With neither a path nor a reason: 0 unless something is wrong."""


def coverage_of(
    num_paths: Sequence[int], verdicts: Sequence[str | None], reasons: Sequence[str | None]
) -> Coverage:
    """Return the shares of links with paths, with each verdict and with each reason.

    ``share of x = number of links with x / number of links``: all links are in every denominator.

    Args:
        num_paths: Number of returned paths, one per link.
        verdicts: The verdict, one per link, None for a link that has none.
        reasons: The reason why there are no (or no more) paths, one per link, or None.

    Raises:
        GraphError: The lengths differ, or a word is not known.

    Example:
        >>> verdicts = ["supported", "structure_against", "supported", None]
        >>> found = coverage_of([3, 1, 2, 0], verdicts, [None, None, None, "not_connected"])
        >>> found.with_paths, found.verdicts["supported"], found.reasons["not_connected"]
        (0.75, 0.5, 0.25)
    """
    total = len(num_paths)
    if not total == len(verdicts) == len(reasons):
        raise GraphError(
            f"There must be one entry per link, got {total} numbers of paths, {len(verdicts)} "
            f"verdicts and {len(reasons)} reasons."
        )
    by_verdict, without_verdict = _shares(verdicts, VERDICTS, "verdict")
    by_reason, without_reason = _shares(reasons, REASONS, "reason")
    return Coverage(
        total,
        _share(sum(count > 0 for count in num_paths), total),
        by_verdict,
        without_verdict,
        by_reason,
        without_reason,
        _share(
            sum(not count and why is None for count, why in zip(num_paths, reasons, strict=True)),
            total,
        ),
    )


def _shares(
    given: Sequence[str | None], known: Sequence[str], what: str
) -> tuple[dict[str, float], float]:
    counts = Counter(given)
    strange = sorted(word for word in counts if word is not None and word not in known)
    if strange:
        raise GraphError(f"A {what} must be one of {tuple(known)} or None, got {strange}.")
    return {word: _share(counts[word], len(given)) for word in known}, _share(
        counts[None], len(given)
    )


def _share(count: int, total: int) -> float:
    return count / total if total else math.nan
