"""How kernels are compiled (to machine code, kept on disk) and run by several threads.

Kernels come with pagelink compiled as far as that can be done beforehand, see `prebuilt`. Where
they do not, a compile takes seconds and happens once for each version of a kernel, so it is
announced. Kernels run without Python's lock, so that threads are enough to work on the links of a
batch, a range of links at a time. As many run as torch uses; which thread works on which range
never shows in a result.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from numba import njit
from numba.core import event

from pagelink.runtime.prebuilt import PrebuiltCache, is_for_this_platform

KERNELS: list[Any] = []
"""All that Python calls, of the modules that were imported."""


def kernel(function: Callable[..., Any]) -> Any:
    """Decorator of functions on plain arrays."""
    compiled: Any = njit(cache=True, nogil=True)(function)
    if is_for_this_platform():  # only there it is known how numba keeps what it compiles
        compiled._cache = PrebuiltCache(compiled)
    KERNELS.append(compiled)
    return compiled


_untyped_njit: Any = njit  # its types know not all of its options
inner: Any = _untyped_njit(cache=True, nogil=True, no_cpython_wrapper=True, no_cfunc_wrapper=True)
"""The same for what only kernels call: without the ways in from Python and C it compiles sooner."""
inlined: Any = njit(cache=True, nogil=True, inline="always")
"""The same for what kernels call for every node: handing on arrays costs more than such a step."""

COMPILING = "pagelink: compiling, once (about 20 seconds)"


class _Announcer(event.Listener):
    """Says so when the first kernel of pagelink is compiled; one loaded from disk is not."""

    def __init__(self) -> None:
        self._said = False

    def on_start(self, event: Any) -> None:
        """Compiling starts."""
        if event.data["dispatcher"] in KERNELS and not self._said:
            self._said = True
            print(COMPILING, file=sys.stderr, flush=True)

    def on_end(self, event: Any) -> None:
        """Compiling is done; nobody waits for word of that."""


event.register("numba:compile", _Announcer())  # type: ignore[no-untyped-call]


T = TypeVar("T")
Range = tuple[int, int]

RANGES_PER_THREAD = 4
"""More ranges than threads: who is done early takes the next one, as weights are guesses."""

_pools: dict[int, ThreadPoolExecutor] = {}


class Deadline:
    """A time by `time.perf_counter`, and a flag that kernels look at and that is set by then."""

    def __init__(self, until: float | None) -> None:
        self.until = until
        late = until is not None and time.perf_counter() >= until
        self.passed = np.array([late], dtype=np.int64)


def over_ranges(
    work: Callable[[int, int], T],
    weights: npt.NDArray[np.int64],
    deadline: Deadline | None = None,
) -> list[T]:
    """Call `work(first, last)` for ranges that together are all of 0..len(weights).

    Args:
        work: works on the items first..last-1; several calls run side by side.
        weights: about how much work each item is, at least 1.
        deadline: its flag is set when its time has come while the work goes on; `work` is to look
            at it.

    Returns:
        What the calls returned, in the order of the ranges.
    """
    threads = torch.get_num_threads()
    timed = deadline is not None and deadline.until is not None and not deadline.passed[0]
    if not timed and (threads == 1 or len(weights) <= 1):
        return [work(0, len(weights))]
    ranges = balanced(weights, 1 if threads == 1 else threads * RANGES_PER_THREAD)
    running = [_pool(threads).submit(work, first, last) for first, last in ranges]
    if deadline is not None and deadline.until is not None:
        late = True  # also when the wait is interrupted: nobody is left to use the answer
        try:
            late = bool(
                wait(running, timeout=max(0.0, deadline.until - time.perf_counter())).not_done
            )
        finally:
            deadline.passed[0] = deadline.passed[0] or late
    return [each.result() for each in running]


def balanced(weights: npt.NDArray[np.int64], count: int) -> list[Range]:
    """Cut items, in order, into at most `count` ranges of about the same weight.

    Example:
        >>> balanced(np.array([1, 1, 1, 5, 1, 1]), 2)
        [(0, 3), (3, 6)]
    """
    total = np.cumsum(weights)
    if len(total) == 0:
        return [(0, 0)]
    # An item belongs to the range that its middle falls into.
    number = (2 * total - weights) * count // (2 * total[-1])
    cuts = np.flatnonzero(np.diff(number)) + 1
    edges = [0, *cuts.tolist(), len(total)]
    return list(pairwise(edges))


def _pool(threads: int) -> ThreadPoolExecutor:
    if threads not in _pools:
        _pools[threads] = ThreadPoolExecutor(threads, thread_name_prefix="pagelink")
    return _pools[threads]


# A forked process has the pools, but not their threads.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pools.clear)
