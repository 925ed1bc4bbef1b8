"""Users, items and attributes as the paper's generator draws them, with a model and links."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from torch_geometric.data import HeteroData

from pagelink.datasets.useritemattr import generate_useritemattr
from pagelink.graph.schema import EdgeType
from pagelink.models import LinkModel, make_model


@dataclass(frozen=True)
class Shop:
    """A generated graph, a model with seeded weights, and the pairs that the generator joins."""

    data: HeteroData
    model: LinkModel
    link_type: EdgeType
    links: list[tuple[int, int]]


@cache
def generated_shop() -> Shop:
    """Return 100 users and 100 items, with likes that are not among the messages.

    It is made once for all tests of a process: whoever changes the data takes a copy.
    """
    made = generate_useritemattr()
    model = make_model("rgcn", made.data, made.link_type, hidden=16, paper_split=True, seed=0)
    links = [(user, item) for user, item in made.likes.T.tolist()]
    return Shop(made.data, model.eval(), made.link_type, links)
