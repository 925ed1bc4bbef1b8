from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor
from torch_geometric.data import HeteroData

from pagelink.graph.schema import EdgeType
from pagelink.models import MODELS, make_model, node_inputs
from pagelink.models.messages import Adjacency, adjacencies

LIKES: EdgeType = ("user", "likes", "item")


def random_relation(num_src: int, num_dst: int, count: int) -> Tensor:
    rng = np.random.default_rng(0)
    return torch.from_numpy(np.stack([rng.integers(num_src, size=count),
                                      rng.integers(num_dst, size=count)]))  # fmt: skip


def by_hand(edge_index: Tensor, x: Tensor, num_dst: int) -> Tensor:
    rows = []
    for v in range(num_dst):
        into = x[edge_index[0, edge_index[1] == v]]
        rows.append(into.mean(dim=0) if len(into) else torch.zeros(x.shape[1], dtype=x.dtype))
    return torch.stack(rows)


@pytest.mark.parametrize(("num_src", "num_dst", "count"), [(5, 9, 20), (9, 5, 20), (4, 3, 0)])
def test_means_and_their_gradients(num_src: int, num_dst: int, count: int) -> None:
    edge_index = random_relation(num_src, num_dst, count)  # with repeated edges
    adjacency = Adjacency.of_edges(edge_index, num_src, num_dst)
    generator = torch.Generator().manual_seed(0)
    x, weight = (
        torch.randn(size, 3, generator=generator, dtype=torch.double, requires_grad=True)
        for size in (num_src, 4)
    )
    bias = torch.randn(4, generator=generator, dtype=torch.double, requires_grad=True)
    torch.testing.assert_close(adjacency.mean(x), by_hand(edge_index, x, num_dst))
    mapped = by_hand(edge_index, x @ weight.T + bias, num_dst)
    torch.testing.assert_close(adjacency.mean_mapped(x, weight, bias), mapped)
    unbiased = by_hand(edge_index, x @ weight.T, num_dst)
    torch.testing.assert_close(adjacency.mean_mapped(x, weight), unbiased)
    assert torch.autograd.gradcheck(adjacency.mean_mapped, (x, weight, bias))


def test_there_may_be_no_nodes() -> None:
    none = torch.empty(2, 0, dtype=torch.long)
    assert Adjacency.of_edges(none, 0, 3).mean(torch.ones(0, 2)).tolist() == [[0.0, 0.0]] * 3
    assert Adjacency.of_edges(none, 3, 0).mean(torch.ones(3, 2)).shape == (0, 2)


@pytest.mark.parametrize("kind", [kind for kind, model in MODELS.items() if model.takes_adjacency])
def test_models_compute_the_same_with_adjacencies(kind: str) -> None:
    data = HeteroData()
    data["user"].num_nodes, data["item"].num_nodes = 9, 5
    for relation in ("buys", "views"):
        data["user", relation, "item"].edge_index = random_relation(9, 5, 15)
    data["item", "bought_by", "user"].edge_index = random_relation(5, 9, 15)
    model = make_model(kind, data, LIKES, paper_split=True, hidden=8)
    pairs = torch.cartesian_prod(torch.arange(9), torch.arange(5)).T
    x_dict = node_inputs(data)
    fast = model(x_dict, adjacencies(x_dict, data.edge_index_dict), pairs)
    gradients = torch.autograd.grad(fast.square().sum(), list(model.parameters()))
    slow = model(x_dict, data.edge_index_dict, pairs)
    wanted = torch.autograd.grad(slow.square().sum(), list(model.parameters()))
    torch.testing.assert_close(fast, slow)
    torch.testing.assert_close(gradients, wanted, rtol=1e-4, atol=1e-4)
