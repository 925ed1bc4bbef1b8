from __future__ import annotations

import dataclasses
import io
import json
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
import torch
from rich.console import Console
from support.learnable import BUYS, LIKES, graph, learnable, stored
from support.table_folders import write
from torch import Tensor

from pagelink import PaGELink
from pagelink.errors import CheckpointError
from pagelink.explain.result import Explanation
from pagelink.measure.held_out import HeldOutShares, Steps, wilson_interval
from pagelink.models import split_links
from pagelink.models.calibration import (
    Calibration,
    Predictions,
    Reliability,
    brier_score,
    calibrate,
    cross_fitted,
    pool_adjacent_violators,
    predictions_of,
    steps_by_rank,
    steps_by_score,
)
from pagelink.models.checkpoint import load_checkpoint, open_checkpoint, save_checkpoint
from pagelink.models.checkpoint_file import read_checkpoint_file, write_checkpoint_file
from pagelink.models.commands import calibrated, recommend, train_and_save
from pagelink.models.links import LinkSplit
from pagelink.models.reliability import reliability_svg
from pagelink.runtime.arrays import Longs

R = ("user", "likes", "item")
NUM_SRC, NUM_DST = 120, 80


@pytest.fixture(scope="module")
def logits() -> Tensor:
    drawn = torch.Generator().manual_seed(0)
    left, right = (torch.randn(n, 6, generator=drawn) for n in (NUM_SRC, NUM_DST))
    return (left @ right.T).double() - 3


@pytest.fixture(scope="module")
def split(logits: Tensor) -> LinkSplit:
    drawn = torch.Generator().manual_seed(1)
    is_link = torch.rand(logits.shape, generator=drawn, dtype=torch.float64) < logits.sigmoid()
    return split_links(is_link.nonzero().T)


@pytest.fixture(scope="module")
def calibration(logits: Tensor, split: LinkSplit) -> Calibration:
    found = calibrate(lambda pairs: logits[pairs[0], pairs[1]], split, R, NUM_DST)
    assert found is not None
    return found


def test_pool_adjacent_violators_on_five_points() -> None:
    # 0.1, then 0.3 and 0.2 are pooled to 0.25, 0.4 and 0.3 to 0.35.
    numbers, links = np.full(5, 10), np.array([1, 3, 2, 4, 3])
    starts = pool_adjacent_violators(numbers, links)
    assert starts.tolist() == [0, 1, 3]
    shares = np.add.reduceat(links, starts) / np.add.reduceat(numbers, starts)
    assert shares == pytest.approx([0.1, 0.25, 0.35])


def best_monotone(numbers: Longs, links: Longs) -> float:
    """The least squared error of rising shares, over all ways to cut points into steps."""
    size, best = len(numbers), np.inf
    for num_cuts in range(size):
        for cuts in combinations(range(1, size), num_cuts):
            starts = np.array([0, *cuts])
            n, k = np.add.reduceat(numbers, starts), np.add.reduceat(links, starts)
            if (np.diff(k / n) >= 0).all():
                fitted = np.repeat(k / n, np.diff([*starts, size]))
                best = min(best, float((numbers * (links / numbers - fitted) ** 2).sum()))
    return best


@pytest.mark.parametrize("seed", range(30))
def test_the_steps_are_the_best_monotone_ones(seed: int) -> None:
    rng = np.random.default_rng(seed)
    numbers = rng.integers(1, 9, 7)
    links = rng.integers(0, numbers + 1)
    starts = pool_adjacent_violators(numbers, links)
    n, k = np.add.reduceat(numbers, starts), np.add.reduceat(links, starts)
    assert (np.diff(k / n) > 0).all()
    fitted = np.repeat(k / n, np.diff([*starts, 7]))
    error = float((numbers * (links / numbers - fitted) ** 2).sum())
    assert error == pytest.approx(best_monotone(numbers, links))


