from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
import torch
from torch import Tensor

from pagelink.models import LinkSplit, Negatives, Separation, TestFigures, link_metrics
from pagelink.models.figures import (
    EvaluationPairs,
    auc_lead,
    degree_product,
    measure,
    target_ranks,
)

GOOD = Separation(0.9, 0.9, 0.7, 0.7)
BAD = Separation(0.8, 0.8, 0.5, 0.5)


def test_auc_and_average_precision_by_hand() -> None:
    # In order of score: link, other, link, other, other. 5 of 6 pairs in order; (1 + 2/3) / 2.
    auc, ap = link_metrics(torch.tensor([5.0, 3.0]), torch.tensor([4.0, 2.0, 1.0]))
    assert (auc, ap) == (pytest.approx(5 / 6), pytest.approx(5 / 6))
    assert all(math.isnan(figure) for figure in link_metrics(torch.ones(2), torch.ones(0)))


def test_the_product_of_degrees_counts_training_links() -> None:
    train = torch.tensor([[0, 0, 1], [2, 1, 2]])
    score = degree_product(train, 3, 3)
    # Degrees plus one: sources 3, 2, 1; targets 1, 2, 3.
    pairs = torch.tensor([[0, 0, 1, 2], [2, 0, 1, 2]])
    assert score(pairs).tolist() == [9.0, 3.0, 4.0, 3.0]


MATRIX = torch.tensor([[9.0, 8.0, 7.0, 6.0, 6.0], [1.0, 5.0, 3.0, 3.0, 0.0]])


def by_matrix(pairs: Tensor) -> Tensor:
    return MATRIX[pairs[0], pairs[1]].clone()


def test_filtered_ranks_by_hand() -> None:
    # Source 0 is linked to targets 0 and 3: target 0 is filtered, 1 and 2 are above, 4 is level.
    # Source 1 is linked to target 2: 1 is above, 3 is level.
    links = torch.tensor([[0, 1, 0], [3, 2, 0]])
    known = Negatives(2, 5, links)
    ranks = target_ranks(by_matrix, links, torch.arange(5), known)
    assert ranks.tolist() == [3.5, 2.5, 1.0]
    # Among candidates 1 and 4 only.
    ranks = target_ranks(by_matrix, links, torch.tensor([1, 4]), known)
    assert ranks.tolist() == [2.5, 2.0, 1.0]


