from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
import torch
from support.learnable import BOUGHT_BY, BUYS, LIKES, REV_LIKES, Pairs, as_set, learnable
from torch import Tensor, nn
from torch_geometric.data import HeteroData

from pagelink.errors import GraphError, ModelError, SettingsError
from pagelink.graph.schema import EdgeType
from pagelink.models import (
    MODELS,
    Epoch,
    LinkModel,
    LinkSplit,
    Negatives,
    TrainReport,
    TrainSettings,
    link_metrics,
    make_model,
    message_graph,
    node_inputs,
    split_links,
    train,
)
from pagelink.models.feeds import scorer
from pagelink.models.figures import EvaluationPairs, target_ranks

OWN = "layers.0.own.weight"
PAPER = TrainSettings.paper()


def trained(
    settings: TrainSettings, seed: int = 0, kind: str = "rgcn", **options: Any
) -> tuple[LinkModel, TrainReport, LinkSplit]:
    data, likes = learnable()
    split = split_links(likes, seed)
    options = {"hidden": 8, "paper_split": settings.paper_split, "seed": seed, **options}
    model = make_model(kind, data, LIKES, **options)
    return model, train(model, data, LIKES, split, settings, seed=seed), split


def random_state() -> tuple[bytes, str]:
    return torch.get_rng_state().numpy().tobytes(), str(np.random.get_state(legacy=False))


MODES = pytest.mark.parametrize(
    "settings",
    [
        TrainSettings(epochs=25),
        TrainSettings(epochs=25, batch_size=16, fanout=(3, 2)),
        dataclasses.replace(PAPER, epochs=60),
        dataclasses.replace(PAPER, epochs=25, batch_size=16, fanout=(3, 2)),
    ],
    ids=["full", "batches", "paper", "paper batches"],
)


@MODES
def test_training_learns(settings: TrainSettings) -> None:
    _, report, _ = trained(settings)
    assert report.test_auc > 0.9
    assert report.history[-1].loss < report.history[0].loss
    assert report.uses_structure == report.test.uses_structure


@pytest.mark.parametrize("kind", MODELS)
def test_every_kind_learns(kind: str) -> None:
    _, report, _ = trained(TrainSettings(epochs=12, lr=0.03), kind=kind)
    assert report.test_auc > 0.75
    assert report.history[-1].loss < report.history[0].loss


def test_the_best_weights_are_put_back() -> None:
    # Steps of this size overshoot, so that the last epochs are worse than the best one.
    settings = TrainSettings(epochs=20, lr=0.3, patience=20)
    model, report, split = trained(settings)
    data, _ = learnable()
    seen = message_graph(data, LIKES, split.train)
    assert report.history[-1].valid_auc < report.valid_auc
    assert report.valid_auc == max(epoch.valid_auc for epoch in report.history)
    first_best = next(e for e in report.history if e.valid_auc == report.valid_auc)
    assert report.best_epoch == first_best.number < len(report.history)
    assert not model.training
    pairs = EvaluationPairs.draw(split, Negatives(24, 24, split.all), 0)
    with torch.no_grad():
        logits = [
            model(node_inputs(seen), seen.edge_index_dict, part)
            for part in (split.valid, pairs.valid, split.test, pairs.test, pairs.matched)
        ]
        alone = [model(node_inputs(seen), {}, part) for part in (split.test, pairs.test)]
    assert link_metrics(logits[0], logits[1])[0] == report.valid_auc
    assert link_metrics(logits[2], logits[3]) == (report.test_auc, report.test_ap)
    assert link_metrics(logits[2], logits[4])[0] == report.test.model.matched_auc
    assert link_metrics(*alone)[0] == report.test.edgeless.auc


@MODES
def test_same_seed_same_model_and_no_global_randomness(settings: TrainSettings) -> None:
    settings = dataclasses.replace(settings, epochs=3)
    before = random_state()
    first, report, _ = trained(settings, dropout=0.5)
    assert random_state() == before
    torch.manual_seed(1234)
    second, again, _ = trained(settings, dropout=0.5)
    other, _, _ = trained(settings, seed=1, dropout=0.5)
    assert report == again
    weights = second.state_dict()
    assert all(torch.equal(w, weights[name]) for name, w in first.state_dict().items())
    assert not torch.equal(other.get_parameter(OWN), first.get_parameter(OWN))


