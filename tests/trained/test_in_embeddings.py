"""What facts put into the learned embeddings of a graph network."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch_geometric.data import HeteroData
from torch_geometric.nn import SAGEConv

from pagelink import Explanation, PaGELink, Settings
from pagelink.errors import SettingsError
from pagelink.store.writer import save_store
from pagelink.trained.node_tables import learned_tables
from pagelink.trained.training import Training

LIKES, LIKED = ("user", "likes", "item"), ("item", "rev_likes", "user")
QUICK = Training(steps=100)
SETTINGS = Settings(epochs=20, candidates=8, verified=16, swaps=0, what_else=False)
FANS, USERS, ITEMS, SIZE = 6, 12, 10, 8


def shop() -> HeteroData:
    """Fans like crime (items 0 to 4), the others poems; user 0 also likes a poem."""
    rows = [(user, item) for user in range(1, FANS) for item in range(5)]
    rows += [(user, item) for user in range(FANS, USERS) for item in range(5, ITEMS)]
    rows += [(0, 1), (0, 5)]
    data = HeteroData()
    data["user"].num_nodes, data["item"].num_nodes = USERS, ITEMS
    ends = torch.tensor(rows).T
    data[LIKES].edge_index, data[LIKED].edge_index = ends, ends.flip(0)
    return data


class Memory(nn.Module):
    """Two tastes in the vectors of nodes; messages add a little."""

    def __init__(self, learned: bool = True, tables: str = "embedding") -> None:
        super().__init__()
        torch.manual_seed(0)
        crime, poems = 1.5 * torch.eye(SIZE)[:2]
        users = torch.stack([crime] * FANS + [poems] * (USERS - FANS))
        users = users + 0.3 * torch.randn(USERS, SIZE)
        items = torch.stack([crime] * 5 + [poems] * 5) + 0.3 * torch.randn(ITEMS, SIZE)
        if tables == "embedding":
            self.user = nn.Embedding.from_pretrained(users, freeze=not learned)
            self.item = nn.Embedding.from_pretrained(items, freeze=not learned)
        else:
            made = {"user": users, "item": items}
            self.tables = nn.ParameterDict(
                {key: nn.Parameter(value, requires_grad=learned) for key, value in made.items()}
            )
        self.conv = SAGEConv((SIZE, SIZE), SIZE, root_weight=False)
        nn.init.constant_(self.conv.lin_l.weight, 0.05)
        nn.init.zeros_(self.conv.lin_l.bias)

    def forward(self, x_dict: Any, edges: Any, links: Tensor) -> Tensor:
        if hasattr(self, "tables"):
            user, item = (self.tables[key][x_dict[key]] for key in ("user", "item"))
        else:
            user, item = self.user(x_dict["user"]), self.item(x_dict["item"])
        user = user + self.conv((item, user), edges[LIKED])
        item = item + self.conv((user, item), edges[LIKES])
        return (user[links[0]] * item[links[1]]).sum(-1)


def explained(model: nn.Module, dst: int = 0) -> tuple[PaGELink, Explanation]:
    explainer = PaGELink(model, shop(), LIKES, settings=SETTINGS, threshold=None)
    return explainer, explainer.explain(0, dst)


@pytest.mark.parametrize("tables", ["embedding", "parameters"])
def test_what_embeddings_memorise_is_found_and_said(tables: str) -> None:
    model = Memory(tables=tables)
    before = copy.deepcopy(model.state_dict())
    names = [name for name, _ in model.named_parameters()]
    random = torch.get_rng_state()
    explainer, answer = explained(model)
    assert answer.paths
    assert {path.nodes[1] for path in answer.paths} & {("item", 1)}
    assert "embeddings of" not in str(answer)
    told = explainer.with_embeddings(answer, training=QUICK)
    assert told.embedded is not None
    assert told.embedded.effect > 3 * told.embedded.error > 0
    assert told.embedded.starts == 5
    assert told.embedded.ends == ("src", "dst")
    assert told.embedded.trained_on > 0
    assert explainer.with_embeddings(answer, training=QUICK).embedded == told.embedded
    said = "the embeddings of user 0 and item 0 would score"
    assert said in str(told)
    assert "training anew from five random starts" in told.to_html()
    assert Explanation.from_dict(told.to_dict()).embedded == told.embedded
    # The model is what it was.
    assert [name for name, _ in model.named_parameters()] == names
    assert all(torch.equal(before[key], value) for key, value in model.state_dict().items())
    assert all(each.requires_grad and each.grad is None for each in model.parameters())
    assert torch.equal(random, torch.get_rng_state())


def test_facts_of_another_taste_put_in_less() -> None:
    explainer, answer = explained(Memory())
    crime, poem = (
        next(path for path in [*answer.paths, *_others(explainer)] if path.nodes[1][1] in items)
        for items in ({1}, {5})
    )
    effects = []
    for path in (crime, poem):
        only = explainer.with_embeddings(_with_paths(answer, path), training=QUICK)
        assert only.embedded is not None
        effects.append(only.embedded.effect)
    assert effects[0] > effects[1] + 0.5


def _others(explainer: PaGELink) -> Any:
    through_poem = explainer.replace(SETTINGS.replace(via=[("item", "id:5")], max_length=5))
    return through_poem.explain(0, 7).paths


def _with_paths(answer: Explanation, *paths: Any) -> Explanation:
    values = answer.to_dict()
    made = Explanation.from_dict(values)
    return type(made)(**{**vars(made), "paths": paths})


def test_frozen_features_get_no_line() -> None:
    explainer, answer = explained(Memory(learned=False))
    told = explainer.with_embeddings(answer, training=QUICK)
    assert told.embedded is None
    assert str(told) == str(answer)


def test_a_model_that_fails_on_the_way_is_given_back() -> None:
    model = Memory()
    before, names = (
        copy.deepcopy(model.state_dict()),
        [name for name, _ in model.named_parameters()],
    )
    explainer, answer = explained(model)
    model.train()
    left = 20

    def fail() -> None:
        nonlocal left
        left -= 1
        if left == 0:
            raise KeyboardInterrupt

    explainer.predictor.before_pass = fail
    with pytest.raises(KeyboardInterrupt):
        explainer.with_embeddings(answer, training=QUICK)
    assert left == 0
    assert model.training
    assert [name for name, _ in model.named_parameters()] == names
    assert all(torch.equal(before[key], value) for key, value in model.state_dict().items())
    assert all(each.requires_grad for each in model.parameters())


def test_one_end_with_a_learned_vector() -> None:
    model = Memory()
    model.item.weight.requires_grad_(False)
    model.user.sparse = True
    explainer, answer = explained(model)
    told = explainer.with_embeddings(answer, training=QUICK)
    assert told.embedded is not None
    assert told.embedded.ends == ("src",)
    assert "the embedding of user 0 would score" in str(told)
    assert model.user.sparse


def test_only_rows_of_the_ends_are_taken_for_tables() -> None:
    model = Memory()
    # Two more parameters with a row per user: of no node.
    model.mixing = nn.Linear(SIZE, USERS)
    model.unused = nn.Embedding(USERS, 3)
    plain = model.forward

    def forward(model: nn.Module, data: Any, links: Tensor) -> Tensor:
        mixed = model.mixing(model.user(data["user"].n_id)).mean(1)
        return plain(data.n_id_dict, data.edge_index_dict, links) + 0.01 * mixed[links[0]]

    explainer = PaGELink(model, shop(), LIKES, SETTINGS, forward=forward, threshold=None)
    tables = learned_tables(explainer.predictor, explainer.link(3, 3))
    found = {table.places[0][0]: (table.rows, table.nodes) for table in tables}
    first = explainer.graph.flat_index("user", 3), explainer.graph.flat_index("item", 3)
    assert found == {model.user: ((3,), (first[0],)), model.item: ((3,), (first[1],))}


def test_facts_that_are_no_links_to_predict_get_no_line() -> None:
    explainer = PaGELink(Memory(), shop(), ("user", "bought", "item"), SETTINGS, threshold=None)
    answer = explainer.explain(0, 0)
    assert answer.paths
    assert explainer.with_embeddings(answer, training=QUICK).embedded is None


def test_a_store_on_disk_is_refused(tmp_path: Path) -> None:
    explainer = PaGELink(
        Memory(), save_store(shop(), tmp_path / "shop"), LIKES, SETTINGS, threshold=None
    )
    answer = explainer.explain(0, 0)
    with pytest.raises(SettingsError, match="graph in memory"):
        explainer.with_embeddings(answer)