def test_the_brier_score_and_the_reliability_by_hand() -> None:
    predicted, is_link = np.array([0.25, 0.25, 0.25, 0.7]), np.array([True, False, False, True])
    # (0.5625 + 0.0625 + 0.0625 + 0.09) / 4
    assert brier_score(predicted, is_link) == pytest.approx(0.194375)
    found = Reliability.of(predicted, is_link)
    assert found.brier == pytest.approx(0.194375)
    rows = [(row.predicted, row.observed, row.count) for row in found.bins]
    assert rows == [(0.25, pytest.approx(1 / 3), 3), (0.7, 1.0, 1)]


def predictions(numbers: dict[int, tuple[int, int]]) -> Predictions:
    """Predictions by rank, each with how many there are and how many of them are links."""
    rank = np.concatenate([np.full(n, r) for r, (n, _) in numbers.items()])
    is_link = np.concatenate([np.arange(n) < k for n, k in numbers.values()])
    return Predictions(np.zeros_like(rank), rank, -rank.astype(np.float64), is_link)


def test_shares_fall_with_the_rank_and_rise_with_the_score() -> None:
    found = predictions({1: (60, 30), 2: (60, 12), 3: (60, 18), 4: (60, 0), 5: (60, 0)})
    by_rank = steps_by_rank(found)
    assert by_rank == Steps((1.0, 2.0, 4.0), (60, 120, 120), (30, 30, 0))
    assert [by_rank.share(rank) for rank in range(1, 7)] == [0.5, 0.25, 0.25, 0.0, 0.0, 0.0]
    by_score = steps_by_score(found)
    assert by_score == Steps((-5.0, -3.0, -1.0), (120, 120, 60), (0, 30, 30))
    assert [by_score.share(s) for s in (-9.0, -5.0, -3.5, -3.0, 0.0)] == [0, 0, 0, 0.25, 0.5]


def test_few_predictions_are_no_step_of_their_own() -> None:
    found = predictions({1: (2, 2), 2: (98, 48), 3: (200, 10), 4: (3, 0)})
    assert steps_by_rank(found) == Steps((1.0, 3.0), (100, 203), (50, 10))
    assert steps_by_score(found) == Steps((-4.0, -2.0), (203, 100), (10, 50))
    assert steps_by_rank(predictions({1: (3, 1)})) == Steps((1.0,), (3,), (1,))


def test_the_wilson_interval_ends_where_shares_do() -> None:
    assert wilson_interval(0, 20)[0] == 0
    assert wilson_interval(20, 20)[1] == 1
    # (0.41 + 1.9208 / 100 -+ 1.96 * sqrt(0.41 * 0.59 / 100 + 0.9604 / 10000)) / 1.038416
    assert wilson_interval(41, 100) == pytest.approx((0.3186, 0.5080), abs=1e-3)


def test_ranks_are_those_among_targets_that_are_not_known(logits: Tensor, split: LinkSplit) -> None:
    sources = np.array([7, 3])
    found = predictions_of(lambda p: logits[p[0], p[1]], sources, split, R, NUM_DST)
    for place, src in enumerate(sources):
        known = torch.cat([split.train, split.test], dim=1)
        left = sorted(set(range(NUM_DST)) - set(known[1, known[0] == src].tolist()))
        row = logits[src, left].numpy()
        own = found.of(found.source == place)
        assert sorted(own.score) == sorted(row)
        assert own.rank.tolist() == [1 + int((row > score).sum()) for score in own.score]
        valid = split.valid[1, split.valid[0] == src].tolist()
        assert len(valid)
        assert sorted(own.score[own.is_link]) == sorted(logits[src, valid].numpy())


