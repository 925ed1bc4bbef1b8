"""Links of a relation that the graph holds no edge of, given by its value in `edge_type`."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.nn import RGCNConv

from pagelink import PaGELink, Settings
from pagelink.errors import LinkError


class DistMult(nn.Module):
    """Eight relations, of which messages are passed along three."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.relation = RGCNConv(4, 4, 8), nn.Embedding(8, 4)
        self.asked: set[int] = set()

    def forward(self, data: Data, links: Tensor) -> Tensor:
        self.asked.update(data.edge_label_type.tolist())
        x = self.conv(data.x, data.edge_index, data.edge_type)
        scores: Tensor = (x[links[0]] * self.relation(data.edge_label_type) * x[links[1]]).sum(-1)
        return scores


def knowledge_graph() -> Data:
    made = torch.Generator().manual_seed(0)
    return Data(
        x=torch.randn(12, 4, generator=made),
        edge_index=torch.randint(12, (2, 60), generator=made),
        edge_type=torch.arange(60) % 3,
    )


def explainer(model: DistMult, link_type: Any, **options: Any) -> PaGELink:
    return PaGELink(
        model, knowledge_graph(), link_type, Settings(epochs=2), threshold=None,
        forward=lambda model, data, links: model(data, links), **options,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("link_type", "names", "text"),
    [
        (7, None, "relation 7"),
        ("7", None, "relation 7"),
        ("treats", {7: "treats"}, "treats"),
        (7, {7: "treats"}, "treats"),
    ],
)
def test_the_model_is_asked_about_the_value(link_type: Any, names: Any, text: str) -> None:
    torch.manual_seed(0)
    model = DistMult()
    made = explainer(model, link_type, relation_names=names)
    found = made.explain(1, 2)
    assert model.asked == {7}
    assert f"node 1 {text} node 2" in str(found)
    data = knowledge_graph()
    data.edge_label_type = torch.tensor([7])
    expected = model(data, torch.tensor([[1], [2]])).item()
    assert found.logit_deployed == pytest.approx(expected, abs=1e-5)
    assert made.explain(1, 2, link_type).logit == found.logit


def test_a_negative_value_is_refused() -> None:
    with pytest.raises(LinkError, match="values of edge_type are numbers from 0 up, got -1"):
        explainer(DistMult(), -1)
