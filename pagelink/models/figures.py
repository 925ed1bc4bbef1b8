"""Test figures of a link predictor, beside two rivals that know nothing of paths.

ROC-AUC and average precision are taken on two kinds of negatives: ordinary ones, drawn uniformly,
and degree-matched ones, each with the source of a test link and the target of another. The rivals
are the product of the two degrees, and the trained model itself run without any edges. Whether the
model is better than a rival is decided on the degree-matched negatives, by an interval.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from pagelink.errors import ModelError
from pagelink.models.links import LinkSplit, Negatives

Score = Callable[[Tensor], Tensor]
"""From pairs, [2, num_pairs], to logits, [num_pairs]."""

_PAIRS_AT_ONCE = 200_000


def link_metrics(positive: Tensor, negative: Tensor) -> tuple[float, float]:
    """Return ROC-AUC and average precision of the logits of links and of negatives.

    Both are NaN if there are no negatives.

    Raises:
        ModelError: a logit is not finite.

    Example:
        >>> link_metrics(torch.tensor([2.0, 0.0]), torch.tensor([1.0, -1.0]))
        (0.75, 0.8333333333333333)
    """
    if not len(negative):
        return float("nan"), float("nan")
    truth = np.repeat([1.0, 0.0], [len(positive), len(negative)])
    logits = torch.cat([positive, negative]).cpu().numpy()
    if not np.isfinite(logits).all():
        raise ModelError("The logits of the model are not finite, so they cannot be compared.")
    # 1. With the highest logits first, count the links and the negatives at or above each logit.
    order = np.argsort(-logits, kind="stable")
    last = np.append(np.flatnonzero(np.diff(logits[order])), len(logits) - 1)  # of equal ones
    links = np.cumsum(truth[order])[last]
    others = 1 + last - links
    # 2. Average precision: the precision at each step of the recall, from the last step on.
    steps = np.diff(links / links[-1], prepend=0.0)
    precision = float((steps * (links / (links + others)))[::-1].sum())
    # 3. ROC-AUC: the area under the corners of the curve from (0, 0) on.
    corner = np.ones(len(last), dtype=bool)
    corner[1:-1] = (np.diff(others, 2) != 0) | (np.diff(links, 2) != 0)
    x, y = (np.concatenate([[0.0], each[corner]]) / each[-1] for each in (others, links))
    return float(np.trapezoid(y, x)), precision


Interval = tuple[float, float]
"""The ends of a 95 % interval."""


def auc_lead(
    positive: Tensor, negative: Tensor, rival_positive: Tensor, rival_negative: Tensor
) -> Interval:
    """The interval of how much higher one ROC-AUC is than another on the same pairs.

    After DeLong, DeLong and Clarke-Pearson (Biometrics 44, 1988): each link has the share of
    negatives below it, each negative that of links above it, and the AUC is the mean of either. The
    variance of the difference is that of the differences of these shares.

    Args:
        positive: logits of links.
        negative: logits of pairs that are none.
        rival_positive: those of the rival, in the same order; all equal for an AUC of 0.5.
        rival_negative: the same.

    Example:
        >>> low, high = auc_lead(*(torch.arange(n).float() for n in (40, 30, 40, 30)))
        >>> low, high
        (0.0, 0.0)
    """
    own, other = _placements(positive, negative), _placements(rival_positive, rival_negative)
    by_link, by_negative = (one - two for one, two in zip(own, other, strict=True))
    lead = float(by_link.mean())
    if min(len(by_link), len(by_negative)) < 2:
        return -1.0, 1.0
    parts = (float(each.var(ddof=1)) / len(each) for each in (by_link, by_negative))
    wide = 1.96 * sum(parts) ** 0.5
    return lead - wide, lead + wide


def _placements(
    positive: Tensor, negative: Tensor
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Of each link the share of negatives below it, of each negative that of links above it."""
    above, below = (each.double().cpu().numpy() for each in (positive, negative))

    def share_below(values: npt.NDArray[np.float64], of: npt.NDArray[np.float64]) -> Any:
        of = np.sort(of)
        both = np.searchsorted(of, values, "left") + np.searchsorted(of, values, "right")
        return both / (2 * len(of))

    return share_below(above, below), 1 - share_below(below, above)