def test_pairs_of_other_relations_are_not_ranked() -> None:
    split = LinkSplit(*(torch.tensor([[0], [target]]) for target in range(3)))
    scores = torch.tensor([[0.0, 3.0, 0.0, 4.0, 1.0]])
    known = torch.tensor([[0], [3]])
    for taken, rank in ((None, 2), (known, 1)):
        found = predictions_of(lambda p: scores[p[0], p[1]], np.array([0]), split, R, 5, taken)
        assert found.rank[found.is_link].tolist() == [rank]


def test_within_one_type_a_link_holds_both_ways_and_no_node_is_its_own_target() -> None:
    pairs = torch.tensor([[0, 1, 2], [1, 2, 0]])
    split = LinkSplit(pairs[:, :1], pairs[:, 1:2], pairs[:, 2:])
    score = lambda p: (10 * p[0] + p[1]).double()  # noqa: E731
    found = predictions_of(score, np.array([1, 2]), split, ("user", "follows", "user"), 4)
    # Of 1: not itself and not 0, a training link turned around. Of 2: neither itself nor 0, a test
    # link; 1 is a validation link turned around.
    assert found.score.tolist() == [12, 13, 21, 23]
    assert found.is_link.tolist() == [True, False, True, False]
    assert found.rank.tolist() == [2, 1, 2, 1]


def test_a_source_is_never_in_the_fit_of_its_own_fold() -> None:
    # Each source finds links at ranks of its own: no share fitted on others foretells them.
    source, rank = np.divmod(np.arange(5 * 60), 60)
    is_link = rank // 12 == source
    found = Predictions(source, 1 + rank, -rank.astype(np.float64), is_link)
    fold = np.arange(5)
    by_rank, by_score, judged = cross_fitted(found, fold)
    for own in range(5):
        others = found.of(found.source != own)
        steps = steps_by_rank(others), steps_by_score(others)
        here = judged.source == own
        assert by_rank[here].tolist() == [steps[0].share(r) for r in judged.rank[here]]
        assert by_score[here].tolist() == [steps[1].share(s) for s in judged.score[here]]
        # Other outcomes of its own change nothing in what is said of it.
        turned = dataclasses.replace(found, is_link=found.is_link ^ (found.source == own))
        assert np.array_equal(cross_fitted(turned, fold)[0][here], by_rank[here])
        assert np.array_equal(cross_fitted(turned, fold)[1][here], by_score[here])


def test_a_good_model_is_told_from_a_useless_one(
    logits: Tensor, split: LinkSplit, calibration: Calibration
) -> None:
    rng = torch.Generator().manual_seed(5)
    noise = torch.randn(logits.shape, generator=rng)
    useless = calibrate(lambda pairs: noise[pairs[0], pairs[1]], split, R, NUM_DST)
    even = calibrate(lambda pairs: torch.zeros(pairs.shape[1]), split, R, NUM_DST)
    assert useless is not None
    assert even is not None
    base = calibration.num_links / calibration.num_predictions
    assert calibration.shares.of_rank(1).share > 4 * base
    assert useless.shares.of_rank(1).share < 2 * base
    # All targets of a source tie: their rank is half their number, which differs by source.
    assert even.shares.of_rank(1).share < 2 * base
    assert even.shares.of_score(0.0).share == pytest.approx(base)
    assert even.shares.of_score(0.0).num_predictions == even.num_predictions
    assert calibration.by_rank.brier < calibration.brier_constant < calibration.brier_sigmoid
    assert useless.by_rank.brier >= calibration.by_rank.brier


def test_cross_fitted_shares_are_reliable(calibration: Calibration) -> None:
    for table in (calibration.by_rank, calibration.by_score):
        assert sum(row.count for row in table.bins) == calibration.num_predictions
        rows = [row for row in table.bins if row.count >= 100]
        assert len(rows) > 4
        for row in rows:
            low, high = wilson_interval(round(row.observed * row.count), row.count)
            slack = 0.01  # what is predicted is an estimate, too
            assert low - slack <= row.predicted <= high + slack


