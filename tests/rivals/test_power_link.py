"""Power-Link whole: its loss against powers of a matrix, its network, and what it learns."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from pagelink import Settings
from pagelink.datasets.planted import LINK_TYPE, plant
from pagelink.rivals.edge_vectors import EdgeVectors
from pagelink.rivals.power_link import TripletEdgeScorer, power_loss
from pagelink.rivals.registry import make_rival


def released_loss(mask: Tensor, adjacency: Tensor, src: int, dst: int, order: int) -> Tensor:
    """-log P_on as the released code computes it, row by row."""
    weighted, plain = mask[src][None], adjacency[src][None]
    total = torch.zeros(())
    for i in range(order - 1):
        weighted, plain = weighted @ mask, plain @ adjacency
        if plain[0, dst] > 0:
            total = total + (weighted[0, dst] / plain[0, dst]) ** (1 / (i + 2))
    return -(total / (order - 1)).log()


@pytest.mark.parametrize("order", [2, 3, 4])
def test_the_loss_is_that_of_matrix_powers(order: int) -> None:
    generator = torch.Generator().manual_seed(order)
    # No edge into the first node or out of the last: no walk passes through the ends.
    adjacency = (torch.rand(6, 6, generator=generator) < 0.6).double()
    adjacency[:, 0] = adjacency[5] = 0
    mask = (adjacency * torch.rand(6, 6, generator=generator)).requires_grad_()
    expected = released_loss(mask, adjacency, 0, 5, order)
    weights, counts = [], []
    for length in range(1, 5):
        weights.append(torch.linalg.matrix_power(mask, length)[0, 5])
        counts.append(torch.linalg.matrix_power(adjacency, length)[0, 5])
    number = torch.stack(counts)
    summed = torch.where(number > 0, torch.stack(weights), 1.0).log()  # 1: not looked at
    found = power_loss(summed[None], number.log()[None], order)
    assert found.tolist() == pytest.approx([expected.item()])
    ours, theirs = (torch.autograd.grad(each.sum(), mask)[0] for each in (found, expected))
    assert torch.allclose(ours * adjacency, theirs * adjacency)


def test_a_link_without_walks_has_no_loss_and_no_gradient() -> None:
    weights = torch.tensor([[0.0, -math.inf], [0.0, -1.0]], requires_grad=True)
    counts = torch.tensor([[0.0, -math.inf], [0.0, 0.0]])
    loss = power_loss(weights, counts, 2)
    assert loss.tolist() == pytest.approx([0.0, 0.5])
    (gradient,) = torch.autograd.grad(loss.sum(), weights)
    assert torch.isfinite(gradient).all()


def test_the_network_is_three_layers_of_the_six_vectors() -> None:
    generator = torch.Generator().manual_seed(0)
    vectors = {
        0: EdgeVectors(np.array([4, 7]), torch.rand(2, 3), torch.rand(2, 5)),
        2: EdgeVectors(np.array([1]), torch.rand(1, 4), torch.rand(1, 2)),
    }
    query = torch.rand(6)
    scorer = TripletEdgeScorer(vectors, query, 8, generator)
    assert scorer.slots.tolist() == [4, 7, 1]
    a, b, name = scorer._first[0]
    second, bias, last, last_bias = scorer._rest
    whole = torch.cat([vectors[0].sent[1], vectors[0].heard[1], torch.ones(1), query])
    first = torch.cat([a, b, name, scorer._of_query])
    expected = ((whole @ first).relu() @ second + bias[0]).relu() @ last + last_bias[0]
    assert scorer.logits()[1].item() == pytest.approx(expected.item(), abs=1e-6)
    assert len(scorer.parameters()) == 2 * 3 + 1 + 4


def test_its_path_loss_raises_walks_whether_the_model_uses_them_or_not() -> None:
    planted = plant("one_metapath", num_links=4, seed=0)
    explainer = make_rival(
        "power-link", planted.model, planted.data, LINK_TYPE, Settings(measure=False), 0,
        options={"learning_rate": 0.02},
    )  # fmt: skip
    for answer in explainer.explain_many(planted.pairs):
        masks = [edge.mask for path in answer.paths for edge in path.edges]
        assert min(masks) > 0.99
