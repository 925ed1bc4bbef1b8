"""Which link the demo shows."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from support.explanations import make_evidence, make_explanation, strong

from pagelink.datasets.demo import _first_predicted
from pagelink.errors import ModelError
from pagelink.models.links import LinkSplit

NONE = make_explanation(reason="predicted_negative")
AGAINST, NOT_USED, SUPPORTED, LATER = (
    make_explanation(strong(), evidence=make_evidence(verdict), seed=seed)
    for seed, verdict in enumerate(
        ("structure_against", "structure_not_used", "supported", "supported")
    )
)


class Prepared:
    """An explainer with its answers prepared."""

    def __init__(self, *answers: Any) -> None:
        self.answers = answers

    def explain_many(self, links: Any) -> Any:
        return iter(self.answers)


@pytest.mark.parametrize(
    ("answers", "shown"),
    [
        ((NONE, AGAINST, NOT_USED, SUPPORTED, LATER), SUPPORTED),
        ((NONE, NOT_USED, AGAINST), NOT_USED),
        ((NONE, NOT_USED), NOT_USED),
    ],
)
def test_the_first_link_that_relies_on_its_paths_is_shown(answers: Any, shown: Any) -> None:
    links = torch.zeros(2, len(answers), dtype=torch.long)
    assert _first_predicted(Prepared(*answers), LinkSplit(links, links, links)) is shown  # type: ignore[arg-type]


def test_no_prediction_is_an_error_in_words() -> None:
    links = torch.zeros(2, 1, dtype=torch.long)
    with pytest.raises(ModelError, match="predicts none of its 1 test links"):
        _first_predicted(Prepared(NONE), LinkSplit(links, links, links))  # type: ignore[arg-type]
