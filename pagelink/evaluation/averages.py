"""How figures of many links, or of many seeds, are summed up.

No link is left out of an average. A link without an answer is None or NaN in the figures, and who
averages them has to say what it counts as; how many there are is part of the result.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pagelink.errors import GraphError, SettingsError

Floats = npt.NDArray[np.float64]

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


def filled(values: Answers, unanswered: float) -> Floats:
    """Return the figures of all links with `unanswered` where a link has no answer.

    `bootstrap_interval` of what this returns is the interval of `average` with the same
    `unanswered`.

    Example:
        >>> filled([0.5, None], unanswered=0.0).tolist()
        [0.5, 0.0]
    """
    figures = as_answers(values)
    return np.where(np.isnan(figures), unanswered, figures)


def as_answers(values: Answers) -> Floats:
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


def paired(values: npt.ArrayLike, over: npt.ArrayLike) -> tuple[Floats, Floats]:
    """Return two figures per link as arrays; refuse other shapes."""
    top, bottom = np.asarray(values, dtype=np.float64), np.asarray(over, dtype=np.float64)
    if top.ndim != 1 or top.shape != bottom.shape:
        raise GraphError(
            f"There must be one number per link, got shapes {top.shape} and {bottom.shape}."
        )
    return top, bottom


def ratio(top: npt.ArrayLike, bottom: npt.ArrayLike) -> Floats:
    """Divide where the denominator is positive, NaN elsewhere."""
    top, bottom = np.asarray(top, dtype=np.float64), np.asarray(bottom, dtype=np.float64)
    ratio = np.full(top.shape, math.nan)
    np.divide(top, bottom, out=ratio, where=bottom > 0)
    return ratio
