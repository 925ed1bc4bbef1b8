"""What a manifest says is checked when a store is opened, also if its own checksum is in order."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import torch
from torch_geometric.data import HeteroData

from pagelink.errors import StoreError
from pagelink.store.graph_store import GraphStore
from pagelink.store.manifest import HALF_WRITTEN, MANIFEST, finish_store
from pagelink.store.writer import save_store

Edit = Callable[[dict[str, Any]], object]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    data = HeteroData()
    data["user"].num_nodes, data["user"].name = 3, ["Ada", "Bo", "Cy"]
    data["user"].x = torch.ones(3, 2)
    data["user", "knows", "user"].edge_index = torch.tensor([[0, 1], [1, 2]])
    data["user", "knows", "user"].attributes = pa.table({"since": [1, 2]})
    return save_store(data, tmp_path / "store").folder


def forge(folder: Path, edit: Edit) -> None:
    """Change what the manifest says, and its checksum with it."""
    manifest = json.loads((folder / MANIFEST).read_text())
    for key in ("format", "version", "checksum"):
        del manifest[key]
    edit(manifest)
    (folder / HALF_WRITTEN).touch()
    finish_store(folder, manifest)


def rename(new: str) -> Edit:
    def edit(manifest: dict[str, Any]) -> None:
        manifest["files"][new] = manifest["files"].pop("node0.x.npy")
        manifest["nodes"][0]["values"]["x"] = {"array": new}

    return edit


def entry(file: str, **changes: object) -> Edit:
    return lambda manifest: manifest["files"][file].update(changes)


def first(part: str, **changes: object) -> Edit:
    return lambda manifest: manifest[part][0].update(changes)


def count_more(part: str) -> Edit:
    def edit(manifest: dict[str, Any]) -> None:
        schema = manifest["schema"][part]
        for each in (manifest[part][0], schema["user"] if part == "nodes" else schema[0]):
            each["count"] += 1

    return edit


def test_a_manifest_that_was_not_changed_is_read(folder: Path) -> None:
    forge(folder, lambda manifest: None)
    assert GraphStore.open(folder, verify=True).graph().num_edges == 2


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (rename("../x.npy"), r"'\.\./x\.npy' is not a plain file name"),
        (first("relations", rows={"first": 1, "turned": False}), "not where they can be"),
        (first("relations", rows={"first": 0, "turned": 3}), "not where they can be"),
        (rename("/etc/x.npy"), "'/etc/x.npy' is not a plain file name"),
        (rename("a\\x.npy"), "is not a plain file name"),
        (rename(".npy"), "is not a plain file name"),
        (rename(MANIFEST), "is not a plain file name"),
        (entry("src.npy", bytes=7), r"src\.npy cannot be 7 bytes"),
        (entry("src.npy", bytes="136"), r"src\.npy cannot be '136' bytes"),
        (entry("src.npy", shape=[-2]), r"src\.npy cannot be"),
        (entry("src.npy", dtype="|O"), r"src\.npy cannot be"),
        (entry("src.npy", dtype="<f4"), r"src\.npy is of type <f4"),
        (entry("src.npy", dtype=None, shape=None), r"src\.npy is of type None"),
        (entry("node0.x.npy", shape=[2, 3]), r"node0\.x\.npy is of type <f4 and shape \(2, 3\)"),
        (entry("src.npy", sha256="no"), r"src\.npy has no sha256"),
        (entry("src.npy", sha256=3), "an entry is missing or not of its kind"),
        (first("nodes", count=4), "other counts"),
        (first("nodes", count=-3), "has the count -3"),
        (first("nodes", count=True), "has the count True"),
        (first("relations", count=1), "other counts"),
        (first("relations", type=["user", "knows", "cat"]), "not between node types"),
        (first("relations", type=["user", "knows"]), "not between node types"),
        (first("nodes", values={"x": {"pickle": "x"}}), "an entry is missing"),
        (first("nodes", values={"name": {"strings": "node9.name"}}), "does not list the file"),
        (lambda manifest: manifest.update(relation_class=[5]), "relation_class"),
        (lambda manifest: manifest.update(files=[]), "an entry is missing"),
        (lambda manifest: manifest["files"].pop("fact.npy"), r"does not list the file fact\.npy"),
        (lambda manifest: manifest.pop("schema"), "an entry is missing"),
        (lambda manifest: manifest["schema"]["nodes"]["user"].update(count=9), "other counts"),
        (count_more("nodes"), r"in_ptr\.npy is of type <i8 and shape \(4,\), not <i8 and \(5,\)"),
        (count_more("relations"), "not where they can be"),
    ],
)
def test_what_cannot_be_is_refused(folder: Path, edit: Edit, message: str) -> None:
    forge(folder, edit)
    with pytest.raises(StoreError, match=rf"manifest\.json: damaged, .*{message}"):
        GraphStore.open(folder)


def test_a_manifest_nested_without_end(folder: Path) -> None:
    (folder / MANIFEST).write_text('{"format": ' + "[" * 100_000)
    with pytest.raises(StoreError, match="damaged, or not the manifest"):
        GraphStore.open(folder)
