"""Calibration: what ranks and scores of a trained model meant on its validation links.

The targets of some sources are ranked, their training and test links left out. Of the predictions
of each rank, and of each score, it is counted how many are validation links; the share is made
monotone by pooling adjacent violators (isotonic regression). How far such shares can be trusted is
measured by cross-fitting: sources are cut into folds, and the predictions of a fold are judged by
shares that were fitted on the others.

The best epoch of a training is chosen on the same validation links, by their AUC.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pagelink.explain.ranking import places_of
from pagelink.graph.schema import EdgeType
from pagelink.measure.held_out import HeldOutShares, Steps
from pagelink.models.figures import Score
from pagelink.models.links import LinkSplit, Negatives
from pagelink.runtime.arrays import Bools, Doubles, Longs

FOLDS = 5
FEWEST_SOURCES = 2 * FOLDS
MOST_SOURCES = 500
MOST_PAIRS = 10_000_000
"""Pairs that are scored at most; where there are many targets, of fewer sources."""
FIRST = 100
"""Brier scores and reliability are those of this number of first predictions per source."""
FEWEST_PREDICTIONS = 50
"""A step rests on this number of predictions at least, if there are as many."""
BIN_EDGES = (0.0, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
"""Predicted shares between two of these are a row of the reliability table."""
_PAIRS_AT_ONCE = 200_000
_TOLD_RANKS = (1, 2, 3, 5, 10, 30, 100)


def pool_adjacent_violators(num_predictions: Longs, num_links: Longs) -> Longs:
    """Return where the steps of the isotonic regression of shares begin.

    The shares `num_links / num_predictions` of the steps rise; of all functions that do not fall,
    theirs has the least weighted squared error.

    Args:
        num_predictions: per point, in order, its weight, above 0.
        num_links: per point, how many of these were links.

    Example:
        >>> pool_adjacent_violators(np.full(5, 10), np.array([1, 3, 2, 4, 3])).tolist()
        [0, 1, 3]
    """
    steps: list[tuple[int, int, int]] = []
    points = zip(num_predictions.tolist(), num_links.tolist(), strict=True)
    for start, (number, links) in enumerate(points):
        first = start
        # The share before is as high or higher: both are one step.
        while steps and steps[-1][2] * number >= links * steps[-1][1]:
            first, before, links_before = steps.pop()
            number, links = number + before, links + links_before
        steps.append((first, number, links))
    return np.array([first for first, _, _ in steps], dtype=np.int64)


@dataclass(frozen=True)
class Predictions:
    """Pairs of some sources with all targets they are not known to be linked to."""

    source: Longs
    """Per pair, the position of its source."""
    rank: Longs
    """Among the targets of the source, as in an `Explanation`."""
    score: Doubles
    is_link: Bools
    """Whether it is a validation link."""

    def of(self, which: Bools | Longs) -> Predictions:
        """Return some of them."""
        return Predictions(*(each[which] for each in vars(self).values()))


def steps_by_rank(found: Predictions) -> Steps:
    """Fit the share of links per rank; it falls, or stays, with the rank."""
    numbers, links = np.bincount(found.rank), np.bincount(found.rank[found.is_link])
    links = np.pad(links, (0, len(numbers) - len(links)))
    ranks = np.flatnonzero(numbers)
    # From the last rank to the first, the share rises.
    return _steps(ranks[::-1].astype(np.float64), numbers[ranks][::-1], links[ranks][::-1])


def steps_by_score(found: Predictions) -> Steps:
    """Fit the share of links per score; it rises, or stays, with the score."""
    order = np.argsort(found.score, kind="stable")
    score = found.score[order]
    first = np.append(0, 1 + np.flatnonzero(np.diff(score)))  # of equal ones
    numbers = np.diff(np.append(first, len(score)))
    links = np.add.reduceat(found.is_link[order].astype(np.int64), first)
    return _steps(score[first], numbers, links)


def _steps(values: Doubles, num_predictions: Longs, num_links: Longs) -> Steps:
    """Make the steps of points in the order in which the share rises."""
    # Points without links side by side are in one step in any case: make them one point before.
    has = num_links > 0
    first = np.flatnonzero(np.append(True, has[1:] | has[:-1]))
    values, ends = _ends(values, first)
    numbers, links = (np.add.reduceat(each, first) for each in (num_predictions, num_links))
    first = pool_adjacent_violators(numbers, links)
    values, ends = values[first], ends[np.append(first[1:], len(ends)) - 1]
    numbers, links = (np.add.reduceat(each, first) for each in (numbers, links))
    # Few predictions say little: the highest steps are joined until there are enough.
    kept: list[list[Any]] = []
    for value, end, number, count in zip(
        values[::-1].tolist(), ends[::-1].tolist(), numbers[::-1].tolist(), links[::-1].tolist(),
        strict=True,
    ):  # fmt: skip
        if kept and kept[-1][1] < FEWEST_PREDICTIONS:
            kept[-1] = [min(kept[-1][0], value, end), kept[-1][1] + number, kept[-1][2] + count]
        else:
            kept.append([min(value, end), number, count])
    if len(kept) > 1 and kept[-1][1] < FEWEST_PREDICTIONS:
        value, number, count = kept.pop()
        kept[-1] = [min(kept[-1][0], value), kept[-1][1] + number, kept[-1][2] + count]
    kept.sort(key=lambda step: step[0])
    starts, *counts = zip(*kept, strict=True)
    return Steps(starts, *counts)


def _ends(values: Doubles, first: Longs) -> tuple[Doubles, Doubles]:
    """Return the first and the last value of each group of points."""
    return values[first], values[np.append(first[1:], len(values)) - 1]


@dataclass(frozen=True)
class Bin:
    """A row of a reliability table."""

    predicted: float
    """Mean of the cross-fitted shares."""
    observed: float
    """Share of the predictions that were held-out links."""
    count: int


@dataclass(frozen=True)
class Reliability:
    """How well cross-fitted shares foretold what was held out."""

    brier: float
    """Mean of (share - outcome) squared, outcome 1 for a held-out link, else 0."""
    bins: tuple[Bin, ...]

    @classmethod
    def of(cls, predicted: Doubles, is_link: Bools) -> Reliability:
        """Judge shares by outcomes."""
        place = np.clip(np.digitize(predicted, BIN_EDGES), 1, len(BIN_EDGES) - 1)
        bins = tuple(
            Bin(
                float(predicted[place == i].mean()),
                float(is_link[place == i].mean()),
                int((place == i).sum()),
            )
            for i in np.unique(place)
        )
        return cls(brier_score(predicted, is_link), bins)


def brier_score(predicted: Doubles, is_link: Bools) -> float:
    """Return the mean squared difference of chances and outcomes.

    Example:
        >>> round(brier_score(np.array([0.8, 0.3]), np.array([True, False])), 3)
        0.065
    """
    return float(((predicted - is_link) ** 2).mean())


@dataclass(frozen=True)
class Calibration:
    """What ranks and scores meant on the validation links, and how far that can be trusted."""

    shares: HeldOutShares
    """Fitted on all sources."""
    num_sources: int
    num_links: int
    """Validation links of these sources."""
    num_predictions: int
    by_rank: Reliability
    """Cross-fitted, of the first predictions of each source."""
    by_score: Reliability
    brier_constant: float
    """Brier score of the same share for all of these predictions."""
    brier_sigmoid: float
    """Brier score of sigmoid(score), taken for a chance."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Calibration:
        """Return what `to_dict` was called on."""
        given = dict(values)
        given["shares"] = HeldOutShares.from_dict(given["shares"])
        for name in ("by_rank", "by_score"):
            bins = tuple(Bin(**each) for each in given[name]["bins"])
            given[name] = Reliability(given[name]["brier"], bins)
        return cls(**given)

    def __str__(self) -> str:
        ranks = [rank for rank in _TOLD_RANKS if rank <= self.shares.by_rank.starts[-1]] or [1]
        told = ", ".join(f"{self.shares.by_rank.share(rank):.1%} at {rank}" for rank in ranks)
        rows = [
            f"{row.predicted:11.1%}{row.observed:11.1%}{row.count:13,}"
            for row in self.by_rank.bins
        ]  # fmt: skip
        return "\n".join(
            [
                f"Share of predictions that were validation links, by rank: {told} "
                f"({self.num_links:,} links of {self.num_sources:,} sources).",
                f"Brier score of the first {FIRST} predictions per source, cross-fitted over "
                f"{FOLDS} folds of sources: {self.by_rank.brier:.4f} by rank, "
                f"{self.by_score.brier:.4f} by score; {self.brier_constant:.4f} with the same "
                f"share for all, {self.brier_sigmoid:.4f} if sigmoid(score) is taken for a chance.",
                "  predicted   observed  predictions",
                *rows,
            ]
        )


