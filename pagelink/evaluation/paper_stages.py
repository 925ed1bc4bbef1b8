"""Where the time of an explanation goes: seconds of its stages, and how they grow.

The stages are those of the method: the computation graph is extracted and pruned, the mask is
learned, paths are searched, and what they are worth is measured.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from pagelink.baselines.pgexp import PGExpLink
from pagelink.explainer import PaGELink

EXTRACT, PRUNE, LEARN, CHOOSE = "extraction", "pruning", "learning", "search"
STAGES = (EXTRACT, PRUNE, LEARN, CHOOSE)
_METHODS = {PRUNE: "_prune", LEARN: "_learn", CHOOSE: "_choose"}


@contextmanager
def watched(explainer: PaGELink) -> Iterator[dict[str, float]]:
    """Give the CPU seconds of each stage, added up for as long as the context is open."""
    seconds = dict.fromkeys(STAGES, 0.0)

    def timed(stage: str, work: Callable[..., Any]) -> Callable[..., Any]:
        def run(*given: Any) -> Any:
            started = time.process_time()
            try:
                return work(*given)
            finally:
                seconds[stage] += time.process_time() - started

        return run

    batches = explainer._batches
    # Set on the objects, not on their classes: other explainers are not watched.
    places = [(batches, "extract", EXTRACT)]
    places += [(explainer, method, stage) for stage, method in _METHODS.items()]  # type: ignore[misc]
    for owner, method, stage in places:
        setattr(owner, method, timed(stage, getattr(owner, method)))
    try:
        yield seconds
    finally:
        for owner, method, _ in places:
            delattr(owner, method)  # the method of the class shows again


def stage_seconds(
    explainer: PaGELink, links: Sequence[tuple[int, int]], repeats: int = 1
) -> dict[str, float]:
    """CPU seconds a link of each stage and in total, and the mean number of epochs.

    Links are explained side by side; of several rounds, the one of the least total counts. What an
    explainer is trained for beforehand is `training`, once for all links.
    """
    training = 0.0
    if isinstance(explainer, PGExpLink):
        started = time.process_time()
        explainer.fit()
        training = time.process_time() - started
    list(explainer.explain_many(links[:1]))  # what is made once is not counted
    rounds = []
    for _ in range(repeats):
        started = time.process_time()
        with watched(explainer) as seconds:
            answers = list(explainer.explain_many(links))
        total = time.process_time() - started
        rounds.append(
            {
                **{stage: value / len(links) for stage, value in seconds.items()},
                "total": total / len(links),
                "epochs": float(np.mean([answer.epochs for answer in answers])),
                "training": training,
            }
        )
    return min(rounds, key=lambda each: each["total"])


def exponent(sizes: Sequence[float], seconds: Sequence[float]) -> float:
    """Return p of seconds ~ size^p, the slope of the logs by least squares.

    Example:
        >>> round(exponent([10, 100, 1000], [0.2, 2.0, 20.0]), 6)
        1.0
    """
    x, y = np.log(np.asarray(sizes, float)), np.log(np.maximum(np.asarray(seconds, float), 1e-9))
    dx = x - x.mean()
    return float(dx @ (y - y.mean()) / (dx @ dx))