def test_the_same_seed_gives_the_same_calibration(
    logits: Tensor, split: LinkSplit, calibration: Calibration
) -> None:
    again = calibrate(lambda pairs: logits[pairs[0], pairs[1]], split, R, NUM_DST)
    assert again == calibration
    assert Calibration.from_dict(json.loads(json.dumps(calibration.to_dict()))) == calibration


def test_the_cost_is_bounded(
    logits: Tensor, split: LinkSplit, monkeypatch: pytest.MonkeyPatch
) -> None:
    scored: list[int] = []

    def score(pairs: Tensor) -> Tensor:
        scored.append(pairs.shape[1])
        return logits[pairs[0], pairs[1]]

    monkeypatch.setattr("pagelink.models.calibration.MOST_SOURCES", 30)
    found = calibrate(score, split, R, NUM_DST)
    assert found is not None
    assert found.num_sources == len(scored) == 30
    scored.clear()
    monkeypatch.setattr("pagelink.models.calibration.MOST_PAIRS", 20 * NUM_DST)
    found = calibrate(score, split, R, NUM_DST)
    assert found is not None
    assert found.num_sources == 20
    assert sum(scored) <= 20 * NUM_DST
    monkeypatch.setattr("pagelink.models.calibration.MOST_PAIRS", 9 * NUM_DST)
    assert calibrate(score, split, R, NUM_DST) is None


def test_the_report_has_share_brier_score_and_table(calibration: Calibration) -> None:
    text = str(calibration)
    assert f"{calibration.shares.of_rank(1).share:.1%} at 1, " in text
    assert f"{calibration.by_rank.brier:.4f} by rank" in text
    assert len(text.splitlines()) == 3 + len(calibration.by_rank.bins)
    figure = reliability_svg(calibration)
    assert figure.count("<circle") == len(calibration.by_rank.bins) + len(calibration.by_score.bins)
    assert f"Brier score {calibration.by_score.brier:.4f}" in figure


def test_a_checkpoint_keeps_its_calibration(tmp_path: Path) -> None:
    saved = stored(tmp_path / "old")
    assert load_checkpoint(tmp_path / "old", graph()).calibration is None
    assert load_checkpoint(tmp_path / "old", graph()).held_out is None
    made = calibrated(saved.model, graph(), LIKES, saved.split, saved.settings)
    assert made is not None
    assert made.num_sources == 24
    parts = saved.model, graph(), LIKES, saved.split, saved.report, saved.settings
    save_checkpoint(tmp_path / "new", *parts, made)
    loaded = load_checkpoint(tmp_path / "new", graph())
    assert loaded.calibration == made
    assert loaded.held_out == made.shares

    header, arrays = read_checkpoint_file(tmp_path / "new")
    header["calibration"]["shares"]["by_rank"]["num_links"][0] = 10**9
    write_checkpoint_file(tmp_path / "bad", header, arrays)
    with pytest.raises(CheckpointError, match="bad is damaged: a step has more links"):
        load_checkpoint(tmp_path / "bad", graph())


def shares() -> HeldOutShares:
    return HeldOutShares(
        LIKES, Steps((1.0, 2.0), (100, 500), (41, 10)), Steps((-1e9, 1e9), (900, 50), (9, 50))
    )


