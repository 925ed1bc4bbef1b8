"""How figures of many links, or of many seeds, are summed up, and the coverage of links.

No link is left out of an average. A link without an answer is None or NaN in the figures, and who
averages them has to say what it counts as; how many there are is part of the result.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pagelink.errors import GraphError, SettingsError
from pagelink.explain.result import REASONS
from pagelink.measure.verdict import VERDICTS
from pagelink.runtime.arrays import Doubles

Answers = npt.ArrayLike | Sequence[float | None]
"""One number per link, None or NaN for a link without an answer."""

_CELLS_AT_ONCE = 2_000_000


@dataclass(frozen=True)
class Average:
    """A mean over links, and how many of them had no answer."""

    value: float
    """The mean; NaN if no link counts."""
    num_links: int
    """All links, those without an answer among them."""
    num_unanswered: int


def average(values: Answers, *, unanswered: float | None) -> Average:
    """Return the mean of a figure over links.

    With A the links that have an answer and N all links::

        mean = (sum over A of x + (|N| - |A|) * unanswered) / |N|

    Some figures have no number for a link without an answer: no paths have no length. Then
    `unanswered` is None and the mean is over A. It speaks of fewer links than the others do, so it
    must not be shown without `num_unanswered`.

    Args:
        values: The figure, `[links]`, None or NaN for a link without an answer.
        unanswered: What such a link counts as: 0 for a hit, an effect, a precision; 0.5 for a
            ROC-AUC. None: as no number at all.

    Returns:
        The mean, the number of links, and the number of those without an answer.

    Raises:
        GraphError: There is not one number per link.

    Example:
        >>> average([0.5, None, 1.0, 0.0], unanswered=0.0)
        Average(value=0.375, num_links=4, num_unanswered=1)
        >>> average([0.5, None, 1.0, 0.0], unanswered=None)
        Average(value=0.5, num_links=4, num_unanswered=1)
    """
    figures = as_answers(values)
    missing = np.isnan(figures)
    counted = figures[~missing] if unanswered is None else filled(figures, unanswered)
    mean = float(counted.mean()) if counted.size else math.nan
    return Average(mean, figures.size, int(missing.sum()))


def filled(values: Answers, unanswered: float) -> Doubles:
    """Return the figures of all links with `unanswered` where a link has no answer.

    `bootstrap_interval` of what this returns is the interval of `average` with the same
    `unanswered`.

    Example:
        >>> filled([0.5, None], unanswered=0.0).tolist()
        [0.5, 0.0]
    """
    figures = as_answers(values)
    return np.where(np.isnan(figures), unanswered, figures)


def as_answers(values: Answers) -> Doubles:
    """Return one number per link as an array, NaN where there is none; refuse other shapes."""
    figures = np.asarray(values, dtype=np.float64)
    if figures.ndim != 1:
        raise GraphError(f"There must be one number per link, got shape {figures.shape}.")
    return figures


def bootstrap_interval(
    values: npt.ArrayLike,
    seed: int,
    level: float = 0.95,
    draws: int = 10_000,
    over: npt.ArrayLike | None = None,
) -> tuple[float, float]:
    """Return the percentile bootstrap interval of a figure over links.

    Links are drawn with replacement, as many as there are, `draws` times; the figure of a draw is
    ``mean(values[drawn])``, or ``sum(values[drawn]) / sum(over[drawn])`` where `over` is given (as
    for `share_of_greedy`). The interval reaches from the (1 - level) / 2 to the (1 + level) / 2
    quantile of these figures.

    To compare two explainers on the same links, give the differences, link by link: the bootstrap
    is then paired. Calls with the same seed and number of links draw the same links.

    Args:
        values: One number per link, `[links]`. NaN makes the interval NaN: no link is left out,
            and what one without an answer counts as is said by `filled`.
        seed: Of the draws.
        level: Coverage, between 0 and 1.
        draws: Number of draws, 1 or more.
        over: Denominators, one per link, if the figure is a ratio of sums.

    Returns:
        Lower and upper end; NaN if there are no links, or if a draw has no positive denominator.

    Raises:
        GraphError: The lengths differ.
        SettingsError: `level` or `draws` is out of its range.

    Example:
        >>> low, high = bootstrap_interval([0, 0, 1, 1, 1, 1, 1, 1], seed=0)
        >>> low < 0.75 < high
        True
    """
    if not 0 < level < 1:
        raise SettingsError(f"level must be between 0 and 1, got {level!r}.")
    if draws < 1:
        raise SettingsError(f"draws must be at least 1, got {draws!r}.")
    top, bottom = paired(values, np.ones(np.shape(values)) if over is None else over)
    if top.size == 0:
        return math.nan, math.nan
    rng = np.random.default_rng(seed)
    at_once = max(1, _CELLS_AT_ONCE // top.size)
    figures = []
    for start in range(0, draws, at_once):
        drawn = rng.integers(top.size, size=(min(at_once, draws - start), top.size))
        figures.append(ratio(top[drawn].sum(axis=1), bottom[drawn].sum(axis=1)))
    low, high = np.quantile(np.concatenate(figures), [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def mean_and_spread(values: npt.ArrayLike) -> tuple[float, float]:
    """Return the mean and the sample standard deviation, of figures over seeds.

    ``mean = sum(x) / n`` and ``spread = sqrt(sum((x - mean)^2) / (n - 1))``.

    Args:
        values: One number per seed, `[n]`. NaN makes both NaN.

    Returns:
        Mean and spread. The mean of no values and the spread of fewer than two are NaN.

    Example:
        >>> mean_and_spread([1.0, 2.0, 6.0])
        (3.0, 2.6457513110645907)
    """
    figures = np.asarray(values, dtype=np.float64).ravel()
    mean = float(figures.mean()) if figures.size else math.nan
    spread = float(figures.std(ddof=1)) if figures.size > 1 else math.nan
    return mean, spread


def paired(values: npt.ArrayLike, over: npt.ArrayLike) -> tuple[Doubles, Doubles]:
    """Return two figures per link as arrays; refuse other shapes."""
    top, bottom = np.asarray(values, dtype=np.float64), np.asarray(over, dtype=np.float64)
    if top.ndim != 1 or top.shape != bottom.shape:
        raise GraphError(
            f"There must be one number per link, got shapes {top.shape} and {bottom.shape}."
        )
    return top, bottom


def ratio(top: npt.ArrayLike, bottom: npt.ArrayLike) -> Doubles:
    """Divide where the denominator is positive, NaN elsewhere."""
    top, bottom = np.asarray(top, dtype=np.float64), np.asarray(bottom, dtype=np.float64)
    ratio = np.full(top.shape, math.nan)
    np.divide(top, bottom, out=ratio, where=bottom > 0)
    return ratio


# Coverage: how many links get paths, which verdict they get, and why others get none.


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
