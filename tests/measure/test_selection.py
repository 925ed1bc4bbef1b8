"""Which set of paths is chosen on models of known mechanism, and the evidence on real models."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from support.hand_drawn import BUYS, KNOWS, LIKES, VIEWS, draw
from support.zoo import make_case
from torch import Tensor, nn
from torch_geometric.nn import SimpleConv

from pagelink import Explanation, PaGELink, Settings
from pagelink.datasets.mechanisms import Mechanism, from_plan, make_mechanism
from pagelink.datasets.medicine import MEDICINE
from pagelink.datasets.plans import Plan, along
from pagelink.measure.path_sets import pool_size
from pagelink.measure.verdict import EVIDENCE

LINKS = 8
PLANS = [
    "metapath", "parallel", "shared, equal length", "shared, shorter", "shared, lower degree",
    "AND", "(A or B) and (C or D)", "OR of 3", "OR of 8", "2 of 4", "5 of 8",
    "negative, for", "negative, against", "popularity", "popularity, product", "features only",
    "small effect", "offset", "four facts", "forty",
]  # fmt: skip


def explained(name: str, **settings: object) -> tuple[Mechanism, list[Explanation]]:
    mechanism = make_mechanism(name, LINKS, seed=1)
    explainer = PaGELink(
        mechanism.model, mechanism.data, mechanism.schema.link_type,
        Settings(strongest=False, what_else=False, **settings), threshold=None,
    )  # fmt: skip
    return mechanism, list(explainer.explain_many(mechanism.pairs))


@pytest.mark.parametrize("name", PLANS)
def test_the_named_path_is_the_used_one(name: str) -> None:
    mechanism, answers = explained(name)
    for link, answer in zip(mechanism.links, answers, strict=True):
        assert link.verdict_is_right(answer), answer.evidence
        assert link.first_is_right(answer) in (None, True)
        assert link.evidence_is_right(answer)
        assert answer.evidence is not None
        # Evidence first, by share; no filler.
        share = [path.share or 0.0 for path in answer.paths]
        assert share == sorted(share, reverse=True)
        if answer.evidence.verdict == "supported":
            assert all(path.is_evidence for path in answer.paths)
            assert min(share) >= EVIDENCE


def test_a_path_across_two_used_ones_is_none() -> None:
    """Removing it breaks both, which no used path does; but one of its facts is idle."""
    plan = Plan(
        "two of five genes are needed, and more add little; unused paths lead from one of them to "
        "the next",
        (along("binds marks"),), lambda n: 4 * torch.sigmoid(6 * (n[0] - 1.5)),
        tuple(f"binds g{number} marks" for number in range(1, 6)),
        ("binds g1 interacts g2 marks", "binds g2 interacts g3 marks"),
    )  # fmt: skip
    mechanism = from_plan(plan, MEDICINE.schema, LINKS, seed=1)
    explainer = PaGELink(
        mechanism.model, mechanism.data, mechanism.schema.link_type,
        Settings(strongest=False, what_else=False), threshold=None,
    )  # fmt: skip
    for link, answer in zip(mechanism.links, explainer.explain_many(mechanism.pairs), strict=True):
        assert link.verdict_is_right(answer), answer.evidence
        assert link.first_is_right(answer)
        assert link.evidence_is_right(answer)


def test_paths_with_an_idle_end_come_last() -> None:
    """Two genes of one class meet: an end of an unused path counts, though the path does not."""
    mechanism = make_mechanism("two towers", 40, seed=0)
    explainer = PaGELink(
        mechanism.model, mechanism.data, mechanism.schema.link_type,
        Settings(strongest=False, what_else=False), threshold=None,
    )  # fmt: skip
    mixed = 0
    for answer in explainer.explain_many(mechanism.pairs):
        idle = [False in (path.edges[0].active, path.edges[-1].active) for path in answer.paths]
        assert idle == sorted(idle)
        mixed += len({*idle}) == 2
    assert mixed


def test_removal_alone_does_not_tell_the_used_path() -> None:
    _, answers = explained("parallel", rho=0.0, num_paths=3)
    paths = {path.edges[0].type[1]: path for path in answers[0].paths if len(path) == 2}
    if {"likes", "saves"} <= set(paths):
        used, other = paths["saves"], paths["likes"]
        assert used.influence == pytest.approx(other.influence)
        assert (used.gain or 0) > 1 > (other.gain or 0)


def test_only_the_end_counts_where_degrees_do() -> None:
    _, answers = explained("popularity")
    assert {answer.evidence.ends for answer in answers if answer.evidence} == {"dst"}
    assert not any(path.is_evidence for answer in answers for path in answer.paths)
    for path in answers[0].paths:
        assert [edge.active for edge in path.edges] == [False, True]


def test_sets_as_good_as_the_chosen_one_are_listed() -> None:
    _, answers = explained("OR of 8")
    for answer in answers:
        assert answer.evidence is not None
        assert answer.evidence.inserted
        assert len(answer.alternatives) >= 3
        assert all(other.worth == pytest.approx(1) for other in answer.alternatives)
        assert answer.paths not in [other.paths for other in answer.alternatives]


def test_longer_paths_come_only_if_they_may() -> None:
    _, longer = explained("four facts")
    assert {len(path) for answer in longer for path in answer.paths} == {4}
    assert {answer.evidence.max_length for answer in longer if answer.evidence} == {4}
    assert {answer.settings.max_length for answer in longer} == {3}
    _, short = explained("four facts", longer=False)
    assert {a.evidence.verdict for a in short if a.evidence} == {"structure_not_used"}
    _, within = explained("four facts", budget=3)
    assert {a.evidence.verdict for a in within if a.evidence} == {"structure_not_used"}


def test_without_swaps_degrees_are_not_told_apart() -> None:
    _, answers = explained("popularity", swaps=0)
    assert {a.evidence.verdict for a in answers if a.evidence} == {"supported"}
    assert {a.evidence.control for a in answers if a.evidence} == {None}
    assert not any(path.is_evidence for answer in answers for path in answer.paths)


def test_no_more_sets_are_measured_than_allowed() -> None:
    assert [pool_size(3, n) for n in (1, 7, 14, 25, 100)] == [1, 3, 4, 5, 8]
    assert pool_size(1, 12) == 12


@pytest.mark.parametrize("name", ["HeteroConv SAGE", "HGT", "RGCN", "LightGCN", "HAN"])
def test_evidence_does_not_depend_on_the_batch(name: str) -> None:
    case = make_case(name)
    options = {"threshold": None} | case.options
    explainer = PaGELink(case.model, case.data, case.link_type, Settings(epochs=3), **options)
    first = 80 if len(explainer.graph.node_types) == 1 else 0
    links = [(user, first + user % 7) for user in range(8)]
    for link, answer in zip(links, explainer.explain_many(links), strict=True):
        alone = explainer.explain(*link)
        assert alone.paths == answer.paths
        if not answer.paths:
            continue
        assert answer.evidence is not None
        assert alone.evidence is not None
        assert alone.evidence.verdict == answer.evidence.verdict
        assert alone.evidence.influence == pytest.approx(answer.evidence.influence, abs=1e-4)
        for mine, theirs in zip(answer.paths, alone.paths, strict=True):
            assert mine.influence == pytest.approx(theirs.influence, abs=1e-4)
            assert mine.marginal == pytest.approx(theirs.marginal, abs=1e-4)
            assert mine.connection == pytest.approx(theirs.connection, abs=1e-3)
            assert mine.gain == pytest.approx(theirs.gain, abs=1e-4)
            assert mine.share == pytest.approx(theirs.share, abs=1e-3)
            assert [e.active for e in mine.edges] == [e.active for e in theirs.edges]
            assert [e.influence for e in mine.edges] == pytest.approx(
                [e.influence for e in theirs.edges], abs=1e-4
            )
        assert answer.evidence.control == alone.evidence.control or (
            answer.evidence.control is not None
            and alone.evidence.control is not None
            and answer.evidence.control.effect
            == pytest.approx(alone.evidence.control.effect, abs=1e-4)
        )
        assert [part.effect for part in answer.what_else] == pytest.approx(
            [part.effect for part in alone.what_else], abs=1e-4
        )
        if answer.strongest is not None and alone.strongest is not None:
            assert answer.strongest.effect == pytest.approx(alone.strongest.effect, abs=1e-4)
        one = len(answer.paths) == 1 and not answer.evidence.inserted
        if one:
            assert answer.paths[0].marginal == pytest.approx(answer.evidence.influence, abs=1e-4)


def test_rho_0_beside_a_link_without_paths() -> None:
    case = make_case("HeteroConv SAGE")
    explainer = PaGELink(
        case.model, case.data, case.link_type, Settings(rho=0, epochs=1), threshold=None
    )
    user, item = case.data["user", "buys", "item"].edge_index[:, 0].tolist()
    far = (case.data["user"].num_nodes - 1, item)  # a user without any edge
    # Not as errors: after one the links of a batch are explained one by one.
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        answers = list(explainer.explain_many([(user, item), far]))
    assert [answer.reason for answer in answers] == [None, "not_connected"]
    assert [str(each.message) for each in seen] == []


class SharedUsers(nn.Module):
    """The number of users that the source knows or follows and that bought the target."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = SimpleConv(aggr="sum")

    def forward(self, x_dict: Any, edge_index_dict: Any, edge_label_index: Tensor) -> Tensor:
        users, items = x_dict["user"], x_dict["item"]
        near = [("user", f"rev_{name}", "user") for name in ("knows", "follows")]
        source = sum(self.conv((users, users), edge_index_dict[kind]) for kind in near)
        target = self.conv((users, items), edge_index_dict[BUYS])
        return (source[edge_label_index[0]] * target[edge_label_index[1]]).sum(-1)


