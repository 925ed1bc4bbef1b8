from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
import torch
from support.learnable import DEFAULT, LIKES, PAPER, REV_LIKES, graph, learnable, stored
from torch_geometric.data import HeteroData

from pagelink import PaGELink
from pagelink.cli.main import main
from pagelink.errors import CheckpointError
from pagelink.models import TrainSettings, make_model, split_links, train
from pagelink.models.checkpoint import load_checkpoint, save_checkpoint, save_message_store
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
