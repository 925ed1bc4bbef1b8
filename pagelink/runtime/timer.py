"""When the time for a batch of links is over."""

from __future__ import annotations

import time


class Timer:
    """Says when the links of a batch have used up their time, each its share.

    Args:
        deadline: seconds per link. None: there is no end.
        num_links: links that share the time.
        spent: seconds spent on them before.
    """

    def __init__(self, deadline: float | None, num_links: int = 1, spent: float = 0.0) -> None:
        now = time.perf_counter()
        self.until = None if deadline is None else now - spent + deadline * num_links
        """The end, by `time.perf_counter`."""
        self._last: float | None = None
        self._longest = 0.0

    def no_time_for_another(self) -> bool:
        """Whether a step as long as the longest one so far would go beyond the end.

        A step lasts from one question to the next.
        """
        if self.until is None:
            return False
        now = time.perf_counter()
        if self._last is not None:
            self._longest = max(self._longest, now - self._last)
        self._last = now
        return now + self._longest > self.until

    def is_over(self) -> bool:
        """Whether the time is up."""
        return self.until is not None and time.perf_counter() >= self.until
