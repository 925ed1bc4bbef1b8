"""Damaged files are found or refused in a clear error; no reader of them dies or hangs."""

from __future__ import annotations

import pytest

from pagelink.bench.fuzz.damage import random_damage

CASES = 300


@pytest.mark.slow
def test_damaged_files_are_found_or_refused() -> None:
    assert list(random_damage(0, range(CASES))) == []
