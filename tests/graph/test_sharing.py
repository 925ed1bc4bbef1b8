"""What links of a batch share: it changes no score, and is not shared where it would."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import torch
from support.zoo import ZOO, make_case, shared_case
from torch import Tensor, nn
from torch_geometric.data import HeteroData
from torch_geometric.nn import MessagePassing
from torch_geometric.utils import degree

from pagelink import PaGELink, Settings

LINK_TYPE = ("user", "likes", "item")


def reviews(users: int = 40, items: int = 30, count: int = 400) -> HeteroData:
    """Each review is by one user and about one item."""
    generator = torch.Generator().manual_seed(0)
    data = HeteroData()
    for kind, size in (("user", users), ("item", items), ("review", count)):
        data[kind].x = torch.randn(size, 8, generator=generator)
    for kind, size in (("user", users), ("item", items)):
        ends = torch.stack([
            torch.arange(count), torch.randint(0, size, (count,), generator=generator)
        ])  # fmt: skip
        data["review", f"of_{kind}", kind].edge_index = ends
        data[kind, f"rev_of_{kind}", "review"].edge_index = ends.flip(0)
    return data


class BySource(MessagePassing):
    """Every source shares its vector among the edges that leave it."""

    def __init__(self) -> None:
        super().__init__(aggr="add")

    def forward(self, x: tuple[Tensor, Tensor], edge_index: Tensor) -> Tensor:
        share = 1 / degree(edge_index[0], x[0].shape[0]).clamp(min=1)
        out: Tensor = self.propagate(edge_index, x=(x[0] * share[:, None], x[1]))
        return out

    def message(self, x_j: Tensor) -> Tensor:
        return x_j


class OutDegrees(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = BySource()

    def forward(self, x_dict: Any, edge_index_dict: Any, links: Tensor) -> Tensor:
        z = {
            kind: self.conv(
                (x_dict["review"], x_dict[kind]), edge_index_dict["review", f"of_{kind}", kind]
            )
            for kind in ("user", "item")
        }
        return (z["user"][links[0]] * z["item"][links[1]]).sum(-1)


def test_a_model_that_counts_the_edges_that_leave_a_node() -> None:
    explainer = PaGELink(OutDegrees(), reviews(), LINK_TYPE, Settings(epochs=2), threshold=None)
    assert not explainer.predictor.shares_rim
    links = [(3, item) for item in range(6)]
    alone = [explainer.explain(*link).logit for link in links]
    together = [answer.logit for answer in explainer.explain_many(links)]
    assert together == pytest.approx(alone, abs=1e-4)


@pytest.mark.filterwarnings("ignore:The type '")
@pytest.mark.parametrize("name", ZOO)
def test_usual_models_share(name: str) -> None:
    predictor = shared_case(name)[1].predictor
    assert predictor.fuses
    assert predictor.shares_rim
    assert predictor.shares_unedited == (name != "LightGCN")


def test_several_threads_may_explain_with_one_explainer() -> None:
    case = make_case("HeteroConv SAGE")
    case.model.train()
    explainer = PaGELink(case.model, case.data, case.link_type, Settings(epochs=3), threshold=None)
    links = [(user, user % 7) for user in range(12)]
    expected = [answer.logit for answer in explainer.explain_many(links)]
    found: dict[int, Any] = {}

    def work(first: int) -> None:
        for i in range(first, len(links), 4):
            found[i] = explainer.explain(*links[i])

    threads = [threading.Thread(target=work, args=(first,)) for first in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [found[i].logit for i in range(len(links))] == pytest.approx(expected, abs=1e-5)
    assert case.model.training
    assert all(parameter.requires_grad for parameter in case.model.parameters())
