"""The drop-in for torch_geometric.explain."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from support.zoo import LINK_TYPE, Case, make_case
from torch_geometric.data import Data
from torch_geometric.explain import Explainer, Explanation, HeteroExplanation, ModelConfig
from torch_geometric.nn import RGCNConv, SAGEConv

from pagelink import PaGELink
from pagelink.errors import LinkError
from pagelink.explain.pyg import PaGELinkExplainer

BINARY = ModelConfig(mode="binary_classification", task_level="edge", return_type="raw")
LINKS = torch.tensor([[5, 7, 2], [3, 0, 0]])


def make_explainer(case: Case, **changes: Any) -> Explainer:
    options = {
        "algorithm": PaGELinkExplainer(link_type=LINK_TYPE),
        "explanation_type": "model",
        "edge_mask_type": "object",
        "model_config": ModelConfig(mode="regression", task_level="edge", return_type="raw"),
    }
    return Explainer(case.model, **{**options, **changes})


@pytest.mark.parametrize("name", ["HeteroConv SAGE", "HGT", "one conv for all relations"])
def test_a_valid_hetero_explanation_with_the_same_result(name: str) -> None:
    case = make_case(name)
    result = make_explainer(case)(
        case.data.x_dict, case.data.edge_index_dict, index=0, edge_label_index=LINKS
    )
    assert isinstance(result, HeteroExplanation)
    assert result.validate()
    ours = PaGELink(case.model, case.data, case.link_type, threshold=None).explain(5, 3)
    assert result.explanations[0].paths == ours.paths
    assert result.paths == [ours.paths]
    assert ours.paths
    for edge_type in case.data.edge_types:
        mask = result[edge_type].edge_mask
        assert mask.shape == (case.data[edge_type].num_edges,)
        assert mask.numpy() == pytest.approx(ours.edge_mask[edge_type], abs=1e-5)
    assert result.get_explanation_subgraph().edge_types == case.data.edge_types


def test_several_links_share_a_mask() -> None:
    case = make_case("HeteroConv SAGE")
    explainer = make_explainer(case)
    inputs = case.data.x_dict, case.data.edge_index_dict
    both = explainer(*inputs, index=torch.tensor([0, 1]), edge_label_index=LINKS)
    single = [explainer(*inputs, index=i, edge_label_index=LINKS) for i in (0, 1)]
    assert len(both.paths) == 2
    every = explainer(*inputs, edge_label_index=LINKS)
    assert len(every.paths) == 3
    for edge_type in case.data.edge_types:
        largest = torch.maximum(*(result[edge_type].edge_mask for result in single))
        assert torch.allclose(both[edge_type].edge_mask, largest, atol=1e-5)


def test_edge_attributes_are_cut_with_their_edges() -> None:
    case = make_case("edge_attr and edge_weight")

    class Model(torch.nn.Module):
        def __init__(self, inner: Any):
            super().__init__()
            self.inner = inner

        def forward(
            self, x_dict: Any, edge_index_dict: Any, edge_label_index: Any, edge_attr_dict: Any,
            edge_weight_dict: Any,
        ) -> Any:  # fmt: skip
            x = self.inner.first(x_dict, edge_index_dict, edge_attr_dict=edge_attr_dict)
            x = {t: torch.tanh(v) for t, v in x.items()}
            x = self.inner.second(x, edge_index_dict, edge_weight_dict=edge_weight_dict)
            user, item = x["user"][edge_label_index[0]], x["item"][edge_label_index[1]]
            return (user * item).sum(-1)

    result = make_explainer(Case(Model(case.model), case.data))(
        case.data.x_dict, case.data.edge_index_dict, index=0, edge_label_index=LINKS,
        edge_attr_dict=case.data.edge_attr_dict, edge_weight_dict=case.data.edge_weight_dict,
    )  # fmt: skip
    ours = PaGELink(case.model, case.data, LINK_TYPE, threshold=None, **case.options).explain(5, 3)
    assert result.explanations[0].logit == pytest.approx(ours.logit, rel=1e-4)
    assert result.paths[0] == ours.paths


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"explanation_type": "phenomenon"}, "explanation type 'model'"),
        ({"edge_mask_type": None, "node_mask_type": "object"}, "edge_mask_type 'object'"),
        ({"node_mask_type": "attributes"}, "node_mask_type None"),
        ({"model_config": ModelConfig(mode="regression", task_level="node")}, "task level 'edge'"),
        (
            {
                "model_config": ModelConfig(
                    mode="multiclass_classification", task_level="edge", return_type="raw"
                )
            },
            "not multiclass",
        ),
    ],
)
def test_what_it_cannot_do_is_refused_with_a_message(
    changes: dict[str, Any], words: str, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(ValueError, match="does not support"):
        make_explainer(make_case("HeteroConv SAGE"), **changes)
    assert words in caplog.text


def test_links_must_be_given() -> None:
    case = make_case("HeteroConv SAGE")
    algorithm = PaGELinkExplainer(LINK_TYPE)
    with pytest.raises(ValueError, match="edge_label_index"):
        algorithm(case.model, case.data.x_dict, case.data.edge_index_dict, target=torch.zeros(1))
    with pytest.raises(ValueError, match="both be tensors"):
        algorithm(case.model, torch.zeros(1), case.data.edge_index_dict, target=torch.zeros(1))


def test_predicted_negatives_have_no_paths_in_binary_classification() -> None:
    case = make_case("HeteroConv SAGE")
    with pytest.warns(UserWarning, match="links are not predicted by the model"):
        results = make_explainer(case, model_config=BINARY)(
            case.data.x_dict, case.data.edge_index_dict, edge_label_index=LINKS
        ).explanations
    assert {(e.logit < 0) == (e.reason == "predicted_negative") for e in results} == {True}
    assert any(e.logit < 0 for e in results)


class Homogeneous(torch.nn.Module):
    """A plain PyG model of a homogeneous graph, with relations or without."""

    def __init__(self, num_relations: int) -> None:
        super().__init__()
        torch.manual_seed(0)
        convs = [RGCNConv(8, 8, num_relations) if num_relations else SAGEConv(8, 8)
                 for _ in range(2)]  # fmt: skip
        self.first, self.second = convs

    def forward(
        self, x: Any, edge_index: Any, edge_label_index: Any, edge_type: Any = None
    ) -> torch.Tensor:
        kind = () if edge_type is None else (edge_type,)
        x = self.second(self.first(x, edge_index, *kind).relu(), edge_index, *kind)
        src, dst = edge_label_index
        return (x[src] * x[dst]).sum(-1)


@pytest.mark.parametrize("num_relations", [0, 3])
def test_homogeneous_graphs(num_relations: int) -> None:
    model, random = Homogeneous(num_relations).eval(), torch.Generator().manual_seed(1)
    x = torch.randn(12, 8, generator=random)
    edges = torch.randint(12, (2, 40), generator=random)
    links = torch.tensor([[0, 1], [5, 7]])
    more, link_type = {}, None
    if num_relations:
        more["edge_type"] = torch.randint(num_relations, (40,), generator=random)
        link_type = ("node", "1", "node")
    explainer = Explainer(
        model, algorithm=PaGELinkExplainer(link_type), explanation_type="model",
        edge_mask_type="object",
        model_config=ModelConfig(mode="regression", task_level="edge", return_type="raw"),
    )  # fmt: skip
    result = explainer(x, edges, edge_label_index=links, index=0, **more)
    assert isinstance(result, Explanation)
    assert result.edge_mask.shape == (40,)
    data = Data(x=x, edge_index=edges, **more)

    def call(model: Any, data: Any, links: torch.Tensor) -> torch.Tensor:
        return model(data.x, data.edge_index, links, data.edge_type if more else None)

    link = link_type or ("node", "is_linked_to", "node")
    ours = PaGELink(model, data, link, threshold=None, forward=call).explain(0, 5)
    assert ours.paths
    assert result.paths == [ours.paths]
    for edge in ours.paths[0].edges:
        assert result.edge_mask[edge.index] == pytest.approx(edge.mask, abs=1e-5)
    if num_relations:
        with pytest.raises(LinkError, match="which of the relations"):
            Explainer(
                model, algorithm=PaGELinkExplainer(), explanation_type="model",
                edge_mask_type="object", model_config=explainer.model_config,
            )(x, edges, edge_label_index=links, **more)  # fmt: skip
