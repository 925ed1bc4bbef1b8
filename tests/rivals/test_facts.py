"""Sets of single facts: each against brute force on a small graph, for models of random weights."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch_geometric.data import HeteroData
from torch_geometric.explain.algorithm.utils import clear_masks, set_hetero_masks

from pagelink import PaGELink, Settings
from pagelink.errors import ModelError
from pagelink.models.architectures import HGT, RGCN, SAGE
from pagelink.models.link_model import LinkModel, node_inputs
from pagelink.rivals.facts import (
    VisibleFacts,
    facts_at_random,
    facts_by_integrated_gradient,
    facts_by_occlusion,
    greedy_facts,
)
from pagelink.rivals.gnn_explainer import (
    ByRelation,
    TrimmedLink,
    facts_by_gnn_explainer,
    learned_masks,
)
from pagelink.rivals.ground import Ground

LINK = ("user", "likes", "item")
RELATIONS = (("user", "buys", "item"), ("user", "see.s", "item"), ("item", "in", "shop"))
MOST = 3


@pytest.fixture(scope="module")
def data() -> HeteroData:
    """Two relations side by side, one with a dot in its name; a copy; item 5 is far away."""
    data = HeteroData()
    data["user"].num_nodes, data["item"].num_nodes, data["shop"].num_nodes = 4, 6, 2
    data["shop"].x = torch.tensor([[0.5, 1.0], [2.0, -1.0]])
    pairs = {
        RELATIONS[0]: [[0, 0, 1, 1, 2, 2, 3, 3, 0], [0, 1, 0, 2, 1, 2, 3, 5, 0]],
        RELATIONS[1]: [[0, 1, 2], [0, 3, 2]],
        RELATIONS[2]: [[0, 1, 2, 3], [0, 0, 1, 1]],
    }
    for (src, name, dst), edges in pairs.items():
        data[src, name, dst].edge_index = torch.tensor(edges)
        data[dst, f"rev_{name}", src].edge_index = torch.tensor(edges).flip(0)
    return data


@pytest.fixture(scope="module", params=[RGCN, SAGE])
def model(request: pytest.FixtureRequest, data: HeteroData) -> LinkModel:
    made: LinkModel = request.param.for_data(data, LINK, paper_split=True, hidden=8, seed=3)
    return made.eval()


@pytest.fixture(scope="module")
def ground(data: HeteroData, model: LinkModel) -> Ground:
    return Ground.of(PaGELink(model, data, LINK, Settings(), threshold=None), [(0, 2), (1, 1)])


def brute_logit(ground: Ground, data: HeteroData, link: int, gone: set[int]) -> float:
    """The logit on the whole graph without some facts, without anything of the explainer."""
    graph = ground.explainer.graph
    edges = {}
    for position, edge_type in enumerate(graph.edge_types[: graph.num_relations]):
        mine = np.flatnonzero(graph.relation == position)
        stays = np.ones(data[edge_type].num_edges, dtype=np.bool_)
        stays[graph.column[mine[np.isin(graph.fact[mine], list(gone))]]] = False
        edges[edge_type] = data[edge_type].edge_index[:, torch.from_numpy(stays)]
    pair = torch.tensor(ground.pairs()[link]).view(2, 1)
    with torch.no_grad():
        return float(ground.explainer.predictor.model(node_inputs(data), edges, pair))


def test_visible_facts_are_those_that_can_move_the_score(ground: Ground, data: HeteroData) -> None:
    visible, graph = VisibleFacts.of(ground), ground.explainer.graph
    for link in range(ground.num_links):
        whole = brute_logit(ground, data, link, set())
        moving = {
            fact for fact in range(graph.num_facts)
            if abs(brute_logit(ground, data, link, {fact}) - whole) > 1e-6
        }  # fmt: skip
        assert moving <= set(visible.of_link(link).tolist())
        assert len(visible.of_link(link)) < graph.num_facts
        assert (np.diff(visible.of_link(link)) > 0).all()
    copies = np.diff(visible.slots.ptr)
    assert copies.max() == 4  # a fact that is stored twice, both ways


def test_greedy_chain_is_that_of_brute_force(ground: Ground, data: HeteroData) -> None:
    *_, chains = rounds = list(greedy_facts(ground, MOST))
    visible = VisibleFacts.of(ground)
    for link, chain in enumerate(chains):
        gone: set[int] = set()
        for fact in chain:
            after = {
                other: brute_logit(ground, data, link, gone | {other})
                for other in set(visible.of_link(link).tolist()) - gone
            }
            assert after[fact] == pytest.approx(min(after.values()), abs=1e-5)
            gone.add(fact)
        assert len(gone) == MOST
        assert [sets[link] for sets in rounds] == [chain[:size] for size in (1, 2, 3)]
    alone = list(greedy_facts(Ground.of(ground.explainer, ground.pairs()[1:]), MOST))
    assert alone[-1] == chains[1:]


def test_greedy_takes_all_facts_where_there_are_too_few(ground: Ground) -> None:
    sizes = np.diff(VisibleFacts.of(ground).ptr)
    *_, chains = greedy_facts(ground, int(sizes.max()) + 1)
    assert [len(set(chain)) for chain in chains] == sizes.tolist()


def test_occlusion_is_by_single_effects(ground: Ground, data: HeteroData) -> None:
    for link, found in enumerate(facts_by_occlusion(ground, MOST)):
        after = sorted(
            brute_logit(ground, data, link, {fact})
            for fact in VisibleFacts.of(ground).of_link(link).tolist()
        )
        own = [brute_logit(ground, data, link, {fact}) for fact in found]
        assert own == pytest.approx(after[:MOST], abs=1e-5)


def test_integrated_gradients_of_facts_add_up(ground: Ground) -> None:
    # All facts, from the highest value down; the order is that of the sums over their edges.
    sizes = np.diff(VisibleFacts.of(ground).ptr)
    every = facts_by_integrated_gradient(ground, int(sizes.max()))
    assert [sorted(facts) for facts in every] == [
        VisibleFacts.of(ground).of_link(link).tolist() for link in range(ground.num_links)
    ]
    few = facts_by_integrated_gradient(ground, MOST)
    assert few == [facts[:MOST] for facts in every]
    first = ground.effects([0, 0], [few[0], every[0][-MOST:]])
    assert first[0] > first[1]


def test_random_facts_depend_on_the_link_and_the_seed_alone(ground: Ground) -> None:
    found = facts_at_random(ground, MOST, seed=0)
    assert [len(set(facts)) for facts in found] == [MOST] * 2
    alone = Ground.of(ground.explainer, ground.pairs()[1:])
    assert facts_at_random(alone, MOST, seed=0) == found[1:]
    assert any(facts_at_random(ground, MOST, seed=seed) != found for seed in range(1, 4))


def test_a_trimmed_link_has_the_score_of_the_whole_graph(
    ground: Ground, data: HeteroData, model: LinkModel
) -> None:
    by_relation = ByRelation(model)
    for number in range(ground.num_links):
        link = TrimmedLink(ground, number, node_inputs(data))
        logit = by_relation(link.x_dict, link.edge_index_dict, link.edge_label_index)
        assert float(logit) == pytest.approx(ground.logits[number], abs=1e-5)
        size = sum(edges.shape[1] for edges in link.edge_index_dict.values())
        first, last = ground.batch.edge_ptr[number : number + 2]
        assert size == ground.whole[first:last].sum() < ground.explainer.graph.num_edges


def test_masks_of_pyg_reach_the_edges_they_are_meant_for(
    ground: Ground, data: HeteroData, model: LinkModel
) -> None:
    # The same weights by PyG's way and by the explainer's own, which has nothing to do with it.
    by_relation = ByRelation(model)
    generator = torch.Generator().manual_seed(0)
    weights = torch.rand(len(ground.batch.edges), generator=generator)
    with ground.explainer.predictor.weighted(ground.recorded) as run:
        expected = run(weights).detach()
    assert not np.allclose(expected, ground.logits, atol=1e-2)
    for number in range(ground.num_links):
        link = TrimmedLink(ground, number, node_inputs(data))
        masks = {t: weights[torch.from_numpy(slots)] for t, slots in link.slots.items()}
        set_hetero_masks(by_relation, masks, link.edge_index_dict, apply_sigmoid=False)
        masked = by_relation(link.x_dict, link.edge_index_dict, link.edge_label_index)
        clear_masks(by_relation)
        assert float(masked) == pytest.approx(float(expected[number]), abs=1e-5)


def test_gnn_explainer_learns_and_leaves_the_model_alone(
    ground: Ground, data: HeteroData, model: LinkModel
) -> None:
    before = {name: value.clone() for name, value in model.state_dict().items()}
    state = torch.get_rng_state()
    by_relation, x_dict = ByRelation(model), node_inputs(data)
    found = facts_by_gnn_explainer(ground, by_relation, x_dict, MOST, seed=0, epochs=20)
    again = facts_by_gnn_explainer(ground, by_relation, x_dict, MOST, seed=0, epochs=20)
    assert found == again
    assert torch.equal(state, torch.get_rng_state())
    assert model.state_dict().keys() == before.keys()
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    visible = VisibleFacts.of(ground)
    for number, facts in enumerate(found):
        assert len(set(facts)) == MOST
        assert set(facts) <= set(visible.of_link(number).tolist())

    # The mask of a fact is the larger of its edges'.
    link = TrimmedLink(ground, 0, x_dict)
    ends = ground.links[0].src, ground.links[0].dst
    seed = int(np.random.default_rng((0, *ends)).integers(2**31))
    masks = learned_masks(by_relation, link, seed, 20)
    graph, best = ground.explainer.graph, dict[int, float]()
    for edge_type, mask in masks.items():
        assert mask.max() > 0
        facts_here = graph.fact[ground.batch.edges[link.slots[edge_type]]]
        for fact, value in zip(facts_here.tolist(), mask.tolist(), strict=True):
            best[fact] = max(value, best.get(fact, 0.0))
    assert found[0] == sorted(best, key=lambda fact: -best[fact])[:MOST]


def test_a_model_without_a_convolution_per_relation_is_refused(data: HeteroData) -> None:
    with pytest.raises(ModelError, match="HGTLayer has none"):
        ByRelation(HGT.for_data(data, LINK, paper_split=True, hidden=8))
