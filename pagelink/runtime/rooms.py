"""What kernels do with arrays whose length shows only as they fill, and with sorted ones.

By plain loops: NumPy's slice assignments, sorts and searches take seconds to compile, each.
"""

from __future__ import annotations

import numpy as np

from pagelink.runtime.kernels import inner

START = np.int64(0)
"""Of a whole array. A kernel that is called with a literal is compiled once more for it."""


@inner
def grown(values, used, size):  # type: ignore[no-untyped-def]
    """A longer array that starts with the used part of this one."""
    longer = np.empty(size, dtype=values.dtype)
    for i in range(used):
        longer[i] = values[i]
    return longer


@inner
def grown_rows(values, size):  # type: ignore[no-untyped-def]
    """A table with more rows that starts with those of this one."""
    longer = np.empty((size, values.shape[1]), dtype=values.dtype)
    for i in range(values.shape[0]):
        for j in range(values.shape[1]):
            longer[i, j] = values[i, j]
    return longer


@inner
def first_place(values, begin, end, wanted):  # type: ignore[no-untyped-def]
    """The first place of values[begin:end], in ascending order, that is not below a value."""
    while begin < end:
        middle = (begin + end) // 2
        if values[middle] < wanted:
            begin = middle + 1
        else:
            end = middle
    return begin
