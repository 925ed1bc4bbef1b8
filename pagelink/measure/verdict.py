"""What the returned paths are worth to the model: the verdict, and the answers it rests on."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

Verdict = Literal["supported", "structure_not_used", "structure_against", "not_by_these"]
"""Of an explanation: the paths carry the prediction; no set of paths moves the score; without any
path the score is as high or higher; all paths together carry the prediction, but not these."""
VERDICTS: tuple[str, ...] = get_args(Verdict)
UNNOTICED = 0.01


def unnoticed(logit: float) -> float:
    """Return the largest change of a logit that counts as none: 1 % of it, at least 0.01.

    One bar for all: a set of paths that moves the logit by no more is not used, a path that adds no
    more is no evidence.

    Example:
        >>> unnoticed(-5.0), unnoticed(0.1)
        (0.05, 0.01)
    """
    return max(UNNOTICED * abs(logit), UNNOTICED)


@dataclass(frozen=True)
class Evidence:
    """What the returned paths are worth to the model, measured on graphs that were really edited.

    G is the graph with the explained link taken out, G0 is G without any fact that lies on a path
    of at most `max_length` facts from source to target.
    """

    verdict: Verdict
    influence: float
    """How much the returned paths together add to the logit: by removing their facts from G, or, if
    `inserted`, by adding them to G0."""
    inserted: bool
    """The paths stand in for each other, so that removing a few of them changes little: influence
    is what they add to G0."""
    logit_without_these: float
    """The logit on G without the facts of the returned paths."""
    logit_without_paths: float
    """The logit on G0."""
    logit_without_edges: float
    """The logit on a graph without any edge."""
    logit_only_these: float
    """The logit with the facts of the returned paths and no other edge."""
    sufficiency: float | None
    """The share of f(G) - f(G0) that the returned paths bring back when they are added to G0; None
    if that difference is not positive."""
    rho_reached: float | None
    """Influence as a share of the best influence of any set that was measured; None if none has a
    positive one."""
    num_sets: int
    """Sets of paths that were measured."""

    def to_dict(self) -> dict[str, Any]:
        """Return everything as a plain dict."""
        return asdict(self)
