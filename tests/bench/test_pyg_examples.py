"""Models of example files: only their classes are taken, and they are explained as they are."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch_geometric.data import HeteroData

from pagelink.bench import pyg_examples
from pagelink.bench.pyg_examples import EXAMPLES, Example, classes_of, run_example
from pagelink.datasets.folders import DataNotFoundError
from pagelink.errors import PageLinkError

FILE = """
import a_module_for_plots
import torch
from torch_geometric.nn import SAGEConv, to_hetero

raise SystemExit("the loop over epochs")

class Encoder(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = SAGEConv((-1, -1), 4)

    def forward(self, x, edge_index):
        return self.conv(x, edge_index).relu()

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = to_hetero(Encoder(), data.metadata())

    def forward(self, x_dict, edge_index_dict, edge_label_index):
        x_dict["user"] = x_dict["user"] + 1
        z = self.encoder(x_dict, edge_index_dict)
        src, dst = edge_label_index
        return (z["user"][src] * z["item"][dst]).sum(-1)
"""
BUYS = ("user", "buys", "item")


def shop() -> HeteroData:
    random = torch.Generator().manual_seed(0)
    data = HeteroData()
    data["user"].x, data["item"].x = (torch.rand(12, 3, generator=random) for _ in range(2))
    edges = torch.randint(12, (2, 40), generator=random).unique(dim=1)
    data[BUYS].edge_index = edges
    data["item", "rev_buys", "user"].edge_index = edges.flip(0)
    return data


def by_keywords(model, data, links):  # type: ignore[no-untyped-def]
    return model(data.x_dict, data.edge_index_dict, edge_label_index=links)


@pytest.mark.parametrize("forward", [None, by_keywords])
def test_classes_of_a_file_are_explained_unchanged(tmp_path: Path, forward: object) -> None:
    (tmp_path / "shop.py").write_text(FILE)
    example = Example(
        "shop.py",
        "SAGE",
        shop,
        lambda of, data: of.Model(),
        BUYS,
        forward,
        steps=3,  # type: ignore[arg-type]
    )
    found = run_example(example, tmp_path, 4)
    assert found["lines"] == (2 if forward is None else 4)
    assert (found["mode"], found["hops"], found["links"]) == ("subgraphs", 1, 4)
    state = torch.get_rng_state()
    assert run_example(example, tmp_path, 4)["with paths"] == found["with paths"]
    assert torch.equal(torch.get_rng_state(), state)


def test_a_folder_without_the_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PageLinkError, match="git clone"):
        classes_of(tmp_path / "link_pred.py")


def test_every_example_has_a_graph_of_its_shape() -> None:
    for graph in {example.graph for example in EXAMPLES.values()}:
        try:
            data = graph()
        except DataNotFoundError as error:
            pytest.skip(str(error))
        data.validate()
        assert data.num_edges > 10_000
    films = pyg_examples.ratings_by_id()["movie", "sims", "movie"].edge_index
    assert len(films[0]) > 100
    assert torch.equal(films.flip(0).unique(dim=1), films.unique(dim=1))
