"""Many ids and where they stand: found by the thousand, without a Python object for each."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pagelink.runtime.arrays import Bools, Longs
from pagelink.runtime.kernels import kernel
from pagelink.store.strings import Bytes, hashes, read_only, texts_between, utf8_of

# Integers are looked up in a table if it has at most this many places per integer.
SPARSEST = 4
_FIRST_SLOTS = 1 << 10


class TextIndex:
    """Distinct texts, numbered in the order in which they came.

    Example:
        >>> index = TextIndex()
        >>> index.add(pa.array(["Ada", "Bo", "Ada"])).tolist()
        [0, 1, 0]
        >>> index.find(pa.array(["Bo", "Cy"])).tolist(), index.texts().to_pylist()
        ([1, -1], ['Ada', 'Bo'])
    """

    def __init__(self) -> None:
        self._slot_hash = np.zeros(_FIRST_SLOTS, dtype=np.uint64)
        self._slots = np.full(_FIRST_SLOTS, -1, dtype=np.int32)
        self._text = np.empty(0, dtype=np.uint8)
        self._start = np.zeros(1, dtype=np.int64)
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, texts: pa.Array) -> Longs:
        """Return the number of each text; new ones get the next."""
        text, start = utf8_of(texts)
        self._make_room(len(start) - 1, int(start[-1] - start[0]))
        numbers, self._count = self._numbers(text, start, True)
        return numbers

    def find(self, texts: pa.Array) -> Longs:
        """Return the number of each text, or -1."""
        texts = texts.cast(pa.large_string()) if pa.types.is_integer(texts.type) else texts
        return self._numbers(*utf8_of(texts), False)[0]

    def _numbers(self, text: Bytes, start: Longs, add: bool) -> tuple[Longs, int]:
        index = self._slots, self._slot_hash, self._text, self._start, self._count
        sought = read_only(text), read_only(start), hashes(text, start)
        numbers, count = _numbers(*index, *sought, add)
        return numbers, count

    def texts(self, first: int = 0, last: int | None = None) -> pa.LargeStringArray:
        """Return the texts by number."""
        last = self._count if last is None else min(last, self._count)
        return texts_between(self._text, self._start, first, last)

    def _make_room(self, more: int, more_bytes: int) -> None:
        used = int(self._start[self._count])
        if used + more_bytes > len(self._text):
            self._text = _longer(self._text, used + more_bytes)
        if self._count + more + 1 > len(self._start):
            self._start = _longer(self._start, self._count + more + 1)
        wanted = len(self._slots)
        while 2 * wanted < 3 * (self._count + more):
            wanted *= 2
        if wanted > len(self._slots):
            slots, slot_hash = np.full(wanted, -1, np.int32), np.zeros(wanted, np.uint64)
            _move(self._slots, self._slot_hash, slots, slot_hash)
            self._slots, self._slot_hash = slots, slot_hash


class IntegerIndex:
    """Distinct integers of a narrow range, numbered in the order in which they came."""

    def __init__(self, integers: Longs) -> None:
        self._low = int(integers.min())
        self._place = np.full(int(integers.max()) - self._low + 1, -1, dtype=np.int32)
        self._place[integers - self._low] = np.arange(len(integers), dtype=np.int32)

    def find(self, keys: pa.Array) -> Longs:
        """Return the number of each integer, given as such or as text, or -1."""
        if pa.types.is_uint64(keys.type):  # those above 2^63 are not to become negative
            keys = keys.cast(pa.large_string())
        if pa.types.is_integer(keys.type):
            integers = keys.to_numpy(zero_copy_only=False).astype(np.int64)
            valid = np.ones(len(integers), dtype=np.bool_)
        else:
            integers, valid = decimal(keys)
        place = integers - self._low
        inside = (place >= 0) & (place < len(self._place)) & valid
        found = np.where(inside, self._place[np.where(inside, place, 0)], -1)
        return found.astype(np.int64)


class IdCollector:
    """Collects ids that come in pieces; as integers for as long as all of them are.

    Example:
        >>> ids = IdCollector()
        >>> ids.add(pa.array(["7", "8"]))
        >>> ids.add(pa.array(["x", "7"]))
        >>> ids.index().find(pa.array(["x"])).tolist(), ids.twice
        ([2], (0, 3))
    """

    def __init__(self) -> None:
        self._integers: list[Longs] | None = []
        self._texts = TextIndex()
        self.twice: tuple[int, int] | None = None
        """The places of the first id that is there twice; known when there is an index."""

    def add(self, ids: pa.Array) -> None:
        """Take the next ids."""
        if self._integers is not None:
            integers, valid = decimal(ids)
            if valid.all():
                self._integers.append(integers)
                return
            self._integers_to_texts()
        self._add_texts(ids)

    def index(self) -> TextIndex | IntegerIndex:
        """Return an index of all ids, if none is there twice."""
        if self._integers:
            integers = np.concatenate(self._integers)
            if len(integers) and np.ptp(integers) < SPARSEST * len(integers) + _FIRST_SLOTS:
                self.twice = _first_twice(integers)
                return IntegerIndex(integers)
            self._integers_to_texts()
        return self._texts

    def _integers_to_texts(self) -> None:
        pieces, self._integers = self._integers, None
        for piece in pieces or ():
            self._add_texts(pa.array(piece).cast(pa.large_string()))

    def _add_texts(self, ids: pa.Array) -> None:
        if self.twice is not None:
            return
        before = len(self._texts)
        numbers = self._texts.add(ids)
        again = np.flatnonzero(numbers != np.arange(before, before + len(numbers)))
        if len(again):
            # Up to here no id was there twice, so that its number is its place.
            self.twice = int(numbers[again[0]]), before + int(again[0])


def _first_twice(integers: Longs) -> tuple[int, int] | None:
    order = np.argsort(integers, kind="stable")
    again = order[1:][np.diff(integers[order]) == 0]
    if not len(again):
        return None
    row = int(again.min())
    return int(np.flatnonzero(integers == integers[row])[0]), row


def decimal(texts: pa.Array) -> tuple[Longs, Bools]:
    """Return texts as integers, and which of them are written as one, without a needless letter.

    Example:
        >>> decimal(pa.array(["12", "0", "007"]))[1].tolist()
        [True, True, False]
    """
    plain = pc.or_(pc.equal(texts, "0"), pc.invert(pc.starts_with(texts, "0")))
    fits = pc.less_equal(pc.binary_length(texts), 18)  # numbers of up to 18 digits always do
    valid = pc.and_(pc.and_(pc.ascii_is_decimal(texts), plain), fits)
    integers = pc.if_else(valid, texts, pa.scalar("0", texts.type)).cast(pa.int64())
    return integers.to_numpy(), valid.to_numpy(zero_copy_only=False)


def _longer(array: Any, least: int) -> Any:
    longer = np.empty(max(least, 2 * len(array)), dtype=array.dtype)
    longer[: len(array)] = array
    return longer


@kernel
def _slot_of(slots, slot_hash, text, start, other, first, last, h):  # type: ignore[no-untyped-def]
    """Return the slot a text is in, or the empty one where it would be."""
    # 1. The last bits of the hash say where to begin.
    mask = len(slots) - 1
    slot = np.int64(h & np.uint64(mask))
    while slots[slot] >= 0:
        # 2. Letters are only compared where hash and length agree.
        number = slots[slot]
        if slot_hash[slot] == h and start[number + 1] - start[number] == last - first:
            same = True
            for k in range(last - first):
                if text[start[number] + k] != other[first + k]:
                    same = False
                    break
            if same:
                return slot
        # 3. Another text is in this slot: go on to the next.
        slot = (slot + 1) & mask
    return slot


@kernel
def _numbers(slots, slot_hash, text, start, count, other, other_start, other_hash, add):  # type: ignore[no-untyped-def]
    """Return the number of each text or -1, and how many texts there are then."""
    numbers = np.empty(len(other_hash), dtype=np.int64)
    for i in range(len(numbers)):
        # 1. Find the slot of the text, or the empty one where it belongs.
        first, last = other_start[i], other_start[i + 1]
        slot = _slot_of(slots, slot_hash, text, start, other, first, last, other_hash[i])
        # 2. If it is new, give it the next number, and put its letters behind the others.
        if add and slots[slot] < 0:
            slots[slot] = count
            slot_hash[slot] = other_hash[i]
            end = start[count]
            for k in range(last - first):
                text[end + k] = other[first + k]
            count += 1
            start[count] = end + last - first
        # 3. Its number, -1 in an empty slot.
        numbers[i] = slots[slot]
    return numbers, count


@kernel
def _move(slots, slot_hash, new_slots, new_hash):  # type: ignore[no-untyped-def]
    """Put what is in the slots into more of them; texts are distinct, so only hashes are needed."""
    mask = len(new_slots) - 1
    for old in range(len(slots)):
        if slots[old] >= 0:
            slot = np.int64(slot_hash[old] & np.uint64(mask))
            while new_slots[slot] >= 0:
                slot = (slot + 1) & mask
            new_slots[slot] = slots[old]
            new_hash[slot] = slot_hash[old]
