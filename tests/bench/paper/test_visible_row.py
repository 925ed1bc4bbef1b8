from __future__ import annotations

import numpy as np
import pytest

from pagelink import PaGELink
from pagelink.bench.paper.reference import Scorer
from pagelink.datasets.locate import DataNotFoundError
from pagelink.datasets.reference import ReferenceData, load_reference
from pagelink.metrics import mask_auc


@pytest.fixture(scope="module")
def reference() -> ReferenceData:
    try:
        return load_reference()
    except DataNotFoundError as error:
        pytest.skip(str(error))


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
