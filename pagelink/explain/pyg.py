"""PaGELinkExplainer: the same method as an algorithm of torch_geometric.explain."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.data import HeteroData
from torch_geometric.explain import HeteroExplanation
from torch_geometric.explain.algorithm import ExplainerAlgorithm
from torch_geometric.explain.config import (
    ExplanationType,
    MaskType,
    ModelMode,
    ModelReturnType,
    ModelTaskLevel,
)

from pagelink.errors import LinkError
from pagelink.explain.explainer import PaGELink
from pagelink.graph.schema import EdgeType
from pagelink.settings import Settings


class PaGELinkExplainer(ExplainerAlgorithm):
    """PaGE-Link for `torch_geometric.explain.Explainer`, for link prediction on `HeteroData`.

    Call the explainer with the model's own arguments and `edge_label_index` by keyword; `index`
    says which of its columns to explain (None: all of them). The returned `HeteroExplanation` has a
    full-length `edge_mask` per edge type (the largest value over the explained links), `paths` (the
    paths of each link), and `explanations` (everything known about each link).

    `torch_geometric.explain.Explainer` itself puts the model into eval mode while it is called; if
    the call is interrupted, it is for you to call `model.train()` again.

    Args:
        link_type: the predicted relation.
        settings: how to explain.
        seed: where random numbers come from.
    """

    def __init__(
        self, link_type: EdgeType, settings: Settings | None = None, seed: int = 0
    ) -> None:
        super().__init__()
        self.link_type = link_type
        self.settings = settings
        self.seed = seed

    def forward(
        self,
        model: nn.Module,
        x: Mapping[str, Tensor],
        edge_index: Mapping[EdgeType, Tensor],
        *,
        target: Tensor,
        index: int | Tensor | None = None,
        **kwargs: Any,
    ) -> HeteroExplanation:
        """Explain the links in the columns `index` of `edge_label_index`."""
        if not isinstance(x, Mapping) or not isinstance(edge_index, Mapping):
            raise LinkError(
                "PaGELinkExplainer explains models on heterogeneous graphs: x and edge_index must "
                "be dicts. For a homogeneous graph with edge_type use pagelink.PaGELink."
            )
        links = kwargs.pop("edge_label_index", None)
        if not isinstance(links, Tensor) or links.dim() != 2 or links.shape[0] != 2:
            raise LinkError(
                "Give the links to explain as edge_label_index=... of shape [2, num_links]."
            )
        for key, value in kwargs.items():
            if isinstance(value, Tensor) and value.dim() and links.shape[1] in value.shape:
                raise LinkError(
                    f"{key} seems to hold a value per link ({list(value.shape)} for "
                    f"{links.shape[1]} links), which cannot be assigned here. Use "
                    "pagelink.PaGELink with forward=callable(model, data, edge_label_index)."
                )
        chosen = links if index is None else links[:, torch.as_tensor(index).view(-1)]
        data = HeteroData()
        for node_type, value in x.items():
            data[node_type].x = value
            data[node_type].num_nodes = value.shape[0]
        for edge_type, value in edge_index.items():
            data[edge_type].edge_index = value
        per_type = {key: value for key, value in kwargs.items() if isinstance(value, Mapping)}
        for key, values in per_type.items():
            data.set_value_dict(key.removesuffix("_dict"), values)

        def call(model: nn.Module, data: HeteroData, edge_label_index: Tensor) -> Tensor:
            cut = {key: data.collect(key.removesuffix("_dict")) for key in per_type}
            output: Tensor = model(
                data.x_dict, data.edge_index_dict, edge_label_index=edge_label_index,
                **{**kwargs, **cut},
            )  # fmt: skip
            return output

        ranks = self.model_config.mode == ModelMode.regression
        as_probability = self.model_config.return_type == ModelReturnType.probs
        explainer = PaGELink(
            model, data, self.link_type, self.settings, self.seed, forward=call,
            output="probability" if as_probability else "logit", threshold=None if ranks else 0.0,
        )  # fmt: skip
        explanations = list(explainer.explain_many(chosen.t().tolist()))
        result = HeteroExplanation()
        for edge_type, value in edge_index.items():
            mask = torch.zeros(value.shape[1])
            for explanation in explanations:
                mask = torch.maximum(mask, torch.from_numpy(explanation.edge_mask[edge_type]))
            result[edge_type].edge_mask = mask.to(value.device)
        result.paths = [explanation.paths for explanation in explanations]
        result.explanations = explanations
        return result

    def supports(self) -> bool:
        """Refuse, with a message in the log, what the method cannot do."""
        explainer, model = self.explainer_config, self.model_config
        refused = {
            f"task level 'edge', not {model.task_level.value!r}":
                model.task_level != ModelTaskLevel.edge,
            "binary classification or regression (ranking scores), not multiclass":
                model.mode == ModelMode.multiclass_classification,
            "return type 'raw' or 'probs', not 'log_probs'":
                model.return_type == ModelReturnType.log_probs,
            "explanation type 'model', not 'phenomenon'":
                explainer.explanation_type != ExplanationType.model,
            "edge_mask_type 'object'": explainer.edge_mask_type != MaskType.object,
            "node_mask_type None": explainer.node_mask_type is not None,
        }  # fmt: skip
        for words, wrong in refused.items():
            if wrong:
                logging.error("PaGELinkExplainer supports %s.", words)
                return False
        return True
