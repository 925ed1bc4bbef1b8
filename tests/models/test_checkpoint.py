from __future__ import annotations

import dataclasses
import io
import json
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from support.learnable import (
    BOUGHT_BY,
    BUYS,
    DEFAULT,
    LIKES,
    PAPER,
    REV_LIKES,
    as_set,
    graph,
    stored,
)
from torch import nn
from torch_geometric.data import HeteroData

from pagelink import PaGELink
from pagelink.errors import CheckpointError
from pagelink.models import MODELS, TrainSettings, node_inputs
from pagelink.models.checkpoint import load_checkpoint, save_checkpoint


@pytest.mark.parametrize("settings", [DEFAULT, PAPER, TrainSettings(epochs=1, batch_size=20)])
@pytest.mark.parametrize("kind", MODELS)
def test_what_was_saved_comes_back(tmp_path: Path, settings: TrainSettings, kind: str) -> None:
    saved = stored(tmp_path / "model.pagelink", settings, kind)
    loaded = load_checkpoint(tmp_path / "model.pagelink", graph())
    assert type(loaded.model) is MODELS[kind]
    assert loaded.model.config == saved.model.config
    assert not loaded.model.training
    weights = saved.model.state_dict()
    assert loaded.model.state_dict().keys() == weights.keys()
    assert all(torch.equal(w, weights[n]) for n, w in loaded.model.state_dict().items())
    links = loaded.split.test
    assert torch.equal(
        loaded.score(links), dataclasses.replace(loaded, model=saved.model).score(links)
    )
    assert (loaded.link_type, loaded.settings) == (LIKES, settings)
    assert loaded.report == saved.report
    assert loaded.report.seconds == saved.report.seconds
    for part in ("train", "valid", "test"):
        assert torch.equal(getattr(loaded.split, part), getattr(saved.split, part))
    assert [path.name for path in tmp_path.iterdir()] == ["model.pagelink"]


def test_the_graph_is_the_one_of_the_tests(tmp_path: Path) -> None:
    saved = stored(tmp_path / "default")
    data = graph()
    loaded = load_checkpoint(tmp_path / "default", data)
    train_links = as_set(saved.split.train)
    assert as_set(loaded.data[LIKES].edge_index) == train_links
    assert as_set(loaded.data[REV_LIKES].edge_index.flip(0)) == train_links
    assert data.edge_types == [BUYS, BOUGHT_BY]
    stored(tmp_path / "paper", PAPER)
    assert load_checkpoint(tmp_path / "paper", graph()).data.edge_types == [BUYS, BOUGHT_BY]

    link = saved.split.test[:, :1]
    full = loaded.model(node_inputs(loaded.data), loaded.data.edge_index_dict, link).detach()
    torch.testing.assert_close(loaded.score(link), full)
    src, dst = saved.split.test[:, 0].tolist()
    explainer = PaGELink(loaded.model, loaded.data, LIKES, threshold=None)
    explanation = explainer.explain(src, dst)
    assert explanation.logit == pytest.approx(float(full), abs=1e-5)


def _other_names(data: HeteroData) -> None:
    data["user"].name[3:5] = reversed(data["user"].name[3:5])


def _other_edge(data: HeteroData) -> None:
    data[BUYS].edge_index = data[BUYS].edge_index.clone()
    data[BUYS].edge_index[1, 0] = 23


def _fewer_edges(data: HeteroData) -> None:
    data[BUYS].edge_index = data[BUYS].edge_index[:, 1:]


def _more_items(data: HeteroData) -> None:
    data["item"].num_nodes = 25
    data["item"].x = torch.ones(25, 2)


def _more_features(data: HeteroData) -> None:
    data["item"].x = torch.ones(24, 3)


def _other_features(data: HeteroData) -> None:
    data["item"].x = data["item"].x + 1


def _no_relation(data: HeteroData) -> None:
    del data[BUYS]


def _new_relation(data: HeteroData) -> None:
    data["user", "views", "item"].edge_index = torch.tensor([[0], [0]])


def _new_type(data: HeteroData) -> None:
    data["shop"].num_nodes = 2


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (_other_names, "other names, or another order, of the nodes of type 'user'"),
        (_other_edge, r"other edges of \('user', 'buys', 'item'\)"),
        (_fewer_edges, r"71 edges of \('user', 'buys', 'item'\) instead of 72"),
        (_more_items, "25 nodes of type 'item' instead of 24"),
        (_more_features, "3 features of 'item' instead of 2"),
        (_other_features, "other features of the nodes of type 'item'"),
        (_no_relation, r"relation \('user', 'buys', 'item'\) is missing"),
        (_new_relation, r"relation \('user', 'views', 'item'\) is new"),
        (_new_type, "node type 'shop' is new"),
    ],
)
def test_another_graph_is_refused(
    tmp_path: Path, change: Callable[[HeteroData], None], fault: str
) -> None:
    stored(tmp_path / "model")
    data = graph()
    change(data)
    with pytest.raises(CheckpointError, match=fault):
        load_checkpoint(tmp_path / "model", data)


