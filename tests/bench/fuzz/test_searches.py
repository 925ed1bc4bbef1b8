"""A small version of the random searches, and that faults would be seen."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pagelink.bench.fuzz import searches
from pagelink.bench.fuzz.searches import random_searches
from pagelink.search.paths import FoundPaths, cheapest_paths


def test_extraction_pruning_and_search_agree_with_brute_force() -> None:
    assert list(random_searches(0, range(600))) == []


def test_a_case_depends_on_seed_and_number_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searches, "prune", lambda *given: np.zeros(len(given[1].edges), bool))
    many = list(random_searches(1, range(100)))
    assert many
    for fault in many[:3]:
        assert list(random_searches(1, range(fault.case, fault.case + 1))) == [fault]
    assert many != list(random_searches(2, range(100)))


def test_a_path_too_few_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    def without_the_last(*given: Any) -> FoundPaths:
        found = cheapest_paths(*given)
        found.arcs[:, -1], found.lengths[:, -1] = -1, 0
        return found

    monkeypatch.setattr(searches, "cheapest_paths", without_the_last)
    assert any("the paths of" in fault.what for fault in random_searches(0, range(60)))
