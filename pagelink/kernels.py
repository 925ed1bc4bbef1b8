"""How kernels are compiled: to machine code, kept on disk, run without Python's lock.

A compile takes seconds and happens once for each version of a kernel, so it is announced.
"""

from __future__ import annotations

import sys
from typing import Any

from numba import njit
from numba.core import event

kernel: Any = njit(cache=True, nogil=True)
"""Decorator of functions on plain arrays."""

COMPILING = "pagelink: compiling, once (about half a minute)"


class _Announcer(event.Listener):
    """Says so when the first kernel of pagelink is compiled; one loaded from disk is not."""

    def __init__(self) -> None:
        self._said = False

    def on_start(self, event: Any) -> None:
        """Compiling starts."""
        module = str(event.data["dispatcher"].py_func.__module__)
        if module.startswith("pagelink.") and not self._said:
            self._said = True
            print(COMPILING, file=sys.stderr, flush=True)

    def on_end(self, event: Any) -> None:
        """Compiling is done; nobody waits for word of that."""


event.register("numba:compile", _Announcer())  # type: ignore[no-untyped-call]
