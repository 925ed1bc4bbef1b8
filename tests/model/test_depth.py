"""How deep a model is, and that every score is that of the full graph, whatever the depth."""

from __future__ import annotations

import itertools
from functools import cache, partial
from typing import Any

import pytest
import torch
from support.deep_models import DEEP, FEATURES_ONLY, MAY_BE_REFUSED, rescaled
from support.full_graph import EdgeType, Node, needed_hops, relations, scores, without, without_link
from support.zoo import ITEMS, USERS, ZOO, Case, built, links_of, make_case
from torch import Tensor
from torch_geometric.data import HeteroData

from pagelink import Explanation, PaGELink, Settings
from pagelink.errors import PageLinkError

pytestmark = pytest.mark.filterwarnings("ignore:The type .")

MARKED = [name for name in DEEP if name.startswith("NBFNet") or name in (
    "hand-set, 3 layers", "hand-set, 4 layers", "hand-set, only its relations")]  # fmt: skip
"""A mark comes from the source and reverse relations lead back to it: what its model sees is nearer
than its layers could see."""


@cache
def case_of(name: str) -> Case:
    return built(DEEP[name]) if name in DEEP else make_case(name)


def explainer_of(case: Case, settings: Settings | None = None) -> PaGELink:
    options: dict[str, Any] = {"threshold": None} | case.options
    return PaGELink(case.model, case.data, case.link_type, settings, **options)


def settings_of(name: str) -> Settings:
    return Settings(max_length=4 if "4 layers" in name else 3)


@cache
def explainer(name: str) -> PaGELink:
    return explainer_of(case_of(name), settings_of(name))


@cache
def explained(name: str) -> tuple[Explanation, ...]:
    return tuple(explainer(name).explain_many(pairs_of(case_of(name))))


def pairs_of(case: Case) -> list[tuple[int, int]]:
    return links_of(case)[:-1]  # the last one is no link


@pytest.mark.parametrize("name", DEEP)
def test_the_expected_depth_is_right(name: str) -> None:
    """By cutting the graph of each link at every radius, without any code of the explainer."""
    case = case_of(name)
    needed = needed_hops(case, pairs_of(case))
    if name in MARKED:
        assert needed == (case.num_hops or 0) - 1
    elif name == "NumPy":
        assert needed == 3  # local, but nobody can read that
    else:
        assert needed == case.num_hops


@pytest.mark.parametrize("name", [*ZOO, *DEEP])
def test_depth_and_mode_are_found(name: str) -> None:
    case, field = case_of(name), explainer(name).receptive_field
    assert (field.mode, field.num_hops) == (case.mode, case.num_hops)


@pytest.mark.parametrize("name", [*ZOO, *DEEP])
def test_logits_are_those_of_the_full_graph_without_the_link(name: str) -> None:
    case = case_of(name)
    pairs = pairs_of(case)
    truth = [float(scores(case, without_link(case, pair), [pair])) for pair in pairs]
    assert [e.logit for e in explained(name)] == pytest.approx(truth, rel=1e-4, abs=1e-4)
    deployed = scores(case, case.data, pairs).tolist()
    assert [e.logit_deployed for e in explained(name)] == pytest.approx(
        deployed, rel=1e-4, abs=1e-4
    )


@pytest.mark.parametrize("name", DEEP)
def test_effects_are_those_of_the_full_graph(name: str) -> None:
    case, seen = case_of(name), 0
    for pair, answer in zip(pairs_of(case), explained(name), strict=True):
        if answer.evidence is None:
            continue
        seen += 1
        whole = without_link(case, pair)
        paths = [
            {frozenset(step) for step in itertools.pairwise(path.nodes)} for path in answer.paths
        ]
        for found, steps in [
            (answer.evidence.logit_without_these, set().union(*paths)),
            *((answer.logit - path.influence, mine)  # type: ignore[operator]
              for path, mine in zip(answer.paths, paths, strict=True)),
        ]:  # fmt: skip
            if not parallel(whole, steps):
                left = without(whole, partial(joins, steps))
                truth = float(scores(case, left, [pair]))
                assert found == pytest.approx(truth, rel=1e-4, abs=1e-4)
        bare = without(whole, lambda edge_type, u, v: torch.ones_like(u).bool())
        truth = float(scores(case, bare, [pair]))
        assert answer.evidence.logit_without_edges == pytest.approx(truth, rel=1e-4, abs=1e-4)
    assert seen


def joins(steps: set[frozenset[Node]], edge_type: EdgeType, u: Tensor, v: Tensor) -> Tensor:
    """Which edges of a relation lead from one node of a step to the other."""
    src, _, dst = edge_type
    ends = zip(u.tolist(), v.tolist(), strict=True)
    return torch.tensor(
        [frozenset({(src, i), (dst, j)}) in steps for i, j in ends], dtype=torch.bool
    )


def parallel(data: Any, steps: set[frozenset[Node]]) -> bool:
    """Whether a step can be taken by several relations, not counting reverses."""
    met: set[frozenset[Node]] = set()
    for edge_type, columns in relations(data):
        if is_reverse(edge_type, data):
            continue
        edge_index = (data[edge_type] if isinstance(data, HeteroData) else data).edge_index
        (src, _, dst), ends = edge_type, edge_index[:, columns].t().tolist()
        mine = {frozenset({(src, i), (dst, j)}) for i, j in ends} & steps
        if mine & met:
            return True
        met |= mine
    return False


def is_reverse(edge_type: EdgeType, data: Any) -> bool:
    """By name; in the homogeneous graphs every second relation is, but that of similar items."""
    name = edge_type[1]
    return (
        name.startswith("rev_")
        if isinstance(data, HeteroData)
        else int(name.removeprefix("relation ")) % 2 == 1
    )


