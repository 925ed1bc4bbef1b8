"""A store is read once on a machine, when it first comes there, and again when it was changed."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from torch_geometric.data import HeteroData

from pagelink.errors import StoreError
from pagelink.store import verification
from pagelink.store.graph_store import GraphStore
from pagelink.store.manifest import MANIFEST
from pagelink.store.verification import CACHE_VARIABLE
from pagelink.store.writer import save_store

FEATURES = "node0.x.npy"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store of some megabytes, on a machine that has not seen it, with times long past."""
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    monkeypatch.setattr(verification, "_RECENT", 0)
    data = HeteroData()
    data["user"].num_nodes = 1000
    data["user"].x = torch.zeros(1000, 1000)
    data["user", "knows", "user"].edge_index = torch.tensor([[0, 1], [1, 2]])
    save_store(data, tmp_path / "store")
    shutil.rmtree(tmp_path / "cache")
    return tmp_path / "store"


def change(file: Path) -> None:
    """Change a byte in place; inode, size and time of the content stay as they are."""
    before = file.stat()
    with file.open("r+b") as content:
        content.seek(-3, os.SEEK_END)
        byte = content.read(1)
        content.seek(-3, os.SEEK_END)
        content.write(bytes([byte[0] ^ 1]))
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (file.stat().st_ino, file.stat().st_size, file.stat().st_mtime_ns) == (
        before.st_ino, before.st_size, before.st_mtime_ns,
    )  # fmt: skip


def megabytes_read(work: object) -> float:
    """Return how much this process reads while a store is opened."""

    def read() -> int:
        words = Path("/proc/self/io").read_text().split()
        return int(words[words.index("rchar:") + 1])

    before = read()
    assert callable(work)
    work()
    return (read() - before) / 1e6


linux = pytest.mark.skipif(sys.platform != "linux", reason="counts the bytes that a process reads")


@linux
def test_a_store_is_verified_once(folder: Path) -> None:
    assert megabytes_read(lambda: GraphStore.open(folder)) > 4
    assert megabytes_read(lambda: GraphStore.open(folder)) < 0.5
    assert megabytes_read(lambda: GraphStore.open(folder, verify=True)) > 4


@linux
def test_one_of_many_processes_verifies(folder: Path) -> None:
    def open_by_many() -> None:
        with ThreadPoolExecutor(4) as many:
            list(many.map(GraphStore.open, [folder] * 4))

    assert megabytes_read(open_by_many) < 6


@linux
def test_the_process_that_made_a_store_has_verified_it(folder: Path) -> None:
    data = GraphStore.open(folder).data
    time.sleep(0.02)  # files that are as old as the record may change again unseen
    made = save_store(data, folder.parent / "made")
    assert megabytes_read(lambda: GraphStore.open(made.folder)) < 0.5


def test_a_change_after_that_is_found(folder: Path) -> None:
    GraphStore.open(folder)
    change(folder / FEATURES)
    with pytest.raises(StoreError, match=rf"{FEATURES}: the file was changed, its sha256"):
        GraphStore.open(folder)
    change(folder / FEATURES)
    GraphStore.open(folder)  # as it was


def test_a_change_just_after_it_was_made_is_found(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The times of a file may be those of a second before: what is so new is not remembered.
    monkeypatch.undo()
    monkeypatch.setenv(CACHE_VARIABLE, str(folder.parent / "cache"))
    made = save_store(GraphStore.open(folder).data, folder.parent / "made")
    assert not list((folder.parent / "cache").rglob("*.json"))
    change(made.folder / FEATURES)
    with pytest.raises(StoreError, match="the file was changed"):
        GraphStore.open(made.folder)


def test_a_copy_with_other_content_is_found(folder: Path) -> None:
    GraphStore.open(folder)
    copy = Path(shutil.copytree(folder, folder.parent / "copy"))  # with the times of the files
    GraphStore.open(copy)
    change(copy / "src.npy")
    with pytest.raises(StoreError, match=r"copy/src\.npy: the file was changed"):
        GraphStore.open(copy)
    # Another store in the place of one that was verified.
    shutil.rmtree(folder)
    copy.rename(folder)
    with pytest.raises(StoreError, match=r"store/src\.npy: the file was changed"):
        GraphStore.open(folder)


def test_a_cache_that_cannot_be_written_is_no_error(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder.parent / "file").write_text("not a folder")
    monkeypatch.setenv(CACHE_VARIABLE, str(folder.parent / "file"))
    monkeypatch.setattr(tempfile, "tempdir", str(folder.parent))
    GraphStore.open(folder)
    (records,) = folder.parent.glob("pagelink-verified-stores-*")
    assert len(list(records.glob("*.json"))) == 1, "kept where temporary files are"
    monkeypatch.setattr(tempfile, "tempdir", str(folder.parent / "nowhere"))
    GraphStore.open(folder)
    change(folder / FEATURES)
    with pytest.raises(StoreError, match="the file was changed"):
        GraphStore.open(folder)


@pytest.mark.parametrize("content", ["", "{", "[]", '{"files": 3}', '{"files": {"src.npy": 1}}'])
def test_a_damaged_record_is_as_none(folder: Path, content: str) -> None:
    GraphStore.open(folder)
    (record,) = (folder.parent / "cache").rglob("*.json")
    record.write_text(content)
    change(folder / FEATURES)
    with pytest.raises(StoreError, match="the file was changed"):
        GraphStore.open(folder)


def test_stores_that_are_gone_are_forgotten(folder: Path) -> None:
    GraphStore.open(folder)
    shutil.move(folder, folder.parent / "elsewhere")
    GraphStore.open(folder.parent / "elsewhere")
    (record,) = (folder.parent / "cache").rglob("*.json")
    assert "elsewhere" in record.read_text()


@pytest.mark.parametrize("place", range(0, 1000, 90))
def test_any_change_of_the_manifest_is_found(folder: Path, place: int) -> None:
    path = folder / MANIFEST
    content = path.read_bytes()
    path.write_bytes(content[:place] + bytes([content[place] ^ 2]) + content[place + 1 :])
    with pytest.raises(StoreError, match=r"manifest\.json"):
        GraphStore.open(folder)
