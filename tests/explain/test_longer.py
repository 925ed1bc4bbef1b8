"""Longer paths where shorter ones only share facts with them."""

from __future__ import annotations

from typing import Any

import pytest
from support.chains_of_books import LINK, WalkModel, scenes
from torch import Tensor, nn

from pagelink import PaGELink, Settings

USED = [(0, "owns", 1), (1, "by", 0), (2, "by", 0), (2, "cites", 3)]
"""Reader 0 owns book 1, whose author wrote book 2, which cites book 3."""
DECOYS = {
    "both first facts": [(3, "by", 0)],
    "the last fact": [(0, "owns", 4), (4, "cites", 2)],
    "the first and the last fact": [(1, "cites", 2)],
    "all facts, on two paths": [(3, "by", 0), (0, "owns", 4), (4, "cites", 2)],
}


@pytest.mark.parametrize("shared", DECOYS)
def test_paths_that_share_facts_with_a_longer_one_give_way_to_it(shared: str) -> None:
    data = scenes(USED + DECOYS[shared])
    explainer = PaGELink(WalkModel("owns by rev_by cites"), data, LINK)
    answer = explainer.explain(0, 3)
    assert answer.evidence is not None
    assert (answer.evidence.verdict, answer.evidence.ends) == ("supported", None)
    assert answer.evidence.max_length == 4
    (path,) = answer.paths
    assert [node for _, node in path.nodes] == [0, 1, 0, 2, 3]
    assert not path.idle

    short = PaGELink(explainer.predictor.model, data, LINK, Settings(longer=False)).explain(0, 3)
    assert all(path.idle for path in short.paths)  # what there is to show otherwise


class LongAndShort(nn.Module):
    """The long walk is worth 10, and a short one that shares facts with it 0.6."""

    def __init__(self, short: str) -> None:
        super().__init__()
        self.long, self.short = WalkModel("owns by rev_by cites"), WalkModel(short)

    def forward(self, *given: Any) -> Tensor:
        return 5 * self.long(*given) + 0.3 * self.short(*given)


@pytest.mark.parametrize(
    ("shared", "short"),
    [
        ("both first facts", "owns by rev_by"),
        ("the last fact", "owns cites cites"),
        ("the first and the last fact", "owns cites cites"),
    ],
)
def test_a_path_worth_little_does_not_hide_a_longer_one(shared: str, short: str) -> None:
    """Removing it breaks the other as well, but added alone it gives hardly anything."""
    answer = PaGELink(LongAndShort(short), scenes(USED + DECOYS[shared]), LINK).explain(0, 3)
    assert answer.evidence is not None
    assert answer.evidence.verdict == "supported"
    assert [node for _, node in answer.paths[0].nodes] == [0, 1, 0, 2, 3]


def test_a_counterfactual_takes_facts_of_longer_paths_where_shorter_ones_do_not_suffice() -> None:
    data = scenes([*USED, (0, "owns", 5), (5, "cites", 3)])  # a short path that is not used
    model = WalkModel("owns by rev_by cites")
    explainer = PaGELink(model, data, LINK, threshold=0.5)
    found = explainer.counterfactual(0, 3, at="paths")
    assert (found.reason, len(found.facts)) == (None, 1)
    short = PaGELink(model, data, LINK, Settings(longer=False), threshold=0.5)
    assert short.counterfactual(0, 3, at="paths").reason == "none_found"
