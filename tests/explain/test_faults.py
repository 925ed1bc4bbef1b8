"""Nine faults of an earlier implementation that users met, each on a graph where it would show."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from support.hand_drawn import (
    BUYS,
    KNOWS,
    LIKES,
    VIEWS,
    Pairs,
    Walks,
    assert_is_path,
    draw,
    inner,
    relations,
)
from support.zoo import make_case
from torch import Tensor, nn
from torch_geometric.data import HeteroData

from pagelink import PaGELink, Settings
from pagelink.graph.schema import EdgeType


def test_fault_1_one_relation_per_pair_of_node_types() -> None:
    # Two relations between users and items; the one path takes now this one, now that one.
    data = draw(
        {"user": 3, "item": 3},
        {BUYS: [(1, 0), (2, 2)], VIEWS: [(0, 1), (1, 1), (2, 2)], KNOWS: [(2, 2)]},
    )
    explanation = PaGELink(Walks(), data, LIKES).explain(0, 0)
    (path,) = explanation.paths
    assert path.nodes == (("user", 0), ("item", 1), ("user", 1), ("item", 0))
    assert [(edge.type, edge.index, edge.label) for edge in path.edges] == [
        (VIEWS, 0, "views"), (("item", "rev_views", "user"), 1, "views"), (BUYS, 0, "buys")
    ]  # fmt: skip


@pytest.mark.parametrize("order", [[BUYS, VIEWS], [VIEWS, BUYS]])
def test_fault_2_of_parallel_edges_the_last_one_wins(order: list[EdgeType]) -> None:
    # Every pair is joined by both relations; what was bought speaks for the link, what was viewed
    # against it.
    pairs = [(0, 1), (1, 1), (1, 0), (0, 2), (1, 2)]
    data = draw({"user": 2, "item": 3}, {edge_type: pairs for edge_type in order})
    model = Walks({"buys": 1.0, "views": -0.5}, scale=0.05)
    # After some steps one mask has risen and the other one fallen.
    settings = Settings(num_paths=50, alpha=0, beta=0, measure=False)
    explanation = PaGELink(model, data, LIKES, settings).explain(0, 0)
    paths = explanation.paths
    assert len(set(paths)) == len(paths) == 2 * 2**3
    by_relations = {(inner(path)[0], *relations(path)): path.score for path in paths}
    assert len(by_relations) == 16
    for through in (("item", 1), ("item", 2)):
        all_bought = by_relations[through, "buys", "rev_buys", "buys"]
        others = [score for key, score in by_relations.items() if key[0] == through]
        assert all_bought == max(others)
        assert sum(score == all_bought for score in others) == 1
    assert relations(paths[0]) == ["buys", "rev_buys", "buys"]
    bought, viewed = (explanation.edge_mask[edge_type] for edge_type in (BUYS, VIEWS))
    assert (bought[:3] > viewed[:3]).all()


def test_fault_3_the_length_limit_comes_after_the_cheapest_paths_were_drawn() -> None:
    # The only path of two facts runs through a hub and is dear; many of three are cheap.
    chains = 12
    knows: Pairs = [(0, 1)]
    buys: Pairs = [(1, 0)]
    for i in range(chains):
        a, b = 2 + 2 * i, 3 + 2 * i
        knows += [(0, a), (a, b)]
        buys += [(b, 0)]
    first_fan = 2 + 2 * chains
    knows += [(1, fan) for fan in range(first_fan, first_fan + 300)]
    data = draw({"user": first_fan + 300, "item": 1}, {KNOWS: knows, BUYS: buys})
    model = Walks(scale=1e-3)
    settings = Settings(num_paths=3, epochs=0, core=0, measure=False)

    longer = PaGELink(model, data, LIKES, settings.replace(max_length=4)).explain(0, 0)
    assert [len(path) for path in longer.paths] == [3, 3, 3]  # the hub is not among the cheapest
    bounded = PaGELink(model, data, LIKES, settings.replace(max_length=2)).explain(0, 0)
    assert bounded.reason is None
    assert [inner(path) for path in bounded.paths] == [[("user", 1)]]


def test_fault_4_no_path_looks_like_a_path() -> None:
    # Both ends have facts enough, with top scores, but none of them leads to the other end.
    square: Pairs = [(0, 1), (2, 1), (2, 2), (0, 2)]
    other: Pairs = [(u + 3, v + 3) for u, v in square]
    data = draw({"user": 6, "item": 6}, {BUYS: square + other})
    explanation = PaGELink(Walks(), data, LIKES).explain(0, 4)
    assert explanation.paths == ()
    assert explanation.reason == "not_connected"
    assert explanation.message
    assert explanation.logit is not None
    assert all((mask == 0).all() for mask in explanation.edge_mask.values())


def test_fault_4_what_looks_like_a_path_is_one() -> None:
    case = make_case("HeteroConv SAGE")
    explainer = PaGELink(case.model, case.data, case.link_type, Settings(epochs=3), threshold=None)
    links = [(user, item) for user in range(0, 80, 5) for item in range(0, 60, 7)]
    with_paths = 0
    for explanation in explainer.explain_many(links):
        assert bool(explanation.paths) == (explanation.reason is None)
        with_paths += bool(explanation.paths)
        for path in explanation.paths:
            assert_is_path(path, explanation, case.data)
    assert 15 < with_paths < len(links)


def test_fault_5_node_ids_of_two_id_spaces_are_mixed() -> None:
    # The ends are user 2 and item 3. Item 2 and user 3 have their indices in other types, user 9
    # and user 5 are at their places in the flat graph or in the sub-graph.
    twins: Pairs = [(2, 2), (3, 2), (3, 3)]
    rival: Pairs = [(2, 0), (0, 0), (0, 3)]
    fans: Pairs = [(user, 2) for user in range(4, 9)] + [(3, item) for item in range(4, 9)]
    ends: Pairs = [(2, item) for item in range(4, 9)] + [(user, 3) for user in range(4, 9)]
    data = draw({"user": 10, "item": 10}, {BUYS: twins + rival + fans + ends})
    settings = Settings(epochs=0, core=0, num_paths=100, measure=False)
    explainer = PaGELink(Walks(scale=1e-3), data, LIKES, settings)
    explanation = explainer.explain(2, 3)

    degree = {("item", 2): 7, ("user", 3): 7, ("item", 0): 2, ("user", 0): 2}
    degree |= {("item", i): 2 for i in range(4, 9)} | {("user", i): 2 for i in range(4, 9)}
    for path in explanation.paths:
        # Before learning every mask is a half. The degree of either end, here 7, does not count.
        expected = -len(path) * math.log(2) - sum(math.log(degree[node]) for node in inner(path))
        assert path.score == pytest.approx(expected)
    assert inner(explanation.paths[0]) == [("item", 0), ("user", 0)]
    assert inner(explanation.paths[-1]) == [("item", 2), ("user", 3)]

    # Nor does the bound on degrees hold for the ends, or by the index of an end for others.
    bounded = PaGELink(Walks(scale=1e-3), data, LIKES, settings.replace(max_degree=2))
    assert [inner(path) for path in bounded.explain(2, 3).paths] == [[("item", 0), ("user", 0)]]


def test_fault_6_every_look_up_scans_all_edges() -> None:
    near: Pairs = [(0, 1), (1, 1), (1, 0), (0, 2), (1, 2), (2, 2), (2, 3), (3, 3)]
    far: Pairs = np.random.default_rng(0).integers(10, 2_000, (50_000, 2)).tolist()
    handed: list[tuple[int, int]] = []

    def forward(model: nn.Module, data: HeteroData, links: Tensor) -> Tensor:
        handed.append((data.num_nodes, data.num_edges))
        scores: Tensor = model(data.x_dict, data.edge_index_dict, links)
        return scores

    work, answers, masked = [], [], []
    for size, edges in ((4, near), (2_000, near + far)):
        data = draw({"user": size, "item": size}, {BUYS: edges})
        # On the far side a node has many walks: the score is kept finite by its scale.
        settings = Settings(measure=False, pred_loss="log_sigmoid")
        explainer = PaGELink(Walks(scale=1e-3), data, LIKES, settings, forward=forward)
        assert explainer.receptive_field.num_hops == 2
        handed.clear()
        explanation = explainer.explain(0, 0, rank=False)
        work.append(list(handed))
        answers.append([(path.nodes, path.relations, path.score) for path in explanation.paths])
        masked.append([explanation.edge_mask.stored(t)[0].tolist() for t in data.edge_types])
    # One pass over the full graph checks the score.
    assert [max(passes) for passes in work] == [(8, 16), (4_000, 100_016)]
    local = [[each for each in passes if each != max(passes)] for passes in work]
    assert len(local[1]) == len(work[1]) - 1
    assert local[0] == local[1]
    assert max(edges for _, edges in local[1]) < 2 * len(near)
    assert answers[0] == answers[1]
    assert len(answers[0]) == 2
    assert masked[0] == masked[1]


def test_fault_7_the_loss_of_a_predicted_negative_has_no_bound() -> None:
    pairs = [(0, 1), (1, 1), (1, 0)]
    data = draw({"user": 2, "item": 2}, {BUYS: pairs, VIEWS: pairs})
    model = Walks(bias=-200.0)
    asked = PaGELink(model, data, LIKES).explain(0, 0)
    assert asked.reason == "predicted_negative"
    assert asked.logit is not None
    assert asked.logit < 0
    assert (asked.paths, asked.epochs) == ((), 0)
    assert all((mask == 0).all() for mask in asked.edge_mask.values())

    # Explained all the same. What was bought raises the score, what was viewed lowers it. The loss
    # asks for what raises it; one without a bound would lower it for as long as it runs.
    model = Walks({"buys": 1.0, "views": -0.5}, scale=0.05, bias=-1.0)
    settings = Settings(epochs=500, learning_rate=1.0, alpha=0, beta=0, patience=None)
    forced = PaGELink(model, data, LIKES, settings, threshold=None).explain(0, 0)
    assert forced.reason is None
    assert forced.epochs == 500
    bought, viewed = (forced.edge_mask[edge_type] for edge_type in (BUYS, VIEWS))
    assert np.isfinite(bought).all()
    assert np.isfinite(viewed).all()
    assert bought[0] > 0.9
    assert viewed[0] < 0.1
    assert all(math.isfinite(path.score) for path in forced.paths)


def test_fault_8_names_of_one_data_set_are_built_in() -> None:
    # No user, no item, no `likes`; nothing but a model and a graph is asked for.
    data = HeteroData()
    for node_type, names in {
        "Wirkstoff (klein)": ["Aspirin", "Ibuprofen"],
        "gene/ß": ["PTGS1", "PTGS2"],
        "0": ["pain", "fever"],
    }.items():
        data[node_type].x = torch.ones(2, 1)
        data[node_type].name = names
    inhibits = ("Wirkstoff (klein)", "in-hibits: 2", "gene/ß")
    linked = ("0", "likes", "gene/ß")  # a relation of this name that is not the predicted one
    for edge_type, pairs in {inhibits: [(0, 0), (0, 1), (1, 1)], linked: [(0, 0), (1, 1)]}.items():
        edge_index = torch.tensor(pairs).t()
        data[edge_type].edge_index = edge_index
        back = (edge_type[2], f"{edge_type[1]} (back)", edge_type[0])
        data[back].edge_index = edge_index.flip(0)
    treats = ("Wirkstoff (klein)", "treats", "0")
    model = Walks(ends=("Wirkstoff (klein)", "0"))
    explanation = PaGELink(model, data, treats).explain("Aspirin", "fever")
    assert explanation.link_type == treats
    assert explanation.paths[0].names == ("Aspirin", "PTGS2", "fever")
    assert relations(explanation.paths[0]) == ["in-hibits: 2", "likes (back)"]
    assert "PTGS2" in str(explanation)


@pytest.mark.parametrize("seed", [0, 1])
def test_fault_9_masks_hardly_move_from_their_noise(seed: int) -> None:
    # One short path, and circles at both ends that lead nowhere.
    path: Pairs = [(0, 1), (1, 1), (1, 0)]
    circles: Pairs = [(0, 2), (2, 2), (2, 3), (0, 3), (3, 0), (3, 4), (4, 4), (4, 0)]
    data = draw({"user": 5, "item": 5}, {BUYS: path + circles})
    settings = Settings(pred_loss="log_sigmoid")
    explanation = PaGELink(Walks(scale=1e-3), data, LIKES, settings, seed=seed).explain(0, 0)
    (best,) = explanation.paths
    assert [edge.index for edge in best.edges] == [0, 1, 2]
    assert min(edge.mask for edge in best.edges) > 0.9
    mask = explanation.edge_mask[BUYS]
    assert (mask[len(path) :] < 0.1).all()
    assert explanation.edge_mask[BUYS][0] == pytest.approx(best.edges[0].mask)