@dataclass(frozen=True)
class Separation:
    """How well scores tell the test links from pairs that are none."""

    auc: float
    ap: float
    matched_auc: float
    """On degree-matched negatives; NaN if there are none."""
    matched_ap: float
    lead: Interval | None = None
    """How much higher the AUC of the model is on degree-matched negatives, or on ordinary ones
    where there are none; of the model itself, how much above 0.5. None where it was not kept."""

    @classmethod
    def from_dict(cls, plain: dict[str, Any]) -> Separation:
        """Return the figures that were kept as plain values, as JSON keeps them."""
        return cls(**{**plain, "lead": plain.get("lead") and tuple(plain["lead"])})


@dataclass(frozen=True)
class TestFigures:
    """What a model reached on the test links, and what its rivals reached on the same pairs."""

    __test__ = False  # not a test, whatever its name

    model: Separation
    degree_product: Separation
    """(degree of the source + 1) * (degree of the target + 1), degrees in training links."""
    edgeless: Separation
    """The trained model on the same nodes without edges."""
    retrained_edgeless: Separation | None
    """The same kind of model, trained without edges; None if that was not requested."""
    mrr: float
    """Mean of 1 / rank of the true target; known links of the source, and its pairs of relations
    that are known, are not ranked."""
    hits_at_10: float
    """Share of the test links whose target is among the first ten."""
    num_candidates: int
    """Number of targets that the true one is ranked among."""
    candidates_sampled: bool
    """The candidates are a random sample of the targets, not all of them."""
    num_links: int

    @property
    def uses_structure(self) -> bool:
        """On degree-matched negatives the model beats chance and every rival, by the intervals."""
        return not self.stronger_rivals

    @property
    def stronger_rivals(self) -> tuple[str, ...]:
        """What the model does not clearly beat, in words."""
        return tuple(name for name, (low, _) in self._leads() if not low > 0)

    @property
    def verdict(self) -> str:
        """Whether the model makes use of the structure, in one sentence with the figures."""
        figures = ", ".join(
            f"{name} {rival.auc:.3f} ({rival.matched_auc:.3f})" for name, _, rival in self._rivals()
        )
        figures = (
            f"ROC-AUC {self.model.auc:.3f} ({self.model.matched_auc:.3f} on degree-matched "
            f"negatives), {figures}"
        )
        if self.uses_structure:
            return f"The model makes use of the structure: {figures}."
        # A rival that is better, or the interval of which no higher AUC is in, settles it.
        leads = list(self._leads())
        settled = any(not high > 0 for _, (_, high) in leads)
        said = "makes no use" if settled else "makes no certain use"
        unbeaten = " and ".join(
            f"{name} ({low:+.3f} to {high:+.3f})" for name, (low, high) in leads if not low > 0
        )
        where = "ordinary" if np.isnan(self.model.matched_auc) else "degree-matched"
        return (
            f"The model {said} of the structure: on {where} negatives it does not clearly beat "
            f"{unbeaten}. {figures}."
        )

    def _leads(self) -> Iterator[tuple[str, Interval]]:
        """Yield chance and the rivals, and the interval of how much better the model is."""
        yield "chance", self.model.lead or self._difference(None)
        for _, name, rival in self._rivals():
            yield name, rival.lead or self._difference(rival)

    def _difference(self, rival: Separation | None) -> Interval:
        """Where no interval was kept, the difference of the figures alone."""
        key = "auc" if np.isnan(self.model.matched_auc) else "matched_auc"
        lead = getattr(self.model, key) - (0.5 if rival is None else getattr(rival, key))
        return lead, lead

    def _rivals(self) -> Iterator[tuple[str, str, Separation]]:
        """Yield the rivals: how their figures are headed, how they are called, their figures."""
        yield "product of degrees", "the product of degrees", self.degree_product
        yield "without edges", "itself without edges", self.edgeless
        if self.retrained_edgeless:
            yield (
                "trained without edges", "its twin trained without edges", self.retrained_edgeless
            )  # fmt: skip

    @property
    def ranking(self) -> str:
        """MRR and Hits@10, and among what, in one sentence."""
        among = (
            f"a random sample of {self.num_candidates:,} targets"
            if self.candidates_sampled
            else f"all {self.num_candidates:,} targets"
        )
        return (
            f"MRR {self.mrr:.3f}, Hits@10 {self.hits_at_10:.3f} among {among}, known links of the "
            "source left out."
        )


def degree_product(train: Tensor, num_src: int, num_dst: int) -> Score:
    """Return the rival that multiplies the degrees of the two ends in the training links.

    Each degree counts one more than it is, so that an end without links does not hide the other.

    Example:
        >>> score = degree_product(torch.tensor([[0, 0], [0, 1]]), 2, 2)
        >>> score(torch.tensor([[0, 1], [0, 1]]))
        tensor([6., 2.], dtype=torch.float64)
    """
    src = torch.bincount(train[0], minlength=num_src).double() + 1
    dst = torch.bincount(train[1], minlength=num_dst).double() + 1
    return lambda pairs: src[pairs[0]] * dst[pairs[1]]


