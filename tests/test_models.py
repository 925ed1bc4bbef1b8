from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch_geometric.data import HeteroData
from torch_geometric.nn import MessagePassing

from pagelink.errors import GraphError, ModelError, SettingsError
from pagelink.graph import EdgeType
from pagelink.models import RGCN, LinkSplit, make_head, node_inputs, sample_negatives, split_links
from pagelink.models.training import Epoch, TrainResult, link_metrics, train

BUYS: EdgeType = ("user", "buys", "item")
VIEWS: EdgeType = ("user", "views v1.0 - all", "item")  # parallel to buys, with an awkward name
BOUGHT_BY: EdgeType = ("item", "bought_by", "user")
LIKES: EdgeType = ("user", "likes", "item")
OWN = "layers.0.own.weight"


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """Threads cost more than they give on graphs of this size."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def small_data() -> HeteroData:
    """Three users, four items, item 3 isolated; users 0 and 1 view what they buy."""
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
        for r, edge_type in enumerate(data.edge_types):
            src_type, _, dst_type = edge_type
            edges = data[edge_type].edge_index.T.tolist()
            for v in range(data[dst_type].num_nodes):
                into = [
                    linear(f"{layer}.relations.{r}.linear", h[src_type][a])
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
    model = RGCN.for_data(data, LIKES, hidden=6, num_layers=num_layers)
    pairs = torch.cartesian_prod(torch.arange(3), torch.arange(4)).T
    logits = model(node_inputs(data), data.edge_index_dict, pairs)
    torch.testing.assert_close(logits.view(3, 4), by_hand(model, data))


def test_every_edge_is_one_message() -> None:
    data = small_data()
    model = RGCN.for_data(data, LIKES, hidden=6)
    seen: list[int] = []
    for module in model.modules():
        if isinstance(module, MessagePassing):
            module.register_message_forward_hook(lambda *args: seen.append(len(args[-1])))
    model(node_inputs(data), data.edge_index_dict, torch.tensor([[0], [0]]))
    assert seen == 2 * [4, 2, 4]


def test_sub_graphs_may_be_empty() -> None:
    data = small_data()
    model = RGCN.for_data(data, LIKES, hidden=6)
    pair = torch.tensor([[1], [3]])
    isolated = model(
        node_inputs(data), {t: torch.empty(2, 0, dtype=torch.long) for t in data.edge_types}, pair
    )
    torch.testing.assert_close(model(node_inputs(data), {}, pair), isolated)

    none = torch.empty(0, dtype=torch.long)
    no_edges = {t: torch.empty(2, 0, dtype=torch.long) for t in data.edge_types}
    no_links = model({"user": torch.tensor([1]), "item": none}, no_edges, torch.stack([none, none]))
    assert no_links.shape == (0,)


def test_ego_graph_gives_the_logit_of_the_full_graph() -> None:
    data = small_data()
    model = RGCN.for_data(data, LIKES, hidden=6)
    full = model(node_inputs(data), data.edge_index_dict, torch.tensor([[2], [2]]))
    # User 2 and item 2 know only each other: these two alone, renumbered.
    x_dict = {"user": torch.tensor([2]), "item": torch.tensor([2])}
    edge = torch.tensor([[0], [0]])
    torch.testing.assert_close(model(x_dict, {BUYS: edge, BOUGHT_BY: edge}, edge), full)


def test_node_types_with_features_are_projected() -> None:
    data = small_data()
    data["item"].x = torch.randn(4, 5, generator=torch.Generator().manual_seed(0))
    model = RGCN.for_data(data, LIKES, hidden=6)
    assert model.config["num_nodes"] == {"user": 3}
    assert model.config["num_features"] == {"item": 5}
    table = model.inputs.tables[1]
    torch.testing.assert_close(model.inputs(node_inputs(data))["item"], table(data["item"].x))
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


def test_for_data_leaves_out_the_predicted_relation_and_its_reverse() -> None:
    data = small_data()
    data[LIKES].edge_index = torch.tensor([[0], [3]])
    data["item", "rev_likes", "user"].edge_index = torch.tensor([[3], [0]])
    assert RGCN.for_data(data, LIKES).edge_types == (BUYS, VIEWS, BOUGHT_BY)


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


# The links


def test_split_is_seven_to_one_to_two() -> None:
    pairs = torch.stack([torch.arange(714), torch.arange(714) * 3])
    split = split_links(pairs, seed=3)
    assert [part.shape[1] for part in (split.train, split.valid, split.test)] == [499, 71, 144]
    assert {tuple(p) for p in split.all.T.tolist()} == {tuple(p) for p in pairs.T.tolist()}
    assert torch.equal(split_links(pairs, seed=3).all, split.all)
    assert not torch.equal(split_links(pairs, seed=4).all, split.all)


def test_split_refuses_too_few_and_repeated_links() -> None:
    with pytest.raises(GraphError, match="at least 10"):
        split_links(torch.zeros(2, 9, dtype=torch.long))
    pairs = torch.stack([torch.arange(12), torch.arange(12)])
    pairs[:, 5] = pairs[:, 4]
    with pytest.raises(GraphError, match="1 of 12 are repeated"):
        split_links(pairs)


def test_negatives_are_all_pairs_but_the_known_ones() -> None:
    rng = np.random.default_rng(1)
    known = torch.tensor([[0, 0, 2, 2, 2, 4, 4], [0, 1, 0, 1, 2, 2, 2]])
    drawn = sample_negatives(5, 3, known, 9, rng)
    assert {tuple(p) for p in drawn.T.tolist()} == {
        (0, 2), (1, 0), (1, 1), (1, 2), (3, 0), (3, 1), (3, 2), (4, 0), (4, 1)
    }  # fmt: skip
    with pytest.raises(GraphError, match=r"5 x 3 pairs only 9 are not known"):
        sample_negatives(5, 3, known, 10, rng)


def test_negatives_are_drawn_uniformly() -> None:
    rng = np.random.default_rng(0)
    known = torch.tensor([[0, 1, 1], [0, 0, 2]])
    draws = torch.cat([sample_negatives(3, 3, known, 2, rng) for _ in range(3000)], dim=1)
    counts = np.bincount((draws[0] * 3 + draws[1]).numpy(), minlength=9)
    assert (counts[[0, 3, 5]] == 0).all()
    # Each of the six free pairs is expected 1,000 times, with a deviation of about 26.
    assert (np.abs(counts[[1, 2, 4, 6, 7, 8]] - 1000) < 130).all()


# Training


def learnable(num_blocks: int = 4, size: int = 6) -> tuple[HeteroData, Tensor]:
    """Users and items in blocks that buy and like among themselves."""
    data = HeteroData()
    data["user"].num_nodes = data["item"].num_nodes = num_blocks * size
    block = torch.arange(num_blocks * size) // size
    inside = (block[:, None] == block[None, :]).nonzero().T
    bought = (inside[0] + inside[1]) % 2 == 0
    data[BUYS].edge_index = inside[:, bought]
    data[BOUGHT_BY].edge_index = inside[:, bought].flip(0)
    return data, inside[:, ~bought]


def trained(seed: int = 0, **options: int | float) -> tuple[RGCN, TrainResult, LinkSplit]:
    data, likes = learnable()
    split = split_links(likes, seed)
    model = RGCN.for_data(data, LIKES, hidden=8, seed=seed)
    result = train(model, data, LIKES, split, seed=seed, **options)  # type: ignore[arg-type]
    return model, result, split


def test_training_learns() -> None:
    _, result, _ = trained(epochs=40)
    assert result.test_auc > 0.9
    assert result.history[-1].loss < result.history[0].loss


def test_the_best_weights_are_put_back() -> None:
    # Steps of this size overshoot, so that the last epochs are worse than the best one.
    model, result, split = trained(epochs=20, lr=1.0)
    data, _ = learnable()
    assert result.history[-1].valid_auc < result.valid_auc
    assert result.valid_auc == max(epoch.valid_auc for epoch in result.history)
    first_best = next(e for e in result.history if e.valid_auc == result.valid_auc)
    assert result.best_epoch == first_best.number < len(result.history)
    assert not model.training
    with torch.no_grad():
        logits = [
            model(node_inputs(data), data.edge_index_dict, pairs)
            for pairs in (split.valid, result.valid_negatives, split.test, result.test_negatives)
        ]
    assert link_metrics(logits[0], logits[1])[0] == result.valid_auc
    assert link_metrics(logits[2], logits[3]) == (result.test_auc, result.test_ap)


def test_same_seed_same_model_and_no_global_randomness() -> None:
    before = random_state()
    first, result, _ = trained(epochs=5)
    torch.manual_seed(1234)
    second, again, _ = trained(epochs=5)
    other, _, _ = trained(epochs=5, seed=1)
    torch.set_rng_state(torch.frombuffer(bytearray(before[0]), dtype=torch.uint8))
    assert random_state() == before
    assert result == again
    weights = second.state_dict()
    assert all(torch.equal(w, weights[name]) for name, w in first.state_dict().items())
    assert not torch.equal(other.get_parameter(OWN), first.get_parameter(OWN))


def test_training_stops_when_validation_does_not_rise() -> None:
    _, result, _ = trained(lr=0.0, patience=4)
    assert (result.best_epoch, len(result.history)) == (1, 5)


def test_progress_hears_every_epoch() -> None:
    data, likes = learnable()
    heard: list[Epoch] = []
    model = RGCN.for_data(data, LIKES, hidden=8)
    result = train(model, data, LIKES, split_links(likes), epochs=3, progress=heard.append)
    assert tuple(heard) == result.history
    assert [epoch.number for epoch in heard] == [1, 2, 3]


class Recorder(nn.Module):
    """Scores nothing, but remembers which relations and which pairs it was given."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(()))
        self.relations: set[EdgeType] = set()
        self.pairs: list[tuple[int, int]] = []

    def forward(
        self,
        x_dict: Mapping[str, Tensor],
        edge_index_dict: Mapping[EdgeType, Tensor],
        edge_label_index: Tensor,
    ) -> Tensor:
        self.relations |= set(edge_index_dict)
        self.pairs += [(src, dst) for src, dst in edge_label_index.T.tolist()]
        return self.weight * torch.ones(edge_label_index.shape[1])