def test_the_device_is_checked_and_the_cpu_is_one() -> None:
    data, likes = learnable()
    model = make_model("rgcn", data, LIKES, hidden=8)
    for device in ("nowhere", "cuda:77"):
        with pytest.raises(SettingsError, match="device must be one that torch can use here"):
            train(model, data, LIKES, split_links(likes), device=device)
    settings = TrainSettings(epochs=2)
    report = train(model, data, LIKES, split_links(likes), settings, device="cpu")
    assert report == trained(settings)[1]


def test_training_stops_when_validation_does_not_rise() -> None:
    _, report, _ = trained(TrainSettings(lr=0.0, patience=4))
    assert (report.best_epoch, len(report.history)) == (1, 5)


def test_progress_hears_every_epoch() -> None:
    data, likes = learnable()
    heard: list[Epoch] = []
    model = make_model("rgcn", data, LIKES, hidden=8)
    settings = TrainSettings(epochs=3)
    report = train(model, data, LIKES, split_links(likes), settings, progress=heard.append)
    assert tuple(heard) == report.history
    assert [epoch.number for epoch in heard] == [1, 2, 3]


def test_a_report_survives_being_stored() -> None:
    _, report, _ = trained(TrainSettings(epochs=2, retrain_edgeless=True))
    assert report.test.retrained_edgeless is not None
    assert report.test.retrained_edgeless.auc < report.test_auc
    assert "trained without edges" in report.test.verdict
    assert TrainReport.from_dict(report.to_dict()) == report
    assert "Trained for 2 epochs" in str(report)


def test_pairs_of_a_known_relation_are_not_ranked() -> None:
    data, _ = learnable()
    model, report, split = trained(TrainSettings(epochs=2))
    same, other, _ = trained(TrainSettings(epochs=2, known=("buys",)))
    assert torch.equal(same.state_dict()[OWN], model.state_dict()[OWN])
    assert other.test.model == report.test.model
    taken = torch.cat([split.all, data[BUYS].edge_index], dim=1)
    graph = message_graph(data, LIKES, split.train)
    score = scorer(model, node_inputs(graph), dict(graph.edge_index_dict))
    for found, pairs in ((report, split.all), (other, taken)):
        ranks = target_ranks(score, split.test, torch.arange(24), Negatives(24, 24, pairs))
        assert found.test.mrr == pytest.approx((1 / ranks).mean())
    assert other.test.mrr > report.test.mrr


