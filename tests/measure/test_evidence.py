"""What chosen paths are worth, and what paths leave out, on graphs edited by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from pagelink import Explanation, PaGELink, Settings
from pagelink.datasets.mechanisms import make_mechanism
from pagelink.datasets.planted import LINK_TYPE, plant
from pagelink.measure.verdict import PARTS

SCENARIOS = [
    "metapath", "popularity", "features only", "negative, against", "forty", "OR of 3", "2 of 4",
    "(A or B) and (C or D)",
]  # fmt: skip


def explained(name: str, **settings: object) -> tuple[PaGELink, list[Explanation]]:
    made = make_mechanism(name, 6, seed=2)
    explainer = PaGELink(
        made.model, made.data, made.schema.link_type, Settings(**settings), threshold=None
    )
    return explainer, list(explainer.explain_many(made.pairs, rank=True, rank_sample=20))


def score(explainer: PaGELink, answer: Explanation, without: set[tuple[tuple, int]]) -> float:
    """The model's score of a link on the whole graph, without some columns of relations."""
    data = explainer.predictor.data
    edge_index = {}
    for edge_type in data.edge_types:
        kept = [i for i in range(data[edge_type].edge_index.shape[1])
                if (edge_type, i) not in without]  # fmt: skip
        edge_index[edge_type] = data[edge_type].edge_index[:, kept]
    pair = torch.tensor([[answer.src[1]], [answer.dst[1]]])
    with torch.no_grad():
        return float(explainer.predictor.model(data.x_dict, edge_index, pair))


def both_ways(explainer: PaGELink, edge_type: tuple, index: int) -> set[tuple[tuple, int]]:
    """The column of a fact and that of its reverse; the graphs have no copies."""
    data, other = explainer.predictor.data, explainer.reverse[edge_type]
    ends = data[edge_type].edge_index[:, index].flip(0)
    (column,) = (data[other].edge_index == ends[:, None]).all(0).nonzero().flatten().tolist()
    return {(edge_type, index), (other, column)}


@pytest.mark.parametrize("name", SCENARIOS)
def test_strongest_facts_do_what_is_said(name: str) -> None:
    explainer, answers = explained(name)
    for answer in answers:
        assert answer.strongest is not None
        assert answer.logit is not None
        assert answer.evidence is not None
        each = [both_ways(explainer, fact.edge.type, fact.edge.index)
                for fact in answer.strongest.facts]  # fmt: skip
        gone = set().union(*each)
        for fact, mine in zip(answer.strongest.facts, each, strict=True):
            alone = answer.logit - score(explainer, answer, mine)
            assert fact.edge.influence == pytest.approx(alone, abs=1e-4)
            # The others do less without it.
            others = answer.logit - score(explainer, answer, gone - mine)
            assert others < answer.strongest.effect
        lost = answer.logit - score(explainer, answer, gone)
        assert answer.strongest.effect == pytest.approx(lost, abs=1e-4)
        facts = {frozenset(both_ways(explainer, e.type, e.index))
                 for path in answer.paths for e in path.edges}  # fmt: skip
        assert len(answer.strongest.facts) <= len(facts)
        these = answer.logit - answer.evidence.logit_without_these
        assert answer.strongest.effect >= these - answer.noise
        if answer.strongest.effect > answer.noise:
            assert answer.strongest.share == pytest.approx(
                these / answer.strongest.effect, abs=1e-4
            )
            assert answer.rank_without_strongest is not None
        else:
            assert answer.strongest.share is None


def test_strongest_facts_of_a_count_are_those_that_are_counted() -> None:
    _, answers = explained("popularity")
    for answer in answers:
        assert answer.strongest is not None
        relations = {fact.edge.type[1].removeprefix("rev_") for fact in answer.strongest.facts}
        assert relations == {"contains"}
        # Every one of them is worth the same: as many as there may be are found.
        assert answer.strongest.effect == pytest.approx(0.7 * len(answer.strongest.facts), abs=1e-4)


@pytest.mark.parametrize("name", ["popularity", "features only"])
def test_the_parts_of_what_else_are_disjoint_and_true(name: str) -> None:
    explainer, answers = explained(name)
    data = explainer.predictor.data
    for answer in answers:
        assert tuple(part.name for part in answer.what_else) == PARTS
        parts = {part.name: part for part in answer.what_else}
        evidence, logit = answer.evidence, answer.logit
        assert evidence is not None
        assert logit is not None
        bare = logit - evidence.logit_without_paths
        assert parts["path_facts"].effect == pytest.approx(bare, abs=1e-4)
        assert parts["path_facts"].error is None
        assert (parts["features_src"].size, parts["features_dst"].size) == (1, 1)
        # The model adds the features of its two ends, and those of no other node.
        own = float(data["listener"].x[answer.src[1], 0])
        others = data["listener"].x[:, 0].double().numpy()
        found = parts["features_src"]
        assert own - others.max() - 1e-4 <= found.effect <= own - others.min() + 1e-4
        assert found.error is not None
        assert found.error > 0
        assert parts["features_others"].effect == pytest.approx(0, abs=1e-4)
    sizes = [part.size for part in answers[0].what_else[:4]]
    assert sum(sizes) > 0


def test_what_else_is_measured_where_the_model_does_not_rely_on_paths_alone() -> None:
    _, relied = explained("metapath")
    assert not any(answer.what_else for answer in relied)
    _, switched_off = explained("popularity", what_else=False, strongest=False)
    assert not any(answer.what_else for answer in switched_off)
    assert all(answer.strongest is None for answer in switched_off)


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
            assert path.gain == pytest.approx(full)
            assert path.influence == pytest.approx(0)


def test_controls_of_a_path_that_is_used_as_a_whole() -> None:
    _, answers = explained("shared, shorter", what_else=False, strongest=False)
    for answer in answers:
        assert answer.evidence is not None
        control = answer.evidence.control
        assert control is not None
        assert control.decides
        assert control.effect == pytest.approx(4, abs=1e-4)
        (path,) = answer.paths
        assert path.connection == pytest.approx(1, abs=1e-4)
        assert np.isclose(answer.evidence.influence, 4)
