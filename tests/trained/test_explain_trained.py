"""`explain_trained`: paths by what training facts put into embeddings, through the whole method."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch_geometric.data import HeteroData
from torch_geometric.nn import kge

import pagelink
from pagelink import PageLinkError, Settings, TrainedExplainer, explain_trained
from pagelink.errors import GraphError, LinkError, ModelError, SettingsError
from pagelink.trained.embeddings import EmbeddingModel, factorisation
from pagelink.trained.explainer import DEFAULT
from pagelink.trained.mimics import Training
from pagelink.views.rows import to_rows

QUICK = Training(steps=25, others=64)
SMALL = DEFAULT.replace(swaps=0, strongest=False, candidates=4, verified=8)
FANS, OTHERS = 6, 6


def ratings() -> Tensor:
    """Fans of crime have rated crime, the others rated poems; user 0 also rated a poem."""
    crime, poems = range(0, 5), range(5, 10)
    rows = [(user, item) for user in range(1, FANS) for item in crime]
    rows += [(user, item) for user in range(FANS, FANS + OTHERS) for item in poems]
    rows += [(0, 1), (0, 2), (0, 5)]  # and is recommended the crime 0
    return torch.tensor(rows)


def recommender() -> EmbeddingModel:
    """Two tastes: the score is that user and item are of the same one."""
    users = torch.tensor([[1.5, -1.0]] * FANS + [[-1.0, 1.5]] * OTHERS)
    items = torch.tensor([[1.5, -1.0]] * 5 + [[-1.0, 1.5]] * 5)
    noise = torch.randn(22, 2, generator=torch.Generator().manual_seed(0)) * 0.1
    return factorisation(users + noise[:12], items + noise[12:])


def test_the_rated_items_that_carry_a_recommendation_are_found() -> None:
    (answer,) = explain_trained(recommender(), ratings(), [(0, 0)], settings=SMALL, training=QUICK)
    assert answer.reason is None
    assert answer.evidence is not None
    assert answer.evidence.verdict == "supported"
    assert answer.evidence.influence_error is not None
    assert 0 < answer.evidence.influence_error < answer.evidence.influence
    first = answer.paths[0]
    assert first.nodes[0] == ("user", 0)
    assert first.nodes[-1] == ("item", 0)
    assert first.nodes[1] in {("item", 1), ("item", 2)}, "not by the poem"
    assert first.influence_error is not None
    assert first.influence_error > 0
    assert to_rows(answer)[0]["path_influence_error"] == first.influence_error
    # Shown like any other explanation.
    assert "mimics" in str(answer)
    assert "Training without this path lowers the score by" in str(answer)
    assert "(standard error " in str(answer)
    assert "emoving" not in str(answer)
    assert "<svg" in answer.to_svg()
    assert "mimics" in answer.to_html()
    assert pagelink.Explanation.from_dict(answer.to_dict()).evidence == answer.evidence
    assert to_rows(answer)[0]["influence"] == answer.evidence.influence


def facts(num: int = 12, relations: int = 2, seed: int = 0) -> tuple[kge.DistMult, Tensor]:
    torch.manual_seed(seed)
    model = kge.DistMult(num, relations, 4)
    rng = np.random.default_rng(seed)
    rows = rng.integers(0, (num, relations, num), (60, 3))
    return model, torch.from_numpy(np.unique(rows[rows[:, 0] != rows[:, 2]], axis=0))


def same(one: pagelink.Explanation, other: pagelink.Explanation) -> bool:
    figures = [(e.evidence.influence, e.evidence.logit_without_paths) for e in (one, other)
               if e.evidence is not None]  # fmt: skip
    return one.paths == other.paths and np.allclose(figures[0], figures[-1], atol=1e-4)


def test_results_do_not_depend_on_the_batch_and_the_model_is_left_alone() -> None:
    model, triples = facts()
    model.train()
    before = {key: value.clone() for key, value in model.state_dict().items()}
    state = torch.get_rng_state()
    explainer = TrainedExplainer(model, triples, settings=SMALL, training=QUICK)
    links = [tuple(row) for row in triples[:3].tolist()]
    together = list(explainer.explain_many(links))
    alone = list(explainer.explain_many(links, batch_size=1))
    again = TrainedExplainer(model, triples, settings=SMALL, training=QUICK)
    assert all(same(*each) for each in zip(together, alone, strict=True))
    assert same(together[0], again.explain(links[0][0], links[0][2], links[0][1]))
    assert torch.equal(state, torch.get_rng_state())
    assert model.training
    assert all(torch.equal(before[key], value) for key, value in model.state_dict().items())


def test_a_link_that_was_trained_on_is_taken_out_first() -> None:
    model = recommender()
    explainer = TrainedExplainer(model, ratings(), settings=SMALL, training=QUICK)
    trained, new = explainer.explain_many([(0, 1), (0, 0)])
    assert trained.link_in_graph
    assert trained.logit_deployed == pytest.approx(
        float(model.scores(*torch.tensor([[0], [0], [FANS + OTHERS + 1]])))
    )
    assert trained.logit is not None
    assert trained.logit < trained.logit_deployed
    assert not new.link_in_graph
    assert new.logit == new.logit_deployed


def test_names_a_malformed_link_and_negatives() -> None:
    model, triples = facts()
    names, kinds = [f"n{i}" for i in range(12)], ["likes", "knows"]
    explainer = TrainedExplainer(
        model, triples, settings=SMALL, training=QUICK, entity_names=names, relation_names=kinds,
        threshold=1e6,
    )  # fmt: skip
    good, bad = explainer.explain_many([("n0", "knows", "n1"), ("n0", "hates", "n1")])
    assert (good.src_name, good.link_type[1]) == ("n0", "knows")
    assert good.reason == "predicted_negative"
    assert bad.reason == "invalid"
    assert "hates" in bad.message
    with pytest.raises(LinkError, match="hates"):
        explainer.explain("n0", "n1", "hates")


def test_a_link_without_its_relation_is_malformed_and_shown_as_it_was_given() -> None:
    model, triples = facts()
    explainer = TrainedExplainer(model, triples, settings=SMALL, training=QUICK)
    short, unknown = explainer.explain_many([(0, 1), ("nobody", 0, 1)])
    assert short.reason == unknown.reason == "invalid"
    assert "head, relation and tail, got (0, 1)" in short.message
    assert "nobody relation 0 entity “1”" in str(unknown).splitlines()[0]
    with pytest.raises(LinkError, match="head, relation and tail"):
        explainer.explain(0, 1)


def test_negatives_are_trained_without_paths_too() -> None:
    model, triples = facts()
    explainer = TrainedExplainer(model, triples, settings=SMALL, training=QUICK, threshold=1e6)
    (answer,) = explainer.explain_many([triples[0].tolist()], negatives=True)
    assert answer.is_negative
    assert answer.paths
    assert "Training without this path" in str(answer)
    assert "left out of training and the link scored again" in str(answer)
    assert "emov" not in str(answer)


def test_only_the_ends_are_trained_anew_if_requested() -> None:
    model, triples = facts()
    answers = [
        TrainedExplainer(model, triples, settings=SMALL, training=QUICK, ends_only=ends).explain(
            *(int(triples[0, i]) for i in (0, 2, 1))
        )
        for ends in (False, True)
    ]
    assert "the nodes on paths" in answers[0].notes[-1]
    assert "source and target" in answers[1].notes[-1]


def test_pagelink_points_to_this_for_models_without_messages() -> None:
    model, _ = facts()
    data = HeteroData()
    data["a"].num_nodes = 2
    data["a", "to", "a"].edge_index = torch.tensor([[0], [1]])
    with pytest.raises(ModelError, match=r"DistMult passes no messages.*explain_trained"):
        pagelink.PaGELink(model, data, ("a", "to", "a"))


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"triples": torch.zeros(3, 2).long()}, GraphError, "num_facts, 3"),
        ({"triples": torch.tensor([[0, 0, 99]])}, GraphError, "Row 0 of triples has the tail 99"),
        ({"triples": torch.tensor([[0, 5, 1]])}, GraphError, "the relation 5"),
        ({"triples": torch.zeros(0, 3).long()}, GraphError, "no facts"),
        ({"triples": torch.rand(3, 3)}, GraphError, "whole numbers"),
        ({"entity_names": ["a"]}, GraphError, "entity_names must be 12"),
        ({"relation_names": ["a", "a"]}, GraphError, "2 different names"),
        ({"settings": Settings()}, SettingsError, "epochs must be 0"),
        ({"model": nn.Linear(2, 2)}, ModelError, "mimics"),
    ],
)
def test_bad_input_is_refused(
    change: dict[str, Any], error: type[PageLinkError], message: str
) -> None:
    model, triples = facts()
    given = {"model": model, "triples": triples, "settings": SMALL, **change}
    with pytest.raises(error, match=message):
        TrainedExplainer(given.pop("model"), given.pop("triples"), **given)
