"""The search for the smallest removal, on figures that are not additive."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pagelink.explain.removal_search import Set, smallest_removal


def random_figure(seed: int, size: int) -> dict[Set, float]:
    """Any figure of any set: no set says anything of another one."""
    rng = np.random.default_rng(seed)
    sets = [s for n in range(1, size + 1) for s in combinations(range(size), n)]
    return dict(zip(sets, rng.normal(1.0, 0.8, len(sets)).tolist(), strict=True))


@given(st.integers(0, 1000), st.integers(1, 6), st.integers(1, 6))
def test_equal_to_all_subsets(seed: int, size: int, budget: int) -> None:
    figure = random_figure(seed, size)
    found = smallest_removal(
        lambda sets: np.array([figure[s] for s in sets]), size, budget, most_sets=1000
    )
    allowed = {s: value for s, value in figure.items() if len(s) <= budget}
    below = [s for s, value in allowed.items() if value < 0]
    assert found.exhaustive
    assert found.reached == bool(below)
    if below:
        smallest = min(map(len, below))
        expected = min((s for s in below if len(s) == smallest), key=lambda s: figure[s])
    else:
        expected = min(allowed, key=lambda s: allowed[s])
    assert (found.members, found.value) == (expected, figure[expected])


@given(st.integers(0, 1000))
def test_a_set_of_the_beam_is_minimal_and_says_what_was_not_tried(seed: int) -> None:
    rng = np.random.default_rng(seed)
    worth = rng.exponential(1.0, 40)
    asked: list[Set] = []

    def measure(sets: Sequence[Set]) -> np.ndarray:
        asked.extend(sets)
        return np.array([worth.sum() / 4 - worth[list(s)].sum() for s in sets])

    found = smallest_removal(measure, 40, 12, most_sets=200)
    order = np.sort(worth)[::-1].cumsum()
    needed = int(np.searchsorted(order, worth.sum() / 4, side="right")) + 1
    assert found.reached
    assert len(found.members) == needed  # an additive figure: the strongest ones are the fewest
    assert found.exhaustive == (needed <= 2)
    assert len(asked) == len(set(asked)) == found.num_sets
    for left_out in found.members:
        rest = [i for i in found.members if i != left_out]
        assert worth.sum() / 4 - worth[rest].sum() >= 0


def test_members_that_are_not_needed_are_dropped() -> None:
    # 1 and 2 together do it. 0 looks best alone, so that with few sets to measure only pairs with
    # it are tried, and the triple is found before the pair.
    asked: list[Set] = []

    def measure(sets: Sequence[Set]) -> np.ndarray:
        asked.extend(sets)
        return np.array([-1.0 if {1, 2} <= set(s) else 1.0 - 0.1 / (1 + min(s)) for s in sets])

    found = smallest_removal(measure, 10, 3, most_sets=16)
    assert asked.index((0, 1, 2)) < asked.index((1, 2))
    assert (found.members, found.reached, found.exhaustive) == ((1, 2), True, False)


def test_what_is_not_a_number_is_not_below_0() -> None:
    found = smallest_removal(lambda sets: np.full(len(sets), np.nan), 3, 2, most_sets=10)
    assert not found.reached