def test_an_explanation_says_what_its_rank_or_score_meant(tmp_path: Path) -> None:
    stored(tmp_path / "model")
    loaded = load_checkpoint(tmp_path / "model", graph())
    given = loaded.model, loaded.data, loaded.link_type
    explainer = PaGELink(*given, threshold=None, held_out=shares())
    links = loaded.split.test.T.tolist()
    answers = list(explainer.explain_many(links, rank=True))
    assert {answer.rank == 1 for answer in answers} == {True, False}
    for answer in answers:
        assert answer.rank is not None
        assert answer.held_out_share == shares().of_rank(answer.rank)
    first = next(answer for answer in answers if answer.rank == 1)
    said = (
        "Of predictions ranked this high, 41 % were held-out links (a lower bound: not every true "
        "link is known)."
    )
    lines = str(first).splitlines()
    score = next(i for i, line in enumerate(lines) if "with a score of" in line)
    assert lines[score + 1] == said
    assert first.to_dict()["held_out_share"] == {
        "share": 0.41, "low": wilson_interval(41, 100)[0], "high": wilson_interval(41, 100)[1],
        "num_predictions": 100, "num_links": 41, "by": "rank",
    }  # fmt: skip
    assert Explanation.from_dict(json.loads(json.dumps(first.to_dict()))) == first

    # Where the rank is that in a sample, of a source, or not wanted, it goes by the score.
    src, dst = links[0]
    for how in (
        {"rank": False},
        {"rank": True, "rank_sample": 5},
        {"rank": True, "rank_end": "src"},
    ):
        answer = explainer.explain(src, dst, **how)
        assert answer.held_out_share == shares().of_score(answer.logit or 0.0)
        assert "Of predictions scored this high, 1 % were" in str(answer)
    # A link of the graph was not held out.
    known = explainer.explain(*loaded.split.train[:, 0].tolist(), rank=True)
    assert known.link_in_graph
    assert known.held_out_share is None
    # And without a calibration nothing is said.
    plain = PaGELink(*given, threshold=None).explain(src, dst, rank=True)
    assert plain.held_out_share is None
    assert "held-out" not in str(plain)
    # With another seed it is kept.
    assert explainer.replace(seed=3).explain(src, dst).held_out_share is not None


def test_recommendations_say_what_their_rank_meant(tmp_path: Path) -> None:
    saved = stored(tmp_path / "old")
    made = calibrated(saved.model, graph(), LIKES, saved.split, saved.settings)
    assert made is not None
    save_checkpoint(
        tmp_path / "new", saved.model, graph(), LIKES, saved.split, saved.report, saved.settings,
        dataclasses.replace(made, shares=shares()),
    )  # fmt: skip
    loaded = load_checkpoint(tmp_path / "new", graph())
    found = recommend(loaded, 3, 4)
    assert [each.held_out_share for each in found] == [shares().of_rank(i) for i in (1, 2, 3, 4)]
    (best,) = recommend(loaded, dst=3, k=1)
    assert best.held_out_share == shares().of_score(best.logit)
    assert all(each.held_out_share is None for each in recommend(loaded, 3, exclude_known=False))
    old = load_checkpoint(tmp_path / "old", graph())
    assert all(each.held_out_share is None for each in recommend(old, 3))


def test_train_prints_and_writes_it(tmp_path: Path) -> None:
    data, likes = learnable()
    pairs = {"likes": likes, "buys": data[BUYS].edge_index}
    nodes = {
        f"nodes-{kind}.csv": "\n".join(["id", *(f"{kind[0]}{i}" for i in range(24))])
        for kind in ("user", "item")
    }
    edges = {
        f"edges-user__{name}__item.csv": "\n".join(
            ["src,dst", *(f"u{u},i{i}" for u, i in found.T.tolist())]
        )
        for name, found in pairs.items()
    }
    (tmp_path / "graph").mkdir()
    folder = write(tmp_path / "graph", nodes | edges)
    console = Console(record=True, width=200, file=io.StringIO())
    train_and_save(
        folder, LIKES, tmp_path / "model", model="rgcn", seed=0, console=console,
        options={"hidden": 8}, settings={"epochs": 2}, figure=tmp_path / "figure.svg",
    )  # fmt: skip
    said = console.export_text()
    assert "Share of predictions that were validation links, by rank:" in said
    assert "Brier score of the first 100 predictions per source" in said
    assert (tmp_path / "figure.svg").read_text("utf-8").startswith("<svg")
    found = open_checkpoint(tmp_path / "model", folder).calibration
    assert found is not None
    assert f"{found.by_rank.brier:.4f} by rank" in said