@pytest.mark.parametrize("name", DEEP)
def test_relations_that_move_a_score_are_seen_and_no_others_that_carry_no_message(
    name: str,
) -> None:
    case, graph = case_of(name), explainer(name).graph
    field, pairs = explainer(name).receptive_field, pairs_of(case)
    seen = {t for t, is_seen in zip(graph.edge_types, field.seen_relations, strict=True) if is_seen}
    deployed = scores(case, case.data, pairs)
    moving = set()
    for relation, _ in relations(case.data):
        left = without(case.data, lambda t, u, v, r=relation: torch.full_like(u, t == r).bool())
        if not torch.allclose(scores(case, left, pairs), deployed, atol=1e-5):
            moving.add(relation)
    assert moving
    assert moving <= seen
    assert not {t for t in seen if t[1] in case.unseen}


@pytest.mark.parametrize("name", [name for name in DEEP if name.startswith(("hand", "NBFNet"))])
def test_planted_chains_are_the_first_path(name: str) -> None:
    # Where there is nothing but the parallel relations beside them.
    length = 4 if "4 layers" in name else 3
    planted = explainer(name).replace(Settings(max_length=length)).explain_many(
        [pair for pair in pairs_of(case_of(name)) if pair[0] == pair[1] % 60]
    )  # fmt: skip
    for answer in planted:
        assert answer.evidence is not None, answer.reason
        assert answer.evidence.verdict == "supported"
        assert len(answer.paths[0]) == length
        if "homogeneous" not in name:
            steps = [f"step{number + 1}" for number in range(length)]
            assert [edge.type[1] for edge in answer.paths[0].edges] == steps


# Nothing depends on adding a constant to all scores, or on multiplying them by one.

RESCALED = [name for name in (*ZOO, *DEEP) if name != "probability"]
"""A probability has no other scale."""


def spread(case: Case) -> float:
    """The interquartile range of the scores of links and of random pairs."""
    generator = torch.Generator().manual_seed(0)
    data, hetero = case.data, hasattr(case.data, "node_types")
    sizes = [data[t].num_nodes for t in case.link_type[::2]] if hetero else [USERS + ITEMS] * 2
    drawn = [torch.randint(0, int(size), (64,), generator=generator) for size in sizes]
    chance = [(u, v) for u, v in torch.stack(drawn).t().tolist() if u != v]
    values = scores(case, data, pairs_of(case) + chance)
    low, high = values.quantile(torch.tensor([0.25, 0.75])).tolist()
    # Where most pairs have one score, the range is 0, but not what links differ by.
    return high - low if high - low > 1e-3 else float(values.max() - values.min())


@cache
def on_scale_four(name: str) -> tuple[Case, tuple[Explanation, ...]]:
    """The case with scores that spread by about 4, and its explanations."""
    plain = case_of(name)
    case = rescaled(plain, 4 / spread(plain))
    return case, tuple(explainer_of(case, settings_of(name)).explain_many(pairs_of(case)))


@pytest.mark.parametrize(("factor", "offset"), [(1.0, 500.0), (1_000.0, 0.0)])
@pytest.mark.parametrize("name", RESCALED)
def test_no_path_and_no_verdict_depends_on_the_scale(
    name: str, factor: float, offset: float
) -> None:
    case, before = on_scale_four(name)
    other = explainer_of(rescaled(case, factor, offset), settings_of(name))
    after = list(other.explain_many(pairs_of(case)))
    for one, two in zip(before, after, strict=True):
        assert one.reason == two.reason
        assert one.paths == two.paths
        verdicts = [each.evidence and each.evidence.verdict for each in (one, two)]
        assert verdicts[0] == verdicts[1]
        assert [p.is_evidence for p in one.paths] == [p.is_evidence for p in two.paths]
    assert any(one.evidence for one in before)


@pytest.mark.parametrize("name", ["HeteroConv SAGE", "hand-set, 3 layers", "GCN"])
def test_more_hops_than_found_are_obeyed(name: str) -> None:
    case = case_of(name)
    hops = (case.num_hops or 0) + 1
    pairs = pairs_of(case)
    wider = explainer(name).replace(Settings(num_hops=hops))
    for pair, answer in zip(pairs, wider.explain_many(pairs), strict=True):
        assert answer.num_hops == hops
        truth = float(scores(case, without_link(case, pair), [pair]))
        assert answer.logit == pytest.approx(truth, rel=1e-4, abs=1e-4)


@pytest.mark.parametrize("name", FEATURES_ONLY)
def test_a_model_that_uses_no_structure_is_said_to(name: str) -> None:
    case = built(FEATURES_ONLY[name])
    pairs = pairs_of(case)
    answers = list(explainer_of(case).explain_many(pairs))
    truth = scores(case, case.data, pairs).tolist()
    assert [answer.logit for answer in answers] == pytest.approx(truth, rel=1e-4, abs=1e-4)
    for answer in answers:
        assert answer.reason != "not_connected"
        assert answer.evidence is not None
        assert answer.evidence.verdict == "structure_not_used"
        assert not any(path.is_evidence for path in answer.paths)


@pytest.mark.parametrize("name", MAY_BE_REFUSED)
def test_a_model_that_is_not_refused_clearly_is_explained_exactly(name: str) -> None:
    case = built(MAY_BE_REFUSED[name])
    pairs = pairs_of(case)
    try:
        answers = list(explainer_of(case).explain_many(pairs))
    except PageLinkError:
        return  # any other error is not caught
    truth = [float(scores(case, without_link(case, pair), [pair])) for pair in pairs]
    assert [answer.logit for answer in answers] == pytest.approx(truth, rel=1e-4, abs=1e-4)
