"""PaGELinkExplainer: the same method as an algorithm of torch_geometric.explain."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch_geometric.data import Data, HeteroData
from torch_geometric.explain import Explanation, HeteroExplanation
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

_ONLY_RELATION = ("node", "is_linked_to", "node")
Forward = Callable[[nn.Module, Any, Tensor], Tensor]


class PaGELinkExplainer(ExplainerAlgorithm):
    """PaGE-Link for `torch_geometric.explain.Explainer`, for link prediction.

    Call the explainer with the model's own arguments and `edge_label_index` by keyword; `index`
    says which of its columns to explain (None: all of them). The returned `HeteroExplanation` (of a
    homogeneous graph: `Explanation`) has a full-length `edge_mask` per edge type (the largest value
    over the explained links), `paths` (the paths of each link), and `explanations` (everything
    known about each link). Links that the model does not predict have no paths; a warning says so.

    `torch_geometric.explain.Explainer` itself puts the model into eval mode while it is called; if
    the call is interrupted, it is for you to call `model.train()` again.

    Args:
        link_type: the predicted relation. On a homogeneous graph that has `edge_type`, one of its
            values, as ("node", "3", "node"); None on one that has not.
        settings: how to explain.
        seed: where random numbers come from.
    """

    def __init__(
        self, link_type: EdgeType | None = None, settings: Settings | None = None, seed: int = 0
    ) -> None:
        super().__init__()
        self.link_type = link_type
        self.settings = settings
        self.seed = seed

    def forward(
        self,
        model: nn.Module,
        x: Tensor | Mapping[str, Tensor],
        edge_index: Tensor | Mapping[EdgeType, Tensor],
        *,
        target: Tensor,
        index: int | Tensor | None = None,
        **kwargs: Any,
    ) -> Explanation | HeteroExplanation:
        """Explain the links in the columns `index` of `edge_label_index`."""
        if isinstance(x, Tensor) != isinstance(edge_index, Tensor):
            raise LinkError("x and edge_index must both be tensors, or both be dicts by type.")
        links = kwargs.pop("edge_label_index", None)
        if not isinstance(links, Tensor) or links.dim() != 2 or links.shape[0] != 2:
            raise LinkError(
                "Give the links to explain as edge_label_index=... of shape [2, num_links]."
            )
        for key, value in kwargs.items():
            size = value.shape[0] if isinstance(value, Tensor) and value.dim() else None
            if size in _sizes(x, edge_index):
                continue
            if isinstance(value, Tensor) and value.dim() and links.shape[1] in value.shape:
                raise LinkError(
                    f"{key} seems to hold a value per link ({list(value.shape)} for "
                    f"{links.shape[1]} links), which cannot be assigned here. Use "
                    "pagelink.PaGELink with forward=callable(model, data, edge_label_index)."
                )
        chosen = links if index is None else links[:, torch.as_tensor(index).view(-1)]
        data, call = _graph_of(x, edge_index, kwargs)
        link_type = self.link_type
        if link_type is None:
            if isinstance(data, HeteroData) or "edge_type" in data:
                raise LinkError("Say by link_type which of the relations is predicted.")
            link_type = _ONLY_RELATION
        ranks = self.model_config.mode == ModelMode.regression
        as_probability = self.model_config.return_type == ModelReturnType.probs
        explainer = PaGELink(
            model, data, link_type, self.settings, self.seed, forward=call,
            output="probability" if as_probability else "logit", threshold=None if ranks else 0.0,
        )  # fmt: skip
        explanations = list(explainer.explain_many(chosen.t().tolist()))
        negatives = sum(each.reason == "predicted_negative" for each in explanations)
        if negatives:
            warnings.warn(
                f"{negatives} of {len(explanations)} links are not predicted by the model, and are "
                "not explained: they add nothing to the edge mask. To explain what a model ranks, "
                "whatever the score, say mode='regression' in the ModelConfig.",
                stacklevel=2,
            )
        result: Explanation | HeteroExplanation
        if isinstance(edge_index, Tensor):
            # The mask of each relation has the length of the one edge_index.
            masks = [each.edge_mask[t] for each in explanations for t in each.edge_mask]
            result = Explanation(edge_mask=_largest(masks, edge_index))
        else:
            result = HeteroExplanation()
            for edge_type, value in edge_index.items():
                masks = [each.edge_mask[edge_type] for each in explanations]
                result[edge_type].edge_mask = _largest(masks, value)
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


def _sizes(x: Any, edge_index: Any) -> set[int]:
    """How long arguments are that a homogeneous graph has per node or per edge."""
    return {len(x), edge_index.shape[1]} if isinstance(x, Tensor) else set()


def _largest(masks: Sequence[npt.NDArray[np.float32]], edge_index: Tensor) -> Tensor:
    mask = torch.zeros(edge_index.shape[1])
    for each in masks:
        mask = torch.maximum(mask, torch.from_numpy(each))
    return mask.to(edge_index.device)


def _graph_of(
    x: Any, edge_index: Any, kwargs: Mapping[str, Any]
) -> tuple[HeteroData | Data, Forward]:
    """Return the arguments of a model as a graph, and how the model is called on a part of it."""
    if isinstance(x, Tensor):
        # What is cut with the nodes and the edges, by its length.
        own = {
            key: value for key, value in kwargs.items()
            if isinstance(value, Tensor) and value.dim() and len(value) in _sizes(x, edge_index)
        }  # fmt: skip
        data = Data(x=x, edge_index=edge_index, num_nodes=len(x), **own)

        def call(model: nn.Module, part: Any, edge_label_index: Tensor) -> Tensor:
            cut = {**kwargs, **{key: part[key] for key in own}}
            output: Tensor = model(
                part.x, part.edge_index, edge_label_index=edge_label_index, **cut
            )
            return output

        return data, call
    graph = HeteroData()
    for node_type, value in x.items():
        graph[node_type].x = value
        graph[node_type].num_nodes = value.shape[0]
    for edge_type, value in edge_index.items():
        graph[edge_type].edge_index = value
    per_type = {key: value for key, value in kwargs.items() if isinstance(value, Mapping)}
    for key, values in per_type.items():
        graph.set_value_dict(key.removesuffix("_dict"), values)

    def call_hetero(model: nn.Module, part: Any, edge_label_index: Tensor) -> Tensor:
        cut = {**kwargs, **{key: part.collect(key.removesuffix("_dict")) for key in per_type}}
        output: Tensor = model(
            part.x_dict, part.edge_index_dict, edge_label_index=edge_label_index, **cut
        )
        return output

    return graph, call_hetero
