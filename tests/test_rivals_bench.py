from __future__ import annotations

import numpy as np
import pytest

from pagelink import PaGELink
from pagelink.datasets.locate import DataNotFoundError
from pagelink.datasets.reference import ReferenceData, load_reference
from pagelink.evaluation.mask_metrics import mask_auc
from pagelink.evaluation.reference_bench import Scorer
from pagelink.evaluation.rivals_bench import VISIBLE, run_rivals


@pytest.fixture(scope="module")
def reference() -> ReferenceData:
    try:
        return load_reference()
    except DataNotFoundError as error:
        pytest.skip(str(error))


def test_rivals_are_scored_side_by_side(reference: ReferenceData) -> None:
    done: list[str] = []
    rows = run_rivals(
        reference, ("degree", "random-mask", "pgexp", "gnnexp"), (0, 1), done.append, 12,
        {"pgexp": {"epochs": 1, "num_links": 64}},
    )  # fmt: skip
    assert [row.name for row in rows] == ["degree", "random-mask", "pgexp", "gnnexp", VISIBLE]
    assert len(done) == 8
    degree, chance, trained, learned, visible = rows
    assert degree.mean("auc") > 0.99
    assert abs(chance.mean("auc") - 0.5) < 0.1
    assert trained.mean("training") > 0
    assert learned.mean("auc") > 0.6
    assert all(row.mean("coverage") == 1 for row in rows[:-1])
    assert visible.mean("auc") == pytest.approx(0.89, abs=0.05)


def test_the_row_of_visible_edges_by_hand(reference: ReferenceData) -> None:
    explainer = PaGELink(reference.model, reference.data, reference.link_type)
    pairs = reference.test_links[:2]
    expected = []
    for pair in pairs:
        scorer = Scorer(explainer, reference, [pair])
        batch = scorer._batch
        positive = np.zeros(len(batch.edges), dtype=bool)
        positive[np.concatenate(scorer._label_edges[0])] = True
        near = batch.hops[batch.dst] < 2  # two layers: edges into nodes within one hop
        expected.append(mask_auc(near.astype(float), positive))
    found = Scorer(explainer, reference, pairs).score_visible()["auc"]
    assert found == pytest.approx(np.mean(expected))
