from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch
from torch import Tensor
from torch_geometric.data import HeteroData
from torch_geometric.nn import HGTConv, MessagePassing

from pagelink import PaGELink
from pagelink.errors import ModelError
from pagelink.graph.schema import EdgeType
from pagelink.models import (
    HGT,
    MODELS,
    NBF,
    RGCN,
    SAGE,
    TowerModel,
    make_head,
    make_model,
    node_inputs,
)

BUYS: EdgeType = ("user", "buys", "item")
VIEWS: EdgeType = ("user", "views v1.0 - all", "item")  # parallel to buys, with an awkward name
BOUGHT_BY: EdgeType = ("item", "bought_by", "user")
LIKES: EdgeType = ("user", "likes", "item")
OWN = "layers.0.own.weight"
KINDS = pytest.mark.parametrize("kind", MODELS)


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """Threads cost more than they give on graphs of this size."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def small_data() -> HeteroData:
    """Three users, four items, item 3 isolated; users 0 and 1 view what they buy.

    The predicted relation is not among the relations.
    """
    data = HeteroData()
    data["user"].num_nodes = 3
    data["item"].num_nodes = 4
    data[BUYS].edge_index = torch.tensor([[0, 0, 1, 2], [0, 1, 1, 2]])
    data[VIEWS].edge_index = torch.tensor([[0, 1], [0, 1]])
    data[BOUGHT_BY].edge_index = data[BUYS].edge_index.flip(0)
    return data


def random_state() -> tuple[bytes, bytes]:
    state = np.random.get_state(legacy=False)
    assert isinstance(state, dict)
    return torch.get_rng_state().numpy().tobytes(), state["state"]["key"].tobytes()


# The models


def by_hand(model: RGCN, data: HeteroData) -> Tensor:
    """Compute all logits node by node, from the formula."""
    weights = model.state_dict()

    def linear(name: str, vector: Tensor) -> Tensor:
        product: Tensor = weights[f"{name}.weight"] @ vector + weights[f"{name}.bias"]
        return product

    h = {t: list(weights[f"inputs.tables.{i}.weight"]) for i, t in enumerate(("user", "item"))}
    for depth in range(model.config["num_layers"]):
        layer = f"layers.{depth}"
        if depth:
            h = {t: [torch.where(v > 0, v, 0.01 * v) for v in rows] for t, rows in h.items()}
        new = {t: [linear(f"{layer}.own", v) for v in rows] for t, rows in h.items()}
        for edge_type in data.edge_types:
            src_type, _, dst_type = edge_type
            relation = "__".join(edge_type).replace(".", "#")  # as PyG writes a dot
            edges = data[edge_type].edge_index.T.tolist()
            for v in range(data[dst_type].num_nodes):
                into = [
                    linear(f"{layer}.relations.{relation}.linear", h[src_type][a])
                    for a, b in edges
                    if b == v
                ]
                if into:
                    new[dst_type][v] = new[dst_type][v] + torch.stack(into).mean(dim=0)
        h = new
    return torch.stack([torch.stack([u @ i for i in h["item"]]) for u in h["user"]])


@pytest.mark.parametrize("num_layers", [1, 2, 3])
def test_rgcn_computes_its_formula(num_layers: int) -> None:
    data = small_data()
    model = RGCN.for_data(data, LIKES, paper_split=True, hidden=6, num_layers=num_layers)
    pairs = torch.cartesian_prod(torch.arange(3), torch.arange(4)).T
    logits = model(node_inputs(data), data.edge_index_dict, pairs)
    torch.testing.assert_close(logits.view(3, 4), by_hand(model, data))


def test_every_edge_is_one_message() -> None:
    data = small_data()
    model = RGCN.for_data(data, LIKES, paper_split=True, hidden=6)
    seen: list[int] = []
    for module in model.modules():
        if isinstance(module, MessagePassing):
            module.register_message_forward_hook(lambda *args: seen.append(len(args[-1])))
    model(node_inputs(data), data.edge_index_dict, torch.tensor([[0], [0]]))
    assert seen == 2 * [4, 2, 4]


def test_sage_computes_its_formula() -> None:
    data = small_data()
    model = SAGE.for_data(data, LIKES, paper_split=True, hidden=6, num_layers=1)
    weights = model.state_dict()
    users, items = (weights[f"inputs.tables.{i}.weight"] for i in range(2))
    h = model.encode(node_inputs(data), data.edge_index_dict)

    def own(t: int, vector: Tensor) -> Tensor:
        new: Tensor = weights[f"layers.0.own.{t}.weight"] @ vector
        return new + weights[f"layers.0.own.{t}.bias"]

    def incoming(r: int, neighbours: Tensor) -> Tensor:
        relation = "__".join(model.edge_types[r]).replace(".", "#")
        new: Tensor = weights[f"layers.0.relations.{relation}.lin_l.weight"] @ neighbours
        return new

    # Item 1 is bought by users 0 and 1, viewed by user 1; item 2 is only bought, by user 2.
    item_1 = own(1, items[1]) + (incoming(0, users[:2].mean(dim=0)) + incoming(1, users[1])) / 2
    item_2 = own(1, items[2]) + incoming(0, users[2]) / 2
    user_0 = own(0, users[0]) + incoming(2, items[:2].mean(dim=0))
    torch.testing.assert_close(h["item"][[1, 2]], torch.stack([item_1, item_2]))
    torch.testing.assert_close(h["item"][3], own(1, items[3]))
    torch.testing.assert_close(h["user"][0], user_0)


def test_hgt_is_the_convolution_of_pyg() -> None:
    data = small_data()
    model = HGT.for_data(data, LIKES, paper_split=True, hidden=8, num_layers=1)
    conv = HGTConv(8, 8, (["n0", "n1"], [("n0", "r0", "n1"), ("n0", "r1", "n1"),
                                         ("n1", "r2", "n0")]), heads=4)  # fmt: skip
    conv.load_state_dict(model.layers[0].conv.state_dict())  # type: ignore[union-attr]
    x = model.inputs(node_inputs(data))
    edges = {("n0", "r0", "n1"): data[BUYS].edge_index, ("n0", "r1", "n1"): data[VIEWS].edge_index,
             ("n1", "r2", "n0"): data[BOUGHT_BY].edge_index}  # fmt: skip
    h = model.encode(node_inputs(data), data.edge_index_dict)
    torch.testing.assert_close(h["item"], conv({"n0": x["user"], "n1": x["item"]}, edges)["n1"])
    backwards = dict(reversed(list(data.edge_index_dict.items())))
    torch.testing.assert_close(model.encode(node_inputs(data), backwards), h)
    one_way = HGT({"user": 3, "item": 4}, [BUYS], LIKES, hidden=8, num_layers=1)
    x = one_way.inputs(node_inputs(data))
    h = one_way.encode(node_inputs(data), data.edge_index_dict)
    assert torch.equal(h["user"], x["user"])
    with pytest.raises(ModelError, match="divisible by 4, got 6"):
        HGT.for_data(data, LIKES, hidden=6)


@KINDS
def test_sub_graphs_may_be_empty(kind: str) -> None:
    data = small_data()
    model = make_model(kind, data, LIKES, paper_split=True, hidden=8).eval()
    pair = torch.tensor([[1], [3]])
    no_edges = {t: torch.empty(2, 0, dtype=torch.long) for t in data.edge_types}
    isolated = model(node_inputs(data), no_edges, pair)
    torch.testing.assert_close(model(node_inputs(data), {}, pair), isolated)

    none = torch.empty(0, dtype=torch.long)
    no_links = model({"user": torch.tensor([1]), "item": none}, no_edges, torch.stack([none, none]))
    assert no_links.shape == (0,)
    if isinstance(model, TowerModel):
        assert set(model.encode({"user": torch.tensor([1])}, {})) == {"user"}


@KINDS
def test_ego_graph_gives_the_logit_of_the_full_graph(kind: str) -> None:
    data = small_data()
    model = make_model(kind, data, LIKES, paper_split=True, hidden=8).eval()
    full = model(node_inputs(data), data.edge_index_dict, torch.tensor([[2], [2]]))
    # User 2 and item 2 know only each other: these two alone, renumbered.
    x_dict = {"user": torch.tensor([2]), "item": torch.tensor([2])}
    edge = torch.tensor([[0], [0]])
    torch.testing.assert_close(model(x_dict, {BUYS: edge, BOUGHT_BY: edge}, edge), full)


@KINDS
def test_every_kind_can_be_explained(kind: str) -> None:
    data = small_data()
    model = make_model(kind, data, LIKES, hidden=8).eval()
    explanation = PaGELink(model, data, LIKES, threshold=None).explain(0, 1)
    assert explanation.paths[0].nodes == (("user", 0), ("item", 1))


def test_without_embeddings_nodes_differ_by_structure_only() -> None:
    data = small_data()
    model = RGCN.for_data(data, LIKES, hidden=6, embeddings=False).eval()
    h = model.encode(node_inputs(data), data.edge_index_dict)
    # Users 0 and 1 buy items that are viewed, user 2 one that is not.
    torch.testing.assert_close(h["user"][0], h["user"][1])
    assert not torch.allclose(h["user"][0], h["user"][2])
    assert RGCN(**model.config).state_dict()["inputs.tables.0.weight"].shape == (6,)


def test_dropout_acts_in_training_only() -> None:
    data = small_data()
    model = RGCN.for_data(data, LIKES, hidden=6, dropout=0.9)
    inputs = node_inputs(data), data.edge_index_dict, torch.tensor([[0], [0]])
    still = RGCN(**{**model.config, "dropout": 0.0})(*inputs)
    assert not torch.equal(model.train()(*inputs), still)
    assert torch.equal(model.eval()(*inputs), still)


def test_node_types_with_features_are_projected() -> None:
    data = small_data()
    data["item"].x = torch.randn(4, 5, generator=torch.Generator().manual_seed(0))
    data["item"].x[:, 2:4] = torch.tensor([[1990.0, 7.0], [1995.0, 7.0], [2001.0, 7.0], [2020, 7]])
    model = RGCN.for_data(data, LIKES, paper_split=True, hidden=6)
    assert model.config["num_nodes"] == {"user": 3}
    assert model.config["num_features"] == {"item": 5}
    weights = model.state_dict()
    scaled = (data["item"].x - data["item"].x.mean(0)) / data["item"].x.std(0, correction=0)
    scaled[:, 3] = 0  # constant
    projected = torch.nn.functional.linear(
        scaled, weights["inputs.tables.1.linear.weight"], weights["inputs.tables.1.linear.bias"]
    )
    torch.testing.assert_close(model.inputs(node_inputs(data))["item"], projected)
    with pytest.raises(ModelError, match=r"x_dict\['item'\] must hold features, of shape"):
        model({"user": torch.arange(3), "item": torch.arange(4)}, {}, torch.tensor([[0], [0]]))
    with pytest.raises(ModelError, match=r"x_dict\['user'\] must hold ids"):
        model({"user": torch.ones(3, 5), "item": data["item"].x}, {}, torch.tensor([[0], [0]]))


def test_node_inputs_prefers_features_then_ids() -> None:
    data = small_data()
    data["user"].n_id = torch.tensor([7, 8, 9])
    data["item"].x = torch.ones(4, 2)
    inputs = node_inputs(data)
    assert inputs["user"].tolist() == [7, 8, 9]
    assert inputs["item"] is data["item"].x


def test_for_data_says_which_relations_are_read() -> None:
    data = small_data()
    added = (LIKES, ("item", "rev_likes", "user"))
    assert RGCN.for_data(data, LIKES).edge_types == (BUYS, VIEWS, BOUGHT_BY, *added)
    data[LIKES].edge_index = torch.tensor([[0], [3]])
    data["item", "rev_likes", "user"].edge_index = torch.tensor([[3], [0]])
    assert RGCN.for_data(data, LIKES).edge_types == (BUYS, VIEWS, BOUGHT_BY, *added)
    assert RGCN.for_data(data, LIKES, paper_split=True).edge_types == (BUYS, VIEWS, BOUGHT_BY)
    # A reverse without PyG's prefix, found because it mirrors the relation.
    data = small_data()
    assert RGCN.for_data(data, BUYS, paper_split=True).edge_types == (VIEWS,)
    assert RGCN.for_data(data, BUYS).edge_types == (BUYS, VIEWS, BOUGHT_BY)


def test_models_by_name() -> None:
    assert {name: type(make_model(name, small_data(), LIKES)) for name in MODELS} == {
        "rgcn": RGCN, "sage": SAGE, "hgt": HGT, "nbf": NBF,
    }  # fmt: skip
    with pytest.raises(ModelError, match=r"got 'rgnc'\. Did you mean 'rgcn'"):
        make_model("rgnc", small_data(), LIKES)


def test_config_and_weights_rebuild_the_model() -> None:
    data = small_data()
    model = RGCN.for_data(data, LIKES, hidden=6, head="mlp", num_layers=1, seed=5)
    again = RGCN(**model.config)
    for name, weights in model.state_dict().items():
        assert torch.equal(again.state_dict()[name], weights), name
    other = RGCN(**{**model.config, "seed": 6})
    assert not torch.equal(other.get_parameter(OWN), model.get_parameter(OWN))


def test_making_a_model_leaves_the_global_random_state() -> None:
    before = random_state()
    RGCN.for_data(small_data(), LIKES, hidden=6)
    assert random_state() == before


def test_unfit_arguments_are_named() -> None:
    with pytest.raises(ModelError, match="node type 'item'"):
        RGCN({"user": 3}, [BUYS], LIKES)
    with pytest.raises(ModelError, match=r"\['user'\] are given both"):
        RGCN({"user": 3, "item": 2}, [BUYS], LIKES, num_features={"user": 4})


def test_heads_by_hand() -> None:
    src, dst = torch.tensor([[3.0, 4.0]]), torch.tensor([[4.0, 3.0]])
    assert make_head("dot", 2)(src, dst).tolist() == [24.0]
    cosine = make_head("cosine", 2)
    with torch.no_grad():
        for parameter in cosine.parameters():
            parameter.fill_(10.0)
    torch.testing.assert_close(cosine(src, 2 * dst), torch.tensor([9.6]))
    mlp = make_head("mlp", 2)
    with torch.no_grad():
        for name, parameter in mlp.named_parameters():
            parameter.fill_(0.5 if "weight" in name else 1.0)
    # Both hidden units: 0.5 * 14 + 1 = 8; out: 0.5 * 16 + 1 = 9.
    assert mlp(src, dst).tolist() == [9.0]
    # Both hidden units: 0.5 * -14 + 1 < 0, so nothing but the bias is left.
    assert mlp(-src, -dst).tolist() == [1.0]
    with pytest.raises(ModelError, match="Did you mean 'cosine'"):
        make_head("cosin", 2)


@pytest.mark.parametrize("kind", [RGCN, SAGE])
def test_weights_of_earlier_files_are_by_position(kind: type[RGCN] | type[SAGE]) -> None:
    data = small_data()
    model = kind.for_data(data, LIKES, hidden=6)
    names = ["__".join(edge_type).replace(".", "#") for edge_type in model.edge_types]
    old = {}
    for key, weight in model.state_dict().items():
        for position, name in enumerate(names):
            key = key.replace(f".relations.{name}.", f".relations.{position}.")
        old[key] = weight + 1
    assert old.keys() != model.state_dict().keys()
    again = kind.for_data(data, LIKES, hidden=6, seed=1)
    again.load_state_dict(old)
    for key, weight in model.state_dict().items():
        assert torch.equal(again.state_dict()[key], weight + 1)
