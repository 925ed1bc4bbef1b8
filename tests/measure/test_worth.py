"""What sets are worth, and the list by which one of them is chosen, by hand-made figures."""

from __future__ import annotations

import numpy as np
import pytest

from pagelink.measure.verdict import (
    VERDICTS,
    DegreeControl,
    end_of_all,
    ends_of,
    is_evidence,
    stand_in,
    verdict_of,
)
from pagelink.measure.worth import Sets, eligible, equally_good, most_concise, shares, worths

TAU = 0.05


def worth(effect: list[float], gain: list[float]) -> list[float]:
    """Of the sets of one link, the largest of each side among them."""
    both = np.array([effect]), np.array([gain])
    return worths(*both, both[0].max(1), both[1].max(1), TAU)[0].tolist()


def test_a_set_must_count_on_both_sides() -> None:
    # Full effect and no gain, the reverse, and three quarters of each.
    assert worth([4.0, 0.0, 3.0], [0.0, 8.0, 6.0]) == pytest.approx([0.0, 0.0, 0.75])
    assert worth([4.0, 1.0], [2.0, 2.0]) == pytest.approx([1.0, 0.4])


def test_where_one_side_says_nothing_the_other_decides() -> None:
    assert worth([4.0, 1.0], [0.01, -3.0]) == pytest.approx([1.0, 0.25])
    assert worth([0.0, -1.0], [2.0, 1.0]) == pytest.approx([1.0, 0.5])
    assert worth([0.01, -1.0], [0.02, -1.0]) == [0.0, 0.0]


def test_worth_has_no_unit() -> None:
    effect, gain = np.array([[1.0, 2.5, -3.0]]), np.array([[0.5, 4.0, 1.0]])
    most = effect.max(1), gain.max(1)
    found = worths(effect, gain, *most, TAU)
    scaled = worths(1e3 * effect, 1e3 * gain, 1e3 * most[0], 1e3 * most[1], 1e3 * TAU)
    assert scaled == pytest.approx(found)


def test_share_is_that_of_the_side_on_which_a_path_counts() -> None:
    effect, gain = np.array([4.0]), np.array([2.0])
    share = shares(
        effect, gain, np.array([[4.0, 1.0, np.nan]]), np.array([[0.0, 2.0, np.nan]]), TAU
    )
    assert share[0, :2] == pytest.approx([1.0, 0.75])
    assert np.isnan(share[0, 2])
    # On a side on which the set does nothing, nobody has a share.
    assert shares(np.array([0.01]), gain, np.array([[-3.0]]), np.array([[1.5]]), TAU)[0, 0] == 0.25


def sets(**given: list[float]) -> Sets:
    """Sets of one link; each figure has a default that does not matter."""
    size = len(given["worth"])
    values = {
        "valid": [True] * size, "effect": given["worth"], "is_sound": [True] * size,
        "is_active": [True] * size, "hubs": [0] * size, "facts": [3] * size,
        "score": [0.0] * size, **given,
    }  # fmt: skip
    return Sets(**{name: np.array([value]) for name, value in values.items()})


def choice(rho: float, **given: list[float]) -> int:
    made = sets(**given)
    return int(most_concise(made, eligible(made, rho, TAU))[0])


def test_the_list_of_choice() -> None:
    good = [1.0, 0.97, 0.96, 0.5]
    # 1. Fewer hubs.
    assert choice(0.95, worth=good, hubs=[1, 0, 1, 0], facts=[2, 9, 1, 1]) == 1
    # 2. Fewer facts.
    assert choice(0.95, worth=good, facts=[5, 5, 4, 1], score=[0, 0, -9, 0]) == 2
    # 3. The higher Score.
    assert choice(0.95, worth=good, score=[-3, -1, -2, 0]) == 1
    # With `diverse`, fewer repeats before the facts, and after worth and hubs.
    repeats = [2, 1, 0, 0]
    assert choice(0.95, worth=good, repeats=repeats, facts=[1, 2, 3, 1], score=[0, -1, -2, 0]) == 2
    assert choice(0.95, worth=good, repeats=repeats, hubs=[0, 0, 1, 0]) == 1
    # Rho: what does not reach it is not looked at; 1 is worth alone.
    assert choice(0.5, worth=good, facts=[5, 5, 4, 1]) == 3
    assert choice(1.0, worth=good, facts=[5, 1, 1, 1]) == 0


