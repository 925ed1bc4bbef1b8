"""Inputs and results at addresses, as `s3://bucket/store`, by the file systems of pyarrow.

Inputs are copied to this machine once, and again when they change. Results are worked on in a
folder of this machine; every part is put to its address when it is complete.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.fs

from pagelink.errors import BusyError, SettingsError
from pagelink.runtime.files import locked, temporary_name
from pagelink.store.verification import cache_folder

SECONDS_A_LOOK = 1.0
_ADDRESS = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/+(.*)", re.S)
_WITH_NAMES = ("local", "hdfs", "py::fsspec+file", "py::fsspec+local")
"""File systems on which a file is there before it is complete, and can be renamed."""


def is_address(path: Path | str) -> bool:
    """Return whether a path is an address.

    Example:
        >>> is_address(Path("s3://bucket/rows")), is_address("run-1.5")
        (True, False)
    """
    return _ADDRESS.fullmatch(str(path)) is not None


def address_of(path: Path | str) -> str:
    """Return an address as it is written; a `Path` has one slash for two. Other paths stay.

    Example:
        >>> address_of(Path("s3://bucket/rows")), address_of(Path("file:///tmp/rows"))
        ('s3://bucket/rows', 'file:///tmp/rows')
    """
    found = _ADDRESS.fullmatch(str(path))
    if found is None:
        return str(path)
    return f"{found[1]}://{'/' if found[1] == 'file' else ''}{found[2]}"


def fetched(path: Path | str) -> Path:
    """Return where a file or folder is on this machine: of an address, a copy of it.

    The copy is made once, by one process while others wait, and kept in the cache folder under
    names, sizes and times of the files: if these change, there is a new copy.

    Raises:
        SettingsError: there is nothing at the address, or it cannot be read.
    """
    if not is_address(path):
        return Path(path)
    system, place = _opened(path)
    try:
        files = _files(system, place)
        if not files:
            raise SettingsError(f"There is nothing at {address_of(path)}.")
        state = [(info.path, info.size, str(info.mtime_ns)) for info in files]
        target = _kept("inputs", [address_of(path), state]) / Path(place).name
        with ExitStack() as held:
            while not target.exists():
                try:
                    held.enter_context(locked(target))
                except BusyError:
                    time.sleep(SECONDS_A_LOOK)
                    continue
                if not target.exists():
                    temporary = temporary_name(target)
                    if files[0].path != place:
                        temporary.mkdir()
                    pa.fs.copy_files(
                        place, str(temporary), system, pa.fs.LocalFileSystem(), use_threads=True
                    )
                    temporary.rename(target)
    except (OSError, pa.ArrowException) as error:
        raise SettingsError(f"{address_of(path)} cannot be read: {error}") from error
    return target


class Mirror:
    """Results at an address, and the folder of this machine in which they are made.

    The address has the say: what lies in the folder only is of a run that was given up there.

    Args:
        address: of a file or a folder.

    Raises:
        SettingsError: there is no such file system.
    """

    def __init__(self, address: Path | str) -> None:
        self._address = address_of(address)
        self._system, self._place = _opened(address)
        self.path = _kept("results", self._address) / Path(self._place).name

    def pull(self, names: re.Pattern[str], job: str) -> None:
        """Copy to this machine what is at the address, and not here.

        Args:
            names: of the files that make up a job.
            job: the name of the file that says which job it is; without it nothing here is kept.

        Raises:
            SettingsError: there is something else at the address, or it cannot be read.
        """
        there = {Path(info.path).name: info for info in self._list()}
        other = [name for name in there if name != job and not names.fullmatch(name)]
        if other and job not in there:
            raise SettingsError(
                f"{self._address} is not the folder of a job: it holds "
                f"{', '.join(sorted(other)[:3])}. Choose an empty or a new one."
            )
        if job not in there:
            shutil.rmtree(self.path, ignore_errors=True)
        self.path.mkdir(parents=True, exist_ok=True)
        for name, info in there.items():
            here = self.path / name
            if name == job or (names.fullmatch(name) and not here.exists()):
                with self._system.open_input_stream(info.path) as source:
                    here.write_bytes(source.read())

    def push(self, file: Path) -> None:
        """Put a file of this machine to the address; it is there when it is complete.

        Raises:
            SettingsError: it cannot be written.
        """
        place = self._place if file == self.path else f"{self._place}/{file.name}"
        renamed = self._system.type_name in _WITH_NAMES
        target = str(temporary_name(Path(place))) if renamed else place
        try:
            if renamed:
                self._system.create_dir(str(Path(place).parent), recursive=True)
            with self._system.open_output_stream(target) as stream, file.open("rb") as source:
                shutil.copyfileobj(source, stream)
            if renamed:
                self._system.move(target, place)
        except (OSError, pa.ArrowException) as error:
            raise SettingsError(
                f"{self._address} cannot be written: {error}. What is done is kept in {self.path}: "
                "run the same command again."
            ) from error

    def push_missing(self, files: list[Path]) -> None:
        """Put files to the address that are not there, as a run that was killed leaves them."""
        there = {Path(info.path).name for info in self._list()}
        for file in files:
            if file.name not in there:
                self.push(file)

    def remove(self, name: str) -> None:
        """Remove a file from the address, if it is there."""
        if any(Path(info.path).name == name for info in self._list()):
            self._system.delete_file(f"{self._place}/{name}")

    def clear(self) -> None:
        """Remove what is on this machine."""
        shutil.rmtree(self.path.parent, ignore_errors=True)

    def _list(self) -> list[Any]:
        try:
            return _files(self._system, self._place)
        except (OSError, pa.ArrowException) as error:
            raise SettingsError(f"{self._address} cannot be read: {error}") from error


def _opened(path: Path | str) -> tuple[Any, str]:
    try:
        system, place = pa.fs.FileSystem.from_uri(address_of(path))
    except (ImportError, OSError, ValueError, pa.ArrowException) as error:
        raise SettingsError(f"{address_of(path)} cannot be used: {error}") from error
    return system, place.rstrip("/")


def _files(system: Any, place: str) -> list[Any]:
    info = system.get_file_info(place)
    if info.type == pa.fs.FileType.Directory:
        found = system.get_file_info(pa.fs.FileSelector(place, recursive=True))
        return sorted((f for f in found if f.is_file), key=lambda file: str(file.path))
    return [info] if info.is_file else []


def _kept(kind: str, key: Any) -> Path:
    digest = hashlib.sha256(json.dumps(key).encode(errors="replace")).hexdigest()
    return cache_folder() / kind / digest[:32]
