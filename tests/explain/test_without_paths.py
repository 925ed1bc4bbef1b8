"""Links that no path joins: on what their scores rest is said all the same."""

from __future__ import annotations

import pytest
from support.chains_of_books import LINK, WalkModel, scenes
from support.explanations import make_evidence
from torch import Tensor

from pagelink import Explanation, PaGELink, Settings
from pagelink.explain.notes import UNUSED, true_of

FACTS = [(0, "owns", 1), (1, "by", 0), (0, "owns", 2), (3, "by", 1), (4, "cites", 3)]


class Cited(WalkModel):
    """Scores a link by how often its book is cited, or by a feature of its reader."""

    def forward(self, x: dict[str, Tensor], edges: dict, pair: Tensor) -> Tensor:
        found = self.conv((x["book"], x["book"]), edges["book", "cites", "book"])
        if self.saturates:
            return 3 * x["reader"][pair[0], 0] + 1 + 0 * found[pair[1]].sum(-1)
        return 2 * found[pair[1]].sum(-1) + 1


def parts(answer: Explanation) -> dict[str, float]:
    return {part.name: part.effect for part in answer.what_else}


@pytest.mark.parametrize("at_once", [1, 8])
def test_what_the_score_of_a_link_without_paths_rests_on(at_once: int) -> None:
    links = [(0, 3), (0, 5), (0, 0)]
    explainer = PaGELink(Cited(), scenes(FACTS), LINK)
    cited, *others = explainer.explain_many(links, batch_size=at_once)
    assert cited.reason == "not_connected"
    assert parts(cited)["facts_near_dst"] == pytest.approx(2.0)
    assert sum(map(abs, parts(cited).values())) == pytest.approx(2.0)
    assert "rests mostly on facts near book 3 that are on no path (1 fact)" in str(cited)
    assert [sum(map(abs, parts(other).values())) for other in others] == [0, 0]
    off = PaGELink(explainer.predictor.model, scenes(FACTS), LINK, Settings(what_else=False))
    assert off.explain(0, 3).what_else == ()


def test_features_of_an_end() -> None:
    answer = PaGELink(Cited(saturates=True), scenes(FACTS), LINK).explain(0, 3)
    assert answer.evidence is not None
    assert answer.evidence.verdict == "structure_not_used"
    assert parts(answer)["features_src"] == pytest.approx(3.0)
    assert "The score rests mostly on the features of reader 0" in str(answer)


def test_a_note_that_a_link_contradicts_is_left_out() -> None:
    evidence = make_evidence(logit_without_edges=1.0)
    assert true_of([UNUSED, "other"], 3.5, evidence, 0.01) == ("other",)
    assert true_of([UNUSED, "other"], 1.0, evidence, 0.01) == (UNUSED, "other")
    assert true_of([UNUSED], 1.0, None, 0.01) == (UNUSED,)
