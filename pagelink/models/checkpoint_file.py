"""The file of a checkpoint: a header in JSON and arrays, in an archive with checksums.

The archive is that of `np.savez`: a zip file whose entries are NumPy arrays, not compressed. No
code in it is run, and no more memory is taken than the file is long, whatever it says of itself.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from pagelink.errors import CheckpointError
from pagelink.models.file_kinds import foreign_file
from pagelink.runtime.files import write_bytes

FORMAT = "pagelink checkpoint"
VERSION = 1
FOR_SEVERAL = "all relations"
"""Says in the header of a file that the model is for several relations."""
_HEADER = "header"
_SUFFIX = ".npy"
_NUMBERS = "biuf"
_LONGEST_REASON = 200


@contextmanager
def without_weights() -> Iterator[None]:
    """Make models without memory for their weights, which are then those of a file.

    Nothing is drawn for them either: what fills tensors that have no memory imports all of
    PyTorch's compiler.
    """
    with torch.device("meta"), _Undrawn():
        yield


class _Undrawn(TorchFunctionMode):
    """Leaves tensors as they are where `torch.nn.init` would fill them."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = {} if kwargs is None else kwargs
        if getattr(func, "__module__", None) == torch.nn.init.__name__:
            return args[0] if args else given["tensor"]
        return func(*args, **given)


def write_checkpoint_file(
    path: Path, header: Mapping[str, Any], arrays: Mapping[str, Tensor]
) -> Path:
    """Write header and arrays, under a temporary name until the file is complete."""
    content = json.dumps({"format": FORMAT, "version": VERSION, **header}).encode()
    entries: dict[str, Any] = {name: array.cpu().numpy() for name, array in arrays.items()}
    entries[_HEADER] = np.frombuffer(content, dtype=np.uint8)
    buffer = io.BytesIO()
    np.savez(buffer, **entries)
    return write_bytes(path, buffer.getvalue())


def read_checkpoint_file(path: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Read header and arrays.

    Raises:
        CheckpointError: the file is missing, damaged, of another version, or no checkpoint.
    """
    if not path.exists():
        raise CheckpointError(f"There is no checkpoint {path}.")
    if not path.is_file() or not zipfile.is_zipfile(path):
        raise CheckpointError(foreign_file(path))
    with damage_named(path), zipfile.ZipFile(path) as archive:
        if _HEADER + _SUFFIX not in archive.namelist():
            raise CheckpointError(foreign_file(path))
        _check_entries(archive, path.stat().st_size)
        header = json.loads(_read_array(archive, _HEADER + _SUFFIX).tobytes())
        if not isinstance(header, dict) or header["format"] != FORMAT:
            raise CheckpointError(foreign_file(path))
        if header["version"] != VERSION:
            raise CheckpointError(
                f"{path} has version {header['version']}, this pagelink reads {VERSION}."
            )
        names = [name for name in archive.namelist() if name != _HEADER + _SUFFIX]
        return header, {
            name.removesuffix(_SUFFIX): torch.from_numpy(_read_array(archive, name))
            for name in names
        }


def refuse_several(header: Mapping[str, Any], path: Path) -> None:
    """Refuse a model for several relations where one for a single relation is needed.

    Raises:
        CheckpointError: it is for several.
    """
    if header.get(FOR_SEVERAL):
        raise CheckpointError(
            f"{path} is a model for several relations. Open it as that of one of them, by --link "
            "or pagelink.models.knowledge.checkpoint.open_predictor. One store of its graph serves "
            "all of them: pagelink store GRAPH --out FOLDER, without --model."
        )


@contextmanager
def damage_named(path: Path) -> Iterator[None]:
    """Say of whatever fails on what is in a checkpoint that the file is damaged.

    Raises:
        CheckpointError: something failed.
    """
    try:
        yield
    except CheckpointError:
        raise
    # Not a list of errors: what the parsers of zip files, arrays and JSON raise on random bytes,
    # and what models raise on a random configuration, is not documented anywhere.
    except Exception as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        if len(reason) > _LONGEST_REASON:
            reason = reason[:_LONGEST_REASON] + " ..."
        raise CheckpointError(
            f"{path} is damaged: {reason.rstrip('.')}. Take a copy of it that is whole, or train "
            "the model again."
        ) from error


def _check_entries(archive: zipfile.ZipFile, size: int) -> None:
    """Refuse what would take more memory than the file is long, and what comes twice."""
    entries = archive.infolist()
    if len({entry.filename for entry in entries}) < len(entries):
        raise ValueError("it has two entries of one name")
    if any(entry.compress_type != zipfile.ZIP_STORED for entry in entries):
        raise ValueError("it has compressed entries, which no checkpoint has")
    if sum(entry.file_size for entry in entries) > size:
        raise ValueError("its entries are longer than the file")


def _read_array(archive: zipfile.ZipFile, name: str) -> np.ndarray[Any, Any]:
    """Read an array; its size is checked before there is one. The archive checks the content."""
    content = archive.read(name)
    stream = io.BytesIO(content)
    if np.lib.format.read_magic(stream) != (1, 0):
        raise ValueError(f"{name} is in another format of arrays")
    shape, is_fortran, dtype = np.lib.format.read_array_header_1_0(stream)
    if dtype.kind not in _NUMBERS or any(length < 0 for length in shape):
        raise ValueError(f"{name} is no array of numbers")
    array = np.frombuffer(bytearray(content), dtype, offset=stream.tell())
    # Raises if these are not as many numbers as the shape says.
    return array.reshape(shape, order="F" if is_fortran else "C")
