"""Changes that are undone when a context is left, even if Ctrl-C comes while they are undone.

A signal handler of Python runs where a Python function starts, where a loop turns, and after a call
of a C function; whatever it raises (KeyboardInterrupt) comes out there. So `__exit__` or `finally`
in Python may be left before its first line. A C function that only calls C functions cannot: so
here changes are undone by one such call.
"""

from __future__ import annotations

import io
from collections import deque
from collections.abc import Callable
from functools import partial
from itertools import starmap
from operator import call
from typing import Any

_run_all = deque[Any](maxlen=0).extend
Call = tuple[Any, ...]
"""A function and its arguments."""


def at_once(*calls: Call) -> None:
    """Make calls of C functions one after the other, with no signal handled between them."""
    _run_all(starmap(call, calls))


class Undo(io.IOBase):
    """A context that makes the calls it was given, last first, when it is left.

    The functions must be C functions that raise nothing. `__exit__` of `io.IOBase` is a C function
    that calls `close`, and so is `close` here.

    Example:
        >>> ages = {"Ann": 40}
        >>> with Undo() as undo:
        ...     undo.keep(ages)
        ...     ages["Bob"] = 20
        >>> ages
        {'Ann': 40}
    """

    close: Callable[[], None]
    """Undo everything; once done, it does nothing more."""

    def __init__(self) -> None:
        super().__init__()
        self._calls: list[Call | None] = [None]
        self.close = partial(_run_all, starmap(call, iter(self._calls.pop, None)))

    def later(self, function: Callable[..., Any], *arguments: Any) -> None:
        """Make a call when the context is left; to be said before the change that it undoes."""
        self._calls.append((function, *arguments))

    def change(self, change: Call, undo: Call) -> None:
        """Make a change that must be undone if, and only if, it was made."""
        at_once(change, (self._calls.append, undo))

    def keep(self, values: dict[Any, Any]) -> None:
        """Let a dict have its present content when the context is left."""
        if values:
            self.later(values.update, values.copy())
        self.later(values.clear)
