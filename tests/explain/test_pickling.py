"""An explainer in memory can be pickled, and its copy explains as it does itself.

On a store it is pickled by the path of the store: tests/store/test_store_explain.py.
"""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from support.zoo import LINK_TYPE, USERS, make_case, make_graph

from pagelink import PaGELink
from pagelink.models import make_model
from pagelink.rivals.registry import make_rival

NAMES = ("HeteroConv SAGE", "HGT", "RGCN", "whole embedding table")
PAIRS = [(3, 26), (7, 29)]


def answers(explainer: PaGELink) -> list[Any]:
    first = USERS if len(explainer.graph.node_types) == 1 else 0
    links = [(src, first + dst) for src, dst in PAIRS]
    explained = explainer.explain_many(links, rank=True, rank_sample=4)
    found = [each.to_dict(mask=True) for each in explained]
    for each in found:
        del each["seconds"]
    return found


@pytest.mark.parametrize("name", NAMES)
def test_a_copy_explains_the_same(name: str) -> None:
    case = make_case(name)
    explainer = PaGELink(case.model, case.data, case.link_type, threshold=None, **case.options)
    before = pickle.dumps(explainer)
    expected = answers(explainer)
    assert all(each["logit"] is not None for each in expected)
    for sent in (before, pickle.dumps(explainer)):
        assert answers(pickle.loads(sent)) == expected


def test_a_copy_of_a_rival_explains_the_same_trained_or_not() -> None:
    data = make_graph()
    model = make_model("sage", data, LINK_TYPE, hidden=8, seed=0)
    rival = make_rival("pgexp", model, data, LINK_TYPE, threshold=None, options={"epochs": 2})
    before = pickle.dumps(rival)
    expected = answers(rival)
    for sent in (before, pickle.dumps(rival)):
        assert answers(pickle.loads(sent)) == expected
