"""How many answers tell a given difference, by a normal approximation."""

from __future__ import annotations

import math
from dataclasses import dataclass

LEVEL, POWER = 0.05, 0.8
ALIKE = 0.05
"""How alike answers of one person are taken to be: the correlation within a person."""


@dataclass(frozen=True)
class Needed:
    """Answers that are needed to tell a difference, and those a study will have."""

    difference: float
    best: int
    """Answers to "which is best", if they were independent."""
    forecast: int
    """Answers to forecasts in all variants together, if they were independent."""
    best_planned: int
    forecast_planned: int
    design_effect: float
    """By what these grow where answers of one person are alike by `ALIKE`."""


def answers_for_shares(difference: float, together: float = 1.0) -> int:
    """Return the answers that tell the first explainer's share of choices from the next one's.

    With shares p and q of one choice among several, the difference of the observed shares has the
    variance (p + q - (p - q)^2) / n. A two-sided test at 5 % finds it in four of five studies.

    Args:
        difference: p - q, between 0 and 1.
        together: p + q; 1 is the most that can be needed.

    Example:
        >>> answers_for_shares(0.1), answers_for_shares(0.1, together=0.6)
        (778, 464)
    """
    return math.ceil(_quantiles() * (together - difference**2) / difference**2)


def answers_for_accuracy(difference: float) -> int:
    """Return the answers of each variant that tell the accuracy with from that without.

    For two proportions p and q of independent answers; most are needed around one half.

    Example:
        >>> answers_for_accuracy(0.1)
        389
    """
    p, q = 0.5 + difference / 2, 0.5 - difference / 2
    return math.ceil(_quantiles() * (p * (1 - p) + q * (1 - q)) / difference**2)


def design_effect(per_person: int) -> float:
    """Return by what factor clustered answers are worth less: 1 + (m - 1) times `ALIKE`.

    Example:
        >>> round(design_effect(20), 2)
        1.95
    """
    return 1 + (per_person - 1) * ALIKE


def needed(
    difference: float, num_best: int, num_forecasts: int, variants: int, wanted: int,
    per_person: int,
) -> Needed:  # fmt: skip
    """Return what a study needs and what it will have at `wanted` answers a question."""
    return Needed(
        difference, answers_for_shares(difference), variants * answers_for_accuracy(difference),
        wanted * num_best, wanted * num_forecasts, design_effect(per_person),
    )  # fmt: skip


def _quantiles() -> float:
    """Return (z_{1 - level / 2} + z_{power})^2."""
    from scipy.stats import norm

    return float(norm.ppf(1 - LEVEL / 2) + norm.ppf(POWER)) ** 2
