from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from support.learnable import BUYS, LIKES, as_set, learnable
from torch_geometric.data import HeteroData

from pagelink.cli.train import _digits, _held_out
from pagelink.errors import LinkError, SettingsError
from pagelink.measure.held_out import HeldOutShare
from pagelink.models import TrainSettings, make_model, node_inputs, split_links, train
from pagelink.models.checkpoint import Checkpoint
from pagelink.models.commands import Recommendation, recommend
from pagelink.models.messages import message_graph

FOLLOWS = ("user", "follows", "user")


@pytest.fixture(scope="module")
def checkpoint() -> Checkpoint:
    data, likes = learnable()
    data["user"].name = [f"User {i}" for i in range(24)]
    data["item"].name = [f"Item {i}" for i in range(24)]
    split = split_links(likes)
    model = make_model("sage", data, LIKES, hidden=8)
    settings = TrainSettings(epochs=3)
    report = train(model, data, LIKES, split, settings)
    seen = message_graph(data, LIKES, split.train)
    return Checkpoint(model, LIKES, split, report, settings, seen)


def by_hand(checkpoint: Checkpoint, src: int) -> list[float]:
    """The logit of every target, one call of the model each."""
    data = checkpoint.data
    with torch.no_grad():
        return [
            float(checkpoint.model(node_inputs(data), data.edge_index_dict,
                                   torch.tensor([[src], [dst]])))
            for dst in range(24)
        ]  # fmt: skip