def calibrate(
    score: Score, split: LinkSplit, link_type: EdgeType, num_dst: int, seed: int = 0,
    known: Tensor | None = None,
) -> Calibration | None:  # fmt: skip
    """Measure what ranks and scores of a trained model mean on its validation links.

    The sources are a random sample of those with known links, whether or not one of these was held
    out for validation: at most `MOST_SOURCES`, and as many as have `MOST_PAIRS` pairs.

    Args:
        score: the trained model.
        split: the links of the relation.
        link_type: the relation.
        num_dst: number of possible targets.
        seed: seed of the sample and of the folds.
        known: further pairs that are no new links, [2, num_pairs]: these are not ranked.

    Returns:
        The calibration; None if there are fewer than `FEWEST_SOURCES` sources, or no target that
        is not known.
    """
    rng = np.random.default_rng([seed, 3])
    sources = rng.permutation(np.unique(split.all[0].cpu().numpy()))
    sources = sources[: min(MOST_SOURCES, MOST_PAIRS // max(num_dst, 1))]
    if len(sources) < FEWEST_SOURCES:
        return None
    found = predictions_of(score, sources, split, link_type, num_dst, known)
    if not len(found.rank):
        return None
    fold = np.arange(len(sources)) % FOLDS  # the sources are in random order
    by_rank, by_score, judged = cross_fitted(found, fold)
    outcome, constant = judged.is_link, np.full(len(judged.rank), judged.is_link.mean())
    chance = torch.sigmoid(torch.from_numpy(judged.score)).numpy()
    return Calibration(
        shares=HeldOutShares(link_type, steps_by_rank(found), steps_by_score(found)),
        num_sources=len(sources),
        num_links=int(found.is_link.sum()),
        num_predictions=len(found.rank),
        by_rank=Reliability.of(by_rank, outcome),
        by_score=Reliability.of(by_score, outcome),
        brier_constant=brier_score(constant, outcome),
        brier_sigmoid=brier_score(chance, outcome),
    )


def predictions_of(
    score: Score, sources: Longs, split: LinkSplit, link_type: EdgeType, num_dst: int,
    known: Tensor | None = None,
) -> Predictions:  # fmt: skip
    """Score and rank all targets of sources that are neither training nor test links of them.

    Those of `known` are left out, too. The lowest score comes first.
    """
    taken = [split.train, split.test, *([] if known is None else [known])]
    num_src = int(sources.max(initial=-1)) + 1
    closed, held_out = (
        Negatives.for_links(num_src, num_dst, link_type, links)
        for links in (torch.cat(taken, dim=1), split.valid)
    )
    parts = []
    for place, src in enumerate(sources.tolist()):
        targets = np.arange(num_dst)
        targets = targets[~closed.are_known(np.full(num_dst, src), targets)]
        here = np.full_like(targets, src)
        logits = _scores(score, torch.from_numpy(np.stack([here, targets])))
        ranks, _ = places_of(logits)
        is_link = held_out.are_known(here, targets)
        parts.append((np.full_like(targets, place), ranks, logits, is_link))
    found = Predictions(*map(np.concatenate, zip(*parts, strict=True)))
    return found.of(np.argsort(found.score, kind="stable"))  # to be sorted once, not per fold


def _scores(score: Score, pairs: Tensor) -> Doubles:
    parts = [score(part).cpu().double() for part in pairs.split(_PAIRS_AT_ONCE, dim=1)]
    logits: Doubles = torch.cat(parts).numpy()
    return logits


def cross_fitted(found: Predictions, fold: Longs) -> tuple[Doubles, Doubles, Predictions]:
    """Return shares, by rank and by score, of the first predictions of each source.

    Those of a fold are fitted on the sources of the other folds.

    Args:
        found: the predictions of all sources.
        fold: per source, its fold.

    Returns:
        The shares by rank, those by score, and the predictions that they are of.
    """
    judged = found.of(found.rank <= FIRST)
    by_rank, by_score = np.empty(len(judged.rank)), np.empty(len(judged.rank))
    for number in np.unique(fold):
        others = found.of(fold[found.source] != number)
        own = fold[judged.source] == number
        by_rank[own] = _lookup(steps_by_rank(others), judged.rank[own].astype(np.float64))
        by_score[own] = _lookup(steps_by_score(others), judged.score[own])
    return by_rank, by_score, judged


def _lookup(steps: Steps, values: Doubles) -> Doubles:
    """Return the shares of many values at once, as `Steps.share` does it for one."""
    place = np.maximum(np.searchsorted(steps.starts, values, side="right") - 1, 0)
    shares: Doubles = (np.array(steps.num_links) / np.array(steps.num_predictions))[place]
    return shares
