from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor, nn

from pagelink.models.row_adam import RowAdam
from pagelink.runtime.undo import Undo


class Table(nn.Module):
    """An embedding and a weight of all rows."""

    def __init__(self) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.table = nn.Embedding.from_pretrained(
            torch.randn(6, 4, generator=generator), freeze=False
        )
        self.weight = nn.Parameter(torch.ones(4))

    def forward(self, rows: Tensor) -> Tensor:
        return (self.table(rows) * self.weight).square().sum()


@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
def test_where_every_row_is_read_it_is_adam(weight_decay: float) -> None:
    one = Table()
    other = copy.deepcopy(one)
    adam = torch.optim.Adam(other.parameters(), lr=0.1, weight_decay=weight_decay)
    rows = torch.tensor([3, 1, 0, 2, 5, 4])
    with Undo() as undo:
        by_row = RowAdam(one, 0.1, weight_decay, True, undo)
        for _ in range(5):
            for model, optimizer in ((one, by_row), (other, adam)):
                optimizer.zero_grad()
                model(rows).backward()
                optimizer.step()
    for mine, theirs in zip(one.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(mine, theirs)


def test_rows_that_are_not_read_stay_and_repeated_ones_count_together() -> None:
    model = Table()
    before = model.table.weight.detach().clone()
    other = copy.deepcopy(model)
    sparse = torch.optim.SparseAdam([other.table.weight], lr=0.1)
    other.table.sparse = True
    with Undo() as undo:
        by_row = RowAdam(model, 0.1, 0.0, False, undo)
        for rows in (torch.tensor([1, 1, 4]), torch.tensor([4]), torch.tensor([0, 4, 4])):
            by_row.zero_grad()
            sparse.zero_grad()
            model(rows).backward()
            other.weight.data = model.weight.data.clone()
            other(rows).backward()
            by_row.step()
            sparse.step()
    torch.testing.assert_close(model.table.weight, other.table.weight)
    assert torch.equal(model.table.weight[[2, 3, 5]], before[[2, 3, 5]])
    assert not torch.equal(model.table.weight[4], before[4])
    assert not model.table.sparse  # as it was