def test_sets_with_an_idle_fact_are_out_unless_all_that_reach_rho_have_one() -> None:
    assert choice(0.95, worth=[1.0, 0.96], is_active=[False, True], facts=[1, 9]) == 1
    assert choice(0.95, worth=[1.0, 0.8], is_active=[False, True], facts=[9, 1]) == 0


def test_filler_is_out_unless_there_is_nothing_else() -> None:
    assert choice(0.9, worth=[1.0, 0.5, 0.5], is_sound=[False, True, True], facts=[1, 4, 3]) == 2
    assert choice(0.9, worth=[1.0, 0.5], is_sound=[False, False]) == 0


def test_where_nothing_speaks_for_the_link_the_least_bad_is_shown() -> None:
    assert choice(0.95, worth=[0.0, 0.0], effect=[-2.0, -0.5], facts=[1, 9]) == 1
    # Within the noise they are alike, and a set without an idle fact goes first.
    near = [-0.5, -0.5 - TAU / 2]
    assert choice(0.95, worth=[0.0, 0.0], effect=near, is_active=[False, True]) == 1


def test_equally_good_is_within_five_percent() -> None:
    made = sets(worth=[0.8, 0.77, 0.75, 0.84, 0.85], is_active=[True, True, True, False, True])
    found = equally_good(made, made.valid, np.array([0]))
    assert found[0].tolist() == [False, True, False, False, False]
    idle = sets(worth=[0.8, 0.78], is_active=[False, False])
    assert equally_good(idle, idle.valid, np.array([0]))[0].tolist() == [False, True]


@pytest.mark.parametrize(
    ("f", "bare", "influence", "largest", "verdict"),
    [
        (5.0, 1.0, 2.0, 2.0, "supported"),
        (5.0, 5.5, 2.0, 2.0, "structure_against"),
        (5.0, 5.0, 2.0, 2.0, "structure_against"),
        (5.0, 4.96, 0.04, 0.04, "structure_not_used"),
        (5.0, 4.9, 0.06, 0.06, "supported"),
        (5.0, 4.9, 0.04, 0.06, "not_by_these"),
        (5.0, 1.0, 0.39, 0.39, "not_by_these"),
        (5.0, 1.0, 0.41, 0.41, "supported"),
        (5.0, 1.0, -0.5, 1.0, "not_by_these"),
    ],
)
def test_verdict(f: float, bare: float, influence: float, largest: float, verdict: str) -> None:
    assert verdict_of(f, bare, influence, largest, noise=TAU) == verdict


@pytest.mark.parametrize(
    ("high", "draws", "verdict"),
    [(0.39, 20, "degree_only"), (0.41, 20, "supported"), (0.1, 4, "supported")],
)
def test_degree_control_decides_by_its_upper_bound(high: float, draws: int, verdict: str) -> None:
    control = DegreeControl(0.0, -high, high, draws, 20)
    assert verdict_of(5.0, 1.0, 2.0, 2.0, TAU, control) == verdict
    # What comes before it in the list stays.
    assert verdict_of(5.0, 6.0, 2.0, 2.0, TAU, control) == "structure_against"


def test_which_end_counts() -> None:
    assert ends_of(2.0, 1.7, 0.2) == "src"
    assert ends_of(2.0, 0.2, 1.7) == "dst"
    assert ends_of(2.0, 1.7, 1.8) == ends_of(2.0, 1.0, 1.0) == "both"
    assert end_of_all([(True, False)]) == "src"
    assert end_of_all([(False, False)]) is None
    assert end_of_all([(False, None, True), (False, True)]) == "dst"


@pytest.mark.parametrize("verdict", VERDICTS)
def test_evidence_is_by_share_where_paths_count_for_what_they_connect(verdict: str) -> None:
    counts = verdict in ("supported", "structure_against")
    assert is_evidence(verdict, 0.05, (True, False, True)) is counts
    assert is_evidence(verdict, 0.049, (True, True)) is False
    assert is_evidence(verdict, 0.9, (False, True)) is False
    assert is_evidence(verdict, 0.9, (True, False)) is False
    assert is_evidence(verdict, 0.9, (None, None)) is counts


def test_paths_stand_in_for_each_other_if_gain_shows_what_removal_does_not() -> None:
    span, removed, added = np.full(4, 4.0), np.array([0.3, 0.3, 0.5, 0.3]), np.array([1, 0.3, 1, 4])
    assert stand_in(span, removed, added).tolist() == [True, False, False, True]
    assert not stand_in(-span, removed, added).any()