class Spy(nn.Module):
    """Scores nothing, but remembers which edges and which pairs it was given, by node ids."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(()))
        self.calls: list[tuple[bool, dict[EdgeType, Pairs], list[tuple[int, int]]]] = []

    def forward(
        self,
        x_dict: Mapping[str, Tensor],
        edge_index_dict: Mapping[EdgeType, Tensor],
        edge_label_index: Tensor,
    ) -> Tensor:
        edges = {
            t: as_set(torch.stack([x_dict[t[0]][e[0]], x_dict[t[2]][e[1]]]))
            for t, e in edge_index_dict.items()
        }
        src, dst = edge_label_index
        pairs = torch.stack([x_dict["user"][src], x_dict[self.dst_type][dst]]).T.tolist()
        self.calls.append((self.training, edges, [(s, t) for s, t in pairs]))
        return self.weight * torch.ones(edge_label_index.shape[1])

    dst_type = "item"


def spied(settings: TrainSettings, in_graph: bool) -> tuple[Spy, LinkSplit]:
    data, likes = learnable()
    split = split_links(likes)
    if in_graph:
        data[LIKES].edge_index = likes
        data["item", "liked_by", "user"].edge_index = likes.flip(0)  # without PyG's prefix
    spy = Spy()
    train(spy, data, LIKES, split, settings)
    return spy, split


@pytest.mark.parametrize("in_graph", [True, False])
@pytest.mark.parametrize("batch_size", [None, 20])
def test_a_step_does_not_see_its_own_links(in_graph: bool, batch_size: int | None) -> None:
    settings = TrainSettings(epochs=2, batch_size=batch_size, fanout=(100, 100))
    spy, split = spied(settings, in_graph)
    reverse = ("item", "liked_by", "user") if in_graph else REV_LIKES
    known = as_set(split.train)
    steps = [(edges, pairs) for training, edges, pairs in spy.calls if training]
    asked: list[tuple[int, int]] = []
    for edges, pairs in steps:
        links = [pair for pair in pairs if pair in known]
        assert len(links) == len(pairs) // 2
        asked += links
        shown = edges[LIKES] | {(src, dst) for dst, src in edges[reverse]}
        assert shown
        assert shown <= known - set(links)
        if batch_size is None:
            assert edges[LIKES] == {(src, dst) for dst, src in edges[reverse]} == known - set(links)
    # Every training link is asked for once an epoch.
    assert sorted(asked) == sorted(2 * list(known))


@MODES
def test_validation_and_test_links_never_pass_messages(settings: TrainSettings) -> None:
    settings = dataclasses.replace(settings, epochs=2, retrain_edgeless=True)
    spy, split = spied(settings, in_graph=True)
    train_links = as_set(split.train)
    reverse = ("item", "liked_by", "user")
    shown: Pairs = set()
    for _, edges, _ in spy.calls:
        assert LIKES in edges or settings.paper_split
        assert not settings.paper_split or set(edges) == {BUYS, BOUGHT_BY}
        shown |= edges.get(LIKES, set()) | {(src, dst) for dst, src in edges.get(reverse, set())}
    assert shown == (set() if settings.paper_split else train_links)
    # At validation and test all training links pass messages.
    full = [edges for training, edges, _ in spy.calls if not training and edges[BUYS]]
    if settings.batch_size is None and not settings.paper_split:
        assert all(edges[LIKES] == train_links for edges in full)


@pytest.mark.parametrize("matched", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("batch_size", [None, 7])
def test_negatives_are_never_links_nor_self_pairs(matched: float, batch_size: int | None) -> None:
    data = HeteroData()
    data["user"].num_nodes = 12
    data["user", "knows", "user"].edge_index = torch.tensor([[0], [1]])
    pairs = torch.tensor([(a, b) for a in range(12) for b in range(12) if a < b and (a + b) % 3]).T
    spy = Spy()
    spy.dst_type = "user"
    split = split_links(pairs)
    settings = TrainSettings(epochs=4, matched_negatives=matched, batch_size=batch_size)
    train(spy, data, ("user", "follows", "user"), split, settings)
    links = as_set(pairs)
    for training, _, scored in spy.calls:
        if training:
            negatives = [pair for pair in scored if pair not in links]
            assert all(a != b and (b, a) not in links for a, b in negatives)
            # Half of the pairs are negatives, so none of them was a link.
            assert 2 * len(negatives) == len(scored)


def test_matched_negatives_share_the_sources_of_the_links() -> None:
    settings = TrainSettings(epochs=1, matched_negatives=1.0)
    spy, split = spied(settings, in_graph=False)
    for training, _, pairs in spy.calls:
        if training:
            half = len(pairs) // 2
            assert [src for src, _ in pairs[:half]] == [src for src, _ in pairs[half:]]
    assert split.train.shape[1]


def test_training_refuses_what_cannot_be_trained() -> None:
    data, likes = learnable()
    model = make_model("rgcn", data, LIKES, hidden=8)
    with pytest.raises(ModelError, match=r"does not read .*'likes'.*paper_split"):
        train(make_model("rgcn", data, LIKES, paper_split=True), data, LIKES, split_links(likes))
    with pytest.raises(ModelError, match=r"the graph has no .*'rev_likes'"):
        train(model, data, LIKES, split_links(likes), PAPER)
    with pytest.raises(SettingsError, match=r"one number per layer of the model \(2\), got \(3,\)"):
        train(model, data, LIKES, split_links(likes), TrainSettings(batch_size=9, fanout=(3,)))
    likes[1, 0] = 99
    with pytest.raises(GraphError, match=r"item indices in 0\.\.23, got 0\.\.99"):
        train(model, data, LIKES, split_links(likes))
    data["user"].x = torch.full((24, 2), torch.nan)
    with pytest.raises(ModelError, match="loss is not finite"):
        train(make_model("rgcn", data, LIKES), data, LIKES, split_links(likes[:, 1:]))


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        ({"epochs": 0}, "epochs must be at least 1"),
        ({"patience": 0}, "patience must be at least 1"),
        ({"folds": 1}, "folds must be at least 2, got 1"),
        ({"folds": 0, "paper_split": True}, "folds must be"),
        ({"batch_size": 0}, "batch_size must be"),
        ({"fanout": (3, 0)}, "fanout must be"),
        ({"matched_negatives": 1.5}, "matched_negatives must be in"),
        ({"lr": -1.0}, "lr and weight_decay"),
    ],
)
def test_settings_out_of_range_are_named(options: dict[str, Any], fault: str) -> None:
    with pytest.raises(SettingsError, match=fault):
        TrainSettings(**options)
