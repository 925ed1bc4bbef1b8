"""When the time for a batch of links is over."""

from __future__ import annotations

import time

LAST_SEARCH = 0.1
"""Seconds that the search for the paths to return has in any case."""


class Timer:
    """Says when the links of a batch have used up their time, each its share.

    Args:
        deadline: seconds for a link. None: there is no end.
        num_links: links that share the time.
        spent: seconds spent on them before.
    """

    def __init__(self, deadline: float | None, num_links: int = 1, spent: float = 0.0) -> None:
        now = time.perf_counter()
        self.until = None if deadline is None else now - spent + deadline * num_links
        """The end, by `time.perf_counter`."""
        self._last = now
        self._longest = 0.0

    def no_time_for_another(self) -> bool:
        """Whether a step as long as the longest one so far would go beyond the end.

        A step lasts from one question to the next; what came before the first counts as one, too.
        """
        if self.until is None:
            return False
        now = time.perf_counter()
        self._longest = max(self._longest, now - self._last)
        self._last = now
        return now + self._longest > self.until

    def is_over(self) -> bool:
        """Whether the time is up."""
        return self.until is not None and time.perf_counter() >= self.until

    def last_moment(self) -> float | None:
        """When the last search must end: at the end, but it has a tenth of a second at least."""
        return None if self.until is None else max(self.until, time.perf_counter() + LAST_SEARCH)
