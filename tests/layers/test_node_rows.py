"""Vectors of nodes that are computed when they are looked at: the same numbers, fewer rows."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from support.zoo import LINK_TYPE, ZOO, links_of, make_case, make_graph
from torch import Tensor, nn
from torch_geometric.nn import HeteroConv, SAGEConv

from pagelink import PaGELink
from pagelink.layers.node_rows import NodeRows, RowsError

SPARES = {
    "HeteroConv SAGE", "HeteroConv GraphConv", "one conv for all relations", "to_hetero",
    "embedding by n_id", "cosine head", "MLP head", "probability",
}  # fmt: skip
"""Models of which it is known that they can do without rows that nothing looks at."""


def given(count: int = 6) -> tuple[Tensor, NodeRows]:
    plain = torch.arange(2.0 * count).view(count, 2) - 5
    return plain, NodeRows.given(plain, (1, 3, count))


def made_of(rows: NodeRows) -> int:
    """The number of rows that were computed."""
    return rows.cell._count


OPERATIONS: dict[str, Any] = {
    "linear": lambda x: F.linear(x, torch.tensor([[1.0, 2.0], [0.5, -1.0], [3.0, 0.0]])),
    "sum with itself": lambda x: x + x.relu() * 2 - 1,
    "by a vector": lambda x: x / torch.tensor([2.0, 4.0]),
    "by a column": lambda x: torch.arange(6.0).view(6, 1) * x,
    "matrix": lambda x: x @ torch.tensor([[1.0, 2.0], [0.5, -1.0]]),
    "stacked": lambda x: torch.stack([x, 2 * x, -x], dim=0).sum(dim=0),
    "side by side": lambda x: torch.cat([x, x.tanh()], dim=-1),
    "normalised": lambda x: F.normalize(F.layer_norm(x, (2,)), dim=-1),
    "softmax": lambda x: torch.softmax(x, dim=-1),
    "in eval": lambda x: F.dropout(F.batch_norm(x, torch.ones(2), torch.ones(2)), 0.5, False),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_operations_row_by_row_are_put_off(name: str) -> None:
    plain, rows = given()
    wanted, found = OPERATIONS[name](plain), OPERATIONS[name](rows)
    assert isinstance(found, NodeRows)
    assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype)
    assert made_of(found) == 0
    index = torch.tensor([1, 0])
    torch.testing.assert_close(found[index], wanted[index])
    assert made_of(found) == 3  # the ring that has row 1
    torch.testing.assert_close(found.whole(), wanted)


def test_embeddings_are_looked_up_when_they_are_needed() -> None:
    ids, table = torch.tensor([3, 1, 0, 2]), torch.arange(20.0).view(4, 5)
    found = F.embedding(NodeRows.given(ids, (1, 4)), table)
    assert (found.shape, made_of(found)) == ((4, 5), 0)
    torch.testing.assert_close(found[torch.tensor([0])], table[3:4])
    assert made_of(found) == 1
    torch.testing.assert_close(found.whole(), table[ids])


@pytest.mark.parametrize(
    "operation",
    [
        lambda x: x.mean(dim=0), lambda x: x - x.mean(), lambda x: torch.softmax(x, dim=0),
        lambda x: x.flip(0), lambda x: x.t(), lambda x: x[2:4], lambda x: x[-1], lambda x: x.sum(),
        lambda x: torch.cat([x, x], dim=0), lambda x: x[torch.tensor([-1])], lambda x: x.T,
        lambda x: F.normalize(x, dim=0), lambda x: x.index_select(1, torch.tensor([0])),
        lambda x: torch.stack([x, x], dim=0).max(dim=0).values, lambda x: x.view(-1),
        lambda x: x + torch.ones(3, 6, 2),
    ],
)  # fmt: skip
def test_any_other_operation_gets_all_rows(operation: Any) -> None:
    plain, rows = given()
    found = operation(rows)
    found = found.whole() if isinstance(found, NodeRows) else found
    assert type(found) is Tensor
    torch.testing.assert_close(found, operation(plain))


def test_what_was_made_before_a_change_in_place_keeps_its_numbers() -> None:
    plain, rows = given()
    earlier, wanted = rows * 3, plain * 3
    rows += 1
    rows.relu_()
    torch.testing.assert_close(rows.whole(), (plain + 1).relu())
    torch.testing.assert_close(earlier.whole(), wanted)
    assert float(plain[0, 0]) == -5  # what was given stays as it is


@pytest.mark.parametrize(
    "change",
    [
        lambda x: x.clamp_(0), lambda x: x.__setitem__(0, 1.0), lambda x: x.copy_(x + 1),
        lambda x: x.index_add_(0, torch.tensor([0]), torch.ones(1, 2)),
        lambda x: torch.add(x, 1, out=torch.empty(6, 2)),
        lambda x: x.__ipow__(2),
    ],
)  # fmt: skip
def test_other_changes_in_place_are_refused(change: Any) -> None:
    with pytest.raises(RowsError, match="in place"):
        change(given()[1])


def test_linear_maps_of_longer_and_shorter_shapes() -> None:
    weight = torch.tensor([[1.0, 2.0], [0.5, -1.0], [3.0, 0.0]])
    heads = torch.arange(24.0).view(6, 2, 2)
    found = F.linear(NodeRows.given(heads, (1, 6)), weight)
    assert found.shape == (6, 2, 3)
    torch.testing.assert_close(found[torch.tensor([0])], F.linear(heads, weight)[:1])
    numbers = torch.arange(2.0)  # a single row of two columns, not two rows
    torch.testing.assert_close(
        F.linear(NodeRows.given(numbers, (1, 2)), weight), F.linear(numbers, weight)
    )


def test_gradients_go_through() -> None:
    plain = torch.randn(5, 2, generator=torch.Generator().manual_seed(0)).requires_grad_()
    rows = NodeRows.given(plain, (2, 5))
    ((rows * rows).relu() + 1)[torch.tensor([1])].sum().backward()
    assert plain.grad is not None
    torch.testing.assert_close(plain.grad[1], 2 * plain[1].detach())
    assert not plain.grad[2:].any()


def test_what_is_not_followed_is_refused() -> None:
    _, rows = given()
    with pytest.raises(RowsError, match="not followed"), torch._C.DisableTorchFunctionSubclass():
        torch.add(rows, 1)


def test_tensors_say_what_they_are_without_computing_a_row() -> None:
    rows = given()[1] * 2
    assert (len(rows), rows.size(1), rows.dim(), rows.numel()) == (6, 2, 2, 12)
    assert rows.new_zeros(3).shape == (3,)
    assert rows.is_floating_point()
    assert made_of(rows) == 0
    with pytest.raises(IndexError):
        rows[torch.tensor([6])]


@pytest.mark.filterwarnings("ignore:The type .* contains invalid characters:UserWarning")
@pytest.mark.parametrize("name", ZOO)
def test_scores_and_gradients_are_those_of_all_rows(name: str) -> None:
    case = make_case(name)
    options = {"threshold": None} | case.options
    explainer = PaGELink(case.model, case.data, case.link_type, **options)
    predictor = explainer.pipeline.setup.predictor
    assert predictor.by_rows or name not in SPARES
    predictor.least_spared = 1
    links = links_of(case)
    spared = list(explainer.explain_many(links))
    predictor.by_rows = False
    for one, other in zip(spared, explainer.explain_many(links), strict=True):
        assert [path.nodes for path in one.paths] == [path.nodes for path in other.paths]
        assert one.reason == other.reason
        if one.logit is not None:
            assert one.logit == pytest.approx(other.logit, abs=1e-5)
        for key, mask in one.edge_mask.items():
            torch.testing.assert_close(mask, other.edge_mask[key], atol=1e-4, rtol=0)


class _Doubled(torch.autograd.Function):
    """Its gradient is not that of what it computes, as in straight-through estimators."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return 2 * x

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        return 3 * gradients[0]


class _OwnGradient(nn.Module):
    """Doubles the vectors between its layers by a function with a gradient of its own."""

    def __init__(self, data: Any) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            HeteroConv({t: SAGEConv((8, 8), 8) for t in data.edge_types}) for _ in range(2)
        )

    def forward(self, x_dict: Any, edge_index_dict: Any, edge_label_index: Tensor) -> Tensor:
        hidden = {t: _Doubled.apply(x) for t, x in self.layers[0](x_dict, edge_index_dict).items()}  # type: ignore[no-untyped-call]
        out = self.layers[1](hidden, edge_index_dict)
        src, dst = (out[t][i] for t, i in zip(LINK_TYPE[::2], edge_label_index, strict=True))
        return (src * dst).sum(-1)


def test_a_model_that_cannot_spare_rows_keeps_them() -> None:
    data = make_graph()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = _OwnGradient(data)
    explainer = PaGELink(model, data, LINK_TYPE, threshold=None)
    assert not explainer.pipeline.setup.predictor.by_rows
