"""What chosen paths are worth: one bar for what counts, and what each adds alone."""

from __future__ import annotations

import pytest
from support.explanations import make_evidence, strong

from pagelink import PaGELink
from pagelink.datasets.planted import LINK_TYPE, plant
from pagelink.explain.building import worth_attached
from pagelink.measure.evidence import Measured, PathWorth
from pagelink.measure.verdict import VERDICTS


@pytest.mark.parametrize("verdict", VERDICTS)
@pytest.mark.parametrize(
    ("noise", "marginal", "noticed"),
    [(0.02, 0.021, True), (0.02, 0.019, False), (0.0, 1e-6, True), (0.0, 0.0, False),
     (0.02, -1.0, False)],
)  # fmt: skip
def test_a_path_is_evidence_by_the_bar_of_the_verdict(
    verdict: str, noise: float, marginal: float, noticed: bool
) -> None:
    worth = PathWorth(0.5, marginal, None, None, (0.1, 0.2, 0.3))
    (path,) = worth_attached([strong()], Measured(make_evidence(verdict), (worth,)), noise)
    assert path.is_evidence == (noticed and verdict not in ("structure_not_used", "not_by_these"))
    assert (path.influence, path.marginal) == (0.5, marginal)


def test_where_paths_stand_in_for_each_other_each_says_what_it_adds_alone() -> None:
    planted = plant("many", num_links=6)
    answers = list(PaGELink(planted.model, planted.data, LINK_TYPE).explain_many(planted.pairs))
    for answer in answers:
        assert answer.evidence is not None
        assert answer.evidence.inserted
        for path in answer.paths:
            # By construction one shared colour is enough: each path brings back everything.
            assert answer.logit is not None
            full = answer.logit - answer.evidence.logit_without_paths
            assert path.added == pytest.approx(full)
            assert path.influence == pytest.approx(0)


def test_what_paths_add_to_a_bare_graph_is_left_open_where_removal_tells() -> None:
    planted = plant("one_metapath", num_links=6)
    answers = PaGELink(planted.model, planted.data, LINK_TYPE).explain_many(planted.pairs)
    assert {path.added for answer in answers for path in answer.paths} == {None}
