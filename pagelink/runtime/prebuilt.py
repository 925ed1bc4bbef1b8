"""Kernels that come with pagelink: translated and optimised beforehand, kept in `prebuilt.zip`.

What takes long about compiling is the way from Python to optimised LLVM code. The archive holds
that code, so that only machine code for the processor at hand is left to make: a tenth of the time.

A kernel is looked up by all that it was made from: its code and that of the kernels it calls, the
constants they read, its options and the types of its arguments; and by the versions of Python,
numba and LLVM and the platform. One that was changed, or that runs elsewhere, is not found and is
compiled as ever: nothing here can be out of date. `make kernels` writes the archive.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import sys
import zipfile
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import llvmlite
import numba
import numpy as np
from llvmlite import binding as llvm
from numba.core import caching, serialize

ARCHIVE = Path(__file__).parent / "prebuilt.zip"
SWITCH = "PAGELINK_PREBUILT"
"""Set to 0 in the environment, every kernel is compiled from its source."""
_FunctionCache: Any = caching.FunctionCache  # numba's own parts have no types
_dumps: Any = serialize.dumps
_EPOCH = (1980, 1, 1, 0, 0, 0)
"""A time for the entries: the same kernels make the same archive."""


class PrebuiltCache(_FunctionCache):
    """numba's cache on disk, filled from the archive."""

    def __init__(self, dispatcher: Any) -> None:
        super().__init__(dispatcher.py_func)
        self._dispatcher = dispatcher

    def _load_overload(self, sig: Any, target_context: Any) -> Any:
        found = super()._load_overload(sig, target_context)
        if found is not None:
            return found
        data = _prebuilt(name_of(self._dispatcher, sig))
        if data is None:
            return None
        codegen = target_context.codegen()
        (name, code), *rest = data
        made = (_library(name, code, codegen), *rest)
        if self._enabled:
            self._impl.locator.ensure_cache_path()
            self._cache_file.save(self._index_key(sig, codegen), made)
        return self._impl.rebuild(target_context, made)


def name_of(dispatcher: Any, sig: Any) -> str:
    """What a kernel for some types of arguments is found by in the archive."""
    function = dispatcher.py_func
    recipe = "\n".join([_platform(), str(sig), *_recipe(dispatcher, set())])
    digest = hashlib.sha256(recipe.encode()).hexdigest()
    return f"{function.__module__}.{function.__qualname__}-{digest[:32]}"


def names() -> set[str]:
    """The names of all kernels in the archive; none if there is no archive."""
    archive = _archive()
    return set() if archive is None else set(archive.namelist())


def is_for_this_platform() -> bool:
    """Whether there is an archive, made with these versions and for this platform."""
    archive = _archive()
    return archive is not None and archive.comment == _platform().encode()


def write(path: Path, kernels: Iterable[Any]) -> list[str]:
    """Write an archive of all that some kernels have been compiled for; return the names."""
    entries = {
        name_of(each, sig): _dumps(_reduced(compiled))
        for each in kernels
        for sig, compiled in each.overloads.items()
    }
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in sorted(entries.items()):
            archive.writestr(zipfile.ZipInfo(name, _EPOCH), data, zipfile.ZIP_LZMA)
        archive.comment = _platform().encode()
    return sorted(entries)


def _reduced(compiled: Any) -> tuple[Any, ...]:
    """What numba would keep on disk, with LLVM code instead of machine code."""
    name, _, code = compiled.library.serialize_using_bitcode()
    return ((name, code), *compiled._reduce()[1:])


def _library(name: str, code: bytes, codegen: Any) -> tuple[str, str, tuple[bytes, bytes]]:
    """The library of a kernel as numba keeps it: machine code, and LLVM code to be linked."""
    module = llvm.parse_bitcode(code)
    machine_code = codegen._tm.emit_object(module)
    for function in module.functions:
        # What is linked into several kernels is there several times; any copy will do.
        if not function.is_declaration and function.linkage == llvm.Linkage.external:
            function.linkage = llvm.Linkage.linkonce_odr
    return name, "object", (machine_code, module.as_bitcode())


def _recipe(dispatcher: Any, seen: set[Any]) -> Iterator[str]:
    """All that a kernel is made from, but for its types: its own code, and that of its parts."""
    if dispatcher in seen:
        return
    seen.add(dispatcher)
    function = dispatcher.py_func
    code = function.__code__
    constants = code.co_consts[function.__doc__ is not None :]  # the first one is the docstring
    options = sorted(dispatcher.targetoptions.items())
    yield f"{function.__module__}.{function.__qualname__} {options}"
    yield f"{code.co_code.hex()} {constants!r} {code.co_names} {code.co_varnames}"
    for name in code.co_names:
        value = function.__globals__.get(name)
        if isinstance(value, type(dispatcher)):
            yield from _recipe(value, seen)
        elif isinstance(value, int | float | str | np.generic):
            yield f"{name} {value!r}"


@cache
def _platform() -> str:
    """What LLVM code and its wrapping depend on. Processors of one kind may differ in features."""
    return (
        f"{sys.implementation.cache_tag} numba {numba.__version__} llvmlite "
        f"{llvmlite.__version__} {llvm.get_process_triple()} {sys.maxsize}"
    )


@cache
def _archive() -> zipfile.ZipFile | None:
    if os.environ.get(SWITCH) == "0" or not ARCHIVE.exists():
        return None
    return zipfile.ZipFile(ARCHIVE)


def _prebuilt(name: str) -> Any:
    archive = _archive()
    if archive is None or name not in archive.NameToInfo:
        return None
    # As trusted as the code beside it. Under numba's lock: a ZipFile is for one thread at a time.
    return pickle.loads(archive.read(name))