def target_ranks(
    score: Score, links: Tensor, candidates: Tensor, taken: Negatives
) -> npt.NDArray[np.float64]:
    """Return the filtered rank of the target of each link, from 1 up.

    One more than the number of candidates that score higher; a candidate with the same score
    counts half. Pairs that are taken, the link itself among them, are not counted.

    Args:
        score: scores pairs.
        links: the links to rank, [2, num_links].
        candidates: distinct targets to rank among.
        taken: knows the pairs that are not ranked.
    """
    true = score(links)
    ranks = np.ones(links.shape[1])
    sources, counts = torch.unique(links[0], return_counts=True)
    links_of = torch.argsort(links[0], stable=True).split(counts.tolist())
    size = max(1, _PAIRS_AT_ONCE // len(candidates))
    for first in range(0, len(sources), size):
        part = sources[first : first + size]
        pairs = torch.cartesian_prod(part, candidates).T
        logits = score(pairs)
        src, dst = pairs.cpu().numpy()
        logits[torch.from_numpy(taken.are_known(src, dst))] = -torch.inf
        logits = logits.view(len(part), len(candidates))
        for row, which in zip(logits, links_of[first : first + size], strict=True):
            above, level = row > true[which, None], row == true[which, None]
            ranks[which.numpy()] += (above.sum(dim=1) + level.sum(dim=1) / 2).cpu().numpy()
    return ranks


@dataclass(frozen=True)
class EvaluationPairs:
    """Pairs that are not links, for validation and test."""

    valid: Tensor
    test: Tensor
    matched: Tensor
    """For the test links, degree-matched."""

    @classmethod
    def draw(cls, split: LinkSplit, known: Negatives, seed: int) -> EvaluationPairs:
        """Draw as many pairs as there are links; the same seed gives the same pairs."""
        rng = np.random.default_rng(seed)
        valid, test = (known.uniform(part.shape[1], rng) for part in (split.valid, split.test))
        return cls(valid, test, known.matched(split.test, split.test[1], rng))


def measure(
    score: Score,
    edgeless: Score,
    split: LinkSplit,
    known: Negatives,
    *,
    taken: Negatives | None = None,
    retrained_edgeless: Score | None = None,
    max_candidates: int = 1000,
    seed: int = 0,
) -> TestFigures:
    """Measure a model and its rivals on the test links of a split.

    Args:
        score: the model.
        edgeless: the same model on a graph without edges.
        split: the links.
        known: all links that must not be taken for negatives.
        taken: pairs that are not ranked, such as these and those of other relations. None: these.
        retrained_edgeless: a model trained without edges, if there is one.
        max_candidates: number of targets to rank among at most.
        seed: seed of the negatives and of the candidates.
    """
    pairs = EvaluationPairs.draw(split, known, seed)
    rng = np.random.default_rng([seed, 1])
    sampled = known.num_dst > max_candidates
    candidates = torch.arange(known.num_dst)
    if sampled:
        chosen = np.sort(rng.choice(known.num_dst, size=max_candidates, replace=False))
        candidates = torch.from_numpy(chosen)
    ranks = target_ranks(score, split.test, candidates, known if taken is None else taken)
    product = degree_product(split.train, known.num_src, known.num_dst)

    def logits(way: Score) -> list[Tensor]:
        return [way(some) for some in (split.test, pairs.test, pairs.matched)]

    def figures(given: list[Tensor], rival: list[Tensor]) -> Separation:
        """The figures of some logits, and how much better the model is than a rival."""
        links, ordinary, matched = given
        decide = 2 if len(matched) else 1
        lead = auc_lead(own[0], own[decide], rival[0], rival[decide])
        return Separation(*link_metrics(links, ordinary), *link_metrics(links, matched), lead)

    def of_rival(way: Score) -> Separation:
        found = logits(way)
        return figures(found, found)

    own = logits(score)
    return TestFigures(
        model=figures(own, [torch.zeros_like(each) for each in own]),
        degree_product=of_rival(product),
        edgeless=of_rival(edgeless),
        retrained_edgeless=retrained_edgeless and of_rival(retrained_edgeless),
        mrr=float((1 / ranks).mean()),
        hits_at_10=float((ranks <= 10).mean()),
        num_candidates=len(candidates),
        candidates_sampled=sampled,
        num_links=split.test.shape[1],
    )
