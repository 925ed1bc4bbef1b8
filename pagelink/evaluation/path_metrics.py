"""Returned paths against labelled ones."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pagelink.errors import SettingsError

Step = tuple[str, str, str, int, int]
"""One edge of a path as it is walked: (src_type, relation, dst_type, src_index, dst_index)."""


def labelled_in_first(
    paths: Sequence[Sequence[Step]], labelled: Iterable[Sequence[Step]], n: int
) -> bool:
    """Return whether one of the first n output paths is a ground-truth path.

    Two paths are the same if their steps agree in order: `paths[i] == labelled[j]` for some i < n.

    Args:
        paths: The paths of the explanation, best first, each a sequence of steps as walked.
        labelled: The ground-truth paths, as walked.
        n: How many output paths count, 1 or more.

    Raises:
        SettingsError: n is less than 1.

    Example:
        >>> buys, bought = ("user", "buys", "item", 3, 5), ("item", "rev_buys", "user", 5, 4)
        >>> again = ("user", "buys", "item", 4, 7)
        >>> labelled_in_first([[again], [buys, bought, again]], [(buys, bought, again)], n=1)
        False
        >>> labelled_in_first([[again], [buys, bought, again]], [(buys, bought, again)], n=2)
        True
    """
    if n < 1:
        raise SettingsError(f"n must be at least 1, got {n!r}.")
    known = {tuple(path) for path in labelled}
    return any(tuple(path) in known for path in paths[:n])
