"""Random interrupts: a small number of those that `pagelink bench fuzz` makes."""

from __future__ import annotations

import pytest

from pagelink.bench.fuzz.interrupts import random_interrupts


# An interrupt that comes while an object is deleted is lost, with a warning.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_model_data_and_process_are_as_before_each_interrupt() -> None:
    assert list(random_interrupts(0, range(100))) == []
