from __future__ import annotations

import numpy as np
import pytest
import torch
from support.zoo import DIM, ZOO, Case, Homogeneous, make_case, make_homogeneous
from torch import Tensor
from torch_geometric.nn import GATConv, MessagePassing

from pagelink.errors import ModelError
from pagelink.graph.typed_graph import TypedGraph
from pagelink.model.model_checks import inspect_model
from pagelink.model.patch import EXAMPLES, _examples
from pagelink.model.predictor import LinkPredictor

HOMOGENEOUS = (
    "RGCN", "FastRGCN", "FiLM relational", "GCN with self-loops", "hand-written",
    "DistMult per link",
)  # fmt: skip
"""A store holds heterogeneous graphs only."""


def predictor_of(case: Case) -> LinkPredictor:
    options = {key: case.options[key] for key in ("forward", "output") if key in case.options}
    graph = TypedGraph.from_data(case.data, [case.link_type])
    return LinkPredictor(case.model, case.data, graph, **options)


@pytest.mark.filterwarnings("ignore:The type:UserWarning")
@pytest.mark.parametrize("name", [name for name in ZOO if name not in HOMOGENEOUS])
def test_a_patch_tells_of_a_model_what_the_whole_graph_does(name: str) -> None:
    case = make_case(name)
    whole, part = predictor_of(case), predictor_of(case)
    expected = inspect_model(whole, [case.link_type], 0)
    if expected.mode != "subgraphs":
        with pytest.raises(ModelError, match="needs all nodes"):
            inspect_model(part, [case.link_type], 0, on_patch=True)
        return
    found = inspect_model(part, [case.link_type], 0, on_patch=True)
    assert (found.mode, found.num_hops) == (expected.mode, expected.num_hops)
    assert found.seen_relations.tolist() == expected.seen_relations.tolist()
    assert found.along_relations.tolist() == expected.along_relations.tolist()
    for flag in ("mode", "shares_rim", "shares_unedited", "fuses"):
        assert getattr(part, flag) == getattr(whole, flag)


def test_a_rare_relation_is_found_without_looking_through_all_edges() -> None:
    case = make_case(next(name for name in ZOO if name not in HOMOGENEOUS))
    graph = predictor_of(case).graph
    edges = np.unique(np.concatenate(_examples(graph, np.empty(0, dtype=np.int64))))
    found = np.bincount(graph.relation[edges], minlength=len(graph.edge_counts))
    assert found.tolist() == [min(count, EXAMPLES) for count in graph.edge_counts]


def test_attention_over_self_loops_passes_nothing_outside_of_its_layer() -> None:
    # Its softmax tells a self-loop of the other edges, however small their weights are.
    case = Case(
        Homogeneous(lambda: GATConv(DIM, DIM)), make_homogeneous(), ("node", "likes", "node")
    )
    found = inspect_model(predictor_of(case), [case.link_type], 0)
    assert (found.mode, found.num_hops) == ("subgraphs", 2)


class Normalised(MessagePassing):
    """A mean by the sum of what comes in, which is no number where all weights are 0."""

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        total = self.propagate(edge_index, x=torch.cat([x, torch.ones_like(x[:, :1])], dim=-1))
        mean = total[:, :-1] / total[:, -1:]
        reached = torch.bincount(edge_index[1], minlength=len(x))[:, None] > 0
        return torch.where(reached, mean, torch.zeros_like(mean))


def test_no_score_at_weight_0_is_no_message_outside_of_a_layer() -> None:
    case = Case(Homogeneous(Normalised), make_homogeneous(), ("node", "likes", "node"))
    assert inspect_model(predictor_of(case), [case.link_type], 0).mode == "subgraphs"
