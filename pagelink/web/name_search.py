"""Finds nodes by what is typed of their names, while it is typed.

All names lie in one row of bytes, so that a search is a few passes of NumPy over it: some
milliseconds for a hundred thousand names. Case and accents do not count, and words may come in any
order.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Longs = npt.NDArray[np.int64]
_WORD = b"abcdefghijklmnopqrstuvwxyz0123456789"


def fold(text: str) -> str:
    """Return a text as it is compared: without case, accents and doubled spaces.

    Example:
        >>> fold("  Amélie  POULAIN ")
        'amelie poulain'
    """
    if not text.isascii():
        parts = unicodedata.normalize("NFKD", text)
        text = "".join(letter for letter in parts if not unicodedata.combining(letter))
    return " ".join(text.casefold().split())


class NameSearch:
    """An index of names.

    Args:
        names: the names, by position.
        weights: what goes first among names that fit equally well: the higher one.

    Example:
        >>> search = NameSearch(["Heat", "The Heat", "Cheat", "Ran"], [1, 5, 9, 2])
        >>> search.find("heat", 2)
        (3, [0, 1])
    """

    def __init__(
        self, names: Sequence[str], weights: Sequence[int] | npt.NDArray[np.int32]
    ) -> None:
        folded = [fold(name).encode("utf-8", "replace") for name in names]
        self._bytes = np.frombuffer(b"\n" + b"\n".join(folded) + b"\n", dtype=np.uint8)
        lengths = np.array([len(name) for name in folded], dtype=np.int64)
        self._start = 1 + np.concatenate([[0], np.cumsum(lengths + 1)[:-1]]).astype(np.int64)
        self._length = lengths
        self._weight = np.asarray(weights, dtype=np.int64)
        code = np.arange(256)
        # Bytes from 128 up are parts of letters of other scripts.
        self._in_word = (code >= 128) | np.isin(code, np.frombuffer(_WORD, dtype=np.uint8))

    def find(self, typed: str, limit: int) -> tuple[int, list[int]]:
        """Return how many names hold every word that was typed, and the first of them.

        The name that is just what was typed comes first, then names that have it as whole words,
        names that begin with it, names with words that begin so, and all others. What is empty
        fits all.
        """
        whole = fold(typed)
        if not whole:
            found = np.arange(len(self._start))
            return len(found), self._first(found, np.zeros_like(found), limit)
        words = list(dict.fromkeys(whole.split()))
        # How many of the words each name holds at all, at the beginning of a word, as a whole word.
        counts = np.zeros((3, len(self._start)), dtype=np.int64)
        for word in words:
            wanted = word.encode("utf-8", "replace")
            at = self._places(wanted)
            begins = ~self._in_word[self._bytes[at - 1]]
            ends = ~self._in_word[self._bytes[at + len(wanted)]]
            holding = np.searchsorted(self._start, at, side="right") - 1
            kinds = holding, holding[begins], holding[begins & ends]
            for count, those in zip(counts, kinds, strict=True):
                count[np.unique(those)] += 1
        found = np.flatnonzero(counts[0] == len(words))
        whole_words, word_begins = counts[2] == len(words), counts[1] == len(words)
        kind = np.select([whole_words, word_begins], [1, 3], 4)
        wanted = whole.encode("utf-8", "replace")
        beginning = np.searchsorted(self._start, self._places(b"\n" + wanted) + 1)
        kind[beginning] = np.minimum(kind[beginning], 2)
        kind[beginning[self._length[beginning] == len(wanted)]] = 0
        return len(found), self._first(found, kind[found], limit)

    def _first(self, found: Longs, kind: Longs, limit: int) -> list[int]:
        order = np.lexsort((found, -self._weight[found], kind))
        best: list[int] = found[order[:limit]].tolist()
        return best

    def _places(self, wanted: bytes) -> Longs:
        """Where some bytes begin; of UTF-8, whole letters only are found this way."""
        row = self._bytes
        at = np.flatnonzero(row[: len(row) - len(wanted) + 1] == wanted[0])
        for offset, byte in enumerate(wanted[1:], start=1):
            at = at[row[at + offset] == byte]
        return at
