"""Files that are no checkpoints, and checkpoints that are damaged: one clear error each."""

from __future__ import annotations

import io
import json
import pickle
import struct
import subprocess
import sys
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
import torch
from support.learnable import graph, stored
from torch import nn

from pagelink.errors import CheckpointError
from pagelink.models.checkpoint import load_checkpoint
from pagelink.models.checkpoint_file import read_checkpoint_file


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(2, 2)


def _state_dict(path: Path) -> None:
    torch.save(Net().state_dict(), path)


def _training_state(path: Path) -> None:
    torch.save({"epoch": 3, "model": Net().state_dict()}, path)


def _old_state_dict(path: Path) -> None:
    torch.save(Net().state_dict(), path, _use_new_zipfile_serialization=False)


def _module(path: Path) -> None:
    torch.save(Net(), path)


def _old_module(path: Path) -> None:
    torch.save(Net(), path, _use_new_zipfile_serialization=False)


def _script(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        for name in ("data.pkl", "code/__torch__.py", "constants.pkl", "version"):
            archive.writestr(f"model/{name}", b"")


def _lightning(path: Path) -> None:
    torch.save(
        {"epoch": 1, "pytorch-lightning_version": "2.5.0", "state_dict": Net().state_dict()}, path
    )


def _zip(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("nodes.csv", "id\n1\n")


def _npz(path: Path) -> None:
    with path.open("wb") as file:
        np.savez(file, weights=np.ones(3))


def _npy_of_objects(path: Path) -> None:
    with path.open("wb") as file:
        np.save(file, np.array([{}], dtype=object), allow_pickle=True)


def _safetensors(path: Path) -> None:
    header = json.dumps({"w": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}).encode()
    path.write_bytes(struct.pack("<Q", len(header)) + header + bytes(4))


def _parquet(path: Path) -> None:
    pa.parquet.write_table(pa.table({"id": [1]}), path)


def _pickle(protocol: int) -> Callable[[Path], object]:
    return lambda path: path.write_bytes(pickle.dumps({"w": [1.0, 2.0]}, protocol))


def _part_of_a_zip(path: Path) -> None:
    _npz(path)
    path.write_bytes(path.read_bytes()[:-30])


FOREIGN: list[tuple[Callable[[Path], object], str]] = [
    (_state_dict, "PyTorch file of weights, such as a state_dict"),
    (_training_state, "PyTorch file of weights, such as a state_dict"),
    (_old_state_dict, "PyTorch file of weights, such as a state_dict"),
    (_module, "pickled PyTorch module, of class .*Net"),
    (_old_module, "pickled PyTorch module, of class .*Net"),
    (_script, "TorchScript module"),
    (_lightning, "checkpoint of PyTorch Lightning"),
    (_zip, "zip archive"),
    (_npz, r"archive of NumPy arrays \(\.npz\)"),
    (_npy_of_objects, r"NumPy array \(\.npy\)"),
    (_safetensors, "safetensors file"),
    (_parquet, "Parquet table"),
    (_pickle(4), "pickled Python object"),
    (_pickle(0), "pickled Python object"),
    (_part_of_a_zip, "zip archive whose end is missing"),
    (lambda path: path.write_text("src,dst\n1,2\n"), "text file"),
    (lambda path: path.write_bytes(b""), "empty file"),
    (lambda path: path.write_bytes(b"SQLite format 3\0" + bytes(84)), "SQLite database"),
    (lambda path: path.write_bytes(bytes(range(256))), "file of an unknown kind"),
    (lambda path: path.mkdir(), "folder"),
]


@pytest.mark.parametrize(("write", "kind"), FOREIGN, ids=[kind for _, kind in FOREIGN])
def test_a_foreign_file_is_named(
    tmp_path: Path, write: Callable[[Path], object], kind: str
) -> None:
    path = tmp_path / "model.pt"
    write(path)
    with pytest.raises(CheckpointError, match=f"is not a pagelink checkpoint, but an? {kind}") as e:
        load_checkpoint(path, graph())
    said = str(e.value)
    assert "pagelink train" in said
    assert "\n" not in said
    assert not any(word in said for word in ("allow_pickle", "weights_only=False", "trust"))
    is_torch = "Torch" in kind
    assert is_torch == ("PaGELink(model, data" in said)


def _changed(path: Path, name: str, content: bytes, method: int = zipfile.ZIP_STORED) -> None:
    """Put another content into one entry of a checkpoint."""
    with zipfile.ZipFile(path) as old:
        entries = {info.filename: old.read(info) for info in old.infolist()}
    with zipfile.ZipFile(path, "w") as new:
        for entry, before in {**entries, name: b""}.items():
            is_it = entry == name
            new.writestr(entry, content if is_it else before, method if is_it else None)


def _npy(shape: tuple[int, ...], dtype: str = "<f4", content: bytes = b"") -> bytes:
    """An array that says that it has a shape, whatever it has."""
    buffer = io.BytesIO()
    described = {"descr": dtype, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(buffer, described)
    return buffer.getvalue() + content


def _with_config(path: Path, **changes: Any) -> None:
    header, _ = read_checkpoint_file(path)
    header["config"] |= changes
    content = json.dumps(header).encode()
    _changed(path, "header.npy", _npy((len(content),), "|u1", content))


ABSURD: dict[str, Callable[[Path], None]] = {
    "a bomb": lambda path: _changed(
        path, "header.npy", _npy((2**26,), "|u1", bytes(2**26)), zipfile.ZIP_DEFLATED
    ),
    "too large": lambda path: _changed(path, "split/train.npy", _npy((2, 2**40), "<i8")),
    "overflow": lambda path: _changed(path, "split/train.npy", _npy((2**62, 2**62), "<i8")),
    "too small": lambda path: _changed(path, "split/train.npy", _npy((2, 1), "<i8", bytes(99))),
    "no bytes each": lambda path: _changed(path, "split/train.npy", _npy((2**50,), "|S0")),
    "negative": lambda path: _changed(path, "split/train.npy", _npy((-1, -2), "<i8", bytes(16))),
    "beyond the nodes": lambda path: _changed(
        path, "split/train.npy", _npy((2, 1), "<i8", struct.pack("<qq", 0, 2**40))
    ),
    "one row": lambda path: _changed(path, "split/test.npy", _npy((2,), "<i8", bytes(16))),
    "not links": lambda path: _changed(path, "split/test.npy", _npy((2, 1), "<f8", bytes(16))),
    "wide": lambda path: _with_config(path, hidden=2**40),
    "deep": lambda path: _with_config(path, num_layers=10**9),
    "endless": lambda path: _with_config(path, num_features={"item": 2**45}),
}


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("checkpoint") / "model"
    stored(path)
    return path


@pytest.mark.parametrize("kind", ABSURD)
def test_absurd_sizes_are_refused_before_memory_is_taken(
    tmp_path: Path, checkpoint: Path, kind: str
) -> None:
    path = tmp_path / "model"
    path.write_bytes(checkpoint.read_bytes())
    ABSURD[kind](path)
    tracemalloc.start()
    with pytest.raises(CheckpointError, match="is damaged") as caught:
        load_checkpoint(path, graph())
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2**22
    assert "\n" not in str(caught.value)
    assert "memory" not in str(caught.value), "torch tried to take it"


DAMAGING = """
import random, sys
from pathlib import Path
import torch
from support.learnable import graph
from pagelink.errors import CheckpointError
from pagelink.models.checkpoint import load_checkpoint

path, data = Path(sys.argv[1]), graph()
whole = path.read_bytes()

def content():
    loaded = load_checkpoint(path, data)
    tensors = [*loaded.model.state_dict().values(), loaded.split.all]
    return [t.tolist() for t in tensors], loaded.report, loaded.settings, loaded.link_type

right, rng, refused = content(), random.Random(0), 0
for case in range(80):
    damaged = bytearray(whole)
    if case % 10 == 0:
        del damaged[rng.randrange(len(whole)):]
    else:  # half of them where the entries are listed, of which arrays are the most
        first = rng.choice([0, len(whole) - 2000])
        for _ in range(rng.choice([1, 1, 4])):
            damaged[rng.randrange(first, len(whole))] = rng.randrange(256)
    path.write_bytes(damaged)
    try:
        assert content() == right, case
    except CheckpointError as error:
        assert "\\n" not in str(error) and str(path) in str(error), case
        refused += 1
print(refused)
"""


def test_no_changed_byte_is_served(tmp_path: Path, checkpoint: Path) -> None:
    path = tmp_path / "model"
    path.write_bytes(checkpoint.read_bytes())
    code = f"import sys; sys.path.insert(0, {str(Path(__file__).parents[1])!r})\n{DAMAGING}"
    command = [sys.executable, "-c", code, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 45


def test_the_random_state_and_the_weights_are_as_ever(checkpoint: Path) -> None:
    torch.manual_seed(0)
    expected = torch.rand(3)
    torch.manual_seed(0)
    loaded = load_checkpoint(checkpoint, graph())
    assert torch.equal(torch.rand(3), expected)
    assert all(w.device.type == "cpu" for w in loaded.model.state_dict().values())
    assert all(w.requires_grad for w in loaded.model.parameters())