def test_ranks_do_not_depend_on_how_many_are_scored_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = np.random.default_rng(0)
    scores = torch.from_numpy(rng.integers(9, size=(30, 20)).astype(float))
    links = torch.from_numpy(rng.permutation(600)[:150])
    links = torch.stack([links // 20, links % 20])
    known = Negatives(30, 20, links)

    def by_scores(pairs: Tensor) -> Tensor:
        return scores[pairs[0], pairs[1]].clone()

    linked = {tuple(pair) for pair in links.T.tolist()}
    by_hand = [
        1 + sum((scores[s, c] > scores[s, t]) + (scores[s, c] == scores[s, t]) / 2
                for c in range(20) if (s, c) not in linked)
        for s, t in links.T.tolist()
    ]  # fmt: skip
    for size in (1, 50, 10_000):
        monkeypatch.setattr("pagelink.models.figures._PAIRS_AT_ONCE", size)
        ranks = target_ranks(by_scores, links, torch.arange(20), known)
        assert ranks.tolist() == [float(rank) for rank in by_hand]


def split_of_blocks() -> tuple[LinkSplit, Negatives]:
    rng = np.random.default_rng(0)
    codes = torch.from_numpy(rng.permutation(400)[:100])
    pairs = torch.stack([codes // 20, codes % 20])
    return LinkSplit(pairs[:, :70], pairs[:, 70:80], pairs[:, 80:]), Negatives(20, 20, pairs)


def test_all_rivals_are_measured_on_the_same_pairs() -> None:
    split, known = split_of_blocks()
    noise = torch.from_numpy(np.random.default_rng(1).normal(size=(20, 20)))
    asked: list[Tensor] = []

    def score(pairs: Tensor) -> Tensor:
        asked.append(pairs)
        return noise[pairs[0], pairs[1]].clone()

    def rival(pairs: Tensor) -> Tensor:
        return -noise[pairs[0], pairs[1]]

    figures = measure(score, rival, split, known, retrained_edgeless=score, seed=3)
    pairs = EvaluationPairs.draw(split, known, 3)
    for negatives in (pairs.test, pairs.matched):
        assert any(torch.equal(negatives, seen) for seen in asked)
    assert figures.edgeless.auc == pytest.approx(1 - figures.model.auc)
    assert figures.edgeless.matched_auc == pytest.approx(1 - figures.model.matched_auc)
    assert figures.retrained_edgeless == dataclasses.replace(figures.model, lead=(0.0, 0.0))
    ranks = target_ranks(score, split.test, torch.arange(20), known)
    assert figures.mrr == pytest.approx((1 / ranks).mean())
    assert figures.hits_at_10 == (ranks <= 10).mean()
    assert (figures.num_candidates, figures.candidates_sampled) == (20, False)

    few = measure(score, rival, split, known, max_candidates=7)
    assert (few.num_candidates, few.candidates_sampled) == (7, True)
    assert few.mrr > figures.mrr
    assert "a random sample of 7 targets" in few.ranking
    assert "all 20 targets" in figures.ranking
    assert measure(score, rival, split, known, max_candidates=7) == few


def test_evaluation_pairs_are_no_links() -> None:
    split, known = split_of_blocks()
    pairs = EvaluationPairs.draw(split, known, 0)
    for part in (pairs.valid, pairs.test, pairs.matched):
        assert not known.are_known(*part.numpy()).any()
    assert torch.equal(pairs.matched[0], split.test[0])
    assert set(pairs.matched[1].tolist()) <= set(split.test[1].tolist())


def test_the_lead_of_an_auc_has_the_variance_of_its_resamples() -> None:
    rng = np.random.default_rng(0)
    truth, noise = rng.normal(size=(2, 400))
    links, others = truth[:200] + 0.8, truth[200:]
    given = [links, others, links + noise[:200], others + noise[200:]]

    def auc(positive: np.ndarray, negative: np.ndarray) -> float:
        return float((positive[:, None] > negative).mean())

    low, high = auc_lead(*map(torch.from_numpy, given))
    lead = auc(*given[:2]) - auc(*given[2:])
    assert (low + high) / 2 == pytest.approx(lead)
    drawn = []
    for _ in range(1000):
        one, two = rng.integers(200, size=(2, 200))
        again = [each[which] for each, which in zip(given, (one, two, one, two), strict=True)]
        drawn.append(auc(*again[:2]) - auc(*again[2:]))
    assert (high - low) / 2 == pytest.approx(1.96 * np.std(drawn), rel=0.1)
    # Ties count half, and one link alone says nothing.
    assert auc_lead(*torch.zeros(4, 9)) == (0.0, 0.0)
    assert auc_lead(*torch.rand(4, 1)) == (-1.0, 1.0)


def with_lead(low: float, high: float) -> Separation:
    return dataclasses.replace(GOOD, lead=(low, high))


def test_degree_matched_negatives_and_intervals_decide() -> None:
    figures = TestFigures(
        model=with_lead(0.1, 0.3), degree_product=with_lead(0.1, 0.2), edgeless=with_lead(0.1, 0.4),
        retrained_edgeless=None, mrr=0.5, hits_at_10=0.5, num_candidates=5,
        candidates_sampled=False, num_links=9,
    )  # fmt: skip
    assert figures.uses_structure
    assert figures.verdict.startswith("The model makes use of the structure: ROC-AUC 0.900 (0.700")
    doubtful = dataclasses.replace(figures, edgeless=with_lead(-0.01, 0.02))
    assert not doubtful.uses_structure
    assert doubtful.verdict.startswith(
        "The model makes no certain use of the structure: on degree-matched negatives it does not "
        "clearly beat itself without edges (-0.010 to +0.020). ROC-AUC 0.900"
    )
    guessing = dataclasses.replace(figures, model=with_lead(-0.1, 0.0))
    assert guessing.stronger_rivals == ("chance",)
    assert guessing.verdict.startswith("The model makes no use of the structure: on degree-matched")
    twin = dataclasses.replace(figures, retrained_edgeless=with_lead(-0.2, -0.1))
    assert twin.stronger_rivals == ("its twin trained without edges",)
    # Without intervals, as older files have it, the figures decide; without degree-matched
    # negatives the ordinary ones do.
    older = dataclasses.replace(figures, model=GOOD, degree_product=BAD, edgeless=GOOD)
    assert older.stronger_rivals == ("itself without edges",)
    unmatched = dataclasses.replace(GOOD, matched_auc=math.nan)
    found = dataclasses.replace(older, model=unmatched, degree_product=unmatched, edgeless=BAD)
    assert found.stronger_rivals == ("the product of degrees",)
    assert "on ordinary negatives" in found.verdict


def test_the_interval_is_taken_on_the_degree_matched_negatives() -> None:
    split, known = split_of_blocks()
    pairs = EvaluationPairs.draw(split, known, 0)
    noise = torch.rand(40, 40, generator=torch.Generator().manual_seed(0))

    def score(some: Tensor) -> Tensor:
        return noise[some[0], some[1]]

    def rival(some: Tensor) -> Tensor:
        return noise[some[1], some[0]]

    found = measure(score, rival, split, known)
    own, other = ([way(split.test), way(pairs.matched)] for way in (score, rival))
    assert found.edgeless.lead == auc_lead(*own, *other)
    assert found.model.lead == auc_lead(*own, *map(torch.zeros_like, own))
    assert Separation.from_dict({**dataclasses.asdict(GOOD), "lead": [0.1, 0.2]}).lead == (0.1, 0.2)