def test_the_order_of_the_edges_does_not_matter(tmp_path: Path) -> None:
    stored(tmp_path / "model")
    data = graph()
    data[BUYS].edge_index = data[BUYS].edge_index[:, torch.arange(71, -1, -1)]
    load_checkpoint(tmp_path / "model", data)


def test_truncated_and_damaged_files_are_refused_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "model"
    stored(path)
    content = path.read_bytes()
    cuts = [0, 1, 10, 100, len(content) // 2, len(content) - 1]
    broken = [content[:cut] for cut in cuts]
    middle = len(content) // 2
    broken.append(content[:middle] + bytes(255 - b for b in content[middle : middle + 40])
                  + content[middle + 40 :])  # fmt: skip
    for number, part in enumerate(broken):
        path.write_bytes(part)
        with pytest.raises(CheckpointError) as caught:
            load_checkpoint(path, graph())
        assert "\n" not in str(caught.value), number
        assert str(path) in str(caught.value)


def _archive(**arrays: Any) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


def _header(**fields: Any) -> bytes:
    return _archive(header=np.frombuffer(json.dumps(fields).encode(), dtype=np.uint8))


def _npy(array: Any) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (b"src,dst\n1,2\n", "not a pagelink checkpoint"),
        (_archive(a=np.ones(3)), "not a pagelink checkpoint"),
        (_npy(np.ones(3)), "not a pagelink checkpoint"),
        (_header(format="something else"), "not a pagelink checkpoint"),
        (_header(format="pagelink checkpoint", version=99), "version 99, this pagelink reads 1"),
        (_header(other=1), "is damaged"),
        (_header(format="pagelink checkpoint", version=1), "is damaged"),
        (_header(format="pagelink checkpoint", version=1, schema=[1]), "is damaged"),
        (_archive(header=np.frombuffer(b"[1, 2", dtype=np.uint8)), "is damaged"),
    ],
)
def test_foreign_files_are_refused(tmp_path: Path, content: bytes, fault: str) -> None:
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(CheckpointError, match=fault):
        load_checkpoint(tmp_path / "file", graph())
    with pytest.raises(CheckpointError, match="There is no checkpoint"):
        load_checkpoint(tmp_path / "none", graph())


class Trap:
    """Writes a file when it is unpickled."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.write_text, (self.file, "caught")


def test_pickled_code_is_not_run(tmp_path: Path) -> None:
    sprung = tmp_path / "sprung"
    payload = pickle.dumps(Trap(sprung))
    pickle.loads(payload)  # the trap works
    assert sprung.read_text() == "caught"
    sprung.unlink()

    good = tmp_path / "model"
    stored(good)
    files = {"pickle": payload}
    buffer = io.BytesIO()
    torch.save({"weights": Trap(sprung)}, buffer)
    files["torch"] = buffer.getvalue()
    trapped = np.empty(1, dtype=object)
    trapped[0] = Trap(sprung)
    files["array"] = _npy(trapped)
    files["header"] = _archive(header=trapped)
    for name in ("header.npy", "weights/head.npy", "split/train.npy"):
        # A good checkpoint with one of its entries swapped for, or joined by, a pickled one.
        buffer = io.BytesIO()
        with zipfile.ZipFile(good) as old, zipfile.ZipFile(buffer, "w") as new:
            for entry in old.namelist():
                if entry != name:
                    new.writestr(entry, old.read(entry))
            new.writestr(name, _npy(trapped))
        files[name] = buffer.getvalue()
    for name, content in files.items():
        (tmp_path / "evil").write_bytes(content)
        with pytest.raises(CheckpointError):
            load_checkpoint(tmp_path / "evil", graph())
        assert not sprung.exists(), name


def test_a_failed_write_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved = stored(tmp_path / "model")
    before = (tmp_path / "model").read_bytes()

    def fail(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr("os.replace", fail)
    with pytest.raises(OSError, match="disk full"):
        save_checkpoint(
            tmp_path / "model", saved.model, saved.data, LIKES, saved.split, saved.report, DEFAULT
        )
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
    assert (tmp_path / "model").read_bytes() == before


def test_only_models_of_the_registry_are_stored(tmp_path: Path) -> None:
    saved = stored(tmp_path / "model")
    with pytest.raises(CheckpointError, match=r"Only rgcn, .*, nbf can be stored, got a Linear"):
        save_checkpoint(
            tmp_path / "other", nn.Linear(1, 1), saved.data, LIKES,  # type: ignore[arg-type]
            saved.split, saved.report, DEFAULT,
        )  # fmt: skip
