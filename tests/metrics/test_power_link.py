from __future__ import annotations

import math

import pytest

from pagelink.errors import GraphError
from pagelink.metrics import (
    average,
    fidelity_minus,
    fidelity_plus,
    hdr,
    mask_sparsity,
    num_distinct,
    unfiltered_rank,
)


def test_fidelity_counts_changes_either_way() -> None:
    # Signed changes would average to 0.1 instead.
    plus = fidelity_plus([0.9, 0.3], [0.4, 0.6])
    assert plus == pytest.approx([0.5, 0.3])
    assert average(plus, unanswered=None).value == pytest.approx(0.4)
    assert fidelity_minus([0.9], [0.95]) == pytest.approx([0.05])


def test_a_link_without_an_answer_has_no_fidelity() -> None:
    assert math.isnan(fidelity_plus([0.5], [None])[0])
    with pytest.raises(GraphError, match="from 0 to 1, got 2"):
        fidelity_minus([0.5], [2.0])
    with pytest.raises(GraphError, match="one number per link"):
        fidelity_plus([0.5], [0.5, 0.5])


def test_pruned_edges_make_a_mask_sparse() -> None:
    assert mask_sparsity([1.0, 0.5, 0.0, 0.0, 0.0]) == pytest.approx(0.7)
    assert math.isnan(mask_sparsity([]))


def test_ranks_count_ties_against_the_target() -> None:
    scores = [5.0, 3.0, 3.0, 1.0]
    assert [unfiltered_rank(score, scores) for score in scores] == [1, 3, 3, 4]


def test_hdr_is_the_share_of_links_that_get_worse() -> None:
    found = hdr([1, 2, 3, 4], [9, 2, 1, None])
    assert found[:3].tolist() == [1.0, 0.0, 0.0]
    assert math.isnan(found[3])
    assert average(found, unanswered=None).value == pytest.approx(1 / 3)
    with pytest.raises(GraphError, match="Ranks count from 1"):
        hdr([0], [1])


def test_distinct_things_count_once() -> None:
    assert num_distinct([("a", "b"), ("b", "c"), ()]) == 3
    assert num_distinct([(("buys", "has"),), (("buys", "has"),)]) == 1
    assert math.isnan(num_distinct([]))
