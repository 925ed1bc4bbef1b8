"""The predictor that looks at the pair: its formula, what it can tell, and its explanations."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
import torch
from torch import Tensor
from torch_geometric.data import HeteroData

from pagelink import PaGELink
from pagelink.errors import ModelError
from pagelink.explain.result import Path
from pagelink.graph.schema import EdgeType
from pagelink.models import (
    NBF,
    LinkSplit,
    TrainReport,
    TrainSettings,
    make_model,
    node_inputs,
    split_graph,
    train,
)
from pagelink.models import nbf as module

BUYS: EdgeType = ("user", "buys", "item")
VIEWS: EdgeType = ("user", "views", "item")
BOUGHT_BY: EdgeType = ("item", "bought_by", "user")
LIKE: EdgeType = ("item", "is_like", "item")
LIKES: EdgeType = ("user", "likes", "item")
HAS: EdgeType = ("user", "has", "tag")
OF: EdgeType = ("tag", "of", "item")
REVERSES: dict[EdgeType, EdgeType] = {
    HAS: ("tag", "rev_has", "user"), OF: ("item", "rev_of", "tag"),
}  # fmt: skip


def random_graph(seed: int = 0) -> HeteroData:
    """Parallel relations, repeated edges, a hub, a self-loop, and nodes without any edge."""
    generator = torch.Generator().manual_seed(seed)
    data = HeteroData()
    data["user"].num_nodes, data["item"].num_nodes = 7, 6

    def ends(num_src: int, num_dst: int, count: int) -> Tensor:
        return torch.stack([torch.randint(0, n, (count,), generator=generator)
                            for n in (num_src, num_dst)])  # fmt: skip

    buys = torch.cat([ends(6, 5, 9), torch.stack([torch.arange(6), torch.zeros(6).long()])], dim=1)
    data[BUYS].edge_index = buys
    data[BOUGHT_BY].edge_index = buys.flip(0)
    data[VIEWS].edge_index = ends(6, 5, 5)
    data[LIKE].edge_index = torch.tensor([[1, 2, 3], [1, 3, 4]])
    return data


def every_pair(data: HeteroData) -> Tensor:
    return torch.cartesian_prod(*(torch.arange(int(data[t].num_nodes)) for t in ("user", "item"))).T  # type: ignore[no-any-return]


def by_hand(model: NBF, data: HeteroData, user: int, item: int) -> Tensor:
    """The logit of a link, with a vector for every node of the graph and no thought of speed."""
    weights = model.state_dict()
    nodes = [(t, i) for t in model.node_types for i in range(data[t].num_nodes)]
    edges = [
        ((t[0], a), (t[2], b), position)
        for position, t in enumerate(model.edge_types)
        for a, b in data[t].edge_index.T.tolist()
    ]
    mark, none = weights["mark"], torch.zeros_like(weights["mark"])
    h = {node: mark if node == ("user", user) else none for node in nodes}
    for depth in range(model.config["num_layers"]):
        name, new = f"layers.{depth}", {}
        for node in nodes:
            total = none
            if node == ("user", user) and depth < model.config["num_layers"] - 1:
                total = mark
            into = [(tail, relation) for tail, head, relation in edges if head == node]
            for tail, relation in into:
                total = total + h[tail] * weights[f"{name}.relations.{relation}"]
            kind = model.node_types.index(node[0])
            kinks = torch.relu(
                weights[f"{name}.slope"][kind] * np.log(1 + len(into))
                + weights[f"{name}.offset"][kind]
            )
            gate = weights[f"{name}.gate.weight"] @ kinks + weights[f"{name}.gate.bias"]
            arrived = torch.relu(weights[f"{name}.linear.weight"] @ total)
            new[node] = torch.log1p(arrived) * torch.sigmoid(gate)
        h = new
    hidden = weights["head.0.weight"] @ h["item", item] + weights["head.0.bias"]
    return weights["head.2.weight"] @ torch.relu(hidden) + weights["head.2.bias"]


@pytest.mark.parametrize("num_layers", [1, 2, 3, 4])
def test_it_computes_its_formula(num_layers: int) -> None:
    data = random_graph(num_layers)
    model = NBF.for_data(data, LIKES, paper_split=True, hidden=6, num_layers=num_layers).eval()
    pairs = every_pair(data)
    logits = model(node_inputs(data), data.edge_index_dict, pairs)
    expected = torch.cat([by_hand(model, data, *pair) for pair in pairs.T.tolist()])
    torch.testing.assert_close(logits, expected)
    assert len(torch.unique(logits)) > 5


@pytest.mark.parametrize("at_once", [1, 3, 128])
def test_links_together_have_the_logits_of_links_alone(
    monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    data = random_graph()
    model = NBF.for_data(data, LIKES, paper_split=True, hidden=6).eval()
    inputs = node_inputs(data), data.edge_index_dict
    pairs = every_pair(data)
    pairs = torch.cat([pairs, pairs[:, :5]], dim=1)  # some of them twice
    pairs = pairs[:, torch.randperm(pairs.shape[1], generator=torch.Generator().manual_seed(0))]
    alone = torch.cat([model(*inputs, pair) for pair in pairs.split(1, dim=1)])
    monkeypatch.setattr(module, "SOURCES_AT_ONCE", at_once)
    torch.testing.assert_close(model(*inputs, pairs), alone)
    torch.testing.assert_close(model.on_graph(*inputs)(pairs), alone)


def test_the_degree_of_an_inner_node_counts() -> None:
    """User 0, item 0, user 1, item 1 is the only walk; user 2 and item 2 are on none."""

    def logit(*more: tuple[int, int]) -> float:
        data = HeteroData()
        data["user"].num_nodes, data["item"].num_nodes = 4, 4
        data[BUYS].edge_index = torch.tensor([(0, 0), (1, 0), (1, 1), (3, 3), *more]).T
        data[BOUGHT_BY].edge_index = data[BUYS].edge_index.flip(0)
        model = NBF.for_data(data, LIKES, paper_split=True, hidden=16).eval()
        return model(node_inputs(data), data.edge_index_dict, torch.tensor([[0], [1]])).item()

    assert logit((2, 0)) != logit()  # item 0 has one more buyer, who leads nowhere
    assert logit((1, 2)) != logit()  # user 1 buys one more item
    assert logit((2, 2), (3, 2)) == logit()  # elsewhere


def test_without_a_walk_nothing_is_known() -> None:
    data = random_graph()
    model = NBF.for_data(data, LIKES, paper_split=True, hidden=6).eval()
    no_walk = torch.tensor([[6, 6, 0], [0, 5, 5]])  # user 6 and item 5 have no edge
    logits = model(node_inputs(data), data.edge_index_dict, no_walk)
    assert logits.tolist() == model(node_inputs(data), {}, no_walk).tolist()
    assert len(set(logits.tolist())) == 1


@cache
def planted() -> tuple[HeteroData, set[int]]:
    """Users like the items that they share a rare tag with; common tags join them with all others.

    Tags 0 to 59 are rare, with 3 users and 3 items each; 60 to 67 have 30 of both.
    """
    rng = np.random.default_rng(0)
    data = HeteroData()
    data["user"].num_nodes, data["item"].num_nodes, data["tag"].num_nodes = 60, 60, 68
    has, of = set(), set()
    for tag in range(68):
        count = 3 if tag < 60 else 30
        has |= {(int(user), tag) for user in rng.choice(60, count, replace=False)}
        of |= {(tag, int(item)) for item in rng.choice(60, count, replace=False)}
    for edge_type, pairs in ((HAS, has), (OF, of)):
        data[edge_type].edge_index = torch.tensor(sorted(pairs)).T.contiguous()
        data[REVERSES[edge_type]].edge_index = data[edge_type].edge_index.flip(0)
    likes = {(user, item) for user, tag in has for other, item in of if tag == other < 60}
    data[LIKES].edge_index = torch.tensor(sorted(likes)).T.contiguous()
    return data, set(range(60))


@cache
def trained(kind: str, paper_split: bool = True) -> tuple[NBF, TrainReport, LinkSplit]:
    data, _ = planted()
    options = {"hidden": 16, "num_layers": 2}
    model = make_model(kind, data, LIKES, paper_split=paper_split, **options)
    split = split_graph(data, LIKES)
    settings = TrainSettings(paper_split=paper_split, epochs=60, patience=60, folds=4)
    report = train(model, data, LIKES, split, settings)
    return model, report, split  # type: ignore[return-value]


def test_it_learns_what_is_about_degrees_of_inner_nodes() -> None:
    found = trained("nbf")[1].test
    assert found.uses_structure
    assert found.model.matched_auc > 0.95
    assert trained("rgcn")[1].test.model.matched_auc < 0.8


def test_links_that_pass_messages_do_not_give_themselves_away() -> None:
    """The links of a step are out of its messages: else they alone would be learned."""
    report = trained("nbf", paper_split=False)[1]
    assert report.test.model.matched_auc > 0.9


def without(data: HeteroData, path: Path) -> HeteroData:
    """The graph without the facts of a path, both ways."""
    cut = data.clone()
    for edge in path.edges:
        a, b = data[edge.type].edge_index[:, edge.index].tolist()
        turned = {**REVERSES, **{there: back for back, there in REVERSES.items()}}[edge.type]
        for edge_type, (src, dst) in ((edge.type, (a, b)), (turned, (b, a))):
            edge_index = cut[edge_type].edge_index
            gone = (edge_index[0] == src) & (edge_index[1] == dst)
            cut[edge_type].edge_index = edge_index[:, ~gone]
    return cut


def test_its_explanations_are_paths_with_exact_figures() -> None:
    model, _, split = trained("nbf")
    data, rare = planted()
    data = data.clone()
    del data[LIKES]
    explainer = PaGELink(model, data, LIKES)
    field = explainer.receptive_field
    assert (field.mode, field.num_hops, field.knows_link) == ("subgraphs", 2, True)
    inputs = node_inputs(data)
    pairs = split.test[:, :8]
    shown = 0
    for explanation in explainer.explain_many([(src, dst) for src, dst in pairs.T.tolist()]):
        link = torch.tensor([[explanation.src[1]], [explanation.dst[1]]])
        logit = model(inputs, data.edge_index_dict, link).item()
        assert explanation.logit == pytest.approx(logit, abs=1e-4)
        for path in explanation.paths:
            after = model(inputs, without(data, path).edge_index_dict, link).item()
            assert path.influence == pytest.approx(logit - after, abs=1e-4)
        if explanation.paths:
            kind, tag = explanation.paths[0].nodes[1]
            shown += kind == "tag" and tag in rare
    assert shown >= 7


def test_what_it_cannot_take_is_refused() -> None:
    data = random_graph()
    with pytest.raises(ModelError, match="nbf has no option 'head'; it takes hidden, num_layers"):
        make_model("nbf", data, LIKES, head="mlp")
    with pytest.raises(ModelError, match="at least one layer, got 0"):
        make_model("nbf", data, LIKES, num_layers=0)
