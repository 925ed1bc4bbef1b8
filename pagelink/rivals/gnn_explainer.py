"""PyTorch Geometric's own GNNExplainer, on the graph of a link alone.

It reaches only convolutions that are kept by relation, as RGCN and SAGE of this package keep them,
and learns over all edges it is given. So it gets of the graph no more than the edges that can move
the score of the link: that is as fast as it can be. What it returns is the facts of the highest
masks; the mask of a fact is the larger of those of its two edges.
"""

from __future__ import annotations

import copy

import numpy as np
import torch
from torch import Tensor, nn
from torch_geometric.explain import Explainer, GNNExplainer
from torch_geometric.nn import MessagePassing
from torch_geometric.nn.module_dict import ModuleDict

from pagelink.errors import ModelError
from pagelink.graph.schema import EdgeType
from pagelink.models.link_model import LinkModel
from pagelink.rivals.facts import FactSets, VisibleFacts
from pagelink.rivals.ground import Ground
from pagelink.runtime.arrays import Doubles, Longs

EPOCHS = 100


class ByRelation(nn.Module):
    """A copy of a model whose messages PyG's explainers can mask, by relation.

    Args:
        model: its layers must have one convolution per relation, such as those of RGCN and SAGE.

    Raises:
        ModelError: they have not.
    """

    def __init__(self, model: LinkModel) -> None:
        super().__init__()
        self.model = copy.deepcopy(model).requires_grad_(False).eval()
        for layer in self.model.layers:
            convs = getattr(layer, "relations", None)
            if not isinstance(convs, ModuleDict) or len(convs) != len(model.edge_types):
                raise ModelError(
                    f"GNNExplainer reaches only layers with a convolution for each relation, and "
                    f"{type(layer).__name__} has none. Use an RGCN or a SAGE model."
                )
            for conv in convs.values():
                # PyG masks messages in the plain propagate that a class had before it was compiled.
                # A subclass of a layer that was compiled before remembers the compiled one instead.
                type(conv)._orig_propagate = MessagePassing.propagate

    def forward(
        self,
        x_dict: dict[str, Tensor],
        edge_index_dict: dict[EdgeType, Tensor],
        edge_label_index: Tensor,
    ) -> Tensor:
        """Return the logits of the links; ids of nodes come as a column, as PyG wants them."""
        inputs = {t: x if x.is_floating_point() else x.view(-1) for t, x in x_dict.items()}
        logits: Tensor = self.model(inputs, edge_index_dict, edge_label_index)
        return logits


class TrimmedLink:
    """A link with the edges that can move its score, its nodes counted anew.

    Args:
        ground: the links.
        link: which of them.
        x_dict: the inputs of all nodes, by node type.
    """

    def __init__(self, ground: Ground, link: int, x_dict: dict[str, Tensor]) -> None:
        graph, batch = ground.explainer.graph, ground.batch
        first, last = batch.edge_ptr[link : link + 2].tolist()
        slots = first + np.flatnonzero(ground.whole[first:last])
        edges = batch.edges[slots]
        ends = np.array([ground.links[link].src, ground.links[link].dst])
        nodes = np.unique(np.concatenate([graph.src[edges], graph.dst[edges], ends]))
        kind = graph.node_type_of[nodes]
        # Flat nodes are in the order of their types.
        place: Longs = np.arange(len(nodes)) - np.searchsorted(kind, kind)
        self.x_dict: dict[str, Tensor] = {}
        for position in np.unique(kind).tolist():
            node_type = graph.node_types[position]
            mine = torch.from_numpy(nodes[kind == position] - graph.node_offset[position])
            x = x_dict[node_type][mine.long()]
            self.x_dict[node_type] = x if x.dim() > 1 else x.view(-1, 1)

        def numbers(flat: Longs) -> Longs:
            found: Longs = place[np.searchsorted(nodes, flat)]
            return found

        self.edge_index_dict: dict[EdgeType, Tensor] = {}
        self.slots: dict[EdgeType, Longs] = {}
        """Per relation, its edges by position in the batch, in the order of `edge_index_dict`."""
        relation = graph.relation[edges]
        for position in np.unique(relation).tolist():
            mine = relation == position
            pairs = np.stack([numbers(graph.src[edges[mine]]), numbers(graph.dst[edges[mine]])])
            self.edge_index_dict[graph.edge_types[position]] = torch.from_numpy(pairs)
            self.slots[graph.edge_types[position]] = slots[mine]
        self.edge_label_index = torch.from_numpy(numbers(ends)).view(2, 1)


def facts_by_gnn_explainer(
    ground: Ground,
    model: ByRelation,
    x_dict: dict[str, Tensor],
    most: int,
    seed: int,
    epochs: int = EPOCHS,
    entropy: bool = True,
) -> FactSets:
    """The facts of the highest masks that GNNExplainer learns, link by link.

    Args:
        ground: the links.
        model: the model of the ground.
        x_dict: its inputs of all nodes, by node type.
        most: number of facts.
        seed: of the first masks.
        epochs: steps of learning.
        entropy: with the term that draws masks to 0 or 1, as it comes.
    """
    visible = VisibleFacts.of(ground)
    masks = np.zeros(len(ground.batch.edges))
    for number, link in enumerate(ground.links):
        trimmed = TrimmedLink(ground, number, x_dict)
        if trimmed.slots:  # it fails without any edge
            own_seed = int(np.random.default_rng((seed, link.src, link.dst)).integers(2**31))
            for edge_type, mask in learned_masks(model, trimmed, own_seed, epochs, entropy).items():
                masks[trimmed.slots[edge_type]] = mask
    of_facts = np.maximum.reduceat(masks[visible.slots.values], visible.slots.ptr[:-1])
    return visible.highest(of_facts, most)


def learned_masks(
    model: ByRelation, link: TrimmedLink, seed: int, epochs: int, entropy: bool = True
) -> dict[EdgeType, Doubles]:
    """The edge masks of GNNExplainer with the settings it comes with, by relation."""
    weights = {} if entropy else {"edge_ent": 0.0}
    explainer = Explainer(
        model, algorithm=GNNExplainer(epochs=epochs, **weights), explanation_type="model",
        edge_mask_type="object",
        model_config={
            "mode": "binary_classification", "task_level": "edge", "return_type": "raw"
        },
    )  # fmt: skip
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        found = explainer(link.x_dict, link.edge_index_dict, edge_label_index=link.edge_label_index)
    masks: dict[EdgeType, Tensor] = found.edge_mask_dict
    return {edge_type: mask.double().numpy() for edge_type, mask in masks.items()}
