"""When the time for links is over, and what still fits before that.

Every step that can take long is given the timer of its links: kernels look at its end, and
passes of the model are taken if they fit. A timer has ended nothing until it says so by `cut`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

TOGETHER = 0.25
"""Share of their time that links have side by side; if that is not enough, each has its own."""
LAST = 0.25
"""Share of the deadline, beyond it, for what any answer needs."""
LAST_SECONDS = 0.1
"""The same in seconds at least."""


class OutOfTimeError(Exception):
    """The time is over; who catches it has what was found by then."""


class Timer:
    """The time of some links, counted from now.

    One link has its deadline. Several have a share of theirs: if it is over, `OutOfTimeError` says
    so, nothing is lost but that share, and they are explained one by one, each with a timer of its
    own. So a hard link costs its neighbours nothing.

    Args:
        deadline: seconds per link. None: there is no end.
        num_links: links that share the time.
        spent: seconds spent on them before.
    """

    def __init__(self, deadline: float | None, num_links: int = 1, spent: float = 0.0) -> None:
        self.deadline = deadline
        self.until: float | None = None
        """The end, by `time.perf_counter`."""
        self.last: float | None = None
        """The end of what any answer needs: the computation graph, pruning, a last search. The
        time of the first pass, which it needs as well, is added to it."""
        self.cut = ""
        """What was being done when the time was over; empty: nothing was cut."""
        self._alone = num_links == 1
        self._step: tuple[float, float] | None = None
        if deadline is not None:
            share = 1.0 if self._alone else TOGETHER * num_links
            self.until = time.perf_counter() - spent + deadline * share
            extra = max(LAST * deadline, LAST_SECONDS) if self._alone else 0.0
            self.last = self.until + extra

    def is_over(self) -> bool:
        """Whether the time is up."""
        return self.until is not None and time.perf_counter() >= self.until

    def stop(self, doing: str) -> None:
        """Note that something was cut; what was cut first stays noted.

        Raises:
            OutOfTimeError: several links share the time.
        """
        self.cut = self.cut or doing
        if not self._alone:
            raise OutOfTimeError

    @contextmanager
    def step(self, size: float) -> Iterator[None]:
        """Take the time of a step: by its size, that of the next one is foreseen."""
        started = time.perf_counter()
        yield
        seconds = time.perf_counter() - started
        if self._step is None and self.last is not None and self._alone:
            self.last += seconds  # the first step is taken in any case
        self._step = max(size, 1.0), seconds

    def room(self) -> float:
        """Return the size of a step that would be done by the end, 0 if there is none.

        By the last step: a smaller one may take as long, a larger one longer in proportion.
        """
        if self.until is None:
            return float("inf")
        left = self.until - time.perf_counter()
        if self._step is None or left <= 0:
            return float("inf") if left > 0 else 0.0
        size, seconds = self._step
        return size * left / seconds if left >= seconds else 0.0

    def allows(self, size: float, doing: str) -> bool:
        """Whether a step of this size fits; if not, it is noted as cut.

        Raises:
            OutOfTimeError: it does not, and several links share the time.
        """
        if max(size, 1.0) <= self.room():  # a pass over no edges takes its time, too
            return True
        self.stop(doing)
        return False

    def search_end(self) -> float | None:
        """Return when a search that starts now has to end: no link has more than its deadline."""
        if self.until is None or self.deadline is None:
            return None
        return min(self.until, time.perf_counter() + self.deadline)


UNLIMITED = Timer(None)
"""There is no end."""