@pytest.mark.parametrize("exclude_known", [True, False])
@pytest.mark.parametrize("k", [1, 5, 100])
@pytest.mark.parametrize("at_once", [1, 7, 1000])
def test_the_best_new_targets_come_first(
    checkpoint: Checkpoint,
    exclude_known: bool,
    k: int,
    at_once: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("pagelink.models.commands._NODES_AT_ONCE", at_once)
    logits = by_hand(checkpoint, 3)
    known = {dst for src, dst in as_set(checkpoint.split.all) if src == 3}
    assert known
    left = [i for i in range(24) if not (exclude_known and i in known)]
    best = sorted(left, key=lambda i: -logits[i])[:k]
    found = recommend(checkpoint, 3, k, exclude_known=exclude_known)
    assert [item.index for item in found] == best
    assert [item.name for item in found] == [f"Item {i}" for i in best]
    assert [item.logit for item in found] == pytest.approx([logits[i] for i in best], abs=1e-5)
    probabilities = torch.sigmoid(torch.tensor([item.logit for item in found])).tolist()
    assert [item.probability for item in found] == pytest.approx(probabilities)


def test_the_best_new_sources_come_first(checkpoint: Checkpoint) -> None:
    logits = [by_hand(checkpoint, src)[3] for src in range(24)]
    known = {src for src, dst in as_set(checkpoint.split.all) if dst == 3}
    assert known
    for exclude_known in (True, False):
        left = [i for i in range(24) if not (exclude_known and i in known)]
        found = recommend(checkpoint, dst="Item 3", k=5, exclude_known=exclude_known)
        assert [user.name for user in found] == [
            f"User {i}" for i in sorted(left, key=lambda i: -logits[i])[:5]
        ]
    for wrong in ({}, {"src": 3, "dst": 3}):
        with pytest.raises(SettingsError, match="Give either src"):
            recommend(checkpoint, **wrong)


def test_a_source_is_found_by_name(checkpoint: Checkpoint) -> None:
    assert recommend(checkpoint, "User 3") == recommend(checkpoint, 3)
    with pytest.raises(LinkError, match="Did you mean 'User 3'"):
        recommend(checkpoint, "Usr 3")
    with pytest.raises(SettingsError, match="k must be at least 1"):
        recommend(checkpoint, 3, 0)


def test_within_one_type_the_source_and_turned_links_are_left_out() -> None:
    data = HeteroData()
    data["user"].num_nodes = 12
    pairs = torch.tensor([(a, b) for a in range(12) for b in range(12) if a < b and (a + b) % 3]).T
    split = split_links(pairs)
    model = make_model("rgcn", data, FOLLOWS, hidden=8)
    settings = TrainSettings(epochs=1)
    report = train(model, data, FOLLOWS, split, settings)
    seen = message_graph(data, FOLLOWS, split.train)
    checkpoint = Checkpoint(model, FOLLOWS, split, report, settings, seen)
    found = {item.index for item in recommend(checkpoint, 5, 100)}
    assert found == {v for v in range(12) if v != 5 and (5 + v) % 3 == 0}
    everyone = {item.index for item in recommend(checkpoint, 5, 100, exclude_known=False)}
    assert everyone == set(range(12)) - {5}


def test_the_path_of_a_checkpoint_gives_the_same(checkpoint: Checkpoint, tmp_path: Path) -> None:
    from pagelink.models.checkpoint import load_checkpoint, save_checkpoint

    data, _ = learnable()
    data["user"].name = [f"User {i}" for i in range(24)]
    data["item"].name = [f"Item {i}" for i in range(24)]
    save_checkpoint(
        tmp_path / "model", checkpoint.model, data, LIKES, checkpoint.split, checkpoint.report,
        checkpoint.settings,
    )  # fmt: skip
    loaded = load_checkpoint(tmp_path / "model", data)
    assert recommend(loaded, 7) == recommend(checkpoint, 7)


def test_pairs_of_a_known_relation_are_not_recommended(
    checkpoint: Checkpoint, tmp_path: Path
) -> None:
    from pagelink.models.checkpoint import load_checkpoint, save_checkpoint

    bought = {dst for src, dst in as_set(checkpoint.data[BUYS].edge_index) if src == 3}
    everything = [item.index for item in recommend(checkpoint, 3, 100)]
    assert bought & set(everything)
    left = [index for index in everything if index not in bought]
    for name in ("buys", "user,buys,item"):
        assert [item.index for item in recommend(checkpoint, 3, 100, known=[name])] == left
    # What a model was trained with is the default, from its file, too; the option replaces it.
    stated = replace(checkpoint, settings=TrainSettings(epochs=3, known=("buys",)))
    assert [item.index for item in recommend(stated, 3, 100)] == left
    assert [item.index for item in recommend(stated, 3, 100, known=[])] == everything
    data, _ = learnable()
    save_checkpoint(
        tmp_path / "model", stated.model, data, LIKES, stated.split, stated.report, stated.settings
    )
    loaded = load_checkpoint(tmp_path / "model", data)
    assert loaded.settings == stated.settings
    assert [item.index for item in recommend(loaded, 3, 100)] == left
    bought_by = {src for src, dst in as_set(checkpoint.data[BUYS].edge_index) if dst == 5}
    found = {user.index for user in recommend(stated, k=100, dst=5)}
    assert not found & bought_by


def test_shares_and_digits_of_many_recommendations() -> None:
    shares = [
        HeldOutShare(share, 0.0, 1.0, 50, 5, "rank") for share in (0.1, 0.001, 0.0012, 0.0011)
    ]
    found = [
        Recommendation(i, f"n{i}", str(i), i + 1, logit, 0.5, share)
        for i, (logit, share) in enumerate(zip((2.0, 1.5, 1.4993, 1.4993), shares, strict=True))
    ]
    (line,) = _held_out(found)
    assert line.endswith("10 % (rank 1), less than 1 % (ranks 2 to 4).")
    assert _digits([each.logit for each in found]) == 3
    assert _digits([2.0, 1.5]) == 2
    assert list(_held_out([replace(found[0], held_out_share=None)])) == []


def test_a_known_relation_has_to_join_the_same_types(checkpoint: Checkpoint) -> None:
    with pytest.raises(SettingsError, match=r"between user and item\. Did you mean .*buys"):
        recommend(checkpoint, 3, known=["buy"])
