"""Random interrupts: a small number of those that `pagelink bench fuzz` makes."""

from __future__ import annotations

from pagelink.bench.fuzz.interrupts import random_interrupts


def test_model_data_and_process_are_as_before_each_interrupt() -> None:
    assert list(random_interrupts(0, range(150))) == []
