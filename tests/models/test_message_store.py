from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import torch
from support.learnable import DEFAULT, LIKES, PAPER, REV_LIKES, as_set, graph, learnable, stored
from torch_geometric.data import HeteroData

from pagelink import PaGELink
from pagelink.cli.main import main
from pagelink.errors import CheckpointError, StoreError
from pagelink.models import TrainSettings, make_model, message_graph, split_links, train
from pagelink.models.checkpoint import load_checkpoint, save_checkpoint, save_message_store
from pagelink.models.messages import Messages
from pagelink.models.sampling import make_sampler
from pagelink.store.graph_store import FLAT_ARRAYS, GraphStore
from pagelink.store.writer import save_store


def with_likes() -> HeteroData:
    """The same graph with all likes in it, each with a date, and the reverse."""
    data, likes = graph(), learnable()[1]
    data[LIKES].edge_index, data[REV_LIKES].edge_index = likes, likes.flip(0)
    dates = pa.table({"date": [f"20{i % 90 + 10}" for i in range(likes.shape[1])]})
    data[LIKES].attributes = data[REV_LIKES].attributes = dates
    return data


@pytest.mark.parametrize("settings", [DEFAULT, PAPER])
@pytest.mark.parametrize("make", [graph, with_likes])
def test_a_store_of_what_a_model_sees_is_its_message_graph(
    tmp_path: Path, settings: TrainSettings, make: type
) -> None:
    data = make()
    split = split_links(learnable()[1])
    model = make_model("sage", data, LIKES, hidden=8, paper_split=settings.paper_split)
    report = train(model, data, LIKES, split, settings)
    file = save_checkpoint(tmp_path / "model", model, data, LIKES, split, report, settings)
    in_memory = load_checkpoint(file, data)
    whole = save_store(data, tmp_path / "whole")
    made = save_message_store(whole, file, tmp_path / "seen")
    wanted = save_store(in_memory.data, tmp_path / "wanted")
    assert made.edge_types == wanted.edge_types
    for name in FLAT_ARRAYS:
        assert (made._map(f"{name}.npy") == wanted._map(f"{name}.npy")).all(), name
    for edge_type in made.edge_types:
        mine, theirs = made.data[edge_type], wanted.data[edge_type]
        assert torch.equal(mine.edge_index, theirs.edge_index)
        if "attributes" in theirs:
            assert mine["attributes"].equals(theirs["attributes"])
    loaded = load_checkpoint(file, made)
    assert loaded.store is made
    links = [tuple(link) for link in split.test[:, :6].t().tolist()]
    from_disk = PaGELink(loaded.model, loaded.source, LIKES, threshold=None)
    plain = PaGELink(in_memory.model, in_memory.data, LIKES, threshold=None)
    assert [e.paths for e in from_disk.explain_many(links)] == [
        e.paths for e in plain.explain_many(links)
    ]


def test_a_plain_store_is_cut_in_memory_where_it_holds_held_out_links(tmp_path: Path) -> None:
    saved = stored(tmp_path / "model")
    loaded = load_checkpoint(tmp_path / "model", save_store(graph(), tmp_path / "store"))
    assert loaded.store is None
    assert loaded.data[LIKES].edge_index.shape == saved.split.train.shape
    stored(tmp_path / "paper", PAPER)
    assert load_checkpoint(tmp_path / "paper", GraphStore.open(tmp_path / "store")).store


def test_a_store_made_for_another_model_is_refused(tmp_path: Path) -> None:
    stored(tmp_path / "one")
    stored(tmp_path / "other", TrainSettings(epochs=3))
    whole = save_store(graph(), tmp_path / "whole")
    seen = save_message_store(whole, tmp_path / "one", tmp_path / "seen")
    with pytest.raises(CheckpointError, match="another model"):
        load_checkpoint(tmp_path / "other", seen)
    with pytest.raises(CheckpointError, match="whole graph"):
        save_message_store(seen, tmp_path / "one", tmp_path / "again")


def test_what_cannot_be_used_is_refused_before_the_graph_is_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(model: Path, out: Path) -> str:
        words = ["store", str(tmp_path / "no-graph"), "--model", str(model), "--out", str(out)]
        monkeypatch.setattr("sys.argv", ["pagelink", *words])
        with pytest.raises(SystemExit):
            main()
        return " ".join(capsys.readouterr().err.split())

    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "letter.txt").write_text("Dear Ada")
    assert "no checkpoint" in run(tmp_path / "no-model", tmp_path / "new" / "out")
    assert "not empty" in run(tmp_path / "no-model", tmp_path / "full")
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("settings", [DEFAULT, PAPER])
@pytest.mark.parametrize("make", [graph, with_likes])
def test_a_store_trains_the_same_model_as_the_graph_in_memory(
    tmp_path: Path, settings: TrainSettings, make: type
) -> None:
    data, split = make(), split_links(learnable()[1])
    # Large enough to take all: only the order of the edges may differ.
    settings = dataclasses.replace(settings, batch_size=16, fanout=(100, 100), epochs=2)
    reports = {}
    for source in (data, save_store(data, tmp_path / "store")):
        model = make_model("sage", data, LIKES, hidden=8, paper_split=settings.paper_split)
        reports[type(source)] = train(model, source, LIKES, split, settings)
    one, other = reports.values()
    assert [e.loss for e in one.history] == pytest.approx([e.loss for e in other.history])
    assert one.test_auc == pytest.approx(other.test_auc, abs=0.02)


def test_a_sample_of_a_store_reads_it_and_leaves_held_out_links_alone(tmp_path: Path) -> None:
    data, split = with_likes(), split_links(learnable()[1])
    store = save_store(data, tmp_path / "store")
    seen = message_graph(store.data, LIKES, split.train)
    sampler = make_sampler(
        store, seen, Messages(seen, LIKES, REV_LIKES), REV_LIKES, split.train, (100, 100), False
    )
    assert sampler._graph.src.base is not None, "mapped, not copied"
    pairs = split.train[:, :5]
    for _ in range(2):  # what a batch holds out is there again in the next one
        x_dict, edges, _ = sampler.inputs(torch.cat([split.test, split.train], dim=1), pairs, 0)
        # Every item is an end of a link, and so comes first and in order.
        src, item = edges[LIKES]
        found = torch.stack([x_dict["user"][src], item])
        assert as_set(found) == as_set(split.train) - as_set(pairs)
        pairs = split.train[:, 5:9]


def test_a_damaged_store_is_refused_before_it_is_sampled(tmp_path: Path) -> None:
    store = save_store(with_likes(), tmp_path / "store")
    damaged = np.load(tmp_path / "store" / "src.npy")
    damaged[3] = 10**6
    np.save(tmp_path / "store" / "src.npy", damaged)
    with pytest.raises(StoreError, match=r"src\.npy: damaged"):
        store.whole_graph([LIKES])
