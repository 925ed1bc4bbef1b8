"""Models of libraries, by their embeddings: the scores are theirs, and they stay as they were."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch_geometric.nn import GCNConv, kge

from pagelink.errors import ModelError, SettingsError
from pagelink.trained.embeddings import EmbeddingModel, Loss, factorisation
from pagelink.trained.known_models import embedding_model

NODES, RELATIONS, SIZE = 9, 3, 4


class Factors(nn.Module):
    """A recommender with all biases."""

    def __init__(self, scale: float = 1.0) -> None:
        super().__init__()
        self.user, self.item = nn.Embedding(5, SIZE), nn.Embedding(7, SIZE)
        self.user_bias, self.item_bias = nn.Embedding(5, 1), nn.Embedding(7, 1)
        self.bias = nn.Parameter(torch.tensor(0.25))
        self.scale = scale

    def forward(self, user: Tensor, item: Tensor) -> Tensor:
        product = (self.user(user) * self.item(item)).sum(-1) * self.scale
        return product + (self.user_bias(user) + self.item_bias(item))[:, 0] + self.bias


def pykeen(name: str) -> Callable[[], Any]:
    def make() -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            models = pytest.importorskip("pykeen.models")
            factory = pytest.importorskip("pykeen.triples").CoreTriplesFactory
            triples = torch.tensor([[0, 0, 1], [8, 2, 3], [2, 1, 4]])
            made = factory(triples, num_entities=NODES, num_relations=RELATIONS)
            return getattr(models, name)(triples_factory=made, embedding_dim=SIZE, random_seed=0)

    return make


MODELS = {
    **{name: lambda name=name: getattr(kge, name)(NODES, RELATIONS, SIZE)
       for name in ("ComplEx", "DistMult", "RotatE", "TransE")},
    "TransE by norm 2": lambda: kge.TransE(NODES, RELATIONS, SIZE, p_norm=2.0),
    **{f"PyKEEN {name}": pykeen(name) for name in ("ComplEx", "DistMult", "RotatE", "TransE")},
    "factors": Factors,
}  # fmt: skip


@pytest.mark.parametrize("name", MODELS)
def test_the_scores_are_the_models_own_and_it_stays_as_it_was(name: str) -> None:
    torch.manual_seed(0)
    model = MODELS[name]()
    model.train()
    before = {key: value.clone() for key, value in model.state_dict().items()}
    known = embedding_model(model)  # compares the scores itself, and refuses what differs
    assert model.training
    assert all(parameter.requires_grad for parameter in model.parameters())
    assert all(torch.equal(before[key], value) for key, value in model.state_dict().items())
    if name == "factors":
        users, items = torch.arange(5), torch.arange(5) + 2
        own = model(users, items)
        found = known.scores(users, torch.zeros(5, dtype=torch.long), 5 + items)
    else:
        links = torch.tensor([[0, 0, 1], [8, 2, 3], [2, 1, 2]])
        own = model.score_hrt(links)[:, 0] if "PyKEEN" in name else model(*links.T)
        found = known.scores(*links.T)
    assert torch.allclose(found, own.detach(), atol=1e-5)


@pytest.mark.parametrize("kind", ["product", "complex", "translation", "rotation"])
def test_a_score_is_the_same_by_either_end(kind: Any) -> None:
    random = torch.Generator().manual_seed(1)
    nodes = torch.randn(4, 6, generator=random)
    angle = torch.randn(2, 3, generator=random)
    turned = torch.cat([angle.cos(), angle.sin()], 1)
    model = EmbeddingModel(kind, nodes, turned)
    head, relation, tail = torch.tensor([0, 1]), torch.tensor([0, 1]), torch.tensor([2, 3])
    by_tail = model.score(nodes[head], relation, nodes[tail])
    query = model.query(nodes[tail], relation, torch.zeros(2, dtype=torch.bool))
    assert torch.allclose(model.of_query(nodes[head], query), by_tail, atol=1e-6)
    end = nodes[head].clone().requires_grad_()
    (gradient,) = torch.autograd.grad(model.of_query(end, query).sum(), end)
    assert torch.allclose(model.direction(nodes[head], query), gradient, atol=1e-5)


def test_a_bias_is_learned_and_its_partner_is_not() -> None:
    model = factorisation(torch.ones(2, 3), torch.ones(4, 3), item_bias=torch.ones(4))
    assert model.fixed is not None
    assert model.fixed[:2, 3:].all(), "users have no bias, and the 1 of the items' stays"
    assert model.fixed[2:, 3].all()
    assert not model.fixed[2:, 4].any()
    free = model.shaped(torch.zeros(2, 5, 5), torch.tensor([0, 3]))
    assert free[0, 0].tolist() == [0, 0, 0, 0, 1]
    assert free[1, 0].tolist() == [0, 0, 0, 1, 0]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: nn.Linear(2, 2), "not two tables"),
        (lambda: Factors(scale=2.0), "differ from its own"),
        (lambda: GCNConv(4, 4), "Supported are ComplEx"),
        (pykeen("HolE"), "HolEInteraction is not known"),
        (lambda: "model", "must be a torch.nn.Module"),
    ],
)
def test_other_models_are_refused(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        embedding_model(make())


def test_bad_tables_and_losses_are_refused() -> None:
    good = torch.ones(2, 4)
    with pytest.raises(ModelError, match="not finite"):
        EmbeddingModel("product", good * torch.nan, good)
    with pytest.raises(ModelError, match="equally long"):
        EmbeddingModel("product", good, torch.ones(1, 3))
    with pytest.raises(ModelError, match="norm 1 or 2"):
        EmbeddingModel("translation", good, good, norm=3)
    with pytest.raises(SettingsError, match="kind of a loss"):
        Loss("square")  # type: ignore[arg-type]
    with pytest.raises(ModelError, match="3 biases do not fit 2"):
        factorisation(good, good, user_bias=torch.ones(3))
