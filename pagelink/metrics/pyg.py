"""PyG's two metrics of fidelity, by its names, for heterogeneous explanations, too.

`fidelity` is that of Amara, Ying, Zhang et al., "GraphFramEx" (LoG 2022), `unfaithfulness` that of
Agarwal, Queen, Lakkaraju and Zitnik, "Evaluating Explainability for Graph Neural Networks" (2023).
`torch_geometric.explain.metric` has both for homogeneous explanations only. Here messages of any
layer are weighted, be it kept by edge type or not: `HGTConv` and one convolution for all relations
included. The model is left as it was, also after an error.

Example:
    >>> from torch_geometric.nn import SimpleConv
    >>> from pagelink.explain.pyg import PaGELinkExplainer
    >>> likes, of = ("user", "likes", "tag"), ("tag", "of", "item")
    >>> class SharedTags(torch.nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.conv = SimpleConv("sum")
    ...     def forward(self, x_dict, edge_index_dict, edge_label_index):
    ...         tags = self.conv((x_dict["user"], x_dict["tag"]), edge_index_dict[likes])
    ...         items = self.conv((tags, x_dict["item"]), edge_index_dict[of])
    ...         users, items = x_dict["user"][edge_label_index[0]], items[edge_label_index[1]]
    ...         return (users * items).sum(-1) - 0.5
    >>> explainer = Explainer(
    ...     SharedTags(), PaGELinkExplainer(("user", "buys", "item")), "model",
    ...     {"mode": "binary_classification", "task_level": "edge", "return_type": "raw"},
    ...     edge_mask_type="object",
    ... )
    >>> x_dict = {"user": torch.eye(2), "tag": torch.zeros(2, 2), "item": torch.zeros(2, 2)}
    >>> pairs = torch.tensor([[0, 1], [0, 1]])
    >>> explanation = explainer(
    ...     x_dict, {likes: pairs, of: pairs}, edge_label_index=torch.tensor([[0], [0]])
    ... )
    >>> fidelity(explainer, explanation)
    (1.0, 0.0)
    >>> round(unfaithfulness(explainer, explanation), 3)
    0.004
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch_geometric.explain import Explainer, Explanation, HeteroExplanation, metric
from torch_geometric.explain.config import ExplanationType, ModelMode, ModelReturnType

from pagelink.errors import SettingsError
from pagelink.model.borrowing import Borrowed
from pagelink.model.masking import Tracer, Weighting
from pagelink.runtime.undo import Undo

OWN_KEYS = frozenset({"prediction", "target", "index", "paths", "explanations"})
"""What a `HeteroExplanation` holds beside the arguments of the model."""


def fidelity(
    explainer: Explainer, explanation: Explanation | HeteroExplanation, **kwargs: Any
) -> tuple[float, float]:
    """Return Fidelity+ and Fidelity- of a PyG explanation.

    The share of the explained links whose predicted class is another one without the explanation
    (messages weighted by 1 - mask), and on the explanation alone (weighted by the mask). Of
    phenomenon explanations: whose prediction is no longer right, or no longer wrong.

    Args:
        explainer: a `torch_geometric.explain.Explainer` of binary or multi-class predictions.
        explanation: what it returned.
        kwargs: arguments of the model by type that the explanation does not name as the model does;
            others are taken from the explanation.

    Raises:
        SettingsError: the model is one of regression.
    """
    _refuse_regression(explainer)
    if isinstance(explanation, Explanation):
        found: tuple[float, float] = metric.fidelity(explainer, explanation)
        return found
    run = _weighted(explainer, explanation, kwargs)

    def predicted(weight: Callable[[Tensor], Tensor] | None) -> Tensor:
        return _indexed(explainer.get_target(run(weight)), explanation)

    target = _indexed(explanation.target, explanation)
    without, alone = predicted(lambda mask: 1 - mask), predicted(lambda mask: mask)
    if explainer.explanation_type == ExplanationType.model:
        changed = [(each != target).float().mean() for each in (without, alone)]
    else:
        right = (predicted(None) == target).float()
        changed = [(right - (each == target).float()).abs().mean() for each in (without, alone)]
    return float(changed[0]), float(changed[1])


def unfaithfulness(
    explainer: Explainer, explanation: Explanation | HeteroExplanation, **kwargs: Any
) -> float:
    """Return how far the prediction on the explanation alone is from that on the graph.

    ``1 - exp(-KL(y || y'))``, y and y' being the predicted probabilities on the graph and with
    messages weighted by the mask, averaged over the explained links; 0 is faithful. A logit of a
    binary model is two probabilities, for and against the link.

    Args:
        explainer: as for `fidelity`.
        explanation: the same.
        kwargs: the same.

    Raises:
        SettingsError: the model is one of regression.
    """
    _refuse_regression(explainer)
    if isinstance(explanation, Explanation) and not _is_binary(explainer):
        return float(metric.unfaithfulness(explainer, explanation))
    run = _weighted(explainer, explanation, kwargs)
    before, after = (
        _log_probabilities(explainer, _indexed(run(weight), explanation))
        for weight in (None, lambda mask: mask)
    )
    divergence = functional.kl_div(after, before, log_target=True, reduction="batchmean")
    return 1 - math.exp(-float(divergence))


def _refuse_regression(explainer: Explainer) -> None:
    if explainer.model_config.mode == ModelMode.regression:
        raise SettingsError(
            "Fidelity is about predicted classes: give the model as one of "
            "mode='binary_classification', or measure by pagelink.metrics.effect."
        )


def _is_binary(explainer: Explainer) -> bool:
    return bool(explainer.model_config.mode == ModelMode.binary_classification)


def _indexed(values: Tensor, explanation: Any) -> Tensor:
    index = explanation.get("index") if isinstance(explanation, Explanation) else None
    if isinstance(explanation, HeteroExplanation) and "index" in explanation._global_store:
        index = explanation._global_store["index"]
    return values if index is None else values[index]


def _log_probabilities(explainer: Explainer, output: Tensor) -> Tensor:
    kind = explainer.model_config.return_type
    if not _is_binary(explainer):
        if kind == ModelReturnType.raw:
            return output.log_softmax(dim=-1)
        return output if kind == ModelReturnType.log_probs else output.log()
    logits = output.view(-1) if kind == ModelReturnType.raw else torch.logit(output.view(-1), 1e-7)
    return torch.stack([functional.logsigmoid(logits), functional.logsigmoid(-logits)], dim=-1)


Run = Callable[[Callable[[Tensor], Tensor] | None], Tensor]


def _weighted(
    explainer: Explainer, explanation: Explanation | HeteroExplanation, given: dict[str, Any]
) -> Run:
    """Return the model's output as a function of how masks become weights; None: of no weights."""
    model = explainer.model
    if isinstance(explanation, HeteroExplanation):
        arguments = {k: v for k, v in explanation._global_store.items() if k not in OWN_KEYS}
        x, edges = explanation.x_dict, dict(explanation.edge_index_dict)
        masks = explanation.collect("edge_mask", True)
        node_masks = explanation.collect("node_mask", True)
    else:
        arguments = {key: explanation[key] for key in explanation._model_args}
        x, edges = {"": explanation.x}, {"": explanation.edge_index}
        masks = {"": explanation.edge_mask} if explanation.get("edge_mask") is not None else {}
        given_nodes = explanation.get("node_mask")
        node_masks = {} if given_nodes is None else {"": given_nodes}
    arguments |= given

    def called(x: dict[Any, Tensor], edges: dict[Any, Any]) -> Tensor:
        is_one = isinstance(explanation, Explanation)
        both = (x[""], edges[""]) if is_one else (x, edges)
        output: Tensor = model(*both, **arguments)
        return output

    def run(weight: Callable[[Tensor], Tensor] | None) -> Tensor:
        if weight is None:
            return _without_gradients(model, lambda undo: None, lambda: called(x, edges))
        # Which message belongs to which edge is noted in one pass, and used in the next.
        tracer = Tracer()
        traced = dict(zip(edges, tracer.trace([*edges.values()]), strict=True))
        _without_gradients(
            model, lambda undo: tracer.listen(model, undo), lambda: called(x, traced)
        )
        weights = torch.cat([
            weight(masks[t].float()) if t in masks else torch.ones(e.shape[1], device=e.device)
            for t, e in edges.items()
        ])  # fmt: skip
        seen = {t: v * weight(node_masks[t]) if t in node_masks else v for t, v in x.items()}
        weighting = Weighting(tracer.calls)
        weighting.set(weights)
        return _without_gradients(
            model, lambda undo: weighting.attach(model, undo), lambda: called(seen, edges)
        )

    return run


def _without_gradients(
    model: Any, prepare: Callable[[Undo], None], call: Callable[[], Tensor]
) -> Tensor:
    def ready(undo: Undo) -> None:
        torch.set_grad_enabled(False)
        prepare(undo)

    with Borrowed(model, ready):
        return call()
