"""What a file is that was given as a checkpoint and is none, so that an error can say it.

Nothing is unpickled: the opcodes of a pickle are read, not executed.
"""

from __future__ import annotations

import io
import pickletools
import zipfile
from pathlib import Path
from typing import IO

_LOOKED_AT = 2**20
"""Bytes of a file that are looked at."""
_MAGIC = {
    b"\x93NUMPY": "a NumPy array (.npy)",
    b"PAR1": "a Parquet table",
    b"ARROW1": "an Arrow table",
    b"SQLite format 3\0": "an SQLite database, as a study is",
    b"\x89HDF\r\n\x1a\n": "an HDF5 file",
    b"\x1f\x8b": "a gzip archive",
}
_WEIGHTS = "a PyTorch file of weights, such as a state_dict"
_PICKLE = "a pickled Python object"
_OF_PYKEEN = "a folder that PyKEEN wrote, whose model passes no messages"
# What tensors and the containers around them are made of; any other class is one of a model.
_PLAIN = ("torch", "torch._utils", "torch.serialization", "torch.storage", "collections", "_codecs")
_GIVE = "Give a file that `pagelink train` or `save_checkpoint` wrote."
_OWN = (
    " To explain a model of your own, load it in Python as you always do, and make an explainer of "
    "it: PaGELink(model, data, link_type)."
)


def foreign_file(path: Path) -> str:
    """Return the error about a file that is no checkpoint: what it is, and what to give instead.

    Example:
        >>> foreign_file(Path(__file__)).partition(", but ")[2].partition(".")[0]
        'a text file'
    """
    kind = kind_of(path)
    own = _OWN if "Torch" in kind else ""
    if kind == _OF_PYKEEN:
        return f"{path} is not a pagelink checkpoint, but {kind}: pagelink explain-trained {path}."
    return f"{path} is not a pagelink checkpoint, but {kind}. {_GIVE}{own}"


def kind_of(path: Path) -> str:
    """Return in words what a file is, as far as its first bytes say."""
    if path.is_dir():
        return _OF_PYKEEN if (path / "trained_model.pkl").exists() else "a folder"
    with path.open("rb") as file:
        head = file.read(_LOOKED_AT)
        if not head:
            return "an empty file"
        if head.startswith(b"PK\x03\x04"):
            return _kind_of_zip(file)
    for magic, kind in _MAGIC.items():
        if head.startswith(magic):
            return kind
    pickled = _kind_of_pickle(io.BytesIO(head))
    if pickled is not None:
        return pickled
    if head[8:9] == b"{" and int.from_bytes(head[:8], "little") <= path.stat().st_size:
        return "a safetensors file"
    try:
        # The last character may be cut in the middle.
        text = head.decode(errors="strict" if len(head) < _LOOKED_AT else "ignore")
    except UnicodeDecodeError:
        text = "\0"
    return "a file of an unknown kind" if "\0" in text else "a text file"


def _kind_of_zip(file: IO[bytes]) -> str:
    try:
        archive = zipfile.ZipFile(file)
    except Exception:  # whatever the parser stumbles over
        return "a zip archive whose end is missing or damaged, perhaps a part of a checkpoint"
    names = archive.namelist()
    pickled = next((name for name in names if name.rpartition("/")[2] == "data.pkl"), None)
    if pickled is not None and any(name.rpartition("/")[2] == "constants.pkl" for name in names):
        return "a TorchScript module"
    if pickled is not None:
        with archive.open(pickled) as content:
            return _kind_of_pickle(io.BytesIO(content.read(_LOOKED_AT))) or _WEIGHTS
    if names and all(name.endswith(".npy") for name in names):
        return "an archive of NumPy arrays (.npz)"
    return "a zip archive"


def _kind_of_pickle(content: IO[bytes]) -> str | None:
    """What a pickle holds, by the classes and texts in it; None if it is no pickle."""
    classes: list[str] = []
    texts: list[str] = []
    pickles = 0
    try:
        while content.read(1):  # a file of an old PyTorch has several, one behind the other
            content.seek(-1, io.SEEK_CUR)
            for code, argument, _ in pickletools.genops(content):
                if code.name == "GLOBAL":
                    classes.append(str(argument))
                elif code.name == "STACK_GLOBAL":
                    classes.append(" ".join(texts[-2:]))
                elif isinstance(argument, str):
                    texts.append(argument)
            pickles += 1
    except Exception:  # the pickle is longer than what is looked at, or is none
        pass
    if not pickles and not classes:
        return None
    if "pytorch-lightning_version" in texts:
        return "a checkpoint of PyTorch Lightning"
    if not any(name.startswith("torch") for name in classes):
        return _PICKLE
    model = next((name for name in classes if name.split(" ")[0] not in _PLAIN), None)
    if model is None:
        return _WEIGHTS
    return f"a pickled PyTorch module, of class {model.replace(' ', '.')}"