def test_of_sets_equally_good_a_diverse_one_repeats_no_metapath() -> None:
    # Three users each add 1. The third is the only one that is followed, and has most facts.
    follows = ("user", "follows", "user")
    data = draw({"user": 5, "item": 6}, {
        BUYS: [(1, 0), (2, 0), (3, 0), (4, 1)], KNOWS: [(0, 1), (0, 2), (4, 4)],
        follows: [(0, 3), (4, 4)], VIEWS: [(3, 1), (3, 2), (3, 3), (3, 4), (3, 5)],
    })  # fmt: skip
    data["user"].x = torch.eye(5)
    data["item"].x = torch.zeros(6, 5)

    def explain(diverse: bool) -> Explanation:
        settings = Settings(num_paths=2, core=0, diverse=diverse)
        return PaGELink(SharedUsers(), data, LIKES, settings, threshold=None).explain(0, 0)

    plain, diverse = explain(False), explain(True)
    assert plain.evidence is not None
    assert diverse.evidence is not None
    through = [{path.nodes[1] for path in answer.paths} for answer in (plain, diverse)]
    assert through[0] == {("user", 1), ("user", 2)}
    assert ("user", 3) in through[1]
    assert len(through[1]) == 2
    assert diverse.evidence.influence == pytest.approx(plain.evidence.influence)
