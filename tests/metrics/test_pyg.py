"""Fidelity by PyG's names: the same as PyG's where it has one, and by hand where it has none."""

from __future__ import annotations

import math
import warnings
from typing import Any

import pytest
import torch
from support.learnable import BUYS, LIKES, learnable
from support.zoo import LINK_TYPE, make_case
from torch import Tensor, nn
from torch_geometric.explain import Explainer, GNNExplainer, HeteroExplanation, ModelConfig, metric
from torch_geometric.nn import SimpleConv

from pagelink.errors import SettingsError
from pagelink.explain.pyg import PaGELinkExplainer
from pagelink.metrics import fidelity, unfaithfulness
from pagelink.models import MODELS, make_model, message_graph, node_inputs, split_links

BINARY = ModelConfig(mode="binary_classification", task_level="edge", return_type="raw")


class Sum(nn.Module):
    """The logit of a link is the sum of messages into its target, less a bias."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = SimpleConv("sum")

    def forward(self, x_dict: Any, edge_index_dict: Any, edge_label_index: Tensor) -> Tensor:
        out = self.conv((x_dict["user"], x_dict["item"]), edge_index_dict[BUYS])
        logits: Tensor = out[edge_label_index[1], 0] - 1.5
        return logits


def by_hand(mask: list[float], mode: str = "binary_classification") -> tuple[Explainer, Any]:
    x = {"user": torch.tensor([[1.0], [2.0], [3.0]]), "item": torch.zeros(2, 1)}
    edges = {BUYS: torch.tensor([[0, 1, 2], [0, 0, 1]])}
    explainer = Explainer(
        Sum(), algorithm=GNNExplainer(epochs=1), explanation_type="model",
        edge_mask_type="object",
        model_config=ModelConfig(mode=mode, task_level="edge", return_type="raw"),
    )  # fmt: skip
    explanation = HeteroExplanation()
    explanation.set_value_dict("x", x)
    explanation.set_value_dict("edge_index", edges)
    explanation.set_value_dict("edge_mask", {BUYS: torch.tensor(mask)})
    explanation.edge_label_index = torch.tensor([[0, 0], [0, 1]])
    explanation.target, explanation.index = torch.tensor([1, 1]), None
    return explainer, explanation


def test_by_hand() -> None:
    # Logits 1.5 and 1.5; on the mask alone 0.5 and -1.5; without it -0.5 and 1.5.
    explainer, explanation = by_hand([0.0, 1.0, 0.0])
    assert fidelity(explainer, explanation) == (0.5, 0.5)

    def divergence(one: float, other: float) -> float:
        p, q = (1 / (1 + math.exp(-each)) for each in (one, other))
        return p * math.log(p / q) + (1 - p) * math.log((1 - p) / (1 - q))

    mean = (divergence(1.5, 0.5) + divergence(1.5, -1.5)) / 2
    assert unfaithfulness(explainer, explanation) == pytest.approx(1 - math.exp(-mean), abs=1e-6)
    explanation.index = torch.tensor([0])
    assert fidelity(explainer, explanation) == (1.0, 0.0)
    assert not explainer.model.conv._forward_hooks
    with pytest.raises(SettingsError, match="predicted classes"):
        fidelity(by_hand([1.0, 1.0, 1.0], "regression")[0], explanation)


@pytest.mark.parametrize("name", ["HeteroConv SAGE", "HGT", "one conv for all relations"])
def test_any_layer_is_weighted(name: str) -> None:
    case = make_case(name)
    explainer = Explainer(
        case.model, algorithm=PaGELinkExplainer(LINK_TYPE), explanation_type="model",
        edge_mask_type="object", model_config=BINARY,
    )  # fmt: skip
    links = torch.tensor([[5, 7, 2], [3, 0, 0]])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some may not be predicted
        explanation = explainer(case.data.x_dict, case.data.edge_index_dict, edge_label_index=links)
    for edge_type in case.data.edge_types:
        explanation[edge_type].edge_mask = torch.ones(case.data[edge_type].num_edges)
    assert fidelity(explainer, explanation)[1] == 0
    assert unfaithfulness(explainer, explanation) == pytest.approx(0, abs=1e-7)
    for edge_type in case.data.edge_types:
        explanation[edge_type].edge_mask *= 0
    assert unfaithfulness(explainer, explanation) > 1e-6


@pytest.mark.parametrize("name", [name for name in MODELS if name in ("rgcn", "sage")])
def test_our_models_are_explained_by_the_gnn_explainer_of_pyg(name: str) -> None:
    data, likes = learnable()
    split = split_links(likes)
    graph = message_graph(data, LIKES, split.train)
    model = make_model(name, data, LIKES, hidden=8).eval()
    nodes = {t: x if x.dim() == 2 else x[:, None] for t, x in node_inputs(graph).items()}
    inputs = nodes, graph.edge_index_dict
    before = {key: value.clone() for key, value in model.state_dict().items()}
    explainer = Explainer(
        model, algorithm=GNNExplainer(epochs=3), explanation_type="model",
        edge_mask_type="object", model_config=BINARY,
    )  # fmt: skip
    explanation = explainer(*inputs, edge_label_index=split.test, index=0)
    masks = explanation.collect("edge_mask")
    assert set(masks) == set(graph.edge_types)
    assert any(float(mask.max()) > 0 for mask in masks.values())
    # PyG's own weighting of messages agrees with ours.
    theirs = explainer.get_masked_prediction(*inputs, edge_mask=masks, edge_label_index=split.test)
    changed = (explainer.get_target(theirs) != explanation.target)[[0]].float().mean()
    assert fidelity(explainer, explanation)[1] == float(changed)
    assert all(torch.equal(before[k], v) for k, v in model.state_dict().items())


def test_homogeneous_explanations_are_left_to_pyg(monkeypatch: pytest.MonkeyPatch) -> None:
    from torch_geometric.explain import Explanation

    explainer, _ = by_hand([1.0, 1.0, 1.0])
    monkeypatch.setattr(metric, "fidelity", lambda *given: (0.25, 0.75))
    assert fidelity(explainer, Explanation()) == (0.25, 0.75)