def test_the_model_does_not_see_the_predicted_relation() -> None:
    data, likes = learnable()
    data[LIKES].edge_index = likes
    data["item", "liked_by", "user"].edge_index = likes.flip(0)  # a reverse without PyG's prefix
    recorder = Recorder()
    train(recorder, data, LIKES, split_links(likes), epochs=1)
    assert recorder.relations == {BUYS, BOUGHT_BY}


def test_negatives_are_never_links_nor_self_pairs() -> None:
    data = HeteroData()
    data["user"].num_nodes = 7
    data["user", "knows", "user"].edge_index = torch.tensor([[0], [1]])
    pairs = torch.tensor([(a, b) for a in range(7) for b in range(7) if a < b]).T
    recorder = Recorder()
    split = split_links(pairs)
    train(recorder, data, ("user", "follows", "user"), split, epochs=20)
    assert all(a != b for a, b in recorder.pairs)
    links = {(a, b) for a, b in pairs.T.tolist()}
    negatives = [pair for pair in recorder.pairs if pair not in links]
    # Half of all scored pairs, so none of the negatives was a link.
    assert 2 * len(negatives) == len(recorder.pairs)


def test_training_refuses_what_cannot_be_trained() -> None:
    data, likes = learnable()
    model = RGCN.for_data(data, LIKES, hidden=8)
    with pytest.raises(SettingsError, match="epochs must be at least 1"):
        train(model, data, LIKES, split_links(likes), epochs=0)
    likes[1, 0] = 99
    with pytest.raises(GraphError, match=r"item indices in 0\.\.23, got 0\.\.99"):
        train(model, data, LIKES, split_links(likes))
    data["user"].x = torch.full((24, 2), torch.nan)
    with pytest.raises(ModelError, match="loss is not finite"):
        train(RGCN.for_data(data, LIKES), data, LIKES, split_links(likes[:, 1:]))
